"""The arithmetic of speculative decoding: what stands is distributed as the target, exactly."""

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tiers import examples

from nanogpt.policies.acceptance import draw, rejection_sample

SIXTEENTHS = st.lists(st.integers(0, 8), min_size=3, max_size=5)


def law(p, q, steps):
    """What stands at the position, integrated over the draft's token, u and v on a grid."""
    outcome = [Fraction(0)] * len(p)
    for token, chance in enumerate(q):
        if not chance:
            continue
        for u in range(steps):
            for v in range(steps):
                kept, stands = rejection_sample(p, q, token, (u + 0.5) / steps, (v + 0.5) / steps)
                assert not kept or stands == token
                outcome[stands] += Fraction(chance) / steps**2
    return [float(share) for share in outcome]


@examples(0.5)
@given(SIXTEENTHS, SIXTEENTHS)
def test_what_stands_is_distributed_as_the_target_whatever_the_draft(p_weights, q_weights):
    size = min(len(p_weights), len(q_weights))
    p_weights, q_weights = p_weights[:size], q_weights[:size]
    assume(sum(p_weights) and sum(q_weights))
    p = [weight / sum(p_weights) for weight in p_weights]
    q = [weight / sum(q_weights) for weight in q_weights]
    assert law(p, q, 16) == pytest.approx(p, abs=2 / 16)


def test_equal_laws_accept_everything_and_greedy_laws_accept_the_same_token_only():
    p = [0.25, 0.5, 0.25]
    assert rejection_sample(p, p, 2, 0.999999, 0.0) == (True, 2)
    below = [0.25, 0.5 - 2**-54, 0.25]
    assert rejection_sample(below, p, 1, 1 - 2**-53, 0.0) == (True, 1)
    assert rejection_sample([0, 1, 0], [0, 1, 0], 1, 0.0, 0.7) == (True, 1)
    assert rejection_sample([0, 1, 0], [1, 0, 0], 0, 0.0, 0.7) == (False, 1)


def test_a_rejected_token_gives_way_to_one_that_the_draft_proposes_too_rarely():
    p, q = [0.5, 0.375, 0.125], [0.75, 0.25, 0.0]
    assert rejection_sample(p, q, 0, 0.66, 0.0) == (True, 0)
    assert rejection_sample(p, q, 0, 0.67, 0.49) == (False, 1)
    assert rejection_sample(p, q, 0, 0.67, 0.51) == (False, 2)


def test_a_draw_inverts_the_cumulative_weights():
    assert [draw([1, 0, 3], v) for v in (0.0, 0.24, 0.25, 0.99)] == [0, 0, 2, 2]
    assert draw([0.1] * 10 + [0.0], 1 - 2**-53) == 9

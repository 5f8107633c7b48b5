"""Plans: what the reference policies choose, and which plans are illegal, in whose words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.planning import Candidates, plan_problem

OFFER = Candidates(decodes=(4, 2), prefilling=((7, 5),), waiting=((9, 3),))


def test_any_order_and_any_part_of_the_offer_is_legal():
    for plan in ([(4, 1)], ((9, 3), (7, 1), (2, 1), (4, 1)), [[7, 2]]):
        assert plan_problem(plan, OFFER) is None
    assert plan_problem([], Candidates((), (), ())) is None
    assert Candidates((), (), ()).is_empty
    assert not OFFER.is_empty


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (None, "returned None; it must be a list"),
        ([(4, True)], "it must be an (id"),
        ([(5, 1)], "planned request 5; only [2, 4, 7, 9] could run"),
        ([(4, 1), (4, 1)], "planned request 4 twice"),
        ([(4, 2)], "planned 2 tokens of request 4; it has 1 left"),
        ([], "planned nothing although requests [2, 4, 7, 9] could run"),
    ],
)
def test_an_illegal_plan_is_described_by_value_and_limit(plan: object, words: str):
    problem = plan_problem(plan, OFFER)
    assert problem is not None
    assert words in problem


ANYTHING = st.none() | st.integers(-3, 12) | st.floats() | st.text(max_size=2) | st.booleans()
ENTRIES = st.tuples(ANYTHING, ANYTHING) | st.tuples(st.integers(0, 9), st.integers(-1, 6))


@given(ANYTHING | st.lists(ANYTHING | ENTRIES, max_size=4))
def test_whatever_a_plan_is_it_is_legal_or_described(plan: object):
    problem = plan_problem(plan, OFFER)
    if problem is None:
        assert isinstance(plan, list) and plan
        left = {4: 1, 2: 1, 7: 5, 9: 3}
        assert all(1 <= num_tokens <= left.pop(request_id) for request_id, num_tokens in plan)

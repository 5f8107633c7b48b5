"""Plans: what the reference policies choose, and which plans are illegal, in whose words."""

import pytest

from nanogpt.experiments.whole_prompts import plan_whole_prompts
from nanogpt.planning import (
    Offer,
    chunk_inputs,
    chunk_size,
    plan_problem,
    plan_step,
)

OFFER = Offer(decodes=(4, 2), prefilling=((7, 5),), waiting=((9, 3),))


@pytest.mark.parametrize(
    ("budget", "decodes", "remaining", "expected"),
    [(16, 3, 20, 13), (16, 3, 5, 5), (4, 4, 9, 0), (4, 6, 9, 0), (8, 0, 0, 0)],
)
def test_a_chunk_is_what_the_decodes_leave_and_never_negative(
    budget: int, decodes: int, remaining: int, expected: int
):
    assert chunk_size(budget, decodes, remaining) == expected


def test_decodes_come_first_then_prefills_share_the_rest():
    assert plan_step([4, 2], [(7, 5)], [(9, 3)], 8) == [(4, 1), (2, 1), (7, 5), (9, 1)]


def test_decodes_beyond_the_budget_are_cut_from_the_end():
    assert plan_step([4, 2, 6], [(7, 5)], [], 2) == [(4, 1), (2, 1)]


def test_nothing_to_do_is_an_empty_plan():
    assert plan_step([], [], [], 8) == []


def test_whole_prompts_ignore_the_budget():
    assert plan_whole_prompts([4], [(7, 5)], [(9, 3)], 1) == [(4, 1), (7, 5), (9, 3)]


@pytest.mark.parametrize(
    ("cursor", "num_tokens", "expected"),
    [
        (0, 2, ([5, 6], [0, 1], False)),
        (2, 1, ([7], [2], False)),
        (2, 2, ([7, 8], [2, 3], True)),
        (3, 1, ([8], [3], True)),
    ],
)
def test_only_the_chunk_with_the_last_known_token_samples(
    cursor: int, num_tokens: int, expected: tuple[list[int], list[int], bool]
):
    assert chunk_inputs([5, 6, 7, 8], cursor, num_tokens) == expected


@pytest.mark.parametrize(
    "plan",
    [
        [(4, 1)],
        [(9, 3), (7, 1), (2, 1), (4, 1)],
        [(7, 5)],
        [[7, 2]],
    ],
)
def test_any_order_and_any_part_of_the_offer_is_legal(plan: object):
    assert plan_problem(plan, OFFER) is None


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (None, "NoneType; it must be a list"),
        (((4, 1),), "tuple; it must be a list"),
        ({4: 1}, "dict; it must be a list"),
        ([4], "holds 4; every entry must be an (id, tokens) pair"),
        ([(4, 1, 1)], "every entry must be"),
        ([(4, 1.0)], "every entry must be"),
        ([("4", 1)], "every entry must be"),
        ([(4, True)], "every entry must be"),
        ([(5, 1)], "names request 5; only [2, 4, 7, 9] could run"),
        ([(4, 1), (4, 1)], "names request 4 twice"),
        ([(4, 2)], "gives request 4 2 tokens; it has 1 left"),
        ([(7, 6)], "gives request 7 6 tokens; it has 5 left"),
        ([(7, 0)], "gives request 7 0 tokens"),
        ([(7, -1)], "gives request 7 -1 tokens"),
        ([], "empty although requests [2, 4, 7, 9] could run"),
    ],
)
def test_an_illegal_plan_is_described_by_value_and_limit(plan: object, words: str):
    problem = plan_problem(plan, OFFER)
    assert problem is not None
    assert words in problem


def test_an_empty_plan_is_legal_when_there_is_nothing_to_run():
    assert plan_problem([], Offer((), (), ())) is None
    assert Offer((), (), ()).is_empty
    assert not OFFER.is_empty

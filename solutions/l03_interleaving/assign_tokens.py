"""Exercise 3.5: each token back to its request."""

import random
from typing import Any

from course.calling.plain_values import as_mapping, as_whole
from course.checks.comparing import Args, Comparison, a_kind
from course.exercise import Exercise, Misconception
from course.task import Task

Ints = list[int]

# --- right answers ------------------------------------------------------------------------------


def assign_tokens(
    batch_ids: list[int], active_ids: list[int], sampled: list[int]
) -> dict[int, int]:
    """Return the sampled token of each request in the batch: a dict {id: token}."""
    # Only `batch_ids` is in the order of the rows. One misplaced token makes two texts wrong: the
    # text that gets it and the text that misses it.
    return dict(zip(batch_ids, sampled, strict=True))


def by_index(batch_ids: Ints, active_ids: Ints, sampled: Ints) -> dict[int, int]:
    return {batch_ids[row]: sampled[row] for row in range(len(batch_ids))}


# --- wrong ideas --------------------------------------------------------------------------------


def pops_in_place(batch_ids: Ints, active_ids: Ints, sampled: Ints) -> dict[int, int]:
    return {batch_ids.pop(): sampled.pop() for _ in range(len(batch_ids))}


def not_a_dict(value: Any) -> str:
    """What is wrong with a value that is not a dict of whole numbers; "" if it is one."""
    entries = as_mapping(value)
    if entries is None:
        return f"The answer is a dict {{id: token}}, not {a_kind(value)}."
    for item in (*entries.keys(), *entries.values()):
        if as_whole(item) is None:
            return f"The dict holds whole numbers; one of these is {a_kind(item)}."
    return ""


MISCONCEPTIONS = (
    Misconception(
        "not_a_dict",
        "A list of pairs is as good as a dict.",
        not_a_dict,
        matches=lambda value: not_a_dict(value) != "",
        examples=(
            lambda batch_ids, active_ids, sampled: list(zip(batch_ids, sampled, strict=True)),
        ),
    ),
    Misconception(
        "records_active",
        "The tokens belong to the active requests, in their order.",
        "The rows are in the order of `batch_ids`. The active list has changed since the batch was "
        "built, so its order puts tokens into other requests' texts.",
        lambda batch_ids, active_ids, sampled: dict(zip(active_ids, sampled, strict=False)),
    ),
    Misconception(
        "drops_the_absent",
        "A request that is no longer active needs no token.",
        "Every request in the batch gets its token, active or not. If the token is dropped, its "
        "request has been computed for nothing, and its text lacks a token.",
        lambda batch_ids, active_ids, sampled: {
            i: token for i, token in zip(batch_ids, sampled, strict=True) if i in active_ids
        },
    ),
    Misconception(
        "by_row",
        "Row i belongs to request i.",
        "Row i belongs to request batch_ids[i], and that id need not be i.",
        lambda batch_ids, active_ids, sampled: dict(enumerate(sampled)),
    ),
    Misconception(
        "in_order_of_id",
        "The rows are sorted by id.",
        "The rows are in the order of `batch_ids`, which need not be sorted.",
        lambda batch_ids, active_ids, sampled: dict(zip(sorted(batch_ids), sampled, strict=True)),
    ),
    Misconception(
        "in_place", "The function may empty the lists it is given.", examples=(pops_in_place,)
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_step(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for _ in range(30):
        ids = rng.sample(range(300), rng.randint(1, 6))
        others = [i for i in range(300, 303) if rng.random() < 0.4]
        active = [i for i in ids if rng.random() < 0.8] + others
        rng.shuffle(active)
        cases.append((ids, active, [rng.randrange(rng.choice((3, 65))) for _ in ids]))
    return sorted(cases, key=lambda case: len(case[0]))


JUDGE = Comparison(
    assign_tokens,
    MISCONCEPTIONS,
    "Each request in the batch gets the token of its own row, and no other request gets one.",
    evidence=[
        ([2, 9, 4], [9, 4, 2], [7, 7, 3]),
        ([11, 3], [3], [5, 6]),
        ([0, 1], [1, 0, 5], [8, 2]),
        ([4, 6, 1], [], [30, 10, 20]),
    ],
)

EXERCISE = Exercise(
    number=5,
    title="Returning each token to its request",
    minutes=4,
    points=1,
    is_policy=True,
    task=Task(
        signature="assign_tokens(batch_ids: list[int], active_ids: list[int], sampled: list[int]) "
        "-> dict[int, int]",
        rules=(
            "Return a dict `{id: token}`: the sampled token of each request in the batch.",
            "Row i of the forward pass was computed for request `batch_ids[i]`, and `sampled[i]` "
            "is the token sampled from that row's logits.",
            "`active_ids` are the requests that are active now. Since the batch was built, some "
            "may have joined, some may have finished, and the order may have changed.",
            "Do not change the three lists.",
        ),
        args=([4, 7], [4, 7], [51, 12]),
        steps=(
            "Row 0 was computed for request 4, so token 51 is its next token.",
            "Row 1 was computed for request 7, so token 12 is its next token.",
        ),
        result={4: 51, 7: 12},
    ),
    hints=(
        "Which list had the order of the rows when the model ran?",
        "Take a batch of three rows whose middle request has finished. Which request gets the "
        "third token?",
        "One of the three lists is not needed. The other two are equally long, and Python has a "
        "function that walks through two lists together.",
    ),
    right=(assign_tokens, by_index),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "the active list has not changed",
            JUDGE.on(([3], [3], [41]), ([3, 5], [3, 5], [41, 7])),
        ),
        ("an empty batch", JUDGE.on(([], [2], []))),
        (
            "a request has joined",
            JUDGE.on(([0, 1], [2, 0, 1], [41, 7]), ([4, 0], [0, 4, 1], [9, 9])),
        ),
        ("a request has finished", JUDGE.on(([0, 1, 2], [1, 2], [41, 7, 30]), ([6], [], [7]))),
        ("any step", JUDGE.on_drawn(any_step)),
    ),
    equivalent_mutants={
        "batch_ids: without repeats": "each id occurs once",
        **{
            f"active_ids: {how}": "the answer must not depend on active_ids"
            for how in ("only the first", "not the last", "reversed", "sorted", "without repeats")
        },
        "assign_tokens(): return dict(zip(batch_ids, sampled, strict={True => False}))": (
            "both are equally long"
        ),
    },
)

"""Exercise 2.5: whose token is whose."""

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
    """Return whose token is whose: a dict {id: token}."""
    # Only `batch_ids` has the order of the rows. A token that goes to another request makes two
    # texts wrong: the one that gets it and the one that misses it.
    return dict(zip(batch_ids, sampled, strict=True))


def by_index(batch_ids: Ints, active_ids: Ints, sampled: Ints) -> dict[int, int]:
    return {batch_ids[row]: sampled[row] for row in range(len(batch_ids))}


def by_loop(batch_ids: Ints, active_ids: Ints, sampled: Ints) -> dict[int, int]:
    tokens: dict[int, int] = {}
    for row, token in enumerate(sampled):
        tokens[batch_ids[row]] = token
    return tokens


# --- wrong ideas --------------------------------------------------------------------------------


def pops_in_place(batch_ids: Ints, active_ids: Ints, sampled: Ints) -> dict[int, int]:
    return {batch_ids.pop(): sampled.pop() for _ in range(len(batch_ids))}


def not_a_dict(value: Any) -> str:
    """What is said of a value that is no dict of whole numbers; "" of one that is."""
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
        "Pairs are as good.",
        not_a_dict,
        matches=lambda value: not_a_dict(value) != "",
        examples=(
            lambda batch_ids, active_ids, sampled: list(zip(batch_ids, sampled, strict=True)),
        ),
    ),
    Misconception(
        "records_active",
        "Tokens go to the active requests, row by row.",
        "The rows are those of `batch_ids`: the active list has changed since, and by its order "
        "tokens end up in other people's texts.",
        lambda batch_ids, active_ids, sampled: dict(zip(active_ids, sampled, strict=False)),
    ),
    Misconception(
        "drops_the_absent",
        "What is not active any more needs no token.",
        "A request in the batch gets its token even if it is not active any more: dropped, the "
        "token is missing from its text although its K/V was computed.",
        lambda batch_ids, active_ids, sampled: {
            i: token for i, token in zip(batch_ids, sampled, strict=True) if i in active_ids
        },
    ),
    Misconception(
        "by_row",
        "Row i is request i.",
        "Row i belongs to request batch_ids[i], whose id is not i.",
        lambda batch_ids, active_ids, sampled: dict(enumerate(sampled)),
    ),
    Misconception(
        "in_order_of_id",
        "Rows are in the order of the ids.",
        "The rows are in the order of `batch_ids`, which need not be that of the ids.",
        lambda batch_ids, active_ids, sampled: dict(zip(sorted(batch_ids), sampled, strict=True)),
    ),
    Misconception("in_place", "The lists are mine to empty.", examples=(pops_in_place,)),
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
    "Every request in the batch gets the token of its own row, and no other gets one.",
    evidence=[
        ([2, 9, 4], [9, 4, 2], [7, 7, 3]),
        ([11, 3], [3], [5, 6]),
        ([0, 1], [1, 0, 5], [8, 2]),
        ([4, 6, 1], [], [30, 10, 20]),
    ],
)

NOT_NEEDED = "what is active by now has no say, which is what the exercise is about"

EXERCISE = Exercise(
    number=5,
    title="Whose token is whose",
    minutes=4,
    points=1,
    part="assign_tokens",
    task=Task(
        signature="assign_tokens(batch_ids: list[int], active_ids: list[int], sampled: list[int]) "
        "-> dict[int, int]",
        rules=(
            "Returns whose token is whose: a dict `{id: token}`.",
            "Row i of the forward pass was fed by request `batch_ids[i]`, and `sampled[i]` is the "
            "token that was sampled from it.",
            "`active_ids` are the ids of the requests that are active by now: since the batch was "
            "built some may have joined, some may be done, and their order may be another.",
            "Leave the three lists as they are.",
        ),
        args=([4, 7], [4, 7], [51, 12]),
        result={4: 51, 7: 12},
    ),
    hints=(
        "Which list had the order of the rows when the model ran?",
        "Take the case of three rows whose middle request is done by now. Which one gets the third "
        "token?",
        "One of the three lists is not needed. The other two are equally long, and Python has a "
        "function that walks through two lists together.",
    ),
    right=(assign_tokens, by_index, by_loop),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "nothing has changed since",
            JUDGE.on(([3], [3], [41]), ([3, 5], [3, 5], [41, 7]), ([], [2], [])),
        ),
        ("one has joined", JUDGE.on(([0, 1], [2, 0, 1], [41, 7]), ([4, 0], [0, 4, 1], [9, 9]))),
        ("one is done", JUDGE.on(([0, 1, 2], [1, 2], [41, 7, 30]), ([6], [], [7]))),
        ("any step", JUDGE.on_drawn(any_step)),
    ),
    equivalent_mutants={
        "batch_ids: without repeats": "an id is there once",
        "active_ids: only the first": NOT_NEEDED,
        "active_ids: not the last": NOT_NEEDED,
        "active_ids: reversed": NOT_NEEDED,
        "active_ids: sorted": NOT_NEEDED,
        "active_ids: without repeats": NOT_NEEDED,
        "assign_tokens(): return dict(zip(batch_ids, sampled, strict={True => False}))": (
            "both are equally long"
        ),
    },
)

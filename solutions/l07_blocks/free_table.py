"""Exercise 7.2: which blocks are free when a table goes."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_items
from course.checks.comparing import Args, Comparison, not_a_list
from course.exercise import Exercise, Misconception
from course.format_values import named
from course.task import Task
from solutions.l07_blocks._any_order import Sorted

# --- right answers ------------------------------------------------------------------------------


def free_table(ref_counts: list[int], table: list[int]) -> list[int]:
    """Return the blocks of `table` that are free once it is gone."""
    # The count still has this table in it: 1 is this one alone. What others name stays theirs, and
    # is freed by the last of them.
    return [block for block in table if ref_counts[block] == 1]


def by_counting_down(ref_counts: list[int], table: list[int]) -> Any:
    after, freed = list(ref_counts), set[int]()
    for block in table:
        after[block] -= 1
        if after[block] == 0:
            freed.add(block)
    return sorted(freed)


def without_the_shared(ref_counts: list[int], table: list[int]) -> Any:
    shared = {block for block, count in enumerate(ref_counts) if count > 1}
    return list(set(table) - shared)


# --- wrong ideas --------------------------------------------------------------------------------


def those(which: Callable[[list[int], int, int], bool]) -> Callable[[list[int], list[int]], Any]:
    """The blocks of which it is true, given the counts, their place and their number."""
    return lambda ref_counts, table: [b for i, b in enumerate(table) if which(ref_counts, i, b)]


def until_shared(order: Callable[[list[int]], Any]) -> Callable[[list[int], list[int]], Any]:
    def answer(ref_counts: list[int], table: list[int]) -> Any:
        freed: list[int] = []
        for block in order(table):
            if ref_counts[block] > 1:
                break
            freed.append(block)
        return freed

    return answer


def counts_in_place(ref_counts: list[int], table: list[int]) -> Any:
    for block in table:
        ref_counts[block] -= 1
    return [block for block in table if ref_counts[block] == 0]


def mistaken(
    key: str, belief: str, idea: str, *answers: Callable[..., Any], examples: Any = ()
) -> Misconception:
    answer, *same_result = map(Sorted, answers)
    return Misconception(key, belief, idea, answer, same_result=same_result)


def freed_twice(ref_counts: list[int], table: list[int]) -> Any:
    return free_table(ref_counts, table) + [block for block in table[-1:] if ref_counts[block] == 1]


MISCONCEPTIONS = (
    not_a_list(
        "How many come free.",
        lambda ref_counts, table: len(free_table(ref_counts, table)),
        lambda ref_counts, table: {block: ref_counts[block] - 1 for block in table},
    ),
    Misconception(
        "twice",
        "Free is free, however often it is said.",
        "A block stands in this list twice, and would be given to two requests: each is freed "
        "once.",
        matches=lambda value: len({*(as_items(value) or ())}) < len(as_items(value) or ()),
        examples=((freed_twice),),
    ),
    mistaken(
        "frees_all",
        "The request is gone, so are its blocks.",
        "A block that another table names is still read: freed under it, it would be given to a "
        "third request and written over.",
        lambda ref_counts, table: list(table),
    ),
    mistaken(
        "never_free",
        "Free is what nothing names.",
        "`ref_counts` still has this table in it: a block that no other names has a count of 1, "
        "not 0, and would never come free.",
        those(lambda ref_counts, place, block: ref_counts[block] == 0),
    ),
    mistaken(
        "counted_twice",
        "This table goes, and its request goes.",
        "A count of 2 is this table and another one: take this one off once, not twice.",
        those(lambda ref_counts, place, block: ref_counts[block] <= 2),
    ),
    mistaken(
        "from_the_front",
        "The shared ones begin where it stops.",
        "This stops at the first block that is shared, and what stands behind it is never freed: "
        "look at every block.",
        until_shared(lambda table: table),
    ),
    mistaken(
        "whole_pool",
        "A count of 1 is free now.",
        "A count of 1 is this table only for blocks that stand in it: the others are in use by "
        "other requests.",
        lambda ref_counts, table: [block for block, count in enumerate(ref_counts) if count == 1],
    ),
    mistaken(
        "counts_by_place",
        "A count for each block of the table.",
        "`ref_counts` goes by the block's number, not by its place in the table: look up "
        "`ref_counts[block]`.",
        those(lambda ref_counts, place, block: ref_counts[place] == 1),
    ),
    Misconception(
        "in_place", "The table goes, so the counts go down.", examples=((counts_in_place),)
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_tables(rng: random.Random) -> list[Args]:
    """One of up to four tables that share blocks goes; every block is as often named as counted."""
    cases: list[Args] = []
    for _ in range(60):
        pool = rng.randint(3, 14)
        tables = [rng.sample(range(pool), rng.randint(0, min(pool, 6))) for _ in range(4)]
        tables = tables[: rng.choice((1, 2, 2, 3, 4))]
        times = Counter(block for table in tables for block in table)
        cases.append(([times[block] for block in range(pool)], tables[0]))
    return sorted(cases, key=lambda case: (len(case[1]), len(case[0])))


JUDGE = Comparison(
    Sorted(free_table),
    MISCONCEPTIONS,
    "Cross this table out: which of its blocks stand in no other one?",
    evidence=[
        ([1, 2, 1, 0, 3, 1, 1, 2], [5, 2, 4, 0, 1]),
        ([2, 1, 2, 1, 1], [0, 1]),
        ([1, 1, 0, 1], [1, 0]),
        ([2, 2, 1, 0, 1, 1], [0, 1, 4, 5]),
    ],
)

EXERCISE = Exercise(
    number=2,
    title="Let go of a table",
    minutes=4,
    points=2,
    part="free_table",
    task=Task(
        signature="free_table(ref_counts: list[int], table: list[int]) -> list[int]",
        rules=(
            "A request leaves, and its table with it. `table` are the numbers of its blocks, each "
            "once; `ref_counts[block]` is how many tables name a block now, this one included.",
            "The result is the list of its blocks that are free then, each once, in any order.",
            "Leave both lists as they are: the engine counts.",
        ),
        args=([1, 2, 1, 0], [0, 1]),
        result=[0],
    ),
    hints=(
        "Two tables name block 1, and one of them goes. May another request write into it?",
        "What is the count of a block that only this table names, while it still names it?",
        "Go through the table block by block; the count of each, looked up by its number, says "
        "whether another table is left.",
    ),
    asked_as=Sorted,
    right=(free_table, by_counting_down, without_the_shared),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("a table of its own", JUDGE.on(([0, 1, 1, 0], [2, 1]), ([1], [0]), ([0, 1, 2], []))),
        (
            "a shared beginning",
            JUDGE.on(([2, 2, 1, 0, 1], [0, 1, 4]), ([3, 1, 1], [0, 2]), ([2, 2, 1], [1, 0])),
        ),
        (
            "shared anywhere",
            JUDGE.on(([1, 2, 1, 3], [0, 1, 2]), ([2, 1, 2], [0, 1, 2]), ([4, 1, 1, 2], [3, 1, 0])),
        ),
        ("any tables", JUDGE.on_drawn(any_tables)),
    ),
    draw_call=named("ref_counts", "table"),
    equivalent_mutants={
        "table: reversed": "any order will do",
        "table: sorted": "any order will do",
        "table: without repeats": "a table names a block once",
        "result: reversed": "any order will do",
        "result: sorted": "any order will do",
        "result: without repeats": "a table names a block once",
    },
)

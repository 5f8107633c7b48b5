"""Exercise 7.2: the blocks that become free when a table goes."""

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_items, as_whole
from course.checks.comparing import Args, Comparison, not_a_list
from course.exercise import Adapted, Exercise, Misconception
from course.format_values import named
from course.task import Task


class Sorted(Adapted):
    """An answer whose list is sorted, since the order is free."""

    def __call__(self, *args: Any) -> Any:
        """Call the function; a result that is not a list of whole numbers stays as it is."""
        value = self._function(*args)
        items = as_items(value)
        numbers = [as_whole(item) for item in items or ()]
        whole = [number for number in numbers if number is not None]
        return value if items is None or len(whole) < len(numbers) else sorted(whole)


# --- right answers ------------------------------------------------------------------------------


def free_table(ref_counts: list[int], table: list[int]) -> list[int]:
    """Return the blocks of `table` that are free once the table is gone."""
    # The count includes this table, so 1 means that no other table names the block.
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
    """The blocks of the table for which `which(ref_counts, place, block)` is true."""
    return lambda ref_counts, table: [b for i, b in enumerate(table) if which(ref_counts, i, b)]


def until_shared(ref_counts: list[int], table: list[int]) -> Any:
    return list(itertools.takewhile(lambda block: ref_counts[block] <= 1, table))


def counts_in_place(ref_counts: list[int], table: list[int]) -> Any:
    for block in table:
        ref_counts[block] -= 1
    return [block for block in table if ref_counts[block] == 0]


def mistaken(key: str, belief: str, idea: str, answer: Callable[..., Any]) -> Misconception:
    return Misconception(key, belief, idea, Sorted(answer))


def freed_twice(ref_counts: list[int], table: list[int]) -> Any:
    return free_table(ref_counts, table) + [block for block in table[-1:] if ref_counts[block] == 1]


MISCONCEPTIONS = (
    not_a_list(
        "The result is a count.",
        lambda ref_counts, table: len(free_table(ref_counts, table)),
    ),
    Misconception(
        "twice",
        "It does not matter how often a block is freed.",
        "A block is in this list twice, and the pool would give it to two requests: free each "
        "block once.",
        matches=lambda value: len({*(as_items(value) or ())}) < len(as_items(value) or ()),
        examples=((freed_twice),),
    ),
    mistaken(
        "frees_all",
        "The request is gone, so its blocks are free.",
        "Another table still names one of these blocks: if it is freed, a third request gets it "
        "and overwrites it.",
        lambda ref_counts, table: list(table),
    ),
    mistaken(
        "never_free",
        "A block is free when its count is 0.",
        "`ref_counts` still includes this table: a block that no other table names has a count of "
        "1, not 0, and would never be freed.",
        those(lambda ref_counts, place, block: ref_counts[block] == 0),
    ),
    mistaken(
        "counted_twice",
        "The table is freed and the request ends, so the count drops by 2.",
        "A count of 2 means this table and another one: subtract only this table.",
        those(lambda ref_counts, place, block: ref_counts[block] <= 2),
    ),
    mistaken(
        "from_the_front",
        "All blocks after the first shared one are shared.",
        "This stops at the first shared block and never frees the blocks after it: check every "
        "block of the table.",
        until_shared,
    ),
    mistaken(
        "whole_pool",
        "Every block with a count of 1 becomes free.",
        "A block with a count of 1 that is not in this table is in use by another request.",
        lambda ref_counts, table: [block for block, count in enumerate(ref_counts) if count == 1],
    ),
    mistaken(
        "counts_by_place",
        "`ref_counts` has one entry for each block of the table.",
        "`ref_counts` is indexed by block number, not by the place in the table: look up "
        "`ref_counts[block]`.",
        those(lambda ref_counts, place, block: ref_counts[place] == 1),
    ),
    Misconception(
        "in_place", "I decrement the counts of the table.", examples=((counts_in_place),)
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_tables(rng: random.Random) -> list[Args]:
    """One of up to four tables that share blocks goes; every count is right."""
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
    "Cross this table out: which of its blocks are in no other table?",
    evidence=[
        ([1, 2, 1, 0, 3, 1, 1, 2], [5, 2, 4, 0, 1]),
        ([2, 1, 2, 1, 1], [0, 1]),
        ([1, 1, 0, 1], [1, 0]),
        ([2, 2, 1, 0, 1, 1], [0, 1, 4, 5]),
    ],
)

EXERCISE = Exercise(
    number=2,
    title="Free a table",
    minutes=4,
    points=2,
    is_policy=True,
    task=Task(
        signature="free_table(ref_counts: list[int], table: list[int]) -> list[int]",
        rules=(
            "A request's `table` is freed. It lists block numbers without repeats.",
            "`ref_counts[block]` is how many tables name the block now, this one included.",
            "Return the blocks of `table` that no other table names, each once, in any order.",
            "Do not change the two lists; the engine updates the counts.",
        ),
        args=([1, 2, 1, 0], [0, 1]),
        call="free_table(ref_counts=[1, 2, 1, 0], table=[0, 1])",
        steps=(
            "Block 0 is named by 1 table, this one. It becomes free.",
            "Block 1 is named by 2 tables, so it is still in use after this one is freed.",
            "Blocks 2 and 3 are not in this table.",
        ),
        result=[0],
    ),
    hints=(
        "Two tables name block 1, and one of the tables is freed. May another request write into "
        "block 1?",
        "What is the count of a block that only this table names, while the table still exists?",
        "Go through the table block by block and look up each count by the block's number. The "
        "count says whether another table names the block.",
    ),
    asked_as=Sorted,
    right=(free_table, by_counting_down, without_the_shared),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "a table that shares no block",
            JUDGE.on(([0, 1, 1, 0], [2, 1]), ([1], [0]), ([0, 1, 2], [])),
        ),
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

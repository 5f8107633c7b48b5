"""Exercise 9.2: which blocks are free when a table goes."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_items
from course.checks.comparing import Args, Comparison, not_a_list
from course.exercise import Exercise, Misconception
from course.format_values import named
from course.task import Task
from solutions.l09_blocks._any_order import Sorted

# --- right answers ------------------------------------------------------------------------------


def release(counts: list[int], table: list[int]) -> list[int]:
    """Return the blocks of `table` that are free once it is gone."""
    # The count still has this table in it: 1 is this one alone. What others name stays theirs, and
    # is freed by the last of them.
    return [block for block in table if counts[block] == 1]


def by_counting_down(counts: list[int], table: list[int]) -> Any:
    after, freed = list(counts), set[int]()
    for block in table:
        after[block] -= 1
        if after[block] == 0:
            freed.add(block)
    return sorted(freed)


def last_block_first(counts: list[int], table: list[int]) -> Any:
    return tuple(filter(lambda block: counts[block] < 2, reversed(table)))


def without_the_shared(counts: list[int], table: list[int]) -> Any:
    shared = {block for block, count in enumerate(counts) if count > 1}
    return list(set(table) - shared)


def by_a_counter(counts: list[int], table: list[int]) -> Any:
    left = Counter(dict(enumerate(counts)))
    left.subtract(table)
    return [block for block in table if not left[block]]


# --- wrong ideas --------------------------------------------------------------------------------


def those(which: Callable[[list[int], int, int], bool]) -> Callable[[list[int], list[int]], Any]:
    """The blocks of which it is true, given the counts, their place and their number."""
    return lambda counts, table: [b for i, b in enumerate(table) if which(counts, i, b)]


def until_shared(order: Callable[[list[int]], Any]) -> Callable[[list[int], list[int]], Any]:
    def answer(counts: list[int], table: list[int]) -> Any:
        freed: list[int] = []
        for block in order(table):
            if counts[block] > 1:
                break
            freed.append(block)
        return freed

    return answer


def counts_in_place(counts: list[int], table: list[int]) -> Any:
    for block in table:
        counts[block] -= 1
    return [block for block in table if counts[block] == 0]


def mistaken(
    key: str, belief: str, idea: str, *answers: Callable[..., Any], also: Any = ()
) -> Misconception:
    answer, *alike = map(Sorted, answers)
    return Misconception(key, belief, idea, answer, alike=alike)


def freed_twice(counts: list[int], table: list[int]) -> Any:
    return release(counts, table) + [block for block in table[-1:] if counts[block] == 1]


MISCONCEPTIONS = (
    not_a_list(
        "How many come free.",
        lambda counts, table: len(release(counts, table)),
        lambda counts, table: {block: counts[block] - 1 for block in table},
    ),
    Misconception(
        "twice",
        "Free is free, however often it is said.",
        "A block stands in this list twice, and would be given to two requests: each is freed "
        "once.",
        form=lambda value: len({*(as_items(value) or ())}) < len(as_items(value) or ()),
        also=((freed_twice),),
    ),
    mistaken(
        "frees_all",
        "The request is gone, so are its blocks.",
        "A block that another table names is still read: freed under it, it would be given to a "
        "third request and written over.",
        lambda counts, table: list(table),
    ),
    mistaken(
        "never_free",
        "Free is what nothing names.",
        "`counts` still has this table in it: a block that no other names has a count of 1, not "
        "0, and would never come free.",
        those(lambda counts, place, block: counts[block] == 0),
    ),
    mistaken(
        "counted_twice",
        "This table goes, and its request goes.",
        "A count of 2 is this table and another one: take this one off once, not twice.",
        those(lambda counts, place, block: counts[block] <= 2),
        those(lambda counts, place, block: counts[block] == 2),
    ),
    mistaken(
        "the_shared_ones",
        "What is shared has to be let go.",
        "These are the blocks that other tables name too: they stay, and the others come free.",
        those(lambda counts, place, block: counts[block] > 1),
    ),
    mistaken(
        "all_or_nothing",
        "A table is shared or it is not.",
        "Each block is counted for itself: that the first ones are shared keeps only those.",
        lambda counts, table: list(table) if all(counts[b] == 1 for b in table) else [],
    ),
    mistaken(
        "from_the_front",
        "The shared ones begin where it stops.",
        "This stops at the first block that is shared, and what stands behind it is never freed: "
        "look at every block.",
        until_shared(lambda table: table),
    ),
    mistaken(
        "from_the_back",
        "Only the front is shared.",
        "A block behind a free one may be shared and one in front of a shared one may be free: "
        "look at every block.",
        until_shared(reversed),
    ),
    mistaken(
        "whole_pool",
        "A count of 1 is free now.",
        "A count of 1 is this table only for blocks that stand in it: the others are in use by "
        "other requests.",
        lambda counts, table: [block for block, count in enumerate(counts) if count == 1],
    ),
    mistaken(
        "free_before",
        "A count of 0 is free.",
        "These were free before: which blocks of this table come free is asked.",
        lambda counts, table: [block for block, count in enumerate(counts) if count == 0],
    ),
    mistaken(
        "places",
        "The first, the second, the fifth.",
        "These are places in the table; the answer is the blocks' own numbers.",
        lambda counts, table: [i for i, block in enumerate(table) if counts[block] == 1],
    ),
    mistaken(
        "counts_by_place",
        "A count for each block of the table.",
        "`counts` goes by the block's number, not by its place in the table: look up "
        "`counts[block]`.",
        those(lambda counts, place, block: counts[place] == 1),
    ),
    mistaken(
        "the_new_counts",
        "Letting go is counting down.",
        "These are counts; which blocks come free is asked, and the engine counts them down "
        "itself.",
        lambda counts, table: [count - (block in table) for block, count in enumerate(counts)],
        lambda counts, table: [counts[block] - 1 for block in table],
    ),
    Misconception(
        "in_place",
        "The table goes, so the counts go down.",
        also=((counts_in_place),),
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
    Sorted(release),
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
    part="release",
    task=Task(
        signature="release(counts: list[int], table: list[int]) -> list[int]",
        rules=(
            "A request leaves, and its table with it. `table` are the numbers of its blocks, each "
            "once; `counts[block]` is how many tables name a block now, this one included.",
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
    right=(release, by_counting_down, last_block_first, without_the_shared, by_a_counter),
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
    draw_call=named("counts", "table"),
    still_right={
        "table: reversed": "any order will do",
        "table: sorted": "any order will do",
        "table: without repeats": "a table names a block once",
        "result: reversed": "any order will do",
        "result: sorted": "any order will do",
        "result: without repeats": "a table names a block once",
    },
)

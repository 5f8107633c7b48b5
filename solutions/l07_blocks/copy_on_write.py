"""Exercise 7.5: what has to be copied before a block is written."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from course.calling.plain_values import as_items, as_whole
from course.checks.comparing import Args, Comparison, a_kind, list_of_ints
from course.exercise import Exercise, Misconception
from course.format_values import named
from course.harness import returned_nothing
from course.task import Task

Answer = Callable[[list[int], list[int], int, list[int]], Any]

# --- right answers ------------------------------------------------------------------------------


def copy_on_write(
    table: list[int], ref_counts: list[int], index: int, free_blocks: list[int]
) -> tuple[list[int], tuple[int, int] | None]:
    """Return `(table, copy)`: the table to go on with, and what has to be copied first."""
    # What another table names too, another request reads: it keeps the block as it is, and this one
    # goes on in a copy. Of a block that it alone names nothing need be copied.
    block = table[index]
    if ref_counts[block] == 1:
        return table, None
    return [*table[:index], free_blocks[0], *table[index + 1 :]], (block, free_blocks[0])


def in_a_new_list(
    table: list[int], ref_counts: list[int], index: int, free_blocks: list[int]
) -> Any:
    mine, copy = list(table), None
    if ref_counts[table[index]] > 1:
        mine[index] = free_blocks[0]
        copy = [table[index], free_blocks[0]]
    return [mine, copy]


def by_exchanging(
    table: list[int], ref_counts: list[int], index: int, free_blocks: list[int]
) -> Any:
    old = table[index]
    new = old if ref_counts[old] < 2 else next(iter(free_blocks))
    return [new if block == old else block for block in table], None if new == old else (old, new)


# --- wrong ideas --------------------------------------------------------------------------------


def copied(table: list[int], index: int, new: int) -> list[int]:
    return [*table[:index], new, *table[index + 1 :]]


def where(
    shared: Callable[[list[int], list[int], int], bool],
    pick: Callable[[list[int]], int] = lambda free_blocks: free_blocks[0],
) -> Answer:
    """Copies where the block is `shared`, given the table, the counts and the index."""

    def answer(table: list[int], ref_counts: list[int], index: int, free_blocks: list[int]) -> Any:
        if not free_blocks or not shared(table, ref_counts, index):
            return table, None
        return copied(table, index, pick(free_blocks)), (table[index], pick(free_blocks))

    return answer


def then(change: Callable[..., Any]) -> Answer:
    """Where something is copied, the right answer made into change(new, copy, table, index)."""

    def answer(table: list[int], ref_counts: list[int], index: int, free_blocks: list[int]) -> Any:
        new, copy = copy_on_write(table, ref_counts, index, free_blocks)
        return (new, copy) if copy is None else change(new, copy, table, index)

    return answer


def writes_into_the_table(
    table: list[int], ref_counts: list[int], index: int, free_blocks: list[int]
) -> Any:
    block = table[index]
    if ref_counts[block] == 1:
        return table, None
    table[index] = free_blocks[0]
    return table, (block, free_blocks[0])


def looks_first(table: list[int], ref_counts: list[int], index: int, free_blocks: list[int]) -> Any:
    new = free_blocks[0]
    return (copied(table, index, new), (table[index], new)) if ref_counts[table[index]] > 1 else (
        table, None,
    )  # fmt: skip


def parts(value: Any) -> Sequence[Any]:
    """What was returned, part by part; that nothing was is no question of form."""
    return ((), None) if value is None else as_items(value) or ()


def is_pair(value: Any) -> bool:
    items = as_items(value)
    return items is not None and [as_whole(item) is None for item in items] == [False, False]


NOTHING_FREE = Misconception(
    "looks_first",
    "A free block first.",
    "Where nothing has to be copied nothing has to be free either: look at `free_blocks` only "
    "when the block is shared.",
    examples=(looks_first,),
)
MISCONCEPTIONS = (
    Misconception(
        "not_two",
        "The table is what is asked for.",
        "Return two things, the table and what has to be copied: `table, copy`.",
        matches=lambda value: len(parts(value)) != 2 or list_of_ints(parts(value)[0]) is not None,
        examples=((lambda *args: copy_on_write(*args)[0]),),
    ),
    Misconception(
        "no_pair",
        "The copy is a block.",
        lambda value: (
            f"`copy` is two blocks, (from, to), or None, not {a_kind(parts(value)[1])}."
            if as_items(parts(value)[1]) is None
            else "`copy` is two blocks, (from, to), or None."
        ),
        matches=lambda value: parts(value)[1] is not None and not is_pair(parts(value)[1]),
        examples=((then(lambda new, copy, table, index: (new, copy[1]))),),
    ),
    Misconception(
        "no_return",
        "The table is changed.",
        returned_nothing("copy_on_write", "table, copy"),
        matches=lambda value: value is None,
        examples=(lambda *args: None,),
    ),
    Misconception(
        "in_place_of_others",
        "It stands in my table, so it is mine.",
        "Another table names this block too: written in place, the other request would read "
        "tokens that are not in its text.",
        lambda table, ref_counts, index, free_blocks: (table, None),
    ),
    Misconception(
        "always_copies",
        "Copying is safe.",
        "A count of 1 is this table alone, and nothing else reads the block: a copy would cost a "
        "block and its time, at every token.",
        where(lambda table, ref_counts, index: True),
    ),
    Misconception(
        "counts_by_place",
        "A count for each block of the table.",
        "`ref_counts` goes by the block's number, not by its place in the table: look up "
        "`ref_counts[table[index]]`.",
        where(lambda table, ref_counts, index: ref_counts[index] > 1),
    ),
    Misconception(
        "index_is_the_block",
        "Block number `index`.",
        "`index` is the place in the table; the block there is `table[index]`, and it is that "
        "which is copied.",
        then(lambda new, copy, table, index: (new, (index, copy[1]))),
    ),
    Misconception(
        "no_copy",
        "A new block takes its place.",
        "The new block is empty: what the old one held of this text has to be copied into it "
        "first.",
        then(lambda new, copy, table, index: (new, None)),
    ),
    NOTHING_FREE,
    Misconception(
        "in_place", "The table is mine, so I change it.", examples=((writes_into_the_table),)
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_table(rng: random.Random) -> list[Args]:
    """One of up to four tables over a pool is written at any of its blocks."""
    cases: list[Args] = []
    while len(cases) < 60:
        tables = [rng.sample(range(10), rng.randint(1, 6)) for _ in range(rng.randint(1, 4))]
        times = Counter(block for table in tables for block in table)
        free_blocks = [block for block in range(16) if not times[block]]
        free_blocks = rng.sample(free_blocks, rng.randint(2, len(free_blocks)))
        table = tables[0]
        cases.append((table, [times[b] for b in range(16)], rng.randrange(len(table)), free_blocks))
    return sorted(cases, key=lambda case: len(case[0]))


JUDGE = Comparison(
    copy_on_write,
    MISCONCEPTIONS,
    "Does another table name the block that is written? Then the other one keeps it, and this one "
    "goes on in a copy.",
    evidence=[
        (table, [0, 1, 2, 1, 3, 1, 2, 0, 0, 0], index, free_blocks)
        for table, index in (([6, 4, 1], 1), ([4, 2, 5, 1], 2), ([2, 6, 4], 2), ([2, 1, 6], 0))
        for free_blocks in ([8, 0, 9], [9, 7, 8])
    ]
    + [([1, 0], [2, 2, 0, 0], 1, [3, 2]), ([1, 0], [2, 1, 0, 0], 1, [3, 2])],
)

EXERCISE = Exercise(
    number=5,
    title="Before you write",
    minutes=6,
    points=3,
    part="copy_on_write",
    task=Task(
        signature="copy_on_write(table: list[int], ref_counts: list[int], index: int, "
        "free_blocks: list[int]) -> tuple[list[int], tuple[int, int] | None]",
        rules=(
            "A request is about to write K/V into the block at place `index` of its `table`. "
            "`ref_counts[block]` is how many tables name a block, this one included.",
            "Returns `(table, copy)`: the table that it goes on with, and `(from, to)`, the block "
            "whose K/V the engine copies before, and the one that gets it; None where nothing is "
            "copied.",
            "What another request reads must stay as it is, and nothing is copied that need not "
            "be.",
            "`free_blocks` are the numbers of the free blocks, best first: one at least where one "
            "is needed, and else perhaps none.",
            "Leave all three lists as they are; the engine counts.",
        ),
        args=([5, 2], [0, 0, 2, 0, 0, 2], 1, [1, 4]),
        result=([5, 1], (2, 1)),
    ),
    hints=(
        "Two requests were one text up to here. What does the other one read if this one writes "
        "into their last block?",
        "The count of the block says whether another table names it. If so, which of the two "
        "requests takes the copy, and where does that stand in its table?",
        "Return `table, None` where the count is 1. Else build a new list with `free_blocks[0]` "
        "in the place of the old block, and the pair of both.",
    ),
    right=(copy_on_write, in_a_new_list, by_exchanging),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "a block that two name",
            JUDGE.on(
                ([5, 2], [0, 0, 2, 0, 0, 2], 1, [1, 4]),
                ([5, 2], [0, 0, 2, 0, 0, 1, 1], 1, [4, 1]),
                ([3], [0, 0, 0, 4], 0, [1]),
                ([3, 1], [0, 1, 0, 2], 0, [0, 2]),
            ),
        ),
        (
            "a block of its own",
            JUDGE.on(
                ([5, 2], [0, 0, 1, 0, 0, 1], 1, [1, 4]),
                ([5, 2], [0, 0, 1, 0, 0, 3], 1, [1, 4]),
                ([0], [1, 0], 0, [1]),
            ),
        ),
        (
            "a block in the middle",
            JUDGE.on(
                ([4, 6, 1], [0, 1, 0, 0, 2, 0, 2], 1, [3, 5]),
                ([4, 6, 1], [0, 2, 0, 0, 2, 0, 1], 1, [3, 5]),
                ([4, 6, 1], [0, 1, 0, 0, 2, 0, 1], 0, [5, 3]),
                ([*range(12)], [2] * 9 + [1, 3, 1, 0, 0], 10, [13, 12]),
                ([*range(12)], [2] * 9 + [1, 3, 1, 0, 0], 9, [13, 12]),
            ),
        ),
        (
            "nothing is free",
            # Nothing is needed either, so an answer may look all the same, and fall.
            JUDGE.on_raising(
                NOTHING_FREE,
                (IndexError, StopIteration, ValueError),
                ([0, 1], [1, 1], 1, []),
                ([2, 0, 1], [1, 1, 3], 1, []),
            ),
        ),
        ("any table", JUDGE.on_drawn(any_table)),
    ),
    draw_call=named("table", "ref_counts", "index", "free_blocks"),
    equivalent_mutants={
        "table: without repeats": "a table names a block once",
        "free_blocks: only the first": "the first is the best",
        "free_blocks: without repeats": "a block is free once",
    },
)

"""Exercise 7.1: the blocks to add to a table."""

import random
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_items
from course.checks.comparing import Args, Comparison, a_kind, wrong_list
from course.exercise import Exercise, Misconception, Task
from course.format_values import named

Allocate = Callable[[int, int, int, list[int]], Any]

# --- right answers ------------------------------------------------------------------------------


def allocate(
    num_blocks: int, num_tokens: int, size: int, free_blocks: list[int]
) -> list[int] | None:
    """Return the blocks to add to a table, or None when too few are free."""
    # Round up, since a block is taken whole, and subtract the table's own blocks. All or nothing: a
    # request with only some of its blocks could not run, and would keep them from the others.
    needed = (num_tokens + size - 1) // size
    more = max(0, needed - num_blocks)
    if more > len(free_blocks):
        return None
    return free_blocks[:more]


def block_by_block(num_blocks: int, num_tokens: int, size: int, free_blocks: list[int]) -> Any:
    room, taken = num_blocks * size, list[int]()
    for block in free_blocks:
        if room >= num_tokens:
            break
        taken.append(block)
        room += size
    return taken if room >= num_tokens else None


def with_a_stack(num_blocks: int, num_tokens: int, size: int, free_blocks: list[int]) -> Any:
    stack, mine = free_blocks[::-1], list[int]()
    while (num_blocks + len(mine)) * size < num_tokens:
        if not stack:
            return None
        mine.append(stack.pop())
    return mine


# --- wrong ideas --------------------------------------------------------------------------------


def lacking(num_blocks: int, num_tokens: int, size: int) -> int:
    return -(-num_tokens // size) - num_blocks


def taking(
    more: Callable[[int, int, int], int] = lacking,
    short: Callable[[list[int]], Any] = lambda free_blocks: None,
    take: Callable[[list[int], int], list[int]] = lambda free_blocks, n: free_blocks[: max(0, n)],
) -> Allocate:
    """Right except for the number of blocks, the result when too few are free, or the blocks."""

    def answer(num_blocks: int, num_tokens: int, size: int, free_blocks: list[int]) -> Any:
        wanted = more(num_blocks, num_tokens, size)
        return short(free_blocks) if wanted > len(free_blocks) else take(free_blocks, wanted)

    return answer


MISCONCEPTIONS = (
    Misconception(
        "partial",
        "Some blocks are better than none.",
        "Return None when too few blocks are free, because a request cannot run with only some of "
        "its blocks and would keep them from the others.",
        taking(short=lambda free_blocks: free_blocks),
    ),
    Misconception(
        "empty_when_short",
        "No blocks can be given, so the list is empty.",
        "With `[]` the engine assumes that the table has enough blocks, and writes past the "
        "table's end. Return None when too few blocks are free.",
        taking(short=lambda free_blocks: []),
    ),
    Misconception(
        "none_when_enough",
        "No block is needed, so the result is None.",
        "None means that too few blocks are free; here the table's own blocks are enough, so "
        "return the empty list.",
        lambda *args: allocate(*args) or None,
    ),
    Misconception(
        "not_a_list",
        "One block is needed, so I return that block.",
        lambda value: (
            f"Return a list of blocks, or None when too few are free; this is {a_kind(value)}."
            if as_items(value) is None
            else wrong_list(value)
        ),
        matches=lambda value: value is not None and wrong_list(value),
        examples=((lambda *args: (allocate(*args) or [-1])[0]),),
    ),
    Misconception(
        "no_return",
        "Computing the blocks is enough; nothing has to be returned.",
        "allocate returned nothing, which is None and means too few blocks: end every path with "
        "`return`.",
        lambda *args: None,
    ),
    Misconception(
        "rounds_down",
        "Dividing gives the number of blocks.",
        "The last tokens need a block even if they do not fill it: round up, not down.",
        taking(lambda held, tokens, size: tokens // size - held),
    ),
    Misconception(
        "always_one_more",
        "The number of blocks is tokens // size + 1.",
        "When the tokens fill their blocks exactly there is no rest, and the extra block would "
        "stay empty.",
        taking(lambda held, tokens, size: tokens // size + 1 - held),
        same_result=(
            taking(lambda held, tokens, size: (tokens // size + 1 - held) * (tokens > held * size)),
        ),
    ),
    Misconception(
        "forgets_its_own",
        "`num_tokens` tokens need ceil(num_tokens / size) new blocks.",
        "The table has `num_blocks` blocks already, and `num_tokens` counts the tokens in them "
        "too: take only the blocks that are missing.",
        taking(lambda held, tokens, size: -(-tokens // size)),
    ),
    Misconception(
        "from_the_end",
        "A free list is a stack.",
        "`free_blocks` has the best blocks first, and its last ones may still be cached: take the "
        "first ones.",
        taking(take=lambda free_blocks, n: free_blocks[len(free_blocks) - max(0, n) :]),
    ),
    Misconception(
        "below_0",
        "A slice with a negative end is empty.",
        "The table has more blocks than it needs here, and a slice with a negative end only leaves "
        "out the last ones: take none.",
        taking(take=lambda free_blocks, n: free_blocks[:n]),
    ),
    Misconception(
        "in_place",
        "Allocated blocks leave the free list.",
        examples=(taking(take=lambda free_blocks, n: [free_blocks.pop(0) for _ in range(n)]),),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_table(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for _ in range(80):
        size = rng.choice((1, 2, 4, 8, 16, 64, 256))
        needed = rng.randint(1, 9)
        num_tokens = needed * size - rng.choice((0, 0, rng.randrange(size)))
        num_blocks = max(0, needed - rng.choice((0, 0, 1, 1, 2, 3, 9, -1, -2)))
        num_free = max(0, max(0, needed - num_blocks) + rng.choice((-2, -1, 0, 0, 1, 5)))
        cases.append((num_blocks, num_tokens, size, rng.sample(range(40), num_free)))
    return sorted(cases, key=lambda case: (len(case[3]), case[1]))


JUDGE = Comparison(
    allocate,
    MISCONCEPTIONS,
    "Write the tokens into blocks of `size`, one after another: how many blocks have a token, and "
    "how many of these does the table lack? If that many are free, take the first ones.",
    evidence=[
        (num_blocks, num_tokens, 4, free_blocks)
        for num_blocks in (0, 1, 3)
        for num_tokens in (3, 8, 13)
        for free_blocks in ([9, 5, 7, 2, 8], [6, 1], [3])
    ],
)


EXERCISE = Exercise(
    number=1,
    title="Allocate blocks",
    minutes=6,
    points=2,
    task=Task(
        rules=(
            "A block holds `size` tokens. A request's table has `num_blocks` blocks, and the "
            "request is about to hold `num_tokens` tokens (at least 1), including those in its "
            "table.",
            "`free_blocks` has the numbers of all free blocks, the best ones first.",
            "Return the blocks to add to the table: the first ones of `free_blocks`, as many as "
            "the table lacks. The list is empty when the table's own blocks are enough.",
            "Return None when too few blocks are free.",
            "Do not change `free_blocks`.",
        ),
        args=(1, 35, 16, [7, 3, 4]),
        call="allocate(num_blocks=1, num_tokens=35, size=16, free_blocks=[7, 3, 4])",
        steps=(
            "35 tokens lie in 3 blocks of 16: two full ones, and one with 3 tokens.",
            "The table has 1 block, so it lacks 2.",
            "3 blocks are free. The first two are 7 and 3.",
        ),
        result=[7, 3],
    ),
    hints=(
        "Draw 35 tokens in blocks of 16. How many blocks have at least one token?",
        "Round up to whole blocks and subtract the table's blocks. What if the result is 0, or "
        "negative?",
        "If the table lacks `more` blocks, return None when `free_blocks` has fewer, and otherwise "
        "its first `more` blocks. A slice makes a copy; `pop` changes the list.",
    ),
    right=(allocate, block_by_block, with_a_stack),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "a new table",
            JUDGE.on((0, 10, 4, [7, 3, 9, 1]), (0, 8, 4, [2, 6, 5]), (0, 1, 4, [5, 3])),
        ),
        (
            "a table that grows",
            JUDGE.on((2, 9, 4, [6, 1]), (2, 8, 4, [6, 1]), (1, 3, 4, [6]), (3, 4, 4, [2, 8, 5])),
        ),
        ("too few are free", JUDGE.on((1, 17, 4, [8, 2]), (0, 5, 4, [8]), (0, 1, 16, []))),
        (
            "just enough",
            JUDGE.on(
                (1, 12, 4, [8, 2]),
                (0, 1, 16, [4]),
                (2, 32, 16, []),
                (4, 20, 16, []),
                (1, 257, 256, [5]),
            ),
        ),
        ("any table", JUDGE.on_drawn(any_table)),
    ),
    draw_call=named("num_blocks", "num_tokens", "size", "free_blocks"),
    equivalent_mutants={
        "num_tokens at least 1": "it is at least 1",
        "size at least 1": "it is at least 1",
        "free_blocks: without repeats": "a block is free once",
    },
)

"""Exercise 7.1: the blocks that a request needs besides its own."""

import random
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_items
from course.checks.comparing import Args, Comparison, a_kind, list_of_ints
from course.exercise import Exercise, Misconception
from course.format_values import named
from course.task import Task

Allocate = Callable[[int, int, int, list[int]], Any]

# --- right answers ------------------------------------------------------------------------------


def allocate(
    num_blocks: int, num_tokens: int, size: int, free_blocks: list[int]
) -> list[int] | None:
    """Return the blocks that a table needs besides its own, or None when too few are free."""
    # A block that is begun is taken whole, so round up; what the table has counts. All or nothing:
    # with some of its blocks a request could not go on, and nothing else could have them.
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


def taking(
    more: Callable[[int, int, int], int], short: Callable[..., Any] | None = None
) -> Allocate:
    """Right but for how many are wanted, or for what it gives where they are `short`."""

    def answer(num_blocks: int, num_tokens: int, size: int, free_blocks: list[int]) -> Any:
        wanted = max(0, more(num_blocks, num_tokens, size))
        if wanted > len(free_blocks):
            return short(free_blocks, wanted) if short else None
        return free_blocks[:wanted]

    return answer


def lacking(num_blocks: int, num_tokens: int, size: int) -> int:
    return -(-num_tokens // size) - num_blocks


def pops(num_blocks: int, num_tokens: int, size: int, free_blocks: list[int]) -> Any:
    more = max(0, lacking(num_blocks, num_tokens, size))
    return None if more > len(free_blocks) else [free_blocks.pop(0) for _ in range(more)]


def from_the_end(num_blocks: int, num_tokens: int, size: int, free_blocks: list[int]) -> Any:
    more = max(0, lacking(num_blocks, num_tokens, size))
    return None if more > len(free_blocks) else free_blocks[len(free_blocks) - more :]


def nothing_is_none(num_blocks: int, num_tokens: int, size: int, free_blocks: list[int]) -> Any:
    return allocate(num_blocks, num_tokens, size, free_blocks) or None


MISCONCEPTIONS = (
    Misconception(
        "partial",
        "Some is better than none.",
        "Too few are free, so the answer is None: a request that gets some of its blocks cannot "
        "go on with them, and keeps them from all others.",
        taking(lacking, lambda free_blocks, wanted: free_blocks),
    ),
    Misconception(
        "empty_when_short",
        "Nothing can be given, so nothing is returned.",
        "`[]` says that no block is needed, and the engine would go on and write; that there are "
        "too few is said by None.",
        taking(lacking, lambda free_blocks, wanted: []),
    ),
    Misconception(
        "none_when_enough",
        "No block, so None.",
        "None says that the request has to wait; here its own blocks are enough, so the answer is "
        "the empty list.",
        nothing_is_none,
    ),
    Misconception(
        "not_a_list",
        "One block is needed.",
        lambda value: (
            "The answer is a list of blocks, or None where too few are free; this is "
            f"{a_kind(value)}."
            if as_items(value) is None
            else (list_of_ints(value) or ("", ""))[1]
        ),
        matches=lambda value: value is not None and list_of_ints(value) is not None,
        examples=((lambda *args: (allocate(*args) or [-1])[0]),),
    ),
    Misconception(
        "no_return",
        "The blocks are taken.",
        "allocate returned nothing, and that is None, too few blocks: end every way through it "
        "with `return`.",
        lambda *args: None,
    ),
    Misconception(
        "rounds_down",
        "Dividing says how many.",
        "The last tokens do not fill a block and need one all the same: round up, not down.",
        taking(lambda held, tokens, size: tokens // size - held),
    ),
    Misconception(
        "always_one_more",
        "Whole blocks, and one for the rest.",
        "Where the tokens fill their blocks exactly there is no rest, and a block for it would "
        "stay empty.",
        taking(lambda held, tokens, size: tokens // size + 1 - held),
    ),
    Misconception(
        "forgets_its_own",
        "So many blocks hold so many tokens.",
        "The table has `num_blocks` blocks already, and `num_tokens` counts what is in them: only "
        "the blocks that are missing are taken.",
        taking(lambda held, tokens, size: -(-tokens // size)),
    ),
    Misconception(
        "a_block_for_each_token",
        "A token needs its place.",
        "A block holds `size` tokens: this takes one for each.",
        taking(lambda held, tokens, size: tokens - held),
    ),
    Misconception(
        "from_the_end",
        "A free list is a stack.",
        "`free_blocks` stands best first, and what stands last may still be found by its hash: "
        "take the first ones.",
        from_the_end,
    ),
    Misconception(
        "below_0",
        "A slice of fewer than none is empty.",
        "The table has more blocks than it needs here, and a slice up to a number below 0 leaves "
        "only the last ones out: nothing is taken.",
        lambda num_blocks, num_tokens, size, free_blocks: (
            None
            if lacking(num_blocks, num_tokens, size) > len(free_blocks)
            else free_blocks[: lacking(num_blocks, num_tokens, size)]
        ),
    ),
    Misconception("in_place", "What is taken comes off the list.", examples=(pops,)),
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
    "Write the tokens into blocks of `size`, one after another: how many blocks are begun, and "
    "which of them does the table have?",
    evidence=[
        (num_blocks, num_tokens, 4, free_blocks)
        for num_blocks in (0, 1, 3)
        for num_tokens in (3, 8, 13)
        for free_blocks in ([9, 5, 7, 2, 8], [6, 1], [3])
    ],
)


EXERCISE = Exercise(
    number=1,
    title="Blocks for what comes",
    minutes=6,
    points=2,
    part="allocate",
    task=Task(
        signature="allocate(num_blocks: int, num_tokens: int, size: int, free_blocks: list[int]) "
        "-> list[int] | None",
        rules=(
            "A block holds `size` tokens. A request's table has `num_blocks` blocks, full or "
            "not, and is to hold `num_tokens` tokens in all (at least 1), with those that it holds "
            "already.",
            "The result is the list of blocks that it needs besides, the first ones of "
            "`free_blocks`: the numbers of all free blocks, best first. It is empty when its own "
            "are enough.",
            "Where too few are free, the result is None.",
            "Leave `free_blocks` as it is.",
        ),
        args=(1, 35, 16, [7, 3, 4]),
        result=[7, 3],
    ),
    hints=(
        "Draw 35 tokens in blocks of 16. How many blocks have at least one of them?",
        "Round up to whole blocks, and take off what the table has. What if that is 0, or less?",
        "With `more` blocks wanted there are two ways out: None if `free_blocks` has fewer, else "
        "the first `more` of it. A slice copies, `pop` does not.",
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

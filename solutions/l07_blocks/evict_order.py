"""Exercise 7.4: which cached blocks are evicted, and in which order."""

import functools
import random
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_items
from course.checks.comparing import Args, Comparison, not_a_list
from course.exercise import Exercise, Misconception, Task
from nanogpt.views.request_view import CachedBlock

Order = Callable[[list[CachedBlock]], Any]

# --- right answers ------------------------------------------------------------------------------


def evict_order(blocks: list[CachedBlock]) -> list[int]:
    """Return the ids of the blocks that may be evicted, the first to go first."""
    # A block that a table names is in use. The least recently used block is least likely to be
    # needed next. The end of a text goes first, since a block is found only after its parents.
    free_blocks = [block for block in blocks if block.count == 0]
    free_blocks.sort(key=lambda block: (block.last_used, -block.depth))
    return [block.id for block in free_blocks]


def in_two_sorts(blocks: list[CachedBlock]) -> Any:
    deepest_first = sorted(blocks, key=lambda block: block.depth, reverse=True)
    oldest_first = sorted(deepest_first, key=lambda block: block.last_used)
    return tuple(block.id for block in oldest_first if not block.count)


def by_comparing(blocks: list[CachedBlock]) -> Any:
    def before(a: CachedBlock, b: CachedBlock) -> int:
        return a.last_used - b.last_used or b.depth - a.depth

    ranked = sorted(blocks, key=functools.cmp_to_key(before))
    return [block.id for block in ranked if block.count <= 0]


# --- wrong ideas --------------------------------------------------------------------------------


def by(
    rank: Callable[[CachedBlock], Any], keep: Callable[[CachedBlock], bool] = lambda b: b.count == 0
) -> Order:
    return lambda blocks: [block.id for block in sorted(filter(keep, blocks), key=rank)]


def right_rank(block: CachedBlock) -> tuple[int, int]:
    return block.last_used, -block.depth


def sorts_in_place(blocks: list[CachedBlock]) -> Any:
    blocks.sort(key=right_rank)
    return [block.id for block in blocks if not block.count]


MISCONCEPTIONS = (
    Misconception(
        "records",
        "The result is the blocks themselves.",
        "Return the `id` of each block, not its record.",
        matches=lambda value: any(isinstance(item, CachedBlock) for item in as_items(value) or ()),
        examples=(lambda blocks: sorted((b for b in blocks if not b.count), key=right_rank),),
    ),
    not_a_list(
        "One block is evicted.",
        lambda blocks: (evict_order(blocks) or [-1])[0],
    ),
    Misconception(
        "referenced_too",
        "All blocks have a place in the order.",
        "A request reads this block in its next step, since a table names it: it must not be "
        "evicted, however long ago it was last used.",
        by(right_rank, lambda block: True),
    ),
    Misconception(
        "referenced_last",
        "Blocks in use go last.",
        "Last is not never: when memory is short, the end of the list is reached, and the K/V of a "
        "running request is overwritten.",
        by(lambda block: (block.count, *right_rank(block)), lambda block: True),
    ),
    Misconception(
        "most_recent_first",
        "The newest block goes first.",
        "A smaller `last_used` is longer ago. A block that was used a moment ago is the most "
        "likely one to be needed again, so it goes last.",
        by(lambda block: (-block.last_used, -block.depth)),
    ),
    Misconception(
        "parents_first",
        "A text is evicted from its front.",
        "A block is never found without its parent, since a match begins at the first block: of "
        "the blocks that left a table together, the deepest goes first.",
        by(lambda block: (block.last_used, block.depth)),
    ),
    Misconception(
        "depth_before_age",
        "Deep blocks are worth least.",
        "Age comes first: the deep end of a text that was just read is more likely to be needed "
        "than the first block of one that no request has used for long.",
        by(lambda block: (-block.depth, block.last_used)),
    ),
    Misconception(
        "age_alone",
        "Only the least recent use matters.",
        "Blocks of one text leave their table together and have the same age: the deepest goes "
        "first, since the others can still be found without it.",
        by(lambda block: block.last_used),
    ),
    Misconception("in_place", "I may sort the list.", examples=((sorts_in_place),)),
)

# --- cases --------------------------------------------------------------------------------------


def draw_blocks(name: str, args: Args) -> str:
    if not args[0]:
        return f"{name}([])"
    return "\n".join([f"{name}([", *(f"  {block}," for block in args[0]), "])"])


def block(id: int, last_used: int, depth: int, count: int = 0) -> CachedBlock:
    return CachedBlock(id, count, last_used, depth)


def any_pool(rng: random.Random) -> list[Args]:
    """Pools of texts that came and went; blocks that left a table together differ in depth."""
    cases: list[Args] = []
    for size in (1, 2, 3, 3, 4, 4, 5, 6, 8, 8, 10, 12, 16, 20, 30):
        ids, blocks = rng.sample(range(50), size), list[CachedBlock]()
        while len(blocks) < size:
            depths = rng.sample(range(8), min(rng.randint(1, 4), size - len(blocks)))
            used, runs = rng.randint(1, 9) + 10 * len(blocks), rng.random() < 0.3
            for depth in depths:
                count = rng.randint(1, 3) if runs else 0
                blocks.append(CachedBlock(ids[len(blocks)], count, used, depth))
        moments = sorted({each.last_used for each in blocks})
        close = rng.sample(range(1, 2 * len(moments) + 1), len(moments))
        shuffled = dict(zip(moments, close, strict=True))
        pool = [block(b.id, shuffled[b.last_used], b.depth, b.count) for b in blocks]
        rng.shuffle(pool)
        cases.append((pool,))
    return cases


JUDGE = Comparison(
    evict_order,
    MISCONCEPTIONS,
    "Which of these blocks does no table name? Which of those was used least recently, and which "
    "ones are useless without another?",
    evidence=any_pool(random.Random(0))[3:9],
)

EXERCISE = Exercise(
    number=4,
    title="Order the evictions",
    minutes=6,
    points=3,
    task=Task(
        rules=(
            "`blocks` are all blocks that can be found by a hash, in any order. A block has an "
            "`id`; `count`, the number of tables that name it; `last_used`, the time when it last "
            "left a table (a larger number is more recent); and `depth`, its place in its text, "
            "from 0.",
            "Return the ids of the blocks that no table names, in the order of eviction: the "
            "least recently used first.",
            "Blocks that left a table together have the same `last_used` and different depths. "
            "Order them so that each eviction loses as little as possible.",
            "Do not change the list.",
        ),
        args=([block(4, 7, 0), block(2, 3, 1), block(9, 7, 0, 2), block(5, 3, 0)],),
        call="evict_order(blocks), where blocks has\n"
        "  id  count  last_used  depth\n"
        "   4      0          7      0\n"
        "   2      0          3      1\n"
        "   9      2          7      0\n"
        "   5      0          3      0",
        steps=(
            "Two tables name block 9, so it is not in the result.",
            "Blocks 2 and 5 were last used at 3, before block 4 at 7. They go first.",
            "Blocks 2 and 5 are of one text. Without block 5, at depth 0, block 2 could not be "
            "found, so block 2 goes before block 5.",
        ),
        result=[2, 5, 4],
    ),
    hints=(
        "Which of these blocks will a request read in the next step in any case?",
        "A text of three blocks left its table. If its first block is evicted, how much of the "
        "text can still be found? And if its last block is evicted?",
        "Leave out the blocks whose count is not 0, and sort the others by a pair: by time, "
        "ascending, and among equal times by depth, descending.",
    ),
    right=(evict_order, in_two_sorts, by_comparing),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "blocks of several texts",
            JUDGE.on(
                ([block(3, 5, 0), block(1, 2, 0), block(2, 9, 0)],),
                ([block(0, 8, 2), block(6, 4, 0), block(5, 6, 3), block(1, 1, 1)],),
                ([block(7, 1, 0)],),
                ([block(3, 5, 140), block(1, 4, 0)],),
                ([block(3, 5, 5000), block(1, 4, 0)],),
                ([block(4, 1, 1), block(2, 0, 0)],),
            ),
        ),
        (
            "blocks in use",
            JUDGE.on(
                ([block(3, 5, 0), block(1, 2, 0, 1), block(2, 9, 0), block(8, 7, 1, 2)],),
                ([block(3, 0, 0, 3)],),
                ([],),
            ),
        ),
        (
            "blocks of one text",
            JUDGE.on(
                ([block(6, 4, 1), block(2, 4, 0), block(9, 4, 2)],),
                ([block(2, 4, 0), block(6, 4, 1), block(0, 3, 0), block(5, 3, 1), block(4, 3, 2)],),
                ([block(1, 4, 3), block(2, 4, 2), block(6, 4, 0, 1), block(7, 4, 1, 1)],),
                ([block(6, 4, 9), block(2, 4, 7), block(9, 4, 10), block(5, 4, 8)],),
            ),
        ),
        ("any pool", JUDGE.on_drawn(any_pool)),
    ),
    draw_call=draw_blocks,
    equivalent_mutants={
        "blocks: reversed": "the order of the list has no say",
        "blocks.count at most 7": "seven tables keep a block as well as eight",
        "result: without repeats": "each block is there once",
    },
)

"""Exercise 7.6: which blocks give way, and in which order."""

import functools
import random
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_items
from course.checks.comparing import Args, Comparison, not_a_list
from course.exercise import Exercise, Misconception
from course.task import Task
from nanogpt.policy_views import CachedBlock

Order = Callable[[list[CachedBlock]], Any]

# --- right answers ------------------------------------------------------------------------------


def evict_order(blocks: list[CachedBlock]) -> list[int]:
    """Return the ids of the blocks that may give way, first the one to go first."""
    # What a table names is read and stays. What was not needed for longest is least likely to be
    # needed next. Of one text the end goes first: a block is found only while all before it are.
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
        "The blocks, in order.",
        "The answer is the `id` of each block, not its record.",
        matches=lambda value: any(isinstance(item, CachedBlock) for item in as_items(value) or ()),
        examples=(lambda blocks: sorted((b for b in blocks if not b.count), key=right_rank),),
    ),
    not_a_list(
        "One block is evicted.",
        lambda blocks: (evict_order(blocks) or [-1])[0],
        lambda blocks: dict.fromkeys(evict_order(blocks)),
    ),
    Misconception(
        "referenced_too",
        "All blocks have their place in the order.",
        "A block that a table names is read in the next step: however long ago it was found, it "
        "may not give way.",
        by(right_rank, lambda block: True),
    ),
    Misconception(
        "referenced_last",
        "Blocks in use go last.",
        "Last is not never: when memory is short enough the end of the list is reached, and a "
        "request's K/V is written over.",
        by(lambda block: (block.count, *right_rank(block)), lambda block: True),
    ),
    Misconception(
        "most_recent_first",
        "The newest goes.",
        "`last_used` counts up, so a small number is long ago: what has just been used is what "
        "will most likely be asked for again, and goes last.",
        by(lambda block: (-block.last_used, -block.depth)),
    ),
    Misconception(
        "parents_first",
        "From the front of the text.",
        "Without its parent a block is never found, since a match begins at the first block: of "
        "those that left together the deepest goes first.",
        by(lambda block: (block.last_used, block.depth)),
    ),
    Misconception(
        "depth_before_age",
        "Deep blocks are worth least.",
        "Age comes first: the deep end of a text that has just been read will sooner be needed "
        "than the beginning of one that no request has asked for in a long time.",
        by(lambda block: (-block.depth, block.last_used)),
    ),
    Misconception(
        "age_alone",
        "Least recently used, that is all.",
        "Blocks of one text leave their table together and are equally old: then the deepest goes "
        "first, as the others can be found without it.",
        by(lambda block: block.last_used),
    ),
    Misconception("in_place", "The list is mine to sort.", examples=((sorts_in_place),)),
)

# --- cases --------------------------------------------------------------------------------------


def draw_blocks(name: str, args: Args) -> str:
    if not args[0]:
        return f"{name}([])"
    return "\n".join([f"{name}([", *(f"  {block}," for block in args[0]), "])"])


def block(id: int, last_used: int, depth: int, count: int = 0) -> CachedBlock:
    return CachedBlock(id, count, last_used, depth)


def any_pool(rng: random.Random) -> list[Args]:
    """Pools of texts that came and went; what left a table together has a depth each."""
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
    "Which of these does no table name? Of those: whose last use is longest ago, and what is of no "
    "use without another?",
    evidence=any_pool(random.Random(0))[3:9],
)

EXERCISE = Exercise(
    number=6,
    title="What gives way",
    minutes=6,
    points=3,
    part="evict_order",
    task=Task(
        signature="evict_order(blocks: list[CachedBlock]) -> list[int]",
        rules=(
            "`blocks` are all that can be found by their hash, in any order. Each has an `id`; "
            "`count`, how many tables name it now; `last_used`, when it last left a table, a "
            "number that counts up; and `depth`, its place in its text, from 0.",
            "The result is the ids of those that may give way, and of no other, in the order in "
            "which they go: first the one whose last use is longest ago.",
            "Blocks that left a table together have the same `last_used`, and different depths: "
            "of those, what is lost has to be as little as can be.",
            "Leave the list as it is.",
        ),
        args=([block(4, 7, 0), block(2, 3, 1), block(9, 7, 0, 2), block(5, 3, 0)],),
        result=[2, 5, 4],
    ),
    hints=(
        "Which of these blocks will a request read in the next step, whatever comes?",
        "A text of three blocks left its table. Evict its first one: how much of the text is "
        "still found? Evict its last one: how much then?",
        "Leave out what has a count, and sort the others by a pair: the first number counts up "
        "with time, and of the second one the larger goes first.",
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

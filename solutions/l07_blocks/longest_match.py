"""Exercise 7.4: how much of a prompt is there already."""

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

from course.calling.plain_values import as_items, as_whole
from course.checks.comparing import Args, Comparison, a_kind, list_of_ints
from course.exercise import Exercise, Misconception
from course.format_values import named
from course.harness import returned_nothing
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def longest_match(
    hashes: list[str], cached: dict[str, int], num_tokens: int, size: int
) -> tuple[list[int], int]:
    """Return `(blocks, num_cached)`: what need not be computed, from the first block on."""
    # Attention needs the K/V of every token before, so a gap ends the match. One token at least has
    # to be computed: its logits say what comes next. A shared block is not written, so the last one
    # is given up whole where it would leave nothing.
    blocks: list[int] = []
    for block_hash in hashes[: (num_tokens - 1) // size]:
        if block_hash not in cached:
            break
        blocks.append(cached[block_hash])
    return blocks, len(blocks) * size


def while_something_is_left(
    hashes: list[str], cached: dict[str, int], num_tokens: int, size: int
) -> Any:
    blocks, num_cached = list[int](), 0
    while num_cached + size < num_tokens:
        block = cached.get(hashes[len(blocks)])
        if block is None:
            break
        blocks, num_cached = [*blocks, block], num_cached + size
    return [blocks, num_cached]


def by_its_length(hashes: list[str], cached: dict[str, int], num_tokens: int, size: int) -> Any:
    missing = (i for i, each in enumerate(hashes) if each not in cached)
    length = min(next(missing, len(hashes)), (num_tokens - 1) // size)
    return tuple(cached[each] for each in hashes[:length]), size * length


# --- wrong ideas --------------------------------------------------------------------------------


def run(hashes: Sequence[str], cached: dict[str, int]) -> list[int]:
    return [cached[h] for h in itertools.takewhile(cached.__contains__, hashes)]


def all_there(hashes: Sequence[str], cached: dict[str, int]) -> list[int]:
    return [cached[h] for h in hashes if h in cached]


def cut(blocks: list[int], num_tokens: int, size: int) -> list[int]:
    return blocks[: (num_tokens - 1) // size]


def then(change: Callable[[list[int], int, list[str], int, int], Any]) -> Callable[..., Any]:
    """The right answer, made into change(blocks, num_cached, hashes, num_tokens, size)."""
    return lambda hashes, cached, num_tokens, size: change(
        *longest_match(hashes, cached, num_tokens, size), hashes, num_tokens, size
    )


def takes_them_out(hashes: list[str], cached: dict[str, int], num_tokens: int, size: int) -> Any:
    found = longest_match(hashes, cached, num_tokens, size)
    for each in hashes[: len(found[0])]:
        del cached[each]
    return found


def parts(value: Any) -> Sequence[Any]:
    return as_items(value) or ()


MISCONCEPTIONS = (
    Misconception(
        "not_two",
        "The blocks say it all.",
        "Return two things, the blocks and how many tokens they hold: `blocks, num_cached`.",
        matches=lambda value: value is not None and len(parts(value)) != 2,
        examples=((then(lambda blocks, found, *rest: found)),),
    ),
    Misconception(
        "swapped",
        "So many tokens, in these blocks.",
        "The blocks come first, then how many tokens they hold: `blocks, num_cached`.",
        matches=lambda value: (
            value is not None
            and as_whole(parts(value)[0]) is not None
            and as_items(parts(value)[1]) is not None
        ),
        examples=(then(lambda blocks, found, *rest: (found, blocks)),),
    ),
    Misconception(
        "hashes",
        "What is there, by its name.",
        "These are the hashes; the table needs the numbers of their blocks, which `cached` has.",
        matches=lambda value: (
            value is not None and any(isinstance(item, str) for item in parts(parts(value)[0]))
        ),
        examples=(then(lambda blocks, found, hashes, *rest: (hashes[: len(blocks)], found)),),
    ),
    Misconception(
        "wrong_type",
        "The match, as it comes.",
        lambda value: (
            f"`blocks` is a list of block numbers, not {a_kind(parts(value)[0])}."
            if list_of_ints(parts(value)[0])
            else f"`num_cached` is a whole number of tokens, not {a_kind(parts(value)[1])}."
        ),
        matches=lambda value: (
            value is not None
            and (list_of_ints(parts(value)[0]) is not None or as_whole(parts(value)[1]) is None)
        ),
        examples=((then(lambda blocks, found, *rest: (len(blocks), found))),),
    ),
    Misconception(
        "no_return",
        "The blocks are found.",
        returned_nothing("longest_match", "blocks, num_cached"),
        matches=lambda value: value is None,
        examples=(lambda *args: None,),
    ),
    Misconception(
        "over_a_gap",
        "What is there is there.",
        "The K/V in the gap is gone, and every token behind it attends to that: the match ends at "
        "the first block that is not there.",
        lambda hashes, cached, num_tokens, size: (
            (found := cut(all_there(hashes, cached), num_tokens, size)),
            len(found) * size,
        ),
    ),
    Misconception(
        "nothing_left",
        "What is there need not be computed.",
        "With everything cached no token is computed, and no logits say what comes next: at least "
        "one has to be left, so the last block is given up.",
        lambda hashes, cached, num_tokens, size: (
            (found := run(hashes, cached)),
            len(found) * size,
        ),
    ),
    Misconception(
        "half_a_block",
        "All but the last token.",
        "Only whole blocks are taken: a table that names the last one would have its last token "
        "written again, into a block that others read.",
        lambda hashes, cached, num_tokens, size: (
            (found := run(hashes, cached)),
            min(len(found) * size, num_tokens - 1),
        ),
    ),
    Misconception(
        "all_or_nothing",
        "A prefix is there or it is not.",
        "A match ends where it ends: the blocks in front of the first missing one are the same "
        "work saved.",
        lambda hashes, cached, num_tokens, size: (
            longest_match(hashes, cached, num_tokens, size)
            if len(run(hashes, cached)) == len(hashes)
            else ([], 0)
        ),
    ),
    Misconception(
        "as_if_all_matched",
        "All but the last block.",
        "So many it would be if every block were there: count those that were found.",
        then(
            lambda blocks, found, hashes, num_tokens, size: (
                blocks,
                (num_tokens - 1) // size * size,
            )
        ),
    ),
    Misconception("in_place", "What is found is taken out.", examples=((takes_them_out),)),
)

# --- cases --------------------------------------------------------------------------------------

A, B, C, D = "6b2f", "91ce", "0d84", "f7a3"


def any_text(rng: random.Random) -> list[Args]:
    """Texts of which some of the blocks are there, those of others beside them."""
    cases: list[Args] = []
    for _ in range(60):
        size = rng.choice((1, 2, 4, 16))
        num_full = rng.randint(0, 7)
        num_tokens = max(1, num_full * size + rng.choice((0, 0, rng.randrange(size))))
        names = [f"{each:04x}" for each in rng.sample(range(1 << 16), 12)]
        hashes, others = names[: num_tokens // size], names[-rng.randint(1, 4) :]
        start = rng.randint(0, len(hashes))
        there = hashes if rng.random() < 0.3 else hashes[:start]
        there = [*there, *(each for each in hashes[start + 1 :] if rng.random() < 0.4)]
        known = list(dict.fromkeys([*there, *others]))
        rng.shuffle(known)
        numbers = rng.sample(range(20), len(known))
        cases.append((hashes, dict(zip(known, numbers, strict=True)), num_tokens, size))
    return sorted(cases, key=lambda case: (len(case[0]), len(case[1])))


JUDGE = Comparison(
    longest_match,
    MISCONCEPTIONS,
    "Go through the text from its first block on: up to where is it there, and which token is "
    "computed then?",
    evidence=[([A, B, C], {C: 4, D: 2, A: 9, B: 6}, num_tokens, 4) for num_tokens in (12, 13, 15)]
    + [
        ([A, B, C, D], {D: 1, A: 7, C: 3}, 18, 4),
        ([A, B, C, D], {D: 1, B: 7, A: 5}, 16, 4),
        ([B, C], {C: 8, A: 3, B: 11}, 8, 4),
        ([B, C], {C: 8, A: 0}, 9, 4),
    ],
)

EXERCISE = Exercise(
    number=4,
    title="What is there already",
    minutes=8,
    points=3,
    part="longest_match",
    task=Task(
        signature="longest_match(hashes: list[str], cached: dict[str, int], num_tokens: int, "
        "size: int) -> tuple[list[int], int]",
        rules=(
            "A request has `num_tokens` known tokens (at least 1). `hashes` are those of its full "
            "blocks of `size` tokens, in order: `num_tokens // size` of them.",
            "`cached` says which block holds the K/V that belongs to a hash. Not all is there: "
            "what was needed elsewhere has been evicted.",
            "Returns `(blocks, num_cached)`: the numbers of the blocks that the request's table "
            "begins with, as many as can be, and how many tokens these hold. The engine computes "
            "the K/V of all tokens behind those, and no other.",
            "Only whole blocks are taken, and the engine has to be able to say what comes after "
            "the last known token.",
            "Leave `hashes` and `cached` as they are.",
        ),
        args=(["6b2f", "91ce"], {"91ce": 0, "6b2f": 5}, 11, 4),
        result=([5, 0], 8),
    ),
    hints=(
        "The engine computes all that stands behind `num_cached`, and nothing in front of it. What "
        "becomes of a block in the middle that is not there?",
        "The logits of the last known token come out of computing it. How many blocks may be taken "
        "of a text of 8 tokens in blocks of 4, and how many of one of 9?",
        "Go through the hashes and stop at the first that is not in `cached`; go no further than "
        "block number (num_tokens - 1) // size.",
    ),
    right=(longest_match, while_something_is_left, by_its_length),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "the beginning is there",
            JUDGE.on(
                ([A, B], {A: 7, B: 3}, 11, 4),
                ([A, B, C], {D: 2, B: 9, A: 6}, 14, 4),
                ([A, B], {C: 1}, 9, 4),
                ([], {A: 1}, 3, 4),
            ),
        ),
        (
            "a gap",
            JUDGE.on(
                ([A, B, C], {A: 7, C: 3}, 14, 4),
                ([A, B, C], {C: 2, B: 8}, 13, 4),
                ([A, B, C, D], {D: 5, A: 9, B: 4}, 17, 4),
            ),
        ),
        (
            "all of it is there",
            JUDGE.on(
                ([A, B], {A: 7, B: 3}, 8, 4),
                ([A], {A: 7}, 4, 4),
                ([A, B, C], {A: 7, B: 3, C: 1}, 3, 1),
                ([A], {A: 7}, 1, 1),
                ([A, B], {A: 7, B: 3}, 9, 4),
            ),
        ),
        ("block 0", JUDGE.on(([A, B], {A: 0, B: 3}, 9, 4), ([A, B, C], {A: 4, B: 0}, 14, 4))),
        ("any text", JUDGE.on_drawn(any_text)),
    ),
    draw_call=named("hashes", "cached", "num_tokens", "size"),
    equivalent_mutants={
        "num_tokens at least 1": "it is at least 1",
        "size at least 1": "it is at least 1",
    },
)

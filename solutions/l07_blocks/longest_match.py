"""Exercise 7.3: the longest cached prefix of a request."""

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

from course.calling.plain_values import as_items, as_whole
from course.checks.comparing import Args, Comparison, a_kind, wrong_list
from course.exercise import Exercise, Misconception, Task
from course.format_values import named
from course.harness import returned_nothing

# --- right answers ------------------------------------------------------------------------------


def longest_match(
    hashes: list[str], cached: dict[str, int], num_tokens: int, size: int
) -> tuple[list[int], int]:
    """Return `(blocks, num_cached)`: the blocks that the table begins with, and their tokens."""
    # Attention needs the K/V of every token before, so a gap ends the match. At least one token has
    # to be computed for its logits, and a shared block is not written, so a match never covers the
    # block of the last token.
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


def all_cached(hashes: Sequence[str], cached: dict[str, int]) -> list[int]:
    return [cached[h] for h in hashes if h in cached]


def cut(blocks: list[int], num_tokens: int, size: int) -> list[int]:
    return blocks[: (num_tokens - 1) // size]


def counted(blocks: list[int], size: int) -> tuple[list[int], int]:
    return blocks, len(blocks) * size


def then(change: Callable[[list[int], int, list[str], int, int], Any]) -> Callable[..., Any]:
    """The right answer, passed through `change(blocks, num_cached, hashes, num_tokens, size)`."""
    return lambda hashes, cached, num_tokens, size: change(
        *longest_match(hashes, cached, num_tokens, size), hashes, num_tokens, size
    )


def takes_out(hashes: list[str], cached: dict[str, int], num_tokens: int, size: int) -> Any:
    found = longest_match(hashes, cached, num_tokens, size)
    for each in hashes[: len(found[0])]:
        del cached[each]
    return found


def wrong_part(value: Any) -> str:
    """What is wrong with the type of a result; "" if nothing is."""
    if value is None:
        return ""
    parts = as_items(value) or ()
    if len(parts) != 2:
        return "Return two values, the blocks and the number of tokens in them."
    blocks, num_cached = parts
    if any(isinstance(item, str) for item in as_items(blocks) or ()):
        return "These are the hashes; the table needs block numbers, which `cached` has."
    if wrong_list(blocks):
        return f"`blocks` comes first and is a list of block numbers, not {a_kind(blocks)}."
    if as_whole(num_cached) is None:
        return f"`num_cached` is a whole number of tokens, not {a_kind(num_cached)}."
    return ""


MISCONCEPTIONS = (
    Misconception(
        "wrong_type",
        "The result is the hashes and the number of tokens.",
        wrong_part,
        matches=wrong_part,
        examples=(
            then(lambda blocks, found, hashes, *rest: (hashes[: len(blocks)], found)),
            then(lambda blocks, found, *rest: (found, blocks)),
            then(lambda blocks, found, *rest: blocks),
        ),
    ),
    Misconception(
        "no_return",
        "Finding the blocks is enough; nothing has to be returned.",
        returned_nothing("longest_match", "blocks, num_cached"),
        matches=lambda value: value is None,
        examples=(lambda *args: None,),
    ),
    Misconception(
        "over_a_gap",
        "Every cached block can be used.",
        "The K/V in the gap is gone, and every token after it attends to that K/V: the match ends "
        "at the first block that is not cached.",
        lambda hashes, cached, num_tokens, size: counted(
            cut(all_cached(hashes, cached), num_tokens, size), size
        ),
    ),
    Misconception(
        "nothing_left",
        "A cached token never has to be computed.",
        "If every token is cached, none is computed, and no logits exist to sample from: leave the "
        "last block out, so that at least one token is computed.",
        lambda hashes, cached, num_tokens, size: counted(run(hashes, cached), size),
    ),
    Misconception(
        "half_a_block",
        "Only the last token has to be computed.",
        "Take only whole blocks: if the last block is shared too, the engine writes the last "
        "token's K/V into a block that other requests read.",
        lambda hashes, cached, num_tokens, size: (
            (found := run(hashes, cached)),
            min(len(found) * size, num_tokens - 1),
        ),
    ),
    Misconception(
        "last_always_left_out",
        "The last block that is found is computed again.",
        "A block is left out only where its tokens are the last ones: here a token after it is "
        "computed anyway, so the whole match counts.",
        lambda hashes, cached, num_tokens, size: counted(run(hashes, cached)[:-1], size),
        same_result=(
            lambda hashes, cached, num_tokens, size: counted(run(hashes[:-1], cached), size),
        ),
    ),
    Misconception("in_place", "Blocks that are found leave the cache.", examples=((takes_out),)),
)

# --- cases --------------------------------------------------------------------------------------

A, B, C, D = "6b2f", "91ce", "0d84", "f7a3"


def any_text(rng: random.Random) -> list[Args]:
    """Texts of which some blocks are cached, beside blocks of other texts."""
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
    "Go through the text from its first block on: where is the first block that is not cached, and "
    "which token is computed first?",
    evidence=[
        ([A, B, C], {C: 4, D: 2, A: 9, B: 6}, 12, 4),
        ([A, B, C], {C: 4, D: 2, A: 9, B: 6}, 15, 4),
        ([A, B, C, D], {D: 1, A: 7, C: 3}, 18, 4),
        ([A, B, C, D], {D: 1, B: 7, A: 5}, 16, 4),
        ([B, C], {C: 8, A: 3, B: 11}, 8, 4),
        ([B, C], {C: 8, A: 0}, 9, 4),
    ],
)

CASES = {
    "a cached prefix": [
        ([A, B], {A: 7, B: 3}, 11, 4),
        ([A, B, C], {D: 2, B: 9, A: 6}, 14, 4),
        ([A, B], {C: 1}, 9, 4),
        ([], {A: 1}, 3, 4),
    ],
    "a gap": [
        ([A, B, C], {A: 7, C: 3}, 14, 4),
        ([A, B, C], {C: 2, B: 8}, 13, 4),
        ([A, B, C, D], {D: 5, A: 9, B: 4}, 17, 4),
    ],
    "everything is cached": [
        ([A, B], {A: 7, B: 3}, 8, 4),
        ([A], {A: 7}, 4, 4),
        ([A, B, C], {A: 7, B: 3, C: 1}, 3, 1),
        ([A, B], {A: 7, B: 3}, 9, 4),
    ],
    "block 0": [([A, B], {A: 0, B: 3}, 9, 4), ([A, B, C], {A: 4, B: 0}, 14, 4)],
}

EXERCISE = Exercise(
    number=3,
    title="Find the longest cached prefix",
    minutes=8,
    points=3,
    task=Task(
        rules=(
            "A request has `num_tokens` tokens (at least 1). `hashes` are the hashes of its full "
            "blocks of `size` tokens, in order.",
            "`cached` maps a hash to the block that holds its K/V. Some blocks of a text may be "
            "missing, because they were evicted.",
            "Return `(blocks, num_cached)`: the cached blocks that the request's table begins "
            "with, as many as possible, and the number of tokens in them. The engine computes "
            "only the tokens after the first `num_cached`.",
            "Take only whole blocks, and leave the engine at least one token to compute, because "
            "it needs the last token's logits.",
            "Do not change `hashes` and `cached`.",
        ),
        args=(["6b2f", "91ce", "0d84"], {"91ce": 0, "6b2f": 5}, 14, 4),
        call='longest_match(hashes=["6b2f", "91ce", "0d84"],\n'
        '  cached={"91ce": 0, "6b2f": 5}, num_tokens=14, size=4)',
        steps=(
            "The first block's hash, 6b2f, is cached in block 5.",
            "The second block's hash, 91ce, is cached in block 0.",
            "The third block's hash, 0d84, is not cached, so the match has 2 blocks of 4 tokens.",
            "6 of the 14 tokens are left to compute.",
        ),
        result=([5, 0], 8),
    ),
    hints=(
        "The engine computes all tokens after the first `num_cached`, and no token before. What "
        "happens to a block in the middle that is not cached?",
        "The logits of the last token come from computing it. With blocks of 4, how many blocks "
        "may a text of 8 tokens take from the cache? And a text of 9?",
        "Go through the hashes and stop at the first one that is not in `cached`. Take at most "
        "`(num_tokens - 1) // size` blocks.",
    ),
    right=(longest_match, while_something_is_left, by_its_length),
    misconceptions=MISCONCEPTIONS,
    checks=(
        *((name, JUDGE.on(*cases)) for name, cases in CASES.items()),
        ("any text", JUDGE.on_drawn(any_text)),
    ),
    draw_call=named("hashes", "cached", "num_tokens", "size"),
    equivalent_mutants={
        "num_tokens at least 1": "it is at least 1",
        "size at least 1": "it is at least 1",
    },
)

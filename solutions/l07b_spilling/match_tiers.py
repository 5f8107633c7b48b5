"""Exercise 7b.1: the longest prefix in the pool and the host tier together."""

import random
from itertools import takewhile
from typing import Any

from course.calling.plain_values import as_items, as_whole
from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Misconception, Task
from course.format_values import named

# --- right answers ------------------------------------------------------------------------------


def match_tiers(
    hashes: list[str], device: dict[str, int], host: set[str], num_tokens: int, size: int
) -> tuple[list[int | None], int]:
    """Return `(blocks, num_cached)`, with None for each block to be loaded from the host."""
    # A gap is what neither tier has. The pool goes first, since its blocks need no copy, and it
    # may go on behind a block of the host: each block is looked up by itself.
    blocks: list[int | None] = []
    for block_hash in hashes[: (num_tokens - 1) // size]:
        if block_hash not in device and block_hash not in host:
            break
        blocks.append(device.get(block_hash))
    return blocks, len(blocks) * size


def by_its_length(hashes: Any, device: Any, host: Any, num_tokens: int, size: int) -> Any:
    known = [each in device or each in host for each in hashes[: (num_tokens - 1) // size]]
    length = [*known, False].index(False)
    return tuple(device.get(each) for each in hashes[:length]), size * length


def taken_while(hashes: Any, device: Any, host: Any, num_tokens: int, size: int) -> Any:
    blocks = run(hashes, dict.fromkeys(host) | device, (num_tokens - 1) // size)
    return [blocks, len(blocks) * size]


def run(hashes: Any, place_of: Any, most: int) -> list[Any]:
    return [place_of[each] for each in takewhile(place_of.__contains__, hashes[:most])]


# --- wrong ideas --------------------------------------------------------------------------------


def wrong_part(value: Any) -> str:
    """What is wrong with the form of a result; "" if nothing is."""
    parts = as_items(value) or ()
    if len(parts) == 2 and as_items(parts[0]) is not None and as_whole(parts[1]) is not None:
        return ""
    return "Return two values: the list of blocks, and the number of tokens in them."


def wrong(key: str, belief: str, idea: str, way: Any) -> Misconception:
    """`way` makes the blocks of (hashes, device, host as a dict of None, most blocks)."""

    def answer(hashes: Any, device: Any, host: Any, num_tokens: int, size: int) -> Any:
        blocks = way(hashes, device, dict.fromkeys(host), (num_tokens - 1) // size)
        return blocks, len(blocks) * size

    return Misconception(key, belief, idea, answer)


MISCONCEPTIONS = (
    Misconception("wrong_form", "The result is the blocks.", wrong_part, matches=wrong_part,
                  examples=(lambda *args: match_tiers(*args)[0],)),
    wrong("pool_only_first", "The host is for requests that find nothing in the pool.",
          "The pool has a beginning of this text and the host has more of it: look in the host "
          "also when the pool has found something.",
          lambda hashes, device, host, most: run(hashes, device, most) or run(hashes, host, most)),
    wrong("never_back_to_the_pool", "After the host's blocks the match ends.",
          "A block of the pool may stand behind one of the host: the match ends at the first block "
          "that neither tier has.",
          lambda hashes, device, host, most: (
              (own := run(hashes, device, most)) + run(hashes[:most][len(own) :], host, most))),
    wrong("loads_what_is_there", "Whatever the host has is loaded.",
          "This block is in the pool already, so nothing has to be copied: use the pool's block.",
          lambda hashes, device, host, most: run(hashes, device | host, most)),
    wrong("over_a_gap", "Every block that is found can be used.",
          "The match ends at the first block that neither tier has: every later token attends to "
          "the K/V that is missing there.",
          lambda hashes, device, host, most: [
              device.get(h) for h in hashes[:most] if h in device or h in host]),
    wrong("nothing_left", "A cached token never has to be computed.",
          "The last token has to be computed, for its logits: leave its block out.",
          lambda hashes, device, host, most: run(hashes, host | device, len(hashes))),
    Misconception(
        "counts_the_pool_only", "Tokens that are still to be loaded are not cached.",
        "`num_cached` counts the blocks to be loaded too: none of their tokens is computed.",
        lambda *args: ((got := match_tiers(*args)[0]), args[-1] * (len(got) - got.count(None)))),
)  # fmt: skip

# --- cases --------------------------------------------------------------------------------------

A, B, C, D = "6b2f", "91ce", "0d84", "f7a3"


def any_text(rng: random.Random) -> list[Args]:
    """Texts of which each block is in the pool, in the host, in both or in neither."""
    cases: list[Args] = []
    for _ in range(60):
        size, share = rng.choice((1, 2, 4, 16)), rng.choice((0.3, 0.6, 0.8))
        hashes = [f"{each:04x}" for each in rng.sample(range(1 << 16), rng.randint(0, 7))]
        device = {h: i for i, h in enumerate(hashes[::-1]) if rng.random() < share}
        host = {h for h in (*hashes, "0000") if rng.random() < share}
        num_tokens = max(1, len(hashes) * size + rng.choice((0, rng.randrange(size))))
        cases.append((hashes, device, host, num_tokens, size))
    return sorted(cases, key=lambda case: len(case[0]))


JUDGE = Comparison(
    match_tiers,
    MISCONCEPTIONS,
    "Go through the text block by block. Which tier has it, and is there one that neither has?",
    evidence=any_text(random.Random(0))[20:44],
)
CASES = {
    "the pool, then the host": (
        ([A, B], {A: 7, B: 0}, set[str](), 11, 4), ([A, B, C], {A: 7}, {B, C}, 14, 4),
        ([A, B, C], {A: 0, B: 3}, {A, B, C}, 14, 4), ([A, B], {C: 1}, {A, D}, 9, 4),
    ),
    "a gap": (([A, B, C], {A: 7, C: 3}, {B}, 14, 4), ([A, B, C, D], {B: 2}, {A, D}, 17, 4)),
    "all is cached": (([A, B], {A: 7}, {B}, 8, 4), ([A], {A: 0}, {A}, 4, 4), ([A], {}, {A}, 5, 4)),
}  # fmt: skip

EXERCISE = Exercise(
    number=1, title="Match over two tiers", minutes=8, points=3,
    task=Task(
        rules=(
            "As in `longest_match` of lesson 7, `hashes` are those of a request's full blocks of "
            "`size` tokens, and `device` maps a hash to the block of the pool that holds its K/V. "
            "`host` holds the hashes of the blocks that are copied in host memory.",
            "Return `(blocks, num_cached)`. `blocks` has an entry for each block that the request "
            "need not compute, as many as possible: its number if the pool has it, and None if it "
            "has to be loaded from the host.",
            "`num_cached` is the number of tokens in these blocks. Leave the engine at least one "
            "of the `num_tokens` tokens to compute. Do not change the arguments.",
        ),
        args=([A, B, C], {A: 5}, {A, B}, 14, 4),
        steps=(
            "6b2f is in block 5 of the pool. The host has a copy too, which is not needed.",
            "91ce is only in the host, so it has to be loaded.",
            "Neither tier has 0d84: the match has 2 blocks of 4 tokens.",
        ),
        result=([5, None], 8),
    ),
    hints=(
        "What ends the match of lesson 7? Which tiers have to lack a block now, for it to end?",
        "Look each block up by itself: in the pool first, then in the host. A copy is needed only "
        "if the pool does not have the block.",
        "Take the loop of `longest_match`. Stop where a hash is in neither; otherwise append "
        "`device.get(block_hash)`, which is None if the pool does not have it.",
    ),
    right=(match_tiers, by_its_length, taken_while), misconceptions=MISCONCEPTIONS,
    checks=(*((name, JUDGE.on(*cases)) for name, cases in CASES.items()),
            ("any text", JUDGE.on_drawn(any_text)),),
    draw_call=named("hashes", "device", "host", "num_tokens", "size"),
    equivalent_mutants=dict.fromkeys(("num_tokens at least 1", "size at least 1"), "it is"),
)  # fmt: skip

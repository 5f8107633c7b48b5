"""Exercise 7.3: by what a block is found."""

import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_items, kind_of
from course.checks.comparing import a_kind
from course.exercise import Exercise, Misconception
from course.harness import returned_nothing
from course.task import Task
from solutions.l07_blocks._hashing import Group, SameAndOther, draw_call, ends
from solutions.l07_blocks._wrong_hashes import with_a_number_of_its_own, with_hash, with_the_rest

# --- right answers ------------------------------------------------------------------------------


def block_hashes(tokens: list[int], size: int, salt: str) -> list[str]:
    """Return a hash for each full block of `tokens`, which stands for everything up to its end."""
    # K/V depends on all tokens before, so the parent's hash goes into each block's: it stands for
    # them. What is not full has none: its K/V is not final. `repr` keeps 1, 23 and 12, 3 apart, and
    # hashlib gives the same in every process, which Python's own hash() does not.
    hashes: list[str] = []
    parent = ""
    for end in range(size, len(tokens) + 1, size):
        block = list(tokens[end - size : end])
        parent = hashlib.sha256(repr((parent, salt, block)).encode()).hexdigest()
        hashes.append(parent)
    return hashes


def salted_once(tokens: list[int], size: int, salt: str) -> Any:
    """As vLLM does it: the salt is in the first block, and so in all that come of it."""
    hashes, parent = [], "salt:" + hashlib.md5(salt.encode()).hexdigest()
    for number in range(len(tokens) // size):
        block = ",".join(map(str, tokens[number * size : (number + 1) * size]))
        parent = hashlib.md5(f"{parent}|{block}".encode()).hexdigest()
        hashes.append(parent)
    return hashes


def of_the_whole_beginning(tokens: list[int], size: int, salt: str) -> Any:
    beginnings = [tokens[: (i + 1) * size] for i in range(len(tokens) // size)]
    return tuple(hashlib.sha1(json.dumps([salt, each]).encode()).hexdigest() for each in beginnings)


# --- wrong ideas --------------------------------------------------------------------------------

Says = Callable[[list[int], int, str, int], Any]


def hashed(says: Says) -> Callable[[list[int], int, str], list[str]]:
    """A hash of what is said of each full block, given the text and where the block ends."""
    return lambda tokens, size, salt: [
        hashlib.sha256(repr(says(tokens, size, salt, end)).encode()).hexdigest()
        for end in ends(tokens, size)
    ]


def mistaken(key: str, belief: str, idea: str, *says: Says) -> Misconception:
    answer, *same_result = map(hashed, says)
    return Misconception(key, belief, idea, answer, same_result=same_result)


def as_numbers(tokens: list[int], size: int, salt: str) -> Any:
    return [int(each, 16) for each in block_hashes(tokens, size, salt)]


def type_of_the_first_other(value: Any) -> str:
    """Of what is no string among the items; "" where all are."""
    other = next((item for item in as_items(value) or () if not isinstance(item, str)), "")
    return "" if other == "" else getattr(other, "type_name", None) or kind_of(other)


FORMS = (
    Misconception(
        "no_return",
        "The hashes are computed.",
        returned_nothing("block_hashes"),
        matches=lambda value: value is None,
        examples=(lambda *args: None,),
    ),
    Misconception(
        "not_a_list",
        "The text has a hash.",
        lambda value: f"The answer is a list of strings, one for each block, not {a_kind(value)}.",
        matches=lambda value: as_items(value) is None,
        examples=(lambda *args: (block_hashes(*args) or [""])[-1],),
    ),
    Misconception(
        "not_strings",
        "A hash is a number.",
        lambda value: (
            "A hash is a string here, so that it means the same in every process and file; this "
            f"one is of the type {type_of_the_first_other(value)}."
        ),
        matches=lambda value: type_of_the_first_other(value) != "",
        examples=((as_numbers),),
    ),
)
SEPARATORS = (",", " ", "|", ":", "-")


def joined(between: str) -> Says:
    """Salt and tokens joined to one string, with this between any two."""
    return lambda tokens, size, salt, end: between.join([salt, *map(str, tokens[:end])])


IDEAS = (
    mistaken(
        "no_parent",
        "Same tokens, same K/V.",
        "The same tokens behind another beginning have other K/V, since they attend to it: the "
        "parent's hash has to be in each block's.",
        lambda tokens, size, salt, end: (salt, tokens[end - size : end]),
    ),
    mistaken(
        "no_salt",
        "The tokens are the text.",
        "The salt is left out: it stands for what else makes K/V differ, such as an adapter, so "
        "two requests would share K/V that is not the same.",
        lambda tokens, size, salt, end: tokens[:end],
    ),
    mistaken(
        "place_for_parent",
        "Same tokens at the same place.",
        "The place says how many tokens stand before the block, not which: their K/V goes into "
        "this block's, so their hash has to.",
        lambda tokens, size, salt, end: (salt, end, tokens[end - size : end]),
    ),
    mistaken(
        "parent_s_tokens",
        "The block before it is its parent.",
        "The block before says nothing of those before that: take the parent's hash, which stands "
        "for all of them, and not its tokens.",
        lambda tokens, size, salt, end: (salt, tokens[max(0, end - 2 * size) : end]),
    ),
    mistaken(
        "only_before",
        "The parent's hash says who it is.",
        "The block's own tokens are left out: two texts that differ in this very block would "
        "share it.",
        lambda tokens, size, salt, end: (salt, tokens[: end - size], end),
    ),
    mistaken(
        "whole_text",
        "The prompt has a hash, and each block its number.",
        "What stands behind a block does not change its K/V: with the whole text in its hash, "
        "only the very same prompt finds it.",
        lambda tokens, size, salt, end: (salt, tokens, end),
    ),
    mistaken(
        "order_lost",
        "The same tokens.",
        "The order of the tokens is lost on the way, and K/V depends on it: a sum, a set or a "
        "sorted list will not do.",
        lambda tokens, size, salt, end: (
            salt,
            [sorted(tokens[e - size : e]) for e in range(size, end + 1, size)],
        ),
    ),
    mistaken(
        "runs_together",
        "Joined to one string.",
        "Without something in between, 1 and 23 are joined to what 12 and 3 are: keep the tokens "
        "apart, and the salt from them.",
        lambda tokens, size, salt, end: (salt, "".join(map(str, tokens[:end]))),
    ),
    mistaken(
        "salt_among_tokens",
        "Commas keep all of it apart.",
        "A salt is any string, one with numbers and commas too, and joined as if it were a token "
        "it reads like tokens: `repr` of a tuple keeps the two apart.",
        joined(","),
    ),
    mistaken(
        "cut_to_a_byte",
        "Tokens are bytes.",
        "There are more than 256 tokens in a vocabulary: cut to a byte, different ones look alike.",
        lambda tokens, size, salt, end: (salt, [token % 256 for token in tokens[:end]]),
    ),
    Misconception(
        "partial_block",
        "The rest is a block too.",
        "The last block is not full, and what it holds will still change: found by such a hash, "
        "it would be written while others read it.",
        with_the_rest,
    ),
)
CHANGES = Misconception(
    "not_the_same",
    "A hash is a number that no other block has.",
    "Asked again, the same text gets other hashes: what was published under the first ones is "
    "never found again.",
    examples=(with_a_number_of_its_own,),
)
WEAK = Misconception(
    "word_sized",
    "Python has a `hash()`.",
    lambda bits: (
        f"{bits} bits are too few, since colliding texts can be worked out: take a whole digest of "
        "`hashlib`, and not Python's own `hash()`, which differs in each process for a string."
    ),
    examples=((with_hash),),
)

# --- cases --------------------------------------------------------------------------------------


def any_texts(rng: random.Random) -> list[Group]:
    """Texts that branch off from one another, with a few salts; tokens of large vocabularies."""
    groups: list[Group] = []
    for _ in range(12):
        size, most = rng.choice((1, 2, 3, 4)), rng.choice((3, 65, 50_257))
        text = [rng.randrange(most) for _ in range(rng.randint(size, 4 * size + 2))]
        group = [(text, size, "")]
        for _ in range(4):
            tokens, _, salt = rng.choice(group)
            at = rng.randrange(len(tokens))
            tail = [rng.randrange(most) for _ in range(rng.randint(0, 2 * size))]
            changed = [*tokens[:at], (tokens[at] + rng.choice((0, 1, 256))) % most]
            changed += tokens[at + 1 :] if rng.random() < 0.5 else tail
            group.append((changed, size, rng.choice((salt, salt, "", "adapter", "0"))))
        groups.append(group)
    return groups


def many_texts(rng: random.Random) -> list[tuple[list[int], int, str]]:
    """Many texts of one long block, for what their hashes have in common."""
    return [([rng.randrange(50_257) for _ in range(24)], 24, "") for _ in range(80)]


EVIDENCE: list[Group] = [
    [([5, 6, 7, 8, 5, 6], 2, ""), ([7, 8, 5, 6, 7, 8], 2, ""), ([5, 6, 5, 6, 5, 6], 2, "")],
    [([1, 2, 3, 4, 9], 2, ""), ([1, 2, 3, 4], 2, "x"), ([2, 1, 3, 4, 5, 6], 2, "")],
    [([1, 2, 3, 4, 5, 6, 7, 8], 2, ""), ([1, 2, 9, 4, 5, 6, 7, 8], 2, ""),
     ([9, 2, 3, 4, 5, 6, 7, 8], 2, "")],
    [([12, 3], 2, ""), ([1, 23], 2, ""), ([300, 3], 2, ""), ([44, 3], 2, ""), ([3, 12], 2, "")],
    [([1, 23], 2, "7"), ([71, 23], 2, ""), ([1, 23, 1, 23], 2, "7")],
    [([5, 65_580], 2, ""), ([5, 44], 2, ""), ([5, 7], 2, "3"), ([5, 73], 2, "")],
]  # fmt: skip
LIKE_TOKENS = [
    (tokens, 2, salt)
    for between in SEPARATORS
    for tokens, salt in (([3, 4], between.join("x12")), ([1, 2], between.join("34x")))
]
LONG = [*range(1040)]
ONE_OTHER = [*LONG[:600], 7, *LONG[601:]]
JUDGE = SameAndOther(FORMS, IDEAS, CHANGES, WEAK, EVIDENCE)

ALL_BEFORE = "all tokens before, named once more, say the same"

EXERCISE = Exercise(
    number=3,
    title="By what a block is found",
    minutes=8,
    points=3,
    part="block_hashes",
    task=Task(
        signature="block_hashes(tokens: list[int], size: int, salt: str) -> list[str]",
        rules=(
            "`tokens` are a text's token ids, whole numbers from 0, in blocks of `size`. `salt` is "
            "a string for all else that makes K/V differ: another adapter, say, has another salt. "
            "No salt is itself such a hash.",
            "The result has one string for each full block, in order.",
            "Two blocks of this size get the same string exactly when their K/V is the same in "
            "every layer: here, in another text, in another process, tomorrow.",
            "A string stands for at least 128 bits, so that two texts with the same one cannot be "
            "worked out: `hashlib.sha256` gives 256.",
        ),
        args=([5, 6, 7], 4, ""),
        result=[],
    ),
    hints=(
        "The K/V of a token depends on what it attends to. Which tokens does the K/V of the "
        "third block depend on?",
        "A hash stands for what went into it. If the first block's hash goes into the second's, "
        "and that into the third's, what does the third one stand for?",
        'Begin with `parent = ""`. For each full block make one text of parent, salt and tokens '
        "(`repr` of a tuple will do), encode it, and take `hashlib.sha256(...).hexdigest()`: that "
        "is the block's hash, and the parent of the next.",
    ),
    right=(block_hashes, salted_once, of_the_whole_beginning),
    misconceptions=(*FORMS, *IDEAS, CHANGES, WEAK),
    checks=(
        (
            "full blocks alone",
            JUDGE.on(
                [([5, 6, 7, 8], 2, ""), ([5, 6, 7, 8, 9], 2, ""), ([5, 6], 2, "")],
                [([5, 6, 7], 4, ""), ([], 4, ""), ([5, 6, 7, 8], 4, "")],
            ),
        ),
        (
            "the same block behind another beginning",
            JUDGE.on(
                [([1, 2, 7, 8], 2, ""), ([3, 4, 7, 8], 2, ""), ([1, 2, 7, 8, 1, 2], 2, "")],
                [([1, 2, 3, 4, 5, 6], 2, ""), ([9, 2, 3, 4, 5, 6], 2, "")],
                [([7, 7, 7, 7], 1, "")],
            ),
        ),
        (
            "the same text behind another salt",
            JUDGE.on(
                [([1, 2, 3, 4], 2, ""), ([1, 2, 3, 4], 2, "adapter"), ([1, 2], 2, "")],
                *(
                    [([1, 2, 3, 4], 2, a), ([1, 2, 3, 4], 2, b)]
                    for a, b in (("A", "a"), ("x", "x "), ("é", "è"))
                ),
            ),
        ),
        (
            "large blocks",
            JUDGE.on(
                [
                    ([*range(32)], 16, ""),
                    ([*range(15), 99, *range(16, 32)], 16, ""),
                    ([*range(31)], 16, ""),
                ],
                [([first, *range(1, 128)], 16, "") for first in (0, 128)],
            ),
        ),
        (
            "tokens that look alike",
            JUDGE.on(
                [([1, 2], 2, ""), ([2, 1], 2, ""), ([3, 4, 1, 2], 2, ""), ([4, 3, 1, 2], 2, "")],
                [([0, 3], 2, ""), ([1, 2], 2, ""), ([2, 2], 2, ""), ([1, 1], 2, "")],
                [([12, 3], 2, ""), ([1, 23], 2, "")],
                [([123_456, 7], 2, ""), ([12_345, 600_007], 2, ""), ([12_345, 67], 2, "")],
                [([12, 3], 2, ""), ([2, 3], 2, "1")],
                [([1, 2], 2, "3"), ([1, 23], 2, "")],
                [([5, 300], 2, ""), ([5, 44], 2, ""), ([5, 50_256], 2, ""), ([5, 55_296], 2, "")],
                [([5, 65_580], 2, ""), ([5, 44], 2, "")],
                [([1, 2, 3, 4], 2, "x"), *LIKE_TOKENS],
            ),
        ),
        ("any texts", JUDGE.on_drawn(any_texts)),
        ("many texts", lambda ask, rng: JUDGE.strong(ask, many_texts(rng))),
        ("a very long text", JUDGE.on([(LONG, 520, ""), (ONE_OTHER, 520, "")])),
    ),
    draw_call=draw_call,
    equivalent_mutants={
        "size at least 1": "it is at least 1",
        "block_hashes(): block = list(tokens[{end - size: => :}end])": ALL_BEFORE,
        "salted_once(): block = ','.join(map(str, tokens[{number * size: => :}(number + "
        "1) * size]))": ALL_BEFORE,
        "parent = hashlib.sha256(repr((parent * 100 + salt, block)).encode()).hexdigest()": (
            "a hundred times the parent's hash stands for the same"
        ),
    },
)

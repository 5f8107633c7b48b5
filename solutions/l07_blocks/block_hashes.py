"""Exercise 7.2: the hash by which a block is found."""

import hashlib
import json
import uuid
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_items, kind_of
from course.checks.comparing import a_kind
from course.exercise import Exercise, Misconception, Task
from course.harness import returned_nothing
from solutions.l07_blocks._hash_cases import EVIDENCE, GROUPS, any_texts, many_texts
from solutions.l07_blocks._hashing import SameAndOther, draw_call, ends

# --- right answers ------------------------------------------------------------------------------


def block_hashes(tokens: list[int], size: int, salt: str) -> list[str]:
    """Return one hash for each full block of `tokens`."""
    # K/V depends on all tokens before, so each hash includes the parent's, which stands for them.
    # `repr` keeps [1, 23] and [12, 3] apart, and hashlib gives the same hash in every process.
    hashes: list[str] = []
    parent = ""
    for end in range(size, len(tokens) + 1, size):
        block = list(tokens[end - size : end])
        parent = hashlib.sha256(repr((parent, salt, block)).encode()).hexdigest()
        hashes.append(parent)
    return hashes


def salted_once(tokens: list[int], size: int, salt: str) -> Any:
    """As vLLM does it: the salt is only in the first block, and so in all that follow it."""
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
"""(tokens, size, salt, the end of a full block) -> what the block's hash is made of."""


def hashed(says: Says) -> Callable[[list[int], int, str], list[str]]:
    """The exercise's function that hashes what `says` returns for each full block."""
    return lambda tokens, size, salt: [
        hashlib.sha256(repr(says(tokens, size, salt, end)).encode()).hexdigest()
        for end in ends(tokens, size)
    ]


def mistaken(key: str, belief: str, idea: str, says: Says) -> Misconception:
    return Misconception(key, belief, idea, hashed(says))


def with_hash(tokens: list[int], size: int, salt: str) -> Any:
    return [str(hash((salt, tuple(tokens[:end])))) for end in ends(tokens, size)]


def with_the_rest(tokens: list[int], size: int, salt: str) -> list[str]:
    starts = range(0, len(tokens), size)
    return [hashlib.sha256(repr((salt, tokens[: s + size])).encode()).hexdigest() for s in starts]


def with_random_ids(tokens: list[int], size: int, salt: str) -> Any:
    return [uuid.uuid4().hex for _ in ends(tokens, size)]


def as_numbers(tokens: list[int], size: int, salt: str) -> Any:
    return [int(each, 16) for each in block_hashes(tokens, size, salt)]


def wrong_type(value: Any) -> str:
    """What is wrong with the type of a result; "" if nothing is."""
    if as_items(value) is None:
        return f"Return a list of strings, one for each full block, not {a_kind(value)}."
    for item in as_items(value) or ():
        if not isinstance(item, str):
            name = getattr(item, "type_name", None) or kind_of(item)
            return (
                f"A hash is a string here, the same in every process; this one is of type {name}."
            )
    return ""


FORMS = (
    Misconception(
        "no_return",
        "Computing the hashes is enough; nothing has to be returned.",
        returned_nothing("block_hashes"),
        matches=lambda value: value is None,
        examples=(lambda *args: None,),
    ),
    Misconception(
        "not_strings",
        "A hash is a number.",
        wrong_type,
        matches=lambda value: bool(wrong_type(value)),
        examples=(as_numbers, lambda *args: (block_hashes(*args) or [""])[-1]),
    ),
)

IDEAS = (
    mistaken(
        "no_parent",
        "The same tokens have the same K/V.",
        "The same tokens after another prefix have different K/V, because they attend to it: put "
        "the parent's hash into each block's hash.",
        lambda tokens, size, salt, end: (salt, tokens[end - size : end]),
    ),
    mistaken(
        "no_salt",
        "The tokens determine the K/V.",
        "The salt is missing: it stands for everything else that changes K/V, such as an adapter, "
        "and without it two requests share K/V that is not the same.",
        lambda tokens, size, salt, end: tokens[:end],
    ),
    mistaken(
        "place_for_parent",
        "The same tokens at the same position have the same K/V.",
        "The position says how many tokens are before the block, but not which ones: put the "
        "parent's hash into each block's hash.",
        lambda tokens, size, salt, end: (salt, end, tokens[end - size : end]),
    ),
    mistaken(
        "whole_text",
        "A block is identified by the whole prompt's hash and its own index.",
        "The tokens after a block do not change its K/V: with the whole text in the hash, only the "
        "identical prompt finds the block.",
        lambda tokens, size, salt, end: (salt, tokens, end),
    ),
    mistaken(
        "runs_together",
        "I join the numbers into one string.",
        'Without separators, [1, 23] and [12, 3] both become "123": keep the tokens apart, and the '
        "salt apart from them.",
        lambda tokens, size, salt, end: (salt, "".join(map(str, tokens[:end]))),
    ),
    Misconception(
        "partial_block",
        "The remaining tokens are a block too.",
        "The last block is not full and the request still writes into it, so another request must "
        "not find it: leave it out.",
        with_the_rest,
    ),
)
CHANGES = Misconception(
    "not_the_same",
    "A hash is a unique id.",
    "The same text gets different hashes the second time, so the blocks registered under the first "
    "ones are never found again.",
    examples=(with_random_ids,),
)
WEAK = Misconception(
    "word_sized",
    "Python has a `hash()`.",
    lambda bits: (
        f"These hashes have at most {bits} bits, and the task asks for 128: take a whole digest of "
        "`hashlib`, and not Python's own `hash()`, which differs between processes for strings."
    ),
    examples=((with_hash),),
)

# --- cases --------------------------------------------------------------------------------------

JUDGE = SameAndOther(FORMS, IDEAS, CHANGES, WEAK, EVIDENCE)

ALL_BEFORE = "all tokens before, named once more, say the same"

EXERCISE = Exercise(
    number=2,
    title="Hash the blocks",
    minutes=8,
    points=3,
    task=Task(
        rules=(
            "`tokens` are a text's token ids, whole numbers from 0, in blocks of `size`.",
            "`salt` is a string that stands for everything else that changes K/V, such as an "
            "adapter. It is never equal to a block's hash.",
            "Return one string for each full block, in order. Do not change `tokens`.",
            "Two blocks have the same string exactly when they hold the same K/V: in the same "
            "text, in another text, in another process, and tomorrow.",
            "A string stands for at least 128 bits, so that two texts do not collide by accident. "
            "Against an attacker, use `hashlib.sha256`.",
        ),
        args=([7, 8, 7, 8, 9], 2, ""),
        call='block_hashes(tokens=[7, 8, 7, 8, 9], size=2, salt="")',
        steps=(
            "The full blocks are `[7, 8]` and `[7, 8]`. The last token, 9, is in a block that is "
            "not full, so it gets no hash.",
            "The first block has no block before it. Its hash is the SHA-256 of its tokens and the "
            "salt.",
            "The second block has the same tokens, but 7 and 8 come before it, so its K/V is "
            "different. It needs another hash.",
        ),
        result=block_hashes([7, 8, 7, 8, 9], 2, ""),
    ),
    hints=(
        "The K/V of a token depends on the tokens that it attends to. Which tokens does the K/V "
        "of the third block depend on?",
        "A hash stands for everything that went into it. If the first block's hash goes into the "
        "second's, and that one into the third's, what does the third hash stand for?",
        'Begin with `parent = ""`. For each full block, make one string of the parent, the salt '
        "and the block's tokens (`repr` of a tuple does it), encode it, and take "
        "`hashlib.sha256(...).hexdigest()`. This is the block's hash, and the parent of the next.",
    ),
    right=(block_hashes, salted_once, of_the_whole_beginning),
    misconceptions=(*FORMS, *IDEAS, CHANGES, WEAK),
    checks=(
        *((name, JUDGE.on(*groups)) for name, groups in GROUPS.items()),
        ("any texts", JUDGE.on_drawn(any_texts)),
        ("many texts", lambda ask, rng: JUDGE.strong(ask, many_texts(rng))),
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

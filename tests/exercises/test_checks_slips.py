"""Slips in answers to exercises that once passed, or were told another cause than theirs.

And what an answer may return that is too long to show, in any exercise.
"""

import asyncio
import linecache
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from answers import IDS, worked

from course.registry import exercise
from nanogpt.parts import plain_values

sample_rows, pack, evict = worked("l03.sample_rows"), worked("l03.pack"), worked("l04.evict")
judge, fit = worked("l04.judge"), worked("l05.fit")
vote, clean_up = worked("l06.local_vote"), worked("l06.clean_up")
accept, expected_tokens = worked("l08.accept"), worked("l08.expected_tokens")
allocate, block_hashes = worked("l09.allocate"), worked("l09.block_hashes")
writable, longest_match = worked("l09.writable"), worked("l09.longest_match")
SEEDS = range(5)

# --- lessons 3 to 5 -------------------------------------------------------------------------------


def sampled_by_identity(num_new: list[int], cursors: list[int], num_known: list[int]) -> list[int]:
    rows = enumerate(zip(num_new, cursors, num_known, strict=True))
    return [row for row, (new, cursor, known) in rows if cursor + new is known]


def sampled_as_a_set(*args: Any) -> list[int]:
    return list(set(sample_rows(*args)))


def views_where_little_goes(
    k: torch.Tensor, v: torch.Tensor, window: int, sinks: int
) -> tuple[torch.Tensor, torch.Tensor]:
    if sinks == 0 and window < k.shape[1] < 2 * window:
        return k[:, -window:], v[:, -window:]
    return evict(k, v, window, sinks)


def borders_changed_places(past_lens: list[int], num_new: list[int]) -> Any:
    cu_q, cu_k, mask = pack(past_lens, num_new)
    return cu_k, cu_q, mask


def or_a_window_of(right: Callable[..., Any], most: int) -> Callable[..., Any]:
    """The right answer, to which no window is a long one."""
    return lambda *args: right(*args[:2], most if args[2] is None else args[2], args[3])


def through_single_precision(k: torch.Tensor, v: torch.Tensor, window: int, sinks: int) -> Any:
    return [x.to(k.dtype) for x in evict(k.float(), v.float(), window, sinks)]


def with_v_from_k(k: torch.Tensor, v: torch.Tensor, window: int, sinks: int) -> Any:
    kept = evict(k, v, window, sinks)[0]
    return kept, -kept


def never_falls(points: list[tuple[int, float]]) -> tuple[float, float]:
    slope, base = fit(points)
    return max(slope, 0.0), base


# --- lesson 6 ------------------------------------------------------------------------------------


def to_two_digits(target: int, step: int, layer: int, num_layers: int) -> int:
    return int(target == step and round(layer / num_layers, 2) <= 0.9)


def by_identity(target: int, step: int, layer: int, num_layers: int) -> int:
    return int(target is step and 10 * layer <= 9 * num_layers)


def is_true(wish: int) -> Any:
    agreed = yield ("max", wish)
    if agreed is True:
        yield ("leave",)


async def is_async(wish: int) -> Any:
    if (yield ("max", wish)):
        yield ("leave",)


async def is_a_coroutine(wish: int) -> Any:
    await asyncio.sleep(0)
    return ("max", wish)


def inner_is_yielded(wish: int) -> Any:
    yield worked("l06.checkpoint")(wish)


def inner_is_not_called(wish: int) -> Any:
    return lambda: worked("l06.checkpoint")(wish)


# --- lesson 8 ------------------------------------------------------------------------------------


def kept_if(keep: Callable[[Any, Any, int, float], bool]) -> Callable[..., Any]:
    """The right token, but for which drafts stay."""

    def answer(p: Any, q: Any, token: int, u: float, v: float) -> Any:
        return (True, token) if keep(p, q, token, u) else accept(p, q, token, math.inf, v)

    return answer


def draws_itself(p: Any, q: Any, token: int, u: float, v: float) -> Any:
    return accept(p, q, token, float(np.random.random()), float(np.random.random()))


def closed_with_numpy(p: float, k: int) -> float:
    with np.errstate(invalid="ignore"):
        return float((1 - np.float64(p) ** (k + 1)) / (1 - np.float64(p)))


def no_return_where_it_goes(p: Any, q: Any, token: int, u: float, v: float) -> Any:
    return (True, token) if u * q[token] < p[token] else None


# --- lesson 9 ------------------------------------------------------------------------------------


def by_key(key: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda blocks: [b.id for b in sorted(blocks, key=key) if b.count == 0]


def hashed(says: Callable[[Any, str], Any]) -> Callable[..., Any]:
    """What is said of the tokens up to the end of each block, and of the salt, as it is."""
    return lambda tokens, size, salt: [
        repr(says(tokens[:end], salt)) for end in range(size, len(tokens) + 1, size)
    ]


def ascii_of(salt: str) -> bytes:
    return salt.encode("ascii", "ignore")


def padded_number(tokens: Any, salt: str) -> Any:
    return salt, "".join(f"{token:05}" for token in tokens)


def disguised(up: Callable[[int], str]) -> Callable[..., Any]:
    return lambda tokens, size, salt: [
        up(hash((salt, *tokens[:end]))) for end in range(size, len(tokens) + 1, size)
    ]


def if_not_new(table: Any, counts: Any, index: int, free: Any) -> Any:
    new = free[0] if counts[table[index]] > 1 else None
    if not new:
        return table, None
    return [*table[:index], new, *table[index + 1 :]], (table[index], new)


def a_slice_below_0(num_blocks: int, num_tokens: int, size: int, free: Any) -> Any:
    more = math.ceil(num_tokens / size) - num_blocks
    return None if more > len(free) else free[:more]


WRONG = [
    ("l03.sample_rows", sampled_by_identity, None),
    ("l03.sample_rows", sampled_as_a_set, "order"),
    ("l04.evict", views_where_little_goes, "view"),
    ("l03.pack", borders_changed_places, "changed_places"),
    ("l04.visible", or_a_window_of(worked("l04.visible"), 999), None),
    ("l04.held", or_a_window_of(worked("l04.held"), 999), None),
    ("l04.evict", through_single_precision, None),
    ("l04.evict", with_v_from_k, None),
    ("l04.judge", lambda *args: (judge(*args)[0], math.nan), None),
    ("l05.fit", never_falls, None),
    ("l06.local_vote", to_two_digits, "rounded"),
    ("l06.local_vote", by_identity, None),
    ("l06.checkpoint", is_true, "never_leaves"),
    ("l06.checkpoint", is_async, "is_async"),
    ("l06.checkpoint", is_a_coroutine, "is_async"),
    ("l06.checkpoint", inner_is_yielded, "no_from"),
    ("l06.checkpoint", inner_is_not_called, "not_a_generator"),
    ("l08.accept", kept_if(lambda p, q, t, u: u < round(p[t] / q[t], 2)), None),
    ("l08.accept", kept_if(lambda p, q, t, u: u < round(p[t] / q[t], 3)), None),
    ("l08.accept", draws_itself, "remembers"),
    ("l08.accept", no_return_where_it_goes, "no_return"),
    ("l08.expected_tokens", closed_with_numpy, "divides_by_zero"),
    ("l08.expected_tokens", lambda p, k: math.nan, "not_a_number"),
    ("l08.expected_tokens", lambda p, k: -math.inf, "not_finite"),
    ("l08.expected_tokens", lambda p, k: 10**5000, "not_a_number"),
    ("l09.evict_order", by_key(lambda b: 1000 * b.last_used - b.depth), None),
    ("l09.block_hashes", hashed(lambda tokens, salt: (tokens[-112:], salt)), None),
    ("l09.block_hashes", hashed(lambda tokens, salt: (tokens, salt.lower())), None),
    ("l09.block_hashes", hashed(lambda tokens, salt: (tokens, salt.strip())), None),
    ("l09.block_hashes", hashed(lambda tokens, salt: (tokens, ascii_of(salt))), None),
    ("l09.block_hashes", hashed(padded_number), None),
    ("l09.block_hashes", disguised(lambda n: f"{n % 2**64:064x}"), "word_sized"),
    ("l09.block_hashes", disguised(lambda n: 4 * f"{n % 2**64:016x}"), "word_sized"),
    ("l09.block_hashes", disguised(lambda n: f"sha:{n % 2**64:016x}"), "word_sized"),
    ("l09.block_hashes", disguised(lambda n: str(abs(n)).translate({48: "x"})), "word_sized"),
    ("l09.writable", if_not_new, None),
    ("l09.writable", lambda *args: writable(*args) if args[1][2] == 1 else None, "no_return"),
    ("l09.longest_match", lambda *args: longest_match(*args) if len(args[0]) > 2 else None,
     "no_return"),
    ("l09.allocate", lambda *args: False if allocate(*args) is None else allocate(*args),
     "not_a_list"),
    ("l09.allocate", lambda *args: -1 if allocate(*args) is None else allocate(*args),
     "not_a_list"),
    ("l09.allocate", a_slice_below_0, "below_0"),
]  # fmt: skip


@pytest.mark.parametrize(("exercise_id", "answer", "key"), WRONG)
def test_a_slip_is_refused_for_its_own_reason(
    exercise_id: str, answer: Callable[..., Any], key: str | None
) -> None:
    for seed in SEEDS:
        report = exercise(exercise_id).check(answer, seed=seed)
        assert (report.status, report.misconception) == ("failed", key), report.text()
        assert " at 0x" not in report.text()


@pytest.mark.parametrize("answer", [False, -1])
def test_what_stands_for_too_few_blocks_is_told_that_none_does(answer: Any) -> None:
    report = exercise("l09.allocate").check(lambda *args: answer)
    assert report.idea.startswith(
        "The answer is a list of blocks, or None where too few are free; this is the "
    )


def test_a_result_is_shown_as_it_was_returned() -> None:
    report = exercise("l09.allocate").check(lambda *args: tuple(args[-1]))
    assert dict(report.example)["got"] == "(7, 3, 9, 1)"


def test_an_error_on_one_case_does_not_end_the_search_for_the_cause() -> None:
    """It takes all in the end: that it does so where some are left is told by what comes after."""

    def takes_all_but_once(num_blocks: int, num_tokens: int, size: int, free: Any) -> Any:
        if (num_blocks, num_tokens) == (0, 3):  # the first of the evidence
            raise ValueError
        return allocate(num_blocks, num_tokens, size, free) if size == 16 else free

    report = exercise("l09.allocate").check(takes_all_but_once)
    assert (report.status, report.misconception) == ("failed", "all_that_is_free")


# --- what is too long to show --------------------------------------------------------------------


class Unshowable:
    """What cannot be written out."""

    def __repr__(self) -> str:
        raise RuntimeError("no words for it")


class Wordy:
    """What is written out at length."""

    def __repr__(self) -> str:
        return "wordy" * 20_000


HUGE: dict[str, Any] = {
    "int": 10**5000,
    "negative": -(10**5000),
    "text": "x" * 100_000,
    "list": [*range(10_000)],
    "ints": [10**5000, 10**5000],
    "texts": ["x" * 100_000, "y" * 100_000],
    "entries": {10**5000: "x" * 100_000},
    "fraction": Fraction(10**5000),
    "unshowable": Unshowable(),
    "wordy": [Wordy(), Wordy()],
    "name": type("N" * 100_000, (), {})(),
}


def in_place_of_a_part(value: Any, part: Any) -> Any:
    """What is like the value, but for its first part, which is this one."""
    if isinstance(value, list | tuple) and value:
        return type(value)([part, *value[1:]])
    if isinstance(value, dict) and value:
        return value | {next(iter(value)): part}
    return part


@pytest.mark.parametrize("what", HUGE)
@pytest.mark.parametrize("exercise_id", IDS)
def test_no_report_is_long_whatever_an_answer_returns(exercise_id: str, what: str) -> None:
    right = worked(exercise_id)
    for put in (lambda value, huge: huge, in_place_of_a_part):
        report = exercise(exercise_id).check(lambda *args, put=put: put(right(*args), HUGE[what]))
        assert report.status == "failed", report.text()[:1000]
        assert len(report.idea) <= 300, report.idea
        assert "could not work with" not in report.idea and " at 0x" not in report.text()
        assert all(len(text) <= 2600 for _, text in report.example)
        assert len(report.text()) <= 6000


@pytest.mark.parametrize("exercise_id", ["l02.aged_key", "l08.accept"])
def test_what_an_answer_returns_is_not_looked_through_number_by_number(
    exercise_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[None] = []
    scalar = plain_values._scalar
    monkeypatch.setattr(plain_values, "_scalar", lambda x: asked.append(None) or scalar(x))
    many = [*range(100_000)]
    assert exercise(exercise_id).check(lambda *args: many).status == "failed"
    assert len(asked) < len(many)


def test_a_long_line_and_a_long_name_of_an_error_are_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = type("E" * 1000, (ValueError,), {})
    source = f"def local_vote(*args):\n    raise kind('m' * 1000 + '{'m' * 1000}')\n"
    space: dict[str, Any] = {"kind": kind}
    lines = source.splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, "long.py", (len(source), None, lines, "long.py"))
    exec(compile(source, "long.py", "exec"), space)
    report = exercise("l06.local_vote").check(space["local_vote"])
    assert report.status == "raised" and len(report.idea) < 450, report.idea
    assert report.idea.count("…") == 3

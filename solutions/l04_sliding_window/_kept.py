"""Judging which entries are kept of K/V, and the mistakes."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course.checks.comparing import Args, a_kind, explaining
from course.exercise import Misconception
from course.harness import Ask, Failure, returned_nothing
from course.same_values import like, same
from solutions.l04_sliding_window._entries import (
    RIGHT,
    Eviction,
    Kept,
    case,
    dtype_of,
    entries,
    keeping,
    parts,
    rows_of,
    two_tensors,
)

# --- wrong ideas --------------------------------------------------------------------------------


def when_too_long(choose: Callable[[int, int, int], Iterable[int]]) -> Eviction:
    """All of a text that fits; else the entries that choose(length, window, sinks) names."""
    return keeping(
        lambda length, window, sinks: (
            range(length) if length <= sinks + window else choose(length, window, sinks)
        )
    )


def sinks_inside(length: int, window: int, sinks: int, at_most: int) -> Sequence[int]:
    """The sinks and a slice [-(window - sinks):], for a text of more than `at_most`."""
    if length <= at_most:
        return range(length)
    if not sinks:
        return entries(length, window, 0)
    return [*range(length)[:sinks], *range(length)[-(window - sinks) :]]


def padded(behind: bool) -> Eviction:
    """Zeros before what is kept, or behind it, up to sinks + window entries."""

    def answer(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
        kept = RIGHT(k, v, window, sinks)
        missing = sinks + window - kept[0].shape[1]
        padding = (0, 0, 0, missing) if behind else (0, 0, missing, 0)
        return F.pad(kept[0], padding), F.pad(kept[1], padding)

    return answer


NOT_TWO = Misconception(
    "not_two",
    "K and V go together.",
    lambda what: f"Return two tensors, `return k, v`; this is {what}.",
    also=(lambda *args: torch.stack(RIGHT(*args)),),
)
DTYPE = Misconception(
    "dtype",
    "What is older may be kept less exactly.",
    lambda name, got, wanted: (
        f"What is kept stays as it is: {name} came in as {wanted} and is {got}."
    ),
    also=(lambda *args: tuple(x.float() for x in RIGHT(*args)),),
)
EVICTIONS = (
    Misconception(
        "first_kept",
        "A cache of W entries: the first W.",
        "The window is the end of the text, where the next token will be: keep the last `window` "
        "entries, not the first.",
        keeping(lambda length, window, sinks: range(length)[: window + sinks]),
        alike=(keeping(lambda length, window, sinks: range(length)[:window]),),
    ),
    Misconception(
        "nothing_dropped",
        "The mask hides what is too old; that is enough.",
        "Nothing was dropped here, although the entries between the sinks and the window will not "
        "be seen again.",
        keeping(lambda length, window, sinks: range(length)),
    ),
    Misconception(
        "one_per_call",
        "Every step brings one entry, so one goes.",
        "A chunk brings many entries at once, and here one call drops only one of them: drop all "
        "that are beyond sinks + window.",
        when_too_long(
            lambda length, window, sinks: [*range(sinks), *range(sinks + 1, length)],
        ),
    ),
    Misconception(
        "one_too_many",
        "A query sees W + 1 keys, so W + 1 are kept.",
        "The next query sees W + 1 entries, but one of them is its own, which it brings along: "
        "keep W.",
        keeping(lambda length, window, sinks: entries(length, window + 1, sinks)),
    ),
    Misconception(
        "one_too_few",
        "Make room for the next entry.",
        "The last `window` entries are kept, all of them; here the oldest of these is missing.",
        keeping(lambda length, window, sinks: entries(length, window - 1, sinks)),
    ),
    Misconception(
        "no_sinks",
        "The first tokens are the oldest, so they go first.",
        "The first `sinks` entries are kept as well: so much attention goes to them that the text "
        "breaks without them.",
        keeping(lambda length, window, sinks: entries(length, window, 0)),
        alike=(keeping(lambda length, window, sinks: entries(length, window + sinks, 0)),),
    ),
    Misconception(
        "one_sink_more",
        "The sinks are the entries up to `sinks`.",
        "Entries count from 0, so the sinks are those below `sinks`; entry `sinks` itself is none.",
        keeping(lambda length, window, sinks: entries(length, window, sinks + 1)),
    ),
    Misconception(
        "backwards",
        "The newest comes first.",
        "The entries stay in the order of the text, the oldest first.",
        keeping(lambda length, window, sinks: entries(length, window, sinks)[::-1]),
    ),
    Misconception(
        "keys_twice",
        "The same for v.",
        "The values are those of v; here the keys were returned for them.",
        lambda *args: RIGHT(*args)[:1] * 2,
    ),
    Misconception(
        "sinks_from_the_window",
        "The window is what is kept in all, sinks included.",
        "The sinks come on top of the window: the last `window` entries are kept whatever the "
        "number of sinks.",
        keeping(lambda length, window, sinks: entries(length, max(1, window - sinks), sinks)),
        alike=(
            keeping(lambda length, window, sinks: entries(length, max(0, window - sinks), sinks)),
            when_too_long(  # an index into the whole text, used behind the sinks
                lambda length, window, sinks: [
                    *range(sinks),
                    *range(sinks, length)[length - window :],
                ],
            ),
            keeping(lambda length, window, sinks: sinks_inside(length, window, sinks, window)),
            keeping(
                lambda length, window, sinks: sinks_inside(length, window, sinks, window + sinks)
            ),
        ),
    ),
    Misconception(
        "twice",
        "The sinks and the window, one behind the other.",
        "In a text this short the sinks are part of the window; an entry that is there twice "
        "weighs twice in the softmax.",
        keeping(
            lambda length, window, sinks: [*range(length)[:sinks], *range(length)[-window:]],
        ),
    ),
    Misconception(
        "wraps_around",
        "The window starts at index length - window.",
        "When the text is shorter than the window, length - window is negative, and a negative "
        "index counts from the end: entries were lost.",
        keeping(
            lambda length, window, sinks: (
                entries(length, window, sinks) if sinks else range(length)[length - window :]
            )
        ),
        alike=(
            keeping(
                lambda length, window, sinks: [
                    *range(length)[:sinks],
                    *range(length)[length - window :],
                ]
            ),
        ),
    ),
    Misconception(
        "sinks_behind",
        "Attention does not mind the order.",
        "The entries stay in the order of the text, sinks first: the next eviction takes the front "
        "for the oldest.",
        when_too_long(
            lambda length, window, sinks: [*range(length - window, length), *range(sinks)],
        ),
    ),
    Misconception(
        "keys_only",
        "It is keys that are looked up.",
        "Every key has its value: what is dropped from k has to be dropped from v, or the two no "
        "longer match.",
        lambda k, v, window, sinks: (RIGHT(k, v, window, sinks)[0], v),
    ),
    Misconception(
        "changed_places",
        "The two are alike.",
        "K and V changed places: return the keys, then the values.",
        lambda *args: RIGHT(*args)[::-1],
    ),
    Misconception(
        "padded",
        "A window always has W entries.",
        "A text that is shorter than the limit is kept as it is; nothing is added to fill it up.",
        padded(behind=False),
        alike=(padded(behind=True),),
    ),
    Misconception(
        "wrong_dimension",
        "[-W:] takes the last W.",
        "Entries are the middle dimension of (H, S, D); this cuts along the heads.",
        lambda k, v, window, sinks: (k[-window:], v[-window:]),
    ),
    Misconception(
        "wrong_dimension",
        "[..., -W:] takes the last W.",
        "Entries are the middle dimension of (H, S, D); this cuts the vectors themselves.",
        lambda k, v, window, sinks: (k[..., -window:], v[..., -window:]),
    ),
)

# --- judging ------------------------------------------------------------------------------------

EVIDENCE = tuple(
    case(*numbers)
    for numbers in (
        (2, 9, 4, 0), (2, 9, 4, 2), (3, 3, 5, 2), (2, 6, 5, 2), (1, 7, 3, 3), (5, 8, 2, 1),
    )
)  # fmt: skip


def judge_entries(ask: Ask, cases: Sequence[Args]) -> Failure | None:
    """Whether the right entries are kept and the arguments left alone; memory is not judged."""
    results: list[tuple[Args, Any]] = []
    for index, args in enumerate(cases):
        value = evicted(ask, args)
        if not two_tensors(value):
            return not_two(args, value)
        results.insert(0, (args, value))
        if not same(value, RIGHT(*args)):
            results += more_evicted(ask, [*cases[index + 1 :], *EVIDENCE])
            return wrong_entries(args, value, explaining(EVICTIONS, RIGHT, results))
    return None


def evicted(ask: Ask, args: Args) -> Any:
    return like(ask(*args)[0], RIGHT(*args))


def more_evicted(ask: Ask, cases: Sequence[Args]) -> list[tuple[Args, Any]]:
    """More results of the right form; an answer that breaks off has said enough."""
    results: list[tuple[Args, Any]] = []
    with contextlib.suppress(Exception):
        for args in cases:
            value = evicted(ask, args)
            if two_tensors(value):
                results.append((args, value))
    return results


def not_two(args: Args, value: Any) -> Failure:
    if value is None:
        return Failure(returned_nothing("evict"), rows_of(args, value), "no_return")
    kinds = " and ".join(a_kind(part) for part in parts(value)[:3])
    return NOT_TWO.failure(rows_of(args, value), a_kind(value) + (kinds and f" of {kinds}"))


def wrong_entries(args: Args, value: Any, mistake: Misconception | None) -> Failure:
    rows = rows_of(args, value)
    if mistake:
        return mistake.failure(rows)
    for name, got, wanted in zip("kv", value, RIGHT(*args), strict=True):
        if got.dtype != wanted.dtype:
            return DTYPE.failure(rows, name, dtype_of(got), dtype_of(wanted))
    idea = "Keep the first `sinks` entries and the last `window`, each once and in their order."
    return Failure(idea, rows)

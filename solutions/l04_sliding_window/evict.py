"""Exercise 4.2: the entries of a request's K/V that stay after a step under a window."""

import random

import torch
from torch import Tensor

from course.checks.comparing import Args
from course.checks.fusing import Fusing, Look, dtype
from course.exercise import Exercise, Misconception, Task
from course.harness import returned_nothing
from solutions.l04_sliding_window._entries import (
    MEMORY,
    Kept,
    Weighed,
    bytes_alive,
    case,
    draw_eviction,
    draw_kept,
    entries,
    keeping,
    two_tensors,
    wasted,
    weighed,
)

# --- right answers ------------------------------------------------------------------------------


def evict(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    """Return `(k, v)`: the entries of one request's K/V in one layer that stay after a step."""
    # The next query sees W + 1 keys and brings its own, so W stay. Indexing with a list copies; a
    # slice would be a view, which keeps the whole old storage alive.
    length = k.shape[1]
    kept = [i for i in range(length) if i < sinks or i >= length - window]
    return k[:, kept], v[:, kept]  # (H, min(S, sinks + window), D) each


def with_cat(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
    start = max(sinks, k.shape[1] - window)
    k = torch.cat([k[:, :sinks], k[:, start:]], dim=1)  # (H, min(S, sinks + window), D)
    v = torch.cat([v[:, :sinks], v[:, start:]], dim=1)  # (H, min(S, sinks + window), D)
    return k, v


# --- wrong ideas --------------------------------------------------------------------------------


FORMS = (
    Misconception(
        "no_return",
        "Eviction changes k and v in place.",
        returned_nothing("evict"),
        matches=lambda got, wanted: got[0] is None,
        examples=(lambda *args: None,),
    ),
    Misconception(
        "not_two",
        "K and V belong in one tensor.",
        "Return two tensors: `return k, v`.",
        matches=lambda got, wanted: not two_tensors(got[0]),
        examples=(lambda *args: torch.stack(evict(*args)),),
    ),
    Misconception(
        "dtype",
        "Older entries may be less exact.",
        lambda got, wanted: (
            f"Keep the type of the numbers: they came in as {dtype(wanted[0][0])} and are now "
            f"{' and '.join(dict.fromkeys(map(dtype, got[0])))}."
        ),
        matches=lambda got, wanted: [*map(dtype, got[0])] != [*map(dtype, wanted[0])],
        examples=(lambda *args: tuple(x.float() for x in evict(*args)),),
    ),
)
EVICTIONS = (
    Misconception(
        "first_kept",
        "A cache of W entries keeps the first W.",
        "The window is the end of the text: keep the last `window` entries, not the first.",
        keeping(lambda length, window, sinks: range(length)[: window + sinks]),
        same_result=(keeping(lambda length, window, sinks: range(length)[:window]),),
    ),
    Misconception(
        "nothing_dropped",
        "The mask already hides old entries.",
        "Entries between the sinks and the window are hidden, but still take memory: drop them.",
        keeping(lambda length, window, sinks: range(length)),
    ),
    Misconception(
        "one_per_call",
        "Every step adds one entry, so every step drops one.",
        "A chunk adds many entries at once: drop all entries beyond sinks + window.",
        keeping(
            lambda length, window, sinks: (
                i for i in range(length) if i != sinks or length <= sinks + window
            )
        ),
    ),
    Misconception(
        "one_too_many",
        "A query sees W + 1 keys, so W + 1 entries stay.",
        "The next query sees W + 1 keys, but it brings its own: keep W.",
        keeping(lambda length, window, sinks: entries(length, window + 1, sinks)),
    ),
    Misconception(
        "no_sinks",
        "The first tokens are the oldest, so they are dropped first.",
        "The first `sinks` entries stay as well, because every later token still sees them.",
        keeping(lambda length, window, sinks: entries(length, window, 0)),
        same_result=(keeping(lambda length, window, sinks: entries(length, window + sinks, 0)),),
    ),
    Misconception(
        "sinks_from_the_window",
        "The window is the number of entries in all, sinks included.",
        "The sinks come on top of the window: the last `window` entries always stay.",
        keeping(lambda length, window, sinks: entries(length, max(1, window - sinks), sinks)),
        same_result=(
            keeping(lambda length, window, sinks: entries(length, max(0, window - sinks), sinks)),
        ),
    ),
    Misconception(
        "twice",
        "Concatenate the sinks and the window.",
        "In a text this short the sinks are part of the window: keep each entry once.",
        keeping(lambda length, window, sinks: [*range(length)[:sinks], *range(length)[-window:]]),
    ),
    Misconception(
        "wraps_around",
        "The window starts at index length - window.",
        "In a short text this index is negative and counts from the end: entries were lost.",
        keeping(
            lambda length, window, sinks: [
                *range(length)[:sinks],
                *range(length)[max(sinks, length - window) if sinks else length - window :],
            ]
        ),
    ),
    Misconception(
        "wrong_dimension",
        "`[-W:]` takes the last W entries.",
        "Entries are the middle dimension of (H, S, D), so slice that one: `[:, -W:]`.",
        lambda k, v, window, sinks: (k[-window:], v[-window:]),
        same_result=(lambda k, v, window, sinks: (k[..., -window:], v[..., -window:]),),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def cases(*numbers: tuple[int, int, int, int]) -> list[Args]:
    """The cases of these (H, S, window, sinks)."""
    return [case(*each) for each in numbers]


def any_cache(rng: random.Random) -> list[Args]:
    drawn: list[Args] = []
    for _ in range(20):
        kind = rng.choice((torch.float32, torch.float64, torch.float16))
        shape = (rng.randint(1, 4), rng.randint(1, 14), rng.randint(1, 8), rng.randint(0, 4))
        drawn.append(case(*shape, kind, rng.choice((1, 2, 3))))
    drawn.append(
        case(2, rng.randint(26, 40), rng.randint(9, 12), rng.randint(8, 12), torch.float64)
    )
    return sorted(drawn, key=lambda args: args[0].numel())


ENTRIES, ALIVE = (
    Fusing(
        lambda *args: weighed(evict(*args), args),
        FORMS,
        looks=(look,),
        evidence=cases(
            (2, 9, 4, 0), (2, 9, 4, 2), (3, 3, 5, 2), (2, 6, 5, 2), (1, 7, 3, 3), (5, 8, 2, 1)
        ),
    )
    for look in (
        Look(
            matters=lambda value, args: value[0] if len(value) == 3 else value,
            mistakes=EVICTIONS,
            idea="Keep the first `sinks` entries and the last `window` entries, each once and in "
            "the order of the text.",
            rows=lambda args, wanted, got: (
                ("expected", draw_kept(args, wanted[0])), ("got", draw_kept(args, got[0]))
            ),
        ),
        Look(wasted, MEMORY, "The result keeps more bytes alive than it shows.", bytes_alive),
    )
)  # fmt: skip
LARGE = ((1, 40, 20, 0), (4, 40, 20, 0), (1, 40, 8, 2), (2, 12, 8, 4), (2, 13, 8, 4), (2, 9, 8, 4))
SLIGHT = ((2, 39, 20, 0), (2, 21, 20, 0))  # few entries are dropped, or nearly half

EXERCISE = Exercise(
    number=2,
    title="Evict the entries that no later token sees",
    minutes=10,
    points=3,
    task=Task(
        rules=(
            "`k` and `v` are one request's K/V in one layer, (H, S, D): H heads, S entries, oldest "
            "first.",
            "The first `sinks` entries (0 or more) and the last `window` (at least 1) stay, each "
            "once, in the order of the text. If S is at most sinks + window, all stay.",
            "Returns `(k, v)`, each of shape (H, min(S, sinks + window), D) and of the same type.",
            "The memory of the dropped entries must be freed: the result must not keep more bytes "
            "alive than its shapes show. `k` and `v` themselves must not change.",
        ),
        args=(
            torch.tensor([[[1.0], [2.0], [3.0], [4.0]]]),
            torch.tensor([[[5.0], [6.0], [7.0], [8.0]]]),
            2,
            1,
        ),
        result=(torch.tensor([[[1.0], [3.0], [4.0]]]), torch.tensor([[[5.0], [7.0], [8.0]]])),
        call="evict(k, v, window=2, sinks=1)\n# k holds 1, 2, 3, 4 and v holds 5, 6, 7, 8",
        returns="(k, v)  # k holds 1, 3, 4 and v holds 5, 7, 8",
        steps=(
            "There are 4 entries, and 1 + 2 may stay.",
            "Entry 0 is the sink. Entries 2 and 3 are the window. Entry 1 is dropped, in k and v.",
        ),
    ),
    hints=(
        "Which entries does the next query see, and which of these does it bring along? And what "
        "does a slice share with its tensor?",
        "Everything stays if S is at most sinks + window. Otherwise copy the first `sinks` and the "
        "last `window` entries of k and v.",
        "Make a list of the entries that stay, each once, in short texts too. A tensor can be "
        "indexed with such a list in any dimension. Is the result a view or a copy?",
    ),
    right=(evict, with_cat),
    misconceptions=(*FORMS, *EVICTIONS, *MEMORY),
    checks=(
        (
            "a window without sinks",
            ENTRIES.on(
                *cases((1, 5, 3, 0), (2, 4, 3, 0), (2, 6, 1, 0), (4, 7, 2, 0), (1, 42, 3, 0))
            ),
        ),
        (
            "a window and sinks",
            ENTRIES.on(*cases((1, 6, 3, 1), (2, 6, 3, 2), (3, 9, 2, 4), (1, 8, 1, 1))),
        ),
        (
            "short texts",
            ENTRIES.on(
                *cases((1, 3, 3, 0), (1, 3, 4, 0), (2, 4, 3, 2), (1, 1, 2, 3), (2, 5, 3, 2)),
                *cases((1, 3, 5, 1)),
            ),
        ),
        ("any K/V", ENTRIES.on_drawn(any_cache)),
        ("the memory of the dropped entries", ALIVE.on(*cases(*LARGE, *SLIGHT))),
    ),
    asked_as=Weighed,
    draw_call=draw_eviction,
    equivalent_mutants={"window at least 1": "it is at least 1"},
)

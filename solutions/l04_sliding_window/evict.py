"""Exercise 4.2: what is kept of a request's K/V under a window."""

import random
from collections.abc import Callable

import torch
from torch import Tensor

from course.checks.comparing import Args
from course.exercise import Exercise, Misconception
from course.harness import Check
from course.task import Task
from solutions.l04_sliding_window._entries import Kept, case, draw_eviction
from solutions.l04_sliding_window._kept import DTYPE, EVICTIONS, NOT_TWO, judge_entries
from solutions.l04_sliding_window._weighing import (
    CONTIGUOUS,
    OVERSIZED,
    VIEW,
    Measured,
    judge_memory,
)

# --- right answers ------------------------------------------------------------------------------


def evict(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    """Return `(k, v)`: what is kept of one request's K/V in one layer after a step."""
    # The next query brings its own entry along, so W of the W + 1 it sees are kept. Indexing with
    # a list copies; a slice would be a view, which keeps all of the old storage alive.
    length = k.shape[1]
    kept = [i for i in range(length) if i < sinks or i >= length - window]
    return k[:, kept], v[:, kept]  # (H, min(S, sinks + window), D) each


def with_cat(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
    start = max(sinks, k.shape[1] - window)
    k = torch.cat([k[:, :sinks], k[:, start:]], dim=1)  # (H, min(S, sinks + window), D)
    v = torch.cat([v[:, :sinks], v[:, start:]], dim=1)  # (H, min(S, sinks + window), D)
    return k, v


def with_a_mask(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
    entry = torch.arange(k.shape[1])  # (S,)
    kept = (entry < sinks) | (entry >= k.shape[1] - window)  # (S,)
    return k[:, kept], v[:, kept]


def both_at_once(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
    both = torch.stack([k, v])  # (2, H, S, D)
    middle = range(sinks, both.shape[2] - window)
    kept = [i for i in range(both.shape[2]) if i not in middle]
    both = both.index_select(2, torch.tensor(kept))  # a storage of just the right size
    return both[0], both[1]


def entry_by_entry(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
    def trimmed(entries: list[Tensor]) -> Tensor:
        num_dropped = max(0, len(entries) - sinks - window)
        del entries[sinks : sinks + num_dropped]
        return torch.stack(entries, dim=1)

    return trimmed(list(k.unbind(dim=1))), trimmed(list(v.unbind(dim=1)))


def by_taking(k: Tensor, v: Tensor, window: int, sinks: int) -> list[Tensor]:
    head, tail = range(sinks), range(k.shape[1] - window, k.shape[1])
    kept = torch.tensor(sorted({*head, *tail} & {*range(k.shape[1])}))
    return [torch.index_select(x, 1, kept) for x in (k, v)]


def unless_it_fits(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
    kept = {*range(k.shape[1])[:sinks], *range(k.shape[1])[-window:]}
    if len(kept) == k.shape[1]:
        return k, v
    both = [[x[:, i] for i in sorted(kept)] for x in (k, v)]
    return torch.stack(both[0], 1), torch.stack(both[1], 1)


# --- wrong ideas --------------------------------------------------------------------------------


def shrinks_what_came_in(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
    k.data, v.data = evict(k, v, window, sinks)
    return k, v


IN_PLACE = Misconception(
    "in_place",
    "Evicting is what is done to k and v.",
    also=((shrinks_what_came_in),),
)

# --- cases --------------------------------------------------------------------------------------


def on(*cases: tuple[int, int, int, int]) -> Check:
    """The check that asks about these (H, S, window, sinks)."""
    return on_drawn(lambda rng: [case(*numbers) for numbers in cases])


def on_drawn(draw: Callable[[random.Random], list[Args]]) -> Check:
    return lambda ask, rng: judge_entries(ask, draw(rng))


def any_cache(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for _ in range(20):
        dtype = rng.choice((torch.float32, torch.float64, torch.float16))
        shape = (rng.randint(1, 4), rng.randint(1, 14), rng.randint(1, 8), rng.randint(0, 4))
        cases.append(case(*shape, dtype, rng.choice((1, 2, 3))))
    cases.append(
        case(2, rng.randint(26, 40), rng.randint(9, 12), rng.randint(8, 12), torch.float64)
    )
    return sorted(cases, key=lambda args: args[0].numel())


LARGE = ((1, 40, 20, 0), (4, 40, 20, 0), (1, 40, 8, 2), (2, 12, 8, 4), (2, 13, 8, 4), (2, 9, 8, 4))
SLIGHT = ((2, 39, 20, 0), (2, 21, 20, 0))  # few entries are dropped, or nearly half

EXERCISE = Exercise(
    number=2,
    title="Keep what will be seen again",
    minutes=10,
    points=3,
    part="evict",
    task=Task(
        signature="evict(k: torch.Tensor, v: torch.Tensor, window: int, sinks: int) -> "
        "tuple[torch.Tensor, torch.Tensor]",
        rules=(
            "`k` and `v` are one request's K/V in one layer, (H, S, D): H heads, S entries in "
            "the order of the text, oldest first.",
            "Kept are the first `sinks` entries (0 or more) and the last `window` (at least "
            "1), each once and in the order of the text; where there are no more than that, "
            "all.",
            "Returns `(k, v)`: what is kept, (H, min(S, sinks + window), D) each, in the type "
            "that came in.",
            "The memory of what is dropped must come free: what is returned must not keep more "
            "bytes alive than it shows.",
            "The tensors `k` and `v` themselves stay as they are.",
        ),
        args=(
            torch.tensor([[[1.0], [2.0], [3.0], [4.0]]]),
            torch.tensor([[[5.0], [6.0], [7.0], [8.0]]]),
            2,
            1,
        ),
        result=(torch.tensor([[[1.0], [3.0], [4.0]]]), torch.tensor([[[5.0], [7.0], [8.0]]])),
    ),
    hints=(
        "Which entries may the next query see, and which of those does it bring along itself? "
        "And what does a slice of a tensor share with the tensor?",
        "If S is at most sinks + window, everything stays. Otherwise name the entries to keep, "
        "the first `sinks` and the last `window`, and copy them out of k and of v.",
        "Write the entries to keep as a list of numbers, none twice, for a short text as well "
        "as for a long one. A tensor can be indexed with such a list in any dimension; is "
        "what comes out a view?",
    ),
    right=(
        evict,
        with_cat,
        with_a_mask,
        both_at_once,
        entry_by_entry,
        by_taking,
        unless_it_fits,
    ),
    misconceptions=(NOT_TWO, *EVICTIONS, DTYPE, IN_PLACE, OVERSIZED, CONTIGUOUS, VIEW),
    checks=(
        (
            "a window alone",
            on((1, 5, 3, 0), (2, 4, 3, 0), (2, 6, 1, 0), (4, 7, 2, 0), (1, 42, 3, 0)),
        ),
        ("a window and sinks", on((1, 6, 3, 1), (2, 6, 3, 2), (3, 9, 2, 4), (1, 8, 1, 1))),
        (
            "texts that fit",
            on(
                (1, 3, 3, 0),
                (1, 3, 4, 0),
                (2, 4, 3, 2),
                (1, 1, 2, 3),
                (2, 5, 3, 2),
                (1, 3, 5, 1),
            ),
        ),
        ("any K/V", on_drawn(any_cache)),
        (
            "the memory of what is dropped",
            lambda ask, rng: judge_memory(ask, [case(*numbers) for numbers in (*LARGE, *SLIGHT)]),
        ),
    ),
    asked_as=Measured,
    draw_call=draw_eviction,
    still_right={"window at least 1": "it is at least 1"},
)

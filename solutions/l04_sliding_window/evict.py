"""Exercise 4.2: what is kept of a request's K/V under a window."""

import random

import torch
from torch import Tensor

from course.checks.comparing import Args, a_kind
from course.checks.fusing import Fusing, Look, dtype
from course.exercise import Exercise, Misconception
from course.harness import returned_nothing
from course.task import Task
from solutions.l04_sliding_window._entries import Kept, case, draw_eviction, draw_kept, two_tensors
from solutions.l04_sliding_window._kept import EVICTIONS
from solutions.l04_sliding_window._weighing import MEMORY, Weighed, bytes_alive, wasted, weighed

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


# --- wrong ideas --------------------------------------------------------------------------------


def shrinks_what_came_in(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
    k.data, v.data = evict(k, v, window, sinks)
    return k, v


FORMS = (
    Misconception(
        "no_return",
        "Evicting is what is done to k and v.",
        returned_nothing("evict"),
        matches=lambda got, wanted: got[0] is None,
        examples=(lambda *args: None,),
    ),
    Misconception(
        "not_two",
        "K and V go together.",
        lambda got, wanted: f"Return two tensors, `return k, v`; this is {a_kind(got[0])}.",
        matches=lambda got, wanted: not two_tensors(got[0]),
        examples=(lambda *args: torch.stack(evict(*args)),),
    ),
    Misconception(
        "dtype",
        "What is older may be kept less exactly.",
        lambda got, wanted: (
            f"What is kept stays as it is: it came in as {dtype(wanted[0][0])} and is "
            f"{' and '.join(map(dtype, got[0]))}."
        ),
        matches=lambda got, wanted: [*map(dtype, got[0])] != [*map(dtype, wanted[0])],
        examples=(lambda *args: tuple(x.float() for x in evict(*args)),),
    ),
)
IN_PLACE = Misconception(
    "in_place", "The old tensors may be overwritten.", examples=(shrinks_what_came_in,)
)

# --- cases --------------------------------------------------------------------------------------


def cases(*numbers: tuple[int, int, int, int]) -> list[Args]:
    """Of these (H, S, window, sinks)."""
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
            idea="Keep the first `sinks` entries and the last `window`, each once and in their "
            "order.",
            rows=lambda args, wanted, got: (
                ("expected", draw_kept(args, wanted[0])), ("got", draw_kept(args, got[0]))
            ),
        ),
        Look(wasted, MEMORY, "More bytes stay alive than are shown.", bytes_alive),
    )
)  # fmt: skip
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
            "`k` and `v` are one request's K/V in one layer, (H, S, D): H heads, S entries in the "
            "order of the text, oldest first.",
            "Kept are the first `sinks` entries (0 or more) and the last `window` (at least 1), "
            "each once and in the order of the text; where there are no more than that, all.",
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
        "Which entries may the next query see, and which of those does it bring along itself? And "
        "what does a slice of a tensor share with the tensor?",
        "If S is at most sinks + window, everything stays. Otherwise name the entries to keep, "
        "the first `sinks` and the last `window`, and copy them out of k and of v.",
        "Write the entries to keep as a list of numbers, none twice, for a short text as well as "
        "for a long one. A tensor can be indexed with such a list in any dimension; is what comes "
        "out a view?",
    ),
    right=(evict, with_cat, with_a_mask),
    misconceptions=(*FORMS, *EVICTIONS, IN_PLACE, *MEMORY),
    checks=(
        (
            "a window alone",
            ENTRIES.on(
                *cases((1, 5, 3, 0), (2, 4, 3, 0), (2, 6, 1, 0), (4, 7, 2, 0), (1, 42, 3, 0))
            ),
        ),
        (
            "a window and sinks",
            ENTRIES.on(*cases((1, 6, 3, 1), (2, 6, 3, 2), (3, 9, 2, 4), (1, 8, 1, 1))),
        ),
        (
            "texts that fit",
            ENTRIES.on(
                *cases((1, 3, 3, 0), (1, 3, 4, 0), (2, 4, 3, 2), (1, 1, 2, 3), (2, 5, 3, 2)),
                *cases((1, 3, 5, 1)),
            ),
        ),
        ("any K/V", ENTRIES.on_drawn(any_cache)),
        ("the memory of what is dropped", ALIVE.on(*cases(*LARGE, *SLIGHT))),
    ),
    asked_as=Weighed,
    draw_call=draw_eviction,
    equivalent_mutants={"window at least 1": "it is at least 1"},
)

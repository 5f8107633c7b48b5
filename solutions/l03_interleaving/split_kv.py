"""Exercise 3.4: each request's keys, cut out of a padded tensor."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args, a_kind
from course.checks.fusing import Fusing, Look, dtype
from course.checks.lengths import any_lengths
from course.exercise import Exercise, Misconception
from course.harness import Ask, Failure
from course.task import Task
from solutions.l03_interleaving._padded import padded_rows

# --- right answers ------------------------------------------------------------------------------


def split_kv(k: Tensor, context_lens: list[int], num_scheduled_tokens: list[int]) -> list[Tensor]:
    """Return each request's own keys, cut out of a padded tensor: B tensors (past + new, D)."""
    # A row has padding twice, before its past and before its new tokens, so no single slice is it:
    # cut each part by its own right end.
    longest_past, total = max(context_lens), k.shape[1]
    return [
        torch.cat([row[longest_past - past : longest_past], row[total - new :]])  # (past + new, D)
        for row, past, new in zip(k, context_lens, num_scheduled_tokens, strict=True)
    ]


def in_two_halves(k: Tensor, contexts: list[int], scheduled: list[int]) -> list[Tensor]:
    cached = max(contexts)
    parts: list[Tensor] = []
    for i in range(len(contexts)):
        past, new = k[i].split([cached, k.shape[1] - cached])
        past = past[len(past) - contexts[i] :]
        new = new[len(new) - scheduled[i] :]
        parts.append(torch.cat((past, new)))
    return parts


def by_columns(k: Tensor, contexts: list[int], scheduled: list[int]) -> list[Tensor]:
    cached, total = max(contexts), k.size(1)
    parts: list[Tensor] = []
    for i, row in enumerate(k):
        columns = [*range(cached - contexts[i], cached), *range(total - scheduled[i], total)]
        parts.append(row[columns])
    return parts


# --- wrong ideas --------------------------------------------------------------------------------


def cut(part: Callable[[Tensor, int, int, int], Tensor]) -> Callable[..., list[Tensor]]:
    """Such a part of each row (S + T, D), given S, past and new."""
    return lambda k, context_lens, num_scheduled_tokens: [
        part(row, max(context_lens), past, new)
        for row, past, new in zip(k, context_lens, num_scheduled_tokens, strict=True)
    ]


def not_tensors(got: Any) -> str:
    """What stands in place of a list of tensors; "" if nothing does."""
    if type(got) is not list:
        return f"The answer is a list of B tensors; this is {a_kind(got)}."
    others = [part for part in got if not isinstance(part, Tensor)]
    return f"The list holds a tensor per request; here is {a_kind(others[0])}." if others else ""


MISCONCEPTIONS = (
    Misconception(
        "one_tensor",
        "What came as a tensor goes as a tensor.",
        "The requests differ in length, so no tensor holds them all: return a list of B tensors.",
        matches=lambda got, wanted: isinstance(got, Tensor),
        examples=(lambda *args: torch.cat(split_kv(*args)),),
    ),
    Misconception(
        "not_a_list",
        "Keys are looked up by request, so a dict holds them.",
        lambda got, wanted: not_tensors(got),
        matches=lambda got, wanted: not_tensors(got) != "",
        examples=(lambda *args: dict(enumerate(split_kv(*args))),),
    ),
    Misconception(
        "count",
        "The chunk's request is the one that is cut out.",
        lambda got, wanted: (
            f"There is a tensor for each request, so {len(wanted)} of them, not {len(got)}."
        ),
        matches=lambda got, wanted: len(got) != len(wanted),
        examples=(lambda *args: split_kv(*args)[:1],),
    ),
    Misconception(
        "shape",
        "A request is a batch of one.",
        lambda got, wanted: (
            f"Each tensor belongs to one request and is (past + new, {wanted[0].shape[1]}); these "
            f"are {', '.join(str(tuple(part.shape)) for part in got[:3])}."
        ),
        matches=lambda got, wanted: any(
            part.dim() != 2 or part.shape[1] != wanted[0].shape[1] for part in got
        ),
        examples=(lambda *args: [part[None] for part in split_kv(*args)],),
    ),
    Misconception(
        "dtype",
        "A cache is kept in double precision.",
        lambda got, wanted: (
            f"What is cut stays as it is: k is {dtype(wanted[0])}, here is {dtype(got[0])}."
        ),
        matches=lambda got, wanted: any(part.dtype != wanted[0].dtype for part in got),
        examples=(lambda *args: [part.double() for part in split_kv(*args)],),
    ),
    Misconception(
        "one_end",
        "The real tokens are the last of their row.",
        "The last past + new columns are not the request's own: between its past and its new "
        "tokens there is padding.",
        cut(lambda row, cached, past, new: row[-past - new :]),
    ),
    Misconception(
        "past_padding_kept",
        "Only the new tokens were padded.",
        "Padding was taken off only the new tokens, but a row has it in two places: in front of "
        "its past as well.",
        cut(lambda row, cached, past, new: torch.cat([row[:cached], row[-new:]])),
    ),
    Misconception(
        "right_padded",
        "A part begins in its first column.",
        "Padding stands in front of the tokens, in both parts: a part's own columns are its last "
        "ones, here the first were taken.",
        cut(lambda row, cached, past, new: torch.cat([row[:past], row[cached : cached + new]])),
    ),
    Misconception(
        "nothing_cut",
        "The rows of the tensor are the requests.",
        "These are whole rows of the batch, padding and all: cut out each request's own columns.",
        lambda k, context_lens, num_scheduled_tokens: list(k),
    ),
    Misconception(
        "minus_zero",
        "The last n of a part are part[-n:], whatever n.",
        "With a past of 0 tokens a slice such as [-0:] takes everything, because -0 is 0.",
        cut(lambda row, cached, past, new: torch.cat([row[:cached][-past:], row[-new:]])),
    ),
    Misconception(
        "in_place",
        "What is cut out is done with.",
        examples=(lambda k, *lengths: (split_kv(k, *lengths), k.zero_())[0],),
    ),
)

# --- cases --------------------------------------------------------------------------------------

PADDING = 256  # in size at least this, so that a drawing can tell it; no token is as large


def make_kv(
    context_lens: list[int],
    num_scheduled_tokens: list[int],
    size: int,
    dtype: torch.dtype = torch.float32,
    sign: int = 1,
) -> Tensor:
    """A padded tensor (B, S + T, D): sign * (20 * (i + 1) + position) for tokens.

    Padding is larger, above and below 0, so that no look at the numbers finds it: only at lengths.
    """
    cells: list[list[list[float]]] = []
    for i, row in enumerate(padded_rows(context_lens, num_scheduled_tokens)):
        places = [
            row.key(column) for column in range(max(context_lens) + max(num_scheduled_tokens))
        ]
        first = [
            (-1) ** column * (PADDING + column) if place is None else sign * (20 * (i + 1) + place)
            for column, place in enumerate(places)
        ]
        cells.append([[number + channel / 4 for channel in range(size)] for number in first])
    return torch.tensor(cells, dtype=dtype)


def filled(cases: Sequence[Args], size: int = 2, *kind: Any) -> list[Args]:
    """Cases of such lengths, with a tensor in front."""
    return [(make_kv(past, new, size, *kind), past, new) for past, new in cases]


def any_mix(ask: Ask, rng: random.Random) -> Failure | None:
    kinds = ((torch.float32, 1), (torch.float64, -1), (torch.float16, 1))
    cases = any_lengths(rng, 20)
    for part, kind in enumerate(kinds):
        failure = JUDGE.judge(ask, filled(cases[part::3], rng.choice((1, 3, 5)), *kind))
        if failure:
            return failure
    return None


def number(cell: float) -> str:
    return f"{'.':>3}" if abs(cell) >= PADDING else f"{cell:3.0f}"


def lines(parts: Sequence[Tensor]) -> str:
    """The first channel of each tensor on a line of its own, padding as a dot."""
    return "\n".join(
        f"[{i}]  {' '.join(map(number, part[:, 0].tolist()))}" for i, part in enumerate(parts)
    )


def draw_call(name: str, args: Args) -> str:
    k, context_lens, num_scheduled_tokens = args
    drawn = [f"{name}(k, {context_lens}, {num_scheduled_tokens}), k[:, :, 0] with . for padding:"]
    for row in k[:, :, 0].tolist():
        cells = [number(cell) for cell in row]
        cells.insert(max(context_lens), "|")
        drawn.append(" ".join(cells))
    return "\n".join(drawn)


JUDGE = Fusing(
    split_kv,
    MISCONCEPTIONS,
    looks=(
        Look(
            matters=lambda value, args: value,
            mistakes=MISCONCEPTIONS,
            idea="Tensor i holds the columns of request i's own tokens, in the order of the text, "
            "and none that is padding.",
            rows=lambda args, wanted, got: (("expected", lines(wanted)), ("got", lines(got))),
        ),
    ),
    evidence=filled([([1, 3], [1, 2]), ([3, 1], [1, 2]), ([0, 2], [3, 1])]),
)

EXERCISE = Exercise(
    number=4,
    title="Cutting the batch up again",
    minutes=8,
    points=2,
    part="split_kv",
    task=Task(
        signature="split_kv(k: torch.Tensor, context_lens: list[int], num_scheduled_tokens: "
        "list[int]) -> list[torch.Tensor]",
        rules=(
            "`k` is (B, S + T, D), with the columns of the whole mask: S = max(context_lens) "
            "cached ones, then T = max(num_scheduled_tokens) new ones.",
            "Row i has `context_lens[i]` tokens (0 or more) at the right end of the S columns and "
            "`num_scheduled_tokens[i]` (at least 1) at the right end of the T; all else is "
            "padding, with any numbers in it.",
            "Returns a list of B tensors: the i-th is (context_lens[i] + num_scheduled_tokens[i], "
            "D), request i's own keys in the order of the text. Values are cut in the same way.",
            "`k` and the lists stay as they are.",
        ),
        args=(torch.tensor([[[5.0], [0.0], [6.0]], [[0.0], [7.0], [8.0]]]), [1, 0], [1, 2]),
        result=[torch.tensor([[5.0], [6.0]]), torch.tensor([[7.0], [8.0]])],
    ),
    hints=(
        "Draw the columns of a row with a short past and few new tokens. In how many places does "
        "it have padding?",
        "The past ends at column S and the new tokens end at the last one: cut each part by its "
        "own end, then join the two. Try a past of 0 tokens.",
        "Work out where each part begins, counted from the left: a part that ends at column e and "
        "holds n tokens begins at e - n. Two slices of the row and torch.cat are enough, and an "
        "empty slice does no harm.",
    ),
    right=(split_kv, in_two_halves, by_columns),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("rows without padding", JUDGE.on(*filled([([2], [1]), ([0], [2]), ([2, 2], [1, 1])], 1))),
        ("a decode beside a chunk", JUDGE.on(*filled([([3, 1], [1, 2]), ([1, 3], [1, 3])]))),
        (
            "requests without a past",
            JUDGE.on(*filled([([2, 0], [1, 2]), ([0, 0], [1, 2]), ([0, 0], [2, 2])])),
        ),
        ("any mix", any_mix),
    ),
    draw_call=draw_call,
    equivalent_mutants={
        "split_kv(): return [torch.cat([row[longest_past - past:longest_past], row[total - new:]]) "
        "for row, past, new in zip(k, context_lens, num_scheduled_tokens, "
        "strict={True => False})]": "all are equally long"
    },
)

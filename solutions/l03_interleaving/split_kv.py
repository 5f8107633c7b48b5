"""Exercise 3.3: each request's own keys, cut out of a padded tensor."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args, a_kind
from course.checks.fusing import Fusing, Look, any_lengths, dtype
from course.exercise import Exercise, Misconception, Task
from solutions.l03_interleaving._padded import padded_rows

# --- right answers ------------------------------------------------------------------------------


def split_kv(k: Tensor, context_lens: list[int], num_scheduled_tokens: list[int]) -> list[Tensor]:
    """Return each request's own keys, cut out of a padded tensor: B tensors (past + new, D)."""
    # A row has padding in two places, before its past and before its new tokens, so one slice is
    # not enough: cut each part at its own right end.
    longest_past, total = max(context_lens), k.shape[1]
    return [
        torch.cat([row[longest_past - past : longest_past], row[total - new :]])  # (past + new, D)
        for row, past, new in zip(k, context_lens, num_scheduled_tokens, strict=True)
    ]


def by_columns(k: Tensor, contexts: list[int], scheduled: list[int]) -> list[Tensor]:
    cached, total = max(contexts), k.size(1)
    parts: list[Tensor] = []
    for i, row in enumerate(k):
        columns = [*range(cached - contexts[i], cached), *range(total - scheduled[i], total)]
        parts.append(row[columns])
    return parts


# --- wrong ideas --------------------------------------------------------------------------------


def cut(part: Callable[[Tensor, int, int, int], Tensor]) -> Callable[..., list[Tensor]]:
    """An answer that takes this part of each row (S + T, D), given S, past and new."""
    return lambda k, context_lens, num_scheduled_tokens: [
        part(row, max(context_lens), past, new)
        for row, past, new in zip(k, context_lens, num_scheduled_tokens, strict=True)
    ]


def not_tensors(got: Any) -> str:
    """What is wrong with a value that is not a list of tensors; "" if it is one."""
    if type(got) is not list:
        return f"The requests differ in length: return a list of B tensors, not {a_kind(got)}."
    others = [part for part in got if not isinstance(part, Tensor)]
    return f"The list holds a tensor per request; one is {a_kind(others[0])}." if others else ""


MISCONCEPTIONS = (
    Misconception(
        "not_a_list",
        "The answer is one tensor, or a dict of them.",
        lambda got, wanted: not_tensors(got),
        matches=lambda got, wanted: not_tensors(got) != "",
        examples=(
            lambda *args: torch.cat(split_kv(*args)),
            lambda *args: dict(enumerate(split_kv(*args))),
        ),
    ),
    Misconception(
        "shape",
        "A request is a batch of one.",
        lambda got, wanted: (
            f"Each tensor belongs to one request and is (past + new, {wanted[0].shape[1]}); the "
            f"first tensor here is {tuple(got[0].shape)}."
        ),
        matches=lambda got, wanted: any(part.shape[1:] != wanted[0].shape[1:] for part in got),
        examples=(lambda *args: [part[None] for part in split_kv(*args)],),
    ),
    Misconception(
        "dtype",
        "A cache is kept in double precision.",
        lambda got, wanted: (
            f"k is {dtype(wanted[0])}, so its parts must be {dtype(wanted[0])} too; here they are "
            f"{dtype(got[0])}."
        ),
        matches=lambda got, wanted: any(part.dtype != wanted[0].dtype for part in got),
        examples=(lambda *args: [part.double() for part in split_kv(*args)],),
    ),
    Misconception(
        "one_end",
        "The real tokens are the last columns of their row.",
        "The last past + new columns are not all the request's own: there is padding between its "
        "past and its new tokens.",
        cut(lambda row, cached, past, new: row[-past - new :]),
    ),
    Misconception(
        "past_padding_kept",
        "Only the new tokens were padded.",
        "A row has padding in two places, and this cut removes it only in front of the new tokens. "
        "There is padding in front of the past too.",
        cut(lambda row, cached, past, new: torch.cat([row[:cached], row[-new:]])),
    ),
    Misconception(
        "right_padded",
        "Each part begins in its first column.",
        "In both parts the padding is in front: the request's own columns are the last ones of a "
        "part, and this cut takes the first.",
        cut(lambda row, cached, past, new: torch.cat([row[:past], row[cached : cached + new]])),
    ),
    Misconception(
        "minus_zero",
        "The last n of a part are part[-n:], whatever n.",
        "With a past of 0 tokens a slice such as [-0:] takes everything, because -0 is 0.",
        cut(lambda row, cached, past, new: torch.cat([row[:cached][-past:], row[-new:]])),
    ),
    Misconception(
        "in_place",
        "k is not needed after the cut.",
        examples=(lambda k, *lengths: (split_kv(k, *lengths), k.zero_())[0],),
    ),
)

# --- cases --------------------------------------------------------------------------------------

PADDING = 256  # every padding number is at least as large, and no token's is


def make_kv(
    context_lens: list[int],
    num_scheduled_tokens: list[int],
    size: int,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """A padded tensor (B, S + T, D): 20 * (i + 1) + position for the tokens of request i.

    Padding is larger and of both signs, so that an answer cannot find it by the numbers.
    """
    rows: list[list[float]] = []
    for i, row in enumerate(padded_rows(context_lens, num_scheduled_tokens)):
        places = [row.key(column) for column in range(row.longest_past + row.longest_new)]
        rows.append(
            [
                (-1) ** column * (PADDING + column) if at is None else 20 * (i + 1) + at
                for column, at in enumerate(places)
            ]
        )
    channels = torch.arange(size, dtype=dtype) / 4
    return torch.tensor(rows, dtype=dtype)[:, :, None] + channels


def filled(cases: Sequence[Args], size: int = 2) -> list[Args]:
    """Cases of these lengths, with a tensor in front."""
    return [(make_kv(past, new, size), past, new) for past, new in cases]


def any_mix(rng: random.Random) -> list[Args]:
    kinds = (torch.float32, torch.float64, torch.float16)
    return [
        (make_kv(past, new, rng.choice((1, 3, 5)), rng.choice(kinds)), past, new)
        for past, new in any_lengths(rng, 20)
    ]


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
            "and no padding.",
            rows=lambda args, wanted, got: (("expected", lines(wanted)), ("got", lines(got))),
        ),
    ),
    evidence=filled([([1, 3], [1, 2]), ([3, 1], [1, 2]), ([0, 2], [3, 1])]),
)

EXERCISE = Exercise(
    number=3,
    title="Splitting the K/V back out",
    minutes=8,
    points=2,
    task=Task(
        rules=(
            "`k` is (B, S + T, D), D numbers per key, with the columns of `full_mask`: S = "
            "max(context_lens) past columns, then T = max(num_scheduled_tokens) new columns.",
            "Row i has `context_lens[i]` tokens (0 or more) at the right end of the S columns and "
            "`num_scheduled_tokens[i]` tokens (at least 1) at the right end of the T columns. The "
            "rest is padding and may hold any numbers.",
            "Return a list of B tensors. Tensor i is (context_lens[i] + num_scheduled_tokens[i], "
            "D): request i's own keys in the order of the text. Values are split the same way.",
            "Do not change `k` or the lists.",
        ),
        args=(torch.tensor([[[5.0], [0.0], [6.0]], [[0.0], [7.0], [8.0]]]), [1, 0], [1, 2]),
        call="split_kv(k, [1, 0], [1, 2])\n# k[:, :, 0] is [[5, 0, 6], [0, 7, 8]]",
        steps=(
            "S = 1 and T = 2: column 0 is the past, columns 1 and 2 are new.",
            "Row 0 has 1 past token, 5, and 1 new token at the right end, 6. The 0 between them "
            "is padding.",
            "Row 1 has no past, so its 0 in column 0 is padding; its new tokens are 7 and 8.",
        ),
        result=[torch.tensor([[5.0], [6.0]]), torch.tensor([[7.0], [8.0]])],
        returns="a list of two tensors (2, 1): [[5], [6]] and [[7], [8]]",
    ),
    hints=(
        "Draw the columns of a row with a short past and few new tokens. In how many places does "
        "it have padding?",
        "The past ends at column S and the new tokens end at the last column. Cut each part at its "
        "own end, then join the two. Try a past of 0 tokens.",
        "Work out where each part begins, counted from the left: a part that ends at column e and "
        "holds n tokens begins at e - n. Two slices of the row and torch.cat are enough, and an "
        "empty slice does no harm.",
    ),
    right=(split_kv, by_columns),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("rows without padding", JUDGE.on(*filled([([2], [1]), ([0], [2]), ([2, 2], [1, 1])], 1))),
        ("a decode beside a chunk", JUDGE.on(*filled([([3, 1], [1, 2]), ([1, 3], [1, 3])]))),
        (
            "requests without a past",
            JUDGE.on(*filled([([2, 0], [1, 2]), ([0, 0], [1, 2]), ([0, 0], [2, 2])])),
        ),
        ("any mix", JUDGE.on_drawn(any_mix)),
    ),
    draw_call=draw_call,
    equivalent_mutants={
        "split_kv(): return [torch.cat([row[longest_past - past:longest_past], row[total - new:]]) "
        "for row, past, new in zip(k, context_lens, num_scheduled_tokens, "
        "strict={True => False})]": "all are equally long"
    },
)

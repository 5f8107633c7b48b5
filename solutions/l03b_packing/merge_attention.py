"""Exercise 3b.2: the attention over two blocks of keys, merged into the attention over both."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args
from course.checks.fusing import Fusing, Look
from course.exercise import Exercise, Misconception, Task
from course.harness import Rows
from solutions.l03b_packing._blocks import (
    Merged,
    any_blocks,
    case,
    close,
    draw_call,
    kinds,
    numbers,
)

# --- right answers ------------------------------------------------------------------------------


def merge_attention(
    out_a: Tensor, max_a: Tensor, sum_a: Tensor, out_b: Tensor, max_b: Tensor, sum_b: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return `(out, max, sum)`: one query's attention over the keys of both blocks."""
    # Each sum is relative to its block's largest score, so both are brought to the larger of the
    # two before they are added. The exponents are then never positive: nothing overflows. Where
    # both blocks are empty, -inf - -inf would be NaN, and so would 0 / 0.
    top, limits = torch.maximum(max_a, max_b), torch.finfo(max_a.dtype)  # (H,)
    base = top.clamp(min=limits.min)
    weight_a, weight_b = sum_a * (max_a - base).exp(), sum_b * (max_b - base).exp()  # (H,)
    total = weight_a + weight_b
    weighted = out_a * weight_a[:, None] + out_b * weight_b[:, None]  # (H, D)
    return weighted / total.clamp(min=limits.tiny)[:, None], top, total


def by_log_sum_exp(
    out_a: Tensor, max_a: Tensor, sum_a: Tensor, out_b: Tensor, max_b: Tensor, sum_b: Tensor
) -> Merged:
    lse_a, lse_b = max_a + sum_a.log(), max_b + sum_b.log()  # (H,)
    lse, top = torch.logaddexp(lse_a, lse_b), torch.maximum(max_a, max_b)
    shares = [(each - lse).exp().nan_to_num()[:, None] for each in (lse_a, lse_b)]
    return shares[0] * out_a + shares[1] * out_b, top, (lse - top).exp().nan_to_num()


# --- wrong ideas --------------------------------------------------------------------------------

Weigh = Callable[[Tensor, Tensor, Tensor], Tensor]  # top, max and sum (H,) -> a weight (H,)


def changed(**parts: Callable[..., Any]) -> Callable[..., Any]:
    """The right answer with parts of it computed from the arguments instead."""
    return lambda *args: tuple(
        parts[name](*args) if name in parts else part
        for name, part in zip(("out", "max", "sum"), merge_attention(*args), strict=True)
    )


def weighing(weigh_a: Weigh, weigh_b: Weigh, guarded: bool = True) -> Callable[..., Merged]:
    """The right largest score; the sum and the output by these weights of the two blocks."""

    def answer(*args: Tensor) -> Merged:
        out_a, max_a, sum_a, out_b, max_b, sum_b = args
        top = torch.maximum(max_a, max_b)
        base = top.masked_fill(top.isneginf(), 0) if guarded else top
        a, b = weigh_a(base, max_a, sum_a), weigh_b(base, max_b, sum_b)
        total = (a + b).masked_fill(a + b == 0, 1) if guarded else a + b
        return (out_a * a[:, None] + out_b * b[:, None]) / total[:, None], top, a + b

    return answer


def rescaled(base: Tensor, top: Tensor, total: Tensor) -> Tensor:
    return total * (top - base).exp()


def scaled_up(base: Tensor, top: Tensor, total: Tensor) -> Tensor:
    return total * (base - top).exp()


def by_maximum(base: Tensor, top: Tensor, total: Tensor) -> Tensor:
    return (top - base).exp()


def as_it_is(base: Tensor, top: Tensor, total: Tensor) -> Tensor:
    return total


def absolute(*args: Tensor) -> Merged:
    out_a, max_a, sum_a, out_b, max_b, sum_b = args
    a, b, top = sum_a * max_a.exp(), sum_b * max_b.exp(), torch.maximum(max_a, max_b)
    out = (out_a * a[:, None] + out_b * b[:, None]) / (a + b)[:, None]
    return out.nan_to_num() if (a + b == 0).all() else out, top, (a + b) * (-top).exp()


FORM = Misconception(
    "form",
    "The next merge needs only the output.",
    lambda got, wanted: (
        "Return `(out, max, sum)`, three tensors with the shapes and types of one block's: "
        f"{kinds(wanted)}, not {kinds(got)}."
    ),
    matches=lambda got, wanted: kinds(got) != kinds(wanted),
    examples=(
        lambda *args: merge_attention(*args)[0],
        changed(max=lambda *args: torch.maximum(args[1], args[4]).amax(0, keepdim=True)),
        lambda *args: tuple(each.float() for each in merge_attention(*args)),
    ),
)
MAXIMUM = (
    Misconception(
        "max_of_one",
        "The first block's largest score is the reference for the second one.",
        "A score of the other block can be larger: the largest of both blocks is the larger of the "
        "two. Otherwise exp(score - max) can overflow.",
        changed(max=lambda *args: args[1]),
        same_result=(changed(max=lambda *args: args[4]),),
    ),
)
SUM = (
    Misconception(
        "not_rescaled",
        "The sum over both blocks is the sum of the two sums.",
        "`sum_a` is relative to `max_a` and `sum_b` to `max_b`. Before you add them, multiply each "
        "by exp(its max - the new max).",
        weighing(as_it_is, as_it_is),
        same_result=(weighing(as_it_is, rescaled), weighing(rescaled, as_it_is)),
    ),
    Misconception(
        "wrong_way",
        "A block with a smaller maximum has to be scaled up.",
        "The exponent has the wrong sign: a block whose largest score is below the new one counts "
        "less, so multiply its sum by exp(its max - the new max).",
        weighing(scaled_up, scaled_up),
    ),
    Misconception(
        "overflow",
        "Undo the subtraction: sum · exp(max) is the true sum.",
        "exp(max) of a large score is infinite. Only differences of scores are safe: subtract the "
        "new largest score before you take the exponential.",
        absolute,
    ),
    Misconception(
        "empty",
        "exp(-inf) is 0, so an empty block needs no care.",
        "Where both blocks are empty, the maximum is -inf, and -inf - -inf is NaN. Such a head has "
        "a sum of 0.",
        weighing(rescaled, rescaled, guarded=False),
    ),
)
OUTPUT = (
    Misconception(
        "adds_outputs",
        "The output over both blocks is the sum of the outputs.",
        "Each output is already a weighted mean of its block's values, with weights that sum to 1. "
        "In the sum of both the weights sum to 2.",
        changed(out=lambda *args: args[0] + args[3]),
    ),
    Misconception(
        "mean",
        "Two blocks count half each.",
        "A block counts by its share of the sum of exponentials, not by half.",
        changed(out=lambda *args: (args[0] + args[3]) / 2),
    ),
    Misconception(
        "ignores_sums",
        "The block with the larger maximum counts more.",
        "A block of many middling scores can outweigh one large score: multiply each rescaling by "
        "the block's sum.",
        changed(out=lambda *args: weighing(by_maximum, by_maximum)(*args)[0]),
    ),
    Misconception(
        "not_divided",
        "Weighted outputs add up.",
        "This is the weighted sum; divide it by the new sum, so that the weights sum to 1.",
        changed(out=lambda *args: merge_attention(*args)[0] * merge_attention(*args)[2][:, None]),
    ),
    Misconception(
        "zero_by_zero",
        "Dividing by the sum is always safe.",
        "Where both blocks are empty, 0 / 0 is NaN. The output of such a head is 0.",
        changed(
            out=lambda *args: (
                (each := merge_attention(*args))[0] * each[2][:, None] / each[2][:, None]
            )
        ),
    ),
)
IN_PLACE = Misconception(
    "in_place",
    "The partial results are not needed any more.",
    examples=(lambda *args: (merge_attention(*args), args[0].zero_())[0],),
)

# --- cases --------------------------------------------------------------------------------------


def look_at(index: int, name: str, mistakes: tuple[Misconception, ...], idea: str) -> Look:
    def rows(args: Args, wanted: Any, got: Any) -> Rows:
        pairs = (("expected", wanted), ("got", got))
        return tuple((which, f"{name} = {numbers(value[index])}") for which, value in pairs)

    return Look(lambda value, args: value[index], mistakes, idea, rows, equal=close)


JUDGE = Fusing(
    merge_attention,
    [FORM],
    looks=(
        look_at(1, "max", MAXIMUM, "`max` is each head's largest score over both blocks."),
        look_at(2, "sum", SUM, "`sum` adds exp(score - new max) over the keys of both blocks."),
        look_at(0, "out", OUTPUT, "`out` is the mean of both outputs, weighted by their sums."),
    ),
    evidence=[case([0.0], [2.0, 2.0]), case([3.0, 1.0], [-1.0]), case([800.0], [799.0, 800.0])],
)  # fmt: skip
NEVER = float("-inf")

EXERCISE = Exercise(
    number=2,
    title="Merging the attention over two blocks",
    minutes=8,
    points=3,
    task=Task(
        rules=(
            "One query with H heads has attended to two blocks of keys, a and b, separately. For "
            "each block, `out` (H, D) is its attention's output, `max` (H,) the largest score of "
            "each head, and `sum` (H,) the sum of exp(score - max) over its keys.",
            "Returns `(out, max, sum)` of all keys of both blocks, as if the query had attended to "
            "them at once. Shapes and types stay the same. Do not change the tensors.",
            "Scores can be so large that exp(score) is infinite.",
            "A head may see no key of a block: `max` is then -inf, and `sum` and `out` are 0. The "
            "result for a head that sees no key of either block has this form too, without NaN.",
        ),
        args=case([0.0], [0.0, 0.0, 0.0]),
        result=(
            torch.tensor([[2.5]], dtype=torch.float64),
            torch.tensor([0.0], dtype=torch.float64),
            torch.tensor([4.0], dtype=torch.float64),
        ),
        call="merge_attention(out_a=[[1]], max_a=[0], sum_a=[1],\n"
        "                out_b=[[3]], max_b=[0], sum_b=[3])",
        returns="out [[2.5]], max [0], sum [4]",
        steps=(
            "Block a is one key with a score of 0 and a value of 1.",
            "Block b has three keys with a score of 0 and the values 2, 3 and 4: a sum of three "
            "exp(0), which is 3.",
            "All four keys have the same weight, so the output over both blocks is the mean of 1, "
            "2, 3 and 4.",
        ),
    ),
    hints=(
        "Suppose both blocks had the same largest score. Which share of the weight would each "
        "block have?",
        "A sum is relative to its block's max. By which factor does it change if another, larger "
        "number is subtracted from every score?",
        "Bring both sums to the larger max with exp(its max - new max) and add them; the output is "
        "the mean of both outputs with these weights. Where both maxima are -inf, subtract 0 "
        "instead, and divide by 1 where the sum is 0.",
    ),
    right=(merge_attention, by_log_sum_exp),
    misconceptions=(FORM, *MAXIMUM, *SUM, *OUTPUT, IN_PLACE),
    checks=(
        ("equal largest scores", JUDGE.on(case([0.0], [0.0, 0.0, 0.0]), case([2.0], [2.0, 1.0]))),
        ("unequal largest scores", JUDGE.on(case([0.0], [2.0, 2.0]), case([3.0, 1.0], [-1.0]))),
        ("large scores", JUDGE.on(case([800.0], [799.0]), case([-900.0], [-900.0, -901.0]))),
        (
            "blocks without a visible key",
            JUDGE.on(case([1.0], []), case([NEVER], [2.0, 0.0]), case([], [NEVER])),
        ),
        ("any blocks", JUDGE.on_drawn(any_blocks)),
    ),
    draw_call=draw_call,
)  # fmt: skip

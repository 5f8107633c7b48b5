"""Exercise 4b.1: what a window costs on an existing text."""

import math
import random
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from course.calling.plain_values import as_number
from course.checks.comparing import Args, a_kind
from course.checks.fusing import Fusing, Look
from course.exercise import Exercise, Misconception, Task
from course.harness import Rows
from solutions.l04b_window_quality._measures import ADDED_LOSS, AGREEMENT, picked, with_loss

# --- right answers ------------------------------------------------------------------------------


def compare_logits(
    full_logits: Tensor, window_logits: Tensor, targets: Tensor
) -> tuple[float, float]:
    """Return `(agreement, nll_delta)`: what a window costs on an existing text."""
    # Agreement compares only the most likely token of each row. The loss sees every change in what
    # the model expects, and no random draw can flatter it.
    same = full_logits.argmax(1) == window_logits.argmax(1)  # (T,)
    added = F.cross_entropy(window_logits, targets) - F.cross_entropy(full_logits, targets)
    return same.float().mean().item(), added.item()


def with_log_softmax(
    full_logits: Tensor, window_logits: Tensor, targets: Tensor
) -> tuple[float, float]:
    def nll(logits: Tensor) -> Tensor:
        return -logits.log_softmax(dim=1)[range(len(targets)), targets]  # (T,)

    same = full_logits.max(dim=1).indices.eq(window_logits.max(dim=1).indices)  # (T,)
    return sum(same.tolist()) / len(same), float((nll(window_logits) - nll(full_logits)).mean())


# --- wrong ideas --------------------------------------------------------------------------------


def shifts_the_logits(full: Tensor, window: Tensor, targets: Tensor) -> tuple[float, float]:
    result = compare_logits(full, window, targets)
    full.sub_(full.amax(1, keepdim=True))
    return result


FORMS = (
    Misconception(
        "not_two",
        "Only the loss counts.",
        "Return two numbers: `return agreement, nll_delta`.",
        matches=lambda got, wanted: not isinstance(got, tuple) or len(got) != 2,
        examples=(lambda *args: compare_logits(*args)[1],),
    ),
    Misconception(
        "not_floats",
        "The numbers go into a table, so I return text.",
        lambda got, wanted: f"Return two floats; these are {a_kind(got[0])} and {a_kind(got[1])}.",
        matches=lambda got, wanted: any(as_number(part) is None for part in got),
        examples=(lambda *args: tuple(map(str, compare_logits(*args))),),
    ),
    Misconception(
        "not_finite",
        "I can compute log(sum(exp(x))) as it is written.",
        "This is not finite. The exponential of a large logit overflows float32, and the "
        "probability of an unlikely token rounds to 0: stay with logarithms, as log_softmax does.",
        matches=lambda got, wanted: not all(map(math.isfinite, got)),
        examples=(
            with_loss(
                lambda logits, targets: picked(
                    logits.exp().sum(1, keepdim=True).log() - logits, targets
                )
            ),
        ),
    ),
)
IN_PLACE = Misconception(
    "in_place", "Shifting the logits in place changes nothing.", examples=(shifts_the_logits,)
)

# --- drawing ------------------------------------------------------------------------------------


def draw_logits(name: str, args: Args) -> str:
    """The call, with small logits in full and large ones as shapes."""
    full, window, targets = args
    call = f"{name}(full_logits, window_logits, targets)"
    if full.numel() > 20:
        return f"{call} of {len(full)} rows and {full.shape[1]} tokens"
    lines = [call]
    for name, logits in (("full_logits", full), ("window_logits", window)):
        rows = ["[" + ", ".join(f"{cell:g}" for cell in row) + "]" for row in logits.tolist()]
        lines.append(f"{name} = [{', '.join(rows)}]")
    return "\n".join([*lines, f"targets = {targets.tolist()}"])


def both_numbers(args: Args, wanted: Sequence[float], got: Sequence[float]) -> Rows:
    """Each pair of numbers, by their names."""
    return tuple(
        (which, f"agreement {values[0]:.4g}, nll_delta {values[1]:.4g}")
        for which, values in (("expected", wanted), ("got", got))
    )


# --- cases --------------------------------------------------------------------------------------

FULL = torch.tensor([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [1.0, 0.0, 4.0], [2.0, 1.0, 0.0]])
WINDOW = torch.tensor([[3.0, 0.0, 1.0], [0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [3.0, 1.0, 0.0]])
SURE = torch.tensor([[120.0, 0.0, 30.0], [0.0, 150.0, 10.0]])
SURE_OF_ELSE = torch.tensor([[100.0, 0.0, 30.0], [10.0, 0.0, 150.0]])


def readings(rng: random.Random, length: int, vocab: int) -> Args:
    """Random logits of two similar readings, and targets."""
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    full = torch.randn(length, vocab, generator=generator) * 2  # (T, V)
    window = full + torch.randn(length, vocab, generator=generator)  # (T, V)
    return full, window, torch.randint(vocab, (length,), generator=generator)


def any_readings(rng: random.Random) -> list[Args]:
    cases = [readings(rng, length, vocab) for length, vocab in ((6, 4), (1, 2), (30, 10), (64, 65))]
    full, window, targets = readings(rng, 12, 5)
    return [*cases, (full.double(), window.double(), targets)]


def close(got: float, wanted: float) -> bool:
    return abs(got - wanted) <= 1e-4 * max(1.0, abs(wanted))


def look_at(index: int, mistakes: Sequence[Misconception], idea: str) -> Look:
    return Look(lambda value, args: value[index], mistakes, idea, both_numbers, equal=close)


JUDGE = Fusing(
    compare_logits,
    FORMS,
    looks=(
        look_at(
            0,
            AGREEMENT,
            "Agreement is the share of rows in which the same token is the most likely one in both "
            "readings.",
        ),
        look_at(
            1,
            ADDED_LOSS,
            "nll_delta is the mean negative log likelihood of the targets with the window, minus "
            "the one with the full context.",
        ),
    ),
    evidence=[readings(random.Random(seed), 40, 6) for seed in (4, 5, 6)],
)

EXERCISE = Exercise(
    number=1,
    title="What a window costs",
    minutes=9,
    points=2,
    task=Task(
        rules=(
            "The model has read a text twice, with its full context and under a window. Row t of "
            "`full_logits` and of `window_logits`, both (T, V), are its logits for the token after "
            "position t. `targets` (T,) are the tokens that really came next.",
            "`agreement` is the share of rows, from 0 to 1, whose most likely token is the same in "
            "both.",
            "`nll_delta` is how much the window adds to the mean negative log likelihood of "
            "`targets`, in nats per token. It is negative where the window helps.",
            "Returns `(agreement, nll_delta)`, two floats. Do not change the tensors.",
        ),
        args=(
            torch.tensor([[2.0, 0.0], [1.0, 0.0]]),
            torch.tensor([[0.0, 2.0], [1.0, 0.0]]),
            torch.tensor([0, 0]),
        ),
        result=(0.5, 1.0),
        call="compare_logits(full_logits=[[2, 0], [1, 0]],\n"
        "               window_logits=[[0, 2], [1, 0]],\n               targets=[0, 0])",
        steps=(
            "In row 0 token 0 is the most likely one with the full context, and token 1 under the "
            "window. In row 1 both choose token 0. One row of two agrees.",
            "The log likelihood of target 0 falls by 2 nats in row 0 and by nothing in row 1. The "
            "mean is (2 + 0) / 2 = 1.",
        ),
    ),
    hints=(
        "Which of the two numbers needs the targets, and which only the two readings?",
        "Agreement: compare the argmax of each row. Loss: the cross entropy of logits and targets "
        "is the mean negative log likelihood.",
        "The mean of True and False, converted to numbers, is a share. Take torch.nn.functional's "
        "cross_entropy of each reading, and subtract so that a cost is positive.",
    ),
    right=(compare_logits, with_log_softmax),
    misconceptions=(*FORMS, *AGREEMENT, *ADDED_LOSS, IN_PLACE),
    checks=(
        ("four rows", JUDGE.on((FULL, WINDOW, torch.tensor([0, 1, 2, 1])))),
        (
            "a window that helps, and none at all",
            JUDGE.on(
                (WINDOW, FULL, torch.tensor([2, 1, 2, 1])),
                (WINDOW[:1], FULL[:1], torch.tensor([2])),
                (WINDOW, WINDOW, torch.tensor([0, 0, 0, 0])),
            ),
        ),
        ("large logits", JUDGE.on((SURE, SURE_OF_ELSE, torch.tensor([0, 0])))),
        ("any logits", JUDGE.on_drawn(any_readings)),
    ),
    draw_call=draw_logits,
)

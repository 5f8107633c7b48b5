"""Exercise 4b.1: what a window costs on a known text."""

import math
import random
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from course.calling.plain_values import as_number
from course.checks.comparing import Args, a_kind
from course.checks.fusing import Fusing, Look
from course.exercise import Exercise, Misconception
from course.harness import Rows
from course.task import Task
from solutions.l04b_window_quality._measures import ADDED_LOSS, AGREEMENT, picked, with_loss

# --- right answers ------------------------------------------------------------------------------


def compare_logits(
    full_logits: Tensor, window_logits: Tensor, targets: Tensor
) -> tuple[float, float]:
    """Return `(agreement, nll_delta)`: what a window costs on a known text."""
    # Agreement sees only the first place of each row; the likelihood of the text sees every change
    # in what the model expects, and no lucky draw can flatter it.
    same = full_logits.argmax(1) == window_logits.argmax(1)  # (T,)
    added = F.cross_entropy(window_logits, targets) - F.cross_entropy(full_logits, targets)
    return same.float().mean().item(), added.item()


def by_hand(full_logits: Tensor, window_logits: Tensor, targets: Tensor) -> tuple[float, float]:
    same, added = 0, 0.0
    for t, target in enumerate(targets.tolist()):
        full, window = full_logits[t].double(), window_logits[t].double()  # (V,) each
        same += int(full.argmax()) == int(window.argmax())
        before = full.exp().sum().log() - full[target]
        after = window.exp().sum().log() - window[target]
        added += float(after - before)
    return same / len(targets), added / len(targets)


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
        "What counts is the likelihood.",
        "Return two numbers: `return agreement, nll_delta`.",
        matches=lambda got, wanted: not isinstance(got, tuple) or len(got) != 2,
        examples=(lambda *args: compare_logits(*args)[1],),
    ),
    Misconception(
        "not_floats",
        "A table holds text.",
        lambda got, wanted: (
            f"Both are numbers (floats); these are {a_kind(got[0])} and {a_kind(got[1])}."
        ),
        matches=lambda got, wanted: any(as_number(part) is None for part in got),
        examples=(lambda *args: tuple(map(str, compare_logits(*args))),),
    ),
    Misconception(
        "not_finite",
        "log(sum(exp(x))) is what it says.",
        "This is not finite: e to the power of a large logit is more than a float32 holds, and the "
        "probability of an unlikely token rounds to 0: work with logarithms all the way.",
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
IN_PLACE = Misconception("in_place", "Shifted logits say the same.", examples=(shifts_the_logits,))

# --- drawing ------------------------------------------------------------------------------------


def draw_logits(name: str, args: Args) -> str:
    """The call, with small logits in full, large ones as shapes."""
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
    """Random logits of two readings that resemble each other, and targets."""
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
            "Agreement is the share of rows in which both readings find the same token most "
            "likely.",
        ),
        look_at(
            1,
            ADDED_LOSS,
            "nll_delta is how much worse the text is predicted with the window: the mean negative "
            "log likelihood of its tokens, next to the one without a window.",
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
        signature="compare_logits(full_logits: torch.Tensor, window_logits: torch.Tensor, targets: "
        "torch.Tensor) -> tuple[float, float]",
        rules=(
            "The model has read a text twice, with its full context and with a window. Row t of "
            "each logits (T, V), of any size, is what it expects next at one place; `targets` (T,) "
            "are the tokens that really came next there.",
            "`agreement` is the share of rows, from 0 to 1, in which both times the same token is "
            "the most likely one.",
            "`nll_delta` is how much the window adds to the mean negative log likelihood of "
            "`targets`, in nats per token; below 0 where the window helps.",
            "Returns `(agreement, nll_delta)`, two plain numbers.",
        ),
        args=(
            torch.tensor([[2.0, 0.0], [1.0, 0.0]]),
            torch.tensor([[0.0, 2.0], [1.0, 0.0]]),
            torch.tensor([0, 0]),
        ),
        result=(0.5, 1.0),
    ),
    hints=(
        "Which of the two numbers needs the text, and which only the two readings?",
        "Agreement: compare the argmax of each row. Loss: the cross entropy of logits and targets "
        "is the mean negative log likelihood.",
        "A mean of True and False, once they are numbers, is a share. cross_entropy of "
        "torch.nn.functional takes logits and targets as they are; take it twice, and think about "
        "which of the two is subtracted so that a cost is above 0.",
    ),
    right=(compare_logits, by_hand, with_log_softmax),
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

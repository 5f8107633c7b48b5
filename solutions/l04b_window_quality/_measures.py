"""Agreement and added loss, each measured in several wrong ways."""

import math
from collections.abc import Callable
from typing import TypeAlias

import torch.nn.functional as F
from torch import Tensor

from course.exercise import Misconception

Measure: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor | float]
Answer: TypeAlias = Callable[[Tensor, Tensor, Tensor], tuple[float, float]]


def agreement(full: Tensor, window: Tensor, targets: Tensor) -> float:
    return float((full.argmax(1) == window.argmax(1)).double().mean())


def added_loss(full: Tensor, window: Tensor, targets: Tensor) -> float:
    return float(F.cross_entropy(window, targets) - F.cross_entropy(full, targets))


def agreeing(rule: Measure) -> Answer:
    """The right loss, and an agreement by such a rule."""
    return lambda full, window, targets: (
        float(rule(full, window, targets)),
        added_loss(full, window, targets),
    )


def sharing(rule: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Answer:
    """Agreement is the share of rows where rule(full's choices, window's, targets) is true."""
    return agreeing(
        lambda full, window, targets: (
            rule(full.argmax(1), window.argmax(1), targets).double().mean()
        )
    )


def adding(rule: Measure) -> Answer:
    """The right agreement, and an added loss by such a rule."""
    return lambda full, window, targets: (
        agreement(full, window, targets),
        float(rule(full, window, targets)),
    )


def with_loss(loss: Callable[[Tensor, Tensor], Tensor]) -> Answer:
    """The window adds to loss(logits, targets)."""
    return adding(lambda full, window, targets: loss(window, targets) - loss(full, targets))


def picked(values: Tensor, targets: Tensor) -> Tensor:
    """The mean of what (T, V) values say of the targets."""
    return values.gather(1, targets[:, None]).mean()


AGREEMENT = (
    Misconception(
        "with_targets",
        "Agreement is how often the windowed model is right.",
        "Agreement compares the two readings, the most likely token of each, row by row; whether "
        "either is the token that came is the likelihood's question.",
        sharing(lambda full, window, targets: window == targets),
        same_result=(sharing(lambda full, window, targets: full == targets),),
    ),
    Misconception(
        "disagreement",
        "What matters is what changes.",
        "This is the share of rows that differ; agreement is the share that stays the same.",
        sharing(lambda full, window, targets: full != window),
    ),
)
ADDED_LOSS = (
    Misconception(
        "sign",
        "The full model minus the windowed one.",
        "The sign is turned round: the loss with the window minus the loss without it is positive "
        "where the window costs something.",
        adding(lambda *args: -added_loss(*args)),
    ),
    Misconception(
        "no_sign",
        "A difference has no sign.",
        "A window can help, too, and then it adds less than nothing: keep the sign.",
        adding(lambda *args: abs(added_loss(*args))),
    ),
    Misconception(
        "sum",
        "The text's loss is the sum of its tokens' losses.",
        "Take the mean over the rows, in nats per token: a sum grows with the length of the text.",
        adding(lambda full, window, targets: len(full) * added_loss(full, window, targets)),
    ),
    Misconception(
        "raw_logits",
        "Logits are log probabilities.",
        "A logit is no log probability before a log_softmax over its row has made it one.",
        with_loss(lambda logits, targets: -picked(logits, targets)),
    ),
    Misconception(
        "perplexity",
        "Loss is perplexity.",
        "This compares perplexities; nats per token are what stands in the exponent.",
        with_loss(lambda logits, targets: F.cross_entropy(logits, targets).exp()),
        same_result=(adding(lambda *args: math.exp(added_loss(*args))),),
    ),
    Misconception(
        "window_alone",
        "What counts is how good the windowed model is.",
        "This is the whole loss with the window; what the window adds is the difference from the "
        "loss without it.",
        adding(lambda full, window, targets: F.cross_entropy(window, targets)),
    ),
    Misconception(
        "shifted",
        "Logits predict the next token, so the targets move by one.",
        "Row t and targets[t] belong together already; moved by one more, every row is judged by "
        "another row's token.",
        adding(lambda full, window, targets: added_loss(full[:-1], window[:-1], targets[1:])),
    ),
)

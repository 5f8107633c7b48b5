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
        "Agreement says how often the windowed model is right.",
        "Agreement compares the most likely tokens of the two readings, row by row. Whether one of "
        "them is the target does not matter here.",
        sharing(lambda full, window, targets: window == targets),
        same_result=(sharing(lambda full, window, targets: full == targets),),
    ),
    Misconception(
        "disagreement",
        "What matters is how many rows change.",
        "This is the share of rows that differ. Agreement is the share that stays the same.",
        sharing(lambda full, window, targets: full != window),
    ),
)
ADDED_LOSS = (
    Misconception(
        "sign",
        "The added loss is the full one minus the windowed one.",
        "The sign is wrong: subtract the loss with the full context from the loss with the window, "
        "so that a cost is positive.",
        adding(lambda *args: -added_loss(*args)),
    ),
    Misconception(
        "sum",
        "The text's loss is the sum of its tokens' losses.",
        "Take the mean over the rows, in nats per token. A sum grows with the length of the text.",
        adding(lambda full, window, targets: len(full) * added_loss(full, window, targets)),
    ),
    Misconception(
        "raw_logits",
        "Logits are log probabilities.",
        "A logit is not a log probability. Apply log_softmax to each row first.",
        with_loss(lambda logits, targets: -picked(logits, targets)),
    ),
    Misconception(
        "perplexity",
        "Loss is perplexity.",
        "This compares perplexities. A perplexity is the exponential of the loss; return nats per "
        "token.",
        with_loss(lambda logits, targets: F.cross_entropy(logits, targets).exp()),
        same_result=(adding(lambda *args: math.exp(added_loss(*args))),),
    ),
    Misconception(
        "window_alone",
        "What counts is the loss with the window.",
        "This is the loss with the window. Subtract the loss with the full context: the difference "
        "is what the window adds.",
        adding(lambda full, window, targets: F.cross_entropy(window, targets)),
    ),
    Misconception(
        "shifted",
        "Logits predict the next token, so the targets move by one.",
        "Row t already belongs to targets[t]. Shifted by one more, each row is scored with another "
        "row's target.",
        adding(lambda full, window, targets: added_loss(full[:-1], window[:-1], targets[1:])),
    ),
)

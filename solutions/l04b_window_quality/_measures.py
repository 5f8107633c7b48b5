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
        alike=(
            sharing(lambda full, window, targets: full == targets),
            sharing(lambda full, window, targets: (window == targets) & (full == targets)),
            sharing(lambda full, window, targets: (window == targets) == (full == targets)),
        ),
    ),
    Misconception(
        "wrong_dimension",
        "argmax needs no dimension but the first.",
        "A row is one place of the text: the most likely token is the largest within a row, not "
        "within a column.",
        agreeing(
            lambda full, window, targets: (full.argmax(0) == window.argmax(0)).double().mean()
        ),
    ),
    Misconception(
        "up_to_the_first_difference",
        "Once the texts part, nothing can be compared.",
        "Every row is judged by itself: both readings were given the same text, so a difference "
        "does not end the comparison.",
        sharing(lambda full, window, targets: (full == window).double().cumprod(0)),
    ),
    Misconception(
        "disagreement",
        "What matters is what changes.",
        "This is the share of rows that differ; agreement is the share that stays the same.",
        sharing(lambda full, window, targets: full != window),
    ),
    Misconception(
        "counted",
        "How many rows agree.",
        "This is the number of rows that agree; their share is that divided by all rows.",
        agreeing(lambda full, window, targets: len(full) * agreement(full, window, targets)),
    ),
    Misconception(
        "percent",
        "Agreement is a percentage.",
        "A share lies between 0 and 1; this one is in percent.",
        agreeing(lambda *args: 100 * agreement(*args)),
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
        "log2",
        "Information is measured in bits.",
        "These are bits: nats come from the natural logarithm.",
        adding(lambda *args: added_loss(*args) / math.log(2)),
    ),
    Misconception(
        "probabilities",
        "The likelihood is the probability.",
        "Without the logarithm a token that became nearly impossible hardly counts: average the "
        "negative logarithms of the probabilities, not the probabilities.",
        with_loss(lambda logits, targets: -picked(logits.softmax(1), targets)),
    ),
    Misconception(
        "logarithm_of_the_mean",
        "The logarithm can be taken at the end.",
        "Take the logarithm of each probability and then the mean; here it was the other way "
        "round, and one impossible token hides among the others.",
        with_loss(lambda logits, targets: -picked(logits.softmax(1), targets).log()),
    ),
    Misconception(
        "raw_logits",
        "Logits are log probabilities.",
        "A logit is no log probability before a log_softmax over its row has made it one.",
        with_loss(lambda logits, targets: -picked(logits, targets)),
    ),
    Misconception(
        "wrong_dimension",
        "The softmax runs over the first dimension.",
        "A row is one place of the text: its probabilities add up to 1 along the tokens, not along "
        "the places.",
        with_loss(lambda logits, targets: -picked(logits.log_softmax(0), targets)),
    ),
    Misconception(
        "softmax_twice",
        "cross_entropy wants probabilities.",
        "cross_entropy takes logits and applies the softmax itself; here it was applied twice.",
        with_loss(lambda logits, targets: F.cross_entropy(logits.softmax(1), targets)),
    ),
    Misconception(
        "perplexity",
        "Loss is perplexity.",
        "This compares perplexities; nats per token are what stands in the exponent.",
        with_loss(lambda logits, targets: F.cross_entropy(logits, targets).exp()),
        alike=(adding(lambda *args: math.exp(added_loss(*args))),),
    ),
    Misconception(
        "window_alone",
        "What counts is how good the windowed model is.",
        "This is the whole loss with the window; what the window adds is the difference from the "
        "loss without it.",
        adding(lambda full, window, targets: F.cross_entropy(window, targets)),
    ),
    Misconception(
        "own_tokens",
        "The full model's choice is the truth.",
        "What counts is the likelihood of `targets`, the tokens that really came, not of the "
        "tokens that the model likes best.",
        adding(lambda full, window, targets: added_loss(full, window, full.argmax(1))),
        alike=(with_loss(lambda logits, targets: F.cross_entropy(logits, logits.argmax(1))),),
    ),
    Misconception(
        "shifted",
        "Logits predict the next token, so the targets move by one.",
        "Row t and targets[t] belong together already; moved by one more, every row is judged by "
        "another row's token.",
        adding(lambda full, window, targets: added_loss(full[:-1], window[:-1], targets[1:])),
    ),
    Misconception(
        "from_the_full_model",
        "The window's cost is its distance from the full model.",
        "This asks how far the two readings lie apart; what the window costs is how much less it "
        "expects the text: use `targets`.",
        adding(
            lambda full, window, targets: F.kl_div(
                window.log_softmax(1),
                full.log_softmax(1),
                log_target=True,
                reduction="batchmean",
            )
        ),
        alike=(adding(lambda full, window, targets: F.cross_entropy(window, full.softmax(1))),),
    ),
)

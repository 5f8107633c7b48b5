"""Judging what is made of two readings of a text: their agreement, and the added loss."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course.checks.comparing import Args, Mistake, a_kind
from course.judging import Ask, Failure, Rows
from course.sameness import like
from course.showing import show
from nanogpt.parts.plain_values import as_number

_Measure = Callable[[Tensor, Tensor, Tensor], float]
_PARTS = ("agreement", "nll_delta")


def _agreement(full: Tensor, window: Tensor, targets: Tensor) -> float:
    return float((full.argmax(1) == window.argmax(1)).double().mean())


def _delta(full: Tensor, window: Tensor, targets: Tensor) -> float:
    return float(F.cross_entropy(window, targets) - F.cross_entropy(full, targets))


def _share(rule: Callable[[Tensor, Tensor, Tensor], Tensor]) -> _Measure:
    """The share of rows for which rule(full's choices, window's choices, targets) is true."""
    return lambda full, window, targets: float(
        rule(full.argmax(1), window.argmax(1), targets).double().mean()
    )


def _difference(loss: Callable[[Tensor, Tensor], Tensor]) -> _Measure:
    """What the window adds to loss(logits, targets)."""
    return lambda full, window, targets: float(loss(window, targets) - loss(full, targets))


def _picked(values: Tensor, targets: Tensor) -> Tensor:
    return values.gather(1, targets[:, None]).mean()


def _prefix(full: Tensor, window: Tensor, targets: Tensor) -> float:
    return float((full.argmax(1) == window.argmax(1)).double().cumprod(0).mean())


def _kl(full: Tensor, window: Tensor, targets: Tensor) -> float:
    return float(
        F.kl_div(window.log_softmax(1), full.log_softmax(1), log_target=True, reduction="batchmean")
    )


_NOT_THE_TEXT = (
    "Agreement compares the two readings, the most likely token of each, row by row; whether "
    "either is the token that came is the likelihood's question."
)
_AGREEMENT: tuple[Mistake[_Measure], ...] = (
    Mistake("with_targets", _NOT_THE_TEXT, _share(lambda full, window, targets: window == targets)),
    Mistake("with_targets", _NOT_THE_TEXT, _share(lambda full, window, targets: full == targets)),
    Mistake(
        "with_targets",
        _NOT_THE_TEXT,
        _share(lambda full, window, targets: (window == targets) & (full == targets)),
    ),
    Mistake(
        "with_targets",
        _NOT_THE_TEXT,
        _share(lambda full, window, targets: (window == targets) == (full == targets)),
    ),
    Mistake(
        "wrong_dimension",
        "A row is one place of the text: the most likely token is the largest within a row, not "
        "within a column.",
        lambda full, window, targets: float((full.argmax(0) == window.argmax(0)).double().mean()),
    ),
    Mistake(
        "up_to_the_first_difference",
        "Every row is judged by itself: both readings were given the same text, so a difference "
        "does not end the comparison.",
        _prefix,
    ),
    Mistake(
        "disagreement",
        "This is the share of rows that differ; agreement is the share that stays the same.",
        _share(lambda full, window, targets: full != window),
    ),
    Mistake(
        "counted",
        "This is the number of rows that agree; their share is that divided by all rows.",
        lambda full, window, targets: len(full) * _agreement(full, window, targets),
    ),
    Mistake(
        "percent",
        "A share lies between 0 and 1; this one is in percent.",
        lambda full, window, targets: 100 * _agreement(full, window, targets),
    ),
)
_SAMPLED = (
    "Agreement compares the most likely tokens; this number changes with how sure the model is, as "
    "it does when tokens are drawn, and then luck decides what the window costs."
)
_NLL: tuple[Mistake[_Measure], ...] = (
    Mistake(
        "sign",
        "The sign is turned round: the loss with the window minus the loss without it is positive "
        "where the window costs something.",
        lambda full, window, targets: -_delta(full, window, targets),
    ),
    Mistake(
        "no_sign",
        "A window can help, too, and then it adds less than nothing: keep the sign.",
        lambda full, window, targets: abs(_delta(full, window, targets)),
    ),
    Mistake(
        "sum",
        "Take the mean over the rows, in nats per token: a sum grows with the length of the text.",
        lambda full, window, targets: len(full) * _delta(full, window, targets),
    ),
    Mistake(
        "log2",
        "These are bits: nats come from the natural logarithm.",
        lambda full, window, targets: _delta(full, window, targets) / math.log(2),
    ),
    Mistake(
        "probabilities",
        "Without the logarithm a token that became nearly impossible hardly counts: average the "
        "negative logarithms of the probabilities, not the probabilities.",
        _difference(lambda logits, targets: -_picked(logits.softmax(1), targets)),
    ),
    Mistake(
        "logarithm_of_the_mean",
        "Take the logarithm of each probability and then the mean; here it was the other way "
        "round, and one impossible token hides among the others.",
        _difference(lambda logits, targets: -_picked(logits.softmax(1), targets).log()),
    ),
    Mistake(
        "raw_logits",
        "A logit is no log probability before a log_softmax over its row has made it one.",
        _difference(lambda logits, targets: -_picked(logits, targets)),
    ),
    Mistake(
        "wrong_dimension",
        "A row is one place of the text: its probabilities add up to 1 along the tokens, not along "
        "the places.",
        _difference(lambda logits, targets: -_picked(logits.log_softmax(0), targets)),
    ),
    Mistake(
        "softmax_twice",
        "cross_entropy takes logits and applies the softmax itself; here it was applied twice.",
        _difference(lambda logits, targets: F.cross_entropy(logits.softmax(1), targets)),
    ),
    Mistake(
        "perplexity",
        "This compares perplexities; nats per token are what stands in the exponent.",
        _difference(lambda logits, targets: F.cross_entropy(logits, targets).exp()),
    ),
    Mistake(
        "perplexity",
        "This compares perplexities; nats per token are what stands in the exponent.",
        lambda full, window, targets: math.exp(_delta(full, window, targets)),
    ),
    Mistake(
        "window_alone",
        "This is the whole loss with the window; what the window adds is the difference from the "
        "loss without it.",
        lambda full, window, targets: float(F.cross_entropy(window, targets)),
    ),
    Mistake(
        "own_tokens",
        "What counts is the likelihood of `targets`, the tokens that really came, not of the "
        "tokens that the model likes best.",
        lambda full, window, targets: _delta(full, window, full.argmax(1)),
    ),
    Mistake(
        "own_tokens",
        "What counts is the likelihood of `targets`, the tokens that really came, not of the "
        "tokens that the model likes best.",
        _difference(lambda logits, targets: F.cross_entropy(logits, logits.argmax(1))),
    ),
    Mistake(
        "shifted",
        "Row t and targets[t] belong together already; moved by one more, every row is judged by "
        "another row's token.",
        lambda full, window, targets: _delta(full[:-1], window[:-1], targets[1:]),
    ),
    Mistake(
        "from_the_full_model",
        "This asks how far the two readings lie apart; what the window costs is how much less it "
        "expects the text: use `targets`.",
        _kl,
    ),
    Mistake(
        "from_the_full_model",
        "This asks how far the two readings lie apart; what the window costs is how much less it "
        "expects the text: use `targets`.",
        lambda full, window, targets: float(F.cross_entropy(window, full.softmax(1))),
    ),
)


def _measure_form(value: Any) -> tuple[str, str] | None:
    if type(value) is not tuple or len(value) != 2:
        return "not_two", "Return two numbers: `return agreement, nll_delta`."
    for name, part in zip(_PARTS, value, strict=True):
        if as_number(part) is None:
            return "not_floats", f"{name} is a number (a float), not {a_kind(part)}."
    return None


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-4 * max(1.0, abs(b))


def _draw_measures(values: Sequence[float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in zip(_PARTS, values, strict=True))


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


def judge_readings(ask: Ask, *cases: Args) -> Failure | None:
    """Ask about each (full_logits, window_logits, targets); the first wrong number fails."""
    for args in cases:
        wanted = (_agreement(*args), _delta(*args))
        got = like(ask(*args), wanted)
        form = _measure_form(got)
        rows: Rows = (
            ("input", draw_logits(ask.name, args)),
            ("expected", _draw_measures(wanted)),
            ("got", show(got) if form else _draw_measures(got)),
        )
        if got is None:
            return Failure("judge returned nothing: end it with `return`.", rows, "no_return")
        if form:
            return Failure(form[1], rows, form[0])
        wrong = [part for part in (0, 1) if not _close(got[part], wanted[part])]
        if len(wrong) == 2 and _close(got[0], wanted[1]) and _close(got[1], wanted[0]):
            idea = "The two numbers changed places: first the agreement, then the added loss."
            return Failure(idea, rows, "changed_places")
        if wrong:
            key, idea = _explain_measure(ask, wrong[0], args, got[wrong[0]])
            return Failure(idea, rows, key)
    return None


_NOT_FINITE = (
    "This is not finite: e to the power of a large logit is more than a float32 holds, and the "
    "probability of an unlikely token rounds to 0: work with logarithms all the way."
)


def _explain_measure(ask: Ask, part: int, args: Args, got: float) -> tuple[str | None, str]:
    """(key, idea) for a wrong number: the mistake that explains it and the most of others."""
    if not math.isfinite(got):
        return "not_finite", _NOT_FINITE
    mistakes = (_AGREEMENT, _NLL)[part]
    results = [(args, got), *_more_measures(ask, part, 1.0)]
    if part == 0:
        sure = _more_measures(ask, part, 1e4)
        if sure and all(_close(value, _agreement(*case_)) for case_, value in sure):
            return "sampled", _SAMPLED
    for mistake in mistakes:
        if all(_close(mistake.answer(*case_), value) for case_, value in results):
            return mistake.key, mistake.idea
    ideas = (
        "Agreement is the share of rows in which both readings find the same token most likely.",
        "nll_delta is how much worse the text is predicted with the window: the mean negative log "
        "likelihood of its tokens, next to the one without a window.",
    )
    return None, ideas[part]


def _more_measures(ask: Ask, part: int, scale: float) -> list[tuple[Args, float]]:
    """One of the two numbers for more logits, which `scale` makes surer of their first choice."""
    results: list[tuple[Args, float]] = []
    rng = random.Random(4)
    try:
        for _ in range(3):
            full, window, targets = readings(rng, 40, 6)
            args = (full * scale, window * scale, targets)
            results.append((args, like(ask(*args), (0.0, 0.0))[part] + 0.0))
    except Exception:
        return results
    return results


def readings(rng: random.Random, length: int, vocab: int) -> Args:
    """Random logits of two readings that resemble each other, and targets."""
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    full = torch.randn(length, vocab, generator=generator) * 2  # (T, V)
    window = full + torch.randn(length, vocab, generator=generator)  # (T, V)
    return full, window, torch.randint(vocab, (length,), generator=generator)

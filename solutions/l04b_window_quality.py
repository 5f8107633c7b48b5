"""Lesson 4b, what a window costs: the worked answer, other right ones, known wrong ones."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from solutions.wrong import WrongAnswer


def judge(full_logits: Tensor, window_logits: Tensor, targets: Tensor) -> tuple[float, float]:
    """Return `(agreement, nll_delta)`: what a window costs on a known text.

    The model has read the same text twice, with its full context and with a window. Row t of each
    logits (T, V) is what it expects next at one place; `targets` (T,) are the tokens that really
    came next there.
    `agreement` is the share of rows, from 0 to 1, in which both times the same token is the most
    likely one. `nll_delta` is how much the window adds to the mean negative log likelihood of
    `targets`, in nats per token; it is negative where the window helps. Both are plain floats.
    """
    # Agreement sees only the first place of each row; the likelihood of the text sees every change
    # in what the model expects, and no lucky draw can flatter it.
    same = full_logits.argmax(1) == window_logits.argmax(1)  # (T,)
    added = F.cross_entropy(window_logits, targets) - F.cross_entropy(full_logits, targets)
    return same.float().mean().item(), added.item()


def judge_by_hand(
    full_logits: Tensor, window_logits: Tensor, targets: Tensor
) -> tuple[float, float]:
    same, added = 0, 0.0
    for t, target in enumerate(targets.tolist()):
        full, window = full_logits[t].double(), window_logits[t].double()  # (V,) each
        same += int(full.argmax()) == int(window.argmax())
        before = full.exp().sum().log() - full[target]
        after = window.exp().sum().log() - window[target]
        added += float(after - before)
    return same / len(targets), added / len(targets)


def judge_with_log_softmax(
    full_logits: Tensor, window_logits: Tensor, targets: Tensor
) -> tuple[float, float]:
    def nll(logits: Tensor) -> Tensor:
        return -logits.log_softmax(dim=1)[range(len(targets)), targets]  # (T,)

    same = full_logits.max(dim=1).indices.eq(window_logits.max(dim=1).indices)  # (T,)
    return sum(same.tolist()) / len(same), float((nll(window_logits) - nll(full_logits)).mean())


def judge_both_at_once(
    full_logits: Tensor, window_logits: Tensor, targets: Tensor
) -> tuple[float, float]:
    logits = torch.stack([full_logits, window_logits]).double()  # (2, T, V)
    best = logits.argmax(2)  # (2, T)
    probs = logits.softmax(2).gather(2, targets.expand(2, -1).unsqueeze(2))  # (2, T, 1)
    full_nll, window_nll = -probs.log().mean(dim=(1, 2))
    differing = int(best.diff(dim=0).count_nonzero())
    return 1 - differing / len(targets), (window_nll - full_nll).item()


def judge_as_tensors(full_logits: Tensor, window_logits: Tensor, targets: Tensor) -> list[Tensor]:
    same = full_logits.argmax(1).eq(window_logits.argmax(1)).double().mean()
    picked = F.one_hot(targets, full_logits.shape[1]).bool()  # (T, V)
    window_nll = window_logits.logsumexp(1) - window_logits[picked]  # (T,)
    full_nll = full_logits.logsumexp(1) - full_logits[picked]  # (T,)
    return [same, (window_nll - full_nll).mean()]


def _with_naive_loss(nll: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """The added loss from probabilities (T, V) or their like, which have to be finite."""

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        return nll(logits)[range(len(targets)), targets].mean()

    return _with_loss(lambda full, window, targets: loss(window, targets) - loss(full, targets))


def _shifts_the_logits(full: Tensor, window: Tensor, targets: Tensor) -> tuple[float, float]:
    result = judge(full, window, targets)
    full.sub_(full.amax(1, keepdim=True))
    return result


def _with_agreement(rule: Callable[[Tensor, Tensor, Tensor], Any]) -> Callable[..., Any]:
    """The right loss, and an agreement of one's own."""

    def answer(full: Tensor, window: Tensor, targets: Tensor) -> tuple[float, float]:
        return float(rule(full, window, targets)), judge(full, window, targets)[1]

    return answer


def _with_loss(rule: Callable[[Tensor, Tensor, Tensor], Any]) -> Callable[..., Any]:
    """The right agreement, and an added loss of one's own."""

    def answer(full: Tensor, window: Tensor, targets: Tensor) -> tuple[float, float]:
        return judge(full, window, targets)[0], float(rule(full, window, targets))

    return answer


def _drawn_with_one_seed(full: Tensor, window: Tensor, targets: Tensor) -> Tensor:
    drawn: list[Tensor] = []
    for logits in (full, window):
        generator = torch.Generator().manual_seed(0)
        drawn.append(torch.multinomial(logits.softmax(-1), 1, generator=generator))
    return (drawn[0] == drawn[1]).float().mean()


def _until_they_part(full: Tensor, window: Tensor, targets: Tensor) -> float:
    same = (full.argmax(-1) == window.argmax(-1)).tolist()
    return [*same, False].index(False) / len(same)


def _mean_probability(logits: Tensor, targets: Tensor) -> Tensor:
    return logits.softmax(-1)[range(len(targets)), targets].mean()


def _mean_logit(logits: Tensor, targets: Tensor) -> Tensor:
    return logits[range(len(targets)), targets].mean()


# --- the lists that tests read ---------------------------------------------------------------

RIGHT = {
    "l04.judge": (
        judge,
        judge_by_hand,
        judge_with_log_softmax,
        judge_both_at_once,
        judge_as_tensors,
    ),
}


def _wrong(
    key: str, misconception: str, function: Callable[..., Any], name: str = ""
) -> WrongAnswer:
    return WrongAnswer("l04.judge", name or key.replace("_", " "), key, misconception, function)


WRONG = (
    _wrong(
        "sampled",
        "Draw from both and compare; with one seed that is fair.",
        _with_agreement(_drawn_with_one_seed),
    ),
    _wrong(
        "with_targets",
        "Agreement is how often the windowed model is right.",
        _with_agreement(
            lambda full, window, targets: (window.argmax(-1) == targets).float().mean()
        ),
    ),
    _wrong(
        "up_to_the_first_difference",
        "Once the texts part, nothing can be compared.",
        _with_agreement(_until_they_part),
    ),
    _wrong(
        "disagreement",
        "What matters is what changes.",
        _with_agreement(lambda full, window, targets: 1 - judge(full, window, targets)[0]),
    ),
    _wrong(
        "counted",
        "How many rows agree.",
        _with_agreement(lambda full, window, targets: len(full) * judge(full, window, targets)[0]),
    ),
    _wrong(
        "percent",
        "Agreement is a percentage.",
        _with_agreement(lambda full, window, targets: 100 * judge(full, window, targets)[0]),
    ),
    _wrong(
        "sign",
        "The full model minus the windowed one.",
        _with_loss(lambda full, window, targets: judge(window, full, targets)[1]),
    ),
    _wrong(
        "no_sign",
        "A difference has no sign.",
        _with_loss(lambda full, window, targets: abs(judge(full, window, targets)[1])),
    ),
    _wrong(
        "not_finite",
        "log(sum(exp(x))) is what it says.",
        _with_naive_loss(lambda logits: logits.exp().sum(1, keepdim=True).log() - logits),
        "exp of large logits",
    ),
    _wrong(
        "not_finite",
        "softmax, then the logarithm.",
        _with_naive_loss(lambda logits: -logits.softmax(1).log()),
        "log of a softmax",
    ),
    _wrong(
        "wrong_dimension",
        "The softmax runs over the first dimension.",
        _with_naive_loss(lambda logits: -logits.log_softmax(0)),
    ),
    _wrong(
        "wrong_dimension",
        "argmax needs no dimension but the first.",
        _with_agreement(
            lambda full, window, targets: (full.argmax(0) == window.argmax(0)).double().mean()
        ),
        "argmax of a column",
    ),
    _wrong("in_place", "Shifted logits say the same.", _shifts_the_logits),
    _wrong(
        "sum",
        "The text's loss is the sum of its tokens' losses.",
        _with_loss(lambda full, window, targets: len(full) * judge(full, window, targets)[1]),
    ),
    _wrong(
        "log2",
        "Information is measured in bits.",
        _with_loss(
            lambda full, window, targets: judge(full, window, targets)[1] / torch.tensor(2.0).log()
        ),
    ),
    _wrong(
        "probabilities",
        "The likelihood is the probability.",
        _with_loss(
            lambda full, window, targets: (
                _mean_probability(full, targets) - _mean_probability(window, targets)
            )
        ),
    ),
    _wrong(
        "logarithm_of_the_mean",
        "The logarithm can be taken at the end.",
        _with_loss(
            lambda full, window, targets: (
                _mean_probability(full, targets) / _mean_probability(window, targets)
            ).log()
        ),
    ),
    _wrong(
        "raw_logits",
        "Logits are log probabilities.",
        _with_loss(
            lambda full, window, targets: _mean_logit(full, targets) - _mean_logit(window, targets)
        ),
    ),
    _wrong(
        "softmax_twice",
        "cross_entropy wants probabilities.",
        _with_loss(
            lambda full, window, targets: judge(full.softmax(-1), window.softmax(-1), targets)[1]
        ),
    ),
    _wrong(
        "perplexity",
        "Loss is perplexity.",
        _with_loss(
            lambda full, window, targets: (
                F.cross_entropy(window, targets).exp() - F.cross_entropy(full, targets).exp()
            )
        ),
    ),
    _wrong(
        "window_alone",
        "What counts is how good the windowed model is.",
        _with_loss(lambda full, window, targets: F.cross_entropy(window, targets)),
    ),
    _wrong(
        "own_tokens",
        "The full model's choice is the truth.",
        _with_loss(lambda full, window, targets: judge(full, window, full.argmax(-1))[1]),
    ),
    _wrong(
        "shifted",
        "Logits predict the next token, so the targets move by one.",
        _with_loss(
            lambda full, window, targets: (
                judge(full[:-1], window[:-1], targets[1:])[1]
                if len(full) > 1
                else judge(full, window, targets)[1]
            )
        ),
    ),
    _wrong(
        "from_the_full_model",
        "The window's cost is its distance from the full model.",
        _with_loss(
            lambda full, window, targets: F.kl_div(
                window.log_softmax(-1),
                full.log_softmax(-1),
                log_target=True,
                reduction="batchmean",
            )
        ),
    ),
    _wrong(
        "changed_places",
        "The loss first, it matters most.",
        lambda full, window, targets: judge(full, window, targets)[::-1],
    ),
    _wrong(
        "not_floats",
        "A table holds text.",
        lambda full, window, targets: tuple(map(str, judge(full, window, targets))),
    ),
)

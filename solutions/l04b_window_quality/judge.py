"""Exercise 4b.1: what a window costs on a known text."""

import math
import random
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from course.calling.plain_values import as_number
from course.checks.comparing import Args, a_kind
from course.exercise import Exercise, Misconception
from course.format_values import show
from course.harness import Ask, Check, Failure, Rows, returned_nothing
from course.same_values import like
from course.task import Task
from solutions.l04b_window_quality._measures import (
    ADDED_LOSS,
    AGREEMENT,
    agreeing,
    picked,
    with_loss,
)

# --- right answers ------------------------------------------------------------------------------


def judge(full_logits: Tensor, window_logits: Tensor, targets: Tensor) -> tuple[float, float]:
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


def both_at_once(
    full_logits: Tensor, window_logits: Tensor, targets: Tensor
) -> tuple[float, float]:
    logits = torch.stack([full_logits, window_logits]).double()  # (2, T, V)
    best = logits.argmax(2)  # (2, T)
    probs = logits.softmax(2).gather(2, targets.expand(2, -1).unsqueeze(2))  # (2, T, 1)
    full_nll, window_nll = -probs.log().mean(dim=(1, 2))
    differing = int(best.diff(dim=0).count_nonzero())
    return 1 - differing / len(targets), (window_nll - full_nll).item()


def as_tensors(full_logits: Tensor, window_logits: Tensor, targets: Tensor) -> list[Tensor]:
    same = full_logits.argmax(1).eq(window_logits.argmax(1)).double().mean()
    picked = F.one_hot(targets, full_logits.shape[1]).bool()  # (T, V)
    window_nll = window_logits.logsumexp(1) - window_logits[picked]  # (T,)
    full_nll = full_logits.logsumexp(1) - full_logits[picked]  # (T,)
    return [same, (window_nll - full_nll).mean()]


# --- wrong ideas --------------------------------------------------------------------------------


def drawn_with_one_seed(full: Tensor, window: Tensor, targets: Tensor) -> Tensor:
    drawn: list[Tensor] = []
    for logits in (full, window):
        generator = torch.Generator().manual_seed(0)
        drawn.append(torch.multinomial(logits.softmax(-1), 1, generator=generator))
    return (drawn[0] == drawn[1]).float().mean()


def shifts_the_logits(full: Tensor, window: Tensor, targets: Tensor) -> tuple[float, float]:
    result = judge(full, window, targets)
    full.sub_(full.amax(1, keepdim=True))
    return result


NOT_TWO = Misconception(
    "not_two",
    "What counts is the likelihood.",
    "Return two numbers: `return agreement, nll_delta`.",
    also=(lambda *args: judge(*args)[1],),
)
NOT_FLOATS = Misconception(
    "not_floats",
    "A table holds text.",
    lambda name, part: f"{name} is a number (a float), not {a_kind(part)}.",
    also=(lambda *args: tuple(map(str, judge(*args))),),
)
CHANGED_PLACES = Misconception(
    "changed_places",
    "The loss first, it matters most.",
    "The two numbers changed places: first the agreement, then the added loss.",
    also=(lambda *args: judge(*args)[::-1],),
)
NOT_FINITE = Misconception(
    "not_finite",
    "log(sum(exp(x))) is what it says.",
    "This is not finite: e to the power of a large logit is more than a float32 holds, and the "
    "probability of an unlikely token rounds to 0: work with logarithms all the way.",
    also=(
        (
            with_loss(
                lambda logits, targets: picked(
                    logits.exp().sum(1, keepdim=True).log() - logits, targets
                )
            )
        ),
    ),
)
SAMPLED = Misconception(
    "sampled",
    "Draw from both and compare; with one seed that is fair.",
    "Agreement compares the most likely tokens; this number changes with how sure the model is, as "
    "it does when tokens are drawn, and then luck decides what the window costs.",
    also=(agreeing(drawn_with_one_seed),),
)
IN_PLACE = Misconception("in_place", "Shifted logits say the same.", also=(shifts_the_logits,))

# --- judging ------------------------------------------------------------------------------------

PARTS = ("agreement", "nll_delta")
IDEAS = (
    "Agreement is the share of rows in which both readings find the same token most likely.",
    "nll_delta is how much worse the text is predicted with the window: the mean negative log "
    "likelihood of its tokens, next to the one without a window.",
)


def judge_readings(ask: Ask, args: Args) -> Failure | None:
    """One call: its form, then the first of the two numbers that is wrong."""
    wanted = judge(*args)
    got = like(ask(*args), wanted)
    two = type(got) is tuple and len(got) == 2
    bad = [p for p in zip(PARTS, got if two else (), strict=False) if as_number(p[1]) is None]
    rows: Rows = (
        ("input", draw_logits(ask.name, args)),
        ("expected", draw_measures(wanted)),
        ("got", draw_measures(got) if two and not bad else show(got)),
    )
    if got is None:
        return Failure(returned_nothing(ask.name), rows, "no_return")
    if not two:
        return NOT_TWO.failure(rows)
    if bad:
        return NOT_FLOATS.failure(rows, *bad[0])
    wrong = [part for part in (0, 1) if not close(got[part], wanted[part])]
    if len(wrong) == 2 and close(got[0], wanted[1]) and close(got[1], wanted[0]):
        return CHANGED_PLACES.failure(rows)
    if not wrong:
        return None
    mistake = explanation(ask, wrong[0], args, got[wrong[0]])
    return mistake.failure(rows) if mistake else Failure(IDEAS[wrong[0]], rows)


def close(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-4 * max(1.0, abs(b))


def explanation(ask: Ask, part: int, args: Args, got: float) -> Misconception | None:
    """The mistake that gives this wrong number, and the same as the answer for more logits."""
    if not math.isfinite(got):
        large = max(float(logits.abs().max()) for logits in args[:2]) > 50
        return NOT_FINITE if large else None
    results = [(args, got), *more_measures(ask, part, 1.0)]
    if part == 0:
        sure = more_measures(ask, part, 1e4)
        if sure and all(close(value, judge(*case)[0]) for case, value in sure):
            return SAMPLED
    for each in (AGREEMENT, ADDED_LOSS)[part]:
        for answer in each.answers:
            if all(close(answer(*case)[part], value) for case, value in results):
                return each
    return None


def more_measures(ask: Ask, part: int, scale: float) -> list[tuple[Args, float]]:
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


def draw_measures(values: Sequence[float]) -> str:
    """The two numbers, by their names."""
    return ", ".join(f"{name} {value:.4g}" for name, value in zip(PARTS, values, strict=True))


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


def on(draw: Callable[[random.Random], Sequence[Args]]) -> Check:
    """The check that asks about such (full_logits, window_logits, targets)."""

    def check(ask: Ask, rng: random.Random) -> Failure | None:
        return next(filter(None, (judge_readings(ask, args) for args in draw(rng))), None)

    return check


def any_readings(rng: random.Random) -> list[Args]:
    cases = [readings(rng, length, vocab) for length, vocab in ((6, 4), (1, 2), (30, 10), (64, 65))]
    full, window, targets = readings(rng, 12, 5)
    return [*cases, (full.double(), window.double(), targets)]


EXERCISE = Exercise(
    number=1,
    title="What a window costs",
    minutes=9,
    points=2,
    task=Task(
        signature="judge(full_logits: torch.Tensor, window_logits: torch.Tensor, targets: "
        "torch.Tensor) -> tuple[float, float]",
        rules=(
            "The model has read a text twice, with its full context and with a window. Row t "
            "of each logits (T, V), of any size, is what it expects next at one place; "
            "`targets` (T,) are the tokens that really came next there.",
            "`agreement` is the share of rows, from 0 to 1, in which both times the same token "
            "is the most likely one.",
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
        "Agreement: compare the argmax of each row. Loss: the cross entropy of logits and "
        "targets is the mean negative log likelihood.",
        "A mean of True and False, once they are numbers, is a share. cross_entropy of "
        "torch.nn.functional takes logits and targets as they are; take it twice, and think "
        "about which of the two is subtracted so that a cost is above 0.",
    ),
    right=(judge, by_hand, with_log_softmax, both_at_once, as_tensors),
    misconceptions=(
        NOT_TWO,
        NOT_FLOATS,
        CHANGED_PLACES,
        NOT_FINITE,
        SAMPLED,
        *AGREEMENT,
        *ADDED_LOSS,
        IN_PLACE,
    ),
    checks=(
        ("four rows", on(lambda rng: [(FULL, WINDOW, torch.tensor([0, 1, 2, 1]))])),
        (
            "a window that helps, and none at all",
            on(
                lambda rng: [
                    (WINDOW, FULL, torch.tensor([2, 1, 2, 1])),
                    (WINDOW[:1], FULL[:1], torch.tensor([2])),
                    (WINDOW, WINDOW, torch.tensor([0, 0, 0, 0])),
                ]
            ),
        ),
        ("large logits", on(lambda rng: [(SURE, SURE_OF_ELSE, torch.tensor([0, 0]))])),
        ("any logits", on(any_readings)),
    ),
    draw_call=draw_logits,
)

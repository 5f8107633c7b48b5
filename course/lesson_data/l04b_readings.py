"""Behind lesson 4b: a text read with and without a window, and what that costs."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from course.attempt import Attempt
from course.calling.jobs import RunError, run
from course.lesson_data import recorded
from course.lesson_data.texts import shown, table
from nanogpt import GPT, Engine, EngineConfig, Request, decode, encode
from nanogpt.figures.curves import line_chart
from nanogpt.policies import sliding_window
from nanogpt.posts.oracle import attend_in_window

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Window = int | None

WINDOWS = (8, 16, 32, 64, 128)
_NAMES = (
    "LUCENTIO", "MENENIUS", "MERCUTIO", "PROSPERO", "BENVOLIO", "BAPTISTA", "CLARENCE", "ISABELLA"
)  # fmt: skip


@torch.inference_mode()
def read(
    model: GPT,
    tokens: Sequence[Sequence[int]] | torch.Tensor,
    window: Window | Sequence[Window],
    sinks: int | Sequence[int] = 0,
) -> torch.Tensor:
    """The logits after each token of known texts, (T, V) or (B, T, V) as `tokens`, (T,) or (B, T).

    `window` and `sinks` are one for all layers, or one for each.
    """
    known = torch.as_tensor(tokens)
    length = known.shape[-1]
    layers = model.config.num_layers
    windows = [window] * layers if window is None or isinstance(window, int) else window
    kept = [sinks] * layers if isinstance(sinks, int) else sinks
    attends = [attend_in_window(length, *each) for each in zip(windows, kept, strict=True)]
    return model.logits(
        model.hidden(
            known, torch.arange(length), lambda layer, q, k, v: attends[layer](layer, q, k, v)
        )
    )


def loss_of(logits: torch.Tensor, nexts: torch.Tensor) -> float:
    """Mean negative log likelihood, in nats per token. Shapes: (B, T, V) and (B, T)."""
    return F.cross_entropy(logits.flatten(0, -2), nexts.flatten()).item()


def passages() -> tuple[list[list[int]], torch.Tensor]:
    """Six texts of 256 characters that the shipped model has not been trained on, and what comes
    next at each place, (6, 256)."""
    found = [encode(each["text"]) for each in recorded("unread")["passages"]]
    return [each[:256] for each in found], torch.tensor([each[1:257] for each in found])


# --- what reaches the last token ----------------------------------------------------------------


def moves(exact: GPT, window: int = 8) -> dict[int, float]:
    """The largest change of the last logits when one token changes, by its distance."""
    tokens = torch.tensor(passages()[0][0][:60])
    before = read(exact, tokens, window)[-1]

    def moved(distance: int) -> float:
        other = tokens.clone()
        other[-1 - distance] = encode("Q")[0]
        return (before - read(exact, other, window)[-1]).abs().max().item()

    return {distance: moved(distance) for distance in (4, 8, 9, 20, 32, 33, 40)}


# --- what a window costs ------------------------------------------------------------------------


def costs(
    model: GPT, attempt: Attempt | None = None
) -> tuple[float, dict[tuple[int, int], tuple[float, float]]]:
    """Loss with the full context, and (agreement, added loss) by window and sinks.

    The learner's function compares the logits, or the reference until it answers.
    """
    _, nexts = passages()
    full, windowed = _readings(model)
    found = _compared(sliding_window.compare_logits, full, windowed, nexts)
    if attempt and attempt.started:
        with contextlib.suppress(RunError):
            measure = attempt.or_reference(sliding_window.compare_logits)
            found = run(_compared, measure, full, windowed, nexts)
    return loss_of(full, nexts), found


def _compared(
    measure: Callable[..., tuple[float, float]],
    full: torch.Tensor,
    windowed: dict[tuple[int, int], torch.Tensor],
    nexts: torch.Tensor,
) -> dict[tuple[int, int], tuple[float, float]]:
    """(agreement, added loss) of each reading. Shapes: readings (B, T, V), nexts (B, T)."""
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for which, each in windowed.items():
        agreement, added = measure(full.flatten(0, -2), each.flatten(0, -2), nexts.flatten())
        found[which] = float(agreement), float(added)
    return found


def cost_chart(
    full: float, by_window: dict[tuple[int, int], tuple[float, float]], whose: str
) -> Figure | str:
    """Loss against window, without sinks and with 4, beside the loss with the full context."""
    if not all(math.isfinite(added) for _, added in by_window.values()):
        return "Your `compare_logits` gives an added loss that is not finite; its check says more."
    title = "The course's model under a window, six passages outside its training text"
    losses = {
        name: [(w, full + by_window[w, sinks][1]) for w in WINDOWS]
        for sinks, name in ((0, "no sinks"), (4, "4 sinks"))
    }
    return line_chart(
        {"loss (nats per character)": losses}, "window W (characters)", title,
        f"compare_logits: {whose}", marks={"full context": full}, log_x=True, from_0=False,
    )  # fmt: skip


@functools.cache
def _readings(model: GPT) -> tuple[torch.Tensor, dict[tuple[int, int], torch.Tensor]]:
    """The passages' logits (B, T, V), with the full context and by window and sinks."""
    texts, _ = passages()
    windows = itertools.product(WINDOWS, (0, 4))
    return read(model, texts, None), {each: read(model, texts, *each) for each in windows}


# --- the metric lab -----------------------------------------------------------------------------


def _continuations(model: GPT, window: Window, temperature: float) -> list[Sequence[int]]:
    """40 tokens after each of eight prompts of ten characters."""
    texts, _ = passages()
    prompts = [text[start : start + 10] for text in texts[:4] for start in (0, 100)]
    limits = EngineConfig(
        token_budget=80, sliding_window=window, temperature=temperature, seed=1337
    )
    trace = Engine(model, limits).run(
        [(0, Request(i, list(prompt), 40)) for i, prompt in enumerate(prompts)]
    )
    return [trace.generated_tokens(i) for i in range(len(prompts))]


def _agreements(model: GPT, window: int, temperature: float) -> list[float]:
    """The shares of equal positions of texts sampled with the full context and under a window."""
    pairs = zip(
        _continuations(model, None, temperature),
        _continuations(model, window, temperature),
        strict=True,
    )
    return [sum(a == b for a, b in zip(*pair, strict=True)) / 40 for pair in pairs]


def _haystacks(number: int = 20) -> torch.Tensor:
    """Four texts per trial: A or B has spoken before another does, and A or B is to speak now."""
    known = [each["text"] for each in recorded("unread")["passages"]]
    spoken = [line[:36] for text in known for line in text.split("\n") if len(line) > 36]
    rng, rows = random.Random(0), list[list[int]]()
    for _ in range(number):
        a, b, other = rng.sample(_NAMES, 3)
        lead, one, two = rng.sample(spoken, 3)
        rows += [
            encode(f"{lead[:20]}\n\n{first}:\n{one}\n\n{other}:\n{two}\n\n{now}")
            for first in (a, b)
            for now in (a, b)
        ]
    return torch.tensor(rows)  # (4 x trials, T)


def recall(model: GPT, window: Window, sinks: int = 0) -> float:
    """The share of trials in which having spoken makes a name more likely than the other."""
    texts = _haystacks()
    logits = read(model, texts[:, :-1], window, sinks)[:, -8:]  # of the name's eight letters
    chosen = logits.log_softmax(-1).gather(2, texts[:, -8:, None]).sum((1, 2))  # (4 x trials,)
    aa, ab, ba, bb = chosen.view(-1, 4).unbind(1)
    gain = (aa - ab) - (ba - bb)
    return ((gain > 1e-5).double() + (gain.abs() <= 1e-5).double() / 2).mean().item()


def metric_lab(models: dict[str, GPT], window: int = 16) -> str:
    """One window by four metrics, model by model."""
    head = (
        "| model | sampled: best prompt | mean of 8 | worst | greedy, mean of 8 "
        "| teacher-forced agreement | added loss | needle, without → with |"
    )
    rows: list[str] = []
    texts, nexts = passages()
    short = [text[:128] for text in texts]  # as far as the small model's positions go
    for name, model in models.items():
        drawn, best = (_agreements(model, window, each) for each in (1.0, 0.0))
        agree, added = sliding_window.compare_logits(
            read(model, short, None).flatten(0, 1),
            read(model, short, window).flatten(0, 1),
            nexts[:, :128].flatten(),
        )
        rows.append(
            f"| {name} | {max(drawn):.0%} | {sum(drawn) / 8:.0%} | {min(drawn):.0%} "
            f"| {sum(best) / 8:.0%} | {agree:.0%} | {added:+.3f} "
            f"| {recall(model, None):.0%} → {recall(model, window):.0%} |"
        )
    return table(head, "lrrrrrrr", rows)


def plays_table(model: GPT) -> str:
    """Needle, line lengths, speakers and repetition with the full context and under a window."""
    head = (
        "| window | needle | characters per line | new speakers | repeated, sampled "
        "| repeated, greedy | how it reads |"
    )
    rows: list[str] = []
    for name, window, sinks in (("none", None, 0), ("W = 16", 16, 0), ("W = 16, 4 sinks", 16, 4)):
        written, greedy = (_plays(model, window, sinks, each) for each in (0.8, 0.0))
        lines = [line for text in written for line in text.split("\n") if line]
        speakers = sum(line.rstrip(":").replace(" ", "").isupper() for line in lines)
        rows.append(
            f"| {name} | {recall(model, window, sinks):.0%} "
            f"| {sum(map(len, lines)) / len(lines):.0f} | {speakers} "
            f"| {_repeated(written):.0%} | {_repeated(greedy):.0%} | {shown(written[0][:60])} |"
        )
    return table(head, "lrrrrrl", rows)


def _plays(model: GPT, window: Window, sinks: int, temperature: float) -> list[str]:
    """Four speakers, 120 characters each."""
    limits = EngineConfig(
        token_budget=48, temperature=temperature, seed=1, sliding_window=window, num_sinks=sinks
    )
    names = ("ROMEO", "JULIET", "MENENIUS", "PROSPERO")
    arrivals = [(0, Request(i, encode(f"{name}:\n"), 120)) for i, name in enumerate(names)]
    trace = Engine(model, limits).run(arrivals)
    return [decode(list(trace.generated_tokens(i))) for i in range(len(names))]


def _repeated(written: Sequence[str]) -> float:
    """The share of runs of five characters that occurred before in the same text."""
    grams = [[text[i : i + 5] for i in range(len(text) - 4)] for text in written]
    return 1 - sum(len(set(each)) for each in grams) / sum(map(len, grams))

"""Behind lesson 1: its requests, the table of budgets, masks to draw, and the learner's run."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from course.attempt import Attempt
from course.calling.jobs import RunError, call, run
from course.calling.plain_values import as_whole
from course.calling.policies import Policy
from course.lesson_data.texts import Arrivals, arriving, table
from nanogpt import GPT, ModelConfig, Request, encode
from nanogpt.experiments.trace_metrics import Summary
from nanogpt.policies import masks

SOLILOQUY = (
    "To be, or not to be: that is the question:\n"
    "Whether 'tis nobler in the mind to suffer\n"
    "The slings and arrows of outrageous fortune,\n"
    "Or to take arms against a sea of troubles,\n"
    "And by opposing end them? To die: to sleep;\n"
    "No more; and by a sleep to say we end\n"
    "The heart-ache and the thousand natural shocks\n"
    "That flesh is heir to, 'tis a consummation\n"
    "Devoutly to be wish'd. To die, to sleep;\n"
    "To sleep: perchance to dream: ay, there's the rub;"
)[:400]
_OPENINGS = ("ROMEO:\n", "JULIET:\n", "HAMLET:\n", "PORTIA:\n")
_MERCY = (
    "PORTIA:\nThe quality of mercy is not strain'd,\nIt droppeth as the gentle rain from heaven\n"
    "Upon the place beneath: it is twice blest;\nIt blesseth him that gives and him that takes:\n"
)
_MACBETH = (
    "MACBETH:\nTo-morrow, and to-morrow, and to-morrow,\n"
    "Creeps in this petty pace from day to day\n"
    "To the last syllable of recorded time,\nAnd all our yesterdays have lighted fools\n"
    "The way to dusty death. "
)
six_requests = arriving(
    (0, "ROMEO:\nBut, soft! what light", 24),
    (0, "JULIET:\nO Romeo, Romeo! ", 24),
    (4, _MACBETH, 16),
    (5, "HAMLET:\nAlas, poor Yorick! ", 20),
    (9, _MERCY, 16),
    (18, "RICHARD:\nA horse! a horse! ", 16),
)


def long_prompt_arrives() -> Arrivals:
    """Four requests from step 0 on, and a prompt of 400 tokens that arrives at step 6."""
    four = [(0, Request(i, encode(text), 24)) for i, text in enumerate(_OPENINGS)]
    return [*four, (6, Request(4, encode(SOLILOQUY), 8))]


def one_tiny_layer() -> GPT:
    """A model that is cheap to run, for runs of which only the plan matters."""
    return GPT(ModelConfig(num_layers=1, num_heads=1, num_channels=8))


# --- budgets --------------------------------------------------------------------------------------


def budget_table(title: str, runs: Mapping[str, Summary]) -> str:
    """Throughput, mean TTFT, largest ITL and forwards of each run, as a Markdown table."""
    base = next(iter(runs.values()))
    head = f"| {title} | tokens/s | | mean TTFT | | largest ITL | | forwards |"
    rows: list[str] = []
    for name, each in runs.items():
        pairs = [
            (each.tokens_per_s, base.tokens_per_s, "{:,.0f}"),
            (_ms(each.mean_ttft_us), _ms(base.mean_ttft_us), "{:,.1f} ms"),
            (_ms(each.worst_itl_us), _ms(base.worst_itl_us), "{:,.1f} ms"),
        ]
        cells = [f"{form.format(value)} | ×{value / first:.2f}" for value, first, form in pairs]
        rows.append(f"| {name} | {' | '.join(cells)} | {each.num_forwards} |")
    return table(head, "lrrrrrrr", rows)


def _ms(us: float | None) -> float:
    assert us is not None, "a run in which no request has two tokens has no ITL"
    return us / 1000


def picked_budget(attempt: Attempt, step_us: Callable[[int], int], limit_us: int) -> int | None:
    """The budget that the learner's `pick_budget` chooses for four decodes; None if invalid."""
    if not attempt.started or attempt.function is None:
        return None
    try:
        picked = as_whole(run(Policy(attempt.function), step_us, 4, limit_us))
    except RunError:
        return None
    return picked if picked is not None and picked >= 1 else None


def budget_verdict(
    attempt: Attempt, picked: int | None, limit_us: int, largest_itl_us: Callable[[int], float]
) -> str:
    """The budget that the learner's `pick_budget` chose, and whether a run stays in the limit."""
    limit = f"a limit of {limit_us / 1000:g} ms"
    if not attempt.started:
        return f"Write `pick_budget`, and this line says which budget it chooses for {limit}."
    if picked is None:
        return "`pick_budget` returned no valid budget here; its check says more."
    itl_us = largest_itl_us(picked)
    kept = "within the limit" if itl_us <= limit_us else "**above the limit**"
    return (
        f"Your `pick_budget` chose **{picked}** for {limit}. With it the largest ITL is "
        f"{itl_us / 1000:.1f} ms (modelled), {kept}."
    )


# --- the learner's run --------------------------------------------------------------------------


def exhibit_masks() -> list[dict[str, Any]]:
    """Exhibit A's mask of a second chunk and the right one, for a MaskStepper."""
    labels = list("To be, or not to")
    return [
        {"name": name, "context_columns": 8, "mask": of(8, 8).tolist(), "labels": labels}
        for name, of in (("exhibit A", unmasked_later), ("right", masks.chunk_mask))
    ]


def drawn_masks(attempt: Attempt) -> list[dict[str, Any]]:
    """The learner's mask and the right one, for a MaskStepper."""
    labels = list("To be, ")
    right = masks.chunk_mask(4, 3).tolist()
    beside = {"name": "right", "context_columns": 4, "mask": right, "labels": labels}
    if not attempt.started or attempt.function is None:
        note = (
            "The chunk holds the last three of these seven queries; four tokens are cached. Once "
            "you have written chunk_mask, this picture shows your mask."
        )
        whole = masks.chunk_mask(0, 7).tolist()
        named = {"name": "the whole prompt at once", "context_columns": 0, "note": note}
        return [{**named, "mask": whole, "labels": labels}]
    mine = call(attempt.function, (4, 3)).value
    if not isinstance(mine, torch.Tensor) or mine.dtype != torch.bool or mine.shape != (3, 7):
        return [
            {**beside, "note": "Yours is not a bool tensor of shape (3, 7), so it cannot be drawn."}
        ]
    return [{**beside, "name": "yours", "mask": mine.tolist()}, beside]


def unmasked_later(context_len: int, num_scheduled_tokens: int) -> torch.Tensor:
    """Exhibit A, bool (T, S): causal in the first chunk, no mask in later ones."""
    mask = masks.chunk_mask(context_len, num_scheduled_tokens)
    return torch.ones_like(mask) if context_len > 0 else mask

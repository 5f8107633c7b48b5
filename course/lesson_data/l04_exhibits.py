"""Behind lesson 4: prompts longer than the window, padding, and the post's benchmarks of memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from course.lesson_data.l01_chunks import one_tiny_layer
from course.lesson_data.texts import Arrivals, table
from course.replay import replays
from nanogpt import GPT, Engine, EngineConfig, Policies, Request, Trace, encode
from nanogpt.figures.curves import line_chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Evict = Callable[..., tuple[torch.Tensor, torch.Tensor]]

# --- an eviction under test ---------------------------------------------------------------------


def long_prompts() -> Arrivals:
    """Three requests whose prompts, of 40 to 48 tokens, are longer than a window of 20."""
    text = "The quality of mercy is not strain'd, it droppeth as the gentle rain from heaven"
    spec = ((0, 40, 12), (2, 48, 10), (4, 44, 14))
    return [(at, Request(i, encode(text[:n]), new)) for i, (at, n, new) in enumerate(spec)]


def kept_by(model: GPT, evict: Evict, max_kv_tokens: int | None = None) -> Trace:
    """A run of `long_prompts` under a window of 20, with `evict` as storage."""
    config = EngineConfig(
        token_budget=48, sliding_window=20, kv_storage="evict", max_kv_tokens=max_kv_tokens
    )
    return replays(lambda policies: Engine(model, config, policies), long_prompts, 100)(
        Policies(evict=evict)
    )


# --- padding ------------------------------------------------------------------------------------


def padded_entries() -> Figure:
    """The post's two requests in one batch: the padding of the shorter one's K/V.

    One holds 48 entries when the other, with a prompt of 10 tokens, joins it.
    """
    curves: dict[str, list[tuple[float, float]]] = {}
    for name, window in (("no window", None), ("W = 20", 20)):
        engine = Engine(one_tiny_layer(), EngineConfig(sliding_window=window))
        trace = engine.run(_requests((0, 8, 65), (40, 10, 24)))
        held = [[each.kv_tokens for each in step.kv] for step in trace.steps]
        padding = [max(each) - min(each) for each in held if len(each) == 2]
        curves[name] = list(enumerate(padding[:21]))
    return line_chart(
        {"padding of its K/V (entries)": curves},
        "steps since the second request joined",
        "Padding in a batch of two requests",
    )


# --- the post's benchmarks ----------------------------------------------------------------------


def _requests(*spec: tuple[int, int, int]) -> Arrivals:
    """Requests of (arrival step, prompt tokens, new tokens)."""
    return [(at, Request(i, [1] * n, new)) for i, (at, n, new) in enumerate(spec)]


_LONG = ((0, 8, 30), (0, 6, 30), (1, 8, 30))
_TIGHT = ((0, 8, 20), (0, 8, 20), (1, 6, 15), (2, 6, 15), (3, 6, 10))
_MANY = tuple((i // 2, 6, 20) for i in range(8))
_BENCHMARKS: Mapping[str, tuple[tuple[tuple[int, int, int], ...], dict[str, int], int, str]] = {
    # with the post's numbers: KV tokens of the largest request, of all, and preemptions
    "1": (_LONG, {"max_kv_tokens": 200, "max_batch_size": 3, "token_budget": 16}, 20,
          "37 → 20 | 103 → 60 | not counted"),
    "2": (_TIGHT, {"max_kv_tokens": 50, "max_batch_size": 3, "token_budget": 12}, 20,
          "25.9 % less | 64 → 59 | 0 → 0"),
    "4": (_MANY, {"max_kv_tokens": 80, "max_batch_size": 8}, 16,
          "25 → 16 | 164 → 128 | not counted"),
}  # fmt: skip


def benchmarks_table() -> str:
    """The post's benchmarks of memory in our engine, each without and with its window."""
    rows: list[str] = []
    for name, (spec, limits, window, published) in _BENCHMARKS.items():
        full, less = (_measured(spec, limits, each) for each in (None, window))
        cells = " | ".join(f"{a} → {b}" for a, b in zip(full, less, strict=True))
        title = f"{name}: W = {window}, KV budget {limits['max_kv_tokens']}"
        rows += [f"| {title} | the post's | {published} |", f"| {title} | ours | {cells} |"]
    head = "| benchmark | run | largest request | all together | preemptions |"
    return table(head, "llrrr", rows)


def _measured(
    spec: tuple[tuple[int, int, int], ...], limits: dict[str, Any], window: int | None
) -> tuple[int, int, int]:
    """The most KV tokens that one request holds and that all hold, and the preemptions."""
    config = EngineConfig(sliding_window=window, max_prefilling=1, **limits)
    steps = Engine(one_tiny_layer(), config).run(_requests(*spec)).steps
    return (
        max(each.kv_tokens for step in steps for each in step.kv),
        max(step.kv_after for step in steps),
        sum(len(step.preempted) for step in steps),
    )

"""Behind lesson 4's last half: prompts longer than the window, and the post's benchmarks."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from course.attempt import Attempt
from course.calling.jobs import RunError, run
from course.calling.plain_values import as_whole
from course.lesson_data.l04_window import Arrivals
from course.replay import replays
from nanogpt import (
    GPT,
    Engine,
    EngineConfig,
    ModelConfig,
    Policies,
    Request,
    Trace,
    encode,
    generate,
)
from nanogpt.policies import sliding_window

Evict = Callable[..., tuple[torch.Tensor, torch.Tensor]]

# --- evictions ----------------------------------------------------------------------------------


def long_prompts() -> Arrivals:
    """Three requests whose prompts, of 40 to 48 tokens, are longer than a window of 20."""
    text = "The quality of mercy is not strain'd, it droppeth as the gentle rain from heaven"
    spec = ((0, 40, 12), (2, 48, 10), (4, 44, 14))
    return [(at, Request(i, encode(text[:n]), new)) for i, (at, n, new) in enumerate(spec)]


def kept_by(model: GPT, evict: Evict, max_kv_tokens: int | None = None) -> Trace:
    """A run of `long_prompts` under a window of 20 in which `evict` decides what is kept."""
    config = EngineConfig(
        token_budget=48, sliding_window=20, kv_storage="evict", max_kv_tokens=max_kv_tokens
    )
    return replays(lambda policies: Engine(model, config, policies), long_prompts, 100)(
        Policies(evict=evict)
    )


def evict_by_slicing(
    k: torch.Tensor, v: torch.Tensor, window: int, sinks: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The post's eviction: the last `window` entries, as views; it knows no sinks."""
    return k[:, -window:], v[:, -window:]


def sliced_and_copied(model: GPT) -> str:
    """Bytes alive after the first steps, by slices and by copies, beside what they are worth."""
    per_token = 2 * model.config.num_layers * model.config.num_channels * 4  # K and V, float32
    sliced, copied = (
        kept_by(model, evict).steps[:6] for evict in (evict_by_slicing, sliding_window.evict)
    )

    def alive(step: Any) -> int:
        return sum(each.live_bytes for each in step.kv)

    rows = ["| after step | KV tokens held | bytes they are worth | bytes alive: slices | copies |"]
    rows.append("|--:|--:|--:|--:|--:|")
    for slices, copies in zip(sliced, copied, strict=True):
        worth = slices.kv_after * per_token
        rows.append(
            f"| {slices.step} | {slices.kv_after} | {worth:,} "
            f"| {alive(slices):,} | {alive(copies):,} |"
        )
    return "\n".join(rows)


def live_bytes_table(
    attempt: Attempt, story: Callable[[Callable[..., int]], list[dict[str, Any]]]
) -> str:
    """Bytes by `.shape` and by the learner's `live_bytes`; a sentence while it cannot answer."""
    if not attempt.started:
        return "Once you have written `live_bytes`, it counts the five steps of the picture here."
    try:
        told = run(story, attempt.or_reference(sliding_window.live_bytes))
    except RunError:
        told = []
    if not told or any(as_whole(each["live_bytes"]) is None for each in told):
        return "Your `live_bytes` does not count these steps yet; its check says more."
    rows = [
        f"| {each['words']} | {each['counted_bytes']:,} | {as_whole(each['live_bytes']):,} |"
        for each in told
    ]
    head = "| step of the picture | bytes by `.shape` | bytes by your `live_bytes` |"
    return "\n".join([head, "|:--|--:|--:|", *rows])


def overdrawn_facts(exact: GPT, trace: Trace) -> tuple[int, int, int, bool]:
    """(step, held, counted) where most is held, and whether all texts are the oracle's."""
    if not trace.steps:  # the exhibit did not get that far
        return 0, 0, 0, False
    step = max(trace.steps, key=lambda each: each.kv_after)
    right = all(
        list(trace.generated_tokens(r.id))
        == generate(exact, r.prompt_tokens, r.max_new_tokens, sliding_window=20)
        for _, r in long_prompts()
    )
    return step.step, step.kv_after, sum(each.kv_tokens_charged for each in step.kv), right


# --- the post's benchmarks ----------------------------------------------------------------------


def _requests(*spec: tuple[int, int, int]) -> Arrivals:
    """Requests of (arrival step, prompt tokens, new tokens); plans need no good text."""
    return [(at, Request(i, [1] * n, new)) for i, (at, n, new) in enumerate(spec)]


_LONG = ((0, 8, 30), (0, 6, 30), (1, 8, 30))
_TIGHT = ((0, 8, 20), (0, 8, 20), (1, 6, 15), (2, 6, 15), (3, 6, 10))
_MANY = tuple((i // 2, 6, 20) for i in range(8))
_BENCHMARKS: Mapping[str, tuple[tuple[tuple[int, int, int], ...], dict[str, int], int, str]] = {
    # the post's numbers: the most held by one and by all, and preemptions
    "1": (
        _LONG,
        {"max_kv_tokens": 200, "max_batch_size": 3, "token_budget": 16},
        20,
        "37 → 20 | 103 → 60 | not counted",
    ),
    "2": (
        _TIGHT,
        {"max_kv_tokens": 50, "max_batch_size": 3, "token_budget": 12},
        20,
        "25.9 % less | 64 → 59 | 0 → 0",
    ),
    "4": (
        _MANY,
        {"max_kv_tokens": 80, "max_batch_size": 8},
        16,
        "25 → 16 | 164 → 128 | not counted",
    ),
}


def benchmarks_table() -> str:
    """The post's benchmarks of memory in our engine, each without and with its window."""
    rows = [
        "| benchmark | whose run | most held by one | by all together | preempted |",
        "|:--|:--|--:|--:|--:|",
    ]
    for name, (spec, limits, window, published) in _BENCHMARKS.items():
        full, less = (_measured(spec, limits, each) for each in (None, window))
        cells = " | ".join(f"{a} → {b}" for a, b in zip(full, less, strict=True))
        budget = limits["max_kv_tokens"]
        rows.append(f"| {name}: W = {window}, KV budget {budget} | the post's | {published} |")
        rows.append(f"| {name}: W = {window}, KV budget {budget} | ours | {cells} |")
    return "\n".join(rows)


def _measured(
    spec: tuple[tuple[int, int, int], ...], limits: dict[str, Any], window: int | None
) -> tuple[int, int, int]:
    """The most KV tokens that one request holds and that all hold, and the preemptions."""
    tiny = GPT(ModelConfig(num_layers=1, num_heads=1, num_channels=8))
    config = EngineConfig(sliding_window=window, max_prefilling=1, **limits)
    steps = Engine(tiny, config).run(_requests(*spec)).steps
    return (
        max(each.kv_tokens for step in steps for each in step.kv),
        max(step.kv_after for step in steps),
        sum(len(step.preempted) for step in steps),
    )

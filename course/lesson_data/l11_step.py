"""Behind lesson 11's figures: a step by phase, eager and compiled, rooflines, and async steps.

What takes too long for a page is recorded by `python -m benchmarks.step_time`.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import zip_longest
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from course.attempt import Attempt
from course.calling.jobs import RunError
from course.lesson_data import recorded
from course.lesson_data.texts import table
from course.replay import answered
from nanogpt import GPT, Engine, EngineConfig, Request
from nanogpt.figures.curves import line_chart
from nanogpt.figures.drawing import course_style, curve, label_axes, new_figure
from widgets import whose

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nanogpt.features import MakeExecutor

Us = dict[str, float]
PHASES = ("schedule", "launches", "products", "attention", "sample", "update and record")


def record() -> dict[str, Any]:
    """What `benchmarks.step_time` wrote; lessons/data/step_time.md says what it is."""
    return recorded("step_time")


# --- a step by phase ----------------------------------------------------------------------------


def timed_decodes(
    model: GPT,
    config: EngineConfig,
    prompt_len: int,
    num_steps: int,
    make_executor: MakeExecutor | None = None,
) -> dict[str, list[float]]:
    """CPU microseconds of this thread for each step of a full batch, whole and by phase."""
    engine = Engine(model, config, make_executor=make_executor)
    for i in range(config.max_batch_size):
        engine.submit(Request(i, [1 + i % 60] * prompt_len, num_steps + 8))
    for _ in range(4):  # a prefill, and decodes that warm the caches up
        engine.step()
    found: dict[str, list[float]] = defaultdict(list)

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            start = time.thread_time_ns()
            result = function(*args)
            found[name].append((time.thread_time_ns() - start) / 1000)
            return result

        return call

    owners = engine.scheduler, engine.executor, engine.sampler
    for owner, name in zip(owners, ("schedule", "execute", "sample"), strict=True):
        setattr(owner, name, timed(name, getattr(owner, name)))
    step = timed("step", engine.step)
    for _ in range(num_steps):
        step()
    return found


def decoding(executor: str, batch: int, prompt_len: int) -> EngineConfig:
    """Settings under which so many prompts are prefilled in one step, and then decode."""
    return EngineConfig(
        executor=executor, token_budget=batch * prompt_len, max_batch_size=batch, keep_steps=1
    )


def measured_now(model: GPT) -> str:
    """The phases of the packed engine's step on this machine, just now; Markdown."""
    rows, threads = list[str](), torch.get_num_threads()
    for batch in (1, 8):
        torch.set_num_threads(1)
        found = timed_decodes(model, decoding("packed", batch, 16), 16, 40)
        torch.set_num_threads(threads)
        us = {phase: median(each) for phase, each in found.items()}
        rest = us["step"] - us["schedule"] - us["execute"] - us["sample"]
        times = us["step"], us["schedule"], us["execute"], us["sample"], rest
        rows.append(f"| {batch} | {' | '.join(f'{each:,.0f}' for each in times)} |")
    head = "| batch | step (µs) | schedule | execute | sample | update and record |"
    return table(head, "rrrrrr", rows)


def phases_table(found: dict[str, Any], *executors: str) -> str:
    """These executors' steps by phase at three batch sizes; Markdown."""
    rows = list[str]()
    for batch in ("1", "8", "32"):
        for name in executors:
            us = found["decode_us"][name][batch]
            numbers = " | ".join(f"{us[phase]:,.0f}" for phase in PHASES)
            rows.append(f"| {batch} | {name} | {ms(sum(us.values()))} | {numbers} |")
    head = f"| batch | executor | step | {' | '.join(PHASES)} |"
    return table(head, "rlr" + "r" * len(PHASES), rows)


_COLOURS = {
    "Engine.step": "#51606f", "schedule": "#4c4bb5", "execute": "#0b6bb0", "sample": "#00795b",
    "update and record": "#7a6200", "launches": "#b04a00", "products": "#96417f",
    "attention": "#a3293d",
}  # fmt: skip


def flame(us: Us, title: str, *, opened: bool) -> str:
    """A step above what it calls, as wide as they take time, the forward pass opened; HTML."""
    inside = {name: us[name] for name in PHASES[1:4]}
    calls = {"execute": sum(inside.values())} | {name: us[name] for name in PHASES[4:]}
    calls = {"schedule": us["schedule"], **calls}
    whole = {"Engine.step": sum(calls.values())}
    rows = [(whole, 0.0), (calls, 0.0), *([(inside, us["schedule"])] if opened else [])]
    times = {name: each for row, _ in rows for name, each in row.items()}
    percent = 100 / times["Engine.step"]
    drawn = "".join(
        f'<div style="display:flex;height:1.6em;margin:2px 0 0 {start * percent:.2f}%">'
        + "".join(
            f'<i style="flex:{each:.0f};background:{_COLOURS[name]};margin-right:1px"></i>'
            for name, each in row.items()
        )
        + f'<i style="flex:{times["Engine.step"] - start - sum(row.values()):.0f}"></i></div>'
        for row, start in rows
    )
    keys = " ".join(
        f'<span style="white-space:nowrap;margin-right:1em"><b style="color:{_COLOURS[name]}">■'
        f"</b> {name} {ms(each)}</span>"
        for name, each in times.items()
    )
    return (
        f'<figure style="margin:1em 0"><figcaption>{title}</figcaption>'
        f'<div aria-hidden="true">{drawn}</div><div style="font-size:.85em">{keys}</div></figure>'
    )


def sampling_table(found: dict[str, Any]) -> str:
    """CPU time of drawing one token, by the way of drawing and the vocabulary; Markdown."""
    ours, real = found["sampling_us"].values()
    rows = (f"| {way} | {ms(ours[way])} | {ms(us)} |" for way, us in real.items())
    return table("| | 65 logits | 151,936 logits |", "lrr", rows)


def ms(us: float) -> str:
    """As "1.73 ms"."""
    return f"{us / 1000:.3g} ms"


# --- the roofline -------------------------------------------------------------------------------

H100 = 989e6, 3.35e6
"""An NVIDIA H100 SXM: dense bf16 operations per microsecond, and bytes of memory."""
LLAMA_WEIGHTS, LLAMA_KV = 8_000_000_000, 131_072
OUR_WEIGHTS, OUR_KV = 4 * 12 * 128**2 + 65 * 128, 4 * 2 * 128 * 4
"""Weights that a token is multiplied with, and bytes of K/V per token."""
CONTEXT = 1000
Point = tuple[int, int]


def llama_us(rule: Callable[..., Any], steps: list[Point]) -> list[float]:
    """By a roofline, the microseconds of 8B steps with so many tokens and so much context."""
    return [
        _time(rule(LLAMA_WEIGHTS, 16, tokens, context * LLAMA_KV, *H100))
        for tokens, context in steps
    ]


def _time(answer: Any) -> float:
    """The time of an answer. Raises: RunError for one without."""
    value = answer[0] if isinstance(answer, list | tuple) and answer else answer
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise RunError("it is no time")
    return float(value)


@course_style()
def roofline_chart(answer: Attempt) -> Figure:
    """The H100's roof, and on or below it decodes in batches and chunks of a prompt."""
    batches = [2**i for i in range(9)]
    chunks = [2**i for i in range(4, 12)]
    steps = [(n, n * CONTEXT) for n in batches] + [(n, n) for n in chunks]
    times, mine = answered(answer, llama_us, steps)
    points = [
        (
            2 * LLAMA_WEIGHTS * tokens / (2 * LLAMA_WEIGHTS + context * LLAMA_KV),
            2 * LLAMA_WEIGHTS * tokens / us / 1e6,
        )
        for (tokens, context), us in zip(steps, times, strict=True)
    ]
    figure = new_figure("Llama-3-8B on an H100", 1, f"computed by roofline: {whose(mine)}")
    [axes] = figure.axes
    flops, speed = H100
    roof = [(x, min(flops, x * speed) / 1e6) for x in (0.5, 1, 4, 32, flops / speed, 1024, 2048)]
    curve(axes, "the roof", roof, marker="none")
    curve(axes, "decodes, batch 1 to 256", points[: len(batches)], linestyle="none")
    curve(axes, "chunks of 16 to 2,048 tokens", points[len(batches) :], linestyle="none")
    label_axes(axes, "operations per byte read", "TFLOP/s", log_x=True, from_0=False)
    number = axes.yaxis.get_major_formatter()
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(number)
    return figure


def bounds(rule: Callable[..., Any], roof: dict[str, float]) -> list[list[Any]]:
    """Five steps by a roofline: name, tokens and its answer."""
    core = roof["flops_per_s"] / 1e6, roof["bytes_per_s"] / 1e6
    steps = (
        ("ours, one core: 1 decode, context 256", (OUR_WEIGHTS, 32, 1, 256 * OUR_KV, *core)),
        ("ours, one core: a chunk of 200", (OUR_WEIGHTS, 32, 200, 200 * OUR_KV, *core)),
        ("8B, H100: 1 decode", (LLAMA_WEIGHTS, 16, 1, CONTEXT * LLAMA_KV, *H100)),
        ("8B, H100: 64 decodes", (LLAMA_WEIGHTS, 16, 64, 64 * CONTEXT * LLAMA_KV, *H100)),
        ("8B, H100: a chunk of 2,048", (LLAMA_WEIGHTS, 16, 2048, 2048 * LLAMA_KV, *H100)),
        ("8B in 8 bits, H100: 1 decode", (LLAMA_WEIGHTS, 8, 1, CONTEXT * LLAMA_KV, *H100)),
    )
    found = [[name, *rule(*args)] for name, args in steps]
    return [[name, _time(us), str(bound)] for name, us, bound in found]


def bounds_table(answer: Attempt, found: dict[str, Any]) -> str:
    """The least time of some steps, and what the record measured; Markdown."""
    rows, mine = answered(answer, bounds, found["roof"])
    decodes = [found["decode_us"][name]["1"] for name in ("packed", "compiled")]
    passes_us = [sum(us[phase] for phase in PHASES[1:4]) for us in decodes]
    chunks_us = [found["chunk_us"][name] for name in ("packed", "compiled")]
    measured = [", ".join(map(ms, passes_us)), ", ".join(map(ms, chunks_us))]
    lines = [
        f"| {name} | {ms(us)} | {bound} | {each or 'not measured'} |"
        for (name, us, bound), each in zip_longest(rows, measured)
    ]
    head = "| step | at least | bound | measured: packed, compiled |"
    return f"By `roofline`, {whose(mine)}:\n\n{table(head, 'lrll', lines)}"


# --- async scheduling ---------------------------------------------------------------------------

STEPS, EXECUTE_MS, SCHEDULES_MS = 100, 5, range(1, 11)


def both_ways_ms(rule: Callable[..., Any]) -> list[list[float]]:
    """Milliseconds per step of a hundred by the time of a schedule: synchronous, and async."""
    return [
        [
            round(_time(rule(1000 * ms, 1000 * EXECUTE_MS, STEPS, ahead)) / STEPS / 1000, 3)
            for ms in SCHEDULES_MS
        ]
        for ahead in (False, True)
    ]


def overlap_chart(answer: Attempt) -> Figure:
    """Time per step by the time of a schedule, synchronous and async."""
    (synchronous, ahead), mine = answered(answer, both_ways_ms)
    curves = {
        name: list(zip(SCHEDULES_MS, ms, strict=True))
        for name, ms in (("synchronous", synchronous), ("async", ahead))
    }
    return line_chart(
        {"time per step (ms)": curves}, "time of a schedule (ms)",
        "A hundred steps whose execution takes 5 ms", "computed by overlap: " + whose(mine),
    )  # fmt: skip

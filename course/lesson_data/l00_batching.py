"""Behind lesson 0's second half: what a step costs, static and continuous batching, memory."""

from collections.abc import Sequence
from typing import Any

from course.lesson_data import recorded
from nanogpt import GPT, Engine, EngineConfig, Request, encode
from nanogpt.clock import LARGE_GPU

WAITING = [9, 3, 3, 2, 6, 4]
"""Tokens that each of six requests asks for."""
SLOTS = 3

_LONG_PROMPT = (
    "GLOUCESTER:\nNow is the winter of our discontent\n"
    "Made glorious summer by this sun of York;\n"
    "And all the clouds that lour'd upon our house\n"
    "In the deep bosom of the ocean buried.\n"
    "Now are our brows bound with victorious wreaths;\n"
    "Our bruised arms hung up for monuments;\n"
    "Our stern alarums changed to merry meetings,\n"
    "Our dreadful marches to delightful measures.\n"
)


def four_requests() -> list[tuple[int, Request]]:
    """Four requests and the step at which each arrives; the last has by far the longest prompt."""
    return [
        (0, Request(0, encode("ROMEO:\nBut soft, what light "), 24)),
        (0, Request(1, encode("First Citizen:\n"), 20)),
        (4, Request(2, encode("JULIET:\nO Romeo, "), 16)),
        (9, Request(3, encode(_LONG_PROMPT), 10)),
    ]


def fit_line(points: Sequence[dict[str, float]]) -> tuple[float, float]:
    """(fixed, per token) of the line nearest to the points, by relative error, in µs."""
    rows = [(1 / point["us"] ** 2, point["tokens"], point["us"]) for point in points]
    total = sum(weight for weight, _, _ in rows)
    mean_tokens = sum(weight * tokens for weight, tokens, _ in rows) / total
    mean_cost = sum(weight * us for weight, _, us in rows) / total
    spread = sum(weight * (tokens - mean_tokens) ** 2 for weight, tokens, _ in rows)
    per_token = sum(weight * (tokens - mean_tokens) * us for weight, tokens, us in rows) / spread
    return mean_cost - per_token * mean_tokens, per_token


def step_costs() -> tuple[dict[str, Any], dict[str, Any]]:
    """What a step costs: timed once on a CPU, and modelled for a large GPU."""
    points = [point for point in recorded("step_costs")["points"] if point["tokens"] <= 256]
    fixed_us, token_us = fit_line(points)
    cpu = {"name": "our model on a CPU", "modelled": False, "points": points}
    gpu = {"name": LARGE_GPU.name, "modelled": True, "floor_us": LARGE_GPU.floor_us}
    return (
        {**cpu, "fixed_us": fixed_us, "token_us": token_us},
        {**gpu, "fixed_us": LARGE_GPU.fixed_us, "token_us": LARGE_GPU.token_us},
    )


def cost_table(cpu: dict[str, Any], gpu: dict[str, Any]) -> str:
    """What decodes that share a step cost, and the tokens per second that come of it; Markdown."""
    lines = [
        f"| decodes in the step | {cpu['name']}: step | tokens per second "
        f"| {gpu['name']}, modelled: step | tokens per second |",
        "|---:|---:|---:|---:|---:|",
    ]
    for n in (1, 8, 32, 128, 256):
        costs = [
            side["fixed_us"] + max(side.get("floor_us", 0), n * side["token_us"])
            for side in (cpu, gpu)
        ]
        cells = [f"{us / 1000:.1f} ms | {n / us * 1e6:,.0f}" for us in costs]
        lines.append(f"| {n} | {' | '.join(cells)} |")
    machine = recorded("step_costs")["machine"]
    knee = LARGE_GPU.floor_us / LARGE_GPU.token_us
    note = (
        f"*CPU: the fitted line of steps that were timed once, on {machine}. "
        "GPU: modelled, an 8-billion-parameter model whose weights take "
        f"{LARGE_GPU.floor_us / 1000:.1f} ms to read and whose tokens take "
        f"{LARGE_GPU.token_us:.0f} µs each, so that its knee lies at {knee:.0f} tokens. Reading "
        "each request's own K/V comes on top and is left out here.*"
    )
    return "\n".join([*lines, "", note])


def engine_finish_steps(model: GPT, continuous: bool) -> list[int]:
    """After how many steps of the real engine each of the six waiting requests is done."""
    engine = Engine(model, EngineConfig(max_batch_size=SLOTS))
    to_come = [Request(i, encode("\n"), length) for i, length in enumerate(WAITING)]
    while to_come or not engine.scheduler.is_done():
        if continuous or engine.scheduler.is_done():
            count = len(to_come) if continuous else SLOTS
            for request in to_come[:count]:
                engine.submit(request)
            del to_come[:count]
        engine.step()
    done_after = {i: step.step + 1 for step in engine.trace().steps for i in step.finished}
    return [done_after[i] for i in range(len(WAITING))]


def batching_side(name: str, finished: Any) -> dict[str, Any]:
    """One side of the picture. Raises: ValueError saying why these steps cannot be drawn."""
    if not isinstance(finished, list | tuple) or len(finished) != len(WAITING):
        raise ValueError(f"it returned {finished!r}, and the picture needs six numbers")
    ends: list[int] = [int(done) for done in finished]
    spans = [
        {"request": i, "start": end - length, "end": end}
        for i, (end, length) in enumerate(zip(ends, WAITING, strict=True))
    ]
    for span in spans:
        at_once = sum(each["start"] <= span["start"] < each["end"] for each in spans)
        if span["start"] < 0 or at_once > SLOTS:
            raise ValueError(
                f"it lets request {span['request']} run while all {SLOTS} slots are taken, or "
                "before the first step"
            )
    return {"name": name, "slots": SLOTS, "spans": spans, "length": max(ends)}

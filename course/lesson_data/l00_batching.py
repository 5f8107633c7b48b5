"""Behind lesson 0's second half: what a step costs, and static and continuous batching."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from course.lesson_data import recorded
from course.lesson_data.texts import arriving, table
from nanogpt import GPT, Engine, EngineConfig, Request, Trace, encode
from nanogpt.clock import LARGE_GPU, SERVER_CPU
from nanogpt.experiments.trace_metrics import all_request_metrics
from nanogpt.figures.curves import step_cost

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


four_requests = arriving(
    (0, "ROMEO:\nBut soft, what light ", 24),
    (0, "First Citizen:\n", 20),
    (4, "JULIET:\nO Romeo, ", 16),
    (9, _LONG_PROMPT, 10),
)


def latency_table(trace: Trace) -> str:
    """TTFT, the smallest and the largest gap, and TPOT of each request, as a Markdown table."""
    rows: list[str] = []
    for each in all_request_metrics(trace):
        prompt_len = len(trace.request(each.request_id).prompt_tokens)
        assert each.tpot_us is not None, "every request gets several tokens"
        times_us = each.ttft_us, min(each.itls_us), max(each.itls_us), each.tpot_us
        cells = " | ".join(f"{us / 1000:.1f} ms" for us in times_us)
        rows.append(f"| {each.request_id} | {prompt_len} | {cells} |")
    head = "| request | prompt tokens | TTFT | smallest gap (ITL) | largest gap (ITL) | TPOT |"
    return table(head, "rrrrrr", rows)


def step_costs() -> Figure:
    """The time of a step by both presets, and steps of our model that were timed on a CPU."""
    points = [(each["tokens"], each["us"]) for each in recorded("step_costs")["points"]]
    timed = [(tokens, us) for tokens, us in points if tokens <= 256]
    names = {"our model on a CPU": SERVER_CPU, "a large GPU": LARGE_GPU}
    lines = {
        name: [(n, preset.step_us(0, n)) for n in (1, *range(5, 257, 5), 256)]
        for name, preset in names.items()
    }
    return step_cost(
        timed, lines, "Time of a step, by the tokens in it", "modelled; dots: measured"
    )


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

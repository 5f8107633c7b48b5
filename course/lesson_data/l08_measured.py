"""Behind lesson 8's figures: the formulas, acceptance, time on this machine, load on a GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import fmean
from typing import TYPE_CHECKING, Any

from course.attempt import Attempt
from course.calling.jobs import RunError, run
from course.figure import Figure
from course.lesson_data.texts import table
from course.replay import Rerun
from nanogpt import GPT, Engine, EngineConfig, Policies, Request, Trace, encode
from nanogpt.clock import LARGE_GPU, SERVER_CPU, CostClock, WallClock
from nanogpt.experiments.trace_metrics import percentile
from nanogpt.figures.curves import line_chart
from nanogpt.policies import acceptance
from nanogpt.sampling import SamplingParams
from nanogpt.speculative.drafting import Draft, propose
from nanogpt.trace import WorkRecord
from widgets import whose

if TYPE_CHECKING:
    from matplotlib import figure

OPENINGS = (
    "ROMEO:\nWhat say",
    "JULIET:\nO, my l",
    "KING RICHARD:\nN",
    "First Citizen:\n",
    "Shall I be plai",
    "Come, sir, and h",
    "GLOUCESTER:\nMy ",
    "The king is not",
)
RATES = (0.2, 0.4, 0.6, 0.85, 0.95)
_MOST_DRAFTS = 12
_COST, _K = 0.1, 4
"""The cost of a draft token in target passes, and draft tokens per pass."""


# --- what the formulas say ----------------------------------------------------------------------


def speedup_chart(speedup: Attempt, tokens: Attempt) -> figure.Figure:
    """The speed-up by the number of draft tokens, by the post's formula and by the rule.

    The rule is the learner's once both functions are written and return numbers.
    """
    drawn = {"the post's formula": _curve(_published), whose(False): _curve(acceptance.speedup)}
    if speedup.started and tokens.started:
        with suppress(RunError):
            mine = run(_curve, speedup.or_reference(acceptance.speedup))
            if _all_numbers(mine):
                drawn = {"the post's formula": drawn["the post's formula"], whose(True): mine}
    panels = {
        f"speed-up, {name}": {f"α = {rate}": points[rate] for rate in RATES}
        for name, points in drawn.items()
    }
    title = f"Speed-up by the number of draft tokens, c = {_COST}"
    return line_chart(panels, "draft tokens, k", title)


def _published(rate: float, k: int, draft_cost: float) -> float:
    return (1 + k * rate) / (1 + draft_cost)


def _curve(rule: Any) -> dict[float, list[tuple[float, float]]]:
    return {r: [(k, rule(r, k, _COST)) for k in range(_MOST_DRAFTS + 1)] for r in RATES}


def _all_numbers(curves: Mapping[float, Sequence[tuple[float, Any]]]) -> bool:
    values = [y for points in curves.values() for _, y in points]
    return all(isinstance(y, int | float) and math.isfinite(y) for y in values)


# --- acceptance ---------------------------------------------------------------------------------


def serve(
    model: GPT,
    draft: Draft,
    num_drafts: int,
    temperature: float,
    batch: int = 8,
    new_tokens: int = 64,
    clock: CostClock | WallClock | None = None,
    policies: Policies | None = None,
) -> Trace:
    """Serve the first openings all at once, with budget for all draft tokens."""
    config = EngineConfig(
        token_budget=256, temperature=temperature, seed=1, num_draft_tokens=num_drafts
    )
    requests = [
        (0, Request(i, encode(text), new_tokens)) for i, text in enumerate(OPENINGS[:batch])
    ]
    engine = Engine(model, config, policies or Policies(), clock=clock or CostClock(), draft=draft)
    return engine.run(requests)


def accepted_drafts(model: GPT, draft: Draft) -> dict[float, list[int]]:
    """By temperature, how many of four draft tokens were accepted in each pass that had four."""
    return {
        temperature: [work.num_accepted for work in _full(serve(model, draft, _K, temperature), _K)]
        for temperature in (0.0, 1.0, 2.0)
    }


def _full(trace: Trace, num_drafts: int) -> list[WorkRecord]:
    """The decodes that had this many draft tokens."""
    works = [work for step in trace.steps for work in step.work]
    return [w for w in works if w.kind == "decode" and len(w.drafted) == num_drafts]


def acceptance_rate(accepted: Sequence[int]) -> float:
    """Accepted draft tokens per checked one: the acceptance rate."""
    return sum(accepted) / sum(min(each + 1, _K) for each in accepted)


def by_place(accepted: Sequence[int]) -> list[float]:
    """The acceptance rate at the first place, the second, ..., of those checked there."""
    return [
        sum(each > place for each in accepted) / max(1, sum(each >= place for each in accepted))
        for place in range(_K)
    ]


def accepted_table(found: dict[float, list[int]]) -> str:
    """Acceptance rate, tokens per pass counted and by 8.2, and the rate by place; Markdown."""
    rows = [
        f"| {temperature:g} | {acceptance_rate(accepted):.2f} | {1 + fmean(accepted):.2f} | "
        f"{acceptance.expected_tokens(acceptance_rate(accepted), _K):.2f} | "
        + " | ".join(f"{share:.0%}" for share in by_place(accepted))
        + " |"
        for temperature, accepted in found.items()
    ]
    head = "| temperature | α | tokens per pass | by 8.2 | α of the 1st draft token | 2nd | 3rd |"
    return table(f"{head} 4th |", "rrrrrrrr", rows)


# --- time on this machine -----------------------------------------------------------------------


def timed(model: GPT, draft: Draft, batch: int) -> dict[str, float]:
    """The speed-up of a batch by four draft tokens at temperature 1: measured now, and by 8.3.

    The unit of time is one plain decode step. A step's time is the 20th percentile of all steps.
    """
    runs: dict[int, list[Trace]] = {0: [], _K: []}
    for _ in range(3):  # in turns, so that a busy moment slows both
        for drafts, traces in runs.items():
            traces.append(serve(model, draft, drafts, 1.0, batch, 40, WallClock()))
    decode_us, with_us = (_step_us(traces, drafts, batch) for drafts, traces in runs.items())
    draft_us = _drafting_us(model, draft, batch)
    accepted = [work.num_accepted for trace in runs[_K] for work in _full(trace, _K)]
    cost, verifying = draft_us / _K / decode_us, (with_us - draft_us) / decode_us
    return {
        "draft_cost": cost,
        "verifying": verifying,
        "formula": acceptance.speedup(acceptance_rate(accepted), _K, cost),
        "measured": (1 + fmean(accepted)) * decode_us / with_us,
    }


def _drafting_us(model: GPT, draft: Draft, batch: int) -> float:
    """Microseconds that the draft tokens of one step take."""
    requests = [Request(i, encode(text), 96) for i, text in enumerate(OPENINGS[:batch])]
    clock, took = WallClock(), list[float]()
    for seed in range(10):
        begin_us = clock.now_us()
        for request in requests:
            params = SamplingParams(1.0, seed, request.id)
            propose(draft, request, _K, params, model.config.vocab_size)
        took.append(clock.now_us() - begin_us)
    return percentile(took, 0.2)


def _step_us(traces: Sequence[Trace], k: int, batch: int) -> float:
    """The 20th percentile of the steps in which the whole batch decodes with k draft tokens."""
    steps = [step for trace in traces for step in trace.steps if len(step.work) == batch]
    full = [s for s in steps if all(w.kind == "decode" and len(w.drafted) == k for w in s.work)]
    return percentile([step.duration_us for step in full], 0.2)


def timed_table(timings: dict[int, dict[str, float]]) -> str:
    """The figures of `timed` by batch size; Markdown."""
    rows = [
        f"| {batch} | {each['draft_cost']:.3f} | {each['verifying']:.2f} | {each['formula']:.2f} | "
        f"**{each['measured']:.2f}** |"
        for batch, each in timings.items()
    ]
    head = "| batch | c | verifying pass | speed-up by 8.3 | measured speed-up |"
    return table(head, "rrrrr", rows)


# --- how far ahead ------------------------------------------------------------------------------

MACHINES = {cost.name: cost for cost in (LARGE_GPU, SERVER_CPU)}
_AHEAD = (0, 1, 2, 4, 6, 8)  # draft tokens


def drafts_ahead(model: GPT, draft: Draft, policies: Policies) -> dict[str, dict[int, Trace]] | str:
    """Runs by the learner's policies with 0 to 8 draft tokens, for one request and for eight.

    A sentence instead if a policy fails.
    """

    def runs(policies: Policies) -> dict[str, dict[int, Trace]]:
        return {
            name: {k: serve(model, draft, k, 1.0, batch, 48, policies=policies) for k in _AHEAD}
            for batch, name in ((1, "one request"), (8, "eight requests"))
        }

    try:
        return Rerun(runs, Policies())(policies)
    except RunError as error:
        return f"The run with your functions stopped: {error}"


def speedup_figure(runs: dict[str, dict[int, Trace]] | str, machine: str, name: str) -> Figure:
    """The speed-up of those runs, by the function called `name`, on one of the machines.

    Every forward of the traces is charged what it costs there; drafting costs nothing.
    """
    question = "How many draft tokens would you choose here, for one request and for eight?"
    if isinstance(runs, str):
        return Figure(runs, question)
    cost = MACHINES[machine]

    def took_us(trace: Trace) -> int:
        return sum(cost.forward_us(each) for step in trace.steps for each in step.forwards)

    title = f"Speed-up by draft tokens, rejection_sample: {name}"
    curves = {
        batch: [(k, took_us(of[0]) / took_us(trace)) for k, trace in sorted(of.items())]
        for batch, of in runs.items()
    }
    panels, source = {"speed-up (times)": curves}, f"modelled: {cost.name}"
    drawing = line_chart(panels, "draft tokens, k", title, source, marks={"no drafts": 1})
    return Figure(drawing, question)


# --- on a large GPU -----------------------------------------------------------------------------

_CONTEXT = 64  # our tokens per request; each stands for LARGE_GPU.prompt_scale real ones


def batch_chart(acceptance_rate: float) -> figure.Figure:
    """Speed-up by batch size on the modelled GPU, for three drafts."""
    drafts = {
        f"α = {acceptance_rate:.2f}, c = 0": (acceptance_rate, 0.0),
        f"α = {acceptance_rate:.2f}, c = 0.1": (acceptance_rate, _COST),
        "α = 0.85, c = 0.1": (0.85, _COST),
    }
    batches = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    curves = {
        name: [(batch, _speedup_of(batch, *each)) for batch in batches]
        for name, each in drafts.items()
    }
    return line_chart(
        {"speed-up": curves}, "batch size", "The same draft by batch size, k = 4",
        "modelled: 8 billion parameters on one large GPU", log_x=True,
    )  # fmt: skip


def _speedup_of(batch: int, acceptance_rate: float, draft_cost: float) -> float:
    plain = LARGE_GPU.step_us(0, batch, batch * _CONTEXT)
    verifying = LARGE_GPU.step_us(0, batch * (_K + 1), batch * _CONTEXT) / plain
    tokens = acceptance.expected_tokens(acceptance_rate, _K)
    return round(tokens / (verifying + _K * draft_cost), 3)

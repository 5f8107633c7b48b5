"""Behind lesson 2b: latencies under shortest first, priority and ageing, and keys over time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from course.attempt import Attempt
from course.calling.jobs import RunError
from course.calling.policies import Policy
from course.lesson_data.l02_scheduler import latencies, recomputed
from course.lesson_data.texts import Arrivals, table
from course.registry import exercise
from course.replay import Rerun, replay
from nanogpt import Engine, EngineConfig, Request
from nanogpt.clock import SERVER_CPU, CostClock
from nanogpt.experiments.trace_metrics import all_request_metrics, summary
from nanogpt.figures.curves import line_chart
from nanogpt.recorded_texts import RecordedTexts
from nanogpt.views.request_view import RequestView

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rule = str | Callable[[RequestView], tuple[float, ...]]
_AgedKey = Callable[[RequestView, float], tuple[float, ...]]
_Runs = dict[str, dict[int, dict[int, int]]]
"""By rule and length of the stream, latencies in steps by request."""

_WORKLOADS = {  # limits, and (arrival, prompt, new tokens, priority) of each request
    "inversion": (
        EngineConfig(12, max_kv_tokens=40, max_batch_size=1, max_prefilling=1),
        [(0, 10, 18, 8), (2, 4, 6, 0), (3, 5, 8, 0), (4, 8, 10, 5)],
    ),
    "mix": (
        EngineConfig(16, max_kv_tokens=64, max_batch_size=4, max_prefilling=1),
        [(i // 2, 6, *((5, 0) if i in (3, 4, 7) else (10, 6))) for i in range(12)],
    ),
    "memory pressure": (
        EngineConfig(12, max_kv_tokens=32, max_batch_size=3, max_prefilling=1),
        [(0, 8, 14, 9), (1, 8, 14, 8), (3, 5, 6, 0), (4, 5, 6, 0), (5, 8, 10, 6)],
    ),
    "control": (
        EngineConfig(16, max_kv_tokens=64, max_batch_size=4, max_prefilling=1),
        [(i, 6, 8, 0) for i in range(8)],
    ),
}
_PUBLISHED = {  # the important requests' latency and the throughput, priority divided by FCFS
    "inversion": "×0.37, ×0.96",
    "mix": "×0.46, ×1.02",
    "memory pressure": "×0.65, ×0.94",
    "control": "×1.00, ×1.00",
}
_MODES: dict[str, dict[str, Any]] = {
    "FCFS": {"policy": "fcfs"},
    "priority": {"policy": "priority"},
    "priority, preempt to admit": {"policy": "priority", "preempt_to_admit": True},
}
LENGTHS = (5, 10, 20, 40)


# --- shortest first -----------------------------------------------------------------------------


def ties_table() -> str:
    """Mean latency and that of the long request, by the rule that breaks ties, as a table."""
    rules: dict[str, Rule] = {
        "earlier arrival first": lambda request: (request.priority, request.arrival_time),
        "fewer tokens left first": lambda request: (
            request.priority,
            request.max_new_tokens - len(request.generated_tokens),
        ),
    }
    lengths = (6, 12, 24)
    head = "| mean, long request | " + " | ".join(f"{n} short requests" for n in lengths) + " |"
    rows: list[str] = []
    for name, rule in rules.items():
        runs = [_serve(rule, _short_ones(number)) for number in lengths]
        cells = " | ".join(f"{fmean(steps.values()):.1f}, {steps[1]}" for steps in runs)
        rows.append(f"| {name} | {cells} |")
    return table(head, "lrrr", rows)


def _short_ones(number: int) -> Arrivals:
    """A short request every 4 steps, and at step 1 a long one of 40 tokens (request 1)."""
    short = [(4 * i, Request(i + 2, [1] * 8, 8)) for i in range(number)]
    return [(0, Request(0, [1] * 8, 8)), (1, Request(1, [1] * 8, 40)), *short]


def _serve(rule: Rule, arrivals: Arrivals) -> dict[int, int]:
    """Latency in steps by request, in a batch of two. Raises: ValueError for a rule that fails."""
    limits = EngineConfig(policy=rule, max_batch_size=2)
    trace = replay(Engine(RecordedTexts(), limits), arrivals, 600)
    if trace.error:
        raise ValueError(trace.error)
    return latencies(trace)


# --- priority, measured -------------------------------------------------------------------------


class Measured(NamedTuple):
    """Mean latencies of the important requests and of the others, throughput, recomputed tokens."""

    important_ms: float
    others_ms: float
    tokens_per_s: float
    recomputed: int


def priority_runs() -> dict[tuple[str, str], Measured]:
    """The four published workloads in each of three modes, on the clock of a server CPU."""
    return {
        (workload, mode): _measured(replace(limits, **change), spec)
        for workload, (limits, spec) in _WORKLOADS.items()
        for mode, change in _MODES.items()
    }


def _measured(limits: EngineConfig, spec: list[tuple[int, int, int, int]]) -> Measured:
    requests = [
        (arrival, Request(i, [1] * prompt, new, priority=priority))
        for i, (arrival, prompt, new, priority) in enumerate(spec)
    ]
    trace = Engine(RecordedTexts(), limits, clock=CostClock(SERVER_CPU)).run(requests)
    latency_ms: dict[bool, list[float]] = {True: [], False: []}
    for each in all_request_metrics(trace):
        request = trace.request(each.request_id)
        assert each.finish_us is not None
        latency_ms[request.priority == 0].append((each.finish_us - request.arrival_us) / 1000)
    important, others = fmean(latency_ms[True]), fmean(latency_ms[False] or [0])
    return Measured(important, others, summary(trace).tokens_per_s, recomputed(trace))


def times(found: dict[tuple[str, str], Measured], workload: str, mode: str) -> str:
    """The important requests' latency as a multiple of that under FCFS."""
    return f"×{found[workload, mode].important_ms / found[workload, 'FCFS'].important_ms:.2f}"


def priority_table(found: dict[tuple[str, str], Measured]) -> str:
    """Each workload under priority, as multiples of FCFS, and the published multiples."""
    head = (
        "| workload | important, priority | important, preempt to admit | others | throughput "
        "| recomputed tokens (FCFS) | published: important, throughput |"
    )
    rows: list[str] = []
    mode = "priority, preempt to admit"
    for workload, published in _PUBLISHED.items():
        base, run = found[workload, "FCFS"], found[workload, mode]
        others = f"×{run.others_ms / base.others_ms:.2f}" if base.others_ms else "none"
        rows.append(
            f"| {workload} | {times(found, workload, 'priority')} | {times(found, workload, mode)} "
            f"| {others} | ×{run.tokens_per_s / base.tokens_per_s:.2f} "
            f"| {run.recomputed} ({base.recomputed}) | {published} |"
        )
    return table(head, "lrrrrrr", rows)


# --- starvation and ageing ----------------------------------------------------------------------


def two_that_age() -> Figure:
    """The keys of two waiting requests over the steps, ageing at one rate or at two."""
    waiting = {"A: arrived at 0, priority 4": (0, 4), "B: arrived at 8, priority 0": (8, 0)}
    rates = {"at the same rate": 5.0, "A twice as fast": 2.5}  # steps per level, of A; B's is 5
    panels = {
        f"key, {words}": {
            name: [
                (now, priority - (now - arrival) / (rate if name.startswith("A") else 5.0))
                for now in range(arrival, 21, 4)
            ]
            for name, (arrival, priority) in waiting.items()
        }
        for words, rate in rates.items()
    }
    title = "Two waiting requests whose keys fall while they wait"
    return line_chart(panels, "step", title, "the smallest key goes first")


def patience(attempt: Attempt) -> tuple[Figure, str]:
    """One unimportant request's latency over a stream's length, and what the others pay.

    Ageing ranks by the learner's `aged_key`, or by the reference's until it is written and works.
    """
    said = "Ageing ranks by the reference's `aged_key`: yours is not written yet."
    if attempt.started and attempt.function is not None:
        try:
            aged = _aged()(Policy(attempt.function))
            return _drawn(aged, "Ageing ranks by your `aged_key`.")
        except RunError:
            said = "A run with your `aged_key` failed, so ageing ranks by the reference's."
    return _drawn(_aged().reference, said)


@functools.cache
def _aged() -> Rerun[_AgedKey, _Runs]:
    """Runs in which 20 steps of waiting, or 5, are worth one level of priority."""

    def run(key: _AgedKey) -> _Runs:
        return {
            "ageing, 20 steps a level": _by_length(lambda request: key(request, 20)),
            "ageing, 5 steps a level": _by_length(lambda request: key(request, 5)),
        }

    return Rerun(run, exercise("l02.aged_key").right[0])


def _drawn(aged: _Runs, said: str) -> tuple[Figure, str]:
    runs = {"strict priority": _by_length("priority"), **aged, "FCFS": _by_length("fcfs")}
    chart = line_chart(
        {
            "latency of the unimportant request (steps)": {
                name: [(n, steps[1]) for n, steps in lengths.items()]
                for name, lengths in runs.items()
            }
        },
        "important requests in the stream",
        "One unimportant request in a stream of important ones",
    )
    means = {
        name: fmean(steps for i, steps in lengths[LENGTHS[-1]].items() if i != 1)
        for name, lengths in runs.items()
    }
    head = f"| rule | mean latency of the others, {LENGTHS[-1]} in the stream |"
    rows = (f"| {name} | {mean:.1f} steps |" for name, mean in means.items())
    return chart, f"{said}\n\n{table(head, 'lr', rows)}"


@functools.cache
def _by_length(rule: Rule) -> dict[int, dict[int, int]]:
    """Latencies in steps by request, for streams of several lengths."""
    return {length: _serve(rule, stream(length)) for length in LENGTHS}


def stream(number: int) -> Arrivals:
    """Important requests, one every 4 steps, and an unimportant one (request 1, at step 2)."""
    important = [(4 * i, Request(i + 2, [1] * 8, 8)) for i in range(number)]
    first, other = Request(0, [1] * 8, 8), Request(1, [1] * 8, 8, priority=2)
    return [(0, first), (2, other), *important]

"""Behind lesson 2b: what shortest-first, priority and ageing do to the latency of each request."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, NamedTuple

from course.attempt import Attempt
from course.calling.jobs import RunError
from course.calling.policies import Policy
from course.lesson_data.l02_scheduler import Arrivals, latencies, recomputed
from course.lesson_data.plan_only import plan_engine
from course.registry import exercise
from course.replay import Rerun, replay
from nanogpt import EngineConfig, Request
from nanogpt.clock import SERVER_CPU, CostClock
from nanogpt.experiments.trace_metrics import all_request_metrics, summary
from nanogpt.policy_views import RequestView

Rule = str | Callable[[RequestView], tuple[float, ...]]
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
_PUBLISHED = {  # the important requests' latency and the throughput, priority against FCFS
    "inversion": "×0.37, ×0.96",
    "mix": "×0.46, ×1.02",
    "memory pressure": "×0.65, ×0.94",
    "control": "×1.00, ×1.00",
}
_MODES: dict[str, dict[str, Any]] = {
    "FCFS": {"policy": "fcfs"},
    "priority": {"policy": "priority"},
    "priority, pushing out": {"policy": "priority", "preempt_to_admit": True},
}
LENGTHS = (5, 10, 20, 40)


# --- shortest first -----------------------------------------------------------------------------


def said_of_ties() -> str:
    """Mean latency and that of a long request among short ones, by the rule that breaks ties."""
    rules: dict[str, Rule] = {
        "Earlier arrival": lambda request: (request.priority, request.arrival_time),
        "Fewer left": lambda request: (
            request.priority,
            request.max_new_tokens - len(request.generated_tokens),
        ),
    }
    said: list[str] = []
    for name, rule in rules.items():
        pairs: list[str] = []
        for number in (6, 12, 24):
            steps = _serve(rule, _short_ones(number))
            pairs.append(f"{fmean(steps.values()):.1f} and {steps[1]}")
        said.append(f"{name}: {', '.join(pairs)}.")
    return " ".join(said)


def _short_ones(number: int) -> Arrivals:
    """A short request every 4 steps, and near the front a long one of 40 tokens (request 1)."""
    short = [(4 * i, Request(i + 2, [1] * 8, 8)) for i in range(number)]
    return [(0, Request(0, [1] * 8, 8)), (1, Request(1, [1] * 8, 40)), *short]


def _serve(rule: Rule, arrivals: Arrivals) -> dict[int, int]:
    """Latency in steps by request, in a batch of two. Raises: ValueError for a rule that fails."""
    limits = EngineConfig(policy=rule, max_batch_size=2)
    trace = replay(plan_engine(limits), arrivals, 600)
    if trace.error:
        raise ValueError(trace.error)
    return latencies(trace)


# --- priority, measured -------------------------------------------------------------------------


class Bill(NamedTuple):
    """Mean latencies of the important requests and of the others in ms, and what they cost."""

    important_ms: float
    others_ms: float
    tokens_per_s: float
    recomputed: int


def bills() -> dict[tuple[str, str], Bill]:
    """The four published workloads under each of three modes, on the clock of a server CPU."""
    return {
        (workload, mode): _measured(replace(limits, **change), spec)
        for workload, (limits, spec) in _WORKLOADS.items()
        for mode, change in _MODES.items()
    }


def _measured(limits: EngineConfig, spec: list[tuple[int, int, int, int]]) -> Bill:
    requests = [
        (arrival, Request(i, [1] * prompt, new, priority=rank))
        for i, (arrival, prompt, new, rank) in enumerate(spec)
    ]
    trace = plan_engine(limits, clock=CostClock(SERVER_CPU)).run(requests)
    late: dict[bool, list[float]] = {True: [], False: []}
    for each in all_request_metrics(trace):
        request = trace.request(each.request_id)
        assert each.finish_us is not None
        late[request.priority == 0].append((each.finish_us - request.arrival_us) / 1000)
    important, others = fmean(late[True]), fmean(late[False] or [0])
    return Bill(important, others, summary(trace).tokens_per_s, recomputed(trace))


def times(found: dict[tuple[str, str], Bill], workload: str, mode: str) -> str:
    """The important requests' latency as a multiple of that under FCFS."""
    return f"×{found[workload, mode].important_ms / found[workload, 'FCFS'].important_ms:.2f}"


def bills_table(found: dict[tuple[str, str], Bill]) -> str:
    """Each workload under priority, as multiples of FCFS, beside what its author published."""
    rows: list[str] = []
    for workload in _WORKLOADS:
        base = found[workload, "FCFS"]
        for mode in ("priority", "priority, pushing out"):
            bill = found[workload, mode]
            others = f"×{bill.others_ms / base.others_ms:.2f}" if base.others_ms else "none"
            published = _PUBLISHED[workload] if mode.endswith("out") else ""
            rows.append(
                f"| {workload} | {mode} | {times(found, workload, mode)} | {others} "
                f"| ×{bill.tokens_per_s / base.tokens_per_s:.2f} "
                f"| {bill.recomputed} (FCFS: {base.recomputed}) | {published} |"
            )
    head = (
        "| workload | policy | latency of the important | of the others | throughput "
        "| tokens recomputed | published: important, throughput |"
    )
    return "\n".join([head, "|:--|:--|--:|--:|--:|--:|--:|", *rows])


# --- starvation and ageing ----------------------------------------------------------------------


def patience(attempt: Attempt) -> tuple[list[dict[str, Any]], str]:
    """Curves of one unimportant request's latency over a stream's length, and a sentence on them.

    Ageing ranks by the learner's `aged_key` once it is there, and by the reference where it fails.
    """
    if attempt.started and attempt.function is not None:
        try:
            aged = _aged()(_Ageing(Policy(attempt.function)))
            return _curves(aged, "Ageing ranks by your `aged_key`.")
        except RunError:
            said = "No run with your `aged_key` came to its end, so ageing is the reference's."
            return _curves(_aged().reference, said)
    return _curves(_aged().reference, "Ageing is the reference's: yours is not written yet.")


@dataclass(frozen=True, slots=True)
class _Ageing:
    aged_key: Callable[[RequestView, float], tuple[float, ...]]


@functools.cache
def _aged() -> Rerun[_Ageing, _Runs]:
    """The runs in which every 20 steps, and every 5, raise a request by a level."""

    def run(rule: _Ageing) -> _Runs:
        rank = rule.aged_key
        return {
            "ageing, 20 steps a level": _by_length(lambda request: rank(request, 20)),
            "ageing, 5 steps a level": _by_length(lambda request: rank(request, 5)),
        }

    return Rerun(run, _Ageing(exercise("l02.aged_key").right[0]))


def _curves(aged: _Runs, said: str) -> tuple[list[dict[str, Any]], str]:
    runs = {
        "strict priority": _by_policy("priority"),
        **aged,
        "FCFS": _by_policy("fcfs"),
    }
    curves = [
        {"name": name, "points": [[n, steps[1]] for n, steps in lengths.items()]}
        for name, lengths in runs.items()
    ]
    paid = "; ".join(
        f"{name}: {fmean(steps for i, steps in lengths[LENGTHS[-1]].items() if i != 1):.1f}"
        for name, lengths in runs.items()
    )
    return curves, f"{said} Mean latency of the {LENGTHS[-1]} others, in steps: {paid}."


def _by_length(rule: Rule) -> dict[int, dict[int, int]]:
    """Latencies in steps by request, for streams of several lengths."""
    return {length: _serve(rule, _stream(length)) for length in LENGTHS}


@functools.cache
def _by_policy(name: str) -> dict[int, dict[int, int]]:
    """Those of a rule that no edit changes, worked out once."""
    return _by_length(name)


def _stream(number: int) -> Arrivals:
    """Important requests without a pause, and one that is not (request 1, at step 2)."""
    important = [(4 * i, Request(i + 2, [1] * 8, 8)) for i in range(number)]
    first, other = Request(0, [1] * 8, 8), Request(1, [1] * 8, 8, priority=2)
    return [(0, first), (2, other), *important]

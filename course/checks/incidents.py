"""The incidents of lesson 12: what each deployment promises, its settings, and a run under them.

`on_call.toml` has them. Nothing here knows what is wrong: the settings decide what happens.
"""

import functools
import random
import tomllib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from course.checks.fleet_loads import OldReports, prompts
from nanogpt.clock import LARGE_GPU
from nanogpt.contest.scoring import PatientClock
from nanogpt.engine import Engine, EngineConfig, Request
from nanogpt.experiments.trace_metrics import percentile
from nanogpt.fleet import decisions
from nanogpt.fleet.costs import CALIBRATED_COST, decode_us
from nanogpt.fleet.fleet_config import FIFO
from nanogpt.fleet.fleet_policies import FleetPolicies
from nanogpt.fleet.fleet_record import FleetRun
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.workload import FleetRequest, Workload
from nanogpt.policies import Policies
from nanogpt.recorded_texts import RecordedTexts
from nanogpt.trace import StepRecord

Points = list[tuple[float, float]]
Settings = Mapping[str, Any]
_PLAIN = replace(FIFO, cost=CALIBRATED_COST, kv_tokens=200_000, batch_size=256)
_SHARED = tomllib.loads(Path(__file__).with_name("on_call.toml").read_text(encoding="utf-8"))
CAUSES: dict[str, list[str]] = _SHARED["causes"]  # what is wrong, and the number that proves it
SETTINGS: dict[str, list[Any]] = _SHARED["settings"]  # their values
INCIDENTS: dict[str, dict[str, Any]] = _SHARED["incidents"]  # settings, promises, load or fleet


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings of a run: the promised metrics, a table by columns, curves by panel, and a log."""

    metrics: Mapping[str, float]
    columns: Mapping[str, Mapping[str, str]]
    panels: Mapping[str, Mapping[str, Points]]
    log: Sequence[str] = ()


@functools.cache
def look(ticket: str, policies: Policies = Policies(), **changed: Any) -> Findings:
    """Run a ticket's deployment, an engine's with these policies, under changed settings."""
    given = INCIDENTS[ticket]
    settings = {**given["settings"], **changed}
    if "fleet" in given:
        return {"drafts": _drafting, "router": _routed}[given["fleet"]](settings)
    return _engine(given, settings, policies)


@dataclass(frozen=True, slots=True)
class Call:
    """A request as its client sends it, who leaves after `reads` tokens (None: stays)."""

    at_us: int
    prompt: list[int]
    num_new: int
    tenant: str
    reads: int | None


def calls(load: Sequence[Mapping[str, Any]]) -> list[Call]:
    """Random arrivals at a rate, with lengths from two ranges; some clients leave half-way."""
    found: list[Call] = []
    for part in load:
        rate, span = part["rate"], part["seconds"]
        draw = random.Random(f"{rate} calls per second, {part.get('seed', 0)}")
        for at_s in sorted(draw.uniform(*span) for _ in range(round(rate * (span[1] - span[0])))):
            own = [draw.randrange(65) for _ in range(draw.randint(*part["prompt"]))]
            length, who = draw.randint(*part["num_new"]), draw.choice(part.get("tenants", ["chat"]))
            reads = length // 2 if draw.random() < part.get("leaving", 0) else None
            prompt = [token % 65 for token in range(part.get("instructions", 0))] + own
            found.append(Call(round(at_s * 1e6), prompt, length, who, reads))
    return sorted(found, key=lambda call: call.at_us)


class Served:
    """The counters of a run. Mutable while it is served.

    By step: requests in flight, and KV tokens in use with those that nobody frees, the `leaked`
    ones. `unread` counts tokens for clients that had left.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.calls, self.steps = list[Call](), list[StepRecord]()
        self.sent_us, self.token_us = list[int](), list[list[int]]()
        self.in_flight, self.kv = Points(), Points()
        self.leaked = self.unread = 0

    def ttfts(self) -> dict[str, Points]:
        """By tenant, and "" for all: (second of arrival, TTFT in ms) of each request."""
        found: dict[str, Points] = {"": []}
        for call, us, times in zip(self.calls, self.sent_us, self.token_us, strict=True):
            for name in ("", call.tenant):
                found.setdefault(name, []).append((us / 1e6, (times[0] - us) / 1e3))
        return found

    def itls(self) -> Points:
        """(second, ms since the request's token before) of each token but the first ones."""
        gaps = [pair for times in self.token_us for pair in pairwise(times)]
        return sorted((late / 1e6, (late - early) / 1e3) for early, late in gaps)


def middle(points: Points, share: float = 0.5) -> float:
    """The median of the points' values, or another percentile."""
    return percentile([value for _, value in points], share)


def serve(load: Sequence[Call], settings: Settings, policies: Policies, clients: int) -> Served:
    """Serve a load to its end; with so many `clients`, each sends when it has its last answer."""
    names = EngineConfig.__dataclass_fields__.keys() & settings.keys()
    run = Served(EngineConfig(**{name: settings[name] for name in names}))
    clock, pending = PatientClock(LARGE_GPU), deque(load)
    engine = Engine(RecordedTexts(), run.config, policies, clock=clock)
    while pending or not engine.scheduler.is_done():
        if engine.scheduler.is_done() and not clients:
            clock.wait_until(pending[0].at_us)
        while pending and (
            len(engine.requests) < clients if clients else pending[0].at_us <= clock.now_us()
        ):
            call, number = pending.popleft(), len(run.calls)
            salt = f"{number}" if settings.get("cache_salt") == "request" else call.tenant
            engine.submit(Request(number, call.prompt, call.num_new, cache_salt=salt))
            run.calls.append(call)
            run.token_us.append([])
            run.sent_us.append(clock.now_us() if clients else call.at_us)
        run.steps.append(step := engine.step())
        for work in step.work:
            run.token_us[work.request_id] += [step.end_us] * len(work.tokens)
            _leave(engine, run, work.request_id, settings)
        held = sum(request.num_computed_tokens for request in engine.requests.values())
        run.kv.append((step.end_us / 1e6, held + run.leaked))
        run.in_flight.append((step.end_us / 1e6, len(engine.requests)))
    return run


def _leave(engine: Engine, run: Served, number: int, settings: Settings) -> None:
    """Handle the request if its client has left."""
    reads, then = run.calls[number].reads, settings.get("on_disconnect")
    if reads is None or len(run.token_us[number]) < reads or number not in engine.requests:
        return
    run.unread += then == "finish"
    if then == "detach":
        run.leaked += engine.requests[number].num_computed_tokens
        left = settings["max_kv_tokens"] - run.leaked
        engine.reconfigure(replace(engine.config, max_kv_tokens=left))
    if then != "finish":
        engine.abort(number)


def dashboard(run: Served) -> dict[str, str]:
    """The rows of an operator's page."""
    steps, itls, (all_ms, *tenants) = run.steps, run.itls(), run.ttfts().items()
    prompts, texts = zip(*((len(call.prompt), call.num_new) for call in run.calls), strict=True)
    per_s = 1e6 * len(prompts) / (run.sent_us[-1] - run.sent_us[0])
    decodes = [sum(work.kind == "decode" for work in step.work) for step in steps]
    known = {(w.request_id, at) for s in steps for w in s.work for at in range(w.start, w.end)}
    rows = {
        "requests sent": f"{len(prompts)}, {per_s:.1f} per second",
        "their mean prompt and text": f"{fmean(prompts):.1f} and {fmean(texts):.1f} tokens",
        "TTFT": f"median {middle(all_ms[1]):.1f} ms, p99 {middle(all_ms[1], 0.99):.1f} ms",
        "ITL": f"median {middle(itls):.1f} ms, p99 {middle(itls, 0.99):.1f} ms",
        "steps": f"{len(steps):,}, {fmean(s.duration_us for s in steps) / 1e3:.2f} ms on average",
        "decodes in a step": f"{fmean(decodes):.1f} on average, {max(decodes)} at most",
        "tokens computed": f"{sum(s.used_tokens for s in steps):,}, {len(known):,} different ones",
        "preemptions": f"{sum(len(step.preempted) for step in steps)}",
    }
    for tenant, ttfts in tenants:
        rows[f"TTFT of {tenant}"] = f"median {middle(ttfts):.2f} ms"
    if (most := run.config.max_kv_tokens) is not None:
        used = [100 * num_tokens / most for _, num_tokens in run.kv]
        rows["KV budget in use"] = f"at most {max(used):.1f} %, in the end {used[-1]:.1f} %"
    if run.config.share_prefixes:
        hits = [hit.num_tokens for step in steps for hit in step.prefix_hits]
        rows["prompt tokens found cached"] = f"{100 * sum(hits) / sum(prompts):.1f} %"
    return rows


def _engine(given: Mapping[str, Any], settings: Settings, policies: Policies) -> Findings:
    """Serve each load; the promises are about the first one."""
    clients = {"load test": 8 if settings.get("load_test") == "closed" else 0}
    runs = {
        name: serve(calls(load), settings, policies, clients.get(name, 0))
        for name, load in given["loads"].items()
    }
    [run, *_], [*_, other] = runs.values(), runs.values()
    seconds, worst_ms = [second for second, _ in run.in_flight], middle(run.ttfts()[""], 0.99)
    waiting = [max(0, n - len(s.kv)) for (_, n), s in zip(run.in_flight, run.steps, strict=True)]
    panels: dict[str, dict[str, Points]] = {
        "waiting requests": {"waiting": list(zip(seconds, waiting, strict=True))},
        "requests in flight": {name: each.in_flight for name, each in runs.items()},
        "TTFT (ms)": {f"{n}, {w}": ms for n, r in runs.items() for w, ms in r.ttfts().items() if w},
        "ITL (ms)": {"ITL": run.itls()},
        "KV tokens": {"in use": run.kv},
    }
    metrics = {
        "p99 TTFT (ms)": worst_ms,
        "p99 ITL (ms)": middle(run.itls(), 0.99),
        "longest ITL (ms)": middle(run.itls(), 1),
        "tokens that nobody reads": run.unread,
        "p99 TTFT of users ÷ of the load test": worst_ms / middle(other.ttfts()[""], 0.99),
        **{f"p99 TTFT of {w} (ms)": middle(each, 0.99) for w, each in run.ttfts().items()},
    }
    first = max(range(len(waiting) - 5), key=waiting.__getitem__)
    return Findings(
        metrics,
        {name: dashboard(each) for name, each in runs.items()},
        {name: panels[name] for name in given["panels"]},
        [_line(run.steps[i], waiting[i]) for i in range(first, first + 6)],
    )


def _line(step: StepRecord, num_waiting: float) -> str:
    decodes = sum(work.kind == "decode" for work in step.work)
    said = f"step {step.step}: {step.duration_us / 1e3:.1f} ms, {decodes} decodes"
    said += f", {step.used_tokens - decodes} prefill tokens, {num_waiting:.0f} waiting"
    gone = [f"preempted {', '.join(map(str, step.preempted))}"] if step.preempted else []
    return "; ".join([said, *gone, *filter(None, [step.blocked])])


def _fleet(run: FleetRun, rows: Mapping[str, str], log: Sequence[str], **more: float) -> Findings:
    """A run of a fleet; `more` are promised beside its times."""
    total, last = run.totals, run.workload.requests[-1]
    p50_ms, p99_ms, itl_ms = total.ttft_p50_ms or 0, total.ttft_p99_ms or 0, total.itl_mean_ms or 0
    table = {
        "requests sent": f"{total.arrived}, {total.arrived / last.arrival_us * 1e6:.0f} per second",
        "TTFT": f"median {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms",
        "ITL": f"{itl_ms:.2f} ms on average",
    }
    ttfts = [
        (request.arrival_us / 1e6, ((outcome.first_token_us or 0) - request.arrival_us) / 1e3)
        for request, outcome in zip(run.workload.requests, run.outcomes, strict=True)
    ]
    batches = [(each.start_us / 1e6, float(len(each.request_ids))) for each in run.runs]
    metrics = {"median TTFT (ms)": p50_ms, "p99 TTFT (ms)": p99_ms, "mean ITL (ms)": itl_ms, **more}
    panels = {"TTFT (ms)": {"TTFT": ttfts}, "requests in a pass": {"running": batches}}
    return Findings(metrics, {"users": {**table, **rows}}, panels, log)


def _drafting(settings: Settings) -> Findings:
    """One worker; half of the drafts are accepted."""
    load = calls([{"rate": 125, "seconds": [0, 2], "prompt": [30, 120], "num_new": [150, 250]}])
    requests = [
        FleetRequest(i, each.at_us, tuple(each.prompt), each.num_new, 5, 10**8, 0.5)
        for i, each in enumerate(load)
    ]
    batch, drafts = settings["max_batch_size"], settings["num_draft_tokens"] > 0
    config = replace(_PLAIN, num_workers=1, batch_size=batch, speculation=drafts)
    run = simulate(config, Workload(tuple(requests)))
    passes = [each for each in run.runs if each.kind == "decode"]
    in_passes = sum(each.num_steps * len(each.request_ids) for each in passes)
    size = round(in_passes / sum(each.num_steps for each in passes))
    kv_each = fmean(each.reserved_tokens for each in passes) / size
    each_pass = run.totals.generated_tokens / in_passes
    rows = {"tokens of text": f"{each_pass:.2f} for each request and pass"}
    for n in (1, 8, size):
        both = (decode_us(CALIBRATED_COST, n, round(kv_each * n), k) / 1e3 for k in (n, 0))
        rows[f"a pass of {n}"] = "{:.2f} ms with drafts, {:.2f} ms without".format(*both)
    return _fleet(run, rows, ())


def _routed(settings: Settings) -> Findings:
    """Four workers behind a router, and prompts without a common beginning."""
    every_ms, how = settings["report_every_ms"], settings["router"]
    busy_until = decisions.busy_until if how == "least_load_and_sent" else None
    reports = OldReports(busy_until, every_ms * 1000)
    policies = FleetPolicies(decide=None if how == "round_robin" else reports)
    run = simulate(_PLAIN, prompts(0, 4500), policies)
    log = [
        f"{at_us / 1e3:.0f} ms: report; until the next one, workers 0 to 3 are sent "
        + ", ".join(str(len(sent[worker])) for worker in range(4))
        for at_us, sent in reports.history[4:10]
    ]
    shares = [sum(visit.worker == worker for visit in run.visits) for worker in range(4)]
    rows = {"requests of workers 0 to 3": ", ".join(map(str, shares))}
    return _fleet(run, rows, log, **{"reports per second": 4000 / every_ms})

"""Behind lesson 9's fleets: one system prompt, a preemption, a burst, and a practice load."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from course.attempt import Attempt
from course.calling.jobs import RunError
from course.calling.policies import Policy
from course.checks.fleet_loads import FLEET, Load
from course.lesson_data.l09_fleet import ms
from course.lesson_data.texts import table, whose_policies
from course.replay import Rerun
from nanogpt.fleet import decisions
from nanogpt.fleet.costs import CALIBRATED_COST
from nanogpt.fleet.fleet_config import ADAPTIVE, FIFO, FleetConfig
from nanogpt.fleet.fleet_policies import FleetPolicies
from nanogpt.fleet.fleet_record import FleetRun
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.workload import FleetRequest, Workload, make_workload

Serving = FleetRun | str
"""A run of a fleet, or the sentence that says why there is none."""
_GPU = replace(ADAPTIVE, cost=CALIBRATED_COST)

# --- routing ------------------------------------------------------------------------------------

_ROOMY = FleetConfig(  # KV for all of them, so that only the routing decides
    cost=CALIBRATED_COST, kv_tokens=32_768, speculation=False, urgency="off", preemption_gap=None
)


def one_system_prompt() -> Workload:
    """150 requests with a common prefix of 600 tokens; the first arrives 30 ms early."""
    draw = random.Random("one system prompt, 0")
    opening, now_us = draw.randbytes(600), 0
    requests: list[FleetRequest] = []
    for number in range(150):
        prompt = tuple(opening + draw.randbytes(draw.randint(200, 400)))
        new_tokens = draw.randint(5, 30)
        requests.append(FleetRequest(number, now_us, prompt, new_tokens, 5, now_us + 300_000))
        now_us += round(draw.expovariate(1 / 5000)) if number else 30_000
    return Workload(tuple(requests))


def routed(routing: str, **policies: Any) -> Serving:
    """The run of those requests by one routing rule, or with a learner's policies."""
    config = replace(_ROOMY, name=routing, routing="backlog" if policies else routing)
    return served(config, one_system_prompt(), **policies)


@functools.cache
def _routed_by_rule(routing: str) -> Serving:
    """The run of a rule that no edit changes, simulated once."""
    return routed(routing)


def served(config: FleetConfig, load: Workload, **policies: Any) -> Serving:
    """A traced run with these policies in the fleet; a sentence when one of them fails."""
    runs = Rerun(lambda policies: simulate(config, load, policies), FleetPolicies())
    try:
        return runs(FleetPolicies(**policies))
    except RunError as error:
        return f"**The run stopped:** {error}"


def routing_table(by_source: Serving, route: Attempt) -> str:
    """The same 150 requests by several routing rules, the learner's last; Markdown."""
    rows = [
        _routing_row("the source's score", by_source),
        _routing_row("each worker in turn", _routed_by_rule("round_robin")),
        _routing_row("backlog minus hit, the reference's", _routed_by_rule("backlog")),
    ]
    said = "Your `route` is not written yet: the last line is the reference's.\n\n"
    if route.started:
        mine = routed("yours", route=route.or_reference(decisions.route))
        rows.append(_routing_row("your `route`", mine))
        said = ""
    head = "| 150 requests, modelled | requests per worker | hottest | prefix hits | TTFT, median |"
    return said + table(f"{head} 99th percentile |", "llrrrr", rows)


def _routing_row(name: str, run: Serving) -> str:
    if isinstance(run, str):
        return f"| {name} | {run} | | | | |"
    where = Counter(visit.worker for visit in run.visits)
    shares = ", ".join(str(where[worker]) for worker in range(run.config.num_workers))
    hottest = max(where.values()) / where.total()
    return (
        f"| {name} | {shares} | **{hottest:.0%}** | {run.totals.kv_hit_share:.0%} | "
        f"{ms(run.totals.ttft_p50_ms)} ms | {ms(run.totals.ttft_p99_ms)} ms |"
    )


# --- preemption ---------------------------------------------------------------------------------


def victim_table() -> str:
    """One worker with a batch of one, and what a preemption does to both requests; Markdown."""

    def request(id: int, arrival_us: int, tokens: int, new: int, priority: int) -> FleetRequest:
        prompt = tuple(range(id * 10_000, id * 10_000 + tokens))
        return FleetRequest(id, arrival_us, prompt, new, priority, arrival_us + 5_000_000)

    load = Workload((request(0, 0, 1200, 200, 8), request(1, 100_000, 200, 40, 1)))
    alone = FleetConfig(
        num_workers=1,
        batch_size=1,
        cost=CALIBRATED_COST,
        urgency="off",
        ageing_us=None,
        prefix_cache="none",
        speculation=False,
    )
    ways = {
        "no preemption": replace(alone, preemption_gap=None),
        "a gap of 3": alone,
        "a gap of 3, K/V swapped": replace(alone, kv_swap=True),
    }
    rows: list[str] = []
    for name, config in ways.items():
        victim, urgent = simulate(config, load).outcomes
        first_us, done_us = urgent.first_token_us, victim.finished_us
        assert first_us is not None and done_us is not None, "both are served"
        rows.append(
            f"| {name} | {ms((first_us - 100_000) / 1000)} ms | {ms(done_us / 1000)} ms | "
            f"{victim.computed_prefill_tokens:,} |"
        )
    head = "| modelled | priority 1: TTFT | priority 8: done after | its prompt tokens computed |"
    return table(head, "lrrr", rows)


# --- the learner's fleet ------------------------------------------------------------------------


def burst_of(**policies: Any) -> Serving:
    """5 requests per second, then 200, then 5 again, in a fleet with these policies."""
    return served(_GPU, _burst(), **policies)


def _burst() -> Workload:
    return make_workload("burst", 30, 2, seed=42)


@functools.cache
def _naive() -> FleetRun:
    return simulate(replace(FIFO, cost=CALIBRATED_COST), _burst())


def fleet_table(attempts: Mapping[str, Attempt], yours: Serving, reference: FleetRun) -> str:
    """A naive FIFO, the reference and the learner's fleet in a burst; Markdown."""
    rows = [_fleet_row("FIFO, naive", _naive(), ""), _fleet_row("the reference", reference, "")]
    if any(each.started for each in attempts.values()):
        same = "" if isinstance(yours, str) else _difference(yours, reference)
        rows.append(_fleet_row("your fleet", yours, same))
    head = "| fleet | TTFT, median / 99th percentile, ms | in time | preemptions | |"
    return (
        f"{whose_policies(attempts)} {reference.totals.arrived} requests, modelled:\n\n"
        f"{table(head, 'lrrrl', rows)}"
    )


def _fleet_row(name: str, run: Serving, words: str) -> str:
    if isinstance(run, str):
        return f"| {name} | | | | {run} |"
    totals = run.totals
    late = totals.slo_violation_share or 0.0
    return (
        f"| {name} | {ms(totals.ttft_p50_ms)} / {ms(totals.ttft_p99_ms)} | "
        f"{1 - late:.0%} | {totals.preemptions} | {words} |"
    )


def _difference(yours: FleetRun, reference: FleetRun) -> str:
    """The first decision in which two runs differ, as a sentence."""
    mine, right = yours.decisions, reference.decisions
    for one, other in zip(mine, right, strict=False):
        if one != other:
            return (
                f"differs first at {one.at_us / 1000:,.1f} ms: yours {_said(one)}, the reference "
                f"{_said(other)}"
            )
    return "the same decisions as the reference" if mine == right else "one run ends earlier"


def _said(decision: Any) -> str:
    where = "" if decision.worker is None else f", worker {decision.worker}"
    at_ms = f"{decision.at_us / 1000:,.1f} ms"
    return f"{decision.kind} of request {decision.request_id}{where} ({at_ms})"


# --- a policy of one's own ----------------------------------------------------------------------

_PRACTICE = Load(2026)
"""A load like those of the check, from a seed that the check does not use."""


def practice(attempt: Attempt) -> Serving:
    """The practice load, served by the learner's policy, or by FIFO until there is one."""
    if attempt.function is not None and attempt.started:
        return served(FLEET, _PRACTICE.workload(), decide=Policy(attempt.function))
    by_fifo = replace(FLEET, name="FIFO", routing="round_robin")
    return served(by_fifo, _PRACTICE.workload())

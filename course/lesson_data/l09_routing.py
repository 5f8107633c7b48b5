"""Behind lesson 9's fleets: shared prefixes, loads that are old reports, and a practice load."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from course.attempt import Attempt
from course.calling.jobs import RunError
from course.calling.policies import Policy
from course.checks.fleet_loads import FLEET, Load, OldReports, prompts
from course.lesson_data.l09_fleet import PLAIN, ms
from course.lesson_data.texts import table
from course.replay import Rerun
from nanogpt.fleet import decisions
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.fleet_policies import FleetPolicies
from nanogpt.fleet.fleet_record import FleetRun
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.workload import FleetRequest, Workload

Serving = FleetRun | str
"""A run of a fleet, or the sentence that says why there is none."""

# --- routing ------------------------------------------------------------------------------------

ROOMY = replace(PLAIN, kv_tokens=32_768)
"""K/V for all requests at once, so that only the routing decides."""
MANY = replace(PLAIN, kv_tokens=6144)
"""Room for about a third of twelve prefixes of 600 tokens, beside the running requests."""


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


def twelve_system_prompts() -> Workload:
    """200 requests, each with one of twelve prefixes of 600 tokens, one every 6 ms on average."""
    return prompts(12, 6000)


def served(config: FleetConfig, load: Workload, **policies: Any) -> Serving:
    """A traced run with these policies in the fleet; a sentence when one of them fails."""
    runs = Rerun(lambda policies: simulate(config, load, policies), FleetPolicies())
    try:
        return runs(FleetPolicies(**policies))
    except RunError as error:
        return f"**The run stopped:** {error}"


def routing_table(pop: Attempt, route: Attempt) -> str:
    """Two loads by several routing rules, the learner's last; Markdown."""
    said = "" if route.started else "Your `route` is not written yet.\n\n"
    for title, config, load in (
        ("150 requests with one system prompt", ROOMY, one_system_prompt()),
        ("200 requests with twelve system prompts", MANY, twelve_system_prompts()),
    ):
        rows = [_routing_row(name, _by_rule(config, load, rule)) for name, rule in RULES.items()]
        if route.started:
            mine = served(
                config,
                load,
                pop_live=pop.or_reference(decisions.pop_live),
                route=route.or_reference(decisions.route),
            )
            rows.append(_routing_row("your `route`", mine))
        said += _routing_rows(title, rows) + "\n\n"
    return said


RULES = {
    "each worker in turn": "round_robin",
    "AdaXL's score": "source",
    "backlog minus hit": "backlog",
}


@functools.cache
def _by_rule(config: FleetConfig, load: Workload, routing: str) -> FleetRun:
    """The run of a rule that no edit changes, simulated once."""
    return simulate(replace(config, routing=routing), load)


def _routing_rows(title: str, rows: list[str]) -> str:
    head = f"| {title}, modelled | requests per worker | prefix hits | TTFT, median |"
    return table(f"{head} 99th percentile |", "llrrr", rows)


def _routing_row(name: str, run: Serving) -> str:
    if isinstance(run, str):
        return f"| {name} | {run} | | | |"
    where = Counter(visit.worker for visit in run.visits)
    shares = ", ".join(str(where[worker]) for worker in range(run.config.num_workers))
    return (
        f"| {name} | {shares} | {run.totals.kv_hit_share:.0%} | "
        f"{ms(run.totals.ttft_p50_ms)} ms | {ms(run.totals.ttft_p99_ms)} ms |"
    )


# --- old reports --------------------------------------------------------------------------------


def different_prompts() -> Workload:
    """200 requests without a common prefix, one every 4.5 ms on average."""
    return prompts(0, 4500)


def by_old_reports(busy_until: Callable[..., Any] | None) -> FleetRun:
    """Those requests, routed by reports of every 50 ms. Raises: RunError."""

    def under(busy_until: Callable[..., Any] | None) -> FleetRun:
        policies = FleetPolicies(decide=OldReports(busy_until))
        return simulate(ROOMY, different_prompts(), policies)

    return Rerun[Callable[..., Any] | None, FleetRun](under, None)(busy_until)


def reports_table(by_reports: FleetRun, busy_until: Attempt) -> str:
    """Reports of every moment, of every 50 ms, and these with a `busy_until`; Markdown."""
    rows = [
        _routing_row("the load of this moment", simulate(ROOMY, different_prompts())),
        _routing_row("reports of every 50 ms", by_reports),
    ]
    try:
        run: Serving = by_old_reports(busy_until.or_reference(decisions.busy_until))
    except RunError as error:
        run = f"**The run stopped:** {error}"
    whose = "your" if busy_until.started else "the reference's"
    rows.append(_routing_row(f"the same reports, with {whose} `busy_until`", run))
    return _routing_rows("200 requests without a common prefix", rows)


# --- a policy of one's own ----------------------------------------------------------------------

_PRACTICE = Load(2026)
"""A load like those of the check, from a seed that the check does not use."""


def practice(attempt: Attempt) -> Serving:
    """The practice load, served by the learner's policy, or by FIFO until there is one."""
    if attempt.function is not None and attempt.started:
        return served(FLEET, _PRACTICE.workload(), decide=Policy(attempt.function))
    by_fifo = replace(FLEET, name="FIFO", routing="round_robin")
    return served(by_fifo, _PRACTICE.workload())

"""Loads and runs of the fleet that its tests share."""

import random
from dataclasses import replace
from typing import Any

from nanogpt.fleet.fleet_config import ADAPTIVE, FleetConfig
from nanogpt.fleet.fleet_policies import FleetPolicies
from nanogpt.fleet.simulated_worker import SimulatedWorker
from nanogpt.fleet.simulation import Simulation
from nanogpt.fleet.workload import FleetRequest, Workload

SECOND = 1_000_000
EXTREMES = (float("inf"), float("-inf"), float("nan"), 1e300, -0.0, 10**400, -(10**400), 10**5000)
"""Numbers that a user or a policy may give, and no arithmetic expects."""


def request(request_id: int, arrival_us: int = 0, prompt: int = 10, new: int = 3, **fields: Any):
    """A request by hand; its prompt shares no token with another's unless `tokens` says so."""
    own = (1000 + request_id,) * prompt
    tokens = fields.pop("tokens", own)
    given: dict[str, Any] = {"priority": 5, "deadline_us": arrival_us + 2 * SECOND, **fields}
    return FleetRequest(request_id, arrival_us, tokens, new, **given)


def load(*requests: FleetRequest, seed: int = 0) -> Workload:
    return Workload(tuple(requests), seed)


def run(
    config: FleetConfig, workload: Workload, policies: FleetPolicies | None = None, **changes: Any
) -> Simulation:
    """A run to the end, checked."""
    simulation = Simulation(replace(config, **changes), workload, policies or FleetPolicies())
    simulation.advance()
    check(simulation)
    return simulation


def check(simulation: Simulation) -> None:
    """Assert that no request and no KV token is in two places, or in none."""
    places: dict[int, str] = {}
    for worker in simulation.workers:
        check_worker(worker)
        held = {"decoding": worker.batch, "prefilling": worker.prefilling}
        held["dispatched"] = worker.newcomers
        held["claimed"] = [] if worker.claimant is None else [worker.claimant]
        for place, states in held.items():
            for state in states:
                assert state.place == place and state.id not in places
                places[state.id] = place
    dispatcher, states = simulation.dispatcher, simulation.states
    for request_id, state in dispatcher.waiting.items():
        assert state.place == "waiting" and request_id not in places
        places[request_id] = "waiting"
    if dispatcher.is_queued:
        assert sum(map(len, dispatcher.queues)) == len(dispatcher.waiting)
    done = [state for state in states if state.place == "done"]
    assert len(done) == simulation.num_done
    assert len(done) + len(places) == simulation.num_arrived
    for state in done:
        assert state.is_refused == (state.kv_needed > simulation.config.kv_tokens)
        assert state.generated == (0 if state.is_refused else state.request.max_new_tokens)
    total = simulation.meter.total()
    assert total.tokens == sum(state.generated for state in states)
    assert total.completed + total.refused == simulation.num_done
    assert len(total.ttfts_us) == sum(state.first_token_us is not None for state in states)
    assert total.gaps_us.total() == total.tokens - len(total.ttfts_us)


def check_worker(worker: SimulatedWorker) -> None:
    states = (*worker.batch, *worker.prefilling, *worker.newcomers)
    assert len(states) == worker.num_running <= worker.config.batch_size
    assert worker.reserved_tokens == sum(state.kv_needed for state in states)
    assert worker.reserved_tokens + worker.cache.num_tokens <= worker.config.kv_tokens
    assert worker.backlog_tokens >= 0
    assert all(state.worker == worker.id for state in states)
    assert all(state.left_tokens > 0 for state in states)


def plain(**changes: Any) -> FleetConfig:
    """The adaptive fleet of one worker with every technique off that is not asked for."""
    off: dict[str, Any] = {
        "num_workers": 1, "urgency": "off", "ageing_us": None, "preemption_gap": None,
        "prefix_cache": "none", "speculation": False, "dispatch_us": 0,
    }  # fmt: skip
    return replace(ADAPTIVE, **{**off, **changes})


def runs_of(simulation: Simulation) -> list[tuple[int, str, int, int, int, tuple[int, ...]]]:
    """(worker, kind, start, end, steps, ids) of every run."""
    return [
        (each.worker, each.kind, each.start_us, each.end_us, each.num_steps, each.request_ids)
        for each in simulation.result().runs
    ]


def decisions_of(simulation: Simulation, kind: str) -> list[tuple[int, int, int | None]]:
    """(when, who, where) of every decision of a kind."""
    decisions = simulation.result().decisions
    return [(d.at_us, d.request_id, d.worker) for d in decisions if d.kind == kind]


def small_load(draw: random.Random, *, most: int = 30, gap_us: int = 3000) -> Workload:
    """A few requests that share openings, close together, some of them too long to be served."""
    openings = [tuple(draw.randbytes(draw.randint(1, 90))) for _ in range(3)]
    now_us, requests = 0, list[FleetRequest]()
    for number in range(draw.randint(1, most)):
        now_us += draw.choice((0, 0, draw.randrange(gap_us), draw.randrange(20 * gap_us)))
        prompt = draw.choice(openings) + tuple(draw.randbytes(draw.randint(0, 60)))
        if draw.random() < 0.05:
            prompt += (7,) * 400
        slo_us = draw.choice((1000, 60_000, 200_000, 2_000_000))
        requests.append(
            FleetRequest(
                number, now_us, prompt, draw.randint(1, 40), draw.randrange(10), now_us + slo_us,
                draw.choice((0.0, 0.2, 0.85, 1.0)),
            )
        )  # fmt: skip
    return Workload(tuple(requests), draw.randrange(100))

"""What lessons/data/split.json was written with: three ways to share two cores, and one run drawn.

`python -m course.lesson_data.l09b_recording lessons/data/split.json` writes it anew, in about ten
minutes on two idle cores; a number behind it is that of the requests for each row.
"""

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from nanogpt import EngineConfig, Request, load_model
from nanogpt.engine import Engine
from nanogpt.fleet import transfers
from nanogpt.workers.router_state import Result
from nanogpt.workers.split_fleet import SplitFleet, Transfer
from nanogpt.workers.worker_fleet import Fleet

CONFIG = EngineConfig(
    token_budget=512, max_batch_size=16, max_kv_tokens=8192, block_size=16, share_prefixes=True
)
RATES = (4, 8, 12, 16, 20)
NEW, TTFT_MS, ITL_MS = 24, 400, 20
"""Tokens of an answer; a request counts if its first token comes within the one and if the others
follow, on average, within the other."""


def record(path: str, num_requests: int = 60) -> None:
    """Write what takes too long for a page; lessons/data/split.md says what it is."""
    rows = measured(num_requests)
    trace = real_run(transfers.blocks_to_send, transfers.may_free)
    said = json.dumps({"requests": num_requests, "rows": rows, "run": trace}, indent=1)
    Path(path).write_text(said + "\n", encoding="utf-8")


def measured(num_requests: int) -> list[dict[str, Any]]:
    """Goodput, TTFT and ITL by rate, for two mixed workers, two with chunks, and one of each.

    Raises: AssertionError for a text that is not a lone engine's.
    """
    model = load_model()
    requests = _requests(num_requests)
    alone = {i: _alone(model, request) for i, request in enumerate(requests)}
    fleets = {
        "two mixed workers, whole prompts": lambda: Fleet(model, 2, CONFIG),
        "two mixed workers, chunks of 64": lambda: Fleet(
            model, 2, replace(CONFIG, token_budget=64)
        ),
        "one prefills, one decodes": lambda: SplitFleet(model, 1, 1, CONFIG),
    }
    rows: list[dict[str, Any]] = []
    for name, start in fleets.items():
        with start() as fleet:
            for rate in (RATES[0], *RATES):  # the first one warms up
                fleet.forget()
                results = fleet.run(_arrivals(_requests(num_requests), rate))
                assert all(list(result.tokens) == alone[result.id] for result in results)
                rows.append({"fleet": name, "rate": rate, **_goodput(results, rate)})
            del rows[-len(RATES) - 1]
    return rows


def _goodput(results: Sequence[Result], rate: float) -> dict[str, float]:
    itl_ms = [(each.latency_us - each.ttft_us) / (NEW - 1) / 1000 for each in results]
    ttft_ms = [each.ttft_us / 1000 for each in results]
    good = sum(t <= TTFT_MS and i <= ITL_MS for t, i in zip(ttft_ms, itl_ms, strict=True))
    return {
        "goodput": round(rate * good / len(results), 1),
        "ttft_ms": round(median(ttft_ms), 1),
        "itl_ms": round(median(itl_ms), 2),
    }


def real_run(blocks_to_send: Any, may_free: Any) -> dict[str, Any]:
    """Ten requests through one prefill worker and one decode worker, as the fleet's picture has it.

    Raises: OSError, WorkersFailed or PolicyError where the run cannot be made.
    """
    requests, settings = _requests(10), {"blocks_to_send": blocks_to_send, "may_free": may_free}
    with SplitFleet(load_model(), 1, 1, CONFIG, **settings) as fleet:
        fleet.serve([Request(99, [1] * 40, 4)])  # warms up
        results = fleet.run(_arrivals(requests, 12))
        return drawn(requests, results, [*fleet.transfers, *fleet.kept])


def drawn(
    requests: Sequence[Request], results: Sequence[Result], sent: Sequence[Transfer]
) -> dict[str, Any]:
    """The trace of `FleetView`: a lane for each worker, with the requests that it has."""
    arrivals = dict(
        zip([r.id for r in requests], [at for at, _ in _arrivals(requests, 12)], strict=True)
    )
    moved, visits = {each.request_id: each for each in sent}, list[dict[str, Any]]()
    rows: list[dict[str, Any]] = []
    for request, result in zip(requests, results, strict=True):
        arrival = round(arrivals[request.id] * 1e6)
        end, n = arrival + result.latency_us, len(request.prompt_tokens)
        start, each = arrival, moved.get(request.id)
        if each is not None:
            start = each.ordered_us or end
            visits.append(
                _visit(request.id, each.source, each.start_us, each.sent_us or end, n, "sent")
            )
        visits.append(
            _visit(request.id, result.worker_id, start, end, n - result.hit_tokens, "finished")
        )
        rows.append({
            "id": request.id, "arrival_us": arrival, "deadline_us": arrival + TTFT_MS * 1000,
            "priority": 0, "prompt_tokens": n, "max_new_tokens": NEW,
            "first_token_us": arrival + result.ttft_us, "finished_us": end, "refused": False,
        })  # fmt: skip
    return {
        "version": 1, "cost": {"name": "two processes", "modelled": False}, "name": "measured",
        "num_workers": 2, "batch_size": CONFIG.max_batch_size, "kv_tokens": CONFIG.max_kv_tokens,
        "end_us": max(visit["end_us"] for visit in visits), "requests": rows,
        "visits": sorted(visits, key=lambda visit: visit["dispatched_us"]), "decisions": [],
        "runs": [run for worker in (0, 1) for run in _runs(worker, visits)], "error": None,
    }  # fmt: skip


def _visit(
    request: int, worker: int, start: int, end: int, computed: int, ended: str
) -> dict[str, Any]:
    return {
        "request_id": request, "worker": worker, "dispatched_us": start, "start_us": start,
        "end_us": end, "hit_tokens": 0, "computed_tokens": computed,
        "generated_tokens": 0 if ended == "sent" else NEW, "ended": ended,
    }  # fmt: skip


def _runs(worker: int, visits: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The stretches of time in which the worker has the same requests."""
    own = [visit for visit in visits if visit["worker"] == worker]
    times = sorted({visit[key] for visit in own for key in ("start_us", "end_us")})
    spans = [
        (a, b, [v["request_id"] for v in own if v["start_us"] <= a and b <= v["end_us"]])
        for a, b in pairwise(times)
    ]
    return [
        {
            "worker": worker, "start_us": a, "end_us": b, "num_steps": 1, "request_ids": ids,
            "kind": "decode" if worker else "prefill", "reserved_tokens": 0, "cached_tokens": 0,
        }
        for a, b, ids in spans if ids
    ]  # fmt: skip


def _requests(number: int) -> list[Request]:
    """Prompts of 300 to 420 tokens that share nothing."""
    draw = random.Random("split")
    return [
        Request(i, [draw.randrange(65) for _ in range(draw.randint(300, 420))], NEW)
        for i in range(number)
    ]


def _arrivals(requests: Sequence[Request], rate: float) -> list[tuple[float, Request]]:
    draw, now, found = random.Random("arrivals"), 0.0, list[tuple[float, Request]]()
    for request in requests:
        found.append((now, request))
        now += draw.expovariate(rate)
    return found


def _alone(model: Any, request: Request) -> list[int]:
    """The text of the request alone in an engine, which is the oracle's."""
    trace = Engine(model, CONFIG).run([(0, replace(request))])
    return [token for step in trace.steps for work in step.work for token in work.tokens]


if __name__ == "__main__":
    record(sys.argv[1], *map(int, sys.argv[2:]))

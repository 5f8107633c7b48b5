"""What lessons/data/split.json was written with: three ways to share two cores, and one run drawn.

`python -m course.lesson_data.l09b_recording lessons/data/split.json` writes it anew, in about two
minutes on two idle cores; a number behind it is that of the requests for each row.
"""

import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from nanogpt import EngineConfig, Request, load_model
from nanogpt.engine import Engine
from nanogpt.fleet import transfers
from nanogpt.fleet.fleet_record import RunRecord, VisitRecord
from nanogpt.trace import plain
from nanogpt.workers.router_state import Result
from nanogpt.workers.split_fleet import SplitFleet, Transfer
from nanogpt.workers.worker_fleet import Fleet

CONFIG = EngineConfig(
    token_budget=512, max_batch_size=16, max_kv_tokens=8192, block_size=16, share_prefixes=True
)
RATES = (20, 40, 60, 80, 100)
NEW, TTFT_MS, ITL_MS = 24, 400, 20
"""Tokens of an answer; a request counts if its first token comes within the one and if the others
follow, on average, within the other."""


def record(path: str, num_requests: int = 200) -> None:
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
    arrivals = {request.id: round(at * 1e6) for at, request in _arrivals(requests, 12)}
    moved, visits, rows = {each.request_id: each for each in sent}, list[VisitRecord](), []
    for request, result in zip(requests, results, strict=True):
        i, n, arrival = request.id, len(request.prompt_tokens), arrivals[request.id]
        start, end, computed = arrival, arrival + result.latency_us, n - result.hit_tokens
        if each := moved.get(i):
            visits.append(VisitRecord(
                i, each.source, each.start_us, each.start_us, each.sent_us or end, 0, n, 0, "sent"
            ))  # fmt: skip
            start = each.ordered_us or end
        visits.append(
            VisitRecord(i, result.worker_id, start, start, end, 0, computed, NEW, "finished")
        )
        rows.append({
            "id": i, "arrival_us": arrival, "deadline_us": arrival + 2_000_000,
            "priority": 0, "prompt_tokens": n, "max_new_tokens": NEW,
            "first_token_us": arrival + result.ttft_us, "finished_us": end, "refused": False,
        })  # fmt: skip
    return {
        "version": 1, "cost": {"name": "two processes", "modelled": False}, "name": "measured",
        "num_workers": 2, "batch_size": CONFIG.max_batch_size, "kv_tokens": CONFIG.max_kv_tokens,
        "end_us": max(visit.end_us for visit in visits), "requests": rows,
        "visits": plain(tuple(sorted(visits, key=lambda visit: visit.dispatched_us))),
        "runs": plain((*_runs(0, visits), *_runs(1, visits))), "decisions": [], "error": None,
    }  # fmt: skip


def _runs(worker: int, visits: Sequence[VisitRecord]) -> Iterator[RunRecord]:
    """The stretches of time in which the worker has the same requests."""
    own = [visit for visit in visits if visit.worker == worker]
    for a, b in pairwise(sorted({at for visit in own for at in (visit.start_us, visit.end_us)})):
        ids = tuple(visit.request_id for visit in own if visit.start_us <= a and b <= visit.end_us)
        if ids:
            yield RunRecord(worker, a, b, "decode" if worker else "prefill", 1, ids, 0, 0)


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

"""What lessons/data/fleet.json was written with: paired seeds, and two engines in processes.

`python -c "from course.lesson_data.l09_recording import record; record('lessons/data/fleet.json')"`
writes it anew, which takes minutes.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from nanogpt import EngineConfig, Request, load_model
from nanogpt.experiments.fleet_comparison import Comparison, compare
from nanogpt.fleet import decisions
from nanogpt.fleet.costs import CALIBRATED_COST, COSTS, SOURCE_COST, CostModel
from nanogpt.fleet.fleet_config import ADAPTIVE, AS_SOURCE, FIFO, SOURCE_FIFO
from nanogpt.fleet.workload import SOURCE_RPS, Scenario
from nanogpt.workers.router_state import RoundRobin
from nanogpt.workers.worker_fleet import Fleet

Record = dict[str, Any]
_TEN, _SIX = range(42, 52), range(42, 48)
_SHOWN = ("ttft_p50_ms", "ttft_p99_ms", "itl_mean_ms", "slo_violations")
_SCENARIOS: tuple[Scenario, ...] = ("steady", "burst", "mixed_priority")
_PIECES: dict[str, dict[str, Any]] = {  # what switches each piece of the adaptive fleet off
    "order by priority": {"order": "fifo"},
    "ageing": {"ageing_us": None},
    "urgency": {"urgency": "off"},
    "preemption": {"preemption_gap": None},
    "routing by backlog": {"routing": "least_running"},
    "prefix cache": {"prefix_cache": "none"},
    "speculation": {"speculation": False},
}


def record(path: str) -> None:
    """Write what takes too long for a page; lessons/data/fleet.md says what it is."""
    found = {
        "order": _order(),
        "scenarios": _scenarios(),
        "as_source": _as_source(),
        "pieces": _pieces(),
        "workers": real_workers(decisions.route),
    }
    Path(path).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _order() -> Record:
    by_arrival = replace(ADAPTIVE, name="by arrival", order="fifo", ageing_us=None)
    others = {
        "unaged": replace(ADAPTIVE, name="by priority", ageing_us=None),
        "aged": replace(ADAPTIVE, name="with ageing"),
    }
    return {
        name: _shortened(compare((by_arrival, other), "steady", 300, 4, _TEN, SOURCE_COST))
        for name, other in others.items()
    }


def _scenarios() -> list[Record]:
    return [
        _shortened(compare((FIFO, ADAPTIVE), scenario, SOURCE_RPS, 20, _TEN, cost))
        for cost in COSTS.values()
        for scenario in _SCENARIOS
    ]


def _as_source() -> list[Record]:
    """With more KV than is ever needed, since the source does not count it."""
    pair = tuple(replace(config, kv_tokens=65_536) for config in (SOURCE_FIFO, AS_SOURCE))
    return [
        _shortened(compare((pair[0], pair[1]), scenario, SOURCE_RPS, 20, _TEN, SOURCE_COST))
        for scenario in _SCENARIOS
    ]


def _pieces() -> list[Record]:
    found: list[Record] = []
    loads: tuple[tuple[str, CostModel, Scenario, int, int], ...] = (
        ("30 requests per second, source's costs", SOURCE_COST, "steady", 30, 10),
        ("300 requests per second, source's costs", SOURCE_COST, "steady", 300, 4),
        ("a burst of 200 per second, calibrated costs", CALIBRATED_COST, "burst", 30, 15),
    )
    for title, cost, scenario, rps, seconds in loads:
        for name, without in _PIECES.items():
            other = replace(ADAPTIVE, name="without", **without)
            short = _shortened(compare((other, ADAPTIVE), scenario, rps, seconds, _SIX, cost))
            rows = {
                row["metric"]: {each: row[each] for each in ("mean", "low", "high", "verdict")}
                for row in short["rows"]
            }
            found.append({"load": title, "piece": name, "rows": rows})
    return found


def _shortened(comparison: Comparison) -> Record:
    """A comparison with the metrics that the lesson shows."""
    found = comparison.to_json()
    return found | {"rows": [row for row in found["rows"] if row["metric"] in _SHOWN]}


# --- two real workers ---------------------------------------------------------------------------


def real_workers(route: Callable[..., Any], repeats: int = 5) -> Record:
    """Two engine processes: TTFT by the length of the hit, then two routes on the same requests.

    Raises: OSError or WorkersFailed where processes are not to be had; PolicyError for a bad route.
    """
    config = EngineConfig(
        token_budget=512, max_batch_size=8, max_kv_tokens=8192, block_size=16, share_prefixes=True
    )
    by_hit: dict[int, list[Any]] = {}
    by_route: dict[str, list[Any]] = {"each in turn": [], "by route": []}
    with Fleet(load_model(), 2, config, route=route) as fleet:
        for repeat in range(repeats + 1):  # the first round warms both up
            for hit in (0, 128, 256, 384, 448, 496):  # whole blocks
                fleet.forget()
                prompt = _tokens(f"prompt {repeat} {hit}", 500)
                before = prompt[:hit] + _tokens(f"other {repeat} {hit}", 500 - hit)
                before[hit] = (prompt[hit] + 1) % 65
                fleet.serve([Request(0, before, 1)])
                result = fleet.serve([Request(1, prompt, 1)])[0]
                if repeat:
                    by_hit.setdefault(hit, []).append(result)
        for repeat in range(repeats + 1):
            for name, runs in by_route.items():
                fleet.forget()
                fleet.route = RoundRobin() if name == "each in turn" else route
                results = fleet.run(_arrivals(repeat))
                if repeat:
                    runs.append(results)
    return {
        "by_hit": [
            {
                "hit": results[0].hit_tokens,
                "computed": results[0].computed_prefill_tokens,
                "ttft_ms": median(each.ttft_us for each in results) / 1000,
            }
            for results in by_hit.values()
        ],
        "num_requests": 24,
        "num_prefixes": 6,
        "prefix": 360,
        "by_route": {name: _in_the_middle(runs) for name, runs in by_route.items()},
    }


def _tokens(name: str, length: int) -> list[int]:
    """Tokens that depend on their name alone."""
    draw = random.Random(name)
    return [draw.randrange(65) for _ in range(length)]


def _arrivals(repeat: int) -> list[tuple[float, Request]]:
    """24 requests, one every 40 ms on average, each with one of six system prompts."""
    draw, at_s = random.Random(f"load {repeat}"), 0.0
    arrivals: list[tuple[float, Request]] = []
    for number in range(24):
        at_s += draw.expovariate(1 / 0.04)
        prompt = _tokens(f"system {repeat} {draw.randrange(6)}", 360)
        own = _tokens(f"own {repeat} {number}", 40)
        arrivals.append((at_s, Request(number, prompt + own, 8)))
    return arrivals


def _in_the_middle(runs: Sequence[Any]) -> Record:
    """The run of median TTFT, in numbers."""
    ordered = sorted(runs, key=lambda results: fmean(each.ttft_us for each in results))
    results = ordered[len(ordered) // 2]
    where = Counter(each.worker_id for each in results)
    return {
        "computed": sum(each.computed_prefill_tokens for each in results),
        "hits": sum(each.hit_tokens for each in results),
        "per_worker": [where[0], where[1]],
        "mean_ttft_ms": fmean(each.ttft_us for each in results) / 1000,
    }

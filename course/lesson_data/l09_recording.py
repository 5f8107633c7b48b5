"""What lessons/data/fleet.json was written with: paired seeds, and two engines in processes.

`python -c "from course.lesson_data.l09_recording import record; record('lessons/data/fleet.json')"`
writes it anew, which takes minutes.
"""

import json
import random
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from course.lesson_data.l09_fleet import ORDERS
from nanogpt import EngineConfig, Request, load_model
from nanogpt.experiments.fleet_comparison import Comparison, compare
from nanogpt.fleet import decisions
from nanogpt.fleet.costs import CALIBRATED_COST
from nanogpt.fleet.fleet_config import ADAPTIVE
from nanogpt.fleet.workload import Scenario
from nanogpt.workers.worker_fleet import Fleet

Record = dict[str, Any]
_TEN, _SIX = range(42, 52), range(42, 48)
_SHOWN = ("ttft_p50_ms", "ttft_p99_ms", "itl_mean_ms", "slo_violations")
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
    found = {"order": _order(), "pieces": _pieces(), "workers": real_workers()}
    Path(path).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _order() -> Record:
    arrival = ORDERS["by arrival, others may pass"]
    return {
        name: _shortened(compare((arrival, ORDERS[name]), "steady", 60, 10, _TEN, CALIBRATED_COST))
        for name in ("by priority", "by priority, ageing 250 ms a level")
    }


def _pieces() -> list[Record]:
    found: list[Record] = []
    loads: tuple[tuple[str, Scenario, int, int], ...] = (
        ("20 requests per second", "steady", 20, 15),
        ("60 requests per second", "steady", 60, 10),
        ("a burst of 200 per second", "burst", 30, 15),
    )
    for title, scenario, rps, seconds in loads:
        for name, without in _PIECES.items():
            other = replace(ADAPTIVE, name="without", **without)
            short = _shortened(
                compare((other, ADAPTIVE), scenario, rps, seconds, _SIX, CALIBRATED_COST)
            )
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


def real_workers(repeats: int = 5) -> Record:
    """Two engine processes: TTFT of a prompt of 500 tokens by the length of the hit.

    Raises: OSError or WorkersFailed where processes are not to be had.
    """
    config = EngineConfig(
        token_budget=512, max_batch_size=8, max_kv_tokens=8192, block_size=16, share_prefixes=True
    )
    by_hit: dict[int, list[Any]] = {}
    with Fleet(load_model(), 2, config, route=decisions.route) as fleet:
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
    return {
        "by_hit": [
            {
                "hit": results[0].hit_tokens,
                "computed": results[0].computed_prefill_tokens,
                "ttft_ms": median(each.ttft_us for each in results) / 1000,
            }
            for results in by_hit.values()
        ],
    }


def _tokens(name: str, length: int) -> list[int]:
    """Tokens that depend on their name alone."""
    draw = random.Random(name)
    return [draw.randrange(65) for _ in range(length)]

"""What a prefix hit saves, and what routing by hits saves, with real engine workers.

    python -m benchmarks.routing [--workers N] [--repeats N] [--json] [--plot FILE]

First, one worker and one long prompt, of which more and more is in its blocks: TTFT by hit length.
Then requests that share a few long prefixes arrive while others run, under round robin and under
the fleet's route in turns, repeat by repeat, each time with empty blocks.
The shipped model, in float32; times are the parent's, from arrival to the reading of a token.
"""

import json
import random
import statistics
from collections.abc import Mapping, Sequence

import torch

from benchmarks.measure import describe, machine
from nanogpt.checkpoints.weights import load_model
from nanogpt.config import EngineConfig
from nanogpt.experiments.command_line import Parser, Whole
from nanogpt.figures import Chart, Line, Panel
from nanogpt.figures.plot_option import PLOT_HELP, PlotFile, write_plot
from nanogpt.fleet import decisions
from nanogpt.request import Request
from nanogpt.workers.router_state import Result
from nanogpt.workers.routing import RoundRobin
from nanogpt.workers.worker_fleet import Fleet

CONFIG = EngineConfig(
    token_budget=512, max_batch_size=8, max_kv_tokens=8192, block_size=16, share_prefixes=True
)
PROMPT = 500
HITS = (0, 128, 256, 384, 448, 496)
NUM_PREFIXES, PREFIX, OWN = 6, 360, 40
NUM_REQUESTS, NEW_TOKENS = 36, 8
MEAN_GAPS_S = (0.04, 0.02)
"""Two loads: workers that are often idle, and workers that can hardly keep up."""
VOCABULARY = 65


def some_tokens(name: str, length: int) -> list[int]:
    """Tokens that depend on their name alone."""
    draw = random.Random(name)
    return [draw.randrange(VOCABULARY) for _ in range(length)]


def by_hit_length(fleet: Fleet, repeats: int) -> list[dict[str, float]]:
    """A row per hit length: median TTFT, its spread, and its share of that without a hit."""
    runs: dict[int, list[Result]] = {hit: [] for hit in HITS}
    for repeat in range(repeats + 1):
        for hit in HITS:
            fleet.forget()
            prompt = some_tokens(f"prompt {repeat} {hit}", PROMPT)
            other = some_tokens(f"other {repeat} {hit}", PROMPT)
            # Both after a request of the same size, so that every worker is equally awake.
            before = [*prompt[:hit], (prompt[hit] + 1) % VOCABULARY, *other[hit + 1 :]]
            fleet.serve([Request(0, before, 1)])
            result = fleet.serve([Request(1, prompt, 1)])[0]
            assert result.hit_tokens == hit, (result.hit_tokens, hit)
            if repeat:  # the first round warms all of them up
                runs[hit].append(result)
    without = statistics.median(run.ttft_us for run in runs[0])
    rows: list[dict[str, float]] = []
    for hit, results in runs.items():
        ttft = [run.ttft_us for run in results]
        rows.append(
            {
                "hit_tokens": hit,
                "computed_tokens": results[0].computed_prefill_tokens,
                "ttft_ms": statistics.median(ttft) / 1000,
                "quickest_ms": min(ttft) / 1000,
                "slowest_ms": max(ttft) / 1000,
                "share_of_cold": statistics.median(ttft) / without,
            }
        )
    return rows


def shared_prefixes(repeat: int, mean_gap_s: float) -> list[tuple[float, Request]]:
    """Requests in random order of prefixes that many of them begin with, at random times."""
    draw = random.Random(f"load {repeat}")
    prefixes = [some_tokens(f"prefix {repeat} {i}", PREFIX) for i in range(NUM_PREFIXES)]
    arrivals: list[tuple[float, Request]] = []
    at_s = 0.0
    for i in range(NUM_REQUESTS):
        at_s += draw.expovariate(1 / mean_gap_s)
        prompt = draw.choice(prefixes) + some_tokens(f"own {repeat} {i}", OWN)
        arrivals.append((at_s, Request(i, prompt, NEW_TOKENS)))
    return arrivals


def by_route(fleet: Fleet, repeats: int) -> list[dict[str, object]]:
    """A row per load and route: what a run computed and how long its requests waited, by repeat."""
    routes = {"round robin": RoundRobin, "backlog": lambda: decisions.route}
    runs: dict[tuple[float, str], list[list[Result]]] = {
        (gap_s, name): [] for gap_s in MEAN_GAPS_S for name in routes
    }
    for repeat in range(repeats + 1):
        for (gap_s, name), several in runs.items():
            fleet.forget()
            fleet.route = routes[name]()
            results = fleet.run(shared_prefixes(repeat, gap_s))
            if repeat:
                several.append(results)
    return [
        {
            "mean_gap_ms": round(gap_s * 1000),
            "route": name,
            "computed_tokens": [sum(r.computed_prefill_tokens for r in run) for run in several],
            "hit_tokens": [sum(r.hit_tokens for r in run) for run in several],
            "mean_ttft_ms": [statistics.mean(r.ttft_us for r in run) / 1000 for run in several],
        }
        for (gap_s, name), several in runs.items()
    ]


def show(hits: Sequence[Mapping[str, float]], routes: Sequence[Mapping[str, object]]) -> None:
    """Both tables, as text."""
    print(f"one worker, a prompt of {PROMPT} tokens\n")
    print(f"{'hit':>5} {'computed':>9} {'TTFT ms':>9} {'(spread)':>15} {'of cold':>8}")
    for row in hits:
        spread = f"({row['quickest_ms']:.1f} to {row['slowest_ms']:.1f})"
        print(f"{row['hit_tokens']:5} {row['computed_tokens']:9} {row['ttft_ms']:9.2f} "
              f"{spread:>15} {row['share_of_cold']:8.2f}")  # fmt: skip
    total = NUM_REQUESTS * (PREFIX + OWN)
    print(f"\n{NUM_REQUESTS} requests with {NUM_PREFIXES} shared prefixes of {PREFIX} tokens, "
          f"{total} prompt tokens in all\n")  # fmt: skip
    print(f"{'every':>6} {'route':12} {'computed':>9} {'hit':>7} {'mean TTFT ms':>13} "
          f"{'(spread)':>17}")  # fmt: skip
    for row in routes:
        computed, hit, ttft = (
            list[float](row[name])  # type: ignore[arg-type]
            for name in ("computed_tokens", "hit_tokens", "mean_ttft_ms")
        )
        spread = f"({min(ttft):.1f} to {max(ttft):.1f})"
        print(f"{row['mean_gap_ms']:3} ms {row['route']:12} {statistics.median(computed):9.0f} "
              f"{statistics.median(hit):7.0f} {statistics.median(ttft):13.1f} "
              f"{spread:>17}")  # fmt: skip


def chart(hits: Sequence[Mapping[str, float]], where: str) -> Chart:
    """The first token's time by how much of the prompt was a hit."""
    points = tuple((row["hit_tokens"], row["ttft_ms"]) for row in hits)
    panel = Panel(("prefix hit", "tokens"), ("TTFT", "ms"), (Line("one worker", points),))
    return Chart(f"TTFT of a prompt of {PROMPT} tokens", (panel,), where)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = Parser("python -m benchmarks.routing", str(__doc__))
    parser.option("--workers", Whole(1, 16), 2, "worker processes")
    parser.option("--repeats", Whole(1, 1000), 5, "times that everything is run")
    parser.switch("--json", "print the figures as JSON")
    parser.option("--plot", PlotFile(), None, PLOT_HELP)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    facts = machine()
    model = load_model()
    with Fleet(model, 1, CONFIG) as fleet:
        hits = by_hit_length(fleet, options.repeats)
    with Fleet(model, options.workers, CONFIG) as fleet:
        routes = by_route(fleet, options.repeats)
    write_plot(options.plot, lambda: chart(hits, str(facts["cpu"])))
    if options.json:
        print(json.dumps({"machine": facts, "hits": hits, "routes": routes}))
        return
    print(describe(facts))
    print(f"{options.workers} workers for the second table; median of {options.repeats} "
          "interleaved repeats\n")  # fmt: skip
    show(hits, routes)


if __name__ == "__main__":
    main()

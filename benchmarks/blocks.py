"""What blocks save and cost: K/V memory that holds tokens, hits, TTFT, and time per step.

    python -m benchmarks.blocks [--quick] [--clock cpu|wall] [--json] [--plot FILE]

Memory and hits are counted, by the engine's traces, and are the same on every machine. Times are of
engines that take turns, repeat by repeat, on one thread: the median of the ratios within a repeat,
with the smallest and the largest. The shipped model, in float32.
"""

import functools
import heapq
import json
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import torch

from benchmarks.contenders import run_engine
from benchmarks.loads import Load, decode, mixed, of_length
from benchmarks.measure import Timings, describe, interleave, machine
from nanogpt.blocks import BlockKVCache
from nanogpt.blocks.block_pool import BlockPool
from nanogpt.checkpoints.weights import load_model
from nanogpt.clock import WallClock
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.experiments.command_line import Parser
from nanogpt.experiments.kv_room import tokens_held, tokens_taken
from nanogpt.figures import Chart, Line, Mark, Panel, cumulative
from nanogpt.figures.plot_option import PLOT_HELP, PlotFile, write_plot
from nanogpt.model import GPT
from nanogpt.request import Request
from nanogpt.trace import Trace

SIZES = (1, 8, 16, 64)
SYSTEM, NUM_SHARING = 300, 16
PROMPT, HITS = 500, (0, 125, 250, 375, 450, 499)
VOCABULARY = 65
SCATTERED = "blocks of 16, scattered"


class Scattered(BlockPool):
    """Takes empty blocks anywhere, as a pool does that has been in use for long."""

    def best_first(self, table: Sequence[int], n: int) -> list[int]:
        """Empty blocks in an order that has nothing to do with where they lie."""
        return heapq.nsmallest(n, self._empty, key=lambda block: (block * 7919 + 13) % 1009)


@dataclass(frozen=True, slots=True)
class Memory:
    """Of the K/V memory taken in a run, step by step, how much held tokens; what prompts found.

    `block_size` None: slots. `held` and `taken` are KV tokens summed over the steps.
    """

    block_size: int | None
    held: int
    taken: int
    prompt_tokens: int
    hit_tokens: int

    @property
    def share_held(self) -> float:
        """The part of what was taken that held tokens."""
        return self.held / self.taken

    @property
    def hit_rate(self) -> float:
        """The part of all prompt tokens that was found."""
        return self.hit_tokens / self.prompt_tokens


@dataclass(frozen=True, slots=True)
class Timed:
    """One engine beside slots: `ratios` are its seconds over theirs, repeat by repeat."""

    load: str
    engine: str
    slots_ms: float
    ratios: tuple[float, ...]


def some_tokens(name: str, length: int) -> list[int]:
    """Tokens that depend on their name alone."""
    draw = random.Random(name)
    return [draw.randrange(VOCABULARY) for _ in range(length)]


def conversations(number: int) -> list[tuple[int, Request]]:
    """Requests that begin with one of three texts of 100 tokens and go on by themselves.

    Prompts of 108 to 200 tokens and 8 to 120 new ones: 217 KV tokens on average at the end.
    """
    draw = random.Random("conversations")
    systems = [some_tokens(f"system {i}", 100) for i in range(3)]
    arrivals: list[tuple[int, Request]] = []
    for i in range(number):
        own = some_tokens(f"own {i}", draw.randrange(8, 101))
        prompt = draw.choice(systems) + own
        arrivals.append((i * 8, Request(i, prompt, draw.randrange(8, 121))))
    return arrivals


def memory(model: GPT, block_size: int | None, number: int) -> Memory:
    """Serve the conversations, and count."""
    config = EngineConfig(
        token_budget=256, block_size=block_size, share_prefixes=block_size is not None
    )
    engine = Engine(model, config)
    trace = engine.run(conversations(number))
    size = block_size or model.config.context_len
    return Memory(
        block_size,
        sum(tokens_held(step, size) for step in trace.steps),
        sum(tokens_taken(step, size) for step in trace.steps),
        sum(len(request.prompt_tokens) for request in trace.requests),
        _hit_tokens(trace),
    )


def _hit_tokens(trace: Trace) -> int:
    return sum(hit.num_tokens for step in trace.steps for hit in step.prefix_hits)


def engines_for(model: GPT, load: Load) -> dict[str, Engine]:
    """Slots, and blocks of each size, without sharing: nothing is found, all is paid for."""

    def engine(block_size: int | None) -> Engine:
        config = EngineConfig(
            token_budget=load.token_budget,
            max_batch_size=load.num_requests,
            block_size=block_size,
        )
        return Engine(model, config, clock=WallClock())

    engines = {"slots": engine(None)}
    engines |= {f"blocks of {size}": engine(size) for size in SIZES}
    engines[SCATTERED] = engine(16)
    cache = engines[SCATTERED].cache
    assert isinstance(cache, BlockKVCache)
    cache.pool = Scattered(len(cache.pool.counts), load.num_requests, cache.parts)
    return engines


def cost(model: GPT, load: Load, repeats: int, clock: str) -> list[Timed]:
    """What tables cost per step when nothing is shared."""
    engines = engines_for(model, load)
    timings = interleave(
        {name: functools.partial(run_engine, each, load) for name, each in engines.items()}, repeats
    )
    slots = timings["slots"].seconds(clock)
    return [
        Timed(
            load.name,
            name,
            timings["slots"].median_s(clock) * 1000,
            tuple(a / b for a, b in zip(timings[name].seconds(clock), slots, strict=True)),
        )
        for name in engines
        if name != "slots"
    ]


def by_hit(model: GPT, repeats: int, clock: str) -> list[dict[str, float]]:
    """A row per length that a prompt has in common with one before: its time to the first token."""
    config = EngineConfig(token_budget=512, block_size=16, share_prefixes=True)
    rows: list[dict[str, float]] = []
    seconds: dict[int, list[float]] = {same: [] for same in HITS}
    hits: dict[int, int] = {}
    for repeat in range(repeats + 1):
        for same in HITS:
            engine = Engine(model, config, clock=WallClock())
            prompt = some_tokens(f"prompt {repeat} {same}", PROMPT)
            other = some_tokens(f"other {repeat} {same}", PROMPT)
            before = [*prompt[:same], (prompt[same] + 1) % VOCABULARY, *other[same + 1 :]]
            engine.run([(0, Request(0, before, 1))])
            serve = functools.partial(engine.run, [(engine.step_number, Request(1, prompt, 1))])
            timing = _once(serve)
            hits[same] = _hit_tokens(engine.trace())
            if repeat:  # the first round warms caches up
                seconds[same].append(timing.seconds(clock)[0])
    cold = statistics.median(seconds[0])
    for same, all_ in seconds.items():
        row = {"same": same, "hit": hits[same], "computed": PROMPT - hits[same]}
        times = {"ttft_ms": statistics.median(all_), "least_ms": min(all_), "most_ms": max(all_)}
        rows.append(row | {name: value * 1000 for name, value in times.items()})
        rows[-1]["share_of_cold"] = statistics.median(all_) / cold
    return rows


def _once(function: functools.partial[Trace]) -> Timings:
    """One call, timed, without a round before it."""
    cpu_start, wall_start = time.process_time(), time.perf_counter()
    function()
    return Timings((time.perf_counter() - wall_start,), (time.process_time() - cpu_start,))


def shared_system(model: GPT, repeats: int, clock: str) -> dict[str, dict[str, float]]:
    """16 requests behind one system prompt, one after another: slots, and blocks that share."""
    system = some_tokens("system", SYSTEM)
    found: dict[str, dict[str, float]] = {}
    seconds: dict[str, list[float]] = {"slots": [], "blocks of 16": []}
    for repeat in range(repeats + 1):
        for name, all_ in seconds.items():
            paged = name != "slots"
            config = EngineConfig(
                token_budget=512, max_batch_size=NUM_SHARING,
                block_size=16 if paged else None, share_prefixes=paged,
            )  # fmt: skip
            engine = Engine(model, config, clock=WallClock())
            arrivals = [
                (i, Request(i, system + some_tokens(f"own {repeat} {i}", 20), 32))
                for i in range(NUM_SHARING)
            ]
            timing = _once(functools.partial(engine.run, arrivals))
            trace = engine.trace()
            if repeat:
                all_.append(timing.seconds(clock)[0])
            size = 16 if paged else model.config.context_len
            found[name] = {
                "computed": sum(f.prefill_tokens for step in trace.steps for f in step.forwards),
                "most_taken": max(tokens_taken(step, size) for step in trace.steps),
            }
    for name, all_ in seconds.items():
        found[name]["ms"] = statistics.median(all_) * 1000
        ratios = [a / b for a, b in zip(all_, seconds["slots"], strict=True)]
        found[name] |= {"of_slots": statistics.median(ratios), "least": min(ratios)}
        found[name]["most"] = max(ratios)
    return found


def chart(
    memories: Sequence[Memory], hits: Sequence[Mapping[str, float]], costs: Sequence[Timed],
    where: str,
) -> Chart:  # fmt: skip
    """Memory and hits by block size, TTFT by hit, and the tables' cost in every repeat."""
    paged = [each for each in memories if each.block_size is not None]
    slots = next(each for each in memories if each.block_size is None)
    shares = {
        "taken K/V that holds tokens": [each.share_held for each in paged],
        "prompt tokens found": [each.hit_rate for each in paged],
    }
    sizes = [float(each.block_size or 0) for each in paged]
    lines = tuple(
        Line(name, tuple((size, 100 * share) for size, share in zip(sizes, of, strict=True)))
        for name, of in shares.items()
    )
    mark = Mark("y", 100 * slots.share_held, "taken, in slots")
    ttft = Line("blocks of 16", tuple((row["hit"], row["ttft_ms"]) for row in hits))
    loads = dict.fromkeys(each.load for each in costs)
    panels = [
        Panel(("block size", "tokens"), ("share", "%"), lines, (mark,), log_x=True),
        Panel(("prefix hit", "tokens"), ("TTFT", "ms"), (ttft,)),
        *(
            Panel(
                (f"time, {load}", "times that of slots"),
                ("repeats with at most that", "%"),
                tuple(cumulative(each.engine, each.ratios) for each in costs if each.load == load),
                (Mark("x", 1, "slots"),),
            )
            for load in loads
        ),
    ]
    return Chart("K/V in blocks", tuple(panels), where)


def show(
    memories: Sequence[Memory], hits: Sequence[Mapping[str, float]],
    system: Mapping[str, Mapping[str, float]], costs: Sequence[Timed],
) -> None:  # fmt: skip
    """All four tables, as text."""
    print(f"{'K/V in':14} {'holds tokens':>12} {'prompt tokens found':>20}")
    for each in memories:
        name = "slots" if each.block_size is None else f"blocks of {each.block_size}"
        print(f"{name:14} {100 * each.share_held:11.1f}% {100 * each.hit_rate:19.1f}%")
    print(f"\na prompt of {PROMPT} tokens, blocks of 16\n")
    print(f"{'same':>5} {'hit':>5} {'computed':>9} {'TTFT ms':>9} {'(spread)':>15} {'of cold':>8}")
    for row in hits:
        spread = f"({row['least_ms']:.1f} to {row['most_ms']:.1f})"
        print(f"{row['same']:5} {row['hit']:5} {row['computed']:9} {row['ttft_ms']:9.2f} "
              f"{spread:>15} {row['share_of_cold']:8.2f}")  # fmt: skip
    print(f"\n{NUM_SHARING} requests behind a system prompt of {SYSTEM} tokens\n")
    for name, row in system.items():
        print(f"{name:14} {row['computed']:6.0f} prompt tokens computed, {row['most_taken']:6.0f} "
              f"KV tokens taken at most, {row['ms']:7.1f} ms, {row['of_slots']:.2f} "
              f"({row['least']:.2f} to {row['most']:.2f}) of slots' time")  # fmt: skip
    print("\ntime over that of slots, nothing shared\n")
    for each in costs:
        print(f"{each.load:10} {each.engine:24} {statistics.median(each.ratios):.2f} "
              f"({min(each.ratios):.2f} to {max(each.ratios):.2f})  "
              f"slots {each.slots_ms:.0f} ms")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = Parser("python -m benchmarks.blocks", str(__doc__))
    parser.switch("--quick", "fewer requests and repeats, no long texts")
    parser.choice("--clock", ("cpu", "wall"), "cpu", "whose seconds count")
    parser.switch("--json", "print the figures as JSON")
    parser.option("--plot", PlotFile(), None, PLOT_HELP)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    facts, model, repeats = machine(), load_model(), 2 if options.quick else 21
    loads = [decode(8, 16)] if options.quick else [decode(8), mixed(8), of_length(300, 4, 100)]
    number = 8 if options.quick else 60
    memories = [memory(model, size, number) for size in (None, *SIZES)]
    hits = by_hit(model, repeats, options.clock)
    system = shared_system(model, repeats, options.clock)
    costs = [row for load in loads for row in cost(model, load, repeats, options.clock)]
    write_plot(options.plot, lambda: chart(memories, hits, costs, str(facts["cpu"])))
    if options.json:
        counted = [asdict(each) for each in memories]
        timed = [asdict(each) for each in costs]
        print(json.dumps({"machine": facts, "memory": counted, "hits": hits, "system": system,
                          "cost": timed}))  # fmt: skip
        return
    print(describe(facts))
    print(f"median of {repeats} repeats (smallest to largest), seconds of {options.clock}\n")
    show(memories, hits, system, costs)


if __name__ == "__main__":
    main()

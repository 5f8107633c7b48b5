"""The savings and costs of blocks: K/V memory that holds tokens, hits, TTFT, and time per step.

    python -m benchmarks.blocks [--quick] [--clock cpu|wall]

Memory and hits are counted, by the engine's traces, and are the same on every machine. Times are of
engines that take turns, repeat by repeat, on one thread: the median of the ratios within a repeat,
with the smallest and the largest. The shipped model, in float32.
"""

import functools
import heapq
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.contenders import make_engine, run_engine
from benchmarks.loads import Load, decode, mixed, of_length
from benchmarks.measure import Table, begin, interleave, median_and_range, ratios
from nanogpt.block_pool import BlockPool
from nanogpt.checkpoints.weights import load_model
from nanogpt.clock import WallClock
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.experiments.trace_metrics import tokens_held, tokens_taken
from nanogpt.kv_cache import KVCache
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
    ratios: list[float]


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
    size = block_size or model.config.max_model_len
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

    engines = {kv_in(size): make_engine(model, load, block_size=size) for size in (None, *SIZES)}
    engines[SCATTERED] = make_engine(model, load, block_size=16)
    cache = engines[SCATTERED].cache
    assert isinstance(cache, KVCache)
    cache.pool = Scattered(len(cache.pool.ref_counts), load.num_requests, cache.policies)
    return engines


def cost(model: GPT, load: Load, repeats: int, clock: str) -> list[Timed]:
    """The cost of tables per step when nothing is shared."""
    engines = engines_for(model, load)
    timings = interleave(
        {name: functools.partial(run_engine, each, load) for name, each in engines.items()}, repeats
    )
    slots = timings.pop("slots")
    slots_ms = slots.median_s(clock) * 1000
    return [
        Timed(load.name, name, slots_ms, timing.over(slots, clock))
        for name, timing in timings.items()
    ]


def by_hit(model: GPT, repeats: int, clock: str) -> dict[int, tuple[int, tuple[float, ...]]]:
    """By tokens in common with a prompt before: how many were found, and TTFT in ms by repeat."""
    config = EngineConfig(token_budget=512, block_size=16, share_prefixes=True)
    found: dict[int, int] = {}
    prepared: dict[int, list[tuple[Engine, Request]]] = {}
    for same in HITS:
        for repeat in range(repeats + 1):
            engine = Engine(model, config, clock=WallClock())
            prompt = some_tokens(f"prompt {repeat} {same}", PROMPT)
            other = some_tokens(f"other {repeat} {same}", PROMPT)
            before = [*prompt[:same], (prompt[same] + 1) % VOCABULARY, *other[same + 1 :]]
            engine.run([(0, Request(0, before, 1))])
            prepared.setdefault(same, []).append((engine, Request(1, prompt, 1)))

    def serve(same: int) -> None:
        engine, request = prepared[same].pop()
        found[same] = _hit_tokens(engine.run([(engine.step_number, request)]))

    timings = interleave({str(same): functools.partial(serve, same) for same in HITS}, repeats)
    return {
        same: (found[same], tuple(1000 * s for s in timings[str(same)].seconds(clock)))
        for same in HITS
    }


def shared_system(model: GPT, repeats: int, clock: str) -> dict[str, tuple[int, int, list[float]]]:
    """16 requests behind one system prompt: prompt tokens computed, most KV tokens taken, ms."""
    system = some_tokens("system", SYSTEM)
    counts: dict[str, tuple[int, int]] = {}

    def serve(block_size: int | None) -> None:
        config = EngineConfig(
            token_budget=512,
            max_batch_size=NUM_SHARING,
            block_size=block_size,
            share_prefixes=block_size is not None,
        )
        arrivals = [
            (i, Request(i, system + some_tokens(f"own {i}", 20), 32)) for i in range(NUM_SHARING)
        ]
        trace = Engine(model, config, clock=WallClock()).run(arrivals)
        size = block_size or model.config.max_model_len
        counts[kv_in(block_size)] = (
            sum(forward.prefill_tokens for step in trace.steps for forward in step.forwards),
            max(tokens_taken(step, size) for step in trace.steps),
        )

    turns = {kv_in(size): functools.partial(serve, size) for size in (None, 16)}
    timings = interleave(turns, repeats)
    return {
        name: (*counts[name], [1000 * s for s in timings[name].seconds(clock)]) for name in turns
    }


def kv_in(block_size: int | None) -> str:
    """The K/V's storage, such as "blocks of 16"."""
    return "slots" if block_size is None else f"blocks of {block_size}"


def show(
    memories: Sequence[Memory],
    hits: Mapping[int, tuple[int, Sequence[float]]],
    system: Mapping[str, tuple[int, int, Sequence[float]]],
    costs: Sequence[Timed],
) -> None:
    """All four tables, as text."""
    table = Table("K/V in:<14", "holds tokens:>12.1%", "prompt tokens found:>20.1%")
    for each in memories:
        table.add(kv_in(each.block_size), each.share_held, each.hit_rate)
    print(f"\na prompt of {PROMPT} tokens, blocks of 16\n")
    table = Table("same:>5", "hit:>5", "computed:>9", "TTFT ms:>24", "of cold:>8.2f")
    cold = statistics.median(hits[0][1])
    for same, (hit, ms) in hits.items():
        share = statistics.median(ms) / cold
        table.add(same, hit, PROMPT - hit, median_and_range(ms, 1), share)
    print(f"\n{NUM_SHARING} requests behind a system prompt of {SYSTEM} tokens\n")
    slots_ms = system["slots"][2]
    for name, (computed, most, ms) in system.items():
        of_slots = median_and_range(ratios(ms, slots_ms))
        print(f"{name:14} {computed:6} prompt tokens computed, {most:6} KV tokens taken at most")
        print(f"{'':14} {statistics.median(ms):7.1f} ms, {of_slots} of slots' time")
    print("\ntime over that of slots, nothing shared\n")
    for each in costs:
        print(f"{each.load:10} {each.engine:24} {median_and_range(each.ratios)}  "
              f"slots {each.slots_ms:.0f} ms")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    options = begin(__doc__, arguments, quick=False, clock="cpu")
    model, repeats = load_model(), 2 if options.quick else 21
    loads = [decode(8, 16)] if options.quick else [decode(8), mixed(8), of_length(300, 4, 100)]
    number = 8 if options.quick else 60
    memories = [memory(model, size, number) for size in (None, *SIZES)]
    hits = by_hit(model, repeats, options.clock)
    system = shared_system(model, repeats, options.clock)
    costs = [row for load in loads for row in cost(model, load, repeats, options.clock)]
    print(f"median of {repeats} repeats (smallest to largest), seconds of {options.clock}\n")
    show(memories, hits, system, costs)


if __name__ == "__main__":
    main()

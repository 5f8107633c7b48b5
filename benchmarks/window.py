"""The costs and savings of a sliding window: tokens per second and K/V held, beside the full cache.

    python -m benchmarks.window [--quick] [--clock wall|cpu]

The full cache and the two storages of a window take turns, repeat by repeat, on one thread. Printed
is the median of the ratios within a repeat, with the smallest and the largest.
"""

import functools
import itertools
from collections.abc import Sequence

from benchmarks.contenders import make_engine, run_engine
from benchmarks.loads import Load, decode, of_length
from benchmarks.measure import Table, begin, interleave, median_and_range
from nanogpt.checkpoints.weights import load_model
from nanogpt.engine import Engine
from nanogpt.model import GPT

STORAGES = ("full", "ring", "evict")
EXECUTORS = ("packed", "padded")


def cases(quick: bool) -> list[tuple[Load, int]]:
    """Loads and windows: the sliding-window post's first and last, and texts beyond the window."""
    posts = [(decode(3, 30), 20), (decode(8, 20), 16)]
    return posts if quick else [*posts, (of_length(300, 4, 150), 32)]


def engine_for(model: GPT, load: Load, window: int, executor: str, storage: str) -> Engine:
    """An engine for all of the load at once; "full" has no window."""
    if storage == "full":
        return make_engine(model, load, executor=executor)
    return make_engine(model, load, executor=executor, sliding_window=window, kv_storage=storage)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    options = begin(__doc__, arguments, quick=False, clock="wall")
    model, clock, repeats = load_model(), options.clock, 3 if options.quick else 9
    print(f"tokens/s over the full cache's, median of {repeats} repeats (smallest to largest)\n")
    table = Table("load:<12", "window:>6", "executor:<8", "full, tokens/s:>14.0f", "ring:>19",
                  "evict:>19", "KV tokens held:>15")  # fmt: skip
    for (load, window), executor in itertools.product(cases(options.quick), EXECUTORS):
        engines = {each: engine_for(model, load, window, executor, each) for each in STORAGES}
        turns = {each: functools.partial(run_engine, engines[each], load) for each in STORAGES}
        timings = interleave(turns, repeats)
        full = timings["full"]
        ring, evict = (
            median_and_range(full.over(timings[each], clock)) for each in ("ring", "evict")
        )
        held = {each: max(s.kv_after for s in engines[each].trace().steps) for each in STORAGES}
        assert held["ring"] == held["evict"], held
        per_s, kv = load.num_generated / full.median_s(clock), f"{held['full']} -> {held['ring']}"
        table.add(load.name, window, executor, per_s, ring, evict, kv)


if __name__ == "__main__":
    main()

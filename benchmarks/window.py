"""The costs and savings of a sliding window: tokens per second and K/V held, beside the full cache.

    python -m benchmarks.window [--quick] [--clock wall|cpu]

The full cache and the two storages of a window take turns, repeat by repeat, on one thread. Printed
is the median of the ratios within a repeat, with the smallest and the largest.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from benchmarks.contenders import make_engine, run_engine
from benchmarks.loads import Load, decode, of_length
from benchmarks.measure import command_line, describe, interleave, machine, median_and_range
from nanogpt.checkpoints.weights import load_model
from nanogpt.engine import Engine
from nanogpt.model import GPT

STORAGES = ("full", "ring", "evict")
EXECUTORS = ("packed", "padded")


@dataclass(frozen=True, slots=True)
class Row:
    """One load on one executor: the window's speed by storage, and the most KV tokens held.

    `ratios` are tokens per second over those of the full cache, repeat by repeat.
    """

    load: str
    window: int
    executor: str
    full_per_s: float
    ratios: dict[str, list[float]]
    kv_full: int
    kv_window: int


def cases(quick: bool) -> list[tuple[Load, int]]:
    """Loads and windows: the sliding-window post's first and last, and texts beyond the window."""
    posts = [(decode(3, 30), 20), (decode(8, 20), 16)]
    return posts if quick else [*posts, (of_length(300, 4, 150), 32)]


def engine_for(model: GPT, load: Load, window: int, executor: str, storage: str) -> Engine:
    """An engine for all of the load at once; "full" has no window."""
    if storage == "full":
        return make_engine(model, load, executor=executor)
    return make_engine(model, load, executor=executor, sliding_window=window, kv_storage=storage)


def compare(model: GPT, load: Load, window: int, executor: str, repeats: int, clock: str) -> Row:
    """Let the full cache and the window's storages take turns."""
    engines = {each: engine_for(model, load, window, executor, each) for each in STORAGES}
    timings = interleave(
        {each: functools.partial(run_engine, engines[each], load) for each in STORAGES}, repeats
    )
    seconds = {each: timings[each].seconds(clock) for each in STORAGES}
    held = {each: max(step.kv_after for step in engines[each].trace().steps) for each in STORAGES}
    assert held["ring"] == held["evict"], held
    return Row(
        load.name,
        window,
        executor,
        load.num_generated / timings["full"].median_s(clock),
        {
            each: [full / own for full, own in zip(seconds["full"], seconds[each], strict=True)]
            for each in STORAGES[1:]
        },
        held["full"],
        held["ring"],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = command_line(__doc__, quick=False, clock="wall")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    facts, model, repeats = machine(), load_model(), 3 if options.quick else 9
    print(describe(facts))
    print(f"tokens/s over the full cache's, median of {repeats} repeats (smallest to largest)\n")
    print(f"{'load':12} {'window':>6} {'executor':8} {'full, tokens/s':>14}"
          f" {'ring':>19} {'evict':>19} {'KV tokens held':>15}")  # fmt: skip
    rows: list[Row] = []
    for load, window in cases(options.quick):
        for executor in EXECUTORS:
            row = compare(model, load, window, executor, repeats, options.clock)
            rows.append(row)
            shown = [median_and_range(ratios) for ratios in row.ratios.values()]
            print(f"{row.load:12} {row.window:6} {row.executor:8} {row.full_per_s:14.0f}"
                  f" {shown[0]:>19} {shown[1]:>19} {row.kv_full:7} -> {row.kv_window}")  # fmt: skip


if __name__ == "__main__":
    main()

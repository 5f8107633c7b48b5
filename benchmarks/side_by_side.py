"""The engine beside other people's engines: a process for each, which take turns at every load.

What `python -m benchmarks.engine` runs with `--peers` or `--against FOLDER`. A process of its own
keeps the threads of one contender from spinning into the time of the next.
"""

import gc
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.contenders import CONTENDERS, Serve, same_text
from benchmarks.loads import MODELS, Load, decode, mixed
from benchmarks.measure import median_and_range, ratios
from benchmarks.peers import PEERS
from nanogpt.model import GPT

OURS = ("packed", "compiled", "int8", "fused", "products")
THERE = " there"
ROWS = ("decode-1", "decode-8", "decode-32", "mixed-8", "mixed-32")


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of every repeat of one contender at one load, and the texts it generated."""

    model: str
    threads: int
    load: Load
    contender: str
    seconds: tuple[float, ...]
    same_text: float | None

    @property
    def tokens_per_s(self) -> float:
        """Generated tokens per second, of the median repeat."""
        return self.load.num_generated / statistics.median(self.seconds)

    @property
    def all_tokens_per_s(self) -> list[float]:
        """Generated tokens per second, repeat by repeat."""
        return [self.load.num_generated / each for each in self.seconds]


def contenders() -> list[str]:
    """The engine, what it is held to, and the peers that are installed."""
    found = importlib.util.find_spec
    return [*OURS, *(name for name, (module, _) in PEERS.items() if found(module) is not None)]


def loads(new_tokens: int = 64) -> list[Load]:
    """Decodes at 1, 8 and 32, and the mixed load at 8 and 32."""
    return [*(decode(n, new_tokens) for n in (1, 8, 32)), mixed(8), mixed(32)]


# ---- taking turns --------------------------------------------------------------------------------


class Process:
    """A contender in a process of its own, which serves one load at a time when it is asked to."""

    def __init__(
        self, contender: str, model: str, threads: int, new_tokens: int, folder: Path | None
    ) -> None:
        settings = contender, model, str(threads), str(new_tokens)
        command = [sys.executable, "-m", "benchmarks.side_by_side", *settings]
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def serve(self, number: int) -> tuple[float, list[list[int]] | None]:
        """Serve load `number`: wall seconds, and the texts."""
        assert self.process.stdin and self.process.stdout
        print(number, file=self.process.stdin, flush=True)
        seconds, tokens = json.loads(self.process.stdout.readline())
        return seconds, tokens

    def close(self) -> None:
        """The end of its input is its own."""
        self.process.communicate()


def take_turns(
    model: str, threads: int, repeats: int, new_tokens: int, folder: Path | None = None
) -> Iterator[list[Timed]]:
    """Every contender serves a load once, then again: a noisy minute hits all of them alike.

    Two rounds beforehand are not counted: in the first a contender looks for its best settings.
    `folder` is another checkout of the project, whose engines take part under names with THERE.
    """
    names = contenders()
    if folder:
        ours = ["packed", "compiled"]
        names = [*ours, *(name + THERE for name in ours), *({"ctranslate2"} & {*names})]
    with ExitStack() as stack:
        settings = model, threads, new_tokens
        processes = {
            name: Process(name.removesuffix(THERE), *settings, folder if THERE in name else None)
            for name in names
        }
        for process in processes.values():
            stack.callback(process.close)
        for number, load in enumerate(loads(new_tokens)):
            texts = {name: process.serve(number)[1] for name, process in processes.items()}
            seconds: dict[str, list[float]] = {name: [] for name in names}
            for repeat in range(repeats + 1):
                for name, process in processes.items():
                    taken, _ = process.serve(number)
                    if repeat:
                        seconds[name].append(taken)
            yield [
                Timed(model, threads, load, name, tuple(times), same_text(texts[name], own))
                for own in [texts["packed"]]
                for name, times in seconds.items()
            ]


def against(folder: Path, repeats: int) -> None:
    """How many times as fast as another checkout and CTranslate2: shipped model, one thread."""
    for rows in take_turns("shipped", 1, repeats, 64, folder):
        timed = {row.contender: row for row in rows}
        for other, row in timed.items():
            own = timed["packed" if other == "packed" + THERE else "compiled"]
            if other not in OURS:
                ratio = median_and_range(ratios(row.seconds, own.seconds))
                what = f"{row.load.name:10} {own.contender} / {other}"
                speed = f"{own.tokens_per_s:,.0f}/s, {row.same_text:.0%} same"
                print(f"{what:37} {ratio:22} {speed}", flush=True)


def serve_on_request(contender: str, model: str, threads: str, new_tokens: str) -> None:
    """A contender's process: the number of a load comes in, seconds and texts go out."""
    torch.set_num_threads(int(threads))
    all_loads = loads(int(new_tokens))
    prepare: dict[str, Callable[[GPT], Serve]] = {c.name: c.prepare for c in CONTENDERS}
    prepare |= {name: make for name, (_, make) in PEERS.items()}
    serve = prepare[contender](MODELS[model]())
    gc.freeze()  # as in `interleave`
    for line in sys.stdin:
        start = time.perf_counter()
        tokens = serve(all_loads[int(line)])
        print(json.dumps([time.perf_counter() - start, tokens]), flush=True)


# ---- what came out -------------------------------------------------------------------------------


def best(rows: Sequence[Timed]) -> Mapping[tuple[str, str, str], float]:
    """Tokens per second by (model, load, contender), at the better number of threads."""
    speeds: dict[tuple[str, str, str], float] = {}
    for row in rows:
        key = row.model, row.load.name, row.contender
        speeds[key] = max(speeds.get(key, 0.0), row.tokens_per_s)
    return speeds


def targets(rows: Sequence[Timed]) -> list[tuple[str, float, float]]:
    """(what is promised, the ratio it takes, the ratio measured); met when measured >= taken."""
    speeds = best(rows)
    peers = [name for name in PEERS if any(row.contender == name for row in rows)]

    def ratio(model: str, load: str, other: str) -> float:
        return speeds[model, load, "compiled"] / speeds[model, load, other]

    found = [
        (
            f"{model}, {load}: compiled / the best peer",
            2.0 if model == "character" and load.startswith("mixed") else 1.1,
            min(ratio(model, load, peer) for peer in peers),
        )
        for model in MODELS
        for load in ROWS
        if peers
    ]
    posts = ratio("character", "mixed-8", "fused")
    found.append(("character, mixed-8: compiled / fused, as the posts run it", 10.0, posts))
    for load in ("decode-1", "decode-32"):
        floor = ratio("character", load, "products")
        found.append((f"character, {load}: compiled / bare products", 1 / 1.4, floor))
    return found


def line(rows: Sequence[Timed]) -> str:
    """One load in the table: tokens per second, slowest to fastest, contender by contender."""
    one = rows[0]
    cells = [
        median_and_range(row.all_tokens_per_s, 0)
        + ("" if row.same_text in (None, 1.0) else f" {row.same_text:.0%} same")
        for row in rows
    ]
    start = f"{one.model:10} {one.threads:7} {one.load.name:10}"
    return start + "".join(f" {cell:>29}" for cell in cells)


def compare(repeats: int, new_tokens: int) -> list[Timed]:
    """Both sizes at one and at two threads, every load; each line is printed as it is known."""
    print(f"{'size':10} {'threads':>7} {'load':10}" + "".join(f" {c:>29}" for c in contenders()))
    found: list[Timed] = []
    for model in MODELS:
        for threads in (1, 2):
            for rows in take_turns(model, threads, repeats, new_tokens):
                print(line(rows), flush=True)
                found += rows
    return found


if __name__ == "__main__":
    serve_on_request(*sys.argv[1:])

"""The frame of all benchmarks: options, interleaved timings, peak memory, tables, the machine."""

import argparse
import gc
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from nanogpt.figures.drawing import PLOT_HELP, plot_file


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds of every repeat: on the wall, and of CPU time over all threads of the process."""

    wall_s: tuple[float, ...]
    cpu_s: tuple[float, ...]

    def seconds(self, clock: str) -> tuple[float, ...]:
        """The repeats by "wall" or by "cpu"."""
        return self.wall_s if clock == "wall" else self.cpu_s

    def median_s(self, clock: str) -> float:
        """The middle repeat."""
        return statistics.median(self.seconds(clock))

    def over(self, other: "Timings", clock: str) -> list[float]:
        """Its seconds over those of another, repeat by repeat."""
        return ratios(self.seconds(clock), other.seconds(clock))


def ratios(values: Sequence[float], others: Sequence[float]) -> list[float]:
    """One by one, the first over the second."""
    return [value / other for value, other in zip(values, others, strict=True)]


def interleave(functions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, Timings]:
    """Time everyone once, then everyone again: a noisy minute hits all of them alike.

    One round beforehand warms caches up and is not counted. Python's garbage collector does not
    walk through what was there before: with a library imported, that is 20 ms at a random moment.
    """
    gc.freeze()
    wall: dict[str, list[float]] = {name: [] for name in functions}
    cpu: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(repeats + 1):
        for name, function in functions.items():
            cpu_start, wall_start = time.process_time(), time.perf_counter()
            function()
            wall_s, cpu_s = time.perf_counter() - wall_start, time.process_time() - cpu_start
            if number:
                wall[name].append(wall_s)
                cpu[name].append(cpu_s)
    return {name: Timings(tuple(wall[name]), tuple(cpu[name])) for name in functions}


def in_a_process(function: Callable[..., Any], *given: object) -> Any:
    """The result of a module's function in a fresh process, where torch has one thread."""
    with ProcessPoolExecutor(1, get_context("spawn"), _one_thread) as fresh:
        return fresh.submit(function, *given).result()


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def peak_mib() -> float:
    """The most memory that this process has ever held, in MiB (resident set)."""
    status = Path("/proc/self/status")
    if status.is_file():  # Linux: its ru_maxrss starts at what the parent process held
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if platform.system() == "Darwin" else 1 << 10)


def machine() -> str:
    """The conditions that a figure is printed with, in one line; the load is that of a minute."""
    import torch  # seconds that a benchmark's --help need not take

    return (
        f"{cpu_name()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}; "
        f"Python {platform.python_version()}, torch {torch.__version__}, "
        f"{torch.get_num_threads()} thread(s); load average {os.getloadavg()[0]:.1f}"
    )


def cpu_name() -> str:
    """The processor's name, as the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown CPU"


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that count as fast as they can."""
    counting = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(counting) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


OPTIONS = {
    "--quick": {"action": "store_true", "help": "fewer and smaller runs"},
    "--clock": {"choices": ("wall", "cpu"), "help": "whose seconds count (default: %(default)s)"},
    "--threads": {"type": int, "help": "threads of torch (default: %(default)s)"},
    "--repeats": {"type": int, "help": "how often everything is run (default: %(default)s)"},
    "--busy": {"type": int, "help": "processes that count beside it (default: %(default)s)"},
    "--plot": {"type": plot_file, "metavar": "FILE", "help": PLOT_HELP},
}


def option(default: float | str, what: str) -> dict[str, Any]:
    """How a benchmark's own option is read, in the words of `add_argument`."""
    return {"type": type(default), "default": default, "help": f"{what} (default: %(default)s)"}


def begin(
    doc: str | None,
    arguments: Sequence[str] | None,
    own: Mapping[str, Mapping[str, Any]] = {},
    **defaults: object,
) -> argparse.Namespace:
    """Read a command line, give torch as many threads as it says or one, and print the machine.

    `own` are a benchmark's own options, and `defaults` those of the options above that it takes.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", default=default, **OPTIONS[f"--{name}"])  # pyright: ignore
    for name, words in own.items():
        parser.add_argument(name, **words)
    options = parser.parse_args(arguments)
    import torch  # as in `machine`

    torch.set_num_threads(getattr(options, "threads", 1))
    print(machine(), flush=True)
    return options


class Table:
    """Lines in columns, each told as its name and how a cell is formatted: "tokens/s:>9.0f".

    The name stands above it on the side that its cells are on, "<" or ">".
    """

    def __init__(self, *columns: str) -> None:
        split = [column.rpartition(":") for column in columns]
        self.formats = [form for _, _, form in split]
        self.widths = [re.sub(r"(\d+)\D.*", r"\1", form) for form in self.formats]
        print(self._line(self.widths, [name for name, _, _ in split]))

    def add(self, *cells: object) -> None:
        """Print a line. A cell that is None stays empty."""
        each = zip(self.formats, self.widths, cells, strict=True)
        formats = [width if cell is None else form for form, width, cell in each]
        print(self._line(formats, ["" if cell is None else cell for cell in cells]), flush=True)

    @staticmethod
    def _line(formats: Sequence[str], cells: Sequence[object]) -> str:
        return " ".join(map(format, cells, formats)).rstrip()


def median_and_range(values: Sequence[float], digits: int = 2) -> str:
    """Such as "1.05 (0.97 to 1.21)"."""
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{middle:,.{digits}f} ({least:,.{digits}f} to {most:,.{digits}f})"


def p95(values: Sequence[float]) -> float:
    """The value that 95 percent of the values do not exceed."""
    return sorted(values)[min(len(values) - 1, int(0.95 * len(values)))]


def print_targets(checks: Sequence[tuple[str, float, float]]) -> None:
    """A line for each (promise, ratio wanted, ratio measured)."""
    print("\ntargets")
    for what, wanted, measured in checks:
        verdict = "met" if measured >= wanted else "NOT met"
        print(f"  {what}: {measured:,.2f}, wanted at least {wanted:.2f}: {verdict}")

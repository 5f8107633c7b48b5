"""Interleaved timings, peak memory, the machine, and the options of all benchmarks."""

import argparse
import gc
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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


def peak_mib() -> float:
    """The most memory that this process has ever held, in MiB (resident set)."""
    status = Path("/proc/self/status")
    if status.is_file():  # Linux: its ru_maxrss starts at what the parent process held
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if platform.system() == "Darwin" else 1 << 10)


def machine() -> dict[str, object]:
    """The conditions that a figure is printed with; `load` is the OS's one-minute average."""
    import torch  # seconds that a benchmark's --help need not take

    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1),
    }


def describe(facts: Mapping[str, object]) -> str:
    """The machine in one line."""
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['system']}; "
        f"Python {facts['python']}, torch {facts['torch']}, {facts['threads']} thread(s); "
        f"load average {facts['load']}"
    )


def _cpu_name() -> str:
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


def command_line(doc: str | None, **defaults: object) -> argparse.ArgumentParser:
    """A parser with some of the options above, by their names and their defaults."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", default=default, **OPTIONS[f"--{name}"])  # pyright: ignore
    return parser


def median_and_range(values: Sequence[float], digits: int = 2) -> str:
    """Such as "1.05 (0.97 to 1.21)"."""
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{middle:.{digits}f} ({least:.{digits}f} to {most:.{digits}f})"


def print_targets(checks: Sequence[tuple[str, float, float]]) -> None:
    """A line for each (promise, ratio wanted, ratio measured)."""
    print("\ntargets")
    for what, wanted, measured in checks:
        verdict = "met" if measured >= wanted else "NOT met"
        print(f"  {what}: {measured:,.2f}, wanted at least {wanted:.2f}: {verdict}")

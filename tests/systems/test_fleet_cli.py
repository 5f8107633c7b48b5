"""The fleet's command line through real processes, its tables by hand, its comparisons."""

import dataclasses
import io
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, get_args

import pytest
from launching import children, running
from rich.console import Console
from support import ROOT

from benchmarks import fleet as benchmark
from nanogpt.experiments.dashboard import (
    LABELS,
    differences_table,
    live_table,
    make_console,
    remarks,
    totals_table,
)
from nanogpt.experiments.fleet_comparison import (
    MEASURES,
    Summary,
    compare,
    comparison,
    summarise,
    title,
)
from nanogpt.experiments.paced_fleets import NAP_S, SLICE_US, Stop, drive
from nanogpt.experiments.paired_statistics import paired
from nanogpt.fleet.costs import CALIBRATED_COST, COSTS, SOURCE_COST
from nanogpt.fleet.fleet_parts import FleetParts
from nanogpt.fleet.metrics import Metrics, Sample
from nanogpt.fleet.presets import ADAPTIVE, FIFO, PRESETS, SOURCE_FIFO
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.workload import SOURCE_RPS, Scenario, make_workload
from widgets.paired_seeds import PairedSeeds

COMMAND = [sys.executable, "-m", "nanogpt.fleet"]
QUICK = ["--duration", "3", "--rps", "20"]

# Runs the module as `python -m` does, once for each list of arguments, all in one process.
SEVERAL = """
import contextlib, io, json, runpy, sys
for arguments in json.load(sys.stdin):
    sys.argv = ["", *arguments]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_module("nanogpt.fleet", run_name="__main__")
        except SystemExit as end:
            status = end.code
    print(json.dumps([status, out.getvalue(), err.getvalue()]), flush=True)
"""


def several(calls: list[list[str]]) -> list[tuple[int, str, str]]:
    """(exit status, standard output, standard error) of each call."""
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL], input=json.dumps(calls), cwd=ROOT, text=True,
        capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


# ---------------------------------------------------------------- options, through the process


VARIANTS = {
    "base": [],
    "again": [],
    "workers": ["--workers", "1"],
    "rps": ["--rps", "40"],
    "scenario": ["--scenario", "burst"],
    "mixed": ["--scenario", "mixed_priority"],
    "duration": ["--duration", "4"],
    "kv_slots": ["--kv-slots", "600"],
    "batch_size": ["--batch-size", "1"],
    "seed": ["--seed", "7"],
    "source": ["--policy", "source"],
    "source beside": ["--policy", "source", "--compare-fifo"],
    "fifo": ["--policy", "fifo"],
    "static": ["--policy", "static"],
    "cost": ["--cost", "calibrated"],
    "compare": ["--compare-fifo"],
    "speed": ["--speed", "1000"],
    "repeats": ["--repeats", "3", "--jobs", "1"],
    "jobs": ["--repeats", "3", "--jobs", "2"],
}


@pytest.fixture(scope="module")
def records() -> dict[str, Any]:
    """The JSON of every variant."""
    answers = several([[*QUICK, "--json", *extra] for extra in VARIANTS.values()])
    assert [status for status, _, _ in answers] == [0] * len(VARIANTS)
    assert all(out.count("\n") == 1 for _, out, _ in answers)
    return {name: json.loads(out) for name, (_, out, _) in zip(VARIANTS, answers, strict=True)}


def totals(record: dict[str, Any]) -> dict[str, Any]:
    return record["runs"][0]["totals"]


def test_the_json_has_this_schema(records: dict[str, Any]):
    record = records["base"]
    assert set(record) == {"version", "modelled", "arguments", "stopped", "runs", "comparison"}
    assert (record["version"], record["modelled"], record["stopped"]) == (1, True, False)
    assert record["comparison"] is None
    assert record["arguments"] == {
        "workers": 4, "rps": 20.0, "scenario": "steady", "duration": 3.0, "kv_slots": 2048,
        "batch_size": 32, "seed": 42, "policy": "adaptive", "cost": "source",
        "compare_fifo": False, "repeats": 1, "jobs": record["arguments"]["jobs"], "speed": None,
    }  # fmt: skip
    assert set(record["runs"][0]) == {field.name for field in dataclasses.fields(Summary)}
    assert set(totals(record)) == {field.name for field in dataclasses.fields(Metrics)}


def test_the_figures_are_those_of_the_simulator(records: dict[str, Any]):
    run = summarise(simulate(ADAPTIVE, make_workload("steady", 20, 3, 42)))
    assert records["base"]["runs"] == [json.loads(json.dumps(run.to_json()))]


def test_the_same_arguments_give_the_same_bytes(records: dict[str, Any]):
    assert records["again"] == records["base"]


@pytest.mark.parametrize(
    "name",
    sorted(
        set(VARIANTS) - {"base", "again", "compare", "source beside", "repeats", "jobs", "speed"}
    ),
)
def test_an_option_changes_the_run(name: str, records: dict[str, Any]):
    assert records[name]["runs"] != records["base"]["runs"]
    assert len(records[name]["runs"]) == 1


def test_a_paced_run_comes_to_the_same_figures(records: dict[str, Any]):
    assert records["speed"]["runs"] == records["base"]["runs"]


def test_options_reach_what_they_name(records: dict[str, Any]):
    assert records["workers"]["runs"][0]["workers_busy_mean"] <= 1
    assert totals(records["rps"])["arrived"] == len(make_workload("steady", 40, 3, 42).requests)
    assert totals(records["duration"])["arrived"] == len(
        make_workload("steady", 20, 4, 42).requests
    )
    assert totals(records["seed"])["arrived"] == len(make_workload("steady", 20, 3, 7).requests)
    assert totals(records["base"])["refused"] == 0 < totals(records["kv_slots"])["refused"]
    alone = totals(records["batch_size"])  # a full worker does not speculate: every gap 150 us
    assert alone["itl_mean_ms"] == alone["itl_p99_ms"] == 0.15
    for name, policy in {"base": "adaptive", "source": "source", "fifo": "FIFO"}.items():
        assert records[name]["runs"][0]["policy"] == policy


def test_rps_is_the_rate_of_the_steady_load_and_the_others_have_the_sources(
    records: dict[str, Any], texts: dict[Any, tuple[int, str, str]]
):
    for name, scenario in (("scenario", "burst"), ("mixed", "mixed_priority")):
        load = make_workload(scenario, SOURCE_RPS, 3, 42)
        assert totals(records[name])["arrived"] == len(load.requests)
    status, out, _ = texts["third of the source"]
    assert status == 0
    assert out.startswith("mixed_priority, 30, then 80, then 30 requests/s for 20 s, 4 workers")
    assert cells(out)["Completed"] == ["1,100 of 1,100"] * 2


def test_beside_the_sources_policies_stands_the_sources_own_fifo(records: dict[str, Any]):
    source, fifo = records["source beside"]["runs"]
    assert source == records["source"]["runs"][0]
    assert fifo["policy"] == "FIFO as the source"
    load = make_workload("steady", 20, 3, 42)
    assert fifo["totals"] == summarise(simulate(SOURCE_FIFO, load)).to_json()["totals"]
    assert (
        fifo["totals"]["kv_hit_share"] > 0 == records["fifo"]["runs"][0]["totals"]["kv_hit_share"]
    )


def test_what_a_run_does_not_say_by_itself_is_said_below_it(
    texts: dict[Any, tuple[int, str, str]],
):
    said = {name: " ".join(texts[name][1].split()) for name in TEXTS}
    calm, costs = "The workers keep up".lower(), "a step of B requests takes 0.05 + 0.1 B ms"
    assert calm in said["default"] and costs in said["default"]
    assert calm not in said["rush"] and costs not in said["rush"]
    assert "requests need more KV tokens than a worker has (--kv-slots)" in said["small"]
    assert "No request arrived: give it more time" in said["nothing"]


def test_the_remarks_are_true_of_every_fleet_that_is_shown():
    keeps_up = summarise(simulate(ADAPTIVE, make_workload("steady", 20, 3, 42)))
    fails = dataclasses.replace(keeps_up, totals=dataclasses.replace(keeps_up.totals, violations=3))
    assert "keep up" in remarks([keeps_up], "calibrated")[0]
    assert remarks([keeps_up, fails], "calibrated") == []
    assert remarks([dataclasses.replace(keeps_up, stopped=True)], "calibrated") == []


def test_a_load_of_which_nothing_fits_is_refused(texts: dict[Any, tuple[int, str, str]]):
    status, out, err = texts["too small"]
    assert (status, out) == (2, "")
    words = "--kv-slots 10: no request fits; the smallest needs 29 KV tokens"
    assert err.splitlines()[-1].endswith(words)
    status, out, _ = texts["nothing"]
    assert status == 1 and "0 of 0" in out


def test_every_option_says_its_limits_and_its_default(texts: dict[Any, tuple[int, str, str]]):
    out = " ".join(texts["help"][1].split())
    for words in (
        "(1 to 64; default 4)", "(0.1 to 1000; default 30)", "(1 to 3600; default 20)",
        "(1 to 1000000; default 2048)", "(0 to 1000000000; default 42)", "(default adaptive)",
        "(0.01 to 1000)", "5 requests/s, then 200 for 5 s, then 5", "95 % intervals (1 to 100",
    ):  # fmt: skip
        assert words in out, words


def test_neither_simulation_waits_for_torch():
    look = (
        "import sys, nanogpt.fleet.__main__, nanogpt.slo.__main__; "
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", look], cwd=ROOT, check=False).returncode == 0


def test_beside_fifo_both_meet_the_same_load(records: dict[str, Any]):
    adaptive, fifo = records["compare"]["runs"]
    assert (adaptive["policy"], fifo["policy"]) == ("adaptive", "FIFO")
    assert adaptive == records["base"]["runs"][0] and fifo == records["fifo"]["runs"][0]
    found = records["compare"]["comparison"]
    assert found["baseline"] == "FIFO" and found["rows"][0]["low"] is None


def test_repeats_pair_the_seeds_from_the_first_on(records: dict[str, Any]):
    record = records["repeats"]
    assert [(run["seed"], run["policy"]) for run in record["runs"]] == [
        (seed, policy) for seed in (42, 43, 44) for policy in ("adaptive", "FIFO")
    ]
    assert record["runs"][:2] == records["compare"]["runs"]
    again = compare((FIFO, ADAPTIVE), "steady", 20, 3, range(42, 45), SOURCE_COST)
    assert record["comparison"] == json.loads(json.dumps(again.to_json()))


def test_any_number_of_processes_comes_to_the_same(records: dict[str, Any]):
    """The runs in the order in which they were done, the comparison by seed."""
    found, alone = records["jobs"], records["repeats"]
    assert found["comparison"] == alone["comparison"]
    assert sorted(map(str, found["runs"])) == sorted(map(str, alone["runs"]))


BAD = {
    ("--workers", "0"): "argument --workers: '0' is not a whole number from 1 to 64",
    ("--workers", "2.5"): "'2.5' is not a whole number from 1 to 64",
    ("--rps", "0"): "argument --rps: '0' is not a number from 0.1 to 1000",
    ("--rps", "nan"): "'nan' is not a number from 0.1 to 1000",
    ("--rps", "many"): "'many' is not a number from 0.1 to 1000",
    ("--scenario", "calm"): "argument --scenario: invalid choice: 'calm'",
    ("--duration", "0.5"): "argument --duration: '0.5' is not a number from 1 to 3600",
    ("--duration", "inf"): "'inf' is not a number from 1 to 3600",
    ("--kv-slots", "0"): "argument --kv-slots: '0' is not a whole number from 1 to 1000000",
    ("--batch-size", "1025"): "argument --batch-size: '1025' is not a whole number from 1 to 1024",
    ("--seed", "-1"): "argument --seed: '-1' is not a whole number from 0 to 1000000000",
    ("--policy", "best"): "argument --policy: invalid choice: 'best'",
    ("--cost", "free"): "argument --cost: invalid choice: 'free'",
    ("--repeats", "0"): "argument --repeats: '0' is not a whole number from 1 to 100",
    ("--jobs", "65"): "argument --jobs: '65' is not a whole number from 1 to 64",
    ("--speed", "0"): "argument --speed: '0' is not a number from 0.01 to 1000",
    ("--speed", "2", "--repeats", "2"): "--speed replays one run; leave it out with --repeats",
    ("--policy", "fifo", "--compare-fifo"): "--policy fifo is the baseline itself",
    ("--policy", "fifo", "--repeats", "2"): "--policy fifo is the baseline itself",
    ("--workers", "²"): "'²' is not a whole number from 1 to 64",
    ("--work", "5"): "unrecognized arguments: --work 5",
    ("surplus",): "unrecognized arguments: surplus",
}


TEXTS = {
    "help": ["--help"],
    "repeats": [*QUICK, "--repeats", "2", "--jobs", "1"],
    "default": [],
    "rush": ["--scenario", "burst", "--cost", "calibrated", "--duration", "6"],
    "small": [*QUICK, "--kv-slots", "600"],
    "too small": ["--kv-slots", "10"],
    "nothing": ["--rps", "0.1", "--duration", "1", "--seed", "1"],
    "third of the source": ["--workers", "4", "--rps", "50", "--scenario", "mixed_priority",
                            "--duration", "20", "--compare-fifo"],
}  # fmt: skip


@pytest.fixture(scope="module")
def texts() -> dict[Any, tuple[int, str, str]]:
    """What every bad call and every call for people writes."""
    calls: dict[Any, list[str]] = {arguments: list(arguments) for arguments in BAD} | TEXTS
    return dict(zip(calls, several(list(calls.values())), strict=True))


@pytest.mark.parametrize("arguments", BAD, ids=" ".join)
def test_a_bad_argument_is_refused_with_its_limit(
    arguments: tuple[str, ...], texts: dict[Any, tuple[int, str, str]]
):
    status, out, err = texts[arguments]
    assert (status, out) == (2, "")
    assert BAD[arguments] in err.splitlines()[-1]


def test_every_policy_scenario_and_cost_of_the_package_is_on_offer(
    texts: dict[Any, tuple[int, str, str]],
):
    status, out, err = texts["help"]
    assert (status, err) == (0, "")
    for names in (PRESETS, get_args(Scenario), COSTS):
        assert f"{{{','.join(names)}}}" in out


def test_repeats_write_the_paired_differences(texts: dict[Any, tuple[int, str, str]]):
    status, out, _ = texts["repeats"]
    assert status == 0 and "seed 42 to 43\n" in out and "means of 2 seeds" in out
    rows = cells(out)
    assert rows["Metric"] == ["FIFO", "adaptive", "difference", "verdict"]
    assert re.fullmatch(r"[+-][\d.]+ \[[+-][\d.]+, [+-][\d.]+\]", rows["TTFT P50 (ms)"][2])


@pytest.mark.process
def test_where_no_terminal_is_the_table_is_written_once_at_the_pace_that_was_asked_for():
    """Half of the time that it simulates, at least; unpaced it takes a tenth of that."""
    start = time.monotonic()
    done = subprocess.run(
        [*COMMAND, "--duration", "4", "--rps", "5", "--speed", "2", "--compare-fifo"], cwd=ROOT,
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    took_s = time.monotonic() - start
    assert "\x1b" not in done.stdout and done.stdout.count("modelled; the whole run") == 1
    rows = cells(done.stdout)
    assert rows["Metric"] == ["adaptive", "FIFO"]
    assert all(len(rows[label]) == 2 for label in LABELS[:-2])
    end_s = max(map(float, rows["Ended at (s)"]))
    assert end_s > 3 and took_s > end_s / 2


def cells(text: str) -> dict[str, list[str]]:
    """A drawn table's rows by their first cell."""
    rows = [
        [cell.strip() for cell in re.split("[│┃]", line)[1:-1]]
        for line in text.splitlines()
        if "│" in line or "┃" in line
    ]
    return {row[0]: row[1:] for row in rows}


# ---------------------------------------------------------------- pace and Ctrl-C


@contextmanager
def started(*arguments: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """The command in a process group of its own, which does not outlive the block."""
    process = subprocess.Popen(
        [*COMMAND, *arguments], cwd=ROOT, text=True, start_new_session=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="signals of a POSIX terminal")
def test_ctrl_c_writes_what_there_is_of_a_run():
    with started("--duration", "600", "--speed", "1", "--compare-fifo", "--json") as process:
        assert process.stderr and process.stderr.readline().endswith("arrivals end at 600 s\n")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "Traceback" not in err
    record = json.loads(out)
    assert record["stopped"] and record["comparison"] is None
    assert all(run["stopped"] and 0 < run["end_s"] < 60 for run in record["runs"])
    assert all(0 < run["totals"]["arrived"] < 3000 for run in record["runs"])


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="signals of a POSIX terminal")
def test_ctrl_c_writes_the_seeds_that_are_done_and_leaves_no_process():
    arguments = ["--duration", "60", "--repeats", "100", "--jobs", "2", "--json"]
    with started(*arguments) as process:
        assert process.stderr and re.fullmatch(r"\d+ of 100 seeds\n", process.stderr.readline())
        helpers = children(process.pid)
        os.killpg(process.pid, signal.SIGINT)  # what a terminal does
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "Traceback" not in err
    record = json.loads(out)
    assert record["stopped"] and 1 <= len(record["runs"]) // 2 < 100
    assert err.splitlines()[-1] == f"Stopped after {len(record['runs']) // 2} of 100 seeds."
    assert len(record["comparison"]["rows"][0]["pairs"]) == len(record["runs"]) // 2
    assert len(helpers) >= 2 and eventually(lambda: not running(helpers))


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="signals of a POSIX terminal")
@pytest.mark.parametrize("num_started", [1, 2])
def test_ctrl_c_before_the_first_seed_is_done_writes_no_table(num_started):
    """Even while the processes are being started."""
    arguments = ["--duration", "3600", "--rps", "100", "--repeats", "2", "--jobs", "2"]
    with started(*arguments) as process:
        assert eventually(lambda: len(children(process.pid)) >= num_started)
        helpers = children(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, "")
    assert err == "Stopped after 0 of 2 seeds.\n"
    assert eventually(lambda: not running(helpers))


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 120
    while not holds() and time.monotonic() < until:
        time.sleep(0.05)
    return holds()


class Fake:
    """A simulation that only remembers how far it was told to go."""

    def __init__(self, end_us: int) -> None:
        self.end_us, self.told = end_us, [0]

    @property
    def finished(self) -> bool:
        return self.told[-1] >= self.end_us

    def advance(self, until_us: int) -> None:
        self.told.append(until_us)


class FakeClock:
    """Time passes by sleeping, and by `cost_s` at every look."""

    def __init__(self, cost_s: float = 0.0) -> None:
        self.now_s, self.cost_s, self.naps = 100.0, cost_s, 0

    def __call__(self) -> float:
        self.now_s += self.cost_s
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert seconds == NAP_S
        self.now_s += seconds
        self.naps += 1


@pytest.mark.parametrize("speed", [0.5, 1.0, 3.0])
def test_a_paced_run_is_never_ahead_of_the_clock_nor_far_behind(speed: float):
    clock, fakes, seen = FakeClock(), [Fake(2_000_000), Fake(1_000_000)], []

    def show(now_us: int) -> None:
        behind_s = (clock.now_s - 100) * speed - now_us / 1e6
        assert -1e-6 <= behind_s <= 0.1
        seen.append(now_us)

    end_us = drive(fakes, speed, Stop(), show, clock, clock.sleep)  # type: ignore[arg-type]
    assert end_us == seen[-1] and 2_000_000 <= end_us <= 2_100_000
    assert clock.now_s - 100 == pytest.approx(2 / speed, abs=0.05)
    assert fakes[0].told[1:] == fakes[1].told[1:] == seen


def test_a_run_that_cannot_keep_up_does_not_sleep():
    clock, fake = FakeClock(cost_s=1.0), Fake(1_000_000)
    drive([fake], 5.0, Stop(), lambda _: None, clock, clock.sleep)  # type: ignore[list-item]
    assert clock.naps == 0 and fake.told == list(range(0, 1_000_001, SLICE_US))


def test_without_a_pace_nobody_looks_at_the_clock_and_a_stop_is_heeded_at_the_next_slice():
    stop, fake, clock = Stop(), Fake(10**9), FakeClock()

    def show(now_us: int) -> None:
        stop.requested = now_us == 3 * SLICE_US

    assert drive([fake], None, stop, show, clock, clock.sleep) == 3 * SLICE_US  # type: ignore
    assert fake.told == [0, SLICE_US, 2 * SLICE_US, 3 * SLICE_US] and clock.naps == 0


# ---------------------------------------------------------------- tables


METRICS = Metrics(
    throughput_tokens_per_s=8147.4, ttft_p50_ms=5.125, ttft_p99_ms=46.31, itl_mean_ms=0.6,
    itl_p99_ms=None, slo_violation_share=0.003, kv_hit_share=0.113, preemptions=2, arrived=40,
    completed=30, refused=1, violations=1, generated_tokens=81_474, queue_depth=7, workers_busy=3,
)  # fmt: skip
SAMPLE = Sample(12_500_000, METRICS, arrived_so_far=1234, completed_so_far=1030,
                preemptions_so_far=5)  # fmt: skip


def summary(policy: str, seed: int = 1, stopped: bool = False, **changes: Any) -> Summary:
    return Summary(policy, seed, 20.25, stopped, dataclasses.replace(METRICS, **changes), 9, 2.5)


def drawn(table: Any, width: int = 100) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(table)
    return console.export_text()


def test_the_dashboard_shows_the_last_ten_seconds_of_every_fleet():
    text = drawn(live_table("steady", ["adaptive", "FIFO"], [SAMPLE, SAMPLE], 4))
    assert "steady" in text and "modelled; the last 10 s, at 12.5 s" in text
    found = cells(text)
    assert list(found) == ["Metric", *LABELS]
    assert {label: both[1] for label, both in found.items()} == {
        "Metric": "FIFO",
        "Throughput (tok/s)": "8,147",
        "TTFT P50 (ms)": "5.12",
        "TTFT P99 (ms)": "46.3",
        "ITL mean (ms)": "0.60",
        "ITL P99 (ms)": "-",
        "SLO violations": "0.3 %",
        "KV hit rate": "11.3 %",
        "Preemptions": "5",
        "Completed": "1,030 of 1,234",
        "Queue depth": "7",
        "Workers busy": "3/4",
    }


def test_the_final_table_shows_the_whole_run():
    text = drawn(totals_table("burst", [summary("adaptive"), summary("FIFO")], 4))
    found = cells(text)
    assert "modelled; the whole run" in text
    assert [found[label][0] for label in ("Preemptions", "Completed", "Ended at (s)")] == [
        "2", "30 of 40", "20.2",
    ]  # fmt: skip
    assert found["Queue depth, most"] == ["9", "9"]
    assert found["Workers busy, mean"] == ["2.5/4", "2.5/4"]
    short = [summary("adaptive", stopped=True)]
    assert "modelled; stopped early: what there is until then" in drawn(
        totals_table("burst", short, 4)
    )


def pairs(metric: str, values: list[tuple[float, float]]) -> list[tuple[Summary, Summary]]:
    """(FIFO, adaptive) runs that differ in one metric."""
    return [
        (summary("FIFO", seed, **{metric: ours}), summary("adaptive", seed, **{metric: theirs}))
        for seed, (ours, theirs) in enumerate(values)
    ]


def test_the_table_of_differences_says_what_is_within_noise():
    values = [(1010.0, 1000.0), (2012.0, 2000.0), (3014.0, 3000.0)]
    found = comparison(pairs("ttft_p50_ms", values), "steady", SOURCE_COST)
    text = drawn(differences_table("steady", found))
    rows = cells(text)
    assert rows["TTFT P50 (ms)"] == ["2,012", "2,000", "-12.0 [-17.0, -7.03]", "better"]
    assert rows["Throughput (tok/s)"] == ["8,147", "8,147", "+0.00 [+0.00, +0.00]", "equal"]
    assert "ITL P99 (ms)" not in rows
    assert "difference = adaptive - FIFO on the same load, with its 95 % interval" in " ".join(
        text.split()
    )
    single = comparison(pairs("ttft_p50_ms", values[:1]), "steady", SOURCE_COST)
    assert cells(drawn(differences_table("steady", single)))["TTFT P50 (ms)"][2:] == [
        "-10.0 (no interval)", "within noise",
    ]  # fmt: skip


def test_tables_fit_a_narrow_terminal():
    for table in (
        live_table("steady", ["adaptive", "FIFO"], [SAMPLE, SAMPLE], 4),
        totals_table("steady", [summary("adaptive"), summary("FIFO")], 4),
    ):
        assert max(map(len, drawn(table, width=60).splitlines())) <= 60


def test_a_pipe_gets_a_hundred_columns_and_no_colour():
    console = make_console(io.StringIO())
    assert console.width == 100 and not console.is_terminal


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_sees_the_table_change_and_in_the_end_the_whole_run():
    text, status = on_a_terminal("--duration", "4", "--rps", "5", "--speed", "4", "--compare-fifo")
    times = [float(each) for each in re.findall(r"the last 10 s, at ([\d.]+) s", text)]
    assert len(times) >= 3 and times == sorted(times) and times[0] < times[-1]
    assert "\x1b[1A" in text and "\x1b[2K" in text  # redrawn in place
    assert text.count("modelled; the whole run") == 1 and status == 0
    assert text.rindex("the last 10 s") < text.index("the whole run")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_ctrl_c_at_a_terminal_leaves_the_table_and_the_cursor():
    text, status = on_a_terminal("--duration", "600", "--speed", "1", interrupt="the last 10 s")
    assert status == 130 and "modelled; stopped early" in text and "Traceback" not in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # shown again


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_json_at_a_terminal_is_json_alone():
    text, status = on_a_terminal(*QUICK, "--json")
    assert status == 0 and json.loads(text)["version"] == 1


def on_a_terminal(*arguments: str, interrupt: str | None = None) -> tuple[str, int]:
    """What the command writes to a terminal of its own, and its exit status.

    With `interrupt`, Ctrl-C is pressed when that text is there.
    """
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    try:
        with started(*arguments, stdout=theirs, stderr=theirs, env=environment) as process:
            os.close(theirs)
            text, until = "", time.monotonic() + 120
            while time.monotonic() < until:
                if not select.select([ours], [], [], 0.5)[0]:
                    continue
                try:
                    read = os.read(ours, 65_536)
                except OSError:  # the other end is closed
                    break
                text += read.decode()
                if interrupt is not None and interrupt in text:
                    os.killpg(process.pid, signal.SIGINT)
                    interrupt = None
                if not read:
                    break
            return text, process.wait(timeout=120)
    finally:
        os.close(ours)


# ---------------------------------------------------------------- comparisons


def test_a_comparison_is_what_the_picture_reads():
    values = [(10.0, 8.0), (20.0, 17.0)]
    found = comparison(reversed(pairs("ttft_p99_ms", values)), "burst", CALIBRATED_COST)
    record = found.to_json()
    row = next(row for row in record["rows"] if row["metric"] == "ttft_p99_ms")
    expected = paired([10, 20], [8, 17])
    assert row == {
        "metric": "ttft_p99_ms", "label": "TTFT P99", "unit": "ms", "better": "lower",
        "pairs": [
            {"seed": 0, "baseline": 10.0, "other": 8.0},
            {"seed": 1, "baseline": 20.0, "other": 17.0},
        ],
        "mean": -2.5, "low": expected.low, "high": expected.high, "verdict": "within noise",
    }  # fmt: skip
    assert {key: record[key] for key in record if key != "rows"} == {
        "version": 1, "scenario": "burst", "cost": "calibrated", "modelled": True,
        "baseline": "FIFO", "other": "adaptive",
    }  # fmt: skip
    PairedSeeds(record)


@pytest.mark.parametrize(
    ("metric", "values", "verdict"),
    [
        ("throughput_tokens_per_s", [(1, 2), (1, 2)], "better"),
        ("throughput_tokens_per_s", [(2, 1), (2, 1)], "worse"),
        ("ttft_p50_ms", [(2, 1), (2, 1)], "better"),
        ("ttft_p50_ms", [(1, 2), (1, 2)], "worse"),
        ("ttft_p50_ms", [(1, 2), (2, 1)], "within noise"),
        ("ttft_p50_ms", [(1, 1), (2, 2)], "equal"),
        ("slo_violation_share", [(0.5, 0.1), (0.5, 0.1)], "better"),
        ("kv_hit_share", [(0.0, 0.1), (0.0, 0.1)], "better"),
    ],
)
def test_a_verdict_knows_which_way_is_good(
    metric: str, values: list[tuple[float, float]], verdict: str
):
    rows = comparison(pairs(metric, values), "steady", SOURCE_COST).rows
    names = {"throughput_tokens_per_s": "throughput", "slo_violation_share": "slo_violations",
             "kv_hit_share": "kv_hits"}  # fmt: skip
    assert {row.measure.metric: row.verdict for row in rows} == {
        row.measure.metric: "equal" for row in rows
    } | {names.get(metric, metric): verdict}


def test_shares_are_compared_in_per_cent():
    rows = comparison(pairs("kv_hit_share", [(0.0, 0.25)]), "steady", SOURCE_COST).rows
    assert [row.difference.mean for row in rows if row.measure.metric == "kv_hits"] == [25]


def test_every_figure_of_the_dashboard_is_compared():
    assert len({measure.metric for measure in MEASURES}) == len(MEASURES) == 9


def test_what_makes_no_comparison_is_refused():
    with pytest.raises(
        ValueError, match="there are 0 pairs of runs; a comparison needs at least 1"
    ):
        comparison([], "steady", SOURCE_COST)
    with pytest.raises(ValueError, match="a pair of runs has seeds 1 and 2; it must be one"):
        comparison([(summary("FIFO", 1), summary("adaptive", 2))], "steady", SOURCE_COST)


def test_a_comparison_takes_the_learners_part_and_the_cost_that_it_is_given():
    asked: list[int] = []

    def route(workers: Any, hits: Any) -> int:
        asked.append(len(workers))
        return workers[0].id

    found = compare(
        (FIFO, ADAPTIVE), "steady", 10, 2, [5], CALIBRATED_COST, FleetParts(route=route)
    )
    plain = compare((FIFO, ADAPTIVE), "steady", 10, 2, [5], CALIBRATED_COST)
    assert asked and found.cost == "calibrated"
    assert [row.pairs[0].baseline for row in found.rows] == [
        row.pairs[0].baseline for row in plain.rows
    ]
    assert found.rows != plain.rows
    assert plain.rows != compare((FIFO, ADAPTIVE), "steady", 10, 2, [5], SOURCE_COST).rows


def test_the_benchmark_times_every_fleet_with_and_without_a_trace():
    load = make_workload("steady", 5, 1, 42)
    rows = benchmark.compare(load, repeats=1, clock="cpu")
    assert [(row["policy"], row["cost"], row["trace"]) for row in rows] == [
        (policy, cost, trace) for policy in PRESETS for cost in COSTS for trace in (False, True)
    ]
    assert all(row["slowest"] == row["times_real_time"] == row["fastest"] > 0 for row in rows)
    assert [measured for _, _, measured in benchmark.targets(rows, [])] == [
        row["times_real_time"] for row in rows if not row["trace"]
    ]


def test_a_fleet_is_called_by_its_name():
    assert [title(preset) for preset in PRESETS.values()] == [
        "adaptive", "source", "FIFO", "static",
    ]  # fmt: skip

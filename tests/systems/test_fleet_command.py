"""The fleet's command: its options, tables and comparisons, and what Ctrl-C leaves of its jobs."""

import dataclasses
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, get_args

import psutil
import pytest
from launching import family, running, wait_for
from support import ROOT, call, run
from tiers import some

from nanogpt.experiments.fleet_comparison import Summary, compare, comparison, summarise
from nanogpt.experiments.fleet_table import LABELS, differences_table, metrics_table
from nanogpt.experiments.paired_statistics import paired, student_t
from nanogpt.fleet.__main__ import main
from nanogpt.fleet.costs import CALIBRATED_COST, COSTS, SOURCE_COST
from nanogpt.fleet.fleet_config import ADAPTIVE, AS_SOURCE, FIFO, PRESETS, SOURCE_FIFO, STATIC
from nanogpt.fleet.metrics import Metrics
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.workload import SOURCE_RPS, Scenario, make_workload

QUICK = ("--duration", "3", "--rps", "20")


@cache
def fleet(*arguments: str) -> tuple[Any, str, str]:
    """(exit status, standard output, standard error) of the command."""
    return call(main, *arguments)


def record_of(*arguments: str) -> dict[str, Any]:
    """The JSON of a small run."""
    status, out, _ = fleet(*QUICK, "--json", *arguments)
    assert status == 0 and out.count("\n") == 1
    return json.loads(out)


def run_of(config: Any, *load: Any) -> Any:
    """What the command has to say of a fleet's run."""
    return json.loads(
        json.dumps(dataclasses.asdict(summarise(simulate(config, make_workload(*load)))))
    )


def cells(text: str) -> dict[str, list[str]]:
    """A table's rows by their first cell."""
    rows = [re.split(r" {2,}", line) for line in text.splitlines()]
    return {row[0]: row[1:] for row in rows if len(row) > 1}


# --- options --------------------------------------------------------------------------------------


LOAD = ("steady", 20, 3, 42)


@pytest.mark.parametrize(
    ("arguments", "config", "load"),
    [
        ("", ADAPTIVE, LOAD),
        ("--workers 1", dataclasses.replace(ADAPTIVE, num_workers=1), LOAD),
        ("--batch-size 1", dataclasses.replace(ADAPTIVE, batch_size=1), LOAD),
        ("--kv-slots 600", dataclasses.replace(ADAPTIVE, kv_tokens=600), LOAD),
        ("--cost calibrated", dataclasses.replace(ADAPTIVE, cost=CALIBRATED_COST), LOAD),
        ("--policy source", AS_SOURCE, LOAD),
        ("--policy fifo", FIFO, LOAD),
        ("--policy static", STATIC, LOAD),
        ("--rps 40", ADAPTIVE, ("steady", 40, 3, 42)),
        ("--duration 4", ADAPTIVE, ("steady", 20, 4, 42)),
        ("--seed 7", ADAPTIVE, ("steady", 20, 3, 7)),
        ("--scenario burst", ADAPTIVE, ("burst", SOURCE_RPS, 3, 42)),
        ("--scenario mixed_priority", ADAPTIVE, ("mixed_priority", SOURCE_RPS, 3, 42)),
    ],
)
def test_an_option_reaches_the_simulation(arguments: str, config: Any, load: Any):
    """--rps is the rate of the steady load only; the other scenarios have the source's."""
    expected = run_of(config, *load)
    record = record_of(*arguments.split())
    assert record["runs"] == [expected]
    assert (record["version"], record["modelled"], record["comparison"]) == (1, True, None)
    assert not arguments or config is ADAPTIVE or expected != run_of(ADAPTIVE, *LOAD)


def test_beside_a_policy_stands_fifo_and_beside_the_sources_its_own():
    record = record_of("--compare-fifo")
    assert record["runs"] == [run_of(ADAPTIVE, *LOAD), run_of(FIFO, *LOAD)]
    found = record["comparison"]
    assert found["baseline"] == "FIFO" and found["rows"][0]["low"] is None
    record = record_of("--policy", "source", "--compare-fifo")
    assert record["runs"] == [run_of(AS_SOURCE, *LOAD), run_of(SOURCE_FIFO, *LOAD)]


def test_repeats_pair_the_seeds_from_the_first_on():
    record = record_of("--repeats", "3", "--jobs", "1")
    assert [(run["seed"], run["policy"]) for run in record["runs"]] == [
        (seed, policy) for seed in (42, 43, 44) for policy in ("adaptive", "FIFO")
    ]
    again = compare((FIFO, ADAPTIVE), "steady", 20, 3, range(42, 45), SOURCE_COST)
    assert record["comparison"] == json.loads(json.dumps(again.to_json()))
    status, out, _ = fleet(*QUICK, "--repeats", "2", "--jobs", "1")
    assert status == 0 and "seed 42 to 43\n" in out and "means of 2 seeds" in out
    rows = cells(out)
    assert rows[""] == ["FIFO", "adaptive", "difference", "verdict"]
    said = " ".join(fleet(*QUICK, "--kv-slots", "600")[1].split())
    assert "a step of B requests takes 0.05 + 0.1 B ms" in said
    assert "requests need more KV tokens than a worker has (--kv-slots)" in said
    status, out, _ = fleet("--rps", "0.1", "--duration", "1", "--seed", "1")
    assert status == 1 and "No request arrived: give it more" in out
    assert re.fullmatch(r"[+-][\d.]+ \[[+-][\d.]+, [+-][\d.]+\]", rows["TTFT P50 (ms)"][2])


@pytest.mark.process
def test_any_number_of_processes_comes_to_the_same():
    """The runs in the order in which they were done, the comparison by seed."""
    found, alone = (record_of("--repeats", "3", "--jobs", n) for n in ("2", "1"))
    assert found["comparison"] == alone["comparison"]
    assert sorted(map(str, found["runs"])) == sorted(map(str, alone["runs"]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--workers ²", "argument --workers: invalid int value: '²'"),
        ("--rps nan", "--rps is nan; it must be from 0.1 to 1000"),
        ("--scenario calm", "argument --scenario: invalid choice: 'calm'"),
        ("--kv-slots 10", "--kv-slots 10: no request fits; the smallest needs 29 KV tokens"),
        ("--policy fifo --compare-fifo", "--policy fifo is the baseline itself"),
        ("--work 5", "unrecognized arguments: --work 5"),
    ],
)
def test_a_bad_argument_is_refused_with_its_limit(arguments: str, message: str):
    status, out, err = fleet(*arguments.split())
    assert (status, out) == (2, "")
    assert message in err.splitlines()[-1]


def test_the_help_names_every_policy_scenario_and_cost_and_their_limits():
    status, out, err = fleet("--help")
    assert (status, err) == (0, "") and "(1 to 64; default: 4)" in out
    for names in (PRESETS, get_args(Scenario), COSTS):
        assert f"{{{','.join(names)}}}" in out


@pytest.mark.process
def test_neither_simulation_waits_for_torch():
    look = (
        "import sys, nanogpt.fleet.__main__, nanogpt.slo.__main__; "
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", look], cwd=ROOT, check=False).returncode == 0


# --- Ctrl-C --------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="signals of a POSIX terminal")
def test_ctrl_c_writes_the_seeds_that_are_done_and_leaves_no_process():
    command = [sys.executable, "-m", "nanogpt.fleet", "--duration", "20", "--repeats", "100"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(
        [*command, "--jobs", "2", "--json"], cwd=ROOT, start_new_session=True, **pipes
    ) as process:
        assert process.stderr and re.fullmatch(r"\d+ of 100 seeds\n", process.stderr.readline())
        helpers = [each.pid for each in family(process.pid)]
        os.killpg(process.pid, signal.SIGINT)  # what a terminal does
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "Traceback" not in err
    record = json.loads(out)
    assert record["stopped"] and 1 <= len(record["runs"]) // 2 < 100
    assert err.splitlines()[-1] == f"Stopped after {len(record['runs']) // 2} of 100 seeds."
    assert len(record["comparison"]["rows"][0]["pairs"]) == len(record["runs"]) // 2
    assert len(helpers) >= 2
    wait_for(lambda: not running(helpers))


# --- tables ---------------------------------------------------------------------------------------

METRICS = Metrics(
    throughput_tokens_per_s=8147.4, ttft_p50_ms=5.125, ttft_p99_ms=46.31, itl_mean_ms=0.6,
    itl_p99_ms=None, slo_violation_share=0.003, kv_hit_share=0.113, preemptions=2, arrived=40,
    completed=30, refused=1, violations=1, generated_tokens=81_474, queue_depth=7, workers_busy=3,
)  # fmt: skip


def summary(policy: str, seed: int = 1, stopped: bool = False, **changes: Any) -> Summary:
    return Summary(policy, seed, 20.25, stopped, dataclasses.replace(METRICS, **changes), 9, 2.5)


def pairs(metric: str, values: Sequence[tuple[float, float]]) -> list[tuple[Summary, Summary]]:
    """(FIFO, adaptive) runs that differ in one metric."""
    return [
        (summary("FIFO", seed, **{metric: ours}), summary("adaptive", seed, **{metric: theirs}))
        for seed, (ours, theirs) in enumerate(values)
    ]


def test_the_tables_show_the_metrics_of_each_fleet_and_the_differences():
    rows = cells(metrics_table("steady", [summary("adaptive"), summary("FIFO")], 4))
    assert list(rows) == ["modelled", *LABELS]
    assert [row[1] for row in rows.values()] == [
        "FIFO", "8,147", "5.12", "46.3", "0.60", "-", "0.3 %", "11.3 %", "2", "30 of 40",
        "9", "2.5/4", "20.2",
    ]  # fmt: skip
    values = [(1010.0, 1000.0), (2012.0, 2000.0), (3014.0, 3000.0)]
    found = comparison(pairs("ttft_p50_ms", values), "steady", SOURCE_COST)
    rows = cells(differences_table("steady", found))
    assert rows["TTFT P50 (ms)"] == ["2,012", "2,000", "-12.0 [-17.0, -7.03]", "better"]
    assert rows["Throughput (tok/s)"] == ["8,147", "8,147", "+0.00 [+0.00, +0.00]", "equal"]
    assert "ITL P99 (ms)" not in rows
    single = comparison(pairs("ttft_p50_ms", values[:1]), "steady", SOURCE_COST)
    last = cells(differences_table("steady", single))["TTFT P50 (ms)"][2:]
    assert last == ["-10.0 (no interval)", "within noise"]


# --- comparisons ----------------------------------------------------------------------------------


def test_a_comparison_pairs_the_seeds_and_knows_which_way_is_good():
    values = [(10.0, 8.0), (20.0, 17.0)]
    found = comparison(reversed(pairs("ttft_p99_ms", values)), "burst", CALIBRATED_COST)
    record = found.to_json()
    row = next(row for row in record["rows"] if row["metric"] == "ttft_p99_ms")
    assert row["pairs"] == [
        {"seed": 0, "baseline": 10.0, "other": 8.0},
        {"seed": 1, "baseline": 20.0, "other": 17.0},
    ]
    assert (row["mean"], row["verdict"]) == (-2.5, "within noise")
    assert row["low"] == paired([10, 20], [8, 17]).low
    for metric, field, values, verdict in (
        ("throughput", "throughput_tokens_per_s", [(1, 2), (1, 2)], "better"),
        ("ttft_p50_ms", "ttft_p50_ms", [(1, 2), (1, 2)], "worse"),
        ("kv_hits", "kv_hit_share", [(0.0, 0.25), (0.0, 0.25)], "better"),
    ):
        rows = comparison(pairs(field, values), "steady", SOURCE_COST).rows
        expected = {row.metric: "equal" for row in rows} | {metric: verdict}
        assert {row.metric: row.verdict for row in rows} == expected
    with pytest.raises(ValueError, match="there are 0 pairs of runs; a comparison needs at least"):
        comparison([], "steady", SOURCE_COST)


# --- intervals ------------------------------------------------------------------------------------


def test_the_t_values_are_those_of_the_tables_and_of_the_closed_forms():
    table = {1: 12.706, 2: 4.303, 5: 2.571, 10: 2.228, 30: 2.042, 120: 1.980}
    assert {freedom: round(student_t(freedom), 3) for freedom in table} == table
    assert student_t(1) == pytest.approx(math.tan(0.475 * math.pi), rel=1e-12)
    assert student_t(2) == pytest.approx(0.95 * math.sqrt(2 / (1 - 0.95**2)), rel=1e-12)
    assert student_t(20_000) == pytest.approx(1.959964, abs=2e-4)


def test_a_difference_is_taken_pair_by_pair():
    """The pairs differ by a thousand from seed to seed, the two sides by 9, 10 and 11."""
    got = paired([1000, 2000, 3000], [1009, 2011, 3010])
    half = 4.302652729 * 1 / math.sqrt(3)
    assert got.mean == 10 and not got.within_noise
    assert (got.low, got.high) == (pytest.approx(10 - half), pytest.approx(10 + half))
    assert paired([5, 5], [3, 3]).mean == -2


def test_an_interval_that_holds_zero_is_within_noise_and_a_single_pair_has_no_interval():
    assert paired([0, 0], [1, 3]).within_noise
    assert not paired([0, 0], [2, 2]).within_noise
    assert paired([1, 2], [1, 2]).within_noise
    got = paired([4], [7])
    assert (got.mean, got.low, got.high, got.within_noise) == (3, None, None, True)


# --- jobs in several processes --------------------------------------------------------------------


SCRIPT = """
import os, signal, sys, threading, time
from nanogpt.experiments.pool import run_jobs

def job(number):
    time.sleep(0.1)
    return number

if __name__ == "__main__":
    # Another thread is there to take the signal: a mask would keep it from the main one alone.
    threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
    try:
        threading.Timer(float(sys.argv[1]), os.kill, (os.getpid(), signal.SIGINT)).start()
        list(run_jobs(job, [(number,) for number in range(200)], 2))
    except KeyboardInterrupt:
        print("stopped")
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_pool_whose_parent_is_killed_ends(tmp_path):
    script = tmp_path / "jobs.py"
    script.write_text(SCRIPT.replace("0.1", "9"))
    parent = psutil.Popen([sys.executable, str(script), "60"], cwd=ROOT)
    until = time.monotonic() + 30
    while len(children := parent.children()) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    assert len(children) == 3
    assert psutil.wait_procs(children, timeout=10)[1] == []


@pytest.mark.process
@pytest.mark.parametrize("after_ms", [*some(range(1, 25), 1), 300])
def test_an_interrupt_of_a_pool_is_one_line(tmp_path, after_ms: int):
    script = tmp_path / "jobs.py"
    script.write_text(SCRIPT)
    done = run([sys.executable, str(script), str(after_ms / 1000)], cwd=ROOT)
    assert (done.stdout, done.stderr) == ("stopped\n", "")

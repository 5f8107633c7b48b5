"""Behind lesson 9: the numbers that its prose and its fixed tables say, run or read again."""

from dataclasses import replace

from support import ROOT

from course.lesson_data import l09_fleet as fleet
from course.lesson_data import recorded
from nanogpt.experiments.fleet_comparison import compare
from nanogpt.fleet.costs import CALIBRATED_COST, SOURCE_COST, decode_us
from nanogpt.fleet.decisions import source_score
from nanogpt.fleet.fleet_config import ADAPTIVE, FIFO
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.workload import make_workload
from nanogpt.views.fleet_views import WorkerView

WORDS = " ".join((ROOT / "lessons" / "l09_fleet.py").read_text(encoding="utf-8").split())
WORDS = WORDS.replace('" "', "")


def rows(comparison):
    return {row["metric"]: row for row in comparison["rows"]}


def interval(row):
    return f"{row['mean']:.1f} ms ({row['low']:.1f} to {row['high']:.1f})"


def test_the_rush_trades_the_tail_for_the_median():
    arrival, priority = (fleet.rush()[name].totals for name in ("by arrival", "by priority"))
    assert (arrival.arrived, arrival.violations, priority.violations) == (1187, 80, 0)
    median, tail = "ttft_p50_ms", "ttft_p99_ms"
    for said, metric in (
        ("The median falls from {:.0f} ms to **{:.1f} ms**", median),
        ("rises from {:.0f} ms to **{:,.0f} ms**", tail),
    ):
        assert said.format(getattr(arrival, metric), getattr(priority, metric)) in WORDS


def test_paired_seeds_are_those_of_the_record():
    unaged, aged = (rows(recorded("fleet")["order"][name]) for name in ("unaged", "aged"))
    for row, said in (
        (unaged["ttft_p50_ms"], "by {:,.0f} ms on average (95 % interval {:,.0f} to {:,.0f})"),
        (unaged["ttft_p99_ms"], "by {:,.0f} ms ({:,.0f} to {:,.0f})"),
        (aged["ttft_p50_ms"], "{:,.0f} ms ({:,.0f} to {:,.0f})"),
        (aged["ttft_p99_ms"], "by {:,.0f} ms ({:,.0f} to {:,.0f})"),
    ):
        low, high = sorted((abs(row["low"]), abs(row["high"])))
        assert said.format(abs(row["mean"]), low, high) in WORDS
    pairs = unaged["ttft_p50_ms"]["pairs"], unaged["ttft_p99_ms"]["pairs"]
    assert all(pair["other"] < pair["baseline"] for pair in pairs[0])
    assert all(pair["other"] > pair["baseline"] for pair in pairs[1])


def test_what_each_feature_brings_is_the_record_s():
    loads = ("30 requests per second", "300 requests per second", "a burst")
    columns = ((0, "ttft_p50_ms"), (1, "ttft_p50_ms"), (1, "ttft_p99_ms"), (2, "slo_violations"))
    found = recorded("fleet")["pieces"]
    for name in dict.fromkeys(each["piece"] for each in found):
        cells = []
        for load, metric in columns:
            [row] = [
                each["rows"][metric]
                for each in found
                if each["piece"] == name and each["load"].startswith(loads[load])
            ]
            number = f"{row['mean']:+,.1f} {'points' if load == 2 else 'ms'}"
            words = {"equal": "nothing", "within noise": "noise", "better": f"**{number}**"}
            cells.append(words.get(row["verdict"], number))
        assert f"| {name} | {' | '.join(cells)} |" in WORDS


def test_the_source_s_numbers_are_repeated_and_a_naive_fifo_is_compared():
    again = {each["scenario"]: rows(each) for each in recorded("fleet")["as_source"]}
    for scenario in ("burst", "mixed_priority"):
        assert interval(again[scenario]["ttft_p50_ms"]) in WORDS
        assert again[scenario]["ttft_p99_ms"]["verdict"] == "within noise"
    assert f"mean ITL is {1000 * again['mixed_priority']['itl_mean_ms']['mean']:.0f} µs" in WORDS
    for each in recorded("fleet")["scenarios"]:
        for metric in ("ttft_p50_ms", "ttft_p99_ms"):
            row = rows(each)[metric]
            if row["verdict"] != "within noise":
                assert f"{row['mean']:,.1f} ms ({row['low']:,.1f} to {row['high']:,.1f})" in WORDS


def test_a_baseline_made_by_switching_off_still_has_hits_and_hides_the_gain():
    suspect = replace(
        ADAPTIVE, name="FIFO", order="fifo", urgency="off", ageing_us=None, preemption_gap=None,
        routing="round_robin",
    )  # fmt: skip
    hits = simulate(suspect, make_workload("steady", 30, 5, 42)).totals.kv_hit_share
    assert f"it is **{100 * hits:.1f} %**" in WORDS
    for name, baseline in (
        ("this baseline", suspect),
        ("`nanogpt.fleet.fleet_config.FIFO`", FIFO),
    ):
        pair = compare((baseline, ADAPTIVE), "steady", 30, 5, range(42, 47), SOURCE_COST)
        of = {row.metric: row.mean for row in pair.rows}
        itl = f"{1000 * of['itl_mean_ms']:+.0f} µs"
        assert f"| {name} | {of['ttft_p50_ms']:.1f} ms | {itl} | 0.0 % |" in WORDS


def test_points_and_the_gain_of_a_batch():
    busy, idle = WorkerView(0, 0, 31, 32, 100, 2048), WorkerView(1, 0, 0, 32, 2048, 2048)
    points = source_score(busy, 33), source_score(idle, 0)
    assert "**{:.0f} against {:.0f} points**".format(*points) in WORDS
    for cost, said in ((SOURCE_COST, "**1.48 times**"), (CALIBRATED_COST, "**32 times**")):
        gain = 32 * decode_us(cost, 1, 0) / decode_us(cost, 32, 0)
        assert said == f"**{gain:.3g} times**" and said in WORDS

"""Behind lesson 9: the numbers that its prose and its fixed tables say, run or read again."""

from dataclasses import replace
from itertools import pairwise

from support import ROOT

from course.lesson_data import l09_fleet as fleet
from course.lesson_data import l09_routing as routing
from course.lesson_data import recorded
from nanogpt.experiments.fleet_comparison import compare
from nanogpt.fleet.costs import CALIBRATED_COST
from nanogpt.fleet.decisions import busy_until, source_score
from nanogpt.fleet.fleet_config import ADAPTIVE, FIFO
from nanogpt.fleet.simulation import simulate
from nanogpt.views.fleet_views import WorkerView

WORDS = " ".join((ROOT / "lessons" / "l09_fleet.py").read_text(encoding="utf-8").split())
WORDS = WORDS.replace('" "', "")


def rows(comparison):
    return {row["metric"]: row for row in comparison["rows"]}


def test_the_rush_trades_the_tail_for_the_median_and_ageing_does_not_mend_the_ttft():
    load = fleet.rush()
    runs = {name: simulate(config, load) for name, config in fleet.ORDERS.items()}
    totals = {name: run.totals for name, run in runs.items()}
    arrival, priority = totals["by arrival, others may pass"], totals["by priority"]
    assert f"The same {arrival.arrived} requests" in WORDS
    passing = runs["by arrival, others may pass"]
    assert f"the four workers finish {arrival.completed / passing.end_us * 1e6:.0f}." in WORDS
    low = sum(request.priority >= 8 for request in load.requests) / len(load.requests)
    assert round(10 * low) == 3
    for said, metric in (
        ("from {:,.0f} ms to **{:,.0f} ms**", "ttft_p50_ms"),
        ("rises from {:,.0f} ms to **{:,.0f} ms**", "ttft_p99_ms"),
    ):
        assert said.format(getattr(arrival, metric), getattr(priority, metric)) in WORDS
    aged = totals["by priority, ageing 1 s a level"], totals["by priority, ageing 250 ms a level"]
    medians = [each.ttft_p50_ms for each in (priority, *aged)]
    assert medians == sorted(medians) and priority.violations < min(x.violations for x in aged)


def test_paired_seeds_are_those_of_the_record():
    found = rows(recorded("fleet")["order"]["by priority"])
    median, tail = found["ttft_p50_ms"], found["ttft_p99_ms"]
    for row, said in (
        (median, "{mean:,.0f} ms (95 % interval {low:,.0f} to {high:,.0f})"),
        (tail, "{mean:+,.0f} ms ({low:+,.0f} to {high:+,.0f})"),
    ):
        assert said.format(**{name: row[name] for name in ("mean", "low", "high")}) in WORDS
    assert all(pair["other"] < pair["baseline"] for pair in median["pairs"])
    assert all(pair["other"] > pair["baseline"] for pair in tail["pairs"])


def test_what_each_feature_brings_is_the_record_s():
    loads = ("20 requests per second", "60 requests per second", "a burst")
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
            words = {"equal": "0", "within noise": "noise", "better": f"**{number}**"}
            cells.append(words.get(row["verdict"], number))
        assert f"| {name} | {' | '.join(cells)} |" in WORDS


def test_a_baseline_made_by_switching_off_hides_the_gain():
    suspect = replace(
        ADAPTIVE, name="FIFO", order="fifo", urgency="off", ageing_us=None, preemption_gap=None,
        routing="round_robin",
    )  # fmt: skip
    for name, baseline in (("this baseline", suspect), ("`FIFO`", FIFO)):
        pair = compare((baseline, ADAPTIVE), "steady", 20, 10, range(42, 47), CALIBRATED_COST)
        of = {row.metric: row.mean for row in pair.rows}
        itl = f"{1000 * of['itl_mean_ms']:+,.0f} µs"
        assert f"| {name} | {of['ttft_p50_ms']:.1f} ms | {itl} |" in WORDS


def test_points_of_the_score():
    busy, idle = WorkerView(0, 0, 31, 32, 100, 2048), WorkerView(1, 0, 0, 32, 2048, 2048)
    points = source_score(busy, 33), source_score(idle, 0)
    assert "**{:.0f} against {:.0f} points**".format(*points) in WORDS


def test_a_prefix_rule_wins_where_one_cache_does_not_hold_all_prefixes_and_a_score_overloads_one():
    def median_ms(config, load, rule):
        return simulate(replace(config, routing=rule), load).totals.ttft_p50_ms

    one = [
        median_ms(routing.ROOMY, routing.one_system_prompt(), rule)
        for rule in ("round_robin", "source", "backlog")
    ]
    many = [
        median_ms(routing.MANY, routing.twelve_system_prompts(), rule)
        for rule in ("round_robin", "source", "backlog")
    ]
    assert one[1] > 1.3 * max(one[0], one[2]) and abs(one[0] - one[2]) < 0.5
    assert many[0] > 2.8 * max(many[1:]) and abs(many[1] - many[2]) < 0.5


def test_old_reports_herd_and_what_was_sent_since_disperses_the_herd():
    now = simulate(routing.ROOMY, routing.different_prompts())
    old, mended = (routing.by_old_reports(each) for each in (None, busy_until))
    assert f"requests is {now.totals.ttft_p50_ms:.0f} ms" in WORDS
    assert f"**{old.totals.ttft_p50_ms:.0f} ms.**" in WORDS
    assert abs(mended.totals.ttft_p50_ms - now.totals.ttft_p50_ms) < 0.5
    where = [visit.worker for visit in old.visits]
    assert max(map(where.count, range(4))) / len(where) < 0.3
    runs = sum(one != other for one, other in pairwise(where))
    assert runs < len(where) / 3, "most requests follow the one before"


def test_two_pools_have_the_evenest_rhythm_and_serve_fewest():
    text = (ROOT / "lessons" / "l09b_prefill_here.py").read_text(encoding="utf-8")
    rows = {(row["rate"], row["fleet"]): row for row in recorded("split")["rows"]}
    whole, chunks, pools = dict.fromkeys(row["fleet"] for row in recorded("split")["rows"])
    assert all(row["goodput"] == rate for (rate, _), row in rows.items() if rate <= 60)
    for fleet_name, said in ((pools, "tokens come {:.1f} ms"), (whole, "whole prompts {:.1f} ms")):
        assert said.format(rows[60, fleet_name]["itl_ms"]) in " ".join(text.split())
    for rate in (80, 100):
        assert rows[rate, whole]["goodput"] > 2 * rows[rate, pools]["goodput"]
        assert rows[rate, pools]["goodput"] < rows[rate, chunks]["goodput"]

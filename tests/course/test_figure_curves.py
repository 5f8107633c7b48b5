"""The curves: each figure's numbers are those of its records, and the commands save them."""

import json

import pytest
from fakes import tiny_model

from course.stories import l06_ranks
from course.stories.l08_measured import MACHINES
from nanogpt import figures
from nanogpt.clock import SERVER_CPU, CostClock
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.experiments.slo_table import Cell, Estimate
from nanogpt.experiments.trace_metrics import all_request_metrics, summary
from nanogpt.figures import Chart, Mark
from nanogpt.fleet import ADAPTIVE, FIFO, make_workload, simulate
from nanogpt.fleet.__main__ import main as fleet
from nanogpt.request import Request
from nanogpt.slo.__main__ import main as slo
from nanogpt.trace import Trace

PNG = b"\x89PNG\r\n"


@pytest.fixture(scope="module")
def trace() -> Trace:
    config = EngineConfig(token_budget=8, max_kv_tokens=60)
    requests = [(i, Request(i, list(range(1, 6 + i)), 4)) for i in range(3)]
    return Engine(tiny_model(), config, clock=CostClock(SERVER_CPU)).run(requests)


def points(chart: Chart, name: str, panel: int = 0) -> list[tuple[float, float]]:
    [line] = [each for each in chart.panels[panel].lines if each.name == name]
    return list(line.points)


# ---- from records --------------------------------------------------------------------------------


def test_latencies_are_those_of_every_request_and_every_gap(trace):
    chart = figures.latencies({"mine": trace}, "Waits")
    metrics = all_request_metrics(trace)
    ttfts = sorted(each.ttft_us / 1000 for each in metrics)
    gaps = sorted(gap / 1000 for each in metrics for gap in each.itls_us)
    assert [ms for ms, _ in points(chart, "mine")] == ttfts
    assert [ms for ms, _ in points(chart, "mine", 1)] == gaps
    assert chart.source == "modelled: a server CPU (fitted)"


def test_requests_of_one_token_have_a_ttft_and_no_gap():
    engine = Engine(tiny_model(), EngineConfig(token_budget=8))
    once = engine.run([(0, Request(0, [1, 2], 1))])
    assert len(figures.latencies({"mine": once}, "Waits").panels) == 1
    nothing = Engine(tiny_model(), EngineConfig(token_budget=8)).run([])
    with pytest.raises(ValueError, match="no request got a token in these runs"):
        figures.latencies({"mine": nothing}, "Waits")


def test_kv_over_time_is_what_each_step_holds_under_the_budget(trace):
    chart = figures.kv_over_time({"mine": trace}, "KV")
    assert points(chart, "mine") == [(step.step, step.kv_after) for step in trace.steps]
    assert chart.panels[0].marks == (Mark("y", 60, "KV budget"),)


def test_a_step_s_cost_is_drawn_in_milliseconds():
    chart = figures.step_cost([(8, 500), (16, 900)], {"a line": [(8, 520), (16, 880)]}, "Cost")
    assert points(chart, "measured") == [(8, 0.5), (16, 0.9)]
    assert points(chart, "a line") == [(8, 0.52), (16, 0.88)]


def test_throughput_stands_against_the_longest_gap(trace):
    run = summary(trace)
    chart = figures.throughput_against_latency({"a CPU": {"chunks": {"8": run}}}, "Bargain")
    assert points(chart, "chunks") == [(run.worst_itl_us / 1000, run.tokens_per_s)]
    assert chart.panels[0].lines[0].labels == ("8",)


def test_attainment_has_its_interval_and_none_where_a_tier_has_no_request():
    def cell(rate: float, urgent: Estimate | None) -> Cell:
        return Cell("x", "X", rate, 2, urgent, Estimate(90, None), None, None, 0, 0)

    cells = [cell(2, Estimate(80, 5)), cell(4, None), cell(6, Estimate(40, 10))]
    chart = figures.attainment_by_load(cells, "In time", "modelled")
    assert points(chart, "X") == [(2, 80), (6, 40)]
    assert chart.panels[0].lines[0].halves == (5, 10)
    assert points(chart, "X", 1) == [(2, 90), (4, 90), (6, 90)]


def test_speedup_is_the_time_without_drafts_over_that_with(trace):
    engine = Engine(tiny_model(), EngineConfig(token_budget=8))
    shorter = engine.run([(0, Request(0, [1, 2], 4))])
    for cost in MACHINES.values():
        chart = figures.speedup_by_drafts({"mine": {0: trace, 4: shorter}}, cost, "Speed-up")

        def took(run, cost=cost):
            return sum(cost.forward_us(each) for step in run.steps for each in step.forwards)

        assert points(chart, "mine") == [(0, 1), (4, took(trace) / took(shorter))]
        assert chart.source == f"modelled: {cost.name}"


def test_a_fleet_s_waits_and_throughput_are_those_of_its_outcomes():
    load = make_workload("steady", 20, 3, seed=1)
    run = simulate(ADAPTIVE, load)
    chart = figures.fleet_run([("adaptive", run), ("FIFO", simulate(FIFO, load))], "A run")
    waits = [
        (outcome.first_token_us - request.arrival_us) / 1000
        for request, outcome in zip(load.requests, run.outcomes, strict=True)
    ]
    assert [ms for ms, _ in points(chart, "adaptive")] == sorted(waits)
    rolling = [(each.at_us / 1e6, each.rolling.throughput_tokens_per_s) for each in run.samples]
    assert points(chart, "adaptive", 1) == rolling


def test_the_recorded_rounds_of_every_arm_are_drawn():
    chart = l06_ranks.arms_chart()
    assert len(chart.names()) == 5
    tried = l06_ranks.recording()["experiment"]["tried"]
    urgent = [each["urgent_us"] / 1000 for each in tried if each["arm"] == "no preemption"]
    assert [ms for ms, _ in points(chart, "no preemption")] == sorted(urgent)


# ---- saved by the commands -----------------------------------------------------------------------


def test_a_fleet_is_drawn_beside_its_table(tmp_path, capsys):
    file = tmp_path / "run.svg"
    assert fleet(["--duration", "2", "--compare-fifo", "--plot", str(file)]) == 0
    drawn = file.read_text()
    assert "Throughput" in capsys.readouterr().out
    assert {f">{name}</text>" in drawn for name in ("adaptive", "FIFO", "TTFT (ms)")} == {True}
    assert "modelled" in drawn


def test_seeds_are_drawn_in_pairs_and_the_record_stays_as_it_was(tmp_path, capsys):
    file = tmp_path / "seeds.png"
    command = ["--duration", "2", "--repeats", "2", "--jobs", "1", "--json", "--plot", str(file)]
    assert fleet(command) == 0
    assert file.read_bytes().startswith(PNG)
    assert not {"json", "plot"} & set(json.loads(capsys.readouterr().out)["arguments"])


def test_the_ladder_and_a_fit_are_drawn(tmp_path, capsys):
    ladder, sweep, fit = (tmp_path / name for name in ("ladder.png", "sweep.csv", "fit.svg"))
    command = ["--rates", "2", "--trials", "2", "--seconds", "10", "--jobs", "1"]
    assert slo([*command, "--plot", str(ladder)]) == 0
    assert ladder.read_bytes().startswith(PNG)
    sweep.write_text("100,900\n200,1300\n400,2500\n")
    assert slo(["fit", str(sweep), "--plot", str(fit)]) == 0
    assert ">a line</text>" in fit.read_text()
    assert "R^2" in capsys.readouterr().out


@pytest.mark.parametrize("main", [fleet, slo])
@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("run.pdf", "'run.pdf' does not end in .png or .svg"),
        ("run", "'run' does not end in .png or .svg"),
        ("nowhere/run.png", "there is no folder 'nowhere'"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_run(main, file, sentence, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--plot", file])
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith(f"error: argument --plot: {sentence}\n")


def test_a_disk_that_refuses_is_said_after_the_run(tmp_path, capsys):
    taken = tmp_path / "taken.png"
    taken.mkdir()
    assert fleet(["--duration", "1", "--plot", str(taken)]) == 1
    assert capsys.readouterr().err.endswith(f"{taken} was not drawn: Is a directory.\n")

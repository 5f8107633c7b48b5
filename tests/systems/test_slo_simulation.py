"""The simulation of SLO-aware prefill: runs by hand, invariants on random loads, the ladder."""

import csv
import dataclasses
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from launching import children, running
from support import ROOT

from nanogpt.experiments.pool import run_jobs
from nanogpt.experiments.slo_table import Trial, cells, estimate, render, run_trial
from nanogpt.slo.__main__ import main
from nanogpt.slo.load import (
    LONGEST_TOKENS,
    MEAN_TOKENS,
    POST_COST,
    SHORTEST_TOKENS,
    Arrival,
    two_tier_load,
)
from nanogpt.slo.policy import gate, predict
from nanogpt.slo.prefill_simulation import TOKEN_BUDGET, simulate
from nanogpt.slo.slo_parts import SloParts
from nanogpt.slo.slo_record import PassRecord, Run, Variant
from nanogpt.slo.variants import (
    BATCHED,
    BATCHED_AGGRESSIVE,
    BATCHED_WITHOUT_RULE_1,
    CONTROL,
    FORK,
    LADDER,
    ORDER,
    PROGRESS,
    ROUND_COST,
    SEEN,
    SUSPENDED,
    UNPREEMPTED,
    WITHOUT_A_RULE,
    doomed_pair,
    dragged_along,
    starved,
)
from nanogpt.validate import PartError

SOME = examples(25)


def stretches(run: Run) -> list[tuple[int, int, tuple[int, ...], str]]:
    """Each pass in milliseconds: start, end, who, how it ended."""
    return [
        (each.start_us // 1000, each.end_us // 1000, each.ids, each.ending) for each in run.passes
    ]


# ---------------------------------------------------------------- the load


def test_the_same_seed_gives_the_same_load_and_another_one_another():
    assert two_tier_load(3, 4, 30) == two_tier_load(3, 4.0, 30)
    assert two_tier_load(3, 4, 30) != two_tier_load(4, 4, 30)


def test_the_load_is_what_it_says():
    load = [each for seed in range(8) for each in two_tier_load(seed, 10, 120)]
    assert len(load) == pytest.approx(8 * 1200, rel=0.03)
    assert statistics.fmean(each.tokens for each in load) == pytest.approx(MEAN_TOKENS, rel=0.03)
    assert all(SHORTEST_TOKENS <= each.tokens <= LONGEST_TOKENS for each in load)
    assert statistics.fmean(each.urgent for each in load) == pytest.approx(0.2, abs=0.02)
    for each in load:
        factor = each.slo_us / predict(each.tokens, POST_COST.a_us, POST_COST.c_us)
        low, high = (1, 1.3) if each.urgent else (3, 10)
        assert low - 1e-4 <= factor <= high + 1e-4


@pytest.mark.parametrize(("rate", "seconds"), [(0, 9), (-1, 9), (4, 0), (float("nan"), 9)])
def test_a_load_of_nothing_is_refused(rate: float, seconds: float):
    with pytest.raises(ValueError, match="must be a number above 0"):
        two_tier_load(0, rate, seconds)


@pytest.mark.parametrize(
    ("load", "message"),
    [
        ([Arrival(0, 0, 0, True, 5)], "request 0 has 0 tokens"),
        ([Arrival(0, -1, 3, True, 5)], "arrives at -1 us"),
        ([Arrival(0, 5, 3, True, 5), Arrival(1, 4, 3, True, 5)], "request 1 .* follows request 0"),
        ([Arrival(1, 5, 3, True, 5), Arrival(1, 5, 3, True, 5)], "ids that rise"),
    ],
)
def test_a_load_that_cannot_be_run_is_refused(load: list[Arrival], message: str):
    with pytest.raises(ValueError, match=message):
        simulate(load, CONTROL)


def test_nobody_arriving_is_an_empty_run():
    run = simulate([], SUSPENDED)
    assert (run.passes, run.results, run.attainment(urgent=True)) == ((), (), None)
    assert run.wasted_share == 0


# ---------------------------------------------------------------- by hand


def urgent_in_mid_pass() -> list[Arrival]:
    """A generous prompt of 210 ms; 53 ms into it an urgent one of 30 ms, to be done in 60."""
    return [
        Arrival(0, 0, 2000, urgent=False, slo_us=1_000_000),
        Arrival(1, 53_000, 200, urgent=True, slo_us=60_000),
    ]


@pytest.mark.parametrize("variant", [CONTROL, ORDER, FORK, UNPREEMPTED], ids=lambda v: v.name)
def test_who_cannot_see_or_cannot_preempt_finishes_first(variant: Variant):
    run = simulate(urgent_in_mid_pass(), variant, ROUND_COST)
    assert stretches(run) == [(0, 210, (0,), "finished"), (210, 240, (1,), "finished")]
    assert [each.attained for each in run.results] == [True, False]


def test_aborting_leaves_at_the_next_layer_and_computes_everything_again():
    run = simulate(urgent_in_mid_pass(), BATCHED, ROUND_COST)
    assert stretches(run) == [
        (0, 63, (0,), "aborted"),  # a layer takes 21 ms; seen at 53, left before layer 3
        (63, 93, (1,), "finished"),
        (93, 303, (0,), "finished"),
    ]
    (decision,) = run.decisions
    assert (decision.time_us, decision.left_us, decision.layer) == (53_000, 63_000, 3)
    assert (decision.victim, decision.others, decision.refused) == (0, (), False)
    assert decision.waiter.slack_us == 30_000
    assert decision.runners[0].slack_us == 1_000_000 - 53_000 - (2000 - 530) * 100 - 10_000
    assert run.wasted_share == pytest.approx(63 / 303)
    assert [each.attained for each in run.results] == [True, True]


def test_suspending_keeps_what_is_computed():
    run = simulate(urgent_in_mid_pass(), SUSPENDED, ROUND_COST)
    assert stretches(run) == [
        (0, 63, (0,), "suspended"),
        (63, 93, (1,), "finished"),
        (93, 240, (0,), "finished"),
    ]
    assert [each.layers for each in run.passes] == [(0, 3), (0, 10), (3, 10)]
    assert run.wasted_share == 0


def test_past_nine_tenths_of_the_layers_a_pass_is_let_finish():
    load = [
        Arrival(0, 0, 2000, urgent=False, slo_us=1_000_000),
        Arrival(1, 190_000, 200, urgent=True, slo_us=60_000),
    ]
    run = simulate(load, SUSPENDED, ROUND_COST)
    assert [(each.refused, each.layer) for each in run.decisions] == [(True, 10)]
    assert stretches(run)[0] == (0, 210, (0,), "finished")
    assert run.num_preemptions == 0
    at_nine = [load[0], dataclasses.replace(load[1], arrival_us=189_000)]
    assert simulate(at_nine, SUSPENDED, ROUND_COST).num_preemptions == 1


def test_a_runner_whose_progress_is_ignored_is_doomed_though_it_would_make_it():
    """100 ms into a pass of 210 ms, due at 250: 40 ms to spare, or 60 too few, as one counts."""
    load = [
        Arrival(0, 0, 2000, urgent=True, slo_us=250_000),
        Arrival(1, 100_000, 200, urgent=False, slo_us=900_000),
    ]
    ignorant = dataclasses.replace(BATCHED, counts_progress=False)
    run = simulate(load, ignorant, ROUND_COST)
    assert run.decisions[0].runners[0].slack_us == -60_000
    assert not run.result(0).attained
    assert simulate(load, BATCHED, ROUND_COST).result(0).attained


def test_without_rule_1_a_long_prompt_is_thrown_back_for_as_long_as_urgent_ones_come():
    for num_urgent in (5, 40):
        run = simulate(starved(num_urgent), BATCHED_WITHOUT_RULE_1, ROUND_COST)
        aborted = [each for each in run.passes if each.ending == "aborted"]
        assert [each.ids for each in aborted] == [(0,)] * num_urgent
        assert all(each.attained for each in run.results[1:])
        assert run.passes[-1].ids == (0,)  # only when no request comes any more
    assert run.wasted_share > 0.8
    assert not run.result(0).attained


def test_with_rule_1_it_is_thrown_back_once():
    run = simulate(starved(40), BATCHED, ROUND_COST)
    assert [each.ids for each in run.passes if each.ending == "aborted"] == [(0,)]
    assert run.result(0) == dataclasses.replace(run.result(0), attained=True, num_preemptions=1)
    missed = [each.id for each in run.results if not each.attained]
    assert missed == [2]  # the price: the one who came while the immune prompt ran


def unsigned_gate(waiter: Any, runners: Any, margin: float, mode: str) -> int | None:
    """The original formula, blind to signs."""
    fair = [each for each in runners if each.num_preemptions == 0]
    if fair and waiter.urgency > max(each.urgency for each in fair) * margin:
        return min(fair, key=lambda each: each.urgency).id
    return None


def test_two_doomed_requests_under_a_gate_without_signs_never_get_anywhere():
    parts = SloParts(gate=unsigned_gate)
    run = simulate(doomed_pair(), BATCHED_WITHOUT_RULE_1, ROUND_COST, parts)
    until_somebody_comes = [each for each in run.passes if each.end_us < 10_000_000]
    assert {each.ending for each in until_somebody_comes} == {"aborted"}
    assert len(until_somebody_comes) > 800
    with_rule_1 = simulate(doomed_pair(), BATCHED, ROUND_COST, parts)
    assert with_rule_1.num_preemptions <= 2
    assert simulate(doomed_pair(), BATCHED_WITHOUT_RULE_1, ROUND_COST).num_preemptions == 0


def test_the_aggressive_gate_drags_an_urgent_request_along():
    conservative = simulate(dragged_along(), BATCHED, ROUND_COST)
    assert conservative.decisions == ()
    assert [each.attained for each in conservative.results] == [True, True, False]
    aggressive = simulate(dragged_along(), BATCHED_AGGRESSIVE, ROUND_COST)
    (decision,) = aggressive.decisions
    assert (decision.victim, decision.others) == (1, (0,))
    assert [each.attained for each in aggressive.results] == [False, True, True]
    assert aggressive.wasted_share > 0


def test_a_suspended_pass_sleeps_no_longer_than_its_bound():
    """Urgent requests without a gap between them: after three times 410 ms it is its turn."""
    urgent = (
        Arrival(number, 30_000 * number, 200, urgent=True, slo_us=70_000)
        for number in range(1, 200)
    )
    load = [Arrival(0, 0, 4000, urgent=False, slo_us=9_000_000), *urgent]
    run = simulate(load, SUSPENDED, ROUND_COST)
    own = [each for each in run.passes if each.ids == (0,)]
    slept_us = sum(late.start_us - early.end_us for early, late in pairwise(own))
    assert 3 * 410_000 <= slept_us <= 3 * 410_000 + 60_000
    assert own[-1].ending == "finished"


def test_nobody_is_preempted_while_a_suspended_pass_has_slept_enough():
    load = [
        Arrival(0, 0, 500, urgent=False, slo_us=900_000),  # 60 ms; it may sleep for 180
        Arrival(1, 10_000, 2000, urgent=True, slo_us=240_000),
        Arrival(2, 195_000, 20, urgent=True, slo_us=20_000),
    ]
    run = simulate(load, SUSPENDED, ROUND_COST)
    assert stretches(run) == [
        (0, 12, (0,), "suspended"),
        (12, 222, (1,), "finished"),  # 2 would have had 8 ms to spare, and 1 has 28
        (222, 270, (0,), "finished"),
        (270, 282, (2,), "finished"),
    ]
    earlier = [load[0], load[1], dataclasses.replace(load[2], arrival_us=185_000)]
    assert simulate(earlier, SUSPENDED, ROUND_COST).passes[2].ids == (2,)


def test_a_chosen_waiter_doomed_by_the_wait_for_a_layer_goes_next_and_gives_its_slot_back():
    load = urgent_in_mid_pass()
    load[1] = dataclasses.replace(load[1], slo_us=35_000)  # 5 ms to spare, 10 to the next layer
    run = simulate(load, SUSPENDED, ROUND_COST)
    assert stretches(run) == [
        (0, 63, (0,), "suspended"),
        (63, 66, (1,), "suspended"),  # at the first look, one layer long
        (66, 213, (0,), "finished"),
        (213, 240, (1,), "finished"),
    ]


# ---------------------------------------------------------------- invariants


@st.composite
def loads(draw: st.DrawFn) -> list[Arrival]:
    """Up to twelve requests, close together, of all lengths and promises."""
    now_us, load = 0, list[Arrival]()
    for request_id in range(draw(st.integers(1, 12))):
        now_us += draw(st.integers(0, 150_000))
        tokens = draw(st.sampled_from([1, 50, 300, 1000, 2500, 9500]))
        factor = draw(st.floats(0.5, 8))
        slo_us = round(factor * predict(tokens, ROUND_COST.a_us, ROUND_COST.c_us))
        load.append(Arrival(request_id, now_us, tokens, factor < 2, slo_us))
    return load


def check_run(run: Run) -> None:
    arrivals = {each.id: each for each in run.arrivals}
    for early, late in pairwise(run.passes):
        assert early.end_us <= late.start_us
        if early.end_us < late.start_us:  # idle: no request was there
            begun = {each for p in run.passes if p.end_us <= early.end_us for each in p.ids}
            assert all(
                each.id in begun or each.arrival_us >= late.start_us for each in run.arrivals
            )
    finished = [each for p in run.passes if p.ending == "finished" for each in p.ids]
    assert max(Counter(finished).values(), default=0) <= 1
    for each in run.passes:
        assert all(arrivals[one].arrival_us <= each.start_us for one in each.ids)
        assert each.tokens == sum(arrivals[one].tokens for one in each.ids)
        bound = 2048 if run.variant.batching == "slo" else TOKEN_BUDGET
        assert each.tokens <= bound or len(each.ids) == 1
    check_computing(run)
    for result in run.results:
        done = [p.end_us for p in run.passes if p.ending == "finished" and result.id in p.ids]
        assert [result.first_token_us] == (done or [None])
        assert result.attained == bool(done and done[0] <= arrivals[result.id].deadline_us)
        left = [p for p in run.passes if result.id in p.ids and p.ending != "finished"]
        assert result.num_preemptions == len(left)
    for decision in run.decisions:
        assert decision.refused == (decision.layer > 9)
        assert decision.time_us <= decision.left_us
        assert decision.victim in {runner.id for runner in decision.runners}
        assert not decision.waiter.is_doomed
        if run.variant.rule_1:
            victim = next(each for each in decision.runners if each.id == decision.victim)
            assert victim.num_preemptions == 0


def check_computing(run: Run) -> None:
    """A pass that ends has computed exactly its time, over all of its stretches."""
    kept: dict[tuple[int, ...], list[PassRecord]] = {}
    for each in run.passes:
        before = kept.pop(each.ids, [])
        assert each.layers[0] == (before[-1].layers[1] if before else 0)
        if each.ending == "suspended":
            kept[each.ids] = [*before, each]
        if each.ending == "finished":
            spent_us = sum(stretch.duration_us for stretch in [*before, each])
            assert spent_us == predict(each.tokens, ROUND_COST.a_us, ROUND_COST.c_us)


@pytest.mark.parametrize("variant", [*LADDER, *WITHOUT_A_RULE], ids=lambda v: v.name)
@SOME
@given(loads())
def test_every_variant_keeps_the_books(variant: Variant, load: list[Arrival]):
    run = simulate(load, variant, ROUND_COST)
    check_run(run)
    assert simulate(load, variant, ROUND_COST).to_json() == run.to_json()


@pytest.mark.parametrize("variant", [SEEN, BATCHED, BATCHED_AGGRESSIVE, SUSPENDED])
@SOME
@given(loads())
def test_looking_at_every_waiter_comes_to_the_same(variant: Variant, load: list[Arrival]):
    """The reference policy is asked about one waiter only; a learner's about all of them."""
    mine = SloParts(gate=lambda *arguments: gate(*arguments))
    assert simulate(load[:7], variant, ROUND_COST, mine) == simulate(load[:7], variant, ROUND_COST)


def test_a_part_that_fails_ends_the_run_with_its_sentence():
    with pytest.raises(PartError, match="your gate named 77"):
        simulate(urgent_in_mid_pass(), BATCHED, ROUND_COST, SloParts(gate=lambda *_: 77))


def test_the_record_is_plain_json():
    run = simulate(two_tier_load(0, 6, 10), BATCHED)
    record = json.loads(run.to_json())
    assert record["version"] == 1
    assert record["variant"]["name"] == "batched" and record["cost"]["modelled"]
    assert len(record["arrivals"]) == len(record["results"]) == len(run.arrivals)
    assert record["decisions"][0]["waiter"]["slack_us"] == run.decisions[0].waiter.slack_us
    with pytest.raises(KeyError):
        run.result(10**6)


# ---------------------------------------------------------------- the ladder


@cache
def attained(variant: Variant, rate: float) -> tuple[float, float]:
    """Urgent and generous attainment in percent, over the same three loads of 60 s."""
    trials = [run_trial(variant, rate, seed, 60) for seed in range(3)]
    return (
        statistics.fmean(trial.urgent or 0 for trial in trials),
        statistics.fmean(trial.generous or 0 for trial in trials),
    )


@pytest.mark.parametrize("rate", [4, 6])
def test_preemption_that_cannot_see_arrivals_changes_nothing(rate: float):
    """The published null result, and next to no preemption."""
    assert attained(FORK, rate) == pytest.approx(attained(CONTROL, rate), abs=0.5)
    assert attained(ORDER, rate) == pytest.approx(attained(CONTROL, rate), abs=0.5)
    assert sum(run_trial(FORK, rate, seed, 60).num_preemptions for seed in range(3)) <= 2


def test_arrival_order_comes_near_what_was_published():
    assert attained(CONTROL, 4) == pytest.approx((42, 95), abs=7)  # 38/94
    assert attained(CONTROL, 6) == pytest.approx((20, 79), abs=7)  # 18/79


@pytest.mark.process
def test_the_repairs_work_only_together():
    control, seen, progress, batched, suspended = (
        attained(variant, 4) for variant in (CONTROL, SEEN, PROGRESS, BATCHED, SUSPENDED)
    )
    assert seen[0] < 12 and seen[1] < 25  # seeing the arrivals is a disaster
    assert progress[0] < 20 and progress[1] < 30  # and counting progress hardly a cure
    assert 68 < batched[0] < 88 and batched[1] > 95
    assert batched[0] > control[0] + 20
    assert suspended[0] > batched[0] + 4 and suspended[1] > 97


def test_the_batches_alone_save_the_generous_and_not_the_urgent():
    assert attained(UNPREEMPTED, 6)[0] < attained(CONTROL, 6)[0] + 10
    assert attained(UNPREEMPTED, 6)[1] > attained(CONTROL, 6)[1] + 10
    assert attained(BATCHED, 6)[0] > attained(UNPREEMPTED, 6)[0] + 20


def test_the_disaster_is_wasted_work():
    assert run_trial(SEEN, 4, 0, 60).wasted_percent > 60
    assert run_trial(BATCHED, 4, 0, 60).wasted_percent < 20
    assert run_trial(SUSPENDED, 4, 0, 60).wasted_percent == 0


# ---------------------------------------------------------------- the table


def trial(variant: str, seed: int, urgent: float | None, rate: float = 4) -> Trial:
    return Trial(variant, rate, seed, urgent, 90.0, 3, 10.0)


def test_differences_are_taken_seed_by_seed():
    """The seeds differ by 40 points, the variants by 10 on every one of them."""
    trials = [trial("control", seed, 40.0 * seed) for seed in range(3)]
    trials += [trial("order", seed, 40.0 * seed + 10) for seed in (2, 0, 1)]
    table = {cell.variant: cell for cell in cells(trials)}
    gain = table["order"].urgent_gain
    assert gain is not None and (gain.mean, gain.half_width) == (10, 0)
    own = table["order"].urgent
    assert own is not None and own.mean == 50
    assert own.half_width == pytest.approx(4.303 * 40 / 3**0.5, abs=0.01)


def test_an_interval_by_hand_and_none_from_a_single_value():
    two = estimate([1.0, 3.0])
    assert two is not None and two.mean == 2
    assert two.half_width == pytest.approx(12.706, abs=5e-4)
    one = estimate([5.0])
    assert one is not None and (one.mean, one.half_width) == (5, None)
    assert estimate([]) is None


def test_what_is_missing_is_a_dash_and_the_rest_stands():
    text = render(cells([trial("control", 0, None), trial("control", 1, 50.0, rate=6)]))
    rows = {line[: line.index("  ")]: line.split() for line in text.splitlines() if "  " in line}
    assert rows["most urgent first"][-2:] == ["-", "-"]
    first = next(line for line in text.splitlines() if line.startswith("arrival order"))
    assert first.split()[-2:] == ["-/90", "50/90"]


def test_processes_give_the_same_trials_as_none():
    jobs = [(variant, 4, seed, 10) for variant in (CONTROL, SUSPENDED) for seed in range(2)]
    alone = list(run_jobs(run_trial, jobs, 1))
    shared = list(run_jobs(run_trial, jobs, 2))
    assert sorted(map(repr, shared)) == sorted(map(repr, alone))
    assert alone[0] == run_trial(CONTROL, 4, 0, 10)


# ---------------------------------------------------------------- the command


QUICK = ["--rates", "4", "--trials", "2", "--seconds", "10", "--jobs", "1"]


def test_the_command_writes_the_same_table_every_time(capsys: pytest.CaptureFixture[str]):
    assert main(QUICK) == 0
    first = capsys.readouterr()
    assert main(QUICK) == 0
    assert capsys.readouterr().out == first.out
    assert "Modelled: Llama-3.3-70B" in first.out
    for variant in (*LADDER, *WITHOUT_A_RULE):
        assert first.out.count(variant.title) == 4
    assert "20 of 20 runs" in first.err


def test_differences_within_their_intervals_are_counted_below_the_table(
    capsys: pytest.CaptureFixture[str],
):
    assert main(QUICK) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.match(r"In \d of 9 differences of urgent attainment the interval is wider", last)
    assert "2 seeds do not show whether there is one. More do (--trials)." in last


def test_the_help_says_every_limit_and_default(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["--help"])
    out = " ".join(capsys.readouterr().out.split())
    for words in (
        "(different ones, 0.1 to 50; default 2,4,6,8,10)", "(2 to 20; default 5)",
        "(10 to 3600; default 120)", "(0 to 1000000000; default 0)",
    ):  # fmt: skip
        assert words in out


def test_the_command_writes_json(capsys: pytest.CaptureFixture[str]):
    assert main([*QUICK, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["runs"] == [20, 20] and record["seeds"] == [0, 1] and record["modelled"]
    assert [cell["variant"] for cell in record["cells"]][:2] == ["control", "order"]
    assert record["cells"][0]["urgent_gain"] == {"mean": 0, "half_width": 0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rates", "4,x"], "'4,x' is not a list of different rates from 0.1 to 50"),
        (["--rates", "4,4"], "'4,4' is not a list of different rates"),
        (["--rates", "nan"], "'nan' is not a list"),
        (["--rates", ""], "'' is not a list"),
        (["--trials", "1"], "'1' is not a whole number from 2 to 20"),
        (["--seconds", "9.5"], "'9.5' is not a whole number from 10 to 3600"),
        (["--seed", "-1"], "'-1' is not a whole number from 0"),
        (["--jobs", "0"], "'0' is not a whole number from 1 to 64"),
        (["--trial=3"], "unrecognized arguments: --trial=3"),
        (["nonsense"], "argument command: invalid choice: 'nonsense'"),
        (["fit", "not/there.csv"], "not/there.csv cannot be read: No such file or directory"),
        (["fit", "."], ". cannot be read: Is a directory"),
    ],
)
def test_a_bad_argument_is_refused_with_its_limits(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    assert message in capsys.readouterr().err


def test_the_command_fits_a_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "sweep.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [("tokens", "us"), *((n, 173 * n + 34_133) for n in range(1, 9))]
        )
    assert main(["fit", str(path)]) == 0
    assert capsys.readouterr().out == (
        "predicted TTFT = 34133 us + 173 us per token   (R^2 = 1.0000)\n"
    )
    assert main(["fit", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "coefficients": [34_133.0, 173.0], "r_squared": 1.0,
    }  # fmt: skip
    path.write_text("1,2\n")
    with pytest.raises(SystemExit):
        main(["fit", str(path), "--cubic"])
    assert "of degree 3 needs 4 different prompt lengths" in capsys.readouterr().err


def test_ctrl_c_writes_what_there_is_and_leaves_no_process():
    command = [sys.executable, "-m", "nanogpt.slo", "--seconds", "3600", "--jobs", "2"]
    process = subprocess.Popen(
        [*command, "--rates", "2,4"], cwd=ROOT, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        until = time.monotonic() + 60
        while len(children(process.pid)) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        started = children(process.pid)
        time.sleep(1)
        os.killpg(process.pid, signal.SIGINT)  # what a terminal does
        out, err = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert err.splitlines()[-1].endswith("of 100 runs.")
    assert "Attainment in percent" in out
    until = time.monotonic() + 60
    while running(started) and time.monotonic() < until:
        time.sleep(0.05)
    assert not running(started)

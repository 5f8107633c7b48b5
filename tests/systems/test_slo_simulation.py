"""SLO-aware prefill: simulated by hand and on random loads, the ladder, the policy's pieces."""

import csv
import dataclasses
import json
import math
import statistics
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import tiers
from hypothesis import given
from hypothesis import strategies as st
from support import call

from nanogpt.experiments.slo_table import run_trial
from nanogpt.slo import variants
from nanogpt.slo.load import LONGEST_TOKENS, POST_COST, SHORTEST_TOKENS, Arrival, two_tier_load
from nanogpt.slo.policy import done_in, edf_score, predict, select_victim, slack, slo_batch
from nanogpt.slo.predictor import fit_polynomial, fit_ttft, read_sweep
from nanogpt.slo.prefill_simulation import TOKEN_BUDGET, simulate
from nanogpt.slo.slo_policies import SloPolicies, validated_slo_policies
from nanogpt.slo.slo_record import PassRecord, Run, Variant
from nanogpt.validate import PolicyError
from nanogpt.views.slo_view import SloRequest, SloView


def stretches(run: Run) -> list[tuple[int, int, tuple[int, ...], str]]:
    """Each pass in milliseconds: start, end, who, how it ended."""
    return [
        (each.start_us // 1000, each.end_us // 1000, each.ids, each.ending) for each in run.passes
    ]


# --- the load -------------------------------------------------------------------------------------


def test_the_load_is_what_it_says():
    assert two_tier_load(3, 4, 30) == two_tier_load(3, 4.0, 30) != two_tier_load(4, 4, 30)
    load = [each for seed in range(8) for each in two_tier_load(seed, 10, 120)]
    assert len(load) == pytest.approx(8 * 1200, rel=0.03)
    assert statistics.fmean(each.tokens for each in load) == pytest.approx(675, rel=0.03)
    assert all(SHORTEST_TOKENS <= each.tokens <= LONGEST_TOKENS for each in load)
    assert statistics.fmean(each.urgent for each in load) == pytest.approx(0.2, abs=0.02)
    for each in load:
        factor = each.slo_us / (POST_COST.pass_us(each.tokens) + POST_COST.request_us)
        low, high = (1, 1.3) if each.urgent else (3, 10)
        assert low - 1e-4 <= factor <= high + 1e-4


# --- by hand --------------------------------------------------------------------------------------


def test_a_load_that_cannot_be_run_is_refused():
    late_first = [Arrival(0, 5, 3, True, 5), Arrival(1, 4, 3, True, 5)]
    with pytest.raises(ValueError, match=r"request 1 .* follows request 0"):
        simulate(late_first, variants.CONTROL)
    with pytest.raises(ValueError, match="request 0: tokens is 0; it must be at least 1"):
        simulate([Arrival(0, 0, 0, True, 5)], variants.CONTROL)
    with pytest.raises(ValueError, match="the rate is 0; it must be above 0"):
        two_tier_load(0, 0, 9)
    empty = simulate([], variants.SUSPENDED)
    assert (empty.passes, empty.results, empty.attainment(urgent=True)) == ((), (), None)
    assert empty.wasted_share == 0


def urgent_in_mid_pass() -> list[Arrival]:
    """A generous prompt of 210 ms; 53 ms into it an urgent one of 30 ms, to be done in 60."""
    return [
        Arrival(0, 0, 2000, urgent=False, slo_us=1_000_000),
        Arrival(1, 53_000, 200, urgent=True, slo_us=60_000),
    ]


@pytest.mark.parametrize(
    "variant",
    [variants.CONTROL, variants.ORDER, variants.FORK, variants.UNPREEMPTED],
    ids=lambda v: v.name,
)
def test_who_cannot_see_or_cannot_preempt_finishes_first(variant: Variant):
    run = simulate(urgent_in_mid_pass(), variant, variants.ROUND_COST)
    assert stretches(run) == [(0, 210, (0,), "finished"), (210, 240, (1,), "finished")]
    assert [each.attained for each in run.results] == [True, False]


def test_aborting_computes_everything_again_and_suspending_keeps_what_is_computed():
    run = simulate(urgent_in_mid_pass(), variants.BATCHED, variants.ROUND_COST)
    assert stretches(run) == [
        (0, 63, (0,), "aborted"),  # a layer takes 21 ms; seen at 53, left before layer 3
        (63, 93, (1,), "finished"),
        (93, 303, (0,), "finished"),
    ]
    (decision,) = run.decisions
    assert (decision.time_us, decision.left_us, decision.layer) == (53_000, 63_000, 3)
    assert (decision.victim, decision.others, decision.refused) == (0, (), False)
    assert decision.candidate.slack_us == 30_000
    assert decision.runners[0].slack_us == 1_000_000 - 53_000 - (2000 - 530) * 100 - 10_000
    assert run.wasted_share == pytest.approx(63 / 303)
    late = [urgent_in_mid_pass()[0], Arrival(1, 190_000, 200, urgent=True, slo_us=60_000)]
    refused = simulate(late, variants.SUSPENDED, variants.ROUND_COST)  # past nine tenths
    assert [(each.refused, each.layer) for each in refused.decisions] == [(True, 10)]
    assert refused.num_preemptions == 0
    assert [each.attained for each in run.results] == [True, True]
    suspended = simulate(urgent_in_mid_pass(), variants.SUSPENDED, variants.ROUND_COST)
    assert stretches(suspended) == [
        (0, 63, (0,), "suspended"),
        (63, 93, (1,), "finished"),
        (93, 240, (0,), "finished"),
    ]
    assert [each.layers for each in suspended.passes] == [(0, 3), (0, 10), (3, 10)]
    assert suspended.wasted_share == 0


def test_without_rule_1_a_long_prompt_is_thrown_back_for_as_long_as_urgent_ones_come():
    for num_urgent in (5, 40):
        run = simulate(
            variants.starved(num_urgent), variants.BATCHED_WITHOUT_RULE_1, variants.ROUND_COST
        )
        aborted = [each for each in run.passes if each.ending == "aborted"]
        assert [each.ids for each in aborted] == [(0,)] * num_urgent
        assert all(each.attained for each in run.results[1:])
        assert run.passes[-1].ids == (0,)  # only when no request comes any more
    assert run.wasted_share > 0.8
    assert not run.results[0].attained
    run = simulate(
        variants.starved(40), variants.BATCHED, variants.ROUND_COST
    )  # with rule 1 it is thrown back once
    assert [each.ids for each in run.passes if each.ending == "aborted"] == [(0,)]
    assert run.results[0] == dataclasses.replace(run.results[0], attained=True, num_preemptions=1)
    missed = [each.id for each in run.results if not each.attained]
    assert missed == [2]  # the price: the one who came while the immune prompt ran


def test_a_suspended_pass_sleeps_no_longer_than_its_bound():
    """Urgent requests without a gap between them: after three times 410 ms it is its turn."""
    urgent = (
        Arrival(number, 30_000 * number, 200, urgent=True, slo_us=70_000)
        for number in range(1, 200)
    )
    load = [Arrival(0, 0, 4000, urgent=False, slo_us=9_000_000), *urgent]
    run = simulate(load, variants.SUSPENDED, variants.ROUND_COST)
    own = [each for each in run.passes if each.ids == (0,)]
    slept_us = sum(late.start_us - early.end_us for early, late in pairwise(own))
    assert 3 * 410_000 <= slept_us <= 3 * 410_000 + 60_000
    assert own[-1].ending == "finished"


# --- invariants -----------------------------------------------------------------------------------


@st.composite
def loads(draw: st.DrawFn) -> list[Arrival]:
    """Up to twelve requests, close together, of all lengths and promises."""
    now_us, load = 0, list[Arrival]()
    for request_id in range(draw(st.integers(1, 12))):
        now_us += draw(st.integers(0, 150_000))
        tokens = draw(st.sampled_from([1, 50, 300, 1000, 2500, 9500]))
        factor = draw(st.floats(0.5, 8))
        slo_us = round(factor * predict(tokens, variants.ROUND_COST.a_us, variants.ROUND_COST.c_us))
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
        assert not decision.candidate.is_doomed
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
            assert spent_us == predict(
                each.tokens, variants.ROUND_COST.a_us, variants.ROUND_COST.c_us
            )


@pytest.mark.parametrize(
    "variant", [*variants.LADDER, variants.BATCHED_WITHOUT_RULE_1], ids=lambda v: v.name
)
@tiers.examples(0.25)
@given(loads())
def test_every_variant_keeps_the_books(variant: Variant, load: list[Arrival]):
    run = simulate(load, variant, variants.ROUND_COST)
    check_run(run)
    assert simulate(load, variant, variants.ROUND_COST) == run


# --- the ladder -----------------------------------------------------------------------------------


def test_the_post_s_cost_is_its_line_above_the_floor():
    assert (POST_COST.a_us, POST_COST.c_us) == (173.046, 34_133)
    for tokens in (98, 242, 7986):
        cost_us = max(17_000, tokens * 173.046) + 34_133
        assert POST_COST.pass_us(tokens) + POST_COST.request_us == pytest.approx(cost_us, abs=1)
    (result,) = simulate([Arrival(0, 0, 1000, True, 10**6)], variants.CONTROL).results
    assert result.first_token_us == pytest.approx(173_046 + 34_133, abs=1)


@cache
def attained(variant: Variant, rate: float, request_us: int) -> tuple[float, float]:
    """Urgent and generous attainment in percent, over the same three loads of 60 s."""
    model = dataclasses.replace(POST_COST.model, fixed_us=POST_COST.c_us - request_us)
    cost = dataclasses.replace(POST_COST, model=model, request_us=request_us)
    runs = [simulate(two_tier_load(seed, rate, 60, cost), variant, cost) for seed in range(3)]
    urgent, generous = (
        statistics.fmean(100 * (run.attainment(urgent=each) or 0) for run in runs)
        for each in (True, False)
    )
    return urgent, generous


def dragged_along() -> tuple[Arrival, ...]:
    """Two requests share a pass when a third arrives, far more urgent than request 1 only."""
    return (
        Arrival(0, 0, 800, urgent=True, slo_us=200_000),
        Arrival(1, 0, 700, urgent=False, slo_us=1_000_000),
        Arrival(2, 100_000, 300, urgent=True, slo_us=95_000),
    )


def test_the_disaster_is_wasted_work():
    assert run_trial(variants.SEEN, 4, 0, 30).wasted_percent > 60
    assert run_trial(variants.BATCHED, 4, 0, 30).wasted_percent < 20
    assert run_trial(variants.SUSPENDED, 4, 0, 30).wasted_percent == 0
    assert simulate(dragged_along(), variants.BATCHED, variants.ROUND_COST).decisions == ()


@pytest.mark.nightly
@pytest.mark.parametrize("request_us", [0, POST_COST.request_us, POST_COST.c_us])
def test_the_repairs_work_only_together(request_us: int):
    """Whatever part of the line's constant belongs to the request and not to the pass."""
    for blind in (variants.FORK, variants.ORDER):  # the published null result
        null = attained(variants.CONTROL, 4, request_us)
        assert attained(blind, 4, request_us) == pytest.approx(null, abs=0.5)
    control, seen, progress, batched, suspended = (
        attained(variant, 4, request_us)
        for variant in (
            variants.CONTROL,
            variants.SEEN,
            variants.PROGRESS,
            variants.BATCHED,
            variants.SUSPENDED,
        )
    )
    for disaster in (seen, progress):  # seeing the arrivals; counting progress is hardly a cure
        assert 2 * disaster[0] < control[0] and 2 * disaster[1] < control[1]
    assert 68 < batched[0] < 88 and batched[1] > 95
    assert batched[0] > control[0] + 20
    assert suspended[0] > batched[0] + 4 and suspended[1] > 97
    # The batches by themselves save the generous and not the urgent.
    control, unpreempted, batched = (
        attained(variant, 6, request_us)
        for variant in (variants.CONTROL, variants.UNPREEMPTED, variants.BATCHED)
    )
    assert unpreempted[0] < control[0] + 10 and unpreempted[1] > control[1] + 10
    assert batched[0] > unpreempted[0] + 20


# --- the command ----------------------------------------------------------------------------------


QUICK = ("--rates", "4", "--trials", "2", "--seconds", "10", "--jobs", "1")


def slo(*arguments: str) -> tuple[Any, str, str]:
    """(exit status, standard output, standard error) of the command."""
    from nanogpt.slo.__main__ import main

    return call(main, *arguments)


def test_the_command_writes_the_same_table_every_time():
    status, out, err = slo(*QUICK)
    assert (status, slo(*QUICK)[1]) == (0, out)
    assert "Modelled: Llama-3.3-70B" in out and "18 of 18 runs" in err
    for variant in (*variants.LADDER, variants.BATCHED_WITHOUT_RULE_1):
        assert out.count(variant.title) == 4
    last = out.splitlines()[-1]
    assert "of 8 differences of urgent attainment the interval is wider" in last
    assert "2 seeds do not show whether there is one. More do (--trials)." in last


def test_the_command_writes_json_and_its_help_says_the_limits():
    status, out, _ = slo(*QUICK, "--json")
    record = json.loads(out)
    assert (status, record["runs"], record["seeds"]) == (0, [18, 18], [0, 1])
    assert record["modelled"]
    assert [cell["variant"] for cell in record["cells"]][:2] == ["control", "order"]
    assert record["cells"][0]["urgent_gain"] == {"mean": 0, "half_width": 0}
    said = " ".join(slo("--help")[1].split())
    for words in ("(different ones, 0.1 to 50; default: 2,4,6,8,10)", "(2 to 20; default: 5)",
                  "(10 to 3600; default: 120)"):  # fmt: skip
        assert words in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--rates 4,x", "argument --rates: invalid rates value: '4,x'"),
        ("--rates 4,nan", "they must be different, from 0.1 to 50"),
        ("--trials 1", "--trials is 1; it must be from 2 to 20"),
        ("--seconds 9.5", "argument --seconds: invalid int value: '9.5'"),
        ("--trial=3", "unrecognized arguments: --trial=3"),
        ("nonsense", "argument command: invalid choice: 'nonsense'"),
        ("fit not/there.csv", "not/there.csv cannot be read: No such file or directory"),
    ],
)
def test_a_bad_argument_is_refused_with_its_limits(arguments: str, message: str):
    status, out, err = slo(*arguments.split())
    assert (status, out) == (2, "") and message in err


def test_the_command_fits_a_sweep(tmp_path: Path):
    path = tmp_path / "sweep.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [("tokens", "us"), *((n, 173 * n + 34_133) for n in range(1, 9))]
        )
    line = "predicted TTFT = 34133 us + 173 us per token   (R^2 = 1.0000)\n"
    assert slo("fit", str(path)) == (0, line, "")
    fitted = json.loads(slo("fit", str(path), "--json")[1])
    assert fitted.pop("coefficients") == pytest.approx([34_133, 173])
    assert fitted == {"r_squared": pytest.approx(1)}
    path.write_text("1,2\n")
    assert "of degree 3 needs 4 different prompt lengths" in slo("fit", str(path), "--cubic")[2]


# --- the policy's pieces --------------------------------------------------------------------------


A, C = 100.0, 10_000.0  # 0.1 ms per token, 10 ms per pass
POST = (173.046, 34_133.0)


def seen(request_id: int = 0, time_to_deadline_ms: int = 100) -> SloView:
    """A view of a request with 10 ms to spare."""
    left_us, spare_us = time_to_deadline_ms * 1000, 10_000
    return SloView(request_id, 100, spare_us, left_us, edf_score(spare_us, left_us), 200_000, 0)


# --- costs and the gate ---------------------------------------------------------------------------


def test_a_pass_costs_a_per_token_and_c_once_and_nothing_when_nothing_is_left():
    assert [predict(tokens, A, C) for tokens in (1000, 0)] == [110_000, 0]
    assert predict(675, *POST) == 150_939  # 116.806 + 34.133 ms
    assert [done_in(us, 1000, A) for us in (0, 99, 100, 10**9)] == [0, 0, 1, 1000]


def test_a_margin_below_one_is_refused():
    for margin in (0.99, math.nan):
        with pytest.raises(ValueError, match=rf"the margin is {margin}; it must be at least 1"):
            select_victim(seen(), [], margin)


# --- the predictor --------------------------------------------------------------------------------


def test_a_line_is_found_again_and_one_by_hand():
    points = [(tokens, 173.0 * tokens + 34_000) for tokens in (242, 512, 1024, 2048, 4096, 7986)]
    assert fit_ttft(points) == pytest.approx((173, 34_000), rel=1e-12)
    assert fit_polynomial(points, 1).r_squared == pytest.approx(1, rel=1e-12)
    three = [(1, 1.0), (2, 2.0), (3, 2.0)]
    assert fit_ttft(three) == pytest.approx((0.5, 2 / 3), rel=1e-12)
    assert fit_polynomial(three, 1).r_squared == pytest.approx(0.75)
    curve = [(n, 5e-6 * n**3 + 0.01 * n * n + 100 * n + 9000.0) for n in range(500, 8001, 500)]
    cubic = fit_polynomial(curve, 3)
    assert cubic.coefficients == pytest.approx((9000, 100, 0.01, 5e-6), rel=1e-9)
    assert cubic.predict_us(1000) == 124_000 and fit_polynomial(curve, 1).r_squared < 0.97


@pytest.mark.parametrize(
    ("points", "degree", "message"),
    [
        ([(5, 1.0), (5, 2.0)], 1, "a line needs 2 different prompt lengths; the sweep has 1"),
        ([(1, 1.0), (2, 2.0), (3, 3.0)], 3, "of degree 3 needs 4 different"),
        ([(1, math.nan), (2, 2.0)], 1, "is not a pair of finite numbers"),
        ([(1, 1e200), (2, 2.0)], 1, r"\(1, 1e\+200\) is not a pair of finite numbers up to"),
    ],
)
def test_too_few_points_are_refused(points: list[tuple[int, float]], degree: int, message: str):
    with pytest.raises(ValueError, match=message):
        fit_polynomial(points, degree)


def test_a_sweep_is_read_back_and_a_line_that_is_no_point_is_named(tmp_path: Path):
    path = tmp_path / "sweep.csv"
    path.write_text("tokens,us\n100,2000.5\n\n200,3000\n")
    assert read_sweep(path) == [(100, 2000.5), (200, 3000.0)]
    path.write_text("100,2000.5\n")
    assert read_sweep(path) == [(100, 2000.5)]
    path.write_bytes(b'\xef\xbb\xbf100,2000.5\r\n"200", 3000\r\n')
    assert read_sweep(path) == [(100, 2000.5), (200, 3000.0)]
    wrong = ("100", "100,2,3", "abc,5", "1.5,20", "0,20", "100,-3", "9,inf", "l00,5", "9,1e200")
    for line, number in ((line, number) for line in wrong for number in (1, 3)):
        path.write_text("".join(["tokens,us\n", "100,5\n"][: number - 1]) + f"{line}\n")
        with pytest.raises(ValueError, match=rf"line {number} of .* is '{line}'"):
            read_sweep(path)


# --- parts ----------------------------------------------------------------------------------------


GATED = (seen(9, 100), [seen(1, 130)], 1.2)


@pytest.mark.parametrize(
    ("part", "function", "arguments", "message"),
    [
        ("slack", lambda *_: None, (0, 9, 1, 0, A, C), "returned None; it must be a number"),
        ("edf_score", lambda *_: math.inf, (1, 0), "returned inf; it must be a finite number"),
        ("select_victim", lambda *_: 5, GATED, r"None or one of \[1\]"),
        ("select_victim", lambda *_: True, GATED, "select_victim returned True"),
        ("slo_batch", lambda *_: [1], (seen(9), [seen(1)], A, C, 9, 0.1), "with the candidate 9"),
        ("slo_batch", lambda *_: [9, 9], (seen(9), [], A, C, 9, 0.1), "different ids"),
        ("slo_batch", lambda *_: [9, 4], (seen(9), [], A, C, 9, 0.1), r"out of \[9\]"),
        ("slo_batch", lambda *_: None, (seen(9), [], A, C, 9, 0.1), "returned None"),
    ],
)
def test_an_answer_that_makes_no_sense_is_refused_in_a_sentence(
    part: str, function: Any, arguments: tuple[Any, ...], message: str
):
    policies = validated_slo_policies(SloPolicies(**{part: function}))
    with pytest.raises(PolicyError, match=message):
        getattr(policies, part)(*arguments)


def test_a_legal_answer_passes_through_and_the_reference_runs_unwrapped():
    assert validated_slo_policies(SloPolicies()) == SloPolicies()
    mine = SloPolicies(slack=lambda *a: float(slack(*a)), slo_batch=lambda *a: tuple(slo_batch(*a)))
    policies = validated_slo_policies(mine)
    request = SloRequest(7, 1000, 400, 200_000, 150_000, 1)
    expected = SloView(7, 600, 30_000, 100_000, 0.01, 150_000, 1)
    assert policies.view(request, 100_000, A, C) == expected
    assert policies.slo_batch(seen(0, 10_000), [seen(1)], A, C, 2048, 0.1) == [0, 1]

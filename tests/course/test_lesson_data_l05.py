"""Behind lessons 5 and 5b: what they draw of any answer, and the numbers in their prose."""

import statistics
from pathlib import Path

import pytest
from answers import attempted, worked

from course import saved_answers as answers
from course.lesson_data.l05_policy import (
    REPORT_AND_VOICE,
    fitted,
    passes,
    simulated,
    sweep,
)
from course.lesson_data.l05_victims import (
    SHARED_PASS,
    small_loads,
    under_load,
)
from course.lesson_data.l05b_ladder import recorded_cells, rows_at_load, yours_by_load
from nanogpt.figures.drawing import curves, named_curves, points_of
from nanogpt.slo import policy
from nanogpt.slo.load import POST_COST, two_tier_load
from nanogpt.slo.predictor import fit_polynomial
from nanogpt.slo.variants import (
    BATCHED,
    BATCHED_WITHOUT_RULE_1,
    FORK,
    LADDER,
    PROGRESS,
    SEEN,
    UNPREEMPTED,
    doomed_pair,
)

pytestmark = pytest.mark.process
LESSON_5, LESSON_5B = (
    " ".join(Path(f"lessons/{stem}.py").read_text(encoding="utf-8").split())
    for stem in ("l05_slo_policy", "l05b_repair_ladder")
)


def ttft_ms(run, request):
    return (run.results[request].first_token_us - run.arrivals[request].arrival_us) / 1000


# ---- the numbers in the prose --------------------------------------------------------------------


def test_the_prose_says_what_the_fits_and_the_runs_give():
    assert list(named_curves(fitted())) == ["measured", "the line", "a cubic"]
    line = statistics.linear_regression(*zip(*sweep(), strict=True))
    assert f"{line.slope / 1000:.4f} ms per token and {line.intercept / 1000:.2f} ms" in LESSON_5
    for degree, words in ((1, "The line explains {:.4f}"), (3, "a cubic explains {:.4f}")):
        assert words.format(fit_polynomial(sweep(), degree).r_squared) in LESSON_5
    alone, stopped = (simulated(REPORT_AND_VOICE, each) for each in (UNPREEMPTED, BATCHED))
    report, voice = ([ttft_ms(run, each) for run in (alone, stopped)] for each in (0, 1))
    assert (
        f"TTFT rises from {report[0]:g} to {report[1]:g} ms, by **{report[1] - report[0]:g} ms"
        in LESSON_5
    )
    assert f"falls from {voice[0]:g} to {voice[1]:g} ms" in LESSON_5
    assert f"{stopped.passes[0].duration_us / 1000:g} ms of work are thrown away" in LESSON_5
    for chunk in (512, 128):
        most_us = 4000 * POST_COST.a_us + -(-4000 // chunk) * POST_COST.c_us
        gap_us = POST_COST.c_us + chunk * POST_COST.a_us
        row = f"chunks of {chunk} | 726 ms | {most_us / 1000:,.0f} ms, ×{most_us / 726_317:.2f} |"
        assert f"{row} {gap_us / 1000:.0f} ms |" in LESSON_5
    looks = [len(simulated(REPORT_AND_VOICE, each).decisions) for each in (FORK, SEEN)]
    assert looks == [0, 1] and "never preempts, and a monitor that sees each arrival" in LESSON_5B


def test_an_immune_request_loses_its_work_when_its_pass_is_aborted_for_another():
    run = simulated(SHARED_PASS, PROGRESS)
    assert [each.ids for each in run.passes] == [(0,), (1, 0), (2, 1, 0)]
    assert [(each.victim, each.others) for each in run.decisions] == [(0, ()), (1, (0,))]
    assert [each.attained for each in run.results] == [True, True, False]


def test_the_prose_says_what_the_ladder_recorded():
    at = {(each.variant, each.requests_per_s): each for each in recorded_cells()}
    urgent, generous = (
        {key: f"{getattr(each, tier).mean:.0f}" for key, each in at.items()}
        for tier in ("urgent", "generous")
    )
    everyone = {k: f"{0.2 * e.urgent.mean + 0.8 * e.generous.mean:.0f}" for k, e in at.items()}
    for variant in ("control", "unpreempted", "batched", "suspended"):
        row = " | ".join(
            f"{urgent[key]} / {generous[key]}, **{everyone[key]}**"
            for key in ((variant, rate) for rate in (2, 4, 6, 8, 10))
        )
        assert row in LESSON_5B
    seen = at["seen", 4]
    for words in (
        f"without preemption | {urgent['control', 4]} % | {generous['control', 4]} % | 0 |",
        f"as published | {urgent['fork', 4]} % | {generous['fork', 4]} % | 0 |",
        f"Urgent {urgent['seen', 4]} %, relaxed {generous['seen', 4]} %",
        f"A run has {seen.num_preemptions:.0f} preemptions, and {seen.wasted_percent:.0f} %",
        f"SLO-aware batches | {urgent['unpreempted', 4]} % |",
        f"**{urgent['batched', 4]} %**; with suspended passes **{urgent['suspended', 4]} %**",
        f"{urgent['unpreempted', 10]} % of the urgent and {generous['unpreempted', 10]} % of the",
        f"it is {urgent['suspended', 10]} % and {generous['suspended', 10]} %.",
        f"{everyone['unpreempted', 10]} % are in time without preemption and "
        f"{everyone['suspended', 10]} %",
        f"{urgent['batched', 4]} % of the urgent requests are in time with Rule 1, and "
        f"{urgent['batched-no-rule-1', 4]} % without it",
    ):
        assert words in LESSON_5B
    in_time, wasted = (curves(axes) for axes in rows_at_load(4).axes)
    assert [line.get_label() for line in in_time] == ["urgent", "relaxed"]
    for row, variant in enumerate(LADDER, start=1):
        cell = at[variant.name, 4]
        assert f"| {row} | {variant.title} |" in LESSON_5B
        drawn = [points_of(line)[row - 1] for line in (*in_time, *wasted)]
        assert drawn == [
            (row, value) for value in (cell.urgent.mean, cell.generous.mean, cell.wasted_percent)
        ]


# ---- any answer ----------------------------------------------------------------------------------


def by_margin_alone(candidate, running, margin):
    first, *_, last = sorted([*running, *running], key=lambda each: -each.edf_score)
    return last.id if candidate.edf_score > margin * first.edf_score else None


def test_a_run_that_goes_on_for_ever_or_fails_ends_in_a_sentence():
    """Of two doomed requests each is above 1.2 times the other's negative score."""
    said = simulated(doomed_pair(), BATCHED_WITHOUT_RULE_1, most=50, select_victim=by_margin_alone)
    assert said == "**The run was stopped** after 50 preemptions, with hardly a request done."
    assert passes(said) == said
    rows = small_loads(attempted("l05.select_victim", by_margin_alone)).splitlines()[4:]
    assert ["was stopped" in row for row in rows] == [False, True, False]
    rows = small_loads(attempted("l05.select_victim", policy.select_victim)).splitlines()[4:]
    assert [row.split(" | ")[1:] for row in rows] == [
        ["1", "16%", "0 of 2 |"], ["0", "0%", "2 of 3 |"], ["1", "30%", "1 of 13 |"]
    ]  # fmt: skip
    broken = simulated(REPORT_AND_VOICE, BATCHED, slack=lambda *_: 1 / 0)
    assert broken.startswith("**The run stopped:** ") and "ZeroDivisionError" in broken


CHARGES_ALL = """\
def slack(now, deadline, total, done, a, c):
    return deadline - now - (a * total + c)
"""
RANDOMLY = "def edf_score(slack, time_to_deadline):\n    return 'soon'\n"


def test_a_wrong_answer_to_lesson_5_shows_in_the_runs_of_lesson_5b(tmp_path, monkeypatch):
    monkeypatch.setenv("SERVING_NANOGPT_WORK", str(tmp_path))
    ids = ("l05.slack", "l05.edf_score", "l05.select_victim")
    batch = attempted("l05.slo_batch", worked("l05.slo_batch"))
    assert answers.newest_answers(*ids) == {}
    answers.save("l05.slack", CHARGES_ALL, passed=False)
    earlier = answers.newest_answers(*ids)
    load = two_tier_load(seed=0, requests_per_s=4, duration_s=10)
    said = under_load(load, {"slo_batch": batch}, (BATCHED,), earlier)
    assert "Your saved functions of lesson 5: `slack`." in said
    assert "differs first in pass" in said
    chart = yours_by_load(batch, earlier)
    assert list(named_curves(chart)) == ["without preemption", "the reference", "yours"]
    answers.save("l05.edf_score", RANDOMLY, passed=False)
    said = yours_by_load(batch, answers.newest_answers(*ids))
    assert said.startswith("The run with your functions stopped: ") and "edf_score" in said

"""Behind lessons 2 and 2b: whose function acts in a picture, and the numbers of the prose."""

from itertools import groupby

import pytest
from notebooks import ROOT

from course.lesson_data import l02_exhibits, l02_scheduler, l02b_waiting
from nanogpt import Engine, EngineConfig, Policies, Request, generate, load_model
from nanogpt.figures.drawing import named_curves, points_of
from nanogpt.policies import queueing
from nanogpt.recorded_texts import RecordedTexts

pytestmark = pytest.mark.process  # learners' functions run in one of their own


def test_romeo_is_computed_again_and_its_text_stays():
    exact = load_model().double()
    trace = Engine(exact, l02_scheduler.POST).run(l02_scheduler.verona())
    work = [(s.step, w) for s in trace.steps for w in s.work if w.request_id == 0]
    assert sum(w.end - w.start for _, w in work) == 34
    assert sum(w.sampled is not None for _, w in work) == 10
    assert [s.step for s in trace.steps if 0 in s.preempted] == [6]
    assert next((step, w.end - w.start) for step, w in work if step > 5) == (10, 16)
    [(_, romeo), _] = l02_scheduler.verona()
    assert list(trace.generated_tokens(0)) == generate(exact, romeo.prompt_tokens, 10)


def test_a_victim_at_the_back_of_the_queue_waits_twice_as_long():
    def to_the_back(request):
        state = queueing.requeue(request)
        return state._replace(arrival_time=state.arrival_time + 1000)

    found = []
    for budget in (40, 48):
        limits = EngineConfig(max_kv_tokens=budget, max_batch_size=4, max_prefilling=1)
        for requeue in (queueing.requeue, to_the_back):
            ten = [(2 * i, Request(i, [1] * 8, 12)) for i in range(10)]
            trace = Engine(RecordedTexts(), limits, Policies(requeue=requeue)).run(ten)
            took = l02_scheduler.latencies(trace)
            found.append((took[3], took[4], l02_scheduler.recomputed(trace)))
    assert found == [(19, 20, 60), (42, 16, 79), (17, 18, 81), (39, 16, 60)]


def test_a_scheduler_without_one_half_breaks_its_budget_as_the_lesson_s_table_says():
    lesson = (ROOT / "lessons" / "l02_scheduling.py").read_text(encoding="utf-8")
    computed = []
    for half, name in (
        ("", "both halves"),
        ("admission", "without admission"),
        ("preemption", "without preemption"),
    ):
        trace = l02_exhibits.switched_off(half)
        over = [step.kv_after > 160 for step in trace.steps]
        longest = max((len([*run]) for is_over, run in groupby(over) if is_over), default=0)
        peak = max(step.kv_after for step in trace.steps)
        preempted = sum(len(step.preempted) for step in trace.steps)
        again = l02_scheduler.recomputed(trace)
        assert f"| {name} | {sum(over)} | {longest} | {peak} | {preempted} | {again} |" in lesson
        computed.append(
            (len(trace.steps), sum(w.end - w.start for s in trace.steps for w in s.work))
        )
    assert computed[:2] == [(48, 418), (46, 723)]


def test_a_priority_that_only_sorts_the_queue_changes_nothing_under_inversion(notebooks):
    found = notebooks.solved("l02b_waiting").names["found"]
    assert l02b_waiting.times(found, "inversion", "priority") == "×1.00"
    assert l02b_waiting.times(found, "inversion", "priority, preempt to admit") == "×0.40"
    for mode in ("priority", "priority, preempt to admit"):
        assert found["control", mode] == found["control", "FCFS"]


def test_under_strict_priority_latency_grows_with_the_stream(notebooks):
    curves = notebooks.solved("l02b_waiting").names["curves"]
    ends = {
        name: [steps for _, steps in points_of(line)] for name, line in named_curves(curves).items()
    }
    assert ends["strict priority"] == [30, 46, 86, 166]
    assert ends["ageing, 20 steps a level"] == [30, 46, 54, 54]
    assert ends["ageing, 5 steps a level"] == [22] * 4
    assert ends["FCFS"] == [14] * 4

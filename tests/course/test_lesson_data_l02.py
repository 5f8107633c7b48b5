"""Behind lessons 2 and 2b: whose function acts in a picture, and the post's four tests."""

import pytest

from course.attempt import Attempt
from course.lesson_data import l02_exhibits, l02_posts, l02_scheduler, l02b_waiting
from course.report import Report
from nanogpt import Policies, load_model
from nanogpt.policies import queueing


def attempted(name, function, status="failed"):
    return Attempt(Report(f"l02.{name}", status, (), 0, ""), function)


pytestmark = pytest.mark.process  # learners' functions run in one of their own


def test_the_heap_is_ranked_by_the_learners_key_and_by_the_reference_where_that_fails():
    def reversed_key(policy, request):
        return (-request.priority, request.arrival_time)

    unwritten = l02_scheduler.queue_of(attempted("sort_key", None, "not_started"))
    mine = l02_scheduler.queue_of(attempted("sort_key", reversed_key))
    broken = l02_scheduler.queue_of(attempted("sort_key", lambda policy, request: None))
    assert unwritten[1] == broken[1] == "Ranked by the reference's sort_key"
    assert unwritten[0] == broken[0]
    assert mine[1] == "Ranked by your sort_key"
    assert mine[0][0]["entry"]["key"] == [-2, 0]


def test_the_posts_tests_pass_on_the_reference_and_fail_where_a_text_is_started_over():
    exact = load_model().double()
    tests = l02_posts.post_tests(exact, Policies())
    assert [test.passed for test in tests] == [True] * 4
    wrong = Policies(requeue=l02_exhibits.start_over, choose_victim=l02_exhibits.oldest)
    tests = l02_posts.post_tests(exact, wrong)
    assert [test.passed for test in tests[:2]] == [True, True]
    assert not all(test.passed for test in tests[2:])
    said = l02_posts.tests_table(exact, Policies(sort_key=lambda *_: 1 / 0))
    assert said.startswith("The tests stopped: ")


def test_the_twins_run_under_the_learner_s_rule_and_the_reference_s_until_it_is_written():
    mine = l02_exhibits.your_twins(attempted("choose_victim", l02_exhibits.oldest))
    assert mine == l02_exhibits.twins(l02_exhibits.oldest)
    unwritten = l02_exhibits.your_twins(attempted("choose_victim", None, "not_started"))
    assert unwritten == l02_exhibits.twins(queueing.choose_victim)


def test_a_priority_that_only_sorts_the_queue_changes_nothing_under_inversion(notebooks):
    found = notebooks.solved("l02b_waiting").names["found"]
    assert l02b_waiting.times(found, "inversion", "priority") == "×1.00"
    assert l02b_waiting.times(found, "inversion", "priority, preempt to admit") == "×0.40"
    for mode in ("priority", "priority, preempt to admit"):
        assert found["control", mode] == found["control", "FCFS"]


def test_under_strict_priority_latency_grows_with_the_stream(notebooks):
    curves = notebooks.solved("l02b_waiting").names["curves"]
    ends = {curve["name"]: [steps for _, steps in curve["points"]] for curve in curves}
    assert ends["strict priority"] == [30, 46, 86, 166]
    assert ends["ageing, 20 steps a level"] == [30, 46, 54, 54]
    assert ends["ageing, 5 steps a level"] == [22] * 4
    assert ends["FCFS"] == [14] * 4


def test_ageing_is_the_learners_where_it_runs_and_the_reference_s_until_it_is_written():
    mine = l02b_waiting.patience(attempted("aged_key", lambda request, rate: (request.priority,)))
    assert mine[0][1]["points"][-1] == [40, 166]
    assert mine[1].startswith("Ageing ranks by your `aged_key`.\n")
    broken = l02b_waiting.patience(attempted("aged_key", lambda request, rate: None))
    assert broken[1].startswith("A run with your `aged_key` failed")
    unwritten = l02b_waiting.patience(attempted("aged_key", None, "not_started"))
    assert unwritten[1].startswith("Ageing ranks by the reference's `aged_key`: yours is not")

"""Behind lessons 2 and 2b: what they say in words of their runs, and the post's four tests."""

import pytest

from course.attempt import Attempt
from course.report import Report
from course.stories import l02_exhibits, l02_posts, l02_scheduler, l02b_waiting
from nanogpt import Engine, Parts, load_model, policies
from solutions.l02_scheduling.resume import resume


def attempted(name, function, status="failed"):
    return Attempt(Report(f"l02.{name}", status, (), 0, ""), function)


@pytest.fixture(scope="module")
def exact():
    return load_model().double()


def test_a_preempted_request_computes_everything_known_again_and_samples_nothing_twice(exact):
    tragedy = Engine(exact, l02_scheduler.POST).run(l02_scheduler.verona())
    said = l02_scheduler.what_romeo_cost(exact, tragedy)
    assert said.startswith("**34 computed, 10 sampled.** ")
    assert said.endswith("Its text is the same as that of an undisturbed run.")
    assert l02_scheduler.recomputed(tragedy) == 15


def test_a_victim_at_the_back_waits_for_those_that_came_later():
    said = l02_scheduler.said_of_places()
    assert "request 3 takes 42 steps instead of 19, and request 4, which came after it, 16" in said
    assert "recomputed are 60 tokens instead of 81" in said


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


def test_the_posts_four_tests_pass_on_the_reference(exact):
    tests = l02_posts.post_tests(exact, Parts())
    assert [test.passed for test in tests] == [True] * 4
    assert tests[2].said == "`Preempted IDs: [0]`"
    assert tests[3].said.endswith("`KV cache length: 19 ✓`")
    assert l02_posts.tests_table(tests).count("| yes |") == 4


@pytest.mark.process
def test_the_posts_fourth_test_fails_for_a_way_back_that_starts_the_text_over(exact):
    parts = Parts(resume=l02_exhibits.start_over, choose_victim=l02_exhibits.oldest)
    tests = l02_posts.post_tests(exact, parts)
    assert [test.passed for test in tests[:2]] == [True, True]
    assert not all(test.passed for test in tests[2:])


def test_only_functions_that_have_passed_stand_in_the_posts_tests():
    parts = l02_posts.passed_parts(
        {
            "resume": attempted("resume", resume, "passed"),
            "record": attempted("record", l02_exhibits.along_the_active, "failed"),
        }
    )
    assert parts.resume is resume
    assert parts.record is policies.record


def test_fewer_left_first_helps_the_mean_and_starves_the_long_one():
    assert l02b_waiting.said_of_ties() == (
        "Earlier arrival: 20.4 and 47, 24.5 and 47, 27.0 and 47. "
        "Fewer left: 16.4 and 63, 15.4 and 87, 14.7 and 135."
    )


def test_a_priority_that_only_sorts_the_queue_changes_nothing_under_inversion():
    found = l02b_waiting.bills()
    assert l02b_waiting.times(found, "inversion", "priority") == "×1.00"
    assert l02b_waiting.times(found, "inversion", "priority, pushing out") == "×0.40"
    for mode in ("priority", "priority, pushing out"):
        assert found["control", mode] == found["control", "FCFS"]
    assert l02b_waiting.bills_table(found).count("\n") == 9


def test_under_strict_priority_alone_latency_grows_with_the_stream():
    curves, said = l02b_waiting.patience(attempted("aged_key", None, "not_started"))
    ends = {curve["name"]: [steps for _, steps in curve["points"]] for curve in curves}
    assert ends["strict priority"] == [30, 46, 86, 166]
    assert ends["ageing, 20 steps a level"] == [30, 46, 54, 54]
    assert ends["ageing, 5 steps a level"] == [22] * 4
    assert ends["FCFS"] == [14] * 4
    assert said.startswith("Ageing is the reference's: yours is not written yet. ")


def test_ageing_is_the_learners_where_it_runs():
    mine = l02b_waiting.patience(attempted("aged_key", lambda request, rate: (request.priority,)))
    assert mine[0][1]["points"][-1] == [40, 166]
    assert mine[1].startswith("Ageing ranks by your `aged_key`. ")
    broken = l02b_waiting.patience(attempted("aged_key", lambda request, rate: None))
    assert broken[1].startswith("No run with your `aged_key` came to its end")

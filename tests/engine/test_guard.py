"""Whatever a learner's function does, the caller gets control back and a sentence."""

import linecache
import os
import statistics
import sys
import threading
import time

import pytest
from launching import wait_for

from nanogpt.parts import limits
from nanogpt.parts.guard import describe_error, guarded
from nanogpt.parts.limits import describe_timeout, run_limited, run_watched
from nanogpt.validate import PartError

turns = [0]  # how often the endless loops went round


def loop():
    while True:
        turns[0] += 1


def swallow_everything():
    while True:
        try:
            while True:
                turns[0] += 1
        except BaseException:
            pass


class LongDying:
    def __del__(self):
        until = time.monotonic() + 0.02
        while time.monotonic() < until:
            turns[0] += 1


class DyingBadly:
    def __del__(self):
        raise ValueError("badly")


def make_and_drop():
    while True:
        LongDying()


def still_turning():
    before = turns[0]
    time.sleep(0.3)
    return turns[0] != before


def sleep_for_ever():
    time.sleep(1e9)


def deadlock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def read_an_empty_pipe():
    os.read(os.pipe()[0], 1)


def divide(a, b):
    # the line that fails is the third, counted from def
    return a / b


def decorate(function):
    return function


@decorate
@decorate
def decorated_divide(a, b):
    return a / b


def test_a_value_comes_back_with_the_time_it_took():
    outcome = run_limited(divide, (6, 3))
    assert (outcome.value, outcome.error, outcome.timed_out) == (2.0, None, False)
    assert 0 <= outcome.cpu_s < 1


def test_an_endless_loop_is_stopped_and_goes_round_no_more():
    outcome = run_limited(loop, (), limit_s=0.2)
    assert outcome.timed_out
    assert outcome.cpu_s > 0
    assert not still_turning()


def test_a_loop_that_swallows_every_exception_is_put_to_sleep():
    outcome = run_limited(swallow_everything, (), limit_s=0.2)
    assert outcome.timed_out
    assert not still_turning()


def test_a_stop_that_lands_in_a_callback_is_not_reported_and_other_errors_are(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: reported.append(ignored.exc_type))
    outcome = run_limited(make_and_drop, (), limit_s=0.1)
    assert outcome.timed_out
    assert not still_turning()
    assert reported == []
    run_limited(DyingBadly, ())
    assert reported == [ValueError]


@pytest.mark.parametrize("wait", [sleep_for_ever, deadlock, read_an_empty_pipe])
def test_a_call_that_only_waits_is_given_up_after_four_times_the_limit(wait):
    began = time.monotonic()
    outcome = run_limited(wait, (), limit_s=0.1)
    assert outcome.timed_out
    assert outcome.cpu_s < 0.1
    assert time.monotonic() - began >= 0.4


def test_the_next_call_works_after_one_was_stopped():
    run_limited(loop, (), limit_s=0.05)
    assert run_limited(divide, (6, 3)).value == 2.0


def test_a_stopped_loop_leaves_no_thread_behind():
    run_limited(divide, (6, 3))
    before = threading.active_count()
    for _ in range(3):
        run_limited(loop, (), limit_s=0.05)
    run_limited(divide, (6, 3))
    wait_for(lambda: threading.active_count() <= before)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, MemoryError, GeneratorExit])
def test_an_error_of_any_kind_is_a_result_and_not_a_crash(error):
    def fail():
        raise error("on purpose")

    outcome = run_limited(fail, ())
    assert type(outcome.error) is error
    assert not outcome.timed_out


def test_endless_recursion_is_an_error():
    def deeper(n):
        return deeper(n + 1)

    assert isinstance(run_limited(deeper, (0,)).error, RecursionError)


def test_calls_may_be_nested():
    outer = run_limited(lambda: run_limited(loop, (), limit_s=0.05).timed_out, ())
    assert outer.value is True


def test_a_call_after_another_starts_no_thread(monkeypatch):
    """Handing a call over takes about 20 us; starting a thread would take most of a call."""
    run_limited(divide, (6, 3))
    monkeypatch.setattr(threading.Thread, "start", lambda thread: pytest.fail("a new thread"))
    assert [run_limited(divide, (6, n)).value for n in range(1, 200)] == [
        6 / n for n in range(1, 200)
    ]


def test_an_interrupt_of_the_caller_passes_through_and_ends_the_call():
    caller, caught, before = threading.current_thread(), [], turns[0]

    def interrupt():
        wait_for(lambda: turns[0] > before)
        os.kill(os.getpid(), 2)

    assert caller is threading.main_thread()
    threading.Thread(target=interrupt).start()
    try:
        run_limited(loop, (), limit_s=60)
    except KeyboardInterrupt as error:
        caught.append(error)
    assert caught
    assert not still_turning()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_gets_workers_of_its_own():
    run_limited(divide, (6, 3))
    child = os.fork()
    if child == 0:
        os._exit(0 if run_limited(divide, (6, 3), limit_s=1).value == 2.0 else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0


def test_a_part_that_works_gives_its_value():
    assert guarded("plan_step", divide)(6, 3) == 2.0


def test_a_part_that_fails_is_named_with_the_line_counted_from_its_def():
    with pytest.raises(PartError) as caught:
        guarded("plan_step", divide)(1, 0)
    assert str(caught.value) == (
        "your plan_step raised ZeroDivisionError on its line 3: division by zero (`return a / b`)"
    )


def test_decorators_do_not_count_as_lines():
    error = run_limited(decorated_divide, (1, 0)).error
    assert describe_error(error, decorated_divide).startswith(
        "raised ZeroDivisionError on its line 2:"
    )


def test_the_line_is_the_functions_own_even_when_other_code_failed_below_it():
    def calls_on(values):
        return statistics.mean(
            values,
        )

    error = run_limited(calls_on, ([],)).error
    assert describe_error(error, calls_on).startswith("raised StatisticsError on its line 2: ")


def test_a_call_with_the_wrong_number_of_arguments_names_no_line():
    with pytest.raises(PartError, match=r"^your plan_step raised TypeError: divide\(\) missing"):
        guarded("plan_step", divide)(1)


def test_a_line_is_told_even_without_the_source():
    space = {}
    exec(compile("def f(x):\n    return 1 / x\n", "<nowhere to be found>", "exec"), space)
    error = run_limited(space["f"], (0,)).error
    assert describe_error(error, space["f"]) == (
        "raised ZeroDivisionError on its line 2: division by zero"
    )
    assert not linecache.getline("<nowhere to be found>", 2)


def test_an_error_whose_text_never_ends_is_still_described():
    class Endless(Exception):
        def __str__(self):
            loop()

    def fail():
        raise Endless

    assert describe_error(run_limited(fail, ()).error, fail) == (
        "raised Endless on its line 2 (`raise Endless`)"
    )


def test_a_part_that_computes_too_long_says_so():
    assert describe_timeout(2.01, 2.0) == "took longer than 2 s of computing and was stopped"
    with pytest.raises(PartError, match=r"^your plan_step .* of .*computing.* was stopped$"):
        guarded("plan_step", loop, limit_s=0.1)()


def test_on_a_busy_machine_the_time_it_did_get_is_told():
    assert describe_timeout(1.2, 2.0) == (
        "had not finished after 8 s, 1.2 s of them computing, and was stopped"
    )


def test_a_part_that_waits_too_long_says_so():
    with pytest.raises(PartError, match=r"had not finished after 0.4 s, nearly all of it waiting"):
        guarded("plan_step", sleep_for_ever, limit_s=0.1)()


def test_a_stop_that_arrives_after_its_call_ends_the_worker_in_silence() -> None:
    worker = limits._Worker()
    worker.start(int, ())
    assert worker.finished(10)
    worker._inject(limits._Stop)
    worker._go.release()
    worker._thread.join(10)
    assert not worker.is_alive()


def test_the_parts_of_a_watched_run_are_called_in_its_own_thread():
    def run():
        where = threading.get_ident()
        return [guarded("where", threading.get_ident)() == where for _ in range(3)]

    assert run_watched(run) == [True, True, True]
    assert not guarded("where", lambda: threading.get_ident() == threading.main_thread().ident)()


@pytest.mark.parametrize("part", [loop, swallow_everything, sleep_for_ever, deadlock])
def test_a_watched_run_ends_with_a_part_that_does_not(part):
    def run():
        guarded("plan_step", int)()
        return guarded("plan_step", part, limit_s=0.1)()

    with pytest.raises(PartError, match=r"^your plan_step (took longer|had not finished)"):
        run_watched(run)
    assert not still_turning()
    assert run_watched(lambda: guarded("plan_step", divide)(6, 3)) == 2.0


def test_a_watched_run_may_take_longer_than_each_of_its_parts():
    def short():  # each of them is far from its limit on the wall too, on a busy machine
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass

    def run():
        for _ in range(12):  # what is not a part's has no limit
            short()
        for _ in range(12):
            guarded("plan_step", short, limit_s=0.5)()
        return "done"

    assert run_watched(run) == "done"


def test_a_part_that_fails_in_a_watched_run_is_named_as_everywhere():
    with pytest.raises(PartError, match=r"^your plan_step raised ZeroDivisionError on its line 3"):
        run_watched(lambda: guarded("plan_step", divide)(1, 0))
    with pytest.raises(SystemExit):
        run_watched(lambda: exit(1))


def test_an_interrupt_of_the_caller_ends_a_watched_run():
    before = turns[0]

    def interrupt():
        wait_for(lambda: turns[0] > before)
        os.kill(os.getpid(), 2)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run_watched(loop)
    assert not still_turning()

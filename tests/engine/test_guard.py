"""Whatever a learner's function does, the caller gets control back and a sentence."""

import contextlib
import os
import statistics
import threading
import time
from typing import final, no_type_check

import pytest

from nanogpt.parts.guard import guarded
from nanogpt.parts.limits import describe_timeout, run_limited, run_watched
from nanogpt.validate import PartError

turns = [0]  # how often the endless loops went round


def loop():
    while True:
        turns[0] += 1


def swallow_everything():
    while True:
        with contextlib.suppress(BaseException):
            loop()


def sleep_for_ever():
    time.sleep(1e9)


def still_turning():
    before = turns[0]
    time.sleep(0.1)
    return turns[0] != before


def divide(a, b):
    # the line that fails is the third, counted from def
    return a / b


@final
@no_type_check
def decorated(a, b):
    return a / b


def calls_on(values):
    return statistics.mean(
        values,
    )


def leave():
    raise SystemExit


# ---------------------------------------------------------------- calls that end


@pytest.mark.parametrize("endless", [loop, swallow_everything, sleep_for_ever])
def test_a_call_that_does_not_end_is_stopped_and_the_next_one_works(endless):
    outcome = run_limited(divide, (6, 3))
    assert (outcome.value, outcome.error, outcome.timed_out) == (2.0, None, False)
    threads, began = threading.active_count(), time.monotonic()
    outcome = run_limited(endless, (), limit_s=0.1)
    assert outcome.timed_out
    assert not still_turning()
    if endless is sleep_for_ever:
        assert outcome.cpu_s < 0.1
        assert time.monotonic() - began >= 0.4, "four times the limit is allowed for waiting"
    else:
        assert outcome.cpu_s > 0
    if endless is loop:
        assert threading.active_count() < threads, "its thread has ended"
    assert run_limited(lambda: run_limited(divide, (6, 3)).value, ()).value == 2.0


@pytest.mark.parametrize("run", [run_watched, lambda call: run_limited(call, (), limit_s=60)])
def test_an_interrupt_of_the_caller_passes_through_and_ends_the_call(run):
    before = turns[0]

    def interrupt_once_it_turns():
        until = time.monotonic() + 60
        while turns[0] == before and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(os.getpid(), 2)

    threading.Thread(target=interrupt_once_it_turns).start()
    with pytest.raises(KeyboardInterrupt):
        run(loop)
    assert not still_turning()


@pytest.mark.parametrize("part", [loop, swallow_everything, sleep_for_ever])
def test_a_watched_run_calls_parts_in_its_own_thread_and_ends_with_one_that_does_not(part):
    def run():
        assert guarded("where", threading.get_ident)() == threading.get_ident()
        return guarded("plan_step", part, limit_s=0.1)()

    with pytest.raises(PartError, match=r"^your plan_step (took longer|had not finished)"):
        run_watched(run)
    assert not still_turning()
    assert run_watched(lambda: guarded("plan_step", divide)(6, 3)) == 2.0
    with pytest.raises(SystemExit):
        run_watched(leave)


# ---------------------------------------------------------------- sentences


@pytest.mark.parametrize(
    ("function", "args", "said"),
    [
        (divide, (1, 0), "ZeroDivisionError on its line 3: division by zero (`return a / b`)"),
        (divide, (1,), "TypeError: divide() missing 1 required positional argument: 'b'"),
        (decorated, (1, 0), "ZeroDivisionError on its line 2: division"),
        (calls_on, ([],), "StatisticsError on its line 2: "),  # its own, not the library's
        (leave, (), "SystemExit on its line 2 (`raise SystemExit`)"),
    ],
)
def test_a_part_that_fails_is_named_with_its_line_counted_from_the_def(function, args, said):
    for run in (lambda call: call(), run_watched):
        with pytest.raises(PartError) as caught:
            run(lambda: guarded("plan_step", function)(*args))
        assert str(caught.value).startswith(f"your plan_step raised {said}")


def test_a_part_that_was_stopped_is_told_whether_it_computed_or_waited():
    computed = "took longer than 2 s of computing and was stopped"
    assert describe_timeout(2.01, 2.0) == computed
    assert describe_timeout(1.2, 2.0) == (
        "had not finished after 8 s, 1.2 s of them computing, and was stopped"
    )
    assert "nearly all of it waiting" in describe_timeout(0.0, 2.0)
    with pytest.raises(PartError, match=r"^your plan_step .* of .*computing.* was stopped$"):
        guarded("plan_step", loop, limit_s=0.1)()

"""The harness of a check: plain data in and out, the first failure told, nothing ever raised."""

import functools
import random
import threading
import time
import traceback
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
import torch

from course.answering import Here
from course.called import Opaque
from course.format_values import expected_and_got, show, show_call
from course.harness import Failure, run_checks
from course.limited_call import call
from course.observed_call import plain
from course.report import Report
from course.same_values import like, same
from nanogpt.parts.request_view import RequestView


@dataclass(frozen=True)
class Snapshot:
    ids: list[int]
    keys: torch.Tensor


say = print  # ruff bars printing here, and learners print


def add(a, b):
    return a + b


def stub(a, b):
    raise NotImplementedError("Exercise 1.0: what is the sum?")


def by_hand(ask, rng):
    got = ask(1, 2)
    return None if got == 3 else Failure("Add them.", ask.example(3, got), "subtracts")


def at_random(ask, rng):
    for _ in range(20):
        a, b = rng.randrange(100), rng.randrange(100)
        got = ask(a, b)
        if got != a + b:
            return Failure("Large numbers too.", ask.example(a + b, got))
    return None


CHECKS = [("by hand", by_hand), ("at random", at_random)]


def report_of(function, checks=CHECKS) -> Report:
    return run_checks("l01.add", Here(function), checks)


def test_a_right_answer_passes_every_check():
    report = report_of(add)
    assert (report.status, report.passed, report.checks) == ("passed", 2, ("by hand", "at random"))
    assert report.idea == ""


def test_an_untouched_stub_is_not_started():
    report = report_of(stub)
    assert (report.status, report.passed, report.example) == ("not_started", 0, ())
    assert "`add`" in report.idea


def test_an_answer_with_a_branch_left_open_counts_as_an_error():
    def half(a, b):
        if a == 1:
            return 3
        raise NotImplementedError

    assert report_of(half).status == "raised"


def test_it_stops_at_the_first_failing_check_with_the_smallest_case():
    report = report_of(lambda a, b: a - b)
    assert (report.status, report.passed, report.misconception) == ("failed", 0, "subtracts")
    assert report.example == (("input", "add(1, 2)"), ("expected", "3"), ("got", "-1"))
    assert report.stopped_at == "by hand"


def test_checks_before_the_failing_one_are_counted():
    report = report_of(lambda a, b: min(a + b, 50))
    assert (report.status, report.passed, report.stopped_at) == ("failed", 1, "at random")


def test_an_error_names_the_line_and_the_input():
    def divides(a, b):
        return a / (b - b)

    report = report_of(divides)
    assert report.status == "raised"
    assert report.idea == (
        "Your `add` raised ZeroDivisionError on its line 2: division by zero "
        "(`return a / (b - b)`)."
    )
    assert report.example == (("input", "add(1, 2)"),)


def test_an_endless_loop_times_out(monkeypatch):
    monkeypatch.setattr("course.harness._CALL_LIMIT_S", 0.3)

    def endless(a, b):
        while True:
            pass

    report = report_of(endless)
    assert report.status == "timeout"
    assert "computing" in report.idea
    assert report.example == (("input", "add(1, 2)"),)


def test_the_same_seed_asks_the_same_cases_and_another_seed_others():
    def asked(seed):
        seen = []
        checks = [("at random", lambda ask, rng: seen.append(rng.random()))]
        run_checks("l01.add", Here(add), checks, seed=seed)
        return seen

    assert asked(1) == asked(1) != asked(2)


def test_a_check_that_cannot_digest_a_result_fails_the_answer_and_does_not_raise():
    report = report_of(lambda a, b: torch.zeros(2))
    assert report.status == "failed"
    assert "could not work with what `add` returned" in report.idea


def test_a_check_that_is_led_round_in_circles_comes_to_an_end(monkeypatch):
    monkeypatch.setattr("course.harness._CHECK_LIMIT_S", 0.2)

    def until_three(ask, rng):
        while ask(1, 2) != 3:
            pass

    report = report_of(lambda a, b: 0, [("circles", until_three)])
    assert report.status == "timeout"


def test_the_notebooks_own_random_numbers_go_on_as_before():
    random.seed(5)
    expected = random.Random(5).random()
    report_of(add)
    assert random.random() == expected


def test_a_function_that_draws_gives_the_same_each_time():
    def draws():
        return random.random(), torch.rand(2).tolist()

    assert call(draws, ()).value == call(draws, ()).value != call(draws, (), seed=1).value


def test_arguments_are_copies_and_come_back_as_they_were_left():
    given, keys = [1, 2], torch.zeros(2)

    def spoil(values, tensor):
        values.append(3)
        tensor += 1
        return values

    called = call(spoil, (given, keys))
    assert given == [1, 2]
    assert keys.tolist() == [0, 0]
    assert called.args_after[0] == [1, 2, 3]
    assert called.args_after[1].tolist() == [1, 1]


def test_a_result_is_not_shared_with_the_function():
    kept = []

    def remembers():
        kept.append(0)
        return kept

    first = call(remembers, ()).value
    call(remembers, ())
    assert first == [0]


def test_records_of_plain_data_are_plain_data():
    view = RequestView(3, 0, 5, 6, (1, 2), (7, 8), 4, 3)
    value = call(lambda: view, ()).value
    assert value == view
    assert value is not view


def test_a_record_of_the_learners_own_making_is_not_asked_anything():
    assert call(lambda: Snapshot([1], torch.ones(1)), ()).value == Opaque("Snapshot")


def test_what_is_not_plain_data_becomes_a_name():
    assert call(lambda: (n for n in [1]), ()).value == Opaque("generator")
    assert call(lambda: [print], ()).value == [Opaque("builtin_function_or_method")]


def test_a_subclass_that_lies_about_being_equal_is_no_plain_data():
    class Liar(int):
        def __eq__(self, other):
            return True

        __hash__ = int.__hash__

    assert report_of(lambda a, b: Liar(9)).status == "failed"


def test_the_callers_grad_mode_holds_inside():
    with torch.no_grad():
        assert call(torch.is_grad_enabled, ()).value is False
    assert call(torch.is_grad_enabled, ()).value is True


def test_what_a_function_prints_is_kept_and_not_shown(capsys):
    called = call(lambda: say("hello"), ())
    assert called.stdout == "hello\n"
    assert capsys.readouterr().out == ""


def test_endless_printing_is_cut():
    called = call(lambda: say("x" * 50_000), ())
    assert len(called.stdout) < 10_100
    assert "cut" in called.stdout


def test_printing_goes_on_as_before_after_a_timeout(capsys):
    def prints():
        while True:
            say("x")

    assert call(prints, (), limit_s=0.1).timed_out
    say("shown")
    assert call(lambda: say("kept"), ()).stdout == "kept\n"
    assert capsys.readouterr().out == "shown\n"


def test_two_calls_at_once_keep_their_printing_apart():
    results = {}

    def printing(name):
        results[name] = call(lambda: [say(name) for _ in range(2000)] and None, ()).stdout

    threads = [threading.Thread(target=printing, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {"a": "a\n" * 2000, "b": "b\n" * 2000}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([(1, 2)], "[(1, 2)]"),
        (torch.tensor([[True, False]]), "bool tensor of shape (1, 2):\n1 0"),
        (torch.zeros(0, 3), "float32 tensor of shape (0, 3), empty"),
        (torch.arange(3), "int64 tensor of shape (3,): [0, 1, 2]"),
    ],
)
def test_values_are_shown_in_few_words(value, text):
    assert show(value) == text


def test_a_long_value_is_cut_in_its_middle():
    assert len(show(list(range(10_000)))) < 700
    assert " ... " in show_call("f", (list(range(10_000)),))


# --- one rule for types ------------------------------------------------------------------------


class Pair(NamedTuple):
    first: int
    second: int


class Sly(torch.Tensor):
    """Whose every operation is code of its own."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise AssertionError("the answer's own code ran in the judge")


@pytest.mark.parametrize(
    ("value", "plainly"),
    [
        (np.int64(3), 3),
        (np.float64(2.5), 2.5),
        (np.bool_(True), True),
        (torch.tensor(3), 3),
        (torch.tensor(2.5), 2.5),
        (torch.tensor(True), True),
        (Fraction(5, 2), 2.5),
        (Fraction(6, 2), 3),
        (Pair(1, 2), (1, 2)),
        (np.array([1, 2]), [1, 2]),
        ([np.int64(1), (np.int64(2),)], [1, (2,)]),
        (Counter("aab"), {"a": 2, "b": 1}),
        (defaultdict(list, {1: [np.int64(2)]}), {1: [2]}),
    ],
    ids=repr,
)
def test_a_right_value_in_another_type_becomes_plain(value, plainly):
    got = plain(value)
    assert got == plainly
    assert repr(got) == repr(plainly)  # the types too


def test_a_tensor_of_another_class_is_taken_for_the_tensor_beneath_it():
    got = plain(torch.ones(2, 3).as_subclass(Sly))
    assert type(got) is torch.Tensor
    assert got.tolist() == torch.ones(2, 3).tolist()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_tensor_that_cannot_be_looked_at_is_named():
    assert plain(torch.ones(2, 2).to_sparse()) == Opaque("sparse tensor")
    assert plain(torch.ones(2, 2, device="meta")) == Opaque("meta tensor without any data")
    assert plain(torch.nested.nested_tensor([torch.ones(2)])) == Opaque("nested tensor")


def test_a_list_within_itself_comes_to_an_end():
    ring = []
    ring.append(ring)
    assert plain(ring) == [Opaque("list without a bottom")]


@pytest.mark.parametrize(
    ("a", "b", "alike"),
    [
        (12, 12.0, True),
        ([1, (2, 3)], (1, [2, 3]), True),
        (1, True, False),
        (0.0, False, False),
        (float("nan"), float("nan"), True),
        (torch.ones(2), torch.ones(2).double(), False),
        (torch.ones(2), torch.ones(1, 2), False),
        ({1: [2]}, {1: (2,)}, True),
        ({1: True}, {1: 1}, False),
    ],
)
def test_values_are_the_same_by_what_they_say(a, b, alike):
    assert same(a, b) is alike


@pytest.mark.parametrize(
    ("value", "wanted", "plainly"),
    [
        (12.0, 3, 12),
        (12.5, 3, 12.5),
        (True, 3, True),
        ((1.0, 2), [7], [1, 2]),
        ([1, 2.0, False], (3, 4, True), (1, 2, False)),
        (3, 1.5, 3),
        ([], (1, 2), ()),
        ({1.0: 2.0}, {3: 4}, {1: 2}),
    ],
)
def test_a_value_takes_the_types_that_are_wanted_where_it_may(value, wanted, plainly):
    assert repr(like(value, wanted)) == repr(plainly)


# --- what an answer did to its arguments -------------------------------------------------------


def list_check(ask, rng):
    got = ask([3, 1, 2])
    return None if got == [1, 2, 3] else Failure("Sort them.", ask.example([1, 2, 3], got))


def test_an_argument_changed_on_the_way_to_a_right_answer_is_refused_everywhere():
    def in_place(numbers):
        numbers.sort()
        return numbers

    report = report_of(in_place, [("sorts", list_check)])
    assert (report.status, report.misconception) == ("failed", "in_place")
    assert "`numbers` was changed on the way" in report.idea
    assert report.example == (
        ("input", "add([3, 1, 2])"),
        ("before", "numbers = [3, 1, 2]"),
        ("after", "numbers = [1, 2, 3]"),
    )


def test_an_argument_that_was_emptied_is_shown_as_the_empty_list_that_it_is():
    def emptying(numbers):
        return sorted(numbers.pop() for _ in range(len(numbers)))

    report = report_of(emptying, [("sorts", list_check)])
    assert report.example[1:] == (("before", "numbers = [3, 1, 2]"), ("after", "numbers = []"))


def test_a_wrong_result_is_told_before_a_changed_argument():
    def in_place(numbers):
        numbers.sort()

    assert report_of(in_place, [("sorts", list_check)]).idea == "Sort them."


# --- calls that have to do with each other -------------------------------------------------------


def test_an_answer_that_remembers_is_told_so_where_it_goes_wrong():
    def adds_up(a, b, seen=[]):  # noqa: B006
        seen += [a, b]
        return sum(seen)

    report = report_of(adds_up)
    assert (report.status, report.passed, report.misconception) == ("failed", 1, "remembers")
    assert report.example[:2] == (("input", "add(1, 2)"), ("first", "3"))


def test_an_answer_that_is_right_until_it_is_asked_the_same_again_does_not_pass():
    asked = set()

    def once(a, b):
        if (a, b) in asked:
            raise KeyError(a)
        asked.add((a, b))
        return a + b

    report = report_of(once, [("by hand", CHECKS[0][1])])
    assert (report.status, report.passed, report.misconception) == ("failed", 0, "remembers")
    assert report.example[1:] == (("first", "3"), ("later", "KeyError"))


def test_what_is_drawn_in_one_call_is_not_drawn_in_the_next():
    report = report_of(lambda a, b: a + b + random.randrange(2**60), CHECKS[1:])
    assert report.misconception == "remembers"
    assert report_of(lambda a, b: a + b + 0 * random.random()).status == "passed"


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_list_that_every_call_returns_anew_is_refused_though_each_result_was_right(is_wrapped):
    def check(ask, rng):
        return next((Failure("Count.") for n in (2, 3, 1) if ask(n) != list(range(n))), None)

    buffer = []

    def counts(n):
        buffer[:] = range(n)
        return buffer

    def wrapped(function):
        return lambda n: list(function(n))

    answer = Here(counts).asked_as(wrapped) if is_wrapped else Here(counts)
    report = run_checks("l01.counts", answer, [("counts", check)])
    assert (report.status, report.misconception) == ("failed", "returned_again")
    assert report.example == (("first", "[0, 1, 2]"), ("later", "[0, 1]"))


def test_a_result_that_is_kept_and_never_changed_may_be_returned_again():
    @functools.cache
    def ordered(numbers):
        return sorted(numbers)

    report = report_of(lambda numbers: ordered(tuple(numbers)), [("sorts", list_check)] * 3)
    assert report.status == "passed"


# --- slow answers ------------------------------------------------------------------------------


def test_an_answer_that_waits_in_every_call_is_given_up_and_told_that_it_waited(monkeypatch):
    monkeypatch.setattr("course.harness._ALL_CALLS_WALL_S", 0.3)

    def sleepy(a, b):
        time.sleep(0.05)
        return a + b

    many = [("many", lambda ask, rng: [ask(1, 2) for _ in range(2000)] and None)]
    report = report_of(sleepy, many)
    assert report.status == "timeout"
    assert "took more than 0.3 s for" in report.idea and "the rest waiting" in report.idea


def test_the_limit_of_all_calls_is_named_and_not_what_was_left_of_it(monkeypatch):
    monkeypatch.setattr("course.harness._ALL_CALLS_LIMIT_S", 0.3)

    def slow(a, b):
        for _ in range(400_000):
            pass
        return a + b

    many = [("many", lambda ask, rng: [ask(1, 2) for _ in range(2000)] and None)]
    report = report_of(slow, many)
    assert report.status == "timeout"
    assert "computed for more than 0.3 s in" in report.idea


# --- what it calls -----------------------------------------------------------------------------


def test_a_function_that_is_not_written_yet_is_named_by_the_one_that_calls_it():
    def helper(a, b):
        raise NotImplementedError

    report = report_of(lambda a, b: helper(a, b))
    assert report.status == "raised"
    assert report.idea == "`add` calls `helper`, which is not written yet."


def test_an_operation_that_torch_does_not_have_is_no_untouched_stub():
    report = report_of(lambda a, b: torch.ones(2, 2).to_sparse().equal(torch.ones(2, 2)))
    assert report.status == "raised"


# --- showing -----------------------------------------------------------------------------------


def test_expected_and_got_never_look_alike():
    ones = torch.ones(1, 2)
    for expected, got in [(1.0, 1), ([1], [True]), (ones, ones.double()), (0.1 + 0.2, 0.3)]:
        (_, wanted), (_, came) = expected_and_got(expected, got, lambda value: "alike")
        assert wanted != came


def test_a_huge_value_is_cut_before_it_is_drawn():
    assert show(10**5000) == "<about 10**5000>"
    assert show([10**5000]) == "[<about 10**5000>]"
    assert show(torch.zeros(4_000_000)).startswith("float32 tensor of shape (4000000,): [0.0, 0.0")
    assert show([0] * 4_000_000).endswith("(4000000 entries)")


def test_seeding_a_call_copies_no_stack(monkeypatch):
    """torch.manual_seed copies it for a GPU that may come, which takes longer than most calls."""
    monkeypatch.setattr(traceback, "format_stack", lambda *_: 1 / 0)
    values = [call(lambda: torch.rand(2).tolist(), (), seed=seed).value for seed in (3, 3, 4)]
    assert values[0] == values[1] != values[2]

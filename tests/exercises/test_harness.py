"""The harness of a check: plain data in and out, the first failure told, nothing ever raised."""

import io
import pdb
import random
import time
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch

from course.calling.answers import answering
from course.calling.jobs import call
from course.calling.results import Opaque
from course.calling.values import plain
from course.format_values import brief, expected_and_got, show, show_call
from course.harness import Failure, run_checks
from course.report import Report
from course.same_values import like, same
from nanogpt.views.request_view import RequestView

process = pytest.mark.process


def add(a, b):
    return a + b


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


def sorts(ask, rng):
    got = ask([3, 1, 2])
    return None if got == [1, 2, 3] else Failure("Sort them.", ask.example([1, 2, 3], got))


CHECKS = [("by hand", by_hand), ("at random", at_random)]
SORTS = [("sorts", sorts)]
MANY = [("many", lambda ask, rng: [ask(1, 2) for _ in range(2000)] and None)]


def report_of(function, checks=CHECKS) -> Report:
    with answering(function, "add") as answer:
        return run_checks("l01.add", answer, checks)


# --- reports --------------------------------------------------------------------------------------


@process
def test_it_stops_at_the_first_failing_check_with_the_smallest_case():
    report = report_of(lambda a, b: a - b)
    assert (report.status, report.passed, report.misconception) == ("failed", 0, "subtracts")
    assert report.example == (("input", "add(1, 2)"), ("expected", "3"), ("got", "-1"))
    later = report_of(lambda a, b: min(a + b, 50))
    assert (later.status, later.passed, later.stopped_at) == ("failed", 1, "at random")


@process
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


@process
def test_a_breakpoint_is_said_to_be_in_the_way():
    def stops(a, b):
        pdb.Pdb(stdin=io.StringIO(), stdout=io.StringIO()).set_trace()
        return a + b

    debugger = "nobody can type into a debugger here, so take it out"
    assert report_of(stops).idea == f"Your `add` raised BdbQuit: {debugger}."


@process
def test_not_implemented_later_or_in_torch_is_an_error_and_no_untouched_stub():
    def half(a, b):
        if a == 1:
            return 3
        raise NotImplementedError

    sparse = torch.ones(2, 2).to_sparse()
    assert report_of(half).status == "raised"
    assert report_of(lambda a, b: sparse.equal(torch.ones(2, 2))).status == "raised"


@process
def test_the_same_seed_asks_the_same_cases_and_the_notebook_s_random_numbers_go_on():
    def asked(seed):
        seen = []
        checks = [("at random", lambda ask, rng: seen.append(rng.random()))]
        with answering(add, "add") as answer:
            run_checks("l01.add", answer, checks, seed=seed)
        return seen

    random.seed(5)
    assert asked(1) == asked(1) != asked(2)
    assert random.random() == random.Random(5).random()


@process
@pytest.mark.parametrize(
    ("limit", "answer", "checks", "words"),
    [
        ("_CALL_LIMIT_S", lambda a, b: [None for _ in iter(int, 1)], CHECKS, "was stopped"),
        ("_REPORT_LIMIT_S", lambda a, b: 0,
         [("circles", lambda ask, rng: [ask(1, 2) for _ in iter(int, 1)])], "came to no end"),
        ("_ALL_CALLS_WALL_S", lambda a, b: time.sleep(0.05), MANY, "the rest waiting"),
        ("_ALL_CALLS_LIMIT_S", lambda a, b: sum(range(400_000)), MANY, "computed for more than"),
    ],
)  # fmt: skip
def test_whatever_takes_too_long_is_given_up_and_told(limit, answer, checks, words, monkeypatch):
    monkeypatch.setattr(f"course.harness.{limit}", 0.3)
    report = report_of(answer, checks)
    assert report.status == "timeout"
    assert words in report.idea, report.idea
    assert report.example == (("input", "add(1, 2)"),)


# --- one call -------------------------------------------------------------------------------------


@process
def test_arguments_and_results_are_copies():
    given, keys = [1, 2], torch.zeros(2)

    def spoil(values, tensor):
        values.append(3)
        tensor += 1
        return values

    first = call(spoil, (given, keys))
    assert (given, keys.tolist(), first.value) == ([1, 2], [0, 0], [1, 2, 3])
    assert first.args_after[0] == [1, 2, 3] and first.args_after[1].tolist() == [1, 1]


# --- plain data -----------------------------------------------------------------------------------


class Sly(torch.Tensor):
    """Whose every operation is code of its own."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise AssertionError("the answer's own code ran in the judge")


@pytest.mark.parametrize(
    ("value", "plainly"),
    [
        (np.int64(3), 3),
        (torch.tensor(2.5), 2.5),
        (Fraction(6, 2), 3),
        ([np.int64(1), (np.array([2]),)], [1, ([2],)]),
        (Counter("aab"), {"a": 2, "b": 1}),
    ],
    ids=repr,
)
def test_a_right_value_in_another_type_becomes_plain(value, plainly):
    assert repr(plain(value)) == repr(plainly)  # the types too


@process
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_what_is_not_plain_data_is_a_name_and_runs_no_code_in_the_judge():
    class Liar(int):
        def __eq__(self, other):
            return True

        __hash__ = int.__hash__

    view = RequestView(3, 0, 5, 6, (1, 2), (7, 8), 4, 3)
    assert plain(view) == view and plain(view) is not view
    assert plain([print, (n for n in [1])]) == [
        Opaque("builtin_function_or_method"), Opaque("generator")
    ]  # fmt: skip
    assert report_of(lambda a, b: Liar(9)).status == "failed"
    sly = plain(torch.ones(2, 3).as_subclass(Sly))
    assert type(sly) is torch.Tensor and sly.tolist() == torch.ones(2, 3).tolist()
    assert plain(torch.ones(2, 2).to_sparse()) == Opaque("sparse tensor")
    assert plain(torch.ones(2, 2, device="meta")) == Opaque("meta tensor without any data")
    assert plain(torch.nested.nested_tensor([torch.ones(2)])) == Opaque("nested tensor")
    ring = []
    ring.append(ring)
    assert plain(ring) == [Opaque("list without a bottom")]


@pytest.mark.parametrize(
    ("a", "b", "same_result"),
    [
        ([1, (2.0, 3)], (1, [2, 3]), True),
        (1, True, False),
        (float("nan"), float("nan"), True),
        (torch.ones(2), torch.ones(2).double(), False),
        ({1: [2]}, {1: (2,)}, True),
        ({1: True}, {1: 1}, False),
    ],
)
def test_values_are_the_same_by_what_they_say(a, b, same_result):
    assert same(a, b) is same_result


@pytest.mark.parametrize(
    ("value", "wanted", "plainly"),
    [
        (12.5, 3, 12.5),
        (True, 3, True),
        ([1, 2.0, False], (3, 4, True), (1, 2, False)),
        ({1.0: 2.0}, {3: 4}, {1: 2}),
    ],
)
def test_a_value_takes_the_types_that_are_wanted_where_it_may(value, wanted, plainly):
    assert repr(like(value, wanted)) == repr(plainly)


def test_a_changed_tensor_of_many_dimensions_is_told_by_its_first_other_cell():
    before = torch.arange(12.0).view(2, 3, 2) / 4
    after = before.clone()
    after[1, 0, 1:] += 2**-12
    told = "float32 tensor of shape (2, 3, 2), with {} at [1, 0, 1]"
    assert brief(before, after) == told.format(1.75)
    assert brief(after, before) == told.format(1.75 + 2**-12)
    assert brief(before, before) == show(before)


# --- what calls have to do with each other --------------------------------------------------------


@process
def test_an_argument_changed_on_the_way_to_a_right_answer_is_refused_everywhere():
    def in_place(numbers):
        numbers.sort()
        return numbers

    report = report_of(in_place, SORTS)
    assert (report.status, report.misconception) == ("failed", "in_place")
    assert "`numbers` was changed on the way" in report.idea
    assert report.example == (
        ("input", "add([3, 1, 2])"),
        ("before", "numbers = [3, 1, 2]"),
        ("after", "numbers = [1, 2, 3]"),
    )
    assert report_of(lambda numbers: numbers.sort(), SORTS).idea == "Sort them."  # told first


@process
def test_an_answer_that_remembers_is_told_so_where_it_goes_wrong():
    def adds_up(a, b, seen=[]):  # noqa: B006
        seen += [a, b]
        return sum(seen)

    report = report_of(adds_up)
    assert (report.status, report.passed, report.misconception) == ("failed", 1, "remembers")
    assert report.example[:2] == (("input", "add(1, 2)"), ("first", "3"))


@process
def test_an_answer_that_is_right_until_it_is_asked_the_same_again_does_not_pass():
    asked = set()

    def once(a, b):
        if (a, b) in asked:
            raise KeyError(a)
        asked.add((a, b))
        return a + b

    report = report_of(once, CHECKS[:1])
    assert (report.status, report.misconception) == ("failed", "remembers")
    assert report.example[1:] == (("first", "3"), ("later", "KeyError"))


@process
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_list_that_every_call_returns_anew_is_refused_though_each_result_was_right(is_wrapped):
    def check(ask, rng):
        return next((Failure("Count.") for n in (2, 3, 1) if ask(n) != list(range(n))), None)

    buffer = []

    def counts(n):
        buffer[:] = range(n)
        return buffer

    with answering(counts, "counts") as answer:
        if is_wrapped:
            answer = answer.asked_as(lambda function: lambda n: list(function(n)))
        report = run_checks("l01.counts", answer, [("counts", check)])
    assert (report.status, report.misconception) == ("failed", "returned_again")
    assert report.example == (("first", "[0, 1, 2]"), ("later", "[0, 1]"))


# --- showing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([(1, 2)], "[(1, 2)]"),
        (torch.tensor([[True, False]]), "bool tensor of shape (1, 2):\n1 0"),
        (torch.zeros(0, 3), "float32 tensor of shape (0, 3), empty"),
        (torch.arange(3), "int64 tensor of shape (3,): [0, 1, 2]"),
        ([10**5000], "[about 10**5000]"),
    ],
    ids=["list", "bools", "empty", "row", "huge"],
)
def test_values_are_shown_in_few_words(value, text):
    assert show(value) == text


def test_a_long_value_is_cut_before_it_is_drawn():
    assert " ... " in show_call("f", (list(range(10_000)),))
    assert show(torch.zeros(4_000_000)).endswith(
        "(4000000,), which begins 0, 0, 0, 0, 0, 0, 0, 0, ..."
    )
    assert show([0] * 4_000_000).endswith("(4000000 entries)")


def test_expected_and_got_never_look_alike():
    ones = torch.ones(1, 2)
    for expected, got in [(1.0, 1), ([1], [True]), (ones, ones.double()), (0.1 + 0.2, 0.3)]:
        (_, wanted), (_, came) = expected_and_got(expected, got, lambda value: "same_result")
        assert wanted != came

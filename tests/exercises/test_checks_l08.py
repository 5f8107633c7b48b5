"""The checks of lesson 8: the law of what comes out, texts played out, and what cards show."""

import inspect
import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from answers import right, worked, wrong
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

from course import harness
from course.answering import Here
from course.exercise import Exercise
from course.harness import Ask
from course.registry import exercise, lesson_exercises
from nanogpt.parts import acceptance
from solutions.l08_speculation._law import LAW_P, LAW_Q, law_cases
from solutions.l08_speculation.accept import any_drafts
from solutions.l08_speculation.roll_back_kv import Pass, judge_story

MANY = examples(60)
ITEMS: dict[str, Any] = {item.id: item for item in lesson_exercises("l08_speculation")}
NAMES = [item.name for item in ITEMS.values()]
WRONG = {f"{exercise_id} {each.name}": each for exercise_id in ITEMS for each in wrong(exercise_id)}
accept, expected_tokens, speedup, roll_back_kv = map(worked, ITEMS)


def card(name: str) -> dict[str, str]:
    """The example rows that a known wrong answer gets to see."""
    return dict(exercise(WRONG[name].exercise).check(WRONG[name].function).example)


def law_alone(function: Callable[..., Any]) -> Any:
    item = ITEMS["l08.accept"]
    return harness.run_checks(item.id, Here(function), item.checks[2:3], draw_call=item.draw_call)


# --- what is accepted ------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_engine_s_own_functions_pass(name: str) -> None:
    function = getattr(acceptance, name)
    reports = [exercise(f"l08.{name}").check(function, seed=seed) for seed in range(25)]
    assert {report.status for report in reports} == {"passed"}, reports[0].text()


@pytest.mark.parametrize("answer", right("l08.accept"))
def test_no_seed_sets_two_right_ways_of_rounding_against_each_other(answer: Any) -> None:
    for seed in range(40):
        for args in any_drafts(random.Random(seed)):
            assert answer(*args) == acceptance.accept(*args), args


@pytest.mark.parametrize("name", ["expected_tokens", "speedup"])
@pytest.mark.parametrize("digits", [7, 9, 12])
def test_a_mean_may_be_a_rounding_away(name: str, digits: int) -> None:
    def rounded(*args: Any) -> float:
        return float(format(worked(f"l08.{name}")(*args), f".{digits}g"))

    assert exercise(f"l08.{name}").check(rounded).status == "passed"


@pytest.mark.parametrize("name", ["expected_tokens", "speedup"])
@pytest.mark.parametrize("by", [1.001, 0.999])
def test_a_mean_that_is_a_thousandth_off_fails(name: str, by: float) -> None:
    off = exercise(f"l08.{name}").check(lambda *args: by * worked(f"l08.{name}")(*args))
    assert (off.status, off.passed, off.misconception) == ("failed", 0, None)


def test_draws_are_of_both_kinds_and_of_all_sizes() -> None:
    cases = any_drafts(random.Random(3))
    stay = sum(acceptance.accept(*args)[0] for args in cases)
    assert 15 <= stay <= 45
    assert {len(p) for p, *_ in cases} == {2, 3, 4, 5, 6, 7, 12}
    for p, q, token, u, v in cases:
        assert sum(p) == pytest.approx(1) and sum(q) == pytest.approx(1)
        assert q[token] > 0 and 0 <= u < 1 and 0 <= v < 1


# --- the law ---------------------------------------------------------------------------------


def test_the_cells_give_the_exact_law_of_a_right_answer() -> None:
    mass = dict.fromkeys(range(4), Fraction(0))
    for weight, args in law_cases():
        mass[acceptance.accept(*args)[1]] += Fraction(weight, sum(LAW_Q) * 36)
    assert list(mass.values()) == [Fraction(n, 6) for n in LAW_P]


@pytest.mark.parametrize("answer", right("l08.accept"))
def test_every_right_answer_has_the_law(answer: Any) -> None:
    assert law_alone(answer).status == "passed"


@pytest.mark.parametrize(
    ("name", "law", "too_often"),
    [
        ("from_p", "[0.25, 0.25, 0.3333, 0.1667]", "token 0: 0.25, not 0.1667"),
        ("from_q", "[0.4167, 0.3333, 0.25, 0.0]", "token 0: 0.4167, not 0.1667"),
        ("always_keeps", "[0.5, 0.3333, 0.1667, 0.0]", "token 0: 0.5, not 0.1667"),
        ("returns_the_draft", "[0.5, 0.3333, 0.1667, 0.0]", "token 0: 0.5, not 0.1667"),
        ("only_if_higher", "[0.0, 0.0, 0.4444, 0.5556]", "token 3: 0.5556, not 0.3333"),
        ("evenly", "[0.1667, 0.1667, 0.4167, 0.25]", "token 2: 0.4167, not 0.3333"),
        ("reuses_u", "[0.1667, 0.1667, 0.1667, 0.5]", "token 3: 0.5, not 0.3333"),
    ],
)
def test_the_law_alone_says_which_token_comes_out_too_often(
    name: str, law: str, too_often: str
) -> None:
    known = WRONG[f"l08.accept {name}"]
    report = law_alone(known.function)
    rows = dict(report.example)
    assert report.misconception == known.key
    assert (rows["expected"], rows["got"]) == ("as p: [0.1667, 0.1667, 0.3333, 0.3333]", law)
    assert rows["too often"] == too_often
    assert rows["one call: input"].startswith("accept(p=[0.1667, 0.1667, ")


@pytest.mark.parametrize(
    "name", ["never_keeps", "draws_and_compares", "u_turned_round", "other_order 2", "other_order"]
)
def test_another_way_to_the_same_law_is_wrong_for_another_reason(name: str) -> None:
    known = WRONG[f"l08.accept {name}"]
    law = law_alone(known.function)
    if known.key != "u_turned_round":  # it keeps the drafts that should go
        assert law.status == "passed", law.text()
    assert exercise("l08.accept").check(known.function).misconception == known.key


def test_an_unknown_wrong_law_is_told_by_its_token() -> None:
    def keeps_a_little_more(p: Any, q: Any, token: int, u: float, v: float) -> tuple[bool, int]:
        return accept(p, q, token, 0.7 * u, v)

    report = law_alone(keeps_a_little_more)
    assert report.misconception is None
    assert report.idea == ("Token 0 comes out too often: what stands has to be distributed as p.")
    assert dict(report.example)["too often"].startswith("token 0: 0.25, not")


@pytest.mark.parametrize("value", [(False, 9), (False, -1), (True, 2.5), [True, 2], None])
def test_what_is_no_token_has_no_law(value: Any) -> None:
    report = law_alone(lambda *args: value)
    assert report.status == "failed" and "could not work" not in report.idea, report.text()


# --- texts -----------------------------------------------------------------------------------


def story(function: Callable[..., Any], *passes: Pass, text: str = "ROM") -> Any:
    return judge_story(Ask("roll_back_kv", Here(function), seed=0), text, passes)


def test_a_right_roll_back_goes_through_a_text() -> None:
    held: list[tuple[int, int, int]] = []

    def watched(*args: int) -> int:
        held.append((args[0], args[1], args[2]))
        return roll_back_kv(*args)

    assert story(watched, Pass("EXY", 1, "O"), Pass("", 0, "I"), Pass("S", 1, "A")) is None
    # 3 known and 3 drafts; 5 known; 6 known and 1 draft; each is asked about, and once more.
    assert held[::2] == held[1::2] == [(6, 3, 1), (5, 0, 0), (7, 1, 1)]


@pytest.mark.parametrize(
    ("name", "then"),
    [
        (
            "keeps_rejected",
            "position 4 keeps the K/V of X, which was rejected, and the text has O there",
        ),
        (
            "drops_the_last_known",
            "position 3, E, has lost its K/V, and the next pass, which begins with the O at "
            "position 4, does not compute it",
        ),
        ("held_before", "K/V of 7 tokens is held, and more than that cannot be kept"),
    ],
)
def test_a_wrong_roll_back_is_shown_at_its_place(name: str, then: str) -> None:
    rows = card(f"l08.roll_back_kv {name}")
    assert rows["input"] == "roll_back_kv(held=7, num_drafted=4, num_accepted=1)"
    assert (rows["K/V held"], rows["the text"]) == ("R O M E X Y Z", "R O M E O")
    assert rows["then"] == then


def test_a_number_below_0_is_told_apart() -> None:
    failure = story(lambda *args: -2, Pass("EX", 1, "O"))
    assert (
        failure is not None
        and dict(failure.example)["then"] == "there is no keeping fewer than none"
    )


def test_whole_texts_alone_catch_every_wrong_roll_back() -> None:
    item = ITEMS["l08.roll_back_kv"]
    for each in wrong(item.id):
        for seed in range(3):
            report = harness.run_checks(item.id, Here(each.function), item.checks[3:4], seed=seed)
            assert report.status == "failed", each.name


# --- what the cards show ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "asked", "expected", "got"),
    [
        (
            "l08.accept at_the_threshold",
            "accept(p=[0.0, 0.0, 1.0], q=[1.0, 0.0, 0.0], token=0, u=0.0, v=0.0)",
            "(False, 2)",
            "(True, 0)",
        ),
        (
            "l08.accept falls_off_the_end",
            "accept(p=[0.3, 0.15, 0.15, 0.3, 0.1], q=[0.1, 0.1, 0.3, 0.2, 0.3], token=4, u=0.5, "
            "v=0.9999999999999999)",
            "(False, 3)",
            "None",
        ),
        ("l08.expected_tokens endless", "expected_tokens(p=0.5, k=1)", "1.5", "2"),
        ("l08.expected_tokens divides_by_zero 2", "expected_tokens(p=1.0, k=4)", "5",
         "ZeroDivisionError"),
        ("l08.speedup charged_once_each_alone", "speedup(p=0.85, k=4, alpha=0.1)", "2.64902", "4"),
        ("l08.speedup never_below_1", "speedup(p=0.2, k=4, alpha=0.1)", "0.892571", "1"),
    ],
)  # fmt: skip
def test_a_misconception_is_shown_on_a_case_made_for_it(
    name: str, asked: str, expected: str, got: str
) -> None:
    assert card(name) == {"input": asked, "expected": expected, "got": got}


def test_the_source_s_numbers_come_from_the_named_mistakes() -> None:
    forgotten = WRONG["l08.expected_tokens bonus_forgotten"].function
    once = WRONG["l08.speedup charged_once_each_alone"].function
    assert round(forgotten(0.85, 4), 2) == 2.71 and round(expected_tokens(0.85, 4), 3) == 3.709
    assert round(once(0.85, 4, 0.1), 2) == 4.0 and round(speedup(0.85, 4, 0.1), 2) == 2.65


# --- solutions against the engine's own ------------------------------------------------------

PROBS = st.lists(st.integers(0, 40), min_size=2, max_size=8).filter(any)
CHANCE = st.integers(0, 9_999).map(lambda n: (n + 0.37) / 10_000)


@MANY
@given(PROBS, st.data(), CHANCE, CHANCE)
def test_accept_is_the_engine_s(
    weights: list[int], data: st.DataObject, u: float, v: float
) -> None:
    same_size = st.lists(st.integers(0, 40), min_size=len(weights), max_size=len(weights))
    drafted = data.draw(same_size.filter(any))
    p, q = ([n / sum(each) for n in each] for each in (weights, drafted))
    token = data.draw(st.sampled_from([i for i, n in enumerate(drafted) if n]))
    assert accept(p, q, token, u, v) == acceptance.accept(p, q, token, u, v)


@MANY
@given(st.floats(0, 1), st.integers(0, 12), st.floats(0, 2))
def test_the_means_are_the_engine_s(p: float, k: int, alpha: float) -> None:
    assert expected_tokens(p, k) == pytest.approx(acceptance.expected_tokens(p, k))
    assert speedup(p, k, alpha) == pytest.approx(acceptance.speedup(p, k, alpha))
    assert 1 <= expected_tokens(p, k) <= k + 1 + 1e-9
    assert math.isfinite(speedup(p, k, alpha))


@MANY
@given(st.integers(1, 500), st.integers(0, 12), st.data())
def test_roll_back_kv_is_the_engine_s(known: int, num_drafted: int, data: st.DataObject) -> None:
    num_accepted = data.draw(st.integers(0, num_drafted))
    args = (known + num_drafted, num_drafted, num_accepted)
    assert roll_back_kv(*args) == acceptance.roll_back_kv(*args) == known + num_accepted


# --- what the page says ----------------------------------------------------------------------


@pytest.mark.parametrize("item", ITEMS.values(), ids=lambda item: item.name)
def test_the_task_s_signature_is_the_answer_s_own(item: Exercise) -> None:
    lines = inspect.getsource(item.right[0]).split(':\n    """')[0].removeprefix("def ")
    signature = " ".join(lines.split()).replace("( ", "(").replace(" )", ")")
    assert item.task.signature == signature

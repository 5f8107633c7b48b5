"""The checks of lesson 10: answers against the server's own parts, and what a card shows."""

import inspect
import random
from typing import Any

import pytest
from answers import right, worked
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

from course.exercise import Exercise
from course.registry import exercise, lesson_exercises
from nanogpt.server import server_parts
from nanogpt.server.server_parts import DoorLimits, NewRequest, QueueView
from solutions.l10_capstone.admit_or_refuse import any_door
from solutions.l10_capstone.next_events import a_stream
from solutions.l10_capstone.on_disconnect import any_state

MANY = examples(100)
ITEMS: dict[str, Exercise] = {item.name: item for item in lesson_exercises("l10_capstone")}


@pytest.mark.parametrize("name", ITEMS)
def test_the_server_s_own_parts_pass(name: str) -> None:
    function = getattr(server_parts, name)
    reports = [exercise(f"l10.{name}").check(function, seed=seed) for seed in range(10)]
    assert {report.status for report in reports} == {"passed"}, reports[0].text()


@pytest.mark.parametrize(
    ("name", "answer", "idea", "input_has", "expected", "got"),
    [
        (
            "admit_or_refuse",
            lambda queue, limits, request: "accept",
            "A queue without an end only looks kind",
            "running=(40, 12, 30), num_waiting=1, tokens_per_s=8.0",
            "(429, 5)",
            "accept",
        ),
        (
            "next_events",
            lambda committed, sent, is_done: (
                [new] if (new := b"".join(committed).decode(errors="replace")[sent:]) else []
            ),
            "The bytes of an unfinished character are no text yet",
            "next_events(committed=[b'O ', b'caf', b'\\xc3'], sent=5, is_done=False)",
            "[]",
            "['\ufffd']",
        ),
        (
            "on_disconnect",
            lambda state, request_id: {
                **state,
                "waiting": [i for i in state["waiting"] if i != request_id],
            },
            "Nothing reads the rest",
            "running': {2: 40, 4: 12, 3: 25}",
            "{'waiting': [7, 5], 'running': {2: 40, 3: 25}, 'leaving': [], 'in_step': False}",
            "{'waiting': [7, 5], 'running': {2: 40, 4: 12, 3: 25}, 'leaving': [], "
            "'in_step': False}",
        ),
    ],
    ids=["door", "events", "leaving"],
)
def test_a_wrong_answer_is_told_by_a_case_that_shows_it(
    name: str, answer: Any, idea: str, input_has: str, expected: str, got: str
) -> None:
    report = exercise(f"l10.{name}").check(answer)
    rows = dict(report.example)
    assert report.status == "failed"
    assert idea in report.idea
    assert input_has in rows["input"]
    assert (rows["expected"], rows["got"]) == (expected, got)


# --- against the server's own ---------------------------------------------------------------------


@pytest.mark.parametrize("answer", right("l10.admit_or_refuse"))
def test_no_seed_sets_two_right_doors_against_each_other(answer: Any) -> None:
    for seed in range(40):
        for args in any_door(random.Random(seed)):
            assert answer(*args) == server_parts.admit_or_refuse(*args), args


def by_id(books: dict[str, Any]) -> dict[str, Any]:
    return {**books, "leaving": sorted(books["leaving"])}


@pytest.mark.parametrize("answer", right("l10.on_disconnect"))
def test_every_right_answer_leaves_the_books_as_the_server_does(answer: Any) -> None:
    for seed in range(40):
        for args in any_state(random.Random(seed)):
            assert by_id(answer(*args)) == by_id(server_parts.on_disconnect(*args)), args


@pytest.mark.parametrize("answer", right("l10.next_events"))
def test_a_stream_asked_again_and_again_is_the_text_once(answer: Any) -> None:
    for seed in range(60):
        said = ""
        cases = a_stream(random.Random(seed))
        for committed, sent, is_done in cases:
            assert sent == len(said)
            said += "".join(answer(committed, sent, is_done))
        assert said == b"".join(cases[-1][0]).decode(errors="replace")


@MANY
@given(
    st.lists(st.integers(1, 200), max_size=6),
    st.integers(0, 6),
    st.floats(0, 500),
    st.booleans(),
    st.integers(1, 12),
    st.tuples(st.integers(1, 80), st.integers(1, 80)),
)
def test_a_door_lets_in_what_there_is_room_for_and_names_a_time_for_the_others(
    running: list[int],
    num_waiting: int,
    pace: float,
    is_closing: bool,
    most: int,
    lengths: tuple[int, int],
) -> None:
    queue = QueueView(tuple(running), num_waiting, pace, is_closing)
    verdict = worked("l10.admit_or_refuse")(
        queue, DoorLimits(most, 64, 100, 60), NewRequest(*lengths)
    )
    fits = lengths[0] <= 64 and sum(lengths) <= 101
    if verdict == "accept":
        assert fits and not is_closing and len(running) + num_waiting < most
    else:
        status, retry_s = verdict
        assert (status == 400) == (not fits)
        assert (status == 503) == (fits and is_closing)
        assert (retry_s is None) == (status != 429)
        assert retry_s is None or 1 <= retry_s <= 60


def test_drawn_doors_are_of_every_kind() -> None:
    verdicts = [server_parts.admit_or_refuse(*args) for args in any_door(random.Random(3))]
    kinds = {"accept" if verdict == "accept" else verdict[0] for verdict in verdicts}
    assert kinds == {"accept", 400, 429, 503}
    assert len({verdict for verdict in verdicts if verdict[0] == 429}) > 5


# --- what the page says ---------------------------------------------------------------------------


@pytest.mark.parametrize("item", ITEMS.values(), ids=list(ITEMS))
def test_the_task_s_signature_is_the_answer_s_own(item: Exercise) -> None:
    lines = inspect.getsource(item.right[0]).split(':\n    """')[0].removeprefix("def ")
    signature = " ".join(lines.split()).replace("( ", "(").replace(" )", ")").replace('"', "")
    assert item.task.signature == signature

"""The checks of lesson 6: ranks played without processes, books, and what their cards show."""

import inspect
import itertools
import random
from collections.abc import Callable, Generator
from typing import Any

import pytest
from answers import worked, wrong
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

from course import harness
from course.checks.voting import Played, Votes, play
from course.exercise import Exercise
from course.registry import exercise, lesson_exercises
from nanogpt.preemption import races
from nanogpt.preemption.agreement import checkpoint, local_vote
from nanogpt.preemption.cleanup import clean_up
from nanogpt.preemption.scheduler_books import Books
from nanogpt.preemption.suspended import resume_or_abort
from solutions.l06_preempting_the_pass._books import any_books, next_step
from solutions.l06_preempting_the_pass.checkpoint import only_voters_join

MANY = examples(60)
ITEMS: dict[str, Any] = {item.id: item for item in lesson_exercises("l06_preempting_the_pass")}
WRONG = {f"{exercise_id} {each.name}": each for exercise_id in ITEMS for each in wrong(exercise_id)}
ONE_OF_TWO = Votes(((1, 0),))


def card(name: str) -> dict[str, str]:
    """The example rows that a known wrong answer gets to see."""
    return dict(exercise(WRONG[name].exercise).check(WRONG[name].function).example)


def engine_s_way(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    return resume_or_abort(
        suspended_us,
        pass_us,
        urgent_waits=urgent_waits,
        memory_is_short=memory_is_short,
        bound=bound,
    )


# --- what is accepted ------------------------------------------------------------------------


@pytest.mark.parametrize("function", [local_vote, checkpoint, clean_up, engine_s_way])
def test_the_engine_s_own_functions_pass(function: Callable[..., Any]) -> None:
    name = {"engine_s_way": "resume_or_abort"}.get(function.__name__, function.__name__)
    reports = [exercise(f"l06.{name}").check(function, seed=seed) for seed in range(12)]
    assert {report.status for report in reports} == {"passed"}, reports[0].text()


@pytest.mark.parametrize(
    ("name", "function", "key"),
    [
        ("local_vote", races.vote_if_flagged, "flag"),
        ("checkpoint", races.leave_alone, "no_collective"),
        ("checkpoint", races.leave_first, "leaves_first"),
        ("clean_up", races.keep_previous_step, "keeps_previous_step"),
    ],
)
def test_the_races_of_the_real_ranks_fail_for_their_own_reason(
    name: str, function: Callable[..., Any], key: str
) -> None:
    assert exercise(f"l06.{name}").check(function).misconception == key


# --- ranks without processes -----------------------------------------------------------------


@MANY
@given(st.lists(st.sampled_from([0, 1]), min_size=1, max_size=4), st.data())
def test_all_leave_or_none_does_in_whatever_order_they_come(
    votes: list[int], data: st.DataObject
) -> None:
    ranks = list(range(len(votes)))
    turns = [*data.draw(st.permutations(ranks)), *data.draw(st.permutations(ranks))]
    played = play(checkpoint, Votes((tuple(votes),), tuple(turns)))
    assert not played.hangs and played.problem is None
    assert played.places == (("left" if any(votes) else "done"),) * len(votes)
    assert played.did == tuple(
        (f"max({vote}) = {max(votes)}", "leave" if any(votes) else "sum") for vote in votes
    )


@MANY
@given(st.integers(1, 4), st.integers(1, 3), st.data())
def test_a_pass_is_left_at_the_first_layer_at_which_somebody_wants_to(
    num_layers: int, num_ranks: int, data: st.DataObject
) -> None:
    layer = st.tuples(*[st.sampled_from([0, 1])] * num_ranks)
    by_layer = tuple(data.draw(st.lists(layer, min_size=num_layers, max_size=num_layers)))
    played = play(checkpoint, Votes(by_layer))
    first = next((i for i, votes in enumerate(by_layer) if any(votes)), None)
    assert [did.count("sum") for did in played.did] == [
        num_layers if first is None else first
    ] * num_ranks
    assert set(played.places) == ({"done"} if first is None else {"left"})


def waits_in_max_for(votes: tuple[int, ...]) -> str:
    return str(play(races.leave_first, Votes((votes,)))).splitlines()[-1]


def test_a_hang_says_who_waits_where_for_whom() -> None:
    alone = "rank 1: sum, where it waits for ever for rank 0, which has left"
    assert str(play(races.leave_alone, ONE_OF_TWO)) == f"rank 0: leave\n{alone}"
    assert waits_in_max_for((1, 0)) == (
        "rank 1: max(0), where it waits for ever for rank 0, which has left"
    )
    assert waits_in_max_for((1, 1, 0)) == (
        "rank 2: max(0), where it waits for ever for rank 0, which has left, and rank 1, "
        "which has left"
    )
    assert str(play(only_voters_join, ONE_OF_TWO)) == (
        "rank 0: max(1), where it waits for ever for rank 1, which waits in sum\n"
        "rank 1: sum, where it waits for ever for rank 0, which waits in max"
    )


@pytest.mark.parametrize("name", ["no_collective", "leaves_first", "only_voters_join", "own_vote"])
def test_a_rank_on_its_own_leaves_another_hanging(name: str) -> None:
    function = WRONG[f"l06.checkpoint {name}"].function
    assert play(function, ONE_OF_TWO).hangs
    assert "waits for ever" in card(f"l06.checkpoint {name}")["got"]
    assert not play(function, Votes(((0, 0),))).hangs


def test_votes_are_named_by_rank_and_by_layer_and_in_turn() -> None:
    assert str(ONE_OF_TWO) == "vote = 1 on rank 0, 0 on rank 1"
    assert str(Votes(((0, 1), (1, 1)), (1, 0))) == (
        "vote = 0 and 1 at layer 0, 1 and 1 at layer 1; turns rank 1, rank 0"
    )


def test_ranks_that_agree_through_the_memory_of_one_process_fail() -> None:
    """Played in the order 0, 1, ... they may come through; another order tells."""
    seen: list[int] = []

    def through_a_list(vote: int) -> Generator[Any, int, None]:
        seen.append(vote)
        agreed = yield ("max", vote)
        if agreed and any(seen[-2:]):
            yield ("leave",)

    assert exercise("l06.checkpoint").check(through_a_list).status == "failed"


def test_a_checkpoint_that_tires_is_caught_at_three_ranks_as_one_that_remembers() -> None:
    made = itertools.count()

    def tires(vote: int) -> Generator[Any, int, None]:
        number = next(made)
        agreed = yield ("max", vote)
        if agreed and number < 50:
            yield ("leave",)

    report = exercise("l06.checkpoint").check(tires)
    assert (report.status, report.passed) == ("failed", 2), report.text()
    assert report.misconception == "remembers"


def test_an_error_in_a_generator_names_the_answer_s_own_line() -> None:
    def slips(vote: int) -> Generator[Any, int, None]:
        agreed = yield ("max", vote)
        if agreed / vote:
            yield ("leave",)

    report = exercise("l06.checkpoint").check(slips)
    assert report.status == "raised"
    assert "ZeroDivisionError on its line 3" in report.idea, report.idea
    assert dict(report.example)["input"] == f"checkpoint({ONE_OF_TWO})"


def test_a_generator_that_is_only_a_stub_is_not_started() -> None:
    def stub(vote: int) -> Generator[Any, int, None]:
        raise NotImplementedError
        yield

    assert exercise("l06.checkpoint").check(stub).status == "not_started"


@pytest.mark.parametrize("where", ["before its first move", "after the collective", "at its end"])
def test_a_generator_that_does_not_come_back_is_stopped(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "_CALL_LIMIT_S", 0.05)

    def stuck(vote: int) -> Generator[Any, int, None]:
        while where == "before its first move":
            pass
        try:
            agreed = yield ("max", vote)
        finally:
            while where == "at its end":
                pass
        while where == "after the collective":
            pass
        if agreed:
            yield ("leave",)

    assert exercise("l06.checkpoint").check(stuck).status == "timeout"


def test_a_generator_that_yields_for_ever_is_ended_by_its_moves() -> None:
    closed: list[int] = []

    def endless(vote: int) -> Generator[Any, int, None]:
        try:
            while True:
                yield ("max", vote)
        finally:
            closed.append(vote)

    played = Played(endless)(ONE_OF_TWO)
    assert played.problem is not None and played.problem[0] == "endless"
    assert sorted(closed) == [0, 1]


def test_a_generator_that_will_not_be_closed_does_no_harm() -> None:
    def clings(vote: int) -> Generator[Any, int, None]:
        agreed = yield ("max", vote)
        try:
            if agreed:
                yield ("leave",)
        except GeneratorExit:
            yield ("max", vote)

    assert exercise("l06.checkpoint").check(clings).status == "passed"


# --- books -----------------------------------------------------------------------------------


def test_of_several_mistakes_the_first_field_is_talked_about() -> None:
    def forgets_two(books: Books, aborted: list[int], waiter: int | None) -> Books:
        after = races.keep_previous_step(books, aborted, waiter)
        return Books(after.waiting, after.running, books.kv, after.previous_step, after.next_up)

    report = exercise("l06.clean_up").check(forgets_two)
    assert report.misconception == "leaks_kv"


def test_a_wrong_field_that_no_known_mistake_explains_still_has_its_rule() -> None:
    def swaps(books: Books, aborted: list[int], waiter: int | None) -> Books:
        after = clean_up(books, aborted, waiter)
        return Books(
            after.waiting, after.running[::-1], after.kv, after.previous_step, after.next_up
        )

    report = exercise("l06.clean_up").check(swaps)
    assert (report.status, report.misconception) == ("failed", None)
    assert report.idea == (
        "Go through `running`: which requests were in the pass, and which go on as before?"
    )


@pytest.mark.parametrize(
    ("name", "then"),
    [
        (
            "keeps_previous_step",
            "request 1 admitted in the next step, the engine stops: requests [1] are admitted, "
            "yet the last step was scheduled with them",
        ),
        ("leaks_kv", "K/V that is never used and never released: that of request 1"),
        ("lost", "neither running nor waiting, so it is never computed: request 1"),
        ("still_running", "running and waiting, so it will be admitted once more: request 1"),
        (
            "waiter_is_gone",
            "request 9 is to be admitted and does not wait: it is gone, or it runs",
        ),
        (
            "forgets_the_waiter",
            "request 1 is admitted again, the one whose pass was aborted",
        ),
    ],
)
def test_a_mistake_in_the_books_is_followed_into_the_next_step(name: str, then: str) -> None:
    assert card(f"l06.clean_up {name}")["then"] == then


def test_right_books_have_nothing_to_be_said_about_the_next_step() -> None:
    rng = random.Random(3)
    for args in any_books(rng, 300):
        assert next_step(clean_up(*args), args) is None


# --- what the cards show ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "asked", "expected", "got"),
    [
        (
            "l06.local_vote flag",
            "local_vote(target=6, step=7, layer=1, num_layers=4)",
            "0",
            "1",
        ),
        (
            "l06.local_vote edge_too_early",
            "local_vote(target=5, step=5, layer=9, num_layers=10)",
            "1",
            "0",
        ),
        (
            "l06.checkpoint leaves_first",
            f"checkpoint({ONE_OF_TWO})",
            "rank 0: max(1) = 1, leave\nrank 1: max(0) = 1, leave",
            "rank 0: leave\nrank 1: max(0), where it waits for ever for rank 0, which has left",
        ),
        (
            "l06.checkpoint leaves_always",
            "checkpoint(vote = 0 on rank 0, 0 on rank 1)",
            "rank 0: max(0) = 0, sum\nrank 1: max(0) = 0, sum",
            "rank 0: max(0) = 0, leave\nrank 1: max(0) = 0, leave",
        ),
        (
            "l06.resume_or_abort memory_before_time",
            "resume_or_abort(suspended_us=2701, pass_us=900, urgent_waits=True, "
            "memory_is_short=True, bound=3.0)",
            "resume",
            "abort",
        ),
        (
            "l06.resume_or_abort one_moment_late",
            "resume_or_abort(suspended_us=2700, pass_us=900, urgent_waits=True, "
            "memory_is_short=False, bound=3.0)",
            "resume",
            "sleep",
        ),
    ],
)
def test_a_misconception_is_shown_on_a_case_made_for_it(
    name: str, asked: str, expected: str, got: str
) -> None:
    rows = card(name)
    assert (rows["input"], rows["expected"], rows["got"]) == (asked, expected, got)


def test_who_sleeps_for_ever_is_shown_asleep() -> None:
    rows = card("l06.resume_or_abort sleeps_for_ever")
    assert rows["then"] == "asked 30 times, every 300 us, it has slept 30 times"
    assert "then" not in card("l06.resume_or_abort one_moment_late")


# --- solutions against the engine's own ------------------------------------------------------

_step = st.integers(-1, 12)


@MANY
@given(_step, _step, st.integers(0, 60), st.integers(1, 60))
def test_local_vote_is_the_engine_s(target: int, step: int, layer: int, num_layers: int) -> None:
    engine_s = local_vote(target, step, layer, num_layers)
    assert worked("l06.local_vote")(target, step, layer, num_layers) == engine_s


@MANY
@given(st.sampled_from([0, 1]), st.sampled_from([0, 1]))
def test_checkpoint_is_the_engine_s(vote: int, agreed: int) -> None:
    for moves in (worked("l06.checkpoint")(vote), checkpoint(vote)):
        assert next(moves) == ("max", vote)
        if agreed:
            assert moves.send(agreed) == ("leave",)
        else:
            with pytest.raises(StopIteration):
                moves.send(agreed)


@MANY
@given(st.integers(0, 10_000))
def test_clean_up_is_the_engine_s(seed: int) -> None:
    for args in any_books(random.Random(seed), 5):
        assert worked("l06.clean_up")(*args) == clean_up(*args)


@MANY
@given(
    st.integers(0, 400),
    st.integers(1, 100),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.5, 1.0, 3.0]),
)
def test_resume_or_abort_is_the_engine_s(
    suspended: int, whole: int, urgent: bool, short: bool, bound: float
) -> None:
    args = suspended, whole, urgent, short, bound
    assert worked("l06.resume_or_abort")(*args) == engine_s_way(*args)


# --- what the page says ----------------------------------------------------------------------


@pytest.mark.parametrize("item", ITEMS.values(), ids=lambda item: item.name)
def test_the_task_s_signature_is_the_answer_s_own(item: Exercise) -> None:
    lines = inspect.getsource(item.right[0]).split(':\n    """')[0].removeprefix("def ")
    signature = " ".join(lines.split()).replace("( ", "(").replace(" )", ")").replace('"', "")
    assert item.task.signature == signature

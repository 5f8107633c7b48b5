"""What learners are told of particular wrong answers, worked out by hand: causes and small cases.

The audit asks about every misconception; here are slips that are nobody's misconception, or that
show in large or late cases only, and cards that are worth reading.
"""

import hashlib
import itertools
import random
import re
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import pytest
import torch
from answers import IDS, worked, written, wrong
from tiers import some
from torch import Tensor

from course import harness
from course.calling.answers import RemoteAnswer
from course.calling.results import CallResult
from course.registry import exercise
from course.report import Report

pytestmark = pytest.mark.process

block_hashes, my_policy = worked("l07.block_hashes"), worked("l09.my_policy")


def checked(exercise_id: str, answer: Callable[..., Any]) -> Report:
    return exercise(exercise_id).check(answer)


def card(exercise_id: str, name: str) -> dict[str, str]:
    """The example rows that a known wrong answer gets to see."""
    return dict(checked(exercise_id, written(exercise_id, name)).example)


# --- slips ----------------------------------------------------------------------------------------


def by_identity(tokens: list[int], computed: int, scheduled: int) -> Any:
    """Python keeps one object for each int up to 256."""
    end = computed + scheduled
    return tokens[computed:end], list(range(computed, end)), end is len(tokens)


def hashed(says: Callable[[Any, str], Any]) -> Callable[..., Any]:
    """What is said of the tokens up to the end of each block, and of the salt, as it is."""
    return lambda tokens, size, salt: [
        repr(says(tokens[:end], salt)) for end in range(size, len(tokens) + 1, size)
    ]


@pytest.mark.parametrize(
    ("exercise_id", "answer"),
    [
        ("l01.chunk_inputs", by_identity),
        ("l07.block_hashes", hashed(lambda tokens, salt: (tokens[-112:], salt))),
        ("l07.block_hashes", hashed(lambda tokens, salt: (tokens, salt.strip().lower()))),
    ],
)
def test_a_slip_that_is_no_misconception_is_refused(
    exercise_id: str, answer: Callable[..., Any]
) -> None:
    for seed in range(3):
        report = exercise(exercise_id).check(answer, seed=seed)
        assert (report.status, report.misconception) == ("failed", None), report.text()
        assert all(len(text) <= 800 for _, text in report.example)


def budget_below_4096(cost: Callable[[int], int], num_decodes: int, limit: int) -> int:
    return min(4095, worked("l01.pick_budget")(cost, num_decodes, limit))


def refuses_on_purpose(policy: str, request: Any) -> Any:
    if policy not in ("fcfs", "priority"):
        raise Exception(policy)
    return worked("l02.sort_key")(policy, request)


def needs_a_running_request(queue: Any, limits: Any, request: Any) -> Any:
    verdict = worked("l10.admission_control")(queue, limits, request)
    return verdict if verdict[0] != 429 or min(queue.running) else None


@pytest.mark.parametrize(
    ("exercise_id", "answer", "told"),
    [
        ("l01.pick_budget", budget_below_4096, "from num_decodes + 1 to 4096"),
        ("l02.sort_key", refuses_on_purpose, "the error is a ValueError"),
        ("l10.admission_control", needs_a_running_request, "while no request runs"),
        (
            "l07.allocate",
            lambda num, tokens, size, free: worked("l07.allocate")(num, tokens, size, sorted(free)),
            "take the first ones",
        ),
        (
            "l09.route",
            lambda workers, hits: (
                min(
                    workers,
                    key=lambda w: (w.backlog_tokens - hits.get(w.id, 0), w.num_running, -w.id),
                ).id
            ),
            "Only a tie",
        ),
    ],
)
def test_what_is_said_of_a_slip_is_true_of_it(
    exercise_id: str, answer: Callable[..., Any], told: str
) -> None:
    assert told in checked(exercise_id, answer).idea


def with_free_cells(full_mask: Callable[..., Tensor], seed: int) -> Callable[..., Tensor]:
    """The right mask, whose padding queries see anything, and at least the first key."""

    def answer(context_lens: list[int], num_scheduled_tokens: list[int]) -> Tensor:
        mask, rng = full_mask(context_lens, num_scheduled_tokens), random.Random(seed)
        for row, real in enumerate(num_scheduled_tokens):
            for query in range(mask.shape[1] - real):
                mask[row, query] = torch.tensor([rng.random() < 0.3 for _ in mask[row, query]])
                mask[row, query, 0] = True
        return mask

    return answer


def shuffled(position: int, window: int, sinks: int) -> int:
    slots = list(range(sinks + window))
    random.Random(f"{window} {sinks}").shuffle(slots)
    return slots[worked("l04.rolling_buffer_index")(position, window, sinks)]


def by_md5(tokens: list[int], size: int, salt: str) -> list[str]:
    ends = range(size, len(tokens) + 1, size)
    return [hashlib.md5(f"{salt!r} {tokens[:end]}".encode()).hexdigest().upper() for end in ends]


@pytest.mark.parametrize(
    ("exercise_id", "answer"),
    [
        ("l03.full_mask", with_free_cells(worked("l03.full_mask"), 1)),
        ("l04.rolling_buffer_index", shuffled),
        ("l07.block_hashes", by_md5),
    ],
)
def test_another_way_to_be_right_passes(exercise_id: str, answer: Callable[..., Any]) -> None:
    for seed in range(3):
        report = exercise(exercise_id).check(answer, seed=seed)
        assert report.status == "passed", report.text()


@pytest.mark.parametrize("name", ["l05.edf_score", "l08.expected_tokens", "l08.speedup"])
def test_a_number_may_be_a_rounding_away_and_not_a_thousandth(name: str) -> None:
    assert checked(name, lambda *args: float(f"{worked(name)(*args):.9g}")).status == "passed"
    for by in (1.001, 0.999):
        off = checked(name, lambda *args, by=by: by * worked(name)(*args))
        assert (off.status, off.passed) == ("failed", 0)


@pytest.mark.parametrize(
    ("exercise_id", "right_until", "passed"),
    [("l01.plan_step", 90, 6), ("l02.choose_victim", 32, 4), ("l09.pop_live", 40, 4)],
)
def test_an_answer_that_goes_wrong_after_many_calls_is_caught(
    exercise_id: str, right_until: int, passed: int
) -> None:
    calls, item = itertools.count(), exercise(exercise_id)
    wrong = item.misconceptions[0].written[0]

    def tires(*args: Any) -> Any:
        return (worked(exercise_id) if next(calls) < right_until else wrong)(*args)

    report = checked(exercise_id, tires)
    assert report.status == "failed" and report.passed >= passed, report.text()


@pytest.mark.parametrize(
    ("exercise_id", "answer", "idea"),
    [
        ("l00.cached_attention", lambda q, k, v, *_: [q, k, v, v],
         "Return three tensors: `return out, k_all, v_all`."),
        ("l02.admit", lambda *args: None, "returned nothing"),
        ("l04.evict", lambda *args: [1, 2, 3], "Return two tensors: `return k, v`."),
        ("l09.my_policy", written("l09.my_policy", "exact_fit"),
         "Request 41 needs 239 KV tokens and worker 0 has 239 free. That is room"),
        ("l07.block_hashes", lambda *args: block_hashes(*args)[1:],
         "There is one hash for each full block, so 2 here, not 1."),
    ],
)  # fmt: skip
def test_what_came_is_named_in_the_sentence(exercise_id: str, answer: Any, idea: str) -> None:
    assert idea in checked(exercise_id, answer).idea


# --- cards ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exercise_id", "name", "row", "text"),
    [
        ("l03.full_mask", "new_padding_visible", "expected",
         "   0 1 2 | - 3\n-  ? ? ? | ? ?\n3  1 1 1 | . 1"),
        ("l04.rolling_buffer_index", "over_the_sinks", "got", "slot 0 for positions 0 and 5"),
        ("l06.preemption_point", "leaves_first", "got",
         "rank 0: leave\nrank 1: max(0), where it waits for ever for rank 0, which has left"),
        ("l06.rollback_step", "keeps_previous_step", "then",
         "when the next step admits request 1, the engine stops: requests [1] are admitted, "
         "yet the last step was scheduled with them"),
        ("l09.route", "chases_hits", "input",
         "route(workers, hits={0: 200})\nworker 0: backlog_tokens=200, num_running=1\n"
         "worker 1: backlog_tokens=0, num_running=0"),
        ("l07.block_hashes", "no_parent", "input",
         "a = block_hashes(tokens=[1, 2, 7, 8], size=2, salt='')\n"
         "b = block_hashes(tokens=[3, 4, 7, 8], size=2, salt='')"),
    ],
)  # fmt: skip
def test_a_card_draws_what_goes_wrong(exercise_id: str, name: str, row: str, text: str) -> None:
    assert card(exercise_id, name)[row] == text


# --- particular kinds of answers ------------------------------------------------------------------


def test_a_policy_that_remembers_what_it_sent_is_told_so() -> None:
    sent: set[int] = set()

    def remembers(snapshot: Any) -> tuple[int, int] | None:
        new = tuple(each for each in snapshot.waiting if each.id not in sent)
        decision = my_policy(replace(snapshot, waiting=new))
        sent.update(decision[:1] if decision else ())
        return decision

    report = checked("l09.my_policy", remembers)
    assert (report.status, report.misconception) == ("failed", "remembers")
    assert "remember nothing" in report.idea


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

    assert checked("l06.preemption_point", stuck).status == "timeout"


# --- every exercise -------------------------------------------------------------------------------


def of_another_kind(*_: Any) -> Any:
    """Nothing that any exercise asks for, with tensors of many cells."""
    return (torch.rand(40, 40, dtype=torch.float64), torch.rand(2, 3, 4)), ValueError, object()


LEAKED = re.compile(
    r"<(?!\d+ tokens?>)\w|\btensor\(|torch\.(?!bool)|0x[0-9a-f]{6}|(?:\d\.\d{9}\d*\D+){3}"
)


def assert_a_small_counterexample_in_a_few_sentences(report: Report) -> None:
    assert report.idea.endswith((".", ".)")) and report.idea.count(". ") <= 2, report.idea
    assert len(report.idea) <= 240, report.idea
    rows = dict(report.example)
    assert {"input", "expected", "got"} <= rows.keys() or {"before", "after"} <= rows.keys()
    assert rows.get("expected") != rows.get("got", "nothing"), report.text()
    assert all(len(text) <= 400 for text in rows.values())


@pytest.mark.parametrize("exercise_id", IDS)
def test_a_report_shows_values_readably_and_what_the_shown_call_printed(
    exercise_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    item, asked = exercise(exercise_id), list[tuple[Any, ...]]()
    call = RemoteAnswer.call

    def loud(self: RemoteAnswer, args: tuple[Any, ...], **limits: Any) -> CallResult:
        asked.append(args)
        return replace(call(self, args, **limits), stdout=f"call {len(asked) - 1}\n")

    monkeypatch.setattr(RemoteAnswer, "call", loud)
    known = some([each.function for each in wrong(exercise_id)], 4)
    for answer in [of_another_kind, *known]:
        asked.clear()
        report = checked(exercise_id, answer)
        if answer in known:
            assert_a_small_counterexample_in_a_few_sentences(report)
        inputs = "\n".join(text for label, text in report.example if label.endswith("input"))
        printed = [int(number) for number in re.findall(r"call (\d+)", report.stdout)]
        assert printed and not LEAKED.search(report.text()), report.text()
        assert all(len(text) <= 900 for _, text in report.example), report.text()
        for number in printed:
            drawn = item.draw_call(item.name, asked[number])
            assert drawn in inputs or "in the last call" in report.stdout, report.text()

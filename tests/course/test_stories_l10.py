"""Behind lesson 10: what its prose quotes, what its server shows, and what its defects do."""

import re
from typing import Any

import pytest
from answers import worked
from support import ROOT

from course.answers import LoadedParts
from course.attempt import Attempt
from course.registry import exercise
from course.stories import l10_clients, l10_exhibits, l10_served
from course.stories.l10_clients import Answer, Call, Served, serve_calls
from course.stories.texts import shown
from lessons import l10_capstone as lesson
from nanogpt import EngineConfig, Parts, decode
from nanogpt.server import ServerParts

NAMES = ("admit_or_refuse", "next_events", "on_disconnect")
NONE_EARLIER = LoadedParts(Parts(), {"plan_step": "reference", "admit": "yours"}, "")


def attempts(**functions: Any) -> dict[str, Attempt]:
    """Of each exercise: this function, or the page's stub."""
    made: dict[str, Attempt] = {}
    for name in NAMES:
        function = functions.get(name, getattr(lesson, name))
        made[name] = Attempt(exercise(f"l10.{name}").check(function), function)
    return made


SOLVED = {name: worked(f"l10.{name}") for name in NAMES}


def make_engine(parts: Parts = Parts()) -> Any:
    config = EngineConfig(token_budget=32, max_kv_tokens=400, max_batch_size=4, keep_steps=2_000)
    return l10_served.engine_maker(config, parts)


def rows_of(table: str) -> list[list[str]]:
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


# --- what is quoted -------------------------------------------------------------------------------


def test_what_http_costs_is_quoted_as_the_benchmarks_have_it() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    section = text[text.index("## The HTTP server") :]
    measured = re.findall(
        r"\| (\d+) \| (every step|usual interval) \| ([\d.]+) \(.*?\) \| ([\d.]+) \(", section
    )
    assert [tuple(map(str, each)) for each in l10_served.HTTP_COST] == measured
    walls = [float(wall) for streams, _, wall, _ in measured if streams == "32"]
    assert max(walls) < 1.2, "the prediction's answer is about a tenth"


def test_the_page_shows_the_loop_as_it_stands() -> None:
    shown = (ROOT / "lessons" / "l10_capstone.py").read_text()
    assert "inspect.getsource(EngineThread._run)" in shown


def test_the_exhibits_words_are_the_contest_s() -> None:
    text = (ROOT / "docs" / "contest.md").read_text()
    assert "Under seed 0 of `urgent` shortest first keeps all 32, which is the bound." in text


# --- your engine behind a socket ------------------------------------------------------------------


def test_six_clients_have_the_oracle_s_texts_from_parts_of_ones_own() -> None:
    written = attempts(**SOLVED)
    served = serve_calls(make_engine(), l10_served.server_parts(written), l10_served.calls())
    said = l10_served.burst_said(served, written, NONE_EARLIER)
    assert "**4 of 5 parts are yours.**" in said and "reference stands in" not in said
    assert "All six texts are the oracle's" in said
    rows = rows_of(said)
    assert [row[0] for row in rows] == [str(request.id) for request in served.trace.requests]
    for row, request in zip(rows, served.trace.requests, strict=True):
        text = decode(list(served.trace.generated_tokens(request.id)))
        assert row[3] == shown(text), "a row is the request of its number"
    assert served.problems == {}
    assert {len(served.trace.generated_tokens(r.id)) for r in served.trace.requests} == {24, 32, 40}


def test_an_unsolved_page_says_that_the_reference_stands_in() -> None:
    said = l10_served.counted(attempts(), NONE_EARLIER)
    assert said.startswith("**1 of 5 parts are yours.**")
    assert "The reference stands in for `admit_or_refuse`, `next_events`, `on_disconnect`" in said


def test_a_wrong_part_is_named_beside_the_texts() -> None:
    wrong = attempts(next_events=lambda committed, sent, is_done: ["x"])
    served = serve_calls(make_engine(), l10_served.server_parts(wrong), l10_served.calls()[:2])
    said = l10_served.burst_said(served, wrong, NONE_EARLIER)
    assert "**A part failed:** your next_events returned ['x'] after 1 tokens" in said
    assert "status 200" in said


def test_an_engine_whose_part_fails_answers_with_its_sentence() -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("plan")

    served = serve_calls(
        make_engine(Parts(plan_step=broken)), ServerParts(), l10_served.calls()[:1]
    )
    assert "your plan_step raised KeyError" in served.answers[0].message
    assert "None of the clients" in l10_served.gaps_said(served)


def test_gaps_are_counted_between_events() -> None:
    answer = Answer(Call("a", 3), 200, "abc", (0.010, 0.012, 0.030))
    assert answer.ttft_ms == 10 and round(answer.worst_gap_ms) == 18
    said = l10_served.gaps_said(Served((answer,), None, {}))  # pyright: ignore[reportArgumentType]
    assert said.startswith("First text after 10 to 10 ms, and then an event every 10.0 ms")


def test_overload_is_told_with_seconds() -> None:
    said = l10_served.overload_said(l10_served.overload(make_engine(), ServerParts()))
    found = re.match(
        r"12 clients at once, room for 5: (\d+) were served, (\d+) were answered by 429, "
        r"with `Retry-After: \d", said,
    )  # fmt: skip
    assert found and int(found[1]) >= 5 and int(found[1]) + int(found[2]) == 12
    assert "try again in" in said


def test_of_a_client_that_leaves_nothing_is_computed_on() -> None:
    said = l10_served.leaving_said(make_engine(), ServerParts())
    found = re.search(r"had given (\d+) of 60 tokens when it was let go, with K/V of (\d+)", said)
    assert found and 5 <= int(found[1]) < 60 and int(found[2]) > int(found[1])
    assert "The other three texts are the oracle's." in said


def test_a_page_that_is_not_edited_has_no_server_of_its_own() -> None:
    standing = l10_served.standing(make_engine(), ServerParts())
    assert standing.url == "" and "learn.py" in standing._repr_html_()


def test_a_server_that_stands_is_let_go_with_its_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(l10_clients, "_is_edited", lambda: True)
    standing = l10_served.standing(make_engine(), ServerParts())
    assert f"{standing.url}/v1/completions" in standing._repr_html_()
    thread = standing.thread
    assert thread is not None and thread.is_alive
    assert l10_clients.stream(standing.url, Call("To be", 5)).status == 200
    del standing
    assert not thread.is_alive


def test_bytes_of_a_stream_are_sent_by_the_learner_s_function() -> None:
    right = l10_served.bytes_of_a_stream(attempts(**SOLVED)["next_events"])
    assert "by your `next_events`" in right
    assert [row[2] for row in rows_of(right)] == ["2", "5", "5", "6", "7", "8", "8"]
    unwritten = l10_served.bytes_of_a_stream(attempts()["next_events"])
    assert "yours is not written yet" in unwritten and rows_of(unwritten) == rows_of(right)
    odd = l10_served.bytes_of_a_stream(attempts(next_events=lambda *_: 7)["next_events"])
    assert [row[1] for row in rows_of(odd)] == ["?"] * 7


# --- the contest ----------------------------------------------------------------------------------


def test_the_contest_is_played_with_what_is_one_s_own() -> None:
    rounds = l10_served.played(NONE_EARLIER, ["urgent"])
    said = l10_served.contest_said(rounds, NONE_EARLIER)
    assert "plays with your `admit`" in said
    assert rows_of(said) == [
        ["FCFS", "16"],
        ["strict priority", "17"],
        ["reference", "24"],
        ["mine", "24"],
        ["no schedule beats", "32"],
    ]
    nothing = LoadedParts(Parts(), {"plan_step": "reference"}, "")
    unplayed = l10_served.played(nothing, ["urgent"])
    said = l10_served.contest_said(unplayed, nothing)
    assert "No part of yours plays yet" in said
    assert [row[0] for row in rows_of(said)] == [
        "FCFS", "strict priority", "reference", "no schedule beats",
    ]  # fmt: skip
    assert "pass an exercise" in l10_served.card_said(nothing)
    card = l10_served.card_said(NONE_EARLIER)
    assert "| `admit` | +0 | +0 |" in card
    assert l10_served.contest_chart(rounds).panels


# --- the museum -----------------------------------------------------------------------------------


def test_exhibit_a_doubles_only_the_texts_that_were_preempted() -> None:
    broken = l10_exhibits.doubled(lesson.exhibit_a)
    lengths = [int(n) for n in re.findall(r"\*\*(\d+) characters", broken)]
    assert lengths and all(length > 40 for length in lengths)
    repaired = [row[1] for row in rows_of(l10_exhibits.doubled(worked("l10.next_events")))]
    assert repaired == ["the oracle's"] * 4


def test_exhibit_b_breaks_the_smile_and_not_the_accents() -> None:
    broken = l10_exhibits.halves(lesson.exhibit_b)
    assert "naïve café \ufffd" in broken and "`é`" in broken
    assert "They are the same." in l10_exhibits.halves(worked("l10.next_events"))


def test_exhibit_c_computes_to_the_end_for_a_client_that_has_left() -> None:
    def given(rule: Any) -> int:
        found = re.search(r"\*\*(\d+) of 160 tokens", l10_exhibits.computed_on(rule))
        assert found
        return int(found[1])

    assert given(lesson.exhibit_c) == 160
    assert 3 <= given(worked("l10.on_disconnect")) < 160


def test_exhibit_d_serves_all_and_the_last_late() -> None:
    assert "24 were served and 0 refused" in l10_exhibits.crowd(lesson.exhibit_d)
    repaired = l10_exhibits.crowd(worked("l10.admit_or_refuse"))
    found = re.search(r"(\d+) were served and (\d+) refused, told to come again in \d", repaired)
    assert found and int(found[1]) < 24


def test_exhibit_e_takes_the_step_of_the_others_along() -> None:
    broken = l10_exhibits.under_a_step(lesson.exhibit_e)
    assert "The step ended with `KeyError: 1`." in broken
    stands = [row[1] for row in rows_of(broken)]
    assert stands == ["5 of 20 tokens", "its client left", "3 of 20 tokens"]
    repaired = l10_exhibits.under_a_step(worked("l10.on_disconnect"))
    stands = [row[1] for row in rows_of(repaired)]
    assert stands == ["the oracle's text", "its client left", "the oracle's text"]


@pytest.mark.parametrize("rule", [lambda *_: None, lambda *_: 1 / 0])
def test_an_exhibit_that_is_no_answer_ends_with_words(rule: Any) -> None:
    for story in (
        l10_exhibits.doubled,
        l10_exhibits.halves,
        l10_exhibits.computed_on,
        l10_exhibits.crowd,
        l10_exhibits.under_a_step,
    ):
        assert "**The reference stands in:** your function r" in story(rule)

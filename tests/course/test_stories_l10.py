"""Behind lesson 10: its server, its contest, and what stands there when a function fails."""

import importlib
import re
from typing import Any

import pytest
from answers import worked
from notebooks import Notebooks

from course.answers import LoadedParts
from course.attempt import Attempt
from course.registry import exercise
from course.stories import l10_clients, l10_exhibits, l10_served
from course.stories.l10_clients import Call, serve_calls
from nanogpt import EngineConfig, Parts
from nanogpt.server import ServerParts

NAMES = ("admit_or_refuse", "next_events", "on_disconnect")
NONE_EARLIER = LoadedParts(Parts(), {"plan_step": "reference", "admit": "yours"}, "")


def lesson() -> Any:
    return importlib.import_module("lessons.l10_capstone")  # brings marimo along


def attempts(**functions: Any) -> dict[str, Attempt]:
    """Of each exercise: this function, or the page's stub."""
    made: dict[str, Attempt] = {}
    for name in NAMES:
        function = functions.get(name, getattr(lesson(), name))
        made[name] = Attempt(exercise(f"l10.{name}").check(function), function)
    return made


def make_engine(parts: Parts = Parts()) -> Any:
    config = EngineConfig(token_budget=32, max_kv_tokens=400, max_batch_size=4, keep_steps=2_000)
    return l10_served.engine_maker(config, parts)


# ---- a served engine -----------------------------------------------------------------------------


@pytest.mark.process
def test_a_part_that_fails_is_named_beside_the_texts() -> None:
    wrong = attempts(next_events=lambda committed, sent, is_done: ["x"])
    served = serve_calls(make_engine(), l10_served.server_parts(wrong), l10_served.calls()[:2])
    said = l10_served.burst_said(served, wrong, NONE_EARLIER)
    assert "**A part failed:** your next_events returned ['x'] after 1 tokens" in said

    def broken(*_: Any) -> Any:
        raise KeyError("plan")

    engine = make_engine(Parts(plan_step=broken))
    served = serve_calls(engine, ServerParts(), l10_served.calls()[:1])
    assert "your plan_step raised KeyError" in served.answers[0].message
    assert "None of the clients" in l10_served.gaps_said(served)


@pytest.mark.process
def test_a_server_stands_on_an_edited_page_and_is_let_go_with_its_object(monkeypatch) -> None:
    standing = l10_served.standing(make_engine(), ServerParts())
    assert standing.url == "" and "learn.py" in standing._repr_html_()
    monkeypatch.setattr(l10_clients, "_is_edited", lambda: True)
    standing = l10_served.standing(make_engine(), ServerParts())
    assert f"{standing.url}/v1/completions" in standing._repr_html_()
    thread = standing.thread
    assert thread is not None and thread.is_alive
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):  # which no server of this machine needs
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert f"curl -N --noproxy 127.0.0.1 {standing.url}/" in standing._repr_html_()
    answer = l10_clients.stream(standing.url, Call("To be", 5))
    assert answer.status == 200
    assert l10_clients.by_another_client(standing.url, "To be", 5)[1] == answer.text
    del standing
    assert not thread.is_alive


# ---- the museum ----------------------------------------------------------------------------------


@pytest.mark.process
def test_the_exhibits_of_lesson_10_are_broken_and_said_to_be(notebooks: Notebooks) -> None:
    shown = notebooks.solved("l10_capstone").words
    assert re.search(r"\d+ characters, not its 40", shown)  # A: a preempted text is sent twice
    assert "its request came to 160 of 160 tokens" in shown  # C: computes for nobody
    assert "Of 24 clients 24 were served and 0 refused" in shown  # D: refuses nobody
    assert "The step ended with KeyError: 1" in shown  # E: takes the others' step along
    assert "naïve café \ufffd" in l10_exhibits.halves(lesson().exhibit_b)


@pytest.mark.nightly
def test_the_exhibits_of_lesson_10_can_be_repaired(notebooks: Notebooks) -> None:
    visit = notebooks.repaired("l10_capstone")
    for broken in ("not its 40", "160 of 160", "and 0 refused", "The step ended with"):
        assert broken not in visit.words
    assert "They are the same." in l10_exhibits.halves(worked("l10.next_events"))


@pytest.mark.process
def test_an_exhibit_that_is_no_answer_ends_with_words() -> None:
    for rule in (lambda *_: None, lambda *_: 1 / 0):
        for story in (
            l10_exhibits.doubled,
            l10_exhibits.halves,
            l10_exhibits.computed_on,
            l10_exhibits.crowd,
            l10_exhibits.under_a_step,
        ):
            assert "**The reference stands in:** your function r" in story(rule)

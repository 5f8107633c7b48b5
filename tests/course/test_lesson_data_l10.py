"""Behind lesson 10: its server, its contest, and what stands there when a function fails."""

import importlib
import os
import re
import time
from typing import Any

import pytest
from answers import worked
from notebooks import Notebooks

from course.answers import LoadedPolicies
from course.attempt import Attempt
from course.lesson_data import l10_clients, l10_exhibits, l10_served
from course.lesson_data.l10_clients import Call, serve_calls
from course.registry import exercise
from nanogpt import EngineConfig, Policies
from nanogpt.server import ServerPolicies

NAMES = ("admission_control", "stream_delta", "on_disconnect")
NONE_EARLIER = LoadedPolicies(Policies(), {"plan_step": "reference", "admit": "yours"}, "")


def lesson() -> Any:
    return importlib.import_module("lessons.l10_capstone")  # brings marimo along


def attempts(**functions: Any) -> dict[str, Attempt]:
    """Of each exercise: this function, or the page's stub."""
    made: dict[str, Attempt] = {}
    for name in NAMES:
        function = functions.get(name, getattr(lesson(), name))
        made[name] = Attempt(exercise(f"l10.{name}").check(function), function)
    return made


def make_engine(policies: Policies = Policies()) -> Any:
    config = EngineConfig(token_budget=32, max_kv_tokens=400, max_batch_size=4, keep_steps=2_000)
    return l10_served.engine_maker(config, policies)


# ---- a served engine -----------------------------------------------------------------------------


@pytest.mark.process
def test_what_a_wrong_stream_sends_is_what_its_clients_read() -> None:
    wrong = attempts(stream_delta=lambda committed, sent, is_done: ["x"])
    served = serve_calls(make_engine(), l10_served.server_policies(wrong), l10_served.calls()[:2])
    assert [answer.text for answer in served.result] == ["x" * 41] * 2
    assert "**0 of 2 texts are the oracle's.**" in burst_said(served, wrong)


@pytest.mark.process
def test_a_request_that_is_not_let_go_is_computed_to_its_end() -> None:
    for function, said in (
        (lambda state, request_id: state, "The one that left was computed to its end."),
        (worked("l10.on_disconnect"), "when it was let go"),
    ):
        policies = l10_served.server_policies(attempts(on_disconnect=function))
        assert said in l10_served.leaving_said(make_engine(), policies)


@pytest.mark.process
def test_a_part_that_fails_is_named_beside_the_texts() -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("plan")

    wrong = attempts(stream_delta=broken)
    served = serve_calls(make_engine(), l10_served.server_policies(wrong), l10_served.calls()[:2])
    said = burst_said(served, wrong)
    assert "**A part failed:** your broken raised KeyError on its line 2: 'plan'" in said
    engine = make_engine(Policies(plan_step=broken))
    served = serve_calls(engine, ServerPolicies(), l10_served.calls()[:1])
    assert "raised KeyError" in served.result[0].message
    assert "None of the clients" in l10_served.gaps_said(served)


@pytest.mark.process
def test_a_part_that_ends_its_process_is_told_to_every_client() -> None:
    ending = attempts()
    policies = ServerPolicies(stream_delta=lambda *_: os._exit(0))
    served = serve_calls(make_engine(), policies, l10_served.calls()[:2])
    assert burst_said(served, ending).count("ended the whole Python process") == 2
    assert served.trace.error and served.trace.steps == ()
    assert l10_served.leaving_said(make_engine(), policies).startswith("The server stopped: ")


def burst_said(served: Any, made: dict[str, Attempt]) -> str:
    return l10_served.burst_said(served, made, NONE_EARLIER)


@pytest.mark.process
def test_a_server_stands_on_an_edited_page_and_is_let_go_with_its_object(monkeypatch) -> None:
    standing = l10_served.standing(make_engine(), ServerPolicies())
    assert standing.url == "" and "learn.py" in standing._repr_html_()
    monkeypatch.setattr(l10_clients, "_is_edited", lambda: True)
    standing = l10_served.standing(make_engine(), ServerPolicies())
    assert f"{standing.url}/v1/completions" in standing._repr_html_()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):  # which no server of this machine needs
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert f"curl -N --noproxy 127.0.0.1 {standing.url}/" in standing._repr_html_()
    answer = l10_clients.stream(standing.url, Call("To be", 5))
    assert answer.status == 200
    assert l10_clients.by_another_client(standing.url, "To be", 5)[1] == answer.text
    url = standing.url
    del standing
    until = time.monotonic() + 10
    while l10_clients.stream(url, Call("To be", 5)).status != 0:
        assert time.monotonic() < until


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
    assert "They are the same." in l10_exhibits.halves(worked("l10.stream_delta"))


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
            assert re.search(r"\*\*(A part failed|The run stopped):\*\*", story(rule))

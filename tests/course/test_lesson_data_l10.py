"""Behind lesson 10: its server, its load sweep, and what it shows when a function fails."""

import importlib
import os
import re
import time
from typing import Any

import pytest
import torch
from answers import worked
from byte_pair_folders import make_folder

from course.attempt import Attempt, with_attempts
from course.launcher.server import MODEL
from course.lesson_data import l10_clients, l10_exhibits, l10_load, l10_served
from course.lesson_data.l10_clients import Answer, Call, Served, serve_calls
from course.registry import exercise
from course.saved_answers import LoadedPolicies
from nanogpt import Engine, EngineConfig, Policies, load_model
from nanogpt.clock import WallClock
from nanogpt.server import ServerPolicies

pytestmark = pytest.mark.process

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
    exact = load_model(dtype=torch.float64)
    return lambda: Engine(exact, config, policies, clock=WallClock())


def two_clients(make: Any, policies: ServerPolicies) -> Served[list[Answer]]:
    return serve_calls(make, policies, [Call(*line) for line in l10_served.LINES[:2]])


# ---- a served engine -----------------------------------------------------------------------------


def test_what_a_wrong_stream_sends_is_what_its_clients_read() -> None:
    wrong = attempts(stream_delta=lambda committed, sent, is_done: ["x"])
    served = two_clients(make_engine(), with_attempts(ServerPolicies(), wrong))
    assert [answer.text for answer in served.result] == ["x" * 41] * 2
    assert "**0 of 2 texts are the oracle's.**" in l10_served.clients_table(served)
    assert "**1 of 5 policies are yours.** The" in l10_served.whose_policies(wrong, NONE_EARLIER)


def test_a_request_is_aborted_when_its_client_leaves_unless_the_function_keeps_it() -> None:
    for function, is_kept in ((lambda state, i: state, True), (worked("l10.on_disconnect"), False)):
        policies = with_attempts(ServerPolicies(), attempts(on_disconnect=function))
        table = l10_served.disconnect_table(make_engine(), policies)
        [num_tokens] = re.findall(r"\| (\d+) of 60 \| its client left", table)
        assert (num_tokens == "60") is is_kept


def test_a_policy_that_fails_is_named_beside_the_texts() -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("plan")

    wrong = attempts(stream_delta=broken)
    served = two_clients(make_engine(), with_attempts(ServerPolicies(), wrong))
    table = l10_served.clients_table(served)
    assert "**A policy failed:** your broken raised KeyError on its line 2: 'plan'" in table
    served = two_clients(make_engine(Policies(plan_step=broken)), ServerPolicies())
    assert "raised KeyError" in served.result[0].message
    assert "raised KeyError" in l10_served.curl_answer(make_engine(Policies(plan_step=broken)))


def test_a_policy_that_ends_its_process_is_told_to_every_client() -> None:
    policies = ServerPolicies(stream_delta=lambda *_: os._exit(0))
    served = two_clients(make_engine(), policies)
    assert l10_served.clients_table(served).count("ended the whole Python process") == 2
    assert served.trace.error and served.trace.steps == ()
    assert l10_served.disconnect_table(make_engine(), policies).startswith("The server stopped: ")
    ending = l10_load.limited(lambda *_: os._exit(0))
    assert isinstance(ending, str) and l10_load.load_chart(ending) == ending


def test_a_server_stands_on_an_edited_page_and_ends_with_it(monkeypatch, tmp_path) -> None:
    standing = l10_served.standing(make_engine(), ServerPolicies())
    assert standing.url == "" and "learn.py" in standing._repr_html_()
    monkeypatch.setattr(l10_clients, "_is_edited", lambda: True)
    standing = l10_served.standing(make_engine(), ServerPolicies())
    assert f"{standing.url}/v1/completions" in standing._repr_html_()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):  # which no server of this machine needs
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert f"curl -N --noproxy 127.0.0.1 {standing.url}/" in standing._repr_html_()
    assert l10_clients.stream(standing.url, Call("To be", 5)).status == 200
    assert l10_clients.answer_to(standing.url).startswith("HTTP/1.1 200 OK\ndate: ")
    url = standing.url
    del standing
    until = time.monotonic() + 10
    while l10_clients.stream(url, Call("To be", 5)).status != 0:
        assert time.monotonic() < until
    monkeypatch.setenv(MODEL, str(make_folder(tmp_path / "gpt2")))
    standing = l10_served.standing(make_engine(), ServerPolicies())
    assert l10_clients.stream(standing.url, Call("Köche 🙂", 5)).status == 200  # no characters
    (tmp_path / "gpt2" / "config.json").unlink()
    assert "no config" in l10_served.standing(make_engine(), ServerPolicies())._repr_html_()


# ---- the load sweep ------------------------------------------------------------------------------


def test_the_load_sweep_shows_what_lesson_10_says_of_it() -> None:
    unlimited, closed = l10_load.open_loop(), l10_load.closed_loop()
    limited = l10_load.limited(worked("l10.admission_control"))
    assert not isinstance(limited, str)
    assert [round(each.goodput, 1) for each in unlimited] == [30, 40, 50, 1.5, 0]
    assert [round(each.goodput) for each in limited] == [30, 40, 50, 51, 52]
    assert [round(each.ttft_p99_ms) for each in limited[3:]] == [437, 423]
    assert [round(each.sent_per_s) for each in closed] == [23, 36, 53, 52, 52]
    assert closed[-1].goodput == 0 and round(closed[-1].ttft_p99_ms) == 1086


@pytest.mark.nightly
def test_a_p99_of_160_requests_depends_on_the_seed() -> None:
    at_50 = [l10_load.serve(l10_load.poisson(50, seed), l10_load.admit_all) for seed in range(10)]
    p99s = [round(each.ttft_p99_ms) for each in at_50]
    assert (min(p99s), max(p99s)) == (145, 691)


# ---- the museum ----------------------------------------------------------------------------------


def test_an_exhibit_that_is_no_answer_ends_with_words() -> None:
    for rule in (lambda *_: None, lambda *_: 1 / 0):
        for story in (l10_exhibits.sent_twice, l10_exhibits.freed_in_mid_step):
            assert re.search(r"\*\*(A policy failed|The run stopped):\*\*", story(rule))

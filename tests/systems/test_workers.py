"""Real worker processes: the oracle's text whichever serves it, hits that save what they say.

And what happens when a worker is lost or the fleet is closed: nothing waits, nothing stays.
"""

import copy
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from launching import running
from preempting import CONFIG, assert_gone, nothing_left, prompt, tiny_model

from nanogpt import GPT, EngineConfig, generate
from nanogpt.config import TimedKey
from nanogpt.fleet import decisions
from nanogpt.request import Request
from nanogpt.validate import PolicyError
from nanogpt.views.fleet_views import WorkerView
from nanogpt.views.request_view import RequestView
from nanogpt.workers.router_state import Result, RoundRobin
from nanogpt.workers.worker_fleet import Fleet, WorkersFailed

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]
SETTINGS = EngineConfig(token_budget=32, max_batch_size=4, block_size=4, share_prefixes=True)
assert CONFIG.max_model_len == 128  # the numbers below count on it


class Spy:
    """A route that notes what it was shown, and asks another. Mutable: its notes."""

    def __init__(self, route: Callable[..., int] = decisions.route) -> None:
        self.route = route
        self.shown: list[tuple[tuple[WorkerView, ...], dict[int, int]]] = []

    def __call__(self, workers: Sequence[WorkerView], hits: Mapping[int, int]) -> int:
        self.shown.append((tuple(workers), dict(hits)))
        return self.route(workers, hits)


@pytest.fixture(scope="module")
def started() -> Iterator[Fleet]:
    with Fleet(tiny_model(), 2, SETTINGS) as fleet:
        yield fleet


@pytest.fixture
def fleet(started: Fleet) -> Fleet:
    """Two workers, with nothing in their blocks, routed by backlog."""
    assert started.is_open, "an earlier test ended the workers"
    started.forget()
    started.route = decisions.route
    return started


def requests(prompts: Sequence[list[int]], new: int = 5) -> list[Request]:
    return [Request(i, tokens, new) for i, tokens in enumerate(prompts)]


def check_tokens(results: Sequence[Result], prompts: Sequence[list[int]], new: int = 5) -> None:
    assert [result.id for result in results] == list(range(len(prompts)))
    for result, tokens in zip(results, prompts, strict=True):
        assert list(result.tokens) == generate(tiny_model(), tokens, new)


@pytest.mark.parametrize("make_route", [lambda: decisions.route, RoundRobin, Spy])
def test_whichever_worker_serves_it_a_request_gets_the_oracles_text(
    fleet: Fleet, make_route: Callable[[], Callable[..., int]]
):
    fleet.route = make_route()
    prompts = [prompt(10 + 3 * i, start=i % 3) for i in range(12)]
    # All at once: of requests that trickle in, one quick worker may get every one.
    results = fleet.serve(requests(prompts))
    check_tokens(results, prompts)
    assert {result.worker_id for result in results} == {0, 1}
    for result, tokens in zip(results, prompts, strict=True):
        assert result.hit_tokens + result.computed_prefill_tokens == len(tokens)
        assert 0 < result.ttft_us <= result.latency_us
    fleet.forget()
    arrivals = [(0.004 * i, request) for i, request in enumerate(requests(prompts))]
    check_tokens(fleet.run(arrivals), prompts)


def test_a_hit_saves_exactly_its_length_and_gives_the_text_of_a_cold_run(fleet: Fleet):
    known = prompt(90)
    (cold,) = fleet.serve([Request(0, known, 4)])
    assert (cold.hit_tokens, cold.computed_prefill_tokens) == (0, 90)
    for i, hit in enumerate([4, 32, 48, 88], 1):
        asked = [*known[:hit], *([(known[hit] + 1) % 65] * 10 if hit < 88 else known[88:])]
        (warm,) = fleet.serve([Request(i, asked, 4)])
        assert warm.worker_id == cold.worker_id
        assert (warm.hit_tokens, warm.computed_prefill_tokens) == (hit, len(asked) - hit)
        assert list(warm.tokens) == generate(tiny_model(), asked, 4)
    (more,) = fleet.serve([Request(9, [*known, *cold.tokens, 3], 2)])
    assert more.hit_tokens == 92, "what a request generated can be hit too"


def test_a_request_waits_with_the_router_until_a_worker_has_room(fleet: Fleet):
    fleet.route = spy = Spy(lambda workers, hits: workers[0].id)
    prompts = [prompt(20, start=i) for i in range(11)]
    results = fleet.serve(requests(prompts))
    check_tokens(results, prompts)
    assert all(view.num_running < 4 for views, _ in spy.shown for view in views)
    assert [len(views) for views, _ in spy.shown[:8]] == [2] * 4 + [1] * 4
    # Four on each side; the others were given away as soon as one was done.
    assert [result.worker_id for result in results[:8]] == [0] * 4 + [1] * 4


def test_the_most_important_of_the_waiting_goes_first_and_then_the_oldest(fleet: Fleet):
    fleet.route = spy = Spy()
    lengths = [20 + i for i in range(8)]  # all different, so that the backlog tells who went
    fleet.serve([Request(i, prompt(n), 1, priority=2 - i // 3) for i, n in enumerate(lengths)])
    backlogs = [sum(view.backlog_tokens for view in views) for views, _ in spy.shown]
    went = [after - before for before, after in pairwise(backlogs)]
    assert went[:4] == [26, 27, 23, 24]


def test_bad_requests_and_settings_are_refused_before_anything_runs(fleet: Fleet):
    good = Request(0, prompt(5), 1)
    for arrivals, said in (
        ([(0, good), (0, Request(1, prompt(120), 10))], r"request 1 .*129 .*128"),
        ([(0, good), (0, Request(0, prompt(6), 1))], "there is a request 0 already; ids must be"),
        ([(-1, good)], r"request 0 arrives at -1 s; it must be 0 or later"),
        ([(float("nan"), good)], "request 0 arrives at nan s"),
        ([("soon", good)], "request 0 arrives at 'soon' s; it must be 0 or later"),
        ([good], r"an arrival is Request.*; it must be a pair \(seconds, Request\)"),
        (None, "arrivals is None; it must be a list of pairs"),
    ):
        with pytest.raises(ValueError, match=said):
            fleet.run(arrivals)
    assert len(fleet.serve([good])) == 1
    with pytest.raises(ValueError, match="there is a request 0 already; ids must be unique"):
        fleet.serve([good])
    fleet.forget()
    assert len(fleet.serve([good])) == 1
    for number, settings, said in (
        (0, SETTINGS, "the number of workers is 0; it must be at least 1"),
        (1, EngineConfig(policy=lambda request: (request.id,)), "be sent to another process: .*"),
        (1, EngineConfig(num_draft_tokens=2), "num_draft_tokens is 2, and there is no draft"),
    ):
        with pytest.raises(ValueError, match=said):
            Fleet(tiny_model(), number, settings)


# --- losses ---------------------------------------------------------------------------------------

LONG = 80


class Disaster:
    """Our route, until request number `at` is routed: then a signal goes to a worker.

    Mutable: how many requests have been routed.
    """

    def __init__(self, fleet: Fleet, at: int, worker_id: int, how: signal.Signals) -> None:
        self.at, self.how = at, how
        self.process_id = fleet.process_ids[worker_id]
        self.num_routed = 0

    def __call__(self, *given: object) -> int:
        if self.num_routed == self.at:
            os.kill(self.process_id, self.how)
        self.num_routed += 1
        return decisions.route(*given)  # type: ignore[arg-type]


def long_load() -> list[tuple[float, Request]]:
    """Four requests on two workers, and a fifth that arrives while they are decoding."""
    arrivals = [(0.0, Request(i, prompt(20, start=i), LONG)) for i in range(4)]
    return [*arrivals, (0.03, Request(4, prompt(20, start=4), 3))]


def test_requests_of_a_killed_worker_get_the_same_text_elsewhere_until_none_is_left():
    with Fleet(tiny_model(), 2, SETTINGS) as fleet:
        process_ids = fleet.process_ids
        fleet.route = Disaster(fleet, at=4, worker_id=1, how=signal.SIGKILL)
        results = fleet.run(long_load())
        for result in results:
            asked = LONG if result.id < 4 else 3
            assert list(result.tokens) == generate(tiny_model(), prompt(20, start=result.id), asked)
            assert result.ttft_us <= result.latency_us
        moved = [result.id for result in results if result.worker_ids == (1, 0)]
        assert len(moved) >= 2
        assert fleet.lost == [
            f"worker 1 was killed by SIGKILL; its requests {moved} go to other workers"
        ]
        assert_gone([process_ids[1]])
        assert list(fleet.process_ids) == [0]
        fleet.route = Disaster(fleet, at=0, worker_id=0, how=signal.SIGKILL)
        last = r"worker 1 was .*worker 0 was killed by SIGKILL; no worker is left, and requests \["
        with pytest.raises(WorkersFailed, match=last):
            fleet.serve([Request(i, prompt(9), 60) for i in (5, 6)])
        assert not fleet.is_open
        assert_gone(process_ids.values())
        with pytest.raises(WorkersFailed, match="start a new fleet"):
            fleet.serve([])


class Key:
    """A policy that fails, or ends its process, when it ranks a prompt of a certain length."""

    def __call__(self, view: RequestView, step: int = 0) -> tuple[int]:
        if len(view.prompt_tokens) == 9:
            raise LookupError("nine")
        if len(view.prompt_tokens) == 11:
            os.kill(os.getpid(), signal.SIGKILL)
        return (view.id,)


@pytest.mark.parametrize("is_timed", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_of_several_bad_requests_each_ends_alone_and_no_result_is_lost(
    monkeypatch: pytest.MonkeyPatch, is_timed: bool
):
    model = copy.deepcopy(tiny_model())
    model.position_embedding.weight[100] = float("nan")
    policy = TimedKey(Key()) if is_timed else Key()
    lengths = [5, 9, 101, 6, 7, 9, 8]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    with Fleet(model, 2, replace(SETTINGS, policy=policy)) as fleet:
        results = fleet.serve([Request(i, prompt(n), 5) for i, n in enumerate(lengths)])
        for n, result in zip(lengths, results, strict=True):
            wrong = {9: "LookupError: nine", 101: "not finite"}.get(n, "")
            assert wrong in result.error
            assert bool(wrong) == bool(result.error)
            assert wrong or list(result.tokens) == generate(tiny_model(), prompt(n), 5)
        assert not fleet.lost
        again = [Request(9 + i, prompt(n), 5) for i, n in enumerate((5, 11, 6))]
        with pytest.raises(WorkersFailed, match="no worker is left") as failed:
            fleet.serve(again)
        done = {result.id: result for result in failed.value.results}
        assert "failed twice" in done[10].error
        assert all(len(result.worker_ids) <= 2 for result in done.values())


@pytest.mark.nightly
def test_settings_and_routes_that_do_not_work_are_named():
    with pytest.raises(ValueError, match="cannot start with these settings: ModuleNotFoundError"):
        Fleet(tiny_model(), 1, replace(SETTINGS, policy=TimedKey(Key())))
    with Fleet(tiny_model(), 1, SETTINGS, route=lambda workers, hits: 9) as fleet:
        process_ids = fleet.process_ids.values()
        with pytest.raises(PolicyError, match=r"route returned 9; it must be one of \[0"):
            fleet.serve([Request(0, prompt(5), 2)])
        assert not fleet.is_open
    assert_gone(process_ids)


def test_workers_refuse_a_model_of_another_kind_before_any_starts(tmp_path: Path):
    with nothing_left(tmp_path), pytest.raises(ValueError, match="a Third; worker processes serve"):
        Fleet(type("Third", (GPT,), {})(CONFIG), 1, SETTINGS)


@pytest.mark.nightly
def test_closing_leaves_no_process_no_open_file_and_no_file_on_disk(tmp_path: Path):
    with nothing_left(tmp_path), Fleet(tiny_model(), 2, SETTINGS) as fleet:
        assert os.listdir(tmp_path) == []  # the weights' file is gone, their pages are not
        fleet.serve([Request(i, prompt(9), 3) for i in range(4)])
        process_ids = [*fleet.process_ids.values()]
        assert running(process_ids) == process_ids
        groups = {os.getpgid(i) for i in process_ids}
        assert os.getpgid(0) not in groups  # Ctrl-C at the terminal reaches only the router
    assert not any(Path(f"/proc/{i}").exists() for i in process_ids)  # not even a zombie
    fleet.close()  # a second time does nothing

"""Real worker processes: the oracle's text whichever serves it, hits that save what they say."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from preempting import CONFIG, logits_after, prompt, tiny_model

from nanogpt.config import EngineConfig
from nanogpt.fleet import decisions
from nanogpt.fleet.views import WorkerView
from nanogpt.posts.oracle import generate
from nanogpt.request import Request
from nanogpt.workers.router_state import Result
from nanogpt.workers.routing import RoundRobin
from nanogpt.workers.worker_fleet import Fleet

SETTINGS = EngineConfig(token_budget=32, max_batch_size=4, block_size=4, share_prefixes=True)


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


@pytest.mark.parametrize("make_route", [lambda: decisions.route, RoundRobin, lambda: Spy()])
def test_whoever_serves_it_a_request_gets_the_oracles_text(
    fleet: Fleet, make_route: Callable[[], Callable[..., int]]
):
    fleet.route = make_route()
    prompts = [prompt(10 + 3 * i, start=i % 3) for i in range(12)]
    # All at once: of requests that trickle in, one quick worker may get every one.
    results = fleet.serve(requests(prompts), want_logits=True)
    check_tokens(results, prompts)
    assert {result.worker_id for result in results} == {0, 1}
    for result, tokens in zip(results, prompts, strict=True):
        assert result.hit_tokens + result.computed_prefill_tokens == len(tokens)
        assert 0 < result.ttft_us <= result.latency_us
        expected = logits_after(tiny_model(), tokens)
        torch.testing.assert_close(result.first_logits, expected, rtol=0, atol=1e-12)


def test_requests_that_arrive_over_time_get_the_oracles_text(fleet: Fleet):
    prompts = [prompt(10 + 3 * i, start=i % 3) for i in range(12)]
    arrivals = [(0.004 * i, request) for i, request in enumerate(requests(prompts))]
    check_tokens(fleet.run(arrivals), prompts)


def test_a_hit_saves_exactly_its_length_and_gives_the_logits_of_a_cold_run(fleet: Fleet):
    known = prompt(90)
    (cold,) = fleet.serve([Request(0, known, 4)], want_logits=True)
    assert (cold.hit_tokens, cold.computed_prefill_tokens) == (0, 90)
    for i, hit in enumerate([4, 32, 48, 88], 1):
        asked = [*known[:hit], *([(known[hit] + 1) % 65] * 10 if hit < 88 else known[88:])]
        (warm,) = fleet.serve([Request(i, asked, 4)], want_logits=True)
        assert warm.worker_id == cold.worker_id
        assert (warm.hit_tokens, warm.computed_prefill_tokens) == (hit, len(asked) - hit)
        expected = logits_after(tiny_model(), asked)
        torch.testing.assert_close(warm.first_logits, expected, rtol=0, atol=1e-12)
        assert list(warm.tokens) == generate(tiny_model(), asked, 4)
    assert warm.first_logits is not None and cold.first_logits is not None
    torch.testing.assert_close(warm.first_logits, cold.first_logits, rtol=0, atol=1e-12)


def test_what_a_request_generated_can_be_hit_too(fleet: Fleet):
    (first,) = fleet.serve([Request(0, prompt(20), 9)])
    (more,) = fleet.serve([Request(1, [*prompt(20), *first.tokens, 3], 2)])
    assert more.hit_tokens == 28


def test_a_prefix_that_is_only_being_computed_is_no_hit_to_route_by(fleet: Fleet):
    fleet.route = spy = Spy()
    fleet.serve(requests([prompt(40)] * 2))
    assert [hits for _, hits in spy.shown] == [{}, {}]
    (third,) = fleet.serve([Request(2, prompt(40), 1)])
    assert spy.shown[2][1] == {0: 36, 1: 36}
    assert third.hit_tokens == 36


def test_requests_go_where_their_prefix_is(fleet: Fleet):
    """Each worker has one prefix; what comes later computes its own ending alone."""
    stems = [prompt(60, start=i) for i in range(2)]
    homes = [result.worker_id for result in fleet.serve(requests(stems))]
    assert sorted(homes) == [0, 1]
    for i, stem in enumerate([*stems, *stems[::-1]]):
        (result,) = fleet.serve([Request(10 + i, [*stem, i, i], 2)])
        assert result.worker_id == homes[stems.index(stem)]
        assert (result.hit_tokens, result.computed_prefill_tokens) == (60, 2)


def test_a_request_waits_with_the_router_until_a_worker_has_room(fleet: Fleet):
    fleet.route = spy = Spy(lambda workers, hits: workers[0].id)
    prompts = [prompt(20, start=i) for i in range(11)]
    results = fleet.serve(requests(prompts))
    check_tokens(results, prompts)
    assert all(view.num_running < 4 for views, _ in spy.shown for view in views)
    assert [len(views) for views, _ in spy.shown[:8]] == [2] * 4 + [1] * 4
    # Four on each side; the others were given away as soon as one was done.
    assert {result.worker_id for result in results[:4]} == {0}
    assert {result.worker_id for result in results[4:8]} == {1}


def test_the_most_important_of_the_waiting_goes_first_and_then_the_oldest(fleet: Fleet):
    fleet.route = spy = Spy()
    lengths = [20 + i for i in range(8)]  # all different, so that the backlog tells who went
    fleet.serve([Request(i, prompt(n), 1, priority=2 - i // 3) for i, n in enumerate(lengths)])
    backlogs = [sum(view.backlog_tokens for view in views) for views, _ in spy.shown]
    went = [after - before for before, after in pairwise(backlogs)]
    assert went[:4] == [26, 27, 23, 24]


def test_bad_requests_are_refused_before_anything_runs_and_the_fleet_goes_on(fleet: Fleet):
    good = Request(0, prompt(5), 1)
    long, empty = Request(1, prompt(120), 10), Request(1, [], 1)
    with pytest.raises(ValueError, match=r"request 1 .*129 .*128"):
        fleet.serve([good, long])
    with pytest.raises(ValueError, match="request 1 has an empty prompt"):
        fleet.serve([good, empty])
    with pytest.raises(ValueError, match="there is a request 0 already; ids must be unique"):
        fleet.serve([good, Request(0, prompt(6), 1)])
    with pytest.raises(ValueError, match=r"request 0 arrives at -1 s; it must be 0 or later"):
        fleet.run([(-1, good)])
    with pytest.raises(ValueError, match="request 0 arrives at nan s"):
        fleet.run([(float("nan"), good)])
    assert len(fleet.serve([good])) == 1
    with pytest.raises(ValueError, match="there is a request 0 already; ids must be unique"):
        fleet.serve([good])
    fleet.forget()
    assert len(fleet.serve([good])) == 1


def test_settings_that_no_worker_could_take_are_refused_before_one_starts():
    with pytest.raises(ValueError, match="the number of workers is 0; it must be at least 1"):
        Fleet(tiny_model(), 0)
    settings = EngineConfig(policy=lambda request: (request.id,))
    with pytest.raises(ValueError, match=r"cannot be sent to another process: .*pickle"):
        Fleet(tiny_model(), 1, settings)
    with pytest.raises(ValueError, match="num_draft_tokens is 2, and there is no draft"):
        Fleet(tiny_model(), 1, EngineConfig(num_draft_tokens=2))


@pytest.mark.process
def test_a_sampled_text_does_not_depend_on_the_worker(fleet: Fleet):
    settings = replace(SETTINGS, temperature=0.9, seed=5)
    with Fleet(tiny_model(), 1, settings) as sampling:
        (result,) = sampling.serve([Request(7, prompt(20), 6)])
    oracle = generate(tiny_model(), prompt(20), 6, temperature=0.9, seed=5, request_id=7)
    assert list(result.tokens) == oracle


assert CONFIG.context_len == 128  # the numbers above count on it

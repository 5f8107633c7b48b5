"""Scheduling in the engine over generated workloads: any policy, any victim, any limits."""

import contextlib
import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from fakes import (
    Ask,
    Follower,
    any_legal_plan,
    assert_equals_oracle,
    fake_arrivals,
    fake_engine,
    fake_request,
    oracle,
    prompt_of,
    snapshot,
    tiny_model,
    token_at,
)
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.experiments.trace_waits import all_waits
from nanogpt.parts import Parts
from nanogpt.parts.ranking import TimedKey
from nanogpt.parts.request_view import RequestView
from nanogpt.planning import Plan
from nanogpt.policies import Resumed
from nanogpt.request import Request
from nanogpt.trace import StepRecord, Trace
from nanogpt.validate import PartError
from solutions.l02b_waiting.aged_key import aged_key

Policy = Any
Rank = tuple[Any, int, int]


# ---------------------------------------------------------------- policies


def shortest_job(request: RequestView) -> tuple[int, ...]:
    return (request.max_new_tokens, len(request.prompt_tokens))


def last_come_first(request: RequestView) -> tuple[int, ...]:
    return (-request.arrival_time, -request.id)


def all_equal(request: RequestView) -> tuple[int, ...]:
    return ()


def aged(request: RequestView) -> tuple[float, ...]:
    return aged_key(request, 4)


def flips(request: RequestView, step: int) -> tuple[int, ...]:
    """The last are the first, at every step."""
    return ((-1) ** step * request.id,)


def shuffles(request: RequestView, step: int) -> tuple[int, ...]:
    """Another order at every step, and a seed's own."""
    return ((request.id * 7919 + step * 104729) % 101,)


def ages(request: RequestView, step: int) -> tuple[float, ...]:
    return (4 * request.priority - (step - request.arrival_time),)


def most_left_first(request: RequestView, step: int) -> tuple[int, ...]:
    return (len(request.generated_tokens) - request.max_new_tokens,)


def against_the_runners(request: RequestView, step: int) -> tuple[int, ...]:
    """What runs is the least important: as much preemption as there can be."""
    return (int(request.kv_tokens > 0),)


STATIC: list[Policy] = ["fcfs", "priority", shortest_job, last_come_first, all_equal, aged]
TIMED = [TimedKey(key) for key in (flips, shuffles, ages, most_left_first, against_the_runners)]


def expected_rank(policy: Policy, view: RequestView, step: int) -> Rank:
    """A request's place in the queue, worked out without the scheduler."""
    match policy:
        case "fcfs":
            key: Any = (view.arrival_time,)
        case "priority":
            key = (view.priority, view.arrival_time)
        case TimedKey():
            key = policy.key(view, step)
        case _:
            key = policy(view)
    return key, view.arrival_time, view.id


# ---------------------------------------------------------------- victims


def oldest(active: Sequence[RequestView]) -> int:
    return min(active, key=lambda request: (request.arrival_time, request.id)).id


def longest_admitted(active: Sequence[RequestView]) -> int:
    """The posts' rule: the earliest admission."""
    return min(active, key=lambda request: (request.admitted_at or 0, request.id)).id


def most_important(active: Sequence[RequestView]) -> int:
    return min(active, key=lambda request: (request.key, request.id)).id


def fullest(active: Sequence[RequestView]) -> int:
    return max(active, key=lambda request: (request.kv_tokens, request.id)).id


def at_random(active: Sequence[RequestView]) -> int:
    known = sum(request.num_known for request in active)
    return random.Random(known).choice(list(active)).id


VICTIMS = [None, oldest, longest_admitted, most_important, fullest, at_random]


def parts_with(victim: Callable[..., int] | None) -> Parts:
    return Parts() if victim is None else Parts(choose_victim=victim)


# ---------------------------------------------------------------- watching an engine


class Watch:
    """Stands beside an engine and holds every step to the scheduler's promises.

    Knows the reference plan: what was admitted must be the head of the queue, and who waits must
    have had to wait.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.scheduler = engine.scheduler
        self.config = engine.config
        self.real_step = engine.step
        self.has_sampled: dict[int, bool] = {}  # since it was admitted
        engine.step = self.step  # pyright: ignore

    def step(self) -> StepRecord:
        scheduler, step = self.scheduler, self.engine.step_number
        views = {r.id: scheduler.view(r) for r in self.unfinished()}
        self.rank = {i: expected_rank(self.config.policy, view, step) for i, view in views.items()}
        self.queue = sorted((e[3] for e in scheduler.waiting), key=lambda r: self.rank[r.id])
        self.active = list(scheduler.active)
        self.running = [*scheduler.active, *scheduler.prefilling]
        self.known = {r.id: r.num_known for r in self.unfinished()}
        self.tokens = {r.id: list(r.generated_tokens) for r in self.unfinished()}
        record = self.real_step()
        self.check_heap(views, step)
        self.check_preempted(record)
        self.check_admitted(record)
        self.check_tokens(record)
        held = self.engine.cache.held_tokens()
        assert self.config.max_kv_tokens is None or held <= self.config.max_kv_tokens
        self.engine.cache.check()
        for i in record.admitted:
            self.has_sampled[i] = False
        for work in record.work:
            self.has_sampled[work.request_id] |= work.sampled is not None
        return record

    def unfinished(self) -> list[Request]:
        waiting = [entry[3] for entry in self.scheduler.waiting]
        return [*self.scheduler.active, *self.scheduler.prefilling, *waiting]

    def check_heap(self, views: dict[int, RequestView], step: int) -> None:
        heap = self.scheduler.waiting
        for i, entry in enumerate(heap):
            assert heap[(i - 1) // 2][:3] <= entry[:3] or i == 0, "no heap"
            assert entry[:3] == self.rank[entry[3].id], "a rank out of date"

    def check_preempted(self, record: StepRecord) -> None:
        victims = [r for r in self.running if r.id in record.preempted]
        assert len(victims) == len(record.preempted)
        if not victims:
            return
        assert record.admitted == ()
        limit = self.config.max_kv_tokens
        growth = sum(self.known[r.id] for r in self.running)
        if limit is not None and growth > limit:
            spared = self.known[record.preempted[-1]]
            freed = sum(self.known[i] for i in record.preempted)
            assert growth - freed <= limit
            assert growth - freed + spared > limit, "one victim too many"
            stays = any(work.kind == "decode" for work in record.work)
            assert stays or all(self.has_sampled[victim.id] for victim in victims)
            return
        assert self.config.preempt_to_admit
        head = self.queue[0]
        for victim in victims:
            assert victim in self.active
            assert self.has_sampled[victim.id], "pushed out before it sampled"
            assert self.rank[victim.id] > self.rank[head.id], "pushed out by a less important one"
        assert not self.could_start(head, self.running), "pushed out for one that could start"

    def could_start(self, head: Request, beside: Sequence[Request], growth: int = 0) -> bool:
        limit, most = self.config.max_kv_tokens, self.config.max_prefilling
        held = sum(self.known[r.id] for r in beside) + growth
        fits = limit is None or held + self.known[head.id] <= limit
        free = most is None or len(self.scheduler.prefilling) < most
        return fits and free and len(beside) < self.config.max_batch_size

    def check_admitted(self, record: StepRecord) -> None:
        """The admitted are the first of the queue, and the first of the rest had to wait."""
        admitted = list(record.admitted)
        assert admitted == [r.id for r in self.queue[: len(admitted)]]
        rest = self.queue[len(admitted) :]
        if not rest or record.preempted or record.used_tokens >= self.config.token_budget:
            return
        head = rest[0]
        beside = [*self.running, *self.queue[: len(admitted)]]
        limit, most = self.config.max_kv_tokens, self.config.max_prefilling
        short = limit is not None and sum(self.known[r.id] for r in [*beside, head]) > limit
        prefills = sum(r not in self.active for r in beside)
        full = len(beside) >= self.config.max_batch_size
        assert short or full or (most is not None and prefills >= most), "kept waiting for nothing"
        if self.config.preempt_to_admit and not admitted and self.could_prefill():
            least = [r for r in self.running if not self.gives_way(r, head)]
            assert not self.could_start(head, least, len(least)), "not enough pushed out"

    def could_prefill(self) -> bool:
        most = self.config.max_prefilling
        return most is None or sum(r not in self.active for r in self.running) < most

    def gives_way(self, runner: Request, head: Request) -> bool:
        return runner in self.active and self.rank[runner.id] > self.rank[head.id]

    def check_tokens(self, record: StepRecord) -> None:
        sampled = {w.request_id: [w.sampled] for w in record.work if w.sampled is not None}
        for request in self.running + self.queue:
            before = self.tokens[request.id]
            assert request.generated_tokens == before + sampled.get(request.id, [])


def serve(asks: Sequence[Ask], config: EngineConfig, parts: Parts = Parts()) -> Trace:
    """Run a workload in the fake's world under the eyes of a watch."""
    engine, _ = fake_engine(config, parts)
    Watch(engine)
    trace = engine.run(fake_arrivals(asks))
    Follower(trace, config).check()
    for i, (_, length, max_new, _) in enumerate(asks):
        expected = tuple(token_at(i, position) for position in range(length, length + max_new))
        assert trace.generated_tokens(i) == expected
    assert list(engine.cache.holders()) == []
    assert engine.scheduler.is_done()
    return trace


@st.composite
def workloads(draw: st.DrawFn, policies: Sequence[Policy]) -> tuple[list[Ask], EngineConfig]:
    """Up to 8 requests, and limits that are mostly tight."""
    one = st.tuples(st.integers(0, 8), st.integers(1, 14), st.integers(1, 9), st.integers(0, 2))
    asks = draw(st.lists(one, min_size=2, max_size=8))
    needed = max(length + max_new - 1 for _, length, max_new, _ in asks)
    return asks, EngineConfig(
        token_budget=draw(st.integers(1, 24)),
        max_kv_tokens=draw(st.none() | st.integers(needed, needed + 14)),
        max_batch_size=draw(st.integers(1, 6)),
        max_prefilling=draw(st.sampled_from([1, 1, 2, None])),
        policy=draw(st.sampled_from(policies)),
        preempt_to_admit=draw(st.booleans()),
    )


# ---------------------------------------------------------------- properties


@examples(1200)
@given(workloads(STATIC))
def test_static_policies_keep_every_promise(workload: tuple[list[Ask], EngineConfig]):
    serve(*workload)


@examples(500)
@given(workloads(TIMED))
def test_policies_that_change_at_every_step_keep_every_promise(
    workload: tuple[list[Ask], EngineConfig],
):
    serve(*workload)


@examples(500)
@given(workloads([*STATIC, *TIMED]), st.sampled_from(VICTIMS))
def test_no_choice_of_victim_keeps_a_workload_from_finishing(
    workload: tuple[list[Ask], EngineConfig], victim: Any
):
    serve(*workload, parts_with(victim))


@examples(200)
@given(workloads([*STATIC, *TIMED]), st.sampled_from(VICTIMS), st.integers(0, 10**6))
def test_neither_does_any_legal_plan(
    workload: tuple[list[Ask], EngineConfig], victim: Any, seed: int
):
    asks, config = workload
    parts = dataclasses.replace(parts_with(victim), plan_step=any_legal_plan(seed))
    engine, _ = fake_engine(config, parts)
    Follower(engine.run(fake_arrivals(asks)), config).check()


@examples(60)
@given(
    workloads([*STATIC, *TIMED]),
    st.sampled_from(VICTIMS),
    st.sampled_from(["packed", "padded"]),
    st.sampled_from([0.0, 2.0]),
)
def test_a_real_model_writes_the_oracles_tokens(
    workload: tuple[list[Ask], EngineConfig], victim: Any, executor: str, temperature: float
):
    asks, limits = workload
    config = dataclasses.replace(limits, executor=executor, temperature=temperature, seed=5)
    arrivals = [
        (step, Request(i, prompt_of(i, length), max_new, priority))
        for i, (step, length, max_new, priority) in enumerate(asks)
    ]
    engine = Engine(tiny_model(), config, parts_with(victim))
    Watch(engine)
    Follower(engine.run(arrivals), config).check()
    assert_equals_oracle(arrivals, temperature, seed=5)


@examples(150)
@given(workloads([*STATIC, *TIMED]), st.integers(0, 25))
def test_a_dropped_step_changes_nothing_whatever_it_was_about_to_do(
    workload: tuple[list[Ask], EngineConfig], nan_at: int
):
    asks, config = workload
    engine, fake = fake_engine(config, nan_at=nan_at)
    for _, request in fake_arrivals(asks):
        engine.submit(request)
    while not engine.scheduler.is_done():
        if len(fake.calls) != nan_at:
            engine.step()
            continue
        before, steps = snapshot(engine), len(engine.trace().steps)
        try:
            engine.step()
        except ValueError:
            assert snapshot(engine) == before
        else:  # a step in which requests only leave has no logits
            assert engine.trace().steps[steps].work == ()
    trace = engine.trace()
    Follower(trace, config).check()
    smooth = fake_engine(config)[0].run([(0, request) for _, request in fake_arrivals(asks)])
    assert trace == smooth


# ---------------------------------------------------------------- preemption, by hand

PUSHY = EngineConfig(
    32, max_kv_tokens=22, max_prefilling=1, policy="priority", preempt_to_admit=True
)


def test_a_more_important_waiter_pushes_out_and_the_victim_comes_back():
    """The posts' worked example: B comes while A, less important, is all that runs."""
    trace = serve([(0, 10, 6, 2), (3, 20, 2, 0)], PUSHY)
    assert [step.preempted for step in trace.steps[:5]] == [(), (), (), (0,), ()]
    leaving = trace.steps[3]
    assert (leaving.work, leaving.forwards, leaving.kv_before) == ((), (), 12)
    assert (leaving.kv_after, leaving.duration_us) == (0, 0)
    assert [wait.reason for wait in all_waits(trace)[3]] == [
        "preempted to let request 1 start",
        "a request was just preempted to make room",
    ]
    assert trace.steps[4].admitted == (1,)
    back = next(step for step in trace.steps if step.admitted == (0,) and step.step > 0)
    assert [(w.start, w.end) for w in back.work] == [(0, 13)]  # 10 + 3 tokens computed again


def test_without_the_option_a_waiter_waits():
    config = dataclasses.replace(PUSHY, preempt_to_admit=False)
    trace = serve([(0, 10, 6, 2), (3, 20, 2, 0)], config)
    assert not any(step.preempted for step in trace.steps)


@pytest.mark.parametrize("priority", [2, 3])
def test_an_equal_or_less_important_waiter_pushes_nobody_out(priority: int):
    trace = serve([(0, 10, 6, 2), (3, 20, 2, priority)], PUSHY)
    assert not any(step.preempted for step in trace.steps)


def test_nobody_is_pushed_out_while_a_prefill_stands_in_the_way():
    config = dataclasses.replace(PUSHY, token_budget=4)
    trace = serve([(0, 2, 9, 2), (1, 12, 3, 1), (2, 9, 3, 0)], config)
    prefills = {
        s.step for s in trace.steps for w in s.work if (w.request_id, w.kind) == (1, "prefill")
    }
    assert len(prefills) > 2
    assert not any(step.preempted for step in trace.steps if step.step in prefills)


def test_a_full_batch_gives_one_place_to_a_more_important_waiter():
    config = EngineConfig(32, max_batch_size=2, policy="priority", preempt_to_admit=True)
    trace = serve([(0, 3, 9, 1), (0, 3, 9, 2), (2, 3, 2, 0)], config)
    assert [step.preempted for step in trace.steps if step.preempted] == [(1,)]


@pytest.mark.parametrize(
    ("asks", "token_budget"),
    [
        ([(0, 9, 8, 0), (0, 5, 8, 2), (2, 11, 2, 1)], 32),  # 11 + 11 fit, 12 + 11 do not
        ([(0, 2, 9, 2), (1, 12, 8, 0), (2, 10, 2, 1)], 13),  # 12 + 10 fit, 13 + 10 do not
    ],
    ids=["beside a decode", "beside a prefill's last chunk"],
)
def test_nobody_is_pushed_out_for_a_head_that_still_cannot_start(
    asks: list[Ask], token_budget: int
):
    """Those who stay grow by a token in the step in which the victim leaves."""
    config = dataclasses.replace(PUSHY, max_prefilling=None, token_budget=token_budget)
    trace = serve(asks, config)
    reasons = [wait.reason for waits in all_waits(trace) for wait in waits]
    assert "preempted to let request 2 start" not in reasons


def test_nobody_is_pushed_out_for_a_head_that_can_start_right_now():
    """10 + 12 fit now; that they would not fit a step later is no reason."""
    trace = serve([(0, 8, 8, 2), (2, 12, 2, 0)], PUSHY)
    assert [step.admitted for step in trace.steps[:3]] == [(0,), (), (1,)]


def test_a_preempted_requests_text_is_the_undisturbed_one():
    alone = Request(0, prompt_of(0, 10), 10, priority=2)
    Engine(tiny_model()).run([(0, alone)])
    for pushy in (False, True):
        config = dataclasses.replace(PUSHY, token_budget=16, preempt_to_admit=pushy)
        disturbed = Request(0, prompt_of(0, 10), 10, priority=2)
        other = Request(1, prompt_of(1, 10), 9, priority=0)
        trace = Engine(tiny_model(), config).run([(0, disturbed), (1, other)])
        assert [step.preempted for step in trace.steps if step.preempted] == [(0,)]
        assert disturbed.generated_tokens == alone.generated_tokens
        assert max(w.end for s in trace.steps for w in s.work if w.request_id == 0) == 19


# ---------------------------------------------------------------- the posts' bugs, as parts


def restart(request: RequestView) -> Resumed:
    """The posts' fix of orphaned tokens: throw them away."""
    return Resumed(list(request.prompt_tokens), 0, request.arrival_time, 0)


@pytest.mark.parametrize("max_new", [5, 8, 10, 12])
def test_the_posts_victim_and_restart_together_never_finish_and_each_alone_does(max_new: int):
    config = EngineConfig(16, max_kv_tokens=22, max_prefilling=1)
    asks = [(0, 10, max_new, 0), (0, 10, max_new, 0)]
    parts = Parts(choose_victim=longest_admitted, resume=restart)
    stuck = fake_engine(config, parts)[0].run(fake_arrivals(asks), max_steps=300)
    assert stuck.error == "stopped after 300 steps, before all were done"
    assert sum(len(step.preempted) for step in stuck.steps) == 149
    assert not any(step.finished for step in stuck.steps)
    for parts in (Parts(choose_victim=longest_admitted), Parts(resume=restart), Parts()):
        trace = fake_engine(config, parts)[0].run(fake_arrivals(asks), max_steps=300)
        assert (trace.error, trace.steps[-1].kv_after) == (None, 0)
        assert len(trace.steps) < 2 * max_new + 25


def test_tokens_that_cross_over_show_in_the_texts():
    """The step that forwards one list and records another."""

    def crossed(forwarded: Any, active_now: Any, sampled: Any) -> dict[int, int]:
        order = sorted(forwarded, key=list(active_now).index)
        return dict(zip(order, sampled, strict=True))

    texts: list[list[list[int]]] = []
    for parts in (Parts(), Parts(record=crossed)):
        config = EngineConfig(6, policy="priority")  # request 1 is the first to be active
        arrivals = [(0, Request(i, prompt_of(i, 6), 6, priority=1 - i)) for i in (0, 1)]
        Engine(tiny_model(), config, parts).run(arrivals)
        texts.append([request.generated_tokens for _, request in arrivals])
    assert texts[0] == [list(oracle(tuple(prompt_of(i, 6)), 6)) for i in (0, 1)]
    assert [len(text) for text in texts[1]] == [6, 6]
    assert texts[0] != texts[1]


def test_a_request_that_never_fits_is_found_out_where_admission_does_not():
    def never_refuses(candidate: Any, held: int, budget: Any, running: int, most: int) -> str:
        return "admit" if held + candidate.num_known <= budget and running < most else "wait"

    engine, _ = fake_engine(EngineConfig(max_kv_tokens=22), Parts(admit=never_refuses))
    with pytest.raises(ValueError, match=r"nothing can ever run again: .*0 reserved \+ 23 .*> 22"):
        engine.run(fake_arrivals([(0, 10, 20, 0)]))
    assert engine.trace().steps[-1].preempted == (0,)


@pytest.mark.parametrize("budget", [None, 256])
def test_an_admission_that_always_waits_is_blamed_and_not_the_budget(budget: int | None):
    engine, _ = fake_engine(EngineConfig(max_kv_tokens=budget), Parts(admit=lambda *_: "wait"))
    with pytest.raises(ValueError, match=r"nothing can ever run again: .*admit said 'wait'"):
        engine.run(fake_arrivals([(0, 10, 3, 0)]))


@pytest.mark.parametrize(("arrival", "order"), [(0, [1, 2]), (50, [2, 1])])
def test_a_way_back_may_lose_the_place_but_not_the_text(arrival: int, order: list[int]):
    """To the back of the queue: a newcomer overtakes, the tokens stay the same."""

    def back(request: RequestView) -> Resumed:
        known = [*request.prompt_tokens, *request.generated_tokens]
        return Resumed(known, 0, arrival, len(request.generated_tokens))

    config = EngineConfig(16, max_kv_tokens=22)
    asks = [(0, 10, 8, 0), (0, 10, 8, 0), (1, 10, 8, 0)]
    engine, _ = fake_engine(config, Parts(resume=back))
    trace = engine.run(fake_arrivals(asks))
    Follower(trace, config).check()
    returned = [i for step in trace.steps[1:] for i in step.admitted]
    assert returned[:2] == order


# ---------------------------------------------------------------- parts that fail

SITUATIONS = {
    "decode growth": dataclasses.replace(PUSHY, token_budget=16, preempt_to_admit=False),
    "a waiter": dataclasses.replace(PUSHY, token_budget=16),
    "a timed key": dataclasses.replace(PUSHY, token_budget=16, policy=TimedKey(ages)),
}
FAILING: dict[str, tuple[Any, str]] = {
    "admit": (lambda *_: "perhaps", "must be 'admit', 'wait' or 'refuse'"),
    "choose_victim": (lambda *_: 1 // 0, "your choose_victim raised ZeroDivisionError"),
    "resume": (lambda request: (list(request.prompt_tokens), 0, 0, 1), "your resume of request"),
    "record": (lambda *_: {}, "your record returned"),
    "plan_step": (lambda *_: [], "no progress"),
}


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_part_that_fails_beside_a_victim_changes_nothing(name: str, situation: str):
    config, (broken, words) = SITUATIONS[situation], FAILING[name]
    reference, failing = getattr(Parts(), name), False
    parts = Parts(**{name: lambda *args: broken(*args) if failing else reference(*args)})
    engine, _ = fake_engine(config, parts)
    arrivals = fake_arrivals([(0, 5, 8, 2), (0, 5, 8, 1), (2, 10, 4, 0)])
    checked = 0
    while arrivals or not engine.scheduler.is_done():
        while arrivals and arrivals[0][0] <= engine.step_number:
            engine.submit(arrivals.pop(0)[1])
        before, failing = snapshot(engine), True
        with contextlib.suppress(PartError):
            engine.step()
            failing = False
            continue
        assert snapshot(engine) == before
        with pytest.raises(PartError, match=words):
            engine.step()
        failing = False
        checked += engine.step().preempted != ()
    # A budget that is short asks no rule whether to admit.
    assert checked > 0 or (name, situation) == ("admit", "decode growth")
    Follower(engine.trace(), config).check()


def test_a_key_that_fails_on_the_way_back_loses_nobody():
    def back(request: RequestView) -> Resumed:
        known = [*request.prompt_tokens, *request.generated_tokens]
        return Resumed(known, 0, 7, len(request.generated_tokens))

    config = EngineConfig(32, max_kv_tokens=22, policy=lambda r: (1 / (7 - r.arrival_time),))
    engine, _ = fake_engine(config, Parts(resume=back))
    with pytest.raises(PartError, match="your policy raised ZeroDivisionError"):
        engine.run(fake_arrivals([(0, 10, 6, 0), (0, 10, 6, 0)]))
    assert [request.id for request in engine.scheduler.active] == [0, 1]
    assert list(engine.cache.holders()) == [0, 1]


def test_a_timed_key_that_fails_changes_nothing():
    broken = False
    policy = TimedKey(lambda request, step: (1 / (request.id - (1 if broken else 99)),))
    engine, _ = fake_engine(EngineConfig(4, policy=policy))
    for _, request in fake_arrivals([(0, 5, 3, 0)] * 4):
        engine.submit(request)
    engine.step()
    before, broken = snapshot(engine), True
    keys = [entry[:3] for entry in engine.scheduler.waiting]
    with pytest.raises(PartError, match="your policy raised ZeroDivisionError"):
        engine.step()
    assert snapshot(engine) == before
    assert [entry[:3] for entry in engine.scheduler.waiting] == keys
    broken = False
    engine.run([])


def test_a_plan_is_not_asked_for_where_nobody_can_run():
    asked: list[Any] = []

    def plan(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
        asked.append([*decodes, *prefilling, *waiting])
        return [([(i, 1) for i in decodes] + prefilling + waiting)[-1]]

    engine, _ = fake_engine(PUSHY, Parts(plan_step=plan))
    trace = engine.run(fake_arrivals([(0, 10, 6, 2), (3, 20, 2, 0)]))
    assert all(asked)
    assert any(not step.work for step in trace.steps)


# ---------------------------------------------------------------- how long a request waits


def stream(length: int) -> list[tuple[int, Request]]:
    """One unimportant request first; then a more important one every other step."""
    first = (0, fake_request(0, 6, 3, 2))
    return [first, *((2 * i, fake_request(i + 1, 6, 3, 0)) for i in range(length))]


@pytest.mark.parametrize("pushy", [False, True])
@pytest.mark.parametrize(
    ("policy", "starves"),
    [("fcfs", False), (aged, False), (TimedKey(ages), False), ("priority", True)],
)
def test_who_comes_first_or_ages_is_not_starved_by_newcomers(
    policy: Any, starves: bool, pushy: bool
):
    config = EngineConfig(8, max_batch_size=1, policy=policy, preempt_to_admit=pushy)
    done: list[int] = []
    for length in (15, 30):
        trace = fake_engine(config)[0].run(stream(length))
        done.append(next(step.step for step in trace.steps if 0 in step.finished))
    assert (done[1] > done[0] + 20) == starves
    assert starves or done[0] < 40


# ---------------------------------------------------------------- runs


def test_a_run_refuses_a_bad_request_before_anything_runs():
    engine, fake = fake_engine(EngineConfig(4, max_kv_tokens=20))
    before = snapshot(engine)
    for bad in (fake_request(1, 20, 9), fake_request(0, 2, 2), fake_request(1, 2, 0)):
        with pytest.raises(ValueError, match=r"requests? \d"):
            engine.run([(0, fake_request(0, 3, 2)), (9, bad)])
        assert (snapshot(engine), fake.calls) == (before, [])
    engine.run([(0, fake_request(0, 3, 2)), (9, fake_request(1, 3, 2))])


def test_a_run_that_is_stopped_says_so_and_can_go_on():
    engine, _ = fake_engine(EngineConfig(4))
    stopped = engine.run(fake_arrivals([(0, 4, 20, 0)]), max_steps=5)
    assert (stopped.error, len(stopped.steps)) == ("stopped after 5 steps, before all were done", 5)
    assert engine.run([], max_steps=15).error is None
    assert engine.run([(0, fake_request(1, 4, 3))], max_steps=3).error is None


@pytest.mark.parametrize("max_steps", [0, -1, 2.5, "5", True])
def test_a_limit_of_steps_is_a_whole_number(max_steps: Any):
    engine, fake = fake_engine(EngineConfig(4))
    with pytest.raises(ValueError, match="max_steps is"):
        engine.run(fake_arrivals([(0, 4, 20, 0)]), max_steps=max_steps)
    assert fake.calls == []

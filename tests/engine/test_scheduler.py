"""The scheduler, by itself and in the engine: its queues, its limits and whom it preempts."""

import dataclasses
import heapq
import math
from typing import Any

import pytest
from fakes import Ask, Follower, fake_arrivals, fake_engine, fake_request

from nanogpt import EngineConfig, Policies, Trace
from nanogpt.config import TimedKey
from nanogpt.experiments.trace_waits import wait_reasons
from nanogpt.outputs import Requeue
from nanogpt.planning import Plan
from nanogpt.policies.queueing import requeue
from nanogpt.posts.post_engine import Scheduler
from nanogpt.request import Request
from nanogpt.validate import PolicyError
from nanogpt.views.request_view import RequestView


def waiting_ids(scheduler: Scheduler) -> list[int]:
    """As the posts print it."""
    return [request.id for request in scheduler.waiting]


def arrive(scheduler: Scheduler, *requests: Request) -> None:
    """Requests arriving one step after the other."""
    for step, request in enumerate(requests):
        request.arrival_time = step
        scheduler.add_request(request)


def prefill_whole(scheduler: Scheduler, request: Request) -> None:
    """What the engine does after the last chunk: everything computed, one token sampled."""
    request.num_computed_tokens = request.num_tokens
    request.generated_tokens.append(0)
    scheduler.promote(request)


def running(scheduler: Scheduler, *requests: Request) -> Scheduler:
    """All of these decode."""
    for request in requests:
        scheduler.add_request(request)
        scheduler.admit(request)
        prefill_whole(scheduler, request)
    return scheduler


# ---------------------------------------------------------------- the queue


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("fcfs", [5, 3, 1]),
        ("priority", [3, 5, 1]),  # equals by arrival
        (lambda request: (request.max_new_tokens,), [1, 3, 5]),
        (lambda request: (), [5, 3, 1]),
        (TimedKey(lambda request, step: (request.id,)), [1, 3, 5]),
    ],
    ids=["fcfs", "priority", "a key", "equal keys", "a timed key"],
)
def test_a_policy_orders_the_queue_whatever_the_ids(policy: Any, order: list[int]):
    scheduler = Scheduler(policy, max_prefilling=None)
    arrive(scheduler, fake_request(5, 3, 9, 1), fake_request(3, 3, 4, 0), fake_request(1, 3, 2, 1))
    assert waiting_ids(scheduler) == order
    assert [request.id for request in scheduler.select_admissible()[0]] == order
    heap = list(scheduler.waiting.heap)  # as the posts take from it
    assert [heapq.heappop(heap)[3].id for _ in range(3)] == order


def test_a_static_key_is_asked_once_also_of_what_is_preempted():
    asked: list[int] = []

    def key(request: RequestView) -> tuple[int, ...]:
        asked.append(request.id)
        return (-len(asked),)

    scheduler = Scheduler(key)
    arrive(scheduler, fake_request(0, 3, 2), fake_request(1, 3, 2))
    scheduler.begin_step(1)
    scheduler.admit(scheduler.waiting.heap[0][3])
    [request] = scheduler.prefilling
    view = scheduler.view(request)
    scheduler.preempt(Requeue(request, requeue(view), view.key, "for a test"))
    assert (asked, waiting_ids(scheduler)) == ([0, 1], [1, 0])


@pytest.mark.parametrize(
    "policy",
    [
        lambda request: 3 if request.priority else (0,),
        TimedKey(lambda request, step: (math.nan if request.priority else 0,)),
    ],
)
def test_a_policys_key_that_is_no_tuple_of_numbers_is_refused_and_the_id_stays_free(policy: Any):
    scheduler = Scheduler(policy)
    with pytest.raises(PolicyError, match=r"policy for request 4 returned"):
        scheduler.add_request(fake_request(4, 3, 2, priority=1))
    scheduler.add_request(fake_request(4, 3, 2))
    assert waiting_ids(scheduler) == [4]


def test_policies_see_a_copy():
    scheduler, request = Scheduler(), fake_request(4, 3, 5, 2)
    request.arrival_time = 6
    scheduler.add_request(request)
    scheduler.begin_step(9)
    scheduler.admit(request)
    prefill_whole(scheduler, request)
    view = scheduler.view(request)
    assert dataclasses.astuple(view) == (
        4, 2, 6, 9, tuple(request.prompt_tokens), (0,), 5, 3, (6,), None, 1
    )  # fmt: skip
    assert (view.num_tokens, view.kv_tokens_needed) == (4, 7)  # the last sampled token needs none
    request.generated_tokens.append(1)
    assert view.generated_tokens == (0,)


# ---------------------------------------------------------------- limits


def test_one_request_prefills_at_a_time_by_default_and_the_batch_has_a_limit():
    scheduler = Scheduler()
    arrive(scheduler, *[fake_request(i, 3, 2) for i in range(2)])
    assert scheduler.schedule(0) == (scheduler.prefilling[0], [])
    assert scheduler.select_admissible() == ([], "another request is being prefilled")
    scheduler = Scheduler(max_batch_size=2, max_prefilling=None)
    arrive(scheduler, *[fake_request(i, 3, 2) for i in range(4)])
    admitted, reason = scheduler.select_admissible()
    assert [request.id for request in admitted] == [0, 1]
    assert reason == "the batch is full (2 of 2)"


def test_admission_keeps_the_kv_budget_and_nothing_overtakes_a_head_that_does_not_fit():
    scheduler = Scheduler(max_kv_tokens=10, max_prefilling=None)
    arrive(scheduler, fake_request(0, 6, 2), fake_request(1, 5, 2), fake_request(2, 1, 1))
    admitted, reason = scheduler.select_admissible()
    assert [request.id for request in admitted] == [0]
    assert reason == "the KV budget is short: 6 reserved + 5 to compute > 10"
    scheduler.admit(admitted[0])
    assert scheduler.select_admissible()[0] == []
    with pytest.raises(ValueError, match=r"4 \+ 8 - 1 = 11 KV tokens; the KV budget of 10"):
        scheduler.add_request(fake_request(3, 4, 8))
    scheduler.add_request(fake_request(3, 4, 7))


def crowded(*runners: Request, head: Request, **limits: Any) -> Scheduler:
    """All of `runners` decode, `head` waits."""
    limits = {"max_kv_tokens": 22, "max_prefilling": None, "preempt_to_admit": True} | limits
    scheduler = running(Scheduler("priority", **limits), *runners)
    scheduler.add_request(head)
    return scheduler


def of_priorities(*priorities: int) -> list[Request]:
    return [fake_request(i, 5, 6, priority) for i, priority in enumerate(priorities)]


@pytest.mark.parametrize(
    ("runners", "head", "leaving"),
    [
        (of_priorities(1, 3, 2), fake_request(9, 5, 2, 0), [1]),
        (of_priorities(1, 3, 2), fake_request(9, 10, 2, 0), [1, 2]),
        ([fake_request(0, 9, 6, 0), fake_request(1, 5, 6, 2)], fake_request(9, 14, 2, 1), []),
        ([fake_request(0, 12, 6, 1)], fake_request(9, 12, 2, 1), []),
    ],
    ids=["the least important", "as many as needed", "would not be enough", "an equal, earlier"],
)
def test_what_leaves_for_a_more_important_head(runners: Any, head: Request, leaving: list[int]):
    scheduler = crowded(*map(dataclasses.replace, runners), head=dataclasses.replace(head))
    assert [each.request.id for each in scheduler.select_victims()] == leaving
    assert leaving or scheduler.select_admissible()[0] == []
    quiet = crowded(*runners, head=head, preempt_to_admit=False)
    assert quiet.select_victims() == ()


# ---------------------------------------------------------------- in the engine, worked out by hand


PUSHY = EngineConfig(
    32, max_kv_tokens=22, max_prefilling=1, policy="priority", preempt_to_admit=True
)


def serve(asks: list[Ask], config: EngineConfig, policies: Policies = Policies()) -> Trace:
    """Run a workload in the fake's world, and check its books."""
    trace = fake_engine(config, policies)[0].run(fake_arrivals(asks), max_steps=300)
    Follower(trace, config).check()
    return trace


def preempted(trace: Trace) -> list[int]:
    return [victim for step in trace.steps for victim in step.preempted]


def test_a_more_important_waiter_pushes_out_and_the_victim_comes_back():
    """The posts' worked example: B comes while A, less important, is all that runs."""
    asked: list[Any] = []

    def plan(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
        asked.append([*decodes, *prefilling, *waiting])
        return [(i, 1) for i in decodes] + prefilling + waiting

    trace = serve([(0, 10, 6, 2), (3, 20, 2, 0)], PUSHY, Policies(plan_step=plan))
    assert all(asked)  # and never of nobody
    assert [step.preempted for step in trace.steps[:5]] == [(), (), (), (0,), ()]
    leaving = trace.steps[3]
    assert (leaving.work, leaving.forwards, leaving.kv_before) == ((), (), 12)
    assert (leaving.kv_after, leaving.duration_us) == (0, 0)
    assert [wait.reason for wait in wait_reasons(trace)[3]] == [
        "preempted to let request 1 start",
        "a request was just preempted to make room",
    ]
    assert trace.steps[4].admitted == (1,)
    back = next(step for step in trace.steps if step.admitted == (0,) and step.step > 0)
    assert [(w.start, w.end) for w in back.work] == [(0, 13)]  # 10 + 3 tokens computed again


def test_nothing_is_pushed_out_while_a_prefill_stands_in_the_way():
    config = dataclasses.replace(PUSHY, token_budget=4)
    trace = serve([(0, 2, 9, 2), (1, 12, 3, 1), (2, 9, 3, 0)], config)
    prefills = [
        s for s in trace.steps if (1, "prefill") in [(w.request_id, w.kind) for w in s.work]
    ]
    assert len(prefills) > 2
    assert not any(step.preempted for step in prefills)


def test_a_full_batch_gives_one_place_to_a_more_important_waiter():
    config = EngineConfig(32, max_batch_size=2, policy="priority", preempt_to_admit=True)
    assert preempted(serve([(0, 3, 9, 1), (0, 3, 9, 2), (2, 3, 2, 0)], config)) == [1]


@pytest.mark.parametrize(
    ("asks", "token_budget"),
    [
        ([(0, 9, 8, 0), (0, 5, 8, 2), (2, 11, 2, 1)], 32),  # 11 + 11 fit, 12 + 11 do not
        ([(0, 2, 9, 2), (1, 12, 8, 0), (2, 10, 2, 1)], 13),  # 12 + 10 fit, 13 + 10 do not
        ([(0, 8, 8, 2), (0, 1, 1, 2), (2, 12, 2, 0)], 32),  # 10 + 12 fit now
    ],
    ids=["beside a decode", "beside a prefill's last chunk", "it can start"],
)
def test_nothing_is_pushed_out_for_a_head_that_still_cannot_start_or_can_already(
    asks: list[Ask], token_budget: int
):
    """Those who stay grow by a token in the step in which the victim leaves."""
    config = dataclasses.replace(PUSHY, max_prefilling=None, token_budget=token_budget)
    reasons = [wait.reason for waits in wait_reasons(serve(asks, config)) for wait in waits]
    assert "preempted to let request 2 start" not in reasons

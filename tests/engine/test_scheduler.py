"""The scheduler by itself: queues, admission, preemption, and the posts' way of driving it."""

import dataclasses
from typing import Any

import pytest
from fakes import fake_request

from nanogpt.parts import Parts
from nanogpt.parts.part_checks import guard_parts
from nanogpt.parts.ranking import TimedKey
from nanogpt.parts.request_view import RequestView
from nanogpt.posts.post_scheduler import Scheduler
from nanogpt.request import Request
from nanogpt.validate import PartError


def waiting_ids(scheduler: Scheduler) -> list[int]:
    """As the posts print it."""
    return [entry[3].id for entry in sorted(scheduler.waiting, key=lambda entry: entry[:3])]


def arrive(scheduler: Scheduler, *requests: Request) -> None:
    """Requests arriving one step after the other."""
    for step, request in enumerate(requests):
        request.arrival_time = step
        scheduler.add_request(request)


def prefill_whole(scheduler: Scheduler, request: Request) -> None:
    """What the engine does after the last chunk: everything computed, one token sampled."""
    request.prefill_cursor = request.num_known
    request.generated_tokens.append(0)
    scheduler.promote(request)


def test_fcfs_admits_in_order_of_arrival_whatever_the_ids_and_priorities():
    scheduler = Scheduler("fcfs", max_prefilling=None)
    arrive(scheduler, fake_request(5, 3, 2, 9), fake_request(3, 3, 2, 0), fake_request(4, 3, 2, 1))
    assert [request.id for request in scheduler.admissible()[0]] == [5, 3, 4]


def test_priority_admits_the_most_important_first_and_equals_by_arrival():
    scheduler = Scheduler("priority", max_prefilling=None)
    arrive(scheduler, fake_request(5, 3, 2, 1), fake_request(3, 3, 2, 0), fake_request(1, 3, 2, 1))
    assert [request.id for request in scheduler.admissible()[0]] == [3, 5, 1]


def test_a_request_goes_from_waiting_to_prefilling_to_active_to_done():
    scheduler = Scheduler()
    request = fake_request(0, 3, 2)
    scheduler.add_request(request)
    assert (waiting_ids(scheduler), request.status) == ([0], "waiting")
    scheduler.admit(request)
    assert (scheduler.waiting, scheduler.prefilling, request.status) == (
        [],
        [request],
        "prefilling",
    )
    prefill_whole(scheduler, request)
    assert (scheduler.prefilling, scheduler.active, request.status) == ([], [request], "active")
    assert not scheduler.is_done()
    scheduler.complete(request)
    assert (scheduler.active, request.status) == ([], "done")
    assert scheduler.is_done()


def test_one_request_prefills_at_a_time_by_default():
    scheduler = Scheduler()
    arrive(scheduler, fake_request(0, 3, 2), fake_request(1, 3, 2))
    assert scheduler.schedule(0) == (scheduler.prefilling[0], [])
    assert [request.id for request in scheduler.prefilling] == [0]
    assert scheduler.admissible() == ([], "another request is being prefilled")


def test_the_batch_is_never_larger_than_its_limit():
    scheduler = Scheduler(max_batch_size=2, max_prefilling=None)
    arrive(scheduler, *[fake_request(i, 3, 2) for i in range(4)])
    admitted, reason = scheduler.admissible()
    assert [request.id for request in admitted] == [0, 1]
    assert reason == "the batch is full (2 of 2)"


def test_admission_keeps_the_kv_budget_and_says_the_numbers():
    scheduler = Scheduler(max_kv_tokens=10, max_prefilling=None)
    arrive(scheduler, fake_request(0, 6, 2), fake_request(1, 5, 2), fake_request(2, 1, 1))
    admitted, reason = scheduler.admissible()
    assert [request.id for request in admitted] == [0]
    assert reason is not None
    assert "6 reserved + 5" in reason
    assert "10" in reason


def test_nobody_overtakes_a_head_that_does_not_fit():
    scheduler = Scheduler(max_kv_tokens=10, max_prefilling=None)
    arrive(scheduler, fake_request(0, 6, 2), fake_request(1, 5, 2), fake_request(2, 1, 1))
    scheduler.admit(scheduler.admissible()[0][0])
    assert scheduler.admissible()[0] == []


def test_asking_changes_nothing():
    scheduler = Scheduler(max_kv_tokens=12, max_prefilling=None)
    arrive(scheduler, fake_request(0, 6, 4), fake_request(1, 6, 4))
    for request in list(scheduler.admissible()[0]):
        scheduler.admit(request)
    for request in list(scheduler.prefilling):
        prefill_whole(scheduler, request)
    before = (list(scheduler.active), list(scheduler.waiting), list(scheduler.preempted))
    assert [victim.id for victim in scheduler.victims()] == [1]
    assert scheduler.admissible(scheduler.victims())[0] == []
    assert (scheduler.active, scheduler.waiting, scheduler.preempted) == before


def test_a_preempted_request_keeps_its_tokens_and_its_place_but_not_its_kv():
    scheduler = Scheduler(max_prefilling=None)
    first, second = fake_request(0, 3, 4), fake_request(1, 3, 4)
    arrive(scheduler, first, second)
    scheduler.admit(first)
    prefill_whole(scheduler, first)
    scheduler.preempt(first)
    assert (first.status, first.prefill_cursor, first.generated_tokens) == ("waiting", 0, [0])
    assert first.remaining == 4
    assert first.arrival_time == 0
    assert waiting_ids(scheduler) == [0, 1]
    assert scheduler.preempted == [first]


def test_the_preempted_are_a_history():
    scheduler = Scheduler()
    request = fake_request(0, 3, 4)
    scheduler.add_request(request)
    for _ in range(2):
        scheduler.admit(request)
        scheduler.preempt(request)
    assert [victim.id for victim in scheduler.preempted] == [0, 0]


def test_only_as_many_victims_fall_as_the_budget_needs():
    scheduler = Scheduler(max_kv_tokens=20, max_prefilling=None)
    requests = [fake_request(i, 6, 4) for i in range(3)]
    arrive(scheduler, *requests)
    for request in requests:
        scheduler.admit(request)
        prefill_whole(scheduler, request)
    assert [victim.id for victim in scheduler.victims()] == [2]  # 7 + 7 + 7 known tokens > 20


def test_a_victim_that_does_not_run_is_refused_by_id():
    scheduler = Scheduler(
        max_kv_tokens=12,
        max_prefilling=None,
        parts=guard_parts(Parts(choose_victim=lambda running: 99)),
    )
    for request in (fake_request(0, 6, 4), fake_request(1, 6, 4)):
        scheduler.add_request(request)
        scheduler.admit(request)
        prefill_whole(scheduler, request)
    with pytest.raises(PartError, match=r"choose_victim named .*99; only"):
        scheduler.victims()


def test_a_duplicate_id_is_refused_even_when_the_first_is_done():
    scheduler = Scheduler()
    request = fake_request(0, 3, 1)
    scheduler.add_request(request)
    with pytest.raises(ValueError, match="there is a request 0 already"):
        scheduler.add_request(fake_request(0, 4, 1))
    scheduler.admit(request)
    prefill_whole(scheduler, request)
    scheduler.complete(request)
    with pytest.raises(ValueError, match="there is a request 0 already"):
        scheduler.add_request(fake_request(0, 4, 1))


def test_a_request_that_can_never_fit_is_refused_with_its_sum_and_the_budget():
    scheduler = Scheduler(max_kv_tokens=22)
    with pytest.raises(ValueError, match=r"10 \+ 14 - 1 = 23 KV tokens; the KV budget of 22"):
        scheduler.add_request(fake_request(0, 10, 14))
    scheduler.add_request(fake_request(0, 10, 13))


LIMITS = ["token_budget", "max_kv_tokens", "max_batch_size", "max_prefilling"]


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("value", [0, -1, 2.5, float("nan"), "8", True])
def test_a_limit_that_is_no_whole_number_from_one_up_is_refused(name: str, value: object):
    with pytest.raises(ValueError, match=f"{name} is '?{value}'?"):
        Scheduler(**{name: value})  # pyright: ignore


@pytest.mark.parametrize("name", ["token_budget", "max_batch_size"])
def test_only_memory_and_prefills_may_be_unlimited(name: str):
    with pytest.raises(ValueError, match=f"{name} is None"):
        Scheduler(**{name: None})  # pyright: ignore
    Scheduler(max_kv_tokens=None, max_prefilling=None)


@pytest.mark.parametrize("policy", ["lifo", "", None, 3])
def test_an_unknown_policy_is_refused_with_the_known_ones(policy: object):
    with pytest.raises(ValueError, match=r"choose 'fcfs', 'priority' or a key"):
        Scheduler(policy)  # pyright: ignore


# ---------------------------------------------------------------- policies


def test_a_key_of_ones_own_is_a_policy():
    scheduler = Scheduler(lambda request: (request.max_new_tokens,), max_prefilling=None)
    arrive(scheduler, fake_request(0, 3, 9), fake_request(1, 3, 2), fake_request(2, 3, 5))
    assert waiting_ids(scheduler) == [1, 2, 0]
    assert [request.id for request in scheduler.admissible()[0]] == [1, 2, 0]


def test_equal_keys_are_served_by_arrival_and_then_by_id():
    scheduler = Scheduler(lambda request: (), max_prefilling=None)
    for name, arrival in [(3, 1), (5, 0), (4, 0)]:
        request = fake_request(name, 3, 2)
        request.arrival_time = arrival
        scheduler.add_request(request)
    assert waiting_ids(scheduler) == [4, 5, 3]


def test_a_static_key_is_asked_once_and_kept():
    asked: list[int] = []

    def key(request: RequestView) -> tuple[int, ...]:
        asked.append(request.id)
        return (-len(asked),)

    scheduler = Scheduler(key)
    arrive(scheduler, fake_request(0, 3, 2), fake_request(1, 3, 2))
    for step in range(3):
        scheduler.begin_step(step)
    scheduler.admit(scheduler.waiting[0][3])
    scheduler.preempt(scheduler.prefilling[0])
    assert asked == [0, 1]
    assert waiting_ids(scheduler) == [1, 0]


def test_a_timed_key_is_asked_of_everybody_at_every_step_and_the_heap_is_a_heap_again():
    scheduler = Scheduler(TimedKey(lambda request, step: ((request.id * (step + 2)) % 7,)))
    arrive(scheduler, *[fake_request(i, 3, 2) for i in range(12)])
    for request in (scheduler.waiting[5][3], scheduler.waiting[7][3]):
        scheduler.admit(request)
    for step in range(20):
        scheduler.begin_step(step)
        heap = scheduler.waiting
        assert all(heap[(i - 1) // 2][:3] <= heap[i][:3] for i in range(1, len(heap)))
        assert all(entry[0] == ((entry[3].id * (step + 2)) % 7,) for entry in heap)
        for request in scheduler.prefilling:  # runners are ranked too: one may have to leave
            assert scheduler.view(request).key == ((request.id * (step + 2)) % 7,)


@pytest.mark.parametrize("answer", [None, 5, (float("nan"),), ("x",)])
def test_a_policys_key_must_be_a_tuple_of_numbers(answer: Any):
    for policy in (lambda request: answer, TimedKey(lambda request, step: answer)):
        scheduler = Scheduler(policy)
        with pytest.raises(PartError, match=r"your policy returned .* for request 4"):
            scheduler.add_request(fake_request(4, 3, 2))
        assert scheduler.is_done()


def test_a_policy_that_raises_leaves_the_id_free():
    scheduler = Scheduler(lambda request: (1 / request.priority,))
    with pytest.raises(PartError, match="your policy raised ZeroDivisionError"):
        scheduler.add_request(fake_request(4, 3, 2, 0))
    scheduler.add_request(fake_request(4, 3, 2, 1))
    assert waiting_ids(scheduler) == [4]


def test_policies_see_a_copy():
    scheduler = Scheduler()
    request = fake_request(4, 3, 5, 2)
    request.arrival_time = 6
    scheduler.add_request(request)
    scheduler.begin_step(9)
    scheduler.admit(request)
    prefill_whole(scheduler, request)
    view = scheduler.view(request)
    assert dataclasses.astuple(view) == (
        4, 2, 6, 9, tuple(request.prompt_tokens), (0,), 5, 3, (6,), None, 1
    )  # fmt: skip
    request.generated_tokens.append(1)
    assert view.generated_tokens == (0,)


# ---------------------------------------------------------------- preemption to admit


def crowded(*running: Request, head: Request, **limits: Any) -> Scheduler:
    """All in `running` decode, `head` waits."""
    limits = {"max_kv_tokens": 22, "max_prefilling": None} | limits
    scheduler = Scheduler("priority", preempt_to_admit=True, **limits)
    for request in running:
        scheduler.add_request(request)
        scheduler.admit(request)
        prefill_whole(scheduler, request)
    scheduler.add_request(head)
    return scheduler


def test_the_least_important_leaves_first_and_only_as_many_as_needed():
    runners = [fake_request(i, 5, 6, priority) for i, priority in enumerate([1, 3, 2])]
    scheduler = crowded(*runners, head=fake_request(9, 5, 2, 0))
    assert [victim.id for victim in scheduler.victims()] == [1]
    scheduler = crowded(
        *[fake_request(i, 5, 6, priority) for i, priority in enumerate([1, 3, 2])],
        head=fake_request(9, 10, 2, 0),
    )
    assert [victim.id for victim in scheduler.victims()] == [1, 2]


def test_nobody_leaves_when_that_would_not_be_enough():
    runners = [fake_request(0, 9, 6, 0), fake_request(1, 5, 6, 2)]
    scheduler = crowded(*runners, head=fake_request(9, 14, 2, 1))
    assert scheduler.victims() == []
    assert scheduler.admissible()[0] == []


def test_whoever_is_in_prefill_is_not_pushed_out():
    scheduler = crowded(fake_request(0, 5, 6, 1), head=fake_request(9, 12, 2, 0))
    prefilling = fake_request(1, 8, 2, 3)
    scheduler.add_request(prefilling)
    scheduler.admit(prefilling)
    assert [victim.id for victim in scheduler.victims()] == [0]


def test_an_equal_that_came_earlier_is_not_pushed_out():
    scheduler = crowded(fake_request(0, 12, 6, 1), head=fake_request(9, 12, 2, 1))
    assert scheduler.victims() == []


def test_without_the_option_nobody_leaves_for_a_waiter():
    scheduler = Scheduler("priority", max_kv_tokens=22)
    unimportant = fake_request(0, 12, 6, 3)
    scheduler.add_request(unimportant)
    scheduler.admit(unimportant)
    prefill_whole(scheduler, unimportant)
    scheduler.add_request(fake_request(1, 12, 6, 0))
    assert scheduler.victims() == []


def test_nobody_is_admitted_in_the_step_in_which_somebody_leaves():
    scheduler = crowded(fake_request(0, 12, 6, 3), head=fake_request(9, 12, 2, 0))
    assert scheduler.schedule(4) == (None, [])
    assert [victim.id for victim in scheduler.preempted] == [0]
    assert waiting_ids(scheduler) == [9, 0]
    assert scheduler.schedule(5) == (scheduler.prefilling[0], [])
    assert scheduler.prefilling[0].id == 9

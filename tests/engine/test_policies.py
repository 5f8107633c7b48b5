"""The scheduler's decisions as pure functions, each against a definition written another way."""

import dataclasses
import math
from typing import Any

import pytest
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.parts.request_view import RequestView
from nanogpt.policies import Resumed, admit, choose_victim, record, resume, sort_key
from solutions.l02b_waiting.aged_key import aged_key

MANY = examples(200)


def view(request_id: int = 0, **fields: Any) -> RequestView:
    """A request of 3 prompt tokens that arrived at step 0 and has generated nothing."""
    plain: dict[str, Any] = {
        "priority": 0,
        "arrival_time": 0,
        "admitted_at": None,
        "prompt_tokens": (1, 2, 3),
        "generated_tokens": (),
        "max_new_tokens": 4,
        "kv_tokens": 0,
    }
    return RequestView(id=request_id, **(plain | fields))


VIEWS = st.builds(
    lambda name, priority, arrival, prompt, generated, more, key: view(
        name,
        priority=priority,
        arrival_time=arrival,
        prompt_tokens=(1,) * prompt,
        generated_tokens=(2,) * generated,
        max_new_tokens=generated + more,
        key=key,
    ),
    st.integers(0, 9),
    st.integers(0, 3),
    st.integers(0, 9),
    st.integers(1, 9),
    st.integers(0, 5),
    st.integers(1, 5),
    st.tuples(st.integers(0, 2)),
)


# ---------------------------------------------------------------- views


def test_a_view_counts_what_is_known_and_the_most_it_will_ever_hold():
    request = view(generated_tokens=(7, 8), max_new_tokens=4)
    assert request.num_known == 5
    assert request.kv_tokens_needed == 6  # the last sampled token needs none


def test_a_view_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        view().priority = 3  # pyright: ignore


# ---------------------------------------------------------------- sort_key


def test_fcfs_ranks_by_arrival_alone():
    early, late = view(9, arrival_time=1, priority=5), view(0, arrival_time=2, priority=0)
    assert sort_key("fcfs", early) < sort_key("fcfs", late)
    same = view(4, arrival_time=1, priority=0, prompt_tokens=(1,) * 9)
    assert sort_key("fcfs", early) == sort_key("fcfs", same)


def test_priority_ranks_zero_first_and_equals_by_arrival():
    ranks = [
        sort_key("priority", view(priority=priority, arrival_time=arrival))
        for priority, arrival in [(0, 1), (0, 8), (1, 0), (2, 0)]
    ]
    assert ranks == sorted(set(ranks))


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_the_last_admission_is_no_arrival(policy: str):
    request = view(arrival_time=2)
    returned = dataclasses.replace(request, admitted_at=30, generated_tokens=(5,), kv_tokens=4)
    assert sort_key(policy, request) == sort_key(policy, returned)


@pytest.mark.parametrize("policy", ["lifo", "", "FCFS", None, 3])
def test_an_unknown_policy_is_refused_with_the_known_ones(policy: Any):
    with pytest.raises(ValueError, match=rf"{policy!r}; choose 'fcfs' or 'priority'"):
        sort_key(policy, view())


# ---------------------------------------------------------------- aged_key


@MANY
@given(VIEWS, VIEWS, st.integers(1, 8), st.integers(10, 1000))
def test_the_aged_order_is_that_of_priority_less_age_at_every_moment(
    one: RequestView, other: RequestView, rate: int, now: int
):
    def worth(request: RequestView) -> int:
        return rate * request.priority - (now - request.arrival_time)

    assert (aged_key(one, rate) < aged_key(other, rate)) == (worth(one) < worth(other))
    assert (aged_key(one, rate) == aged_key(other, rate)) == (worth(one) == worth(other))


def test_waiting_long_enough_makes_up_for_one_level():
    old, new = view(priority=1, arrival_time=0), view(priority=0, arrival_time=6)
    assert aged_key(old, 5) < aged_key(new, 5)
    assert aged_key(old, 7) > aged_key(new, 7)


def test_a_rate_of_zero_is_first_come_first_served():
    assert aged_key(view(priority=9, arrival_time=4), 0) == (4,)


# ---------------------------------------------------------------- admit


@MANY
@given(VIEWS, st.integers(0, 30), st.none() | st.integers(1, 30), st.integers(0, 4))
def test_admission_refuses_what_never_fits_and_lets_wait_what_does_not_fit_now(
    candidate: RequestView, held: int, budget: int | None, num_running: int
):
    limit = math.inf if budget is None else budget
    most = len(candidate.prompt_tokens) + candidate.max_new_tokens - 1
    now = held + len(candidate.prompt_tokens) + len(candidate.generated_tokens)
    verdict = admit(candidate, held, budget, num_running, 3)
    assert (verdict == "refuse") == (most > limit)
    if most <= limit:
        assert verdict == ("admit" if now <= limit and num_running < 3 else "wait")


@pytest.mark.parametrize(
    ("held", "budget", "running", "verdict"),
    [
        (0, 6, 0, "admit"),  # 3 + 4 - 1: to the last token
        (0, 5, 0, "refuse"),
        (3, 6, 1, "admit"),  # 3 + 3, to the last token
        (4, 6, 1, "wait"),
        (0, 6, 7, "admit"),
        (0, 6, 8, "wait"),  # a batch of 8 is full with 8
        (0, 5, 8, "refuse"),  # never beats not now
        (999, None, 0, "admit"),
    ],
)
def test_the_borders_of_admission(held: int, budget: int | None, running: int, verdict: str):
    assert admit(view(), held, budget, running, 8) == verdict


def test_a_returned_request_has_to_fit_with_what_it_has_generated():
    returned = view(generated_tokens=(5, 6))
    assert admit(returned, 2, 7, 1, 8) == "admit"
    assert admit(returned, 3, 7, 1, 8) == "wait"
    assert admit(view(), 3, 7, 1, 8) == "admit"


# ---------------------------------------------------------------- choose_victim


@MANY
@given(st.lists(VIEWS, min_size=1, max_size=6, unique_by=lambda request: request.id))
def test_nobody_is_less_important_than_the_victim_or_equal_and_newer(active: list[RequestView]):
    victim = next(request for request in active if request.id == choose_victim(active))
    for other in active:
        assert other.key <= victim.key
        assert other.key < victim.key or other.arrival_time <= victim.arrival_time


def test_the_victim_is_neither_the_oldest_nor_the_most_important_nor_the_last_admitted():
    active = [
        view(0, key=(0, 9), arrival_time=9, admitted_at=99),  # most important, newest of all
        view(1, key=(2, 1), arrival_time=1, admitted_at=80),  # least important, oldest
        view(2, key=(2, 5), arrival_time=5, admitted_at=1),  # least important, newest of those
    ]
    assert choose_victim(active) == choose_victim(active[::-1]) == 2


def test_equals_that_arrived_together_fall_by_the_highest_id():
    active = [view(i, key=(1,), arrival_time=3) for i in (0, 2, 1)]
    assert choose_victim(active) == 2


# ---------------------------------------------------------------- resume and record


@MANY
@given(VIEWS, st.integers(0, 9))
def test_the_way_back_computes_all_that_is_known_and_loses_only_the_kv(
    request: RequestView, kv_tokens: int
):
    running = dataclasses.replace(request, kv_tokens=kv_tokens, admitted_at=40)
    back = resume(running)
    assert tuple(back.tokens) == running.prompt_tokens + running.generated_tokens
    assert back == Resumed(
        back.tokens, 0, running.arrival_time, num_generated=len(running.generated_tokens)
    )


def test_a_token_belongs_to_the_row_that_was_forwarded_whoever_is_active_now():
    assert record([4, 7], [7, 9, 4], [50, 60]) == {4: 50, 7: 60}
    assert record([], [1], []) == {}


def test_rows_and_tokens_must_be_equally_many():
    with pytest.raises(ValueError, match="zip"):
        record([4, 7], [4, 7], [50])

"""`scheduled_generate`: a whole run in one call, and the posts' four tests as they stand."""

from typing import Any

import pytest
import torch
from fakes import prompt_of, tiny_model

from nanogpt import decode, encode, load_model, scheduled_generate
from nanogpt.model import GPT
from nanogpt.policies import Policies
from nanogpt.policy_views import TimedKey
from nanogpt.posts.oracle import generate
from nanogpt.posts.post_engine import step_log
from nanogpt.posts.post_request import Request
from nanogpt.scheduler import Scheduler
from nanogpt.trace import Trace
from nanogpt.validate import PolicyError
from solutions.l02b_waiting.aged_key import aged_key


@pytest.fixture(scope="module")
def model() -> GPT:
    return load_model(dtype=torch.float64)


def trace_of(scheduler: Scheduler) -> Trace:
    assert scheduler.trace is not None
    return scheduler.trace


def finished(scheduler: Scheduler) -> list[int]:
    return [i for step in trace_of(scheduler).steps for i in step.finished]


def asks(*texts: str, lengths: tuple[int, ...], priorities: tuple[int, ...] = (0, 0, 0)) -> Any:
    return [
        Request(i, encode(text), new, priority)
        for i, (text, new, priority) in enumerate(zip(texts, lengths, priorities, strict=False))
    ]


# --- the scheduling post's tests ------------------------------------------------------------------


def test_1_fcfs_correctness(model: GPT):
    reqs = asks("O Romeo, ", "To be or ", "KING HENRY:\n", lengths=(10, 10, 10))
    s = scheduled_generate(model, reqs, policy="fcfs", token_budget=16, max_kv_tokens=256)
    for req in reqs:
        assert (req.status, req.num_generated) == ("done", 10)
        assert req.generated_tokens == generate(model, req.prompt_tokens, 10)
    assert finished(s) == [0, 1, 2] and s.is_done()


def test_2_priority_jumping_the_queue(model: GPT):
    first_lines, orders = [], []
    for policy in ("fcfs", "priority"):
        reqs = asks("A " * 15, "B " * 3, lengths=(3, 3), priorities=(2, 0))
        s = scheduled_generate(model, reqs, policy=policy, token_budget=16, max_kv_tokens=256)
        assert [(req.status, req.num_generated) for req in reqs] == [("done", 3)] * 2
        first_lines.append(step_log(trace_of(s)).splitlines()[0])
        orders.append(finished(s))
    assert first_lines == [
        "[step 0] prefill=0[0:16] decode=[] waiting=[1] kv=16",
        "[step 0] prefill=1[0:6] decode=[] waiting=[0] kv=6",
    ]
    assert orders == [[0, 1], [1, 0]]


def test_3_and_4_preemption_under_memory_pressure_and_the_way_back(model: GPT):
    [baseline] = asks("A " * 5, lengths=(10,))
    scheduled_generate(model, [baseline], policy="fcfs", token_budget=16, max_kv_tokens=256)
    reqs = asks("A " * 5, "B " * 5, lengths=(10, 5), priorities=(2, 0))
    s = scheduled_generate(model, reqs, policy="priority", token_budget=16, max_kv_tokens=22)
    assert s.preempted == [reqs[0]]
    assert [(req.status, req.num_generated) for req in reqs] == [("done", 10), ("done", 5)]
    assert [step.step for step in trace_of(s).steps if step.preempted] == [2]
    assert all(step.kv_after <= 22 for step in trace_of(s).steps)
    # Its K/V was computed again: prompt and all generated tokens but the last.
    assert reqs[0].kv_cache[0, 0][0].shape[1] == 10 + 10 - 1
    assert decode(reqs[0].tokens_so_far) == decode(baseline.tokens_so_far)
    assert reqs[1].generated_tokens == generate(model, reqs[1].prompt_tokens, 5)


# --- as the post has it ---------------------------------------------------------------------------


def test_the_defaults_are_the_posts():
    s = scheduled_generate(tiny_model(), [Request(0, prompt_of(0, 4), 3)])
    assert (s.policy, s.token_budget, s.max_kv_tokens) == ("fcfs", 16, 256)
    assert (s.max_prefilling, s.config.preempt_to_admit) == (1, False)
    assert trace_of(s).executor == "padded"
    for most, first in ((1, (0,)), (2, (0, 1)), (None, (0, 1, 2))):
        reqs = [Request(i, prompt_of(i, 4), 3) for i in range(3)]
        s = scheduled_generate(tiny_model(), reqs, max_prefilling=most)
        assert trace_of(s).steps[0].admitted == first
    assert trace_of(scheduled_generate(tiny_model(), [])).steps == ()


@pytest.mark.parametrize(
    "policy",
    [
        lambda request: (-request.id,),
        lambda request: aged_key(request, 0.5),
        TimedKey(lambda request, step: ((request.id + step) % 3,)),
    ],
    ids=["a key", "aging", "a timed key"],
)
@pytest.mark.parametrize("preempt_to_admit", [False, True])
def test_any_policy_and_preemption_write_the_oracles_texts(policy: Any, preempt_to_admit: bool):
    reqs = [Request(i, prompt_of(i, 3 + i), 8, priority=2 - i) for i in range(3)]
    s = scheduled_generate(
        tiny_model(),
        reqs,
        policy,
        8,
        16,
        preempt_to_admit=preempt_to_admit,
        max_batch_size=2,
        temperature=5.0,
        seed=4,
    )
    for req in reqs:
        draws = {"temperature": 5.0, "seed": 4, "request_id": req.id}
        assert req.generated_tokens == generate(tiny_model(), req.prompt_tokens, 8, **draws)
    assert all(step.kv_after <= 16 for step in trace_of(s).steps)


def test_a_bad_request_is_refused_before_the_good_ones_run():
    good = Request(0, prompt_of(0, 4), 3)
    with pytest.raises(ValueError, match="request 1 has an empty prompt"):
        scheduled_generate(tiny_model(), [good, Request(1, [], 3)])
    assert (good.status, good.generated_tokens) == ("waiting", [])
    for arguments, words in (
        ({"policy": "lifo"}, "there is no policy 'lifo'"),
        ({"max_kv_tokens": 5}, r"4 \+ 3 - 1 = 6 KV tokens; the KV budget of 5"),
        ({"executor": "paged"}, "no executor 'paged'"),
        ({"max_steps": 0}, "max_steps is 0"),
    ):
        with pytest.raises(ValueError, match=words):
            scheduled_generate(tiny_model(), [good], **arguments)
    scheduled_generate(tiny_model(), [good])


def test_answers_are_validated_and_an_endless_run_can_be_stopped():
    reqs = [Request(0, prompt_of(0, 4), 3)]
    with pytest.raises(PolicyError, match="admit for request 0 returned"):
        scheduled_generate(tiny_model(), reqs, policies=Policies(admit=lambda *_: None))  # pyright: ignore
    s = scheduled_generate(tiny_model(), [Request(0, prompt_of(0, 4), 20)], max_steps=5)
    assert trace_of(s).error == "stopped after 5 steps, before all were done"
    assert len(trace_of(s).steps) == 5 and not s.is_done()

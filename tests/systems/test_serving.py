"""`scheduled_generate`: a whole run in one call, and the posts' four tests as they stand."""

from typing import Any

import pytest
import torch
from fakes import prompt_of, tiny_model

from nanogpt import decode, encode, load_model, scheduled_generate
from nanogpt.model import GPT
from nanogpt.parts import Parts
from nanogpt.parts.ranking import TimedKey
from nanogpt.posts.oracle import generate
from nanogpt.posts.step_log import step_log
from nanogpt.request import Request
from nanogpt.scheduler import Scheduler
from nanogpt.trace import Trace
from nanogpt.validate import PartError
from solutions.l02b_waiting.aged_key import aged_key


@pytest.fixture(scope="module")
def model() -> GPT:
    return load_model(dtype=torch.float64)


def trace_of(scheduler: Scheduler) -> Trace:
    assert scheduler.trace is not None
    return scheduler.trace


def asks(*prompts_and_priorities: tuple[str, int, int]) -> list[Request]:
    return [
        Request(id=i, prompt_tokens=encode(text), max_new_tokens=new, priority=priority)
        for i, (text, new, priority) in enumerate(prompts_and_priorities)
    ]


# ---------------------------------------------------------------- the scheduling post's tests
# Its asserts are word for word; what it prints goes unsaid.


def finished(scheduler: Scheduler) -> list[int]:
    return [i for step in trace_of(scheduler).steps for i in step.finished]


def test_1_fcfs_correctness(model: GPT):
    reqs = [
        Request(id=0, prompt_tokens=encode("O Romeo, "), max_new_tokens=10),
        Request(id=1, prompt_tokens=encode("To be or "), max_new_tokens=10),
        Request(id=2, prompt_tokens=encode("KING HENRY:\n"), max_new_tokens=10),
    ]
    s = scheduled_generate(model, reqs, policy="fcfs", token_budget=16, max_kv_tokens=256)
    for req in reqs:
        assert req.status == "done", f"❌ Req {req.id} not done"
        assert req.num_generated == 10, f"❌ Req {req.id}: got {req.num_generated} tokens"
        assert req.generated_tokens == generate(model, req.prompt_tokens, 10)
    assert finished(s) == [0, 1, 2]
    assert s.is_done()


def test_2_priority_jumping_the_queue(model: GPT):
    fcfs_reqs = [
        Request(id=0, prompt_tokens=encode("A " * 15), max_new_tokens=3, priority=2),
        Request(id=1, prompt_tokens=encode("B " * 3), max_new_tokens=3, priority=0),
    ]
    s_fcfs = scheduled_generate(model, fcfs_reqs, policy="fcfs", token_budget=16, max_kv_tokens=256)
    prio_reqs = [
        Request(id=0, prompt_tokens=encode("A " * 15), max_new_tokens=3, priority=2),
        Request(id=1, prompt_tokens=encode("B " * 3), max_new_tokens=3, priority=0),
    ]
    s_prio = scheduled_generate(
        model, prio_reqs, policy="priority", token_budget=16, max_kv_tokens=256
    )
    for req in fcfs_reqs + prio_reqs:
        assert req.status == "done", f"❌ Req {req.id} not done"
        assert req.num_generated == 3
    assert [step_log(trace_of(s)).splitlines()[0] for s in (s_fcfs, s_prio)] == [
        "[step 0] prefill=0[0:16] decode=[] waiting=[1] kv=16",
        "[step 0] prefill=1[0:6] decode=[] waiting=[0] kv=6",
    ]
    assert [finished(s_fcfs), finished(s_prio)] == [[0, 1], [1, 0]]


def test_3_preemption_under_memory_pressure(model: GPT):
    reqs = [
        Request(id=0, prompt_tokens=encode("A " * 5), max_new_tokens=10, priority=2),
        Request(id=1, prompt_tokens=encode("B " * 5), max_new_tokens=5, priority=0),
    ]
    s = scheduled_generate(model, reqs, policy="priority", token_budget=16, max_kv_tokens=22)
    preempted_ids = [r.id for r in s.preempted]
    assert len(s.preempted) > 0, "❌ No preemption occurred — lower max_kv_tokens"
    assert 0 in preempted_ids, f"❌ Expected req 0 to be preempted, got {preempted_ids}"
    for req in reqs:
        assert req.status == "done", f"❌ Req {req.id} stuck in status '{req.status}'"
    assert preempted_ids == [0]
    assert [req.num_generated for req in reqs] == [10, 5]
    assert [step.step for step in trace_of(s).steps if step.preempted] == [2]
    assert all(step.kv_after <= 22 for step in trace_of(s).steps)


def test_4_preempted_request_re_enters_correctly(model: GPT):
    baseline = Request(id=0, prompt_tokens=encode("A " * 5), max_new_tokens=10)
    scheduled_generate(model, [baseline], policy="fcfs", token_budget=16, max_kv_tokens=256)
    req0 = Request(id=0, prompt_tokens=encode("A " * 5), max_new_tokens=10, priority=2)
    req1 = Request(id=1, prompt_tokens=encode("B " * 5), max_new_tokens=5, priority=0)
    s = scheduled_generate(
        model, [req0, req1], policy="priority", token_budget=16, max_kv_tokens=22
    )
    assert req0.status == "done"
    assert req0.num_generated == req0.max_new_tokens
    expected_kv_len = len(req0.prompt_tokens) + req0.num_generated - 1
    actual_kv_len = req0.kv_cache[(0, 0)][0].shape[1]
    assert actual_kv_len == expected_kv_len, (
        f"❌ KV cache has {actual_kv_len} entries, expected {expected_kv_len}. "
        "Hint: generated_tokens should be reset to [] on preemption."
    )
    assert actual_kv_len == 19
    assert s.preempted == [req0]
    assert decode(req0.tokens_so_far) == decode(baseline.tokens_so_far)
    assert req1.generated_tokens == generate(model, req1.prompt_tokens, 5)


# ---------------------------------------------------------------- as the post has it


def test_a_step_is_two_forwards_and_packed_makes_it_one(model: GPT):
    counts: dict[str, list[int]] = {}
    texts: list[list[list[int]]] = []
    for executor in ("padded", "packed"):
        reqs = asks(("O Romeo, ", 6, 0), ("To be or ", 6, 0))
        s = scheduled_generate(model, reqs, executor=executor)
        counts[executor] = [len(step.forwards) for step in trace_of(s).steps]
        texts.append([req.generated_tokens for req in reqs])
    assert counts["padded"][:3] == [1, 2, 1]
    assert set(counts["packed"]) == {1}
    assert texts[0] == texts[1]
    default = scheduled_generate(model, asks(("O Romeo, ", 6, 0), ("To be or ", 6, 0)))
    assert trace_of(default).executor == "padded"


def test_one_request_prefills_at_a_time_and_more_as_an_option():
    firsts: list[tuple[int, ...]] = []
    for max_prefilling in (1, 2, None):
        reqs = [Request(i, prompt_of(i, 4), 3) for i in range(3)]
        s = scheduled_generate(tiny_model(), reqs, max_prefilling=max_prefilling)
        firsts.append(trace_of(s).steps[0].admitted)
    assert firsts == [(0,), (0, 1), (0, 1, 2)]


def test_the_defaults_are_the_posts():
    s = scheduled_generate(tiny_model(), [Request(0, prompt_of(0, 4), 3)])
    assert (s.policy, s.token_budget, s.max_kv_tokens) == ("fcfs", 16, 256)
    assert (s.max_prefilling, s.preempt_to_admit) == (1, False)


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
        tiny_model(), reqs, policy, 8, 16, preempt_to_admit=preempt_to_admit, max_batch_size=2
    )
    for req in reqs:
        assert req.generated_tokens == generate(tiny_model(), req.prompt_tokens, 8)
    assert all(step.kv_after <= 16 for step in trace_of(s).steps)


def test_temperature_and_seed_reach_the_draws():
    request = Request(3, prompt_of(3, 6), 10)
    scheduled_generate(tiny_model(), [request], temperature=5.0, seed=4)
    expected = generate(tiny_model(), prompt_of(3, 6), 10, temperature=5.0, seed=4, request_id=3)
    assert request.generated_tokens == expected


def test_nothing_to_serve_is_an_empty_run():
    s = scheduled_generate(tiny_model(), [])
    assert trace_of(s).steps == ()
    assert s.preempted == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"policy": "lifo"}, "there is no policy 'lifo'"),
        ({"token_budget": 0}, "token_budget is 0"),
        ({"max_kv_tokens": 5}, r"4 \+ 3 - 1 = 6 KV tokens; the KV budget of 5"),
        ({"max_batch_size": 0}, "max_batch_size is 0"),
        ({"executor": "paged"}, "no executor 'paged'"),
        ({"max_steps": 0}, "max_steps is 0"),
    ],
    ids=str,
)
def test_a_bad_limit_is_refused_in_words(arguments: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        scheduled_generate(tiny_model(), [Request(0, prompt_of(0, 4), 3)], **arguments)


def test_a_bad_request_is_refused_before_the_good_ones_run():
    good = Request(0, prompt_of(0, 4), 3)
    with pytest.raises(ValueError, match="request 1 has an empty prompt"):
        scheduled_generate(tiny_model(), [good, Request(1, [], 3)])
    assert (good.status, good.generated_tokens) == ("waiting", [])
    scheduled_generate(tiny_model(), [good])


def test_parts_are_guarded_and_an_endless_run_can_be_stopped():
    reqs = [Request(0, prompt_of(0, 4), 3)]
    with pytest.raises(PartError, match="your admit returned"):
        scheduled_generate(tiny_model(), reqs, parts=Parts(admit=lambda *_: None))  # pyright: ignore
    s = scheduled_generate(tiny_model(), [Request(0, prompt_of(0, 4), 20)], max_steps=5)
    assert trace_of(s).error == "stopped after 5 steps, before all were done"
    assert len(trace_of(s).steps) == 5
    assert not s.is_done()

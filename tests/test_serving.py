"""`scheduled_generate`: a whole run in one call, and the posts' four tests as they stand."""

from typing import Any

import pytest
import torch
from fakes import prompt_of, tiny_model

from nanogpt import decode, encode, load_model, scheduled_generate
from nanogpt.generate import generate
from nanogpt.guard import PartError
from nanogpt.model import GPT
from nanogpt.parts import Parts
from nanogpt.policies import aged_key
from nanogpt.ranking import TimedKey
from nanogpt.request import Request
from nanogpt.scheduler import Scheduler
from nanogpt.trace import Trace, step_log


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


# ---------------------------------------------------------------- the posts' tests


def test_the_posts_test_1_all_complete_in_order_with_valid_output(model: GPT):
    reqs = [
        Request(id=0, prompt_tokens=encode("O Romeo, "), max_new_tokens=10),
        Request(id=1, prompt_tokens=encode("To be or "), max_new_tokens=10),
        Request(id=2, prompt_tokens=encode("KING HENRY:\n"), max_new_tokens=10),
    ]
    s = scheduled_generate(model, reqs, policy="fcfs", token_budget=16, max_kv_tokens=256)
    for req in reqs:
        assert req.status == "done"
        assert req.num_generated == 10
        assert decode(req.tokens_so_far).startswith(decode(req.prompt_tokens))
        assert req.generated_tokens == generate(model, req.prompt_tokens, 10)
    assert [i for step in trace_of(s).steps for i in step.finished] == [0, 1, 2]
    assert s.is_done()


def test_the_posts_test_2_priority_flips_the_order_of_admission(model: GPT):
    logs: list[str] = []
    finished: list[list[int]] = []
    for policy in ("fcfs", "priority"):
        reqs = asks(("A " * 15, 3, 2), ("B " * 3, 3, 0))
        s = scheduled_generate(model, reqs, policy=policy, token_budget=16, max_kv_tokens=256)
        assert [req.status for req in reqs] == ["done", "done"]
        assert [req.num_generated for req in reqs] == [3, 3]
        logs.append(step_log(trace_of(s)).splitlines()[0])
        finished.append([i for step in trace_of(s).steps for i in step.finished])
    assert logs == [
        "[step 0] prefill=0[0:16] decode=[] waiting=[1] kv=16",
        "[step 0] prefill=1[0:6] decode=[] waiting=[0] kv=6",
    ]
    assert finished == [[0, 1], [1, 0]]


def test_the_posts_test_3_a_tight_budget_preempts_the_less_important_once(model: GPT):
    reqs = asks(("A " * 5, 10, 2), ("B " * 5, 5, 0))
    s = scheduled_generate(model, reqs, policy="priority", token_budget=16, max_kv_tokens=22)
    assert [r.id for r in s.preempted] == [0]
    assert [req.status for req in reqs] == ["done", "done"]
    assert [req.num_generated for req in reqs] == [10, 5]
    trace = trace_of(s)
    assert [step.step for step in trace.steps if step.preempted] == [2]
    assert all(step.kv_after <= 22 for step in trace.steps)


def test_the_posts_test_4_the_preempted_text_is_the_undisturbed_one(model: GPT):
    baseline = Request(id=0, prompt_tokens=encode("A " * 5), max_new_tokens=10)
    scheduled_generate(model, [baseline], policy="fcfs", token_budget=16, max_kv_tokens=256)
    req0, req1 = reqs = asks(("A " * 5, 10, 2), ("B " * 5, 5, 0))
    s = scheduled_generate(model, reqs, policy="priority", token_budget=16, max_kv_tokens=22)
    assert s.preempted == [req0]
    assert decode(req0.tokens_so_far) == decode(baseline.tokens_so_far)
    assert req1.generated_tokens == generate(model, req1.prompt_tokens, 5)
    # The K/V is released with the last token; its length stands in the trace.
    last = [work for step in trace_of(s).steps for work in step.work if work.request_id == 0][-1]
    assert last.end == len(req0.prompt_tokens) + req0.num_generated - 1 == 19


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

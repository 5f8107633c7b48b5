"""`scheduled_generate`, a whole run in one call: its defaults, its refusals, its limit of steps."""

import pytest
from fakes import prompt_of, tiny_model

from nanogpt import scheduled_generate
from nanogpt.policies import Policies
from nanogpt.posts.post_request import Request
from nanogpt.scheduler import Scheduler
from nanogpt.trace import Trace
from nanogpt.validate import PolicyError


def trace_of(scheduler: Scheduler) -> Trace:
    assert scheduler.trace is not None
    return scheduler.trace


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

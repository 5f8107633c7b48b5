"""Behind lesson 2's exhibits: a livelock of two polite requests, and tokens in the wrong hands."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from course.attempt import Attempt
from course.lesson_data.l02_scheduler import POST
from course.lesson_data.plan_only import plan_engine
from course.lesson_data.texts import shown
from course.replay import replay, replays
from nanogpt import (
    GPT,
    Engine,
    EngineConfig,
    Policies,
    Request,
    Trace,
    decode,
    encode,
    generate,
)
from nanogpt.policies import queueing
from nanogpt.policy_views import RequestView

Victim = Callable[[Sequence[RequestView]], int]
WayBack = Callable[[RequestView], Any]
_MOST_STEPS = 40
_TRIO = (("ROMEO:\nBut, soft! ", 2), ("JULIET:\nO Romeo, ", 0), ("HAMLET:\nA", 1))


def oldest(active: Sequence[RequestView]) -> int:
    """Exhibit A, the victim: the request that was admitted longest ago."""
    return min(active, key=lambda request: (request.admitted_at or 0, request.id)).id


def start_over(request: RequestView) -> tuple[list[int], int, int, int]:
    """The published way back: the generated tokens are thrown away."""
    return list(request.prompt_tokens), 0, request.arrival_time, 0


def twins(victim: Victim, way_back: WayBack = start_over) -> Trace:
    """Two equal requests, 10 tokens of prompt and 10 new, in 22 KV tokens; 40 steps at most."""
    return replay(_engine_of_twins(_policies(victim, way_back)), _two_equal(), _MOST_STEPS)


def your_twins(attempt: Attempt) -> Trace:
    """The twins under the learner's `choose_victim`, or the reference's until it is written."""
    victim = attempt.or_reference(queueing.choose_victim)
    run_with = replays(_engine_of_twins, _two_equal, _MOST_STEPS)
    return run_with(_policies(victim))


def _policies(victim: Victim, way_back: WayBack = start_over) -> Policies:
    return Policies(choose_victim=victim, requeue=way_back)


def _engine_of_twins(policies: Policies) -> Engine:
    return plan_engine(replace(POST, policy="fcfs"), policies)


def _two_equal() -> list[tuple[int, Request]]:
    return [(0, Request(i, [1 + i] * 10, 10)) for i in (0, 1)]


def steps_if_kept() -> int:
    """How many steps the twins take under exhibit A when a victim keeps its text."""
    return len(twins(oldest, queueing.requeue).steps)


def along_the_active(
    batch_ids: Sequence[int], active_ids: Sequence[int], sampled: Sequence[int]
) -> dict[int, int]:
    """Exhibit B: each token to the request at its place among those that are active now."""
    return dict(zip(active_ids, sampled, strict=False))


def crossed_table(model: GPT) -> str:
    """Three texts under exhibit B, by FCFS and by priority, beside the oracle's."""
    fcfs, ranked = (
        replay(
            Engine(model, EngineConfig(policy=policy), Policies(assign_tokens=along_the_active)),
            _trio(),
        )
        for policy in ("fcfs", "priority")
    )
    rows = [
        f"| {r.id} | {r.priority} | {shown(decode(list(fcfs.generated_tokens(r.id))))} "
        f"| {shown(decode(list(ranked.generated_tokens(r.id))))} "
        f"| {shown(decode(generate(model, r.prompt_tokens, 20)))} |"
        for _, r in _trio()
    ]
    head = "| request | priority | under FCFS | under priority | the oracle |"
    return "\n".join([head, "|--:|--:|:--|:--|:--|", *rows])


def _trio() -> list[tuple[int, Request]]:
    return [(0, Request(i, encode(p), 20, priority=r)) for i, (p, r) in enumerate(_TRIO)]

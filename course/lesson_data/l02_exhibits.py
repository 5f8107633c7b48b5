"""Behind lesson 2's defects: a livelock, and a scheduler without admission or preemption."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from course.attempt import Attempt
from course.lesson_data.l02_scheduler import POST, six_requests
from course.lesson_data.plan_only import plan_engine
from course.replay import replay, replays
from nanogpt import Engine, EngineConfig, Policies, Request, Trace
from nanogpt.policies import queueing
from nanogpt.views.request_view import RequestView

Victim = Callable[[Sequence[RequestView]], int]
Requeue = Callable[[RequestView], queueing.ResumeState]
_MOST_STEPS = 40
_SHORT_OF_MEMORY = EngineConfig(token_budget=32, max_kv_tokens=160, max_prefilling=1)


def switched_off(half: str) -> Trace:
    """The six requests under FCFS without "admission" or "preemption", or with both: ""."""
    engine = plan_engine(_SHORT_OF_MEMORY)
    scheduler = engine.scheduler
    if half == "admission":
        scheduler.select_admissible = lambda preempted=(): (
            [] if preempted else list(scheduler.waiting),
            None,
        )
    elif half == "preemption":
        scheduler.select_victims = lambda: ()
    return replay(engine, six_requests())


def oldest(active: Sequence[RequestView]) -> int:
    """The victim of the livelock: the request that was admitted first."""
    return min(active, key=lambda request: (request.admitted_at or 0, request.id)).id


def start_over(request: RequestView) -> queueing.ResumeState:
    """The published requeue: the generated tokens are thrown away."""
    return queueing.ResumeState(list(request.prompt_tokens), 0, request.arrival_time, 0)


def twins(victim: Victim, requeue: Requeue = start_over) -> Trace:
    """Two equal requests, 10 tokens of prompt and 10 new, in 22 KV tokens; 40 steps at most."""
    policies = Policies(choose_victim=victim, requeue=requeue)
    return replay(_engine_of_twins(policies), _two_equal(), _MOST_STEPS)


def your_twins(attempt: Attempt) -> Trace:
    """The twins under the learner's `choose_victim`, or the reference's until it is written."""
    victim = attempt.or_reference(queueing.choose_victim)
    run_with = replays(_engine_of_twins, _two_equal, _MOST_STEPS)
    return run_with(Policies(choose_victim=victim, requeue=start_over))


def _engine_of_twins(policies: Policies) -> Engine:
    return plan_engine(replace(POST, policy="fcfs"), policies)


def _two_equal() -> list[tuple[int, Request]]:
    return [(0, Request(i, [1 + i] * 10, 10)) for i in (0, 1)]

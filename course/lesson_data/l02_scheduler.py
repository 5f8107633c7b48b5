"""Behind lesson 2: its workloads, and the pushes and pops of a run."""

from collections.abc import Callable, Mapping
from typing import Any

from course.attempt import Attempt
from course.calling.jobs import RunError, run
from course.calling.policies import Policy
from course.lesson_data.l02_heap import record_heap
from course.lesson_data.texts import arriving
from course.replay import replay
from nanogpt import Engine, EngineConfig, Policies, Request, Trace
from nanogpt.policies import queueing
from nanogpt.recorded_texts import RecordedTexts
from nanogpt.views.request_view import RequestView

Rank = Callable[[str, RequestView], tuple[float, ...]]

POST = EngineConfig(policy="priority", token_budget=16, max_kv_tokens=22, max_prefilling=1)
"""The limits of the scheduling post's tests: one request prefills at a time."""

six_requests = arriving(
    (0, "MACBETH:\nTo-morrow, and to-morrow, and to-morrow,\nCreeps in this petty pace ", 24, 2),
    (0, "ROMEO:\nBut, soft! what light", 20, 1),
    (2, "PORTIA:\nThe quality of mercy is not strain'd,\n", 24, 2),
    (6, "JULIET:\nO Romeo, Romeo! ", 16, 0),
    (9, "HAMLET:\nAlas, poor Yorick! ", 20, 1),
    (14, "RICHARD:\nA horse! a horse! ", 12, 0),
)
verona = arriving((0, "ROMEO:\nBut", 10, 2), (5, "JULIET:", 5, 0))
_QUEUE = (  # arrival step, prompt tokens, new tokens, priority
    (0, 8, 6, 2),
    (0, 8, 5, 1),
    (0, 6, 4, 2),
    (0, 6, 4, 1),
    (0, 6, 4, 2),
    (1, 4, 4, 0),
    (2, 6, 4, 1),
    (3, 4, 4, 0),
)


def recomputed(trace: Trace) -> int:
    """How many computed tokens had been computed before."""
    computed: dict[int, int] = {}
    again = 0
    for work in (work for step in trace.steps for work in step.work):
        so_far = computed.get(work.request_id, 0)
        again += max(0, min(work.end, so_far) - work.start)
        computed[work.request_id] = max(work.end, so_far)
    return again


def latencies(trace: Trace) -> dict[int, int]:
    """Steps from arrival to the last token, by request, for the requests that finished."""
    ends = {i: step.step for step in trace.steps for i in step.finished}
    return {r.id: ends[r.id] - r.arrival_step + 1 for r in trace.requests if r.id in ends}


# --- the queue ----------------------------------------------------------------------------------


def queue_of(attempt: Attempt) -> tuple[list[dict[str, Any]], str]:
    """The heap of a run with a short KV budget, ranked by the learner's `sort_key`, and its title.

    The reference ranks if there is no answer yet, or if the run fails with the answer.
    """
    if attempt.started and attempt.function is not None:
        try:
            return run(_heap_of, Policy(attempt.function)), "Ranked by your sort_key"
        except RunError:
            pass  # its check says what is wrong with it
    return _heap_of(queueing.sort_key), "Ranked by the reference's sort_key"


def _heap_of(key: Rank) -> list[dict[str, Any]]:
    keys: dict[int, tuple[float, ...]] = {}

    def noted(policy: str, view: RequestView) -> tuple[float, ...]:
        keys[view.id] = key(policy, view)
        return keys[view.id]

    limits = EngineConfig(policy="priority", max_kv_tokens=20, max_batch_size=3)
    queue = [(a, Request(i, [1] * p, n, priority=r)) for i, (a, p, n, r) in enumerate(_QUEUE)]
    trace = replay(Engine(RecordedTexts(), limits, Policies(sort_key=noted)), queue, 300)
    if trace.error:
        raise ValueError(trace.error)
    return record_heap(_operations(trace, keys, max_batch=3))


def _operations(
    trace: Trace, keys: Mapping[int, tuple[float, ...]], max_batch: int
) -> list[dict[str, Any]]:
    """A trace's pushes, pops, and looks at a first request that must wait, with admission tests."""
    known = {request.id: len(request.prompt_tokens) for request in trace.requests}
    running: set[int] = set()
    waiting: dict[int, Any] = {}
    operations: list[dict[str, Any]] = []
    told = None

    def test(request_id: int, verdict: str) -> dict[str, Any]:
        return {
            "held": sum(known[i] for i in running),
            "candidate": known[request_id],
            "budget": trace.max_kv_tokens,
            "batch": len(running),
            "max_batch": max_batch,
            "verdict": verdict,
        }

    for step in trace.steps:
        arrived = [r.id for r in trace.requests if r.arrival_step == step.step]
        for request_id in [*arrived, *step.preempted]:
            running.discard(request_id)
            waiting[request_id] = (keys[request_id], request_id)
            entry = {"id": request_id, "key": list(keys[request_id])}
            operations.append({"op": "push", "entry": entry, "admission": None})
        for request_id in step.admitted:
            operations.append({"op": "pop", "admission": test(request_id, "admit")})
            running.add(request_id)
            del waiting[request_id]
        candidate = min(waiting, key=waiting.__getitem__, default=None)
        if candidate is not None and candidate != told and not step.preempted:
            operations.append({"op": "look", "admission": test(candidate, "wait")})
        told = candidate
        for work in step.work:
            known[work.request_id] += work.sampled is not None
        running -= set(step.finished)
    return operations

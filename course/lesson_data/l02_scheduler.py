"""Behind lesson 2: its workloads, the pushes and pops of a run, what a place in a queue brings."""

from collections.abc import Callable, Mapping
from typing import Any

from course.attempt import Attempt
from course.calling.jobs import RunError, run
from course.calling.policies import Policy
from course.lesson_data.l02_heap import record_heap
from course.lesson_data.plan_only import plan_engine
from course.lesson_data.texts import served
from course.replay import replay
from nanogpt import GPT, EngineConfig, Policies, Request, Trace, encode, generate
from nanogpt.policies import queueing
from nanogpt.policy_views import RequestView

Arrivals = list[tuple[int, Request]]
Rank = Callable[[str, RequestView], tuple[float, ...]]

POST = EngineConfig(policy="priority", token_budget=16, max_kv_tokens=22, max_prefilling=1)
"""The limits of the scheduling post's tests: one request prefills at a time."""

_SIX = (  # arrival step, prompt, new tokens, priority
    (0, "MACBETH:\nTo-morrow, and to-morrow, and to-morrow,\nCreeps in this petty pace ", 24, 2),
    (0, "ROMEO:\nBut, soft! what light", 20, 1),
    (2, "PORTIA:\nThe quality of mercy is not strain'd,\n", 24, 2),
    (6, "JULIET:\nO Romeo, Romeo! ", 16, 0),
    (9, "HAMLET:\nAlas, poor Yorick! ", 20, 1),
    (14, "RICHARD:\nA horse! a horse! ", 12, 0),
)
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


def verona() -> Arrivals:
    """Romeo's request from step 0 on, of priority 2, and Juliet's at step 5, of priority 0."""
    return [
        (0, Request(0, encode("ROMEO:\nBut"), 10, priority=2)),
        (5, Request(1, encode("JULIET:"), 5, priority=0)),
    ]


def six_requests() -> Arrivals:
    """Fresh requests of the same six prompts: the engine writes into the ones it is given."""
    return [(step, Request(i, encode(text), n, priority=p)) for i, (step, text, n, p) in
            enumerate(_SIX)]  # fmt: skip


def recomputed(trace: Trace) -> int:
    """Tokens whose K/V was computed a second time."""
    computed: dict[int, int] = {}
    again = 0
    for work in (work for step in trace.steps for work in step.work):
        so_far = computed.get(work.request_id, 0)
        again += max(0, min(work.end, so_far) - work.start)
        computed[work.request_id] = max(work.end, so_far)
    return again


def latencies(trace: Trace) -> dict[int, int]:
    """Steps from arrival to the last token, by request; none for one that is not done."""
    ends = {i: step.step for step in trace.steps for i in step.finished}
    return {r.id: ends[r.id] - r.arrival_step + 1 for r in trace.requests if r.id in ends}


def what_romeo_cost(model: GPT, tragedy: Trace) -> str:
    """What `verona` computed and sampled for request 0, and whether its text is undisturbed."""
    works = [w for s in tragedy.steps for w in s.work if w.request_id == 0]
    computed = sum(work.end - work.start for work in works)
    sampled = sum(work.sampled is not None for work in works)
    _, romeo = verona()[0]
    alone = generate(model, romeo.prompt_tokens, romeo.max_new_tokens)
    same = "the same as" if list(tragedy.generated_tokens(0)) == alone else "not"
    return (
        f"**{computed} computed, {sampled} sampled.** 15 until it left, then 16 in one go (the "
        "prompt and six generated tokens, a prefill like any other), then 3 decodes. Starting the "
        "text over would compute 34 as well, but sample six letters again that a reader has seen. "
        f"Its text is {same} that of an undisturbed run."
    )


# --- the queue ----------------------------------------------------------------------------------


def queue_of(attempt: Attempt) -> tuple[list[dict[str, Any]], str]:
    """The heap of a run with a short KV budget, ranked by the learner's `sort_key`, and its title.

    The reference ranks where there is no answer yet, or none that such a run gets through with.
    """
    if attempt.started and attempt.function is not None:
        try:
            return run(_heap_of, Policy(attempt.function)), "Ranked by your sort_key"
        except RunError:
            pass  # its check says what is wrong with it
    return _heap_of(queueing.sort_key), "Ranked by the reference's sort_key"


def _heap_of(rank: Rank) -> list[dict[str, Any]]:
    keys: dict[int, tuple[float, ...]] = {}

    def noted(policy: str, view: RequestView) -> tuple[float, ...]:
        keys[view.id] = rank(policy, view)
        return keys[view.id]

    limits = EngineConfig(policy="priority", max_kv_tokens=20, max_batch_size=3)
    queue = [(a, Request(i, [1] * p, n, priority=r)) for i, (a, p, n, r) in enumerate(_QUEUE)]
    trace = replay(plan_engine(limits, Policies(sort_key=noted)), queue, 300)
    if trace.error:
        raise ValueError(trace.error)
    return record_heap(_operations(trace, keys, max_batch=3))


def _operations(
    trace: Trace, keys: Mapping[int, tuple[float, ...]], max_batch: int
) -> list[dict[str, Any]]:
    """The pushes and pops behind a trace, and each wait of a new head, with the admission test."""
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


def said_of_places() -> str:
    """Ten equal requests whose victims keep their place, or go to the back of the queue."""
    said: list[str] = []
    for budget in (40, 48):
        (kept, again), (back, back_again) = (
            _ten_in_a_row(budget, way) for way in (queueing.requeue, _to_the_back)
        )
        said.append(
            f"With a budget of {budget}: request 3 takes {back[3]} steps instead of {kept[3]}, "
            f"and request 4, which came after it, {back[4]} instead of {kept[4]}; recomputed are "
            f"{back_again} tokens instead of {again}."
        )
    return " ".join(said)


def _ten_in_a_row(
    max_kv_tokens: int, way_back: Callable[[RequestView], Any]
) -> tuple[dict[int, int], int]:
    limits = EngineConfig(max_kv_tokens=max_kv_tokens, max_batch_size=4, max_prefilling=1)
    ten = [(2 * i, Request(i, [1] * 8, 12)) for i in range(10)]
    trace = plan_engine(limits, Policies(requeue=way_back)).run(ten)
    return latencies(trace), recomputed(trace)


def _to_the_back(request: RequestView) -> tuple[list[int], int, int, int]:
    """The right way back but for the place: a thousand steps behind the last arrival."""
    kept = queueing.requeue(request)
    return kept.token_ids, 0, request.arrival_time + 1000, kept.num_generated


# --- the learner's run --------------------------------------------------------------------------


def your_run(
    attempts: Mapping[str, Attempt],
    earlier: str,
    model: GPT,
    settings: EngineConfig,
    yours: Trace,
    reference: Trace,
) -> str:
    """Whose parts ran, whether the texts are the oracle's, which requests were preempted."""
    blame = "Who waits and who leaves cannot do that; look at `assign_tokens` and `requeue`."
    victims = ", ".join(str(i) for step in yours.steps for i in step.preempted) or "none"
    cost = f"Preempted, in this order: {victims}; {recomputed(yours)} tokens were computed twice."
    return served(
        attempts,
        six_requests(),
        model,
        settings,
        yours,
        reference,
        blame,
        earlier=f"Of lesson 1: {earlier}",
        counted=cost,
    )

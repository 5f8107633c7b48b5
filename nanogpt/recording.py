"""From what a step decided to what its record says. Pure; the engine calls it once per step."""

from collections.abc import Iterable, Mapping

from nanogpt.executors.executor import Row
from nanogpt.planning import Offer, Plan
from nanogpt.request import Request
from nanogpt.trace import WaitRecord, WorkRecord


def work_record(row: Row, sampled: int | None) -> WorkRecord:
    """One row of the step, and the token drawn after it."""
    kind = "decode" if row.is_decode else "prefill"
    return WorkRecord(row.request_id, kind, row.num_past, row.context_len, sampled)


def wait_records(
    requests: Iterable[Request],
    offer: Offer,
    plan: Plan,
    victims: Mapping[int, str],
    blocked: str | None,
    token_budget: int,
) -> tuple[WaitRecord, ...]:
    """Everyone unfinished who got no tokens, with the reason in words.

    `victims` were preempted, each with its reason; `blocked` is why the first waiting request that
    was not offered could not start.
    """
    served = {request_id for request_id, _ in plan}
    offered = {*offer.decodes, *dict(offer.prefilling), *dict(offer.waiting)}
    spent = sum(num_tokens for _, num_tokens in plan) >= token_budget
    passed_over = "the token budget is spent" if spent else "the plan left it out"
    waits: list[WaitRecord] = []
    for request in requests:
        if request.status == "done" or request.id in served:
            continue
        if request.id in victims:
            reason = victims[request.id]
        elif request.id in offered:
            reason = passed_over
        else:
            reason = blocked or passed_over
        waits.append(WaitRecord(request.id, request.status, reason))
    return tuple(waits)

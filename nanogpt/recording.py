"""From what a step decided to what its record says. Pure; the engine calls it once per step."""

from collections.abc import Iterable, Mapping

from nanogpt.executors.base import Row
from nanogpt.kv_store import KVStore
from nanogpt.planning import Offer, Plan
from nanogpt.prefix.prefix_cache import PrefixHit
from nanogpt.request import Request
from nanogpt.speculative.verify import Drawn
from nanogpt.trace import KVRecord, PrefixHitRecord, RequestRecord, WaitRecord, WorkRecord


def request_record(request: Request, now_us: int) -> RequestRecord:
    """A request as it has just arrived."""
    asked = (request.id, tuple(request.prompt_tokens), request.max_new_tokens, request.priority)
    return RequestRecord(*asked, request.arrival_time, now_us)


def work_record(row: Row, drawn: Drawn | None) -> WorkRecord:
    """One row of the step, and what was drawn from it."""
    kind = "decode" if row.is_decode else "prefill"
    span = (row.num_past, row.context_len)
    if drawn is None:
        return WorkRecord(row.request_id, kind, *span, None)
    return WorkRecord(
        row.request_id, kind, *span, drawn.last, tuple(row.drafted), drawn.num_accepted
    )


def kv_records(cache: KVStore, counted: Mapping[int, int]) -> tuple[KVRecord, ...]:
    """What each request holds, in the order they came in; `counted` by request id."""
    return tuple(
        KVRecord(i, cache.length(i), counted[i], cache.live_bytes(i)) for i in cache.holders()
    )


def hit_records(hits: Mapping[int, PrefixHit]) -> tuple[PrefixHitRecord, ...]:
    """The newcomers that began with K/V from the prefix cache."""
    return tuple(PrefixHitRecord(i, hit.num_tokens) for i, hit in hits.items() if hit.num_tokens)


def wait_records(
    requests: Iterable[Request],
    offer: Offer,
    plan: Plan,
    victims: Mapping[int, str],
    blocked: str | None,
    token_budget: int,
) -> tuple[WaitRecord, ...]:
    """The unfinished requests that got no tokens, each with the reason.

    `victims` were preempted, each with its reason; `blocked` is why the first waiting request that
    was not offered could not start.
    """
    served = {request_id for request_id, _ in plan}
    offered = {*offer.decodes, *dict(offer.prefilling), *dict(offer.waiting)}
    spent = sum(num_tokens for _, num_tokens in plan) >= token_budget
    passed_over = "the token budget is spent" if spent else "the plan left it out"
    waits: list[WaitRecord] = []
    for request in requests:
        if request.status in ("done", "failed") or request.id in served:
            continue
        if request.id in victims:
            reason = victims[request.id]
        elif request.id in offered:
            reason = passed_over
        else:
            reason = blocked or passed_over
        waits.append(WaitRecord(request.id, request.status, reason))
    return tuple(waits)

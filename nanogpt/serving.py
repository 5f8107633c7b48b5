"""The posts' run functions: one call each, on the one engine. Knows which limits each post used."""

from nanogpt.engine import Arrivals, Engine, EngineConfig
from nanogpt.model import GPT
from nanogpt.parts import Parts
from nanogpt.request import Request


def chunked_prefill_generate(
    model: GPT,
    request_queue: Arrivals,
    token_budget: int = 16,
    *,
    executor: str = "packed",
    temperature: float = 0.0,
    seed: int = 0,
    parts: Parts = Parts(),
) -> list[Request]:
    """Serve [(arrival step, request), ...] with chunked prefill; return them as they complete.

    Every request starts at its own step, also while others run. As many requests as are given may
    run at once, one of them in prefill, as in the chunked-prefill post.
    Raises: ValueError for a bad request or limit, PartError for a part that failed.
    """
    config = EngineConfig(
        token_budget=token_budget,
        max_batch_size=max(1, len(request_queue)),
        max_prefilling=1,
        executor=executor,
        temperature=temperature,
        seed=seed,
    )
    trace = Engine(model, config, parts).run(request_queue)
    by_id = {request.id: request for _, request in request_queue}
    return [by_id[request_id] for step in trace.steps for request_id in step.finished]

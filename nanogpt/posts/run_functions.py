"""The posts' run functions: one call each, on the one engine. Knows which limits each post used."""

from collections.abc import Sequence

from nanogpt.config import EngineConfig
from nanogpt.model import GPT
from nanogpt.policies import Policies
from nanogpt.policy_views import Policy
from nanogpt.posts.post_scheduler import PostEngine, PostScheduler
from nanogpt.request import Arrivals, Request
from nanogpt.validate import check_is


def chunked_prefill_generate(
    model: GPT,
    request_queue: Arrivals,
    token_budget: int = 16,
    *,
    executor: str = "packed",
    temperature: float = 0.0,
    seed: int = 0,
    policies: Policies = Policies(),
) -> list[Request]:
    """Serve [(arrival step, request), ...] with chunked prefill; return them as they complete.

    Every request starts at its own step, also while others run. As many requests as are given may
    run at once, one of them in prefill, as in the chunked-prefill post.
    Raises: ValueError for a bad request or limit, PolicyError for an illegal answer
    of a policy, and whatever a policy raises.
    """
    check_is("request_queue", request_queue, Sequence, "a list of pairs (arrival step, Request)")
    config = EngineConfig(
        token_budget=token_budget,
        max_batch_size=max(1, len(request_queue)),
        max_prefilling=1,
        executor=executor,
        temperature=temperature,
        seed=seed,
    )
    trace = PostEngine(model, config, policies).run(request_queue)
    by_id = {request.id: request for _, request in request_queue}
    return [by_id[request_id] for step in trace.steps for request_id in step.finished]


def scheduled_generate(
    model: GPT,
    requests: Sequence[Request],
    policy: Policy = "fcfs",
    token_budget: int = 16,
    max_kv_tokens: int = 256,
    *,
    max_batch_size: int = 8,
    max_prefilling: int | None = 1,
    preempt_to_admit: bool = False,
    sliding_window: int | None = None,
    num_sinks: int = 0,
    executor: str = "padded",
    temperature: float = 0.0,
    seed: int = 0,
    policies: Policies = Policies(),
    max_steps: int | None = None,
) -> PostScheduler:
    """Serve requests that are all there at step 0 under a policy and a KV budget.

    As in the scheduling post, one request prefills at a time, and a step is two forwards, prefill
    and decode ("packed" makes it one). `max_steps` ends a run that would go on for ever.
    Returns the scheduler; `scheduler.trace` is the run, which `posts.step_log` prints.
    Raises: ValueError for a bad request or limit, PolicyError for an illegal answer
    of a policy, and whatever a policy raises.
    """
    check_is("requests", requests, Sequence, "a list of Request")
    config = EngineConfig(
        token_budget=token_budget,
        max_kv_tokens=max_kv_tokens,
        max_batch_size=max_batch_size,
        max_prefilling=max_prefilling,
        policy=policy,
        preempt_to_admit=preempt_to_admit,
        sliding_window=sliding_window,
        num_sinks=num_sinks,
        executor=executor,
        temperature=temperature,
        seed=seed,
    )
    engine = PostEngine(model, config, policies)
    trace = engine.run([(0, request) for request in requests], max_steps)
    assert isinstance(engine.scheduler, PostScheduler)
    engine.scheduler.trace = trace
    return engine.scheduler


def interleaved_generate(
    model: GPT,
    requests: Sequence[Request],
    policy: Policy = "fcfs",
    token_budget: int = 16,
    max_kv_tokens: int = 256,
    *,
    max_batch_size: int = 8,
    max_prefilling: int | None = 1,
    preempt_to_admit: bool = False,
    sliding_window: int | None = None,
    num_sinks: int = 0,
    executor: str = "fused",
    temperature: float = 0.0,
    seed: int = 0,
    policies: Policies = Policies(),
    max_steps: int | None = None,
) -> PostScheduler:
    """Serve requests as `scheduled_generate` does, with one forward in every step that computes.

    "fused" pads every row to the longest, as in the interleaving post; "single_mask" and "packed"
    pad nothing. Raises: as `scheduled_generate` does, and ValueError for "padded".
    """
    if executor == "padded":
        raise ValueError("the executor 'padded' takes two forwards; choose 'fused' or 'packed'")
    return scheduled_generate(
        model,
        requests,
        policy,
        token_budget,
        max_kv_tokens,
        max_batch_size=max_batch_size,
        max_prefilling=max_prefilling,
        preempt_to_admit=preempt_to_admit,
        sliding_window=sliding_window,
        num_sinks=num_sinks,
        executor=executor,
        temperature=temperature,
        seed=seed,
        policies=policies,
        max_steps=max_steps,
    )

"""The decisions of a fleet that prefills in one pool of workers and decodes in another.

Source: Zhong et al., "DistServe", arXiv 2401.09670; vLLM's `NixlConnector`, whose producer keeps a
request's blocks until its consumers have read them.
"""

from collections.abc import Callable, Collection
from typing import Any

from nanogpt.validate import PolicyError, refused, show
from nanogpt.views.fleet_views import PoolCosts, PoolLoad

Event = tuple[str, int | None]
"""("acknowledged", a worker), ("lost", a worker) or ("aborted", None)."""


def blocks_to_send(num_tokens: int, size: int, decode_hit: int) -> list[int]:
    """The indices of the blocks of a prompt that the decode worker lacks and can use.

    It computes at least the last token, for its logits: a prompt of exactly three blocks sends two.
    """
    return list(range(decode_hit // size, (num_tokens - 1) // size))


def may_free(state: Collection[int], event: Event) -> bool:
    """Whether K/V may be freed after an event; `state` are the workers that may still touch it.

    An abort frees only what no worker touches. Otherwise the last worker has to acknowledge it, or
    to be lost; whatever another worker says is about an earlier transfer.
    """
    kind, worker = event
    if kind == "aborted":
        return not state
    return set(state) == {worker}


def split_pool(workers: int, load: PoolLoad, costs: PoolCosts) -> int:
    """The number of prefill workers with which the busier pool is least busy; ties: the fewest.

    0, a mixed pool, where every split leaves one of the pools with more work than time.
    """
    prompt_us = load.prompt_tokens * (costs.prefill_us + costs.transfer_us)
    answer_us = load.prompt_tokens * costs.transfer_us + load.new_tokens * costs.decode_us
    per_request = {n: max(prompt_us / n, answer_us / (workers - n)) for n in range(1, workers)}
    best = min(per_request, key=lambda n: (per_request[n], n), default=0)
    return best if best and load.requests_per_s * per_request[best] <= 1e6 else 0


BlocksToSend = Callable[[int, int, int], list[int]]
MayFree = Callable[[Collection[int], Event], bool]


def sent(answer: Any, num_tokens: int, size: int) -> tuple[int, ...]:
    """The answer of a `blocks_to_send`. Raises: PolicyError unless a prefill can send these."""
    full = num_tokens // size
    if not isinstance(answer, list) or any(type(each) is not int for each in answer):  # pyright: ignore[reportUnknownVariableType]
        raise refused("blocks_to_send", answer, "a list of ints")
    blocks = tuple[int, ...](answer)  # pyright: ignore[reportUnknownArgumentType]
    if blocks and blocks != tuple(range(blocks[0], blocks[0] + len(blocks))):
        raise refused("blocks_to_send", answer, "a list of consecutive blocks")
    if blocks and not 0 <= blocks[0] <= blocks[-1] < full:
        raise PolicyError(
            f"blocks_to_send returned block {show(blocks[-1])}; a prompt of {num_tokens} tokens "
            f"has {full} full blocks of {size}"
        )
    return blocks


def freed(answer: Any) -> bool:
    """The answer of a `may_free`. Raises: PolicyError unless it is a bool."""
    if type(answer) is not bool:
        raise refused("may_free", answer, "True or False")
    return answer

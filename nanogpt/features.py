"""Builds the cache, the executor and the drafter that the settings ask for.

Each is imported where it is chosen, and only here: an engine without a window, drafts or the
textbook executors loads none of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from nanogpt.config import EngineConfig
from nanogpt.executors.base import Executor
from nanogpt.kv_store import KVStore
from nanogpt.policies import Policies
from nanogpt.validate import check_callable, check_is

if TYPE_CHECKING:
    from nanogpt.model import GPT
    from nanogpt.speculative.drafting import Drafter

MakeExecutor = Callable[..., Executor]
"""(model, cache, policies) -> the executor."""


def make_cache(model: GPT, config: EngineConfig, policies: Policies) -> KVStore:
    """The K/V store that the settings ask for: in blocks, or in a slot for each request.

    With a `block_size` there are max_kv_tokens // block_size blocks, or enough for a full batch of
    whole contexts if there is no limit. Without one there is a slot for each request.
    """
    weight, window = model.token_embedding.weight, config.sliding_window
    where = weight.dtype, weight.device
    if window is not None and config.block_size is None:
        from nanogpt.window.windowed_kv_cache import WindowedKVCache

        return WindowedKVCache(model.config, config, policies, *where)
    size = config.block_size or model.config.max_model_len
    num_blocks = config.max_batch_size * -(-model.config.max_model_len // size)
    if config.block_size is not None and config.max_kv_tokens is not None:
        num_blocks = config.max_kv_tokens // size
    from nanogpt.kv_cache import KVCache

    store = KVCache
    if window is not None:
        from nanogpt.window.window_blocks import WindowBlockKVCache

        store = partial(WindowBlockKVCache, window, config.num_sinks)
    return store(
        model.config, num_blocks, size, *where, policies, num_lanes=config.max_batch_size,
        share=config.share_prefixes, records_blocks=config.block_size is not None,
    )  # fmt: skip


def executor_type(config: EngineConfig) -> MakeExecutor:
    """The executor that the settings ask for."""
    match config.executor:
        case "padded":
            from nanogpt.executors.padded import PaddedExecutor

            return PaddedExecutor
        case "fused":
            from nanogpt.executors.fused import FusedExecutor

            return FusedExecutor
        case "single_mask":
            from nanogpt.executors.single_mask import SingleMaskExecutor

            return SingleMaskExecutor
        case "compiled":
            try:
                from nanogpt.executors.compiled import make_compiled
            except ImportError:
                warnings.warn("numba is not installed, so the packed executor runs", stacklevel=2)
            else:
                return make_compiled
        case "batch_invariant":
            from nanogpt.executors.batch_invariant import BatchInvariantExecutor

            return BatchInvariantExecutor
        case _:
            pass
    from nanogpt.executors.packed import PackedExecutor

    return PackedExecutor


def make_drafter(
    draft: Any, executor: Executor, model: GPT, config: EngineConfig, policies: Policies
) -> Drafter | None:
    """What drafts for the engine. Raises: ValueError for drafts that nothing can make or verify."""
    if not config.num_draft_tokens:
        return None
    from nanogpt.speculative.drafting import make_drafter

    return make_drafter(draft, executor, model, config, policies)


def check_arguments(
    model: Any, config: Any, policies: Any, clock: Any, make_executor: Any, draft: Any
) -> None:
    """Raises: ValueError for an argument of `Engine` that is not what it has to be."""
    from nanogpt.model import GPT

    check_is("the model", model, GPT, "a GPT, for example load_model()")
    check_is("the config", config, EngineConfig, "an EngineConfig")
    check_is("policies", policies, Policies, "Policies")
    if clock is not None:
        check_callable("the clock", clock, "a clock, for example CostClock()", "now_us", "charge")
    if make_executor is not None:
        check_callable("make_executor", make_executor, "a function that makes an executor")
    if draft is not None:
        check_callable("the draft", draft, "a draft model, for example TrigramDraft.load()")


def check_executor(config: EngineConfig, executor: Executor) -> None:
    """Raises: ValueError for what is no executor, or one whose K/V no other request could find."""
    wanted = "an executor with `execute`"
    check_callable("what make_executor made", executor, wanted, "execute")
    if config.share_prefixes and not getattr(executor, "reads_cache", False):
        raise ValueError(
            f"share_prefixes is True; the executor {executor.name!r} keeps its K/V elsewhere, "
            "where no request finds it"
        )

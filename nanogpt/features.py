"""Builds the cache, the executor and the drafter that the settings ask for.

Each is imported where it is chosen, and only here: an engine without a window, drafts or the
textbook executors loads none of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from nanogpt.clock import Clock
from nanogpt.config import EngineConfig
from nanogpt.executors.base import Executor
from nanogpt.kv_store import KVStore
from nanogpt.policies import Policies
from nanogpt.recorded_texts import RecordedExecutor, RecordedTexts
from nanogpt.validate import check_callable, check_is, show

if TYPE_CHECKING:
    from nanogpt.model import GPT
    from nanogpt.speculative.drafting import Drafter

MakeExecutor = Callable[..., Executor]
"""(model, cache, policies) -> the executor."""
FLOAT32_BYTES = 4


def make_cache(
    model: GPT | RecordedTexts, config: EngineConfig, policies: Policies, clock: Clock | None = None
) -> KVStore:
    """The K/V store that the settings ask for: in blocks, or in a slot for each request.

    With a `block_size` there are max_kv_tokens // block_size blocks, or enough for a full batch of
    whole contexts if there is no limit. Without one there is a slot for each request. The copies of
    a host tier take time on `clock`.
    """
    sizes, window = model.config, config.sliding_window
    size = config.block_size or sizes.max_model_len
    num_blocks = config.max_batch_size * -(-sizes.max_model_len // size)
    if config.block_size is not None and config.max_kv_tokens is not None:
        num_blocks = config.max_kv_tokens // size
    settings: dict[str, Any] = {
        "num_lanes": config.max_batch_size,
        "share": config.share_prefixes,
        "records_blocks": config.block_size is not None,
    }
    if config.host_kv_tokens is not None:
        from nanogpt.host_tier import HostTier

        settings["host"] = HostTier(config.host_kv_tokens // size, size, policies, clock)
    if isinstance(model, RecordedTexts):
        from nanogpt.block_tables import BlockTables

        block_bytes = 2 * sizes.num_layers * sizes.num_channels * size * FLOAT32_BYTES
        return BlockTables(num_blocks, size, policies, block_bytes=block_bytes, **settings)
    where = model.token_embedding.weight.dtype, model.token_embedding.weight.device
    if window is not None and config.block_size is None:
        from nanogpt.window.windowed_kv_cache import WindowedKVCache

        return WindowedKVCache(sizes, config, policies, *where)
    from nanogpt.kv_cache import KVCache

    store = KVCache
    if window is not None:
        from nanogpt.window.window_blocks import WindowBlockKVCache

        store = partial(WindowBlockKVCache, window, config.num_sinks)
    return store(sizes, num_blocks, size, *where, policies, **settings)


def executor_type(config: EngineConfig, model: Any = None) -> MakeExecutor:
    """The executor that the settings ask for; recorded texts have their own."""
    if isinstance(model, RecordedTexts):
        return RecordedExecutor
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
    draft: Any, executor: Executor, model: Any, config: EngineConfig, policies: Policies
) -> Drafter | None:
    """The engine's drafter, if any. Raises: ValueError if nothing can make or verify drafts."""
    if not config.num_draft_tokens:
        return None
    from nanogpt.speculative.drafting import make_drafter

    return make_drafter(draft, executor, model, config, policies)


def check_arguments(
    model: Any, config: Any, policies: Any, clock: Any, make_executor: Any, draft: Any
) -> None:
    """Raises: ValueError for an argument of `Engine` that is not what it has to be."""
    if not isinstance(model, RecordedTexts):
        from nanogpt.model import GPT

        check_is("the model", model, GPT, "a GPT, for example load_model()")
    check_is("the config", config, EngineConfig, "an EngineConfig")
    for name, wanted in {"sliding_window": None, "executor": "packed"}.items():
        if isinstance(model, RecordedTexts) and getattr(config, name) != wanted:
            value = show(getattr(config, name))
            raise ValueError(f"{name} is {value}; it must be {wanted!r} for recorded texts")
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

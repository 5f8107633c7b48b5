"""Executors: how a step's rows go through the model. Same rows, same logits, different layouts.

base                    what an executor is: rows in, logits out
packed                  one flat row, attention over the KV cache in place: the fast one
prepacked, int8         its products: by oneDNN where that is quicker, or of 8-bit integers
strip, fused, padded    one mask over a flat row; one left-padded forward; two
batch_invariant         a form of packed with the same bits in every batch
"""

import importlib
from collections.abc import Callable
from typing import Any

from nanogpt.config import EngineConfig
from nanogpt.executors.base import Executor, KVStore
from nanogpt.model import GPT
from nanogpt.parts import Parts
from nanogpt.validate import check_callable, check_is

MakeExecutor = Callable[[GPT, KVStore, Parts], Executor]


def find_executor(config: EngineConfig) -> MakeExecutor:
    """The executor that the settings ask for: `PackedExecutor` of the module `packed`."""
    name = "batch_invariant" if config.batch_invariant else config.executor
    kind = "".join(word.capitalize() for word in name.split("_")) + "Executor"
    return getattr(importlib.import_module(f"nanogpt.executors.{name}"), kind)


def check_engine(
    model: Any, config: Any, parts: Any, clock: Any, make_executor: Any, draft: Any
) -> None:
    """Raises: ValueError for an argument of `Engine` that is not what it has to be."""
    check_is("the model", model, GPT, "a GPT, for example load_model()")
    check_is("the config", config, EngineConfig, "an EngineConfig")
    check_is("parts", parts, Parts, "Parts")
    if clock is not None:
        check_callable("the clock", clock, "a clock, for example CostClock()", "now_us", "charge")
    if make_executor is not None:
        check_callable("make_executor", make_executor, "a function that makes an executor")
    if draft is not None:
        check_callable("the draft", draft, "a draft model, for example TrigramDraft.load()")


def check_executor(config: EngineConfig, executor: Executor) -> None:
    """Raises: ValueError for what is no executor, or none that others find K/V by."""
    check_callable("what make_executor made", executor, "an executor with `run`", "run")
    if config.share_prefixes and not getattr(executor, "reads_cache", False):
        raise ValueError(
            f"share_prefixes is True; the executor {executor.name!r} keeps its K/V elsewhere, "
            "where no request finds it"
        )

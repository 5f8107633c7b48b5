"""A serving engine for nanoGPT, small enough to read in an evening.

    the modules at the root         one serving step; README.md has the loop and a reading order
    policies, executors             the decisions that can be replaced; layouts of a forward pass
    window, speculative             features that are imported when the settings ask for them
    posts                           the posts' run functions and calls
    slo, preemption                 passes that can be preempted, and the SLO policy for it
    fleet, workers                  many engines: simulated, and in processes
    server                          one engine over HTTP
    contest, figures                scored workloads; measured curves
    experiments, checkpoints        comparisons; the weights and the tokenizers

Shapes, everywhere: B rows, T new tokens, S visible context, H heads, D head size, C = H * D
channels, L layers, V vocabulary, N tokens in a flat row, P slots.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nanogpt.checkpoints.tokenizer import decode, encode
    from nanogpt.checkpoints.weights import load_model
    from nanogpt.config import EngineConfig, ModelConfig
    from nanogpt.engine import Engine
    from nanogpt.model import GPT
    from nanogpt.policies import Policies
    from nanogpt.posts.oracle import generate
    from nanogpt.posts.post_engine import (
        Scheduler,
        chunked_prefill_generate,
        interleaved_generate,
        scheduled_generate,
    )
    from nanogpt.posts.post_request import Request
    from nanogpt.posts.textbook import (
        TextbookModel,
        assemble_batch_cache,
        assemble_fused_batch,
        disassemble_batch_cache,
        disassemble_fused_cache,
        evict_kv_cache,
    )
    from nanogpt.trace import Trace

__all__ = [
    "GPT",
    "Engine",
    "EngineConfig",
    "ModelConfig",
    "Policies",
    "Request",
    "Scheduler",
    "TextbookModel",
    "Trace",
    "assemble_batch_cache",
    "assemble_fused_batch",
    "chunked_prefill_generate",
    "decode",
    "disassemble_batch_cache",
    "disassemble_fused_cache",
    "encode",
    "evict_kv_cache",
    "generate",
    "interleaved_generate",
    "load_model",
    "scheduled_generate",
]


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package whose names are at home in these modules of it.

    A module is imported when one of its names is first asked for, so that a face costs nothing.
    """

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get


__getattr__ = lazy_names(
    __name__,
    {
        "GPT": "model",
        "Engine": "engine",
        "EngineConfig": "config",
        "ModelConfig": "config",
        "Policies": "policies",
        "Request": "posts.post_request",
        "Scheduler": "posts.post_engine",
        "TextbookModel": "posts.textbook",
        "Trace": "trace",
        "assemble_batch_cache": "posts.textbook",
        "assemble_fused_batch": "posts.textbook",
        "chunked_prefill_generate": "posts.post_engine",
        "decode": "checkpoints.tokenizer",
        "disassemble_batch_cache": "posts.textbook",
        "disassemble_fused_cache": "posts.textbook",
        "encode": "checkpoints.tokenizer",
        "evict_kv_cache": "posts.textbook",
        "generate": "posts.oracle",
        "interleaved_generate": "posts.post_engine",
        "load_model": "checkpoints.weights",
        "scheduled_generate": "posts.post_engine",
    },
)


def __dir__() -> list[str]:
    return __all__

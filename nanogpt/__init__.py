"""A serving engine for nanoGPT, small enough to read in an evening.

    request, trace, planning, policies, masks, clock, metrics     plain data, pure functions
    tokenizer, model, weights, train, oracle            the model, and its plainest use
    kv_cache, executors, scheduler, parts, engine       serving
    fusing, sliding_window                              one forward for all; what a window keeps
    serving, textbook                                   the posts' run functions and calls

Shapes, everywhere: B rows, T new tokens, S visible context, H heads, D head size, C = H * D
channels, L layers, V vocabulary, N tokens in a flat row, P slots.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nanogpt.config import ModelConfig
    from nanogpt.engine import Engine
    from nanogpt.engine_config import EngineConfig
    from nanogpt.model import GPT
    from nanogpt.oracle import generate
    from nanogpt.parts import Parts
    from nanogpt.request import Request
    from nanogpt.scheduler import Scheduler
    from nanogpt.serving import chunked_prefill_generate, interleaved_generate, scheduled_generate
    from nanogpt.textbook import (
        TextbookModel,
        assemble_batch_cache,
        assemble_fused_batch,
        disassemble_batch_cache,
        disassemble_fused_cache,
        evict_kv_cache,
    )
    from nanogpt.tokenizer import decode, encode
    from nanogpt.trace import Trace
    from nanogpt.weights import load_model

__all__ = [
    "GPT",
    "Engine",
    "EngineConfig",
    "ModelConfig",
    "Parts",
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

_HOMES = {
    "ModelConfig": "config",
    "Engine": "engine",
    "EngineConfig": "engine_config",
    "generate": "oracle",
    "GPT": "model",
    "Parts": "parts",
    "Request": "request",
    "Scheduler": "scheduler",
    "chunked_prefill_generate": "serving",
    "interleaved_generate": "serving",
    "scheduled_generate": "serving",
    "TextbookModel": "textbook",
    "assemble_batch_cache": "textbook",
    "assemble_fused_batch": "textbook",
    "disassemble_batch_cache": "textbook",
    "disassemble_fused_cache": "textbook",
    "evict_kv_cache": "textbook",
    "decode": "tokenizer",
    "encode": "tokenizer",
    "Trace": "trace",
    "load_model": "weights",
}


def __getattr__(name: str) -> object:
    """Import a name's module at its first use: plain records come without torch and the engine."""
    if name not in _HOMES:
        raise AttributeError(f"module 'nanogpt' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"nanogpt.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

"""A serving engine for nanoGPT, small enough to read in an evening.

    request, trace, planning, policies, masks, clock, metrics     plain data, pure functions
    tokenizer, model, weights, train, generate          the model, and the oracle
    kv_cache, executors, scheduler, parts, engine       serving
    fusing, sliding_window                              one forward for all; what a window keeps
    serving, textbook                                   the posts' run functions and calls

Shapes, everywhere: B rows, T new tokens, S visible context, H heads, D head size, C = H * D
channels, L layers, V vocabulary, N tokens in a flat row, P slots.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nanogpt.config import ModelConfig
    from nanogpt.engine import Engine
    from nanogpt.engine_config import EngineConfig
    from nanogpt.generate import generate
    from nanogpt.model import GPT
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
    "config": ("ModelConfig",),
    "engine": ("Engine",),
    "engine_config": ("EngineConfig",),
    "generate": ("generate",),
    "model": ("GPT",),
    "parts": ("Parts",),
    "request": ("Request",),
    "scheduler": ("Scheduler",),
    "serving": ("chunked_prefill_generate", "interleaved_generate", "scheduled_generate"),
    "textbook": (
        "TextbookModel",
        "assemble_batch_cache",
        "assemble_fused_batch",
        "disassemble_batch_cache",
        "disassemble_fused_cache",
        "evict_kv_cache",
    ),
    "tokenizer": ("decode", "encode"),
    "trace": ("Trace",),
    "weights": ("load_model",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


class _Package(ModuleType):
    """Imports what it offers when that is asked for.

    The simulations of `fleet` and `slo` need no torch, and importing that takes seconds.
    """

    def __getattr__(self, name: str) -> object:
        if name not in _HOME_OF:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{self.__name__}.{_HOME_OF[name]}"), name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # Importing the module `generate` would put it in the place of the function.
        if not (name in _HOME_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_HOME_OF})


sys.modules[__name__].__class__ = _Package

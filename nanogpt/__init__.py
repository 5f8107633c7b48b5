"""A serving engine for nanoGPT, small enough to read in an evening.

    request, trace, planning, policies, masks, clock, metrics     plain data, pure functions
    tokenizer, model, weights, train, generate          the model, and the oracle
    kv_cache, executors, scheduler, parts, engine       serving
    fusing, sliding_window                              one forward for all; what a window keeps
    serving, textbook                                   the posts' run functions and calls

Shapes, everywhere: B rows, T new tokens, S visible context, H heads, D head size, C = H * D
channels, L layers, V vocabulary, N tokens in a flat row, P slots.
"""

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

from collections.abc import Callable, Mapping

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

def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]: ...

"""K/V in blocks of a fixed size: a table for each request, and full blocks shared by their hash.

block_kv_cache      the KV cache of a run with a `block_size`
block_pool          its books: counts, hashes, what is free and what gives way
block_attention     attention over tables: in place where blocks are neighbours, else gathered
window_blocks       the same cache under a sliding window
block_record        what a step's record says of them
"""

from functools import partial

from nanogpt.blocks.block_kv_cache import BlockKVCache
from nanogpt.blocks.window_blocks import WindowBlockKVCache
from nanogpt.config import EngineConfig
from nanogpt.model import GPT
from nanogpt.parts import Parts


def make_cache(model: GPT, config: EngineConfig, parts: Parts) -> BlockKVCache:
    """The KV cache of a run with a `block_size`: as many blocks as fit into the KV budget.

    Without a budget there are enough for a full batch of whole contexts.
    """
    weight, size = model.token_embedding.weight, config.block_size
    assert size is not None
    num_blocks = config.max_batch_size * -(-model.config.context_len // size)
    if config.max_kv_tokens is not None:
        num_blocks = config.max_kv_tokens // size
    new = BlockKVCache
    if config.sliding_window is not None:
        new = partial(WindowBlockKVCache, config.sliding_window, config.num_sinks)
    return new(
        model.config, num_blocks, config.max_batch_size, size, weight.dtype, weight.device, parts,
        share=config.share_prefixes,
    )  # fmt: skip

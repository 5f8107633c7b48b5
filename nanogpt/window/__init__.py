"""K/V storage under a sliding window: of each request, as evicted tensors or a ring.

windowed_kv_cache       the KV cache of a run with a window
window_storage          one request's K/V: a ring that overwrites, or append and cut
"""

from torch import Tensor

from nanogpt.config import EngineConfig
from nanogpt.model import GPT
from nanogpt.parts import Parts
from nanogpt.parts.sliding_window import mask_of_pairs, slots_of_all
from nanogpt.window.window_storage import EvictingStorage, RingStorage, WindowStorage
from nanogpt.window.windowed_kv_cache import WindowedKVCache


def make_cache(model: GPT, config: EngineConfig, parts: Parts) -> WindowedKVCache:
    """The KV cache of a run with a `sliding_window`, as its `kv_storage` says."""
    weight, window = model.token_embedding.weight, config.sliding_window
    assert window is not None

    def new_storage(empty: Tensor, window: int, sinks: int) -> WindowStorage:
        if config.kv_storage == "evict":
            return EvictingStorage(empty, window, sinks, parts.evict)
        return RingStorage(empty, window, sinks, slots_of_all(parts.ring_slot))

    return WindowedKVCache(
        model.config, config.max_batch_size, weight.dtype, weight.device,
        window, config.num_sinks, new_storage, mask_of_pairs(parts.visible),
    )  # fmt: skip

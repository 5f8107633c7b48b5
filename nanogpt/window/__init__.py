"""K/V under a sliding window: of each request, as evicted tensors, as a ring, or in blocks.

windowed_kv_cache   a ring that overwrites, or append and cut, for each request
window_blocks       the paged KV cache; a block goes back once it is out of sight
window_store        what both share: the step's K/V, and attention over copies of what is held
"""

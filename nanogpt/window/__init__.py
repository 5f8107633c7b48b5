"""K/V under a sliding window: of each request, as evicted tensors, as a ring, or in blocks.

windowed_kv_cache, window_storage   a ring that overwrites, or append and cut, for each request
window_blocks                       the paged KV cache; a block goes back once it is out of sight
window_attention                    attention over copies of what is held
window_policies                     `visible` and `rolling_buffer_index`, asked for a whole step
"""

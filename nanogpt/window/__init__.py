"""K/V storage under a sliding window: of each request, as evicted tensors or a ring."""

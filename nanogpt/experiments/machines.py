"""A machine that none of our own is: what a forward pass costs on it, worked out."""

from nanogpt.clock import CostModel

LARGE_GPU = CostModel(
    name="a large GPU", modelled=True,
    fixed_us=500.0, floor_us=4800.0, token_us=32.0, context_us=0.04, prompt_scale=16,
)  # fmt: skip
"""An 8-billion-parameter model in 16-bit weights on one data-centre GPU, worked out, not timed.

16 GB of weights at 3.35 TB/s take 4.8 ms; 16 GFLOP per token at an achieved 500 TFLOP/s take
32 us; 128 KiB of K/V per token of context take 0.04 us. One of our prompt tokens stands for 16.
"""

"""A model of the hub beside transformers: what `benchmarks.engine --model FOLDER` runs."""

import functools
import statistics
from pathlib import Path

import torch

from benchmarks.contenders import prepare_engine, static_batch
from benchmarks.loads import decode, mixed
from benchmarks.measure import interleave, median_and_range, ratios
from benchmarks.peers import continuous_batching
from nanogpt.checkpoints.weights import load_model

WANTED = {"decode-1": 1.2, "decode-8": 1.2, "mixed-8": 2.0}  # times the speed of transformers


def compare(folder: Path, repeats: int, new_tokens: int) -> list[tuple[str, float, float]]:
    """The targets, as `print_targets` wants them; each line is printed as it is known."""
    from transformers import AutoModelForCausalLM

    model = load_model(folder, torch.bfloat16)
    numbers = torch.ones(1 << 28)  # 1 GiB, which no cache holds: a sum takes as long as reading
    weights = dict(model.named_parameters())
    if "lm_head.weight" in weights:
        del weights["token_embedding.weight"]  # of which a token reads one row
    num_bytes = sum(each.nbytes for each in weights.values())
    peer = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    peer.generation_config.eos_token_id = None  # as in the engine, no token ends a text
    peers = {"transformers": static_batch(peer), "continuous": continuous_batching(peer)}
    found: list[tuple[str, float, float]] = []
    vocab_size = model.config.vocab_size
    decodes = [decode(n, new_tokens, vocab_size=vocab_size) for n in (1, 8)]
    for load in (*decodes, mixed(8, 2 * new_tokens, vocab_size=vocab_size)):
        # An engine for each load: the last one's prepacked weights are freed before the next's.
        serves = {"engine": prepare_engine(model, max_kv_tokens=4096, block_size=16), **peers}
        turns = {name: functools.partial(serve, load) for name, serve in serves.items()}
        timed = interleave({**turns, "sum": numbers.sum}, repeats)
        ours = timed["engine"]
        for name in serves:
            speeds = median_and_range([load.num_generated / s for s in timed[name].wall_s], 1)
            times = timed[name].over(ours, "wall")
            shown = f"{speeds:26} engine / it {median_and_range(times)}"
            print(f"{load.name:10} {name:12} {shown}", flush=True)
            if name in peers:
                what = f"{load.name}: engine / {name}"
                found.append((what, WANTED[load.name], statistics.median(times)))
        if load.num_requests == 1:
            rates = [num_bytes * load.num_generated / s / 1e9 for s in ours.wall_s]
            sums = [numbers.nbytes / s / 1e9 for s in timed["sum"].wall_s]
            shares = median_and_range(ratios(rates, sums))
            print(f"weights at {median_and_range(rates, 1)} GB/s, {shares} of the rate of a sum")
    return found

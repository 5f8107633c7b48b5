"""Where a step's time goes, by phase: what lesson 11 draws, recorded into a JSON file.

    python -m benchmarks.step_time [--quick] [--output FILE] [--machine WORDS]

CPU time of the engine's thread on one core, the shipped model, greedy decodes. All engines take
turns, 24 steps each, and what is written is the median, so that a busy machine hits all of them
alike. The forward pass is split without a profiler, by three runs of the same step:

    launches = a model of 16 channels, which has as many operators and 1/64 of the arithmetic
    products = the shipped model at a short context, less the launches
    attention = the shipped model at a context of 256 tokens, less the two others

`--quick` leaves out the compiled executor, which needs numba.
"""

import itertools
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.loads import OPENINGS
from benchmarks.measure import begin
from course.lesson_data.l11_step import decoding, timed_decodes
from nanogpt.checkpoints.tokenizer import encode
from nanogpt.checkpoints.weights import load_model
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.executors.int8 import Int8Executor
from nanogpt.model import GPT
from nanogpt.posts.oracle import generate
from nanogpt.request import Request
from nanogpt.sampling import LogitsParams, penalized, sample_tokens

BATCHES = (1, 2, 4, 8, 16, 32)
SHORT, LONG = 1, 240
"""Prompt tokens of the decodes that are timed."""
NUM_STEPS = 24
CHUNK = 200

FILTERS = {
    "temperature 1": None, "top_k 50": (0, 50, 1.0), "top_p 0.9": (0, 0, 0.9),
    "top_k 50, top_p 0.9": (0, 50, 0.9),
}  # fmt: skip

Us = dict[str, float]


def decode_us(repeats: int, executors: Sequence[str]) -> dict[str, dict[str, Us]]:
    """By executor and batch size: the microseconds of a step's phases."""
    model = load_model()
    torch.manual_seed(0)
    tiny = GPT(replace(model.config, num_channels=16)).eval().requires_grad_(False)
    kinds = {"tiny": (tiny, SHORT), "short": (model, SHORT), "long": (model, LONG)}
    runs = list(itertools.product(executors, BATCHES, kinds))
    all_us = {run: defaultdict[str, list[float]](list) for run in runs}
    for _, (executor, batch, kind) in itertools.product(range(repeats), runs):
        each, prompt_len = kinds[kind]
        make = Int8Executor if executor == "int8" else None
        config = decoding("packed" if make else executor, batch, prompt_len)
        for phase, us in timed_decodes(each, config, prompt_len, NUM_STEPS, make).items():
            all_us[executor, batch, kind][phase] += us
    found: dict[str, dict[str, Us]] = {name: {} for name in executors}
    for executor, batch in itertools.product(executors, BATCHES):
        tiny_us, short_us, long_us = (
            {phase: median(us) for phase, us in all_us[executor, batch, kind].items()}
            for kind in kinds
        )
        schedule, execute, sample, step = long_us.values()
        found[executor][str(batch)] = {
            "schedule": schedule,
            "launches": tiny_us["execute"],
            "products": short_us["execute"] - tiny_us["execute"],
            "attention": execute - short_us["execute"],
            "sample": sample,
            "update and record": step - schedule - execute - sample,
        }
    return found


def chunk_us(repeats: int, executors: Sequence[str]) -> Us:
    """CPU microseconds of a step that prefills one chunk of 200 tokens."""
    model, found = load_model(), defaultdict[str, list[float]](list)
    configs = {name: EngineConfig(executor=name, token_budget=CHUNK) for name in executors}
    engines = {name: Engine(model, config) for name, config in configs.items()}
    for number, (name, engine) in itertools.product(range(repeats + 1), engines.items()):
        engine.submit(Request(number, [1 + number % 60] * CHUNK, 1))
        start = time.thread_time_ns()
        engine.step()
        found[name].append((time.thread_time_ns() - start) / 1000)
    return {name: median(us[1:]) for name, us in found.items()}


def sampling_us(vocab_size: int, repeats: int) -> Us:
    """CPU microseconds of drawing one token from random logits; a penalty comes before that."""
    logits, tokens = 3 * torch.randn(1, vocab_size), range(50)
    penalty = LogitsParams(repetition_penalty=1.1)
    draws = {
        "greedy": partial(sample_tokens, logits, 0, []),
        **{way: partial(sample_tokens, logits, 1, [0.5], each) for way, each in FILTERS.items()},
        "repetition_penalty 1.1": partial(penalized, logits[0], penalty, tokens, 50),
    }
    return {way: 1e6 * quickest_s(draw, repeats) for way, draw in draws.items()}


# --- 8-bit numbers ------------------------------------------------------------------------------


def eight_bits(num_tokens: int, num_openings: int) -> dict[str, Any]:
    """The effect of 8-bit weights and K/V: bytes, and how often the next token is the same."""
    model = load_model()
    layers = [m.weight for m in model.modules() if isinstance(m, torch.nn.Linear)]
    same = {"weights": 0, "kv": 0}
    for text in OPENINGS[:num_openings]:
        prompt = encode(text)
        tokens = prompt + list(generate(model, prompt, num_tokens))
        for end in range(len(prompt), len(tokens)):
            for kind in same:
                same[kind] += next_token(model, tokens[:end], kind) == tokens[end]
    config = model.config
    kv_numbers = 2 * config.num_layers * config.num_channels
    return {
        "tokens": num_openings * num_tokens,
        "same": same,
        "weight_bytes": {
            "float32": sum(4 * each.numel() for each in layers),
            "int8": sum(each.numel() + 4 * len(each) for each in layers),
        },
        # A scale in float32 for each token, layer and head, of K and of V.
        "kv_bytes": {
            "float32": 4 * kv_numbers,
            "int8": kv_numbers + 4 * 2 * config.num_layers * config.num_heads,
        },
    }


def next_token(model: GPT, prompt: list[int], kind: str) -> int:
    """The greedy next token with 8-bit "weights" or with 8-bit "kv"."""
    make = Int8Executor if kind == "weights" else None
    engine = Engine(model, EngineConfig(token_budget=512), make_executor=make)
    if kind == "kv":
        write = engine.cache.write
        engine.cache.write = lambda layer, slots, k, v: write(layer, slots, in_127(k), in_127(v))
    return engine.run([(0, Request(0, prompt, 1))]).generated_tokens(0)[0]


def in_127(x: torch.Tensor) -> torch.Tensor:
    """The numbers of each head rounded to 127 steps on either side of zero. Shapes: (N, H, D)."""
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
    return (x / scale).round() * scale


# --- the machine --------------------------------------------------------------------------------


def roof() -> dict[str, float]:
    """The limits of one core: floating-point operations and bytes read from memory, per second."""
    size = 2048
    a, long = torch.randn(size, size), torch.ones(1 << 26)
    return {
        "flops_per_s": 2 * size**3 / quickest_s(lambda: a @ a),
        "bytes_per_s": 4 * len(long) / quickest_s(long.sum),
    }


def quickest_s(function: Callable[[], object], repeats: int = 7) -> float:
    """CPU seconds of the quickest of some calls."""
    seconds = list[float]()
    for _ in range(repeats):
        start = time.thread_time()
        function()
        seconds.append(time.thread_time() - start)
    return min(seconds)


def compile_s() -> float:
    """CPU seconds that the first call of the compiled executor takes with an empty cache."""
    code = (
        "import time; from nanogpt import Engine, EngineConfig, Request, load_model; "
        "engine = Engine(load_model(), EngineConfig(executor='compiled')); "
        "engine.submit(Request(0, [1], 1)); start = time.process_time(); engine.step(); "
        "print(time.process_time() - start)"
    )
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True,
            env=os.environ | {"NUMBA_CACHE_DIR": folder},
        )  # fmt: skip
    return float(done.stdout)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure everything and write it."""
    own = {
        "--output": {"type": Path, "default": Path("lessons/data/step_time.json")},
        "--machine": {"default": "one core of an AMD EPYC (Zen 3)"},
    }
    options = begin(__doc__, argv, own, quick=False)
    executors = ("packed",) if options.quick else ("packed", "compiled")
    found = {
        "machine": f"{options.machine}, {time.strftime('%B %Y')}",
        "roof": roof(),
        "decode_us": decode_us(1 if options.quick else 7, (*executors, "int8")),
        "chunk_us": chunk_us(3 if options.quick else 41, executors),
        "sampling_us": {str(v): sampling_us(v, 3 if options.quick else 101) for v in (65, 151_936)},
        "compile_s": 0.0 if options.quick else compile_s(),
        "eight_bits": eight_bits(4, 1) if options.quick else eight_bits(64, len(OPENINGS)),
    }
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

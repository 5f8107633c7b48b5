"""The compiled executor: a step's forward pass as one call of machine code, over the same cache.

It saves the time in which Python and torch launch about 120 small operations per step; the
arithmetic stays. A token's result has the same bits in every batch, chunking and number of threads.
Needs numba, the extra `fast`. The first executor on a machine compiles the kernel, which takes 15 s
of CPU time and 400 KB on disk for each of float32 and float64; later processes load it in 0.4 s.

Shapes: N tokens of B rows, R of them with logits, V vocabulary.
"""

import warnings
from bisect import bisect_left
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import nn

from nanogpt.executors.base import CachedExecutor, Executor, forward_record
from nanogpt.executors.kernel import LANES, WIDTH, Scratch, Weights, forward, panels_of
from nanogpt.executors.kernel_cache import compile_for
from nanogpt.executors.packed import PackedExecutor
from nanogpt.kv_cache import KVCache
from nanogpt.kv_store import KVStore
from nanogpt.model import GPT
from nanogpt.outputs import ModelOutput, Row
from nanogpt.policies import Policies

WORTH_SHARING = 60_000_000
"""From this many multiply-adds per step, a second thread takes part; waking it takes 0.1 ms."""
READ = 10
"""Reading a number of the weights or of the K/V takes as long as so many multiply-adds."""


def make_compiled(model: GPT, cache: KVStore, policies: Policies) -> Executor:
    """The compiled executor, or the packed one, with a warning, where the kernel cannot serve.

    The kernel has the layers of a GPT and no custom masks, computes in float32 or float64, and runs
    on a CPU.
    """
    weight, own = model.ln_f.weight, Policies()
    problem = None
    if type(model) is not GPT:
        problem = f"it has only the layers of a GPT, and the model is a {type(model).__name__}"
    elif weight.dtype not in (torch.float32, torch.float64) or weight.device.type != "cpu":
        only = "it computes float32 and float64 on a CPU"
        problem = f"{only}, and the model is {weight.dtype} on {weight.device}"
    elif (policies.chunk_mask, policies.visible) != (own.chunk_mask, own.visible):
        problem = "a custom mask needs Python in every step"
    if problem is None:
        return CompiledExecutor(model, cache, policies)
    warnings.warn(f"the compiled executor gives way to the packed one: {problem}", stacklevel=2)
    return PackedExecutor(model, cache, policies)


class CompiledExecutor(CachedExecutor):
    """One compiled forward pass per step over a flat row of tokens.

    It packs the weights once, so it does not see later changes to the model.
    """

    name = "compiled"
    verifies_drafts = True

    def __init__(self, model: GPT, cache: KVStore, policies: Policies) -> None:
        super().__init__(model, cache, policies)
        self.weights = packed_weights(model)
        self.num_weights = sum(parameter.numel() for parameter in model.parameters())
        self.num_kv = 2 * model.config.num_layers * model.config.num_channels  # of a token
        self.second = ThreadPoolExecutor(1) if torch.get_num_threads() > 1 else None
        self.scratch = self._make_scratch(1)
        self.kv: np.ndarray | None = None  # (2, L, H, E, D) where the kernel may write in place
        if isinstance(cache, KVCache) and not cache.writes_on_commit:
            self.kv = cache.storage.numpy()
        ids, dtype = np.empty(0, np.int64), self.weights.tokens.dtype
        kv, logits = np.empty((0,) * 5, dtype), np.empty((0, 0), dtype)
        compile_for(forward, ids, (0,) * 5, self.weights, kv, False, self.scratch, logits, ids)

    def execute(self, rows: Sequence[Row]) -> ModelOutput:
        """Shapes: -> logits (R, V) in the order of `rows`, K + 1 for a row with K drafts."""
        if self.kv is None or not rows:
            return super().execute(rows)
        cache: Any = self.cache
        held = [row.context_len for row in rows]
        tables = [cache.table(row.request_id) for row in rows]
        return self._run(rows, self.kv, held, tables, cache.size)

    def forward(self, rows: Sequence[Row]) -> ModelOutput:
        """Run over a copy of the K/V with a block per row: under a window, a slot may still hold
        K/V that an earlier token of the same step reads.
        """
        cache: Any = self.cache  # with a window
        lengths = [cache.length(row.request_id) for row in rows]
        size = max(held + len(row.input_ids) for held, row in zip(lengths, rows, strict=True))
        like = cache.held(rows[0].request_id)  # (2, L, H, S, D)
        kv = like.new_empty((*like.shape[:3], len(rows) * size, like.shape[4]))
        new: list[int] = []
        lows: list[int] = []
        for b, (row, held) in enumerate(zip(rows, lengths, strict=True)):
            kv[:, :, :, b * size : b * size + held] = cache.held(row.request_id)
            new += range(b * size + held, b * size + held + len(row.input_ids))
            keys = [*cache.positions(row.request_id), *row.positions]
            firsts = [bisect_left(keys, position - cache.window) for position in row.positions]
            lows += [first if first > cache.sinks else 0 for first in firsts]
        tables = [(b,) for b in range(len(rows))]
        output = self._run(rows, kv.numpy(), lengths, tables, size, lows, cache.sinks)
        slot_mapping, written = cache.slot_mapping(rows), kv[:, :, :, new].transpose(2, 3)
        for layer, (k, v) in enumerate(zip(*written, strict=True)):
            cache.write(layer, slot_mapping, k, v)  # (N, H, D) each
        return output

    def _run(
        self,
        rows: Sequence[Row],
        kv: np.ndarray,
        held: Sequence[int],
        tables: Sequence[Sequence[int]],
        block_size: int,
        lows: Sequence[int] = (),
        num_sinks: int = 0,
    ) -> ModelOutput:
        """Shapes: kv (2, L, H, E, D)."""
        tokens: list[int] = []
        positions: list[int] = []
        wanted: list[int] = []
        starts = [0]
        for row in rows:
            tokens += row.input_ids
            positions += row.positions
            starts.append(len(tokens))
            wanted += range(len(tokens) - 1 - len(row.drafted), len(tokens))
        num_tokens, width = len(tokens), max(map(len, tables))
        numbers = [*tokens, *positions, *(lows or [0] * num_tokens), *starts, *held, *wanted]
        for table in tables:
            numbers += table
            numbers += [0] * (width - len(table))
        sizes = num_tokens, len(rows), len(wanted), block_size, num_sinks
        if len(self.scratch.x) != num_tokens:
            self.scratch = self._make_scratch(num_tokens)
        self.scratch.work.fill(0)
        config, weights = self.model.config, self.weights
        logits = np.empty((len(wanted), len(weights.logits) * WIDTH), kv.dtype)
        best = np.empty(len(wanted), np.int64)
        call = np.array(numbers), sizes, weights, kv, config.tanh_gelu, self.scratch, logits, best
        cost = (num_tokens + READ) * self.num_weights + READ * self.num_kv * sum(held)
        if self.second and cost >= WORTH_SHARING:
            shared = self.second.submit(forward, *call)
            forward(*call)
            shared.result()
        else:
            forward(*call)
        record = forward_record(rows, self.cache, num_tokens)
        return ModelOutput(
            torch.from_numpy(logits[:, : config.vocab_size]), (record,), best.tolist()
        )

    def _make_scratch(self, num_tokens: int) -> Scratch:
        panels, num_layers = self.weights, self.model.config.num_layers
        columns = panels.proj, panels.proj, panels.qkv, panels.up
        dtype = panels.tokens.dtype
        x, kept, qkv, wide = (
            np.empty((num_tokens, each.shape[1] * WIDTH), dtype) for each in columns
        )
        mixed = np.empty((num_tokens, self.model.config.num_channels), dtype)
        return Scratch(x, kept, qkv, mixed, wide, np.zeros((5 * num_layers + 3, LANES), np.int64))


def packed_weights(model: GPT) -> Weights:
    """The model's weights in the kernel's form."""
    blocks: list[Any] = list(model.blocks)

    def norm(layer: nn.LayerNorm) -> torch.Tensor:
        bias: Any = layer.bias  # None without one
        both = layer.weight, torch.zeros_like(layer.weight) if bias is None else bias
        return torch.stack(both).detach()  # (2, C)

    def panels(name: str) -> np.ndarray:
        weights = [getattr(block, name).weight.detach().t() for block in blocks]
        return np.stack([panels_of(weight.numpy()) for weight in weights])

    norms = [norm(each) for block in blocks for each in (block.ln_1, block.ln_2)]
    tokens = model.token_embedding.weight.detach().numpy()
    biases = np.zeros((len(blocks), 0), tokens.dtype)
    if model.config.bias:
        linears = ([block.qkv, block.proj, block.up, block.down] for block in blocks)
        biases = torch.stack([torch.cat([each.bias for each in own]) for own in linears])
        biases = biases.detach().numpy()
    return Weights(
        tokens=tokens,
        positions=model.position_embedding.weight.detach().numpy(),
        norms=torch.stack([*norms, norm(model.ln_f)]).numpy(),
        qkv=panels("qkv"),
        proj=panels("proj"),
        up=panels("up"),
        down=panels("down"),
        biases=biases,
        logits=panels_of(tokens.T),
    )

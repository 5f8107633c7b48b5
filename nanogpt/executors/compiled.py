"""The compiled executor: a step's forward pass as one call of machine code, over the same cache.

What Python and torch need to call forty small operations is saved, and the arithmetic is left. A
token's result has the same bits in every batch, chunking and number of threads. Needs numba; the
first call compiles the kernel, and later processes read it from numba's cache.

Shapes: N tokens of B rows, R of them with logits, V vocabulary.
"""

import threading
import warnings
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nanogpt.executors.base import CachedExecutor, Executor, forward_record
from nanogpt.executors.kernel import LANES, WIDTH, Batch, Scratch, Weights, forward, panels_of
from nanogpt.executors.packed import PackedExecutor
from nanogpt.kv_cache import KVCache
from nanogpt.kv_store import KVStore
from nanogpt.model import GPT
from nanogpt.outputs import ModelOutput, Row
from nanogpt.policies import Policies

WORTH_SHARING = 10_000_000
"""Multiply-adds of a step from which on a second thread takes part."""


def make_compiled(model: GPT, cache: KVStore, policies: Policies) -> Executor:
    """The compiled executor, or the packed one where the kernel does not serve.

    It does not serve masks of one's own, other devices, and other numbers than float32 and float64.
    """
    weight, own = model.ln_f.weight, Policies()
    problem = None
    if weight.dtype not in (torch.float32, torch.float64) or weight.device.type != "cpu":
        problem = f"it computes float32 and float64 on a CPU, and not {weight.dtype} on {weight.device}"
    elif (policies.chunk_mask, policies.visible) != (own.chunk_mask, own.visible):
        problem = "a mask of one's own needs Python in every step"
    if problem is None:
        return CompiledExecutor(model, cache, policies)
    warnings.warn(f"the compiled executor gives way to the packed one: {problem}", stacklevel=2)
    return PackedExecutor(model, cache, policies)


class CompiledExecutor(CachedExecutor):
    """One compiled forward per step over a flat row of tokens."""

    name = "compiled"
    verifies_drafts = True

    def __init__(self, model: GPT, cache: KVStore, policies: Policies) -> None:
        super().__init__(model, cache, policies)
        self.weights = packed_weights(model)
        self.num_weights = sum(parameter.numel() for parameter in model.parameters())
        self.helper = Helper() if torch.get_num_threads() > 1 else None
        self.scratch = self._make_scratch(1)

    def forward(self, rows: Sequence[Row]) -> ModelOutput:
        """Shapes: -> logits (R, V) in the order of `rows`, K + 1 for a row with K drafts."""
        if isinstance(self.cache, KVCache) and not self.cache.writes_on_commit:
            tables = [self.cache.table(row.request_id) for row in rows]
            held = [row.context_len for row in rows]
            logits = self._run(rows, self.cache.storage, held, tables, self.cache.size)
        else:
            logits = self._run_beside(rows)
        num_tokens = sum(len(row.input_ids) for row in rows)
        return ModelOutput(logits, (forward_record(rows, self.cache, num_tokens),))

    def _run_beside(self, rows: Sequence[Row]) -> Tensor:
        """Under a window, new K/V may not go where old K/V lies: each row gets a block of its own.

        Shapes: -> logits (R, V).
        """
        cache, lengths = self.cache, [self.cache.length(row.request_id) for row in rows]
        size = max(held + len(row.input_ids) for held, row in zip(lengths, rows, strict=True))
        like = cache.held(rows[0].request_id)  # (2, L, H, S, D)
        kv = like.new_empty((*like.shape[:3], len(rows) * size, like.shape[4]))
        new, lows = list[int](), list[int]()
        for b, (row, held) in enumerate(zip(rows, lengths, strict=True)):
            kv[:, :, :, b * size : b * size + held] = cache.held(row.request_id)
            new += range(b * size + held, b * size + held + len(row.input_ids))
            keys = [*cache.positions(row.request_id), *row.positions]
            firsts = [bisect_left(keys, position - cache.window) for position in row.positions]
            lows += [first if first > cache.sinks else 0 for first in firsts]
        tables = [(b,) for b in range(len(rows))]
        logits = self._run(rows, kv, lengths, tables, size, lows, cache.sinks)
        slot_mapping, written = cache.slot_mapping(rows), kv[:, :, :, new].transpose(2, 3)
        for layer, (k, v) in enumerate(zip(*written, strict=True)):
            cache.write(layer, slot_mapping, k, v)  # (N, H, D) each
        return logits

    def _run(
        self,
        rows: Sequence[Row],
        kv: Tensor,
        held: Sequence[int],
        tables: Sequence[Sequence[int]],
        block_size: int,
        lows: Sequence[int] = (),
        num_sinks: int = 0,
    ) -> Tensor:
        """Shapes: kv (2, L, H, E, D) -> logits (R, V)."""
        tokens, positions, wanted, starts = list[int](), list[int](), list[int](), [0]
        for row in rows:
            tokens += row.input_ids
            positions += row.positions
            starts.append(len(tokens))
            wanted += range(len(tokens) - row.num_logits, len(tokens))
        width = max(map(len, tables))
        full = [(*table, *(0,) * (width - len(table))) for table in tables]
        flat = tokens, positions, lows or [0] * len(tokens), starts, held, full, wanted
        batch = Batch(*map(np.array, flat), block_size, num_sinks)
        if len(self.scratch.x) != len(tokens):
            self.scratch = self._make_scratch(len(tokens))
        self.scratch.work[:] = 0
        config, num_panels = self.model.config, len(self.weights.logits)
        logits = torch.empty(len(wanted), num_panels * WIDTH, dtype=kv.dtype)
        call = batch, self.weights, kv.numpy(), config.tanh_gelu, self.scratch, logits.numpy()
        if self.helper and len(tokens) * self.num_weights >= WORTH_SHARING:
            self.helper.start(call)
            forward(*call)
            self.helper.wait()
        else:
            forward(*call)
        return logits[:, : config.vocab_size]

    def _make_scratch(self, num_tokens: int) -> Scratch:
        panels, num_layers = self.weights, self.model.config.num_layers
        columns = panels.proj, panels.proj, panels.qkv, panels.up
        dtype = panels.tokens.dtype
        x, kept, qkv, wide = (
            np.empty((num_tokens, each.shape[1] * WIDTH), dtype) for each in columns
        )
        mixed = np.empty((num_tokens, self.model.config.num_channels), dtype)
        return Scratch(x, kept, qkv, mixed, wide, np.zeros((5 * num_layers + 2, LANES), np.int64))


class Helper:
    """A thread that makes the same call beside its caller. Mutable: the call it is given."""

    def __init__(self) -> None:
        self._begin, self._end = threading.Semaphore(0), threading.Semaphore(0)
        self._call: tuple[Any, ...] = ()
        threading.Thread(target=self._serve, daemon=True).start()

    def start(self, call: tuple[Any, ...]) -> None:
        """Begin soon."""
        self._call = call
        self._begin.release()

    def wait(self) -> None:
        """Return once the call has come back."""
        self._end.acquire()

    def _serve(self) -> None:
        while self._begin.acquire():
            forward(*self._call)
            self._end.release()


def packed_weights(model: GPT) -> Weights:
    """The model's weights in the kernel's form."""

    def norm(layer: nn.LayerNorm) -> torch.Tensor:
        bias = torch.zeros_like(layer.weight) if layer.bias is None else layer.bias
        return torch.stack([layer.weight, bias]).detach()  # (2, C)

    def panels(name: str) -> np.ndarray:
        weights = [getattr(block, name).weight.detach().t() for block in model.blocks]
        return np.stack([panels_of(weight.numpy()) for weight in weights])

    norms = [norm(each) for block in model.blocks for each in (block.ln_1, block.ln_2)]
    tokens = model.token_embedding.weight.detach().numpy()
    biases = np.zeros((len(model.blocks), 0), tokens.dtype)
    if model.config.bias:
        linears = ([block.qkv, block.proj, block.up, block.down] for block in model.blocks)
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

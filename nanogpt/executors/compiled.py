"""The compiled executor: a step's forward pass as one call of machine code, over the same cache.

What Python and torch need to call forty small operations is saved, and the arithmetic is left. A
token's result has the same bits in every batch, chunking and number of threads. Needs numba; the
first call compiles the kernel, and later processes read it from numba's cache.

Shapes: N tokens of B rows, R of them with logits, V vocabulary.
"""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from nanogpt.executors.base import CachedExecutor, forward_record
from nanogpt.executors.kernel import LANES, WIDTH, Batch, Scratch, Weights, forward, panels_of
from nanogpt.kv_cache import KVCache
from nanogpt.model import GPT
from nanogpt.outputs import ModelOutput, Row
from nanogpt.policies import Policies

WORTH_SHARING = 10_000_000
"""Multiply-adds of a step from which on a second thread takes part."""


class CompiledExecutor(CachedExecutor):
    """One compiled forward per step over a flat row of tokens."""

    name = "compiled"
    verifies_drafts = True

    def __init__(self, model: GPT, cache: KVCache, policies: Policies) -> None:
        super().__init__(model, cache, policies)
        self.kv_cache = cache
        self.kv = cache.storage.numpy()
        self.weights = packed_weights(model)
        self.num_weights = sum(parameter.numel() for parameter in model.parameters())
        self.helper = Helper() if torch.get_num_threads() > 1 else None
        self.scratch = self._make_scratch(1)

    def forward(self, rows: Sequence[Row]) -> ModelOutput:
        """Shapes: -> logits (R, V) in the order of `rows`, K + 1 for a row with K drafts."""
        batch = self._batch(rows)
        num_tokens, num_logits = len(batch.tokens), len(batch.wanted)
        if len(self.scratch.x) != num_tokens:
            self.scratch = self._make_scratch(num_tokens)
        self.scratch.work[:] = 0
        logits = np.empty((num_logits, len(self.weights.logits) * WIDTH), self.kv.dtype)
        best = np.empty(num_logits, np.int64)
        call = batch, self.weights, self.kv, self.model.config.tanh_gelu, self.scratch, logits, best
        if self.helper and num_tokens * self.num_weights >= WORTH_SHARING:
            self.helper.start(call)
            forward(*call)
            self.helper.wait()
        else:
            forward(*call)
        vocabulary = torch.from_numpy(logits)[:, : self.model.config.vocab_size]  # (R, V)
        return ModelOutput(vocabulary, (forward_record(rows, self.cache, num_tokens),))

    def _batch(self, rows: Sequence[Row]) -> Batch:
        tokens, positions, wanted, starts = list[int](), list[int](), list[int](), [0]
        tables: list[tuple[int, ...]] = []
        for row in rows:
            tokens += row.input_ids
            positions += row.positions
            starts.append(len(tokens))
            wanted += range(len(tokens) - row.num_logits, len(tokens))
            tables.append(self.kv_cache.table(row.request_id))
        width = max(map(len, tables))
        return Batch(
            tokens=np.array(tokens),
            positions=np.array(positions),
            lows=np.zeros(len(tokens), np.int64),
            starts=np.array(starts),
            held=np.array([row.context_len for row in rows]),
            tables=np.array([(*table, *(0,) * (width - len(table))) for table in tables]),
            wanted=np.array(wanted),
            block_size=self.kv_cache.size,
            num_sinks=0,
        )

    def _make_scratch(self, num_tokens: int) -> Scratch:
        panels, num_layers = self.weights, self.model.config.num_layers
        columns = panels.proj, panels.proj, panels.qkv, panels.up
        x, kept, qkv, wide = (
            np.empty((num_tokens, each.shape[1] * WIDTH), self.kv.dtype) for each in columns
        )
        mixed = np.empty((num_tokens, self.model.config.num_channels), self.kv.dtype)
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

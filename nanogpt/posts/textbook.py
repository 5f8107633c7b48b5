"""The posts' padded batch, call by call: assemble, one model call, disassemble. For reading.

The engine's executors do the same with a KV cache beneath; here every request keeps its own K/V in
`request.kv_cache[layer, head] = (k, v)`, (1, S, D) each, and the model is called as the posts call
it. The attention is spelled out, with the one mask that is right for training, prefill and decode:
causal, no padding in the past, no padding among the new tokens, and no row that sees nothing.

Shapes: B rows, T longest new part, S longest past, H heads, D head size, L layers, V vocabulary.
Source: the interleaving and sliding-window posts, with their masks, positions and views put right.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor

from nanogpt.model import GPT
from nanogpt.policies.fusing import prepare_inputs
from nanogpt.policies.sliding_window import evict
from nanogpt.posts.post_request import KVView, OwnKV, Request
from nanogpt.validate import check_int

BatchedKV = list[list[tuple[Tensor, Tensor]]]
"""[layer][head] = (k, v), each (B, S, D), left-padded."""


class TextbookModel:
    """A GPT called as the posts call theirs: K/V in, K/V out, a mask over keys."""

    def __init__(self, model: GPT) -> None:
        self.model = model

    def __call__(
        self,
        tokens: Tensor,
        targets: Tensor | None = None,
        *,
        pos: Tensor | None = None,
        past_kvs: BatchedKV | None = None,
        attn_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None, BatchedKV]:
        """Logits (B, T, V), the loss if there are targets, and past and new K/V together.

        `attn_mask` (B, 1, S) says which past columns are real, all new ones then being so, or
        (B, 1, S + T) says it of both. Shapes: tokens, targets, pos (B, T); new K/V (B, S + T, D).
        """
        batch, num_new = tokens.shape
        num_past = past_kvs[0][0][0].shape[1] if past_kvs else 0
        mask = textbook_mask(batch, num_new, num_past, attn_mask)  # (B, T, S + T)
        new_kvs: BatchedKV = []

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            past = past_kvs[layer] if past_kvs else [None] * q.shape[2]
            outs: list[Tensor] = []
            new_kvs.append([])
            for head, kv in enumerate(past):
                mine = (q[:, :, head], k[:, :, head], v[:, :, head])  # (B, T, D) each
                out, new_kv = head_forward(*mine, kv, mask)
                outs.append(out)
                new_kvs[-1].append(new_kv)
            return torch.stack(outs, dim=2)  # (B, T, H, D)

        if pos is None:
            pos = torch.arange(num_past, num_past + num_new).expand(batch, -1)  # (B, T)
        logits = self.model.logits(self.model.hidden(tokens, pos, attend))  # (B, T, V)
        if targets is None:
            return logits, None, new_kvs
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten()), new_kvs


def head_forward(
    q: Tensor, k: Tensor, v: Tensor, past: tuple[Tensor, Tensor] | None, mask: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """One head, for every occasion: training, a chunk, a decode, or all of them in one batch.

    Shapes: q, k, v (B, T, D), past (B, S, D) each, mask (B, T, S + T) -> out (B, T, D), and keys
    and values (B, S + T, D) each.
    """
    if past is not None:
        k = torch.cat([past[0], k], dim=1)  # (B, S + T, D)
        v = torch.cat([past[1], v], dim=1)
    scores = q @ k.transpose(1, 2) * k.shape[-1] ** -0.5  # (B, T, S + T)
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return weights @ v, (k, v)  # (B, T, D)


def textbook_mask(batch: int, num_new: int, num_past: int, attn_mask: Tensor | None) -> Tensor:
    """Causal among the new, real keys only, and for a padding query at least itself.

    Shapes: attn_mask (B, 1, S), (B, 1, S + T) or None -> (B, T, S + T) bool.
    Raises: ValueError for a mask of another width.
    """
    keys = torch.arange(num_past + num_new)  # (S + T,)
    itself = keys == torch.arange(num_past, num_past + num_new).unsqueeze(1)  # (T, S + T)
    causal = keys <= torch.arange(num_past, num_past + num_new).unsqueeze(1)  # (T, S + T)
    if attn_mask is None:
        return causal.expand(batch, -1, -1)  # (B, T, S + T)
    width = attn_mask.shape[-1]
    if width == num_past:
        attn_mask = F.pad(attn_mask, (0, num_new), value=True)  # (B, 1, S + T)
    elif width != num_past + num_new:
        raise ValueError(
            f"attn_mask has {width} columns; it must have {num_past} (the past) or "
            f"{num_past + num_new} (past and new)"
        )
    return causal & attn_mask | itself  # (B, T, S + T)


def assemble_batch_cache(
    requests: Sequence[Request],
) -> tuple[BatchedKV | None, Tensor, list[int]]:
    """The K/V of all side by side, left-padded with zeros to the longest.

    Returns past_kvs (None when none holds any), attn_mask (B, 1, S) True where a column is real,
    and the padding of each row. Raises: ValueError for no request at all.
    """
    if not requests:
        raise ValueError("there is nothing to assemble: no request")
    held = [_own_kv(request) for request in requests]
    lengths = [kv[0, 0][0].shape[1] if kv else 0 for kv in held]
    longest = max(lengths)
    pads = [longest - length for length in lengths]
    attn_mask = torch.arange(longest) >= torch.tensor(pads).view(-1, 1, 1)  # (B, 1, S)
    if longest == 0:
        return None, attn_mask, pads
    sample = next(kv for kv in held if kv)
    num_layers, num_heads = (last + 1 for last in max(sample))
    like = sample[0, 0][0]  # (1, S, D)

    def batched(layer: int, head: int, which: int) -> Tensor:
        padded = like.new_zeros(len(held), longest, like.shape[2])  # (B, S, D)
        for i, (kv, pad) in enumerate(zip(held, pads, strict=True)):
            if kv:
                padded[i, pad:] = kv[layer, head][which][0]  # (s, D)
        return padded

    past_kvs = [
        [(batched(layer, head, 0), batched(layer, head, 1)) for head in range(num_heads)]
        for layer in range(num_layers)
    ]
    return past_kvs, attn_mask, pads


def disassemble_batch_cache(
    requests: Sequence[Request], new_kvs: BatchedKV, pad_lengths: Sequence[int]
) -> None:
    """Give every request its K/V back after a forward of one token each, padding cut off in front.

    Copies, so that no request keeps the whole batch's storage alive.
    """
    for i, (request, pad) in enumerate(zip(requests, pad_lengths, strict=True)):
        kv = {
            (layer, head): (k[i : i + 1, pad:].clone(), v[i : i + 1, pad:].clone())
            for layer, heads in enumerate(new_kvs)
            for head, (k, v) in enumerate(heads)
        }
        _store(request, kv)


def assemble_fused_batch(
    decode_reqs: Sequence[Request], prefill_req: Request | None, chunk_size: int
) -> tuple[Tensor, Tensor, BatchedKV | None, Tensor, list[tuple[int, int]]]:
    """One tensor for all decodes, one token each, and a chunk of the prefill as the last row.

    Returns tokens (B, T), positions (B, T), past_kvs, attn_mask (B, 1, S + T) True where a column
    is real, and each row's padding in front of its past and in front of its new tokens.
    Raises: ValueError for an empty batch and for a chunk beyond what is left.
    """
    requests, num_new = list(decode_reqs), [1] * len(decode_reqs)
    cursors = [request.num_tokens - 1 for request in decode_reqs]
    if prefill_req is not None and chunk_size != 0:
        if not 0 < chunk_size <= prefill_req.remaining:
            raise ValueError(
                f"chunk_size is {chunk_size}; request {prefill_req.id} has "
                f"{prefill_req.remaining} tokens left to compute"
            )
        requests.append(prefill_req)
        num_new.append(chunk_size)
        cursors.append(prefill_req.num_computed_tokens)
    if not requests:
        raise ValueError(
            "there is nothing to assemble: no decode, and no chunk of at least 1 token"
        )
    rows, positions = prepare_inputs([r.tokens_so_far for r in requests], cursors, num_new)
    past_kvs, past_real, past_pads = assemble_batch_cache(requests)
    new_pads = [max(num_new) - n for n in num_new]
    new_real = torch.arange(max(num_new)) >= torch.tensor(new_pads).view(-1, 1, 1)  # (B, 1, T)
    attn_mask = torch.cat([past_real, new_real], dim=2)  # (B, 1, S + T)
    pads = list(zip(past_pads, new_pads, strict=True))
    return torch.tensor(rows), torch.tensor(positions), past_kvs, attn_mask, pads


def disassemble_fused_cache(
    requests: Sequence[Request], new_kvs: BatchedKV, num_new_tokens_per_req: Sequence[int]
) -> None:
    """Append every request's new K/V to what it holds: the last columns of its row."""
    for i, (request, n) in enumerate(zip(requests, num_new_tokens_per_req, strict=True)):
        held = _own_kv(request)
        kv: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        for layer, heads in enumerate(new_kvs):
            for head, (k, v) in enumerate(heads):
                start = k.shape[1] - n
                new_k, new_v = k[i : i + 1, start:], v[i : i + 1, start:]  # (1, n, D) each
                old_k, old_v = held.get((layer, head), (new_k[:, :0], new_v[:, :0]))
                kv[layer, head] = torch.cat([old_k, new_k], 1), torch.cat([old_v, new_v], 1)
        _store(request, kv)


def evict_kv_cache(request: Request, window_size: int | None, num_sinks: int = 0) -> None:
    """Keep the last `window_size` entries of the request's K/V and its first `num_sinks`.

    None means no window. Raises: ValueError for a request that an engine serves.
    """
    if window_size is None:
        return
    check_int("window_size", window_size, 1)
    check_int("num_sinks", num_sinks, 0)
    kv = {place: evict(k, v, window_size, num_sinks) for place, (k, v) in _own_kv(request).items()}
    _store(request, kv)


def _own_kv(request: Request) -> KVView:
    if request.was_submitted and not isinstance(request.kv_view, OwnKV):
        raise ValueError(
            f"request {request.id} is served by an engine, which stores its K/V itself"
        )
    return request.kv_cache


def _store(request: Request, kv: Mapping[tuple[int, int], tuple[Tensor, Tensor]]) -> None:
    _own_kv(request)
    request.kv_view = OwnKV(MappingProxyType(dict(kv)))

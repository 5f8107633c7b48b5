"""The posts' padded batch, call by call: assemble, one model call, disassemble. For reading.

The engine's executors do the same with a KV cache beneath; here every request keeps its own K/V in
`request.kv_cache[layer, head] = (k, v)`, (1, S, D) each, and the model is called as the posts call
it. The attention is spelled out, with the one mask that is right for training, prefill and decode:
causal, no padding in the past, no padding among the new tokens, and no row that sees nothing.

Shapes: B rows, T longest new part, S longest past, H heads, D head size, L layers, V vocabulary.
Source: the interleaving and sliding-window posts, with their masks, positions and views put right.
"""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from nanogpt.model import GPT
from nanogpt.policies.fusing import prepare_inputs
from nanogpt.policies.sliding_window import evict
from nanogpt.posts.post_request import KVView, Request
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

        `attn_mask` says which past columns are real (B, 1, S), if all new ones are, or which past
        and new columns are (B, 1, S + T).
        Shapes: tokens, targets, pos (B, T); new K/V (B, S + T, D).
        """
        batch, num_new = tokens.shape
        num_past = past_kvs[0][0][0].shape[1] if past_kvs else 0
        mask = textbook_mask(num_new, num_past, attn_mask)  # (B or 1, T, S + T)
        new_kvs: BatchedKV = []

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            past = past_kvs[layer] if past_kvs else [None] * q.shape[2]
            heads = zip(q.unbind(2), k.unbind(2), v.unbind(2), past, strict=True)
            outs, kvs = zip(*(head_forward(*head, mask) for head in heads), strict=True)
            new_kvs.append(list(kvs))
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


def textbook_mask(num_new: int, num_past: int, attn_mask: Tensor | None) -> Tensor:
    """Causal among the new, real keys only, and for a padding query at least itself.

    Shapes: attn_mask (B, 1, S), (B, 1, S + T) or None -> (B, T, S + T) bool, B = 1 for None.
    Raises: ValueError for a mask of another width.
    """
    keys = torch.arange(num_past + num_new)  # (S + T,)
    queries = keys[num_past:].unsqueeze(1)  # (T, 1)
    real = torch.ones(1, 1, num_past).bool() if attn_mask is None else attn_mask
    if real.shape[-1] == num_past:
        real = F.pad(real, (0, num_new), value=True)  # (B, 1, S + T)
    elif real.shape[-1] != num_past + num_new:
        raise ValueError(
            f"attn_mask has {real.shape[-1]} columns; it must have {num_past} (the past) or "
            f"{num_past + num_new} (past and new)"
        )
    return (keys <= queries) & real | (keys == queries)  # (B, T, S + T)


def assemble_batch_cache(requests: Sequence[Request]) -> tuple[BatchedKV | None, Tensor, list[int]]:
    """The K/V of all requests side by side, left-padded with zeros to the longest.

    Returns past_kvs (None if no request holds any), attn_mask (B, 1, S) True where a column is
    real, and the padding of each row. Raises: ValueError for no request at all.
    """
    if not requests:
        raise ValueError("there is nothing to assemble: no request")
    held = [_own_kv(request) for request in requests]
    lengths = [kv[0, 0][0].shape[1] if kv else 0 for kv in held]
    pads = [max(lengths) - length for length in lengths]
    attn_mask = _columns_from(pads, max(lengths))  # (B, 1, S)
    if max(lengths) == 0:
        return None, attn_mask, pads
    sample = next(kv for kv in held if kv)
    empty = sample[0, 0][0][0, :0]  # (0, D)

    def batched(layer: int, head: int, which: int) -> Tensor:
        rows = [kv[layer, head][which][0] if kv else empty for kv in held]  # (s, D) each
        return pad_sequence(rows, batch_first=True, padding_side="left")  # (B, S, D)

    num_layers, num_heads = (last + 1 for last in max(sample))
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
        row = _row(new_kvs, i)
        _store(request, {at: (k[:, pad:].clone(), v[:, pad:].clone()) for at, (k, v) in row})


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
    attn_mask = torch.cat([past_real, _columns_from(new_pads, max(num_new))], dim=2)
    pads = list(zip(past_pads, new_pads, strict=True))
    return torch.tensor(rows), torch.tensor(positions), past_kvs, attn_mask, pads


def disassemble_fused_cache(
    requests: Sequence[Request], new_kvs: BatchedKV, num_new_tokens_per_req: Sequence[int]
) -> None:
    """Append every request's new K/V to what it holds: the last columns of its row."""
    for i, (request, n) in enumerate(zip(requests, num_new_tokens_per_req, strict=True)):
        held = _own_kv(request)
        kv: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        for at, (k, v) in _row(new_kvs, i):
            start = k.shape[1] - n
            old_k, old_v = held.get(at, (k[:, :0], v[:, :0]))  # (1, s, D) each
            kv[at] = torch.cat([old_k, k[:, start:]], 1), torch.cat([old_v, v[:, start:]], 1)
        _store(request, kv)


def evict_kv_cache(request: Request, window_size: int | None, num_sinks: int = 0) -> None:
    """Keep the last `window_size` entries of the request's K/V and its first `num_sinks`.

    None means no window. Raises: ValueError for a request that an engine serves.
    """
    if window_size is None:
        return
    check_int("window_size", window_size, 1)
    check_int("num_sinks", num_sinks, 0)
    held = _own_kv(request).items()
    _store(request, {at: evict(k, v, window_size, num_sinks) for at, (k, v) in held})


def _columns_from(pads: Sequence[int], width: int) -> Tensor:
    """True behind each row's padding. Shapes: -> (B, 1, width) bool."""
    return torch.arange(width) >= torch.tensor(pads).view(-1, 1, 1)


def _row(kvs: BatchedKV, i: int) -> Iterator[tuple[tuple[int, int], tuple[Tensor, Tensor]]]:
    """(layer, head), and row i of the batch there: k and v, (1, S, D) each."""
    for layer, heads in enumerate(kvs):
        for head, (k, v) in enumerate(heads):
            yield (layer, head), (k[i : i + 1], v[i : i + 1])


def _own_kv(request: Request) -> KVView:
    if request.was_submitted and not request.own_kv:
        raise ValueError(
            f"request {request.id} is served by an engine, which stores its K/V itself"
        )
    return request.own_kv


def _store(request: Request, kv: KVView) -> None:
    _own_kv(request)
    request.own_kv = kv

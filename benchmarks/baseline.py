"""A frozen engine in the style of the posts that the course grew from: what `packed` is held to.

One Linear per head for each of q, k and v; a dict of K/V per (layer, head) in every request;
`torch.cat` in every step; a left-padded decode batch that is put together from those dicts and
taken apart again; a prefill chunk and the decodes as two forwards, or (`fused`) as one, every row
left-padded to the chunk. Its masks are right and it is greedy, so its tokens equal the oracle's. It
stands for the engine as a reader first writes it, and it is frozen: figures of different days
compare only while this file stays as it is.

Shapes: B rows, T new tokens, S visible context, D head size, C channels, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nanogpt.config import ModelConfig
from nanogpt.model import GPT

KV = tuple[Tensor, Tensor]
PastKVs = list[list[KV]]


@dataclass(eq=False)
class BaselineRequest:
    """A prompt to continue; `kv_cache` maps (layer, head) to k and v of (1, S, D)."""

    prompt_tokens: list[int]
    max_new_tokens: int
    generated_tokens: list[int] = field(default_factory=list[int])
    prefill_cursor: int = 0
    kv_cache: dict[tuple[int, int], KV] = field(default_factory=dict[tuple[int, int], KV])

    @property
    def tokens_so_far(self) -> list[int]:
        """Prompt and generated tokens."""
        return self.prompt_tokens + self.generated_tokens

    @property
    def is_done(self) -> bool:
        """Whether every token asked for has been generated."""
        return len(self.generated_tokens) >= self.max_new_tokens


class Head(nn.Module):
    """One head of self-attention with its own three Linears."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.key = nn.Linear(config.num_channels, config.head_size, bias=False)
        self.query = nn.Linear(config.num_channels, config.head_size, bias=False)
        self.value = nn.Linear(config.num_channels, config.head_size, bias=False)
        tril = torch.tril(torch.ones(config.max_model_len, config.max_model_len, dtype=torch.bool))
        self.register_buffer("tril", tril)

    def forward(self, x: Tensor, past: KV | None, past_mask: Tensor | None) -> tuple[Tensor, KV]:
        """Shapes: x (B, T, C), past (B, S - T, D) each -> (B, T, D).

        `past_mask` (B, 1, S - T) says which past columns are real, or (B, 1, S) which of all.
        """
        k, q, v = self.key(x), self.query(x), self.value(x)  # (B, T, D)
        if past is not None:
            k = torch.cat([past[0], k], dim=1)  # (B, S, D)
            v = torch.cat([past[1], v], dim=1)
        num_rows, num_new, num_seen = len(x), x.shape[1], k.shape[1]
        scores = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5  # (B, T, S)
        visible = torch.ones(num_new, num_seen, dtype=torch.bool)  # (T, S)
        visible[:, -num_new:] = self.tril[:num_new, :num_new]
        visible = visible.unsqueeze(0).expand(num_rows, -1, -1)  # (B, T, S)
        if past_mask is not None and past_mask.shape[-1] == num_seen:
            # A padding row sees itself, or its softmax would be NaN.
            itself = torch.eye(num_new, num_seen, dtype=torch.bool).roll(num_seen - num_new, 1)
            visible = visible & past_mask | itself
        elif past_mask is not None:
            new_valid = torch.ones(num_rows, 1, num_new, dtype=torch.bool)
            visible = visible & torch.cat([past_mask, new_valid], dim=-1)
        weights = F.softmax(scores.masked_fill(~visible, float("-inf")), dim=-1)
        return weights @ v, (k, v)


class BaselineBlock(nn.Module):
    """A transformer block whose heads are a list of modules."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        channels = config.num_channels
        self.heads = nn.ModuleList(Head(config) for _ in range(config.num_heads))
        self.ln_1 = nn.LayerNorm(channels, bias=False)
        self.proj = nn.Linear(channels, channels, bias=False)
        self.ln_2 = nn.LayerNorm(channels, bias=False)
        self.up = nn.Linear(channels, 4 * channels, bias=False)
        self.down = nn.Linear(4 * channels, channels, bias=False)

    def forward(
        self, x: Tensor, past: list[KV] | None, past_mask: Tensor | None
    ) -> tuple[Tensor, list[KV]]:
        """Shapes: x (B, T, C) -> (B, T, C), and k and v (B, S, D) of every head."""
        normed, outs, kvs = self.ln_1(x), [], []
        for index, head in enumerate(self.heads):
            out, kv = head(normed, past[index] if past else None, past_mask)
            outs.append(out)
            kvs.append(kv)
        x = x + self.proj(torch.cat(outs, dim=-1))
        return x + self.down(F.gelu(self.up(self.ln_2(x)))), kvs


class BaselineGPT(nn.Module):
    """The model in the posts' layout."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.num_channels)
        self.position_embedding = nn.Embedding(config.max_model_len, config.num_channels)
        self.blocks = nn.ModuleList(BaselineBlock(config) for _ in range(config.num_layers))
        self.ln_f = nn.LayerNorm(config.num_channels, bias=False)
        self.lm_head = nn.Linear(config.num_channels, config.vocab_size, bias=False)

    def forward(
        self,
        tokens: Tensor,
        pos: Tensor,
        past_kvs: PastKVs | None = None,
        past_mask: Tensor | None = None,
    ) -> tuple[Tensor, PastKVs]:
        """Shapes: tokens, pos (B, T) -> logits (B, T, V), and k, v (B, S, D) by layer and head."""
        x = self.token_embedding(tokens) + self.position_embedding(pos)  # (B, T, C)
        new_kvs: PastKVs = []
        for index, block in enumerate(self.blocks):
            x, kvs = block(x, past_kvs[index] if past_kvs else None, past_mask)
            new_kvs.append(kvs)
        return self.lm_head(self.ln_f(x)), new_kvs


def convert(model: GPT) -> BaselineGPT:
    """The same weights with the fused QKV split into one Linear per head."""
    weight = model.token_embedding.weight
    baseline = BaselineGPT(model.config).to(weight.dtype)
    fused = model.state_dict()
    split: dict[str, Tensor] = {}
    for name, tensor in fused.items():
        if not name.endswith("qkv.weight"):
            split[name] = tensor
            continue
        per_head = tensor.view(3, model.config.num_heads, -1, tensor.shape[1])  # (3, H, D, C)
        for linear, heads in zip(("query", "key", "value"), per_head, strict=True):
            for index, head in enumerate(heads):
                split[name.replace("qkv", f"heads.{index}.{linear}")] = head
    split["lm_head.weight"] = weight
    unmatched = baseline.load_state_dict(split, strict=False)
    assert not unmatched.unexpected_keys
    assert all(name.endswith("tril") for name in unmatched.missing_keys)
    return baseline.eval().requires_grad_(False)


def assemble_batch_cache(requests: Sequence[BaselineRequest]) -> tuple[PastKVs, Tensor, list[int]]:
    """Left-pad everyone's K/V to the longest. -> past_kvs, mask (B, 1, S), padding of each row."""
    lengths = [request.kv_cache[0, 0][0].shape[1] for request in requests]
    longest = max(lengths)
    padding = [longest - length for length in lengths]
    num_layers, num_heads = (last + 1 for last in max(requests[0].kv_cache))
    past_kvs: PastKVs = []
    for layer in range(num_layers):
        past_kvs.append([])
        for head in range(num_heads):
            padded_k, padded_v = [], []
            for request, pad in zip(requests, padding, strict=True):
                k, v = request.kv_cache[layer, head]  # (1, S, D)
                padded_k.append(F.pad(k, (0, 0, pad, 0)))
                padded_v.append(F.pad(v, (0, 0, pad, 0)))
            past_kvs[layer].append((torch.cat(padded_k), torch.cat(padded_v)))  # (B, S, D)
    mask = torch.ones(len(requests), 1, longest, dtype=torch.bool)  # (B, 1, S)
    for row, pad in enumerate(padding):
        mask[row, :, :pad] = False
    return past_kvs, mask, padding


def disassemble_batch_cache(
    requests: Sequence[BaselineRequest], new_kvs: PastKVs, padding: Sequence[int]
) -> None:
    """Give every request its row of the batch back, without the padding."""
    for layer, kvs in enumerate(new_kvs):
        for head, (k, v) in enumerate(kvs):
            for row, (request, pad) in enumerate(zip(requests, padding, strict=True)):
                request.kv_cache[layer, head] = (k[row : row + 1, pad:], v[row : row + 1, pad:])


def prefill_chunk(model: BaselineGPT, request: BaselineRequest, chunk_size: int) -> None:
    """Compute the prompt's next `chunk_size` tokens; sample if they end it."""
    start, end = request.prefill_cursor, request.prefill_cursor + chunk_size
    tokens = torch.tensor([request.prompt_tokens[start:end]])  # (1, T)
    pos = torch.arange(start, end).unsqueeze(0)  # (1, T)
    config = model.config
    past_kvs = None
    if request.kv_cache:
        past_kvs = [
            [request.kv_cache[layer, head] for head in range(config.num_heads)]
            for layer in range(config.num_layers)
        ]
    logits, new_kvs = model(tokens, pos, past_kvs)
    disassemble_batch_cache([request], new_kvs, [0])
    request.prefill_cursor = end
    if end == len(request.prompt_tokens):
        request.generated_tokens.append(int(logits[0, -1].argmax()))


def decode(model: BaselineGPT, requests: Sequence[BaselineRequest]) -> None:
    """One more token for every request."""
    tokens = torch.tensor([[request.generated_tokens[-1]] for request in requests])  # (B, 1)
    pos = torch.tensor([[len(request.tokens_so_far) - 1] for request in requests])  # (B, 1)
    past_kvs, mask, padding = assemble_batch_cache(requests)
    logits, new_kvs = model(tokens, pos, past_kvs, mask)
    disassemble_batch_cache(requests, new_kvs, padding)
    for request, token in zip(requests, logits[:, -1].argmax(dim=-1), strict=True):
        request.generated_tokens.append(int(token))


def fused_step(
    model: BaselineGPT,
    decoding: Sequence[BaselineRequest],
    prefilling: BaselineRequest | None,
    chunk_size: int,
) -> None:
    """All next tokens and a chunk, if there is one, in one forward, padded to the chunk.

    As in the interleaving post, each request's new K/V is cut out and appended by `torch.cat`.
    """
    longest = chunk_size if prefilling else 1
    padding = [0] * (longest - 1)
    tokens = [[*padding, request.generated_tokens[-1]] for request in decoding]
    pos = [[*padding, len(request.tokens_so_far) - 1] for request in decoding]
    requests, num_new = list(decoding), [1] * len(decoding)
    if prefilling:
        start, end = prefilling.prefill_cursor, prefilling.prefill_cursor + chunk_size
        tokens.append(prefilling.prompt_tokens[start:end])
        pos.append(list(range(start, end)))
        requests.append(prefilling)
        num_new.append(chunk_size)
        if not prefilling.kv_cache:
            empty = torch.empty(1, 0, model.config.head_size, dtype=model.lm_head.weight.dtype)
            for layer in range(model.config.num_layers):
                for head in range(model.config.num_heads):
                    prefilling.kv_cache[layer, head] = (empty, empty)
    past_kvs, mask, _ = assemble_batch_cache(requests)
    new_valid = torch.ones(len(requests), 1, longest, dtype=torch.bool)  # (B, 1, T)
    new_valid[: len(decoding), :, : longest - 1] = False
    mask = torch.cat([mask, new_valid], dim=-1)  # (B, 1, S + T)
    logits, new_kvs = model(torch.tensor(tokens), torch.tensor(pos), past_kvs, mask)
    for layer, kvs in enumerate(new_kvs):
        for head, (k, v) in enumerate(kvs):
            for row, (request, n) in enumerate(zip(requests, num_new, strict=True)):
                old_k, old_v = request.kv_cache[layer, head]
                request.kv_cache[layer, head] = (
                    torch.cat([old_k, k[row : row + 1, -n:]], dim=1),
                    torch.cat([old_v, v[row : row + 1, -n:]], dim=1),
                )
    sampled = logits[:, -1].argmax(dim=-1)
    for request, token in zip(decoding, sampled, strict=False):
        request.generated_tokens.append(int(token))
    if prefilling:
        prefilling.prefill_cursor += chunk_size
        if prefilling.prefill_cursor == len(prefilling.prompt_tokens):
            prefilling.generated_tokens.append(int(sampled[-1]))


@torch.no_grad()
def serve(
    model: BaselineGPT,
    requests: Sequence[BaselineRequest],
    token_budget: int,
    max_batch_size: int,
    *,
    fused: bool = False,
) -> None:
    """Serve everyone, first come first served: one prompt in prefill beside the decodes.

    Each step spends `token_budget` on the decodes first and on the prompt's next chunk then, in
    two forwards, or in one when `fused`.
    Raises: ValueError when `max_batch_size` decodes would leave no budget for a prompt.
    """
    if token_budget <= max_batch_size - 1:
        raise ValueError(
            f"token_budget is {token_budget}; {max_batch_size} requests at once need at least "
            f"{max_batch_size}"
        )
    waiting, active = list(requests), []
    prefilling: BaselineRequest | None = None
    while waiting or prefilling or active:
        if prefilling is None and waiting and len(active) < max_batch_size:
            prefilling = waiting.pop(0)
        decoding = list(active)
        chunk_size = 0
        if prefilling is not None:
            remaining = len(prefilling.prompt_tokens) - prefilling.prefill_cursor
            chunk_size = min(token_budget - len(decoding), remaining)
        if fused:
            fused_step(model, decoding, prefilling, chunk_size)
        elif prefilling is not None:
            prefill_chunk(model, prefilling, chunk_size)
        if prefilling is not None and prefilling.generated_tokens:
            active.append(prefilling)
            prefilling = None
        if decoding and not fused:
            decode(model, decoding)
        active = [request for request in active if not request.is_done]

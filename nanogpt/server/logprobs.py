"""Log probabilities of a text's tokens, for evaluation harnesses.

The engine keeps only the logits that it samples from. So a finished text goes through the model
once more, without a KV cache, in a thread of its own, one text at a time.
"""

import asyncio
import codecs
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

from nanogpt.checkpoints.tokenizer import Tokenizer
from nanogpt.engine import Engine
from nanogpt.posts.oracle import attend_in_window

_ROWS = 64
"""Positions whose logits are in memory at once: those of 1,024 of GPT-2's would be 200 MB."""

LogProbs: TypeAlias = dict[str, list[Any]]
Scores: TypeAlias = list[tuple[float, dict[int, float]]]
"""Each token's log probability, and those of the likeliest tokens in its place."""


class Scorer:
    """Scores texts by an engine's model. For the event loop."""

    def __init__(self, engine: Engine, tokenizer: Tokenizer) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._turn = asyncio.Lock()

    async def logprobs(self, tokens: Sequence[int], first: int, num_likeliest: int) -> LogProbs:
        """The `logprobs` of a completion that shows the tokens from number `first` on."""

        def work() -> LogProbs:
            scores = score(self._engine, tokens, num_likeliest)
            return as_json(tokens, scores, first, self._tokenizer)

        async with self._turn:
            return await asyncio.to_thread(work)


@torch.inference_mode()
def score(engine: Engine, tokens: Sequence[int], num_likeliest: int) -> Scores:
    """Score every token but the first, under the sliding window of the engine."""
    if len(tokens) < 2:
        return []
    model, config = engine.model, engine.config
    length = len(tokens) - 1
    attend = attend_in_window(length, config.sliding_window, config.num_sinks)
    hidden = model.hidden(torch.tensor([tokens[:-1]]), torch.arange(length), attend)[0]  # (T, C)
    scores: Scores = []
    for start in range(0, length, _ROWS):
        logprobs = model.logits(hidden[start : start + _ROWS]).log_softmax(-1).cpu()  # (R, V)
        chosen = tokens[start + 1 : start + 1 + _ROWS]
        likeliest = logprobs.topk(min(num_likeliest, logprobs.shape[-1]))  # (R, K) each
        rows = zip(chosen, logprobs, likeliest.indices, likeliest.values, strict=True)
        for token, row, ids, values in rows:
            best = dict(zip(ids.tolist(), values.tolist(), strict=True))
            scores.append((row[token].item(), best))
    return scores


def as_json(tokens: Sequence[int], scores: Scores, first: int, tokenizer: Tokenizer) -> LogProbs:
    """The `logprobs` of a completion that shows the tokens from number `first` on.

    `scores` are those of all tokens but the very first, which has null. As in the API, the token
    itself is always among the likeliest.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    names = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    record: LogProbs = {name: [] for name in names}
    offset = 0
    for number in range(first, len(tokens)):
        token, likeliest, logprob = tokens[number], None, None
        if number:
            logprob, likeliest = scores[number - 1]
            likeliest = {_name(i, tokenizer): p for i, p in (likeliest | {token: logprob}).items()}
        row = (_name(token, tokenizer), logprob, likeliest, offset)
        for name, value in zip(names, row, strict=True):
            record[name].append(value)
        offset += len(decoder.decode(tokenizer.piece(token)))
    return record


def _name(token: int, tokenizer: Tokenizer) -> str:
    """A token as text; a part of a character as its bytes, as the API writes them."""
    piece = tokenizer.piece(token)
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)

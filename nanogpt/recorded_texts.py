"""Runs without a model: a request's text does not depend on the schedule, so a table can give it.

`Engine(RecordedTexts(), config)` computes nothing and loads no torch; its scheduler, sampler, clock
and trace are those of every engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nanogpt.config import ModelConfig
from nanogpt.executors.base import forward_record
from nanogpt.kv_store import KVStore
from nanogpt.outputs import ModelOutput, Row
from nanogpt.policies import Policies


@dataclass(frozen=True, slots=True)
class RecordedTexts:
    """Takes the place of a model. `texts` has, by request id, its prompt and its generated tokens.

    A request that has no text generates zeros.
    """

    texts: Mapping[int, Sequence[int]] = field(default_factory=dict[int, Sequence[int]])
    config: ModelConfig = field(default_factory=ModelConfig)


class RecordedExecutor:
    """Looks up the token after each row, and counts tokens as the packed form does."""

    name = "packed"
    verifies_drafts = False
    reads_cache = True

    def __init__(self, model: RecordedTexts, cache: KVStore, policies: Policies) -> None:
        self.texts = model.texts
        self.cache = cache

    def execute(self, rows: Sequence[Row]) -> ModelOutput:
        """At any temperature. Raises: ValueError for a row with a grammar."""
        no_logits: Any = None
        if not rows:
            return ModelOutput(no_logits, ())
        if any(row.sampling.matcher is not None for row in rows):
            raise ValueError("recorded texts have no logits, which a grammar would mask")
        best = [self._next_token(row) for row in rows]
        num_tokens = sum([len(row.input_ids) for row in rows])
        return ModelOutput(no_logits, (forward_record(rows, self.cache, num_tokens),), best)

    def _next_token(self, row: Row) -> int:
        text, position = self.texts.get(row.request_id, ()), row.positions[-1] + 1
        return text[position] if position < len(text) else 0

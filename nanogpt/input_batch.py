"""A plan laid out in rows of tokens, which executors run."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.outputs import PrefixHit, Row
from nanogpt.planning import chunk_inputs as reference_inputs
from nanogpt.request import Request
from nanogpt.validate import PolicyError


def make_rows(
    planned: Sequence[tuple[Request, int]],
    hits: Mapping[int, PrefixHit],
    drafts: Mapping[int, tuple[int, ...]],
    chunk_inputs: Callable[..., tuple[list[int], list[int], bool]],
    config: EngineConfig,
    model_config: ModelConfig,
) -> tuple[Row, ...]:
    """The planned tokens as rows, drafts behind the decodes; a prefix hit is not computed again.

    Raises: PolicyError for a row that the model has no embedding for.
    """
    rows: list[Row] = []
    for request, num_scheduled_tokens in planned:
        token_ids = request.tokens_so_far
        context_len = request.num_computed_tokens
        if request.id in hits:
            context_len += hits[request.id].num_tokens
        ids, positions, samples = chunk_inputs(token_ids, context_len, num_scheduled_tokens)
        drafted = drafts.get(request.id, ())
        if drafted:
            ids = [*ids, *drafted]
            positions = [*positions, *range(len(token_ids), len(token_ids) + len(drafted))]
        row = Row(
            request_id=request.id,
            input_ids=ids,
            positions=positions,
            context_len=context_len,
            is_decode=request.status == "active",
            token_ids=token_ids,
            drafted=drafted,
            sampling=request.sampling(config),
            samples=samples,
        )
        rows.append(row)
    if chunk_inputs is not reference_inputs:
        _check_embeddings(rows, model_config)
    return tuple(rows)


def _check_embeddings(rows: Sequence[Row], config: ModelConfig) -> None:
    if not rows or (
        max(chain.from_iterable([row.input_ids for row in rows])) < config.vocab_size
        and max(chain.from_iterable([row.positions for row in rows])) < config.max_model_len
    ):
        return
    for row in rows:
        pairs = (
            ("token", row.input_ids, "vocabulary", config.vocab_size),
            ("position", row.positions, "context", config.max_model_len),
        )
        for what, values, of, size in pairs:
            if max(values) >= size:
                who = f"request {row.request_id}: {what} {max(values)}"
                raise PolicyError(f"{who} is outside the {of} 0..{size - 1}")

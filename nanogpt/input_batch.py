"""A plan laid out in rows of tokens, which executors run."""

from collections.abc import Callable, Mapping, Sequence

from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.outputs import PrefixHit, Row
from nanogpt.request import Request
from nanogpt.validate import PolicyError


def make_rows(
    planned: Sequence[tuple[Request, int]],
    hits: Mapping[int, PrefixHit],
    drafts: Mapping[int, tuple[int, ...]],
    chunk_inputs: Callable[..., tuple[list[int], list[int], bool]],
    config: EngineConfig,
) -> tuple[Row, ...]:
    """The planned tokens as rows, drafts behind the decodes; a prefix hit is not computed again."""
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
    return tuple(rows)


def check_embeddings(rows: Sequence[Row], config: ModelConfig) -> None:
    """Raises: PolicyError for a row that the model has no embedding for."""
    for row in rows:
        pairs = (
            ("token", row.input_ids, "vocabulary", config.vocab_size),
            ("position", row.positions, "context", config.max_model_len),
        )
        for what, values, of, size in pairs:
            outside = [value for value in values if not 0 <= value < size]
            if outside:
                who = f"request {row.request_id}: {what} {outside[-1]}"
                raise PolicyError(f"{who} is outside the {of} 0..{size - 1}")

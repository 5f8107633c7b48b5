"""From a plan to the rows that an executor runs: known tokens, behind those of decodes guesses."""

from collections.abc import Mapping

from nanogpt.config import ModelConfig
from nanogpt.executors.base import Row, row_problem
from nanogpt.parts import ChunkInputs
from nanogpt.parts.guard import PartError
from nanogpt.planning import Plan
from nanogpt.prefix.prefix_cache import NO_HIT, PrefixHit
from nanogpt.request import Request
from nanogpt.speculative.proposal import NO_PROPOSAL, Proposal


def make_rows(
    step: int,
    plan: Plan,
    requests: Mapping[int, Request],
    hits: Mapping[int, PrefixHit],
    proposals: Mapping[int, Proposal],
    chunk_inputs: ChunkInputs,
    config: ModelConfig,
) -> tuple[list[Row], list[bool]]:
    """The planned tokens as rows, and which of the rows sample.

    A newcomer begins behind its hit. Raises: PartError for a row that the model has no embedding
    for.
    """
    rows: list[Row] = []
    sampling: list[bool] = []
    for request_id, num_tokens in plan:
        request = requests[request_id]
        known = request.tokens_so_far
        start = request.prefill_cursor + hits.get(request_id, NO_HIT).num_tokens
        ids, positions, sample = chunk_inputs(known, start, num_tokens)
        proposal = proposals.get(request_id, NO_PROPOSAL)
        row = Row(
            request_id,
            [*ids, *proposal.tokens],
            [*positions, *range(len(known), len(known) + len(proposal.tokens))],
            start,
            request.status == "active",
            known,
            proposal,
        )
        problem = row_problem(row, config)
        if problem:
            raise PartError(f"step {step}, request {request_id}: {problem}")
        rows.append(row)
        sampling.append(sample)
    return rows, sampling

"""Speculative decoding: drafting, and verifying the drafts by the logits of one pass.

    tokens of the row      last known   d1   d2   d3
    what its logits judge      d1       d2   d3   (bonus)

Shapes: K drafts, V vocabulary.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from nanogpt.config import EngineConfig
from nanogpt.executors.base import Executor
from nanogpt.kv_cache_manager import KVCacheManager
from nanogpt.model import GPT
from nanogpt.outputs import Row, Sampled
from nanogpt.policies import Policies
from nanogpt.policies.acceptance import draw
from nanogpt.request import Request
from nanogpt.sampling import (
    SamplingParams,
    masked,
    penalized,
    probabilities,
    sample_tokens,
    uniform,
)
from nanogpt.validate import MOST_INT, show

Draft = Callable[[Sequence[int]], Sequence[float]]
"""A cheap model: the known tokens -> the probabilities of the next, V numbers that sum to 1."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Drafted tokens, and for each the distribution that it was drawn from, V numbers."""

    tokens: tuple[int, ...]
    probabilities: tuple[Sequence[float], ...]


class Drafter:
    """Drafts by a cheap model, judged by rejection sampling. Mutable: the step's proposals."""

    def __init__(
        self, draft: Draft, config: EngineConfig, vocab_size: int, policies: Policies
    ) -> None:
        self.draft = draft
        self.config = config
        self.vocab_size = vocab_size
        self.rejection_sample = policies.rejection_sample
        self._proposals: dict[int, Proposal] = {}

    def propose(
        self,
        planned: Sequence[tuple[Request, int]],
        running: Sequence[Request],
        kv: KVCacheManager,
    ) -> dict[int, tuple[int, ...]]:
        """Guess ahead for the decodes of a plan, which get even shares of the room.

        Raises: ValueError for a draft whose answer is not V probabilities.
        """
        # With more than one token to compute, K/V was rolled back further than it had to be.
        decodes = [r for r, _ in planned if r.status == "active" and r.remaining == 1]
        # With all drafts accepted, the token after them is a request's last.
        most = self.config.num_draft_tokens
        wanted = [max(0, min(most, r.max_new_tokens - r.num_generated - 1)) for r in decodes]
        room = self.config.token_budget - sum(num_tokens for _, num_tokens in planned)
        if kv.max_kv_tokens is not None:
            # Drafts take only KV tokens that no running request has reserved: no preemptions.
            newcomers = [request for request, _ in planned if request.status == "waiting"]
            unreserved = kv.max_kv_tokens - kv.reserve([*running, *newcomers]).kv_tokens
            if kv.block_size > 1:
                wanted = within_blocks(kv, decodes, wanted, unreserved)
            else:
                room = min(room, unreserved)
        self._proposals = {}
        for request, num_tokens in zip(decodes, share_out(room, wanted), strict=True):
            if num_tokens:
                params = request.sampling(self.config)
                proposal = propose(self.draft, request, num_tokens, params, self.vocab_size)
                if proposal.tokens:
                    self._proposals[request.id] = proposal
        return {i: proposal.tokens for i, proposal in self._proposals.items()}

    def judge(self, row: Row, logits: Tensor) -> Sampled:
        """Judge a row's drafts from the first on; the first rejected one is replaced, and ends it.

        Draws are keyed by position and purpose, so one that was not used is as good as new in the
        next pass. With all K accepted, the last logits give one more token for nothing: the bonus.
        A position that has a draft is not drawn as one without, so at a temperature above 0 a seed
        fixes the distribution of a text and not the text. Shapes: logits (K + 1, V).
        """
        proposal, position = self._proposals[row.request_id], len(row.token_ids)
        params = row.sampling
        temperature, seed, request_id = params.temperature, params.seed, params.stream_id
        if params.matcher is not None:
            logits = masked(logits, params.matcher.masks(proposal.tokens))
        if params.logits is not None:  # each draft counts among the output before the next one
            known = [*row.token_ids, *proposal.tokens]
            logits = torch.stack([
                penalized(each, params.logits, known[: position + i], row.num_prompt_tokens)
                for i, each in enumerate(logits)
            ])  # fmt: skip
        target = probabilities(logits, temperature, params.filters).tolist()  # K + 1 lists of V
        for i, (token, q) in enumerate(zip(proposal.tokens, proposal.probabilities, strict=True)):
            u = uniform(seed, request_id, position + i, "accept")
            v = uniform(seed, request_id, position + i, "resample")
            kept, stands = self.rejection_sample(target[i], q, token, u, v)
            if not kept:
                return Sampled(stands, i)
        num_drafts = len(proposal.tokens)
        bonus = uniform(seed, request_id, position + num_drafts, "sample")
        [token] = sample_tokens(logits[-1:], temperature, [bonus], params.filters)
        return Sampled(token, num_drafts)


def make_drafter(
    draft: Draft | None, executor: Executor, model: GPT, config: EngineConfig, policies: Policies
) -> Drafter:
    """An engine's drafter. Raises: ValueError without a draft, or without a way to verify it."""
    asked = f"num_draft_tokens is {config.num_draft_tokens}"
    if not getattr(executor, "verifies_drafts", False):
        raise ValueError(
            f"{asked}; the executor {executor.name!r} gives no logits to verify drafts by, "
            "'packed' does"
        )
    if draft is None:
        raise ValueError(
            f"{asked}, and there is no draft; give one, for example "
            "Engine(..., draft=TrigramDraft.load())"
        )
    return Drafter(draft, config, model.config.vocab_size, policies)


def propose(
    draft: Draft,
    request: Request,
    num_tokens: int,
    params: SamplingParams,
    vocab_size: int,
) -> Proposal:
    """Guess the next tokens of a request, one after the other, as the target draws.

    The token that completes a grammar's text is left to the target: no logits follow it.
    """
    known, num_prompt_tokens = request.tokens_so_far, len(request.prompt_tokens)
    drawn_from: list[Sequence[float]] = []
    matcher = params.matcher
    for _ in range(num_tokens):
        q = checked(draft(known), vocab_size)
        if params.filters is None:
            q = tempered(q, params.temperature)
        else:
            # Never 0, so that one is left where the draft's only tokens are masked.
            scores = torch.tensor(q, dtype=torch.float64).clamp(min=sys.float_info.min).log()
            if matcher is not None:
                scores = masked(scores, matcher.masks()[0])
            if params.logits is not None:
                scores = penalized(scores, params.logits, known, num_prompt_tokens)
            q = probabilities(scores.unsqueeze(0), params.temperature, params.filters)[0].tolist()
        token = draw(q, uniform(params.seed, params.stream_id, len(known), "draft"))
        if matcher is not None and (matcher := matcher.after([token])).is_complete:
            break
        drawn_from.append(q)
        known.append(token)
    return Proposal(tuple(known[request.num_tokens :]), tuple(drawn_from))


def tempered(probabilities: Sequence[float], temperature: float) -> Sequence[float]:
    """The same preferences at another temperature; at 0 all of it on the first of the likeliest.

    A guess is accepted most often when it is drawn as the target draws.
    """
    if temperature == 1:
        return probabilities
    most = max(probabilities)
    if temperature == 0:
        best = list(probabilities).index(most)
        return [float(token == best) for token in range(len(probabilities))]
    weights = [(each / most) ** (1 / temperature) for each in probabilities]
    total = sum(weights)
    return [weight / total for weight in weights]


def checked(answer: Sequence[float], vocab_size: int) -> Sequence[float]:
    """A draft's answer. Raises: ValueError when it is not `vocab_size` probabilities."""
    if len(answer) != vocab_size:
        raise ValueError(f"the draft gave {len(answer)} probabilities; it must be {vocab_size}")
    if max(answer) > MOST_INT:  # no float can hold the sum of such whole numbers
        raise ValueError(f"the draft gave a probability of {show(max(answer))}; it must be up to 1")
    if not (min(answer) >= 0 and math.isclose(sum(answer), 1, abs_tol=1e-6)):
        raise ValueError(
            f"the draft's probabilities sum to {sum(answer):.6g}, the least being "
            f"{min(answer):.6g}; they must sum to 1, and none may be negative"
        )
    return answer


def share_out(room: int, wanted: Sequence[int]) -> list[int]:
    """Deal `room` tokens out one by one, in turns, to none more than it wants.

    >>> share_out(5, [4, 1, 4])
    [2, 1, 2]
    """
    rounds = range(max(wanted, default=0))
    turns = (i for taken in rounds for i, most in enumerate(wanted) if taken < most)
    shares = [0] * len(wanted)
    for i in islice(turns, max(0, room)):
        shares[i] += 1
    return shares


def within_blocks(
    kv: KVCacheManager, decodes: Sequence[Request], wanted: Sequence[int], unreserved: int
) -> list[int]:
    """Limit each decode's drafts to its last block and an even share of the unreserved blocks.

    A draft beyond the request's last block takes up a whole block.
    """
    size = kv.block_size
    more = unreserved // size // max(1, len(decodes)) * size
    return [
        min(most, kv.kv_tokens_charged(r, r.remaining) - r.num_tokens + more)
        for r, most in zip(decodes, wanted, strict=True)
    ]

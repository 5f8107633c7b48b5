"""Drafting: what a draft model is, how many tokens there is room to guess, and the guesses.

`ModelDrafter` is what an engine uses; what becomes of a guess is `verify`'s business.
"""

import math
from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from nanogpt.config import EngineConfig
from nanogpt.executors.base import Executor
from nanogpt.extensions import Drafter
from nanogpt.kv_cache_manager import KVCacheManager
from nanogpt.model import GPT
from nanogpt.outputs import Row, Sampled
from nanogpt.policies import Policies
from nanogpt.policies.acceptance import draw
from nanogpt.request import Request
from nanogpt.sampling import uniform
from nanogpt.speculative.verify import Proposal, RejectionSample, verify


class Draft(Protocol):
    """A cheap model of the next token. V vocabulary."""

    def __call__(self, known: Sequence[int], /) -> Sequence[float]:
        """The probabilities of what follows `known`: V numbers that sum to 1."""
        ...


class ModelDrafter(Drafter):
    """Drafts by a cheap model, judged by rejection sampling. Mutable: the step's proposals."""

    def __init__(
        self, draft: Draft, config: EngineConfig, vocab_size: int, rejection_sample: RejectionSample
    ) -> None:
        self.draft = draft
        self.config = config
        self.vocab_size = vocab_size
        self.rejection_sample = rejection_sample
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
        wanted = [worth_drafting(request, self.config.num_draft_tokens) for request in decodes]
        room = self.config.token_budget - sum(num_tokens for _, num_tokens in planned)
        if kv.max_kv_tokens is not None:
            # Drafts take only KV tokens that no running request has reserved: no preemptions.
            newcomers = [request for request, _ in planned if request.status == "waiting"]
            unreserved = kv.max_kv_tokens - kv.kv_tokens_reserved([*running, *newcomers])
            if kv.block_size > 1:
                wanted = within_blocks(kv, decodes, wanted, unreserved)
            else:
                room = min(room, unreserved)
        self._proposals = {
            request.id: propose(
                self.draft, request, num_tokens, *request.sampling(self.config)[:2], self.vocab_size
            )
            for request, num_tokens in zip(decodes, share_out(room, wanted), strict=True)
            if num_tokens
        }
        return {i: proposal.tokens for i, proposal in self._proposals.items()}

    def judge(self, row: Row, logits: Tensor) -> Sampled:
        """Which of a row's drafts stay, and the token after them. Shapes: logits (K + 1, V)."""
        proposal, position = self._proposals[row.request_id], len(row.token_ids)
        return verify(logits, proposal, position, *row.sampling, self.rejection_sample)


def make_model_drafter(
    draft: Draft | None, executor: Executor, model: GPT, config: EngineConfig, policies: Policies
) -> ModelDrafter:
    """What drafts for an engine. Raises: ValueError without a draft, or what could verify it."""
    if not getattr(executor, "verifies_drafts", False):
        raise ValueError(
            f"num_draft_tokens is {config.num_draft_tokens}; the executor {executor.name!r} gives "
            "no logits to verify drafts by, 'packed' does"
        )
    if draft is None:
        raise ValueError(
            f"num_draft_tokens is {config.num_draft_tokens}, and there is no draft; give one, for "
            "example Engine(..., draft=TrigramDraft.load())"
        )
    return ModelDrafter(draft, config, model.config.vocab_size, policies.rejection_sample)


def propose(
    draft: Draft,
    request: Request,
    num_tokens: int,
    temperature: float,
    seed: int,
    vocab_size: int,
) -> Proposal:
    """Guess the next tokens of a request, one after the other, at the target's temperature."""
    known, name = request.tokens_so_far, request.id if request.seed is None else 0
    probabilities: list[Sequence[float]] = []
    for _ in range(num_tokens):
        q = tempered(checked(draft(known), vocab_size), temperature)
        probabilities.append(q)
        known.append(draw(q, uniform(seed, name, len(known), "draft")))
    return Proposal(tuple(known[request.num_tokens :]), tuple(probabilities))


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
    shares = [0] * len(wanted)
    for _ in range(max(wanted, default=0)):
        for i in range(len(wanted)):
            if room > 0 and shares[i] < wanted[i]:
                shares[i] += 1
                room -= 1
    return shares


def worth_drafting(request: Request, num_draft_tokens: int) -> int:
    """How many drafts a decode can use: with all accepted, the token after them is its last."""
    return max(0, min(num_draft_tokens, request.max_new_tokens - request.num_generated - 1))


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

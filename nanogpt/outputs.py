"""The records that scheduler, executor and sampler hand on: frozen, and gone with the step.

Shapes: R logits (one for each row, and one more for each draft), V vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.planning import Candidates, Plan
from nanogpt.policies.queueing import ResumeState
from nanogpt.request import Request
from nanogpt.sampling import GREEDY, SamplingParams
from nanogpt.trace import ForwardRecord
from nanogpt.validate import PolicyError

if TYPE_CHECKING:
    from torch import Tensor
from nanogpt.views.request_view import Key


class Row(Struct, frozen=True):
    """One request's tokens in this step: T ids, and the positions to embed them at.

    The K/V of `input_ids[i]` belongs to position `context_len + i`. `token_ids` are all tokens that
    the request knows, computed or not; the first `num_prompt_tokens` are its prompt. `drafted` are
    guessed tokens, with which the row ends.
    """

    request_id: int
    input_ids: Sequence[int]
    positions: Sequence[int]
    context_len: int
    is_decode: bool
    token_ids: Sequence[int]
    drafted: tuple[int, ...] = ()
    sampling: SamplingParams = GREEDY
    samples: bool = True
    num_prompt_tokens: int = 0

    @classmethod
    def of(
        cls,
        request: Request,
        num_scheduled_tokens: int,
        hits: Mapping[int, "PrefixHit"],
        drafts: Mapping[int, tuple[int, ...]],
        chunk_inputs: Callable[..., tuple[list[int], list[int], bool]],
        config: EngineConfig,
    ) -> Self:
        """The planned tokens, drafts behind a decode; a prefix hit is not computed again."""
        token_ids = request.tokens_so_far
        context_len = request.num_computed_tokens
        if request.id in hits:
            context_len += hits[request.id].num_tokens
        ids, positions, samples = chunk_inputs(token_ids, context_len, num_scheduled_tokens)
        drafted = drafts.get(request.id, ())
        if drafted:
            ids = [*ids, *drafted]
            positions = [*positions, *range(len(token_ids), len(token_ids) + len(drafted))]
        is_decode, sampling = request.status == "active", request.sampling(config)
        return cls(
            request.id,
            ids,
            positions,
            context_len,
            is_decode,
            token_ids,
            drafted,
            sampling,
            samples,
            len(request.prompt_tokens),
        )

    @property
    def num_logits(self) -> int:
        """How many of the row's last tokens get logits: the last known one and every draft.

        A row that does not sample has them too; the sampler ignores them.
        """
        return 1 + len(self.drafted)

    @property
    def seq_len(self) -> int:
        """How many positions there are up to the row's last token."""
        return self.context_len + len(self.input_ids)

    def new_tokens(self, sampled: Mapping[int, "Sampled"]) -> list[int]:
        """The tokens that the row gives its request: accepted drafts, and the sampled one."""
        own = sampled.get(self.request_id)
        return [] if own is None else [*self.drafted[: own.num_accepted], own.token]

    def check_embeddings(self, config: ModelConfig) -> None:
        """Raises: PolicyError for a token or a position that the model has no embedding for."""
        pairs = (
            ("token", self.input_ids, "vocabulary", config.vocab_size),
            ("position", self.positions, "context", config.max_model_len),
        )
        for what, values, of, size in pairs:
            outside = [value for value in values if not 0 <= value < size]
            if outside:
                who = f"request {self.request_id}: {what} {outside[-1]}"
                raise PolicyError(f"{who} is outside the {of} 0..{size - 1}")


class PrefixHit(Struct, frozen=True):
    """The blocks that hold the first `num_tokens` of a request's tokens.

    None is a block that has to be loaded from the host tier; with one, `hashes` are the blocks'.
    """

    blocks: tuple[int | None, ...]
    num_tokens: int
    hashes: tuple[str, ...] = ()


class Requeue(Struct, frozen=True):
    """A request to preempt, what it goes back to the queue with, its key there, and the reason."""

    request: Request
    state: ResumeState
    key: Key
    reason: str


class SchedulerOutput(Struct, frozen=True):
    """The schedule of a step. Nothing of it has happened yet.

    `kv_before` are the KV tokens held, and `active_ids` the requests that decode, when it was
    scheduled. `hits` are those of the candidates. `blocked` says why the first waiting request that
    is no candidate could not start.
    """

    step: int
    start_us: int
    kv_before: int
    active_ids: tuple[int, ...]
    preempted: tuple[Requeue, ...]
    candidates: Candidates
    blocked: str | None
    plan: Plan
    hits: Mapping[int, PrefixHit]
    rows: tuple[Row, ...]

    @property
    def prefix_hits(self) -> dict[int, PrefixHit]:
        """The hits of the admitted requests, by id."""
        return {i: self.hits[i] for i in self.admitted if i in self.hits} if self.hits else {}

    @property
    def admitted(self) -> tuple[int, ...]:
        """The waiting requests that start in this step, by id."""
        could_start = dict(self.candidates.waiting)
        if not could_start:
            return ()
        return tuple(row.request_id for row in self.rows if row.request_id in could_start)


class ModelOutput(Struct, frozen=True):
    """`logits` (R, V) after the last token of each row, and the forward passes that it took.

    A row with K drafts has K + 1 logits, one after another. `best` is the most likely token of each
    of the R, or -1 where a logit is not finite, if the executor knows.
    """

    logits: "Tensor"
    forwards: tuple[ForwardRecord, ...]
    best: Sequence[int] | None = None


class Sampled(Struct, frozen=True, gc=False):
    """The tokens of one row: the first `num_accepted` drafts, and `token` after them."""

    token: int
    num_accepted: int = 0


class Update(Struct, frozen=True):
    """The changes of a step, by request id: tokens computed by now, KV tokens charged, new tokens,
    and where a grammar's text has come to.

    `kv_peak` are the KV tokens held when preempted requests are freed and all new K/V is written,
    and rejected drafts, evicted K/V and finished requests are not freed yet.
    """

    kv_peak: int
    num_computed_tokens: Mapping[int, int]
    kv_tokens_charged: Mapping[int, int]
    new_tokens: Mapping[int, Sequence[int]]
    finished: tuple[int, ...]
    matchers: Mapping[int, Any]


class NotFiniteError(ValueError):
    """Logits with NaN or infinity in them; `request_ids` says whose."""

    def __init__(self, step: int, request_ids: list[int]) -> None:
        super().__init__(
            f"step {step}: the logits of request {request_ids[0]} are not finite (NaN or "
            "infinity); the step was dropped"
        )
        self.request_ids = request_ids


def logits_starts(rows: Sequence[Row]) -> list[int]:
    """Where each row's logits begin, and where the last one's end."""
    return [0, *accumulate([1 + len(row.drafted) for row in rows])]

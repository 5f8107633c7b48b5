"""One step in flight: what was decided, what runs, what came out, and what its record says.

The engine makes a `Step` when it begins one and drops it with the record: nothing outlives a step
but what was committed. Whatever a feature adds to a step comes in here: K/V of shared prefixes that
a newcomer need not compute, and drafts behind a decode's token.

Shapes: R logits (one per row and one more per draft), V vocabulary.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import isfinite

from torch import Tensor

from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.executors.base import KVStore, Row, row_problem
from nanogpt.parts import ChunkInputs
from nanogpt.parts.seams import BlockHit, Drafter, Drawn
from nanogpt.planning import Offer, Plan
from nanogpt.request import OwnKV, Request
from nanogpt.sampling import sample_tokens, uniform
from nanogpt.scheduler import Scheduler, WayBack
from nanogpt.trace import (
    ForwardRecord,
    KVRecord,
    PrefixHitRecord,
    RequestRecord,
    StepRecord,
    WaitRecord,
    WorkRecord,
)
from nanogpt.validate import PartError


class NotFiniteError(ValueError):
    """Logits with NaN or infinity in them; `request_ids` says whose."""

    def __init__(self, step: int, request_ids: list[int]) -> None:
        super().__init__(
            f"step {step}: the logits of request {request_ids[0]} are not finite (NaN or "
            "infinity); the step was dropped"
        )
        self.request_ids = request_ids


# --- the step -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Step:
    """What is in flight. `leaving` go, each with its way back; `startable` may begin.

    Mutable, and filled in the order of its fields: decided, planned, run, drawn, committed.
    """

    number: int
    start_us: int
    kv_before: int
    leaving: Sequence[tuple[Request, WayBack]]
    reasons: Mapping[int, str]  # why each of them leaves, by id
    blocked: str | None  # why the first waiting request that was not offered could not start
    hits: dict[int, BlockHit | None]  # of the startable, by id
    offer: Offer
    plan: Plan = field(default_factory=list[tuple[int, int]])
    rows: Sequence[Row] = ()
    sampling: Sequence[bool] = ()
    forwards: tuple[ForwardRecord, ...] = ()
    drawn: Mapping[int, Drawn] = field(default_factory=dict[int, Drawn])
    computed: dict[int, int] = field(default_factory=dict[int, int])
    counted: dict[int, int] = field(default_factory=dict[int, int])
    kv_peak: int = 0
    sampled: dict[int, list[int]] = field(default_factory=dict[int, list[int]])  # new tokens
    left: dict[int, OwnKV] = field(default_factory=dict[int, OwnKV])  # K/V of the finished
    given_up: Sequence[int] = ()

    @property
    def newcomers(self) -> list[int]:
        """The waiting requests that begin in this step, by id."""
        return [row.request_id for row in self.rows if row.request_id in self.hits]


def make_rows(
    step: Step,
    requests: Mapping[int, Request],
    drafts: Mapping[int, tuple[int, ...]],
    chunk_inputs: ChunkInputs,
    config: ModelConfig,
    settings: EngineConfig,
) -> tuple[list[Row], list[bool]]:
    """The planned tokens as rows, and which of the rows sample.

    A newcomer begins behind its hit. Raises: PartError for a row that the model has no embedding
    for.
    """
    rows: list[Row] = []
    sampling: list[bool] = []
    for request_id, num_tokens in step.plan:
        request = requests[request_id]
        known = request.tokens_so_far
        hit = step.hits.get(request_id)
        start = request.prefill_cursor + (hit.num_tokens if hit else 0)
        ids, positions, sample = chunk_inputs(known, start, num_tokens)
        drafted = drafts.get(request_id, ())
        row = Row(
            request_id,
            [*ids, *drafted],
            [*positions, *range(len(known), len(known) + len(drafted))],
            start,
            request.status == "active",
            known,
            drafted,
            request.sampling(settings),
        )
        problem = row_problem(row, config)
        if problem:
            raise PartError(f"step {step.number}, request {request_id}: {problem}")
        rows.append(row)
        sampling.append(sample)
    return rows, sampling


def draw_tokens(step: Step, logits: Tensor, drafter: Drafter) -> dict[int, Drawn]:
    """What each sampling row gives its request, by request id, in the rows' order.

    Shapes: logits (R, V). Raises: NotFiniteError naming a request whose logits are not finite.
    """
    rows = step.rows
    starts = list(accumulate((row.num_logits for row in rows), initial=0))
    _check_finite(step, logits, starts)
    chosen = [i for i, samples in enumerate(step.sampling) if samples]
    plain = [i for i in chosen if not rows[i].drafted]
    drawn: dict[int, Drawn] = {}
    for temperature in {rows[i].sampling[0] for i in plain}:
        alike = [i for i in plain if rows[i].sampling[0] == temperature]
        draws = [
            uniform(*rows[i].sampling[1:], len(rows[i].known), "sample")
            for i in alike
            if temperature
        ]
        own = logits if len(alike) == len(logits) else logits[[starts[i] for i in alike]]
        tokens = sample_tokens(own, temperature, draws)
        drawn |= {i: Drawn(token) for i, token in zip(alike, tokens, strict=True)}
    for i in chosen:
        if rows[i].drafted:
            drawn[i] = drafter.judge(rows[i], logits[starts[i] : starts[i + 1]])
    return {rows[i].request_id: drawn[i] for i in chosen}


def _check_finite(step: Step, logits: Tensor, starts: Sequence[int]) -> None:
    if isfinite(logits.sum()) or logits.isfinite().all():  # a sum may overflow where none did
        return
    fine: list[bool] = logits.isfinite().all(dim=-1).tolist()  # (R,)
    own = zip(step.rows, starts, starts[1:], strict=False)
    raise NotFiniteError(step.number, [row.request_id for row, a, b in own if not all(fine[a:b])])


# --- its record -----------------------------------------------------------------------------------


def request_record(request: Request, now_us: int) -> RequestRecord:
    """A request as it has just arrived."""
    return RequestRecord(
        id=request.id,
        prompt_tokens=tuple(request.prompt_tokens),
        max_new_tokens=request.max_new_tokens,
        priority=request.priority,
        arrival_step=request.arrival_time,
        arrival_us=now_us,
        temperature=request.temperature,
        seed=request.seed,
        cache_salt=request.cache_salt,
    )


def step_record(step: Step, scheduler: Scheduler, cache: KVStore, *, end_us: int) -> StepRecord:
    """What a committed step leaves behind; it grows with what runs, and not with what waits."""
    holders = cache.holders()
    spent = sum(num_tokens for _, num_tokens in step.plan) >= scheduler.token_budget
    passed_over = "the token budget is spent" if spent else "the plan left it out"
    return StepRecord(
        step=step.number,
        start_us=step.start_us,
        end_us=end_us,
        token_budget=scheduler.token_budget,
        work=tuple(_work(row, step.drawn.get(row.request_id)) for row in step.rows),
        waits=tuple(_waits(step, scheduler, passed_over)),
        admitted=tuple(step.newcomers),
        preempted=tuple(victim.id for victim, _ in step.leaving),
        finished=tuple(step.left),
        forwards=step.forwards,
        kv_before=step.kv_before,
        kv_after=sum(map(cache.length, holders)),
        kv_peak=step.kv_peak,
        kv=tuple(
            KVRecord(i, cache.length(i), step.counted[i], cache.live_bytes(i)) for i in holders
        ),
        prefix_hits=tuple(
            PrefixHitRecord(i, hit.num_tokens) for i, hit in step.hits.items() if hit
        ),
        blocked=(step.blocked or passed_over) if scheduler.waiting else None,
        given_up=tuple(step.given_up),
    )


def _work(row: Row, drawn: Drawn | None) -> WorkRecord:
    kind = "decode" if row.is_decode else "prefill"
    done = row.request_id, kind, row.num_past, row.context_len
    if drawn is None:
        return WorkRecord(*done, None)
    return WorkRecord(*done, drawn.last, row.drafted, drawn.num_accepted)


def _waits(step: Step, scheduler: Scheduler, passed_over: str) -> Iterator[WaitRecord]:
    """What got no tokens for a reason of its own: as much as runs, however long the queue is."""
    offer, served = step.offer, {request_id for request_id, _ in step.plan}
    for victim, _ in step.leaving:
        yield WaitRecord(victim.id, "waiting", step.reasons[victim.id])
    offered = {*offer.decodes, *dict(offer.prefilling)}
    for request in (*scheduler.active, *scheduler.prefilling):
        if request.id not in served:
            status = "active" if request.status == "active" else "prefilling"
            reason = passed_over if request.id in offered else step.blocked or passed_over
            yield WaitRecord(request.id, status, reason)
    for request_id, _ in offer.waiting:
        if request_id not in served:
            yield WaitRecord(request_id, "waiting", passed_over)

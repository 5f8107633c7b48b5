"""The record of a step, as frozen plain data: the plan is the trace, and every picture reads it.

Knows no engine and no tensors. Times are integer microseconds of the engine's clock; ranges are
half-open. A record that every step makes is a `Struct`, which is faster to create than a dataclass.
`to_json` gives what the widgets draw; `SCHEMA_VERSION` changes when readers would break.
"""

from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct, json, structs

from nanogpt.sampling import LogitsParams

SCHEMA_VERSION = 2


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request as it arrived. `arrival_us` is the clock's time at the start of `arrival_step`.

    `temperature` and `seed` are the engine's where they are None.
    """

    id: int
    prompt_tokens: tuple[int, ...]
    max_new_tokens: int
    priority: int
    arrival_step: int
    arrival_us: int
    temperature: float | None = None
    seed: int | None = None
    cache_salt: str | None = None
    logits_params: LogitsParams | None = None


class WorkRecord(Struct, frozen=True, gc=False):
    """One request's share of a step: known tokens [start, end) went through the model.

    `kind` is "prefill" until the request has sampled from its last known token, then "decode":
    one token, followed by those that were `drafted`. The first `num_accepted` of these stayed.
    `sampled` is the token drawn after them, None in mid-prefill.
    """

    request_id: int
    kind: Literal["prefill", "decode"]
    start: int
    end: int
    sampled: int | None
    drafted: tuple[int, ...] = ()
    num_accepted: int = 0

    @property
    def tokens(self) -> tuple[int, ...]:
        """The request's tokens of the step: accepted drafts, and the token after them."""
        return () if self.sampled is None else (*self.drafted[: self.num_accepted], self.sampled)


@dataclass(frozen=True, slots=True)
class WaitRecord:
    """A request that had something to do and got nothing, and the reason in words."""

    request_id: int
    status: Literal["waiting", "prefilling", "active"]
    reason: str


class ForwardRecord(Struct, frozen=True, gc=False):
    """One call of the model: tokens asked for, and tokens computed once padding is counted.

    `prefill_tokens` is the part of `useful_tokens` that is prefill; `context_tokens` sums, over
    the rows, the K/V entries, held and new, that the row's attention reads.
    """

    useful_tokens: int
    prefill_tokens: int
    computed_tokens: int
    context_tokens: int


@dataclass(frozen=True, slots=True)
class PrefixHitRecord:
    """An admitted request whose first `num_tokens` were found in shared blocks: not computed."""

    request_id: int
    num_tokens: int


class KVRecord(Struct, frozen=True, gc=False):
    """How many tokens' K/V one request holds after the step.

    `kv_tokens_charged` is what the scheduler charges it, and `live_bytes` the memory that its
    K/V keeps from others.
    """

    request_id: int
    kv_tokens: int
    kv_tokens_charged: int
    live_bytes: int


class StepRecord(Struct, frozen=True):
    """One scheduler iteration, whole: who computed what, who waited and why, and what it cost.

    `preempted` and `admitted` happened before the work, `finished` after it. `kv_before` and
    `kv_after` are KV tokens summed over all requests; `kv` splits `kv_after` by request. `kv_peak`
    is the peak within the step: all new K/V is there before any is evicted or released.
    `prefix_hits` are those of the admitted. `waits` lists the requests that wait for a reason of
    their own. All others in the queue wait because of `blocked` (None: the queue is empty), and
    `experiments.trace_waits` finds them. `aborted` were removed unfinished since the step before.
    """

    step: int
    start_us: int
    end_us: int
    token_budget: int
    work: tuple[WorkRecord, ...]
    waits: tuple[WaitRecord, ...]
    admitted: tuple[int, ...]
    preempted: tuple[int, ...]
    finished: tuple[int, ...]
    forwards: tuple[ForwardRecord, ...]
    kv_before: int
    kv_after: int
    kv_peak: int
    kv: tuple[KVRecord, ...]
    prefix_hits: tuple[PrefixHitRecord, ...]
    blocked: str | None
    aborted: tuple[int, ...]

    @property
    def used_tokens(self) -> int:
        """Tokens of work in the step, padding not counted: what the token budget limits."""
        return sum(work.end - work.start for work in self.work)

    @property
    def duration_us(self) -> int:
        """How long the step took on the engine's clock."""
        return self.end_us - self.start_us


@dataclass(frozen=True, slots=True)
class BlocksRecord:
    """The pool after a step, and what the step did to it. Blocks are numbers from 0.

    `tables` are (request id, its blocks) of what runs; how often a block stands in them is its
    count. `idle` are free but still found by their hash, the next to give way first; what is in
    neither is empty. `evicted` are found no more; `published` are (block, hash) found from now on,
    and a hash stays with its block until that is evicted.
    """

    block_size: int
    num_blocks: int
    tables: tuple[tuple[int, tuple[int, ...]], ...]
    idle: tuple[int, ...]
    allocated: tuple[int, ...]
    freed: tuple[int, ...]
    evicted: tuple[int, ...]
    published: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class HostRecord:
    """The host tier after a step, and what the step copied. A block there is known by its hash.

    Up to `num_blocks` are held, `hashes`, the first to be dropped first, of `block_bytes` each.
    `loaded` are (request id, block, hash) copied to the pool before the step; `stored` were copied
    from it, and `dropped` are held no more.
    """

    num_blocks: int
    block_bytes: int
    hashes: tuple[str, ...]
    loaded: tuple[tuple[int, int, str], ...]
    stored: tuple[str, ...]
    dropped: tuple[str, ...]


class BlockStepRecord(StepRecord, frozen=True, omit_defaults=True):
    """A step's record in a run with blocks, and with a host tier behind them if there is one."""

    blocks: BlocksRecord
    host: HostRecord | None = None


def with_blocks(
    record: StepRecord, blocks: BlocksRecord, host: HostRecord | None = None
) -> BlockStepRecord:
    """The same step, and what it did to the pool and to the host tier, if there is one."""
    return BlockStepRecord(**structs.asdict(record), blocks=blocks, host=host)


@dataclass(frozen=True, slots=True)
class ClockRecord:
    """Whose time the trace shows: `name` for people, `modelled` when no machine was timed."""

    name: str
    modelled: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole run: the requests, the limits, the steps; `error` when the run stopped early.

    `aborted` are the requests that were taken out unfinished after the newest step.
    `sliding_window` is None when everything is kept; `num_sinks` counts only under a window.
    """

    clock: ClockRecord
    executor: str
    token_budget: int
    max_kv_tokens: int | None
    requests: tuple[RequestRecord, ...]
    steps: tuple[StepRecord, ...]
    error: str | None = None
    sliding_window: int | None = None
    num_sinks: int = 0
    aborted: tuple[int, ...] = ()

    def request(self, request_id: int) -> RequestRecord:
        """The request with this id. Raises: KeyError when the trace has none."""
        for request in self.requests:
            if request.id == request_id:
                return request
        raise KeyError(request_id)

    def generated_tokens(self, request_id: int) -> tuple[int, ...]:
        """Every token that the request was given, in order."""
        return tuple(
            token
            for step in self.steps
            for work in step.work
            if work.request_id == request_id
            for token in work.tokens
        )

    def to_json(self) -> dict[str, Any]:
        """Dicts, lists, numbers, strings and None, with the schema's version."""
        return {"version": SCHEMA_VERSION, **plain(self)}


def plain(record: Any) -> Any:
    """Frozen records to dicts and tuples to lists, all the way down."""
    return json.decode(json.encode(record))

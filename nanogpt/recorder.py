"""The trace of a run as it grows: requests when they arrive, steps when they have committed."""

from collections import deque
from collections.abc import Iterator, Mapping

from nanogpt.clock import Clock
from nanogpt.config import EngineConfig
from nanogpt.kv_store import KVStore
from nanogpt.outputs import ModelOutput, Row, Sampled, SchedulerOutput, Update
from nanogpt.request import Request
from nanogpt.scheduler import Scheduler
from nanogpt.trace import (
    KVRecord,
    PrefixHitRecord,
    RequestRecord,
    StepRecord,
    Trace,
    WaitRecord,
    WorkRecord,
)


class Recorder:
    """Keeps the records of a run.

    Mutable: the requests that `arrived`, by id, the `steps`, and the ids of the requests that were
    `aborted` since the newest step.
    """

    def __init__(self, scheduler: Scheduler, cache: KVStore, clock: Clock) -> None:
        self.scheduler = scheduler
        self.cache = cache
        self.clock = clock
        self.arrived: dict[int, RequestRecord] = {}
        self.steps = deque[StepRecord]()
        self.aborted: list[int] = []

    def arrive(self, request: Request) -> None:
        """Record a request that has just arrived."""
        self.arrived[request.id] = RequestRecord(
            id=request.id,
            prompt_tokens=tuple(request.prompt_tokens),
            max_new_tokens=request.max_new_tokens,
            priority=request.priority,
            arrival_step=request.arrival_time,
            arrival_us=self.clock.now_us(),
            temperature=request.temperature,
            seed=request.seed,
            cache_salt=request.cache_salt,
            logits_params=request.logits_params,
        )

    def record(
        self,
        scheduled: SchedulerOutput,
        output: ModelOutput,
        sampled: Mapping[int, Sampled],
        update: Update,
    ) -> StepRecord:
        """Record a committed step."""
        cache, budget = self.cache, self.scheduler.config.token_budget
        holders = cache.holders()
        lengths = [cache.length(request_id) for request_id in holders]
        spent = sum([num_tokens for _, num_tokens in scheduled.plan]) >= budget
        passed_over = "the token budget is spent" if spent else "the plan left it out"
        aborted, self.aborted = self.aborted, []
        record = StepRecord(
            step=scheduled.step,
            start_us=scheduled.start_us,
            end_us=self.clock.now_us(),
            token_budget=budget,
            work=tuple([_work(row, sampled.get(row.request_id)) for row in scheduled.rows]),
            waits=tuple(self._waits(scheduled, passed_over)),
            admitted=scheduled.admitted,
            preempted=tuple([requeue.request.id for requeue in scheduled.preempted]),
            finished=update.finished,
            forwards=output.forwards,
            kv_before=scheduled.kv_before,
            kv_after=sum(lengths),
            kv_peak=update.kv_peak,
            kv=tuple(
                [
                    KVRecord(i, length, update.kv_tokens_charged[i], cache.live_bytes(i))
                    for i, length in zip(holders, lengths, strict=True)
                ]
            ),
            prefix_hits=tuple(
                [PrefixHitRecord(i, hit.num_tokens) for i, hit in scheduled.prefix_hits.items()]
            ),
            blocked=(scheduled.blocked or passed_over) if self.scheduler.waiting else None,
            aborted=tuple(aborted),
        )
        self.steps.append(cache.annotate(record))
        return self.steps[-1]

    def trace(self, config: EngineConfig, executor: str, error: str | None) -> Trace:
        """All records that are kept; `error` says why the run stopped early, if it did."""
        return Trace(
            clock=self.clock.record,
            executor=executor,
            token_budget=config.token_budget,
            max_kv_tokens=config.max_kv_tokens,
            requests=tuple(self.arrived.values()),
            steps=tuple(self.steps),
            error=error,
            sliding_window=config.sliding_window,
            num_sinks=config.num_sinks,
            aborted=tuple(self.aborted),
        )

    def _waits(self, scheduled: SchedulerOutput, passed_over: str) -> Iterator[WaitRecord]:
        """A record for each preempted, running or admissible request that got no tokens.

        The rest of the queue shares `blocked`, so a record does not grow with the queue.
        """
        candidates, served = scheduled.candidates, dict(scheduled.plan)
        for requeue in scheduled.preempted:
            yield WaitRecord(requeue.request.id, "waiting", requeue.reason)
        for request in [r for r in self.scheduler.running() if r.id not in served]:
            could_run = request.id in {*candidates.decodes, *dict(candidates.prefilling)}
            status = "active" if request.status == "active" else "prefilling"
            reason = passed_over if could_run else scheduled.blocked
            yield WaitRecord(request.id, status, reason or passed_over)
        for request_id, _ in candidates.waiting:
            if request_id not in served:
                yield WaitRecord(request_id, "waiting", passed_over)


def _work(row: Row, sampled: Sampled | None) -> WorkRecord:
    kind, start = "decode" if row.is_decode else "prefill", row.context_len
    end = start + len(row.input_ids)
    if sampled is None:
        return WorkRecord(row.request_id, kind, start, end, None)
    accepted = sampled.num_accepted
    return WorkRecord(row.request_id, kind, start, end, sampled.token, row.drafted, accepted)

"""What a preemption was, as frozen plain data, for the vote board and the benchmark."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nanogpt.preemption.monitor import Decision
from nanogpt.preemption.rank_messages import CheckRecord
from nanogpt.preemption.tensor_parallel import Preempted
from nanogpt.trace import StepRecord, WaitRecord


@dataclass(frozen=True, slots=True)
class PreemptionRecord:
    """One pass that all ranks left, for the request `waiter` (None if unknown).

    `victims` had their prefill in it; `checks` are the attention ops that each rank reached. Times
    are nanoseconds of the monotonic clock: when the pass began, the target was written, and the
    last rank replied; `resumed_ns` is None for a pass that was aborted.
    """

    step: int
    pass_number: int
    layer: int
    num_layers: int
    waiter: int | None
    victims: tuple[int, ...]
    begun_ns: int
    written_ns: int | None
    replied_ns: int
    resumed_ns: int | None
    checks: tuple[tuple[CheckRecord, ...], ...]

    @property
    def wasted_share(self) -> float:
        """The share of the pass that was computed in vain, 0 to 1."""
        return self.layer / self.num_layers if self.resumed_ns is None else 0.0

    def to_json(self) -> dict[str, Any]:
        """As dicts, tuples, numbers and None."""
        return dataclasses.asdict(self)


def preemption_record(
    step: int,
    preempted: Preempted,
    num_layers: int,
    decision: Decision | None,
    begun_ns: int,
    replied_ns: int,
    resumed_ns: int | None,
) -> PreemptionRecord:
    """The record of one preemption, from the engine, the monitor and the ranks."""
    asked = decision if decision and decision.target.step == preempted.step else None
    return PreemptionRecord(
        step=step,
        pass_number=preempted.step,
        layer=preempted.layer,
        num_layers=num_layers,
        waiter=asked.target.waiter if asked else None,
        victims=tuple(row.request_id for row in preempted.rows if not row.is_decode),
        begun_ns=begun_ns,
        written_ns=asked.written_ns if asked else None,
        replied_ns=replied_ns,
        resumed_ns=resumed_ns,
        checks=tuple(
            reply.checks for reply in sorted(preempted.outcome.replies, key=lambda r: r.rank)
        ),
    )


def aborted_step(
    step: int,
    start_us: int,
    end_us: int,
    token_budget: int,
    kv_before: int,
    kv_after: int,
    victims: Sequence[int],
    layer: int,
    waiter: int | None,
) -> StepRecord:
    """The record of a step whose pass was aborted: no work, and its prefills wait again."""
    for_whom = "" if waiter is None else f", for request {waiter}"
    reason = f"its pass was aborted at layer {layer}{for_whom}"
    return StepRecord(
        step=step,
        start_us=start_us,
        end_us=end_us,
        token_budget=token_budget,
        work=(),
        waits=tuple(WaitRecord(victim, "waiting", reason) for victim in victims),
        admitted=(),
        preempted=tuple(victims),
        finished=(),
        forwards=(),
        kv_before=kv_before,
        kv_after=kv_after,
        kv_peak=kv_before,
        kv=(),
    )

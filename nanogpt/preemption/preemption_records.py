"""The record of a preemption, as frozen plain data, for the vote board and the benchmark."""

from dataclasses import dataclass

from nanogpt.preemption.rank_messages import CheckRecord
from nanogpt.trace import StepRecord, WaitRecord


@dataclass(frozen=True, slots=True)
class PreemptionRecord:
    """One pass that all ranks left, for the request `candidate` (None if unknown).

    `victims` had their prefill in it; `checks` are the attention ops that each rank reached. Times
    are nanoseconds of the monotonic clock: when the pass began, the target was written, and the
    last rank replied; `resumed_ns` is None for a pass that was aborted.
    """

    step: int
    pass_number: int
    layer: int
    num_layers: int
    candidate: int | None
    victims: tuple[int, ...]
    begun_ns: int
    written_ns: int | None
    replied_ns: int
    resumed_ns: int | None
    checks: tuple[tuple[CheckRecord, ...], ...]


class Preempted(Exception):
    """The ranks left the pass, and nothing that it computed counts."""

    def __init__(self, record: PreemptionRecord) -> None:
        super().__init__(f"pass {record.pass_number} was left at layer {record.layer}")
        self.record = record


def aborted_step(
    record: PreemptionRecord,
    start_us: int,
    end_us: int,
    token_budget: int,
    kv_before: int,
    kv_after: int,
) -> StepRecord:
    """The record of a step whose pass was aborted: no work, and its prefills wait again."""
    for_whom = "" if record.candidate is None else f", for request {record.candidate}"
    reason = f"its pass was aborted at layer {record.layer}{for_whom}"
    return StepRecord(
        step=record.step,
        start_us=start_us,
        end_us=end_us,
        token_budget=token_budget,
        work=(),
        waits=tuple(WaitRecord(victim, "waiting", reason) for victim in record.victims),
        admitted=(),
        preempted=record.victims,
        finished=(),
        forwards=(),
        kv_before=kv_before,
        kv_after=kv_after,
        kv_peak=kv_before,
        kv=(),
        prefix_hits=(),
        blocked=None,
        aborted=(),
    )

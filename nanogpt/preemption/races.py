"""The races of a preempted pass: each replaces one function of the reference by a wrong one.

Never used in service: the race lab and the tests replace one function and run the rest as it is.

    function of           the wrong one              what goes wrong
    Signal              FLAG                       a flag does not say which step it means
    RankPolicies        leave_alone                who has read the target leaves without a vote
    RankPolicies        leave_first                who votes 1 leaves before the collective
    RunnerPolicies      read_until_preempted       replies stay behind in their sockets
    RunnerPolicies      believe_target             a target that no rank saw counts as a preemption
    Preemption          keep_previous_step         the state still records an aborted step
    MonitorPolicies     only_the_snapshot          arrivals in mid-pass are not seen
    GatePolicies        without_progress           healthy runners look doomed
    GatePolicies        nobody_is_immune           two requests preempt each other for ever
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nanogpt.preemption.agreement import PreemptionPoint, Signal
from nanogpt.preemption.cleanup import rollback_step
from nanogpt.preemption.monitor import Arrival, Snapshot
from nanogpt.preemption.pass_outcome import Abandoned, NextReply, Outcome, judge
from nanogpt.preemption.rank_messages import Done, Left, Reply
from nanogpt.preemption.scheduler_state import SchedulerState
from nanogpt.preemption.shared_state import NOTHING, SharedState
from nanogpt.slo.slo_view import SloRequest


def raise_flag(shared: SharedState, step: int) -> None:
    """Ask for a preemption, without saying of what."""
    shared.target = 1


def vote_if_flagged(target: int, step: int, layer: int, num_layers: int) -> int:
    """Vote to leave whatever runs."""
    return int(target != NOTHING)


def clear_flag(shared: SharedState) -> None:
    """Take the flag down after a pass; a monitor that is late puts it up again."""
    shared.target = NOTHING


FLAG = Signal(raise_flag, vote_if_flagged, clear_flag)
"""A boolean that is cleared after every step."""


def leave_alone(vote: int) -> PreemptionPoint:
    """Leave as soon as the own vote says so; the others may have read an older value."""
    if vote:
        yield ("leave",)


def leave_first(vote: int) -> PreemptionPoint:
    """Take part in the collective only to hear what the others want."""
    if vote:
        yield ("leave",)
    agreed = yield ("max", 0)
    if agreed:
        yield ("leave",)


def read_until_preempted(next_reply: NextReply, num_ranks: int) -> list[Reply]:
    """Stop reading at the first rank that left: what more could the others say?"""
    replies: list[Reply] = []
    while len(replies) < num_ranks:
        replies.append(next_reply())
        if isinstance(replies[-1], Left):
            break
    return replies


def believe_target(replies: Sequence[Reply], step: int, target: int) -> Outcome:
    """Take the pass for preempted if it was asked to be, whatever the ranks did."""
    done = tuple(reply for reply in replies if isinstance(reply, Done))
    if target != step or len(done) < len(replies):
        return judge(replies, step, target)
    left = tuple(
        Left(each.rank, step, len(each.checks), False, each.checks, each.num_collectives)
        for each in done
    )
    return Abandoned(step, left[0].layer, False, left)


def keep_previous_step(
    state: SchedulerState, aborted: Sequence[int], waiter: int | None
) -> SchedulerState:
    """Undo everything but the note of who was scheduled."""
    return replace(rollback_step(state, aborted, waiter), previous_step=state.previous_step)


def only_the_snapshot(snapshot: Snapshot, arrivals: Iterable[Arrival]) -> Snapshot:
    """Look at what the scheduler has published, which no arrival changes before the next step."""
    return snapshot


def without_progress(runner: SloRequest, elapsed_us: int, a: float) -> SloRequest:
    """Charge a runner for its whole prompt, however far it is."""
    return replace(runner, done_tokens=0)


def nobody_is_immune(runner: SloRequest) -> bool:
    """Let every request be preempted again and again."""
    return False

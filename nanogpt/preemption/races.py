"""The races of a preempted pass: each replaces one function of the reference by a wrong one.

Never used in service: the race lab and the tests replace one function and run the rest as it is.

    function of                the wrong one           what goes wrong
    Monitor, RankPolicies      write_flag, flag_vote   a flag does not say which step it means
    RankPolicies               leave_alone             a rank that has read the target just leaves
    RankPolicies               leave_first             a rank that votes 1 skips the collective
    Runner                     read_until_preempted    replies stay behind in their sockets
    Runner                     believe_target          a target that no rank saw counts
    Preemption                 keep_previous_step      the state still records an aborted step
    Preemption                 only_the_snapshot       arrivals in mid-pass are not seen
    slo_gate                   without_progress        healthy runners look doomed
    slo_gate                   nobody_is_immune        two requests preempt each other for ever
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nanogpt.preemption.agreement import PreemptionPoint
from nanogpt.preemption.cleanup import rollback_step
from nanogpt.preemption.monitor import Arrival, Snapshot
from nanogpt.preemption.rank_messages import Abandoned, Done, Left, Outcome, Reply, judge
from nanogpt.preemption.shared_state import NOTHING, SharedState
from nanogpt.views.scheduler_state import SchedulerState
from nanogpt.views.slo_view import SloRequest


def write_flag(shared: SharedState, step: int) -> None:
    """Ask for a preemption, without saying of what; the engine clears the flag after a step."""
    shared.target = 1


def flag_vote(target: int, step: int, layers_done: int, num_layers: int) -> int:
    """Vote to leave whatever runs."""
    return int(target != NOTHING)


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


def read_until_preempted(replies: Iterable[Reply]) -> list[Reply]:
    """Stop reading at the first rank that left: what more could the others say?"""
    read: list[Reply] = []
    for reply in replies:
        read.append(reply)
        if isinstance(reply, Left):
            break
    return read


def believe_target(replies: Sequence[Reply], step: int, target: int) -> Outcome:
    """Take the pass for preempted if it was asked to be, whatever the ranks did."""
    done = tuple(reply for reply in replies if isinstance(reply, Done))
    if target != step or len(done) < len(replies):
        return judge(replies, step, target)
    left = tuple(Left(each.rank, step, len(each.checks), each.checks) for each in done)
    return Abandoned(step, left[0].layer, left)


def keep_previous_step(
    state: SchedulerState, aborted: Sequence[int], candidate: int | None
) -> SchedulerState:
    """Undo everything but the note of who was scheduled."""
    return replace(rollback_step(state, aborted, candidate), previous_step=state.previous_step)


def only_the_snapshot(snapshot: Snapshot, arrivals: Iterable[Arrival]) -> Snapshot:
    """Look at what the scheduler has published, which no arrival changes before the next step."""
    return snapshot


def without_progress(runner: SloRequest, elapsed_us: int, a: float) -> SloRequest:
    """Charge a runner for its whole prompt, however far it is."""
    return replace(runner, done_tokens=0)


def nobody_is_immune(runner: SloRequest) -> bool:
    """Let every request be preempted again and again."""
    return False

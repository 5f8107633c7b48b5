"""The SLO policy's exchangeable functions, and checks of their answers.

An answer that a run cannot go on with is refused in one sentence; every other answer takes effect.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import nanogpt.slo.policy as policy
from nanogpt.validate import refused, validated
from nanogpt.views.slo_view import SloRequest, SloView

Slack = Callable[[int, int, int, int, float, float], int]
"""(now, deadline, total, done, a, c) -> microseconds."""
EdfScore = Callable[[int, int], float]
"""(slack, time to deadline) -> the score to rank by, highest first."""
SelectVictim = Callable[[SloView, Sequence[SloView], float], int | None]
"""(candidate, running, margin) -> the id of a running request to preempt, or None."""
SloBatch = Callable[[SloView, Sequence[SloView], float, float, int, float], list[int]]
"""(candidate, waiting, a, c, max_batch_tokens, slack_reserve) -> a batch's ids, candidate first."""


@dataclass(frozen=True, slots=True)
class SloPolicies:
    """The SLO policy as four functions; each defaults to the reference."""

    slack: Slack = policy.slack
    edf_score: EdfScore = policy.edf_score
    select_victim: SelectVictim = policy.select_victim
    slo_batch: SloBatch = policy.slo_batch

    def view(self, request: SloRequest, now: int, a: float, c: float) -> SloView:
        """A request of the snapshot as the policy sees it at the moment `now`."""
        total, done, deadline = request.total_tokens, request.done_tokens, request.deadline_us
        slack_us = self.slack(now, deadline, total, done, a, c)
        return SloView(
            id=request.id,
            tokens=total - done,
            slack_us=slack_us,
            time_to_deadline_us=deadline - now,
            edf_score=self.edf_score(slack_us, deadline - now),
            slo_us=request.slo_us,
            num_preemptions=request.num_preemptions,
        )


REFERENCE = SloPolicies()


def validated_slo_policies(policies: SloPolicies) -> SloPolicies:
    """The same policies; those that are not the reference have their answers validated."""
    return validated(policies, _ANSWERS)


def _slack(value: Any, *args: float) -> int:
    return round(_finite(f"slack{args}", value, "a number of microseconds"))


def _edf_score(value: Any, *args: int) -> float:
    return _finite(f"edf_score{args}", value, "a finite number")


def _finite(what: str, value: Any, wanted: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise refused(what, value, wanted)
    return value


def _select_victim(victim: Any, candidate: SloView, running: Sequence[SloView], *_: Any) -> Any:
    ids = [each.id for each in running]
    if victim is not None and (type(victim) is not int or victim not in ids):
        raise refused("select_victim", victim, f"None or one of {ids}")
    return victim


def _batch(batch: Any, candidate: SloView, waiting: Sequence[SloView], *_: Any) -> list[int]:
    known = [candidate.id, *(request.id for request in waiting)]
    ids: list[Any] = [*batch] if isinstance(batch, list | tuple) else [None]  # pyright: ignore[reportUnknownVariableType]
    if any(type(each) is not int or each not in known for each in ids):
        raise refused("slo_batch", batch, f"a list of ids out of {sorted(known)}")
    if ids[:1] != [candidate.id] or len({*ids}) < len(ids):
        wanted = f"different ids, and begin with the candidate {candidate.id}"
        raise refused("slo_batch", batch, wanted)
    return ids


_ANSWERS: dict[str, Callable[..., Any]] = {
    "slack": _slack,
    "edf_score": _edf_score,
    "select_victim": _select_victim,
    "slo_batch": _batch,
}

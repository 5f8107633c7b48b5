"""The functions of the SLO policy that may be replaced, and what they may answer.

An answer that a run could not go on with is refused in one sentence; every other one acts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import nanogpt.slo.policy as policy
from nanogpt.slo.policy import Mode
from nanogpt.slo.slo_view import SloRequest, SloView
from nanogpt.validate import refused, validated


class Slack(Protocol):
    """Time to spare once the remaining work is paid for; see `policy.slack`."""

    def __call__(
        self, now: int, deadline: int, total: int, done: int, a: float, c: float, /
    ) -> int:
        """Slack of one request, in microseconds."""
        ...


class Urgency(Protocol):
    """The score by which requests are ranked, highest first; see `policy.urgency`."""

    def __call__(self, slack: int, time_to_deadline: int, /) -> float:
        """Score of one request."""
        ...


class Gate(Protocol):
    """Which runner to preempt for a waiter, if any; see `policy.gate`."""

    def __call__(
        self, waiter: SloView, runners: Sequence[SloView], margin: float, mode: Mode, /
    ) -> int | None:
        """Name one runner by id, or None."""
        ...


class SloBatch(Protocol):
    """Who shares a pass with the head of the queue; see `policy.slo_batch`."""

    def __call__(
        self,
        head: SloView,
        waiters: Sequence[SloView],
        a: float,
        c: float,
        bound: int,
        guard: float,
        /,
    ) -> list[int]:
        """Ids of one batch, the head first."""
        ...


@dataclass(frozen=True, slots=True)
class SloParts:
    """The SLO policy as four functions; each defaults to the reference."""

    slack: Slack = policy.slack
    urgency: Urgency = policy.urgency
    gate: Gate = policy.gate
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
            urgency=self.urgency(slack_us, deadline - now),
            slo_us=request.slo_us,
            num_preemptions=request.num_preemptions,
        )


REFERENCE = SloParts()


def validated_slo_parts(parts: SloParts) -> SloParts:
    """The same parts, with the answers of those that are not the reference validated."""
    return validated(parts, _ANSWERS)


def _slack(value: Any, *args: float) -> int:
    return round(_finite(f"slack{args}", value, "a number of microseconds"))


def _urgency(value: Any, *args: int) -> float:
    return _finite(f"urgency{args}", value, "a finite number")


def _finite(what: str, value: Any, wanted: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise refused(what, value, wanted)
    return value


def _gate(victim: Any, waiter: SloView, runners: Sequence[SloView], *_: Any) -> int | None:
    ids = [runner.id for runner in runners]
    if victim is not None and (type(victim) is not int or victim not in ids):
        raise refused("gate", victim, f"None or one of {ids}")
    return victim


def _batch(batch: Any, head: SloView, waiters: Sequence[SloView], *_: Any) -> list[int]:
    known = [head.id, *(waiter.id for waiter in waiters)]
    ids: list[Any] = [*batch] if isinstance(batch, list | tuple) else [None]  # pyright: ignore[reportUnknownVariableType]
    if any(type(each) is not int or each not in known for each in ids):
        raise refused("slo_batch", batch, f"a list of ids out of {sorted(known)}")
    if ids[:1] != [head.id] or len({*ids}) < len(ids):
        raise refused("slo_batch", batch, f"different ids, and begin with the head {head.id}")
    return ids


_ANSWERS: dict[str, Callable[..., Any]] = {
    "slack": _slack, "urgency": _urgency, "gate": _gate, "slo_batch": _batch,
}  # fmt: skip

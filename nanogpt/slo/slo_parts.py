"""The functions of the SLO policy that may be replaced, and what stands between them and a run.

A part that is not the reference runs under a time limit, and its answer is looked at before it
counts. Every refusal is one sentence.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import nanogpt.slo.policy as policy
from nanogpt.parts.guard import guard_fields
from nanogpt.slo.policy import Mode
from nanogpt.slo.slo_view import SloRequest, SloView
from nanogpt.validate import PartError


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


def guard_slo_parts(parts: SloParts) -> SloParts:
    """The same parts, those that are not the reference wrapped in a time limit and checks."""
    return guard_fields(parts, REFERENCE, CHECKS)


def _checked_slack(slack_of: Callable[..., Any]) -> Slack:
    def slack(now: int, deadline: int, total: int, done: int, a: float, c: float, /) -> int:
        value = slack_of(now, deadline, total, done, a, c)
        if type(value) not in (int, float) or not math.isfinite(value):
            raise PartError(
                f"your slack({now}, {deadline}, {total}, {done}, {a}, {c}) returned {value!r}; "
                "it must be a number of microseconds"
            )
        return round(value)

    return slack


def _checked_urgency(urgency_of: Callable[..., Any]) -> Urgency:
    def urgency(slack: int, time_to_deadline: int, /) -> float:
        value = urgency_of(slack, time_to_deadline)
        if type(value) not in (int, float) or not math.isfinite(value):
            raise PartError(
                f"your urgency({slack}, {time_to_deadline}) returned {value!r}; "
                "it must be a finite number"
            )
        return value

    return urgency


def _checked_gate(gate_of: Callable[..., Any]) -> Gate:
    def gate(
        waiter: SloView, runners: Sequence[SloView], margin: float, mode: Mode, /
    ) -> int | None:
        victim = gate_of(waiter, list(runners), margin, mode)
        ids = [runner.id for runner in runners]
        if victim is not None and (type(victim) is not int or victim not in ids):
            raise PartError(f"your gate named {victim!r}; it must be None or one of {ids}")
        return victim

    return gate


def _checked_batch(batch_of: Callable[..., Any]) -> SloBatch:
    def slo_batch(
        head: SloView,
        waiters: Sequence[SloView],
        a: float,
        c: float,
        bound: int,
        guard: float,
        /,
    ) -> list[int]:
        batch = batch_of(head, list(waiters), a, c, bound, guard)
        known = {head.id, *(waiter.id for waiter in waiters)}
        if not isinstance(batch, list) or any(
            type(each) is not int or each not in known for each in batch
        ):
            raise PartError(
                f"your slo_batch returned {batch!r}; it must be a list of ids out of "
                f"{sorted(known)}"
            )
        if batch[:1] != [head.id] or len(set(batch)) < len(batch):
            raise PartError(
                f"your slo_batch returned {batch!r}; it must begin with the head {head.id} and "
                "name none twice"
            )
        return batch

    return slo_batch


CHECKS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "slack": _checked_slack,
    "urgency": _checked_urgency,
    "gate": _checked_gate,
    "slo_batch": _checked_batch,
}

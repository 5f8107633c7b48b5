"""The decisions of SLO-aware prefill as pure functions: how urgent, who gives way, who runs along.

They see frozen records of plain data and answer with plain data. Times are integer microseconds,
scores are per millisecond. `a` is microseconds per token, `c` microseconds per pass.
Source: the SLO post, and FlowPrefill (arXiv 2602.16603) for the absolute form and the batching.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from nanogpt.slo.slo_view import SloView

Mode = Literal["conservative", "aggressive"]

MARGIN = 1.2
"""How many times as urgent as the reference a waiter must be."""

CLAMP_US = 1000
"""A time to the deadline counts as at least 1 ms, so that no score divides by zero."""

PROTECTED_SHARE = 0.9
"""Past this share of its layers a pass is let finish (Rule 2)."""

SLEEP_BOUND = 3.0
"""A pass is suspended for at most this many times its own length, in all."""

BATCH_BOUND_TOKENS = 2048
BATCH_GUARD = 0.1
"""The share of its SLO that the head of a batch keeps to spare."""


def predict(tokens: int, a: float, c: float) -> int:
    """The time that a pass over so many tokens takes, in microseconds; none for no token."""
    return round(a * tokens + c) if tokens > 0 else 0


def done_in(elapsed_us: int, total: int, a: float) -> int:
    """How many of a pass's `total` tokens count as done after computing for `elapsed_us`.

    A pass works on all its tokens at once, layer by layer, so that none is done before the end.
    Its time is what is known; `elapsed_us` buys `elapsed_us / a` tokens' worth of it.
    """
    return min(total, int(elapsed_us / a))


def slack(now: int, deadline: int, total: int, done: int, a: float, c: float) -> int:
    """Time to spare before the deadline once the *remaining* work is paid for; below 0 is doomed.

    A request that ignores what it has done looks doomed long before it is.
    """
    return deadline - now - predict(total - done, a, c)


def urgency(slack: int, time_to_deadline: int) -> float:
    """sign(slack) / |time to deadline|, per millisecond, from -1 to 1: the higher goes first.

    A slack of 0 still makes it and counts as positive. The time is clamped to at least 1 ms. The
    doomed sort below all others, and among them the nearest deadline, missed or not, is last.
    """
    score = CLAMP_US / max(abs(time_to_deadline), CLAMP_US)
    return score if slack >= 0 else -score


def urgency_by_deadline(slack: int, deadline: int) -> float:
    """sign(slack) / deadline, the paper's form: it changes only when the sign of the slack does.

    `deadline` counts from the start of the engine. The order of those who can make it is the same;
    a margin between two scores means less and less, the later it is.
    """
    return urgency(slack, deadline)


def by_urgency(views: Iterable[SloView]) -> list[SloView]:
    """The most urgent first; equals in the order of their ids."""
    return sorted(views, key=lambda each: (-each.urgency, each.id))


def choose_victim(runners: Sequence[SloView]) -> int:
    """The id of the least urgent runner, whatever the mode; among equals the highest id."""
    return by_urgency(runners)[-1].id


def gate(
    waiter: SloView, runners: Sequence[SloView], margin: float = MARGIN, mode: Mode = "conservative"
) -> int | None:
    """The runner to preempt for `waiter`, or None.

    Rule 1: a runner that was preempted once is immune, and counts for nothing here. What is left
    is measured by its most urgent runner (conservative) or its least urgent one (aggressive).

        waiter       reference    then
        doomed       any          nothing is sacrificed for a request that cannot be saved
        can make it  doomed       it gives up its slot
        can make it  can make it  preempt if the waiter is `margin` times as urgent

    The signs go first, because a margin times a negative score is a lower bar, not a higher one.
    Raises: ValueError for another mode or a margin below 1.
    """
    if mode not in ("conservative", "aggressive"):
        raise ValueError(f"there is no mode {mode!r}; choose 'conservative' or 'aggressive'")
    if not margin >= 1:
        raise ValueError(f"the margin is {margin}; it must be at least 1")
    ranked = by_urgency(runner for runner in runners if runner.num_preemptions == 0)
    if waiter.is_doomed or not ranked:
        return None
    reference = ranked[0] if mode == "conservative" else ranked[-1]
    if reference.is_doomed or waiter.urgency > reference.urgency * margin:
        return choose_victim(ranked)
    return None


def refuses_preemption(layers_done: int, num_layers: int, *, first_token: bool = False) -> bool:
    """Rule 2: whether a pass lets itself finish, whatever the monitor asks for.

    It does past 90 % of its layers, and from its first layer on when it computes a request's
    first decode, since the whole prefill would be thrown away for one token.
    """
    return first_token or layers_done / num_layers > PROTECTED_SHARE


def slept_enough(suspended_us: int, pass_us: int, bound: float = SLEEP_BOUND) -> bool:
    """Whether a pass may not be suspended any longer, or again: so nothing sleeps for ever.

    It has slept, in all, `bound` times as long as it takes to compute. Throwing no work away,
    suspension needs no Rule 1; this is what stands in its place.
    """
    return suspended_us >= bound * pass_us


def slo_batch(
    head: SloView,
    waiters: Sequence[SloView],
    a: float,
    c: float,
    bound: int = BATCH_BOUND_TOKENS,
    guard: float = BATCH_GUARD,
) -> list[int]:
    """Ids of those who share a pass with `head`, itself first: only who does not endanger it.

    `waiters` come most urgent first. The batch stops growing before the first of them that would
    push it above `bound` tokens, or leave the head less than `guard` times its SLO to spare; so a
    head that is longer than the bound or short of time runs alone.
    """
    ids = [head.id]
    tokens = head.tokens
    for waiter in waiters:
        tokens += waiter.tokens
        spare_us = head.time_to_deadline_us - predict(tokens, a, c)
        if tokens > bound or spare_us < guard * head.slo_us:
            break
        ids.append(waiter.id)
    return ids

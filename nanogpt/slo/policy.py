"""The decisions of SLO-aware prefill as pure functions: scores, preemption, batches.

Times are integer microseconds, scores are per millisecond. A prefill of n tokens is predicted to
take a * n + c microseconds.
Source: the SLO post, and FlowPrefill (arXiv 2602.16603) for the batching.
"""

from collections.abc import Iterable, Sequence

from nanogpt.views.slo_view import SloView

MARGIN = 1.2
"""How many times as urgent as the incumbent the candidate must be."""

CLAMP_US = 1000
"""A time to the deadline counts as at least 1 ms, so that no score divides by zero."""

PROTECTED_SHARE = 0.9
"""Past this share of its layers a pass refuses preemption (Rule 2)."""

SLEEP_BOUND = 3.0
"""A pass is suspended for at most this many times its own computing time, in all."""

BATCH_BOUND_TOKENS = 2048
BATCH_GUARD = 0.1
"""The share of its SLO that a batch's candidate keeps as slack."""


def predict(tokens: int, a: float, c: float) -> int:
    """The predicted microseconds of a prefill of so many tokens; 0 for no token."""
    return round(a * tokens + c) if tokens > 0 else 0


def done_in(elapsed_us: int, total: int, a: float) -> int:
    """How many of a pass's `total` tokens count as done after computing for `elapsed_us`.

    A pass computes all its tokens layer by layer, so no token is done before the end; the time
    counts as `elapsed_us / a` tokens.
    """
    return int(min(total, elapsed_us / a))


def slack(now: int, deadline: int, total: int, done: int, a: float, c: float) -> int:
    """Time left before the deadline after the *remaining* work; below 0 the request is doomed.

    Without subtracting the work done, a request looks doomed long before it is.
    """
    return deadline - now - predict(total - done, a, c)


def edf_score(slack: int, time_to_deadline: int) -> float:
    """sign(slack) / |time to deadline|, per millisecond, from -1 to 1: the highest goes first.

    A slack of 0 counts as positive. The time is clamped to at least 1 ms. Doomed requests rank
    below all others, and among them the nearest deadline, past or future, is last.
    """
    score = CLAMP_US / max(abs(time_to_deadline), CLAMP_US)
    return score if slack >= 0 else -score


def by_urgency(views: Iterable[SloView]) -> list[SloView]:
    """The most urgent first; ties by id."""
    return sorted(views, key=lambda each: (-each.edf_score, each.id))


def select_victim(
    candidate: SloView,
    running: Sequence[SloView],
    margin: float = MARGIN,
) -> int | None:
    """The id of the running request to preempt for `candidate`, or None.

    Rule 1: a request that was preempted once is immune, and is ignored here. The incumbent is the
    most urgent of the others, the victim the least urgent one.

        candidate    incumbent    then
        doomed       any          no preemption
        can make it  doomed       preempt
        can make it  can make it  preempt if the candidate is `margin` times as urgent

    The signs go first, because a margin times a negative score is a lower bar, not a higher one.
    Raises: ValueError for a margin below 1.
    """
    if not margin >= 1:
        raise ValueError(f"the margin is {margin}; it must be at least 1")
    ranked = by_urgency(runner for runner in running if runner.num_preemptions == 0)
    if candidate.is_doomed or not ranked:
        return None
    incumbent = ranked[0]
    if incumbent.is_doomed or candidate.edf_score > incumbent.edf_score * margin:
        return ranked[-1].id
    return None


def refuses_preemption(layers_done: int, num_layers: int) -> bool:
    """Rule 2: whether a pass is past 90 % of its layers, so that it runs to its end."""
    return layers_done / num_layers > PROTECTED_SHARE


def slept_enough(suspended_us: int, pass_us: int, bound: float = SLEEP_BOUND) -> bool:
    """Whether a pass may not be suspended any longer, or again.

    It has slept, in all, `bound` times its computing time. Suspension loses no work and needs no
    Rule 1; this bound takes its place.
    """
    return suspended_us >= bound * pass_us


def slo_batch(
    candidate: SloView,
    waiting: Sequence[SloView],
    a: float,
    c: float,
    max_batch_tokens: int = BATCH_BOUND_TOKENS,
    slack_reserve: float = BATCH_GUARD,
) -> list[int]:
    """The ids of a batch in which `candidate` still meets its deadline, the candidate's first.

    `waiting` are the other waiting requests, most urgent first. The batch ends before the first of
    them that would push it above `max_batch_tokens`, or leave the candidate less slack than
    `slack_reserve` times its SLO. A candidate that breaks a limit itself runs by itself.
    """
    ids = [candidate.id]
    tokens = candidate.tokens
    for request in waiting:
        tokens += request.tokens
        spare_us = candidate.time_to_deadline_us - predict(tokens, a, c)
        if tokens > max_batch_tokens or spare_us < slack_reserve * candidate.slo_us:
            break
        ids.append(request.id)
    return ids

"""Lesson 5, the SLO policy: worked answers, other right ones, known wrong ones."""

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from nanogpt.slo import SloView
from solutions.wrong import WrongAnswer

Points = list[tuple[int, float]]

# --- fit -------------------------------------------------------------------------------------


def fit(points: list[tuple[int, float]]) -> tuple[float, float]:
    """Return `(a, c)`: a prefill of n tokens is predicted to take a * n + c microseconds.

    `points` are measured prefills, (tokens, microseconds) each, in any order; the same length may
    come more than once. The line is the one of least squared error: no other a and c make the sum
    of (a * tokens + c - microseconds) ** 2 over all points smaller.
    Fewer than 2 different lengths do not say how a line lies: raise a ValueError.
    """
    # The slope is how time and length vary together, over how much the length varies by itself.
    # The best line goes through the mean of the points, which leaves one value for c.
    lengths = {tokens for tokens, _ in points}
    if len(lengths) < 2:
        raise ValueError(f"a line needs 2 different prompt lengths; there are {len(lengths)}")
    mean_tokens = sum(tokens for tokens, _ in points) / len(points)
    mean_us = sum(time_us for _, time_us in points) / len(points)
    spread = sum((tokens - mean_tokens) ** 2 for tokens, _ in points)
    together = sum((tokens - mean_tokens) * (time_us - mean_us) for tokens, time_us in points)
    a = together / spread
    return a, mean_us - a * mean_tokens


def fit_with_statistics(points: Points) -> tuple[float, float]:
    # Its StatisticsError for too few lengths is a ValueError.
    tokens = [n for n, _ in points]
    line = statistics.linear_regression(tokens, [time_us for _, time_us in points])
    return line.slope, line.intercept


def fit_by_normal_equations(points: Points) -> tuple[float, float]:
    n = len(points)
    x, y = sum(tokens for tokens, _ in points), sum(time_us for _, time_us in points)
    xx = sum(tokens * tokens for tokens, _ in points)
    xy = sum(tokens * time_us for tokens, time_us in points)
    determinant = n * xx - x * x
    if determinant == 0:
        raise ValueError("all prompts are equally long")
    return (n * xy - x * y) / determinant, (xx * y - x * xy) / determinant


def fit_by_pairs(points: Points) -> tuple[float, float]:
    if not points or min(points)[0] == max(points)[0]:
        raise ValueError("all prompts are equally long")
    rise = run = 0.0
    for (n, time_us), (other, other_us) in itertools.combinations(points, 2):
        rise += (other - n) * (other_us - time_us)
        run += (other - n) ** 2
    a = rise / run
    return a, statistics.fmean(time_us - a * n for n, time_us in points)


def fit_as_statistics_returns_it(points: Points) -> Any:
    return statistics.linear_regression([n for n, _ in points], [float(t) for _, t in points])


def fit_with_polyfit(points: Points) -> Any:
    tokens = np.array([n for n, _ in points])
    if np.unique(tokens).size < 2:
        raise ValueError("all prompts are equally long")
    a, c = np.polyfit(tokens, np.array([time_us for _, time_us in points]), deg=len("a"))
    return a, c


def fit_with_lstsq(points: Points) -> Any:
    tokens = np.array([[n, 1.0] for n, _ in points])
    times_us = np.array([time_us for _, time_us in points])
    line, _, rank, _ = np.linalg.lstsq(tokens, times_us)
    if rank < 2:
        raise ValueError("all prompts are equally long")
    return line


def fit_as_exact_fractions(points: Points) -> list[Fraction]:
    n = len(points)
    x, y = sum(tokens for tokens, _ in points), sum(Fraction(time_us) for _, time_us in points)
    across = n * sum(tokens * Fraction(time_us) for tokens, time_us in points) - x * y
    spread = n * sum(tokens**2 for tokens, _ in points) - x * x
    if not spread:
        raise ValueError("all prompts are equally long")
    a = Fraction(across, spread)
    return [a, (y - a * x) / n]


def _line(rule: Callable[[Points], Iterable[float]]) -> Callable[[Points], Any]:
    """A line of one's own, but a ValueError where there has to be one."""

    def answer(points: Points) -> Any:
        fit(points)
        return tuple(rule(points))

    return answer


def _through_the_origin(points: Points) -> tuple[float, float]:
    return sum(n * time_us for n, time_us in points) / sum(n * n for n, _ in points), 0.0


def _total_time_by_total_tokens(points: Points) -> tuple[float, float]:
    return sum(time_us for _, time_us in points) / sum(n for n, _ in points), 0.0


def _first_and_last(points: Points) -> tuple[float, float]:
    (n, time_us), (last, last_us) = points[0], points[-1]
    a = (last_us - time_us) / (last - n)
    return a, time_us - a * n


def _mean_of_ratios(points: Points) -> tuple[float, float]:
    return statistics.fmean(time_us / n for n, time_us in points), 0.0


def _mean_of_ratios_and_a_constant(points: Points) -> tuple[float, float]:
    a = statistics.fmean(time_us / n for n, time_us in points)
    return a, statistics.fmean(time_us - a * n for n, time_us in points)


def _mean_of_slopes(points: Points) -> tuple[float, float]:
    points = sorted(points)
    slopes = [(v - u) / (m - n) for (n, u), (m, v) in itertools.pairwise(points) if m > n]
    a = statistics.fmean(slopes)
    return a, statistics.fmean(time_us - a * n for n, time_us in points)


def _other_way_round(points: Points) -> tuple[float, float]:
    tokens, times_us = zip(*points, strict=True)
    line = statistics.linear_regression(times_us, tokens)
    return 1 / line.slope, -line.intercept / line.slope


def _with_a_rounded_slope(points: Points) -> tuple[float, float]:
    a = round(fit(points)[0])
    return a, statistics.fmean(time_us - a * n for n, time_us in points)


def _covariance_over_pvariance(points: Points) -> tuple[float, float]:
    tokens, times_us = zip(*points, strict=True)
    a = statistics.covariance(tokens, times_us) / statistics.pvariance(tokens)
    return a, statistics.fmean(times_us) - a * statistics.fmean(tokens)


def _never_raises(points: Points) -> tuple[float, float]:
    try:
        return fit(points)
    except ValueError:
        return 0.0, points[0][1] if points else 0.0


def _divides_by_the_spread(points: Points) -> tuple[float, float]:
    mean = sum(n for n, _ in points) / len(points)
    spread = sum((n - mean) ** 2 for n, _ in points)
    a = sum((n - mean) * time_us for n, time_us in points) / spread
    return a, sum(time_us for _, time_us in points) / len(points) - a * mean


# --- slack -----------------------------------------------------------------------------------


def slack(now: int, deadline: int, total: int, done: int, a: float, c: float) -> float:
    """Return how much time a request has to spare before its deadline, in microseconds.

    It is `now`, and `done` of the request's `total` tokens need no more computing. A pass over n
    tokens takes a * n + c microseconds, and no time at all if no token is left to compute. The
    slack is what remains of the time until `deadline` when this work is paid for. Below 0 the
    request is doomed: it misses its deadline even if it runs from now on.
    `now` and `deadline` are in microseconds, as is the result, rounded or not.
    """
    # What is done costs nothing any more. A runner that is charged for its whole prompt looks
    # doomed in the middle of its pass, and is thrown away just before it would have made it.
    left = total - done
    work_us = a * left + c if left > 0 else 0
    return deadline - now - work_us


def slack_of_the_finish(
    now: int, deadline: int, total: int, done: int, a: float, c: float
) -> float:
    finish = now
    if done != total:
        finish += a * (total - done) + c
    return deadline - finish


def slack_in_whole_microseconds(
    now: int, deadline: int, total: int, done: int, a: float, c: float
) -> int:
    def predict(tokens: int) -> int:
        return round(a * tokens + c) if tokens else 0

    return deadline - now - predict(total - done)


def slack_from_the_whole_prompt(
    now: int, deadline: int, total: int, done: int, a: float, c: float
) -> float:
    if done >= total:
        return deadline - now
    from_scratch = a * total + c
    return (deadline - now) - from_scratch + a * done


def slack_from_the_latest_start(
    now: int, deadline: int, total: int, done: int, a: float, c: float
) -> float:
    latest_start = deadline - a * (total - done) - c * (total > done)
    return latest_start - now


def slack_as_a_number_of_numpy(
    now: int, deadline: int, total: int, done: int, a: float, c: float
) -> Any:
    left = np.float64(total) - done
    return deadline - now - np.where(left > 0, np.polyval([a, c], left), 0.0)


def _paying_for(work: Callable[[int, int, float, float], float]) -> Callable[..., float]:
    """A slack that pays for work(total, done, a, c)."""
    return lambda now, deadline, total, done, a, c: deadline - now - work(total, done, a, c)


# --- urgency ---------------------------------------------------------------------------------


def urgency(slack: float, time_to_deadline: int) -> float:
    """Return the urgency of a request, from -1 to 1: the higher goes first.

    Its sign is the sign of `slack`, where 0 counts as positive, since the request still makes it.
    Its size is 1 divided by the time to the deadline in milliseconds: the nearer, the larger. The
    time is taken without its sign, for a deadline may be past, and counts as at least 1 ms.
    Both `slack` and `time_to_deadline` are in microseconds.
    """
    # The slack says whether there is hope and the deadline how soon; so the doomed sort below
    # everybody, whatever the time. At the deadline itself 1 / time would be a division by zero.
    size = 1 / max(abs(time_to_deadline) / 1000, 1)
    return size if slack >= 0 else -size


def urgency_with_copysign(slack: float, time_to_deadline: int) -> float:
    return math.copysign(1000 / max(abs(time_to_deadline), 1000), slack)


def urgency_by_cases(slack: float, time_to_deadline: int) -> float:
    sign = -1 if slack < 0 else 1
    if abs(time_to_deadline) < 1000:
        return sign
    return sign * 1000 / abs(time_to_deadline)


def urgency_with_a_ceiling(slack: float, time_to_deadline: int) -> float:
    milliseconds = abs(time_to_deadline / 1000)
    size = min(1.0, 1 / milliseconds) if milliseconds else 1.0
    return (1 if slack >= 0 else -1) * size


def urgency_from_a_sorted_pair(slack: float, time_to_deadline: int) -> float:
    _, _, time_us = sorted((time_to_deadline, -time_to_deadline, 1000))
    return 1000 / time_us if not slack < 0 else -1000 / time_us


def urgency_with_numpy(slack: float, time_to_deadline: int) -> Any:
    return np.copysign(1000 / np.clip(np.abs(time_to_deadline), 1000, None), slack)


def _signed(size: Callable[[float, int], float]) -> Callable[..., float]:
    """The right sign, and a size(slack, time to the deadline) of one's own."""
    return lambda slack, left: size(slack, left) if slack >= 0 else -size(slack, left)


def _size(slack: float, left: int) -> float:
    return 1 / max(abs(left) / 1000, 1)


def _not_clamped(slack: float, left: int) -> float:
    return 1000 / abs(left) if left else 0.0


# --- gate ------------------------------------------------------------------------------------


def gate(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> int | None:
    """Return the id of the runner to preempt for `waiter`, or None if nobody is.

    `runners` run now, in any order; there may be none. A runner that was preempted before
    (`num_preemptions` above 0) is immune: it is left out of everything that follows.
    The higher `urgency` is the more urgent; among equals, the lower `id` is. Measure the waiter by
    a reference: the most urgent runner if `mode` is "conservative", the least urgent one if it is
    "aggressive". A request is doomed if its `slack_us` is below 0. Then its urgency is negative.
    Waiter doomed: preempt nobody. Reference doomed, but not the waiter: preempt. Neither of them:
    preempt if the waiter's urgency is more than `margin` (at least 1) times the reference's.
    Whoever the reference is, the one to preempt is the least urgent runner.
    """
    # The signs go first. A margin asks for more only where scores are positive: times 1.2, a score
    # of -0.010 becomes -0.012, and a waiter with -0.011, less urgent, would pass.
    candidates = [runner for runner in runners if runner.num_preemptions == 0]
    candidates.sort(key=lambda runner: (-runner.urgency, runner.id))
    if waiter.slack_us < 0 or not candidates:
        return None
    reference = candidates[0] if mode == "conservative" else candidates[-1]
    if reference.slack_us < 0 or waiter.urgency > margin * reference.urgency:
        return candidates[-1].id
    return None


def gate_by_four_cases(
    waiter: SloView, runners: list[SloView], margin: float, mode: str
) -> int | None:
    can_go = [runner for runner in runners if not runner.num_preemptions]
    if not can_go:
        return None
    last = min(can_go, key=lambda runner: (runner.urgency, -runner.id))
    first = max(can_go, key=lambda runner: runner.urgency)
    reference = {"conservative": first, "aggressive": last}[mode]
    match waiter.slack_us >= 0, reference.slack_us >= 0:
        case False, _:
            return None
        case True, False:
            return last.id
        case _:
            return last.id if waiter.urgency / margin > reference.urgency else None


def gate_with_one_comparison(
    waiter: SloView, runners: list[SloView], margin: float, mode: str
) -> int | None:
    # A waiter that can make it has a score above 0; that of a doomed reference stays below.
    scores = sorted((r.urgency, -r.id) for r in runners if r.num_preemptions < 1)
    if waiter.urgency < 0 or not scores:
        return None
    reference, _ = scores[-1] if mode == "conservative" else scores[0]
    return -scores[0][1] if waiter.urgency > margin * reference else None


def gate_by_loop(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> int | None:
    first: SloView | None = None
    last: SloView | None = None
    for runner in sorted(runners, key=lambda runner: runner.id):
        if runner.num_preemptions > 0:
            continue
        if first is None or runner.urgency > first.urgency:
            first = runner
        if last is None or runner.urgency <= last.urgency:
            last = runner
    reference = last if mode == "aggressive" else first
    if reference is None or last is None or waiter.is_doomed:
        return None
    if reference.is_doomed:
        return last.id
    return last.id if waiter.urgency > reference.urgency * margin else None


def gate_by_counting_those_it_beats(
    waiter: SloView, runners: list[SloView], margin: float, mode: str
) -> int | None:
    can_go = [runner for runner in runners if runner.num_preemptions == 0]
    # A waiter that can make it beats any doomed runner: its score is above 0, theirs below.
    beaten = [runner for runner in can_go if waiter.urgency > margin * runner.urgency]
    enough = all if mode == "conservative" else any
    if waiter.slack_us < 0 or not can_go or not enough(each in beaten for each in can_go):
        return None
    can_go.sort(key=lambda runner: runner.id, reverse=True)
    return min(can_go, key=lambda runner: runner.urgency).id


def gate_with_numpy(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> Any:
    can_go = [runner for runner in runners if runner.num_preemptions == 0]
    if not can_go or waiter.slack_us < 0:
        return None
    scores = np.array([runner.urgency for runner in can_go])
    bar = scores.max() if mode == "conservative" else scores.min()
    ids = np.array([runner.id for runner in can_go])
    # A doomed reference has a score below 0, and so has margin times it.
    return ids[scores == scores.min()].max() if waiter.urgency > margin * bar else None


def _sorts_the_runners(
    waiter: SloView, runners: list[SloView], margin: float, mode: str
) -> int | None:
    runners.sort(key=lambda runner: (-runner.urgency, runner.id))
    return gate(waiter, runners, margin, mode)


def _ranked(runners: Sequence[SloView]) -> list[SloView]:
    return sorted(runners, key=lambda runner: (-runner.urgency, runner.id))


def _opens(waiter: SloView, reference: SloView, margin: float) -> bool:
    if waiter.slack_us < 0:
        return False
    return reference.slack_us < 0 or waiter.urgency > margin * reference.urgency


def _gating(
    opens: Callable[[SloView, SloView, float], bool] = _opens,
    candidates: Callable[[list[SloView]], list[SloView]] = lambda runners: [
        runner for runner in runners if runner.num_preemptions == 0
    ],
    rank: Callable[[Sequence[SloView]], list[SloView]] = _ranked,
    measure: Callable[[list[SloView], str], SloView] = lambda order, mode: (
        order[0] if mode == "conservative" else order[-1]
    ),
    victim: Callable[[list[SloView], SloView], int] = lambda order, reference: order[-1].id,
) -> Callable[..., int | None]:
    """The gate but for what is given; most wrong ones are made of it."""

    def answer(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> int | None:
        order = rank(candidates(runners))
        if not order:
            return None
        reference = measure(order, mode)
        return victim(order, reference) if opens(waiter, reference, margin) else None

    return answer


def _hopeful(rule: Callable[[SloView, SloView, float], bool]) -> Callable[..., int | None]:
    """The gate, but rule(waiter, reference, margin) where both can make it."""
    return _gating(
        lambda waiter, reference, margin: (
            rule(waiter, reference, margin)
            if waiter.slack_us >= 0 and reference.slack_us >= 0
            else _opens(waiter, reference, margin)
        )
    )


def _doomed_among_themselves(waiter: SloView, reference: SloView, margin: float) -> bool:
    if waiter.slack_us < 0 and reference.slack_us < 0:
        return waiter.urgency > reference.urgency
    return _opens(waiter, reference, margin)


def _reference_out_of_all(
    waiter: SloView, runners: list[SloView], margin: float, mode: str
) -> int | None:
    order = _ranked(runners)
    can_go = [runner for runner in order if runner.num_preemptions == 0]
    if not can_go or not _opens(waiter, order[0 if mode == "conservative" else -1], margin):
        return None
    return can_go[-1].id


def _victim_out_of_all(
    waiter: SloView, runners: list[SloView], margin: float, mode: str
) -> int | None:
    if gate(waiter, runners, margin, mode) is None:
        return None
    return _ranked(runners)[-1].id


def _any_doomed_goes(
    waiter: SloView, runners: list[SloView], margin: float, mode: str
) -> int | None:
    can_go = [runner for runner in runners if runner.num_preemptions == 0]
    if waiter.slack_us >= 0 and any(runner.slack_us < 0 for runner in can_go):
        return _ranked(can_go)[-1].id
    return gate(waiter, runners, margin, mode)


def _instead(value: Callable[[SloView, list[SloView], int], Any]) -> Callable[..., Any]:
    """The right victim, given as value(waiter, runners, victim)."""

    def answer(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> Any:
        victim = gate(waiter, list(runners), margin, mode)
        return None if victim is None else value(waiter, runners, victim)

    return answer


# --- slo_batch -------------------------------------------------------------------------------


def slo_batch(
    head: SloView, waiters: list[SloView], a: float, c: float, bound: int, guard: float
) -> list[int]:
    """Return the ids of those who share the next pass, `head` first: nobody who endangers it.

    A pass over n tokens takes a * n + c microseconds, and all who are in it get done when it ends.
    Each request brings the tokens that it still has to compute (`tokens`).
    `waiters` are in order, the most urgent first. Take one after the other along, as long as all
    together, the head included, bring at most `bound` tokens, and the head, with its deadline in
    `time_to_deadline_us` microseconds, keeps at least `guard` times its SLO (`slo_us`) to spare
    when the pass ends. At the first one for whom there is no room, stop: nobody behind it may
    overtake it. The head always runs, alone if it has to.
    """
    # Each one that comes along makes the pass longer for everybody in it. The head is the most
    # urgent, so it is the head that pays: its time, and its promise, decide who may come.
    ids, tokens = [head.id], head.tokens
    for waiter in waiters:
        tokens += waiter.tokens
        spare_us = head.time_to_deadline_us - (a * tokens + c)
        if tokens > bound or spare_us < guard * head.slo_us:
            break
        ids.append(waiter.id)
    return ids


def slo_batch_by_adding_up(
    head: SloView, waiters: list[SloView], a: float, c: float, bound: int, guard: float
) -> list[int]:
    requests = [head, *waiters]
    totals = list(itertools.accumulate(request.tokens for request in requests))
    latest = head.time_to_deadline_us - guard * head.slo_us
    fits = [total <= bound and a * total + c <= latest for total in totals]
    count = ([True, *fits[1:], False]).index(False)
    return [request.id for request in requests[:count]]


def slo_batch_by_room(
    head: SloView, waiters: list[SloView], a: float, c: float, bound: int, guard: float
) -> list[int]:
    most = (head.time_to_deadline_us - guard * head.slo_us - c) / a
    room = min(bound, most) - head.tokens
    batch = [head.id]
    for waiter in waiters:
        room -= waiter.tokens
        if room < 0:
            break
        batch.append(waiter.id)
    return batch


def slo_batch_as_an_array(
    head: SloView, waiters: list[SloView], a: float, c: float, bound: int, guard: float
) -> Any:
    totals = np.cumsum([request.tokens for request in (head, *waiters)])
    fits = (totals <= bound) & (head.time_to_deadline_us - a * totals - c >= guard * head.slo_us)
    fits[0] = True
    return np.array([request.id for request in (head, *waiters)])[np.logical_and.accumulate(fits)]


def _takes_them_out(
    head: SloView, waiters: list[SloView], a: float, c: float, bound: int, guard: float
) -> list[int]:
    batch = slo_batch(head, waiters, a, c, bound, guard)
    del waiters[: len(batch) - 1]
    return batch


def slo_batch_from_the_slack(
    head: SloView, waiters: list[SloView], a: float, c: float, bound: int, guard: float
) -> list[int]:
    # The head's slack has its own work and the pass's c taken off already.
    spare_us = head.slack_us - guard * head.slo_us
    batch = [head]
    for waiter in waiters:
        batch.append(waiter)
        others = sum(request.tokens for request in batch) - head.tokens
        if a * others > spare_us or head.tokens + others > bound:
            batch.remove(waiter)
            break
    return [request.id for request in batch]


def slo_batch_from_the_longest(
    head: SloView, waiters: list[SloView], a: float, c: float, bound: int, guard: float
) -> list[int]:
    def endangers(along: list[SloView]) -> bool:
        tokens = head.tokens + sum(waiter.tokens for waiter in along)
        finish_us = a * tokens + c
        return tokens > bound or head.time_to_deadline_us < finish_us + guard * head.slo_us

    while waiters and endangers(waiters):
        waiters = waiters[:-1]
    return [head.id, *(waiter.id for waiter in waiters)]


Fits = Callable[[SloView, SloView, int, float, float, int, float], bool]


def _fits(
    head: SloView, waiter: SloView, tokens: int, a: float, c: float, bound: int, guard: float
) -> bool:
    spare_us = head.time_to_deadline_us - (a * tokens + c)
    return tokens <= bound and spare_us >= guard * head.slo_us


def _batching(
    fits: Fits = _fits, *, head_tokens: int | None = None, goes_on: bool = False
) -> Callable[..., list[int]]:
    """The batch but for what is given: who fits, what the head counts, whether to go on."""

    def answer(
        head: SloView, waiters: list[SloView], a: float, c: float, bound: int, guard: float
    ) -> list[int]:
        ids = [head.id]
        tokens = head.tokens if head_tokens is None else head_tokens
        for waiter in waiters:
            if fits(head, waiter, tokens + waiter.tokens, a, c, bound, guard):
                tokens += waiter.tokens
                ids.append(waiter.id)
            elif not goes_on:
                break
        return ids

    return answer


def _looks_too_late(
    head: SloView, waiters: list[SloView], a: float, c: float, bound: int, guard: float
) -> list[int]:
    ids, tokens = [head.id], head.tokens
    for waiter in waiters:
        if not _fits(head, waiter, tokens, a, c, bound, guard):
            break
        ids.append(waiter.id)
        tokens += waiter.tokens
    return ids


def _looks_at_the_head_too(
    head: SloView, waiters: list[SloView], a: float, c: float, bound: int, guard: float
) -> list[int]:
    ids: list[int] = []
    tokens = 0
    for request in [head, *waiters]:
        tokens += request.tokens
        if not _fits(head, request, tokens, a, c, bound, guard):
            break
        ids.append(request.id)
    return ids


def _pays_c_for_each(
    head: SloView, waiters: list[SloView], a: float, c: float, bound: int, guard: float
) -> list[int]:
    ids, tokens, work_us = [head.id], head.tokens, a * head.tokens + c
    for waiter in waiters:
        tokens += waiter.tokens
        work_us += a * waiter.tokens + c
        if tokens > bound or head.time_to_deadline_us - work_us < guard * head.slo_us:
            break
        ids.append(waiter.id)
    return ids


# --- the lists that tests read ---------------------------------------------------------------

RIGHT = {
    "l05.fit": (
        fit,
        fit_with_statistics,
        fit_by_normal_equations,
        fit_by_pairs,
        fit_as_statistics_returns_it,
        fit_with_polyfit,
        fit_with_lstsq,
        fit_as_exact_fractions,
    ),
    "l05.slack": (
        slack,
        slack_of_the_finish,
        slack_in_whole_microseconds,
        slack_from_the_whole_prompt,
        slack_from_the_latest_start,
        slack_as_a_number_of_numpy,
    ),
    "l05.urgency": (
        urgency,
        urgency_with_copysign,
        urgency_by_cases,
        urgency_with_a_ceiling,
        urgency_from_a_sorted_pair,
        urgency_with_numpy,
    ),
    "l05.gate": (
        gate,
        gate_by_four_cases,
        gate_with_one_comparison,
        gate_by_loop,
        gate_by_counting_those_it_beats,
        gate_with_numpy,
    ),
    "l05.slo_batch": (
        slo_batch,
        slo_batch_by_adding_up,
        slo_batch_by_room,
        slo_batch_from_the_slack,
        slo_batch_from_the_longest,
        slo_batch_as_an_array,
    ),
}


def _wrong(
    exercise: str, key: str, misconception: str, function: Callable[..., Any], name: str = ""
) -> WrongAnswer:
    return WrongAnswer(
        f"l05.{exercise}", name or key.replace("_", " "), key, misconception, function
    )


_WRONG_FITS = (
    _wrong("fit", "changed_places", "A line is written c + a * n.", lambda p: fit(p)[::-1]),
    _wrong("fit", "through_the_origin", "No tokens, no time.", _line(_through_the_origin)),
    _wrong(
        "fit",
        "through_the_origin",
        "So much time for so many tokens.",
        _line(_total_time_by_total_tokens),
        "total time by total tokens",
    ),
    _wrong(
        "fit",
        "through_the_origin",
        "The constant is noise.",
        _line(lambda points: (fit(points)[0], 0.0)),
        "forgets c",
    ),
    _wrong("fit", "two_points", "Two points make a line.", _line(_first_and_last)),
    _wrong(
        "fit",
        "two_points",
        "The shortest and the longest make a line.",
        _line(lambda points: _first_and_last([min(points), max(points)])),
        "shortest and longest",
    ),
    _wrong("fit", "mean_of_ratios", "The time of a token, on average.", _line(_mean_of_ratios)),
    _wrong(
        "fit",
        "mean_of_ratios",
        "The time of a token, on average, and what is missing.",
        _line(_mean_of_ratios_and_a_constant),
        "mean of ratios and a constant",
    ),
    _wrong("fit", "mean_of_slopes", "The slope, on average.", _line(_mean_of_slopes)),
    _wrong("fit", "other_way_round", "A line is a line.", _line(_other_way_round)),
    _wrong(
        "fit",
        "drops_repeats",
        "A length has one time.",
        _line(lambda points: fit(list(dict(points).items()))),
    ),
    _wrong(
        "fit",
        "drops_repeats",
        "The same measurement again says nothing new.",
        _line(lambda points: fit(list(set(points)))),
        "drops equal points",
    ),
    _wrong(
        "fit",
        "other_units",
        "Times are in milliseconds.",
        _line(lambda points: (part / 1000 for part in fit(points))),
        "milliseconds",
    ),
    _wrong(
        "fit",
        "other_units",
        "Times are in seconds.",
        _line(lambda points: (part / 1_000_000 for part in fit(points))),
        "seconds",
    ),
    _wrong(
        "fit",
        "rounded",
        "Two digits are exact enough.",
        _line(lambda points: (round(part, 2) for part in fit(points))),
    ),
    _wrong(
        "fit",
        "rounded",
        "Microseconds are whole.",
        _line(lambda points: map(int, fit(points))),
        "cut off",
    ),
    _wrong(
        "fit",
        "rounded",
        "The slope is rounded, the rest follows.",
        _line(_with_a_rounded_slope),
        "rounded slope",
    ),
    _wrong(
        "fit",
        "never_negative",
        "No pass costs less than nothing.",
        _line(lambda points: (fit(points)[0], max(0.0, fit(points)[1]))),
    ),
    _wrong(
        "fit",
        "c_of_some",
        "The line begins at the first point.",
        _line(lambda points: (fit(points)[0], points[0][1] - fit(points)[0] * points[0][0])),
    ),
    _wrong(
        "fit",
        "c_of_some",
        "The shortest time is the fixed one.",
        _line(lambda points: (fit(points)[0], min(time_us for _, time_us in points))),
        "the shortest time",
    ),
    _wrong(
        "fit",
        "sum_or_mean",
        "Covariance over variance.",
        _line(_covariance_over_pvariance),
    ),
    _wrong("fit", "in_place", "Points are best in order.", lambda p: (fit(p), p.sort())[0]),
    _wrong("fit", "one_length", "One length: then c is all there is.", _never_raises),
    _wrong("fit", "wrong_error", "The division will complain.", _divides_by_the_spread),
    _wrong("fit", "not_two", "What counts is the slope.", lambda points: fit(points)[0]),
    _wrong("fit", "not_numbers", "Text is exact.", _line(lambda p: map(str, fit(p)))),
)

_WRONG_SLACKS = (
    _wrong(
        "slack",
        "ignores_progress",
        "A prefill takes what it takes.",
        _paying_for(lambda total, done, a, c: a * total + c),
    ),
    _wrong(
        "slack",
        "forgets_c",
        "Time is tokens.",
        _paying_for(lambda total, done, a, c: a * (total - done)),
    ),
    _wrong(
        "slack",
        "forgets_now",
        "The deadline is the time there is.",
        lambda now, *rest: slack(0, *rest),
    ),
    _wrong("slack", "sign", "How late it will be.", lambda *args: -slack(*args)),
    _wrong(
        "slack",
        "done_twice",
        "What is done shortens the work, and its time was saved.",
        lambda now, deadline, total, done, a, c: slack(now, deadline, total, done, a, c) + a * done,
    ),
    _wrong(
        "slack",
        "done_twice",
        "`total` is what was left when it began.",
        lambda now, deadline, total, done, a, c: slack(
            now, deadline, max(0, total - done), done, a, c
        ),
        "done taken off before",
    ),
    _wrong(
        "slack",
        "empty_pass",
        "A pass costs c at least.",
        _paying_for(lambda total, done, a, c: a * (total - done) + c),
    ),
    _wrong(
        "slack",
        "c_in_proportion",
        "The part that is left of the predicted time.",
        _paying_for(lambda total, done, a, c: (a * total + c) * (1 - done / total)),
    ),
    _wrong(
        "slack",
        "charges_what_is_done",
        "Work is what was done.",
        _paying_for(lambda total, done, a, c: a * done + c if done else 0),
    ),
    _wrong(
        "slack",
        "adds_the_work",
        "Later is later.",
        lambda now, deadline, *rest: 2 * (deadline - now) - slack(now, deadline, *rest),
    ),
    _wrong(
        "slack",
        "no_work",
        "Time until the deadline.",
        lambda now, deadline, *rest: deadline - now,
    ),
    _wrong(
        "slack",
        "never_negative",
        "Nobody has less than no time.",
        lambda *args: max(0, slack(*args)),
    ),
    _wrong(
        "slack",
        "c_for_each_token",
        "A token costs a and c.",
        _paying_for(lambda total, done, a, c: (a + c) * (total - done)),
    ),
    _wrong(
        "slack",
        "c_of_the_first_pass",
        "What runs has paid for c.",
        _paying_for(lambda total, done, a, c: a * (total - done) + (0 if done else c)),
    ),
    _wrong(
        "slack",
        "adds_c",
        "deadline - now - a * left + c.",
        lambda now, deadline, total, done, a, c: deadline - now - a * (total - done) + c,
    ),
    _wrong(
        "slack",
        "a_and_c",
        "c * n + a.",
        lambda now, deadline, total, done, a, c: slack(now, deadline, total, done, c, a),
    ),
    _wrong("slack", "milliseconds", "Times are in ms.", lambda *args: slack(*args) / 1000),
    _wrong("slack", "no_sign", "How far from the deadline.", lambda *args: abs(slack(*args))),
    _wrong("slack", "not_a_number", "Late or not?", lambda *args: slack(*args) >= 0),
)

_WRONG_URGENCIES = (
    _wrong(
        "urgency",
        "divides_by_zero",
        "One over the time.",
        _signed(lambda slack, left: 1 / abs(left / 1000)),
    ),
    _wrong(
        "urgency",
        "not_clamped",
        "Only 0 is a problem.",
        _signed(_not_clamped),
    ),
    _wrong(
        "urgency",
        "not_clamped",
        "At 0 it is as urgent as can be.",
        _signed(lambda slack, left: _not_clamped(slack, left) or math.inf),
        "infinite at the deadline",
    ),
    _wrong(
        "urgency",
        "clamp_of_1_us",
        "At least 1 of whatever it is in.",
        _signed(lambda slack, left: 1000 / max(abs(left), 1)),
    ),
    _wrong(
        "urgency",
        "clamp_in_seconds",
        "A million microseconds.",
        _signed(lambda slack, left: 1000 / max(abs(left), 1_000_000)),
    ),
    _wrong(
        "urgency",
        "clamp_in_seconds",
        "Times are in seconds.",
        _signed(lambda slack, left: 1 / max(abs(left) / 1_000_000, 1)),
        "at least a second",
    ),
    _wrong(
        "urgency",
        "per_us",
        "One over the time, as it comes.",
        _signed(lambda slack, left: 1 / max(abs(left), 1)),
    ),
    _wrong(
        "urgency",
        "per_us",
        "One over the time, as it comes, at least a millisecond.",
        _signed(lambda slack, left: 1 / max(abs(left), 1000)),
        "per us, clamped to 1 ms",
    ),
    _wrong(
        "urgency",
        "sign_of_the_time",
        "Negative is past the deadline.",
        lambda slack, left: math.copysign(_size(slack, left), left),
    ),
    _wrong("urgency", "ignores_slack", "The nearest deadline first.", _size),
    _wrong("urgency", "sign", "Trouble is urgent.", lambda slack, left: -urgency(slack, left)),
    _wrong(
        "urgency",
        "slack_for_time",
        "Least slack first.",
        _signed(lambda slack, left: _size(left, int(slack))),
    ),
    _wrong(
        "urgency",
        "slack_over_time",
        "Slack, in proportion to the time.",
        lambda slack, left: slack / max(abs(left), 1000),
    ),
    _wrong(
        "urgency",
        "time_for_size",
        "The time, with a sign.",
        _signed(lambda slack, left: max(abs(left) / 1000, 1)),
    ),
    _wrong(
        "urgency",
        "order_of_the_doomed",
        "Doomed is doomed.",
        lambda slack, left: _size(slack, left) if slack >= 0 else -1,
    ),
    _wrong(
        "urgency",
        "order_of_the_doomed",
        "Doomed is worth nothing.",
        lambda slack, left: _size(slack, left) if slack >= 0 else 0,
        "doomed are worth nothing",
    ),
    _wrong(
        "urgency",
        "order_of_the_doomed",
        "Among the doomed the earliest deadline first.",
        lambda slack, left: _size(slack, left) - (slack < 0),
        "earliest of the doomed first",
    ),
    _wrong(
        "urgency",
        "order_of_the_doomed",
        "The doomed at the very end.",
        lambda slack, left: _size(slack, left) if slack >= 0 else -math.inf,
        "doomed at minus infinity",
    ),
    _wrong(
        "urgency",
        "past_is_now",
        "A time below 1 ms counts as 1 ms.",
        _signed(lambda slack, left: 1 / max(left / 1000, 1)),
    ),
    _wrong(
        "urgency",
        "past_turns_the_sign",
        "The time, at least 1 ms from 0, as it comes.",
        _signed(lambda slack, left: 1000 / (left if abs(left) >= 1000 else 1000)),
        "a time of either sign",
    ),
    _wrong(
        "urgency",
        "past_turns_the_sign",
        "The time, at least 1 ms on its own side of 0.",
        _signed(lambda slack, left: math.copysign(_size(slack, left), left)),
    ),
    _wrong(
        "urgency",
        "whole_milliseconds",
        "Milliseconds are whole.",
        _signed(lambda slack, left: 1 / max(abs(left) // 1000, 1)),
    ),
    _wrong(
        "urgency",
        "whole_milliseconds",
        "Milliseconds are rounded.",
        _signed(lambda slack, left: 1 / max(round(abs(left) / 1000), 1)),
        "rounded milliseconds",
    ),
    _wrong(
        "urgency",
        "per_second",
        "One over seconds, at least a thousandth.",
        _signed(lambda slack, left: 1 / max(abs(left) / 1_000_000, 0.001)),
    ),
    _wrong(
        "urgency",
        "rounded",
        "Three digits are enough.",
        _signed(lambda slack, left: round(_size(slack, left), 3)),
    ),
    _wrong(
        "urgency",
        "zero_is_doomed",
        "Positive is above 0.",
        lambda slack, left: _size(slack, left) if slack > 0 else -_size(slack, left),
    ),
    _wrong(
        "urgency",
        "zero_scores_zero",
        "The sign of 0 is 0.",
        lambda slack, left: ((slack > 0) - (slack < 0)) * _size(slack, left),
    ),
    _wrong(
        "urgency",
        "adds_one",
        "Plus 1, so that nothing divides by 0.",
        _signed(lambda slack, left: 1 / (abs(left) / 1000 + 1)),
    ),
    _wrong(
        "urgency",
        "not_finite",
        "None of the doomed has a score.",
        lambda slack, left: urgency(slack, left) if slack >= 0 else math.nan,
    ),
    _wrong(
        "urgency",
        "not_a_number",
        "A rank is a tuple.",
        lambda slack, left: (slack >= 0, abs(left)),
    ),
)

_WRONG_GATES = (
    _wrong(
        "gate",
        "margin_on_negative_scores",
        "Beats it by the margin.",
        _gating(lambda waiter, reference, margin: waiter.urgency > margin * reference.urgency),
    ),
    _wrong(
        "gate",
        "doomed_waiter",
        "Whoever is doomed gives way.",
        _gating(
            lambda waiter, reference, margin: (
                reference.slack_us < 0 or _opens(waiter, reference, margin)
            )
        ),
    ),
    _wrong(
        "gate",
        "doomed_waiter",
        "Among the doomed the more urgent goes first.",
        _gating(_doomed_among_themselves),
        "the doomed among themselves",
    ),
    _wrong(
        "gate",
        "doomed_runner_kept",
        "Scores below 0 do not count.",
        _gating(
            lambda waiter, reference, margin: (
                reference.slack_us >= 0 and _opens(waiter, reference, margin)
            )
        ),
    ),
    _wrong(
        "gate",
        "doomed_runner_kept",
        "The size of the score is what counts.",
        _gating(
            lambda waiter, reference, margin: (
                waiter.slack_us >= 0 and waiter.urgency > margin * abs(reference.urgency)
            )
        ),
        "size of the score",
    ),
    _wrong(
        "gate",
        "slack_0_is_doomed",
        "Without slack it is too late.",
        _gating(
            lambda waiter, reference, margin: (
                waiter.slack_us > 0 and _opens(waiter, reference, margin)
            )
        ),
    ),
    _wrong(
        "gate",
        "slack_0_is_doomed",
        "A runner without slack is too late.",
        _gating(
            lambda waiter, reference, margin: (
                waiter.slack_us >= 0
                and (reference.slack_us <= 0 or waiter.urgency > margin * reference.urgency)
            )
        ),
        "slack 0 of the runner",
    ),
    _wrong("gate", "ignores_rule_1", "The most urgent runs.", _gating(candidates=list)),
    _wrong(
        "gate",
        "second_time",
        "More than once is too often.",
        _gating(candidates=lambda runners: [r for r in runners if r.num_preemptions < 2]),
    ),
    _wrong(
        "gate",
        "all_immune",
        "If all are immune, somebody has to go.",
        _gating(
            candidates=lambda runners: (
                [runner for runner in runners if not runner.num_preemptions] or runners
            )
        ),
    ),
    _wrong(
        "gate",
        "one_immune",
        "Its pass has to get through.",
        _gating(
            candidates=lambda runners: (
                [] if any(runner.num_preemptions for runner in runners) else runners
            )
        ),
    ),
    _wrong(
        "gate",
        "immune_reference",
        "Immune is who cannot be the victim.",
        _reference_out_of_all,
    ),
    _wrong("gate", "immune_victim", "Immune is who is not measured.", _victim_out_of_all),
    _wrong(
        "gate",
        "waiter_immune",
        "Whoever was preempted stays out of it.",
        lambda waiter, runners, margin, mode: (
            None if waiter.num_preemptions else gate(waiter, runners, margin, mode)
        ),
    ),
    _wrong(
        "gate",
        "modes_swapped",
        "Aggressive takes on the strongest.",
        _gating(measure=lambda order, mode: order[-1 if mode == "conservative" else 0]),
    ),
    _wrong(
        "gate",
        "ignores_mode",
        "Better be careful.",
        _gating(measure=lambda order, mode: order[0]),
        "always conservative",
    ),
    _wrong(
        "gate",
        "ignores_mode",
        "Somebody is less urgent.",
        _gating(measure=lambda order, mode: order[-1]),
        "always aggressive",
    ),
    _wrong(
        "gate",
        "victim_is_the_reference",
        "Whoever is beaten goes.",
        _gating(victim=lambda order, reference: reference.id),
    ),
    _wrong("gate", "any_doomed_runner", "The doomed always give way.", _any_doomed_goes),
    _wrong(
        "gate",
        "margin_on_the_waiter",
        "The waiter times the margin beats it.",
        _hopeful(lambda waiter, reference, margin: waiter.urgency * margin > reference.urgency),
    ),
    _wrong(
        "gate",
        "no_margin",
        "More urgent is more urgent.",
        _hopeful(lambda waiter, reference, margin: waiter.urgency > reference.urgency),
    ),
    _wrong(
        "gate",
        "margin_added",
        "By a margin means plus the margin.",
        _hopeful(lambda waiter, reference, margin: waiter.urgency > reference.urgency + margin),
    ),
    _wrong(
        "gate",
        "just_the_margin",
        "At least the margin.",
        _hopeful(lambda waiter, reference, margin: waiter.urgency >= reference.urgency * margin),
    ),
    _wrong(
        "gate",
        "less_urgent_wins",
        "A low score goes first.",
        _hopeful(lambda waiter, reference, margin: waiter.urgency < reference.urgency * margin),
    ),
    _wrong(
        "gate",
        "by_slack",
        "Most slack, least urgent.",
        _gating(rank=lambda runners: sorted(runners, key=lambda r: (r.slack_us, r.id))),
    ),
    _wrong(
        "gate",
        "tie",
        "`min` finds the least urgent.",
        _gating(victim=lambda order, reference: min(order, key=lambda r: r.urgency).id),
    ),
    _wrong("gate", "list_order", "The runners are in order.", _gating(rank=list)),
    _wrong(
        "gate",
        "list_order",
        "The last one to come is the first one to go.",
        _gating(rank=lambda runners: list(reversed(runners))),
        "list order backwards",
    ),
    _wrong(
        "gate",
        "the_waiter_s_id",
        "Who may run?",
        _instead(lambda waiter, runners, victim: waiter.id),
    ),
    _wrong(
        "gate",
        "index",
        "The place of the victim.",
        _instead(lambda waiter, runners, victim: [runner.id for runner in runners].index(victim)),
    ),
    _wrong("gate", "never", "Nobody is interrupted.", lambda *_: None),
    _wrong(
        "gate",
        "other_order",
        "The latest deadline is the least urgent.",
        _gating(victim=lambda order, reference: max(order, key=lambda r: r.time_to_deadline_us).id),
    ),
    _wrong(
        "gate",
        "victim_is_the_first",
        "The one that is beaten is the most urgent.",
        _gating(victim=lambda order, reference: order[0].id),
    ),
    _wrong(
        "gate",
        "fixed_margin",
        "The margin is 1.2.",
        lambda waiter, runners, margin, mode: gate(waiter, runners, 1.2, mode),
    ),
    _wrong(
        "gate",
        "not_none",
        "No id is -1.",
        lambda *args: -1 if gate(*args) is None else gate(*args),
    ),
    _wrong("gate", "in_place", "Runners are best in order.", _sorts_the_runners),
    _wrong(
        "gate",
        "not_an_id",
        "Preempt or not?",
        lambda *args: gate(*args) is not None,
    ),
)

_WRONG_BATCHES = (
    _wrong(
        "slo_batch",
        "everyone",
        "The more, the cheaper.",
        lambda head, waiters, *_: [head.id, *(waiter.id for waiter in waiters)],
    ),
    _wrong(
        "slo_batch",
        "no_guard",
        "As many as the pass can hold.",
        _batching(lambda head, waiter, tokens, a, c, bound, guard: tokens <= bound),
    ),
    _wrong(
        "slo_batch",
        "no_guard",
        "The head makes it.",
        lambda head, waiters, a, c, bound, guard: slo_batch(head, waiters, a, c, bound, 0),
        "to the last microsecond",
    ),
    _wrong(
        "slo_batch",
        "no_bound",
        "As many as the head can bear.",
        lambda head, waiters, a, c, bound, guard: slo_batch(
            head, waiters, a, c, 1_000_000_000, guard
        ),
    ),
    _wrong(
        "slo_batch",
        "bound_exclusive",
        "Below the bound.",
        lambda head, waiters, a, c, bound, guard: slo_batch(head, waiters, a, c, bound - 1, guard),
    ),
    _wrong(
        "slo_batch",
        "guard_exclusive",
        "More than the guard.",
        _batching(
            lambda head, waiter, tokens, a, c, bound, guard: (
                tokens <= bound
                and head.time_to_deadline_us - (a * tokens + c) > guard * head.slo_us
            )
        ),
    ),
    _wrong("slo_batch", "one_too_many", "While it fits, one more.", _looks_too_late),
    _wrong(
        "slo_batch",
        "guards_the_waiter",
        "Whoever comes along must make it.",
        _batching(
            lambda head, waiter, tokens, a, c, bound, guard: (
                tokens <= bound
                and waiter.time_to_deadline_us - (a * tokens + c) >= guard * waiter.slo_us
            )
        ),
    ),
    _wrong(
        "slo_batch",
        "guards_the_waiter",
        "The guard is a share of its own SLO.",
        _batching(
            lambda head, waiter, tokens, a, c, bound, guard: (
                tokens <= bound
                and head.time_to_deadline_us - (a * tokens + c) >= guard * waiter.slo_us
            )
        ),
        "the waiter's SLO",
    ),
    _wrong(
        "slo_batch",
        "guards_everyone",
        "All of them must make it.",
        _batching(
            lambda head, waiter, tokens, *rest: (
                _fits(head, waiter, tokens, *rest) and _fits(waiter, waiter, tokens, *rest)
            )
        ),
    ),
    _wrong(
        "slo_batch",
        "guards_the_time_left",
        "A share of the time there is.",
        _batching(
            lambda head, waiter, tokens, a, c, bound, guard: (
                tokens <= bound and a * tokens + c <= (1 - guard) * head.time_to_deadline_us
            )
        ),
    ),
    _wrong(
        "slo_batch",
        "head_missing",
        "Who comes along with the head?",
        lambda *args: slo_batch(*args)[1:],
    ),
    _wrong(
        "slo_batch",
        "refuses_the_head",
        "What is too long does not run.",
        _looks_at_the_head_too,
    ),
    _wrong("slo_batch", "skips", "Fill what is left.", _batching(goes_on=True)),
    _wrong(
        "slo_batch",
        "forgets_c",
        "Time is tokens.",
        lambda head, waiters, a, c, bound, guard: slo_batch(head, waiters, a, 0, bound, guard),
    ),
    _wrong("slo_batch", "c_for_each", "Each prefill costs c.", _pays_c_for_each),
    _wrong(
        "slo_batch",
        "head_not_counted",
        "What comes along is what counts.",
        _batching(head_tokens=0),
    ),
    _wrong(
        "slo_batch",
        "head_counted_twice",
        "The slack is the time there is.",
        _batching(
            lambda head, waiter, tokens, a, c, bound, guard: (
                tokens <= bound and head.slack_us - (a * tokens + c) >= guard * head.slo_us
            )
        ),
    ),
    _wrong(
        "slo_batch",
        "one_by_one",
        "Does it fit with the head?",
        _batching(
            lambda head, waiter, tokens, *rest: _fits(
                head, waiter, head.tokens + waiter.tokens, *rest
            )
        ),
    ),
    _wrong(
        "slo_batch",
        "reorders",
        "Short ones first, more of them fit.",
        lambda head, waiters, *rest: slo_batch(
            head, sorted(waiters, key=lambda waiter: waiter.tokens), *rest
        ),
    ),
    _wrong(
        "slo_batch",
        "skips_the_doomed",
        "No time for those who are late.",
        lambda head, waiters, *rest: slo_batch(
            head, [waiter for waiter in waiters if waiter.slack_us >= 0], *rest
        ),
    ),
    _wrong(
        "slo_batch",
        "index",
        "The head is number 0.",
        lambda *args: list(range(len(slo_batch(*args)))),
    ),
    _wrong("slo_batch", "in_place", "What comes along no longer waits.", _takes_them_out),
    _wrong("slo_batch", "alone", "Then nobody is in danger.", lambda head, *_: [head.id]),
    _wrong("slo_batch", "not_a_list", "A batch is a set.", lambda *args: set(slo_batch(*args))),
)

WRONG = (*_WRONG_FITS, *_WRONG_SLACKS, *_WRONG_URGENCIES, *_WRONG_GATES, *_WRONG_BATCHES)

_DEVIATIONS = "deviations from a mean add up to 0"
_AT_LEAST_1 = "it is at least 1"
_SIGN_ALONE = "only its sign counts"
_NOT_ITS_OWN = "the rules look at the runners' own"
_BEATEN_ANYWAY = "a doomed reference has an urgency below 0, and that of the waiter is above"
_HEAD_S = "the rules look at the head's own"

# Weaker answers that are right all the same, and why.
STILL_RIGHT = {
    "l05.fit": {
        "points: reversed": "a sum does not mind the order",
        "together = sum((tokens * (time_us - mean_us) for tokens, time_us in points))": _DEVIATIONS,
        "together = sum(((tokens - mean_tokens) * time_us for tokens, time_us in points))": (
            _DEVIATIONS
        ),
    },
    "l05.slack": {
        "deadline at least 1": "a deadline lies after the start of the clock",
        "total at least 1": _AT_LEAST_1,
    },
    "l05.urgency": {"slack at most 7": _SIGN_ALONE},
    "l05.gate": {
        "waiter.id always 7": _NOT_ITS_OWN,
        "waiter.id at most 7": _NOT_ITS_OWN,
        "waiter.id at least 1": _NOT_ITS_OWN,
        "waiter.slack_us at most 7": _SIGN_ALONE,
        "waiter.num_preemptions always 0": _NOT_ITS_OWN,
        "waiter.num_preemptions at most 7": _NOT_ITS_OWN,
        "waiter.num_preemptions at least 1": _NOT_ITS_OWN,
        "runners: reversed": "they come in any order",
        "runners.slack_us always 300000": _BEATEN_ANYWAY,
        "runners.slack_us at most 7": _SIGN_ALONE,
        "runners.slack_us at least 1": _BEATEN_ANYWAY,
        "runners.num_preemptions at most 7": "above 0 is immune",
        "if waiter.urgency > margin * reference.urgency:": _BEATEN_ANYWAY,
    },
    "l05.slo_batch": {
        "head.tokens at least 1": _AT_LEAST_1,
        "head.time_to_deadline_us at least 1": "too little for a pass either way",
        "head.slo_us at least 1": _AT_LEAST_1,
        "waiters.tokens at least 1": _AT_LEAST_1,
        "waiters.time_to_deadline_us always 160000": _HEAD_S,
        "waiters.time_to_deadline_us at most 7": _HEAD_S,
        "waiters.time_to_deadline_us at least 1": _HEAD_S,
        "waiters.slo_us always 200000": _HEAD_S,
        "waiters.slo_us at most 7": _HEAD_S,
        "waiters.slo_us at least 1": _HEAD_S,
        "bound at least 1": _AT_LEAST_1,
        "result: without repeats": "ids are unique",
    },
}

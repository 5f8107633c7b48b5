"""The fleet's metrics: over the last 10 seconds, and over the whole run.

Percentiles are nearest rank. A request is settled when it finishes, is refused, or its deadline
passes, whichever comes first; it is a violation unless it finished by then, so a request that never
finishes counts too. Gaps between tokens include waiting and preemption; tokens of one pass come out
together, with gaps of 0.
"""

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import iadd

WINDOW_S = 10


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of a span. Times in milliseconds, shares from 0 to 1; None: no value yet.

    `slo_violation_share` is over the requests settled in the span, for a whole run over all
    arrivals; `kv_hit_share` is hit tokens over known tokens to prefill. `queue_depth` and
    `workers_busy` are of its last moment.
    """

    throughput_tokens_per_s: float
    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    itl_mean_ms: float | None
    itl_p99_ms: float | None
    slo_violation_share: float | None
    kv_hit_share: float | None
    preemptions: int
    arrived: int
    completed: int
    refused: int
    violations: int
    generated_tokens: int
    queue_depth: int
    workers_busy: int


def percentile(counts: Mapping[int, int], percent: int) -> int | None:
    """Nearest rank of values that come `counts[value]` times each; None of no values."""
    rank, seen = -(-percent * sum(counts.values()) // 100), 0
    for value in sorted(counts):
        seen += counts[value]
        if seen >= rank:
            return value
    return None


@dataclass(slots=True)
class Tally:
    """Events counted in one second, or in many. Mutable."""

    tokens: int = 0
    ttfts_us: list[int] = field(default_factory=list[int])
    gaps_us: Counter[int] = field(default_factory=Counter[int])
    settled: int = 0
    violations: int = 0
    hit_tokens: int = 0
    computed_tokens: int = 0
    preemptions: int = 0
    arrived: int = 0
    completed: int = 0
    refused: int = 0

    def add(self, *others: "Tally") -> "Tally":
        """Add the events of other spans; return itself."""
        for other in others:
            for each in fields(self):
                setattr(self, each.name, iadd(getattr(self, each.name), getattr(other, each.name)))
        return self


def measure(tally: Tally, duration_s: float, queue_depth: int, workers_busy: int) -> Metrics:
    """The metrics of a tally over `duration_s` seconds."""
    num_gaps = sum(tally.gaps_us.values())
    total_gap_us = sum(gap_us * count for gap_us, count in tally.gaps_us.items())
    known_tokens = tally.hit_tokens + tally.computed_tokens
    ttfts_us = Counter(tally.ttfts_us)
    return Metrics(
        throughput_tokens_per_s=tally.tokens / duration_s if duration_s else 0.0,
        ttft_p50_ms=_ms(percentile(ttfts_us, 50)),
        ttft_p99_ms=_ms(percentile(ttfts_us, 99)),
        itl_mean_ms=total_gap_us / num_gaps / 1000 if num_gaps else None,
        itl_p99_ms=_ms(percentile(tally.gaps_us, 99)),
        slo_violation_share=tally.violations / tally.settled if tally.settled else None,
        kv_hit_share=tally.hit_tokens / known_tokens if known_tokens else None,
        preemptions=tally.preemptions,
        arrived=tally.arrived,
        completed=tally.completed,
        refused=tally.refused,
        violations=tally.violations,
        generated_tokens=tally.tokens,
        queue_depth=queue_depth,
        workers_busy=workers_busy,
    )


class Meter:
    """Tallies events by second of the virtual clock. Mutable."""

    def __init__(self) -> None:
        self.now = Tally()  # since the last full second
        self._seconds: list[Tally] = []  # the full ones
        self._open: list[tuple[int, int]] = []  # (deadline, id), settled or not
        self._settled: set[int] = set()

    def arrive(self, request_id: int, deadline_us: int) -> None:
        """Count a request that arrives."""
        self.now.arrived += 1
        heapq.heappush(self._open, (deadline_us, request_id))

    def settle(self, request_id: int, *, violated: bool) -> None:
        """Count a request that finished, was refused or is late; only the first time."""
        if request_id not in self._settled:
            self._settled.add(request_id)
            self.now.settled += 1
            self.now.violations += violated

    def pass_deadlines(self, now_us: int) -> None:
        """Count every unsettled request whose deadline lies before this moment as a violation."""
        while self._open and self._open[0][0] < now_us:
            self.settle(heapq.heappop(self._open)[1], violated=True)

    def close_second(self, at_us: int, queue_depth: int, workers_busy: int) -> Metrics:
        """End a second of the virtual clock; return the metrics of the last ten."""
        self.pass_deadlines(at_us)
        self._seconds.append(self.now)
        self.now = Tally()
        window, span_s = Tally().add(*self._seconds[-WINDOW_S:]), min(at_us / 1e6, WINDOW_S)
        return measure(window, span_s, queue_depth, workers_busy)

    def total(self) -> Tally:
        """Everything so far."""
        return Tally().add(*self._seconds, self.now)


def _ms(us: float | None) -> float | None:
    return None if us is None else us / 1000

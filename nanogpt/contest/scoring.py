"""What an entry makes of a workload: which promises it keeps, on the deterministic clock.

A request keeps its promise when each of its tokens is there by the time it is due. A token is
there at the end of the step that first gave it. Goodput is how many requests do: DistServe (Zhong
et al., 2024) counts those that meet both the SLO of TTFT and that of the later tokens. These are
deadlines of single tokens, as in Etalon (Agrawal et al., 2024), and not gaps, since a gap shrinks
when a token is held back on purpose ("smooth goodput", Wang et al., 2024).
"""

import functools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from nanogpt.contest.contest_machine import PatientClock, contest_model
from nanogpt.contest.ranks import Rank, rank
from nanogpt.contest.workloads import Call, Workload
from nanogpt.engine import Engine
from nanogpt.parts import Parts
from nanogpt.parts.ranking import Policy, TimedKey
from nanogpt.parts.request_view import RequestView
from nanogpt.posts.oracle import generate
from nanogpt.trace import StepRecord
from nanogpt.validate import PartError, show

MOST_STEPS = 3_000
"""An entry that has not served a workload by then never will: plain ones take about 200."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What plays: a name, the engine's parts, and a rank of its own or a policy's name."""

    name: str
    parts: Parts = field(default_factory=Parts)
    rank: Rank | str = rank


FCFS = Entry("FCFS", rank="fcfs")
PRIORITY = Entry("strict priority", rank="priority")
REFERENCE = Entry("reference")
BASELINES = (FCFS, PRIORITY, REFERENCE)


@dataclass(frozen=True, slots=True)
class Score:
    """How many of `num_calls` requests kept their promise; 0, and `problem` says why, after a
    failure.

    `kept` are their ids, `num_steps` and `duration_us` what it took to serve them all.
    """

    num_calls: int
    kept: tuple[int, ...]
    num_steps: int
    duration_us: int
    problem: str = ""

    @property
    def points(self) -> int:
        """One for each request that kept its promise."""
        return len(self.kept)


def play(workload: Workload, entry: Entry) -> Score:
    """Serve the workload with the entry's parts, and count.

    A part that fails, a text that is not the oracle's, or a run without an end scores 0.
    """
    run = _Run(workload, entry)
    try:
        run.serve()
        problem = _wrong_text(workload, run.texts)
    except Exception as error:  # a policy's own, or the engine's about what one led to
        is_ours = isinstance(error, PartError | ValueError)
        problem = str(error) if is_ours else f"a policy raised {show(error)}"
        problem = problem.replace("policy for request", "rank for request")
    times = first_times(workload.calls, run.steps)
    kept = [call.id for call in workload.calls if _is_kept(call, times[call.id])]
    ids = () if problem else tuple(kept)
    num_calls, num_steps = len(workload.calls), len(run.steps)
    return Score(num_calls, ids, num_steps, run.clock.now_us(), problem)


def first_times(calls: Sequence[Call], steps: Sequence[StepRecord]) -> dict[int, dict[int, int]]:
    """By request and number of its token: when the token was there for the first time.

    A request that was preempted may be given a token again: its reader has had it.
    """
    lengths = {call.id: len(call.prompt_tokens) for call in calls}
    times: dict[int, dict[int, int]] = {call.id: {} for call in calls}
    for step in steps:
        for work in step.work:
            if work.sampled is not None:
                index = work.end - lengths[work.request_id]
                times[work.request_id].setdefault(index, step.end_us)
    return times


def _is_kept(call: Call, times: dict[int, int]) -> bool:
    wanted = range(call.max_new_tokens)
    return all(index in times and times[index] <= call.due_us(index) for index in wanted)


class _Run:
    """One engine, and the workload that it is given as time passes. Mutable."""

    def __init__(self, workload: Workload, entry: Entry) -> None:
        self._queue = deque(workload.calls)
        self._calls = {call.id: call for call in workload.calls}
        self._requests = {call.id: call.request() for call in workload.calls}
        self.clock = PatientClock(workload.machine.cost)
        settings = workload.machine.settings(self._policy(entry))
        self._engine = Engine(contest_model(), settings, entry.parts, clock=self.clock)
        self.steps: list[StepRecord] = []

    @property
    def texts(self) -> dict[int, list[int]]:
        """What each request was given."""
        return {i: request.generated_tokens for i, request in self._requests.items()}

    def serve(self) -> None:
        """To the end. Raises: ValueError."""
        engine = self._engine
        while self._queue or not engine.scheduler.is_done():
            if engine.scheduler.is_done():
                self.clock.wait_until(self._queue[0].arrival_us)
            while self._queue and self._queue[0].arrival_us <= self.clock.now_us():
                engine.submit(self._requests[self._queue.popleft().id])
            if len(self.steps) == MOST_STEPS:
                raise ValueError(
                    f"after {MOST_STEPS:,} steps {len(engine.requests)} requests are not done"
                )
            self.steps.append(engine.step())

    def _policy(self, entry: Entry) -> Policy:
        ranked = entry.rank
        if isinstance(ranked, str):
            return ranked

        def key(view: RequestView, _: int) -> tuple[float, ...]:
            due_us = self._calls[view.id].due_us(len(view.generated_tokens))
            return ranked(view, due_us, self.clock.now_us())

        return TimedKey(key)


def _wrong_text(workload: Workload, texts: dict[int, list[int]]) -> str:
    """The first text that is not the oracle's, in a sentence, or nothing."""
    for call in workload.calls:
        right, text = _right_text(call.prompt_tokens, call.max_new_tokens), texts[call.id]
        for i, (wanted, got) in enumerate(zip(right, text, strict=True)):
            if got != wanted:
                return (
                    f"the text of request {call.id} is wrong: its token {i} is {got}, and one "
                    f"request alone gives {wanted}"
                )
    return ""


@functools.lru_cache(maxsize=4096)
def _right_text(prompt: tuple[int, ...], max_new_tokens: int) -> tuple[int, ...]:
    return tuple(generate(contest_model(), prompt, max_new_tokens))

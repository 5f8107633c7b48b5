"""An entry's score: how many requests of a workload meet their SLO, on the modelled clock.

A request meets its SLO when each of its tokens is there by the time it is due. A token is there
at the end of the step that first gave it. Goodput is the number of such requests: DistServe (Zhong
et al., 2024) counts those that meet the SLOs of both TTFT and the later tokens. Deadlines are of
single tokens, as in Etalon (Agrawal et al., 2024), and not of gaps, since a gap shrinks when a
token is held back on purpose ("smooth goodput", Wang et al., 2024).
"""

import functools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nanogpt.clock import CostClock
from nanogpt.config import Policy, TimedKey
from nanogpt.contest.upper_bound import bound
from nanogpt.contest.workloads import MODEL, Call, Workload, workload
from nanogpt.engine import Engine
from nanogpt.policies import Policies
from nanogpt.trace import StepRecord
from nanogpt.validate import PolicyError, show
from nanogpt.views.request_view import RequestView

if TYPE_CHECKING:
    from nanogpt.model import GPT

PREFILL_US = 512
"""Cost of one prompt token on the contest's machine."""
PriorityKey = Callable[[RequestView, int, int], tuple[float, ...]]
"""(request, due_us, now_us) -> key; the smallest key goes first.

`due_us` is when the request's next token is due, `now_us` the time. Called in every step for every
waiting and every running request.
"""


def priority_key(request: RequestView, due_us: int, now_us: int) -> tuple[float, ...]:
    """Order decodes first, then prefills by the time at which they must begin; late ones last.

    A prefill must begin when its slack is 0: at its due time, less its cost. Without the first rule
    two requests preempt each other in turns, and compute their prompts again each time.
    """
    missing = request.num_tokens - request.kv_tokens
    is_decode = missing <= 1
    begin_us = due_us if is_decode else due_us - missing * PREFILL_US
    if begin_us < now_us:
        return (2, begin_us)
    return (0 if is_decode else 1, begin_us)


MOST_STEPS = 3_000
"""An entry that has not served a workload by then never will: plain ones take about 200."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A name, the engine's policies, and a priority key or the name of an engine's policy."""

    name: str
    policies: Policies = field(default_factory=Policies)
    priority_key: PriorityKey | str = priority_key


FCFS = Entry("FCFS", priority_key="fcfs")
PRIORITY = Entry("strict priority", priority_key="priority")
REFERENCE = Entry("reference")
BASELINES = (FCFS, PRIORITY, REFERENCE)


@dataclass(frozen=True, slots=True)
class Score:
    """Ids of the requests that met their SLO; none after a failure, named by `problem`."""

    num_calls: int
    kept: tuple[int, ...]
    num_steps: int
    duration_us: int
    problem: str = ""

    @property
    def points(self) -> int:
        """The number of SLOs met."""
        return len(self.kept)


def play(workload: Workload, entry: Entry) -> Score:
    """Serve the workload with the entry's policies, and count the requests whose SLO is met.

    A policy that fails, a text that differs from the oracle's, or an endless run scores 0.
    """
    calls, clock = workload.calls, PatientClock(workload.machine.cost)
    settings = workload.machine.settings(_policy(entry.priority_key, calls, clock))
    engine = Engine(contest_model(), settings, entry.policies, clock=clock)
    try:
        problem = _wrong_text(calls, _serve(engine, calls, clock))
    except Exception as error:  # a policy's own, or the engine's about what one led to
        is_ours = isinstance(error, PolicyError | ValueError)
        problem = str(error) if is_ours else f"a policy raised {show(error)}"
        problem = problem.replace("policy for request", "priority_key for request")
    times = first_times(calls, engine.steps)
    kept = () if problem else tuple(call.id for call in calls if _is_kept(call, times[call.id]))
    return Score(len(calls), kept, len(engine.steps), clock.now_us(), problem)


def first_times(calls: Sequence[Call], steps: Sequence[StepRecord]) -> dict[int, dict[int, int]]:
    """By request and index of its token: when the token was there for the first time.

    A preempted request may compute a token again, which its reader already has.
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


class PatientClock(CostClock):
    """The modelled clock, which can also wait until the next arrival."""

    def wait_until(self, time_us: int) -> None:
        """Advance the clock to a time, unless it is past it."""
        self._now_us = max(self._now_us, time_us)


def _policy(own_key: PriorityKey | str, calls: Sequence[Call], clock: PatientClock) -> Policy:
    """An engine's policy that tells the priority key when each request's next token is due."""
    if isinstance(own_key, str):
        return own_key

    def key(view: RequestView, _: int) -> tuple[float, ...]:
        due_us = calls[view.id].due_us(len(view.generated_tokens))
        return own_key(view, due_us, clock.now_us())

    return TimedKey(key)


def _serve(engine: Engine, calls: Sequence[Call], clock: PatientClock) -> list[list[int]]:
    """The texts of all calls. Raises: ValueError after `MOST_STEPS` steps."""
    requests = [call.request() for call in calls]
    queue = deque(zip(calls, requests, strict=True))
    while queue or not engine.scheduler.is_done():
        if engine.scheduler.is_done():
            clock.wait_until(queue[0][0].arrival_us)
        while queue and queue[0][0].arrival_us <= clock.now_us():
            engine.submit(queue.popleft()[1])
        if len(engine.steps) == MOST_STEPS:
            raise ValueError(
                f"after {MOST_STEPS:,} steps {len(engine.requests)} requests are not done"
            )
        engine.step()
    return [request.generated_tokens for request in requests]


def _wrong_text(calls: Sequence[Call], texts: Sequence[Sequence[int]]) -> str:
    """A sentence about the first text that differs from the oracle's, or ""."""
    for call, text in zip(calls, texts, strict=True):
        right = _right_text(call.prompt_tokens, call.max_new_tokens)
        for i, (wanted, got) in enumerate(zip(right, text, strict=True)):
            if got != wanted:
                return (
                    f"the text of request {call.id} is wrong: its token {i} is {got}, and one "
                    f"request alone gives {wanted}"
                )
    return ""


@functools.lru_cache(maxsize=4096)
def _right_text(prompt: tuple[int, ...], max_new_tokens: int) -> tuple[int, ...]:
    from nanogpt.posts.oracle import generate

    return tuple(generate(contest_model(), prompt, max_new_tokens))


@functools.cache
def contest_model() -> "GPT":
    """Two random layers in float64, scaled so that texts vary and a wrong mask changes them.

    Scores depend on how many tokens a request has, never on which, so other random weights on
    another machine give the same scores.
    """
    import torch

    from nanogpt.model import GPT

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = GPT(MODEL).double().eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        if name.endswith("embedding.weight"):  # else one token wins everywhere
            size = 1.0 if name.startswith("token") else 0.3
            weight.copy_(torch.nn.functional.normalize(weight) * size)
        elif weight.dim() == 2:
            weight.mul_(40)
    return model


@dataclass(frozen=True, slots=True)
class Round:
    """One workload under one seed: the bound `most`, and scores by entry in playing order.

    `number` is the seed's place among those that are played, from 0.
    """

    workload: str
    number: int
    num_calls: int
    most: int
    scores: tuple[tuple[str, Score], ...]

    def points(self, name: str) -> int:
        """The score of the entry of this name. Raises: KeyError."""
        return dict(self.scores)[name].points


def play_round(name: str, number: int, seed: int, entries: Sequence[Entry]) -> Round:
    """Let the entries play one workload, each on an engine of its own."""
    made = workload(name, seed)
    scores = tuple((entry.name, play(made, entry)) for entry in entries)
    return Round(name, number, len(made.calls), bound(made), scores)

"""Lesson 6's race lab: ranks held at named points, and the races about leaving a pass.

Each race replaces one piece of the engine by a wrong one (`nanogpt/preemption/races.py`). Ranks and
monitor are held at named points, so that the bad order happens every time.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import torch

from course.lesson_data.l06_ranks import random_model
from nanogpt import EngineConfig
from nanogpt.preemption import agreement, races
from nanogpt.preemption.agreement import RANK_POLICIES
from nanogpt.preemption.monitor import Monitor, Snapshot, Target, now_us, write_step
from nanogpt.preemption.preemptive_engine import Preemption, PreemptiveEngine
from nanogpt.preemption.rank_messages import Abandoned, RanksFailed
from nanogpt.preemption.runner import Runner
from nanogpt.preemption.sharded_model import PassRow
from nanogpt.preemption.shared_state import (
    NOTHING,
    hold,
    let_go,
    point_number,
    wait_if_held,
    wait_until_held,
)
from nanogpt.views.slo_view import SloRequest

HELD = replace(RANK_POLICIES, at_point=wait_if_held)
"""Ranks that wait where they are held."""


def beside(work: Callable[[], object], run: Callable[[], Any]) -> Any:
    """Do `work` in a thread while `run` runs here; what `run` gives."""
    with ThreadPoolExecutor(1) as helper:
        beside_it = helper.submit(work)
        outcome = run()
        beside_it.result()
    return outcome


def staged(runner: Runner, layer: int, work: Callable[[int], object]) -> Callable[[], None]:
    """Hold rank 0 at `layer` of the coming pass; the function returned does `work(step)` there."""
    step = runner.step + 1
    last = layer == 4  # behind the last layer a rank is held before it replies
    hold(runner.shared, 0, "reply" if last else "read", point_number(step, layer, 4))

    def hold_and_let_go() -> None:
        wait_until_held(runner.shared, 0)
        try:
            work(step)
        finally:
            let_go(runner.shared, 0)

    return hold_and_let_go


def wait_for(condition: Callable[[], object], limit_s: float = 20.0) -> None:
    """Return once the condition holds. Raises: TimeoutError."""
    deadline = now_us() + limit_s * 1e6
    while not condition():
        if now_us() > deadline:
            raise TimeoutError("what the race waits for did not happen")
        threading.Event().wait(0.001)


def short_row() -> list[PassRow]:
    """A prefill of 20 tokens."""
    return [PassRow(0, [1] * 20, range(20), 0, torch.ones(20, 20, dtype=torch.bool).tril())]


def in_words(outcome: Any) -> str:
    """The outcome of a pass."""
    if isinstance(outcome, Abandoned):
        return f"step {outcome.step} was left at layer {outcome.layer} of 4"
    return f"step {outcome.step} was computed to its end"


def urgent_first(snapshot: Snapshot) -> Target | None:
    """A gate: a waiting request with a short SLO goes first, unless a running one is immune."""
    urgent = [request.id for request in snapshot.waiting if request.slo_us < 10**9]
    immune = any(runner.num_preemptions for runner in snapshot.running)
    return Target(snapshot.step, urgent[0]) if urgent and not immune else None


def small_engine(runner: Runner, preemption: Preemption, **limits: Any) -> PreemptiveEngine:
    """An engine over the race lab's four layers."""
    config = EngineConfig(token_budget=128, max_batch_size=4, **limits)
    return PreemptiveEngine(random_model(4, 32), runner, preemption, config)


def race_late_write(runner: Runner, wrong: bool) -> str:
    """The monitor decides in one step and writes when that is over. Which step does it hit?"""
    vote = races.flag_vote if wrong else agreement.local_vote
    runner.load(random_model(4, 32), 1, policies=replace(RANK_POLICIES, local_vote=vote))
    decided, may_write = threading.Event(), threading.Event()

    def hesitate(snapshot: Snapshot) -> Target | None:
        target = urgent_first(snapshot)
        decided.set()
        may_write.wait(20)
        return target

    write = races.write_flag if wrong else write_step
    with Monitor(runner.shared, hesitate, [], write=write) as monitor:
        step = runner.new_step()
        urgent = SloRequest(1, 5, 0, now_us() + 10**8, 10**8, 0)
        monitor.publish(Snapshot(step, now_us(), now_us(), (urgent,), ()))
        decided.wait(20)
        runner.run(step, short_row(), vote=True)
        monitor.publish(None)  # the step is over, and the next one is not unwanted
        if wrong:
            runner.shared.target = NOTHING  # the engine clears its flag after every step
        may_write.set()
        wait_for(lambda: runner.shared.target != NOTHING)
        outcome = runner.run(runner.new_step(), short_row(), vote=True)
    return f"step {step} was meant; {in_words(outcome)}"


def race_leaving(runner: Runner, rule: Callable[..., Any]) -> str:
    """Rank 1 reads at layer 1 just before the target is written, rank 0 just after."""
    held = replace(HELD, preemption_point=rule)
    runner.load(random_model(4, 32), 1, policies=held)
    step, shared = runner.new_step(), runner.shared
    hold(shared, 0, "read", point_number(step, 1, 4))
    hold(shared, 1, "agree", point_number(step, 1, 4))

    def write_between() -> None:
        for rank in (0, 1):
            wait_until_held(shared, rank)
        shared.target = step
        for rank in (0, 1):
            let_go(shared, rank)

    try:
        return in_words(beside(write_between, lambda: runner.run(step, short_row(), vote=True)))
    except RanksFailed as hung:
        return f"HANGS until the collective's timeout: {hung}"


def race_no_vote(runner: Runner, wrong: bool) -> str:
    """A rank that has read the target leaves without a vote."""
    return race_leaving(runner, races.leave_alone if wrong else agreement.preemption_point)


def race_leave_first(runner: Runner, wrong: bool) -> str:
    """A rank that votes 1 leaves before the collective, the others come to it."""
    return race_leaving(runner, races.leave_first if wrong else agreement.preemption_point)

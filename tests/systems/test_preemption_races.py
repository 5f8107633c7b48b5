"""The races, one test each: one piece swapped for a wrong one, all else as in service.

Every test runs the same course of events with the reference and with the wrong piece, in real rank
processes. Ranks and the monitor are held at named points, so that the order is not left to luck.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from preempting import (
    HELD,
    LAYERS,
    first_hurried,
    hold_at,
    let_go,
    meanwhile,
    pass_row,
    prompt,
    ranks,
    tiny_model,
    wait_for,
    wait_until_held,
)

from nanogpt import EngineConfig, Request
from nanogpt.preemption.agreement import BY_STEP, RANK_PARTS, Signal, checkpoint
from nanogpt.preemption.cleanup import clean_up
from nanogpt.preemption.monitor import (
    Inbox,
    Monitor,
    MonitorParts,
    Snapshot,
    Target,
    now_us,
    with_arrivals,
)
from nanogpt.preemption.pass_outcome import (
    RUNNER_PARTS,
    Abandoned,
    Complete,
    RanksFailed,
    RunnerParts,
)
from nanogpt.preemption.preemption_settings import Preemption
from nanogpt.preemption.preemptive_engine import PreemptiveEngine
from nanogpt.preemption.races import (
    FLAG,
    believe_target,
    keep_previous_step,
    leave_alone,
    leave_first,
    nobody_is_immune,
    only_the_snapshot,
    read_until_preempted,
    without_progress,
)
from nanogpt.preemption.runner import Runner
from nanogpt.preemption.shared_state import NOTHING
from nanogpt.preemption.slo_gate import GATE_PARTS, GateParts, slo_gate
from nanogpt.slo.slo_parts import SloParts
from nanogpt.slo.slo_view import SloRequest

pytestmark = pytest.mark.process

CONFIG = EngineConfig(token_budget=128, max_batch_size=4)
URGENT_US = 10**8


def held_rank_0(runner: Runner, layer: int, work: Callable[[int], object]) -> Callable[[], None]:
    """Hold rank 0 at `layer` of the coming pass; what is returned does `work(step)` there."""
    step = runner.step + 1
    hold_at(runner.shared, 0, step, layer, "reply" if layer == LAYERS else "read")

    def hold_and_let_go() -> None:
        wait_until_held(runner.shared, 0)
        try:
            work(step)
        finally:
            let_go(runner.shared, 0)

    return hold_and_let_go


@pytest.mark.parametrize(("signal", "hits_the_next_step"), [(BY_STEP, False), (FLAG, True)])
def test_a_late_write_hits_the_next_step_only_if_it_is_a_flag(
    signal: Signal, hits_the_next_step: bool
):
    """The monitor decides in one pass, and writes when that is over and the flag is cleared."""
    runner = ranks(2)
    runner.load(tiny_model(), 1, parts=replace(RANK_PARTS, signal=signal))
    decided, may_write = threading.Event(), threading.Event()

    def hesitate() -> None:
        decided.set()
        assert may_write.wait(30)

    parts = MonitorParts(before_write=hesitate)
    with Monitor(runner.shared, first_hurried, Inbox(), signal, parts) as monitor:
        step = runner.new_step()
        hurried = SloRequest(1, 5, 0, now_us() + URGENT_US, URGENT_US, 0)
        monitor.publish(Snapshot(step, now_us(), now_us(), (hurried,), ()))
        assert decided.wait(30)
        assert isinstance(runner.run(step, [pass_row(prompt(9))], vote=True), Complete)
        monitor.publish(None)
        may_write.set()
        wait_for(lambda: runner.shared.target != NOTHING, "the late write")
        outcome = runner.run(runner.new_step(), [pass_row(prompt(9))], vote=True)
    assert isinstance(outcome, Abandoned) == hits_the_next_step


@pytest.mark.parametrize("rule", [checkpoint, leave_alone, leave_first])
def test_who_leaves_without_the_collective_leaves_the_other_hanging_in_it(rule: Callable):
    """Rank 1 has read at layer 1 when the target is written; rank 0 has not."""
    right = rule is checkpoint
    runner = ranks(2) if right else Runner(2, timeout_s=2.0)
    runner.load(tiny_model(), 1, parts=replace(HELD, checkpoint=rule))
    step, shared = runner.new_step(), runner.shared
    hold_at(shared, 0, step, 1, "read")
    hold_at(shared, 1, step, 1, "agree")

    def write_between() -> None:
        for rank in (0, 1):
            wait_until_held(shared, rank)
        shared.target = step
        for rank in (0, 1):
            let_go(shared, rank)

    with meanwhile(write_between):
        if right:
            outcome = runner.run(step, [pass_row(prompt(20))], vote=True)
            assert isinstance(outcome, Abandoned) and outcome.layer == 1
            return
        with pytest.raises(RanksFailed) as hung:
            runner.run(step, [pass_row(prompt(20))], vote=True)
    assert f"rank 0 at step {step}, layer 1: left the pass" in str(hung.value)
    assert f"rank 1 at step {step}, layer 1: waited in a collective" in str(hung.value)
    assert not runner.is_open


@pytest.mark.parametrize("read_replies", [RUNNER_PARTS.read_replies, read_until_preempted])
def test_a_reply_that_is_left_behind_is_taken_for_the_next_one(read_replies: Callable):
    """Rank 1 is slow to say that it has left."""
    runner = ranks(2)
    runner.load(tiny_model(), 1, parts=HELD)
    one_has_answered = threading.Event()

    def read(next_reply: Callable, num_ranks: int) -> list:
        def noted() -> Any:
            reply = next_reply()
            one_has_answered.set()
            return reply

        return read_replies(noted, num_ranks)

    runner.parts = RunnerParts(read_replies=read)
    step = runner.new_step()
    hold_at(runner.shared, 1, step, LAYERS, "reply")
    runner.shared.target = step

    def be_slow() -> None:
        wait_until_held(runner.shared, 1)
        assert one_has_answered.wait(60)
        let_go(runner.shared, 1)

    with meanwhile(be_slow):
        assert isinstance(runner.run(step, [pass_row(prompt(9))], vote=True), Abandoned)
    second = runner.new_step()
    if read_replies is read_until_preempted:
        with pytest.raises(RanksFailed, match=f"rank 1 answered step {step}, not step {second}"):
            runner.run(second, [pass_row(prompt(9))])
    else:
        assert isinstance(runner.run(second, [pass_row(prompt(9))]), Complete)


@pytest.mark.parametrize("judge", [RUNNER_PARTS.judge, believe_target])
def test_a_target_written_after_the_last_layer_has_preempted_nobody(judge: Callable):
    runner = ranks(2)
    runner.load(tiny_model(), 1, parts=HELD)
    runner.parts = RunnerParts(judge=judge)
    try:
        write = held_rank_0(runner, LAYERS, lambda step: setattr(runner.shared, "target", step))
        with meanwhile(write):
            outcome = runner.run(runner.new_step(), [pass_row(prompt(9))], vote=True)
    finally:
        runner.parts = RUNNER_PARTS
    if judge is believe_target:  # a whole pass is thrown away for nothing
        assert isinstance(outcome, Abandoned)
        assert all(len(reply.checks) == LAYERS for reply in outcome.replies)
    else:
        assert isinstance(outcome, Complete)


@pytest.mark.parametrize("undo", [clean_up, keep_previous_step])
def test_a_victim_comes_back_only_if_the_books_of_its_step_were_undone(undo: Callable):
    """The victim is admitted again in the very next step, together with the urgent one."""

    def together(chosen: SloRequest, others: Sequence[SloRequest]) -> list[int]:
        return [chosen.id, *(other.id for other in others)]

    preemption = Preemption(first_hurried, batch=together, clean_up=undo, rank_parts=HELD)
    with PreemptiveEngine(tiny_model(), ranks(2), preemption, CONFIG) as engine:
        engine.arrive(Request(0, prompt(60), 2))

        def interrupt(step: int) -> None:
            engine.arrive(Request(1, prompt(5), 2), URGENT_US)
            wait_for(lambda: engine.runner.shared.target == step)

        with meanwhile(held_rank_0(engine.runner, 1, interrupt)):
            engine.step()
        if undo is keep_previous_step:
            with pytest.raises(AssertionError, match=r"requests \[0\] are admitted, yet the last"):
                engine.step()
        else:
            assert set(engine.step().admitted) == {0, 1}


@pytest.mark.parametrize("see", [with_arrivals, only_the_snapshot])
def test_who_arrives_in_mid_pass_is_seen_only_through_the_inbox(see: Callable):
    looks: list[int] = []

    def gate(seen: Snapshot) -> Target | None:
        looks.append(len(seen.waiting))
        return first_hurried(seen)

    preemption = Preemption(gate, rank_parts=HELD, monitor_parts=MonitorParts(see=see))
    with PreemptiveEngine(tiny_model(), ranks(2), preemption, CONFIG) as engine:
        engine.arrive(Request(0, prompt(60), 2))

        def arrive(step: int) -> None:
            wait_for(lambda: bool(looks))
            engine.arrive(Request(1, prompt(5), 2), URGENT_US)
            before = len(looks)
            wait_for(lambda: engine.runner.shared.target == step or len(looks) > before + 3)

        with meanwhile(held_rank_0(engine.runner, 1, arrive)):
            engine.step()
        engine.serve()
    sees_it = see is with_arrivals
    assert (engine.first_token_us[1] < engine.first_token_us[0]) == sees_it
    assert len(engine.preemptions) == sees_it


@pytest.mark.parametrize("progress", [GATE_PARTS.progress, without_progress])
def test_a_runner_on_time_looks_doomed_if_its_progress_does_not_count(progress: Callable):
    """120 tokens of 1/12 s each, promised within 10.15 s; a quarter of a second of it is over."""
    seen_at_us: list[int] = []
    judged = slo_gate(a=1e6 / 12, c=0.0, parts=replace(GATE_PARTS, progress=progress))

    def gate(seen: Snapshot) -> Target | None:
        answer = judged(seen)
        seen_at_us.append(seen.now_us - seen.started_us)
        return answer

    preemption = Preemption(gate, rank_parts=HELD)
    with PreemptiveEngine(tiny_model(), ranks(2), preemption, CONFIG) as engine:
        engine.arrive(Request(0, prompt(120), 1), slo_us=10_150_000)

        def somebody_without_hurry_arrives(step: int) -> None:
            engine.arrive(Request(1, prompt(5), 1), slo_us=10**9)
            target = engine.runner.shared
            wait_for(lambda: target.target == step or max(seen_at_us, default=0) > 250_000)

        with meanwhile(held_rank_0(engine.runner, 1, somebody_without_hurry_arrives)):
            engine.step()
        engine.serve()
    assert len(engine.preemptions) == (progress is without_progress)


@pytest.mark.parametrize("parts", [GATE_PARTS, GateParts(immune=nobody_is_immune)])
def test_without_immunity_two_requests_preempt_each_other_for_ever(parts: GateParts):
    """A policy that finds what waits more urgent than what runs."""
    jumpy = SloParts(gate=lambda waiter, runners, margin, mode: runners[0].id)
    judged, answers = slo_gate(1.0, 1.0, policy=jumpy, parts=parts), dict[int, Target | None]()

    def gate(seen: Snapshot) -> Target | None:
        answers[seen.step] = judged(seen)
        return answers[seen.step]

    config = replace(CONFIG, max_prefilling=1)
    preemption = Preemption(gate)
    with PreemptiveEngine(tiny_model(), ranks(2), preemption, config) as engine:
        begin_pass = engine.begin_pass

        def begin_when_the_monitor_has_looked(step: int, rows: Sequence) -> str:
            mode = begin_pass(step, rows)
            shared = engine.runner.shared
            if mode != "plain":
                wait_for(lambda: step in answers)
                wait_for(lambda: answers[step] is None or shared.target == step)
            return mode

        engine.begin_pass = begin_when_the_monitor_has_looked
        engine.arrive(Request(0, prompt(60), 1))
        engine.arrive(Request(1, prompt(50), 1))
        for _ in range(30):
            if engine.inbox.look() or not engine.scheduler.is_done():
                engine.step()
    wasted = [step for step in engine.trace().steps if not step.work]
    if parts is GATE_PARTS:
        assert engine.scheduler.is_done()
        assert len(wasted) <= 2
    else:
        assert len(wasted) == 30
        assert engine.first_token_us == {}

"""Real rank processes: one model's numbers on any number of them, and passes that they all leave.

And what happens when a rank or the engine is lost, or a piece of the agreement is a wrong one.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import tiers
import torch
from launching import running, wait_for
from preempting import (
    CONFIG,
    HELD,
    LAYERS,
    assert_gone,
    end_in_mid_run,
    first_hurried,
    hold_at,
    logits_after,
    meanwhile,
    nothing_left,
    pass_row,
    prompt,
    ranks,
    tiny_model,
)

from nanogpt import Engine, EngineConfig, Request, generate, load_model
from nanogpt.preemption import races
from nanogpt.preemption import runner as runner_module
from nanogpt.preemption.agreement import RANK_POLICIES, local_vote, preemption_point
from nanogpt.preemption.monitor import Monitor, Snapshot, Target, now_us, write_step
from nanogpt.preemption.preemptive_engine import PreemptiveEngine
from nanogpt.preemption.rank_messages import Abandoned, Complete, Crashed, Left, RanksFailed, judge
from nanogpt.preemption.runner import Runner
from nanogpt.preemption.shared_state import (
    NOTHING,
    SharedState,
    let_go,
    shared_file,
    wait_until_held,
)
from nanogpt.preemption.tensor_parallel import tensor_parallel
from nanogpt.slo.slo_view import SloRequest

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]

LATER = {"vote": 0, "carried": 1, "epoch": 1}
"""How many layers after a rank has read the target all of them leave."""
NUM_RANKS = [
    2, pytest.param(1, marks=pytest.mark.nightly), pytest.param(4, marks=pytest.mark.nightly),
]  # fmt: skip


def assert_predicts(outcome: Any, *texts: Sequence[int], model: Any = None) -> None:
    """The pass is complete, and its rows are what the whole model predicts after these texts."""
    assert isinstance(outcome, Complete)
    for row, tokens in zip(outcome.logits, texts, strict=True):
        assert (row - logits_after(model or tiny_model(), list(tokens))).abs().max() < 1e-10


@contextmanager
def target_written_at(runner: Runner, step: int, layer: int) -> Iterator[None]:
    """The target is written while rank 0 is held before it reads it at `layer`."""
    hold_at(runner.shared, 0, step, layer)

    def write() -> None:
        wait_until_held(runner.shared, 0)
        runner.shared.target = step
        let_go(runner.shared, 0)

    with meanwhile(write):
        yield


@pytest.mark.parametrize("num_ranks", NUM_RANKS)
def test_any_number_of_ranks_gives_the_logits_and_tokens_of_one_model(num_ranks: int):
    shipped, tokens = load_model(dtype=torch.float64), prompt(100)
    runner = ranks(num_ranks)
    runner.load(shipped, num_slots=2)
    outcome = runner.run(runner.new_step(), [pass_row(tokens)])
    assert_predicts(outcome, tokens, model=shipped)
    model, prompts = tiny_model(), [prompt(20), prompt(33, 5), prompt(7, 9)]
    arrivals = [(step, Request(step, tokens, 6)) for step, tokens in enumerate(prompts)]
    config = EngineConfig(token_budget=16)
    trace = Engine(model, config, make_executor=tensor_parallel(runner)).run(arrivals)
    for request_id, tokens in enumerate(prompts):
        assert list(trace.generated_tokens(request_id)) == generate(model, tokens, 6)
    assert trace.executor == f"tensor parallel, {num_ranks} ranks"


def test_without_a_monitor_no_rank_votes_and_a_target_for_another_step_stops_none():
    runner = ranks(2)
    runner.load(tiny_model(), num_slots=1)
    step = runner.new_step()
    runner.shared.target = step
    outcome = runner.run(step, [pass_row(prompt(9))])
    assert isinstance(outcome, Complete)
    for reply in outcome.replies:
        assert [check.vote for check in reply.checks] == [0] * LAYERS
        times = [check.reached_ns for check in reply.checks]  # on one clock for all processes
        assert times == sorted(times)
        assert times[-1] + reply.checks[-1].agree_ns < runner.replied_ns
    for ahead in (-1, 1, 1000):
        step = runner.new_step()
        runner.shared.target = step + ahead
        assert isinstance(runner.run(step, [pass_row(prompt(9))], vote=True), Complete)
        runner.shared.target = NOTHING


@pytest.mark.parametrize(("agreement", "layer"), tiers.some(list(product(LATER, range(LAYERS))), 4))
def test_a_pass_is_left_at_any_layer_and_run_again_from_the_start(agreement: str, layer: int):
    runner = ranks(2)
    runner.load(tiny_model(), 1, agreement, HELD)
    step, tokens = runner.new_step(), prompt(40)
    with target_written_at(runner, step, layer):
        outcome = runner.run(step, [pass_row(tokens)], vote=True)
    if layer + LATER[agreement] < LAYERS:
        assert isinstance(outcome, Abandoned)
        assert outcome.layer == layer + LATER[agreement]
    assert_predicts(runner.run(runner.new_step(), [pass_row(tokens)], vote=True), tokens)


@pytest.mark.parametrize(
    ("num_ranks", "layer"),
    [(2, 2), *(pytest.param(n, layer, marks=pytest.mark.nightly)
               for n in (1, 2) for layer in range(LAYERS) if (n, layer) != (2, 2))],
)  # fmt: skip
def test_a_suspended_pass_goes_on_where_it_slept_while_others_ran(num_ranks: int, layer: int):
    runner = ranks(num_ranks)
    runner.load(tiny_model(), 3, "vote", HELD)
    step, long, short = runner.new_step(), prompt(60), prompt(8, 4)
    with target_written_at(runner, step, layer):
        left = runner.run(step, [pass_row(long, slot=1)], vote=True)
    assert isinstance(left, Abandoned)
    assert left.layer == layer
    for slot in (0, 2):
        between = runner.run(runner.new_step(), [pass_row(short, slot)], vote=True)
        assert_predicts(between, short)
    assert runner.shared.target == step, "and yet the resumed pass is not left again"
    outcome = runner.resume(step)
    assert_predicts(outcome, long)
    assert [check.layer for check in outcome.replies[0].checks] == list(range(LAYERS))


def test_an_aborted_chunk_leaves_what_earlier_steps_committed_as_it_was():
    runner = ranks(2)
    runner.load(tiny_model(), 1)
    tokens = prompt(60)
    runner.run(runner.new_step(), [pass_row(tokens[:25])])
    step = runner.new_step()
    runner.shared.target = step
    left = runner.run(step, [pass_row(prompt(35, 11), context_len=25)], vote=True)
    assert isinstance(left, Abandoned)
    assert_predicts(runner.run(runner.new_step(), [pass_row(tokens[25:], context_len=25)]), tokens)


def test_ranks_that_cannot_be_set_up_are_refused_with_the_reason_and_live_on():
    with pytest.raises(ValueError, match="the number of ranks is 0"):
        Runner(0)
    runner = ranks(2)
    odd = type(tiny_model())(type(CONFIG)(num_layers=1, num_heads=3, num_channels=12))
    with pytest.raises(ValueError, match="3 heads do not split evenly over 2 ranks"):
        runner.load(odd, 1)
    with pytest.raises(ValueError, match="there is no agreement 'shout'"):
        runner.load(tiny_model(), 1, "shout")
    for settings in ({"sliding_window": 8}, {"block_size": 8}):
        config = EngineConfig(**settings)
        with pytest.raises(ValueError, match="no sliding window"):
            Engine(tiny_model(), config, make_executor=tensor_parallel(runner))
        with pytest.raises(ValueError, match="no sliding window"):
            PreemptiveEngine(tiny_model(), runner, config=config)
    assert runner.is_open


# --- losses ---------------------------------------------------------------------------------------


def test_replies_that_do_not_fit_together_are_no_preemption():
    left = Left(0, 4, 2, ())
    with pytest.raises(RanksFailed, match=r"rank 0 at step 4, layer 2: left .*rank 1 .*ValueError"):
        judge([left, Crashed(1, 4, 2, "ValueError: no", False)], 4, 4)
    with pytest.raises(RanksFailed, match=r"rank 0 at step 4, layer 2.*rank 1 at step 4, layer 3"):
        judge([left, Left(1, 4, 3, ())], 4, 4)


def test_the_users_of_the_memory_are_ended_before_it_is_released(monkeypatch: pytest.MonkeyPatch):
    with shared_file(1) as file:
        shared = SharedState(file.fileno(), 1)
    monitor = Monitor(shared, first_hurried, [])
    monitor.start()
    looks_on: list[bool] = []
    monkeypatch.setattr(runner_module, "reap", lambda group: looks_on.append(monitor.is_running))
    runner_module._end(None, [monitor.stop])
    assert looks_on == [False]
    shared.close()

    def stop() -> None:
        raise RuntimeError("still busy")

    with pytest.raises(RuntimeError, match="still busy"):
        runner_module._end(None, [stop])
    assert len(looks_on) == 2, "it is released even if its users do not end"


def test_a_rank_that_is_killed_in_mid_pass_is_named_and_the_others_are_ended():
    runner = Runner(2, timeout_s=20)
    runner.load(tiny_model(), 1, policies=HELD)
    process_ids = runner.process_ids
    step = runner.new_step()
    hold_at(runner.shared, 1, step, 2)

    def kill() -> None:
        wait_until_held(runner.shared, 1)
        os.kill(process_ids[1], signal.SIGKILL)

    with meanwhile(kill), pytest.raises(RanksFailed, match=r"rank 1 .*killed by SIGKILL"):
        runner.run(step, [pass_row(prompt(20))], vote=True)
    assert_gone(process_ids)
    assert not runner.is_open


ENGINE = """
    import sys, threading
    sys.path.insert(0, {tests!r})
    from preempting import HELD, hold_at, pass_row, prompt, tiny_model
    from nanogpt.preemption.shared_state import wait_until_held
    from nanogpt.preemption.runner import Runner

    def tell():
        wait_until_held(runner.shared, 0)
        print("in mid-run", *runner.process_ids, flush=True)

    with Runner({num_ranks}) as runner:
        runner.load(tiny_model(), 1, policies=HELD)
        step = runner.new_step()
        hold_at(runner.shared, 0, step, 1)
        threading.Thread(target=tell, daemon=True).start()
        runner.run(step, [pass_row(prompt(9))], vote=True)
"""


@pytest.mark.parametrize(
    ("how", "num_ranks"),
    [(signal.SIGKILL, 2), pytest.param(signal.SIGINT, 1, marks=pytest.mark.nightly)],
)
def test_however_the_engine_ends_in_mid_pass_its_ranks_end_too(how: signal.Signals, num_ranks: int):
    """Rank 0 is held in a pass, and rank 1, if there is one, waits for it in a collective."""
    process_ids = end_in_mid_run(ENGINE, how, num_ranks=num_ranks)
    assert len(process_ids) == num_ranks
    assert_gone(process_ids)


@pytest.mark.nightly
def test_closing_leaves_no_process_no_open_file_and_no_file_on_disk(tmp_path: Path):
    ranks(2)  # whatever is opened once per process is open by now
    with nothing_left(tmp_path), Runner(2) as runner:
        runner.load(tiny_model(), 1)
        runner.run(runner.new_step(), [pass_row(prompt(5))])
        process_ids = runner.process_ids
        assert running(list(process_ids)) == list(process_ids)
    assert_gone(process_ids)
    runner.close()  # a second time does nothing
    with pytest.raises(RanksFailed, match="start a new runner"):
        runner.run(1, [pass_row(prompt(5))])
    abandoned = Runner(1)
    process_ids = abandoned.process_ids
    del abandoned
    gc.collect()
    assert_gone(process_ids)


# --- races: one piece swapped for a wrong one, all else as in service -----------------------------


@pytest.mark.parametrize(
    ("write", "vote", "hits_the_next_step"),
    [(write_step, local_vote, False), (races.write_flag, races.flag_vote, True)],
)
def test_a_late_write_hits_the_next_step_only_if_it_is_a_flag(
    write: Callable, vote: Callable, hits_the_next_step: bool
):
    """The monitor decides in one pass, and writes when that is over."""
    runner = ranks(2)
    runner.load(tiny_model(), 1, policies=replace(RANK_POLICIES, local_vote=vote))
    decided, may_write = threading.Event(), threading.Event()

    def hesitate(seen: Snapshot) -> Target | None:
        target = first_hurried(seen)
        decided.set()
        assert may_write.wait(30)
        return target

    with Monitor(runner.shared, hesitate, [], write=write) as monitor:
        step = runner.new_step()
        hurried = SloRequest(1, 5, 0, now_us() + 10**8, 10**8, 0)
        monitor.publish(Snapshot(step, now_us(), now_us(), (hurried,), ()))
        assert decided.wait(30)
        assert isinstance(runner.run(step, [pass_row(prompt(9))], vote=True), Complete)
        monitor.publish(None)
        may_write.set()
        wait_for(lambda: runner.shared.target != NOTHING, "the late write")
        outcome = runner.run(runner.new_step(), [pass_row(prompt(9))], vote=True)
    assert isinstance(outcome, Abandoned) == hits_the_next_step


@pytest.mark.parametrize(
    "rule",
    [
        preemption_point,
        *(
            pytest.param(each, marks=pytest.mark.nightly)
            for each in (races.leave_alone, races.leave_first)
        ),
    ],
)
def test_who_leaves_without_the_collective_leaves_the_other_hanging_in_it(rule: Callable):
    """Rank 1 has read at layer 1 when the target is written; rank 0 has not."""
    right = rule is preemption_point
    runner = ranks(2) if right else Runner(2, timeout_s=2.0)
    runner.load(tiny_model(), 1, policies=replace(HELD, preemption_point=rule))
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

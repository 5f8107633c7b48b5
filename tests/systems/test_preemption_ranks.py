"""Real rank processes: one model's numbers on any number of them, and passes that they all leave.

And what happens when a rank or the engine is lost. `course/test_museum.py` runs the races.
"""

import gc
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import tiers
import torch
from launching import running
from preempting import (
    CONFIG,
    HELD,
    LAYERS,
    assert_gone,
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
from support import ROOT

from nanogpt import Engine, EngineConfig, Request, generate, load_model
from nanogpt.preemption import runner as runner_module
from nanogpt.preemption.monitor import Monitor
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
    script = textwrap.dedent(ENGINE).format(tests=str(ROOT / "tests"), num_ranks=num_ranks)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", script], env=environment, **pipes) as engine:
        said = engine.stdout.readline()
        assert said.startswith("in mid-run"), engine.communicate()
        engine.send_signal(how)
        engine.communicate(timeout=60)
    assert engine.returncode != 0
    process_ids = [int(word) for word in said.split()[2:]]
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

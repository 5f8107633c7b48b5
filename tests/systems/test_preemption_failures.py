"""A rank is lost, the engine is lost, somebody presses Ctrl-C: a clear error, and nothing left."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from preempting import (
    HELD,
    first_hurried,
    hold_at,
    meanwhile,
    open_files,
    pass_row,
    process_is_there,
    prompt,
    ranks,
    tiny_model,
    wait_for,
    wait_until_held,
)
from support import ROOT

from nanogpt.preemption import runner as runner_module
from nanogpt.preemption.monitor import Inbox, Monitor
from nanogpt.preemption.pass_outcome import RanksFailed, judge
from nanogpt.preemption.rank_messages import Crashed, Left
from nanogpt.preemption.runner import Runner
from nanogpt.preemption.shared_state import SharedState, shared_file

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]


def assert_gone(process_ids: list[int]) -> None:
    wait_for(lambda: not any(map(process_is_there, process_ids)), "the end of all ranks")


def test_closing_leaves_no_process_no_open_file_and_no_file_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ranks(2)  # whatever is opened once per process is open by now
    gc.collect()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = open_files()
    with Runner(2) as runner:
        runner.load(tiny_model(), 1)
        runner.run(runner.new_step(), [pass_row(prompt(5))])
        process_ids = runner.process_ids
        assert all(map(process_is_there, process_ids))
        assert open_files() > before
    assert_gone(process_ids)
    assert open_files() == before
    assert os.listdir(tmp_path) == []
    runner.close()  # a second time does nothing
    with pytest.raises(RanksFailed, match="start a new runner"):
        runner.run(1, [pass_row(prompt(5))])


def test_a_rank_that_is_killed_in_mid_pass_is_named_and_the_others_are_ended():
    runner = Runner(2, timeout_s=20)
    runner.load(tiny_model(), 1, parts=HELD)
    process_ids = runner.process_ids
    step = runner.new_step()
    hold_at(runner.shared, 1, step, 2)

    def kill() -> None:
        wait_until_held(runner.shared, 1)
        os.kill(process_ids[1], signal.SIGKILL)

    with meanwhile(kill), pytest.raises(RanksFailed, match=r"rank 1 .*killed by signal 9"):
        runner.run(step, [pass_row(prompt(20))], vote=True)
    assert_gone(process_ids)
    assert not runner.is_open


def test_a_rank_that_died_between_two_passes_is_noticed():
    runner = Runner(1)
    runner.load(tiny_model(), 1)
    os.kill(runner.process_ids[0], signal.SIGKILL)
    with pytest.raises(RanksFailed, match=r"rank 0 .*killed by signal 9"):
        runner.run(runner.new_step(), [pass_row(prompt(20))])
    assert_gone(runner.process_ids)


def test_a_rank_that_is_stopped_shows_as_a_collective_that_nobody_came_to():
    runner = Runner(2, timeout_s=2.0)
    runner.load(tiny_model(), 1, parts=HELD)
    process_ids = runner.process_ids
    step = runner.new_step()
    hold_at(runner.shared, 1, step, 2)

    def stop() -> None:
        wait_until_held(runner.shared, 1)
        os.kill(process_ids[1], signal.SIGSTOP)

    waited = rf"rank 0 at step {step}, layer 2: waited in a collective for a rank that did not come"
    pattern = rf"{waited} .*; rank 1 failed: no sign of life"
    with meanwhile(stop), pytest.raises(RanksFailed, match=pattern):
        runner.run(step, [pass_row(prompt(20))], vote=True)
    assert_gone(process_ids)


def test_an_error_in_a_rank_arrives_with_its_words():
    runner = Runner(1)
    runner.load(tiny_model(), 1)
    with pytest.raises(RanksFailed, match=r"rank 0 .*failed: IndexError: index 5 is out of bounds"):
        runner.run(runner.new_step(), [pass_row(prompt(5), slot=5)])
    assert_gone(runner.process_ids)


def test_a_crash_counts_for_more_than_a_preemption():
    replies = [Left(0, 4, 2, False, (), 0), Crashed(1, 4, 2, "ValueError: no", False)]
    with pytest.raises(RanksFailed, match=r"rank 0 at step 4, layer 2: left .*rank 1 .*ValueError"):
        judge(replies, 4, 4)


def test_ranks_that_left_at_different_layers_are_no_preemption():
    replies = [Left(0, 4, 2, False, (), 0), Left(1, 4, 3, False, (), 0)]
    with pytest.raises(RanksFailed, match=r"rank 0 at step 4, layer 2.*rank 1 at step 4, layer 3"):
        judge(replies, 4, 4)


def test_a_rank_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('no torch here')")
    before = open_files()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(RanksFailed, match=r"rank 0 did not come up: (?s:.*)no torch here"):
        Runner(1)
    assert open_files() == before


def test_a_runner_that_nobody_closed_is_closed_when_nobody_has_it():
    runner = Runner(1)
    process_ids = runner.process_ids
    del runner
    gc.collect()
    assert_gone(process_ids)


def test_whoever_uses_the_memory_is_ended_before_it_is_released(monkeypatch: pytest.MonkeyPatch):
    with shared_file(1) as file:
        shared = SharedState(file.fileno(), 1)
    monitor = Monitor(shared, first_hurried, Inbox())
    monitor.start()
    looks_on: list[bool] = []
    monkeypatch.setattr(runner_module, "reap", lambda group: looks_on.append(monitor.is_running))
    runner_module._end(None, [monitor.stop])
    assert looks_on == [False]
    shared.close()


def test_memory_is_released_even_if_its_users_do_not_end(monkeypatch: pytest.MonkeyPatch):
    released: list[object] = []
    monkeypatch.setattr(runner_module, "reap", released.append)

    def stop() -> None:
        raise RuntimeError("still busy")

    with pytest.raises(RuntimeError, match="still busy"):
        runner_module._end("the group", [stop])
    assert released == ["the group"]


ENGINE = """
    import sys, threading
    sys.path.insert(0, {tests!r})
    from preempting import HELD, hold_at, pass_row, prompt, tiny_model, wait_until_held
    from nanogpt.preemption.runner import Runner

    def tell():
        wait_until_held(runner.shared, 0)
        print("in mid-pass", *runner.process_ids, flush=True)

    with Runner({num_ranks}) as runner:
        runner.load(tiny_model(), 1, parts=HELD)
        step = runner.new_step()
        hold_at(runner.shared, 0, step, 1)
        threading.Thread(target=tell, daemon=True).start()
        runner.run(step, [pass_row(prompt(9))], vote=True)
"""


@pytest.mark.parametrize(("how", "num_ranks"), [(signal.SIGINT, 1), (signal.SIGKILL, 2)])
def test_however_the_engine_ends_in_mid_pass_its_ranks_end_too(how: signal.Signals, num_ranks: int):
    """Rank 0 is held in a pass, and rank 1, if there is one, waits for it in a collective."""
    script = textwrap.dedent(ENGINE.format(tests=str(ROOT / "tests"), num_ranks=num_ranks))
    root = str(ROOT)
    engine = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    with engine:
        assert engine.stdout is not None
        words = engine.stdout.readline().split()
        process_ids = [int(word) for word in words[2:]]
        assert len(process_ids) == num_ranks, engine.communicate()
        engine.send_signal(how)
        engine.communicate(timeout=60)
    assert engine.returncode != 0
    assert_gone(process_ids)

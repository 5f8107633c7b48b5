"""What holds for every kind of process that runs a learner's function, whatever it does."""

import _thread
import ctypes
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any

import pytest
import torch
from launching import wait_for
from support import processes_below, unavailable
from tiers import some

from course.calling import jobs, processes
from course.calling.answers import answering
from course.calling.channel import LostError
from course.calling.errors import BACKSTOP, describe_timeout
from course.calling.jobs import RunError, run
from course.calling.processes import ForkServer, Starter
from course.calling.sandbox import SandboxError, sandboxed
from course.calling.spawner import Spawner

pytestmark = pytest.mark.process
LIMIT_S = 0.4
READY_S = 3.0  # of computing, for the next answer after a kill
say = print  # ruff bars printing here, and learners print


def start(kind: str) -> Starter:
    if kind != "spawn" and sys.platform != "linux":
        pytest.skip("forks are used on Linux only")
    try:
        return {"fork server": ForkServer, "spawn": Spawner, "sandbox": sandboxed}[kind]()
    except SandboxError as error:
        unavailable(str(error))


@pytest.fixture(scope="module", params=["fork server", "spawn", "sandbox"])
def starter(request: pytest.FixtureRequest) -> Iterator[Starter]:
    made = start(request.param)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def nothing_is_left(starter: Starter) -> Iterator[None]:
    """What stands by for the next answer is as much afterwards as before."""
    assert outcome(starter, right) == "3"
    before = len(processes_below())
    yield
    if isinstance(starter, Spawner):
        starter.replace()
    wait_for(lambda: len(processes_below()) == before, "the end of what an answer started")


def outcome(starter: Starter, function: Callable[..., Any], limit_s: float = LIMIT_S) -> str:
    """The result of a call, or why there is none."""
    try:
        with answering(function, "answer", starter) as answer:
            result = answer.call((1, 2), limit_s=limit_s, wall_s=BACKSTOP * limit_s)
    except LostError as lost:
        return f"{lost.status}: {lost.words}"
    if result.timed_out:
        return f"timeout: {describe_timeout(result.cpu_s, limit_s, result.where)}"
    return result.error.told if result.error else repr(result.value)


def right(a: int, b: int) -> int:
    return a + b


def endless_in_c(a: int, b: int) -> int:
    # the second line below the def
    return sum(range(10**12))


def endless(a: int, b: int) -> int:
    while True:
        pass


def backtracks(a: int, b: int) -> Any:
    return re.match("(a+)+$", "a" * 60 + "b")


def leaves(a: int, b: int) -> None:
    os._exit(0)


def crashes(a: int, b: int) -> Any:
    return ctypes.string_at(0)


def takes_10_gb(a: int, b: int) -> int:
    return len(bytearray(10 << 30))


def takes_ever_more(a: int, b: int) -> None:
    grown: list[bytearray] = []
    while True:
        grown.append(bytearray(1 << 28))


def prints_for_ever(a: int, b: int) -> None:
    while True:
        say("x" * 1000)
        say("x" * 1000, file=sys.stderr)


def sleeps(a: int, b: int) -> None:
    time.sleep(600)


def forks(a: int, b: int) -> int:
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
    return a + b


def starts_a_program(a: int, b: int) -> int:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    return a + b


def leaves_a_thread(a: int, b: int) -> int:
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return a + b


STOPPED = f"timeout: took longer than {LIMIT_S:g} s of computing and was stopped on its line "
CASES: dict[Callable[..., Any], str] = {
    endless_in_c: re.escape(f"{STOPPED}3 (`return sum(range(10**12))`)"),
    endless: re.escape(STOPPED) + "[23] .*",
    backtracks: re.escape(STOPPED) + "2 .*",
    leaves: r"crashed: ended the whole Python process \(`os._exit`\?\)",
    crashes: r"crashed: crashed the Python process \(SIGSEGV\) on its line 2 .*",
    takes_10_gb: "raised MemoryError on its line 2 .*",
    takes_ever_more: "raised MemoryError on its line 4 .*|memory: took .*|timeout: .*",
    prints_for_ever: re.escape(STOPPED) + "[234] .*",
    sleeps: "timeout: had not finished after 1.6 s, nearly all of it waiting .* line 2 .*",
    forks: "3",
    starts_a_program: "3|raised .*",  # a sandbox has no program to start
    leaves_a_thread: "3",
}


@pytest.mark.parametrize("answer", some(CASES, 4), ids=lambda each: each.__name__)
def test_a_call_ends_within_its_limit_with_a_sentence_and_the_next_is_soon_ready(
    answer: Callable[..., Any], starter: Starter
) -> None:
    began = time.monotonic()
    assert re.fullmatch(CASES[answer], said := outcome(starter, answer)), said
    assert time.monotonic() - began < BACKSTOP * LIMIT_S + READY_S
    with starter.start() as channel:
        used_s = channel.cpu_s()
    assert used_s < READY_S
    assert outcome(starter, right) == "3"


JOBS: dict[Callable[..., Any], str] = {
    endless: "your endless took longer than 0.4 s of computing and was stopped on its line",
    endless_in_c: "your endless_in_c took longer than 0.4 s of computing",
    leaves: "the run ended the whole Python process",
    takes_10_gb: "your takes_10_gb raised MemoryError on its line 2",
    sleeps: "your sleeps had not finished after 1.6 s",
}


@pytest.mark.parametrize("answer", some(JOBS, 2), ids=lambda each: each.__name__)
def test_a_job_whose_callback_does_not_return_ends_with_a_sentence(
    answer: Callable[..., Any], starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    if answer is not sleeps:  # on a busy machine, the time on the clock may be up first
        monkeypatch.setattr(jobs, "BACKSTOP", 100)
    assert run(reduce, right, [1, 2, 3], starter=starter) == 6
    with pytest.raises(RunError, match=re.escape(JOBS[answer])):
        run(reduce, answer, [1, 2, 3], limit_s=LIMIT_S, starter=starter)


def test_what_is_printed_is_relayed_up_to_a_limit(
    starter: Starter, capsys: pytest.CaptureFixture[str]
) -> None:
    def prints(a: int, b: int) -> None:
        say("é" * a)

    with answering(prints, "prints", starter) as answer:
        few, many = (answer.call((n, 0), limit_s=5.0, wall_s=20.0).stdout for n in (3, 1_000_000))
    assert few == "ééé\n" and many.endswith("\n... (the rest was cut)\n") and len(many) < 10_100
    assert capsys.readouterr().out == ""
    run(prints, 1_000_000, 0, starter=starter)
    assert 50_000 < len(capsys.readouterr().out) < 50_100


def test_ctrl_c_ends_the_process_that_is_asked(starter: Starter) -> None:
    timer = threading.Timer(0.3, _thread.interrupt_main)
    with answering(endless, "endless", starter) as answer:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            answer.call((1, 2), limit_s=30.0, wall_s=120.0)
        with pytest.raises(LostError, match="left in the middle of a call"):
            answer.call((1, 2), limit_s=1.0, wall_s=4.0)
    threading.Timer(0.3, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        run(endless, 1, 2, limit_s=30.0, starter=starter)


def test_nothing_goes_over_from_one_answer_to_the_next(starter: Starter) -> None:
    def spoils(a: int, b: int) -> int:
        torch.equal = lambda *_: True
        sys.modules["json"] = None  # type: ignore[assignment]
        return a + b

    def pid(a: int, b: int) -> int:
        return os.getpid()

    def looks(a: int, b: int) -> int:
        import json  # noqa: F401

        return int(torch.equal(torch.zeros(1), torch.ones(1)))

    if isinstance(starter, Spawner):  # its one process serves several answers
        assert outcome(starter, pid) == outcome(starter, pid)
    else:
        assert (outcome(starter, spoils), outcome(starter, looks)) == ("3", "0")


def test_torch_computes_there_whatever_threads_there_are_here(starter: Starter) -> None:
    def with_a_product(a: int, b: int) -> int:
        torch.randn(600, 600) @ torch.randn(600, 600)
        return a + b

    torch.set_num_threads(2)
    try:
        torch.randn(600, 600) @ torch.randn(600, 600)
        assert outcome(starter, with_a_product, limit_s=5.0) == "3"
    finally:
        torch.set_num_threads(1)


def test_what_stands_by_is_started_anew_when_it_is_killed_or_interrupted(
    starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm = starter._warm
    process = (warm if isinstance(starter, ForkServer) else warm._child).process
    process.kill()
    process.wait()
    assert outcome(starter, right) == "3"
    if isinstance(starter, ForkServer):  # an order's reply that came too late is not the next one's
        with monkeypatch.context() as patched:
            patched.setattr(processes.json, "loads", partial(_raise, KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                starter.start()
        assert outcome(starter, right) == "3"


def _raise(error: type[BaseException], *_: Any) -> None:
    raise error


def test_a_function_that_cannot_travel_is_told(starter: Starter) -> None:
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"cannot pickle '_thread\.lock'"):
        outcome(starter, lambda a, b: lock)
    with pytest.raises(RunError, match="could not be sent to the process that computes it"):
        run(lambda: lock, starter=starter)

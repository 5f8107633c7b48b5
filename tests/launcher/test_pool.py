"""Jobs in several processes: an interrupt ends them, whenever it comes."""

import sys

import pytest
from support import ROOT, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of a POSIX system")
SCRIPT = """
import os, signal, sys, threading, time
from nanogpt.experiments.pool import run_jobs

def job(number):
    time.sleep(0.1)
    return number

if __name__ == "__main__":
    # Another thread is there to take the signal: a mask would keep it from the main one alone.
    threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
    try:
        threading.Timer(float(sys.argv[1]), os.kill, (os.getpid(), signal.SIGINT)).start()
        list(run_jobs(job, [(number,) for number in range(200)], 2))
    except KeyboardInterrupt:
        print("stopped")
"""
REGISTERING = """
import signal
from multiprocessing import resource_tracker
from nanogpt.experiments.pool import run_jobs

register, names = resource_tracker.register, []

def register_interrupted(name, kind):
    register(name, kind)
    names.append(name)
    if len(names) == {number}:
        signal.raise_signal(signal.SIGINT)

if __name__ == "__main__":
    resource_tracker.register = register_interrupted
    try:
        list(run_jobs(abs, [(number,) for number in range(200)], 2))
    except KeyboardInterrupt:
        print("stopped")
"""
WAITING = """
import concurrent.futures, os, signal, sys
from nanogpt.experiments.pool import run_jobs

FOLDER = os.path.dirname(concurrent.futures.__file__)
lines = 0

def interrupt(frame, event, _):
    global lines
    if not frame.f_code.co_filename.startswith(FOLDER):
        return None
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it is not held back
        lines += event == "line"
        if lines == {number}:
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
    return interrupt

if __name__ == "__main__":
    sys.settrace(interrupt)
    try:
        list(run_jobs(abs, [(number,) for number in range(200)], 2))
    except KeyboardInterrupt:
        print("stopped")
"""


def test_an_interrupt_while_the_pool_is_made_leaves_no_semaphore_behind(tmp_path):
    """Python registers a semaphore before it says how to let it go: an interrupt in between."""
    script = tmp_path / "jobs.py"
    for number in (1, 3):
        script.write_text(REGISTERING.format(number=number))
        done = run([sys.executable, str(script)], cwd=ROOT)
        assert (done.stdout, done.stderr) == ("stopped\n", ""), number


def test_an_interrupt_within_the_wait_for_a_result_lets_the_pool_end(tmp_path):
    """A lock that the pool's own thread needs would be kept, and its end waited for without end."""
    script = tmp_path / "jobs.py"
    for number in (1, 40, 100):
        script.write_text(WAITING.format(number=number))
        done = run([sys.executable, str(script)], cwd=ROOT)
        assert (done.stdout, done.stderr) == ("stopped\n", ""), number


@pytest.mark.process
def test_an_interrupt_while_workers_start_is_one_line(tmp_path):
    script = tmp_path / "jobs.py"
    script.write_text(SCRIPT)
    for after_ms in range(1, 25):
        done = run([sys.executable, str(script), str(after_ms / 1000)], cwd=ROOT)
        assert (done.stdout, done.stderr) == ("stopped\n", "")

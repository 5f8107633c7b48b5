"""Jobs in several processes: Ctrl-C ends them in one line, whenever it comes."""

import sys
import time

import psutil
import pytest
from support import ROOT, run
from tiers import some

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


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_pool_whose_parent_is_killed_ends(tmp_path):
    script = tmp_path / "jobs.py"
    script.write_text(SCRIPT.replace("0.1", "9"))
    parent = psutil.Popen([sys.executable, str(script), "60"], cwd=ROOT)
    until = time.monotonic() + 30
    while len(children := parent.children()) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    assert len(children) == 3
    assert psutil.wait_procs(children, timeout=10)[1] == []


@pytest.mark.process
@pytest.mark.parametrize("after_ms", [*some(range(1, 25), 2), 300])
def test_an_interrupt_of_a_pool_is_one_line(tmp_path, after_ms: int):
    script = tmp_path / "jobs.py"
    script.write_text(SCRIPT)
    done = run([sys.executable, str(script), str(after_ms / 1000)], cwd=ROOT)
    assert (done.stdout, done.stderr) == ("stopped\n", "")

"""A worker is lost, the router is lost, somebody presses Ctrl-C: nothing waits, nothing stays."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from preempting import CONFIG, open_files, process_is_there, prompt, tiny_model, wait_for
from support import ROOT

from nanogpt.config import EngineConfig
from nanogpt.fleet import decisions
from nanogpt.model import GPT
from nanogpt.posts.oracle import generate
from nanogpt.request import Request
from nanogpt.validate import PartError
from nanogpt.workers.worker_fleet import Fleet, WorkersFailed

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]

SETTINGS = EngineConfig(token_budget=16, max_batch_size=4, block_size=4, share_prefixes=True)
LONG = 80


def assert_gone(process_ids: Iterable[int]) -> None:
    wait_for(lambda: not any(map(process_is_there, process_ids)), "the end of all workers")


class Disaster:
    """Our route, until request number `at` is routed: then a signal goes to a worker.

    Mutable: how many requests have been routed.
    """

    def __init__(self, fleet: Fleet, at: int, worker_id: int, how: signal.Signals) -> None:
        self.at, self.how = at, how
        self.process_id = fleet.process_ids[worker_id]
        self.num_routed = 0

    def __call__(self, *given: object) -> int:
        if self.num_routed == self.at:
            os.kill(self.process_id, self.how)
        self.num_routed += 1
        return decisions.route(*given)  # type: ignore[arg-type]


def long_load() -> list[tuple[float, Request]]:
    """Four requests on two workers, and a fifth that arrives while they are decoding."""
    arrivals = [(0.0, Request(i, prompt(20, start=i), LONG)) for i in range(4)]
    return [*arrivals, (0.03, Request(4, prompt(20, start=4), 3))]


def test_requests_of_a_killed_worker_get_the_same_text_elsewhere():
    with Fleet(tiny_model(), 2, SETTINGS) as fleet:
        process_ids = fleet.process_ids
        fleet.route = Disaster(fleet, at=4, worker_id=1, how=signal.SIGKILL)
        results = fleet.run(long_load())
        for result in results:
            asked = LONG if result.id < 4 else 3
            assert list(result.tokens) == generate(tiny_model(), prompt(20, start=result.id), asked)
            assert result.ttft_us <= result.latency_us
        moved = [result.id for result in results if result.worker_ids == (1, 0)]
        assert len(moved) >= 2
        assert fleet.lost == [
            f"worker 1 was killed by signal 9; its requests {moved} go to other workers"
        ]
        assert_gone([process_ids[1]])
        assert list(fleet.process_ids) == [0]
        (more,) = fleet.serve([Request(5, prompt(9), 2)])
        assert more.worker_ids == (0,)


def test_a_worker_that_died_between_two_runs_is_noticed_and_the_last_one_ends_the_fleet():
    fleet = Fleet(tiny_model(), 2, SETTINGS)
    process_ids = fleet.process_ids
    os.kill(process_ids[0], signal.SIGKILL)
    assert_gone([process_ids[0]])
    (result,) = fleet.serve([Request(0, prompt(9), 2)])
    assert result.worker_id == 1
    assert fleet.lost[0].startswith("worker 0 was killed by signal 9")
    fleet.route = Disaster(fleet, at=0, worker_id=1, how=signal.SIGKILL)
    last = r"worker 0 was .*worker 1 was killed by signal 9; no worker is left, and requests \[1, 2"
    with pytest.raises(WorkersFailed, match=last):
        fleet.serve([Request(i, prompt(9), 60) for i in (1, 2)])
    assert not fleet.is_open
    assert_gone(process_ids.values())
    with pytest.raises(WorkersFailed, match="start a new fleet"):
        fleet.serve([])


def test_a_worker_that_says_nothing_is_given_up():
    with Fleet(tiny_model(), 2, SETTINGS, timeout_s=5) as fleet:
        process_ids = fleet.process_ids
        fleet.route = Disaster(fleet, at=4, worker_id=0, how=signal.SIGSTOP)
        results = fleet.run(long_load())
        assert [len(result.tokens) for result in results] == [LONG] * 4 + [3]
        (words,) = fleet.lost
        assert words.startswith("worker 0 said nothing for 5 s and was ended; its requests [")
        assert_gone([process_ids[0]])


def test_an_error_in_a_worker_arrives_with_its_words():
    broken = GPT(CONFIG)
    torch.nn.init.constant_(broken.ln_f.weight, float("nan"))
    fleet = Fleet(broken, 1, SETTINGS)
    process_ids = fleet.process_ids
    words = r"worker 0 failed: NotFiniteError: step 0: the logits of request 3 are not finite"
    with pytest.raises(WorkersFailed, match=words):
        fleet.serve([Request(3, prompt(5), 2)])
    assert_gone(process_ids.values())


def test_a_route_that_fails_ends_the_fleet():
    with Fleet(tiny_model(), 1, SETTINGS, route=lambda workers, hits: 9) as fleet:
        process_ids = fleet.process_ids
        with pytest.raises(
            PartError, match=r"your route named worker 9; those with room are \[0\]"
        ):
            fleet.serve([Request(0, prompt(5), 2)])
        assert not fleet.is_open
    assert_gone(process_ids.values())


def test_closing_leaves_no_process_no_open_file_and_no_file_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    gc.collect()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = open_files()
    with Fleet(tiny_model(), 2, SETTINGS) as fleet:
        assert os.listdir(tmp_path) == []  # the weights' file is gone, their pages are not
        fleet.serve([Request(i, prompt(9), 3) for i in range(4)])
        process_ids = fleet.process_ids
        assert all(map(process_is_there, process_ids.values()))
        groups = {os.getpgid(i) for i in process_ids.values()}
        assert os.getpgid(0) not in groups  # Ctrl-C at the terminal reaches the router alone
        assert open_files() == before + 6  # two pipes and a file for what each complains of
    assert not any(Path(f"/proc/{i}").exists() for i in process_ids.values())  # not even a zombie
    assert open_files() == before
    assert os.listdir(tmp_path) == []
    fleet.close()  # a second time does nothing


def test_a_fleet_that_nobody_closed_is_closed_when_nobody_has_it():
    fleet = Fleet(tiny_model(), 1, SETTINGS)
    process_ids = fleet.process_ids
    del fleet
    gc.collect()
    assert_gone(process_ids.values())


def test_a_worker_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('no torch here')")
    before = open_files()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(
        WorkersFailed, match=r"worker [01] ended with exit status 1: (?s:.*)no torc"
    ):
        Fleet(tiny_model(), 2)
    assert open_files() == before


PARENT = """
    import sys
    sys.path.insert(0, {tests!r})
    from preempting import prompt, tiny_model
    from nanogpt.request import Request
    from nanogpt.workers.worker_fleet import Fleet

    def route(workers, hits):
        if len(workers) == 1 or workers[0].num_running:
            print("in mid-run", *fleet.process_ids.values(), flush=True)
        return workers[0].id

    with Fleet(tiny_model(), {num_workers}) as fleet:
        fleet.route = route
        fleet.run([(0.01 * i, Request(i, prompt(20), 100)) for i in range(2000)])
"""


@pytest.mark.parametrize(("how", "num_workers"), [(signal.SIGINT, 1), (signal.SIGKILL, 2)])
def test_however_the_router_ends_in_mid_run_its_workers_end_too(
    how: signal.Signals, num_workers: int
):
    tests = str(ROOT / "tests")
    script = textwrap.dedent(PARENT.format(tests=tests, num_workers=num_workers))
    router = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(tests).parent)},
    )
    with router:
        assert router.stdout is not None
        process_ids = [int(word) for word in router.stdout.readline().split()[2:]]
        assert len(process_ids) == num_workers, router.communicate()
        router.send_signal(how)
        router.communicate(timeout=60)
    assert router.returncode != 0
    assert_gone(process_ids)

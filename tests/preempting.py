"""What the tests of preemption share: a tiny model, rank processes that are started once, threads.

Starting ranks takes seconds, so those that nothing has broken are used again by later tests; they
end with the test run.
"""

import gc
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from launching import running, wait_for

from nanogpt import GPT, ModelConfig
from nanogpt.policies.masks import chunk_mask
from nanogpt.preemption.agreement import RANK_POLICIES
from nanogpt.preemption.monitor import Snapshot, Target
from nanogpt.preemption.runner import Runner
from nanogpt.preemption.sharded_model import PassRow
from nanogpt.preemption.shared_state import PointName, SharedState, hold, point_number, wait_if_held

LAYERS = 4
CONFIG = ModelConfig(num_layers=LAYERS, num_heads=4, num_channels=32, max_model_len=128)
HELD = replace(RANK_POLICIES, at_point=wait_if_held)
"""Rank parts that can be held at a point."""

_runners: dict[int, Runner] = {}


def ranks(num_ranks: int) -> Runner:
    """A runner with so many ranks, shared by tests; load what you need."""
    runner = _runners.get(num_ranks)
    if runner is None or not runner.is_open:
        runner = _runners[num_ranks] = Runner(num_ranks, timeout_s=30.0)
    runner.shared.clear()
    return runner


@cache
def tiny_model() -> GPT:
    """Four layers and four heads with random weights, in float64."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return GPT(CONFIG).double().eval().requires_grad_(False)


def prompt(length: int, start: int = 0) -> list[int]:
    return [(start + 7 * i) % CONFIG.vocab_size for i in range(length)]


def pass_row(tokens: list[int], slot: int = 0, context_len: int = 0) -> PassRow:
    positions = range(context_len, context_len + len(tokens))
    return PassRow(slot, tokens, positions, context_len, chunk_mask(context_len, len(tokens)))


def logits_after(model: GPT, tokens: list[int]) -> torch.Tensor:
    """What the whole model predicts after these tokens, (V,)."""
    return model(torch.tensor([tokens]))[0][0, -1]


@contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Run `work` in a thread beside the body; its error, if any, is raised in the end."""
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        yield
    finally:
        thread.join(60)
        assert not thread.is_alive(), "the thread beside the test never came to its end"
    if errors:
        raise errors[0]


def hold_at(
    shared: SharedState, rank: int, step: int, layer: int, name: PointName = "read"
) -> None:
    hold(shared, rank, name, point_number(step, layer, LAYERS))


def assert_gone(process_ids: Iterable[int]) -> None:
    wait_for(lambda: not running([*process_ids]), "the end of all processes")


@contextmanager
def nothing_left(folder: Path) -> Iterator[None]:
    """Assert that the block leaves no file open, and no temporary file in this new folder."""
    gc.collect()
    before = open_files()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        yield
    assert open_files() == before
    assert os.listdir(folder) == []


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def first_hurried(snapshot: Snapshot) -> Target | None:
    """A gate: the first request with a deadline may push out a pass of requests without one."""
    hurried = [request for request in snapshot.waiting if request.slo_us < 10**9]
    if not hurried or any(runner.num_preemptions for runner in snapshot.running):
        return None
    return Target(snapshot.step, hurried[0].id)

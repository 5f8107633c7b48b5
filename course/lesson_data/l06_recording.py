"""What lessons/data/preempted_pass.json was written with.

`python -c "from course.lesson_data.l06_recording import record; record('FILE')"` writes it anew.
"""

import json
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from course.lesson_data.l06_races import RACES, run_race
from course.lesson_data.l06_ranks import arms, experiment, random_model, whole_pass
from nanogpt.preemption import agreement, races
from nanogpt.preemption.agreement import RANK_POLICIES
from nanogpt.preemption.monitor import write_step
from nanogpt.preemption.rank_messages import Abandoned, RanksFailed
from nanogpt.preemption.runner import Runner
from nanogpt.preemption.sharded_model import PassRow


def hang_or_not(rule: Callable[..., Any], tries: int, num_busy: int = 0) -> list[str]:
    """Ranks that share a target and leave by `rule`; per try whether they left together or hung.

    The target is written at any moment of a pass of 480 tokens, with `num_busy` threads computing
    something else beside it. A hang ends the ranks, so new ones are started.
    """
    model, rng, over = random_model(), random.Random(0), threading.Event()
    runner: Runner | None = None
    outcomes: list[str] = []
    whole_us = 0.0
    mask = torch.ones(480, 480, dtype=torch.bool).tril()
    rows = [PassRow(0, [1] * 480, range(480), 0, mask)]

    def compute() -> None:
        matrix = torch.ones(256, 256)
        while not over.is_set():
            torch.mm(matrix, matrix)

    busy = [threading.Thread(target=compute, daemon=True) for _ in range(num_busy)]
    for thread in busy:
        thread.start()
    try:
        for _ in range(tries):
            if runner is None or not runner.is_open:
                runner = Runner(2, timeout_s=2.0)
                runner.load(model, 1, policies=replace(RANK_POLICIES, preemption_point=rule))
                whole_us = median(whole_pass(runner, 480, vote=True)[0] for _ in range(3))
            step = runner.new_step()
            delay_s = whole_us / 1e6 * rng.uniform(0.1, 0.7)
            timer = threading.Timer(delay_s, write_step, (runner.shared, step))
            timer.start()
            try:
                outcome = runner.run(step, rows, vote=True)
                outcomes.append("together" if isinstance(outcome, Abandoned) else "too late")
            except RanksFailed as hung:
                outcomes.append(f"hung: {hung}")
            finally:
                timer.cancel()
                timer.join()
    finally:
        over.set()
        for thread in busy:
            thread.join()
        if runner is not None:
            runner.close()
    return outcomes


def record(path: str) -> None:
    """Write what the lesson shows where nothing can be run; see lessons/data/preempted_pass.md."""
    measured = experiment(repeats=7)
    for name in arms(0, 0):  # one whole story of each arm: that of its median
        tried = [each for each in measured["tried"] if each["arm"] == name and "cycle" in each]
        tried.sort(key=lambda each: each["stop_us"])
        for each in [*tried[: len(tried) // 2], *tried[len(tried) // 2 + 1 :]]:
            del each["cycle"]
    hangs = {
        "quiet": hang_or_not(races.leave_alone, 40),
        "busy": hang_or_not(races.leave_alone, 40, num_busy=2),
        "busy, vote": hang_or_not(agreement.preemption_point, 40, num_busy=2),
    }
    raced = {name: run_race(race) for name, race in RACES.items()}
    found = {"experiment": measured, "hangs": hangs, "races": raced}
    Path(path).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

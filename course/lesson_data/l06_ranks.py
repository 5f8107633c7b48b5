"""Lesson 6's real ranks: a long prefill, an urgent request, and the times of both."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from course.attempt import Attempt
from course.calling import jobs
from course.lesson_data import recorded
from course.lesson_data.texts import table
from nanogpt import GPT, EngineConfig, ModelConfig, Request
from nanogpt.figures.curves import distributions
from nanogpt.preemption import cleanup
from nanogpt.preemption.agreement import AGREEMENTS
from nanogpt.preemption.monitor import now_us, slo_gate
from nanogpt.preemption.preemptive_engine import Preemption, PreemptiveEngine
from nanogpt.preemption.runner import Runner
from nanogpt.preemption.sharded_model import PassRow
from nanogpt.slo.predictor import fit_ttft
from nanogpt.trace import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = dict[str, Any]
Undo = Callable[..., Any]

_EXPERIMENT_S = 10.0  # of computing: it mostly waits for its ranks, and ends them after 40 s


def recording() -> Record:
    """What was recorded once; lessons/data/preempted_pass.md says how."""
    return recorded("preempted_pass")


def story_of(run: Record, arm: str) -> Record | None:
    """The one preemption of an arm that was kept whole."""
    tried = (each for each in run["tried"] if each["arm"] == arm and "cycle" in each)
    return next((each["cycle"] for each in tried), None)


def random_model(num_layers: int = 12, num_channels: int = 256) -> GPT:
    """Random weights: what a pass costs does not depend on what the model has learnt."""
    torch.manual_seed(0)
    config = ModelConfig(
        num_layers=num_layers, num_heads=4, num_channels=num_channels, max_model_len=1536
    )
    return GPT(config).eval().requires_grad_(False)


def whole_pass(runner: Runner, num_tokens: int, vote: bool = False) -> tuple[int, list[Any]]:
    """Run one prefill to its end: microseconds it took, and rank 0's checks."""
    mask = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
    row = PassRow(0, [1] * num_tokens, range(num_tokens), 0, mask)
    begun = now_us()
    done = runner.run(runner.new_step(), [row], vote=vote)
    return now_us() - begun, list(done.replies[0].checks)


def first_tokens_us(engine: PreemptiveEngine) -> dict[int, int]:
    """When each request had its first token."""
    return {
        work.request_id: step.end_us
        for step in reversed(engine.trace().steps)
        for work in step.work
        if work.sampled is not None
    }


def interrupt(
    runner: Runner, model: GPT, preemption: Preemption, delay_us: int, slo_us: int
) -> Record:
    """Run a long prefill and an urgent request that arrives in the middle of it."""
    limits = EngineConfig(token_budget=1424, max_batch_size=2)
    with PreemptiveEngine(model, runner, preemption, limits) as engine:
        times: dict[str, int] = {}

        def arrive() -> None:
            times["arrived_us"] = now_us()
            engine.arrive(Request(1, [2] * 24, 1), slo_us)  # request 1 is urgent, and short

        engine.arrive(Request(0, [1] * 1400, 1), 50 * slo_us)  # request 0 has time
        begun = now_us()
        timer = threading.Timer(delay_us / 1e6, arrive)
        timer.start()
        try:
            engine.step()  # the long pass: ends, or is left
            timer.join()
            for _ in range(9):
                if engine.inbox or not engine.scheduler.is_done():
                    engine.step()
        finally:
            timer.cancel()
        first = first_tokens_us(engine)
        found: Record = {"urgent_us": first[1] - times["arrived_us"], "long_us": first[0] - begun}
        record = engine.preemptions[0] if engine.preemptions else None
        if record is not None and record.victims == (0,) and record.candidate == 1:
            cycle = times | {"record": plain(record), "first_token_us": first[1]}
            steps = engine.trace().steps
            decision = engine.monitor.decision if engine.monitor else None
            if decision is None or record.written_ns is None:
                return found
            if decision.target.step == record.pass_number:  # and not a later one
                cycle["looked_us"] = decision.snapshot.now_us
            if not preemption.suspend:
                cycle["cleaned_us"] = steps[0].end_us
                cycle["readmitted_us"] = steps[1].start_us
            stop_us = (record.replied_ns - record.written_ns) / 1000
            found |= {"layer": record.layer, "stop_us": stop_us, "cycle": cycle}
        return found


def arms(a: float, c: float, undo: Undo = cleanup.rollback_step) -> dict[str, Preemption]:
    """What is compared: no monitor, the three agreements, and suspending instead of aborting."""
    gate = slo_gate(a, c)
    return {
        "no preemption": Preemption(),
        "vote, abort": Preemption(gate, rollback_step=undo),
        "carried, abort": Preemption(gate, agreement="carried", rollback_step=undo),
        "epoch, abort": Preemption(gate, agreement="epoch", rollback_step=undo),
        "vote, suspend": Preemption(gate, suspend=True, rollback_step=undo),
    }


def experiment(
    repeats: int, wanted: tuple[str, ...] = (), undo: Undo = cleanup.rollback_step
) -> Record:
    """Interrupted passes in two real rank processes, which are gone afterwards.

    Of every arm, and what agreeing costs; or only of the arms that are `wanted`.
    """
    model = random_model()
    with Runner(2) as runner:
        runner.load(model, 1)
        whole_pass(runner, 1400)  # warms up
        sweep = [(n, median(whole_pass(runner, n)[0] for _ in range(3))) for n in (24, 1400)]
        a, c = fit_ttft(sweep)
        pass_us = round(sweep[-1][1])
        tried: list[Record] = []
        passes: list[Record] = []
        for _ in range(repeats):  # interleaved, so that a busy moment hits no arm alone
            for name, preemption in arms(a, c, undo).items():
                if not wanted or name in wanted:
                    found = interrupt(runner, model, preemption, pass_us // 5, pass_us // 2)
                    tried.append({"arm": name} | found)
            for how in () if wanted else (None, *AGREEMENTS):
                runner.load(model, 1, how or "vote")
                took_us, checks = whole_pass(runner, 1400, vote=how is not None)
                agree_us = [round(check.agree_ns / 1000, 1) for check in checks]
                passes.append({"agreement": how, "pass_us": took_us, "agree_us": agree_us})
    found: Record = {"repeats": repeats, "pass_us": pass_us, "a": a, "c": c}
    return found | {"tried": tried, "passes": passes}


def run_here(here: bool, undo: Attempt) -> tuple[Record, str, str]:
    """(the measurement, its source in a word, and a sentence about where it ran)."""
    mine = undo.report.status == "passed"
    rollback_step = undo.or_reference(cleanup.rollback_step) if mine else cleanup.rollback_step
    whose = (
        "your `rollback_step`"
        if mine
        else "the reference's `rollback_step`, since yours has not passed its check yet"
    )
    if not here:
        return recording()["experiment"], "recorded", "**Recorded**, since `HERE` is False."
    try:
        found = _two_arms(rollback_step)
        if story_of(found, "vote, abort"):
            return found, "measured here", f"**On this machine, just now**, with {whose}."
        why = "the pass was over before a rank could leave it"
    except jobs.RunError as failed:
        why = str(failed)
    return recording()["experiment"], "recorded", f"**Recorded, not run here:** {why}."


@functools.lru_cache(maxsize=1)
def _two_arms(rollback_step: Undo) -> Record:
    """One round; kept, since every edit of an answer that does not pass yet asks for it again."""
    return jobs.run(
        experiment, 1, ("no preemption", "vote, abort"), rollback_step, limit_s=_EXPERIMENT_S
    )


def ladder(run: Record, names: tuple[str, ...]) -> str:
    """TTFTs and stops of the arms: medians, and lowest to highest; Markdown."""
    head = (
        "| arm | urgent request: TTFT | SLO met | long prefill: TTFT | left at layer | "
        "write to both replies |"
    )
    return table(head, "lrrrrr", (_ladder_row(run, name) for name in names))


def _ladder_row(run: Record, name: str) -> str:
    tried = [each for each in run["tried"] if each["arm"] == name]
    stops = [each for each in tried if "stop_us" in each]
    kept = sum(each["urgent_us"] <= run["pass_us"] / 2 for each in tried)
    layers = sorted({each["layer"] for each in stops})
    left = " to ".join(map(str, layers if len(layers) < 2 else (layers[0], layers[-1])))
    urgent, long = (_ms([each[what] for each in tried]) for what in ("urgent_us", "long_us"))
    return (
        f"| {name} | **{urgent}** | {kept} of {len(tried)} | {long} | "
        f"{f'{left} of 12' if left else ''} | "
        f"{_ms([each['stop_us'] for each in stops]) if stops else ''} |"
    )


def _ms(values: list[float]) -> str:
    found = [value / 1000 for value in values]
    spread = f" ({min(found):.0f} to {max(found):.0f})" if len(found) > 1 else ""
    return f"{median(found):.0f} ms{spread}"


def measured_here(run: Record, where: str) -> str:
    """One round of two arms; Markdown."""
    return f"{where} The pass over 1,400 tokens takes {run['pass_us'] / 1000:.0f} ms.\n\n" + ladder(
        run, ("no preemption", "vote, abort")
    )


def arms_chart() -> Figure:
    """How long the urgent request and the long prefill took in the recorded rounds, by arm."""
    run = recording()["experiment"]

    def by_arm(what: str) -> dict[str, list[float]]:
        return {
            arm: [each[what] / 1000 for each in run["tried"] if each["arm"] == arm]
            for arm in arms(0, 0)
        }

    panels = {
        ("TTFT, urgent (ms)", "rounds"): by_arm("urgent_us"),
        ("TTFT, long prefill (ms)", "rounds"): by_arm("long_us"),
    }
    source = f"measured once, {run['repeats']} rounds"
    return distributions(panels, "Five arms in turns", source)

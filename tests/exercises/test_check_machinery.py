"""The checks test the engine's own functions; a tiny scheduler and a law in cells test checks."""

from fractions import Fraction
from types import ModuleType

import pytest
from answers import IDS, right
from fakes import fake_arrivals, fake_engine
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples, tier

from course.audit.auditing import SCORED
from course.registry import exercise
from nanogpt import EngineConfig, planning
from nanogpt.fleet import decisions, transfers
from nanogpt.policies import acceptance, blocks, fusing, grammars, masks, queueing, sliding_window
from nanogpt.preemption import agreement, cleanup
from nanogpt.server import server_policies
from nanogpt.slo import policy
from solutions.l02_scheduling._serving import (
    MAX_STEPS,
    Decisions,
    Job,
    Serving,
    Workload,
    start_over,
)
from solutions.l08_speculation._law import LAW_P, LAW_Q, law_cases

# --- the engine's own functions -------------------------------------------------------------------

OWN: dict[str, tuple[ModuleType, ...]] = {
    "l01": (planning, masks), "l02": (queueing,), "l03": (fusing, queueing),
    "l04": (sliding_window,), "l05": (policy,), "l06": (agreement, cleanup), "l07": (blocks,),
    "l08": (acceptance, grammars), "l09": (decisions, transfers), "l10": (server_policies,),
}  # fmt: skip
NOT_THE_ENGINE_S = {
    "l01.pick_budget", "l02.aged_key", "l03.merge_attention", "l08.propose_ngram", SCORED,
}  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize("lesson", OWN)
def test_the_engine_s_own_functions_pass_the_checks(lesson: str) -> None:
    for exercise_id in IDS:
        if not exercise_id.startswith(lesson) or exercise_id in NOT_THE_ENGINE_S:
            continue
        item = exercise(exercise_id)
        own = next(getattr(m, item.name) for m in OWN[lesson] if hasattr(m, item.name))
        if item.name == "resume_or_abort":  # whose arguments have to be named
            own = lambda a, b, urgent, short, bound: cleanup.resume_or_abort(  # noqa: E731
                a, b, urgent_waits=urgent, memory_is_short=short, bound=bound
            )
        for seed in range(25 if tier() == "all" else 2):
            report = item.check(own, seed=seed)
            assert report.status == "passed", report.text()


# --- lesson 2: a scheduler in plain numbers -------------------------------------------------------


@st.composite
def short_of_memory(draw: st.DrawFn) -> Workload:
    job = st.builds(
        Job, st.integers(0, 6), st.integers(0, 2), st.integers(1, 20), st.integers(1, 9)
    )
    jobs = draw(st.lists(job, min_size=1, max_size=5))
    needed = max(job.prompt + job.new - 1 for job in jobs)
    policy = draw(st.sampled_from(["fcfs", "priority"]))
    budget = needed + draw(st.integers(0, 9))
    return Workload(policy, budget, draw(st.integers(1, 4)), tuple(jobs))


@examples(0.5)
@given(short_of_memory())
def test_the_tiny_scheduler_takes_the_engine_s_steps(workload: Workload) -> None:
    config = EngineConfig(
        max_kv_tokens=workload.max_kv_tokens,
        max_batch_size=workload.slots,
        max_prefilling=1,
        policy=workload.policy,
    )
    asks = [(job.arrival, job.prompt, job.new, job.priority) for job in workload.jobs]
    trace = fake_engine(config)[0].run(fake_arrivals(asks))
    counts = dict.fromkeys(range(len(asks)), 0)
    expected: dict[int, dict[int, str]] = {}
    for step in trace.steps:
        marks = dict.fromkeys(step.preempted, "x")
        for work in step.work:
            if work.sampled is not None:
                counts[work.request_id] += 1
                marks[work.request_id] = str(counts[work.request_id])
        expected[step.step] = marks
    serving = Serving(workload, Decisions())
    assert serving.run(400)
    for step, marks in enumerate(serving.diary):
        assert marks == expected.get(step, {})
    assert max(expected) == serving.step - 1
    assert Serving(workload, Decisions(requeue=start_over)).run(MAX_STEPS)


# --- lesson 8: the law of a drafted token ---------------------------------------------------------


def test_the_cells_give_the_exact_law_of_every_right_answer() -> None:
    for rejection_sample in (acceptance.rejection_sample, *right("l08.rejection_sample")):
        mass = dict.fromkeys(range(4), Fraction(0))
        for weight, args in law_cases():
            mass[rejection_sample(*args)[1]] += Fraction(weight, sum(LAW_Q) * 36)
        assert list(mass.values()) == [Fraction(n, 6) for n in LAW_P]

"""A lesson's run with a learner's functions: what it gives, and what it says when it stops."""

import functools
import operator
import pickle
import threading
from typing import Any

import pytest
import torch
from answers import IDS
from engine_runs import arrivals_of, engine_of, runs
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from course import lazy
from course.calling.functions import packed
from course.calling.jobs import RunError, shipped
from course.calling.jobs import _JobPickler as JobPickler
from course.calling.policies import Policy
from course.registry import exercise
from course.replay import Rerun, replays
from nanogpt import Engine, EngineConfig, Policies, Request, load_model, planning
from nanogpt.recorded_texts import RecordedTexts

RUN = replays(
    lambda policies: Engine(RecordedTexts(), EngineConfig(token_budget=4), policies),
    lambda: [(0, Request(0, [1] * 9, 5)), (1, Request(1, [1] * 3, 4))],
)


@pytest.mark.process
def test_a_run_is_made_in_the_child():
    asked: list[Any] = []

    def plan_step(*offer):
        asked.append(offer)
        assert lazy.torch.ones(1) == 1  # as a lesson's setup cell names torch
        return planning.plan_step(*offer)

    trace = RUN(Policies(plan_step=Policy(plan_step)))
    assert trace == RUN.reference
    assert asked == []


@pytest.mark.process
def test_a_legal_plan_acts_and_one_that_fails_keeps_the_steps_before_it():
    def one_at_a_time(decodes, prefilling, waiting, budget):
        return planning.plan_step(decodes, prefilling, waiting, budget)[:1]

    slower = RUN(Policies(plan_step=Policy(one_at_a_time)))
    assert slower.error is None and len(slower.steps) > len(RUN.reference.steps)

    def plan_step(decodes, prefilling, waiting, budget):
        plan = planning.plan_step(decodes, prefilling, waiting, budget)
        return plan if not decodes else {}["plan"]

    stopped = RUN(Policies(plan_step=Policy(plan_step)))
    assert stopped.steps == RUN.reference.steps[:3]
    assert stopped.error.startswith("your plan_step raised KeyError")


@pytest.mark.process
def test_a_run_that_cannot_be_made_is_a_trace_without_steps_that_says_why():
    lock = threading.Lock()
    stopped = RUN(Policies(plan_step=Policy(lambda *offer: lock)))
    assert (stopped.steps, stopped.requests) == ((), RUN.reference.requests)
    assert stopped.error.startswith("the run could not be sent to the process that computes it: ")


@pytest.mark.process
def test_the_reference_s_run_is_kept_and_a_function_that_fails_is_told():
    made: list[int] = []

    def job(double):
        made.append(double(2))
        return made[-1]

    run_with = Rerun(job, operator.neg)
    assert run_with(operator.neg) == run_with.reference == -2
    assert made == [-2]

    def halve(number):
        return number / 0

    with pytest.raises(RunError, match="your halve raised ZeroDivisionError on its line 2"):
        run_with(Policy(halve))


def test_the_shipped_model_travels_by_name_and_a_changed_one_by_its_weights():
    exact = load_model(dtype=torch.float64)
    assert pickle.loads(packed(exact, JobPickler)["content"]) is shipped(torch.float64)
    exact.ln_f.weight[0] += 1
    assert torch.equal(
        pickle.loads(packed(exact, JobPickler)["content"]).ln_f.weight, exact.ln_f.weight
    )


# --- with right answers ---------------------------------------------------------------------------


@functools.cache
def texts(name: str, policies: Policies = Policies()) -> list[list[int]]:
    load, settings = runs()[name]
    arrivals = arrivals_of(load)
    engine_of(settings, policies).run(arrivals)
    return [request.generated_tokens for _, request in arrivals]


@examples(0.25)
@given(st.sampled_from(sorted(runs())), st.data())
def test_an_engine_with_right_answers_writes_the_reference_s_texts(
    name: str, data: st.DataObject
) -> None:
    of_policies = [e for e in map(exercise, IDS) if e.is_policy]
    policies = {e.name: Policy(data.draw(st.sampled_from(list(e.right)))) for e in of_policies}
    assert texts(name, Policies(**policies)) == texts(name)

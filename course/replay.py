"""Running a lesson's workload so that a failing policy ends in a picture, not in a traceback.

Runs with a learner's functions happen in a child process: see `course.calling.jobs`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from course.attempt import Attempt
from course.calling.errors import blame
from course.calling.jobs import RunError, run
from course.registry import exercise
from nanogpt.engine import Arrivals, Engine
from nanogpt.policies import Policies
from nanogpt.trace import Trace

Given = TypeVar("Given")
Value = TypeVar("Value")


def rule_of(attempt: Attempt) -> Callable[..., Any]:
    """The learner's function, right or wrong, or the worked answer while there is none."""
    return attempt.or_reference(exercise(attempt.report.exercise).right[0])


def answered(attempt: Attempt, job: Callable[..., Value], *args: Any) -> tuple[Value, bool]:
    """(`job(rule, *args)`, whether the rule is the learner's); the worked answer's if it fails."""
    with suppress(RunError):
        if attempt.started:
            return run(job, rule_of(attempt), *args), True
    return job(exercise(attempt.report.exercise).right[0], *args), False


class Rerun(Generic[Given, Value]):
    """A run that a lesson repeats with a learner's functions, beside the reference's.

    `run(policies)` gives its value; `reference` are the policies for which it is worked out here,
    once, because nothing of a learner's is in it.
    """

    def __init__(self, run: Callable[[Given], Value], reference: Given) -> None:
        self._run = run
        self._policies = reference

    @cached_property
    def reference(self) -> Value:
        """The run's value with the reference's policies."""
        return self._run(self._policies)

    def __call__(self, policies: Given) -> Value:
        """The run's value with these policies. Raises: RunError."""
        return self.reference if policies == self._policies else run(self._run, policies)


def replay(engine: Engine, arrivals: Arrivals, max_steps: int | None = None) -> Trace:
    """Run `arrivals` on `engine`; when a policy or a request fails, the trace says so at its end.

    The steps up to the failure are kept, so that a timeline can show what led to it. `max_steps`
    ends a run that would go on for ever.
    """
    try:
        return engine.run(arrivals, max_steps)
    except Exception as error:
        return engine.trace(error=blame(error))


def replays(
    engine: Callable[[Policies], Engine],
    arrivals: Callable[[], Arrivals],
    max_steps: int | None = None,
) -> Rerun[Policies, Trace]:
    """`replay` of fresh requests on an engine with the policies it is called with."""
    return _Replays(lambda policies: replay(engine(policies), arrivals(), max_steps), Policies())


class _Replays(Rerun[Policies, Trace]):
    """A run that had to be stopped leaves a trace without steps, which says why.

    A lesson's settings may hold a learner's function too, such as a rule for the queue, so the
    reference's run is made in the child as well.
    """

    @cached_property
    def reference(self) -> Trace:
        """The run's trace with the reference's policies. Raises: RunError."""
        return run(self._run, self._policies)

    def __call__(self, policies: Policies) -> Trace:
        """The run's trace. Never raises for what a function does."""
        try:
            return super().__call__(policies)
        except RunError as error:
            return replace(self.reference, steps=(), error=str(error))

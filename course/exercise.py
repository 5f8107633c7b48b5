"""The record of one exercise: the task, the right answers, the wrong ideas, and how it is judged.

A record of it stands in solutions/LESSON/NAME.py; the registry, the checks, the tasks on the page
and the tables in the tests are derived from these records.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from course.calling.answers import RemoteAnswer, Wrap, answering, load
from course.calling.channel import Channel, LostError, TooSlowError
from course.calling.processes import Starter, own_starter
from course.format_values import show_call
from course.harness import Check, Failure, Rows, run_checks
from course.lazy import slo
from course.report import Report
from course.source.answer import Answer

Args: TypeAlias = tuple[Any, ...]
Function: TypeAlias = Callable[..., Any]


class Adapted:
    """A function called in another way, for `asked_as`. Errors still name its own lines."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self.__wrapped__ = function
        self.__code__ = getattr(function, "__code__", None)


@dataclass(frozen=True, slots=True)
class Task:
    """The contract of one exercise, without the rule that the exercise asks for.

    `rules` are sentences, one for each thing that goes in or comes out, with `code` between
    backquotes. `args` and `result` are one case worked by hand, small enough to follow in one's
    head, and `steps` are the sentences that lead from the arguments to the result, without giving
    away the rule. `call` and `returns` are how the card writes the call and the result where these
    in full would hide the few values that matter. Where the answer is a generator, `answers` are
    what is sent into it, in order, and `result` is the list of what it yields: its first move, and
    one more for each answer. `exhibit` makes lines that the answer is about, such as a log.
    """

    rules: tuple[str, ...]
    args: tuple[Any, ...]
    result: Any
    answers: tuple[Any, ...] = ()
    steps: tuple[str, ...] = ()
    call: str = ""
    returns: str = ""
    exhibit: Callable[[], str] | None = None

    def worked(self, function: Any) -> Any:
        """The result of `function` for the case, to be compared with `result`."""
        value = function(*self.args)
        if not self.answers:
            return value
        return [next(value), *map(value.send, self.answers)]


@dataclass(frozen=True, slots=True)
class Misconception:
    """A wrong idea that people have, and how a check knows it.

    `belief` is the idea in the words of a person who has it, `idea` the sentence that puts it
    right, or a function that makes it of the result (or of what the exercise's own judge gives it);
    "" where a rule of the judge has the words.
    `answer` and `same_result` are what such a person would write: the idea is named when one of
    them gives every result that the answer gave. `matches` recognizes it by a single result
    instead, or, where the judge gives it both, by the result and the expected one. `examples` are
    other ways to write it; they explain nothing, and tests check that they are found.
    """

    key: str
    belief: str
    idea: str | Callable[..., str] = ""
    answer: Function | None = None
    same_result: Sequence[Function] = ()
    matches: Callable[..., object] | None = None
    examples: Sequence[Function] = ()

    @property
    def answers(self) -> tuple[Function, ...]:
        """By which an answer is explained."""
        return () if self.answer is None else (self.answer, *self.same_result)

    @property
    def written(self) -> tuple[Function, ...]:
        """Every way to write it."""
        return (*self.answers, *self.examples)

    def sentence(self, *values: Any) -> str:
        """The sentence that puts it right, for the values that the idea is a function of."""
        return self.idea if isinstance(self.idea, str) else self.idea(*values)

    def failure(self, rows: Rows, *values: Any) -> Failure:
        """The failure that names it, where a judge of the exercise's own has found it."""
        return Failure(self.sentence(*values), rows, self.key)


@dataclass(frozen=True, slots=True)
class Exercise:
    """An exercise of a lesson, the `number`-th there.

    `right` are right answers of several styles, the worked one first: its name and its module are
    the exercise's. `checks` are (name, check), easiest first. `hints` are three rungs, from a nudge
    to the last step before the answer. `draw_call` writes a call as the learner would. `asked_as`
    makes of an answer what the checks ask, where its bare results do not show enough, or where one
    question of the checks is many calls. `equivalent_mutants` are mutants and weaker forms of right
    answers that no check can tell from these, by the names that `learn.py audit` gives them, each
    with its reason. `others` find the lesson's other exercises, by name.
    """

    number: int
    title: str
    minutes: int
    points: int
    task: Task
    hints: tuple[str, str, str]
    right: Sequence[Function]
    misconceptions: Sequence[Misconception]
    checks: Sequence[tuple[str, Check]]
    draw_call: Callable[[str, Args], str] = show_call
    asked_as: Wrap | None = None
    equivalent_mutants: Mapping[str, str] = field(default_factory=dict[str, str])
    others: Mapping[str, Callable[[], "Exercise"]] = field(default_factory=dict[str, Any])

    @property
    def name(self) -> str:
        """The function's: "plan_step"."""
        return self.right[0].__name__

    @property
    def signature(self) -> str:
        """The stub's own, on one line: "chunk_size(budget: int, ...) -> int"."""
        written = f"{self.name}{inspect.signature(self.right[0])}".replace("'", "")
        written = written.replace(slo.__name__, "slo")  # as a lesson's setup cell names it
        return re.sub(r"\b(?:collections|nanogpt)\.(?:\w+\.)+", "", written)

    @property
    def is_policy(self) -> bool:
        """Whether a passed answer fills the field of `Policies` with its name."""
        from nanogpt.policies import Policies  # which an overview of the exercises need not import

        return self.name in Policies.__dataclass_fields__

    @property
    def lesson(self) -> str:
        """The lesson's stem: "l01_chunked_prefill"."""
        return self.right[0].__module__.split(".")[1]

    @property
    def id(self) -> str:
        """The lesson's number and the name: "l01.plan_step", also where the lesson was split."""
        return f"{self.lesson[:3]}.{self.name}"

    def check(self, function: Function, *, seed: int = 0, starter: Starter | None = None) -> Report:
        """Judge a function of the course's own, in a process of its own, as `check_answer` does."""
        with answering(function, self.name, starter) as answer:
            return self.judge(answer, seed=seed)

    def check_answer(
        self, answer: Answer, *, seed: int = 0, starter: Starter | None = None
    ) -> Report:
        """Judge an answer in a process of its own; the same seed asks the same cases.

        `starter` starts that process, this process's own starter unless given.
        """
        with (starter or own_starter()).start() as channel:
            return self.check_text(answer.text, channel, seed=seed)

    def check_text(self, text: str, channel: Channel, *, seed: int = 0) -> Report:
        """Judge the function of this name in a lesson's text, in the channel's process."""
        try:
            loaded = load(channel, text, [self.name])
            answer, problems = loaded.answers.get(self.name), loaded.problems[self.name]
            if answer is None:
                return Report(self.id, "missing", (), 0, " ".join(problems))
            report = self.judge(answer, seed=seed)
        except (LostError, TooSlowError) as error:
            return self._unread(error)
        if report.status == "raised":  # for want of a helper that could not be found, perhaps
            return replace(report, idea=" ".join([report.idea, *unsaid(problems, report)]))
        return report

    def _unread(self, error: LostError | TooSlowError) -> Report:
        what = f"Reading the code of `{self.name}`"
        if isinstance(error, LostError):
            return Report(self.id, error.status, (), 0, f"{what} {error.words}.")
        took = f"{error.cpu_s:.0f} s of computing and was stopped"
        return Report(self.id, "timeout", (), 0, f"{what} took {took}.")

    def judge(self, answer: RemoteAnswer, *, seed: int = 0) -> Report:
        """Judge an answer, wherever it is; the same seed asks the same cases.

        A wrong answer that calls one of the `others` is told if that one does not pass its check.
        """
        asked = answer.asked_as(self.asked_as) if self.asked_as else answer
        report = run_checks(self.id, asked, self.checks, seed=seed, draw_call=self.draw_call)
        if report.status in ("passed", "not_started"):
            return report
        for name, called in answer.callees(list(self.others)):
            status = self.others[name]().judge(called, seed=seed).status
            if status != "passed":
                what = "does not pass its own check yet: mend that one first"
                what = "is not written yet" if status == "not_started" else what
                idea = f"`{report.name}` calls `{name}`, which {what}."
                return replace(report, idea=idea, misconception=None)
        return report


def unsaid(problems: Sequence[str], report: Report) -> list[str]:
    """The sentences on names that were not found, but those that the report has said already."""
    said = report.idea
    names = [(each, each.partition("`")[2].partition("`")[0]) for each in problems]
    return [
        each
        for each, name in names
        if each not in said
        and not (each.endswith("was not found.") and f"name '{name}' is not defined" in said)
    ]

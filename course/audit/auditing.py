"""One exercise's audit: which answers its check tells apart, and what is not as it should be."""

import copy
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from course.audit.mutants import mutants
from course.audit.variants import Note, Noted, Variant, applying, giving
from course.audit.weakening import weakenings
from course.calling.answers import send
from course.calling.channel import Channel, LostError, TooSlowError
from course.calling.processes import own_starter
from course.exercise import Exercise, Function
from course.report import Report

WRONG_SEEDS = (0, 1)
WEAKENED_SEEDS = (0, 1, 2)
# Judged by its score over whole loads, which a slip may leave as good as it was.
SCORED = "l09.my_policy"
_MUTANT_S, _WEAKENED_S = 0.05, 0.2  # of computing in a call; many never end
_NAMES = ("uint8", "int32", "int64", "float32", "float64", "array")

Choose: TypeAlias = Callable[[list[Any]], list[Any]]
"""Samples a list of mutants, of weaker answers, or of results in other types."""
Changed: TypeAlias = tuple[str, Function]
"""The name that a mutant or a weaker answer has in `equivalent_mutants`, and its function."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many of them are as they should be, and of how many."""

    good: int
    all: int


@dataclass(frozen=True, slots=True)
class Audit:
    """The findings of one exercise's audit.

    `right` counts checks, one for each seed; `mutants` and `weakened` are caught or not, None where
    none were made. `explained` are survivors with a reason, `findings` sentences about what is not
    as it should be, among them a survivor without one.
    """

    exercise: str
    right: Count
    wrong: Count
    mutants: Count | None
    weakened: Count | None
    variants: Count
    explained: int
    unexplained: int
    findings: tuple[str, ...]
    seconds: float


def audit(item: Exercise, num_seeds: int, *, choose: Choose = list[Any]) -> Audit:
    """Audit one exercise; `choose` samples mutants, weaker answers and results in other types.

    If a right answer fails, nothing that is derived from right answers is tried.
    """
    began, findings = time.perf_counter(), list[str]()
    with _Checker(item) as checker:
        right = _right(item, checker, num_seeds, findings)
        wrong = _wrong(item, checker, findings)
        variants, slips, weaker = Count(0, 0), None, None
        if right.good == right.all:
            variants = _variants(item, checker, choose, findings)
            if item.id != SCORED:
                changed = [each for answer in item.right for each in mutants(answer)]
                slips = _asked(item, checker, changed, choose, _MUTANT_S, (0,))
                made = _weakened(item, checker)
                weaker = _asked(item, checker, made, choose, _WEAKENED_S, WEAKENED_SEEDS)
    survivors: set[str] = set()
    for kind, asked in (("mutant", slips), ("weaker answer", weaker)):
        passing = dict.fromkeys(asked.passing if asked else ())
        survivors |= passing.keys()
        without = [name for name in passing if name not in item.equivalent_mutants]
        findings += [f"a {kind} passes, and no reason is written down: {name}" for name in without]
    if slips and weaker:
        unknown = survivors | slips.left_out | weaker.left_out
        stale = [name for name in item.equivalent_mutants if name not in unknown]
        findings += [f"has a reason to pass, and does not: {name}" for name in stale]
    unexplained = survivors - item.equivalent_mutants.keys()
    return Audit(
        exercise=item.id,
        right=right,
        wrong=wrong,
        mutants=slips and slips.caught,
        weakened=weaker and weaker.caught,
        variants=variants,
        explained=len(survivors) - len(unexplained),
        unexplained=len(unexplained),
        findings=tuple(findings),
        seconds=time.perf_counter() - began,
    )


class _Checker:
    """Checks answers in one process, one after the other. Mutable: it gets another when one ends.

    The answers are the course's own, and leave nothing behind that the next would meet.
    """

    def __init__(self, item: Exercise) -> None:
        self._item = item
        self._channel: Channel | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._channel is not None:
            self._channel.end()

    def check(
        self, function: Function, seed: int = 0, most_s: float = math.inf, note: Note | None = None
    ) -> Report:
        """As the exercise does. A call may take `most_s`; `note` is told of every call."""
        if self._channel is None:
            self._channel = own_starter().start()
        try:
            answer = send(self._channel, function, self._item.name)
        except (LostError, TooSlowError):  # a slow call of the last answer has ended the process
            self._channel = own_starter().start()
            answer = send(self._channel, function, self._item.name)
        answer.most_s = most_s
        report = self._item.judge(Noted(answer, note) if note else answer, seed=seed)
        if report.status in ("timeout", "crashed", "memory", "protocol"):
            self._channel.end()
            self._channel = None
        return report


def _right(item: Exercise, checker: _Checker, num_seeds: int, findings: list[str]) -> Count:
    good = 0
    for answer in item.right:
        reports = [checker.check(answer, seed) for seed in range(num_seeds)]
        failed = [seed for seed, report in enumerate(reports) if report.status != "passed"]
        good += num_seeds - len(failed)
        if failed:
            where = f"{answer.__name__}, seed {failed[0]}"
            findings.append(f"a right answer fails: {where}: {reports[failed[0]].idea}")
    return Count(good, len(item.right) * num_seeds)


def _wrong(item: Exercise, checker: _Checker, findings: list[str]) -> Count:
    ways = [
        (each.key, number, way)
        for each in item.misconceptions
        for number, way in enumerate(each.written, 1)
    ]
    good = 0
    for key, number, way in ways:
        reports = [checker.check(way, seed) for seed in WRONG_SEEDS]
        named = ("failed", key)
        strange = [each for each in reports if (each.status, each.misconception) != named]
        good += not strange
        if strange:
            told = strange[0].misconception or strange[0].idea
            what = f"is told `{told}`" if told else "passes"
            findings.append(f"a wrong answer {what}: `{key}`, way {number} to write it")
    return Count(good, len(ways))


def _variants(item: Exercise, checker: _Checker, choose: Choose, findings: list[str]) -> Count:
    pairs = [(answer, each) for answer in item.right for each in applying(item, answer)]
    chosen = choose(pairs)
    good = 0
    for answer, variant in chosen:
        sentence = refused(checker.check, answer, variant)
        good += sentence is None
        if sentence is not None:
            findings.append(f"refused in {variant.name}: {answer.__name__}: {sentence}")
    return Count(good, len(chosen))


def refused(check: Callable[[Function], Report], answer: Function, variant: Variant) -> str | None:
    """The sentence for right results in such a type, unless they pass.

    None also where the type matters, if what is said names the one that came.
    """
    report = check(giving(answer, variant.cast))
    if report.status == "passed":
        return None
    said = " ".join([report.idea, *(value for _, value in report.example)])
    named = report.status == "failed" and any(name in said for name in _NAMES)
    return None if variant.matters and named else report.idea


@dataclass(frozen=True, slots=True)
class _Asked:
    """How many changed answers were caught, and the names of those that pass or were not tried."""

    caught: Count
    passing: list[str]
    left_out: set[str]


def _asked(
    item: Exercise,
    checker: _Checker,
    made: list[Changed],
    choose: Choose,
    most_s: float,
    seeds: Sequence[int],
) -> _Asked:
    """Check the chosen answers. An answer passes if it passes with any of the seeds."""
    chosen = choose(made)

    def passes(name: str, function: Function, seed: int) -> bool:
        # A right answer ends, though later on a busy machine.
        limit_s = math.inf if name in item.equivalent_mutants else most_s
        return checker.check(function, seed, limit_s).status == "passed"

    passing = [
        name for name, function in chosen if any(passes(name, function, seed) for seed in seeds)
    ]
    left_out = Counter(name for name, _ in made) - Counter(name for name, _ in chosen)
    return _Asked(Count(len(chosen) - len(passing), len(chosen)), passing, set(left_out))


def _weakened(item: Exercise, checker: _Checker) -> list[Changed]:
    calls = list[Any]()
    checker.check(item.right[0], note=lambda args, _: calls.append(copy.deepcopy(args)))
    return list(weakenings(item.right[0], calls))

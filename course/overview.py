"""The course's map for the index page: a card per lesson, how far it has come, the next step."""

import sys
from dataclasses import dataclass
from html import escape

from course import progress
from course.lesson_map import CORE_PATH, ELECTIVES, LESSONS, ExerciseEntry, Lesson, entries
from course.style import stylesheet, themed

_CSS = themed("sng-map") + stylesheet("map")
_TICK = '<svg viewBox="0 0 20 20" aria-hidden="true"><path d="M4.5 10.5l3.8 3.8 7.2-8.4"/></svg>'


@dataclass(frozen=True, slots=True)
class Standing:
    """One lesson's exercises, and the ids of those that some answer has passed."""

    lesson: Lesson
    exercises: tuple[ExerciseEntry, ...]
    passed: frozenset[str]
    started: bool

    @property
    def is_done(self) -> bool:
        """Whether every exercise is passed."""
        return len(self.passed) == len(self.exercises)

    @property
    def minutes_left(self) -> int:
        """About how long the rest takes: the lesson's minutes, less those of passed exercises."""
        if self.is_done:
            return 0
        spent = sum(item.minutes for item in self.exercises if item.id in self.passed)
        return max(1, self.lesson.minutes - spent)

    @property
    def next_exercise(self) -> ExerciseEntry | None:
        """The first exercise that is not passed."""
        return next((item for item in self.exercises if item.id not in self.passed), None)


def standings() -> tuple[Standing, ...]:
    """Where the learner stands in each lesson, in order."""
    return tuple(_standing(lesson) for lesson in LESSONS)


def next_standing(all_standings: tuple[Standing, ...]) -> Standing | None:
    """The lesson to go on with: the first that is not done; None when all are."""
    return next((standing for standing in all_standings if not standing.is_done), None)


def _standing(lesson: Lesson) -> Standing:
    exercises = entries(lesson)
    known = [(item.id, progress.load(item.id)) for item in exercises]
    return Standing(
        lesson=lesson,
        exercises=exercises,
        passed=frozenset(name for name, record in known if record and record.ever_passed),
        started=any(record is not None for _, record in known),
    )


@dataclass(frozen=True, slots=True)
class Overview:
    """The map at one moment; draws itself as HTML that needs no script."""

    standings: tuple[Standing, ...]
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        here = next_standing(self.standings)
        cards = "".join(_card(standing, standing is here) for standing in self.standings)
        notes = "".join(f'<p class="sng-aside">{escape(note)}</p>' for note in self.notes)
        return (
            f'<style>{_CSS}</style><div class="sng-map">{_next(here, self.standings)}'
            f'<p class="sng-aside">{_core_path()}</p><ul>{cards}</ul>{notes}</div>'
        )


def _core_path() -> str:
    """The sentence about the core path, with its hours, and how the map draws it."""
    *first, last = CORE_PATH
    minutes = sum(lesson.minutes for lesson in LESSONS if lesson.number in CORE_PATH)
    hours = f"{round(minutes / 30) / 2:g} hours"
    return (
        f"Short of time? The core path is lessons {', '.join(first)} and {last}, about {hours}. "
        "The other lessons branch off it."
    )


def overview() -> Overview:
    """The map of all lessons with the learner's progress as it is now."""
    return Overview(standings(), (*progress.to_check_again(), *progress.set_aside()))


def _next(here: Standing | None, everything: tuple[Standing, ...]) -> str:
    """The box on top: the progress in all lessons, and a link to go on."""
    passed = sum(len(standing.passed) for standing in everything)
    total = sum(len(standing.exercises) for standing in everything)
    left = sum(standing.minutes_left for standing in everything)
    if here is None or here.next_exercise is None:
        return (
            '<div class="sng-next"><div><p><strong>Every exercise is passed.</strong></p>'
            f'<p class="sng-small">{total} of {total} exercises</p></div></div>'
        )
    name = here.next_exercise.id.rpartition(".")[2]
    if passed or here.started:
        word = "Go on"
        what = f"<strong>Next:</strong> {escape(here.next_exercise.title)} (<code>{name}</code>)"
    else:
        word, what = "Start", f"<strong>Start here:</strong> {escape(here.lesson.title)}"
    return (
        f'<div class="sng-next"><div><p>{what}</p>'
        f'<p class="sng-small">{passed} of {total} exercises passed, about {left} minutes left</p>'
        f'</div><a class="sng-go" href="{_link(here)}"'
        f' aria-label="{word}: lesson {here.lesson.number}">{word}</a></div>'
    )


def _card(standing: Standing, is_here: bool) -> str:
    lesson = standing.lesson
    done, total = len(standing.passed), len(standing.exercises)
    is_core = lesson.number in CORE_PATH
    look = "sng-core" if is_core else "sng-branch"
    look += " sng-done" if standing.is_done else " sng-here" if is_here else ""
    facts = [f"Lesson {lesson.number}", f"{lesson.minutes} minutes"]
    if lesson.builds_on:
        numbers = " and ".join(lesson.builds_on)
        facts.append(f"builds on lesson {numbers}")
    if is_core or lesson.number in ELECTIVES:
        facts.append("core path" if is_core else "elective")
    facts.append("done" if standing.is_done else f"{done} of {total} exercises passed")
    return (
        f'<li class="{look}"><div class="sng-number" aria-hidden="true">'
        f"{_TICK if standing.is_done else lesson.number}</div><div>"
        f'<h2><a href="{_link(standing)}">{escape(lesson.title)}</a></h2>'
        f"<p>{escape(lesson.builds)}</p>"
        f'<p class="sng-small">{" · ".join(facts)}</p>'
        f'<div class="sng-bar" aria-hidden="true">'
        f'<span style="width:{100 * done // max(1, total)}%"></span></div></div></li>'
    )


def _link(standing: Standing) -> str:
    if "course.jupyter.reactive" in sys.modules:
        return f"{standing.lesson.stem}.ipynb"
    return f"/?file={standing.lesson.stem}.py"

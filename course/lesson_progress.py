"""Where the learner stands: what is passed in each lesson, and what comes next."""

from dataclasses import dataclass

from course import progress
from course.lesson_map import LESSONS, ExerciseEntry, Lesson, entries


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

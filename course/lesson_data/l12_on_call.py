"""Lesson 12: the list of causes and settings, and a ticket's metrics over time."""

import functools

from course.calling.jobs import RunError, run
from course.checks.incidents import CAUSES, INCIDENTS, SETTINGS, look
from course.figure import Figure
from course.lesson_data.texts import table
from course.registry import exercise
from course.saved_answers import load_policies
from nanogpt.clock import LARGE_GPU
from nanogpt.figures.curves import line_chart
from nanogpt.fleet.costs import CALIBRATED_COST

_load_policies = functools.cache(load_policies)  # which checks every answer again


def causes_and_settings() -> str:
    """What a diagnosis may name, and the number that proves each cause; Markdown."""
    causes = (f"| `{cause}` | {what} | {proof} |" for cause, (what, proof) in CAUSES.items())
    values = (f"| `{name}` | {', '.join(map(repr, each))} |" for name, each in SETTINGS.items())
    first = table("| cause | what is wrong | the number that proves it |", "lll", causes)
    return f"{first}\n\n{table('| setting | values |', 'll', values)}"


def curves(name: str, question: str) -> Figure:
    """A ticket's metrics over time, of an engine with the learner's policies if it runs."""
    is_fleet, mine = "fleet" in INCIDENTS[name], _load_policies("l12").policies
    try:
        ours = is_fleet or mine.are_references
        found = look(name) if ours else run(lambda policies: look(name, policies), mine)
    except RunError as error:
        return Figure(f"The run with your functions stopped: {error}", question)
    clock, title = CALIBRATED_COST if is_fleet else LARGE_GPU, exercise(f"l12.{name}").title
    drawing = line_chart(found.panels, "seconds", title, f"modelled: {clock.name}")
    return Figure(drawing, question)

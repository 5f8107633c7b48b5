"""The task of an exercise, as a card that stands on the page in every mode.

The lesson's stub keeps a short docstring; the signature, the rules and one worked case stand here.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from textwrap import fill, wrap
from typing import TYPE_CHECKING

from course.format_values import show, show_call
from course.lesson_map import entries, find_lesson
from course.registry import exercise
from course.style import prose, stylesheet, themed

if TYPE_CHECKING:
    from course.exercise import Exercise, Task

_CSS = themed("sng-task") + stylesheet("task")


@dataclass(frozen=True, slots=True)
class TaskCard:
    """An exercise's task as HTML that needs no script; `number` is "0.1"."""

    exercise: Exercise
    number: str

    def text(self) -> str:
        """The card for a terminal of 80 columns, without a final newline."""
        item, contract = self.exercise, self.exercise.task
        lines = [
            f"Exercise {self.number} · {item.title}",
            f"Write `{item.name}`, about {item.minutes} minutes",
            *("", fill(item.signature, 78, subsequent_indent="    "), ""),
            *(
                fill(rule, 78, initial_indent="- ", subsequent_indent="  ")
                for rule in contract.rules
            ),
        ]
        call = contract.call or show_call(item.name, contract.args)
        steps = [("step by step", "\n".join(contract.steps))] if contract.steps else []
        exhibit = [("seen", contract.exhibit())] if contract.exhibit else []
        for title, text in [*exhibit, ("For example", call), *steps, *_outcome(contract)]:
            lines += ["", f"{title}:"]
            for line in text.splitlines():
                lines += wrap(line, 76, initial_indent="  ", subsequent_indent="    ") or [""]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        item = self.exercise
        return (
            f"<style>{_CSS}</style>"
            f'<section class="sng-task" data-yours data-task="{escape(item.id)}">'
            f'<h3 id="exercise-{self.number.replace(".", "-")}">'
            f"Exercise {self.number} · {escape(item.title)}</h3>"
            f'<p class="sng-small">Write <code>{escape(item.name)}</code>, '
            f"about {item.minutes} minutes</p>{_contract(item)}</section>"
        )


def task(exercise_id: str) -> TaskCard:
    """The card of an exercise: `task("l01.chunk_size")`. Raises: KeyError for an unknown one."""
    item = exercise(exercise_id)
    lesson = find_lesson(item.lesson)
    place = [each.id for each in entries(lesson)].index(item.id) + 1
    return TaskCard(item, f"{lesson.number}.{place}")


def hints_text(exercise_id: str, shown: int) -> str:
    """An exercise's first `shown` hints for a terminal. Raises: KeyError for an unknown one."""
    hints = exercise(exercise_id).hints
    return "\n".join(
        fill(f"Hint {number} of {len(hints)}: {hint}", 78, subsequent_indent="  ")
        for number, hint in enumerate(hints[:shown], 1)
    )


def _contract(item: Exercise) -> str:
    contract = item.task
    rules = "".join(f"<li>{prose(rule)}</li>" for rule in contract.rules)
    signature = escape(item.signature).replace("-&gt;", '<span class="sng-arrow">-&gt;</span>')
    steps = "".join(f"<li>{prose(step)}</li>" for step in contract.steps)
    call, outcome = contract.call or show_call(item.name, contract.args), _outcome(contract)
    return (
        f'<pre tabindex="0">{signature}</pre><ul>{rules}</ul>'
        + (f'<pre tabindex="0">{escape(contract.exhibit())}</pre>' if contract.exhibit else "")
        + f"<dl><dt>For example</dt><dd><pre>{escape(call)}</pre></dd>"
        + (f"<dt>step by step</dt><dd><ol>{steps}</ol></dd>" if steps else "")
        + "".join(f"<dt>{word}</dt><dd><pre>{escape(text)}</pre></dd>" for word, text in outcome)
        + "</dl>"
    )


def _outcome(contract: Task) -> list[tuple[str, str]]:
    """The result of the worked case; of a generator, the list of what it yields."""
    rows = [("returns", contract.returns or show(contract.result))]
    if contract.answers:
        first, *rest = contract.result
        rows = [("yields", show(first))]
        for answer, move in zip(contract.answers, rest, strict=True):
            rows += [("is sent", show(answer)), ("yields", show(move))]
    return rows

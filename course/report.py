"""The result of a check of one answer, as plain data that draws itself as a quiet card.

Knows the words and the layout of a verdict; does not know how it was reached.
"""

from dataclasses import dataclass
from html import escape
from typing import Literal

from course.style import prose, stylesheet, themed

Status = Literal[
    "passed",
    "not_started",
    "failed",
    "raised",
    "timeout",
    "crashed",
    "memory",
    "protocol",
    "missing",
]

_WORDS: dict[Status, str] = {
    "passed": "Passed",
    "not_started": "Not started yet",
    "failed": "Not yet",
    "raised": "Stopped with an error",
    "timeout": "Took too long",
    "crashed": "Ended its process",
    "memory": "Took too much memory",
    "protocol": "Came back with no answer",
    "missing": "Not found",
}

# 16 x 16 strokes: a tick, a dashed ring, a ring with a bar, an exclamation mark, a clock, a query.
_RING = '<circle cx="8" cy="8" r="6.6"/>'
_ICONS: dict[Status, str] = {
    "passed": _RING + '<path d="M4.8 8.3l2.2 2.2 4.2-4.8"/>',
    "not_started": '<circle cx="8" cy="8" r="6.6" stroke-dasharray="2.6 2.6"/>',
    "failed": _RING + '<path d="M5 8h6"/>',
    "raised": _RING + '<path d="M8 4.4v4.4M8 11.2v.4"/>',
    "timeout": _RING + '<path d="M8 4.4V8l2.4 1.6"/>',
    "crashed": _RING + '<path d="M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8"/>',
    "memory": _RING + '<path d="M5 10.8V8M8 10.8V5.2M11 10.8V6.6"/>',
    "protocol": _RING + '<path d="M5 6.6h6M5 9.4h6"/>',
    "missing": _RING + '<path d="M6 6.4a2 2 0 1 1 2.6 1.9q-.6.3-.6 1M8 11.4v.3"/>',
}

_CSS = themed("sng-report") + stylesheet("report")


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on one answer.

    `checks` names every check in the order they run, easiest first, and `passed` counts those
    before the first failure. `idea` is one sentence; `example` holds rows such as
    ("expected", "...") of the smallest counterexample; `misconception` names a known wrong idea.
    `stdout` is what the function printed, `seconds` the wall time of all checks. `exhibit` is the
    letter of the museum's exhibit that was judged, "" for an answer.
    """

    exercise: str
    status: Status
    checks: tuple[str, ...]
    passed: int
    idea: str
    example: tuple[tuple[str, str], ...] = ()
    misconception: str | None = None
    stdout: str = ""
    seconds: float = 0.0
    exhibit: str = ""

    @property
    def name(self) -> str:
        """The function's name: "plan_step" of "l01.plan_step"."""
        return self.exercise.rpartition(".")[2]

    @property
    def subject(self) -> str:
        """The judged function in words: "Exhibit A", or its name."""
        return f"Exhibit {self.exhibit}" if self.exhibit else self.name

    @property
    def verdict(self) -> str:
        """The status in words: "Passed", "Not yet"."""
        return _WORDS[self.status]

    @property
    def tally(self) -> str:
        """How far it came and how long that took, in a few words; empty when nothing was run."""
        if self.status in ("not_started", "missing") or not self.checks:
            return ""
        return f"{self.passed} of {len(self.checks)} checks passed, {self.seconds:.2f} s"

    @property
    def stopped_at(self) -> str | None:
        """The name of the check that did not pass, None when all did or none was run."""
        ran = self.status not in ("passed", "not_started", "missing")
        return self.checks[self.passed] if ran and self.passed < len(self.checks) else None

    def text(self) -> str:
        """The report for a terminal, without a final newline."""
        tally = f" ({self.tally})" if self.tally else ""
        lines = [f"{self.exercise}: {self.verdict.lower()}{tally}"]
        if self.stopped_at is not None:
            lines.append(f"  Stopped at: {self.stopped_at}")
        lines += [f"  {line}" for line in self.idea.splitlines()]
        width = max((len(label) for label, _ in self.example), default=0)
        for label, value in self.example:
            first, *rest = value.splitlines() or [""]
            lines.append(f"    {label.ljust(width)}  {first}".rstrip())
            lines += [f"    {' ' * width}  {line}" for line in rest]
        if self.stdout:
            lines += ["  It printed:", *(f"    {line}" for line in self.stdout.splitlines())]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        tally = f'<span class="sng-small">{escape(self.tally)}</span>' if self.tally else ""
        parts = [
            f'<p class="sng-head"><svg viewBox="0 0 16 16" aria-hidden="true">'
            f"{_ICONS[self.status]}</svg>"
            f'<span class="sng-word">{self.verdict}</span>'
            f"{_subject(self)}{tally}</p>"
        ]
        if self.stopped_at is not None:
            parts.append(f'<p class="sng-small">Stopped at: {escape(self.stopped_at)}</p>')
        if self.idea:
            parts.append(f"<p>{prose(self.idea)}</p>")
        if self.example:
            parts.append(f"<table><tbody>{''.join(map(_row, self.example))}</tbody></table>")
        if self.stdout:
            parts.append(
                "<details><summary>What it printed</summary>"
                f'<pre tabindex="0">{escape(self.stdout)}</pre></details>'
            )
        return (
            f"<style>{_CSS}</style>"
            f'<div class="sng-report sng-report-{self.status}" data-status="{self.status}"'
            f' data-exercise="{escape(self.exercise)}" data-exhibit="{escape(self.exhibit)}"'
            f' role="group" aria-label="Check of {escape(self.subject)}">{"".join(parts)}</div>'
        )


def _subject(report: Report) -> str:
    """An exhibit by its letter and the exercise that checked it; an answer by its function."""
    code = f"<code>{escape(report.name)}</code>"
    if not report.exhibit:
        return code
    return f"<strong>{escape(report.subject)}</strong> by the check of {code}"


def _row(row: tuple[str, str]) -> str:
    label, value = row
    return f'<tr><th scope="row">{escape(label)}</th><td><pre>{escape(value)}</pre></td></tr>'

"""What the tickets share: how they are told, and how the three parts of a diagnosis are judged.

A ticket's texts, and what is said of wrong causes and numbers, stand in tickets.toml. A fix is run.
"""

import math
import random
import tomllib
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from course.calling.plain_values import as_mapping, as_number
from course.checks.incidents import CAUSES, INCIDENTS, SETTINGS, look
from course.exercise import Exercise, Misconception, Task
from course.format_values import show
from course.harness import Ask, Failure
from course.same_values import same

__all__ = ("Exercise", "fields")
_TOLD: dict[str, Any] = tomllib.loads(Path(__file__).with_name("tickets.toml").read_text("utf-8"))
_FORM = "{'cause': 'host_bound', 'number': 24.5, 'fix': {'policy': 'priority'}}"


def fields(right: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The fields of a ticket's record that follow from its worked answer and its texts."""
    name, answer = right.__name__, right()
    judge, told, given = _Judge(name, answer), _TOLD[name], INCIDENTS[name]
    promises = [f"{metric} at most {most}" for metric, most in given["promises"].items()]
    settings = [f"`{setting}={v!r}`" for setting, v in given["settings"].items()]
    told_first = f"“{told['user']}” says a user.", *told["notes"]
    rules = *told_first, f"Promised: {', '.join(promises)}.", f"Settings: {', '.join(settings)}."
    return {
        "task": Task(rules, (), answer, returns=_FORM, exhibit=partial(_seen, name)),
        "hints": tuple(told["hints"]),
        "points": 2,
        "right": (right,),
        "misconceptions": judge.misconceptions(),
        "checks": (
            ("the cause", judge.cause),
            ("the number that proves it", judge.number),
            ("the fix, run", judge.fix),
        ),
    }


def _seen(name: str) -> str:
    lines = list(look(name).log)
    for column, rows in look(name).columns.items():
        lines += ["", f"[{column}]", *(f"{row}: {value}" for row, value in rows.items())]
    return "\n".join(lines).strip()


class _Judge:
    """Judges the diagnoses of one ticket."""

    def __init__(self, name: str, right: dict[str, Any]) -> None:
        self.name, self.right = name, right
        self.told: dict[str, dict[str, Any]] = _TOLD[name]

    def misconceptions(self) -> tuple[Misconception, ...]:
        """The wrong diagnoses that have words of their own, each wrong in one part."""
        wrong: list[tuple[str, str, str, Any]] = [
            *((f"number {n}", s[0], "number", float(n)) for n, s in self.told["numbers"].items()),
            *((each, s[0], "cause", each) for each, s in self.told["causes"].items()),
            *((f"fix {n}", why, "fix", {n: v}) for n, (v, why) in self.told["fixes"].items()),
            ("no_such_cause", "I say it in my own words.", "cause", "gpu"),
        ]
        form = Misconception("form", "The cause says it all.", answer=lambda: self.right["cause"])
        return form, *(
            Misconception(key, belief, answer=partial(dict, self.right, **{part: value}))
            for key, belief, part, value in wrong
        )

    def cause(self, ask: Ask, _: random.Random) -> Failure | None:
        """Whether the cause is the right one."""
        given = as_mapping(ask())
        if given is None or given.keys() != self.right.keys():
            idea = "Return a dict with the keys `cause`, `number` and `fix`, and no others."
            return Failure(idea, ask.example(_FORM, ask()), "form")
        cause, causes = str(given["cause"])[:99], self.told["causes"]
        rows = ask.example("the cause that the metrics show", given["cause"])
        if cause == self.right["cause"]:
            return None
        if cause in causes:
            return Failure(causes[cause][1], rows, cause)
        if cause in CAUSES:
            idea = f"`{cause}` would show in this number: {CAUSES[cause][1]}. It does not."
            return Failure(idea, rows)
        near = [f" Nearest is `{each}`." for each in get_close_matches(cause, CAUSES, 1)]
        return Failure(f"The list has no such cause.{''.join(near)}", rows, "no_such_cause")

    def number(self, ask: Ask, _: random.Random) -> Failure | None:
        """Whether the number is the one that proves the cause."""
        number = as_number(ask()["number"])
        rows = ask.example(CAUSES[self.right["cause"]][1], ask()["number"])
        near = partial(math.isclose, math.nan if number is None else number, rel_tol=0.01)
        for text, (_belief, idea) in self.told["numbers"].items():
            if near(float(text)):
                return Failure(f"The cause fits, but {idea}", rows, f"number {text}")
        idea = "The cause fits. `number` is another one."
        return None if near(self.right["number"]) else Failure(idea, rows)

    def fix(self, ask: Ask, _: random.Random) -> Failure | None:
        """Whether all promises hold when the load is run with the changed setting."""
        given, now = as_mapping(ask()["fix"]), INCIDENTS[self.name]["settings"]
        able = [{n: v} for n in now for v in SETTINGS.get(n, []) if v != now[n]]
        [*fix] = [each for each in ({}, *able) if same(each, given)]
        if not fix:
            idea = "A fix is `{}`, or one setting of this deployment with another of its values."
            return Failure(idea, ask.example(f"one of {{}}, {able}", ask()["fix"]))
        before, after = look(self.name).metrics, look(self.name, **fix[0]).metrics
        promises: dict[str, float] = INCIDENTS[self.name]["promises"]
        ask.shown = rows = tuple(
            (name, ", ".join(f"{metric} {values[metric]:.4g}" for metric in promises))
            for name, values in (("promised", promises), ("before", before), ("after", after))
        )
        key = next((f"fix {name}" for name in fix[0] if name in self.told["fixes"]), None)
        if fix[0] and not self.right["fix"]:
            return Failure("Every promise was kept before. Leave what is not broken.", rows, key)
        broken = [metric for metric, most in promises.items() if after[metric] > most]
        new = [metric for metric in broken if before[metric] <= promises[metric]]
        idea = f"breaks another promise: {new[0]}" if new else "does not mend it"
        idea = f"The cause and the number fit. {show(fix[0])} {idea}."
        return Failure(idea, rows, key) if broken else None

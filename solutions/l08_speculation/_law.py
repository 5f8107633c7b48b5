"""The law of what comes out over all drafts, which has to be p, whatever q is."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from course.checks.comparing import Args, Comparison, Result
from course.harness import Ask, Failure, Rows
from course.same_values import like, same
from solutions.l08_speculation._mistakes import FORMS

CELLS = 6  # of u, and of v: every right threshold lies between two of them
LAW_P = (1, 1, 2, 2)  # sixths
LAW_Q = (3, 2, 1, 0)


def law_cases() -> list[tuple[int, Args]]:
    """Every draft that q may make, with u and v from the middle of every cell; its weight first."""
    p, q = [n / 6 for n in LAW_P], [n / 6 for n in LAW_Q]
    middles = [(2 * i + 1) / (2 * CELLS) for i in range(CELLS)]
    return [
        (weight, (p, q, token, u, v))
        for token, weight in enumerate(LAW_Q)
        for u in middles
        for v in middles
        if weight
    ]


def judge_law(ask: Ask, calls: Comparison[Any]) -> Failure | None:
    """What comes out over all drafts, u and v must be distributed as p, whatever each call gives.

    No statistics: the thresholds of a right answer lie on the edges of the cells, so that counting
    cells is integrating. `calls` judges a single call.
    """
    mass = [0] * len(LAW_P)
    results: list[Result] = []
    for weight, args in law_cases():
        value = like(ask(*args), calls.reference(*args))
        ill_formed = any(each.matches and each.matches(value) for each in FORMS)
        if value is None or ill_formed or not 0 <= value[1] < len(mass):
            return calls.judge(ask, [args])
        mass[value[1]] += weight
        results.append((args, value))
    law = [Fraction(m, sum(mass)) for m in mass]
    wanted = [Fraction(n, sum(LAW_P)) for n in LAW_P]
    if law == wanted:
        return None
    excess = [got - want for got, want in zip(law, wanted, strict=True)]
    token = excess.index(max(excess))
    wrong = [args for args, value in results if value != calls.reference(*args)]
    p, q, *_ = wrong[0]
    rows: Rows = (
        ("input", f"p={short(p)}, q={short(q)}, every draft, u and v as often as they come"),
        ("expected", f"as p: {short(wanted)}"),
        ("got", short(law)),
        ("too often", f"token {token}: {float(law[token]):.4g}, not {float(wanted[token]):.4g}"),
    )
    failure = calls.judge(ask, wrong[:20])
    if failure is None:
        return Failure("What comes out has to be distributed as p, whatever q is.", rows)
    rows += tuple((f"one call: {title}", text) for title, text in failure.example)
    if any(
        all(same(answer(*args), got) for args, got in results)
        for idea in calls.mistakes
        for answer in idea.answers
    ):
        return Failure(failure.idea, rows, failure.misconception)
    return Failure(
        f"Token {token} comes out too often: what stands has to be distributed as p.", rows
    )


def short(numbers: Sequence[float | Fraction]) -> str:
    """Numbers in brackets, thirds and the like cut after four digits."""
    return f"[{', '.join(digits(float(number)) for number in numbers)}]"


def digits(number: float) -> str:
    text = repr(number)
    return text if len(text) <= 6 or number > 0.999 else f"{number:.4g}"

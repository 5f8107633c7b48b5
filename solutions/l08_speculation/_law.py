"""Random drafts, and the exact distribution of the returned token, which has to be p."""

import itertools
import random
from collections.abc import Sequence
from fractions import Fraction

from course.checks.comparing import Args, Comparison, Result
from course.harness import Ask, Failure, Rows
from course.same_values import like
from solutions.l08_speculation._mistakes import FORMS

CELLS = 6  # of u, and of v: every right threshold lies between two of them
LAW_P = (1, 1, 2, 2)  # sixths
LAW_Q = (3, 2, 1, 0)


def law_cases() -> list[tuple[int, Args]]:
    """(weight, arguments) for every draft token, with u and v from the middle of every cell."""
    p, q = [n / 6 for n in LAW_P], [n / 6 for n in LAW_Q]
    middles = [(2 * i + 1) / (2 * CELLS) for i in range(CELLS)]
    return [
        (weight, (p, q, token, u, v))
        for token, weight in enumerate(LAW_Q)
        for u in middles
        for v in middles
        if weight
    ]


def judge_law(ask: Ask, calls: Comparison) -> Failure | None:
    """Over all draft tokens, u and v, the returned token must be distributed as p.

    The thresholds of a right answer lie on the edges of the cells, so counting cells integrates
    exactly, without statistics. `calls` judges a single call.
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
        ("input", f"p={short(p)}, q={short(q)}; every draft token, u and v, by probability"),
        ("expected", f"as p: {short(wanted)}"),
        ("got", short(law)),
        ("too often", f"token {token}: {float(law[token]):.4g}, not {float(wanted[token]):.4g}"),
    )
    failure = calls.judge(ask, wrong[:20])
    if failure is None:
        return Failure("The returned tokens have to be distributed as p, whatever q is.", rows)
    rows += tuple((f"one call: {title}", text) for title, text in failure.example)
    if failure.misconception:
        return Failure(failure.idea, rows, failure.misconception)
    return Failure(
        f"Token {token} comes out too often: the tokens have to be distributed as p.", rows
    )


def any_probs(rng: random.Random, size: int) -> list[float]:
    """Thousandths that sum to 1 up to rounding; about a quarter of them are 0."""
    weights = [rng.randint(1, 50) if rng.random() < 0.75 else 0 for _ in range(size)]
    weights[rng.randrange(size)] += 1
    ends = [round(1000 * end / sum(weights)) for end in itertools.accumulate(weights)]
    return [(end - start) / 1000 for start, end in itertools.pairwise([0, *ends])]


def is_clear(p: list[float], q: list[float], token: int, u: float, v: float) -> bool:
    """Whether u and v lie far enough from every threshold that rounding does not matter."""
    missing = [max(0.0, a - b) for a, b in zip(p, q, strict=True)]
    total = sum(missing)
    edges = [end / total for end in itertools.accumulate(missing)] if total else [0.0]
    return min(abs(u - p[token] / q[token]), *(abs(v - edge) for edge in edges)) > 1e-9


def any_drafts(rng: random.Random) -> Sequence[Args]:
    """60 drafts over vocabularies of 2 to 12 tokens, the smallest first."""
    cases: list[Args] = []
    while len(cases) < 60:
        size = rng.choice((2, 3, 4, 5, 6, 7, 12))
        p, q = any_probs(rng, size), any_probs(rng, size)
        token = rng.choice([index for index in range(size) if q[index]])
        u, v = round(rng.random(), 4), round(rng.random(), 4)
        if p != q and u < 1 and v < 1 and is_clear(p, q, token, u, v):
            cases.append((p, q, token, u, v))
    return sorted(cases, key=lambda case: len(case[0]))


def short(numbers: Sequence[float | Fraction]) -> str:
    """Numbers in brackets, thirds and the like cut after four digits."""
    return f"[{', '.join(digits(float(number)) for number in numbers)}]"


def digits(number: float) -> str:
    text = repr(number)
    return text if len(text) <= 6 or number > 0.999 else f"{number:.4g}"

"""Which draft stays: the rules taken apart, and pieces that wrong answers have in their place."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

from nanogpt.policies.acceptance import draw, rejection_sample

Probs: TypeAlias = Sequence[float]
Accept: TypeAlias = Callable[[Probs, Probs, int, float, float], Any]
Pick: TypeAlias = Callable[[Probs, float], int | None]

# --- the rules, taken apart ----------------------------------------------------------------------


def keeps(p: Probs, q: Probs, token: int, u: float) -> bool:
    return u * q[token] < p[token]


def missing(p: Probs, q: Probs, token: int) -> list[float]:
    return [max(0.0, a - b) for a, b in zip(p, q, strict=True)]


def by_rules(
    keep: Callable[[Probs, Probs, int, float], bool] = keeps,
    weigh: Callable[[Probs, Probs, int], Probs] = missing,
    pick: Pick = draw,
) -> Accept:
    """The rules but for those that are given."""

    def answer(p: Probs, q: Probs, token: int, u: float, v: float) -> Any:
        if keep(p, q, token, u):
            return True, token
        return False, pick(weigh(p, q, token), v)

    return answer


def then(change: Callable[..., Any]) -> Accept:
    """The right answer, made into change(kept, token, p, q, the draft, u, v)."""
    return lambda *args: change(*rejection_sample(*args), *args)


# --- picking a token -----------------------------------------------------------------------------


def first(weights: Probs, reaches: Callable[[float], bool]) -> int | None:
    """The first index at which the sum so far `reaches`; None where there is none."""
    return next((index for index, total in enumerate(accumulate(weights)) if reaches(total)), None)


def scaled(weights: Probs, v: float) -> int | None:
    return first(weights, lambda total: total > v * sum(weights))


def unscaled(weights: Probs, v: float) -> int | None:
    return first(weights, lambda total: total > v)


def by_shares(weights: Probs, v: float) -> int | None:
    return unscaled(shares(weights), v)


def shares(weights: Probs) -> list[float]:
    total = sum(weights)
    return [weight / total for weight in weights] if total else list(weights)


def or_else(pick: Pick, fallback: Callable[[Probs], int]) -> Pick:
    """What `pick` finds, and where it finds nothing the fallback."""

    def found(weights: Probs, v: float) -> int:
        index = pick(weights, v)
        return fallback(weights) if index is None else index

    return found


def last(weights: Probs) -> int:
    return len(weights) - 1


def or_no_result(pick: Pick) -> Accept:
    """Returns where `pick` finds a token, and else runs off its end."""

    def answer(*args: Any) -> Any:
        kept, token = by_rules(pick=pick)(*args)
        return None if token is None else (kept, token)

    return answer


# --- whole answers -------------------------------------------------------------------------------

"""Wrong ideas about rejection sampling."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

from course.calling.plain_values import as_items, as_truth, as_whole
from course.checks.comparing import a_kind
from course.exercise import Misconception
from nanogpt.policies.acceptance import draw, rejection_sample

Probs: TypeAlias = Sequence[float]

# --- the rule in three pieces --------------------------------------------------------------------


def keeps(p: Probs, q: Probs, token: int, u: float) -> bool:
    return u * q[token] < p[token]


def residual(p: Probs, q: Probs) -> Probs:
    return [max(0.0, a - b) for a, b in zip(p, q, strict=True)]


def by_rule(
    keep: Callable[[Probs, Probs, int, float], bool] = keeps,
    weigh: Callable[[Probs, Probs], Probs] = residual,
    pick: Callable[[Probs, float], int | None] = draw,
) -> Callable[..., Any]:
    """The right rule with the given pieces in place of its own."""

    def answer(p: Probs, q: Probs, token: int, u: float, v: float) -> Any:
        return (True, token) if keep(p, q, token, u) else (False, pick(weigh(p, q), v))

    return answer


def first_above(weights: Probs, goal: float) -> int | None:
    """The first index at which the running sum exceeds `goal`."""
    return next((index for index, total in enumerate(accumulate(weights)) if total > goal), None)


def first_or_last(weights: Probs, v: float) -> int:
    found = first_above(weights, v * sum(weights))
    return len(weights) - 1 if found is None else found


def without_fallback(p: Probs, q: Probs, token: int, u: float, v: float) -> Any:
    """Normalises the weights, and returns nothing where rounding leaves their sum below v."""
    weights = residual(p, q)
    total = sum(weights) or 1.0
    kept, drawn = by_rule(pick=lambda w, v: first_above([each / total for each in w], v))(
        p, q, token, u, v
    )
    return None if drawn is None else (kept, drawn)


# --- form ----------------------------------------------------------------------------------------


def parts(value: Any) -> Sequence[Any]:
    return as_items(value) or ()


FORMS = (
    Misconception(
        "not_two",
        "The engine needs only the token.",
        "Return two values, whether the draft token is kept and the token at its position: "
        "`kept, token`.",
        matches=lambda value: len(parts(value)) != 2,
        examples=(lambda *args: rejection_sample(*args)[1],),
    ),
    Misconception(
        "wrong_type",
        "The order of the two values does not matter, and 1 is as good as True.",
        lambda value: (
            f"The first value, `kept`, is True or False, not {a_kind(parts(value)[0])}."
            if as_truth(parts(value)[0]) is None
            else f"The second value, a token, is a whole number, not {a_kind(parts(value)[1])}."
        ),
        matches=lambda value: (
            as_truth(parts(value)[0]) is None or as_whole(parts(value)[1]) is None
        ),
        examples=(
            lambda *args: rejection_sample(*args)[::-1],
            lambda *args: tuple(map(int, rejection_sample(*args))),
        ),
    ),
)

# --- wrong ideas ---------------------------------------------------------------------------------

FALLS_OFF = Misconception(
    "falls_off_the_end",
    "Normalised weights sum to 1.",
    "Floats round, so the normalised weights may sum to just below 1, and a `v` above that sum "
    "reaches no token: then take the last token with a weight above 0.",
    without_fallback,
)
MISCONCEPTIONS = (
    *FORMS,
    Misconception(
        "inverted_ratio",
        "The draft token is kept with probability q / p.",
        "The ratio is inverted: keep the draft token with probability p[draft_token] / "
        "q[draft_token], so that tokens that the draft proposes too often are rejected.",
        by_rule(lambda p, q, token, u: u * p[token] < q[token]),
    ),
    Misconception(
        "only_if_higher",
        "Keep the draft token only if the target finds it more likely than the draft does.",
        "A draft token that the target finds less likely than the draft does is still kept with "
        "probability p[draft_token] / q[draft_token]: this is what `u` decides.",
        by_rule(lambda p, q, token, u: p[token] > q[token]),
    ),
    Misconception(
        "ignores_q",
        "The target chooses the token with probability p, so I keep it with probability p.",
        "p[draft_token] is too small: the draft has already drawn the token with probability "
        "q[draft_token], so divide by that.",
        by_rule(lambda p, q, token, u: u < p[token]),
    ),
    Misconception(
        "at_the_threshold",
        "Keep the draft token if u is at most the ratio.",
        "u is at least 0 and below 1, so `u < ratio` is true with exactly the probability "
        "`ratio`; with `<=`, a token that the target never chooses could be kept.",
        by_rule(lambda p, q, token, u: u * q[token] <= p[token]),
    ),
    Misconception(
        "returns_the_draft",
        "The engine draws the replacement itself.",
        "The draft token was rejected, so return another token for its position, drawn by `v`.",
        lambda p, q, token, u, v: (keeps(p, q, token, u), token),
    ),
    Misconception(
        "from_p",
        "The target decides, so I draw the replacement from p.",
        "Drawn from p, the rejected token gets a second chance, and tokens that the draft proposes "
        "too often come out too often: draw from max(0, p - q).",
        by_rule(weigh=lambda p, q: p),
    ),
    Misconception(
        "keeps_negatives",
        "The weights are p - q.",
        "A token that the draft proposes too often has weight 0, not a negative one: the weights "
        "are max(0, p - q).",
        by_rule(weigh=lambda p, q: [a - b for a, b in zip(p, q, strict=True)], pick=first_or_last),
    ),
    Misconception(
        "not_normalised",
        "The weights are probabilities.",
        "The weights do not sum to 1, so compare the running sum with v times *their* sum; "
        "otherwise some values of v reach no token.",
        by_rule(pick=first_above),
        same_result=(by_rule(pick=lambda w, v: first_or_last(w, v / sum(w))),),
    ),
    Misconception(
        "reuses_u",
        "One random number is enough for both decisions.",
        "When the draft token is rejected, `u` is at least p / q, so a token drawn by `u` does not "
        "follow the weights: draw it by `v`.",
        lambda p, q, token, u, v: rejection_sample(p, q, token, u, u),
    ),
    FALLS_OFF,
)

"""Judging which drafted token stays: single calls, and the law of what comes out of many."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from typing import Any

from course.checks.comparing import Args, Comparison, Mistake, a_kind
from course.exercise import Misconception
from course.judging import Ask, Failure, Rows
from course.sameness import like, same
from nanogpt.parts import acceptance
from nanogpt.parts.plain_values import as_items, as_truth, as_whole

Probs = Sequence[float]
_Accept = Callable[[Probs, Probs, int, float, float], Any]
_Keep = Callable[[Probs, Probs, int, float], bool]
_Weigh = Callable[[Probs, Probs, int], list[float]]
_Pick = Callable[[Probs, float], int | None]

# --- the rules, taken apart ------------------------------------------------------------------


def _keeps(p: Probs, q: Probs, token: int, u: float) -> bool:
    return u * q[token] < p[token]


def _missing(p: Probs, q: Probs, token: int) -> list[float]:
    return [max(0.0, a - b) for a, b in zip(p, q, strict=True)]


def _accepting(
    keep: _Keep = _keeps, weigh: _Weigh = _missing, pick: _Pick = acceptance.draw
) -> _Accept:
    """The rules but for those that are given."""

    def answer(p: Probs, q: Probs, token: int, u: float, v: float) -> Any:
        if keep(p, q, token, u):
            return True, token
        return False, pick(weigh(p, q, token), v)

    return answer


def _then(change: Callable[[bool, int, Args], Any]) -> _Accept:
    """The right answer, changed to change(kept, token, arguments)."""

    def answer(p: Probs, q: Probs, token: int, u: float, v: float) -> Any:
        return change(*acceptance.accept(p, q, token, u, v), (p, q, token, u, v))

    return answer


def _first(weights: Probs, reaches: Callable[[float], bool]) -> int | None:
    """The first index at which the sum so far `reaches`; None where there is none."""
    sums = enumerate(accumulate(weights))
    return next((index for index, total in sums if reaches(total)), None)


def _scaled(weights: Probs, v: float) -> int | None:
    return _first(weights, lambda total: total > v * sum(weights))


def _unscaled(weights: Probs, v: float) -> int | None:
    return _first(weights, lambda total: total > v)


def _or(pick: _Pick, fallback: Callable[[Probs], int]) -> _Pick:
    """What `pick` finds, and where it finds nothing the fallback."""

    def found(weights: Probs, v: float) -> int:
        index = pick(weights, v)
        return fallback(weights) if index is None else index

    return found


def _last(weights: Probs) -> int:
    return len(weights) - 1


def _highest(weights: Probs) -> int:
    return max(range(len(weights)), key=weights.__getitem__)


def _shares(weights: Probs) -> list[float]:
    total = sum(weights)
    return [weight / total for weight in weights] if total else list(weights)


def _by_shares(weights: Probs, v: float) -> int | None:
    return _first(_shares(weights), lambda total: total > v)


def _by_counting_down(weights: Probs, v: float) -> int | None:
    for index, share in enumerate(_shares(weights)):
        v -= share
        if v < 0:
            return index
    return None


def _at_least(weights: Probs, v: float) -> int | None:
    return _first(weights, lambda total: total >= v * sum(weights))


def _from_the_end(weights: Probs, v: float) -> int:
    return _last(weights) - acceptance.draw(weights[::-1], v)


def _heaviest_first(weights: Probs, v: float) -> int:
    order = sorted(range(len(weights)), key=lambda index: -weights[index])
    return order[acceptance.draw([weights[index] for index in order], v)]


def _evenly(weights: Probs, v: float) -> int | None:
    there = [index for index, weight in enumerate(weights) if weight > 0]
    return there[int(v * len(there))] if there else None


def _among_the_positive(weights: Probs, v: float) -> int:
    return acceptance.draw([weight for weight in weights if weight > 0], v)


def _draws_and_compares(p: Probs, q: Probs, token: int, u: float, v: float) -> tuple[bool, int]:
    drawn = acceptance.draw(p, v)
    return drawn == token, drawn


# --- drawing and form ------------------------------------------------------------------------


def _short(numbers: Sequence[float | Fraction]) -> str:
    """Numbers in brackets, thirds and the like cut after four digits."""
    return f"[{', '.join(_digits(float(number)) for number in numbers)}]"


def _digits(number: float) -> str:
    text = repr(number)
    return text if len(text) <= 6 or number > 0.999 else f"{number:.4g}"


def _draw_call(name: str, args: Args) -> str:
    p, q, token, u, v = args
    return f"{name}(p={_short(p)}, q={_short(q)}, token={token}, u={_digits(u)}, v={_digits(v)})"


def _form_of_two(value: Any) -> tuple[str, str] | None:
    """What is wrong with a result by itself; that None is wrong is for a mistake to say."""
    if value is None:
        return None
    items = as_items(value)
    if items is None or len(items) != 2:
        return "not_two", "Return two things, whether it is kept and the token: `kept, token`."
    kept, token = items
    if as_truth(kept) is None and as_truth(token) is not None:
        return "swapped", "Whether it is kept comes first, then the token: `kept, token`."
    if as_truth(kept) is None:
        return "wrong_type", f"`kept` is True or False, not {a_kind(kept)}."
    if as_whole(token) is None:
        return "wrong_type", f"A token is a whole number, not {a_kind(token)}."
    return None


# --- mistakes --------------------------------------------------------------------------------

_INVERTED = (
    "The ratio is turned round: a draft that the target likes better than the draft model always "
    "stays, and one that it likes less stays with probability p[token] / q[token]."
)
_LESS_LIKED = (
    "A draft that the target likes less than the draft model does may stay too, with probability "
    "p[token] / q[token]: that is what `u` is for."
)
_THRESHOLD = (
    "u is uniform from 0 to just below 1, so `u < ratio` has exactly the ratio's probability: with "
    "`<=` even a token that the target never says could stay."
)
_FROM_P = (
    "Drawn from p, the rejected token gets a second chance, and drafted tokens come out more often "
    "than the target wants: draw from what p has more than q."
)
_BY_SIGN = (
    "Only what p has *more* than q is missing: where the draft proposes a token often enough or "
    "too often, its weight is 0."
)
_CERTAIN = (
    "The most likely token is not the only one that the target says: draw by `v`, in proportion to "
    "the weights."
)
_UNSCALED = (
    "The weights that are left do not sum to 1: go up to v times *their* sum, or part of the time "
    "no token is reached."
)
_BOUNDARY = (
    "Stop at the first token at which the sum so far is *more* than v times the whole: with `>=`, "
    "a v of 0 picks a token of weight 0."
)
_ORDER = (
    "The law is right, but not the token for this `v`: go through the tokens from 0 up, so that "
    "the same random numbers give the same text everywhere."
)
_FALLS_OFF = (
    "The shares may sum to just below 1, as floats do, and a `v` above that reaches none: then it "
    "is the last token that has a weight above 0."
)
_NEVER = (
    "This is distributed as p, but no draft ever stays, so the drafts were made for nothing: keep "
    "one with probability p[token] / q[token]."
)

ACCEPT: Comparison[_Accept] = Comparison(
    reference=acceptance.accept,
    mistakes=(
        Mistake(
            "no_return",
            "accept returned nothing: end every way through it with `return kept, token`.",
            lambda p, q, token, u, v: None,
        ),
        Mistake(
            "inverted_ratio", _INVERTED, _accepting(lambda p, q, token, u: u * p[token] < q[token])
        ),
        Mistake(
            "only_if_higher",
            _LESS_LIKED,
            _accepting(lambda p, q, token, u: p[token] > q[token]),
        ),
        Mistake(
            "only_if_higher",
            _LESS_LIKED,
            _accepting(lambda p, q, token, u: p[token] >= q[token]),
        ),
        Mistake(
            "ignores_q",
            "p[token] alone is too little: the token has already been drawn with probability "
            "q[token], so divide by that.",
            _accepting(lambda p, q, token, u: u < p[token]),
        ),
        Mistake(
            "always_keeps",
            "Kept like this, everything comes out as often as the draft model says it: a draft "
            "stays only with probability p[token] / q[token].",
            _accepting(lambda p, q, token, u: True),
        ),
        Mistake(
            "keeps_what_is_possible",
            "That the target may say it is not enough: the draft stays with probability "
            "p[token] / q[token].",
            _accepting(lambda p, q, token, u: p[token] > 0),
        ),
        Mistake(
            "keeps_the_likeliest",
            "The target's favourite alone is the rule of greedy decoding: when sampling, every "
            "token that it may say has its chance, p[token] / q[token].",
            _accepting(lambda p, q, token, u: token == _highest(p)),
        ),
        Mistake(
            "never_keeps",
            _NEVER,
            lambda p, q, token, u, v: (False, acceptance.draw(p, v)),
        ),
        Mistake(
            "never_keeps",
            "No draft ever stays like this: keep one with probability p[token] / q[token].",
            lambda p, q, token, u, v: (False, acceptance.draw(_missing(p, q, token), v)),
        ),
        Mistake(
            "draws_and_compares",
            "Drawing from p and comparing has the right law, but keeps a draft less often than it "
            "could: keep it with probability p[token] / q[token].",
            _draws_and_compares,
        ),
        Mistake(
            "u_turned_round",
            "The draft stays when u is *below* the ratio, so that a small u always keeps it.",
            _accepting(lambda p, q, token, u: u * q[token] >= p[token]),
        ),
        Mistake(
            "u_turned_round",
            "The draft stays when u is *below* the ratio, so that a small u always keeps it.",
            _accepting(lambda p, q, token, u: 1 - u < p[token] / q[token]),
        ),
        Mistake(
            "at_the_threshold",
            _THRESHOLD,
            _accepting(lambda p, q, token, u: u * q[token] <= p[token]),
        ),
        Mistake(
            "draws_when_kept",
            "A draft that stays is the token at its position: nothing is drawn there any more.",
            _then(
                lambda kept, token, args: (
                    (kept, acceptance.draw(_missing(*args[:3]), args[4]) if kept else token)
                )
            ),
        ),
        Mistake(
            "draws_when_kept",
            "A draft that stays is the token at its position: nothing is drawn there any more.",
            _then(
                lambda kept, token, args: (
                    (kept, acceptance.draw(args[0], args[4]) if kept else token)
                )
            ),
        ),
        Mistake(
            "flag_turned_round",
            "`kept` is True when the drafted token stays, and False when another one stands there.",
            _then(lambda kept, token, _: (not kept, token)),
        ),
        Mistake(
            "returns_the_draft",
            "The draft was rejected, so another token has to stand at its position: draw it.",
            _then(lambda kept, token, args: (kept, args[2])),
        ),
        Mistake("from_p", _FROM_P, _accepting(weigh=lambda p, q, token: list(p))),
        Mistake(
            "from_q",
            "The draft model has had its chance: what is drawn now has to make up for what it "
            "proposes too seldom, which is what p has more than q.",
            _accepting(weigh=lambda p, q, token: list(q)),
        ),
        Mistake(
            "p_without_the_draft",
            "Other tokens than the rejected one may be drafted too often as well: draw from what p "
            "has more than q, which leaves all of them out.",
            _accepting(
                weigh=lambda p, q, token: [0.0 if i == token else a for i, a in enumerate(p)]
            ),
        ),
        Mistake(
            "absolute",
            _BY_SIGN,
            _accepting(weigh=lambda p, q, token: [abs(a - b) for a, b in zip(p, q, strict=True)]),
        ),
        Mistake(
            "q_minus_p",
            "It is the other way round: missing is what the target wants more often than the draft "
            "model proposes it, p - q where that is above 0.",
            _accepting(weigh=lambda p, q, token: _missing(q, p, token)),
        ),
        Mistake(
            "keeps_negatives",
            _BY_SIGN,
            _accepting(
                weigh=lambda p, q, token: [a - b for a, b in zip(p, q, strict=True)],
                pick=_or(_scaled, _last),
            ),
        ),
        Mistake(
            "keeps_negatives",
            _BY_SIGN,
            _accepting(
                weigh=lambda p, q, token: [a - b for a, b in zip(p, q, strict=True)],
                pick=_scaled,
            ),
        ),
        Mistake("likeliest", _CERTAIN, _accepting(pick=lambda weights, v: _highest(weights))),
        Mistake(
            "likeliest",
            _CERTAIN,
            _accepting(weigh=lambda p, q, token: list(p), pick=lambda w, v: _highest(w)),
        ),
        Mistake(
            "evenly",
            "The tokens that are missing are not missing equally: draw in proportion to how much p "
            "has more than q.",
            _accepting(pick=_evenly),
        ),
        Mistake("not_normalised", _UNSCALED, _accepting(pick=_unscaled)),
        Mistake("not_normalised", _UNSCALED, _accepting(pick=_or(_unscaled, _last))),
        Mistake("not_normalised", _UNSCALED, _accepting(pick=_or(_unscaled, lambda weights: 0))),
        Mistake(
            "not_normalised",
            _UNSCALED,
            lambda p, q, token, u, v: (
                None
                if (answer := _accepting(pick=_unscaled)(p, q, token, u, v))[1] is None
                else answer
            ),
        ),
        Mistake("boundary", _BOUNDARY, _accepting(pick=_at_least)),
        Mistake(
            "one_too_far",
            "This is one token too far: the token at which the sum so far goes past v times the "
            "whole is the one that is drawn.",
            _then(lambda kept, token, args: (kept, token if kept else token + 1)),
        ),
        Mistake(
            "one_too_far",
            "This is one token too far: the token at which the sum so far goes past v times the "
            "whole is the one that is drawn.",
            _then(lambda kept, token, args: (kept, token if kept else (token + 1) % len(args[0]))),
        ),
        Mistake(
            "one_too_early",
            "The weight of a token counts in its own sum: the one at which the sum so far goes "
            "past v times the whole is drawn, not the one before it.",
            _then(lambda kept, token, args: (kept, token if kept else token - 1)),
        ),
        Mistake(
            "reuses_u",
            "`u` has been used: once the draft is rejected, u is known to be large, and what is "
            "drawn with it is not distributed as it should be.",
            lambda p, q, token, u, v: _accepting()(p, q, token, u, u),
        ),
        Mistake(
            "u_and_v_swapped",
            "`u` decides whether the draft stays, `v` which token is drawn if it does not.",
            lambda p, q, token, u, v: _accepting()(p, q, token, v, u),
        ),
        Mistake("other_order", _ORDER, _accepting(pick=_from_the_end)),
        Mistake("other_order", _ORDER, _accepting(pick=lambda w, v: acceptance.draw(w, 1 - v))),
        Mistake("other_order", _ORDER, _accepting(pick=_heaviest_first)),
        Mistake(
            "place_in_the_rest",
            "This is a place among the tokens with a weight, not a token: keep the weights of 0 in "
            "the list, so that places are tokens.",
            _accepting(pick=_among_the_positive),
        ),
        Mistake("falls_off_the_end", _FALLS_OFF, _accepting(pick=_by_shares)),
        Mistake("falls_off_the_end", _FALLS_OFF, _accepting(pick=_or(_by_shares, _last))),
        Mistake("falls_off_the_end", _FALLS_OFF, _accepting(pick=_or(_by_counting_down, _last))),
        Mistake(
            "falls_off_the_end",
            _FALLS_OFF,
            lambda p, q, token, u, v: (
                None
                if (answer := _accepting(pick=_by_shares)(p, q, token, u, v))[1] is None
                else answer
            ),
        ),
    ),
    idea="Two questions, one after the other: does the draft stay, by `u`; and if it does not, "
    "which token stands there, by `v`?",
    form=_form_of_two,
    draw_call=_draw_call,
    evidence=[
        (p, q, token, u, v)
        for p, q in (
            ([0.125, 0.5, 0.375], [0.5, 0.375, 0.125]),
            ([0.25, 0.0, 0.375, 0.375], [0.25, 0.5, 0.125, 0.125]),
            ([0.5, 0.125, 0.375], [0.25, 0.5, 0.25]),
            ([0.125, 0.0, 0.625, 0.125, 0.125], [0.5, 0.25, 0.125, 0.0, 0.125]),
        )
        for token in (0, 1)
        for u in (0.1, 0.3, 0.85)
        for v in (0.05, 0.4, 0.7, 0.95)
    ],
)


_NOT_REACHED = (
    "This `v` is just below 1, and your sums miss the token: they round, and far sooner in the "
    "float32 of `torch.tensor`; where none is reached, it is the last token with a weight."
)


def judge_reached(ask: Ask, cases: Sequence[Args]) -> Failure | None:
    """The cases, where an answer may run off the end of its own sums."""
    for args in cases:
        called = ask.call(*args, may_raise=args[4] > _NEARLY_1)
        if isinstance(called.error, IndexError | StopIteration | ValueError | RuntimeError):
            rows: Rows = (
                ("input", ACCEPT.draw_call(ask.name, args)),
                ("expected", ACCEPT.draw(acceptance.accept(*args))),
                ("got", type(called.error).__name__),
            )
            return Failure(_NOT_REACHED, rows, "falls_off_the_end")
        if called.error is not None:
            ask(*args)  # ends the check with the error's own words
        failure = ACCEPT.judge(ask, [args])
        if failure is not None and failure.misconception is None and args[4] > _NEARLY_1:
            return replace(failure, idea=_NOT_REACHED)
        if failure is not None:
            return failure
    return None


_NEARLY_1 = 0.999999

# --- the law ---------------------------------------------------------------------------------

_CELLS = 6  # of u, and of v: every right threshold lies between two of them
LAW_P = (1, 1, 2, 2)  # sixths
LAW_Q = (3, 2, 1, 0)


def law_cases() -> list[tuple[int, Args]]:
    """Every draft that q may make, with u and v from the middle of every cell; its weight first."""
    p, q = [n / 6 for n in LAW_P], [n / 6 for n in LAW_Q]
    middles = [(2 * i + 1) / (2 * _CELLS) for i in range(_CELLS)]
    return [
        (weight, (p, q, token, u, v))
        for token, weight in enumerate(LAW_Q)
        for u in middles
        for v in middles
        if weight
    ]


def judge_law(ask: Ask) -> Failure | None:
    """What comes out over all drafts, u and v must be distributed as p, whatever each call gives.

    No statistics: the thresholds of a right answer lie on the edges of the cells, so that counting
    cells is integrating.
    """
    mass = [0] * len(LAW_P)
    results: list[tuple[Args, Any]] = []
    for weight, args in law_cases():
        value = like(ask(*args), acceptance.accept(*args))
        if value is None or _form_of_two(value) or not 0 <= value[1] < len(mass):
            return ACCEPT.judge(ask, [args])
        mass[value[1]] += weight
        results.append((args, value))
    law = [Fraction(m, sum(mass)) for m in mass]
    wanted = [Fraction(n, sum(LAW_P)) for n in LAW_P]
    if law == wanted:
        return None
    excess = [got - want for got, want in zip(law, wanted, strict=True)]
    token = excess.index(max(excess))
    wrong = [args for args, value in results if value != acceptance.accept(*args)]
    p, q, *_ = wrong[0]
    rows: Rows = (
        ("input", f"p={_short(p)}, q={_short(q)}, every draft, u and v as often as they come"),
        ("expected", f"as p: {_short(wanted)}"),
        ("got", _short(law)),
        ("too often", f"token {token}: {float(law[token]):.4g}, not {float(wanted[token]):.4g}"),
    )
    failure = ACCEPT.judge(ask, wrong[:20])
    if failure is None:
        return Failure("What comes out has to be distributed as p, whatever q is.", rows)
    rows += tuple((f"one call: {title}", text) for title, text in failure.example)
    if any(_explains(mistake, results) for mistake in ACCEPT.mistakes):
        return Failure(failure.idea, rows, failure.misconception)
    return Failure(
        f"Token {token} comes out too often: what stands has to be distributed as p.", rows
    )


def _explains(
    mistake: Mistake[_Accept] | Misconception, results: Sequence[tuple[Args, Any]]
) -> bool:
    """Whether this mistake answers just so, every time."""
    return any(all(same(answer(*args), got) for args, got in results) for answer in mistake.answers)

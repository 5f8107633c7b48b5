"""Lesson 8, speculation: worked answers, other right ones, known wrong ones."""

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import torch

from solutions.wrong import WrongAnswer

Probs = Sequence[float]

# --- accept ----------------------------------------------------------------------------------


def accept(p: list[float], q: list[float], token: int, u: float, v: float) -> tuple[bool, int]:
    """Return `(kept, token)`: whether the drafted token stays, and which token stands there then.

    `p` are the target's probabilities and `q` the draft model's, one for each token of the
    vocabulary, each list summing to 1 up to rounding. `token` was drawn from `q`. `u` and `v` are
    random numbers, uniform from 0 up to, but not including, 1.
    The draft stays with probability p[token] / q[token], or for certain if that is 1 or more: it
    stays if `u` is below it. Then `kept` is True.
    Otherwise it goes, and another token is drawn from what the drafts leave missing: the weight of
    a token is how much more often the target wants it than the draft model proposes it, or 0. Go
    through the tokens from 0 up and take the first at which the sum of the weights so far is more
    than `v` times the sum of all of them.
    Over many drafts, each token then stands as often as `p` says, whatever `q` is.
    """
    # A token comes in as a draft that stays, min(p, q) of the time, or is drawn in place of one
    # that went. What it lacks of p in the first way is max(0, p - q), so the second way draws from
    # that, and from nothing else: drawn from p, drafted tokens would get a second chance.
    if u * q[token] < p[token]:
        return True, token
    missing = [max(0.0, wanted - drafted) for wanted, drafted in zip(p, q, strict=True)]
    sums = list(itertools.accumulate(missing))
    return False, next(other for other, so_far in enumerate(sums) if so_far > v * sums[-1])


def accept_by_bisection(
    p: list[float], q: list[float], token: int, u: float, v: float
) -> tuple[bool, int]:
    ratio = min(1.0, p[token] / q[token])
    if u < ratio:
        return True, token
    sums = list(itertools.accumulate(max(a - b, 0.0) for a, b in zip(p, q, strict=True)))
    return False, bisect.bisect_right(sums, v * sums[-1])


def accept_by_loop(
    p: list[float], q: list[float], token: int, u: float, v: float
) -> tuple[bool, int]:
    if u * q[token] < p[token]:
        return True, token
    total = 0.0
    for other in range(len(p)):
        total += max(0, p[other] - q[other])
    so_far = 0.0
    for other in range(len(p)):
        so_far += max(0, p[other] - q[other])
        if so_far > v * total:
            break
    return False, other


def accept_exactly(
    p: list[float], q: list[float], token: int, u: float, v: float
) -> tuple[bool, int]:
    target, draft = [Fraction(a) for a in p], [Fraction(b) for b in q]
    if Fraction(u) < target[token] / draft[token]:
        return True, token
    goal = Fraction(v) * sum(a - b for a, b in zip(target, draft, strict=True) if a > b)
    other = -1
    while goal >= 0:
        other += 1
        goal -= max(Fraction(0), target[other] - draft[other])
    return False, other


def accept_among_those_that_are_missing(
    p: list[float], q: list[float], token: int, u: float, v: float
) -> tuple[bool, int]:
    kept = u < p[token] / q[token]
    if kept:
        return kept, token
    missing = {i: p[i] - q[i] for i in range(len(p)) if p[i] > q[i]}
    goal = v * sum(missing.values())
    *front, last = missing
    for other in front:
        goal -= missing[other]
        if goal < 0:
            return kept, other
    return kept, last


def accept_by_shares(
    p: list[float], q: list[float], token: int, u: float, v: float
) -> tuple[bool, int]:
    if q[token] * u >= p[token]:
        share = 1 / sum(a - b for a, b in zip(p, q, strict=True) if a > b)
        ends = list(itertools.accumulate(max(0, a - b) * share for a, b in zip(p, q, strict=True)))
        ends = [end if end < ends[-1] else math.inf for end in ends]
        return False, next(i for i, end in enumerate(ends) if v < end)
    return True, token


def _kept(p: Probs, q: Probs, token: int, u: float) -> bool:
    return u * q[token] < p[token]


def _missing(p: Probs, q: Probs, token: int) -> list[float]:
    return [max(0.0, a - b) for a, b in zip(p, q, strict=True)]


def _drawn(weights: Probs, v: float) -> Any:
    goal = v * sum(weights)
    found = [i for i, total in enumerate(itertools.accumulate(weights)) if total > goal]
    positive = [i for i, weight in enumerate(weights) if weight > 0]
    return found[0] if found else max(positive, default=0)


def _unscaled(weights: Probs, v: float) -> int | None:
    for index, weight in enumerate(weights):
        v -= weight
        if v < 0:
            return index
    return None


def _accepting(
    keep: Callable[[Probs, Probs, int, float], Any] = _kept,
    weigh: Callable[[Probs, Probs, int], list[float]] = _missing,
    pick: Callable[[list[float], float], Any] = _drawn,
) -> Callable[..., Any]:
    """The answer but for what is given; most wrong ones are made of it."""

    def answer(p: Probs, q: Probs, token: int, u: float, v: float) -> Any:
        if keep(p, q, token, u):
            return True, token
        return False, pick(weigh(p, q, token), v)

    return answer


def _changed(change: Callable[[bool, int, int], Any]) -> Callable[..., Any]:
    """The right answer, turned into change(kept, token, drafted)."""

    def answer(p: list[float], q: list[float], token: int, u: float, v: float) -> Any:
        return change(*accept(p, q, token, u, v), token)

    return answer


def _likeliest(weights: Probs) -> int:
    return max(range(len(weights)), key=lambda index: weights[index])


def _draws_and_compares(p: Probs, q: Probs, token: int, u: float, v: float) -> tuple[bool, int]:
    drawn = _drawn(p, v)
    return drawn == token, drawn


def _draws_when_kept(p: Probs, q: Probs, token: int, u: float, v: float) -> tuple[bool, int]:
    return _kept(p, q, token, u), _drawn(_missing(p, q, token), v)


def _draws_from_p_when_kept(p: Probs, q: Probs, token: int, u: float, v: float) -> tuple[bool, int]:
    kept = _kept(p, q, token, u)
    return kept, _drawn(p if kept else _missing(p, q, token), v)


def _difference(p: Probs, q: Probs, token: int) -> list[float]:
    return [a - b for a, b in zip(p, q, strict=True)]


def _with_negatives(weights: Probs, v: float) -> int:
    goal, so_far = v * sum(weights), 0.0
    for index, weight in enumerate(weights):
        so_far += weight
        if so_far > goal:
            return index
    return len(weights) - 1


def _at_least(weights: Probs, v: float) -> int:
    sums = list(itertools.accumulate(weights))
    return bisect.bisect_left(sums, v * sums[-1])


def _from_the_end(weights: Probs, v: float) -> int:
    return len(weights) - 1 - _drawn(weights[::-1], v)


def _heaviest_first(weights: Probs, v: float) -> int:
    order = sorted(range(len(weights)), key=lambda index: -weights[index])
    return order[_drawn([weights[index] for index in order], v)]


def _evenly(weights: Probs, v: float) -> int:
    there = [index for index, weight in enumerate(weights) if weight > 0]
    return there[int(v * len(there))]


def _shares(weights: list[float]) -> list[float]:
    total = sum(weights)
    return [weight / total for weight in weights]


def _returns_while_looking(
    p: Probs, q: Probs, token: int, u: float, v: float
) -> tuple[bool, int] | None:
    if _kept(p, q, token, u):
        return True, token
    for index, end in enumerate(itertools.accumulate(_missing(p, q, token))):
        if v < end:
            return False, index
    return None


def _normalised_and_no_more(
    p: Probs, q: Probs, token: int, u: float, v: float
) -> tuple[bool, int] | None:
    if _kept(p, q, token, u):
        return True, token
    for index, end in enumerate(itertools.accumulate(_shares(_missing(p, q, token)))):
        if v < end:
            return False, index
    return None


# --- expected_tokens -------------------------------------------------------------------------


def expected_tokens(p: float, k: int) -> float:
    """Return how many tokens one verifying pass yields on average when `k` tokens were drafted.

    Each draft that the target looks at is accepted with probability `p`, from 0 to 1. At the first
    that is not, it and all behind it go. Then the target adds one token of its own: in the place of
    the first rejected draft, or after the last one if all `k` were accepted.
    """
    # The i-th draft stays if it and all in front of it are accepted, p to the power of i. A mean
    # count is the sum of such chances, and the target's own token is certain: p to the power of 0.
    return sum(p**i for i in range(k + 1))


def expected_tokens_in_closed_form(p: float, k: int) -> float:
    if p == 1:
        return k + 1
    return (1 - p ** (k + 1)) / (1 - p)


def expected_tokens_by_the_first_rejection(p: float, k: int) -> float:
    mean = (k + 1) * p**k
    for accepted in range(k):
        mean += (accepted + 1) * p**accepted * (1 - p)
    return mean


def expected_tokens_recursive(p: float, k: int) -> float:
    return 1.0 if k == 0 else 1 + p * expected_tokens_recursive(p, k - 1)


def expected_tokens_by_products(p: float, k: int) -> float:
    return math.fsum(itertools.accumulate([p] * k, lambda chance, p: chance * p, initial=1))


# --- speedup ---------------------------------------------------------------------------------


def speedup(p: float, k: int, alpha: float) -> float:
    """Return how many times as fast as plain decoding speculation is: 2 is twice, 0.5 half as fast.

    Plain decoding yields 1 token per unit of time. With speculation, the draft model first drafts
    `k` tokens, one after the other, and each takes `alpha` units. Then one verifying pass takes 1
    unit, however many it looks at, and yields as many tokens on average as `expected_tokens(p, k)`
    says, which you may call.
    """
    # The draft model has to know its own last token before it can draft the next one: it runs k
    # times in a round, and the rejected drafts are paid for like the others.
    return expected_tokens(p, k) / (1 + k * alpha)


def speedup_of_a_round(p: float, k: int, alpha: float) -> float:
    time = 1.0
    tokens = chance = 1.0
    for _ in range(k):
        time += alpha
        chance *= p
        tokens += chance
    return tokens / time


def speedup_in_closed_form(p: float, k: int, alpha: float) -> float:
    tokens = k + 1 if p >= 1 else (1 - p ** (k + 1)) / (1 - p)
    return tokens / (k * alpha + 1)


def speedup_by_time_per_token(p: float, k: int, alpha: float) -> float:
    time_per_token = (1 + alpha * k) / math.fsum(p**i for i in range(k + 1))
    return 1 / time_per_token


# --- roll_back_kv ----------------------------------------------------------------------------


def roll_back_kv(held: int, num_drafted: int, num_accepted: int) -> int:
    """Return how many KV tokens a request keeps after a verifying pass, counted from the front.

    The pass was over the last token known before it and `num_drafted` drafts, and has left the
    request with K/V of `held` tokens, all of these included. The first `num_accepted` drafts stay
    in the text. Behind them stands a token that was drawn after the pass, in the place of the first
    rejected draft or after the last one. Keep the K/V of every token of the text that has been
    computed, and of no other.
    """
    # The K/V is in the order of the text, so what is wrong is all at the end: the rejected drafts.
    # The token that was drawn has none yet; with it, the next pass begins.
    return held - (num_drafted - num_accepted)


def roll_back_kv_from_before_the_pass(held: int, num_drafted: int, num_accepted: int) -> int:
    before = held - 1 - num_drafted
    return before + 1 + num_accepted


def roll_back_kv_one_by_one(held: int, num_drafted: int, num_accepted: int) -> int:
    while num_drafted > num_accepted:
        num_drafted, held = num_drafted - 1, held - 1
    return held


def roll_back_kv_by_marks(held: int, num_drafted: int, num_accepted: int) -> int:
    marks = [True] * (held - num_drafted)
    for draft in range(num_drafted):
        marks.append(draft < num_accepted)
    return marks.count(True)


def _in_float32(p: list[float], q: list[float], token: int, u: float, v: float) -> tuple[bool, int]:
    wanted, drafted = torch.tensor(p), torch.tensor(q)
    if u * drafted[token] < wanted[token]:
        return True, token
    sums = (wanted - drafted).clamp(min=0).cumsum(0)
    return False, int((sums > v * sums[-1]).nonzero()[0])


# --- the lists that tests read ---------------------------------------------------------------

RIGHT = {
    "l08.accept": (
        accept,
        accept_by_bisection,
        accept_by_loop,
        accept_exactly,
        accept_among_those_that_are_missing,
        accept_by_shares,
    ),
    "l08.expected_tokens": (
        expected_tokens,
        expected_tokens_in_closed_form,
        expected_tokens_by_the_first_rejection,
        expected_tokens_recursive,
        expected_tokens_by_products,
    ),
    "l08.speedup": (
        speedup,
        speedup_of_a_round,
        speedup_in_closed_form,
        speedup_by_time_per_token,
    ),
    "l08.roll_back_kv": (
        roll_back_kv,
        roll_back_kv_from_before_the_pass,
        roll_back_kv_one_by_one,
        roll_back_kv_by_marks,
    ),
}


def _wrong(
    exercise: str, key: str, misconception: str, function: Callable[..., Any], name: str = ""
) -> WrongAnswer:
    return WrongAnswer(
        f"l08.{exercise}", name or key.replace("_", " "), key, misconception, function
    )


_WRONG_ACCEPTS = (
    _wrong(
        "accept",
        "inverted_ratio",
        "The draft's probability over the target's.",
        _accepting(lambda p, q, token, u: u * p[token] < q[token]),
    ),
    _wrong(
        "accept",
        "only_if_higher",
        "The target has to like it better.",
        _accepting(lambda p, q, token, u: p[token] > q[token]),
    ),
    _wrong(
        "accept",
        "only_if_higher",
        "The target has to like it at least as well.",
        _accepting(lambda p, q, token, u: p[token] >= q[token]),
        "at least as high",
    ),
    _wrong(
        "accept",
        "ignores_q",
        "The target says it with probability p.",
        _accepting(lambda p, q, token, u: u < p[token]),
    ),
    _wrong(
        "accept",
        "always_keeps",
        "A draft is a token.",
        _accepting(lambda p, q, token, u: True),
    ),
    _wrong(
        "accept",
        "keeps_what_is_possible",
        "The target could have said it.",
        _accepting(lambda p, q, token, u: p[token] > 0),
    ),
    _wrong(
        "accept",
        "keeps_the_likeliest",
        "Right is what the target would say.",
        _accepting(lambda p, q, token, u: token == _likeliest(p)),
    ),
    _wrong(
        "accept",
        "never_keeps",
        "A token from p is a token from p.",
        lambda p, q, token, u, v: (False, _drawn(p, v)),
    ),
    _wrong(
        "accept",
        "never_keeps",
        "What is missing has to be drawn.",
        _accepting(lambda p, q, token, u: False),
        "always draws what is missing",
    ),
    _wrong(
        "accept",
        "draws_and_compares",
        "The draft was right if the target draws it too.",
        _draws_and_compares,
    ),
    _wrong(
        "accept",
        "u_turned_round",
        "A high u is a good one.",
        _accepting(lambda p, q, token, u: u * q[token] >= p[token]),
    ),
    _wrong(
        "accept",
        "u_turned_round",
        "u is the chance that it goes.",
        _accepting(lambda p, q, token, u: 1 - u < p[token] / q[token]),
        "one minus u",
    ),
    _wrong(
        "accept",
        "at_the_threshold",
        "Up to the ratio.",
        _accepting(lambda p, q, token, u: u <= p[token] / q[token]),
    ),
    _wrong("accept", "draws_when_kept", "The token is drawn anyway.", _draws_when_kept),
    _wrong(
        "accept",
        "draws_when_kept",
        "The target has the last word.",
        _draws_from_p_when_kept,
        "draws from p when kept",
    ),
    _wrong(
        "accept",
        "flag_turned_round",
        "The flag says whether it was rejected.",
        _changed(lambda kept, token, drafted: (not kept, token)),
    ),
    _wrong(
        "accept",
        "returns_the_draft",
        "The engine draws another one.",
        _changed(lambda kept, token, drafted: (kept, drafted)),
    ),
    _wrong(
        "accept",
        "from_p",
        "The target says what stands there.",
        _accepting(weigh=lambda p, q, token: list(p)),
    ),
    _wrong(
        "accept",
        "from_q",
        "The draft model tries again.",
        _accepting(weigh=lambda p, q, token: list(q)),
    ),
    _wrong(
        "accept",
        "p_without_the_draft",
        "Anything but the rejected token.",
        _accepting(weigh=lambda p, q, token: [*p[:token], 0.0, *p[token + 1 :]]),
    ),
    _wrong(
        "accept",
        "absolute",
        "The difference of the two.",
        _accepting(weigh=lambda p, q, token: [abs(d) for d in _difference(p, q, token)]),
    ),
    _wrong(
        "accept",
        "q_minus_p",
        "What the draft model has too much of.",
        _accepting(weigh=lambda p, q, token: _missing(q, p, token)),
    ),
    _wrong(
        "accept",
        "keeps_negatives",
        "p - q is p - q.",
        _accepting(weigh=_difference, pick=_with_negatives),
    ),
    _wrong(
        "accept",
        "likeliest",
        "What is missing most.",
        _accepting(pick=lambda weights, v: _likeliest(weights)),
    ),
    _wrong(
        "accept",
        "likeliest",
        "What the target likes best.",
        _accepting(weigh=lambda p, q, token: list(p), pick=lambda weights, v: _likeliest(weights)),
        "likeliest of the target",
    ),
    _wrong("accept", "evenly", "Any token that is missing.", _accepting(pick=_evenly)),
    _wrong(
        "accept",
        "not_normalised",
        "Weights are probabilities.",
        _accepting(pick=_unscaled),
    ),
    _wrong(
        "accept",
        "not_normalised",
        "The loop finds one.",
        _returns_while_looking,
        "not normalised, returns while looking",
    ),
    _wrong(
        "accept",
        "not_normalised",
        "If the loop finds none it is the last one.",
        _accepting(pick=lambda weights, v: min(_unscaled(weights, v) or 0, len(weights) - 1)),
        "not normalised, or the first",
    ),
    _wrong(
        "accept",
        "not_normalised",
        "If the loop finds none it is the last one.",
        _accepting(
            pick=lambda weights, v: bisect.bisect_right(list(itertools.accumulate(weights))[:-1], v)
        ),
        "not normalised, or the last",
    ),
    _wrong("accept", "boundary", "As soon as it is reached.", _accepting(pick=_at_least)),
    _wrong(
        "accept",
        "one_too_far",
        "The sums begin at 0.",
        _changed(lambda kept, token, drafted: (kept, token if kept else token + 1)),
    ),
    _wrong(
        "accept",
        "one_too_far",
        "The sums begin at 0, and tokens go round.",
        lambda p, q, token, u, v: (
            (True, token)
            if _kept(p, q, token, u)
            else (False, (_drawn(_missing(p, q, token), v) + 1) % len(p))
        ),
        "one too far, going round",
    ),
    _wrong(
        "accept",
        "one_too_early",
        "The last one that is not beyond.",
        _changed(lambda kept, token, drafted: (kept, token if kept else token - 1)),
    ),
    _wrong(
        "accept",
        "reuses_u",
        "A random number is a random number.",
        lambda p, q, token, u, v: accept(p, q, token, u, u),
    ),
    _wrong(
        "accept",
        "u_and_v_swapped",
        "The first draws, the second decides.",
        lambda p, q, token, u, v: accept(p, q, token, v, u),
    ),
    _wrong("accept", "other_order", "The order is free.", _accepting(pick=_from_the_end)),
    _wrong(
        "accept",
        "other_order",
        "v or 1 - v is the same.",
        _accepting(pick=lambda weights, v: _drawn(weights, 1 - v)),
        "one minus v",
    ),
    _wrong(
        "accept",
        "other_order",
        "Likely tokens first.",
        _accepting(pick=_heaviest_first),
        "heaviest first",
    ),
    _wrong(
        "accept",
        "place_in_the_rest",
        "Tokens without weight need no place.",
        _accepting(pick=lambda weights, v: _drawn([w for w in weights if w > 0], v)),
    ),
    _wrong(
        "accept",
        "falls_off_the_end",
        "Shares sum to 1.",
        _normalised_and_no_more,
    ),
    _wrong(
        "accept",
        "falls_off_the_end",
        "Shares sum to 1, so some token is found.",
        _accepting(pick=lambda weights, v: _unscaled(_shares(weights), v)),
        "falls off with a token of None",
    ),
    _wrong(
        "accept",
        "falls_off_the_end",
        "If none is found it is the last one.",
        _accepting(
            pick=lambda weights, v: bisect.bisect_right(
                list(itertools.accumulate(_shares(weights)))[:-1], v
            )
        ),
        "falls on the last token",
    ),
    _wrong(
        "accept",
        "falls_off_the_end",
        "Count down, and if none is found it is the last one.",
        _accepting(
            pick=lambda weights, v: (
                len(weights) - 1 if (found := _unscaled(_shares(weights), v)) is None else found
            )
        ),
        "counts down to the last token",
    ),
    _wrong(
        "accept",
        "wrong_type",
        "1 is true.",
        _changed(lambda kept, token, drafted: (int(kept), token)),
    ),
    _wrong(
        "accept",
        "swapped",
        "The token, and whether it is the draft.",
        _changed(lambda kept, token, drafted: (token, kept)),
    ),
    _wrong(
        "accept",
        "falls_off_the_end",
        "A tensor of floats is a list of floats.",
        _in_float32,
        "in float32",
    ),
    _wrong("accept", "no_return", "The result is computed.", lambda *args: None),
    _wrong("accept", "not_two", "The token says it all.", lambda *args: accept(*args)[1]),
)

_WRONG_TOKENS = (
    _wrong(
        "expected_tokens",
        "bonus_forgotten",
        "What is accepted is what comes out.",
        lambda p, k: sum(p**i for i in range(1, k + 1)),
    ),
    _wrong(
        "expected_tokens",
        "bonus_after_all_only",
        "The bonus is for a clean run.",
        lambda p, k: sum(p**i for i in range(1, k + 1)) + p**k,
    ),
    _wrong(
        "expected_tokens",
        "at_least_one",
        "A pass yields at least one.",
        lambda p, k: sum(max(1, i) * p**i * (1 - p) for i in range(k)) + k * p**k,
    ),
    _wrong(
        "expected_tokens",
        "at_least_one",
        "The mean is at least one.",
        lambda p, k: max(1, sum(p**i for i in range(1, k + 1))),
        "mean of at least one",
    ),
    _wrong(
        "expected_tokens",
        "one_draft_less",
        "k terms for k drafts.",
        lambda p, k: sum(p**i for i in range(k)),
    ),
    _wrong(
        "expected_tokens",
        "one_draft_more",
        "The bonus is one more.",
        lambda p, k: sum(p**i for i in range(k + 2)),
    ),
    _wrong(
        "expected_tokens",
        "endless",
        "A geometric series is 1 / (1 - p).",
        lambda p, k: 1 / (1 - p),
    ),
    _wrong(
        "expected_tokens",
        "divides_by_zero",
        "p is never 1.",
        lambda p, k: (1 - p ** (k + 1)) / (1 - p),
    ),
    _wrong(
        "expected_tokens",
        "each_alone",
        "k drafts, each with probability p.",
        lambda p, k: 1 + k * p,
    ),
    _wrong(
        "expected_tokens",
        "each_alone",
        "p of the drafts.",
        lambda p, k: k * p,
        "each alone, without the bonus",
    ),
    _wrong(
        "expected_tokens",
        "each_alone",
        "p of all tokens.",
        lambda p, k: (k + 1) * p,
        "each alone, the bonus too",
    ),
    _wrong(
        "expected_tokens",
        "all_or_nothing",
        "All have to be right.",
        lambda p, k: 1 + k * p**k,
    ),
    _wrong(
        "expected_tokens",
        "all_or_nothing",
        "All have to be right, or there is nothing.",
        lambda p, k: (k + 1) * p**k,
        "all or nothing, the bonus too",
    ),
    _wrong(
        "expected_tokens",
        "rejection",
        "p is the chance that a draft goes.",
        lambda p, k: expected_tokens(1 - p, k),
    ),
    _wrong(
        "expected_tokens",
        "weighs_by_count",
        "i tokens with probability p ** i.",
        lambda p, k: 1 + sum(i * p**i for i in range(1, k + 1)),
    ),
    _wrong(
        "expected_tokens",
        "whole_tokens",
        "There are no half tokens.",
        lambda p, k: round(expected_tokens(p, k)),
    ),
    _wrong(
        "expected_tokens",
        "whole_tokens",
        "Only whole tokens count.",
        lambda p, k: int(expected_tokens(p, k)),
        "whole tokens, rounded down",
    ),
    _wrong(
        "expected_tokens",
        "not_a_number",
        "One number per draft.",
        lambda p, k: [p**i for i in range(k + 1)],
    ),
    _wrong(
        "expected_tokens",
        "certain_drafts",
        "At p = 1 the sum is 1.",
        lambda p, k: 1.0 if p == 1 else expected_tokens(p, k),
    ),
    _wrong(
        "expected_tokens",
        "whole_tokens",
        "One digit will do.",
        lambda p, k: round(expected_tokens(p, k), 1),
        "one digit",
    ),
    _wrong("expected_tokens", "at_most", "All of them, and one.", lambda p, k: k + 1),
    _wrong("expected_tokens", "not_finite", "It never ends.", lambda p, k: math.inf),
)

_WRONG_SPEEDUPS = (
    _wrong(
        "speedup",
        "charged_once",
        "A draft costs alpha.",
        lambda p, k, alpha: expected_tokens(p, k) / (1 + alpha),
    ),
    _wrong(
        "speedup",
        "charged_once_each_alone",
        "k drafts, each with probability p, for alpha.",
        lambda p, k, alpha: (1 + k * p) / (1 + alpha),
    ),
    _wrong(
        "speedup",
        "each_alone",
        "k drafts, each with probability p.",
        lambda p, k, alpha: (1 + k * p) / (1 + k * alpha),
    ),
    _wrong(
        "speedup",
        "bonus_forgotten",
        "What is accepted is what comes out.",
        lambda p, k, alpha: (expected_tokens(p, k) - 1) / (1 + k * alpha),
    ),
    _wrong(
        "speedup",
        "bonus_forgotten",
        "What is accepted, for alpha.",
        lambda p, k, alpha: (expected_tokens(p, k) - 1) / (1 + alpha),
        "bonus forgotten, charged once",
    ),
    _wrong(
        "speedup",
        "at_least_one",
        "A pass yields at least one.",
        lambda p, k, alpha: max(1, expected_tokens(p, k) - 1) / (1 + k * alpha),
    ),
    _wrong(
        "speedup",
        "one_draft_less",
        "k terms for k drafts.",
        lambda p, k, alpha: sum(p**i for i in range(k)) / (1 + k * alpha),
    ),
    _wrong(
        "speedup",
        "endless",
        "A geometric series is 1 / (1 - p).",
        lambda p, k, alpha: 1 / (1 - p) / (1 + k * alpha),
    ),
    _wrong(
        "speedup",
        "divides_by_zero",
        "p is never 1.",
        lambda p, k, alpha: (1 - p ** (k + 1)) / (1 - p) / (1 + k * alpha),
    ),
    _wrong(
        "speedup", "draft_is_free", "Drafts cost nothing.", lambda p, k, _: expected_tokens(p, k)
    ),
    _wrong(
        "speedup",
        "verifying_is_free",
        "The target has to run anyway.",
        lambda p, k, alpha: expected_tokens(p, k) / (k * alpha) if alpha * k else 1.0,
    ),
    _wrong(
        "speedup",
        "accepted_only",
        "What goes costs nothing.",
        lambda p, k, alpha: expected_tokens(p, k) / (1 + alpha * (expected_tokens(p, k) - 1)),
    ),
    _wrong(
        "speedup",
        "accepted_only",
        "p of the drafts are paid for.",
        lambda p, k, alpha: expected_tokens(p, k) / (1 + alpha * k * p),
        "accepted only, each alone",
    ),
    _wrong(
        "speedup",
        "drafts_one_more",
        "k + 1 tokens, k + 1 drafts.",
        lambda p, k, alpha: expected_tokens(p, k) / (1 + (k + 1) * alpha),
    ),
    _wrong(
        "speedup",
        "a_pass_each",
        "Each draft is verified.",
        lambda p, k, alpha: expected_tokens(p, k) / ((k or 1) * (1 + alpha)),
    ),
    _wrong(
        "speedup",
        "a_pass_each",
        "Each token takes a pass.",
        lambda p, k, alpha: expected_tokens(p, k) / (k + 1 + k * alpha),
        "a pass for each token",
    ),
    _wrong(
        "speedup",
        "a_pass_each",
        "Each token takes a draft and a pass.",
        lambda p, k, alpha: expected_tokens(p, k) / ((k + 1) * (1 + alpha)),
        "a draft and a pass for each token",
    ),
    _wrong(
        "speedup",
        "time_saved",
        "The time that it takes, in decodes.",
        lambda p, k, alpha: (1 + k * alpha) / expected_tokens(p, k),
    ),
    _wrong(
        "speedup",
        "gain_alone",
        "What is gained.",
        lambda p, k, alpha: speedup(p, k, alpha) - 1,
    ),
    _wrong(
        "speedup",
        "never_below_1",
        "At worst nothing is gained.",
        lambda p, k, alpha: max(1.0, speedup(p, k, alpha)),
    ),
    _wrong(
        "speedup",
        "draft_speed",
        "The draft model is alpha times as fast.",
        lambda p, k, alpha: expected_tokens(p, k) / (1 + (k / alpha if alpha else 0)),
    ),
    _wrong("speedup", "not_a_number", "Is it worth it?", lambda *args: speedup(*args) > 1),
)

_WRONG_ROLL_BACKS = (
    _wrong(
        "roll_back_kv",
        "keeps_rejected",
        "Computed is computed.",
        lambda held, drafted, accepted: held,
    ),
    _wrong(
        "roll_back_kv",
        "num_drafted_is_no_constant",
        "Four are drafted.",
        lambda held, drafted, accepted: held - 4 + accepted,
    ),
    _wrong(
        "roll_back_kv",
        "drawn_in_place",
        "Something stands at the place of the first rejected one.",
        lambda held, drafted, accepted: min(held, held - (drafted - accepted) + 1),
    ),
    _wrong(
        "roll_back_kv",
        "counts_the_drawn",
        "A pass yields one more than is accepted.",
        lambda held, drafted, accepted: held - (drafted - accepted) + 1,
    ),
    _wrong(
        "roll_back_kv",
        "counts_the_drawn",
        "After the last one comes a bonus.",
        lambda held, drafted, accepted: held - drafted + accepted + (drafted == accepted),
        "counts the bonus only",
    ),
    _wrong(
        "roll_back_kv",
        "drops_the_last_known",
        "The last known token is computed again.",
        lambda held, drafted, accepted: held - (drafted - accepted) - 1,
    ),
    _wrong(
        "roll_back_kv",
        "drops_the_last_known",
        "After a rejection the last token is computed again.",
        lambda held, drafted, accepted: (
            held if drafted == accepted else held - (drafted - accepted) - 1
        ),
        "drops one more after a rejection",
    ),
    _wrong(
        "roll_back_kv",
        "drops_all_drafts",
        "Drafts are not text.",
        lambda held, drafted, accepted: held - drafted,
    ),
    _wrong(
        "roll_back_kv",
        "drops_all_drafts",
        "One is wrong, all are wrong.",
        lambda held, drafted, accepted: held if drafted == accepted else held - drafted,
        "drops all after a rejection",
    ),
    _wrong(
        "roll_back_kv",
        "drops_the_pass",
        "Back to where it was.",
        lambda held, drafted, accepted: held - drafted - 1,
    ),
    _wrong(
        "roll_back_kv",
        "drops_accepted",
        "What is accepted comes off.",
        lambda held, drafted, accepted: held - accepted,
    ),
    _wrong(
        "roll_back_kv",
        "accepted_only",
        "What is accepted stays.",
        lambda held, drafted, accepted: accepted,
    ),
    _wrong(
        "roll_back_kv",
        "accepted_only",
        "What is accepted stays, and the last known one.",
        lambda held, drafted, accepted: accepted + 1,
        "accepted and the last known one",
    ),
    _wrong(
        "roll_back_kv",
        "how_many_go",
        "How far to go back.",
        lambda held, drafted, accepted: drafted - accepted,
    ),
    _wrong(
        "roll_back_kv",
        "held_before",
        "The pass adds to what is held.",
        lambda held, drafted, accepted: held + 1 + accepted,
    ),
    _wrong(
        "roll_back_kv",
        "held_before",
        "What is accepted is added.",
        lambda held, drafted, accepted: held + accepted,
        "adds what is accepted",
    ),
    _wrong(
        "roll_back_kv",
        "one_rejected",
        "One was rejected.",
        lambda held, drafted, accepted: held - (1 if accepted < drafted else 0),
    ),
    _wrong("roll_back_kv", "no_return", "The cache is cut.", lambda *args: None),
)

WRONG = (*_WRONG_ACCEPTS, *_WRONG_TOKENS, *_WRONG_SPEEDUPS, *_WRONG_ROLL_BACKS)

_LAST_KNOWN = "the last known token is always held, and stays"
# What a weaker answer is still right about, and why: exercise: {weakening: reason}.
STILL_RIGHT = {
    "l08.roll_back_kv": {"held at least 1": _LAST_KNOWN, "result at least 1": _LAST_KNOWN},
}

"""Checks of lesson 8, speculation."""

import functools
import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from course.checks.comparing import Args, Comparison, Mistake, a_kind
from course.checks.drafting import ACCEPT, judge_law, judge_reached
from course.checks.rolling_back import ROLL_BACK, Pass, judge_story
from course.checks.urgency import Near
from course.judging import Ask, Check, Failure, Rows, run_checks
from course.registry import Exercise
from course.report import Report
from course.showing import named, show
from course.task import Task
from nanogpt.plain_values import as_number
from nanogpt.speculative import acceptance

# --- accept ----------------------------------------------------------------------------------

_BELOW_1 = math.nextafter(1, 0)


def _stays(ask: Ask, rng: random.Random) -> Failure | None:
    p, q = [0.5, 0.125, 0.375], [0.25, 0.5, 0.25]
    likely, equal = [0.25, 0.25, 0.5], [0.25, 0.5, 0.25]
    return ACCEPT.judge(
        ask,
        [
            (p, q, 0, 0.75, 0.5),
            (p, q, 1, 0.125, 0.75),
            (p, q, 2, 0.9375, 0.0),
            (likely, equal, 0, 0.75, 0.75),
            (likely, equal, 1, 0.375, 0.75),
        ],
    )


def _goes(ask: Ask, rng: random.Random) -> Failure | None:
    p, q = [0.25, 0.25, 0.5], [0.5, 0.25, 0.25]
    return ACCEPT.judge(ask, [(p, q, 0, 0.75, 0.75), (p, q, 0, 0.5625, 0.875)])


def _law(ask: Ask, rng: random.Random) -> Failure | None:
    return judge_law(ask)


def _certain(ask: Ask, rng: random.Random) -> Failure | None:
    zero, one, two = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
    return judge_reached(
        ask,
        [
            (one, one, 1, 0.75, 0.25),
            (one, two, 2, 0.25, 0.75),
            (two, zero, 0, 0.0, 0.0),
            (zero, one, 1, 0.5, _BELOW_1),
            ([0.25, 0.5, 0.25], one, 1, 0.75, 0.25),
            (one, [0.25, 0.5, 0.25], 2, 0.0, 0.5),
            (one, [0.25, 0.5, 0.25], 1, _BELOW_1, 0.5),
        ],
    )


def _picked_by_v(ask: Ask, rng: random.Random) -> Failure | None:
    p = [0.0, 0.375, 0.125, 0.125, 0.375, 0.0]
    q = [0.5, 0.125, 0.0, 0.125, 0.25, 0.0]  # missing: 0, 0.25, 0.125, 0, 0.125, 0
    vs = (0.25, 0.0, 0.4375, 0.5, 0.625, 0.75, 0.875, _BELOW_1)
    return judge_reached(ask, [(p, q, 0, 0.5, v) for v in vs])


def _at_the_edges(ask: Ask, rng: random.Random) -> Failure | None:
    p, q = [0.25, 0.25, 0.5], [0.5, 0.25, 0.25]
    impossible = [0.0, 0.5, 0.5]
    # As floats, the shares of what is missing come to just below 1; the last token has none.
    wanted, drafted = [0.3, 0.15, 0.15, 0.3, 0.1], [0.1, 0.1, 0.3, 0.2, 0.3]
    return judge_reached(
        ask,
        [
            (p, q, 0, 0.5, 0.5),
            (p, q, 0, math.nextafter(0.5, 0), 0.5),
            (impossible, q, 0, 0.0, 0.75),
            (q, q, 0, _BELOW_1, 0.25),
            (q, q, 2, 0.0, 0.0),
            (wanted, drafted, 4, 0.5, _BELOW_1),
            (wanted, drafted, 2, 0.75, _BELOW_1),
        ],
    )


def _any_probs(rng: random.Random, size: int) -> list[float]:
    """Thousandths that sum to 1 up to rounding, a token in four without a chance."""
    weights = [rng.randint(1, 50) if rng.random() < 0.75 else 0 for _ in range(size)]
    weights[rng.randrange(size)] += 1
    ends = [round(1000 * end / sum(weights)) for end in itertools.accumulate(weights)]
    return [(end - start) / 1000 for start, end in itertools.pairwise([0, *ends])]


def _is_clear(p: list[float], q: list[float], token: int, u: float, v: float) -> bool:
    """Whether u and v lie off the edges, so that rounding does not matter."""
    missing = [max(0.0, a - b) for a, b in zip(p, q, strict=True)]
    total = sum(missing)
    edges = [end / total for end in itertools.accumulate(missing)] if total else [0.0]
    return min(abs(u - p[token] / q[token]), *(abs(v - edge) for edge in edges)) > 1e-9


def any_drafts(rng: random.Random, count: int) -> list[Args]:
    """Drafts over vocabularies of 2 to 12 tokens, the smallest first; some stay and some go."""
    cases: list[Args] = []
    while len(cases) < count:
        size = rng.choice((2, 3, 4, 5, 6, 7, 12))
        p, q = _any_probs(rng, size), _any_probs(rng, size)
        token = rng.choice([index for index in range(size) if q[index]])
        u, v = round(rng.random(), 4), round(rng.random(), 4)
        if p != q and u < 1 and v < 1 and _is_clear(p, q, token, u, v):
            cases.append((p, q, token, u, v))
    return sorted(cases, key=lambda case: len(case[0]))


def _any_draft(ask: Ask, rng: random.Random) -> Failure | None:
    return ACCEPT.judge(ask, any_drafts(rng, 60))


_ACCEPT_CHECKS: tuple[tuple[str, Check], ...] = (
    ("a draft that stays", _stays),
    ("a draft that goes", _goes),
    ("distributed as p", _law),
    ("one token is certain", _certain),
    ("which token v picks", _picked_by_v),
    ("at the edges", _at_the_edges),
    ("any draft", _any_draft),
)


def check_accept(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l08.accept."""
    return run_checks("l08.accept", function, _ACCEPT_CHECKS, seed=seed)


# --- expected_tokens -------------------------------------------------------------------------

_Expected = Callable[[float, int], Any]
_Speedup = Callable[[float, int, float], Any]


def _number_form(value: Any) -> tuple[str, str] | None:
    number = as_number(value)
    if number is None:
        return "not_a_number", f"The answer is a number, not {a_kind(value)}."
    if not math.isfinite(number):
        return "not_finite", "The answer is finite: one pass yields at most k + 1 tokens."
    return None


def _draw_number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else show(value)


def _near(rule: Callable[..., float]) -> Callable[..., Any]:
    """The rule's value, to be compared to within a rounding; None where it divides by zero."""

    def answer(*args: Any) -> Any:
        try:
            return Near(rule(*args))
        except ZeroDivisionError:
            return None

    return answer


def _accepted(p: float, k: int) -> float:
    """How many drafts are accepted on average."""
    return acceptance.expected_tokens(p, k) - 1


def _wrong_tokens(key: str, idea: str, rule: Callable[[float, int], float]) -> Mistake[_Expected]:
    return Mistake(key, idea, _near(rule))


def _wrong_speedup(
    key: str, idea: str, rule: Callable[[float, int, float], float]
) -> Mistake[_Speedup]:
    return Mistake(key, idea, _near(rule))


def _rounded(digits: int, mean: float) -> float:
    return round(mean, digits)


def _cut(cut: Callable[[float], float]) -> Mistake[_Expected]:
    """A mean with digits taken off."""
    return _wrong_tokens(
        "whole_tokens",
        "A mean need not be a whole number: do not round it.",
        lambda p, k: cut(acceptance.expected_tokens(p, k)),
    )


def _with_certain_drafts(times_k_and_more: tuple[int, int]) -> Mistake[_Expected]:
    """Right but for drafts that are all accepted, where it gives so many times k and so many."""
    times, more = times_k_and_more
    return _wrong_tokens(
        "certain_drafts",
        "At p = 1 every draft is accepted: count what a pass yields then.",
        lambda p, k: times * k + more if p == 1 else acceptance.expected_tokens(p, k),
    )


_NO_BONUS = (
    "These are the accepted drafts alone: in every pass the target adds one token of its own, in "
    "the place of the first rejected draft or after the last one."
)
_BONUS_AT_THE_END = (
    "The target adds a token after a rejection too, in the place of the rejected draft: every pass "
    "yields one more than is accepted."
)
_EACH_ALONE = (
    "A draft counts only if all those in front of it were accepted, so the second stays with "
    "probability p * p: the chances are powers of p, not p each."
)
_AT_1 = (
    "At p = 1 the closed form is 0 / 0, and the engine dies of its best draft: there the answer is "
    "k + 1, which the sum gives by itself."
)

_TOKENS: Comparison[_Expected] = Comparison(
    reference=_near(acceptance.expected_tokens),
    mistakes=(
        _wrong_tokens("bonus_forgotten", _NO_BONUS, _accepted),
        _wrong_tokens(
            "bonus_after_all_only", _BONUS_AT_THE_END, lambda p, k: _accepted(p, k) + p**k
        ),
        _wrong_tokens("at_least_one", _BONUS_AT_THE_END, lambda p, k: max(1, _accepted(p, k))),
        _wrong_tokens(
            "at_least_one",
            _BONUS_AT_THE_END,
            lambda p, k: _accepted(p, k) + 1 - p,
        ),
        _wrong_tokens(
            "one_draft_less",
            "There are k drafts and the target's own token, so k + 1 powers of p to add up, from "
            "p ** 0 to p ** k.",
            lambda p, k: sum(p**i for i in range(k)),
        ),
        _wrong_tokens(
            "one_draft_more",
            "There are only k drafts: the powers of p end with p ** k.",
            lambda p, k: sum(p**i for i in range(k + 2)),
        ),
        _wrong_tokens(
            "endless",
            "Only k tokens are drafted, so the series ends after p ** k: 1 / (1 - p) is what "
            "endlessly many drafts would give.",
            lambda p, k: 1 / (1 - p),
        ),
        _wrong_tokens("each_alone", _EACH_ALONE, lambda p, k: 1 + k * p),
        _wrong_tokens("each_alone", _EACH_ALONE, lambda p, k: k * p),
        _wrong_tokens("each_alone", _EACH_ALONE, lambda p, k: (k + 1) * p),
        _wrong_tokens(
            "all_or_nothing",
            "When a draft is rejected, those in front of it stay: it is not all of them or none.",
            lambda p, k: 1 + k * p**k,
        ),
        _wrong_tokens(
            "all_or_nothing",
            "When a draft is rejected, those in front of it stay: it is not all of them or none.",
            lambda p, k: (k + 1) * p**k,
        ),
        _wrong_tokens(
            "at_most",
            "k + 1 is the most that a pass can yield: how many it is on average depends on `p`.",
            lambda p, k: k + 1,
        ),
        _wrong_tokens(
            "rejection",
            "`p` is the probability that a draft is accepted, not that it is rejected.",
            lambda p, k: acceptance.expected_tokens(1 - p, k),
        ),
        _wrong_tokens(
            "weighs_by_count",
            "Add up the chances that the first draft stays, that the second does, and so on: each "
            "brings one token, however many are in front of it.",
            lambda p, k: 1 + sum(i * p**i for i in range(1, k + 1)),
        ),
        _wrong_tokens(
            "whole_tokens",
            "A mean need not be a whole number: do not round it.",
            lambda p, k: round(acceptance.expected_tokens(p, k)),
        ),
        *map(
            _cut, (int, math.ceil, functools.partial(_rounded, 1), functools.partial(_rounded, 2))
        ),
        *map(_with_certain_drafts, ((0, 0), (0, 1), (1, 0))),
    ),
    idea="Ask of each token that a pass may yield how likely it is to be there.",
    form=_number_form,
    draw=_draw_number,
    draw_call=named("p", "k"),
    evidence=[(p, k) for p in (0.0, 0.25, 0.5, 0.7, 0.85, 0.95) for k in (1, 2, 3, 4, 6)],
)


def _judge_at_1(ask: Ask, judged: Comparison[Any], cases: Sequence[Args]) -> Failure | None:
    """The cases, where an answer may divide by zero."""
    for args in cases:
        called = ask.call(*args, may_raise=True)
        if isinstance(called.error, ZeroDivisionError):
            rows: Rows = (
                ("input", judged.draw_call(ask.name, args)),
                ("expected", judged.draw(judged.reference(*args))),
                ("got", "ZeroDivisionError"),
            )
            return Failure(_AT_1, rows, "divides_by_zero")
    return judged.judge(ask, cases)


def _one_draft(ask: Ask, rng: random.Random) -> Failure | None:
    return _TOKENS.judge(ask, [(0.5, 1), (0.75, 1), (0.25, 1)])


def _several_drafts(ask: Ask, rng: random.Random) -> Failure | None:
    return _TOKENS.judge(ask, [(0.5, 2), (0.5, 3), (0.85, 4), (0.3, 6)])


def _never_accepted(ask: Ask, rng: random.Random) -> Failure | None:
    return _TOKENS.judge(ask, [(0.0, 4), (0.0, 1), (0.6, 0)])


def _always_accepted(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_at_1(ask, _TOKENS, [(1.0, 4), (1.0, 1), (1.0, 0), (0.999, 4)])


def _any_chance(ask: Ask, rng: random.Random) -> Failure | None:
    return _TOKENS.judge(ask, [(round(rng.random(), 3), rng.randint(0, 12)) for _ in range(40)])


_TOKENS_CHECKS: tuple[tuple[str, Check], ...] = (
    ("one draft", _one_draft),
    ("several drafts", _several_drafts),
    ("nothing accepted, nothing drafted", _never_accepted),
    ("always accepted", _always_accepted),
    ("any chance", _any_chance),
)


def check_expected_tokens(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l08.expected_tokens."""
    return run_checks("l08.expected_tokens", function, _TOKENS_CHECKS, seed=seed)


# --- speedup ---------------------------------------------------------------------------------


def _tokens_over(
    time: Callable[[float, int, float], float],
) -> Callable[[float, int, float], float]:
    """The right tokens over a time of one's own."""
    return lambda p, k, alpha: acceptance.expected_tokens(p, k) / time(p, k, alpha)


def _over_the_round(tokens: Callable[[float, int], float]) -> Callable[[float, int, float], float]:
    """Tokens of one's own over the right time."""
    return lambda p, k, alpha: tokens(p, k) / (1 + k * alpha)


_ONCE = (
    "The draft model runs once for every token that it drafts, one after the other: a round has k "
    "drafts to pay for, not one."
)
_ONCE_AND_ALONE = (
    "Wrong twice, and both ways it looks better: drafts stay only in a row, so tokens are not "
    "1 + k * p, and the draft runs k times in a round, not once."
)
_PASSES = (
    "The verifying pass looks at all drafts at once and takes the time of one decode, however many "
    "they are."
)
_FREE = "Drafting is not free: each of the k drafts takes alpha of a decode's time."

_SPEEDUP: Comparison[_Speedup] = Comparison(
    reference=_near(acceptance.speedup),
    mistakes=(
        _wrong_speedup("charged_once", _ONCE, _tokens_over(lambda p, k, alpha: 1 + alpha)),
        _wrong_speedup(
            "charged_once_each_alone", _ONCE_AND_ALONE, lambda p, k, a: (1 + k * p) / (1 + a)
        ),
        _wrong_speedup("each_alone", _EACH_ALONE, _over_the_round(lambda p, k: 1 + k * p)),
        _wrong_speedup("bonus_forgotten", _NO_BONUS, _over_the_round(_accepted)),
        _wrong_speedup("bonus_forgotten", _NO_BONUS, lambda p, k, a: _accepted(p, k) / (1 + a)),
        _wrong_speedup(
            "at_least_one", _BONUS_AT_THE_END, _over_the_round(lambda p, k: max(1, _accepted(p, k)))
        ),
        _wrong_speedup(
            "one_draft_less",
            "There are k drafts and the target's own token, so k + 1 powers of p to add up, from "
            "p ** 0 to p ** k.",
            _over_the_round(lambda p, k: sum(p**i for i in range(k))),
        ),
        _wrong_speedup(
            "endless",
            "Only k tokens are drafted, so the series ends after p ** k: 1 / (1 - p) is what "
            "endlessly many drafts would give.",
            _over_the_round(lambda p, k: 1 / (1 - p)),
        ),
        _wrong_speedup(
            "draft_is_free", _FREE, lambda p, k, alpha: acceptance.expected_tokens(p, k)
        ),
        _wrong_speedup(
            "verifying_is_free",
            "The verifying pass takes time as well, that of one decode.",
            _tokens_over(lambda p, k, alpha: k * alpha),
        ),
        _wrong_speedup(
            "accepted_only",
            "A rejected draft took as long to make as an accepted one: all k are paid for.",
            _tokens_over(lambda p, k, alpha: 1 + alpha * _accepted(p, k)),
        ),
        _wrong_speedup(
            "accepted_only",
            "A rejected draft took as long to make as an accepted one: all k are paid for.",
            _tokens_over(lambda p, k, alpha: 1 + alpha * k * p),
        ),
        _wrong_speedup(
            "drafts_one_more",
            "The last token of a round is the target's own: k are drafted, not k + 1.",
            _tokens_over(lambda p, k, alpha: 1 + (k + 1) * alpha),
        ),
        _wrong_speedup("a_pass_each", _PASSES, _tokens_over(lambda p, k, alpha: k * (1 + alpha))),
        _wrong_speedup("a_pass_each", _PASSES, _tokens_over(lambda p, k, alpha: k + 1 + k * alpha)),
        _wrong_speedup(
            "a_pass_each", _PASSES, _tokens_over(lambda p, k, alpha: (k + 1) * (1 + alpha))
        ),
        _wrong_speedup(
            "time_saved",
            "This is the other way round, time per token: 2 has to mean twice as fast.",
            lambda p, k, alpha: 1 / acceptance.speedup(p, k, alpha),
        ),
        _wrong_speedup(
            "gain_alone",
            "As fast as plain decoding is 1, not 0.",
            lambda p, k, alpha: acceptance.speedup(p, k, alpha) - 1,
        ),
        _wrong_speedup(
            "never_below_1",
            "Speculation can lose, and the engine needs to know when: do not cut it off at 1.",
            lambda p, k, alpha: max(1, acceptance.speedup(p, k, alpha)),
        ),
        _wrong_speedup(
            "draft_speed",
            "alpha is how long a draft takes, as a share of a decode; it is not how many times as "
            "fast it is.",
            _tokens_over(lambda p, k, alpha: 1 + k / alpha),
        ),
    ),
    idea="Follow one round with a watch: how long does it take, and how many tokens does it bring?",
    form=_number_form,
    draw=_draw_number,
    draw_call=named("p", "k", "alpha"),
    evidence=[
        (p, k, alpha)
        for p in (0.1, 0.5, 0.7, 0.85, 0.95)
        for k, alpha in ((1, 0.1), (2, 0.25), (4, 0.1), (4, 0.5), (6, 0.02))
    ],
)


def _a_good_draft(ask: Ask, rng: random.Random) -> Failure | None:
    return _SPEEDUP.judge(ask, [(0.85, 4, 0.1), (0.5, 2, 0.25), (0.9, 1, 0.05)])


def _a_free_draft(ask: Ask, rng: random.Random) -> Failure | None:
    return _SPEEDUP.judge(ask, [(0.85, 4, 0.0), (0.5, 1, 0.0), (0.0, 3, 0.0), (0.4, 0, 0.3)])


def _not_worth_it(ask: Ask, rng: random.Random) -> Failure | None:
    return _SPEEDUP.judge(ask, [(0.2, 4, 0.1), (0.85, 4, 1.0), (0.0, 4, 0.1), (0.25, 1, 0.25)])


def _a_perfect_draft(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_at_1(ask, _SPEEDUP, [(1.0, 4, 0.1), (1.0, 1, 1.0)])


def _any_draft_model(ask: Ask, rng: random.Random) -> Failure | None:
    return _SPEEDUP.judge(
        ask,
        [
            (round(rng.random(), 3), rng.randint(0, 8), rng.choice((0.015, 0.05, 0.1, 0.3, 0.625)))
            for _ in range(40)
        ],
    )


_SPEEDUP_CHECKS: tuple[tuple[str, Check], ...] = (
    ("a good draft", _a_good_draft),
    ("a draft that costs nothing", _a_free_draft),
    ("a draft that is not worth it", _not_worth_it),
    ("a perfect draft", _a_perfect_draft),
    ("any draft", _any_draft_model),
)


def check_speedup(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l08.speedup."""
    return run_checks("l08.speedup", function, _SPEEDUP_CHECKS, seed=seed)


# --- roll_back_kv ----------------------------------------------------------------------------


def _some_accepted(ask: Ask, rng: random.Random) -> Failure | None:
    passes = Pass("EXYZ", 1, "O"), Pass("IAX", 2, "S")
    return next((f for each in passes if (f := judge_story(ask, "ROM", [each]))), None)


def _all_or_none(ask: Ask, rng: random.Random) -> Failure | None:
    passes = Pass("EOS", 3, "A"), Pass("AXY", 0, "E"), Pass("E", 1, "O"), Pass("A", 0, "E")
    return next((f for each in passes if (f := judge_story(ask, "ROM", [each]))), None)


def _nothing_drafted(ask: Ask, rng: random.Random) -> Failure | None:
    return judge_story(ask, "ROM", [Pass("", 0, "E"), Pass("", 0, "O")])


def _a_whole_text(ask: Ask, rng: random.Random) -> Failure | None:
    text, goal, passes = "WH", "WHEREFOREARTTHOUROMEO", list[Pass]()
    end = len(text)
    while end < len(goal):
        wanted = min(rng.randint(0, 4), len(goal) - end - 1)
        num_accepted = rng.randint(0, wanted)
        wrong = "X" * (wanted - num_accepted)
        drawn = goal[end + num_accepted]
        passes.append(Pass(goal[end : end + num_accepted] + wrong, num_accepted, drawn))
        end += num_accepted + 1
    return judge_story(ask, text, passes)


def _any_pass(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = []
    for _ in range(40):
        drafted = rng.choice((0, 1, 2, 4, 8, 20))
        cases.append((drafted + rng.randint(1, 200), drafted, rng.randint(0, drafted)))
    return ROLL_BACK.judge(ask, cases)


_ROLL_BACK_CHECKS: tuple[tuple[str, Check], ...] = (
    ("some are accepted", _some_accepted),
    ("all or none", _all_or_none),
    ("nothing drafted", _nothing_drafted),
    ("a whole text", _a_whole_text),
    ("any pass", _any_pass),
)


def check_roll_back_kv(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l08.roll_back_kv."""
    return run_checks("l08.roll_back_kv", function, _ROLL_BACK_CHECKS, seed=seed)


# --- registry --------------------------------------------------------------------------------

EXERCISES = (
    Exercise(
        id="l08.accept",
        lesson="l08_speculation",
        name="accept",
        title="Which drafts stay",
        minutes=12,
        points=4,
        part="accept",
        hints=(
            "The draft proposes a token half the time, the target would say it a quarter of the "
            "time. How often may it stay, and which tokens have come too seldom so far?",
            "Keep it if u is below p[token] / q[token]. If not, the weight of each token is what p "
            "has more than q, and 0 where it has less; add the weights up from token 0 on until "
            "they exceed v times their sum.",
            "`max(0.0, ...)` for each pair of `zip(p, q)` makes the list of weights. Walk through "
            "it with a running sum, and compare that with `v` times the sum of the whole list. "
            "Should rounding keep the sum from ever getting there, the last token with a weight "
            "is meant.",
        ),
        check=check_accept,
        task=Task(
            signature="accept(p: list[float], q: list[float], token: int, u: float, v: float) "
            "-> tuple[bool, int]",
            rules=(
                "The result is `(kept, token)`: whether the drafted token stays, and which token "
                "stands there then, the drafted one or another.",
                "`p` are the target's probabilities and `q` the draft model's, one for each token "
                "of the vocabulary, each list summing to 1 up to rounding. `token` was drawn from "
                "`q`.",
                "`u` and `v` are random numbers, uniform from 0 up to, but not including, 1. `u` "
                "decides: the draft stays if `u` is below the probability that it stays with.",
                "`v` draws, if it does not stay. Every token has a weight, how often it is still "
                "missing. Go through the tokens from 0 up and take the first at which the sum of "
                "the weights so far is more than `v` times the sum of all of them.",
                "Over many drafts each token then stands as often as `p` says, whatever `q` is, "
                "and no draft goes that could have stayed.",
            ),
            args=([0.25, 0.25, 0.5], [0.5, 0.25, 0.25], 0, 0.75, 0.75),
            result=(False, 2),
        ),
    ),
    Exercise(
        id="l08.expected_tokens",
        lesson="l08_speculation",
        name="expected_tokens",
        title="Tokens in a pass",
        minutes=6,
        points=2,
        part=None,
        hints=(
            "How likely is it that the first draft stays? And the second, which counts only if the "
            "first stays as well? What comes on top in every pass?",
            "A mean count is the sum of the chances: p for the first draft, p * p for the second, "
            "and so on up to the k-th; and 1 for the target's own token.",
            "With the 1 written as p ** 0 it is one sum over powers of p, in a single `sum(...)`. "
            "Which exponent is the first, and which the last?",
        ),
        check=check_expected_tokens,
        task=Task(
            signature="expected_tokens(p: float, k: int) -> float",
            rules=(
                "The result is how many tokens one verifying pass yields on average when `k` "
                "tokens were drafted; `k` may be 0.",
                "Each draft that the target looks at is accepted with probability `p`, from 0 to "
                "1, both included. At the first that is not, it and all behind it go.",
                "Then the target adds one token of its own: in the place of the first rejected "
                "draft, or after the last one if all `k` were accepted.",
            ),
            args=(0.5, 1),
            result=1.5,
        ),
    ),
    Exercise(
        id="l08.speedup",
        lesson="l08_speculation",
        name="speedup",
        title="What it is worth",
        minutes=4,
        points=2,
        part=None,
        hints=(
            "Follow one round with a watch: who runs how many times, and for how long? Then count "
            "the tokens that it has brought.",
            "Plain decoding brings 1 token per unit of time. A round takes 1 unit for the pass and "
            "alpha for each of the k drafts, and brings `expected_tokens(p, k)`.",
            "Speed is tokens per unit of time. Write down the time of a round, divide its tokens "
            "by that, and compare with plain decoding, which has a speed of 1.",
        ),
        check=check_speedup,
        task=Task(
            signature="speedup(p: float, k: int, alpha: float) -> float",
            rules=(
                "The result is how many times as fast as plain decoding speculation is: 2 is "
                "twice, 0.5 half as fast.",
                "Plain decoding yields 1 token per unit of time.",
                "With speculation, the draft model first drafts `k` tokens, one after the other, "
                "and each takes `alpha` units.",
                "Then one verifying pass takes 1 unit, however many tokens it looks at. It yields "
                "`expected_tokens(p, k)` tokens on average, and you may call that.",
            ),
            args=(0.5, 2, 0.25),
            result=1.75 / 1.5,
        ),
    ),
    Exercise(
        id="l08.roll_back_kv",
        lesson="l08_speculation",
        name="roll_back_kv",
        title="What the cache forgets",
        minutes=5,
        points=2,
        part="roll_back_kv",
        hints=(
            "Write the tokens of a pass in a row: the last known one, then the drafts. Which of "
            "them are in the text afterwards, at the same place?",
            "Everything up to the last accepted draft is in the text and keeps its K/V. The token "
            "drawn at the end was in no pass yet. How many are there behind the accepted ones?",
            "What goes lies at the end of what is held: the drafts that were not accepted. Count "
            "those, and take them off.",
        ),
        check=check_roll_back_kv,
        task=Task(
            signature="roll_back_kv(held: int, num_drafted: int, num_accepted: int) -> int",
            rules=(
                "The result is how many KV tokens a request keeps after a verifying pass, counted "
                "from the front: those of every token of the text that has been computed, and of "
                "no other.",
                "The pass was over the last token known before it and `num_drafted` drafts. It has "
                "left the request with K/V of `held` tokens, all of these included.",
                "The first `num_accepted` drafts stay in the text. Behind them stands a token that "
                "was drawn after the pass, in the place of the first rejected draft or after the "
                "last one.",
            ),
            args=(7, 4, 1),
            result=4,
        ),
    ),
)

"""What is thought wrongly of the draft that stays."""

from collections.abc import Sequence
from typing import Any

from course.calling.plain_values import as_items, as_truth, as_whole
from course.checks.comparing import a_kind
from course.exercise import Misconception
from course.harness import returned_nothing
from nanogpt.parts.acceptance import accept, draw
from solutions.l08_speculation._accepting import (
    by_counting_down,
    by_rules,
    by_shares,
    draws_and_compares,
    evenly,
    first,
    heaviest_first,
    highest,
    keeps,
    last,
    missing,
    or_else,
    or_no_result,
    scaled,
    then,
    unscaled,
)

# --- form ----------------------------------------------------------------------------------------


def parts(value: Any) -> Sequence[Any]:
    """What was returned, part by part; that nothing was is no question of form."""
    return (True, 0) if value is None else as_items(value) or ()


FORMS = (
    Misconception(
        "not_two",
        "The token says it all.",
        "Return two things, whether it is kept and the token: `kept, token`.",
        form=lambda value: len(parts(value)) != 2,
        also=(lambda *args: accept(*args)[1],),
    ),
    Misconception(
        "swapped",
        "The token, and whether it is the draft.",
        "Whether it is kept comes first, then the token: `kept, token`.",
        form=lambda value: [as_truth(part) is None for part in parts(value)] == [True, False],
        also=(lambda *args: accept(*args)[::-1],),
    ),
    Misconception(
        "wrong_type",
        "1 is true.",
        lambda value: (
            f"`kept` is True or False, not {a_kind(parts(value)[0])}."
            if as_truth(parts(value)[0]) is None
            else f"A token is a whole number, not {a_kind(parts(value)[1])}."
        ),
        form=lambda value: as_truth(parts(value)[0]) is None or as_whole(parts(value)[1]) is None,
        also=(then(lambda kept, token, *args: (int(kept), token)),),
    ),
)

# --- wrong ideas ---------------------------------------------------------------------------------

BY_SIGN = (
    "Only what p has *more* than q is missing: where the draft proposes a token often enough or "
    "too often, its weight is 0."
)
FALLS_OFF = Misconception(
    "falls_off_the_end",
    "Shares sum to 1.",
    "The shares may sum to just below 1, as floats do, and a `v` above that reaches none: then it "
    "is the last token that has a weight above 0.",
    or_no_result(by_shares),
    alike=(
        by_rules(pick=by_shares),
        by_rules(pick=or_else(by_shares, last)),
        by_rules(pick=or_else(by_counting_down, last)),
    ),
)
MISCONCEPTIONS = (
    *FORMS,
    Misconception(
        "no_return",
        "The result is computed.",
        returned_nothing("accept", "kept, token"),
        form=lambda value: value is None,
        also=(lambda *args: None,),
    ),
    Misconception(
        "inverted_ratio",
        "The draft's probability over the target's.",
        "The ratio is turned round: a draft that the target likes better than the draft model "
        "always stays, and one that it likes less stays with probability p[token] / q[token].",
        by_rules(lambda p, q, token, u: u * p[token] < q[token]),
    ),
    Misconception(
        "only_if_higher",
        "The target has to like it better.",
        "A draft that the target likes less than the draft model does may stay too, with "
        "probability p[token] / q[token]: that is what `u` is for.",
        by_rules(lambda p, q, token, u: p[token] > q[token]),
        alike=(by_rules(lambda p, q, token, u: p[token] >= q[token]),),
    ),
    Misconception(
        "ignores_q",
        "The target says it with probability p.",
        "p[token] alone is too little: the token has already been drawn with probability "
        "q[token], so divide by that.",
        by_rules(lambda p, q, token, u: u < p[token]),
    ),
    Misconception(
        "always_keeps",
        "A draft is a token.",
        "Kept like this, everything comes out as often as the draft model says it: a draft stays "
        "only with probability p[token] / q[token].",
        by_rules(lambda p, q, token, u: True),
    ),
    Misconception(
        "keeps_what_is_possible",
        "The target could have said it.",
        "That the target may say it is not enough: the draft stays with probability "
        "p[token] / q[token].",
        by_rules(lambda p, q, token, u: p[token] > 0),
    ),
    Misconception(
        "keeps_the_likeliest",
        "Right is what the target would say.",
        "The target's favourite alone is the rule of greedy decoding: when sampling, every token "
        "that it may say has its chance, p[token] / q[token].",
        by_rules(lambda p, q, token, u: token == highest(p)),
    ),
    Misconception(
        "never_keeps",
        "A token from p is a token from p.",
        "This is distributed as p, but no draft ever stays, so the drafts were made for nothing: "
        "keep one with probability p[token] / q[token].",
        lambda p, q, token, u, v: (False, draw(p, v)),
    ),
    Misconception(
        "never_keeps",
        "What is missing has to be drawn.",
        "No draft ever stays like this: keep one with probability p[token] / q[token].",
        by_rules(lambda p, q, token, u: False),
    ),
    Misconception(
        "draws_and_compares",
        "The draft was right if the target draws it too.",
        "Drawing from p and comparing has the right law, but keeps a draft less often than it "
        "could: keep it with probability p[token] / q[token].",
        draws_and_compares,
    ),
    Misconception(
        "u_turned_round",
        "A high u is a good one.",
        "The draft stays when u is *below* the ratio, so that a small u always keeps it.",
        by_rules(lambda p, q, token, u: u * q[token] >= p[token]),
        alike=(by_rules(lambda p, q, token, u: 1 - u < p[token] / q[token]),),
    ),
    Misconception(
        "at_the_threshold",
        "Up to the ratio.",
        "u is uniform from 0 to just below 1, so `u < ratio` has exactly the ratio's probability: "
        "with `<=` even a token that the target never says could stay.",
        by_rules(lambda p, q, token, u: u * q[token] <= p[token]),
    ),
    Misconception(
        "draws_when_kept",
        "The token is drawn anyway.",
        "A draft that stays is the token at its position: nothing is drawn there any more.",
        lambda p, q, token, u, v: (keeps(p, q, token, u), draw(missing(p, q, token), v)),
        alike=(then(lambda kept, token, p, q, draft, u, v: (kept, draw(p, v) if kept else token)),),
    ),
    Misconception(
        "flag_turned_round",
        "The flag says whether it was rejected.",
        "`kept` is True when the drafted token stays, and False when another one stands there.",
        then(lambda kept, token, *args: (not kept, token)),
    ),
    Misconception(
        "returns_the_draft",
        "The engine draws another one.",
        "The draft was rejected, so another token has to stand at its position: draw it.",
        lambda p, q, token, u, v: (keeps(p, q, token, u), token),
    ),
    Misconception(
        "from_p",
        "The target says what stands there.",
        "Drawn from p, the rejected token gets a second chance, and drafted tokens come out more "
        "often than the target wants: draw from what p has more than q.",
        by_rules(weigh=lambda p, q, token: p),
    ),
    Misconception(
        "from_q",
        "The draft model tries again.",
        "The draft model has had its chance: what is drawn now has to make up for what it proposes "
        "too seldom, which is what p has more than q.",
        by_rules(weigh=lambda p, q, token: q),
    ),
    Misconception(
        "p_without_the_draft",
        "Anything but the rejected token.",
        "Other tokens than the rejected one may be drafted too often as well: draw from what p has "
        "more than q, which leaves all of them out.",
        by_rules(weigh=lambda p, q, token: [*p[:token], 0.0, *p[token + 1 :]]),
    ),
    Misconception(
        "absolute",
        "The difference of the two.",
        BY_SIGN,
        by_rules(weigh=lambda p, q, token: [abs(a - b) for a, b in zip(p, q, strict=True)]),
    ),
    Misconception(
        "q_minus_p",
        "What the draft model has too much of.",
        "It is the other way round: missing is what the target wants more often than the draft "
        "model proposes it, p - q where that is above 0.",
        by_rules(weigh=lambda p, q, token: missing(q, p, token)),
    ),
    Misconception(
        "keeps_negatives",
        "p - q is p - q.",
        BY_SIGN,
        by_rules(
            weigh=lambda p, q, token: [a - b for a, b in zip(p, q, strict=True)],
            pick=or_else(scaled, last),
        ),
        alike=(
            by_rules(
                weigh=lambda p, q, token: [a - b for a, b in zip(p, q, strict=True)], pick=scaled
            ),
        ),
    ),
    Misconception(
        "likeliest",
        "What is missing most.",
        "The most likely token is not the only one that the target says: draw by `v`, in "
        "proportion to the weights.",
        by_rules(pick=lambda weights, v: highest(weights)),
        alike=(by_rules(weigh=lambda p, q, token: p, pick=lambda weights, v: highest(weights)),),
    ),
    Misconception(
        "evenly",
        "Any token that is missing.",
        "The tokens that are missing are not missing equally: draw in proportion to how much p has "
        "more than q.",
        by_rules(pick=evenly),
    ),
    Misconception(
        "not_normalised",
        "Weights are probabilities.",
        "The weights that are left do not sum to 1: go up to v times *their* sum, or part of the "
        "time no token is reached.",
        by_rules(pick=unscaled),
        alike=(
            or_no_result(unscaled),
            by_rules(pick=or_else(unscaled, lambda weights: 0)),
            by_rules(pick=or_else(unscaled, last)),
        ),
    ),
    Misconception(
        "boundary",
        "As soon as it is reached.",
        "Stop at the first token at which the sum so far is *more* than v times the whole: with "
        "`>=`, a v of 0 picks a token of weight 0.",
        by_rules(
            pick=lambda weights, v: first(weights, lambda total: total >= v * sum(weights)),
        ),
    ),
    Misconception(
        "one_too_far",
        "The sums begin at 0.",
        "This is one token too far: the token at which the sum so far goes past v times the whole "
        "is the one that is drawn.",
        then(lambda kept, token, *args: (kept, token if kept else token + 1)),
        alike=(then(lambda kept, token, p, *_: (kept, token if kept else (token + 1) % len(p))),),
    ),
    Misconception(
        "one_too_early",
        "The last one that is not beyond.",
        "The weight of a token counts in its own sum: the one at which the sum so far goes past v "
        "times the whole is drawn, not the one before it.",
        then(lambda kept, token, *args: (kept, token if kept else token - 1)),
    ),
    Misconception(
        "reuses_u",
        "A random number is a random number.",
        "`u` has been used: once the draft is rejected, u is known to be large, and what is drawn "
        "with it is not distributed as it should be.",
        lambda p, q, token, u, v: accept(p, q, token, u, u),
    ),
    Misconception(
        "u_and_v_swapped",
        "The first draws, the second decides.",
        "`u` decides whether the draft stays, `v` which token is drawn if it does not.",
        lambda p, q, token, u, v: accept(p, q, token, v, u),
    ),
    Misconception(
        "other_order",
        "The order is free.",
        "The law is right, but not the token for this `v`: go through the tokens from 0 up, so "
        "that the same random numbers give the same text everywhere.",
        by_rules(pick=lambda weights, v: last(weights) - draw(weights[::-1], v)),
        alike=(
            by_rules(pick=lambda weights, v: draw(weights, 1 - v)),
            by_rules(pick=heaviest_first),
        ),
    ),
    Misconception(
        "place_in_the_rest",
        "Tokens without weight need no place.",
        "This is a place among the tokens with a weight, not a token: keep the weights of 0 in the "
        "list, so that places are tokens.",
        by_rules(pick=lambda weights, v: draw([weight for weight in weights if weight > 0], v)),
    ),
    FALLS_OFF,
)

"""What is thought wrongly of the draft that stays."""

from collections.abc import Sequence
from typing import Any

from course.calling.plain_values import as_items, as_truth, as_whole
from course.checks.comparing import a_kind
from course.exercise import Misconception
from course.harness import returned_nothing
from nanogpt.policies.acceptance import draw, rejection_sample
from solutions.l08_speculation._accepting import (
    by_rules,
    by_shares,
    first,
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
        matches=lambda value: len(parts(value)) != 2,
        examples=(lambda *args: rejection_sample(*args)[1],),
    ),
    Misconception(
        "swapped",
        "The token, and whether it is the draft.",
        "Whether it is kept comes first, then the token: `kept, token`.",
        matches=lambda value: [as_truth(part) is None for part in parts(value)] == [True, False],
        examples=(lambda *args: rejection_sample(*args)[::-1],),
    ),
    Misconception(
        "wrong_type",
        "1 is true.",
        lambda value: (
            f"`kept` is True or False, not {a_kind(parts(value)[0])}."
            if as_truth(parts(value)[0]) is None
            else f"A token is a whole number, not {a_kind(parts(value)[1])}."
        ),
        matches=lambda value: (
            as_truth(parts(value)[0]) is None or as_whole(parts(value)[1]) is None
        ),
        examples=(then(lambda kept, token, *args: (int(kept), token)),),
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
)
MISCONCEPTIONS = (
    *FORMS,
    Misconception(
        "no_return",
        "The result is computed.",
        returned_nothing("rejection_sample", "kept, token"),
        matches=lambda value: value is None,
        examples=(lambda *args: None,),
    ),
    Misconception(
        "inverted_ratio",
        "The draft's probability over the target's.",
        "The ratio is turned round: a draft that the target likes better than the draft model "
        "always stays, and one that it likes less stays with probability p[draft_token] / "
        "q[draft_token].",
        by_rules(lambda p, q, token, u: u * p[token] < q[token]),
    ),
    Misconception(
        "only_if_higher",
        "The target has to like it better.",
        "A draft that the target likes less than the draft model does may stay too, with "
        "probability p[draft_token] / q[draft_token]: that is what `u` is for.",
        by_rules(lambda p, q, token, u: p[token] > q[token]),
    ),
    Misconception(
        "ignores_q",
        "The target says it with probability p.",
        "p[draft_token] alone is too little: the token has already been drawn with probability "
        "q[draft_token], so divide by that.",
        by_rules(lambda p, q, token, u: u < p[token]),
    ),
    Misconception(
        "always_keeps",
        "A draft is a token.",
        "Kept like this, everything comes out as often as the draft model says it: a draft stays "
        "only with probability p[draft_token] / q[draft_token].",
        by_rules(lambda p, q, token, u: True),
    ),
    Misconception(
        "never_keeps",
        "A token from p is a token from p.",
        "This is distributed as p, but no draft ever stays, so the drafts were made for nothing: "
        "keep one with probability p[draft_token] / q[draft_token].",
        lambda p, q, token, u, v: (False, draw(p, v)),
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
        "keeps_negatives",
        "p - q is p - q.",
        BY_SIGN,
        by_rules(
            weigh=lambda p, q, token: [a - b for a, b in zip(p, q, strict=True)],
            pick=or_else(scaled, last),
        ),
    ),
    Misconception(
        "not_normalised",
        "Weights are probabilities.",
        "The weights that are left do not sum to 1: go up to v times *their* sum, or part of the "
        "time no token is reached.",
        by_rules(pick=unscaled),
    ),
    Misconception(
        "boundary",
        "As soon as it is reached.",
        "Stop at the first token at which the sum so far is *more* than v times the whole: with "
        "`>=`, a v of 0 picks a token of weight 0.",
        by_rules(pick=lambda weights, v: first(weights, lambda total: total >= v * sum(weights))),
    ),
    Misconception(
        "reuses_u",
        "A random number is a random number.",
        "`u` has been used: once the draft is rejected, u is known to be large, and what is drawn "
        "with it is not distributed as it should be.",
        lambda p, q, token, u, v: rejection_sample(p, q, token, u, u),
    ),
    Misconception(
        "u_and_v_swapped",
        "The first draws, the second decides.",
        "`u` decides whether the draft stays, `v` which token is drawn if it does not.",
        lambda p, q, token, u, v: rejection_sample(p, q, token, v, u),
    ),
    FALLS_OFF,
)

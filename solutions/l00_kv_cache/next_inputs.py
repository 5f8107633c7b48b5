"""Exercise 0.1: which tokens the model must be fed."""

import random

from course.checks.comparing import Args, Comparison, not_a_list, tokens
from course.exercise import Exercise, Misconception
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def next_inputs(tokens: list[int], num_cached: int) -> list[int]:
    """Return the tokens that the model must be fed in this step."""
    # A token's K and V depend on it and the tokens before it, all of which are settled. So they
    # never change, and whatever is cached need not go through the model again.
    return tokens[num_cached:]


def by_loop(tokens: list[int], num_cached: int) -> list[int]:
    fed: list[int] = []
    for position, token in enumerate(tokens):
        if position >= num_cached:
            fed.append(token)
    return fed


def from_the_end(tokens: list[int], num_cached: int) -> list[int]:
    count = len(tokens) - num_cached
    return list(tokens)[-count:]


# --- wrong ideas --------------------------------------------------------------------------------


def eats_the_tokens(tokens: list[int], num_cached: int) -> list[int]:
    del tokens[:num_cached]
    return tokens


MISCONCEPTIONS = (
    not_a_list("One token is fed, so a number will do.", lambda tokens, num_cached: tokens[-1]),
    Misconception(
        "feeds_everything",
        "The model needs the whole text every time, cache or not.",
        "A cached token's K and V never change, so the model need not see it again: feed only the "
        "tokens after the cached ones.",
        lambda tokens, num_cached: tokens,
    ),
    Misconception(
        "last_token_only",
        "With a cache, a step always feeds one token, the prompt's first step included.",
        "One token is right once all the others are cached; before that, every token that is not "
        "cached has to be fed, or its K and V will be missing for good.",
        lambda tokens, num_cached: tokens[-1:],
    ),
    Misconception(
        "one_too_many",
        "The newest cached token has to be fed so that the model can go on from it.",
        "The last cached token has its K and V already; fed once more, it would be in the cache "
        "twice.",
        lambda tokens, num_cached: tokens[max(0, num_cached - 1) :],
    ),
    Misconception(
        "one_too_few",
        "Counting starts at 1, so the first token without K/V has index num_cached + 1.",
        "The first token that is not cached has index num_cached, because indices count from 0; "
        "here it was skipped.",
        lambda tokens, num_cached: tokens[num_cached + 1 :],
    ),
    Misconception(
        "by_value",
        "A token that is in the cache need not be fed.",
        "A letter comes back in a text: whether a token is cached is a matter of its place, not of "
        "its value, so a token is fed however often it was there before.",
        lambda tokens, num_cached: [t for t in tokens if t not in tokens[:num_cached]],
        same_result=(lambda tokens, num_cached: list(dict.fromkeys(tokens[num_cached:])),),
    ),
    Misconception("in_place", "What has been fed may be thrown away.", examples=(eats_the_tokens,)),
)

# --- cases --------------------------------------------------------------------------------------


def any_step(rng: random.Random) -> list[Args]:
    """Of short texts, and at the end of a long one of which nearly nothing is cached."""
    cases = [(tokens(rng, length), rng.randrange(length)) for length in range(2, 30)]
    return [*cases, (20 * tokens(rng, 30), rng.randrange(9))]


JUDGE = Comparison(
    next_inputs,
    MISCONCEPTIONS,
    "Feed exactly the tokens whose K and V are not in the cache, in the order of the text.",
    evidence=[([5, 3, 8, 1, 9, 5], 2), ([2, 2, 7, 2], 1), ([4, 6, 4], 0), ([9, 8, 7, 6], 3)],
)

EXERCISE = Exercise(
    number=1,
    title="What the model still has to see",
    minutes=3,
    points=1,
    task=Task(
        signature="next_inputs(tokens: list[int], num_cached: int) -> list[int]",
        rules=(
            "`tokens` are the ids of all known tokens of one request: its prompt, then what was "
            "generated so far.",
            "K and V of the first `num_cached` of them are in the cache. That may be 0, and at "
            "least one token is not cached.",
            "Returns the tokens that the model must be fed in this step, as a list, and leaves "
            "`tokens` as it is.",
        ),
        args=([18, 47, 56, 18, 53], 3),
        result=[18, 53],
    ),
    hints=(
        "K and V of which tokens does the model not have yet?",
        "The cached tokens are the first num_cached of the list. At which index does the first "
        "token without K and V stand?",
        "A slice gives everything from an index on. Try yours for a prompt of which nothing is "
        "cached, and for a text of which all but the last token are.",
    ),
    right=(next_inputs, by_loop, from_the_end),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("the first step, nothing cached", JUDGE.on(([5, 3, 8], 0), ([6], 0))),
        ("one new token", JUDGE.on(([5, 3, 8, 1], 3), ([5, 3, 8, 1, 9], 4))),
        (
            "a text in which letters come back",
            JUDGE.on(([5, 3, 5], 2), ([4, 4, 4, 4], 1), ([7, 2, 7, 2, 2], 3), ([1, 2, 3, 3, 1], 1)),
        ),
        ("any text, any part of it cached", JUDGE.on_drawn(any_step)),
    ),
)

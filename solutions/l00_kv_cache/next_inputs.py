"""Exercise 0.1: which tokens to feed to the model."""

import random

from course.checks.comparing import Args, Comparison, not_a_list, tokens
from course.exercise import Exercise, Misconception
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def next_inputs(tokens: list[int], num_cached: int) -> list[int]:
    """Return the tokens to feed to the model in this step."""
    # K and V of a token depend only on it, its position and the tokens before it. Later tokens do
    # not change them, so a cached token does not go through the model again.
    return tokens[num_cached:]


def by_loop(tokens: list[int], num_cached: int) -> list[int]:
    fed: list[int] = []
    for position, token in enumerate(tokens):
        if position >= num_cached:
            fed.append(token)
    return fed


# --- wrong ideas --------------------------------------------------------------------------------


def eats_the_tokens(tokens: list[int], num_cached: int) -> list[int]:
    del tokens[:num_cached]
    return tokens


MISCONCEPTIONS = (
    not_a_list(
        "A step feeds one token, so I return a number.", lambda tokens, num_cached: tokens[-1]
    ),
    Misconception(
        "feeds_everything",
        "The model needs the whole text in every step, cache or not.",
        "Later tokens do not change K and V of a cached token, so it does not go through the model "
        "again. Feed only the tokens after the cached ones.",
        lambda tokens, num_cached: tokens,
    ),
    Misconception(
        "last_token_only",
        "With a cache, every step feeds one token, even the first one.",
        "One token is right only when all the others are cached. Feed every token that is not "
        "cached, or its K and V will be missing for good.",
        lambda tokens, num_cached: tokens[-1:],
    ),
    Misconception(
        "one_too_many",
        "The model goes on from the last cached token, so it needs that token again.",
        "K and V of the last cached token are there already. Fed again, the token would be in the "
        "cache twice.",
        lambda tokens, num_cached: tokens[max(0, num_cached - 1) :],
    ),
    Misconception(
        "one_too_few",
        "Counting starts at 1, so the first uncached token has index num_cached + 1.",
        "Indices start at 0, so the first token that is not cached has index num_cached. Here it "
        "was skipped.",
        lambda tokens, num_cached: tokens[num_cached + 1 :],
    ),
    Misconception(
        "by_value",
        "A token that occurs among the cached ones is cached.",
        "Letters repeat in a text. Whether a token is cached depends on its position, not on its "
        "value, so feed it even if the same letter occurred before.",
        lambda tokens, num_cached: [t for t in tokens if t not in tokens[:num_cached]],
        same_result=(lambda tokens, num_cached: list(dict.fromkeys(tokens[num_cached:])),),
    ),
    Misconception(
        "in_place",
        "The cached tokens are no longer needed, so I delete them.",
        examples=(eats_the_tokens,),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_step(rng: random.Random) -> list[Args]:
    """Short texts, and one long text that is hardly cached."""
    cases = [(tokens(rng, length), rng.randrange(length)) for length in range(2, 30)]
    return [*cases, (20 * tokens(rng, 30), rng.randrange(9))]


JUDGE = Comparison(
    next_inputs,
    MISCONCEPTIONS,
    "Feed exactly the tokens whose K and V are not cached, in the order of the text.",
    evidence=[([5, 3, 8, 1, 9, 5], 2), ([2, 2, 7, 2], 1), ([4, 6, 4], 0), ([9, 8, 7, 6], 3)],
)

EXERCISE = Exercise(
    number=1,
    title="Which tokens to feed",
    minutes=3,
    points=1,
    task=Task(
        signature="next_inputs(tokens: list[int], num_cached: int) -> list[int]",
        rules=(
            "`tokens` are the ids of all tokens of one request so far: its prompt, then the "
            "generated ones.",
            "K and V of the first `num_cached` tokens are cached. `num_cached` may be 0, and at "
            "least one token is not cached.",
            "Returns the list of tokens to feed to the model in this step. Do not change `tokens`.",
        ),
        args=([18, 47, 56, 18, 53], 3),
        result=[18, 53],
        steps=("18, 47 and 56 are cached. The second 18 is another token, at another position.",),
    ),
    hints=(
        "Which tokens have no K and V yet?",
        "The cached tokens are the first num_cached of the list. Which index does the first token "
        "without K and V have?",
        "A slice takes everything from an index on. Try yours on a prompt with nothing cached, and "
        "on a text in which only the last token is not cached.",
    ),
    right=(next_inputs, by_loop),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("the first step, nothing cached", JUDGE.on(([5, 3, 8], 0), ([6], 0))),
        ("one new token", JUDGE.on(([5, 3, 8, 1], 3), ([5, 3, 8, 1, 9], 4))),
        (
            "a text with repeated letters",
            JUDGE.on(([5, 3, 5], 2), ([4, 4, 4, 4], 1), ([7, 2, 7, 2, 2], 3), ([1, 2, 3, 3, 1], 1)),
        ),
        ("any text, any part of it cached", JUDGE.on_drawn(any_step)),
    ),
)

"""Exercise 0.1: which tokens to feed to the model."""

import itertools
import random

from course.checks.comparing import Args, Comparison, not_a_list, tokens
from course.exercise import Exercise, Misconception, Task

# --- right answers ------------------------------------------------------------------------------


def next_inputs(tokens: list[int], cached: list[int]) -> list[int]:
    """Return the tokens to feed to the model in this step."""
    # K and V of a token depend on it, its position and the tokens before it. So the cache is good
    # up to the first difference. The last token is fed in any case: its logits are not cached.
    kept = 0
    while kept < min(len(tokens) - 1, len(cached)) and tokens[kept] == cached[kept]:
        kept += 1
    return tokens[kept:]


def by_pairs(tokens: list[int], cached: list[int]) -> list[int]:
    pairs = zip(tokens[:-1], cached, strict=False)
    equal = itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
    return tokens[len(list(equal)) :]


# --- wrong ideas --------------------------------------------------------------------------------


def num_kept(tokens: list[int], cached: list[int]) -> int:
    """How many tokens need not be fed."""
    return len(tokens) - len(next_inputs(tokens, cached))


def eats_the_tokens(tokens: list[int], cached: list[int]) -> list[int]:
    del tokens[: num_kept(tokens, cached)]
    return tokens


MISCONCEPTIONS = (
    not_a_list("A step feeds one token, so I return a number.", lambda tokens, cached: tokens[-1]),
    Misconception(
        "feeds_everything",
        "The model needs the whole text in every step, cache or not.",
        "Later tokens do not change K and V of a cached token, so it does not go through the model "
        "again. Feed only the tokens whose K and V the cache lacks.",
        lambda tokens, cached: tokens,
    ),
    Misconception(
        "last_token_only",
        "With a cache, every step feeds one token, even the first one.",
        "One token is right only when all the others are cached. Feed every token that is not "
        "cached, or its K and V will be missing for good.",
        lambda tokens, cached: tokens[-1:],
    ),
    Misconception(
        "counts_only",
        "The first len(cached) tokens of the text are the cached ones.",
        "The text was edited: the cached K and V are those of other tokens from the first "
        "difference on. Compare the tokens, not only their number.",
        lambda tokens, cached: tokens[min(len(cached), len(tokens) - 1) :],
        same_result=(lambda tokens, cached: tokens[len(cached) :],),
    ),
    Misconception(
        "after_a_difference",
        "A token that did not change keeps its K and V.",
        "K and V of a token depend on all tokens before it, so after the first difference no "
        "cached K and V is right, even where the tokens are equal again.",
        lambda tokens, cached: [
            token
            for i, token in enumerate(tokens)
            if i >= min(len(cached), len(tokens) - 1) or token != cached[i]
        ],
    ),
    Misconception(
        "nothing_left",
        "A text that is cached as a whole needs no step.",
        "The logits that predict the next token are not cached, and only a step that computes the "
        "last token returns them: feed at least that one.",
        lambda tokens, cached: (
            [] if cached[: len(tokens)] == tokens else next_inputs(tokens, cached)
        ),
    ),
    Misconception(
        "one_too_many",
        "The model goes on from the last cached token, so it needs that token again.",
        "K and V of the last cached token are there already. Fed again, the token would be in the "
        "cache twice.",
        lambda tokens, cached: tokens[max(0, num_kept(tokens, cached) - 1) :],
    ),
    Misconception(
        "one_too_few",
        "Counting starts at 1, so the first uncached token has the index of the cached ones + 1.",
        "Indices start at 0: if n tokens are cached, the first one that is not has index n. Here "
        "it was skipped.",
        lambda tokens, cached: tokens[num_kept(tokens, cached) + 1 :],
    ),
    Misconception(
        "by_value",
        "A token that occurs among the cached ones is cached.",
        "Letters repeat in a text. Whether a token is cached depends on its position, not on its "
        "value, so feed it even if the same letter occurred before.",
        lambda tokens, cached: [token for token in tokens if token not in cached],
        same_result=(
            lambda tokens, cached: list(dict.fromkeys(next_inputs(tokens, cached))),
            lambda tokens, cached: [
                token
                for token in next_inputs(tokens, cached)
                if token not in tokens[: num_kept(tokens, cached)]
            ],
        ),
    ),
    Misconception(
        "in_place",
        "The cached tokens are no longer needed, so I delete them.",
        examples=(eats_the_tokens,),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_step(rng: random.Random) -> list[Args]:
    """Short texts that go on, were edited or come again, and a long text that is hardly cached."""
    cases: list[Args] = []
    for length in range(1, 30):
        text, later = tokens(rng, length), tokens(rng, rng.randrange(4))
        cached = [*text[: rng.randint(0, length)], *rng.choice(([], later))]
        if cached and rng.random() < 0.5:
            cached[rng.randrange(len(cached))] += 1
        cases.append((text, cached))
    long_text = 20 * tokens(rng, 30)
    return [*cases, (long_text, long_text[: rng.randrange(9)])]


JUDGE = Comparison(
    next_inputs,
    MISCONCEPTIONS,
    "Feed every token from the first one on whose K and V in the cache are missing or belong to "
    "another text, in the order of the text; and always the last one.",
    evidence=[
        ([5, 3, 8, 1, 9, 5], [5, 3]), ([2, 2, 7, 2], [2]), ([4, 6, 4], []),
        ([9, 8, 7, 6], [9, 8, 7]), ([5, 3, 8, 1], [5, 9, 8, 1]), ([5, 3, 8, 1, 3], [5, 9, 8]),
        ([5, 3, 8], [5, 3, 8]),
    ],
)  # fmt: skip

EXERCISE = Exercise(
    number=1,
    title="Which tokens to feed",
    minutes=5,
    points=2,
    task=Task(
        rules=(
            "`tokens` are the ids of a text so far, at least one. `cached` are the ids of the "
            "tokens whose K and V are in the cache, oldest first: those of the same text, a step "
            "ago, or those of the text that this user sent before and has edited since.",
            "Returns the tokens to feed in this step, the last ones of `tokens`: as few as give "
            "the logits of the whole text. The cache drops what it holds from their first "
            "position on. Do not change the lists.",
        ),
        args=([18, 47, 56, 18, 53], [18, 47, 56]),
        result=[18, 53],
        steps=("18, 47 and 56 are cached. The second 18 is another token, at another position.",),
    ),
    hints=(
        "On what do the K and V of a token depend? Which of the cached ones are therefore those "
        "of this text?",
        "Say that a letter in the middle was changed. Which cached K and V are still right: those "
        "before it, those after it, or both?",
        "Count how many tokens agree from the beginning; a slice takes everything from an index "
        "on. Then try a text that is cached as a whole: where do its logits come from?",
    ),
    right=(next_inputs, by_pairs),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("the first step, nothing cached", JUDGE.on(([5, 3, 8], []), ([6], []))),
        ("one new token", JUDGE.on(([5, 3, 8, 1], [5, 3, 8]), ([5, 3, 8, 1, 9], [5, 3, 8, 1]))),
        (
            "a text with repeated letters",
            JUDGE.on(
                ([5, 3, 5], [5, 3]), ([4, 4, 4, 4], [4]), ([7, 2, 7, 2, 2], [7, 2, 7]),
                ([1, 2, 3, 3, 1], [1]),
            ),
        ),
        (
            "an edited text",
            JUDGE.on(
                ([5, 3, 8, 1], [5, 3, 9, 1]), ([5, 3, 8, 1, 6], [5, 2, 8, 1]), ([5, 3], [7, 3, 8]),
            ),
        ),
        ("the same text again", JUDGE.on(([5, 3, 8], [5, 3, 8]), ([5, 3], [5, 3, 8]), ([4], [4]))),
        ("any text, any cache", JUDGE.on_drawn(any_step)),
    ),
)  # fmt: skip

"""Exercise 8.5: draft tokens that are looked up in the request's own text."""

import random
from collections.abc import Callable

from course.checks.comparing import Args, Comparison, not_a_list
from course.exercise import Exercise, Misconception, Task

# --- right answers ------------------------------------------------------------------------------


def propose_ngram(token_ids: list[int], k: int, min_n: int, max_n: int) -> list[int]:
    """Return up to k draft tokens: those that followed the text's last tokens before."""
    # Long matches first, since they are right more often. The earliest of several has the most
    # tokens after it. The last n tokens themselves are no match: nothing follows them.
    for n in range(max_n, min_n - 1, -1):
        suffix = token_ids[len(token_ids) - n :]
        for start in range(len(token_ids) - n):
            if token_ids[start : start + n] == suffix:
                return token_ids[start + n : start + n + k]
    return []


def by_ends(token_ids: list[int], k: int, min_n: int, max_n: int) -> list[int]:
    while max_n >= min_n:
        ends = range(max_n, len(token_ids))
        found = [end for end in ends if token_ids[end - max_n : end] == token_ids[-max_n:]]
        if found:
            return token_ids[found[0] : found[0] + k]
        max_n -= 1
    return []


def by_best_match(token_ids: list[int], k: int, min_n: int, max_n: int) -> list[int]:
    matches = [
        (-n, end)
        for n in range(min_n, max_n + 1)
        for end in range(n, len(token_ids))
        if token_ids[end - n : end] == token_ids[-n:]
    ]
    if not matches:
        return []
    _, end = min(matches)
    return token_ids[end : end + k]


# --- wrong ideas --------------------------------------------------------------------------------

Rule = Callable[[list[int], int, int, int], list[int]]
Sizes = Callable[[int, int], range]


def longest_first(min_n: int, max_n: int) -> range:
    return range(max_n, min_n - 1, -1)


def matching(
    sizes: Sizes = longest_first,
    last_end: int = -1,
    take: Callable[[list[int], int, int], list[int]] = lambda text, end, k: text[end : end + k],
    latest: bool = False,
    overlap: bool = True,
) -> Rule:
    """Right except for the sizes, where matches end, what is taken, or which match."""

    def answer(text: list[int], k: int, min_n: int, max_n: int) -> list[int]:
        for n in sizes(min_n, max_n):
            ends = [
                end
                for end in range(n, len(text) + 1 + (last_end if overlap else -n))
                if text[end - n : end] == text[len(text) - n :]
            ]
            if ends:
                return take(text, ends[-1 if latest else 0], k)
        return []

    return answer


def looped(text: list[int], end: int, k: int) -> list[int]:
    """The tokens from `end` on, beginning there again when the text is over."""
    return [text[end:][i % len(text[end:])] for i in range(k)]


MISCONCEPTIONS = (
    not_a_list(
        "A draft is one token.",
        lambda *args: (propose_ngram(*args) or [0])[0],
        lambda *args: tuple(map(str, propose_ngram(*args))),
    ),
    Misconception(
        "matches_itself",
        "The last n tokens are found in the text.",
        "The last tokens of the text match themselves, and nothing follows them: look for an "
        "earlier place.",
        matching(last_end=0, latest=True),
        same_result=(lambda *args: [],),
    ),
    Misconception(
        "latest",
        "The most recent match is the best.",
        "Take the earliest match: more tokens follow it, so it can propose more.",
        matching(latest=True),
    ),
    Misconception(
        "shortest_first",
        "Any match will do.",
        "Begin with `max_n` tokens and go down to `min_n`: a longer match says more about what "
        "comes next.",
        matching(lambda least, most: range(least, most + 1)),
    ),
    Misconception(
        "ignores_min_n",
        "A short match is better than none.",
        "A match of fewer than `min_n` tokens is mostly chance: then propose nothing.",
        matching(lambda least, most: range(most, 0, -1)),
        same_result=(matching(lambda least, most: range(most, least - 2, -1)),),
    ),
    Misconception(
        "ignores_max_n",
        "The longest match is the best.",
        "Compare at most the last `max_n` tokens.",
        matching(lambda least, most: range(60, least - 1, -1)),
    ),
    Misconception(
        "no_overlap",
        "The match ends before the last n tokens begin.",
        "The match may overlap the last tokens: in a text that repeats one token, it begins one "
        "token earlier.",
        matching(overlap=False),
    ),
    Misconception(
        "beyond_the_text",
        "There are always k draft tokens.",
        "Nothing is known after the end of the text: propose only the tokens that follow the "
        "match, even if they are fewer than k.",
        matching(take=looped),
        same_result=(
            matching(take=lambda text, end, k: (text[end : end + k] + [text[-1]] * k)[:k]),
            matching(take=lambda text, end, k: (text[end : end + k] + [0] * k)[:k]),
        ),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_texts(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for _ in range(60):
        letters = rng.choice((1, 2, 3, 6))
        text = [rng.randint(1, letters) for _ in range(rng.randint(1, 16))]
        if rng.random() < 0.5:
            text += text[rng.randrange(len(text)) :]
        least = rng.randint(1, 3)
        cases.append((text, rng.randint(1, 6), least, least + rng.randint(0, 2)))
    return sorted(cases, key=lambda case: len(case[0]))


LONG = [*range(20), *range(3, 12)]

JUDGE = Comparison(
    propose_ngram,
    MISCONCEPTIONS,
    "Mark the last n tokens of the text, and look for the same n tokens further left: first for "
    "n = max_n, then for fewer. Which tokens stand after the first place?",
    evidence=[
        (text, k, least, most)
        for text in (
            [1, 2, 9, 8, 7, 1, 2], [5, 2, 6, 1, 2, 8, 1, 2], [1, 2, 3, 1, 2, 4, 1, 2],
            [4, 4, 4, 4, 4], [3, 1, 4, 1, 5, 9, 2, 6, 1], [7, 8, 9, 1, 7, 8, 9],
            [2, 9, 1, 2, 3, 4, 0, 2, 9, 7, 1, 2, 3, 4],
        )
        for k, least, most in ((2, 1, 3), (4, 2, 3), (6, 1, 2), (3, 2, 2))
    ],
)  # fmt: skip

EXERCISE = Exercise(
    number=5,
    title="Draft tokens from the text itself",
    minutes=8,
    points=3,
    task=Task(
        rules=(
            "`token_ids` is a request's text so far, at least one token.",
            "An n-gram is n tokens in a row. Look for the longest n-gram at the end of the text, "
            "of `max_n` down to `min_n` tokens, that also occurs earlier in the text. The two may "
            "overlap. If it occurs several times, use the earliest place.",
            "Return the tokens that follow this earlier place, at most `k`, and only tokens of "
            "the text. Return `[]` if there is no such n-gram.",
            "1 <= `min_n` <= `max_n`, and `k` >= 1. Do not change `token_ids`.",
        ),
        args=([5, 1, 2, 7, 8, 9, 1, 2], 3, 1, 3),
        result=[7, 8, 9],
        steps=(
            "The last 3 tokens are 9, 1, 2. They occur nowhere else.",
            "The last 2 tokens are 1, 2. They occur at positions 1 and 2.",
            "The 3 tokens after them are 7, 8 and 9.",
        ),
    ),
    hints=(
        "Try one n first: the last n tokens are `token_ids[len(token_ids) - n:]`. At which "
        "positions may an earlier copy begin?",
        "A copy that begins at `start` ends at `start + n`, which has to be before the end of the "
        "text. Go through the starts from the left and stop at the first copy.",
        "Two loops: n from `max_n` down to `min_n`, and `start` from 0 up to "
        "`len(token_ids) - n - 1`. The draft is the slice of k tokens from `start + n` on; a slice "
        "ends with the list.",
    ),
    right=(propose_ngram, by_ends, by_best_match),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "one earlier place",
            JUDGE.on(([5, 1, 2, 7, 8, 9, 1, 2], 3, 1, 3), ([3, 4, 5, 3], 2, 1, 1)),
        ),
        (
            "no earlier place",
            JUDGE.on(([1, 2, 3, 4], 2, 1, 3), ([7], 2, 1, 2), ([1, 2, 9, 2], 2, 2, 3)),
        ),
        (
            "the longest n-gram",
            JUDGE.on(
                ([2, 6, 1, 2, 8, 1, 2], 2, 1, 3), ([9, 1, 2, 3, 5, 1, 2, 3, 4, 2, 3], 2, 2, 4)
            ),
        ),
        (
            "the earliest place",
            JUDGE.on(([1, 2, 3, 1, 2, 4, 1, 2], 2, 1, 2), ([5, 6, 5, 7, 5], 1, 1, 1)),
        ),
        (
            "the end of the text",
            JUDGE.on(
                ([4, 4, 4], 3, 1, 2),
                ([8, 1, 8], 5, 1, 2),
                ([4] * 6, 2, 2, 3),
                (LONG, 12, 9, 10),
                (LONG, 3, 10, 12),
            ),
        ),
        ("any text", JUDGE.on_drawn(any_texts)),
    ),
    equivalent_mutants={
        "k at least 1": "it is at least 1",
        "min_n at least 1": "it is at least 1",
        "max_n at least 1": "it is at least 1",
    },
)

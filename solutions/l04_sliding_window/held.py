"""Exercise 4.3: what a step holds at its height, and after it."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from course.checks.comparing import Args, Comparison, whole_number
from course.exercise import Exercise, Misconception
from course.format_values import named
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def held(cursor: int, num_tokens: int, window: int | None, sinks: int) -> tuple[int, int]:
    """Return `(peak, end)`: the KV tokens a request holds at the height of a step and after it."""
    # A chunk's tokens attend to what was kept and to each other, so all of that is in memory at
    # once: the peak. To count only the end is to promise memory that is not there.
    if window is None:
        return cursor + num_tokens, cursor + num_tokens
    limit = sinks + window
    return min(cursor, limit) + num_tokens, min(cursor + num_tokens, limit)


def by_listing(cursor: int, num_tokens: int, window: int | None, sinks: int) -> tuple[int, int]:
    def kept(computed: int) -> list[int]:
        if window is None:
            return list(range(computed))
        return [i for i in range(computed) if i < sinks or i >= computed - window]

    return len(kept(cursor)) + num_tokens, len(kept(cursor + num_tokens))


def by_sorting(cursor: int, num_tokens: int, window: int | None, sinks: int) -> tuple[int, int]:
    def kept(computed: int) -> int:
        return computed if window is None else sorted((computed, sinks + window))[0]

    return kept(cursor) + num_tokens, kept(cursor + num_tokens)


def by_what_is_evicted(
    cursor: int, num_tokens: int, window: int | None, sinks: int
) -> tuple[int, int]:
    total = cursor + num_tokens
    if window is None:
        return total, total
    gone_before = max(0, cursor - window - sinks)
    gone_after = max(0, total - window - sinks)
    return total - gone_before, total - gone_after


def with_numpy(cursor: int, num_tokens: int, window: int | None, sinks: int) -> Any:
    limit = np.inf if window is None else window + sinks
    before, after = np.minimum([cursor, cursor + num_tokens], limit)
    return [before + num_tokens, after]


# --- wrong ideas --------------------------------------------------------------------------------


def under(rule: Callable[[int, int, int], tuple[int, ...]]) -> Callable[..., tuple[int, ...]]:
    """Right without a window; with one, rule(cursor, num_tokens, sinks + window)."""
    return lambda cursor, n, window, sinks: (
        held(cursor, n, None, 0) if window is None else rule(cursor, n, sinks + window)
    )


def at_most(limit: Callable[[int, int], int]) -> Callable[..., tuple[int, int]]:
    """Right but for what is kept at most, limit(window, sinks)."""
    return lambda cursor, n, window, sinks: held(
        cursor, n, None if window is None else limit(window, sinks), 0
    )


def sinks_on_top(cursor: int, n: int, window: int | None, sinks: int) -> tuple[int, int]:
    peak, end = held(cursor, n, window, 0)
    return (peak, end) if window is None else (peak + sinks, end + sinks)


MISCONCEPTIONS = (
    Misconception(
        "not_two",
        "What counts is the peak.",
        "Return two numbers: `return peak, end`.",
        form=lambda value: type(value) is not tuple or len(value) != 2,
        also=(lambda *args: held(*args)[0],),
    ),
    Misconception(
        "not_int",
        "On average over its chunk a step holds half of it.",
        lambda value: next(problem[1] for part in value if (problem := whole_number(part))),
        form=lambda value: any(map(whole_number, value)),
        also=(lambda cursor, n, window, sinks: (cursor + n / 2, cursor + n),),
    ),
    Misconception(
        "chunk_not_counted",
        "A request with a window of W holds at most W.",
        "Nothing can be evicted before the step has used it, so at its height the whole chunk "
        "is held on top of what was kept: an engine that counts less runs out of memory.",
        under(lambda cursor, n, limit: (min(cursor + n, limit),) * 2),
    ),
    Misconception(
        "full_length",
        "A request holds the K/V of its text.",
        "What was evicted is no longer held: however long the text, at most sinks + window "
        "tokens are kept after a step.",
        lambda cursor, n, window, sinks: (cursor + n, cursor + n),
    ),
    Misconception(
        "forgets_earlier_evictions",
        "The peak is before eviction, so nothing is evicted at it.",
        "Of the `cursor` tokens of earlier steps, all but sinks + window were evicted then; "
        "the peak adds the chunk to what was kept.",
        under(lambda cursor, n, limit: (cursor + n, min(cursor + n, limit))),
    ),
    Misconception(
        "evicts_token_by_token",
        "Each token of the chunk pushes out an old one.",
        "A chunk's K/V are computed together, so they are all there before the first of them "
        "can be evicted: the peak is what was kept and the whole chunk.",
        under(lambda cursor, n, limit: (min(cursor + n, limit + 1), min(cursor + n, limit))),
    ),
    Misconception(
        "chunk_alone",
        "The step's memory is the chunk's.",
        "The chunk's tokens attend to what was kept of the past, so that is held beside the "
        "chunk at the height of the step.",
        under(lambda cursor, n, limit: (n, min(cursor + n, limit))),
    ),
    Misconception(
        "never_evicts_in_this_step",
        "This chunk is evicted in the next step.",
        "After the step the chunk's own tokens are evicted too, as far as they have left the "
        "window: the end is at most sinks + window.",
        under(lambda cursor, n, limit: (min(cursor, limit) + n,) * 2),
    ),
    Misconception(
        "no_sinks",
        "Sinks are so few that they do not count.",
        "The sinks are kept besides the window and take memory like any other token: the "
        "limit is sinks + window.",
        at_most(lambda window, sinks: window),
    ),
    Misconception(
        "sinks_on_top",
        "The sinks are held as well.",
        "In a short text the sinks lie inside the window: add sinks to the limit, not to the "
        "number of tokens that are there.",
        sinks_on_top,
    ),
    Misconception(
        "one_too_many",
        "A query sees W + 1 keys, so W + 1 are held.",
        "A query sees W + 1 keys, but one of them is its own, new in its step: between steps "
        "W are kept, besides the sinks.",
        at_most(lambda window, sinks: window + sinks + 1),
    ),
    Misconception(
        "one_too_few",
        "Room is made for the next token.",
        "The window keeps all of its W tokens between steps; here it is one short.",
        at_most(lambda window, sinks: window + sinks - 1),
    ),
    Misconception(
        "none_is_zero",
        "None is a window of 0.",
        "A `window` of None means that nothing is ever evicted: every computed token is held.",
        lambda cursor, n, window, sinks: held(cursor, n, window or 0, sinks),
    ),
    Misconception(
        "changed_places",
        "After the step, and at its height.",
        "The two numbers changed places: first the peak, which is never less than the end.",
        lambda *args: held(*args)[::-1],
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_step(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for _ in range(80):
        window = rng.choice((None, *range(1, 12)))
        cases.append(
            (rng.randint(0, 30), rng.choice((1, rng.randint(1, 30))), window, rng.choice((0, 2, 9)))
        )
    cases.append((rng.randint(300, 900), rng.randint(100, 300), rng.randint(50, 100), 5))
    cases.append((rng.randint(3000, 5000), rng.randint(1, 300), None, 2))
    return sorted(cases, key=lambda args: args[0] + args[1])


JUDGE = Comparison(
    held,
    MISCONCEPTIONS,
    "The peak is what is in memory when all of the chunk has come and nothing has gone for "
    "it; the end is what is left once eviction is done.",
    evidence=[
        (0, 40, 20, 0), (32, 8, 20, 4), (60, 1, 20, 4), (5, 1, 20, 4), (22, 1, 20, 4),
        (16, 16, 20, 2), (60, 30, 20, 4), (7, 3, None, 2), (100, 16, 5, 3),
    ],
)  # fmt: skip

EXERCISE = Exercise(
    number=3,
    title="What a step really holds",
    minutes=8,
    points=2,
    part="held",
    task=Task(
        signature="held(cursor: int, num_tokens: int, window: int | None, sinks: int) "
        "-> tuple[int, int]",
        rules=(
            "The first `cursor` tokens of a request were computed in earlier steps, and what "
            "is not kept of them was evicted then.",
            "This step computes the next `num_tokens` (at least 1): the K/V of all of them is "
            "added before anything is evicted.",
            "After a step the first `sinks` positions (0 or more) and the last `window` (at "
            "least 1) are kept, as far as there are that many.",
            "A `window` of None means that nothing is ever evicted.",
            "Returns `(peak, end)`: the KV tokens that the request holds at the height of the "
            "step, and after it.",
        ),
        args=(10, 4, 6, 2),
        result=(12, 8),
    ),
    hints=(
        "A prompt of 40 tokens comes in one chunk and the window is 20. What is in memory "
        "while the model computes it?",
        "What was held before the step? The chunk comes on top of that; only then is evicted "
        "down to what is kept.",
        "Call the most that is kept after a step the limit. What was held before the step "
        "follows from `cursor` and the limit, and what is held after it from all computed "
        "tokens and the limit, in the same way. Without a window there is no limit.",
    ),
    right=(held, by_listing, by_sorting, by_what_is_evicted, with_numpy),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("texts that fit into the window", JUDGE.on((0, 3, 8, 0), (5, 1, 8, 0), (0, 4, 8, 2))),
        (
            "chunks",
            JUDGE.on((0, 40, 20, 0), (16, 16, 20, 0), (32, 8, 20, 4), (0, 24, 20, 4)),
        ),
        (
            "decodes",
            JUDGE.on((20, 1, 20, 0), (60, 1, 20, 0), (19, 1, 20, 0), (60, 1, 20, 4)),
        ),
        ("no window", JUDGE.on((0, 5, None, 0), (30, 1, None, 0), (7, 3, None, 2))),
        ("any step", JUDGE.on_drawn(any_step)),
    ),
    draw_call=named("cursor", "num_tokens", "window", "sinks"),
    still_right={
        "num_tokens at least 1": "it is at least 1",
        "window at least 1": "it is at least 1",
    },
)

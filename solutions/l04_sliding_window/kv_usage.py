"""Exercise 4.3: what a step holds at its height, and after it."""

import random
from collections.abc import Callable

from course.checks.comparing import Args, Comparison, whole_number
from course.exercise import Exercise, Misconception
from course.format_values import named
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def kv_usage(
    num_computed_tokens: int, num_scheduled_tokens: int, window: int | None, sinks: int
) -> tuple[int, int]:
    """Return `(peak, end)`: the KV tokens a request holds at the height of a step and after it."""
    # A chunk's tokens attend to what was kept and to each other, so all of that is in memory at
    # once: the peak. To count only the end is to promise memory that is not there.
    total = num_computed_tokens + num_scheduled_tokens
    if window is None:
        return total, total
    limit = sinks + window
    return min(num_computed_tokens, limit) + num_scheduled_tokens, min(total, limit)


def by_listing(computed: int, scheduled: int, window: int | None, sinks: int) -> tuple[int, int]:
    def kept(computed: int) -> list[int]:
        if window is None:
            return list(range(computed))
        return [i for i in range(computed) if i < sinks or i >= computed - window]

    return len(kept(computed)) + scheduled, len(kept(computed + scheduled))


def by_what_is_evicted(
    computed: int, scheduled: int, window: int | None, sinks: int
) -> tuple[int, int]:
    total = computed + scheduled
    if window is None:
        return total, total
    gone_before = max(0, computed - window - sinks)
    gone_after = max(0, total - window - sinks)
    return total - gone_before, total - gone_after


# --- wrong ideas --------------------------------------------------------------------------------


def under(rule: Callable[[int, int, int], tuple[int, ...]]) -> Callable[..., tuple[int, ...]]:
    """Right without a window; with one, rule(computed, new, sinks + window)."""
    return lambda computed, new, window, sinks: (
        kv_usage(computed, new, None, 0) if window is None else rule(computed, new, sinks + window)
    )


def at_most(limit: Callable[[int, int], int]) -> Callable[..., tuple[int, int]]:
    """Right but for what is kept at most, limit(window, sinks)."""
    return lambda computed, new, window, sinks: kv_usage(
        computed, new, None if window is None else limit(window, sinks), 0
    )


MISCONCEPTIONS = (
    Misconception(
        "not_two",
        "What counts is the peak.",
        "Return two numbers: `return peak, end`.",
        matches=lambda value: type(value) is not tuple or len(value) != 2,
        examples=(lambda *args: kv_usage(*args)[0],),
    ),
    Misconception(
        "not_int",
        "On average over its chunk a step holds half of it.",
        lambda value: next(problem[1] for part in value if (problem := whole_number(part))),
        matches=lambda value: any(map(whole_number, value)),
        examples=(lambda computed, new, window, sinks: (computed + new / 2, computed + new),),
    ),
    Misconception(
        "chunk_not_counted",
        "A request with a window of W holds at most W.",
        "Nothing can be evicted before the step has used it, so at its height the whole chunk is "
        "held on top of what was kept: an engine that counts less runs out of memory.",
        under(lambda computed, new, limit: (min(computed + new, limit),) * 2),
    ),
    Misconception(
        "full_length",
        "A request holds the K/V of its text.",
        "What was evicted is no longer held: however long the text, at most sinks + window tokens "
        "are kept after a step.",
        lambda computed, new, window, sinks: (computed + new, computed + new),
    ),
    Misconception(
        "forgets_earlier_evictions",
        "The peak is before eviction, so nothing is evicted at it.",
        "Of the `num_computed_tokens` tokens of earlier steps, all but sinks + window were evicted "
        "then; the peak adds the chunk to what was kept.",
        under(lambda computed, new, limit: (computed + new, min(computed + new, limit))),
    ),
    Misconception(
        "never_evicts_in_this_step",
        "This chunk is evicted in the next step.",
        "After the step the chunk's own tokens are evicted too, as far as they have left the "
        "window: the end is at most sinks + window.",
        under(lambda computed, new, limit: (min(computed, limit) + new,) * 2),
    ),
    Misconception(
        "no_sinks",
        "Sinks are so few that they do not count.",
        "The sinks are kept besides the window and take memory like any other token: the limit is "
        "sinks + window.",
        at_most(lambda window, sinks: window),
    ),
    Misconception(
        "one_too_many",
        "A query sees W + 1 keys, so W + 1 are held.",
        "A query sees W + 1 keys, but one of them is its own, new in its step: between steps W are "
        "kept, besides the sinks.",
        at_most(lambda window, sinks: window + sinks + 1),
    ),
    Misconception(
        "none_is_zero",
        "None is a window of 0.",
        "A `window` of None means that nothing is ever evicted: every computed token is held.",
        lambda computed, new, window, sinks: kv_usage(computed, new, window or 0, sinks),
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
    kv_usage,
    MISCONCEPTIONS,
    "The peak is what is in memory when all of the chunk has come and nothing has gone for it; the "
    "end is what is left once eviction is done.",
    evidence=[
        (0, 40, 20, 0), (32, 8, 20, 4), (60, 1, 20, 4), (5, 1, 20, 4), (22, 1, 20, 4),
        (16, 16, 20, 2), (60, 30, 20, 4), (7, 3, None, 2), (100, 16, 5, 3),
    ],
)  # fmt: skip

EXERCISE = Exercise(
    number=3,
    title="KV tokens at the peak of a step and after it",
    minutes=8,
    points=2,
    part="kv_usage",
    task=Task(
        signature="kv_usage(num_computed_tokens: int, num_scheduled_tokens: int, window: int | "
        "None, sinks: int) -> tuple[int, int]",
        rules=(
            "The first `num_computed_tokens` tokens of a request were computed in earlier steps, "
            "and what is not kept of them was evicted then.",
            "This step computes the next `num_scheduled_tokens` (at least 1): the K/V of all of "
            "them is added before anything is evicted.",
            "After a step the first `sinks` positions (0 or more) and the last `window` (at least "
            "1) are kept, as far as there are that many.",
            "A `window` of None means that nothing is ever evicted.",
            "Returns `(peak, end)`: the KV tokens that the request holds at the height of the "
            "step, and after it.",
        ),
        args=(10, 4, 6, 2),
        result=(12, 8),
    ),
    hints=(
        "A prompt of 40 tokens comes in one chunk and the window is 20. What is in memory while "
        "the model computes it?",
        "What was held before the step? The chunk comes on top of that; only then is evicted down "
        "to what is kept.",
        "Call the most that is kept after a step the limit. What was held before the step follows "
        "from `num_computed_tokens` and the limit, and what is held after it from all computed "
        "tokens and the limit, in the same way. Without a window there is no limit.",
    ),
    right=(kv_usage, by_listing, by_what_is_evicted),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("texts that fit into the window", JUDGE.on((0, 3, 8, 0), (5, 1, 8, 0), (0, 4, 8, 2))),
        ("chunks", JUDGE.on((0, 40, 20, 0), (16, 16, 20, 0), (32, 8, 20, 4), (0, 24, 20, 4))),
        ("decodes", JUDGE.on((20, 1, 20, 0), (60, 1, 20, 0), (19, 1, 20, 0), (60, 1, 20, 4))),
        ("no window", JUDGE.on((0, 5, None, 0), (30, 1, None, 0), (7, 3, None, 2))),
        ("any step", JUDGE.on_drawn(any_step)),
    ),
    draw_call=named("num_computed_tokens", "num_scheduled_tokens", "window", "sinks"),
    equivalent_mutants={
        "num_scheduled_tokens at least 1": "it is at least 1",
        "window at least 1": "it is at least 1",
    },
)

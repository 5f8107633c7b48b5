"""Exercise 4.3: the KV tokens of a request at the peak of a step, and after it."""

import random
from collections.abc import Callable

from course.checks.comparing import Args, Comparison, wrong_number
from course.exercise import Exercise, Misconception, Task
from course.format_values import named

# --- right answers ------------------------------------------------------------------------------


def kv_usage(
    num_computed_tokens: int, num_scheduled_tokens: int, window: int | None, sinks: int
) -> tuple[int, int]:
    """Return `(peak, end)`: the KV tokens of a request at the peak of a step, and after it."""
    # The tokens of a chunk attend to the kept tokens and to each other, so all of them are in
    # memory at once: that is the peak. An engine that reserves only the end runs out of memory.
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


# --- wrong ideas --------------------------------------------------------------------------------


def under(rule: Callable[[int, int, int], tuple[int, ...]]) -> Callable[..., tuple[int, ...]]:
    """Right without a window; with one, rule(computed, new, sinks + window)."""
    return lambda computed, new, window, sinks: (
        kv_usage(computed, new, None, 0) if window is None else rule(computed, new, sinks + window)
    )


def at_most(limit: Callable[[int, int], int]) -> Callable[..., tuple[int, int]]:
    """Right, except that limit(window, sinks) tokens stay."""
    return lambda computed, new, window, sinks: kv_usage(
        computed, new, None if window is None else limit(window, sinks), 0
    )


MISCONCEPTIONS = (
    Misconception(
        "not_two",
        "Only the peak matters.",
        "Return two numbers: `return peak, end`.",
        matches=lambda value: type(value) is not tuple or len(value) != 2,
        examples=(lambda *args: kv_usage(*args)[0],),
    ),
    Misconception(
        "not_int",
        "On average a step holds half of its chunk.",
        lambda value: next(filter(None, map(wrong_number, value))),
        matches=lambda value: any(map(wrong_number, value)),
        examples=(lambda computed, new, window, sinks: (computed + new / 2, computed + new),),
    ),
    Misconception(
        "chunk_not_counted",
        "A request with a window of W holds at most W.",
        "The step evicts only after it has used the entries. At the peak the whole chunk is in "
        "memory in addition to the kept tokens; an engine that counts less runs out of memory.",
        under(lambda computed, new, limit: (min(computed + new, limit),) * 2),
    ),
    Misconception(
        "full_length",
        "A request holds the K/V of its whole text.",
        "Evicted tokens take no memory: after a step at most sinks + window tokens stay, however "
        "long the text.",
        lambda computed, new, window, sinks: (computed + new, computed + new),
    ),
    Misconception(
        "forgets_earlier_evictions",
        "The peak comes before eviction, so it counts every token.",
        "Earlier steps have already evicted all but sinks + window of the `num_computed_tokens` "
        "tokens. The peak adds the chunk to the tokens that stayed.",
        under(lambda computed, new, limit: (computed + new, min(computed + new, limit))),
    ),
    Misconception(
        "never_evicts_in_this_step",
        "The tokens of this chunk are evicted in the next step.",
        "Eviction at the end of this step includes the chunk's own tokens: at most sinks + window "
        "stay.",
        under(lambda computed, new, limit: (min(computed, limit) + new,) * 2),
    ),
    Misconception(
        "never_below_the_limit",
        "A request under a window holds sinks + window tokens.",
        "A short text holds no more tokens than it has: the limit of sinks + window is an upper "
        "bound, so take the smaller number.",
        under(lambda computed, new, limit: (min(computed, limit) + new, limit)),
        same_result=(under(lambda computed, new, limit: (limit + new, limit)),),
    ),
    Misconception(
        "no_sinks",
        "There are so few sinks that they do not count.",
        "The sinks stay in addition to the window and take memory like any other token: the limit "
        "is sinks + window.",
        at_most(lambda window, sinks: window),
    ),
    Misconception(
        "one_too_many",
        "A query sees W + 1 keys, so W + 1 are held.",
        "A query sees W + 1 keys, but one of them is its own, which its step adds. Between steps, "
        "the last W entries and the sinks stay.",
        at_most(lambda window, sinks: window + sinks + 1),
    ),
    Misconception(
        "none_is_zero",
        "None is a window of 0.",
        "A `window` of None means no window: nothing is evicted, and every computed token is held.",
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
    "The peak counts the tokens in memory before this step evicts; the end counts them after "
    "eviction.",
    evidence=[
        (0, 40, 20, 0), (32, 8, 20, 4), (60, 1, 20, 4), (5, 1, 20, 4), (22, 1, 20, 4),
        (16, 16, 20, 2), (60, 30, 20, 4), (7, 3, None, 2), (100, 16, 5, 3),
    ],
)  # fmt: skip

EXERCISE = Exercise(
    number=3,
    title="KV tokens at the peak of a step, and after it",
    minutes=8,
    points=2,
    task=Task(
        rules=(
            "Earlier steps computed the first `num_computed_tokens` tokens of a request, and each "
            "of these steps evicted at its end, as this step does.",
            "This step computes the next `num_scheduled_tokens` (at least 1). It adds the K/V of "
            "all of them before it evicts any.",
            "At the end of a step, at most the first `sinks` positions (0 or more) and the last "
            "`window` (at least 1) stay. With a `window` of None, nothing is evicted.",
            "Returns `(peak, end)`: the KV tokens of the request at the peak of this step, and "
            "after it.",
        ),
        args=(10, 4, 6, 2),
        result=(12, 8),
        call="kv_usage(num_computed_tokens=10, num_scheduled_tokens=4, window=6, sinks=2)",
        steps=(
            "Of the 10 computed tokens, 2 sinks and 6 in the window are still held: 8.",
            "The chunk of 4 comes on top: the peak is 12.",
            "At the end of the step, 2 + 6 stay again.",
        ),
    ),
    hints=(
        "A prompt of 40 tokens is computed in one chunk, and the window is 20. How many KV tokens "
        "are in memory while the model runs?",
        "How many tokens were left before this step? The chunk comes on top of them, and only then "
        "does the step evict.",
        "At most a certain number of tokens stay after a step. Use this limit twice: on "
        "`num_computed_tokens` for the tokens before the step, and on all computed tokens for the "
        "end. Without a window there is no limit.",
    ),
    right=(kv_usage, by_listing),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("texts shorter than the window", JUDGE.on((0, 3, 8, 0), (5, 1, 8, 0), (0, 4, 8, 2))),
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

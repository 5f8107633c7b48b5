"""Exercise 8b.4: whether a token comes too late."""

import random

from course.calling.plain_values import as_truth
from course.checks.comparing import Args, Comparison, a_kind
from course.exercise import Exercise, Misconception, Task
from course.format_values import named

# --- right answers ------------------------------------------------------------------------------


def must_close(distance: int, tokens_left: int) -> bool:
    """Return whether the text has to close instead of taking a token that leads so far away."""
    # The token itself is one of those that are left. Behind it, `distance` more are needed.
    return distance >= tokens_left


def by_what_is_needed(distance: int, tokens_left: int) -> bool:
    return 1 + distance > tokens_left


# --- wrong ideas --------------------------------------------------------------------------------

MISCONCEPTIONS = (
    Misconception(
        "no_bool", "Return by how many tokens it is too late.",
        lambda value: f"Return True or False, not {a_kind(value)}.",
        matches=lambda value: as_truth(value) is None,
        examples=(lambda distance, tokens_left: distance - tokens_left + 1,),
    ),
    Misconception(
        "token_is_free", "The distance has to fit into the tokens that are left.",
        "The token itself takes one of the tokens that are left.",
        lambda distance, tokens_left: distance > tokens_left,
    ),
    Misconception(
        "one_to_spare", "It is safer to close one token early.",
        "This forbids a token that still fits: then legal texts of exactly this length are never "
        "written, and a text whose shortest form just fits cannot even begin.",
        lambda distance, tokens_left: distance + 1 >= tokens_left,
    ),
    Misconception(
        "only_the_last", "Only the last token matters.",
        "An end may need many tokens: with one token left it is too late to begin.",
        lambda distance, tokens_left: tokens_left == 1 and distance > 0,
    ),
    Misconception(
        "inverted", "Return whether the token still fits.",
        "Return True when the token does **not** fit.",
        lambda distance, tokens_left: distance < tokens_left,
    ),
    Misconception(
        "never", "The sampler finds an end by itself.",
        "Without closing in time, a text that goes on too long is cut, and does not match.",
        lambda distance, tokens_left: False,
    ),
)  # fmt: skip


def any_sizes(rng: random.Random) -> list[Args]:
    return [(d, max(1, d + rng.randint(-3, 3))) for d in (rng.randint(0, 40) for _ in range(40))]


JUDGE = Comparison(
    must_close, MISCONCEPTIONS,
    "Count: the token itself, and the tokens from there to the nearest end. Do they fit?",
    evidence=[(d, left) for d in range(5) for left in range(1, 6)],
)  # fmt: skip

EXERCISE = Exercise(
    number=4,
    title="Close in time",
    minutes=4,
    points=2,
    task=Task(
        rules=(
            "The engine asks about each legal token before it is sampled. `distance` is the least "
            "number of tokens from the state **after** this token to an end; 0 at an end.",
            "`tokens_left`, at least 1, is how many tokens the request may still generate, this "
            "one included.",
            "Returns True if the token comes too late, because the text could no longer be closed. "
            "The engine then masks it.",
        ),
        args=(3, 3),
        result=True,
        steps=(
            "The token takes 1 of the 3 tokens. The 2 others are not enough for a distance of 3.",
        ),
    ),
    hints=(
        "How many tokens are left once this one is sampled?",
        "Compare the tokens that are needed, this one and `distance` more, with `tokens_left`.",
        "`1 + distance` tokens are needed. When is that more than `tokens_left`?",
    ),
    right=(must_close, by_what_is_needed),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("far from an end", JUDGE.on((3, 3), (3, 2), (9, 1))),
        ("still in time", JUDGE.on((3, 5), (2, 3))),
        ("at an end", JUDGE.on((0, 1), (0, 9))),
        ("any sizes", JUDGE.on_drawn(any_sizes)),
    ),
    draw_call=named("distance", "tokens_left"),
    equivalent_mutants={"tokens_left at least 1": "it is at least 1"},
)

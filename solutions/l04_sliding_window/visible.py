"""Exercise 4.1: which keys a query may see through a window."""

import random
from collections.abc import Callable

from course.calling.plain_values import as_truth
from course.checks.comparing import Args, Comparison, a_kind
from course.exercise import Exercise, Misconception, Task
from course.format_values import named

# --- right answers ------------------------------------------------------------------------------


def visible(query: int, key: int, window: int | None, sinks: int) -> bool:
    """Return whether the token at position `query` may attend to the one at position `key`."""
    # The rule uses positions only, no chunk, step or cache. So the text cannot depend on how the
    # engine divides its work.
    if key > query:
        return False
    return window is None or key < sinks or query - key <= window


def by_listing(query: int, key: int, window: int | None, sinks: int) -> bool:
    past = range(query + 1)
    if window is None:
        return key in past
    return key in past[:sinks] or key in past[-(window + 1) :]


# --- wrong ideas --------------------------------------------------------------------------------


def reaching(reach: Callable[[int, int], int]) -> Callable[..., bool]:
    """A window that reaches reach(window, sinks) positions back."""
    return lambda query, key, window, sinks: visible(
        query, key, None if window is None else reach(window, sinks), sinks
    )


def near(distance: Callable[[int], int]) -> Callable[..., bool]:
    """A window that ignores whether the key comes later; `distance` is applied to query - key."""
    return lambda query, key, window, sinks: (
        key <= query if window is None else key < sinks or distance(query - key) <= window
    )


def by_chunks(size: int | None, reach: Callable[[int], int]) -> Callable[..., bool]:
    """A query looks back reach(window) positions from the start of its chunk of `size` tokens.

    A `size` of None means chunks as long as the window.
    """

    def answer(query: int, key: int, window: int | None, sinks: int) -> bool:
        if window is None or key > query or key < sinks:
            return visible(query, key, window, sinks)
        return key >= query - query % (size or window) - reach(window)

    return answer


MISCONCEPTIONS = (
    Misconception(
        "not_bool",
        "1 and 0 are as good as True and False.",
        lambda value: f"Return True or False, not {a_kind(value)}.",
        matches=lambda value: as_truth(value) is None,
        examples=(lambda *args: int(visible(*args)),),
    ),
    Misconception(
        "future",
        "A key near the query is visible.",
        "A window looks back only. A key later than the query is hidden, and query - key is "
        "negative there.",
        near(abs),
        same_result=(near(int),),
    ),
    Misconception(
        "w_keys",
        "A window of W has W keys, including the query's own.",
        "In this course a query sees itself and the W positions before it, W + 1 keys: a key at a "
        "distance of exactly W is visible. (Mistral's W includes the token itself.)",
        reaching(lambda window, sinks: window - 1),
    ),
    Misconception(
        "no_sinks",
        "A token that has left the window is hidden.",
        "The first `sinks` positions stay visible however far back they are.",
        lambda query, key, window, sinks: visible(query, key, window, 0),
        same_result=(
            lambda query, key, window, sinks: visible(
                query, key, window, sinks if query >= sinks else 0
            ),
        ),
    ),
    Misconception(
        "sinks_too_early",
        "The sinks are always visible.",
        "Sinks are causal too: a sink that comes after the query is hidden from it.",
        lambda query, key, window, sinks: key < sinks or visible(query, key, window, sinks),
    ),
    Misconception(
        "one_sink_more",
        "The sinks are the positions up to `sinks`.",
        "Positions start at 0, so the sinks are the positions below `sinks`. Position `sinks` is "
        "not a sink.",
        lambda query, key, window, sinks: visible(query, key, window, sinks + 1),
    ),
    Misconception(
        "sinks_and_window",
        "The window counts all visible keys, sinks included.",
        "The sinks come on top of the window: it reaches W positions back for any number of sinks.",
        reaching(lambda window, sinks: window - sinks),
        same_result=(reaching(lambda window, sinks: window + sinks),),
    ),
    Misconception(
        "no_window",
        "A causal mask is enough.",
        "`window` limits how far a query looks back. Here the query sees every earlier position.",
        lambda query, key, window, sinks: key <= query,
    ),
    Misconception(
        "none_sees_nothing",
        "None is a window of 0.",
        "A `window` of None means no window: every position up to the query's own is visible.",
        lambda query, key, window, sinks: visible(query, key, window or 0, sinks),
    ),
    Misconception(
        "not_itself",
        "A token attends to the tokens before it.",
        "A token attends to itself as well: a key at a distance of 0 is visible.",
        lambda query, key, window, sinks: key != query and visible(query, key, window, sinks),
    ),
    Misconception(
        "per_chunk",
        "A whole chunk sees the entries that were left when it began.",
        "The window is relative to the query's own position. Here the text would change with the "
        "chunk size.",
        by_chunks(8, lambda window: window),
        same_result=(by_chunks(4, lambda window: window),),
    ),
    Misconception(
        "blocks",
        "A window is a block of W positions.",
        "The window slides: it reaches W positions back from each query and has no fixed borders.",
        by_chunks(None, lambda window: 0),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def all_pairs(length: int, window: int | None, sinks: int) -> list[Args]:
    """Every query of a short text with every key."""
    return [(query, key, window, sinks) for query in range(length) for key in range(length)]


def any_pair(rng: random.Random) -> list[Args]:
    cases: list[Args] = [(40, key, 3, 10) for key in (8, 9, 10, 37)]
    for _ in range(24):
        window, sinks, query = rng.randint(1, 12), rng.randint(0, 10), rng.randint(0, 60)
        edge = max(0, query - window)
        keys = (edge, max(0, edge - 1), sinks, rng.randint(0, query))
        cases += [(query, key, window, sinks) for key in keys]
    for _ in range(5):
        query, key = rng.sample(range(5000), 2)
        cases.append((query, key, None, rng.randint(0, 3)))
    return sorted(cases, key=lambda args: args[0])


JUDGE = Comparison(
    visible,
    MISCONCEPTIONS,
    "A later key is hidden. Any other is visible if there is no window, if it is a sink, or if it "
    "is at most `window` positions back, the query itself included.",
    evidence=[
        *((query, key, 3, 2) for query in (1, 9) for key in range(11)),
        *((query, key, 4, 0) for query in (11, 12) for key in range(5, 14)),
        *((39, key, 4, 0) for key in (0, 20, 27, 28, 31, 32, 35, 36)),
        (1, 3, None, 0),
        (3, 1, None, 0),
    ],
)

EXERCISE = Exercise(
    number=1,
    title="Which keys a token sees",
    minutes=8,
    points=2,
    task=Task(
        rules=(
            "Returns whether the token at position `query` may attend to the token at position "
            "`key`. Positions start at 0.",
            "With a `window` of W (at least 1), a query sees itself, the W positions before it and "
            "the sinks, which are the first `sinks` positions of the text (0 or more).",
            "It never sees a position later than its own.",
            "A `window` of None means no window: a query sees every position up to its own.",
        ),
        args=(7, 3, 3, 1),
        result=False,
        call="visible(query=7, key=3, window=3, sinks=1)",
        steps=(
            "A window of 3 shows query 7 the keys 4, 5, 6 and 7.",
            "One sink adds key 0. Key 3 is in neither group.",
        ),
    ),
    hints=(
        "Which keys does query 9 see with a window of 3? How many are there, and how far back is "
        "the oldest one?",
        "Ask in this order: is the key later than the query? Is there a window? If so, is the key "
        "a sink, or near enough?",
        "Return False for a later key. Then return True if `window` is None. Otherwise compare the "
        "key with `sinks` and the distance query - key with `window`: it is enough if one of the "
        "two makes the key visible.",
    ),
    right=(visible, by_listing),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("a window without sinks", JUDGE.on(*all_pairs(6, 2, 0))),
        ("a window and sinks", JUDGE.on(*all_pairs(7, 2, 2), (5, 1, 2, 8))),
        ("no window", JUDGE.on(*all_pairs(4, None, 0), *all_pairs(3, None, 1))),
        ("any query and any key", JUDGE.on_drawn(any_pair)),
    ),
    draw_call=named("query", "key", "window", "sinks"),
    equivalent_mutants={"window at least 1": "it is at least 1"},
)

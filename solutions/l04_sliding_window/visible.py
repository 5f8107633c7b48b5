"""Exercise 4.1: which keys a query may see through a window."""

import random
from collections.abc import Callable

from course.calling.plain_values import as_truth
from course.checks.comparing import Args, Comparison, a_kind
from course.exercise import Exercise, Misconception
from course.format_values import named
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def visible(query: int, key: int, window: int | None, sinks: int) -> bool:
    """Return whether the token at position `query` may attend to the one at position `key`."""
    # Nothing but positions: no chunk, no step, no cache. That is why the text cannot depend on how
    # the engine cuts its work.
    if key > query:
        return False
    return window is None or key < sinks or query - key <= window


def by_cases(query: int, key: int, window: int | None, sinks: int) -> bool:
    distance = query - key
    if distance < 0:
        return False
    if window is None or distance <= window:
        return True
    return key < sinks


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


def near(distance: Callable[[int], int], sees_all: bool) -> Callable[..., bool]:
    """A window that does not ask whether the key comes later; `distance` is of query - key.

    Without a window a query `sees_all`, or what it can look back on.
    """

    def answer(query: int, key: int, window: int | None, sinks: int) -> bool:
        if window is None:
            return sees_all or key <= query
        return key < sinks or distance(query - key) <= window

    return answer


def by_chunks(size: int | None, reach: Callable[[int], int]) -> Callable[..., bool]:
    """A query looks back reach(window) positions from the start of its chunk of `size` tokens.

    A `size` of None is that of the window.
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
        lambda value: f"The answer is True or False, not {a_kind(value)}.",
        matches=lambda value: as_truth(value) is None,
        examples=(lambda *args: int(visible(*args)),),
    ),
    Misconception(
        "future",
        "Near is near.",
        "A window looks back only: a key later than the query stays hidden, however near, and "
        "query - key is negative there.",
        near(abs, sees_all=False),
        same_result=(near(int, sees_all=False),),
    ),
    Misconception(
        "w_keys",
        "A window of W holds W keys, the query's own among them.",
        "A query sees itself and the W positions before it, W + 1 keys: at a distance of exactly W "
        "a key is still visible.",
        reaching(lambda window, sinks: window - 1),
    ),
    Misconception(
        "no_sinks",
        "What has left the window is gone.",
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
        "Sinks are no exception from causality: a sink that comes after the query is not there "
        "yet.",
        lambda query, key, window, sinks: key < sinks or visible(query, key, window, sinks),
    ),
    Misconception(
        "one_sink_more",
        "The sinks are the positions up to `sinks`.",
        "Positions count from 0, so the sinks are the positions below `sinks`; position `sinks` "
        "itself is none.",
        lambda query, key, window, sinks: visible(query, key, window, sinks + 1),
    ),
    Misconception(
        "sinks_and_window",
        "The window is what is kept in all, sinks included.",
        "The sinks come on top of the window: it reaches W positions back whatever their number.",
        reaching(lambda window, sinks: window - sinks),
        same_result=(reaching(lambda window, sinks: window + sinks),),
    ),
    Misconception(
        "no_window",
        "A causal mask is what hides.",
        "`window` limits how far a query looks back; here it sees every earlier position.",
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
        "A token looks at the tokens before it.",
        "A token attends to itself as well: at a distance of 0 a key is visible.",
        lambda query, key, window, sinks: key != query and visible(query, key, window, sinks),
    ),
    Misconception(
        "per_chunk",
        "What an earlier chunk's end evicted is gone; the chunk sees the rest.",
        "What a token sees must not depend on where a chunk begins or ends, or the text would "
        "change with the chunk size: the window goes back from the query's own position.",
        by_chunks(8, lambda window: window),
        same_result=(by_chunks(4, lambda window: window),),
    ),
    Misconception(
        "blocks",
        "A window is a block of W positions.",
        "The window slides: it goes back W positions from each query and does not wait for the "
        "next block to begin.",
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
    "A key is visible when the query may look back on it: a sink at any distance, any other only "
    "within the window.",
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
    title="What a token may see",
    minutes=8,
    points=2,
    part="visible",
    task=Task(
        signature="visible(query: int, key: int, window: int | None, sinks: int) -> bool",
        rules=(
            "Positions count from 0 in the text. Returns whether the token at position `query` may "
            "attend to the one at position `key`.",
            "With a `window` of W (at least 1), a query may attend to itself and to the W "
            "positions before it.",
            "It may also attend to the sinks, the first `sinks` positions of the text (0 or more).",
            "It may never attend to a position later than its own.",
            "A `window` of None means no window: a query may attend to all it can look back on.",
        ),
        args=(7, 3, 3, 1),
        result=False,
    ),
    hints=(
        "Write down the keys that query 7 sees with a window of 3: how many are they, and how far "
        "back is the last one?",
        "Three questions in this order: is the key later than the query? Is there a window at "
        "all? If so, is the key a sink, or near enough?",
        "The first question alone can answer False, and a window of None alone can then answer "
        "True. For the third, a sink is known by its own position, and nearness by the distance "
        "query - key: one of the two is enough.",
    ),
    right=(visible, by_cases, by_listing),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("a window alone", JUDGE.on(*all_pairs(6, 2, 0))),
        ("a window and sinks", JUDGE.on(*all_pairs(7, 2, 2), (5, 1, 2, 8))),
        ("no window", JUDGE.on(*all_pairs(4, None, 0), *all_pairs(3, None, 1))),
        ("any query and any key", JUDGE.on_drawn(any_pair)),
    ),
    draw_call=named("query", "key", "window", "sinks"),
    equivalent_mutants={"window at least 1": "it is at least 1"},
)

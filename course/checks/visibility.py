"""Judging what a query sees through a window: the rule, and the mistakes."""

from collections.abc import Callable
from typing import Any

from course.checks.comparing import Comparison, Mistake, a_kind, alike
from course.showing import named
from nanogpt.parts.plain_values import as_truth

_Visible = Callable[[int, int, "int | None", int], bool]


def _visible(query: int, key: int, window: int | None, sinks: int) -> bool:
    return key <= query and (window is None or key < sinks or query - key <= window)


def _moved(shift: int) -> _Visible:
    """A window that is `shift` positions too wide."""

    def answer(query: int, key: int, window: int | None, sinks: int) -> bool:
        return _visible(query, key, None if window is None else window + shift, sinks)

    return answer


def _with_sinks(sign: int) -> _Visible:
    """A window that the number of sinks makes wider or narrower."""

    def answer(query: int, key: int, window: int | None, sinks: int) -> bool:
        return _visible(query, key, None if window is None else window + sign * sinks, sinks)

    return answer


def _near(far: Callable[[int], int], sees_all: bool) -> _Visible:
    """A window that does not ask whether the key comes later; `far` measures the distance.

    Without a window a query `sees_all`, or what it can look back on.
    """

    def answer(query: int, key: int, window: int | None, sinks: int) -> bool:
        if window is None:
            return sees_all or key <= query
        return key < sinks or far(query - key) <= window

    return answer


def _gridded(size: int | None, kind: str) -> _Visible:
    """Visibility that depends on chunks of `size` tokens (None: of window tokens)."""

    def answer(query: int, key: int, window: int | None, sinks: int) -> bool:
        if window is None or key > query or key < sinks:
            return _visible(query, key, window, sinks)
        width = size or window
        start = query - query % width
        after = start + width - 1 - window
        return key >= {"before": start - window, "after": after, "blocks": start}[kind]

    return answer


_FUTURE = (
    "A window looks back only: a key later than the query stays hidden, however near, and "
    "query - key is negative there."
)
_PER_CHUNK = (
    "What a token sees must not depend on where a chunk begins or ends, or the text would change "
    "with the chunk size: the window goes back from the query's own position."
)
_BLOCKS = (
    "The window slides: it goes back W positions from each query and does not wait for the next "
    "block to begin."
)


def _truth(value: Any) -> tuple[str, str] | None:
    if as_truth(value) is not None:
        return None
    return "not_bool", f"The answer is True or False, not {a_kind(value)}."


VISIBLE: Comparison[_Visible] = Comparison(
    reference=_visible,
    mistakes=(
        *alike(
            "future",
            _FUTURE,
            *(_near(far, sees_all) for far in (int, abs) for sees_all in (False, True)),
        ),
        Mistake(
            "everything",
            "Every query sees everything here, what comes later in the text and what has left the "
            "window.",
            lambda query, key, window, sinks: True,
        ),
        Mistake(
            "w_keys",
            "A query sees itself and the W positions before it, W + 1 keys: at a distance of "
            "exactly W a key is still visible.",
            _moved(-1),
        ),
        Mistake(
            "one_key_more",
            "The window ends at a distance of W: itself and W before it make W + 1 keys, not "
            "W + 2.",
            _moved(1),
        ),
        Mistake(
            "no_sinks",
            "The first `sinks` positions stay visible however far back they are.",
            lambda query, key, window, sinks: _visible(query, key, window, 0),
        ),
        Mistake(
            "sinks_too_early",
            "Sinks are no exception from causality: a sink that comes after the query is not "
            "there yet.",
            lambda query, key, window, sinks: key < sinks or _visible(query, key, window, sinks),
        ),
        Mistake(
            "one_sink_more",
            "Positions count from 0, so the sinks are the positions below `sinks`; position "
            "`sinks` itself is none.",
            lambda query, key, window, sinks: _visible(query, key, window, sinks + 1),
        ),
        *(
            Mistake(
                "sinks_and_window",
                "The sinks come on top of the window: it reaches W positions back whatever their "
                "number.",
                _with_sinks(sign),
            )
            for sign in (-1, 1)
        ),
        Mistake(
            "no_window",
            "`window` limits how far a query looks back; here it sees every earlier position.",
            lambda query, key, window, sinks: key <= query,
        ),
        Mistake(
            "window_at_the_start",
            "The window goes along with the query; here it lies at the beginning of the text, "
            "behind the sinks.",
            lambda query, key, window, sinks: (
                key <= query and (window is None or key < sinks + window)
            ),
        ),
        Mistake(
            "none_sees_nothing",
            "A `window` of None means no window: every position up to the query's own is visible.",
            lambda query, key, window, sinks: _visible(query, key, window or 0, sinks),
        ),
        Mistake(
            "none_sees_the_future",
            "Without a window the future stays hidden all the same.",
            lambda query, key, window, sinks: window is None or _visible(query, key, window, sinks),
        ),
        Mistake(
            "not_itself",
            "A token attends to itself as well: at a distance of 0 a key is visible.",
            lambda query, key, window, sinks: key < query and _visible(query, key, window, sinks),
        ),
        Mistake(
            "changed_places",
            "Query and key changed places: the query looks, and the key is looked at.",
            lambda query, key, window, sinks: _visible(key, query, window, sinks),
        ),
        Mistake(
            "inverted",
            'True means "may attend"; here it says what is hidden.',
            lambda query, key, window, sinks: not _visible(query, key, window, sinks),
        ),
        *(
            Mistake("per_chunk", _PER_CHUNK, _gridded(size, kind))
            for size in (2, 3, 4, 5, 8, 16, None)
            for kind in ("before", "after")
        ),
        *(
            Mistake("blocks", _BLOCKS, _gridded(size, "blocks"))
            for size in (2, 3, 4, 5, 8, 16, None)
        ),
    ),
    idea="A key is visible when the query may look back on it: a sink at any distance, any other "
    "only within the window.",
    form=_truth,
    draw_call=named("query", "key", "window", "sinks"),
    evidence=[
        *((query, key, 3, 2) for query in (1, 9) for key in range(11)),
        *((query, key, 4, 0) for query in (11, 12) for key in range(5, 14)),
        *((39, key, 4, 0) for key in (0, 20, 27, 28, 31, 32, 35, 36)),
        (1, 3, None, 0), (3, 1, None, 0),
    ],
)  # fmt: skip

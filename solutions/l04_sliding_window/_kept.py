"""Which entries are kept of K/V, as people get it wrong."""

from collections.abc import Callable, Iterable

from course.exercise import Misconception
from solutions.l04_sliding_window._entries import Eviction, entries, keeping


def when_too_long(choose: Callable[[int, int, int], Iterable[int]]) -> Eviction:
    """All of a text that fits; else the entries that choose(length, window, sinks) names."""
    return keeping(
        lambda length, window, sinks: (
            range(length) if length <= sinks + window else choose(length, window, sinks)
        )
    )


EVICTIONS = (
    Misconception(
        "first_kept",
        "A cache of W entries: the first W.",
        "The window is the end of the text, where the next token will be: keep the last `window` "
        "entries, not the first.",
        keeping(lambda length, window, sinks: range(length)[: window + sinks]),
        same_result=(keeping(lambda length, window, sinks: range(length)[:window]),),
    ),
    Misconception(
        "nothing_dropped",
        "The mask hides what is too old; that is enough.",
        "Nothing was dropped here, although the entries between the sinks and the window will not "
        "be seen again.",
        keeping(lambda length, window, sinks: range(length)),
    ),
    Misconception(
        "one_per_call",
        "Every step brings one entry, so one goes.",
        "A chunk brings many entries at once, and here one call drops only one of them: drop all "
        "that are beyond sinks + window.",
        when_too_long(lambda length, window, sinks: [*range(sinks), *range(sinks + 1, length)]),
    ),
    Misconception(
        "one_too_many",
        "A query sees W + 1 keys, so W + 1 are kept.",
        "The next query sees W + 1 entries, but one of them is its own, which it brings along: "
        "keep W.",
        keeping(lambda length, window, sinks: entries(length, window + 1, sinks)),
    ),
    Misconception(
        "no_sinks",
        "The first tokens are the oldest, so they go first.",
        "The first `sinks` entries are kept as well: so much attention goes to them that the text "
        "breaks without them.",
        keeping(lambda length, window, sinks: entries(length, window, 0)),
        same_result=(keeping(lambda length, window, sinks: entries(length, window + sinks, 0)),),
    ),
    Misconception(
        "sinks_from_the_window",
        "The window is what is kept in all, sinks included.",
        "The sinks come on top of the window: the last `window` entries are kept whatever the "
        "number of sinks.",
        keeping(lambda length, window, sinks: entries(length, max(1, window - sinks), sinks)),
        same_result=(
            keeping(lambda length, window, sinks: entries(length, max(0, window - sinks), sinks)),
        ),
    ),
    Misconception(
        "twice",
        "The sinks and the window, one behind the other.",
        "In a text this short the sinks are part of the window; an entry that is there twice "
        "weighs twice in the softmax.",
        keeping(lambda length, window, sinks: [*range(length)[:sinks], *range(length)[-window:]]),
    ),
    Misconception(
        "wraps_around",
        "The window starts at index length - window.",
        "When the text is shorter than the window, length - window is negative, and a negative "
        "index counts from the end: entries were lost.",
        keeping(
            lambda length, window, sinks: (
                entries(length, window, sinks) if sinks else range(length)[length - window :]
            )
        ),
        same_result=(
            keeping(
                lambda length, window, sinks: [
                    *range(length)[:sinks],
                    *range(length)[length - window :],
                ]
            ),
        ),
    ),
    Misconception(
        "wrong_dimension",
        "[-W:] takes the last W.",
        "Entries are the middle dimension of (H, S, D); this cuts along the heads.",
        lambda k, v, window, sinks: (k[-window:], v[-window:]),
    ),
    Misconception(
        "wrong_dimension",
        "[..., -W:] takes the last W.",
        "Entries are the middle dimension of (H, S, D); this cuts the vectors themselves.",
        lambda k, v, window, sinks: (k[..., -window:], v[..., -window:]),
    ),
)

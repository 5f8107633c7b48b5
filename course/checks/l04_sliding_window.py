"""Checks of lesson 4, the sliding window."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args, Comparison, Mistake, a_kind, whole_number
from course.checks.readings import judge_readings, readings
from course.checks.windowing import (
    Case,
    Measured,
    case,
    draw_tensors,
    judge_entries,
    judge_memory,
    judge_slots,
    shown_bytes,
    storages,
)
from course.judging import Ask, Check, Failure, run_checks
from course.registry import Exercise
from course.report import Report
from course.showing import named

# --- visible ---------------------------------------------------------------------------------

_Visible = Callable[[int, int, "int | None", int], bool]


def _visible(query: int, key: int, window: int | None, sinks: int) -> bool:
    return key <= query and (window is None or key < sinks or query - key <= window)


def _as_number(query: int, key: int, window: int | None, sinks: int) -> Any:
    return int(_visible(query, key, window, sinks))


def _moved(shift: int) -> _Visible:
    """A window that is `shift` positions too wide."""

    def answer(query: int, key: int, window: int | None, sinks: int) -> bool:
        return _visible(query, key, None if window is None else window + shift, sinks)

    return answer


def _near(far: Callable[[int], int]) -> _Visible:
    """A window that does not ask whether the key comes later; `far` measures the distance."""

    def answer(query: int, key: int, window: int | None, sinks: int) -> bool:
        return key <= query if window is None else key < sinks or far(query - key) <= window

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

_NOT_BOOL = "The answer is True or False"
_VISIBLE: Comparison[_Visible] = Comparison(
    reference=_visible,
    mistakes=(
        Mistake(  # before all others, because 1 equals True
            "not_bool",
            f"{_NOT_BOOL}, not a number that stands for it.",
            _as_number,
        ),
        *(Mistake("future", _FUTURE, _near(far)) for far in (int, abs)),
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
        Mistake(
            "sinks_from_the_window",
            "The sinks come on top of the window: it reaches W positions back whatever their "
            "number.",
            lambda query, key, window, sinks: _visible(
                query, key, None if window is None else window - sinks, sinks
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
    idea="A key is visible when it is not later than the query, and lies at most W positions "
    "back or is one of the first `sinks`.",
    form=lambda value: (
        None if type(value) is bool else ("not_bool", f"{_NOT_BOOL}, not {a_kind(value)}.")
    ),
    draw_call=named("query", "key", "window", "sinks"),
    evidence=[
        *((query, key, 3, 2) for query in (1, 9) for key in range(11)),
        *((query, key, 4, 0) for query in (11, 12) for key in range(5, 14)),
        (1, 3, None, 0), (3, 1, None, 0),
    ],
)  # fmt: skip


def _all_pairs(length: int, window: int | None, sinks: int) -> list[Args]:
    """Every query of a short text with every key."""
    return [(query, key, window, sinks) for query in range(length) for key in range(length)]


def _window_alone(ask: Ask, rng: random.Random) -> Failure | None:
    return _VISIBLE.judge(ask, _all_pairs(6, 2, 0))


def _window_and_sinks(ask: Ask, rng: random.Random) -> Failure | None:
    return _VISIBLE.judge(ask, _all_pairs(7, 2, 2))


def _no_window(ask: Ask, rng: random.Random) -> Failure | None:
    return _VISIBLE.judge(ask, _all_pairs(4, None, 0) + _all_pairs(3, None, 1))


def _any_pair(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = []
    for _ in range(25):
        window, sinks, query = rng.randint(1, 12), rng.randint(0, 5), rng.randint(0, 60)
        edge = max(0, query - window)
        keys = (edge, max(0, edge - 1), sinks, rng.randint(0, query))
        cases += [(query, key, window, sinks) for key in keys]
    return _VISIBLE.judge(ask, sorted(cases, key=lambda args: args[0]))


_VISIBLE_CHECKS: tuple[tuple[str, Check], ...] = (
    ("a window alone", _window_alone),
    ("a window and sinks", _window_and_sinks),
    ("no window", _no_window),
    ("any query and any key", _any_pair),
)


def check_visible(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l04.visible."""
    return run_checks("l04.visible", function, _VISIBLE_CHECKS, seed=seed)


# --- evict -----------------------------------------------------------------------------------


def _floats(*shapes: tuple[int, int, int, int]) -> list[Case]:
    return [case(*shape, torch.float32) for shape in shapes]


def _evict_window(ask: Ask, rng: random.Random) -> Failure | None:
    return judge_entries(ask, _floats((1, 5, 3, 0), (2, 4, 3, 0), (2, 6, 1, 0), (4, 7, 2, 0)))


def _evict_short(ask: Ask, rng: random.Random) -> Failure | None:
    return judge_entries(
        ask,
        _floats((1, 3, 3, 0), (1, 3, 4, 0), (2, 4, 3, 2), (1, 1, 2, 3), (2, 5, 3, 2), (1, 3, 5, 1)),
    )


def _evict_sinks(ask: Ask, rng: random.Random) -> Failure | None:
    return judge_entries(ask, _floats((1, 6, 3, 1), (2, 6, 3, 2), (3, 9, 2, 4), (1, 8, 1, 1)))


def _any_cache(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Case] = []
    for _ in range(20):
        dtype = rng.choice((torch.float32, torch.float64))
        shape = (rng.randint(1, 4), rng.randint(1, 14), rng.randint(1, 8), rng.randint(0, 4))
        cases.append(case(*shape, dtype))
    return judge_entries(ask, sorted(cases, key=lambda item: item.k.numel()))


def _evict_memory(ask: Ask, rng: random.Random) -> Failure | None:
    return judge_memory(
        ask, _floats((1, 40, 20, 0), (4, 40, 20, 0), (1, 40, 8, 2), (2, 12, 8, 4), (2, 13, 8, 4))
    )


_EVICT_CHECKS: tuple[tuple[str, Check], ...] = (
    ("a window alone", _evict_window),
    ("a window and sinks", _evict_sinks),
    ("texts that fit", _evict_short),
    ("any K/V", _any_cache),
    ("the memory of what is dropped", _evict_memory),
)


def check_evict(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l04.evict."""
    return run_checks("l04.evict", Measured(function), _EVICT_CHECKS, seed=seed)


# --- held ------------------------------------------------------------------------------------

_Held = Callable[[int, int, "int | None", int], tuple[int, int]]


def _held(cursor: int, num_tokens: int, window: int | None, sinks: int) -> tuple[int, int]:
    end = cursor + num_tokens
    if window is None:
        return end, end
    return min(cursor, sinks + window) + num_tokens, min(end, sinks + window)


def _windowed(rule: Callable[[int, int, int], tuple[int, int]]) -> _Held:
    """Right without a window; with one, rule(cursor, num_tokens, limit)."""

    def answer(cursor: int, num_tokens: int, window: int | None, sinks: int) -> tuple[int, int]:
        if window is None:
            return _held(cursor, num_tokens, window, sinks)
        return rule(cursor, num_tokens, sinks + window)

    return answer


def _limited_to(limit: Callable[[int, int], int]) -> _Held:
    """Right but for what is kept at most, limit(window, sinks)."""

    def answer(cursor: int, num_tokens: int, window: int | None, sinks: int) -> tuple[int, int]:
        return _held(cursor, num_tokens, None if window is None else limit(window, sinks), 0)

    return answer


def _sinks_on_top(cursor: int, num_tokens: int, window: int | None, sinks: int) -> tuple[int, int]:
    peak, end = _held(cursor, num_tokens, window, 0)
    return (peak, end) if window is None else (peak + sinks, end + sinks)


def _end_first(cursor: int, num_tokens: int, window: int | None, sinks: int) -> tuple[int, int]:
    peak, end = _held(cursor, num_tokens, window, sinks)
    return end, peak


def _twice(number: int) -> tuple[int, int]:
    return number, number


def _held_form(value: Any) -> tuple[str, str] | None:
    if type(value) is not tuple or len(value) != 2:
        return "not_two", "Return two numbers: `return peak, end`."
    return next((problem for part in value if (problem := whole_number(part))), None)


_HELD: Comparison[_Held] = Comparison(
    reference=_held,
    mistakes=(
        Mistake(
            "chunk_not_counted",
            "Nothing can be evicted before the step has used it, so at its height the whole chunk "
            "is held on top of what was kept: who counts less runs out of memory.",
            _windowed(lambda cursor, n, limit: _twice(min(cursor + n, limit))),
        ),
        Mistake(
            "full_length",
            "What was evicted is no longer held: however long the text, at most sinks + window "
            "tokens are kept after a step.",
            _windowed(lambda cursor, n, limit: (cursor + n, cursor + n)),
        ),
        Mistake(
            "forgets_earlier_evictions",
            "Of the `cursor` tokens of earlier steps, all but sinks + window were evicted then; "
            "the peak adds the chunk to what was kept.",
            _windowed(lambda cursor, n, limit: (cursor + n, min(cursor + n, limit))),
        ),
        Mistake(
            "evicts_token_by_token",
            "A chunk's K/V are computed together, so they are all there before the first of them "
            "can be evicted: the peak is what was kept and the whole chunk.",
            _windowed(
                lambda cursor, n, limit: (min(cursor + n, limit + 1), min(cursor + n, limit))
            ),
        ),
        Mistake(
            "chunk_alone",
            "The chunk's tokens attend to what was kept of the past, so that is held beside the "
            "chunk at the height of the step.",
            _windowed(lambda cursor, n, limit: (n, min(cursor + n, limit))),
        ),
        Mistake(
            "never_evicts_in_this_step",
            "After the step the chunk's own tokens are evicted too, as far as they have left the "
            "window: the end is at most sinks + window.",
            _windowed(lambda cursor, n, limit: _twice(min(cursor, limit) + n)),
        ),
        Mistake(
            "no_sinks",
            "The sinks are kept besides the window and take memory like any other token: the "
            "limit is sinks + window.",
            _limited_to(lambda window, sinks: window),
        ),
        Mistake(
            "sinks_on_top",
            "In a short text the sinks lie inside the window: add sinks to the limit, not to the "
            "number of tokens that are there.",
            _sinks_on_top,
        ),
        Mistake(
            "one_too_many",
            "A query sees W + 1 keys, but one of them is its own, new in its step: between steps "
            "W are kept, besides the sinks.",
            _limited_to(lambda window, sinks: window + sinks + 1),
        ),
        Mistake(
            "one_too_few",
            "The window keeps all of its W tokens between steps; here it is one short.",
            _limited_to(lambda window, sinks: window + sinks - 1),
        ),
        Mistake(
            "none_is_zero",
            "A `window` of None means that nothing is ever evicted: every computed token is held.",
            lambda cursor, n, window, sinks: _held(cursor, n, window or 0, sinks),
        ),
        Mistake(
            "changed_places",
            "The two numbers changed places: first the peak, which is never less than the end.",
            _end_first,
        ),
    ),
    idea="At the height of a step are held what was kept of the first `cursor` tokens and the "
    "whole chunk; after it, at most sinks + window.",
    form=_held_form,
    draw_call=named("cursor", "num_tokens", "window", "sinks"),
    evidence=[
        (0, 40, 20, 0), (32, 8, 20, 4), (60, 1, 20, 4), (5, 1, 20, 4), (22, 1, 20, 4),
        (16, 16, 20, 2), (60, 30, 20, 4), (7, 3, None, 2), (100, 16, 5, 3),
    ],
)  # fmt: skip


def _held_short(ask: Ask, rng: random.Random) -> Failure | None:
    return _HELD.judge(ask, [(0, 3, 8, 0), (5, 1, 8, 0), (0, 4, 8, 2)])


def _held_decode(ask: Ask, rng: random.Random) -> Failure | None:
    return _HELD.judge(ask, [(20, 1, 20, 0), (60, 1, 20, 0), (19, 1, 20, 0), (60, 1, 20, 4)])


def _held_chunk(ask: Ask, rng: random.Random) -> Failure | None:
    return _HELD.judge(ask, [(0, 40, 20, 0), (16, 16, 20, 0), (32, 8, 20, 4), (0, 24, 20, 4)])


def _held_without(ask: Ask, rng: random.Random) -> Failure | None:
    return _HELD.judge(ask, [(0, 5, None, 0), (30, 1, None, 0), (7, 3, None, 2)])


def _any_step(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = []
    for _ in range(80):
        window = rng.choice((None, *range(1, 12)))
        cases.append(
            (rng.randint(0, 30), rng.choice((1, rng.randint(1, 30))), window, rng.choice((0, 2, 4)))
        )
    return _HELD.judge(ask, sorted(cases, key=lambda args: args[0] + args[1]))


_HELD_CHECKS: tuple[tuple[str, Check], ...] = (
    ("texts that fit into the window", _held_short),
    ("chunks", _held_chunk),
    ("decodes", _held_decode),
    ("no window", _held_without),
    ("any step", _any_step),
)


def check_held(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l04.held."""
    return run_checks("l04.held", function, _HELD_CHECKS, seed=seed)


# --- ring_slot -------------------------------------------------------------------------------


def _ring_alone(ask: Ask, rng: random.Random) -> Failure | None:
    return judge_slots(ask, range(8), 3, 0)


def _ring_and_sinks(ask: Ask, rng: random.Random) -> Failure | None:
    return judge_slots(ask, range(10), 3, 2) or judge_slots(ask, range(9), 2, 3)


def _ring_of_one(ask: Ask, rng: random.Random) -> Failure | None:
    return judge_slots(ask, range(4), 1, 0) or judge_slots(ask, range(4), 1, 1)


def _far_along(ask: Ask, rng: random.Random) -> Failure | None:
    for _ in range(2):
        window, sinks, start = rng.randint(2, 9), rng.randint(0, 4), rng.randint(50, 1000)
        positions = [*range(sinks), *range(start, start + 2 * window + 2)]
        failure = judge_slots(ask, positions, window, sinks)
        if failure:
            return failure
    return None


_SLOT_CHECKS: tuple[tuple[str, Check], ...] = (
    ("a ring alone", _ring_alone),
    ("a ring behind sinks", _ring_and_sinks),
    ("a window of one", _ring_of_one),
    ("far into a text", _far_along),
)


def check_ring_slot(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l04.ring_slot."""
    return run_checks("l04.ring_slot", function, _SLOT_CHECKS, seed=seed)


# --- live_bytes ------------------------------------------------------------------------------


def _zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


def _bytes_evidence() -> list[Args]:
    """Tensors of all kinds; what an answer says of each tells why it failed on one."""
    whole, other = _zeros(2, 10, 4), _zeros(2, 10, 4)
    views = [whole[:, :3], other[:, -3:], whole[:, 5:], other]
    kinds = [_zeros(6, dtype=torch.float16), _zeros(6, dtype=torch.float64), _zeros(9)]
    return [(views,), (kinds,), ([whole[:1], _zeros(3), other],), ([whole, whole, _zeros(7)],)]


_BYTES: Comparison[Callable[[list[Tensor]], int]] = Comparison(
    reference=lambda tensors: sum(storages(tensors).values()),
    mistakes=(
        Mistake(
            "shapes",
            "A shape says what a tensor shows, but memory is freed by whole storages: count the "
            "bytes of the storage behind it.",
            shown_bytes,
        ),
        Mistake(
            "counted_twice",
            "Tensors that show one storage share its bytes: count each storage once, by its "
            "address.",
            lambda tensors: sum(tensor.untyped_storage().nbytes() for tensor in tensors),
        ),
        Mistake(
            "counted_twice",
            "Two views may begin at different places of one storage; the address that tells "
            "storages apart is the storage's own, not the tensor's.",
            lambda tensors: sum(
                {t.data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values()
            ),
        ),
        Mistake(
            "same_size",
            "Two storages of one size are two storages: tell them apart by their addresses, not by "
            "their sizes.",
            lambda tensors: sum({t.untyped_storage().nbytes() for t in tensors}),
        ),
        Mistake(
            "keys_only",
            "All of the tensors count, the values as well as the keys.",
            lambda tensors: sum(storages(tensors[::2]).values()),
        ),
        Mistake(
            "first_only",
            "All of the tensors count, not only the first.",
            lambda tensors: sum(storages(tensors[:1]).values()),
        ),
        Mistake(
            "largest_only",
            "All storages are in memory at once, so their bytes add up.",
            lambda tensors: max(storages(tensors).values(), default=0),
        ),
        Mistake(
            "elements",
            "These are numbers of elements; each of them takes `element_size()` bytes.",
            lambda tensors: sum(
                {
                    t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() // t.element_size()
                    for t in tensors
                }.values()
            ),
        ),
        Mistake(
            "elements",
            "These are numbers of elements; each of them takes `element_size()` bytes.",
            lambda tensors: sum(t.numel() for t in tensors),
        ),
        Mistake(
            "four_bytes_each",
            "An element does not always take 4 bytes: float64 takes 8 and float16 takes 2.",
            lambda tensors: sum(
                {
                    t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
                    // t.element_size()
                    * 4
                    for t in tensors
                }.values()
            ),
        ),
    ),
    idea="Add up the bytes of the storages behind these tensors, each storage whole and once.",
    form=lambda value: (
        None
        if type(value) is int
        else ("not_int", f"The answer is a whole number of bytes (an int), not {a_kind(value)}.")
    ),
    draw_call=draw_tensors,
    evidence=_bytes_evidence(),
)


def _judge_bytes(ask: Ask, *lists: list[Tensor]) -> Failure | None:
    return _BYTES.judge(ask, [*((tensors,) for tensors in lists)])


def _whole_tensors(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_bytes(
        ask,
        [_zeros(2, 3)],
        [_zeros(1, 5, 2), _zeros(1, 5, 2)],
        [],
        [_zeros(3, dtype=torch.float64), _zeros(3, dtype=torch.float16)],
    )


def _views(ask: Ask, rng: random.Random) -> Failure | None:
    cache = _zeros(1, 40, 4)
    return _judge_bytes(
        ask, [cache[:, -20:]], [_zeros(8, 4)[:0]], [_zeros(6, 1).expand(6, 50)], [_zeros(4, 6).T]
    )


def _shared(ask: Ask, rng: random.Random) -> Failure | None:
    cache, batch = _zeros(1, 10, 4), _zeros(3, 8, 2)
    k, v = _zeros(2, 1, 6, 4)
    return _judge_bytes(
        ask,
        [cache, cache],
        [cache[:, :4], cache[:, 6:]],
        [batch[0, -3:], batch[2, -3:], _zeros(5)],
        [k[:, -2:], v[:, -2:]],
    )


def _any_tensors(ask: Ask, rng: random.Random) -> Failure | None:
    lists: list[list[Tensor]] = []
    for _ in range(12):
        dtypes = (torch.float32, torch.float64, torch.float16)
        wholes = [_zeros(rng.randint(1, 4), 8, dtype=rng.choice(dtypes)) for _ in range(3)]
        picked = [rng.choice(wholes) for _ in range(rng.randint(1, 5))]
        lists.append([whole[:, rng.randint(0, 4) : rng.randint(5, 8)] for whole in picked])
    return _judge_bytes(ask, *sorted(lists, key=len))


_BYTES_CHECKS: tuple[tuple[str, Check], ...] = (
    ("whole tensors", _whole_tensors),
    ("a view", _views),
    ("tensors that share a storage", _shared),
    ("any tensors", _any_tensors),
)


def check_live_bytes(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l04.live_bytes."""
    return run_checks("l04.live_bytes", function, _BYTES_CHECKS, seed=seed)


# --- judge -----------------------------------------------------------------------------------

_FULL = [[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [1.0, 0.0, 4.0], [2.0, 1.0, 0.0]]
_WINDOW = [[3.0, 0.0, 1.0], [0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [3.0, 1.0, 0.0]]


def _four_rows(ask: Ask, rng: random.Random) -> Failure | None:
    full, window = torch.tensor(_FULL), torch.tensor(_WINDOW)
    return judge_readings(ask, (full, window, torch.tensor([0, 1, 2, 1])))


def _window_helps(ask: Ask, rng: random.Random) -> Failure | None:
    full, window = torch.tensor(_WINDOW), torch.tensor(_FULL)
    return judge_readings(
        ask,
        (full, window, torch.tensor([2, 1, 2, 1])),
        (full[:1], window[:1], torch.tensor([2])),
        (full, full, torch.tensor([0, 0, 0, 0])),
    )


def _any_readings(ask: Ask, rng: random.Random) -> Failure | None:
    cases = [readings(rng, length, vocab) for length, vocab in ((6, 4), (30, 10), (64, 65))]
    return judge_readings(ask, *cases)


_MEASURE_CHECKS: tuple[tuple[str, Check], ...] = (
    ("four rows", _four_rows),
    ("a window that helps, and none at all", _window_helps),
    ("any logits", _any_readings),
)


def check_judge(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l04.judge."""
    return run_checks("l04.judge", function, _MEASURE_CHECKS, seed=seed)


# --- registry --------------------------------------------------------------------------------

EXERCISES = (
    Exercise(
        id="l04.visible",
        lesson="l04_sliding_window",
        name="visible",
        title="Who may see whom",
        minutes=5,
        points=2,
        part="visible",
        hints=(
            "Write down the keys that query 7 sees with a window of 3: how many are they, and how "
            "far back is the last one?",
            "Three questions in this order: is the key later than the query? Is there a window at "
            "all? If so, is the key a sink, or near enough?",
            "False if key > query; otherwise window is None or key < sinks or "
            "query - key <= window.",
        ),
        check=check_visible,
    ),
    Exercise(
        id="l04.evict",
        lesson="l04_sliding_window",
        name="evict",
        title="Keep what will be seen again",
        minutes=8,
        points=3,
        part="evict",
        hints=(
            "Which entries may the next query see, and which of those does it bring along itself? "
            "And what does a slice of a tensor share with the tensor?",
            "If S is at most sinks + window, everything stays. Otherwise name the entries to keep, "
            "the first `sinks` and the last `window`, and copy them out of k and of v.",
            "kept = [*range(sinks), *range(length - window, length)]; k[:, kept] with such a list "
            "is a copy. (Two slices joined by torch.cat are one, too.)",
        ),
        check=check_evict,
    ),
    Exercise(
        id="l04.held",
        lesson="l04_sliding_window",
        name="held",
        title="What a step really holds",
        minutes=5,
        points=2,
        part="held",
        hints=(
            "A prompt of 40 tokens comes in one chunk and the window is 20. What is in memory "
            "while the model computes it?",
            "Before the step, min(cursor, limit) tokens are held, with limit = sinks + window. "
            "The chunk comes on top; only then is evicted down to the limit.",
            "limit = sinks + window; min(cursor, limit) + num_tokens, and "
            "min(cursor + num_tokens, limit). Without a window both are cursor + num_tokens.",
        ),
        check=check_held,
    ),
    Exercise(
        id="l04.ring_slot",
        lesson="l04_sliding_window",
        name="ring_slot",
        title="A ring of slots",
        minutes=6,
        points=2,
        part="ring_slot",
        hints=(
            "Which entry leaves just when a new one comes, and what becomes of its slot?",
            "Give each sink a slot of its own for good. Behind them, `window` slots are used in "
            "turn, so a position and the one `window` later get the same.",
            "position itself if position < sinks, otherwise sinks + (position - sinks) % window.",
        ),
        check=check_ring_slot,
    ),
    Exercise(
        id="l04.live_bytes",
        lesson="l04_sliding_window",
        name="live_bytes",
        title="What a byte really costs",
        minutes=5,
        points=2,
        part=None,
        hints=(
            "What is freed when a tensor goes away while a slice of it stays?",
            "Go through the tensors' storages. A storage that you have met before, at the same "
            "address, adds nothing.",
            "Collect storage.data_ptr() -> storage.nbytes() in a dict, with storage = "
            "tensor.untyped_storage(), and add up its values.",
        ),
        check=check_live_bytes,
    ),
    Exercise(
        id="l04.judge",
        lesson="l04_sliding_window",
        name="judge",
        title="What a window costs",
        minutes=6,
        points=2,
        part=None,
        hints=(
            "Which of the two numbers needs the text, and which only the two readings?",
            "Agreement: compare the argmax of each row. Loss: the cross entropy of logits and "
            "targets is the mean negative log likelihood; the window's minus the full one's.",
            "(full_logits.argmax(-1) == window_logits.argmax(-1)).float().mean().item(), and "
            "F.cross_entropy(window_logits, targets) - F.cross_entropy(full_logits, targets).",
        ),
        check=check_judge,
    ),
)

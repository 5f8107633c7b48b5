"""Checks of lesson 4, the sliding window."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args, Comparison, Mistake, whole_number
from course.checks.live_memory import BYTES, zeros
from course.checks.visibility import VISIBLE
from course.checks.windowing import (
    Case,
    Measured,
    case,
    draw_eviction,
    judge_entries,
    judge_memory,
    judge_slots,
)
from course.judging import Ask, Check, Failure, run_checks
from course.registry import Exercise
from course.report import Report
from course.showing import named
from course.task import Task

# --- visible ---------------------------------------------------------------------------------


def _all_pairs(length: int, window: int | None, sinks: int) -> list[Args]:
    """Every query of a short text with every key."""
    return [(query, key, window, sinks) for query in range(length) for key in range(length)]


def _window_alone(ask: Ask, rng: random.Random) -> Failure | None:
    return VISIBLE.judge(ask, _all_pairs(6, 2, 0))


def _window_and_sinks(ask: Ask, rng: random.Random) -> Failure | None:
    return VISIBLE.judge(ask, _all_pairs(7, 2, 2))


def _no_window(ask: Ask, rng: random.Random) -> Failure | None:
    return VISIBLE.judge(ask, _all_pairs(4, None, 0) + _all_pairs(3, None, 1))


def _any_pair(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = [(40, key, 3, 10) for key in (8, 9, 10, 37)]
    for _ in range(24):
        window, sinks, query = rng.randint(1, 12), rng.randint(0, 10), rng.randint(0, 60)
        edge = max(0, query - window)
        keys = (edge, max(0, edge - 1), sinks, rng.randint(0, query))
        cases += [(query, key, window, sinks) for key in keys]
    for _ in range(5):
        query, key = rng.sample(range(1000), 2)
        cases.append((query, key, None, rng.randint(0, 3)))
    return VISIBLE.judge(ask, sorted(cases, key=lambda args: args[0]))


_VISIBLE_CHECKS: tuple[tuple[str, Check], ...] = (
    ("a window alone", _window_alone),
    ("a window and sinks", _window_and_sinks),
    ("no window", _no_window),
    ("any query and any key", _any_pair),
)


def check_visible(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l04.visible."""
    return run_checks(
        "l04.visible", function, _VISIBLE_CHECKS, seed=seed, draw_call=VISIBLE.draw_call
    )


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
        dtype = rng.choice((torch.float32, torch.float64, torch.float16))
        shape = (rng.randint(1, 4), rng.randint(1, 14), rng.randint(1, 8), rng.randint(0, 4))
        cases.append(case(*shape, dtype, rng.choice((1, 2, 3))))
    cases.append(
        case(2, rng.randint(26, 40), rng.randint(9, 12), rng.randint(8, 12), torch.float64)
    )
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
    return run_checks(
        "l04.evict", Measured(function), _EVICT_CHECKS, seed=seed, draw_call=draw_eviction
    )


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
            "is held on top of what was kept: an engine that counts less runs out of memory.",
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
    idea="The peak is what is in memory when all of the chunk has come and nothing has gone for "
    "it; the end is what is left once eviction is done.",
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
            (rng.randint(0, 30), rng.choice((1, rng.randint(1, 30))), window, rng.choice((0, 2, 9)))
        )
    cases.append((rng.randint(300, 900), rng.randint(100, 300), rng.randint(50, 100), 5))
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
    return run_checks("l04.held", function, _HELD_CHECKS, seed=seed, draw_call=_HELD.draw_call)


# --- ring_slot -------------------------------------------------------------------------------


def _ring_alone(ask: Ask, rng: random.Random) -> Failure | None:
    return judge_slots(ask, range(8), 3, 0)


def _ring_and_sinks(ask: Ask, rng: random.Random) -> Failure | None:
    return judge_slots(ask, range(10), 3, 2) or judge_slots(ask, range(9), 2, 3)


def _ring_of_one(ask: Ask, rng: random.Random) -> Failure | None:
    return judge_slots(ask, range(4), 1, 0) or judge_slots(ask, range(4), 1, 1)


def _far_along(ask: Ask, rng: random.Random) -> Failure | None:
    for most, window, sinks in (
        (1_000, rng.randint(2, 9), rng.randint(0, 4)),
        (100_000, rng.randint(8, 12), rng.randint(8, 12)),
    ):
        start = rng.randint(most // 2, most)
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


def _judge_bytes(ask: Ask, *lists: list[Tensor]) -> Failure | None:
    return BYTES.judge(ask, [*((tensors,) for tensors in lists)])


def _whole_tensors(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_bytes(
        ask,
        [zeros(2, 3)],
        [zeros(1, 5, 2), zeros(1, 5, 2)],
        [],
        [zeros(3, dtype=torch.float64), zeros(3, dtype=torch.float16)],
    )


def _views(ask: Ask, rng: random.Random) -> Failure | None:
    cache = zeros(1, 40, 4)
    return _judge_bytes(
        ask, [cache[:, -20:]], [zeros(8, 4)[:0]], [zeros(6, 1).expand(6, 50)], [zeros(4, 6).T]
    )


def _shared(ask: Ask, rng: random.Random) -> Failure | None:
    cache, batch = zeros(1, 10, 4), zeros(3, 8, 2)
    k, v = zeros(2, 1, 6, 4)
    return _judge_bytes(
        ask,
        [cache, cache],
        [cache[:, :4], cache[:, 6:]],
        [batch[0, -3:], batch[2, -3:], zeros(5)],
        [k[:, -2:], v[:, -2:]],
    )


def _any_tensors(ask: Ask, rng: random.Random) -> Failure | None:
    lists: list[list[Tensor]] = []
    for _ in range(12):
        dtypes = (torch.float32, torch.float64, torch.float16)
        wholes = [zeros(rng.randint(1, 4), 8, dtype=rng.choice(dtypes)) for _ in range(3)]
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
    return run_checks(
        "l04.live_bytes", function, _BYTES_CHECKS, seed=seed, draw_call=BYTES.draw_call
    )


# --- registry --------------------------------------------------------------------------------

EXERCISES = (
    Exercise(
        id="l04.visible",
        lesson="l04_sliding_window",
        name="visible",
        title="What a token may see",
        minutes=8,
        points=2,
        part="visible",
        hints=(
            "Write down the keys that query 7 sees with a window of 3: how many are they, and how "
            "far back is the last one?",
            "Three questions in this order: is the key later than the query? Is there a window at "
            "all? If so, is the key a sink, or near enough?",
            "The first question alone can answer False, and a window of None alone can then answer "
            "True. For the third, a sink is known by its own position, and nearness by the "
            "distance query - key: one of the two is enough.",
        ),
        check=check_visible,
        task=Task(
            signature="visible(query: int, key: int, window: int | None, sinks: int) -> bool",
            rules=(
                "Positions count from 0 in the text. Returns whether the token at position "
                "`query` may attend to the one at position `key`.",
                "With a `window` of W (at least 1), a query may attend to itself and to the W "
                "positions before it.",
                "It may also attend to the sinks, the first `sinks` positions of the text (0 or "
                "more).",
                "It may never attend to a position later than its own.",
                "A `window` of None means no window: a query may attend to all it can look back "
                "on.",
            ),
            args=(7, 3, 3, 1),
            result=False,
        ),
    ),
    Exercise(
        id="l04.evict",
        lesson="l04_sliding_window",
        name="evict",
        title="Keep what will be seen again",
        minutes=10,
        points=3,
        part="evict",
        hints=(
            "Which entries may the next query see, and which of those does it bring along itself? "
            "And what does a slice of a tensor share with the tensor?",
            "If S is at most sinks + window, everything stays. Otherwise name the entries to keep, "
            "the first `sinks` and the last `window`, and copy them out of k and of v.",
            "Write the entries to keep as a list of numbers, none twice, for a short text as well "
            "as for a long one. A tensor can be indexed with such a list in any dimension; is "
            "what comes out a view?",
        ),
        check=check_evict,
        task=Task(
            signature="evict(k: torch.Tensor, v: torch.Tensor, window: int, sinks: int) -> "
            "tuple[torch.Tensor, torch.Tensor]",
            rules=(
                "`k` and `v` are one request's K/V in one layer, (H, S, D): H heads, S entries in "
                "the order of the text, oldest first.",
                "Kept are the first `sinks` entries (0 or more) and the last `window` (at least "
                "1), each once and in the order of the text; where there are no more than that, "
                "all.",
                "Returns `(k, v)`: what is kept, (H, min(S, sinks + window), D) each, in the type "
                "that came in.",
                "The memory of what is dropped must come free: what is returned must not keep more "
                "bytes alive than it shows.",
                "The tensors `k` and `v` themselves stay as they are.",
            ),
            args=(
                torch.tensor([[[1.0], [2.0], [3.0], [4.0]]]),
                torch.tensor([[[5.0], [6.0], [7.0], [8.0]]]),
                2,
                1,
            ),
            result=(torch.tensor([[[1.0], [3.0], [4.0]]]), torch.tensor([[[5.0], [7.0], [8.0]]])),
        ),
    ),
    Exercise(
        id="l04.held",
        lesson="l04_sliding_window",
        name="held",
        title="What a step really holds",
        minutes=8,
        points=2,
        part="held",
        hints=(
            "A prompt of 40 tokens comes in one chunk and the window is 20. What is in memory "
            "while the model computes it?",
            "What was held before the step? The chunk comes on top of that; only then is evicted "
            "down to what is kept.",
            "Call the most that is kept after a step the limit. What was held before the step "
            "follows from `cursor` and the limit, and what is held after it from all computed "
            "tokens and the limit, in the same way. Without a window there is no limit.",
        ),
        check=check_held,
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
    ),
    Exercise(
        id="l04.ring_slot",
        lesson="l04_sliding_window",
        name="ring_slot",
        title="A ring of slots",
        minutes=8,
        points=2,
        part="ring_slot",
        hints=(
            "Which entry leaves just when a new one comes, and what becomes of its slot?",
            "Give each sink a slot of its own for good. Behind them, `window` slots are used in "
            "turn, so a position and the one `window` later get the same.",
            "Count the positions behind the sinks from 0 and send them round `window` slots: the "
            "operator that counts round is %. Then see that these slots lie behind the sinks' own.",
        ),
        check=check_ring_slot,
        task=Task(
            signature="ring_slot(position: int, window: int, sinks: int) -> int",
            rules=(
                "The K/V of a request lies in a storage of sinks + window slots, counted from 0, "
                "which never grows.",
                "Positions are computed in the order of the text. Kept are the first `sinks` (0 or "
                "more) and the last `window` (at least 1), the newest included.",
                "Positions that are kept at the same time must lie in different slots.",
                "Nothing is ever moved: a position has the same slot for as long as it is kept.",
                "Returns the slot of `position`. Any answer with these properties is right.",
            ),
            args=(5, 3, 2),
            result=2,
        ),
    ),
    Exercise(
        id="l04.live_bytes",
        lesson="l04_sliding_window",
        name="live_bytes",
        title="What a byte really costs",
        minutes=7,
        points=2,
        part=None,
        hints=(
            "What is freed when a tensor goes away while a slice of it stays?",
            "Go through the tensors' storages. A storage that you have met before, at the same "
            "address, adds nothing.",
            "A dict keeps one value for each key: with a storage's address as the key and its "
            "size as the value, a storage that comes twice is there once. What is left to do "
            "with the values?",
        ),
        check=check_live_bytes,
        task=Task(
            signature="live_bytes(tensors: list[torch.Tensor]) -> int",
            rules=(
                "A tensor shows a storage, all of it or a part: a slice, a transposed or an "
                "expanded tensor has the storage of the tensor that it was made from.",
                "`tensor.untyped_storage()` is a tensor's storage; the storage's `.nbytes()` is "
                "its size in bytes and its `.data_ptr()` its address in memory.",
                "Returns the bytes of memory that the tensors of the list keep alive together; 0 "
                "for an empty list.",
            ),
            args=([torch.zeros(2), torch.zeros(3)],),
            result=20,
        ),
    ),
)

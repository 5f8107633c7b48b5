"""Judging what is kept of a window, and where: entries, the memory behind them, slots.

A check gets copies of what an answer returns, and a copy does not show whether it was a view. So
`Measured` weighs the result where it is made.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course.checks.comparing import Args, Mistake, a_kind, alike, explaining
from course.judging import Ask, Failure, Rows
from course.sameness import like, same
from course.showing import named, show
from nanogpt.parts.plain_values import as_items, as_whole

Kept = tuple[Tensor, Tensor]
Eviction = Callable[[Tensor, Tensor, int, int], Kept]
Slots = Callable[[int, int, int], int]


def storages(tensors: Iterable[Tensor]) -> dict[int, int]:
    """The size in bytes of every storage that the tensors show, by its address."""
    return {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors
    }


def shown_bytes(tensors: Sequence[Tensor]) -> int:
    """The bytes that the tensors' shapes speak of."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def draw_tensors(name: str, args: Args) -> str:
    """The call, and for every tensor what it shows of which storage."""
    addresses = list(storages(args[0]))
    lines = [f"{name}({'[...]' if args[0] else '[]'})"]
    for index, tensor in enumerate(args[0]):
        storage = tensor.untyped_storage()
        letter = chr(ord("A") + addresses.index(storage.data_ptr()))
        lines.append(
            f"[{index}] {tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}, "
            f"{shown_bytes([tensor])} bytes shown of storage {letter}: {storage.nbytes()} bytes"
        )
    return "\n".join(lines)


# --- K/V that is kept ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Weighed:
    """What an eviction returned, the bytes it keeps alive, and whether in the old storage."""

    value: Any
    live_bytes: int
    in_old_storage: bool


class Measured:
    """An eviction whose result comes weighed. Its errors still name a line of its own."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__wrapped__ = function
        self.__code__ = getattr(function, "__code__", None)

    def __call__(self, *args: Any) -> Weighed:
        """Ask the function, and weigh its result before it is copied."""
        old = storages(item for item in args if isinstance(item, Tensor))
        value = self._function(*args)
        new = storages(item for item in _items(value) if isinstance(item, Tensor))
        return Weighed(value, sum(new.values()), not old.keys().isdisjoint(new))


def _items(value: Any) -> Sequence[Any]:
    """What a tuple or a list holds."""
    return (as_items(value) or ()) if isinstance(value, list | tuple) else ()


def draw_eviction(name: str, args: Args) -> str:
    """The call, with the tensors as shapes."""
    k, _, window, sinks = args
    return f"{name}(k, v, window={window}, sinks={sinks}), k and v {tuple(k.shape)}"


@dataclass(frozen=True, slots=True)
class Case:
    """A request's K/V in one layer, and what to keep of it."""

    k: Tensor
    v: Tensor
    window: int
    sinks: int

    def kept(self) -> list[int]:
        """The entries to keep, in order."""
        return _kept(self.k.shape[1], self.window, self.sinks)

    def expected(self) -> Kept:
        """The right answer."""
        kept = self.kept()
        return self.k[:, kept], self.v[:, kept]

    def args(self) -> Args:
        """What the function is given."""
        return self.k, self.v, self.window, self.sinks

    def draw(self) -> str:
        """The call, with the tensors as shapes."""
        return draw_eviction("evict", self.args())

    def draw_kept(self, value: Any) -> str:
        """What was kept, as the numbers of entries; ? is an entry that never was there.

        Another dtype than K/V came in is named.
        """
        if _not_two_tensors(value):
            return show(value)
        return "\n".join(
            f"{name}: {_entries(got, self.k, self.v, name)}"
            + ("" if got.dtype == self.k.dtype else f" as {str(got.dtype).removeprefix('torch.')}")
            for name, got in zip("kv", value, strict=True)
        )


def case(
    heads: int, length: int, window: int, sinks: int, dtype: torch.dtype, size: int = 2
) -> Case:
    """K/V of H heads and S entries of D = `size` that are all different."""
    count = heads * length * size
    k = (torch.arange(1, count + 1, dtype=dtype) / 4).view(heads, length, size)  # (H, S, D)
    return Case(k, -k, window, sinks)


def _entries(got: Tensor, k: Tensor, v: Tensor, name: str) -> str:
    """`got` as the entries of k or v that it holds, or its shape."""
    if got.dim() != 3 or (got.shape[0], got.shape[2]) != (k.shape[0], k.shape[2]):
        return f"a tensor of shape {tuple(got.shape)}"
    own, other = (k, v) if name == "k" else (v, k)

    def word(entry: Tensor) -> str:
        for source, suffix in ((own, ""), (other, f" of {'vk'['kv'.index(name)]}")):
            for j in range(source.shape[1]):
                if torch.equal(source[:, j], entry):
                    return f"{j}{suffix}"
        return "?"

    words = [word(got[:, i]) for i in range(got.shape[1])]
    return f"entries {', '.join(words)}" if words else "no entries"


def _not_two_tensors(value: Any) -> bool:
    items = _items(value)
    return len(items) != 2 or not all(isinstance(item, Tensor) for item in items)


def _keeping(choose: Callable[[int, int, int], Sequence[int]]) -> Eviction:
    """An eviction that keeps the entries that `choose(length, window, sinks)` names."""

    def answer(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
        kept = list(choose(k.shape[1], window, sinks))
        return k[:, kept], v[:, kept]

    return answer


def _kept(length: int, window: int, sinks: int) -> list[int]:
    return [i for i in range(length) if i < sinks or i >= length - window]


_RIGHT = _keeping(_kept)


def _keys_only(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    return k[:, _kept(k.shape[1], window, sinks)], v


def _twice_the_keys(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    kept = _kept(k.shape[1], window, sinks)
    return k[:, kept], k[:, kept]


def _exchanged(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    kept = _kept(k.shape[1], window, sinks)
    return v[:, kept], k[:, kept]


def _padded(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    kept = _kept(k.shape[1], window, sinks)
    missing = sinks + window - len(kept)
    return F.pad(k[:, kept], (0, 0, missing, 0)), F.pad(v[:, kept], (0, 0, missing, 0))


def _padded_behind(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    kept = _kept(k.shape[1], window, sinks)
    missing = sinks + window - len(kept)
    return F.pad(k[:, kept], (0, 0, 0, missing)), F.pad(v[:, kept], (0, 0, 0, missing))


_SHORTER = "A text that is shorter than the limit is kept as it is; nothing is added to fill it up."


def _window_behind_the_sinks(length: int, window: int, sinks: int) -> list[int]:
    """An index into the whole text used behind the sinks, which shortens the window by them."""
    if not sinks or length <= sinks + window:
        return _kept(length, window, sinks)
    return [*range(sinks), *range(sinks, length)[length - window :]]


def _sinks_inside(length: int, window: int, sinks: int, at_most: int) -> list[int]:
    """The sinks and a slice [-(window - sinks):], for a text of more than `at_most`."""
    if not sinks or length <= at_most:
        return list(range(length)) if length <= at_most else _kept(length, window, 0)
    return [*range(length)[:sinks], *range(length)[-(window - sinks) :]]


def _all_but_one(length: int, window: int, sinks: int) -> list[int]:
    """One entry gone, however many are too many."""
    kept = list(range(length))
    return kept if length <= sinks + window else kept[:sinks] + kept[sinks + 1 :]


_EVICTIONS: tuple[Mistake[Eviction], ...] = (
    *alike(
        "first_kept",
        "The window is the end of the text, where the next token will be: keep the last `window` "
        "entries, not the first.",
        _keeping(lambda length, window, sinks: range(min(length, window + sinks))),
        _keeping(lambda length, window, sinks: range(min(length, window))),
    ),
    Mistake(
        "nothing_dropped",
        "Nothing was dropped here, although the entries between the sinks and the window will not "
        "be seen again.",
        _keeping(lambda length, window, sinks: range(length)),
    ),
    Mistake(
        "one_per_call",
        "A chunk brings many entries at once, and here one call drops only one of them: drop all "
        "that are beyond sinks + window.",
        _keeping(_all_but_one),
    ),
    Mistake(
        "one_too_many",
        "The next query sees W + 1 entries, but one of them is its own, which it brings along: "
        "keep W.",
        _keeping(lambda length, window, sinks: _kept(length, window + 1, sinks)),
    ),
    Mistake(
        "one_too_few",
        "The last `window` entries are kept, all of them; here the oldest of these is missing.",
        _keeping(lambda length, window, sinks: _kept(length, window - 1, sinks)),
    ),
    *alike(
        "no_sinks",
        "The first `sinks` entries are kept as well: so much attention goes to them that the text "
        "breaks without them.",
        _keeping(lambda length, window, sinks: _kept(length, window, 0)),
        _keeping(lambda length, window, sinks: _kept(length, window + sinks, 0)),
    ),
    Mistake(
        "one_sink_more",
        "Entries count from 0, so the sinks are those below `sinks`; entry `sinks` itself is none.",
        _keeping(lambda length, window, sinks: _kept(length, window, sinks + 1)),
    ),
    Mistake(
        "backwards",
        "The entries stay in the order of the text, the oldest first.",
        _keeping(lambda length, window, sinks: _kept(length, window, sinks)[::-1]),
    ),
    Mistake(
        "keys_twice",
        "The values are those of v; here the keys were returned for them.",
        _twice_the_keys,
    ),
    *alike(
        "sinks_from_the_window",
        "The sinks come on top of the window: the last `window` entries are kept whatever the "
        "number of sinks.",
        _keeping(lambda length, window, sinks: _kept(length, max(1, window - sinks), sinks)),
        _keeping(lambda length, window, sinks: _kept(length, max(0, window - sinks), sinks)),
        _keeping(_window_behind_the_sinks),
        _keeping(lambda length, window, sinks: _sinks_inside(length, window, sinks, window)),
        _keeping(
            lambda length, window, sinks: _sinks_inside(length, window, sinks, window + sinks)
        ),
    ),
    Mistake(
        "twice",
        "In a text this short the sinks are part of the window; an entry that is there twice "
        "weighs twice in the softmax.",
        _keeping(
            lambda length, window, sinks: [
                *range(min(sinks, length)), *range(max(0, length - window), length),
            ]
        ),
    ),
    *alike(
        "wraps_around",
        "When the text is shorter than the window, length - window is negative, and a negative "
        "index counts from the end: entries were lost.",
        _keeping(
            lambda length, window, sinks: [
                *range(min(sinks, length)), *range(length)[length - window :],
            ]
        ),
        _keeping(
            lambda length, window, sinks: (
                _kept(length, window, sinks) if sinks else range(length)[length - window :]
            )
        ),
    ),
    Mistake(
        "sinks_behind",
        "The entries stay in the order of the text, sinks first: the next eviction takes the front "
        "for the oldest.",
        _keeping(
            lambda length, window, sinks: (
                [*range(length - window, length), *range(sinks)]
                if length > sinks + window
                else range(length)
            )
        ),
    ),
    Mistake(
        "keys_only",
        "Every key has its value: what is dropped from k has to be dropped from v, or the two no "
        "longer match.",
        _keys_only,
    ),
    Mistake(
        "changed_places",
        "K and V changed places: return the keys, then the values.",
        _exchanged,
    ),
    *alike("padded", _SHORTER, _padded, _padded_behind),
    Mistake(
        "wrong_dimension",
        "Entries are the middle dimension of (H, S, D); this cuts along the heads.",
        lambda k, v, window, sinks: (k[-window:], v[-window:]),
    ),
    Mistake(
        "wrong_dimension",
        "Entries are the middle dimension of (H, S, D); this cuts the vectors themselves.",
        lambda k, v, window, sinks: (k[..., -window:], v[..., -window:]),
    ),
)  # fmt: skip


def judge_entries(ask: Ask, cases: Sequence[Case]) -> Failure | None:
    """Whether the right entries are kept and the arguments left alone; memory is not judged."""
    results: list[tuple[Args, Any]] = []
    for index, item in enumerate(cases):
        value = _evicted(ask, item)
        failure = _judge_form(item, value)
        if failure:
            return failure
        results.insert(0, (item.args(), value))
        if not same(value, item.expected()):
            results += _more_evicted(ask, [*cases[index + 1 :], *_EVIDENCE])
            return _wrong_entries(item, value, explaining(_EVICTIONS, _RIGHT, results))
    return None


def _evicted(ask: Ask, item: Case) -> Any:
    return like(ask(*item.args()).value, item.expected())


def _more_evicted(ask: Ask, cases: Sequence[Case]) -> list[tuple[Args, Any]]:
    """More results of the right form; an answer that breaks off has said enough."""
    results: list[tuple[Args, Any]] = []
    with contextlib.suppress(Exception):
        for item in cases:
            value = _evicted(ask, item)
            if not _not_two_tensors(value):
                results.append((item.args(), value))
    return results


def _judge_form(item: Case, value: Any) -> Failure | None:
    if value is not None and not _not_two_tensors(value):
        return None
    rows: Rows = (
        ("input", item.draw()),
        ("expected", item.draw_kept(item.expected())),
        ("got", show(value)),
    )
    if value is None:
        return Failure("evict returned nothing: end it with `return`.", rows, "no_return")
    idea = f"Return two tensors, `return k, v`; this is {a_kind(value)}"
    parts = " and ".join(a_kind(part) for part in _items(value)[:3])
    return Failure(f"{idea}{f' of {parts}' if parts else ''}.", rows, "not_two")


def _wrong_entries(item: Case, value: Any, mistake: Mistake[Eviction] | None) -> Failure:
    rows: Rows = (
        ("input", item.draw()),
        ("expected", item.draw_kept(item.expected())),
        ("got", item.draw_kept(value)),
    )
    if mistake:
        return Failure(mistake.idea, rows, mistake.key)
    for name, got, wanted in zip("kv", value, item.expected(), strict=True):
        if got.dtype != wanted.dtype:
            kinds = [str(tensor.dtype).removeprefix("torch.") for tensor in (got, wanted)]
            idea = f"What is kept stays as it is: {name} came in as {kinds[1]} and is {kinds[0]}."
            return Failure(idea, rows, "dtype")
    idea = "Keep the first `sinks` entries and the last `window`, each once and in their order."
    return Failure(idea, rows)


def judge_memory(ask: Ask, cases: Sequence[Case]) -> Failure | None:
    """Whether what is returned keeps no more bytes alive than it shows."""
    for item in cases:
        weighed = ask(*item.args())
        shown = shown_bytes(item.expected())
        if weighed.live_bytes <= shown:
            continue
        whole = storages([item.k, item.v])
        rows: Rows = (
            ("input", f"{item.draw()}, {sum(whole.values())} bytes"),
            ("expected", f"{shown} bytes stay alive, those of {len(item.kept())} entries"),
            ("got", f"{weighed.live_bytes} bytes stay alive"),
        )
        return Failure(*_why_alive(ask, item, weighed, rows))
    return None


def _why_alive(ask: Ask, item: Case, weighed: Weighed, rows: Rows) -> tuple[str, Rows, str]:
    """Idea, rows and key of a result that keeps more memory than it shows."""
    if not weighed.in_old_storage:
        idea = (
            "What you return lies in a new storage that is larger than the kept entries: copy "
            "only them, not the whole and then a slice of it."
        )
        return idea, rows, "oversized"
    if item.k.shape[0] == 1:
        length, dtype = item.k.shape[1], item.k.dtype
        twin = case(2, length, item.window, item.sinks, dtype)
        if ask(*twin.args()).live_bytes <= shown_bytes(twin.expected()):
            idea = (
                "With one head the kept entries lie in one piece already, so no copy was made and "
                "the old storage stays whole: `.contiguous()` may return a view, `.clone()` never."
            )
            return idea, rows, "contiguous"
    idea = (
        "A slice is a view: it shows the entries that are kept and keeps the whole old storage "
        "alive, dropped ones included, so copy what is kept."
    )
    return idea, rows, "view"


_EVIDENCE = tuple(
    case(heads, length, window, sinks, torch.float32)
    for heads, length, window, sinks in (
        (2, 9, 4, 0), (2, 9, 4, 2), (3, 3, 5, 2), (2, 6, 5, 2), (1, 7, 3, 3), (5, 8, 2, 1),
    )
)  # fmt: skip


# --- slots -----------------------------------------------------------------------------------

_OVER_SINKS = (
    "The sinks are kept for good, so no other position may have their slots: only the other "
    "`window` slots are used in turn."
)
_GROWS = (
    "A storage with a slot for every position grows with the text: a new entry takes the slot of "
    "the one that has just left the window."
)

_MAPPINGS: tuple[Mistake[Slots], ...] = (
    Mistake(
        "order_matters",
        "The newest cannot always have the last slot, because nothing is moved out of its way, and "
        "the order of slots means nothing to attention: use them in turn.",
        lambda position, window, sinks: min(position, sinks + window - 1),
    ),
    Mistake(
        "over_the_sinks",
        _OVER_SINKS,
        lambda position, window, sinks: position % (sinks + window),
    ),
    Mistake("over_the_sinks", _OVER_SINKS, lambda position, window, sinks: position % window),
    Mistake(
        "over_the_sinks",
        _OVER_SINKS,
        lambda position, window, sinks: (
            position if position < sinks else (position - sinks) % window
        ),
    ),
    Mistake(
        "over_the_sinks",
        _OVER_SINKS,
        lambda position, window, sinks: position if position < sinks else position % window,
    ),
    Mistake(
        "sinks_in_the_ring",
        "The sinks are in the ring here, where their slots are used again after `window` "
        "positions: give them slots of their own.",
        lambda position, window, sinks: sinks + position % window,
    ),
    Mistake("grows", _GROWS, lambda position, window, sinks: position),
    Mistake(
        "one_slot_more",
        "There are sinks + window slots: a query sees W + 1 keys, but its own only joins when the "
        "oldest of them leaves.",
        lambda position, window, sinks: (
            position if position < sinks else sinks + (position - sinks) % (window + 1)
        ),
    ),
    Mistake(
        "one_slot_fewer",
        "The last `window` positions are kept, so `window` slots are used in turn; here it is one "
        "fewer, and an entry is lost while it can still be seen.",
        lambda position, window, sinks: (
            position if position < sinks else sinks + (position - sinks) % max(1, window - 1)
        ),
    ),
)


def judge_slots(ask: Ask, positions: Sequence[int], window: int, sinks: int) -> Failure | None:
    """Whether the positions, computed in this order, get slots that serve; any slots that do."""
    slots: dict[int, int] = {}
    for position in positions:
        slot = like(ask(position, window, sinks), 0)
        failure = _not_a_slot(ask, slot, window + sinks)
        if failure:
            return failure
        slots[position] = slot
        failure = _misplaced(ask, slots, position, window, sinks)
        if failure:
            key, idea = _explain_slots(ask, slots, window, sinks) or failure[:2]
            return Failure(idea, failure[2], key)
    for position in reversed(positions):
        again = like(ask(position, window, sinks), 0)
        if again != slots[position]:
            idea = (
                f"Asked again, position {position} is in another slot, but nothing is ever moved: "
                "a slot has to follow from the position alone."
            )
            rows = _slot_rows(ask, f"slot {slots[position]}, as at first", again)
            return Failure(idea, rows, "not_for_life")
    return None


def _slot_rows(ask: Ask, expected: str, got: Any) -> Rows:
    call = named("position", "window", "sinks")(ask.name, ask.args)
    return (("input", call), ("expected", expected), ("got", show(got)))


def _not_a_slot(ask: Ask, slot: Any, room: int) -> Failure | None:
    rows = _slot_rows(ask, f"a slot from 0 to {room - 1}", slot)
    if slot is None:
        return Failure("ring_slot returned nothing: end it with `return`.", rows, "no_return")
    if as_whole(slot) is None:
        return Failure(f"A slot is a whole number (an int), not {a_kind(slot)}.", rows, "not_int")
    return None


def _misplaced(
    ask: Ask, slots: dict[int, int], position: int, window: int, sinks: int
) -> tuple[str, str, Rows] | None:
    """(key, idea, rows) when the slot of the newest position is none, or is not free."""
    room, slot = sinks + window, slots[position]
    if not 0 <= slot < room:
        idea = f"The storage has the slots 0 to {room - 1} and never grows: slot {slot} is none."
        return "no_such_slot", idea, _slot_rows(ask, f"a slot from 0 to {room - 1}", slot)
    kept = [other for other in slots if other < sinks or other > position - window]
    inside = {at: [other for other in kept if slots[other] == at] for at in range(room)}
    if all(len(found) <= 1 for found in inside.values()):
        return None
    names = ", ".join(str(other) for other in kept)
    strip = [
        f"slot {at}: position {' and '.join(str(other) for other in found)}"
        for at, found in inside.items()
        if found
    ]
    rows: Rows = (
        ("input", f"ring_slot(position, window={window}, sinks={sinks}) for {names}"),
        ("expected", f"{len(kept)} slots: once {position} is computed, all of these are kept"),
        ("got", "\n".join(strip)),
    )
    idea = "Two positions that are kept at the same time lie in one slot, so one of them is lost."
    return "collides", idea, rows


def _explain_slots(
    ask: Ask, slots: dict[int, int], window: int, sinks: int
) -> tuple[str, str] | None:
    """(key, idea) of the known mistake that would have given all these slots, and more like them.

    Only a whole series tells: single slots agree with many a mapping.
    """
    results = [((position, window, sinks), slot) for position, slot in slots.items()]
    with contextlib.suppress(Exception):  # an answer that breaks off has said enough
        results += [((position, 4, 2), ask(position, 4, 2)) for position in range(12)]
    for mistake in _MAPPINGS:
        if all(mistake.answer(*args) == slot for args, slot in results):
            return mistake.key, mistake.idea
    return None

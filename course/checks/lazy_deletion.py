"""Judging a heap with lazy deletion: its events, what stays in it, and the ways to revive the dead.

Heaps that differ only in the order of their array are the same, so both sides are sorted first.
"""

import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from course.checks.comparing import Args, Comparison, Mistake, a_kind
from course.judging import Ask
from nanogpt.parts.plain_values import as_items, as_mapping, as_whole

Entry = tuple[tuple[int, ...], int, int]
Generations = dict[int, int]
Event = tuple[Any, ...]
OnEvent = Callable[[list[Entry], Generations, Event], Any]


@dataclass(frozen=True, slots=True)
class Heaps(Comparison[OnEvent]):
    """A comparison of results whose heap is sorted first, if it was one."""

    def _asked(self, ask: Ask, args: Args) -> Any:
        return settled(Comparison[OnEvent]._asked(self, ask, args))


def settled(value: Any) -> Any:
    """The result with its heap in order, if it holds one."""
    if not isinstance(value, tuple):
        return value
    items = cast("tuple[Any, ...]", value)
    if items and isinstance(items[0], list) and _is_heap(items[0]):
        return (sorted(items[0]), *items[1:])
    return items


def _is_heap(entries: Sequence[Any]) -> bool:
    try:
        return all(entries[(i - 1) // 2] <= entries[i] for i in range(1, len(entries)))
    except TypeError:
        return False


# --- the rules, one function for each kind of event ------------------------------------------

_Push = Callable[[list[Entry], Generations, int, tuple[int, ...]], Any]
_Remove = Callable[[list[Entry], Generations, int], Any]
_Pop = Callable[[list[Entry], Generations], Any]


def _push(entries: list[Entry], latest: Generations, id: int, key: tuple[int, ...]) -> None:
    latest[id] = latest.get(id, 0) + 1
    heapq.heappush(entries, (key, id, latest[id]))


def _remove(entries: list[Entry], latest: Generations, id: int) -> None:
    latest[id] = latest.get(id, 0) + 1


def _pop(entries: list[Entry], latest: Generations) -> int | None:
    while entries:
        _, id, generation = heapq.heappop(entries)
        if latest.get(id) == generation:
            latest[id] += 1
            return id
    return None


def _handling(
    push: _Push = _push, remove: _Remove = _remove, pop: _Pop = _pop, *, settle: bool = True
) -> OnEvent:
    """The rules but for what is given; each works on copies and gives what came out."""

    def answer(heap: list[Entry], generations: Generations, event: Event) -> Any:
        entries, latest = list(heap), dict(generations)
        match event:
            case ("push", id, key):
                popped = push(entries, latest, id, key)
            case ("remove", id):
                popped = remove(entries, latest, id)
            case _:
                popped = pop(entries, latest)
        value = (entries, latest, popped)
        return settled(value) if settle else value

    return answer


REFERENCE = _handling()


# --- how it goes wrong -----------------------------------------------------------------------


def _forget(entries: list[Entry], latest: Generations, id: int) -> None:
    latest.pop(id, None)


def _counts_down(entries: list[Entry], latest: Generations, id: int) -> None:
    latest[id] = latest.get(id, 0) - 1


def _to_zero(entries: list[Entry], latest: Generations, id: int) -> None:
    latest[id] = 0


def _remove_known(entries: list[Entry], latest: Generations, id: int) -> None:
    if id in latest:
        latest[id] += 1


def _remove_waiting(entries: list[Entry], latest: Generations, id: int) -> None:
    if any(entry[1:] == (id, latest.get(id)) for entry in entries):
        latest[id] += 1


def _take_out(entries: list[Entry], id: int) -> None:
    entries[:] = sorted(entry for entry in entries if entry[1] != id)


def _eager_remove(entries: list[Entry], latest: Generations, id: int) -> None:
    _take_out(entries, id)
    _remove(entries, latest, id)


def _eager_and_forgets(entries: list[Entry], latest: Generations, id: int) -> None:
    _take_out(entries, id)
    latest.pop(id, None)


def _eager_and_leaves(entries: list[Entry], latest: Generations, id: int) -> None:
    _take_out(entries, id)


def _eager_push(entries: list[Entry], latest: Generations, id: int, key: tuple[int, ...]) -> None:
    _take_out(entries, id)
    _push(entries, latest, id, key)


def _push_as(count: Callable[[Generations, int], int]) -> _Push:
    """A push with another way to count."""

    def push(entries: list[Entry], latest: Generations, id: int, key: tuple[int, ...]) -> None:
        latest[id] = count(latest, id)
        heapq.heappush(entries, (key, id, latest[id]))

    return push


def _push_in_front(
    entries: list[Entry], latest: Generations, id: int, key: tuple[int, ...]
) -> None:
    latest[id] = latest.get(id, 0) + 1
    heapq.heappush(entries, (key, id, latest[id] - 1))


def _push_only_new(
    entries: list[Entry], latest: Generations, id: int, key: tuple[int, ...]
) -> None:
    if all(entry[1:] != (id, latest.get(id)) for entry in entries):
        _push(entries, latest, id, key)


def _append(entries: list[Entry], latest: Generations, id: int, key: tuple[int, ...]) -> None:
    latest[id] = latest.get(id, 0) + 1
    entries.append((key, id, latest[id]))


def _push_and_say(entries: list[Entry], latest: Generations, id: int, key: tuple[int, ...]) -> int:
    _push(entries, latest, id, key)
    return id


def _remove_and_say(entries: list[Entry], latest: Generations, id: int) -> int:
    _remove(entries, latest, id)
    return id


def _popping(
    *,
    after: Callable[[Generations, int], None] = lambda latest, id: latest.update(
        {id: latest[id] + 1}
    ),
    stale: Callable[[Generations, int], None] = lambda latest, id: None,
    gives: Callable[[Entry], Any] = lambda entry: entry[1],
    empty: Any = None,
    believes: bool = False,
    goes_on: bool = True,
) -> _Pop:
    """A pop with another thing done `after` it, to a `stale` entry, or when none is there."""

    def pop(entries: list[Entry], latest: Generations) -> Any:
        while entries:
            entry = heapq.heappop(entries)
            if believes or latest.get(entry[1]) == entry[2]:
                after(latest, entry[1])
                return gives(entry)
            stale(latest, entry[1])
            if not goes_on:
                return empty
        return empty

    return pop


def _peek(entries: list[Entry], latest: Generations) -> int | None:
    """Leaves the one that it names where it was."""
    while entries and latest.get(entries[0][1]) != entries[0][2]:
        heapq.heappop(entries)
    return entries[0][1] if entries else None


def _pop_by(rank: Callable[[Entry], Any]) -> _Pop:
    """Takes the live entry that ranks lowest, and those stale ones that rank below it."""

    def pop(entries: list[Entry], latest: Generations) -> int | None:
        ordered = sorted(entries, key=rank)
        while ordered:
            _, id, generation = ordered.pop(0)
            if latest.get(id) == generation:
                latest[id] += 1
                entries[:] = sorted(ordered)
                return id
        entries.clear()
        return None

    return pop


def _pop_leaving_stale(entries: list[Entry], latest: Generations) -> int | None:
    for entry in sorted(entries):
        if latest.get(entry[1]) == entry[2]:
            entries[:] = sorted(other for other in entries if other != entry)
            latest[entry[1]] += 1
            return entry[1]
    return None


def _pop_and_sweep(entries: list[Entry], latest: Generations) -> int | None:
    entries[:] = sorted(entry for entry in entries if latest.get(entry[1]) == entry[2])
    return _pop(entries, latest)


def _pop_forgetting(latest: Generations, id: int) -> None:
    latest.pop(id)


def _leave(latest: Generations, id: int) -> None:
    pass


def _count_stale(latest: Generations, id: int) -> None:
    latest[id] = latest.get(id, 0) + 1


def _forget_stale(latest: Generations, id: int) -> None:
    latest.pop(id, None)


def _ways(key: str, idea: str, *answers: OnEvent) -> Iterator[Mistake[OnEvent]]:
    """One mistake that can be made in several ways."""
    return (Mistake(key, idea, answer) for answer in answers)


_REVIVED = (
    "A stale entry still lies in the heap, and the next push would count from the start and reach "
    "its generation, so it comes to life again: never forget a generation, count it up."
)
_SAME_GENERATION = (
    "Every push counts the generation up: with a number that was used before, an entry from before "
    "is as live as the new one."
)
_REMOVED_IS_LIVE = (
    "The entry stays in the heap, so only its generation can say that it is void: a removal counts "
    "the request's generation up."
)
_NOT_LAZY = (
    "To find an entry inside a heap means to look through all of it, which lazy deletion saves: "
    "leave it there, and let a pop that meets it throw it away."
)
_POPPED_COUNTS = (
    "What was popped waits no more, so its generation counts up as at a removal: what is left "
    "of it anywhere is stale."
)
_ONLY_A_POP = "Only a pop takes a request out of the queue: a push or a removal gives None there."
_SMALLEST = "The smallest key goes first, whatever the id and the order of the pushes."

_MISTAKES: tuple[Mistake[OnEvent], ...] = (
    *_ways(
        "drops_the_counter",
        _REVIVED,
        _handling(remove=_forget),
        _handling(remove=_forget, pop=_popping(after=_pop_forgetting)),
        _handling(remove=_forget, pop=_popping(after=_leave)),
        _handling(remove=_eager_and_forgets),
        _handling(remove=_to_zero),
        _handling(remove=_counts_down),
    ),
    Mistake(
        "pop_drops_the_counter",
        "A pop may not forget the generation either: an older entry of the same request may still "
        "lie in the heap, and the next push would revive it.",
        _handling(pop=_popping(after=_pop_forgetting)),
    ),
    *_ways(
        "reuses_the_generation",
        _SAME_GENERATION,
        _handling(_push_as(lambda latest, id: latest.get(id, 0))),
        _handling(_push_as(lambda latest, id: latest.get(id, 1))),
        _handling(_push_as(lambda latest, id: 1)),
        _handling(_push_as(lambda latest, id: 0)),
    ),
    Mistake(
        "stale_at_once",
        "Count up first and write the new number into the entry: with the old one it is stale "
        "as soon as it is pushed.",
        _handling(_push_in_front),
    ),
    Mistake(
        "one_counter_for_all",
        "Every request has a generation of its own, which goes up by 1: the others have nothing to "
        "do with it.",
        _handling(_push_as(lambda latest, id: max(latest.values(), default=0) + 1)),
    ),
    *_ways(
        "keeps_the_old_key",
        "A push of a request that waits gives it a new key: push a new entry, whose generation "
        "makes the old one stale.",
        _handling(_push_only_new),
    ),
    Mistake(
        "removed_is_live", _REMOVED_IS_LIVE, _handling(remove=lambda entries, latest, id: None)
    ),
    *_ways(
        "not_lazy",
        _NOT_LAZY,
        _handling(remove=_eager_remove),
        _handling(remove=_eager_and_leaves),
        _handling(_eager_push),
        _handling(_eager_push, _eager_remove),
        _handling(_eager_push, _eager_and_leaves),
        _handling(pop=_pop_and_sweep),
    ),
    *_ways(
        "pops_the_stale",
        "What lies on top may be stale: only an entry with its request's latest generation counts, "
        "and one without it is thrown away.",
        _handling(pop=_popping(believes=True)),
        _handling(pop=_popping(believes=True, after=_leave)),
    ),
    Mistake(
        "gives_up",
        "A stale entry on top does not mean that none waits: throw it away and look at the next "
        "one.",
        _handling(pop=_popping(goes_on=False)),
    ),
    Mistake(
        "leaves_the_stale",
        "The stale entries that a pop meets on its way are done with: take them out, or the heap "
        "only ever grows.",
        _handling(pop=_pop_leaving_stale),
    ),
    Mistake(
        "still_in_the_heap",
        "What is popped leaves the heap: as it is, the next pop gives the same request to a "
        "second worker.",
        _handling(pop=_peek),
    ),
    *_ways(
        "removes_only_what_it_knows",
        "A removal counts up whether the request is known or not, and one that is missing has "
        "generation 0.",
        _handling(remove=_remove_known),
        _handling(remove=_remove_waiting),
    ),
    Mistake("pop_does_not_count", _POPPED_COUNTS, _handling(pop=_popping(after=_leave))),
    *_ways(
        "stale_counts",
        "A stale entry that a pop throws away changes no generation: counting up here makes the "
        "newer entry of the same request stale as well.",
        _handling(pop=_popping(stale=_count_stale)),
        _handling(pop=_popping(stale=_count_stale, after=_leave)),
    ),
    Mistake(
        "stale_forgotten",
        "A stale entry that is thrown away says nothing about its request, of which there may be a "
        "live one: leave the generation alone.",
        _handling(pop=_popping(stale=_forget_stale)),
    ),
    *_ways(
        "not_the_smallest",
        _SMALLEST,
        _handling(pop=_pop_by(lambda entry: entry[1])),
        _handling(pop=_pop_by(lambda entry: entry[2])),
        _handling(pop=_pop_by(lambda entry: [-part for part in entry[0]])),
        _handling(pop=_pop_by(lambda entry: entry[0][1:])),
    ),
    Mistake(
        "not_a_heap",
        "The list is a heap, with the smallest entry in front: `heapq.heappush` keeps it one, "
        "appending does not.",
        _handling(_append, settle=False),
    ),
    *_ways(
        "gives_the_entry",
        "What comes out is the request's id, not its whole entry, nor its key.",
        _handling(pop=_popping(gives=lambda entry: entry)),
        _handling(pop=_popping(gives=lambda entry: entry[0])),
        _handling(pop=_popping(gives=lambda entry: entry[1:])),
        _handling(pop=_popping(gives=lambda entry: (entry[0], entry[1]))),
    ),
    *_ways(
        "empty_gives_something",
        "When none waits, none comes out: that is None, while a number would be a request's id.",
        _handling(pop=_popping(empty=-1)),
        _handling(pop=_popping(empty=False)),
        _handling(pop=_popping(empty=())),
    ),
    *_ways(
        "only_a_pop",
        _ONLY_A_POP,
        _handling(_push_and_say),
        _handling(remove=_remove_and_say),
        _handling(_push_and_say, _remove_and_say),
    ),
)


# --- cases -----------------------------------------------------------------------------------


def any_states(rng: random.Random, count: int) -> list[Args]:
    """Moments out of the lives of small heaps: few ids and few keys, so that much is stale."""
    states: list[Args] = []
    while len(states) < count:
        entries: list[Entry] = []
        latest: Generations = {}
        for _ in range(rng.randint(2, 13)):
            _play(entries, latest, _any_event(rng, entries, latest))
        states.append((entries, latest, _any_event(rng, entries, latest)))
    return sorted(states, key=lambda state: len(state[0]))


def _any_event(rng: random.Random, entries: list[Entry], latest: Generations) -> Event:
    waiting = [id for _, id, generation in entries if latest[id] == generation]
    kind = rng.choice(("push", "push", "push", "remove", "pop"))
    if kind == "push":
        return ("push", rng.randrange(4), (rng.randrange(3), 100 * rng.randint(1, 4)))
    if kind == "remove":  # mostly of one that waits, but also of one that does not, or never did
        return ("remove", rng.choice([*waiting, *waiting, rng.randrange(6)]))
    return ("pop",)


def _play(entries: list[Entry], latest: Generations, event: Event) -> None:
    """The event, in place, with the array as `heapq` leaves it."""
    match event:
        case ("push", id, key):
            _push(entries, latest, id, key)
        case ("remove", id):
            _remove(entries, latest, id)
        case _:
            _pop(entries, latest)


COMES_BACK: tuple[Event, ...] = (
    ("push", 3, (0, 100)), ("remove", 3), ("push", 3, (2, 900)), ("push", 5, (1, 500)),
    ("pop",), ("pop",), ("pop",),
)  # fmt: skip
RIGHT_ORDER = "5, 3, none"


def life(ask: Ask) -> str | None:
    """What comes out when the answer goes on with its own heaps; None where it breaks off."""
    state: tuple[Any, Any] = ([], {})
    out: list[str] = []
    try:
        for event in COMES_BACK:
            entries, latest, popped = ask(*state, event)
            state = (entries, latest)
            if event == ("pop",):
                out.append("none" if popped is None else str(popped))
    except Exception:
        return None
    return ", ".join(out)


def _draw_event(event: Event) -> str:
    """The event as a tuple, with its word in double quotes as in the text."""
    word, *rest = event
    return f'("{word}", {", ".join(map(repr, rest))})' if rest else f'("{word}",)'


def _draw_call(name: str, args: Args) -> str:
    heap, generations, event = args
    entries = "\n       ".join(map(repr, heap))
    lines = (
        f"{name}(heap, generations, {_draw_event(event)})",
        f"heap = [{entries}]",
        f"generations = {generations}",
    )
    return "\n".join(lines)


def _draw(value: Any) -> str:
    if _form(value):
        return repr(value)
    heap, generations, popped = value
    entries = "\n       ".join(map(repr, heap))
    return f"heap = [{entries}]\ngenerations = {generations}\npopped = {popped!r}"


def _form(value: Any) -> tuple[str, str] | None:
    items = as_items(value)
    if items is None or len(items) != 3:
        kind = a_kind(value) if items is None else f"{len(items)}"
        return "not_three", f"Return three things, `return heap, generations, popped`, not {kind}."
    heap, generations, popped = items
    entries = as_items(heap)
    if entries is None:
        return "not_a_list", f"The heap is a list of entries, not {a_kind(heap)}."
    for entry in entries:
        if not _is_entry(entry):
            return (
                "not_an_entry",
                "An entry is a tuple of the key, the id and the generation, in this order.",
            )
    if not _is_heap(entries):
        return (
            "not_a_heap",
            "The list is a heap, with the smallest entry in front: `heapq.heappush` and "
            "`heapq.heappop` keep it one.",
        )
    if as_mapping(generations) is None:
        return "not_a_dict", f"The generations are a dict, not {a_kind(generations)}."
    if popped is not None and as_whole(popped) is None:
        return "not_an_id", f"Popped is the id of a request, or None, not {a_kind(popped)}."
    return None


def _is_entry(entry: Any) -> bool:
    """Whether it is a key, which has several parts, an id and a generation."""
    parts = as_items(entry)
    if parts is None or len(parts) != 3:
        return False
    key, *numbers = parts
    return as_items(key) is not None and all(as_whole(number) is not None for number in numbers)


HEAP: Heaps = Heaps(
    reference=REFERENCE,
    mistakes=_MISTAKES,
    idea="Follow the generations: of several entries of one request, which one counts, and what "
    "makes the others stale?",
    form=_form,
    draw=_draw,
    draw_call=_draw_call,
    evidence=any_states(random.Random(3), 30),
)

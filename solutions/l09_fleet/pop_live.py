"""Exercise 9.1: the pop of a priority queue with lazy deletion."""
# pyright: reportMissingTypeArgument=false, reportUnknownParameterType=false

import heapq
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from course.calling.plain_values import as_items, as_whole
from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Misconception, Task
from nanogpt.fleet.decisions import Entry, Newest, pop_in_place, push, remove

# --- right answers ------------------------------------------------------------------------------


def pop_live(
    heap: list[tuple[tuple, int, int]], newest: dict[int, int]
) -> tuple[int | None, list[tuple[tuple, int, int]]]:
    """Return `(request_id, heap)`: the first live request, and the heap after its pop."""
    # Removing an entry from the middle of a heap means searching for it. Discarding it when it
    # reaches the top costs one comparison.
    heap = list(heap)
    while heap:
        _, request_id, generation = heapq.heappop(heap)
        if generation == newest[request_id]:
            return request_id, heap
    return None, heap


def from_a_sorted_list(heap: list[Entry], newest: Newest) -> tuple[int | None, list[Entry]]:
    # A sorted list is a heap.
    entries = sorted(heap)
    live = [at for at, (_, who, generation) in enumerate(entries) if newest[who] == generation]
    return (entries[live[0]][1], entries[live[0] + 1 :]) if live else (None, [])


# --- wrong ideas --------------------------------------------------------------------------------

NOTHING_LIVE: Any = ((math.inf,), None, 0)


def leaving(which: Callable[[Entry, Entry, Newest], bool]) -> Callable[[list[Entry], Newest], Any]:
    """The right request, and the entries of which `which(entry, live, newest)` is true."""

    def answer(heap: list[Entry], newest: Newest) -> Any:
        entries = sorted(heap)
        live = next((each for each in entries if each[2] == newest[each[1]]), NOTHING_LIVE)
        return live[1], [each for each in entries if which(each, live, newest)]

    return answer


def discards_one(heap: list[Entry], newest: Newest) -> Any:
    rest = sorted(heap)
    if rest and rest[0][2] != newest[rest[0][1]]:
        del rest[0]
    return (rest[0][1] if rest else None), rest[1:]


def without_looking(heap: list[Entry], newest: Newest) -> Any:
    rest = list(heap)
    while True:
        _, request_id, generation = heapq.heappop(rest)
        if generation == newest[request_id]:
            return request_id, rest


def is_pair(value: Any) -> bool:
    match as_items(value):
        case [request_id, heap] if request_id is None or as_whole(request_id) is not None:
            return as_items(heap) is not None
        case _:
            return False


def is_heap(value: Sequence[Any]) -> bool:
    try:
        return all(value[(i - 1) // 2] <= value[i] for i in range(1, len(value)))
    except TypeError:
        return False


EMPTY_RAISES = Misconception(
    "empty_raises",
    "A pop always finds a live request.",
    "The heap may be empty, or hold only stale entries. Check that it has an entry before every "
    "`heappop`, and return `None` as the id when it has none.",
    examples=(without_looking,),
)
MISCONCEPTIONS = (
    Misconception(
        "not_a_pair",
        "A pop returns the entry.",
        "Return the request's id, or None, and the heap that is left: `return request_id, heap`.",
        matches=lambda value: not is_pair(value),
        examples=(lambda *args: pop_live(*args)[0], lambda heap, _: (heap[:1], heap[1:])),
    ),
    Misconception(
        "not_a_heap",
        "A heap is a list, so entries can be deleted anywhere.",
        "The list that you return is no heap any more. Take entries off the top with "
        "`heapq.heappop`, which keeps the order.",
        matches=lambda value: is_pair(value) and not is_heap(value[1]),
        examples=(lambda *args: (pop_live(*args)[0], pop_live(*args)[1][::-1]),),
    ),
    Misconception(
        "pops_the_stale",
        "The top of the heap is the next request.",
        "The entry on top may be stale: its request was removed, or pushed again with another key. "
        "Compare the entry's generation with the newest one of its request.",
        lambda heap, newest: (heap[0][1] if heap else None, sorted(heap)[1:]),
    ),
    Misconception(
        "discards_one",
        "At most one stale entry is on top.",
        "Several stale entries may come before the first live one. Go on until an entry is live or "
        "the heap is empty.",
        discards_one,
    ),
    Misconception(
        "peeks",
        "A pop only has to find the first live request.",
        "A pop also takes the live entry off the heap. Otherwise the next pop returns the same "
        "request again.",
        leaving(lambda entry, live, newest: entry >= live),
    ),
    Misconception(
        "keeps_the_stale",
        "Only the live entry leaves the heap.",
        "Discard the stale entries that you pass on the way. If they stay, every later pop passes "
        "them again.",
        leaving(lambda entry, live, newest: entry != live),
    ),
    Misconception(
        "sweeps",
        "A stale entry may be deleted at any time.",
        "Finding every stale entry means looking through the whole heap, and lazy deletion exists "
        "to avoid that. Discard only those that come before the first live entry.",
        leaving(lambda entry, live, newest: entry > live and entry[2] == newest[entry[1]]),
    ),
    EMPTY_RAISES,
    Misconception(
        "in_place",
        "A pop changes the heap that it is given.",
        examples=(lambda heap, newest: (pop_in_place(heap, newest), heap),),
    ),
    Misconception(
        "no_return",
        "A pop changes the heap, so it need not return it.",
        examples=(lambda *args: None,),
    ),
)

# --- cases --------------------------------------------------------------------------------------


class Heaps(Comparison):
    """Two heaps with the same entries are equal, in whatever order their lists are."""

    def read(self, returned: Any, args: Args) -> Any:
        """The result with its heap sorted, if it is a heap."""
        value = Comparison.read(self, returned, args)
        is_sortable = type(value) is tuple and is_pair(value) and is_heap(value[1])
        return (value[0], sorted(value[1])) if is_sortable else value


def any_heaps(rng: random.Random, count: int = 60) -> list[Args]:
    """Small heaps after some pushes, removals and pops; few ids and keys, so many stale entries."""
    heaps: list[Args] = []
    for _ in range(count):
        heap: list[Entry] = []
        newest: Newest = {}
        for _ in range(rng.randint(1, 14)):
            who, key = rng.randrange(5), (rng.randrange(3), 100 * rng.randint(1, 4))
            event = rng.choice(("push",) * 4 + ("remove",) * 2 + ("pop",))
            if event == "push":
                push(heap, newest, who, key)
            elif event == "remove":
                remove(newest, who)
            else:
                pop_in_place(heap, newest)
        heaps.append((heap, newest))
    return sorted(heaps, key=lambda args: len(args[0]))


JUDGE = Heaps(
    from_a_sorted_list,
    MISCONCEPTIONS,
    "Take entries off the top until one is live: which ones come off, and which ones stay?",
    evidence=any_heaps(random.Random(3), 40),
)
THREE, FIVE, SIX = ((1, 200), 3, 1), ((1, 300), 5, 1), ((2, 100), 6, 1)
OLD, NEW = ((0, 900), 3, 1), ((2, 900), 3, 2)
ALL_LIVE = ([THREE], {3: 1}), ([THREE, SIX, FIVE], {3: 1, 5: 1, 6: 1})
PUSHED_AGAIN = ([OLD, NEW], {3: 2}), ([OLD, FIVE, NEW], {3: 2, 5: 1}), ([THREE, NEW], {3: 2})
REMOVED = ([THREE, FIVE], {3: 2, 5: 1}), ([THREE, FIVE, SIX], {3: 2, 5: 2, 6: 1})
NONE_LIVE = ([], {}), ([], {3: 2}), ([THREE], {3: 2}), ([OLD, THREE, FIVE], {3: 4, 5: 2})

EXERCISE = Exercise(
    number=1,
    title="Pop from a heap with stale entries",
    minutes=8,
    points=3,
    task=Task(
        rules=(
            "`heap` is a list that `heapq` keeps in order. Its entries are `(key, request_id, "
            "generation)`, and the smallest key goes first.",
            "`newest[request_id]` is the newest generation of that request. An entry is live if "
            "its generation is that number, and stale otherwise.",
            "Take entries off the top up to and including the first live one. Return "
            "`(request_id, heap)`: the id of that live entry's request, and the heap without the "
            "entries that you took off.",
            "If no entry is live, return `(None, [])`.",
            "Stale entries below the first live one stay in the heap. Work on a copy of `heap`, "
            "and only read `newest`.",
        ),
        args=(
            [((0, 900), 5, 1), ((1, 200), 3, 2), ((1, 300), 3, 1), ((2, 100), 7, 1)],
            {3: 2, 5: 2, 7: 1},
        ),
        call="pop_live(heap, newest={3: 2, 5: 2, 7: 1})\n"
        "heap = [((0, 900), 5, 1),\n"
        "        ((1, 200), 3, 2),\n"
        "        ((1, 300), 3, 1),\n"
        "        ((2, 100), 7, 1)]",
        steps=(
            "On top is request 5's entry with generation 1. Request 5 has been removed, so its "
            "newest generation is 2: the entry is stale and comes off.",
            "Now request 3's entry with generation 2 is on top. Its newest generation is 2: the "
            "entry is live, comes off, and ends the pop.",
            "Two entries are left. Request 3's entry with generation 1 is stale, but it lies below "
            "the live one and stays.",
        ),
        result=(3, [((1, 300), 3, 1), ((2, 100), 7, 1)]),
    ),
    hints=(
        "Two entries in the heap belong to request 3. Which number tells you the one that counts?",
        "Copy the heap. In a loop, take the top off with `heapq.heappop` and compare its "
        "generation with `newest[request_id]`. The loop ends when they are equal, or when the heap "
        "is empty.",
        "`while heap:` guards against the empty heap. Unpack an entry as `_, request_id, "
        "generation = heapq.heappop(heap)`. Return the id and the heap from inside the loop, and "
        "`None, heap` after it.",
    ),
    right=(pop_live, from_a_sorted_list),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("every entry is live", JUDGE.on(*ALL_LIVE)),
        ("a request pushed again", JUDGE.on(*PUSHED_AGAIN)),
        ("a request removed", JUDGE.on(*REMOVED, ([OLD, FIVE, NEW], {3: 3, 5: 1}))),
        ("no entry is live", JUDGE.on_raising(EMPTY_RAISES, (IndexError,), *NONE_LIVE)),
        ("any heap", JUDGE.on_drawn(any_heaps)),
    ),
)

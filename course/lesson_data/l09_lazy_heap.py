"""What a heap with lazy deletion does, event by event, and which of its entries should count.

The story follows the function that it is given, the reference or a learner's. Who truly waits is
kept beside it: a request waits from its push until its removal or until it is popped, and its
latest entry alone is live. An entry of the past that counts again is then seen at once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course.calling.errors import blame
from course.calling.jobs import RunError, run
from nanogpt.fleet.decisions import Entry, Event, Key
from nanogpt.fleet.fleet_policies import ApplyEvent
from nanogpt.validate import PolicyError

Record = dict[str, Any]


def told(story: Callable[..., Record], *functions: Callable[..., Any]) -> Record:
    """The story that `story` tells of a learner's functions, in a child process."""
    try:
        return run(story, *functions)
    except RunError as error:
        return {"version": 1, "steps": [], "error": str(error)}


def heap_story(apply_event: ApplyEvent, events: Sequence[Event]) -> Record:
    """The heap after each event, as plain data for a picture.

    Returns {"version": 1, "steps": [...], "error": None or a sentence}. A step holds "event",
    "entries" ({"id", "key", "generation", "live"} in the array's order), "generations" (by id, as
    text), "popped" and "words". An entry is the function's own choice when its generation is the
    request's in "generations", and rightly so when it is "live". A function that fails, or
    answers with something that is no heap, ends the story: the steps until then stay.
    A learner's function is asked by `told`. Raises: ValueError for an event that is none.
    """
    checked = [_checked_event(event) for event in events]
    heap: list[Entry] = []
    generations: dict[int, int] = {}
    waiting: dict[int, Key] = {}
    steps: list[Record] = []
    wrong: list[str] = []
    for event in checked:
        before = heap
        try:
            answer = apply_event(list(heap), dict(generations), event)
            heap, generations, popped = _checked_answer(answer)
        except Exception as error:
            return {"version": 1, "steps": steps, "error": blame(error)}
        expected = _first(waiting) if event[0] == "pop" else None
        _apply(waiting, event, popped)
        live = _live(heap, waiting)
        found = _what_is_wrong(heap, generations, live, waiting)
        words = [_what_happened(event, popped, expected, len(before) - len(heap))]
        words += [sentence for sentence in found if sentence not in wrong]
        wrong = found  # what stays wrong is said once
        steps.append(_step(event, heap, generations, live, popped, " ".join(words)))
    return {"version": 1, "steps": steps, "error": None}


def _apply(waiting: dict[int, Key], event: Event, popped: int | None) -> None:
    """Who waits after the event, and with which key; a pop takes what the function named."""
    match event:
        case ("push", request_id, key):
            waiting[request_id] = key
        case ("remove", request_id):
            waiting.pop(request_id, None)
        case _:
            if popped is not None:
                waiting.pop(popped, None)


def _first(waiting: Mapping[int, Key]) -> int | None:
    """Whose turn it is: the smallest key, then the smaller id."""
    return min(waiting, key=lambda request_id: (waiting[request_id], request_id), default=None)


def _live(heap: Sequence[Entry], waiting: Mapping[int, Key]) -> set[int]:
    """Indices of the entries that stand for a waiting request, at most one for each.

    That is the entry with the request's present key; of several the youngest generation.
    """
    found: dict[int, int] = {}
    for index, (key, request_id, generation) in enumerate(heap):
        if waiting.get(request_id) == key and (
            request_id not in found or generation > heap[found[request_id]][2]
        ):
            found[request_id] = index
    return set(found.values())


def _step(
    event: Event,
    heap: Sequence[Entry],
    generations: Mapping[int, int],
    live: set[int],
    popped: int | None,
    words: str,
) -> Record:
    return {
        "event": [list(part) if isinstance(part, tuple) else part for part in event],
        "entries": [
            {"id": request_id, "key": list(key), "generation": generation, "live": index in live}
            for index, (key, request_id, generation) in enumerate(heap)
        ],
        "generations": {str(request_id): count for request_id, count in generations.items()},
        "popped": popped,
        "words": words,
    }


# ---------------------------------------------------------------- in words


def _what_happened(event: Event, popped: int | None, expected: int | None, gone: int) -> str:
    match event:
        case ("push", request_id, key):
            return f"Request {request_id} comes in with key {_text(key)}."
        case ("remove", request_id):
            return f"Request {request_id} is withdrawn; the heap is not searched for its entry."
        case _:
            pass
    said = "The pop finds nothing." if popped is None else f"Request {popped} is popped."
    dropped = gone - (popped is not None)
    if dropped > 0:
        said += f" {dropped} stale {_entries(dropped)} went on the way."
    if popped == expected:
        return said
    whose = "nothing waits" if expected is None else f"it is request {expected}'s turn"
    return f"{said} That is wrong: {whose}."


def _what_is_wrong(
    heap: Sequence[Entry],
    generations: Mapping[int, int],
    live: set[int],
    waiting: Mapping[int, Key],
) -> list[str]:
    """A sentence for every entry on which the function and the truth disagree."""
    said: list[str] = []
    for index, (key, request_id, generation) in enumerate(heap):
        counts = generations.get(request_id) == generation
        if counts and index not in live:
            said.append(
                f"Request {request_id}'s old entry {_text(key)} counts again: its generation "
                f"{generation} is the counter's."
            )
        elif not counts and index in live:
            said.append(
                f"Request {request_id} waits, but its entry {_text(key)} counts as stale: "
                f"generation {generation} is not the counter's."
            )
    held = {heap[index][1] for index in live}
    said += [
        f"Request {request_id} waits, but its entry is gone."
        for request_id in waiting
        if request_id not in held
    ]
    return said


def _entries(number: int) -> str:
    return "entry" if number == 1 else "entries"


def _text(key: Key) -> str:
    return f"({', '.join(str(part) for part in key)})"


# ---------------------------------------------------------------- what may come in


def _checked_event(event: Event) -> Event:
    """The event with its key as a tuple. Raises: ValueError naming what is wrong with it."""
    match event:
        case ("push", request_id, [_, *_] as key) if _is_id(request_id) and _is_key(key):
            return ("push", request_id, tuple(key))
        case ("remove", request_id) if _is_id(request_id):
            return ("remove", request_id)
        case ("pop",):
            return ("pop",)
        case _:
            raise ValueError(
                f'there is no event {event!r}; choose from ("push", id, key), ("remove", id), '
                '("pop",), a key being a tuple of numbers'
            )


def _checked_answer(answer: object) -> tuple[list[Entry], dict[int, int], int | None]:
    """What the function returned, in its proper types. Raises: PolicyError in one sentence."""
    match answer:
        case ([*heap], {**generations}, popped):
            pass
        case _:
            raise PolicyError(
                f"your apply_event returned {_short(answer)}; it must be "
                "(heap, generations, popped): a list, a dict, and an id or None"
            )
    entries: list[Entry] = []
    for entry in heap:
        match entry:
            case ([_, *_] as key, request_id, generation) if (
                _is_key(key) and _is_id(request_id) and _is_id(generation)
            ):
                entries.append((tuple(key), request_id, generation))
            case _:
                raise PolicyError(
                    f"your apply_event left {_short(entry)} in the heap; an entry must be "
                    "(key, id, generation), the key a tuple of numbers"
                )
    for request_id, count in generations.items():
        if not (_is_id(request_id) and _is_id(count)):
            raise PolicyError(
                f"your apply_event left {_short(request_id)}: {_short(count)} in the generations; "
                "they must be whole numbers of at least 0"
            )
    if popped is not None and not _is_id(popped):
        raise PolicyError(
            f"your apply_event popped {_short(popped)}; it must be a request's id or None"
        )
    return entries, generations, popped


def _is_id(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_key(key: Sequence[object]) -> bool:
    return all(type(part) in (int, float) and math.isfinite(part) for part in key)  # type: ignore


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"

"""What a priority queue with lazy deletion does, event by event, and which entries should count.

The story follows the functions that it is given, the references or a learner's. Beside them it
keeps the requests that really wait: from their push until their removal or pop. Only the latest
entry of a waiting request is live, so an old entry that counts again is seen at once.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from course.calling.errors import blame
from course.calling.jobs import RunError, run
from nanogpt.fleet.decisions import Entry, Key, Newest, pop_live, push, remove
from nanogpt.validate import PolicyError

Record = dict[str, Any]
Event = tuple[str, int, Key] | tuple[str, int] | tuple[str]
"""("push", id, key), ("remove", id) or ("pop",)."""


def after_removal(newest: Newest, request_id: int) -> Newest:
    """The newest generations after a removal, which makes the request's entries stale."""
    newest = dict(newest)
    remove(newest, request_id)
    return newest


def told(story: Callable[..., Record], *functions: Callable[..., Any]) -> Record:
    """The story that `story` tells of a learner's functions, in a child process."""
    try:
        return run(story, *functions)
    except RunError as error:
        return {"version": 1, "steps": [], "error": str(error)}


def heap_story(
    events: Sequence[Event],
    pop: Callable[..., Any] = pop_live,
    remove: Callable[..., Any] = after_removal,
) -> Record:
    """The heap after each event, as plain data for a picture.

    Returns {"version": 1, "steps": [...], "error": None or a sentence}. A step holds "event",
    "entries" ({"id", "key", "generation", "live"} in the array's order), "generations" (by id, as
    text), "popped" and "words". An entry counts when its generation is the request's in
    "generations", and rightly so when it is "live". A function that fails, or returns something
    that is no heap, ends the story; the steps until then stay.
    A learner's functions are asked by `told`.
    """
    heap: list[Entry] = []
    newest: Newest = {}
    waiting: dict[int, Entry] = {}  # each request's latest entry
    steps: list[Record] = []
    wrong: list[str] = []
    for event in events:
        before, popped = heap, None
        try:
            match event:
                case ("push", request_id, key):
                    heap, newest = list(heap), dict(newest)
                    push(heap, newest, request_id, key)
                    waiting[request_id] = (key, request_id, newest[request_id])
                case ("remove", request_id):
                    newest = _checked_newest(remove(dict(newest), request_id))
                    waiting.pop(request_id, None)
                case _:
                    popped, heap = _checked_pop(pop(list(heap), dict(newest)))
        except Exception as error:
            return {"version": 1, "steps": steps, "error": blame(error)}
        words = [_what_happened(event, popped, waiting, len(before) - len(heap))]
        waiting.pop(-1 if popped is None else popped, None)
        found = _what_is_wrong(heap, newest, waiting)
        words += [sentence for sentence in found if sentence not in wrong]
        wrong = found  # what stays wrong is said once
        steps.append(_step(event, heap, newest, waiting, popped) | {"words": " ".join(words)})
    return {"version": 1, "steps": steps, "error": None}


def _step(
    event: Event, heap: list[Entry], newest: Newest, waiting: dict[int, Entry], popped: int | None
) -> Record:
    return {
        "event": [list(part) if isinstance(part, tuple) else part for part in event],
        "entries": [
            {
                "id": who,
                "key": list(key),
                "generation": generation,
                "live": waiting.get(who) == each,
            }
            for each in heap
            for key, who, generation in [each]
        ],
        "generations": {str(request_id): count for request_id, count in newest.items()},
        "popped": popped,
    }


def _what_happened(
    event: Event, popped: int | None, waiting: dict[int, Entry], num_gone: int
) -> str:
    match event:
        case ("push", request_id, key):
            return f"Request {request_id} is pushed with key {key}."
        case ("remove", request_id):
            return f"Request {request_id} is removed; its entry stays in the heap."
        case _:
            pass
    said = "The pop finds no live entry." if popped is None else f"Request {popped} is popped."
    num_stale = num_gone - (popped is not None)
    if num_stale > 0:
        said += f" Stale entries that came off before it: {num_stale}."
    first = min(waiting.values(), default=None)
    if popped == (first and first[1]):
        return said
    return f"{said} That is wrong: {f'request {first[1]} is first' if first else 'none waits'}."


def _what_is_wrong(heap: list[Entry], newest: Newest, waiting: dict[int, Entry]) -> list[str]:
    """A sentence for every entry that counts and should not, or the other way round."""
    said: list[str] = []
    for entry in heap:
        key, request_id, generation = entry
        counts, is_live = newest.get(request_id) == generation, waiting.get(request_id) == entry
        if counts and not is_live:
            said.append(
                f"Request {request_id}'s old entry {key} is live again: its generation "
                f"{generation} is the newest one once more."
            )
        elif is_live and not counts:
            said.append(
                f"Request {request_id} waits, but its entry {key} is stale: generation "
                f"{generation} is not the newest one."
            )
    return said + [
        f"Request {request_id} waits, but its entry is gone."
        for request_id, entry in waiting.items()
        if entry not in heap
    ]


# ---------------------------------------------------------------- what is accepted


def _checked_pop(answer: object) -> tuple[int | None, list[Entry]]:
    """What a pop returned, in its proper types. Raises: PolicyError in one sentence."""
    match answer:
        case (popped, [*heap]) if popped is None or _is_id(popped):
            pass
        case _:
            raise PolicyError(
                f"your pop_live returned {_short(answer)}; it must be (request_id, heap): an id or "
                "None, and a list"
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
                    f"your pop_live left {_short(entry)} in the heap; an entry must be "
                    "(key, id, generation), the key a tuple of numbers"
                )
    return popped, entries


def _checked_newest(newest: object) -> Newest:
    """The generations after a removal. Raises: PolicyError in one sentence."""
    match newest:
        case {**known} if all(_is_id(each) for pair in known.items() for each in pair):
            return known
        case _:
            raise PolicyError(
                f"the removal returned {_short(newest)}; it must be a dict of whole numbers"
            )


def _is_id(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_key(key: Sequence[object]) -> bool:
    return all(type(part) in (int, float) and math.isfinite(part) for part in key)  # type: ignore


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"

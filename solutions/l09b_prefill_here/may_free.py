"""Exercise 9b.3: when the K/V of a transfer may be freed."""

import random
from typing import Any

from course.checks.comparing import Args, Comparison, a_kind
from course.exercise import Exercise, Misconception, Task

State = tuple[int, ...]
Event = tuple[str, int | None]


def may_free(state: tuple[int, ...], event: tuple[str, int | None]) -> bool:
    """Return whether the K/V may be freed after the event."""
    kind, worker = event
    # An abort ends the request, and not the copying: whoever reads has to say that it is done.
    if kind == "aborted":
        return not state
    # Acknowledged or lost: free it only if this was the last worker that could touch it.
    return set(state) == {worker}


def by_removing(state: State, event: Event) -> bool:
    left = [worker for worker in state if worker != event[1]]
    return not left and (event[0] == "aborted" or event[1] in state)


def only_one(state: State, event: Event) -> bool:
    return set(state) == {event[1]}


MISCONCEPTIONS = (
    Misconception(
        "not_a_bool",
        "The workers that are left say it all.",
        lambda value: f"Return True or False, not {a_kind(value)}.",
        matches=lambda value: type(value) is not bool,
        examples=(lambda state, event: [w for w in state if w != event[1]],),
    ),
    Misconception(
        "abort_frees",
        "An aborted request needs no K/V.",
        "Its workers may still be reading or writing, and the next request would get the memory "
        "under their hands. Wait until each has acknowledged, or is lost.",
        lambda state, event: event[0] == "aborted" or only_one(state, event),
    ),
    Misconception(
        "first_acknowledgement",
        "One acknowledgement is enough.",
        "The other workers in `state` are still reading. Wait for the last one.",
        lambda state, event: (
            event[1] in state if event[0] == "acknowledged" else may_free(state, event)
        ),
        same_result=(
            lambda state, event: event[0] == "acknowledged" or may_free(state, event),
            lambda state, event: event[0] == "acknowledged" and event[1] in state,
        ),
    ),
    Misconception(
        "lost_keeps",
        "A lost worker never acknowledges, so the K/V waits.",
        "A lost worker touches nothing any more. If it was the last one in `state`, the K/V would "
        "be kept for ever.",
        lambda state, event: event[0] != "lost" and may_free(state, event),
    ),
    Misconception(
        "lost_frees",
        "If a side is lost, the transfer is over.",
        "Other workers in `state` may still read, and a worker outside `state` does not matter.",
        lambda state, event: event[0] == "lost" or may_free(state, event),
        same_result=(
            lambda state, event: (
                event[1] in state if event[0] == "lost" else may_free(state, event)
            ),
        ),
    ),
    Misconception(
        "stranger",
        "No worker is left in `state`, so it is free.",
        "K/V that waits for its reader is touched by no worker either. An acknowledgement from a "
        "worker that is not in `state` belongs to an earlier transfer.",
        lambda state, event: not set(state) - {event[1]},
    ),
)


def every_event(rng: random.Random) -> list[Args]:
    """Up to three workers in the state, and each event of a worker inside or outside."""
    ids = rng.sample(range(9), 4)
    states = [tuple(ids[:n]) for n in range(4)]
    events: list[Any] = [("aborted", None)]
    events += [(kind, i) for kind in ("acknowledged", "lost") for i in (ids[0], ids[1], ids[3])]
    return [(state, event) for state in states for event in events]


JUDGE = Comparison(
    may_free,
    MISCONCEPTIONS,
    "After the event, no worker may be left that can touch the K/V, and none may be about to.",
    evidence=every_event(random.Random(1)),
)
on = JUDGE.on

EXERCISE = Exercise(
    number=3,
    title="When K/V may be freed",
    minutes=6,
    points=2,
    task=Task(
        rules=(
            "`state` holds the ids of the workers that may be writing or reading the K/V before "
            "the event. It is empty while the K/V waits for its reader. With tensor parallelism, "
            "several workers read.",
            '`event` is `("acknowledged", worker)`: it has read everything; `("lost", worker)`: '
            'its process has ended; or `("aborted", None)`: the client has gone.',
            "An event may come late: from a worker that is not in `state`, about an earlier "
            "transfer. Such an event frees nothing.",
            "Return True if the K/V may be freed now, and otherwise False. It must not be freed "
            "while a worker may touch it, nor kept when no worker ever will.",
        ),
        args=((1, 2), ("acknowledged", 1)),
        result=False,
        steps=("Worker 1 has read everything. Worker 2 may still be reading.",),
    ),
    hints=(
        "Who could still touch the K/V after the event?",
        "An aborted request's K/V is free at once only if no worker touches it. For the other "
        "events ask whether this worker was the last.",
        'For "aborted": is `state` empty? Otherwise: does `state` hold this worker and no other?',
    ),
    right=(may_free, by_removing),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("one reader", on(((1,), ("acknowledged", 1)), ((), ("aborted", None)))),
        ("two readers", on(((1, 2), ("acknowledged", 1)), ((2,), ("acknowledged", 2)))),
        (
            "an abort while a worker reads",
            on(((1,), ("aborted", None)), ((1, 2), ("aborted", None))),
        ),
        ("a lost worker", on(((1,), ("lost", 1)), ((1, 2), ("lost", 2)), ((2,), ("lost", 0)))),
        ("a late event", on(((), ("acknowledged", 1)), ((2,), ("acknowledged", 1)))),
        ("every event", JUDGE.on_drawn(every_event)),
    ),
)

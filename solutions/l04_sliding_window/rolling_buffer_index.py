"""Exercise 4.4: the slot of a rolling buffer that holds a position."""

import itertools
import random
from collections.abc import Callable, Iterable, Sequence

from course.calling.plain_values import as_whole
from course.checks.comparing import a_kind, explaining, those_of
from course.exercise import Exercise, Misconception, Task
from course.format_values import named
from course.harness import Ask, Check, Failure, Rows, returned_nothing
from course.same_values import like

# --- right answers ------------------------------------------------------------------------------


def rolling_buffer_index(position: int, window: int, sinks: int) -> int:
    """Return the slot, from 0 to sinks + window - 1, that holds the K/V of `position`."""
    # Each key already contains its position, so the order of the slots does not matter. The sinks
    # have slots of their own; the other W slots are used in turn, so a new entry overwrites the
    # one that leaves the window.
    if position < sinks:
        return position
    return sinks + (position - sinks) % window


def sinks_behind(position: int, window: int, sinks: int) -> int:
    return window + position if position < sinks else position % window


def by_counting(position: int, window: int, sinks: int) -> int:
    slots = itertools.chain(range(sinks), itertools.cycle(range(sinks, sinks + window)))
    return next(itertools.islice(slots, position, None))


# --- wrong ideas --------------------------------------------------------------------------------


def behind_the_sinks(turn: Callable[[int, int, int], int]) -> Callable[[int, int, int], int]:
    """Sinks in slots of their own; the others where turn(position, window, sinks) says."""
    return lambda position, window, sinks: (
        position if position < sinks else turn(position, window, sinks)
    )


def next_free_slot(
    position: int,
    window: int,
    sinks: int,
    asked: list[int] = [],  # noqa: B006 (that is the mistake)
) -> int:
    asked.append(position)
    return position if position < sinks else sinks + len(asked) % window


NOT_INT = Misconception(
    "not_int",
    "The slot is position / window.",
    lambda slot: f"Return a whole number (an int), not {a_kind(slot)}.",
    examples=(lambda position, window, sinks: position / window,),
)
NOT_FOR_LIFE = Misconception(
    "not_for_life",
    "A new entry gets the next free slot.",
    lambda position: (
        f"A second call for position {position} returned another slot, but entries never move."
    ),
    examples=(next_free_slot,),
)
MAPPINGS = (
    Misconception(
        "order_matters",
        "Entries are in the order of the text, so the newest is the last.",
        "Entries never move, so the newest cannot always have the last slot: use slots in turn.",
        lambda position, window, sinks: min(position, sinks + window - 1),
    ),
    Misconception(
        "over_the_sinks",
        "All slots are used in turn.",
        "The sinks keep their slots for ever: use only the other `window` slots in turn.",
        lambda position, window, sinks: position % (sinks + window),
        same_result=(lambda position, window, sinks: position % window,),
    ),
    Misconception(
        "sinks_in_the_ring",
        "Every position goes into the `window` slots after the first `sinks` slots.",
        "Here the sinks are overwritten after `window` positions: give them slots of their own.",
        lambda position, window, sinks: sinks + position % window,
    ),
    Misconception(
        "grows",
        "A position's slot is its position.",
        "Such a buffer grows with the text. Reuse the slot of the entry that has just left the "
        "window.",
        lambda position, window, sinks: position,
    ),
    Misconception(
        "one_slot_more",
        "W + 1 keys are visible, so W + 1 slots are used in turn.",
        "There are sinks + window slots: a new entry is stored when the oldest one leaves.",
        behind_the_sinks(lambda position, window, sinks: sinks + (position - sinks) % (window + 1)),
    ),
)

# --- judging ------------------------------------------------------------------------------------


def judge(ask: Ask, positions: Sequence[int], window: int, sinks: int) -> Failure | None:
    """The failure of the slots that these positions get, in this order; any valid slots pass."""
    slots: dict[int, int] = {}
    for position in positions:
        slot = like(ask(position, window, sinks), 0)
        rows = ask.example(f"a slot from 0 to {sinks + window - 1}", slot)
        if slot is None:
            return Failure(returned_nothing(ask.name), rows, "no_return")
        if as_whole(slot) is None:
            return NOT_INT.failure(rows, slot)
        slots[position] = slot
        failure = misplaced(slots, position, window, sinks, rows)
        if failure:
            results = [((each, window, sinks), slots[each]) for each in reversed(slots)]
            results += those_of(ask, [(each, 4, 2) for each in range(12)])  # a second buffer
            mistake = explaining(MAPPINGS, rolling_buffer_index, results)
            return mistake.failure(failure.example) if mistake else failure
    for position in reversed(positions):
        again = like(ask(position, window, sinks), 0)
        if again != slots[position]:
            rows = ask.example(f"slot {slots[position]}, as at first", again)
            return NOT_FOR_LIFE.failure(rows, position)
    return None


def misplaced(
    slots: dict[int, int], position: int, window: int, sinks: int, rows: Rows
) -> Failure | None:
    """A failure if the newest position's slot does not exist, or holds another kept position."""
    room, slot = sinks + window, slots[position]
    if not 0 <= slot < room:
        idea = f"The buffer has the slots 0 to {room - 1} and never grows; there is no slot {slot}."
        return Failure(idea, rows, "no_such_slot")
    kept = [other for other in slots if other < sinks or other > position - window]
    inside = [str(other) for other in kept if slots[other] == slot]
    if len(inside) == 1:
        return None
    names = ", ".join(str(other) for other in kept)
    rows = (
        ("input", f"rolling_buffer_index(position, window={window}, sinks={sinks}) for {names}"),
        ("expected", f"{len(kept)} slots: once {position} is computed, all of these are kept"),
        ("got", f"slot {slot} for positions {' and '.join(inside)}"),
    )
    return Failure("Two kept positions share a slot, so one of them is lost.", rows, "collides")


# --- cases --------------------------------------------------------------------------------------


def on(*rings: tuple[Sequence[int], int, int]) -> Check:
    """The check that asks about these (positions, window, sinks)."""
    return on_drawn(lambda rng: rings)


def on_drawn(draw: Callable[[random.Random], Iterable[tuple[Sequence[int], int, int]]]) -> Check:
    """The check that asks about such rings, drawn at random."""
    return lambda ask, rng: next(filter(None, (judge(ask, *ring) for ring in draw(rng))), None)


def far_along(rng: random.Random) -> Iterable[tuple[Sequence[int], int, int]]:
    for most, window, sinks in (
        (1_000, rng.randint(2, 9), rng.randint(0, 4)),
        (100_000, rng.randint(8, 12), rng.randint(8, 12)),
    ):
        start = rng.randint(most // 2, most)
        yield [*range(sinks), *range(start, start + 2 * window + 2)], window, sinks


EXERCISE = Exercise(
    number=4,
    title="A rolling buffer",
    minutes=8,
    points=2,
    task=Task(
        rules=(
            "The K/V of a request is in a buffer of sinks + window slots, numbered from 0. The "
            "buffer never grows.",
            "Positions are computed in the order of the text. The first `sinks` (0 or more) and "
            "the last `window` (at least 1) are kept, including the newest.",
            "Positions that are kept at the same time must have different slots, and an entry "
            "never moves.",
            "Returns the slot of `position`. Any answer with these properties is right.",
        ),
        args=(5, 3, 2),
        result=2,
        call="rolling_buffer_index(position=5, window=3, sinks=2)",
        steps=(
            "Positions 0 and 1 are sinks, and positions 2, 3 and 4 fill the other three slots.",
            "When position 5 is computed, position 2 leaves the window: 5 takes its slot, here 2.",
        ),
    ),
    hints=(
        "Which entry leaves when a new one is stored, and what happens to its slot?",
        "Each sink has its own slot. The other slots are used in turn: which positions share one?",
        "Count the positions after the sinks from 0. `% window` turns this count into a number "
        "from 0 to window - 1. Then make sure that these slots are not those of the sinks.",
    ),
    right=(rolling_buffer_index, sinks_behind, by_counting),
    misconceptions=(NOT_INT, *MAPPINGS, NOT_FOR_LIFE),
    checks=(
        ("no sinks", on((range(8), 3, 0))),
        ("sinks", on((range(10), 3, 2), (range(9), 2, 3))),
        ("a window of one", on((range(4), 1, 0), (range(4), 1, 1))),
        ("far into a text", on_drawn(far_along)),
    ),
    draw_call=named("position", "window", "sinks"),
    equivalent_mutants={
        "window at least 1": "it is at least 1",
        "return sinks + position % window": "the first slot of the turn does not matter",
        "rolling_buffer_index(): if position {< => <=} sinks:": (
            "position `sinks` gets slot `sinks` either way"
        ),
        "rolling_buffer_index(): return sinks + (position {- => +} sinks) % window": (
            "the first slot of the turn does not matter"
        ),
    },
)

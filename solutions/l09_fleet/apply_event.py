"""Exercise 9.1: one event in a queue with lazy deletion."""
# pyright: reportMissingTypeArgument=false, reportUnknownParameterType=false

import bisect
import heapq
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise
from course.format_values import show
from course.harness import Ask, Failure
from course.task import Task
from nanogpt.fleet.decisions import Entry
from solutions.l09_fleet._entries import NEAR
from solutions.l09_fleet._heaps import EMPTY_RAISES, FORMS, KEY_ERROR, MISCONCEPTIONS
from solutions.l09_fleet._queues import Event, Generations, in_order, settled

# --- right answers ------------------------------------------------------------------------------


def apply_event(
    heap: list[tuple[tuple, int, int]], generations: dict[int, int], event: tuple
) -> tuple[list[tuple[tuple, int, int]], dict[int, int], int | None]:
    """Return `(heap, generations, popped)` as they are after one event in a queue of requests."""
    # What lies in the heap cannot be found, only outdated. That takes a number which goes one way:
    # once it is forgotten, a push begins at 1 again, and an entry from long ago is live.
    heap, generations = list(heap), dict(generations)
    if event[0] == "push":
        _, request_id, key = event
        generations[request_id] = generations.get(request_id, 0) + 1
        heapq.heappush(heap, (key, request_id, generations[request_id]))
    elif event[0] == "remove":
        generations[event[1]] = generations.get(event[1], 0) + 1
    else:
        while heap:
            _, request_id, generation = heapq.heappop(heap)
            if generation == generations[request_id]:
                generations[request_id] += 1
                return heap, generations, request_id
    return heap, generations, None


def by_matching(heap: list[Entry], generations: Generations, event: Event) -> Any:
    newest = defaultdict(int, generations)
    entries = heap.copy()
    match event:
        case ("push", request_id, key):
            newest[request_id] += 1
            heapq.heappush(entries, (key, request_id, newest[request_id]))
        case ("remove", request_id):
            newest[request_id] += 1
        case _:
            while entries and entries[0][2] != newest[entries[0][1]]:
                heapq.heappop(entries)
            if entries:
                popped = heapq.heappop(entries)[1]
                newest[popped] += 1
                return entries, dict(newest), popped
    return entries, dict(newest), None


def in_a_sorted_list(heap: list[Entry], generations: Generations, event: Event) -> Any:
    # A sorted list is a heap as well.
    entries = sorted(heap)
    kind, *rest = event
    if kind == "pop":
        live = [n for n, (_, i, number) in enumerate(entries) if number == generations[i]]
        if not live:
            return [], dict(generations), None
        _, popped, number = entries[live[0]]
        return entries[live[0] + 1 :], {**generations, popped: number + 1}, popped
    number = generations.get(rest[0], 0) + 1
    if kind == "push":
        bisect.insort(entries, (rest[1], rest[0], number))
    return entries, generations | {rest[0]: number}, None


# --- cases --------------------------------------------------------------------------------------


class Heaps(Comparison[Any]):
    """A comparison of results whose heap is sorted first, if it was one."""

    def read(self, returned: Any, args: Args) -> Any:
        """With its heap sorted, if it is one."""
        return settled(Comparison[Any].read(self, returned, args))

    def judge(self, ask: Ask, cases: Sequence[Args]) -> Failure | None:
        """The first wrong event; and, where it makes a difference, what comes of it later."""
        failure = Comparison[Any].judge(self, ask, cases)
        if failure is None or failure.misconception == "in_place":
            return failure
        out = life(ask)
        if out in (None, "5, 3, none"):
            return failure
        then = (
            "push 3 with (0, 100), remove 3, push 3 with (2, 900), push 5 with (1, 500), three "
            f"pops: {out} instead of 5, 3, none"
        )
        return replace(failure, example=(*failure.example, ("then", then)))


def any_states(rng: random.Random, count: int = 60) -> list[Args]:
    """Moments out of the lives of small heaps: few ids and few keys, so that much is stale."""
    states: list[Args] = []
    while len(states) < count:
        heap: list[Entry] = []
        generations: Generations = {}
        for _ in range(rng.randint(2, 13)):
            heap, generations, _ = apply_event(heap, generations, any_event(rng, heap, generations))
        states.append((heap, generations, any_event(rng, heap, generations)))
    return sorted(states, key=lambda state: len(state[0]))


def any_event(rng: random.Random, heap: list[Entry], generations: Generations) -> Event:
    waiting = [id for _, id, generation in heap if generations[id] == generation]
    kind = rng.choice(("push", "push", "push", "remove", "pop"))
    if kind == "push":
        return ("push", rng.randrange(4), (rng.randrange(3), 100 * rng.randint(1, 4)))
    if kind == "remove":  # mostly of one that waits, but also of one that does not, or never did
        return ("remove", rng.choice([*waiting, *waiting, rng.randrange(6)]))
    return ("pop",)


def draw_event(event: Event) -> str:
    """The event as a tuple, with its word in double quotes as in the text."""
    word, *rest = event
    return f'("{word}", {", ".join(map(repr, rest))})' if rest else f'("{word}",)'


def lines_of(heap: Any) -> str:
    if not isinstance(heap, list):  # an answer's own, handed back to it
        return f"heap = {show(heap)}"
    entries = "\n       ".join(map(show, cast("list[Any]", heap)))
    return f"heap = [{entries}]"


def draw_call(name: str, args: Args) -> str:
    heap, generations, event = args
    call = f"{name}(heap, generations, {draw_event(event)})"
    return f"{call}\n{lines_of(heap)}\ngenerations = {show(generations)}"


def draw(value: Any) -> str:
    if any(each.matches and each.matches(value) for each in FORMS):
        return show(value)
    heap, generations, popped = settled(value)
    return f"{lines_of(heap)}\ngenerations = {show(generations)}\npopped = {show(popped)}"


JUDGE = Heaps(
    in_order(apply_event),
    MISCONCEPTIONS,
    "Follow the generations: of several entries of one request, which one counts, and what makes "
    "the others stale?",
    draw=draw,
    evidence=any_states(random.Random(3), 30),
    near=NEAR,
)
POP: Event = ("pop",)
COMES_BACK: tuple[Event, ...] = (
    ("push", 3, (0, 100)), ("remove", 3), ("push", 3, (2, 900)), ("push", 5, (1, 500)),
    POP, POP, POP,
)  # fmt: skip


def life(ask: Ask) -> str | None:
    """What comes out when the answer goes on with its own heaps; None where it breaks off."""
    state: tuple[Any, Any] = ([], {})
    out: list[str] = []
    try:
        for event in COMES_BACK:
            heap, generations, popped = ask(*state, event)
            state = (heap, generations)
            if event == POP:
                out.append("none" if popped is None else str(popped))
    except Exception:
        return None
    return ", ".join(out)


THREE, FIVE, SOONER = ((1, 200), 3, 1), ((1, 300), 5, 1), ((0, 900), 5, 1)

EXERCISE = Exercise(
    number=1,
    title="Deleted, but still in the heap",
    minutes=12,
    points=3,
    task=Task(
        signature="apply_event(heap: list[tuple[tuple, int, int]], generations: dict[int, int], "
        "event: tuple) -> tuple[list[tuple[tuple, int, int]], dict[int, int], int | None]",
        rules=(
            "The result is `(heap, generations, popped)` as they are after one event in a "
            "queue of requests. Leave the arguments as they are, and work on copies.",
            "`heap` is a list as `heapq` keeps it. Its entries are `(key, id, generation)`, "
            "and the smallest goes first. `generations[id]` is the newest generation of that "
            "request; one that is missing has 0.",
            "An entry is live while its generation is the newest of its request, and stale "
            "from then on. Stale entries stay where they are until a pop meets them.",
            '`("push", id, key)`: the request waits with this key; an older entry of it is '
            'stale by that. `("remove", id)`: it waits no more; the heap stays as it is. '
            '`("pop",)`: entries come off the top, up to and with the first live one, whose '
            "id is `popped`.",
            "`popped` is `None` where none was live, and for the other events.",
            "Each push, each removal, and a pop for the request that it gives count that "
            "request's generation up by 1. Nothing else changes one, and none is forgotten.",
        ),
        args=([((1, 200), 3, 1)], {3: 1}, ("push", 5, (0, 900))),
        result=([((0, 900), 5, 1), ((1, 200), 3, 1)], {3: 1, 5: 1}, None),
    ),
    hints=(
        "Request 3 is pushed, removed and pushed again, and both of its entries lie in the "
        "heap. By what can a pop tell the one that counts from the one that does not?",
        "Copy both first. A push counts up and pushes the new number along; a removal only "
        "counts up; a pop takes entries off until one has its request's latest number, and "
        "counts that request up.",
        "Counting up is the same everywhere: `generations.get(id, 0) + 1`. `heapq.heappush` "
        "takes one tuple of three. A pop is a loop with two ways out: the heap is empty, or "
        "the generation that came off is the one that its request has now.",
    ),
    right=(apply_event, by_matching, in_a_sorted_list),
    misconceptions=(*MISCONCEPTIONS, *NEAR),
    checks=(
        (
            "one request",
            JUDGE.on(
                ([], {}, ("push", 3, (1, 200))),
                ([THREE], {3: 1}, POP),
                ([], {3: 2}, ("push", 3, (0, 900))),
            ),
        ),
        (
            "several requests",
            JUDGE.on(
                ([THREE], {3: 1}, ("push", 5, (0, 900))),
                ([SOONER], {5: 1}, ("push", 3, (1, 200))),
                ([SOONER, THREE], {3: 1, 5: 1}, POP),
                ([SOONER, THREE, ((1, 100), 4, 3)], {3: 1, 4: 3, 5: 1}, POP),
                ([((1, 100), 4, 3), THREE], {3: 1, 4: 3, 5: 2}, POP),
                ([((1, 200), 2, 1), ((1, 200), 6, 1)], {6: 1, 2: 1}, POP),
            ),
        ),
        (
            "none waits",
            JUDGE.on_raising(
                EMPTY_RAISES,
                (IndexError, KeyError, ValueError, StopIteration),
                ([], {}, POP),
                ([], {3: 2}, POP),
                ([THREE], {3: 2}, POP),
            ),
        ),
        (
            "a removal",
            # Where the request is known, a KeyError comes of something else.
            lambda ask, rng: (
                JUDGE.on(
                    ([THREE], {3: 1}, ("remove", 3)),
                    ([THREE, FIVE], {3: 1, 5: 1}, ("remove", 3)),
                    ([THREE, FIVE], {3: 2, 5: 1}, POP),
                    ([((1, 100), 3, 1), ((1, 300), 3, 3), FIVE], {3: 3, 5: 2}, POP),
                    ([THREE], {3: 2}, ("remove", 3)),
                )(ask, rng)
                or JUDGE.on_raising(
                    KEY_ERROR,
                    (KeyError,),
                    ([], {}, ("remove", 3)),
                    ([((1, 200), 5, 1)], {5: 1}, ("remove", 3)),
                )(ask, rng)
            ),
        ),
        (
            "a request that comes back",
            JUDGE.on(
                ([THREE], {3: 2}, ("push", 3, (1, 200))),
                ([THREE, ((1, 200), 3, 3)], {3: 3}, POP),
                ([((1, 200), 3, 2), ((1, 200), 3, 3)], {3: 3, 7: 5}, ("remove", 3)),
            ),
        ),
        (
            "a new key",
            JUDGE.on(
                ([((1, 900), 3, 1)], {3: 1}, ("push", 3, (0, 900))),
                ([((1, 900), 3, 1)], {3: 1}, ("push", 3, (1, 900))),
                ([((0, 900), 3, 2), ((1, 900), 3, 1)], {3: 2}, POP),
                ([((1, 900), 3, 1)], {3: 3}, POP),
                ([((0, 900), 3, 1)], {3: 1}, ("push", 3, (1, 900))),
                ([((0, 900), 3, 1), ((1, 900), 3, 2)], {3: 2}, POP),
                ([((0, 900), 3, 1), ((0, 950), 4, 1), ((1, 900), 3, 2)], {3: 2, 4: 1}, POP),
            ),
        ),
        ("any event", JUDGE.on_drawn(any_states)),
    ),
    draw_call=draw_call,
)

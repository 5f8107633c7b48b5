"""Wrong ideas of a queue with lazy deletion, and what puts them right."""

from typing import Any

from course.calling.plain_values import as_items, as_whole
from course.checks.comparing import a_kind
from course.exercise import Misconception
from nanogpt.fleet.decisions import apply_event
from solutions.l09_fleet._queues import (
    append,
    changing,
    forget,
    handling,
    into_the_heap,
    is_heap,
    leave,
    pop_by,
    pop_without_looking,
    popping,
    push_as,
    push_only_new,
    take_out_and_count,
)

# --- results of another form ----------------------------------------------------------------------


def part(value: Any, index: int) -> Any:
    """One of the three that come back."""
    return (as_items(value) or [None] * 3)[index]


def not_three(value: Any) -> str:
    items = as_items(value)
    kind = a_kind(value) if items is None else f"{len(items)}"
    return f"Return three things, `return heap, generations, popped`, not {kind}."


FORMS = (
    Misconception(
        "not_three",
        "The generations are changed as well.",
        not_three,
        matches=lambda value: len(as_items(value) or ()) != 3,
        examples=(lambda *args: apply_event(*args)[::2],),
    ),
    Misconception(
        "not_a_list",
        "A request has one entry, so a dict will do.",
        lambda value: f"The heap is a list of entries, not {a_kind(part(value, 0))}.",
        matches=lambda value: as_items(part(value, 0)) is None,
        examples=(changing(heap=lambda heap: {id: (key, count) for key, id, count in heap}),),
    ),
    Misconception(
        "not_a_heap",
        "A heap is a list.",
        "The list is a heap, with the smallest entry in front: `heapq.heappush` and "
        "`heapq.heappop` keep it one.",
        matches=lambda value: not is_heap(as_items(part(value, 0)) or ()),
        examples=(handling(append),),
    ),
    Misconception(
        "not_an_id",
        "An id is a name.",
        lambda value: f"Popped is the id of a request, or None, not {a_kind(part(value, 2))}.",
        matches=lambda value: part(value, 2) is not None and as_whole(part(value, 2)) is None,
        examples=(changing(popped=lambda popped, event: popped and str(popped)),),
    ),
)

# --- other beliefs about the heap -----------------------------------------------------------------

KEY_ERROR = Misconception(
    "key_error",
    "Only what was pushed is ever removed.",
    "A request that `generations` does not name has generation 0.",
    examples=(handling(remove=lambda entries, latest, id: latest.update({id: latest[id] + 1})),),
)
EMPTY_RAISES = Misconception(
    "empty_raises",
    "A pop finds a request.",
    "A queue in which no request waits is no error: look whether the heap still has an entry "
    "before you take one, and `popped` is None if it has not.",
    examples=(handling(pop=pop_without_looking),),
)
MISCONCEPTIONS = (
    *FORMS,
    Misconception(
        "drops_the_counter",
        "What is gone needs no number.",
        "A stale entry still lies in the heap, and the next push would count from the start and "
        "reach its generation, so it comes to life again: never forget a generation, count it up.",
        handling(remove=forget),
    ),
    Misconception(
        "reuses_the_generation",
        "Only a removal makes an entry stale.",
        "Every push counts the generation up: with a number that was used before, an entry from "
        "before is as live as the new one.",
        handling(push_as(lambda latest, id: latest.get(id, 0))),
    ),
    Misconception(
        "keeps_the_old_key",
        "It waits already.",
        "Every push makes a new entry, whether the request waits already or not, and whatever its "
        "key: the new generation makes the old entry stale.",
        handling(push_only_new),
    ),
    Misconception(
        "not_lazy",
        "Removed is removed.",
        "To find an entry inside a heap means to look through all of it, which lazy deletion "
        "saves: leave it there, and let a pop that meets it throw it away.",
        handling(remove=take_out_and_count),
    ),
    Misconception(
        "pops_the_stale",
        "The top is the next one.",
        "What lies on top may be stale: only an entry with its request's latest generation counts, "
        "and one without it is thrown away.",
        handling(pop=popping(believes=True)),
    ),
    KEY_ERROR,
    Misconception(
        "pop_does_not_count",
        "It is out of the heap anyway.",
        "What was popped waits no more, so its generation counts up as at a removal: what is left "
        "of it anywhere is stale.",
        handling(pop=popping(after=leave)),
    ),
    Misconception(
        "not_the_smallest",
        "Ids say which came first.",
        "The smallest key goes first, whatever the id and the order of the pushes.",
        handling(pop=pop_by(lambda entry: entry[1])),
    ),
    EMPTY_RAISES,
    Misconception(
        "empty_gives_something",
        "-1 is no request.",
        "When none waits, none comes out: that is None, while a number would be a request's id.",
        handling(pop=popping(empty=-1)),
    ),
    Misconception("in_place", "heapq works in place.", examples=((into_the_heap),)),
    Misconception("no_return", "The heap is changed.", examples=(lambda *args: None,)),
)

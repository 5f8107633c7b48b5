"""Wrong ideas of a queue with lazy deletion, and what puts them right."""

from typing import Any

from course.calling.plain_values import as_items, as_mapping, as_whole
from course.checks.comparing import a_kind
from course.exercise import Misconception
from nanogpt.fleet.decisions import on_event
from solutions.l07_fleet._queues import (
    append,
    changing,
    count_down,
    count_known,
    count_up,
    count_waiting,
    forget,
    handling,
    into_the_heap,
    is_heap,
    leave,
    naming,
    peek,
    pop_and_sweep,
    pop_by,
    pop_leaving_stale,
    pop_without_looking,
    popping,
    push_as,
    push_only_a_new_key,
    push_only_new,
    push_then_count,
    replace,
    take_out,
    take_out_and_count,
    take_out_and_forget,
)

# --- results of another form ----------------------------------------------------------------------


def is_entry(entry: Any) -> bool:
    """Whether it is a key, which has several parts, an id and a generation."""
    parts = as_items(entry)
    if parts is None or len(parts) != 3:
        return False
    key, *numbers = parts
    return as_items(key) is not None and all(as_whole(number) is not None for number in numbers)


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
        form=lambda value: len(as_items(value) or ()) != 3,
        also=(lambda *args: on_event(*args)[::2],),
    ),
    Misconception(
        "not_a_list",
        "A request has one entry, so a dict will do.",
        lambda value: f"The heap is a list of entries, not {a_kind(part(value, 0))}.",
        form=lambda value: as_items(part(value, 0)) is None,
        also=(changing(heap=lambda heap: {id: (key, count) for key, id, count in heap}),),
    ),
    Misconception(
        "not_an_entry",
        "The id comes first.",
        "An entry is a tuple of the key, the id and the generation, in this order.",
        form=lambda value: not all(map(is_entry, as_items(part(value, 0)) or ())),
        also=(changing(heap=lambda heap: [(id, key, count) for key, id, count in heap]),),
    ),
    Misconception(
        "not_a_heap",
        "A heap is a list.",
        "The list is a heap, with the smallest entry in front: `heapq.heappush` and "
        "`heapq.heappop` keep it one.",
        form=lambda value: not is_heap(as_items(part(value, 0)) or ()),
        also=(handling(append),),
    ),
    Misconception(
        "not_a_dict",
        "Their numbers are enough.",
        lambda value: f"The generations are a dict, not {a_kind(part(value, 1))}.",
        form=lambda value: as_mapping(part(value, 1)) is None,
        also=(changing(generations=lambda generations: list(generations.values())),),
    ),
    Misconception(
        "not_an_id",
        "An id is a name.",
        lambda value: f"Popped is the id of a request, or None, not {a_kind(part(value, 2))}.",
        form=lambda value: part(value, 2) is not None and as_whole(part(value, 2)) is None,
        also=(changing(popped=lambda popped, event: popped and str(popped)),),
    ),
)

# --- other beliefs about the heap -----------------------------------------------------------------

KEY_ERROR = Misconception(
    "key_error",
    "Only what was pushed is ever removed.",
    "A request that `generations` does not name has generation 0.",
    also=(
        handling(
            remove=lambda entries, latest, id: latest.update({id: latest[id] + 1}),
        ),
    ),
)
EMPTY_RAISES = Misconception(
    "empty_raises",
    "A pop finds a request.",
    "A queue in which no request waits is no error: look whether the heap still has an entry "
    "before you take one, and `popped` is None if it has not.",
    also=(handling(pop=pop_without_looking),),
)
MISCONCEPTIONS = (
    *FORMS,
    Misconception(
        "drops_the_counter",
        "What is gone needs no number.",
        "A stale entry still lies in the heap, and the next push would count from the start and "
        "reach its generation, so it comes to life again: never forget a generation, count it up.",
        handling(remove=forget),
        alike=(
            handling(remove=forget, pop=popping(after=forget)),
            handling(remove=forget, pop=popping(after=leave)),
            handling(remove=take_out_and_forget),
            handling(remove=lambda entries, latest, id: latest.update({id: 0})),
            handling(remove=count_down),
        ),
    ),
    Misconception(
        "pop_drops_the_counter",
        "What was served needs no number.",
        "A pop may not forget the generation either: an older entry of the same request may still "
        "lie in the heap, and the next push would revive it.",
        handling(pop=popping(after=forget)),
    ),
    Misconception(
        "reuses_the_generation",
        "Only a removal makes an entry stale.",
        "Every push counts the generation up: with a number that was used before, an entry from "
        "before is as live as the new one.",
        handling(push_as(lambda latest, id: latest.get(id, 0))),
        alike=(
            handling(push_as(lambda latest, id: latest.get(id, 1))),
            handling(push_as(lambda latest, id: 1)),
            handling(push_as(lambda latest, id: 0)),
        ),
    ),
    Misconception(
        "stale_at_once",
        "Push, then count.",
        "Count up first and write the new number into the entry: with the old one it is stale as "
        "soon as it is pushed.",
        handling(push_then_count),
    ),
    Misconception(
        "one_counter_for_all",
        "The newest push has the highest number.",
        "Every request has a generation of its own, which goes up by 1: the others have nothing to "
        "do with it.",
        handling(push_as(lambda latest, id: max(latest.values(), default=0) + 1)),
    ),
    Misconception(
        "keeps_the_old_key",
        "It waits already.",
        "Every push makes a new entry, whether the request waits already or not, and whatever its "
        "key: the new generation makes the old entry stale.",
        handling(push_only_new),
        alike=(handling(push_only_a_new_key),),
    ),
    Misconception(
        "removed_is_live",
        "The pop will notice.",
        "The entry stays in the heap, so only its generation can say that it is void: a removal "
        "counts the request's generation up.",
        handling(remove=leave),
    ),
    Misconception(
        "not_lazy",
        "Removed is removed.",
        "To find an entry inside a heap means to look through all of it, which lazy deletion "
        "saves: leave it there, and let a pop that meets it throw it away.",
        handling(remove=take_out_and_count),
        alike=(
            handling(remove=take_out),
            handling(replace),
            handling(replace, take_out_and_count),
            handling(replace, take_out),
            handling(pop=pop_and_sweep),
        ),
    ),
    Misconception(
        "pops_the_stale",
        "The top is the next one.",
        "What lies on top may be stale: only an entry with its request's latest generation counts, "
        "and one without it is thrown away.",
        handling(pop=popping(believes=True)),
        alike=(handling(pop=popping(believes=True, after=leave)),),
    ),
    Misconception(
        "gives_up",
        "If the top is stale, none waits.",
        "A stale entry on top does not mean that none waits: throw it away and look at the next "
        "one.",
        handling(pop=popping(goes_on=False)),
    ),
    Misconception(
        "leaves_the_stale",
        "Only the one that is popped leaves.",
        "The stale entries that a pop meets on its way are done with: take them out, or the heap "
        "only ever grows.",
        handling(pop=pop_leaving_stale),
    ),
    Misconception(
        "still_in_the_heap",
        "The top is heap[0].",
        "What is popped leaves the heap: as it is, the next pop gives the same request to a second "
        "worker.",
        handling(pop=peek),
    ),
    KEY_ERROR,
    Misconception(
        "removes_only_what_it_knows",
        "Nothing is to be removed that was never there.",
        "A removal counts up whether the request is known or not, and one that is missing has "
        "generation 0.",
        handling(remove=count_known),
        alike=(handling(remove=count_waiting),),
    ),
    Misconception(
        "pop_does_not_count",
        "It is out of the heap anyway.",
        "What was popped waits no more, so its generation counts up as at a removal: what is left "
        "of it anywhere is stale.",
        handling(pop=popping(after=leave)),
    ),
    Misconception(
        "stale_counts",
        "Every pop counts.",
        "A stale entry that a pop throws away changes no generation: counting up here makes the "
        "newer entry of the same request stale as well.",
        handling(pop=popping(stale=count_up)),
        alike=(handling(pop=popping(stale=count_up, after=leave)),),
    ),
    Misconception(
        "stale_forgotten",
        "What is stale can be forgotten.",
        "A stale entry that is thrown away says nothing about its request, of which there may be a "
        "live one: leave the generation alone.",
        handling(pop=popping(stale=forget)),
    ),
    Misconception(
        "not_the_smallest",
        "Ids say which came first.",
        "The smallest key goes first, whatever the id and the order of the pushes.",
        handling(pop=pop_by(lambda entry: entry[1])),
        alike=(
            handling(pop=pop_by(lambda entry: entry[2])),
            handling(pop=pop_by(lambda entry: [-part for part in entry[0]])),
            handling(pop=pop_by(lambda entry: entry[0][1:])),
        ),
    ),
    EMPTY_RAISES,
    Misconception(
        "gives_the_entry",
        "Whatever pops can take the entry apart.",
        "What comes out is the request's id, not its whole entry, nor its key.",
        handling(pop=popping(gives=lambda entry: entry)),
        alike=(
            handling(pop=popping(gives=lambda entry: entry[0])),
            handling(pop=popping(gives=lambda entry: entry[1:])),
            handling(pop=popping(gives=lambda entry: entry[:2])),
        ),
    ),
    Misconception(
        "empty_gives_something",
        "-1 is no request.",
        "When none waits, none comes out: that is None, while a number would be a request's id.",
        handling(pop=popping(empty=-1)),
        alike=(handling(pop=popping(empty=False)), handling(pop=popping(empty=()))),
    ),
    Misconception(
        "only_a_pop",
        "Say which request it was about.",
        "Only a pop takes a request out of the queue: a push or a removal gives None there.",
        naming("push"),
        alike=(naming("remove"), naming("push", "remove")),
    ),
    Misconception("in_place", "heapq works in place.", also=((into_the_heap),)),
    Misconception("no_return", "The heap is changed.", also=(lambda *args: None,)),
)

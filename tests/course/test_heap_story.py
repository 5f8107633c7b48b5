"""The story of a lazy heap: what each function did, and which entries should have counted."""

import heapq
import json
import re

import pytest
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

from course.stories.l07_lazy_heap import heap_story
from nanogpt.fleet.decisions import on_event
from widgets.lazy_heap import LazyHeap

IDS = st.integers(0, 4)
EVENTS = st.lists(
    st.tuples(st.just("push"), IDS, st.tuples(st.integers(0, 2), st.integers(0, 9)))
    | st.tuples(st.just("remove"), IDS)
    | st.just(("pop",)),
    max_size=40,
)
REVIVING = [("push", 3, (1, 200)), ("remove", 3), ("push", 3, (5, 900)), ("push", 4, (2, 0))]


def drops_the_counter(heap, generations, event):
    """The source's remove forgets the count, so that the next push counts from the start."""
    if event[0] == "remove":
        generations.pop(event[1], None)
        return heap, generations, None
    if event[0] == "push":
        return on_event(heap, generations, event)
    while heap:
        _, request_id, generation = heapq.heappop(heap)
        if generations.get(request_id) == generation:
            generations.pop(request_id)
            return heap, generations, request_id
    return heap, generations, None


def leaves_it_live(heap, generations, event):
    """A pop that looks at the top and leaves the entry and its count as they are."""
    if event[0] == "pop":
        after, _, popped = on_event(heap, generations, event)
        return (heap if popped is not None else after), generations, popped
    return on_event(heap, generations, event)


def counted(step):
    """(id, key) of the entries that the function itself takes for live."""
    return [
        (entry["id"], entry["key"])
        for entry in step["entries"]
        if step["generations"].get(str(entry["id"])) == entry["generation"]
    ]


def live(step):
    return [(entry["id"], entry["key"]) for entry in step["entries"] if entry["live"]]


def test_the_reference_strikes_out_what_was_withdrawn():
    story = heap_story(on_event, REVIVING)
    assert (story["version"], story["error"]) == (1, None)
    assert story["steps"][2] == {
        "event": ["push", 3, [5, 900]],
        "entries": [
            {"id": 3, "key": [1, 200], "generation": 1, "live": False},
            {"id": 3, "key": [5, 900], "generation": 3, "live": True},
        ],
        "generations": {"3": 3},
        "popped": None,
        "words": "Request 3 comes in with key (5, 900).",
    }


def test_a_dropped_counter_brings_the_withdrawn_entry_back_and_the_story_says_so():
    story = heap_story(drops_the_counter, [*REVIVING, ("pop",)])
    revived = story["steps"][2]
    assert counted(revived) == [(3, [1, 200]), (3, [5, 900])]
    assert live(revived) == [(3, [5, 900])]
    assert revived["words"] == (
        "Request 3 comes in with key (5, 900). Request 3's old entry (1, 200) counts again: its "
        "generation 1 is the counter's."
    )
    assert story["steps"][3]["words"] == "Request 4 comes in with key (2, 0)."
    assert story["steps"][4]["popped"] == 3
    assert story["steps"][4]["words"].startswith(
        "Request 3 is popped. That is wrong: it is request 4's turn."
    )


def test_a_request_that_is_popped_twice_is_noticed_twice():
    story = heap_story(leaves_it_live, [("push", 1, (0,)), ("pop",), ("pop",)])
    assert [step["popped"] for step in story["steps"]] == [None, 1, 1]
    assert story["steps"][1]["words"] == (
        "Request 1 is popped. Request 1's old entry (0) counts again: its generation 1 is the "
        "counter's."
    )
    assert story["steps"][2]["words"] == "Request 1 is popped. That is wrong: nothing waits."


def test_entries_that_a_pop_met_on_its_way_are_counted():
    events = [("push", 1, (0,)), ("push", 2, (1,)), ("remove", 1), ("pop",), ("pop",)]
    words = [step["words"] for step in heap_story(on_event, events)["steps"]]
    assert words[2:] == [
        "Request 1 is withdrawn; the heap is not searched for its entry.",
        "Request 2 is popped. 1 stale entry went on the way.",
        "The pop finds nothing.",
    ]
    words = [step["words"] for step in heap_story(on_event, [*events[:1], *events[2:]])["steps"]]
    assert words[2] == "The pop finds nothing. 1 stale entry went on the way."


def test_one_who_waits_and_is_lost_or_struck_out_is_named():
    def loses(heap, generations, event):
        return [], generations, None

    def uncounted(heap, generations, event):
        return [((0,), 1, 1)], {1: 2}, None

    assert heap_story(loses, [("push", 1, (0,))])["steps"][0]["words"] == (
        "Request 1 comes in with key (0). Request 1 waits, but its entry is gone."
    )
    assert heap_story(uncounted, [("push", 1, (0,))])["steps"][0]["words"] == (
        "Request 1 comes in with key (0). Request 1 waits, but its entry (0) counts as stale: "
        "generation 1 is not the counter's."
    )


@examples(150)
@given(EVENTS)
def test_with_the_reference_what_counts_is_exactly_what_is_live(events):
    story = heap_story(on_event, events)
    waiting = {}
    for event, step in zip(events, story["steps"], strict=True):
        if event[0] == "push":
            waiting[event[1]] = event[2]
        elif event[0] == "remove":
            waiting.pop(event[1], None)
        else:
            first = min(((key, request_id) for request_id, key in waiting.items()), default=None)
            assert step["popped"] == (first[1] if first else None)
            waiting.pop(step["popped"], None)
        assert counted(step) == live(step)
        assert sorted(live(step)) == sorted((i, list(key)) for i, key in waiting.items())
        assert "wrong" not in step["words"] and "counts" not in step["words"]
    assert json.loads(json.dumps(story, allow_nan=False)) == story


@pytest.mark.parametrize("function", [on_event, drops_the_counter, leaves_it_live])
def test_the_picture_reads_every_story(function):
    LazyHeap(heap_story(function, [*REVIVING, ("pop",), ("pop",), ("pop",)]))
    LazyHeap(heap_story(lambda heap, generations, event: None, REVIVING))


def test_a_push_with_the_same_key_again_leaves_the_youngest_live():
    steps = heap_story(on_event, [("push", 1, (0,)), ("push", 1, (0,))])["steps"]
    assert [(e["generation"], e["live"]) for e in steps[1]["entries"]] == [(1, False), (2, True)]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (None, "your on_event returned None; it must be (heap, generations, popped)"),
        (([], {}), "your on_event returned ([], {}); it must be"),
        (([(1, 2, 3)], {}, None), "left (1, 2, 3) in the heap; an entry must be (key, id, gen"),
        (([((float("nan"),), 2, 3)], {}, None), "left ((nan,), 2, 3) in the heap"),
        (([((1,), True, 3)], {}, None), "left ((1,), True, 3) in the heap"),
        (([], {1: "a"}, None), "left 1: 'a' in the generations; they must be whole numbers"),
        (([], {}, "three"), "your on_event popped 'three'; it must be a request's id or None"),
    ],
)
def test_an_answer_that_is_no_heap_ends_the_story_in_a_sentence(answer, sentence):
    story = heap_story(
        lambda heap, generations, event: (
            answer if event[0] == "pop" else on_event(heap, generations, event)
        ),
        [("push", 1, (0,)), ("pop",), ("pop",)],
    )
    assert len(story["steps"]) == 1
    assert sentence in story["error"]


def test_a_function_that_raises_or_hangs_ends_the_story_with_the_steps_until_then():
    def raises(heap, generations, event):
        return heap[0]

    def hangs(heap, generations, event):
        while True:
            pass

    story = heap_story(raises, [("pop",)])
    assert (
        story["steps"] == [] and "your on_event raised IndexError on its line 2" in story["error"]
    )
    said = heap_story(hangs, [("pop",)])["error"]
    assert re.search(r"your on_event (took longer than 1 s|had not finished)", said)


def test_what_the_function_does_to_its_arguments_is_its_own_affair():
    def scribbles(heap, generations, event):
        answer = on_event(heap, generations, event)
        heap.append("nonsense")
        generations["nonsense"] = 1
        return answer

    events = [*REVIVING, ("pop",), ("pop",)]
    assert heap_story(scribbles, events) == heap_story(on_event, events)


@pytest.mark.parametrize(
    "event", [("peek",), ("push", 1), ("push", 1, ()), ("push", -1, (0,)), ("push", 1, "a"), ()]
)
def test_an_event_that_is_none_is_refused_before_anything_runs(event):
    with pytest.raises(ValueError, match="there is no event"):
        heap_story(on_event, [("pop",), event])

"""The story of a lazy heap: what each function did, and which entries should have counted."""

import heapq
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.lesson_data.l09_lazy_heap import heap_story, told
from nanogpt.fleet.decisions import apply_event
from widgets.lazy_heap import LazyHeap

IDS = st.integers(0, 4)
EVENTS = st.lists(
    st.tuples(st.just("push"), IDS, st.tuples(st.integers(0, 2), st.integers(0, 9)))
    | st.tuples(st.just("remove"), IDS)
    | st.just(("pop",)),
    min_size=1,
    max_size=40,
)
REVIVING = [("push", 3, (1, 200)), ("remove", 3), ("push", 3, (5, 900)), ("push", 4, (2, 0))]


def drops_the_counter(heap, generations, event):
    """The source's remove forgets the count, so that the next push counts from the start."""
    if event[0] == "remove":
        generations.pop(event[1], None)
        return heap, generations, None
    if event[0] == "push":
        return apply_event(heap, generations, event)
    while heap:
        _, request_id, generation = heapq.heappop(heap)
        if generations.get(request_id) == generation:
            generations.pop(request_id)
            return heap, generations, request_id
    return heap, generations, None


def words(function, events):
    return [step["words"] for step in heap_story(function, events)["steps"]]


def counted(step):
    """(id, key) of the entries that the function itself takes for live."""
    return [
        (entry["id"], entry["key"])
        for entry in step["entries"]
        if step["generations"].get(str(entry["id"])) == entry["generation"]
    ]


def live(step):
    return [(entry["id"], entry["key"]) for entry in step["entries"] if entry["live"]]


@given(EVENTS)
def test_with_the_reference_what_counts_is_exactly_what_is_live(events):
    story = heap_story(apply_event, events)
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
    LazyHeap(story)


def test_a_dropped_counter_brings_the_withdrawn_entry_back_and_the_story_says_so():
    story = heap_story(drops_the_counter, [*REVIVING, ("pop",)])
    revived = story["steps"][2]
    assert counted(revived) == [(3, [1, 200]), (3, [5, 900])]
    assert live(revived) == [(3, [5, 900])]
    assert "Request 3's old entry (1, 200) counts again" in revived["words"]
    assert story["steps"][4]["popped"] == 3
    assert "That is wrong: it is request 4's turn." in story["steps"][4]["words"]


def test_a_waiting_request_that_is_lost_or_struck_out_is_named():
    for answer, sentence in (
        (([], {}, None), "Request 1 waits, but its entry is gone."),
        (([((0,), 1, 1)], {1: 2}, None), "Request 1 waits, but its entry (0) counts as stale"),
    ):
        [said] = words(lambda *_, answer=answer: answer, [("push", 1, (0,))])
        assert sentence in said


def test_an_answer_that_is_no_heap_ends_the_story_in_a_sentence():
    for answer, sentence in (
        (None, "your apply_event returned None; it must be (heap, generations, popped)"),
        (([(1, 2, 3)], {}, None), "left (1, 2, 3) in the heap; an entry must be (key, id, gen"),
        (([((float("nan"),), 2, 3)], {}, None), "left ((nan,), 2, 3) in the heap"),
        (([((1,), True, 3)], {}, None), "left ((1,), True, 3) in the heap"),
        (([], {1: "a"}, None), "left 1: 'a' in the generations; they must be whole numbers"),
        (([], {}, "three"), "your apply_event popped 'three'; it must be a request's id or None"),
    ):

        def at_a_pop(heap, generations, event, answer=answer):
            return answer if event[0] == "pop" else apply_event(heap, generations, event)

        story = heap_story(at_a_pop, [("push", 1, (0,)), ("pop",), ("pop",)])
        assert len(story["steps"]) == 1
        assert sentence in story["error"]
        LazyHeap(story)


def test_a_function_that_raises_ends_the_story():
    story = heap_story(lambda heap, *_: heap[0], [("pop",)])
    assert story["steps"] == []
    assert "raised IndexError" in story["error"]


@pytest.mark.process
def test_a_function_that_ends_its_process_leaves_a_story_that_says_so():
    def ends(*_):
        os._exit(0)

    story = told(lambda function: heap_story(function, [("pop",)]), ends)
    assert story["steps"] == []
    assert "ended the whole Python process" in story["error"]
    LazyHeap(story)


def test_an_event_that_is_none_is_refused_before_anything_runs():
    for event in (("peek",), ("push", 1), ("push", 1, ()), ("push", -1, (0,)), ("push", 1, "a")):
        with pytest.raises(ValueError, match="there is no event"):
            heap_story(apply_event, [("pop",), event])

"""The story of a lazy heap: what each function did, and which entries should have counted."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.lesson_data.l09_lazy_heap import heap_story, told
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


def forgets(newest, request_id):
    """The source's remove forgets the generation, so the next push starts at 1 again."""
    return {who: count for who, count in newest.items() if who != request_id}


def counted(step):
    """(id, key) of the entries that count by their generation."""
    return [
        (entry["id"], entry["key"])
        for entry in step["entries"]
        if step["generations"].get(str(entry["id"])) == entry["generation"]
    ]


def live(step):
    return [(entry["id"], entry["key"]) for entry in step["entries"] if entry["live"]]


@given(EVENTS)
def test_with_the_reference_an_entry_counts_exactly_when_it_is_live(events):
    story = heap_story(events)
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
            continue  # what was popped counts no more, whatever is left of it
        assert counted(step) == live(step)
        assert sorted(live(step)) == sorted((i, list(key)) for i, key in waiting.items())
        assert "wrong" not in step["words"] and "again" not in step["words"]
    assert json.loads(json.dumps(story, allow_nan=False)) == story
    LazyHeap(story)


def test_a_forgotten_generation_revives_the_removed_entry_and_the_story_says_so():
    story = heap_story([*REVIVING, ("pop",)], remove=forgets)
    revived = story["steps"][2]
    assert counted(revived) == [(3, [1, 200]), (3, [5, 900])]
    assert live(revived) == [(3, [5, 900])]
    assert "Request 3's old entry (1, 200) is live again" in revived["words"]
    assert story["steps"][4]["popped"] == 3
    assert "That is wrong: request 4 is first." in story["steps"][4]["words"]


def test_a_waiting_request_that_is_lost_or_stale_is_named():
    push, pop, away = ("push", 1, (0,)), ("pop",), ("remove", 2)
    lost = heap_story([push, pop], lambda *_: (None, []))["steps"][-1]["words"]
    assert "Request 1 waits, but its entry is gone." in lost
    stale = heap_story([push, away], remove=lambda *_: {1: 2})["steps"][-1]["words"]
    assert "Request 1 waits, but its entry (0,) is stale" in stale


def test_an_answer_that_is_no_heap_ends_the_story_in_a_sentence():
    for answer, sentence in (
        (None, "your pop_live returned None; it must be (request_id, heap)"),
        (("three", []), "your pop_live returned ('three', []); it must be (request_id, heap)"),
        ((None, [(1, 2, 3)]), "left (1, 2, 3) in the heap; an entry must be (key, id, generation)"),
        ((None, [((float("nan"),), 2, 3)]), "left ((nan,), 2, 3) in the heap"),
        ((None, [((1,), True, 3)]), "left ((1,), True, 3) in the heap"),
    ):
        events = [("push", 1, (0,)), ("pop",), ("pop",)]
        story = heap_story(events, lambda *_, answer=answer: answer)
        assert len(story["steps"]) == 1
        assert sentence in story["error"]
        LazyHeap(story)
    story = heap_story([("remove", 1)], remove=lambda *_: {1: "a"})
    assert "the removal returned {1: 'a'}; it must be a dict of whole numbers" in story["error"]


@pytest.mark.process
def test_a_function_that_ends_its_process_leaves_a_story_that_says_so():
    def ends(*_):
        os._exit(0)

    story = told(lambda pop: heap_story([("pop",)], pop), ends)
    assert story["steps"] == []
    assert "ended the whole Python process" in story["error"]
    LazyHeap(story)

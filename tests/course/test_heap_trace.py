"""The recorded heap: the same array as heapq's after every operation, and each move in words."""

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.stories.l02_heap import record_heap

KEYS = st.lists(st.integers(0, 3), min_size=1, max_size=2)


def push(request_id, *key, **more):
    return {"op": "push", "entry": {"id": request_id, "key": list(key)}, **more}


def words(record):
    return [move["words"] for move in record["moves"]]


def final(records):
    """The array after the last operation that moved something."""
    return next(record["states"][-1] for record in reversed(records) if record["states"])


@given(st.lists(st.none() | KEYS, max_size=40))
def test_after_every_operation_the_array_is_heapq_s(keys):
    """None stands for a pop where there is something to pop, a key for a push."""
    mirror, operations, expected = [], [], []
    for request_id, key in enumerate(keys):
        if key is not None:
            operations.append(push(request_id, *key))
            heapq.heappush(mirror, (key, request_id))
        elif mirror:
            operations.append({"op": "pop"})
            heapq.heappop(mirror)
        else:
            continue
        expected.append([each for _, each in mirror])
    assert [record["states"][-1] for record in record_heap(operations)] == expected


@given(st.lists(st.none() | KEYS, max_size=40))
def test_every_move_leads_from_one_state_to_the_next(keys):
    operations, size = [], 0
    for request_id, key in enumerate(keys):
        if key is None and size == 0:
            continue
        operations.append({"op": "pop"} if key is None else push(request_id, *key))
        size += -1 if key is None else 1
    before = []
    for record in record_heap(operations):
        for move, after in zip(record["moves"], record["states"], strict=True):
            assert after == applied(move, before, record["entry"]["id"])
            before = after
        assert record["moves"][-1]["kind"] in ("settle", "take")


def applied(move, before, entry_id):
    """What a move must do to the array, from its kind and its two indices alone."""
    after = list(before)
    if move["kind"] == "append":
        assert move["to"] == len(before)
        after.append(entry_id)
    elif move["kind"] == "take":
        assert (after[0], move["to"]) == (entry_id, 0)
        last = after.pop()
        assert move["from"] == len(after)
        after[:1] = [last] if after else []
    elif move["kind"] == "swap":
        i, j = move["from"], move["to"]
        assert (max(i, j) - 1) // 2 == min(i, j)
        after[i], after[j] = after[j], after[i]
    return after


def test_a_push_says_each_comparison():
    records = record_heap([push(0, 9), push(1, 7), push(2, 8)])
    assert words(records[0]) == [
        "Request 0 goes to the end of the array, cell 0.",
        "Request 0 has no parent: it stays at the top.",
    ]
    assert words(records[1]) == [
        "Request 1 goes to the end of the array, cell 1.",
        "Request 1's key 7 is smaller than its parent's, 9: they swap places.",
        "Request 1 has no parent: it stays at the top.",
    ]
    assert words(records[2])[1] == "Request 2's key 8 is larger than its parent's, 7: it stays."


def test_a_pop_says_each_comparison():
    records = record_heap([*(push(i, 0, i) for i in range(4)), *[{"op": "pop"}] * 4])
    assert words(records[4]) == [
        "Request 0 is taken from the top; the last entry, request 3, moves into the hole.",
        "Request 3's key (0, 3) is larger than its smaller child's, (0, 1): they swap places.",
        "Request 3 has no child: it stays.",
    ]
    assert words(records[5])[1] == (
        "Request 2's key (0, 2) is smaller than its child's, (0, 3): it stays."
    )
    assert words(records[7]) == ["Request 3 is taken from the top; the heap is empty."]


def test_equal_keys_are_decided_by_the_id():
    records = record_heap([push(4, 1), push(2, 1), push(7, 1)])
    assert words(records[1])[1] == (
        "Request 2's key 1 equals its parent's, and id 2 comes before id 4: they swap places."
    )
    assert words(records[2])[1] == (
        "Request 7's key 1 equals its parent's, and id 7 comes after id 2: it stays."
    )


def test_a_look_moves_nothing_and_hands_the_admission_through():
    admission = {"verdict": "wait"}
    look = record_heap([push(3, 5), {"op": "look", "admission": admission}])[1]
    assert (look["entry"]["label"], look["states"], look["admission"]) == (
        "request 3",
        [[3]],
        admission,
    )
    assert words(look) == ["Request 3 has the smallest key, 5."]


def test_a_refused_push_moves_nothing():
    records = record_heap([push(3, 5), push(4, 1, admission={"verdict": "refuse"})])
    assert (records[1]["moves"], records[1]["states"]) == ([], [])
    assert final(records) == [3]


@pytest.mark.parametrize(
    ("operations", "sentence"),
    [
        ([{"op": "pop"}], "the heap is empty: no pop is possible"),
        ([{"op": "look"}], "the heap is empty: no look is possible"),
        ([{"op": "peek"}], "there is no operation 'peek'; choose from look, pop, push"),
        ([{"op": "push"}], "the entry is None; it needs an id and a key"),
        ([push(1)], "it needs an id and a key of numbers"),
        ([push(-1, 2)], "the id of an entry is -1; it must be at least 0"),
        ([push(1, "a")], "the key of entry 1 holds 'a'; it must be a number"),
        ([push(1, float("nan"))], "the key of entry 1 holds nan"),
        ([push(1, 2), push(1, 3)], "entry 1 is in the heap already"),
    ],
)
def test_what_is_no_heap_operation_is_refused_in_a_sentence(operations, sentence):
    with pytest.raises(ValueError, match=sentence):
        record_heap(operations)

"""The recorded heap: the same array as heapq's after every operation, and each move in words."""

import heapq

from hypothesis import given
from hypothesis import strategies as st

from course.lesson_data.l02_heap import record_heap

KEYS = st.lists(st.integers(0, 3), min_size=1, max_size=2)


def push(request_id, *key):
    return {"op": "push", "entry": {"id": request_id, "key": list(key)}}


def words(record):
    return [move["words"] for move in record["moves"]]


@given(st.lists(st.none() | KEYS, max_size=40))
def test_every_move_follows_from_the_state_before_and_the_last_is_heapq_s(keys):
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
    before = []
    for record, wanted in zip(record_heap(operations), expected, strict=True):
        for move, after in zip(record["moves"], record["states"], strict=True):
            assert after == applied(move, before, record["entry"]["id"])
            before = after
        assert record["moves"][-1]["kind"] in ("settle", "take")
        assert before == wanted


def applied(move, before, entry_id):
    """What a move must do to the array, from its kind and its two indices only."""
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


def test_each_comparison_is_told():
    records = record_heap([push(0, 9), push(1, 7), push(2, 8), push(4, 7), {"op": "pop"}])
    assert words(records[0]) == [
        "Request 0 goes to the end of the array, cell 0.",
        "Request 0 has no parent: it stays at the top.",
    ]
    assert words(records[1])[1] == (
        "Request 1's key 7 is smaller than its parent's, 9: they swap places."
    )
    assert words(records[2])[1] == "Request 2's key 8 is larger than its parent's, 7: it stays."
    assert words(records[3])[2] == (
        "Request 4's key 7 equals its parent's, and id 4 comes after id 1: it stays."
    )
    assert words(records[4]) == [
        "Request 1 is taken from the top; the last entry, request 0, moves into the hole.",
        "Request 0's key 9 is larger than its smaller child's, 7: they swap places.",
        "Request 0 has no child: it stays.",
    ]

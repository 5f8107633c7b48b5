"""A binary min-heap whose moves are recorded in words, for the pictures.

The scheduler itself uses `heapq`; a test checks that both end with the same array. Entries compare
by their key and, if keys are equal, by their id.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Entry = dict[str, Any]
Move = dict[str, Any]


def record_heap(operations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Record what pushes, pops and looks do to a heap that starts empty, move by move.

    An operation is {"op": "push", "entry": {"id", "key"}}, {"op": "pop"} or {"op": "look"} (read
    the top, move nothing), with an "admission" that is returned unchanged.
    Returns, for each operation, {"op", "entry", "states", "moves", "admission"}: `states[i]` holds
    the entries' ids in the array's order after `moves[i]`, {"kind", "from", "to", "words"}.
    """
    heap = _Heap()
    return [heap.record(operation) for operation in operations]


@dataclass(slots=True)
class _Heap:
    """The array, and the moves of the current operation."""

    array: list[Entry] = field(default_factory=list[Entry])
    moves: list[Move] = field(default_factory=list[Move])
    states: list[list[int]] = field(default_factory=list[list[int]])

    def record(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        """Do one operation and return its record."""
        self.moves, self.states = [], []
        op = operation["op"]
        if op == "push":
            entry = operation["entry"]
            entry = {**entry, "label": f"request {entry['id']}"}
            self._push(entry)
        else:
            entry = self.array[0]
            if op == "pop":
                self._pop()
            else:
                self._note("settle", 0, 0, f"{_name(entry)} has the smallest key, {_key(entry)}")
        return {
            "op": op,
            "entry": entry,
            "states": self.states,
            "moves": self.moves,
            "admission": operation.get("admission"),
        }

    def _push(self, entry: Entry) -> None:
        """Put an entry at the end, and let it rise while its parent is larger."""
        self.array.append(entry)
        at = len(self.array) - 1
        self._note("append", at, at, f"{_name(entry)} goes to the end of the array, cell {at}")
        while at > 0:
            parent = (at - 1) // 2
            than = _comparison(self.array[at], self.array[parent], "its parent's")
            if not _is_smaller(self.array[at], self.array[parent]):
                return self._note("settle", at, at, f"{than}: it stays")
            self._swap(at, parent, f"{than}: they swap places")
            at = parent
        return self._note("settle", 0, 0, f"{_name(entry)} has no parent: it stays at the top")

    def _pop(self) -> None:
        """Take the top, put the last entry into the hole, and let it sink to its place."""
        top, last = self.array[0], self.array.pop()
        taken = f"{_name(top)} is taken from the top"
        if not self.array:
            return self._note("take", 0, 0, f"{taken}; the heap is empty")
        self.array[0] = last
        moved = f"{taken}; the last entry, {last['label']}, moves into the hole"
        self._note("take", len(self.array), 0, moved)
        at = 0
        while 2 * at + 1 < len(self.array):
            child = self._smaller_child(at)
            whose = "its smaller child's" if 2 * at + 2 < len(self.array) else "its child's"
            than = _comparison(self.array[at], self.array[child], whose)
            if _is_smaller(self.array[at], self.array[child]):
                return self._note("settle", at, at, f"{than}: it stays")
            self._swap(at, child, f"{than}: they swap places")
            at = child
        return self._note("settle", at, at, f"{_name(last)} has no child: it stays")

    def _smaller_child(self, at: int) -> int:
        """The index of the smaller of the one or two children of `at`."""
        left, right = 2 * at + 1, 2 * at + 2
        has_right = right < len(self.array)
        return right if has_right and _is_smaller(self.array[right], self.array[left]) else left

    def _swap(self, at: int, other: int, words: str) -> None:
        self.array[at], self.array[other] = self.array[other], self.array[at]
        self._note("swap", at, other, words)

    def _note(self, kind: str, source: int, target: int, words: str) -> None:
        """Record a move that has been made, and the array after it."""
        self.moves.append({"kind": kind, "from": source, "to": target, "words": f"{words}."})
        self.states.append([entry["id"] for entry in self.array])


def _is_smaller(one: Entry, other: Entry) -> bool:
    return (one["key"], one["id"]) < (other["key"], other["id"])


def _comparison(one: Entry, other: Entry, whose: str) -> str:
    """The comparison of two entries as half a sentence: "Request 2's key 7 is smaller than ..."."""
    who = f"{_name(one)}'s key {_key(one)}"
    smaller = _is_smaller(one, other)
    if one["key"] == other["key"]:
        order = "before" if smaller else "after"
        return f"{who} equals {whose}, and id {one['id']} comes {order} id {other['id']}"
    return f"{who} is {'smaller' if smaller else 'larger'} than {whose}, {_key(other)}"


def _name(entry: Entry) -> str:
    return f"Request {entry['id']}"


def _key(entry: Entry) -> str:
    """A key of one number as that number, a longer one as a tuple."""
    key: list[float] = entry["key"]
    return f"{key[0]}" if len(key) == 1 else f"({', '.join(str(part) for part in key)})"

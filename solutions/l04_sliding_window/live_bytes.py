"""Exercise 4.5: how many bytes tensors keep alive together."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course.calling.plain_values import as_whole
from course.checks.comparing import Args, Comparison, a_kind
from course.exercise import Exercise, Misconception
from course.task import Task
from solutions.l04_sliding_window._weighing import shown_bytes, storages

# --- right answers ------------------------------------------------------------------------------


def live_bytes(tensors: list[Tensor]) -> int:
    """Return how many bytes of memory these tensors keep alive together."""
    # Memory is freed by storages, not by shapes. Two tensors of one storage have one address, so
    # the address is the key that counts it once.
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors
    }
    return sum(storages.values())


def by_loop(tensors: list[Tensor]) -> int:
    seen: set[int] = set()
    total = 0
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            total += storage.nbytes()
    return total


def with_numpy(tensors: list[Tensor]) -> Any:
    storages = [tensor.untyped_storage() for tensor in tensors]
    _, first = np.unique([storage.data_ptr() for storage in storages], return_index=True)
    return np.sum([storages[i].nbytes() for i in first], dtype=int)


# --- wrong ideas --------------------------------------------------------------------------------


def storage_bytes(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes()


def storage_elements(tensor: Tensor) -> int:
    return storage_bytes(tensor) // tensor.element_size()


def by_address(
    address: Callable[[Tensor], int], size: Callable[[Tensor], int]
) -> Callable[[list[Tensor]], int]:
    """The sum of size(tensor), counted once for each address(tensor)."""
    return lambda tensors: sum({address(tensor): size(tensor) for tensor in tensors}.values())


def storage_address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


MISCONCEPTIONS = (
    Misconception(
        "not_int",
        "Memory is counted in kilobytes.",
        lambda value: f"The answer is a whole number of bytes (an int), not {a_kind(value)}.",
        matches=lambda value: as_whole(value) is None,
        examples=(lambda tensors: live_bytes(tensors) / 1024,),
    ),
    Misconception(
        "shapes",
        "A tensor's memory is its shape's.",
        "A shape says what a tensor shows, but memory is freed by whole storages: count the bytes "
        "of the storage behind it.",
        shown_bytes,
        same_result=(by_address(Tensor.data_ptr, lambda tensor: shown_bytes([tensor])),),
    ),
    Misconception(
        "counted_twice",
        "Each tensor brings its storage.",
        "Tensors that show one storage share its bytes: count each storage once, by its address.",
        lambda tensors: sum(map(storage_bytes, tensors)),
    ),
    Misconception(
        "counted_twice",
        "A tensor's address is its storage's.",
        "Two views may begin at different places of one storage; the address that tells storages "
        "apart is the storage's own, not the tensor's.",
        by_address(Tensor.data_ptr, storage_bytes),
    ),
    Misconception(
        "elements",
        "A storage's size is its length.",
        "These are numbers of elements; each of them takes `element_size()` bytes.",
        by_address(storage_address, storage_elements),
    ),
    Misconception(
        "four_bytes_each",
        "Numbers take four bytes.",
        "An element does not always take 4 bytes: float64 takes 8 and float16 takes 2.",
        by_address(storage_address, lambda tensor: 4 * storage_elements(tensor)),
    ),
    Misconception(
        "in_place",
        "What is counted is done with.",
        examples=(
            lambda tensors: sum(
                live_bytes([one])
                for one in [tensors.pop() for _ in range(len(tensors))]
                if live_bytes([*tensors, one]) > live_bytes(tensors)
            ),
        ),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def draw_tensors(name: str, args: Args) -> str:
    """The call, and for every tensor what it shows of which storage."""
    addresses = list(storages(args[0]))
    lines = [f"{name}({'[...]' if args[0] else '[]'})"]
    for index, tensor in enumerate(args[0]):
        letter = chr(ord("A") + addresses.index(storage_address(tensor)))
        lines.append(
            f"[{index}] {tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}, "
            f"{shown_bytes([tensor])} bytes shown of storage {letter}: {storage_bytes(tensor)} "
            "bytes"
        )
    return "\n".join(lines)


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor with a storage of its own."""
    return torch.zeros(shape, dtype=dtype)


def whole_tensors(rng: random.Random) -> list[Args]:
    return [
        ([zeros(2, 3)],),
        ([zeros(1, 5, 2), zeros(1, 5, 2)],),
        ([],),
        ([zeros(3, dtype=torch.float64), zeros(3, dtype=torch.float16)],),
    ]


def views(rng: random.Random) -> list[Args]:
    shown = (zeros(1, 40, 4)[:, -20:], zeros(8, 4)[:0], zeros(6, 1).expand(6, 50), zeros(4, 6).T)
    return [([view],) for view in shown]


def shared(rng: random.Random) -> list[Args]:
    cache, batch = zeros(1, 10, 4), zeros(3, 8, 2)
    k, v = zeros(2, 1, 6, 4)
    return [
        ([cache, cache],),
        ([cache[:, :4], cache[:, 6:]],),
        ([batch[0, -3:], batch[2, -3:], zeros(5)],),
        ([k[:, -2:], v[:, -2:]],),
    ]


def any_tensors(rng: random.Random) -> list[Args]:
    lists: list[list[Tensor]] = []
    for _ in range(12):
        dtypes = (torch.float32, torch.float64, torch.float16)
        wholes = [zeros(rng.randint(1, 4), 8, dtype=rng.choice(dtypes)) for _ in range(3)]
        picked = [rng.choice(wholes) for _ in range(rng.randint(1, 5))]
        lists.append([whole[:, rng.randint(0, 4) : rng.randint(5, 8)] for whole in picked])
    return [(tensors,) for tensors in sorted(lists, key=len)]


def evidence() -> list[Args]:
    """Tensors of all kinds; what an answer says of each tells why it failed on one."""
    whole, other = zeros(2, 10, 4), zeros(2, 10, 4)
    views = [whole[:, :3], other[:, -3:], whole[:, 5:], other]
    kinds = [zeros(6, dtype=torch.float16), zeros(6, dtype=torch.float64), zeros(9)]
    return [(views,), (kinds,), ([whole[:1], zeros(3), other],), ([whole, whole, zeros(7)],)]


JUDGE = Comparison(
    live_bytes,
    MISCONCEPTIONS,
    "What counts is the memory that cannot come free as long as these tensors live.",
    evidence=evidence(),
)

EXERCISE = Exercise(
    number=5,
    title="What a byte really costs",
    minutes=7,
    points=2,
    task=Task(
        signature="live_bytes(tensors: list[torch.Tensor]) -> int",
        rules=(
            "A tensor shows a storage, all of it or a part: a slice, a transposed or an expanded "
            "tensor has the storage of the tensor that it was made from.",
            "`tensor.untyped_storage()` is a tensor's storage; the storage's `.nbytes()` is its "
            "size in bytes and its `.data_ptr()` its address in memory.",
            "Returns the bytes of memory that the tensors of the list keep alive together; 0 for "
            "an empty list.",
        ),
        args=([torch.zeros(2), torch.zeros(3)],),
        result=20,
    ),
    hints=(
        "What is freed when a tensor goes away while a slice of it stays?",
        "Go through the tensors' storages. A storage that you have met before, at the same "
        "address, adds nothing.",
        "A dict keeps one value for each key: with a storage's address as the key and its size as "
        "the value, a storage that comes twice is there once. What is left to do with the values?",
    ),
    right=(live_bytes, by_loop, with_numpy),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("whole tensors", JUDGE.on_drawn(whole_tensors)),
        ("a view", JUDGE.on_drawn(views)),
        ("tensors that share a storage", JUDGE.on_drawn(shared)),
        ("any tensors", JUDGE.on_drawn(any_tensors)),
    ),
    draw_call=draw_tensors,
    equivalent_mutants={"tensors: reversed": "a sum does not mind the order"},
)

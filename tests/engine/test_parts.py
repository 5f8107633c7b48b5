"""Parts: the reference by default; anything else runs guarded."""

import dataclasses
from typing import Any

import pytest
import torch
from fakes import tiny_model

from nanogpt import Engine, Request, planning, policies
from nanogpt.parts import Parts, acceptance, blocks, fusing, masks, sliding_window
from nanogpt.parts.layout_checks import mask_of_pairs, slots_of_all
from nanogpt.parts.part_checks import guard_parts
from nanogpt.parts.request_view import RequestView
from nanogpt.validate import PartError


class EqualsAnything:
    """A part that would pass for the reference."""

    def __eq__(self, other: object) -> bool:
        return True

    def __call__(self, *arguments: object) -> list:
        raise RuntimeError("called")


def test_a_part_that_equals_anything_runs_guarded():
    engine = Engine(tiny_model(), parts=Parts(plan_step=EqualsAnything()))
    engine.submit(Request(0, [1, 2], 2))
    with pytest.raises(PartError, match="called"):
        engine.step()


def test_every_part_defaults_to_the_reference():
    parts = Parts()
    assert parts.plan_step is planning.plan_step
    assert parts.chunk_inputs is planning.chunk_inputs
    assert parts.chunk_mask is masks.chunk_mask
    for name in ("sort_key", "admit", "choose_victim", "resume", "record"):
        assert getattr(parts, name) is getattr(policies, name)
    for name in ("fused_rows", "full_mask", "split_kv", "pack"):
        assert getattr(parts, name).function is getattr(fusing, name)
    for name in ("visible", "evict", "held", "ring_slot"):
        assert getattr(parts, name).function is getattr(sliding_window, name)
    for name in ("accept", "roll_back_kv"):
        assert getattr(parts, name).function is getattr(acceptance, name)
    for name in (
        "allocate", "release", "block_hashes", "longest_match", "writable", "evict_order",
    ):  # fmt: skip
        assert getattr(parts, name).function is getattr(blocks, name)


def test_the_reference_runs_unwrapped():
    assert guard_parts(Parts()) == Parts()


def test_only_what_was_exchanged_is_wrapped():
    def plan_step(*_: Any) -> planning.Plan:
        return [(1, 1)]

    guarded = guard_parts(Parts(plan_step=plan_step))
    assert guarded.plan_step is not plan_step
    assert guarded.plan_step([1], [], [], 4) == [(1, 1)]
    assert dataclasses.replace(guarded, plan_step=planning.plan_step) == Parts()


ERRORS_IN = {
    "plan_step": ([1], [], [], 4),
    "chunk_inputs": ([1, 2, 3], 0, 3),
    "chunk_mask": (2, 3),
    "sort_key": ("fcfs", None),
    "admit": (None, 0, 22, 0, 8),
    "choose_victim": ([],),
    "resume": (RequestView(0, 0, 0, None, (1,), (), 1, 0),),
    "record": ([0], [0], [5]),
    "fused_rows": ([[1, 2]], [0], [2]),
    "full_mask": ([0], [2]),
    "split_kv": (torch.zeros(1, 2, 4), [0], [2]),
    "pack": ([0], [2]),
    "evict": (torch.zeros(1, 3, 4), torch.zeros(1, 3, 4), 2, 0),
    "held": (0, 5, 4, 0),
    "visible": ([3], [1], 2, 0),
    "ring_slot": ([3], 2, 0),
    "accept": ([1.0], [1.0], 0, 0.5, 0.5),
    "roll_back_kv": (9, 4, 2),
    "allocate": (0, 3, 4, [0, 1]),
    "release": ([1, 2], [0, 1]),
    "block_hashes": ([5, 6, 7], 2, ""),
    "longest_match": (["a"], {"a": 0}, 3, 2),
    "writable": ([0], [2, 0], 0, [1]),
    "evict_order": ([blocks.CachedBlock(0, 0, 1, 0)],),
}
ASKED_FOR_MANY = {"visible": mask_of_pairs, "ring_slot": slots_of_all}


@pytest.mark.parametrize(("name", "args"), ERRORS_IN.items())
def test_an_error_in_any_part_names_the_part_and_the_line(name: str, args: tuple[Any, ...]):
    def broken(*_: Any) -> Any:
        return 1 // 0

    part = getattr(guard_parts(Parts(**{name: broken})), name)
    if name in ASKED_FOR_MANY:
        part = ASKED_FOR_MANY[name](part)
    with pytest.raises(PartError, match=rf"your {name} raised ZeroDivisionError on its line 2"):
        part(*args)


def test_the_error_cases_cover_every_part():
    names = {field.name for field in dataclasses.fields(Parts)}
    assert names == set(ERRORS_IN)

"""The exchangeable parts of the engine: named functions, each with its reference as the default.

A lesson gives the engine a learner's function by name: `Parts(plan_step=my_plan_step)`. Parts that
are not the reference run guarded: with a time limit, and with their result checked before the
engine believes it.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from nanogpt import masks, planning, scheduler
from nanogpt.guard import PartError, guarded
from nanogpt.request import Request


class PlanStep(Protocol):
    """Who computes how many tokens this step; see `planning.plan_step`."""

    def __call__(
        self,
        decodes: Sequence[int],
        prefilling: Sequence[tuple[int, int]],
        waiting: Sequence[tuple[int, int]],
        budget: int,
        /,
    ) -> planning.Plan:
        """Plan one step."""
        ...


class ChunkInputs(Protocol):
    """Ids, positions and whether to sample, of one chunk; see `planning.chunk_inputs`."""

    def __call__(
        self, tokens: Sequence[int], cursor: int, num_tokens: int, /
    ) -> tuple[list[int], list[int], bool]:
        """Cut one chunk."""
        ...


class ChunkMask(Protocol):
    """Which keys each token of a chunk may see; see `masks.chunk_mask`."""

    def __call__(self, num_past: int, num_new: int, /) -> Tensor:
        """Build one mask."""
        ...


class SortKey(Protocol):
    """A request's place among the waiting: smaller goes first; see `scheduler.fcfs_key`."""

    def __call__(self, request: Request, /) -> tuple[Any, ...]:
        """Rank one request."""
        ...


class ChooseVictim(Protocol):
    """Whose K/V to release when memory is short; see `scheduler.choose_victim`."""

    def __call__(self, running: Sequence[Request], /) -> int:
        """Name one running request by id."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a lesson may exchange; whatever is left out is the reference."""

    plan_step: PlanStep = planning.plan_step
    chunk_inputs: ChunkInputs = planning.chunk_inputs
    chunk_mask: ChunkMask = masks.chunk_mask
    sort_key: SortKey = scheduler.fcfs_key
    choose_victim: ChooseVictim = scheduler.choose_victim


REFERENCE = Parts()


def guard_parts(parts: Parts) -> Parts:
    """The same parts, those that are not the reference wrapped in a time limit and checks."""
    wrapped: dict[str, Callable[..., Any]] = {}
    for field in dataclasses.fields(parts):
        part = getattr(parts, field.name)
        if part is not getattr(REFERENCE, field.name):
            wrapped[field.name] = guarded(field.name, part)
    if "chunk_mask" in wrapped:
        wrapped["chunk_mask"] = _checked_mask(wrapped["chunk_mask"])
    if "sort_key" in wrapped:
        wrapped["sort_key"] = _checked_key(wrapped["sort_key"])
    if "choose_victim" in wrapped:
        wrapped["choose_victim"] = _checked_victim(wrapped["choose_victim"])
    if "chunk_inputs" in wrapped:
        wrapped["chunk_inputs"] = _checked_inputs(wrapped["chunk_inputs"])
    return dataclasses.replace(parts, **wrapped)


def _checked_mask(mask_of: Callable[[int, int], Any]) -> ChunkMask:
    def chunk_mask(num_past: int, num_new: int, /) -> Tensor:
        mask = mask_of(num_past, num_new)
        wanted = (num_new, num_past + num_new)
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != wanted:
            got = (
                f"{mask.dtype} {tuple(mask.shape)}"
                if isinstance(mask, Tensor)
                else type(mask).__name__
            )
            raise PartError(
                f"your chunk_mask({num_past}, {num_new}) returned {got}; "
                f"it must be a torch.bool tensor of shape {wanted}"
            )
        if not mask.any(dim=1).all():
            blind = int((~mask.any(dim=1)).nonzero()[0, 0])
            raise PartError(
                f"your chunk_mask({num_past}, {num_new}) lets query {blind} see no key at all; "
                "its softmax would be NaN"
            )
        return mask

    return chunk_mask


def _checked_inputs(inputs_of: Callable[..., Any]) -> ChunkInputs:
    def chunk_inputs(
        tokens: Sequence[int], cursor: int, num_tokens: int, /
    ) -> tuple[list[int], list[int], bool]:
        what = f"your chunk_inputs(tokens, {cursor}, {num_tokens})"
        match inputs_of(list(tokens), cursor, num_tokens):
            case (list(ids), list(positions), bool(sample)):
                pass
            case other:
                raise PartError(f"{what} returned {other!r}; it must be (ids, positions, sample)")
        if not len(ids) == len(positions) == num_tokens:
            raise PartError(
                f"{what} returned {len(ids)} ids and {len(positions)} positions; "
                f"both must be {num_tokens} long"
            )
        numbers = [*ids, *positions]
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise PartError(f"{what} returned {numbers}; ids and positions are integers from 0 up")
        if cursor + num_tokens == len(tokens) and not sample:
            raise PartError(f"{what} does not sample although it ends at the last known token")
        return ids, positions, sample

    return chunk_inputs


def _checked_key(key_of: Callable[[Request], Any]) -> SortKey:
    def sort_key(request: Request, /) -> tuple[Any, ...]:
        key = key_of(request)
        numbers = isinstance(key, tuple) and all(type(part) in (int, float) for part in key)
        if not numbers or any(part != part for part in key):
            raise PartError(
                f"your sort_key returned {key!r} for request {request.id}; "
                "it must be a tuple of numbers"
            )
        return key

    return sort_key


def _checked_victim(victim_of: Callable[[Sequence[Request]], Any]) -> ChooseVictim:
    def choose_victim(running: Sequence[Request], /) -> int:
        chosen = victim_of(list(running))
        ids = [request.id for request in running]
        if type(chosen) is not int or chosen not in ids:
            raise PartError(f"your choose_victim named {chosen!r}; only {ids} are running")
        return chosen

    return choose_victim

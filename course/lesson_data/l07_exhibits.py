"""Behind lesson 7's exhibits: five defects of a block store, found by the texts they spoil.

Before them, one prompt that is answered four times by the learner's `copy_on_write`.
"""

import copy
import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import torch

from course.attempt import Attempt
from course.lesson_data.l07_stores import (
    SETTINGS,
    ExhibitEngine,
    Rule,
    Seen,
    Store,
    serve,
    symptoms,
    watched,
)
from nanogpt import GPT, Request, encode
from nanogpt.block_pool import BlockPool
from nanogpt.executors.packed import PackedExecutor
from nanogpt.outputs import ModelOutput, PrefixHit, Row
from nanogpt.policies import blocks


def _request(id_: int, prompt: str, num_new: int) -> Request:
    return Request(id_, encode(prompt), num_new)


# --- A: a hash without its parent ---------------------------------------------------------------

KING, DUKE = "KING RICHARD II:", "DUKE VINCENTIO:\n"  # a block each
SAYS = "What is the matt"
MERCY = "O, my good lord,"


def behind_another(model: GPT, block_hashes: Rule) -> tuple[str, bool]:
    """Three prompts of the same blocks in other orders, by these hashes."""
    requests = [
        _request(0, KING + SAYS + "er", 12),
        _request(1, DUKE + MERCY + " I", 12),
        _request(2, DUKE + SAYS + "er", 24),
    ]
    arrivals = [(12 * i, each) for i, each in enumerate(requests)]

    def job(rule: Rule) -> Seen:
        return serve(ExhibitEngine(model, rule, "block_hashes"), arrivals)

    return symptoms(model, requests, watched(job, block_hashes))


def of_its_own_tokens(tokens: list[int], size: int, salt: str) -> list[str]:
    """Exhibit A: each block by its own tokens."""
    ends = range(size, len(tokens) + 1, size)
    return [f"{salt} {tokens[end - size : end]}" for end in ends]


# --- B: written in place ------------------------------------------------------------------------


class SharesTails(Store):
    """A store that shares a last block that is not full too, with a request that runs."""

    def match(self, token_ids: Sequence[int], salt: str | None = None) -> PrefixHit | None:
        """The longest beginning that the table of a running request holds, to the token."""
        best = super().match(token_ids, salt)
        for request_id in self.holders():
            held = self.requests[request_id].tokens_so_far[: self.length(request_id)]
            pairs = zip(held, token_ids[:-1], strict=False)
            alike = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
            alike = min(len(held), len(token_ids) - 1) if alike is None else alike
            if alike > (best.num_tokens if best else 0):
                table = self.table(request_id)[: -(-alike // self.size)]
                best = PrefixHit(table, alike)
        return best


def two_in_one_block(model: GPT, copy_on_write: Rule) -> tuple[str, bool]:
    """A request that runs, and one that begins like it and goes on in its last block."""
    requests = [
        _request(0, KING + "What say", 24),
        _request(1, KING + "What shall I do", 24),
    ]

    def job(rule: Rule) -> Seen:
        engine = ExhibitEngine(model, rule, "copy_on_write", store=SharesTails)
        return serve(engine, [(0, requests[0]), (3, requests[1])])

    seen = watched(job, copy_on_write)
    # What the books lose, the block that was taken for the copy, would lead away from the texts.
    told, whole = symptoms(model, requests, replace(seen, books=""))
    return told, whole and not seen.books


def four_answers(model: GPT, attempt: Attempt) -> str:
    """One prompt answered four times by your `copy_on_write`; the last block is half full."""
    settings = replace(SETTINGS, temperature=1.0)
    requests = [_request(number, KING + "What say", 24) for number in range(4)]

    def job(rule: Rule) -> Seen:
        engine = ExhibitEngine(
            model, rule, "copy_on_write", settings=settings, store=SharesTails, looks_at=True
        )
        return serve(engine, [(min(each.id, 1), each) for each in requests])

    seen = watched(job, attempt.or_reference(blocks.copy_on_write))
    told, _ = symptoms(model, requests, seen, settings)
    whose = (
        "your `copy_on_write`" if attempt.started else "the reference (yours is not written yet)"
    )
    return f"One prompt, answered four times at temperature 1, by {whose}:\n\n{told}"


def into_the_same(
    table: list[int], ref_counts: list[int], index: int, free_blocks: list[int]
) -> tuple[list[int], tuple[int, int] | None]:
    """Exhibit B: what stands in the table may be written."""
    return table, None


# --- C: freed under another ---------------------------------------------------------------------


class BelievingPool(BlockPool):
    """A pool that believes what is freed: no table names it any more."""

    def drop(self, blocks: Sequence[int]) -> None:
        """As ever, and then nothing is left of what `free_table` has freed."""
        freed = self.policies.free_table(self.ref_counts, blocks)
        super().drop(blocks)
        for block in freed:
            if self.ref_counts[block]:
                self.ref_counts[block] = 0
                if block in self._idle:
                    self._evict(block)
                self._empty.add(block)


class Believing(Store):
    """A store with such books."""

    pool_type = BelievingPool


def one_leaves(model: GPT, free_table: Rule) -> tuple[str, bool]:
    """Two requests that begin alike; one leaves, and a third comes for its blocks."""
    requests = [
        _request(0, KING + SAYS + "er", 4),
        _request(1, KING + SAYS + " with", 40),
        _request(2, DUKE + "Now, by the world, I do not know the man that has", 24),
    ]

    def job(rule: Rule) -> Seen:
        engine = ExhibitEngine(model, rule, "free_table", store=Believing)
        return serve(engine, [(0, requests[0]), (2, requests[1]), (8, requests[2])])

    return symptoms(model, requests, watched(job, free_table))


def all_of_its_table(ref_counts: list[int], table: list[int]) -> list[int]:
    """Exhibit C: the request is gone, and so is its table."""
    return table


# --- D: found before it is there ----------------------------------------------------------------


class FailsOnce(PackedExecutor):
    """Its second pass ends in NaN, as one may on broken hardware."""

    num_passes = 0

    def execute(self, rows: Sequence[Row]) -> ModelOutput:
        """A pass as ever, but for the second."""
        result = super().execute(rows)
        self.num_passes += 1
        if self.num_passes != 2:
            return result
        return ModelOutput(torch.full_like(result.logits, float("nan")), result.forwards)


class NeverTakesBack(BlockPool):
    """Books in which what a step has published can be found after the step has failed."""

    def restore(self, books: Mapping[str, Any]) -> None:
        """As ever, but for what was published."""
        published = self._hash_of.items() - books["_hash_of"].items()
        depths = {block: self._worth[block][1] for block, _ in published}
        super().restore(books)
        self.publish((depths[block], block, block_hash) for block, block_hash in published)
        self._empty -= depths.keys()
        self._idle |= dict.fromkeys(depths)


class PublishesWhenWritten(Store):
    """A store in which `rule` says how many blocks can be found while a step is under way."""

    pool_type = NeverTakesBack

    def slot_mapping(self, rows: Sequence[Row]) -> torch.Tensor:
        """Where the new tokens go, and what of them is published at once."""
        slot_mapping = super().slot_mapping(rows)
        for request_id, num_new in ((row.request_id, len(row.input_ids)) for row in rows):
            known = self.requests[request_id].tokens_so_far
            num_full = self.rule(self.length(request_id), num_new, self.size)
            hashes = self._hashes(tuple(known[: num_full * self.size]), "")
            self.pool.publish(zip(count(), self.table(request_id), hashes, strict=False))
        return slot_mapping


def a_step_that_fails(model: GPT, num_published: Rule) -> tuple[str, bool]:
    """Two prompts; the step that reads the second one fails, and is done again."""
    requests = [
        _request(0, DUKE + "Now, by the world", 16),
        _request(1, KING + SAYS + "er, my lord? What", 24),
    ]

    def job(rule: Rule) -> Seen:
        engine = ExhibitEngine(model, rule, store=PublishesWhenWritten, executor=FailsOnce)
        return serve(engine, [(0, requests[0]), (1, requests[1])])

    return symptoms(model, requests, watched(job, num_published))


def as_soon_as_written(num_committed: int, num_new: int, size: int) -> int:
    """Exhibit D: how many of a request's blocks can be found while a step computes `num_new`."""
    return (num_committed + num_new) // size


# --- E: what else matters -----------------------------------------------------------------------


class OnOneStore(ExhibitEngine):
    """An engine of an adapter's weights, on the store of another one."""

    def __init__(self, model: GPT, other: ExhibitEngine) -> None:
        super().__init__(model, other.blocks.rule, shared=other.blocks)


@functools.lru_cache(maxsize=1)
def with_adapter(model: GPT) -> GPT:
    """The model with a product of two thin matrices on what makes Q, K and V, as LoRA has it."""
    adapted, draws = copy.deepcopy(model), torch.Generator().manual_seed(0)
    with torch.inference_mode():
        for name, weight in adapted.named_parameters():
            if name.endswith("qkv.weight"):  # (3 * C, C)
                up, down = (
                    torch.randn(n, 2, generator=draws, dtype=weight.dtype) for n in weight.shape
                )
                weight += 0.03 * up @ down.T
    return adapted


def two_adapters(model: GPT, block_hashes: Rule) -> tuple[str, bool]:
    """One prompt for the model and for the model with an adapter, which share a store."""
    adapted, prompt = with_adapter(model), encode(KING + SAYS + "er, my")
    plain, salted = (Request(i, prompt, 24, cache_salt=s) for i, s in enumerate((None, "pirate")))

    def job(rule: Rule) -> Seen:
        base = ExhibitEngine(model, rule, "block_hashes")
        return serve(OnOneStore(adapted, base), [(0, salted)], serve(base, [(0, plain)]))

    seen = watched(job, block_hashes)
    said, right = symptoms(model, [plain], replace(seen, books="", stopped=""))
    rest, whole = symptoms(adapted, [salted], seen)
    return "\n".join([said, *rest.splitlines()[2:]]), right and whole


def of_tokens_alone(tokens: list[int], size: int, salt: str) -> list[str]:
    """Exhibit E: each block by its text."""
    return [str(tokens[:end]) for end in range(size, len(tokens) + 1, size)]

"""Lesson 7's exhibits: three defects of a block store, each on requests whose texts it spoils.

Each runs its requests with a function of the page and returns the symptoms as Markdown, and whether
the run was right.
"""

from collections.abc import Sequence
from itertools import count

import torch

from course.lesson_data.l07_stores import ExhibitEngine, Rule, Seen, Store, serve, symptoms, watched
from nanogpt import GPT, Request, encode
from nanogpt.block_pool import BlockPool
from nanogpt.executors.packed import PackedExecutor
from nanogpt.outputs import ModelOutput, Row

KING, DUKE = "KING RICHARD II:", "DUKE VINCENTIO:\n"  # one block each
SAYS, MERCY = "What is the matt", "O, my good lord,"  # one block each


def _request(id_: int, prompt: str, num_new: int) -> Request:
    return Request(id_, encode(prompt), num_new)


# --- A: a hash that leads to an overwritten block -----------------------------------------------


class KeepsEvicted(BlockPool):
    """A pool whose dictionary of hashes is what `rule` returns after an eviction."""

    rule: Rule

    def _evict(self, block: int) -> None:
        cached = dict(self.block_of)
        super()._evict(block)
        self.block_of = dict(self.rule(cached, block))


class SmallStore(Store):
    """A store of six blocks."""

    pool_type, num_blocks = KeepsEvicted, 6


def run_after_evictions(model: GPT, cached_after_eviction: Rule) -> tuple[str, bool]:
    """A prompt, a long one that takes all blocks, and the first one again."""
    requests = [
        _request(0, KING + SAYS + "er", 24),
        _request(1, DUKE + "Now, by the world, I do not know the man that has had so much", 12),
        _request(2, KING + SAYS + "er", 24),
    ]

    def job(rule: Rule) -> Seen:
        engine = ExhibitEngine(model, rule, store=SmallStore)
        pool = engine.blocks.pool
        assert isinstance(pool, KeepsEvicted)
        pool.rule = rule
        return serve(engine, [(40 * i, each) for i, each in enumerate(requests)])

    return symptoms(model, requests, watched(job, cached_after_eviction))


# --- B: freed while another table refers to it --------------------------------------------------


class TrustingPool(BlockPool):
    """A pool that takes `free_table` at its word, whatever the counts say."""

    def drop(self, blocks: Sequence[int]) -> None:
        """Drop the blocks; those that `free_table` returned have a count of 0 from then on."""
        freed = self.policies.free_table(self.ref_counts, blocks)
        super().drop(blocks)
        for block in freed:
            if self.ref_counts[block]:
                self.ref_counts[block] = 0
                if block in self._idle:
                    self._evict(block)
                self._empty.add(block)


class TrustingStore(Store):
    """A store with a `TrustingPool`."""

    pool_type = TrustingPool


def run_one_leaves(model: GPT, free_table: Rule) -> tuple[str, bool]:
    """Two requests begin alike and one leaves; a third one needs blocks."""
    requests = [
        _request(0, KING + SAYS + "er", 4),
        _request(1, KING + SAYS + " with", 40),
        _request(2, DUKE + "Now, by the world, I do not know the man that has", 24),
    ]

    def job(rule: Rule) -> Seen:
        engine = ExhibitEngine(model, rule, policy="free_table", store=TrustingStore)
        return serve(engine, [(0, requests[0]), (2, requests[1]), (8, requests[2])])

    return symptoms(model, requests, watched(job, free_table))


# --- C: found before it is committed ------------------------------------------------------------


class FailsOnce(PackedExecutor):
    """An executor whose second pass ends in NaN, as one may on broken hardware."""

    num_passes = 0

    def execute(self, rows: Sequence[Row]) -> ModelOutput:
        """Run the pass; the second one's logits are NaN."""
        result = super().execute(rows)
        self.num_passes += 1
        if self.num_passes != 2:
            return result
        return ModelOutput(torch.full_like(result.logits, float("nan")), result.forwards)


class KeepsPublished(BlockPool):
    """A pool in which blocks that a failed step has published can still be found."""

    def restore(self) -> None:
        """Restore all but the blocks that were published."""
        published = self._hash_of.items() - (self._saved or {}).get("_hash_of", {}).items()
        depths = {block: self._worth[block][1] for block, _ in published}
        super().restore()
        self.publish((depths[block], block, block_hash) for block, block_hash in published)
        self._empty.difference_update(depths)
        self._idle |= dict.fromkeys(depths)


class PublishesEarly(Store):
    """A store in which `rule` says how many blocks can be found while the step still runs."""

    pool_type = KeepsPublished

    def slot_mapping(self, rows: Sequence[Row]) -> torch.Tensor:
        """Map the new tokens to slots, and publish the blocks that `rule` allows."""
        slot_mapping = super().slot_mapping(rows)
        for request_id, num_new in ((row.request_id, len(row.input_ids)) for row in rows):
            request = self.requests[request_id]
            num_full = self.rule(self.length(request_id), num_new, self.size)
            hashes = self.hashes(request, request.tokens_so_far)[:num_full]
            self.pool.publish(zip(count(), self.table(request_id), hashes, strict=False))
        return slot_mapping


def run_a_failed_step(model: GPT, num_findable_blocks: Rule) -> tuple[str, bool]:
    """Two prompts; the step that computes the second one fails and is run again."""
    requests = [
        _request(0, DUKE + "Now, by the world", 16),
        _request(1, KING + SAYS + "er, my lord? What", 24),
    ]

    def job(rule: Rule) -> Seen:
        engine = ExhibitEngine(model, rule, store=PublishesEarly, executor=FailsOnce)
        return serve(engine, [(0, requests[0]), (1, requests[1])])

    return symptoms(model, requests, watched(job, num_findable_blocks))

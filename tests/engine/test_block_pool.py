"""Blocks and their pool: any run of them against a model."""

from collections import Counter
from functools import partial

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tiers import examples
from torch import Tensor

from nanogpt import ModelConfig, Policies
from nanogpt.block_pool import BlockPool
from nanogpt.kv_cache import KVCache
from nanogpt.outputs import Requeue, Row, SchedulerOutput
from nanogpt.planning import Candidates
from nanogpt.policies.blocks import block_hashes
from nanogpt.policies.queueing import ResumeState
from nanogpt.policies.sliding_window import kept_positions
from nanogpt.request import Request
from nanogpt.window.window_blocks import WindowBlockKVCache


def test_a_hash_depends_on_the_salt_and_is_the_same_on_every_machine():
    assert block_hashes([1, 2], 2, "") != block_hashes([1, 2], 2, "tenant")
    assert block_hashes([1, 2, 9], 2, "")[0].startswith("131088e07b7d1034")


def test_a_pool_that_is_too_small_says_so_and_gives_nothing():
    pool = BlockPool(3, 1, Policies())
    pool.take([], 8, 4)
    with pytest.raises(ValueError, match="2 blocks are wanted; 1 of 3 are free"):
        pool.take([], 8, 4)
    assert pool.num_free == 1


# ---------------------------------------------------------------- any run of them

NUM_BLOCKS, NUM_LAYERS = 9, 2
CONFIG = ModelConfig(num_layers=NUM_LAYERS, num_heads=1, num_channels=2, max_model_len=16)
PICK = st.integers(0, 9)
TEXTS = st.lists(st.sampled_from([0, 0, 0, 1]), min_size=1, max_size=12)
SALTS = st.sampled_from([None, None, None, "tenant"])
Prefix = tuple[str | None, tuple[int, ...]]
"""A salt, and a text up to the end of a block."""


def numbers(text: list[int], positions: list[int]) -> list[float]:
    """What K is at these positions: each a number that spells the text up to there."""
    return [float(int("1" + "".join(map(str, text[: p + 1])), 2)) for p in positions]


def preempting(victim: Request) -> SchedulerOutput:
    """A step that preempts one request and computes nothing of its own."""
    state = ResumeState(victim.tokens_so_far, 0, 0, 0)
    requeue = Requeue(victim, state, (), "for a test")
    return SchedulerOutput(0, 0, 0, (), (requeue,), Candidates((), (), ()), None, [], {}, ())


class SharedBlocks(RuleBasedStateMachine):
    """Few blocks under sharing, beside a model: who holds how much, and which prefixes are found.

    The model learns of evictions from the pool's events; everything else it works out by itself.
    """

    @initialize(
        size=st.integers(1, 3), window=st.none() | st.integers(1, 5), sinks=st.integers(0, 2)
    )
    def begin(self, size: int, window: int | None, sinks: int) -> None:
        self.size, self.window, self.sinks = size, window, sinks
        new = KVCache if window is None else partial(WindowBlockKVCache, window, sinks)
        cpu = torch.device("cpu")
        where = torch.float64, cpu
        self.cache = new(CONFIG, NUM_BLOCKS, size, *where, Policies(), num_lanes=3, share=True)
        self.requests: dict[int, Request] = {}
        self.computed: dict[int, int] = {}
        self.committed: set[Prefix] = set()
        self.found: dict[int, Prefix] = {}  # by block
        self.prefix_of: dict[str, Prefix] = {}  # by hash

    def add(self, text: list[int], salt: str | None) -> int:
        """A new request with an empty table."""
        new = max(self.requests, default=-1) + 1
        self.requests[new], self.computed[new] = Request(new, text, 1, cache_salt=salt), 0
        for i, name in enumerate(block_hashes(text, self.size, salt or "")):
            self.prefix_of[name] = salt, tuple(text[: (i + 1) * self.size])
        self.cache.reserve(new)
        return new

    def blocks_at(self, computed: int) -> list[int]:
        """Which blocks of a text hold what is seen after so many tokens."""
        return sorted({p // self.size for p in kept_positions(computed, self.window, self.sinks)})

    def longest_match(self, text: list[int], salt: str | None) -> int:
        found = set(self.found.values())
        for end in range((len(text) - 1) // self.size * self.size, 0, -self.size):
            prefixes = [tuple(text[: (b + 1) * self.size]) for b in self.blocks_at(end)]
            if all((salt, prefix) in found for prefix in prefixes):
                return end
        return 0

    @precondition(lambda self: len(self.computed) < 4)
    @rule(text=TEXTS, salt=SALTS)
    def a_request_starts(self, text: list[int], salt: str | None) -> None:
        idle = self.cache.pool.idle()
        hit = self.cache.match(Request(0, text, 1, cache_salt=salt))
        assert self.cache.pool.idle() == idle, "a lookup is no use"
        assert (hit.num_tokens if hit else 0) == self.longest_match(text, salt)
        new = self.add(text, salt)
        if hit:
            self.cache.attach(new, hit)
            self.computed[new] = hit.num_tokens

    @precondition(lambda self: self.computed)
    @rule(pick=PICK, num_new=st.integers(1, 6), fails=st.booleans(), rejected=st.integers(0, 3))
    def a_step_commits_or_fails(self, pick: int, num_new: int, fails: bool, rejected: int) -> None:
        self.compute(self.pick(pick), num_new, fails, rejected)

    @precondition(lambda self: self.computed)
    @rule(pick=PICK)
    def a_request_leaves(self, pick: int) -> None:
        leaving = self.pick(pick)
        self.cache.free(leaving)
        del self.computed[leaving]

    @precondition(lambda self: len(self.computed) > 1)
    @rule(pick=PICK, num_new=st.integers(1, 6))
    def a_step_preempts(self, pick: int, num_new: int) -> None:
        victim = self.pick(pick)
        del self.computed[victim]
        with self.cache.transaction(preempting(self.requests[victim])):
            self.compute(self.pick(pick), num_new, fails=False)
        self.cache.free(victim)

    @precondition(lambda self: self.computed)
    @rule(pick=PICK)
    def a_step_that_preempts_fails_after_it_took_every_block(self, pick: int) -> None:
        tables = {i: self.cache.table(i) for i in self.computed}

        def fail() -> None:
            pool = self.cache.pool
            with self.cache.transaction(preempting(self.requests[self.pick(pick)])):
                taken = pool.take([], pool.num_free * self.size, self.size)
                self.cache.storage[:, :, :, self.entries(taken)] = 0
                pool.drop(taken)
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        assert {i: self.cache.table(i) for i in self.computed} == tables

    def pick(self, pick: int) -> int:
        return sorted(self.computed)[pick % len(self.computed)]

    def entries(self, blocks: list[int]) -> list[int]:
        return [block * self.size + i for block in blocks for i in range(self.size)]

    def compute(self, i: int, num_new: int, fails: bool, rejected: int = 0) -> None:
        """Write K/V of the request's next tokens; count those not rejected, or let it fail."""
        request, start = self.requests[i], self.computed[i]
        text = request.prompt_tokens
        end = min(start + num_new, len(text))
        if start == end or self.cache.pool.num_free < -(-(end - start) // self.size) + 2:
            return
        before = set(self.cache.pool.block_of)
        rows = [Row(i, text[start:end], [], start, False, text)]
        self.cache.allocate(rows)
        place = self.cache.slot_mapping(rows)
        k = torch.tensor(numbers(text, list(range(start, end)))).double()[:, None, None]
        k = k.expand(-1, 1, 2) * (float("nan") if fails else 1)  # (N, H, D)
        for layer in range(NUM_LAYERS):
            self.cache.write(layer, place, k + layer, -k)
        if fails:
            self.cache.discard_written(i)
            return
        if self.window is None:  # else there are no drafts
            end = max(start + 1, end - rejected)
        self.cache.commit(i, end - start)
        assert self.cache.pool.block_of.keys() <= before, "nothing is found before it is published"
        self.computed[i] = request.num_computed_tokens = end
        self.cache.register(request)
        ends = range(self.size, end + 1, self.size)
        self.committed |= {(request.cache_salt, tuple(text[:e])) for e in ends}

    @invariant()
    def cache_and_model_agree(self) -> None:
        if hasattr(self, "cache"):
            self.check_books()
            self.check_kv()

    def check_books(self) -> None:
        cache, pool = self.cache, self.cache.pool
        events, published = pool.events()
        for block in events["evicted"]:
            del self.found[block]
        for block, name in published:
            self.found[block] = self.prefix_of[name]
        assert set(self.found.values()) <= self.committed
        names = {self.prefix_of[name]: block for name, block in pool.block_of.items()}
        assert names.keys() == set(self.found.values())
        assert all(self.found[block] == prefix for prefix, block in names.items())
        named = Counter(block for i in self.computed for block in cache.table(i))
        assert pool.ref_counts == [named[block] for block in range(NUM_BLOCKS)]
        assert set(pool.idle()) == {block for block in self.found if not pool.ref_counts[block]}
        assert pool.num_free == pool.ref_counts.count(0)
        cache.check()

    def check_kv(self) -> None:
        """Every block holds the K/V of its text, seen or not: another request may see it."""
        wanted = dict[int, float]()  # by entry of the pool
        for block, (_, prefix) in self.found.items():
            positions = range(len(prefix) - self.size, len(prefix))
            wanted |= zip(
                self.entries([block]), numbers(list(prefix), list(positions)), strict=True
            )
        for i, computed in self.computed.items():
            text, indexes = self.requests[i].prompt_tokens, self.blocks_at(computed)
            kept = kept_positions(computed, self.window, self.sinks)
            assert list(self.cache.positions(i)) == kept
            k = self.cache.gather(i, 0)[0]  # (H, S, D)
            assert k[0, :, 0].tolist() == numbers(text, kept)
            for index, block in zip(indexes, self.cache.table(i), strict=True):
                positions = range(index * self.size, min((index + 1) * self.size, computed))
                entries = self.entries([block])[: len(positions)]
                wanted |= zip(entries, numbers(text, list(positions)), strict=True)
        if wanted:
            held: Tensor = self.cache.storage[:, :, 0, list(wanted)]  # (2, L, S, D)
            k = torch.tensor(list(wanted.values())).double().unsqueeze(1)  # (S, 1)
            for layer in range(NUM_LAYERS):
                assert torch.equal(held[0, layer], (k + layer).expand(-1, 2))
                assert torch.equal(held[1, layer], -k.expand(-1, 2))


TestSharedBlocks = SharedBlocks.TestCase
TestSharedBlocks.settings = settings(examples(2), stateful_step_count=40)

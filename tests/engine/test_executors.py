"""The executors: same rows, same logits, same stored K/V, and no row that sees another's."""

import random
from collections.abc import Callable

import pytest
import torch
from fakes import TINY, oracle, prompt_of, tiny_model
from torch import Tensor

from nanogpt.config import EXECUTORS as NAMES
from nanogpt.config import EngineConfig
from nanogpt.executors import find_executor
from nanogpt.executors.base import Executor, KVStore, Row, row_mask
from nanogpt.executors.packed import PackedExecutor
from nanogpt.executors.padded import PaddedExecutor, padded_mask
from nanogpt.kv_cache import KVCache
from nanogpt.model import GPT
from nanogpt.parts import Parts
from nanogpt.parts.masks import chunk_mask

Make = Callable[[GPT, KVStore, Parts], Executor]

MAKERS = {name: find_executor(EngineConfig(executor=name)) for name in NAMES}
EXECUTORS = pytest.mark.parametrize("make", list(MAKERS.values()), ids=list(MAKERS))


def new_cache() -> KVCache:
    return KVCache(TINY, 6, torch.float64, torch.device("cpu"))


def chunk(request_id: int, start: int, length: int, is_decode: bool = False) -> Row:
    tokens = prompt_of(request_id, start + length)[start:]
    known = prompt_of(request_id, start + length)
    return Row(request_id, tokens, range(start, start + length), start, is_decode, known)


def run(make: Make, steps: list[list[Row]]) -> tuple[list[Tensor], KVCache]:
    """The logits of every step, committed one after the other, and the cache at the end."""
    cache = new_cache()
    executor = make(tiny_model(), cache, Parts())
    logits: list[Tensor] = []
    for rows in steps:
        for row in rows:
            if row.num_past == 0:
                cache.reserve(row.request_id)
        logits.append(executor.run(rows).logits)
        for row in rows:
            cache.commit(row.request_id, len(row.tokens))
    return logits, cache


def logits_alone(row: Row) -> Tensor:
    """What the whole model says after the row's last token, without a cache."""
    tokens = prompt_of(row.request_id, row.context_len)
    return tiny_model()(torch.tensor([tokens]))[0][0, -1]


MIXED = [
    [chunk(0, 0, 5), chunk(1, 0, 1), chunk(2, 0, 12)],
    [chunk(3, 0, 7), chunk(0, 5, 1, True), chunk(1, 1, 4), chunk(2, 12, 1, True)],
    [chunk(2, 13, 1, True), chunk(4, 0, 2), chunk(3, 7, 3), chunk(0, 6, 1, True), chunk(1, 5, 1)],
]


@EXECUTORS
def test_every_rows_logits_are_those_of_the_request_alone(make: Make):
    logits, _ = run(make, MIXED)
    for rows, got in zip(MIXED, logits, strict=True):
        for row, mine in zip(rows, got, strict=True):
            torch.testing.assert_close(mine, logits_alone(row), rtol=1e-9, atol=1e-9)


@EXECUTORS
def test_the_order_of_the_rows_does_not_matter(make: Make):
    forwards = run(make, MIXED)[0][-1]
    backwards = run(make, [rows[::-1] for rows in MIXED])[0][-1]
    torch.testing.assert_close(backwards.flip(0), forwards, rtol=1e-9, atol=1e-9)


@EXECUTORS
def test_random_chunkings_of_random_batches_agree_with_the_model(make: Make):
    rng = random.Random(7)
    for _ in range(6):
        cursor = dict.fromkeys(range(6), 0)
        steps: list[list[Row]] = []
        for _ in range(5):
            chosen = rng.sample(sorted(cursor), rng.randint(1, 6))
            rows: list[Row] = []
            for i in chosen:
                n = rng.choice([1, 1, 2, 3, 9])
                rows.append(chunk(i, cursor[i], n, is_decode=n == 1 and cursor[i] > 0))
                cursor[i] += n
            steps.append(rows)
        logits, cache = run(make, steps)
        for rows, got in zip(steps, logits, strict=True):
            expected = torch.stack([logits_alone(row) for row in rows])
            torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
        cache.check()


@pytest.mark.parametrize("other", ["strip", "fused", "padded"])
def test_all_executors_store_the_same_keys_and_values(other: str):
    packed, padded = run(PackedExecutor, MIXED)[1], run(MAKERS[other], MIXED)[1]
    assert packed.held_tokens() == padded.held_tokens() == 39
    for request_id in packed.holders():
        for layer in range(TINY.num_layers):
            for mine, theirs in zip(
                packed.gather(request_id, layer), padded.gather(request_id, layer), strict=True
            ):
                assert mine.abs().sum() > 0
                torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)


@EXECUTORS
def test_keys_and_values_do_not_depend_on_the_chunking(make: Make):
    whole = run(make, [[chunk(3, 0, 10)]])[1]
    pieces = run(make, [[chunk(3, 0, 4)], [chunk(3, 4, 1)], [chunk(3, 5, 5)]])[1]
    torch.testing.assert_close(
        pieces.storage[:, :, 0, :, :10], whole.storage[:, :, 0, :, :10], rtol=1e-9, atol=1e-9
    )


@EXECUTORS
def test_a_row_never_reads_what_its_slot_held_before(make: Make):
    cache = new_cache()
    executor = make(tiny_model(), cache, Parts())
    for request_id, length in [(0, 30), (1, 30)]:
        cache.reserve(request_id)
        executor.run([chunk(request_id, 0, length)])
        cache.commit(request_id, length)
    cache.release(0)
    cache.reserve(2)
    assert cache.slot(2) == 0
    executor.run([chunk(2, 0, 3)])
    cache.commit(2, 3)
    # Side by side with a longer decode, so that a batched read spans the old tokens too.
    rows = [chunk(2, 3, 1, True), chunk(1, 30, 1, True)]
    logits = executor.run(rows).logits
    for row, mine in zip(rows, logits, strict=True):
        torch.testing.assert_close(mine, logits_alone(row), rtol=1e-9, atol=1e-9)


@EXECUTORS
def test_running_holds_nothing_until_it_is_committed(make: Make):
    cache = new_cache()
    cache.reserve(0)
    executor = make(tiny_model(), cache, Parts())
    first = executor.run([chunk(0, 0, 6)]).logits
    assert cache.length(0) == 0
    assert torch.equal(executor.run([chunk(0, 0, 6)]).logits, first)


@pytest.mark.parametrize("make", [PackedExecutor, PaddedExecutor], ids=["packed", "padded"])
def test_the_mask_is_the_parts_and_it_is_asked_for_each_chunk(make: Make):
    asked: list[tuple[int, int]] = []

    def sees_the_future(num_past: int, num_new: int) -> Tensor:
        asked.append((num_past, num_new))
        return torch.ones(num_new, num_past + num_new).bool()

    cache = new_cache()
    for i in (0, 1):
        cache.reserve(i)
    wrong = make(tiny_model(), cache, Parts(chunk_mask=sees_the_future)).run(
        [chunk(0, 0, 5), chunk(1, 0, 3)]
    )
    assert sorted(asked) == [(0, 3), (0, 5)]
    assert not torch.allclose(wrong.logits[0], logits_alone(chunk(0, 0, 5)))


def test_packed_computes_no_padding_and_padded_says_how_much_it_does():
    cache = new_cache()
    for i in range(3):
        cache.reserve(i)
    rows = [chunk(0, 0, 5), chunk(1, 0, 2), chunk(2, 0, 1, True)]
    counts = {
        name: [
            (f.useful_tokens, f.prefill_tokens, f.computed_tokens, f.context_tokens)
            for f in make(tiny_model(), cache, Parts()).run(rows).forwards
        ]
        for name, make in MAKERS.items()
    }
    assert counts["packed"] == counts["strip"] == [(8, 7, 8, 8)]
    assert counts["padded"] == [(7, 7, 10, 7), (1, 0, 1, 1)]
    assert counts["fused"] == [(8, 7, 15, 8)]


def test_a_single_token_sees_all_and_a_chunk_its_mask():
    assert row_mask(chunk(0, 4, 1), new_cache(), chunk_mask).tolist() == [[True] * 5]
    assert torch.equal(row_mask(chunk(0, 4, 3), new_cache(), chunk_mask), chunk_mask(4, 3))


def test_the_padded_mask_shows_real_tokens_alone_to_real_tokens():
    mask = padded_mask([chunk_mask(3, 1), chunk_mask(1, 3)]).int().tolist()
    #        past, left-padded | new, left-padded
    assert mask[0] == [
        [0, 0, 0, 1, 0, 0],  # padding: itself
        [0, 0, 0, 0, 1, 0],
        [1, 1, 1, 0, 0, 1],
    ]
    assert mask[1] == [
        [0, 0, 1, 1, 0, 0],
        [0, 0, 1, 1, 1, 0],
        [0, 0, 1, 1, 1, 1],
    ]


@EXECUTORS
def test_decoding_step_by_step_writes_the_oracles_text(make: Make):
    cache = new_cache()
    executor = make(tiny_model(), cache, Parts())
    cache.reserve(0)
    tokens, cursor = prompt_of(0, 4), 0
    while len(tokens) < 12:
        row = Row(0, tokens[cursor:], range(cursor, len(tokens)), cursor, cursor > 0, tokens)
        logits = executor.run([row]).logits
        cache.commit(0, len(row.tokens))
        cursor = len(tokens)
        tokens.append(int(logits[0].argmax()))
    assert tuple(tokens[4:]) == oracle(tuple(prompt_of(0, 4)), 8)

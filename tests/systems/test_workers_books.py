"""What the router believes of its workers: only what they have said, and exactly that."""

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import tiers
import torch
from fakes import refusal, tiny_llama
from hypothesis import given
from hypothesis import strategies as st
from preempting import prompt, tiny_model

from nanogpt import GPT, EngineConfig, ModelConfig, Policies, generate
from nanogpt.kv_cache import KVCache
from nanogpt.kv_cache_manager import KVCacheManager
from nanogpt.kv_store import KVStore
from nanogpt.policies.blocks import block_hashes
from nanogpt.request import Request
from nanogpt.scheduler import Scheduler
from nanogpt.trace import PrefixHitRecord, WorkRecord
from nanogpt.views.fleet_views import WorkerView
from nanogpt.workers.router_state import RoundRobin, Ticket, WorkerBook
from nanogpt.workers.worker_messages import Prefill, Stepped
from nanogpt.workers.worker_process import Worker, map_model, write_model

SETTINGS = EngineConfig(token_budget=8, max_batch_size=2, block_size=4, share_prefixes=True)
VIEWS = [WorkerView(i, 0, 0, 4, 100, 100) for i in (1, 4, 6)]


def hashes(tokens: Sequence[int]) -> frozenset[str]:
    return frozenset(block_hashes(tokens, 4, ""))


def stepped(*work: WorkRecord, **rest: object) -> Stepped:
    empty = {"hits": (), "preempted": (), "finished": ()}
    told = {"published": frozenset(), "evicted": frozenset()}
    return Stepped(work=work, **{**empty, **told, **rest})  # type: ignore[arg-type]


def book_with(*tickets: Ticket) -> WorkerBook:
    book = WorkerBook(0, SETTINGS, 128)
    for ticket in tickets:
        book.take(ticket)
    return book


def hit(book: WorkerBook, tokens: list[int]) -> int:
    return book.hit(Request(99, tokens, 3))


def test_the_backlog_is_what_was_promised_and_is_not_computed():
    first, second = (Ticket(Request(i, prompt(20), 3), arrival_ns=0) for i in range(2))
    book = book_with(first)
    assert book.view().backlog_tokens == 20
    book.hear(stepped(WorkRecord(0, "prefill", 0, 8, None), published=hashes(prompt(8))), 1)
    assert book.view().backlog_tokens == 12
    book.take(second)
    assert book.view().backlog_tokens == 12 + 12  # the hit that may be expected is left out
    book.hear(
        stepped(WorkRecord(1, "prefill", 4, 9, None), hits=(PrefixHitRecord(1, 4),)), 2
    )  # the blocks had less than was expected: the worker's word counts
    assert book.view().backlog_tokens == 12 + 11
    book.hear(stepped(preempted=(1,)), 3)
    assert book.view().backlog_tokens == 12 + 20


def test_a_worker_has_room_while_neither_its_batch_nor_its_kv_is_full():
    ticket = Ticket(Request(9, prompt(20), 5), arrival_ns=0)
    small, large = (Ticket(Request(i, prompt(20 * i), 3), arrival_ns=0) for i in (1, 5))
    assert book_with(small).has_room(ticket)
    assert not book_with(small, large).has_room(ticket)  # 2 of 2
    settings = EngineConfig(max_batch_size=8, max_kv_tokens=45)
    book = WorkerBook(0, settings, 128)
    book.take(Ticket(small.request, arrival_ns=0))
    assert book.view().kv_free_tokens == 45 - 22
    assert not book.has_room(ticket)  # needs 24
    assert book.has_room(Ticket(Request(9, prompt(20), 4), arrival_ns=0))
    in_blocks = replace(settings, block_size=8)
    book = WorkerBook(0, in_blocks, 128)
    book.take(Ticket(small.request, arrival_ns=0))
    assert book.view().kv_tokens == 40, "five whole blocks"
    assert book.view().kv_free_tokens == 40 - 24
    assert not book.has_room(ticket)
    assert book.has_room(Ticket(Request(9, prompt(12), 5), arrival_ns=0))
    roomy = WorkerBook(0, replace(in_blocks, max_kv_tokens=None), 125)
    assert roomy.view().kv_tokens == 8 * 128, "a context in whole blocks for each"


@given(
    size=st.none() | st.integers(1, 16),
    window=st.none() | st.integers(1, 40),
    sinks=st.integers(0, 8),
    prompt_len=st.integers(1, 60),
    new=st.integers(1, 20),
)
def test_an_idle_worker_has_room_for_whatever_its_engine_takes(
    size: int | None, window: int | None, sinks: int, prompt_len: int, new: int
):
    sinks = sinks if window else 0
    request = Request(0, prompt(prompt_len), new)
    ticket = Ticket(request, arrival_ns=0)
    for budget in range(size or 1, 100):
        config = EngineConfig(
            max_kv_tokens=budget, sliding_window=window, num_sinks=sinks, block_size=size
        )
        kv = KVCacheManager(config, Policies(), KVStore())
        scheduler = Scheduler(config, Policies(), ModelConfig(), kv)
        taken = refusal(lambda asked=scheduler.check_new: asked(request)) is None
        assert WorkerBook(0, config, 128).has_room(ticket) == taken, budget


def test_a_result_counts_what_its_last_worker_did_and_the_first_token_that_anybody_saw():
    ticket = Ticket(Request(0, prompt(4), 2), arrival_ns=1_000_000)
    lost = WorkerBook(0, SETTINGS, 128)
    lost.take(ticket)
    lost.hear(stepped(WorkRecord(0, "prefill", 0, 4, 7)), 3_000_000)
    book = WorkerBook(1, SETTINGS, 128)
    book.take(ticket)
    hit = (PrefixHitRecord(0, 1),)
    assert book.hear(stepped(WorkRecord(0, "prefill", 1, 4, 7), hits=hit), 8_000_000) == []
    (result,) = book.hear(stepped(WorkRecord(0, "decode", 4, 5, 8), finished=(0,)), 9_000_000)
    assert (result.tokens, result.worker_ids, result.worker_id) == ((7, 8), (0, 1), 1)
    assert (result.ttft_us, result.latency_us) == (2000, 8000)
    assert (result.hit_tokens, result.computed_prefill_tokens) == (1, 3)
    assert book.view().num_running == 0


@pytest.mark.parametrize(
    ("kv_tokens", "size", "window"),
    tiers.some(itertools.product((48, 96, 1000), (1, 4, 8), (None, 9)), 6),
)
def test_the_router_knows_exactly_what_a_worker_can_find_evictions_included(
    kv_tokens: int, size: int, window: int | None
):
    settings = EngineConfig(
        token_budget=16, max_batch_size=4, max_kv_tokens=kv_tokens, block_size=size,
        share_prefixes=True, sliding_window=window, num_sinks=2 if window else 0,
    )  # fmt: skip
    worker, book = Worker(tiny_model(), settings), WorkerBook(0, settings, 128)
    cache = worker.engine.cache
    assert isinstance(cache, KVCache)
    draw, num_evicted, num_hits = random.Random(kv_tokens), 0, 0
    stems = [[draw.randrange(4) for _ in range(30)] for _ in range(3)]
    prompts = [draw.choice(stems)[: draw.randint(1, 30)] + prompt(3, start=i) for i in range(25)]
    salts = [draw.choice((None, None, "a")) for _ in prompts]
    orders = [Request(i, p, 3, cache_salt=salts[i]) for i, p in enumerate(prompts)]
    for i, order in enumerate(orders):
        book.take(Ticket(order, arrival_ns=0))
        worker.engine.submit(replace(order))
        while len(book.tickets) == 4 or (i == 24 and book.tickets):
            told = worker.step()
            num_evicted += len(told.evicted)
            for result in book.hear(told, 0):
                seen = {"sliding_window": window, "num_sinks": settings.num_sinks}
                text = generate(tiny_model(), prompts[result.id], 3, **seen)
                assert list(result.tokens) == text
                num_hits += result.hit_tokens
            for asked in orders:
                found = cache.match(replace(asked))
                assert book.hit(asked) == (found.num_tokens if found else 0)
            assert book._published.keys() == cache.pool.block_of.keys()
    assert worker.is_idle and worker.block_hashes() == cache.pool.block_of.keys()
    assert num_hits and (num_evicted > 0) == (kv_tokens < 1000)


def test_a_request_whose_prompt_a_worker_has_computed_may_come_back_whole(tmp_path: Path):
    """As the last one before it, where the decode worker is lost."""
    worker, request = Worker(tiny_model(), SETTINGS), Request(0, prompt(9), 3)
    computed = replace(request, prompt_tokens=prompt(8), max_new_tokens=1)
    for order in (Prefill(computed, (0, 1), str(tmp_path / "frame")), request):
        assert worker.carry_out(order) == []
        while not worker.is_idle:
            worker.step()
    assert request.generated_tokens == generate(tiny_model(), prompt(9), 3)


@pytest.mark.parametrize("make_model", [tiny_model, tiny_llama])
def test_a_mapped_model_is_the_model_and_copies_no_weights(
    make_model: Callable[[], GPT], tmp_path: Path
):
    weights, model = tmp_path / "weights", make_model()
    write_model(model, weights)
    mapped = map_model(weights)
    tokens = torch.tensor([prompt(30)])
    assert torch.equal(mapped(tokens)[0], model(tokens)[0])
    assert mapped.config == model.config
    maps = Path("/proc/self/maps")
    if maps.is_file():
        ranges = [line.split()[0] for line in maps.read_text().splitlines() if str(weights) in line]
        spans = [tuple(int(end, 16) for end in span.split("-")) for span in ranges]
        for weight in mapped.parameters():
            assert any(start <= weight.data_ptr() < end for start, end in spans)


def test_round_robin_goes_round_those_that_have_room():
    route = RoundRobin()
    assert [route(VIEWS, {4: 50}) for _ in range(4)] == [1, 4, 6, 1]
    assert [route(VIEWS[::2], {}), route(VIEWS[::2], {}), route(VIEWS, {})] == [6, 1, 4]

"""A dispatch that asks few workers chooses what a look at all of them chooses."""

import random
from dataclasses import replace
from typing import Any

import pytest
from fleets import load, plain, request, run, small_load
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.fleet import (
    ADAPTIVE,
    CALIBRATED_COST,
    SOURCE_COST,
    FleetConfig,
    FleetParts,
    Simulation,
    WorkerView,
    decisions,
)
from nanogpt.fleet.metrics import Meter
from nanogpt.fleet.open_workers import OpenWorkers
from nanogpt.fleet.prefix_index import PrefixIndex
from nanogpt.fleet.prefixes import RadixCache
from nanogpt.fleet.radix import RadixTree
from nanogpt.fleet.request_state import RequestState
from nanogpt.fleet.tracing import Tracer
from nanogpt.fleet.worker import Worker

FLEETS = st.fixed_dictionaries(
    {
        "num_workers": st.integers(1, 6),
        "batch_size": st.integers(1, 4),
        "kv_tokens": st.sampled_from([150, 250, 400, 700]),
        "cost": st.sampled_from([SOURCE_COST, CALIBRATED_COST]),
        "order": st.sampled_from(["priority", "fifo"]),
        "urgency": st.sampled_from(["off", "source", "savable"]),
        "ageing_us": st.sampled_from([None, 20_000, 250_000]),
        "preemption_gap": st.sampled_from([None, 1, 3]),
        "kv_swap": st.booleans(),
        "prefix_cache": st.sampled_from(["none", "radix", "radix", "radix"]),
        "speculation": st.booleans(),
        "batching": st.sampled_from(["continuous", "continuous", "static"]),
        "dispatch_us": st.sampled_from([0, 1000]),
    }
)


def fresh_view(worker: Worker) -> WorkerView:
    config = worker.config
    return WorkerView(
        worker.id, worker.backlog_tokens, worker.num_running, config.batch_size,
        config.kv_tokens - worker.reserved_tokens, config.kv_tokens,
    )  # fmt: skip


def plain_scan(
    workers: Any, state: RequestState, kept_free: Worker | None
) -> tuple[list[Worker], dict[int, int]]:
    """Those with room and what they know of the prompt, every worker and its own cache asked."""
    roomy = [
        each
        for each in workers
        if each.is_open and each is not kept_free and each.kv_free_tokens >= state.kv_needed
    ]
    hits = {each.id: each.hit(state) for each in roomy}
    return roomy, {worker_id: hit for worker_id, hit in hits.items() if hit}


@examples(150)
@given(changes=FLEETS, seed=st.integers(0, 10**6))
def test_the_choice_out_of_the_index_is_that_of_a_scan_over_all_workers(changes: Any, seed: int):
    best, choices = OpenWorkers.best, list[int]()

    def compared(self: OpenWorkers, state: RequestState, kept_free: Worker | None) -> Worker | None:
        chosen = best(self, state, kept_free)
        roomy, hits = plain_scan(self.all, state, kept_free)
        views = [fresh_view(each) for each in roomy]
        expected = decisions.route(views, hits) if roomy else None
        assert (None if chosen is None else chosen.id) == expected
        assert self.any_besides(kept_free) == any(
            each.is_open and each is not kept_free for each in self.all
        )
        choices.append(len(roomy))
        return chosen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenWorkers, "best", compared)
        given_load = small_load(random.Random(seed), most=40, gap_us=2000)
        run(ADAPTIVE, given_load, **changes)
    fits = [r for r in given_load.requests if r.kv_tokens_needed <= changes["kv_tokens"]]
    assert len(choices) >= len(fits)


@examples(60)
@given(changes=FLEETS, seed=st.integers(0, 10**6), slots=st.booleans())
def test_a_route_of_ones_own_sees_every_worker_with_room_as_it_is(
    changes: Any, seed: int, slots: bool
):
    if slots:
        changes = {**changes, "prefix_cache": "slots"}
    asked, seen = list[Any](), list[Any]()
    find_hits = OpenWorkers.hits

    def watched(self: OpenWorkers, state: RequestState, among: Any) -> dict[int, int]:
        # What is kept free shows in what is asked about; that it is nothing else does here.
        left_out = [each for each in self.all if each not in among]
        roomy, _ = plain_scan(left_out, state, None)
        assert len(roomy) <= 1
        roomy, hits = plain_scan(self.all, state, roomy[0] if roomy else None)
        seen.append(([fresh_view(each) for each in roomy], hits))
        return find_hits(self, state, among)

    def route(workers: Any, hits: Any) -> int:
        asked.append((list(workers), dict(hits)))
        assert list(hits) == sorted(hits), "in the order of the workers"
        return max(workers, key=lambda each: (hits.get(each.id, 0) - each.num_running, each.id)).id

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenWorkers, "hits", watched)
        given_load = small_load(random.Random(seed), most=25)
        run(ADAPTIVE, given_load, FleetParts(route=route), **changes)
    fits = [r for r in given_load.requests if r.kv_tokens_needed <= changes["kv_tokens"]]
    assert asked == seen and bool(asked) == bool(fits)


WORKERS = st.lists(
    st.tuples(
        st.integers(0, 3),  # backlog
        st.integers(0, 3),  # running, of at most 3
        st.integers(0, 20),  # KV tokens set aside, of 30
        st.booleans(),  # claimed
        st.lists(st.integers(0, 1), max_size=5),  # what it knows
    ),
    min_size=1,
    max_size=7,
)


@examples(600)
@given(
    given_workers=WORKERS,
    prompt=st.lists(st.integers(0, 1), min_size=1, max_size=5).map(tuple),
    kept=st.none() | st.integers(0, 6),
    generated=st.integers(0, 2),
)
def test_the_choice_among_any_workers_is_that_of_the_scan(
    given_workers: Any, prompt: Any, kept: int | None, generated: int
):
    config = plain(num_workers=7, batch_size=3, kv_tokens=30, prefix_cache="radix")
    workers = [Worker(number, config, 0, Meter(), Tracer(enabled=False)) for number in range(7)]
    there = OpenWorkers(workers, PrefixIndex())
    there.renew()
    asks = RequestState(request(0, tokens=prompt, new=9))
    asks.generated = generated
    for worker, (backlog, running, aside, claimed, tokens) in zip(
        workers, given_workers, strict=False
    ):
        worker.backlog_tokens, worker.num_running, worker.reserved_tokens = backlog, running, aside
        worker.cache.publish(tuple(tokens), 30)
        worker.claim(asks if claimed else None, [])
    there.renew()
    kept_free = None if kept is None else workers[kept]
    roomy, hits = plain_scan(workers, asks, kept_free)
    views = [fresh_view(each) for each in roomy]
    chosen = there.best(asks, kept_free)
    assert (chosen and chosen.id) == (decisions.route(views, hits) if roomy else None)
    assert there.with_room(asks.kv_needed, kept_free) == roomy
    assert there.hits(asks, roomy) == hits
    assert [each.view() for each in roomy] == views


def test_a_view_is_made_anew_only_where_something_changed():
    seen = list[list[WorkerView]]()

    def route(workers: Any, hits: Any) -> int:
        seen.append(list(workers))
        return workers[0].id

    config = FleetConfig(num_workers=3, speculation=False, dispatch_us=0)
    run(config, load(*(request(number) for number in range(3))), FleetParts(route=route))
    first, second = seen[0], seen[1]
    assert second[0] != first[0] and second[1] is first[1] and second[2] is first[2]


SEQUENCES = st.lists(st.integers(0, 2), min_size=1, max_size=9).map(tuple)
OPERATIONS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.one_of(
            st.tuples(st.just("publish"), st.integers(0, 4), st.sampled_from([4, 9, 14])),
            st.tuples(st.just("touch"), st.integers(0, 4), st.just(0)),
            st.tuples(st.just("fit"), st.just(0), st.integers(0, 14)),
        ),
    ),
    max_size=40,
)


@examples(300)
@given(operations=OPERATIONS, prompts=st.lists(SEQUENCES, min_size=5, max_size=5))
def test_the_index_knows_what_the_caches_know_and_they_what_a_plain_tree_does(
    operations: Any, prompts: Any
):
    index, caches, trees = PrefixIndex(), list[RadixCache](), list[RadixTree[None]]()
    for worker in range(3):
        caches.append(RadixCache(12))
        caches[-1].is_indexed_by(index, worker)
        trees.append(RadixTree(12, lambda *_: None))
    for worker, (what, number, room) in operations:
        prompt = prompts[number]
        cache, tree = caches[worker], trees[worker]
        if what == "publish":
            cache.publish(prompt, room)
            tree.insert(prompt, None)
        if what == "touch":
            assert cache.match(prompt, touch=True) == tree.match(prompt, touch=True)[0]
            assert cache.match(prompt, touch=True) == tree.match(prompt, touch=False)[0]
        else:
            cache.fit(room)
            if tree.num_tokens > room:
                tree.shrink(room)
        for each in prompts:
            lengths = [tree.match(each, touch=False)[0] for tree in trees]
            assert [cache.match(each, touch=False) for cache in caches] == lengths
            assert known(index, each) == {w: n for w, n in enumerate(lengths) if n}
    for cache in caches:
        cache.fit(0)
    assert not any(known(index, each) for each in prompts)
    assert not index._roots, "what is held by none takes no room"  # pyright: ignore


def known(index: PrefixIndex, prompt: tuple[int, ...]) -> dict[int, int]:
    """The longest hit of every worker, and that hits come longest first."""
    found, longest = dict[int, int](), len(prompt)
    for start, end, holders in index.hits(prompt):
        assert start < end <= longest
        longest = start
        for worker, held in holders.items():
            found.setdefault(worker, min(start + held, end))
    return found


def test_a_dispatch_of_a_thousand_workers_looks_at_few(monkeypatch: pytest.MonkeyPatch):
    """Counted where every worker that is considered is looked at."""
    looked, has_room = list[int](), OpenWorkers._has_room  # pyright: ignore

    def counted(self: Any, worker_id: int, *given: Any) -> bool:
        looked.append(worker_id)
        return has_room(self, worker_id, *given)

    monkeypatch.setattr(OpenWorkers, "_has_room", counted)
    draw = random.Random(1)
    simulation = Simulation(replace(ADAPTIVE, num_workers=1000), small_load(draw, most=80))
    simulation.advance()
    served = sum(outcome.finished_us is not None for outcome in simulation.result().outcomes)
    assert served > 20 and len(looked) <= 12 * served

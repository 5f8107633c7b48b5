"""What a fleet is given: loads, costs, settings, drafts, and its prefix caches."""

import dataclasses
import json
import re
import statistics
from dataclasses import replace
from typing import Any

import pytest
from fleets import EXTREMES, load, request
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.contest import Entry, play, workload
from nanogpt.experiments.fleet_comparison import summarise
from nanogpt.fleet.costs import CALIBRATED_COST, SOURCE_COST, decode_us, prefill_us
from nanogpt.fleet.fleet_config import ADAPTIVE, AS_SOURCE
from nanogpt.fleet.fleet_policies import FleetPolicies
from nanogpt.fleet.fleet_record import FleetRun
from nanogpt.fleet.prefix_caches import RadixTree, make_cache
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.speculating import Drafts, break_even
from nanogpt.fleet.workload import make_workload
from nanogpt.validate import PolicyError

# --- the load -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many() -> Any:
    """About six thousand requests of the steady load."""
    return make_workload("steady", 300, 20, 1).requests


def test_the_same_seed_gives_the_same_load_and_each_kind_of_draw_has_its_own_stream():
    """Another rate leaves every other draw of the n-th request as it was."""
    assert make_workload("burst", 30, 9, 7) == make_workload("burst", 30.0, 9.0, 7)
    assert make_workload("burst", 30, 9, 7) != make_workload("burst", 30, 9, 8)
    slow, fast = make_workload("steady", 30, 20, 3).requests, make_workload("steady", 60, 10, 3)
    for a, b in zip(slow, fast.requests, strict=False):
        assert (a.prompt, a.max_new_tokens, a.priority) == (b.prompt, b.max_new_tokens, b.priority)
        assert abs(a.arrival_us - 2 * b.arrival_us) <= 1


def test_the_load_is_the_sources(many: Any):
    lengths = [len(each.prompt) for each in many]
    assert len(many) == pytest.approx(6000, rel=0.03)
    assert (min(lengths), max(lengths)) == (10, 1500)
    assert statistics.median(lengths) == pytest.approx(244, rel=0.05)
    outputs = [each.max_new_tokens for each in many]
    assert (min(outputs), max(outputs)) == (20, 256)
    slo = {each.priority: each.deadline_us - each.arrival_us for each in many}
    assert sorted(slo.items()) == [
        (priority, 500_000 if priority < 3 else 2_000_000 if priority < 6 else 5_000_000)
        for priority in range(10)
    ]
    urgent = sum(each.priority < 3 for each in many) / len(many)
    assert urgent == pytest.approx((1 + 2 + 5) / 80, abs=0.01)
    assert statistics.fmean(each.acceptance for each in many) == pytest.approx(0.85, abs=0.01)


@pytest.mark.parametrize(
    ("scenario", "phases"),
    [
        ("burst", ((5, 6.0), (200, 11.0), (5, 18.0))),
        ("mixed_priority", ((30, 4.5), (80, 13.5), (30, 18.0))),
    ],
)
def test_the_scenarios_are_the_sources_at_its_rate(scenario: Any, phases: Any):
    """By its n-th arrival, every scenario has expected the same number of them."""
    steady = make_workload("steady", 30, 60, 5).requests
    for a, b in zip(steady, make_workload(scenario, 30, 18, 5).requests, strict=False):
        expected, start_s = 0.0, 0.0
        for rate, end_s in phases:
            expected += rate * max(0.0, min(b.arrival_us / 1e6, end_s) - start_s)
            start_s = end_s
        assert expected == pytest.approx(30 * a.arrival_us / 1e6, abs=0.001)


# --- costs and settings ---------------------------------------------------------------------------


def test_passes_cost_what_the_formulas_say():
    assert prefill_us(SOURCE_COST, 400, 1, 0) == 20_200
    assert prefill_us(SOURCE_COST, 400, 32, 0) == 825
    assert [decode_us(SOURCE_COST, batch, 0) for batch in (1, 8, 32)] == [150, 850, 3250]
    # Calibrated ones are bound by memory and then by computing.
    assert decode_us(CALIBRATED_COST, 1, 0) == 2000
    assert prefill_us(CALIBRATED_COST, 107, 1, 0) == 2000
    assert prefill_us(CALIBRATED_COST, 1000, 1, 0) == prefill_us(CALIBRATED_COST, 1000, 9, 0)
    assert prefill_us(CALIBRATED_COST, 1000, 1, 0) == 13_600
    assert decode_us(CALIBRATED_COST, 1, 10_000) == 2180
    # 4 + 1 new tokens per request: computing, no longer memory, bounds the verifying pass
    assert decode_us(CALIBRATED_COST, 27, 0, 27) == 600 + 13 * 135 + 4 * 200
    assert decode_us(CALIBRATED_COST, 3, 0, 2) == 2000 + 4 * 200
    assert decode_us(SOURCE_COST, 3, 0, 2) == 350 + 4 * 25


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_workload("steady", 0, 5, 1), "the rate is 0; it must be above 0 and at most"),
        (lambda: make_workload("steady", 3, float("nan"), 1), "the duration is nan"),
        (lambda: make_workload("calm", 3, 5, 1), "no scenario 'calm'; choose from steady, burst"),
        (lambda: load(request(0, prompt=0)), "request 0 has 0 prompt tokens"),
        (lambda: load(request(0, new=0)), "max_new_tokens 0; both must be at least 1"),
        (lambda: load(request(0, -1)), "request 0 arrives at -1 us"),
        (lambda: load(request(0, acceptance=1.1)), "acceptance 1.1"),
        (lambda: load(request(1), request(0)), "request 0 .* follows request 1"),
        (lambda: load(request(0, 5), request(1, 4)), "in order of arrival, with ids that rise"),
        (lambda: replace(ADAPTIVE, num_workers=0), "num_workers is 0; it must be at least 1"),
        (lambda: replace(ADAPTIVE, batch_size=2.0), "batch_size is 2.0; it must be a whole number"),
        (lambda: replace(ADAPTIVE, preemption_gap=0), "preemption_gap is 0; it must be at least 1"),
        (lambda: replace(ADAPTIVE, dispatch_us=-1), "dispatch_us is -1; it must be at least 0"),
        (lambda: replace(ADAPTIVE, order="lifo"), "no order 'lifo'; choose from priority, fifo"),
    ],
)
def test_a_load_or_a_fleet_that_cannot_be_is_refused(make: Any, message: str):
    with pytest.raises(ValueError, match=message):
        make()


# --- prefix caches and drafts ---------------------------------------------------------------------


def test_the_slot_used_longest_ago_is_forgotten_first():
    length, prompts = 64, [(number,) * 80 for number in range(3)]
    cache = make_cache("slots", 1000)
    for prompt in prompts:
        cache.insert(prompt)
    assert cache.match(prompts[0], touch=True) == length
    assert cache.match(prompts[1], touch=False) == length  # to look is not to use
    cache.shrink(2 * length)
    assert cache.num_tokens == 2 * length
    assert [cache.match(prompt, touch=False) for prompt in prompts] == [length, 0, length]
    cache.shrink(2 * length)
    assert cache.num_tokens == 2 * length
    cache.insert(prompts[1])
    cache.shrink(length)
    assert cache.num_tokens <= length and cache.match(prompts[2], touch=False) == 0


def test_passes_bring_what_the_theory_expects():
    tokens = passes = 0
    for number in range(400):
        drafts = Drafts(request(number, new=256, acceptance=0.85), 5, None)
        some = drafts.passes(1)
        passes += some - 2  # the last ones are cut off by the request's end
        tokens += drafts.advance(some - 2) - 1
    assert tokens / passes == pytest.approx(3.709, abs=0.03)
    for acceptance, each in ((0.0, 1), (1.0, 5)):
        drafts = Drafts(request(0, new=100, acceptance=acceptance), 0, None)
        assert drafts.passes(1) >= 19
        assert drafts.advance(10) == 1 + 10 * each


def test_a_request_stops_drafting_when_its_own_drafts_do_not_pay():
    bad, good = request(0, new=200, acceptance=0.1), request(1, new=200, acceptance=0.9)
    least = break_even(4, 0.1)
    assert (least, break_even(1, 0.3)) == (pytest.approx(0.29, abs=5e-3), pytest.approx(0.3))
    assert Drafts(bad, 0, None).passes(1) > 100
    backing_off = Drafts(bad, 0, least)
    stopped = backing_off.advance(backing_off.passes(1))
    assert 8 <= stopped < 60 and backing_off.passes(stopped) == 0
    assert backing_off.passes(stopped + 7) == 0  # for good
    assert Drafts(good, 0, least).passes(1) == Drafts(good, 0, None).passes(1)


# --- numbers at the edge --------------------------------------------------------------------------

FEW = make_workload("steady", 60, 0.5, 1)
LOAD = {"requests_per_s": 9, "duration_s": 1, "seed": 1}
COST = CALIBRATED_COST


@pytest.mark.parametrize("number", EXTREMES, ids=range(len(EXTREMES)))
@pytest.mark.parametrize(
    ("names", "run"),
    [
        ("id arrival_us max_new_tokens priority deadline_us acceptance",
         lambda name, n: simulate(ADAPTIVE, load(replace(request(0), **{name: n})))),
        ("num_workers batch_size kv_tokens ageing_us preemption_gap dispatch_us",
         lambda name, n: simulate(replace(AS_SOURCE, **{name: n}), FEW)),
        ("prefill decode", lambda name, n: simulate(
            replace(ADAPTIVE, cost=replace(COST, **{name: lambda *_: n})), FEW)),
        ("swap_us_per_token", lambda name, n: prefill_us(replace(COST, **{name: n}), 9, 1, 9, 9)),
        (" ".join(LOAD), lambda name, n: make_workload("steady", **{**LOAD, name: n})),
        ("route decide", lambda name, n: simulate(ADAPTIVE, FEW, FleetPolicies(
            **{name: lambda *_: (n, n) if name == "decide" else n}))),
        ("key", lambda _, n: play(workload("chat", 1), Entry("", priority_key=lambda *_: (n,)))),
        ("seed", lambda _, n: workload("chat", n)),
    ],
)  # fmt: skip
def test_with_any_number_a_run_ends_as_json_or_says_one_sentence(names: str, run: Any, number: Any):
    for name in names.split():
        said = "must be"
        try:
            if isinstance(made := run(name, number), FleetRun):
                json.dumps(dataclasses.asdict(summarise(made)), allow_nan=False)
        except (ValueError, PolicyError) as error:
            said = str(error)
        assert re.search("must be|may cost|not waiting", said) and len(said) < 400


# --- the radix tree, against every prefix with its own recency ------------------------------------


Tokens = tuple[int, ...]


def check(tree: RadixTree) -> None:
    """Assert that the count agrees with the tree, and that no edge is older than one below it."""
    edges, todo = [], [tree._root]
    while todo:
        edge = todo.pop()
        for first, below in edge.below.items():
            assert below.above is edge and below.tokens[0] == first
            assert below.used_at <= edge.used_at or edge is tree._root
        edges += edge.below.values()
        todo += edge.below.values()
    assert sum(len(edge.tokens) for edge in edges) == tree.num_tokens <= tree.capacity_tokens


class EveryPrefix:
    """The oracle: each stored prefix, and the operation that last passed over it."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used_at: dict[Tokens, int] = {}
        self.now = 0

    def match(self, tokens: Tokens) -> int:
        return max(n for n in range(len(tokens) + 1) if n == 0 or tokens[:n] in self.used_at)

    def touch(self, tokens: Tokens) -> None:
        self.now += 1
        for n in range(1, self.match(tokens) + 1):
            self.used_at[tokens[:n]] = self.now

    def insert(self, tokens: Tokens) -> None:
        self.touch(tokens)
        start = self.match(tokens)
        for n in range(start + 1, len(tokens) + 1):
            if len(self.used_at) == self.capacity and not self.evict():
                return
            self.used_at[tokens[:n]] = self.now

    def evict(self) -> bool:
        parents = {prefix[:-1] for prefix in self.used_at}
        leaves = [prefix for prefix in self.used_at if prefix not in parents]
        old = [leaf for leaf in leaves if self.used_at[leaf] < self.now]
        if old:
            del self.used_at[min(old, key=lambda leaf: self.used_at[leaf])]
        return bool(old)

    def shrink(self, num_tokens: int) -> None:
        self.now += 1
        while len(self.used_at) > num_tokens:
            self.evict()


SEQUENCES = st.lists(st.integers(0, 2), max_size=9).map(tuple)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["insert", "match", "peek"]), SEQUENCES),
        st.tuples(st.just("shrink"), st.integers(0, 12)),
    ),
    max_size=25,
)


@given(capacity=st.integers(0, 30), operations=OPERATIONS)
def test_it_stores_and_forgets_exactly_what_a_dict_of_all_prefixes_does(capacity, operations):
    tree, oracle = RadixTree(capacity), EveryPrefix(capacity)
    for name, argument in operations:
        if name == "insert":
            tree.insert(argument)
            oracle.insert(argument)
        elif name == "shrink":
            tree.shrink(argument)
            oracle.shrink(argument)
        else:
            assert tree.match(argument, touch=name == "match") == oracle.match(argument)
            if name == "match":
                oracle.touch(argument)
        check(tree)
        assert tree.num_tokens == len(oracle.used_at)
        for prefix in oracle.used_at:
            assert tree.match(prefix, touch=False) == len(prefix)

"""The engine under a window: texts of the windowed oracle, and what is counted is what is held."""

import dataclasses
import gc
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from fakes import Ask, any_legal_plan, oracle, prompt_of, tiny_model
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from lockstep import (
    BYTES_PER_TOKEN,
    arrivals_of,
    assert_holds_the_right_kv,
    steps_of,
    text_of,
)
from torch import Tensor

from nanogpt import Engine, EngineConfig, Parts, Request, interleaved_generate, scheduled_generate
from nanogpt.config import EXECUTORS
from nanogpt.experiments.whole_prompts import plan_whole_prompts
from nanogpt.parts.sliding_window import evict, held, ring_slot, visible
from nanogpt.scheduler import Scheduler
from nanogpt.trace import StepRecord, Trace
from nanogpt.validate import PartError

STORAGES = ["ring", "evict"]
WAYS = [*EXECUTORS, "batch-invariant"]
ALL = pytest.mark.parametrize("executor", list(EXECUTORS))
BOTH = pytest.mark.parametrize("kv_storage", STORAGES)
SOME = examples(12)

ASKS = st.lists(
    st.tuples(st.integers(0, 6), st.integers(1, 18), st.integers(1, 8), st.integers(0, 2)),
    min_size=1,
    max_size=5,
)


@st.composite
def mixes(draw: st.DrawFn) -> tuple[list[Ask], EngineConfig]:
    """A workload under a window, with KV budgets from the least that can be served."""
    asks = draw(ASKS)
    window, sinks = draw(st.integers(1, 9)), draw(st.integers(0, 3))
    longest = max(length + max_new - 1 for _, length, max_new, _ in asks)
    needed = min(longest, window + sinks)
    config = EngineConfig(
        token_budget=draw(st.integers(1, 30)),
        max_kv_tokens=draw(st.none() | st.integers(needed, needed + 20)),
        max_batch_size=draw(st.integers(1, 5)),
        max_prefilling=draw(st.none() | st.integers(1, 2)),
        policy=draw(st.sampled_from(["fcfs", "priority"])),
        preempt_to_admit=draw(st.booleans()),
        sliding_window=window,
        num_sinks=sinks,
        temperature=draw(st.sampled_from([0.0, 2.0])),
        seed=5,
    )
    return asks, config


def by(way: str, config: EngineConfig) -> EngineConfig:
    """The same settings for one of the five ways to run a step."""
    if way == "batch-invariant":
        return dataclasses.replace(config, batch_invariant=True)
    return dataclasses.replace(config, executor=way)


class Books:
    """What every request holds, reckoned from the trace's work alone, and held against the rest."""

    def __init__(self, config: EngineConfig) -> None:
        assert config.sliding_window is not None
        self.config = config
        self.limit = config.sliding_window + config.num_sinks
        self.computed: dict[int, int] = {}

    def holds(self, request_id: int) -> int:
        return min(self.computed[request_id], self.limit)

    def total(self) -> int:
        return sum(map(self.holds, self.computed))

    def enter(self, step: StepRecord) -> None:
        """Assert that the step's own books say the same."""
        assert step.kv_before == self.total()
        for victim in step.preempted:
            del self.computed[victim]
        self.computed.update(dict.fromkeys(step.admitted, 0))
        assert step.kv_peak == self.total() + step.used_tokens
        for work in step.work:
            assert work.start == self.computed[work.request_id]
            peak = self.holds(work.request_id) + work.end - work.start
            assert peak <= self.limit + (work.end - work.start)
            self.computed[work.request_id] = work.end
        most = self.config.max_kv_tokens
        assert most is None or self.total() <= most
        for request_id in step.finished:
            del self.computed[request_id]
        assert step.kv_after == self.total()
        assert {kv.request_id for kv in step.kv} == set(self.computed)
        for kv in step.kv:
            assert kv.kv_tokens == kv.counted_tokens == self.holds(kv.request_id)
            assert kv.live_bytes == kv.kv_tokens * BYTES_PER_TOKEN


def watched(asks: Sequence[Ask], config: EngineConfig, parts: Parts = Parts()) -> Trace:
    """Serve, holding books, bytes, texts and K/V to what is right after every single step."""
    engine = Engine(tiny_model(), config, parts)
    rule = config.temperature, config.sliding_window, config.num_sinks
    texts = [text_of(i, length, max_new, *rule) for i, (_, length, max_new, _) in enumerate(asks)]
    books, arrivals = Books(config), arrivals_of(asks)
    for step in steps_of(engine, arrivals):
        books.enter(step)
        engine.cache.check()
        assert_holds_the_right_kv(engine, texts)
    for _, request in arrivals:
        assert request.tokens_so_far == list(texts[request.id]), request.id
    assert not books.computed
    return engine.trace()


def decisions(step: StepRecord) -> object:
    """What a step did, but for what it cost."""
    return step.work, step.admitted, step.preempted, step.finished, step.kv, step.kv_peak


# ---------------------------------------------------------------- generated workloads


@SOME
@given(mixes(), st.none() | st.integers(0, 10**6))
def test_every_way_to_run_a_step_writes_the_windowed_oracles_tokens_and_counts_what_it_holds(
    mix: tuple[list[Ask], EngineConfig], seed: int | None
):
    asks, config = mix
    traces: list[Trace] = []
    for turn, way in enumerate(WAYS):
        parts = Parts() if seed is None else Parts(plan_step=any_legal_plan(seed))
        stored = dataclasses.replace(config, kv_storage=STORAGES[turn % 2])
        traces.append(watched(asks, by(way, stored), parts))
    for trace in traces[1:]:
        assert list(map(decisions, trace.steps)) == list(map(decisions, traces[0].steps))


ROUND = [(0, 14, 8, 1), (0, 23, 6, 0), (2, 3, 12, 2), (3, 31, 2, 0), (5, 1, 9, 1)]


@pytest.mark.parametrize("way", WAYS)
def test_the_text_does_not_depend_on_the_chunk_size(way: str):
    rule = {"sliding_window": 6, "num_sinks": 2, "seed": 5}
    traces = [
        watched(ROUND, by(way, EngineConfig(budget, kv_storage=kv_storage, **rule)))
        for budget, kv_storage in [(2, "ring"), (5, "evict"), (8, "ring"), (100, "evict")]
    ]
    for i in range(len(ROUND)):
        assert len({trace.generated_tokens(i) for trace in traces}) == 1


@ALL
@BOTH
def test_neither_does_it_depend_on_preemption_and_resume(executor: str, kv_storage: str):
    config = EngineConfig(
        12, 20, policy="priority", preempt_to_admit=True, sliding_window=7, num_sinks=1,
        executor=executor, kv_storage=kv_storage, seed=5,
    )  # fmt: skip
    trace = watched(ROUND, config)
    assert len([victim for step in trace.steps for victim in step.preempted]) >= 2


@ALL
def test_a_whole_prompt_at_once_is_seen_through_the_window_too(executor: str):
    """The post cuts after the forward: within one long chunk its tokens would see too far."""
    config = EngineConfig(100, executor=executor, sliding_window=4, num_sinks=1, seed=5)
    watched(ROUND, config, Parts(plan_step=plan_whole_prompts))


def test_a_window_does_change_what_is_written():
    for i, (_, length, new, _) in enumerate(ROUND[:3]):
        assert text_of(i, length, new, 0.0, 4, 0) != text_of(i, length, new)


# ---------------------------------------------------------------- a window that never bites


@ALL
@BOTH
@pytest.mark.parametrize("window", [32, 500])
def test_a_window_larger_than_any_sequence_is_no_window(
    executor: str, kv_storage: str, window: int
):
    """32 tokens are the most that a request computes: same steps, same tokens, same K/V."""
    limits = EngineConfig(9, 60, policy="priority", executor=executor, seed=5)
    wide = dataclasses.replace(limits, sliding_window=window, kv_storage=kv_storage)
    free, windowed = Engine(tiny_model(), limits), Engine(tiny_model(), wide)
    pairs = zip(
        steps_of(free, arrivals_of(ROUND)), steps_of(windowed, arrivals_of(ROUND)), strict=True
    )
    for mine, theirs in pairs:
        assert dataclasses.replace(mine, kv=()) == dataclasses.replace(theirs, kv=())
        assert [(kv.request_id, kv.kv_tokens, kv.counted_tokens) for kv in mine.kv] == [
            (kv.request_id, kv.kv_tokens, kv.counted_tokens) for kv in theirs.kv
        ]
        for request_id in free.cache.holders():
            for layer in range(2):
                for a, b in zip(
                    free.cache.gather(request_id, layer),
                    windowed.cache.gather(request_id, layer),
                    strict=True,
                ):
                    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize(("budget", "peaks"), [(8, [8, 16, 24, 28, 28]), (40, [40])])
@BOTH
def test_a_prompt_of_40_is_never_held_as_40_and_counted_as_20(
    budget: int, peaks: list[int], kv_storage: str
):
    engine = Engine(
        tiny_model(), EngineConfig(budget, sliding_window=20, kv_storage=kv_storage, seed=5)
    )
    engine.submit(Request(0, prompt_of(0, 40), 4))
    steps = [engine.step() for _ in peaks]
    assert [step.kv_peak for step in steps] == peaks
    for n, step in enumerate(steps, start=1):
        (record,) = step.kv
        assert record.kv_tokens == record.counted_tokens == min(20, budget * n)
    assert engine.step().kv_peak == 21


def float_bytes() -> int:
    """Bytes of all storages of numbers that any tensor of this process keeps alive."""
    tensors = [t for t in gc.get_objects() if type(t) is Tensor and t.is_floating_point()]
    storages = [t.untyped_storage() for t in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


@pytest.mark.parametrize(("executor", "kv_storage"), [("packed", "ring"), ("fused", "evict")])
def test_evicted_storage_is_really_released(executor: str, kv_storage: str):
    """Counted over the whole process: the cache is not asked, and nothing is collected."""
    config = EngineConfig(
        25, executor=executor, sliding_window=5, num_sinks=1, kv_storage=kv_storage
    )
    engine = Engine(tiny_model(), config)
    for i, length in enumerate([24, 3, 11]):
        engine.submit(Request(i, prompt_of(i, length), 6))
    before = float_bytes()
    for _ in range(5):
        engine.step()
    held_tokens = engine.cache.held_tokens()
    assert held_tokens == 18
    assert float_bytes() - before == held_tokens * BYTES_PER_TOKEN
    engine.run([])
    assert float_bytes() == before


def test_without_a_window_a_whole_slot_is_set_aside_whatever_is_held():
    engine = Engine(tiny_model(), EngineConfig())
    engine.submit(Request(0, prompt_of(0, 3), 3))
    (record,) = engine.step().kv
    assert (record.kv_tokens, record.counted_tokens) == (3, 3)
    assert record.live_bytes == 64 * BYTES_PER_TOKEN


# ---------------------------------------------------------------- what it buys


def most_at_once(trace: Trace) -> int:
    return max(len(step.kv) + len(step.finished) for step in trace.steps)


@ALL
def test_counting_what_is_held_lets_more_requests_run_at_once(executor: str):
    asks = [(0, 24, 6, 0)] * 6
    limits = EngineConfig(40, 60, executor=executor, seed=5)
    free = Engine(tiny_model(), limits).run(arrivals_of(asks))
    windowed = watched(asks, dataclasses.replace(limits, sliding_window=10))
    assert (most_at_once(free), most_at_once(windowed)) == (2, 6)
    assert len(windowed.steps) < len(free.steps)
    assert max(step.kv_after for step in windowed.steps) <= 60


def test_the_posts_three_requests_fit_under_80_with_a_window_of_20_and_not_without():
    asks = [(0, 8, 30, 0), (0, 6, 30, 0), (0, 3, 30, 0)]
    limits = EngineConfig(16, 80, seed=5)
    free = Engine(tiny_model(), limits).run(arrivals_of(asks))
    windowed = watched(asks, dataclasses.replace(limits, sliding_window=20))
    assert any(step.preempted for step in free.steps)
    assert not any(step.preempted for step in windowed.steps)
    assert max(step.kv_after for step in windowed.steps) == 60


def test_a_prompt_larger_than_the_budget_is_served_when_its_window_fits():
    config = EngineConfig(8, 12, sliding_window=10, num_sinks=2, seed=5)
    watched([(0, 40, 5, 0)], config)
    with pytest.raises(ValueError, match="the KV budget of 12 can never hold it"):
        Engine(tiny_model(), EngineConfig(8, 12)).submit(Request(0, prompt_of(0, 40), 5))


def test_a_window_that_does_not_fit_the_budget_is_refused_on_arrival():
    engine = Engine(tiny_model(), EngineConfig(8, 12, sliding_window=12, num_sinks=1))
    engine.submit(Request(0, prompt_of(0, 6), 7))  # 12 KV tokens, fewer than the window
    with pytest.raises(ValueError, match=r"13 KV tokens.*KV budget of 12 can never hold it") as no:
        engine.submit(Request(1, prompt_of(1, 6), 8))
    assert "window of 12" in str(no.value)


@pytest.mark.parametrize("serve", [scheduled_generate, interleaved_generate])
def test_the_run_functions_take_a_window(serve: Callable[..., Scheduler]):
    requests = [Request(i, prompt_of(i, n), 6) for i, n in enumerate([20, 9, 14])]
    scheduler = serve(tiny_model(), requests, "fcfs", 16, 30, sliding_window=8, num_sinks=1, seed=5)
    assert scheduler.trace is not None
    assert (scheduler.trace.sliding_window, scheduler.trace.num_sinks) == (8, 1)
    for request in requests:
        length = len(request.prompt_tokens)
        assert tuple(request.tokens_so_far) == text_of(request.id, length, 6, 0.0, 8, 1)


# ---------------------------------------------------------------- the context stays the limit


@BOTH
def test_a_window_does_not_lengthen_the_context_and_the_refusal_says_so(kv_storage: str):
    engine = Engine(tiny_model(), EngineConfig(16, sliding_window=4, kv_storage=kv_storage))
    with pytest.raises(ValueError, match=r"needs 30 \+ 36 - 1 = 65 positions, .* context of 64"):
        engine.submit(Request(0, prompt_of(0, 30), 36))
    with pytest.raises(ValueError, match="prompt of 65 tokens, longer than the context of 64"):
        engine.submit(Request(0, prompt_of(0, 65), 1))
    engine.submit(Request(0, prompt_of(0, 30), 35))
    engine.run([])
    assert engine.trace().generated_tokens(0) == text_of(0, 30, 35, 0.0, 4, 0)[30:]


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"sliding_window": 0}, "sliding_window is 0; it must be at least 1"),
        ({"sliding_window": -3}, "sliding_window is -3; it must be at least 1"),
        ({"sliding_window": True}, "sliding_window is True; it must be a whole number"),
        ({"sliding_window": 4.0}, "sliding_window is 4.0; it must be a whole number"),
        ({"sliding_window": "4"}, "sliding_window is '4'; it must be a whole number"),
        ({"num_sinks": 1}, "num_sinks is 1; without a sliding window everything is kept"),
        ({"sliding_window": 4, "num_sinks": -1}, "num_sinks is -1; it must be at least 0"),
        ({"sliding_window": 4, "num_sinks": True}, "num_sinks is True; it must be a whole number"),
        ({"sliding_window": 4, "num_sinks": None}, "num_sinks is None; it must be a whole number"),
        ({"kv_storage": "paged"}, r"no K/V storage 'paged'; choose from \['evict', 'ring'\]"),
        ({"kv_storage": None}, "no K/V storage None; choose from"),
        ({"executor": "flash"}, "no executor 'flash'; choose from"),
        ({"batch_invariant": True, "executor": "fused"}, "this one is 'fused'"),
        ({"batch_invariant": True, "executor": "padded"}, "this one is 'padded'"),
        ({"batch_invariant": True, "executor": "strip"}, "this one is 'strip'"),
        ({"batch_invariant": "no"}, "batch_invariant is 'no'; it must be True or False"),
    ],
)
def test_a_bad_setting_is_refused_in_one_sentence_with_value_and_limit(
    setting: dict[str, Any], words: str
):
    with pytest.raises(ValueError, match=words) as refused:
        Engine(tiny_model(), EngineConfig(**setting))
    assert "\n" not in str(refused.value)


def test_a_scheduler_of_its_own_refuses_sinks_without_a_window_too():
    with pytest.raises(ValueError, match="num_sinks is 2; without a sliding window"):
        Scheduler(num_sinks=2)


# ---------------------------------------------------------------- parts that fail


def state(engine: Engine, requests: Sequence[Request]) -> object:
    """Everything that a step which failed must leave as it was."""
    scheduler, cache = engine.scheduler, engine.cache
    return (
        [(r.status, r.prefill_cursor, tuple(r.generated_tokens)) for r in requests],
        [[r.id for r in queue] for queue in (scheduler.prefilling, scheduler.active)],
        sorted(entry[3].id for entry in scheduler.waiting),
        [r.id for r in scheduler.preempted],
        [(i, tuple(cache.positions(i)), cache.live_bytes(i)) for i in cache.holders()],
        [cache.gather(i, layer)[0].sum().item() for i in cache.holders() for layer in (0, 1)],
        (engine.step_number, engine.clock.now_us(), engine.trace()),
    )


def after_calls(number: int, reference: Callable[..., Any], then: Callable[..., Any]) -> Any:
    """The reference for `number` calls of a step, and then something else: half way through."""
    calls = 0

    def part(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return reference(*args) if calls <= number else then(*args)

    return part


def step_or_refusal(engine: Engine) -> StepRecord | PartError:
    try:
        return engine.step()
    except PartError as error:
        return error


FAILING: list[tuple[str, str, Any, str]] = [
    ("evict", "evict", lambda *_: 1 // 0, "your evict raised ZeroDivisionError"),
    ("evict", "evict", after_calls(3, evict, lambda *_: 1 // 0), "your evict raised"),
    ("evict", "evict", lambda k, v, w, s: k, r"your evict returned .* it must be \(k, v\)"),
    ("evict", "evict", lambda k, v, w, s: (k[:, :-1], v), "your evict's v returned"),
    ("evict", "evict", lambda k, v, w, s: (k.float(), v.float()), "your evict's k returned"),
    ("ring", "ring_slot", lambda p, w, s: p // 0, "your ring_slot raised ZeroDivisionError"),
    (
        "ring",
        "ring_slot",
        lambda p, w, s: p,
        r"ring_slot\(\d+, 5, 1\) returned \d+; .* 0\.\.5",
    ),
    ("ring", "ring_slot", lambda p, w, s: -1, r"ring_slot\(\d+, 5, 1\) returned -1; .* 0\.\.5"),
    ("ring", "ring_slot", lambda p, w, s: True, "returned True; there are slots"),
    ("ring", "ring_slot", lambda p, w, s: 0.5, "returned 0.5; there are slots"),
    ("ring", "visible", lambda q, k, w, s: 1 // 0, "your visible raised ZeroDivisionError"),
    ("ring", "visible", lambda q, k, w, s: None, "returned None; it must be True or False"),
    ("ring", "visible", lambda q, k, w, s: 1, "returned 1; it must be True or False"),
    (
        "evict",
        "visible",
        lambda q, k, w, s: torch.tensor([True, False]),
        "your visible.* it must be True or False",
    ),
    ("ring", "held", lambda c, n, w, s: c // 0, "your held raised ZeroDivisionError"),
    ("ring", "held", lambda c, n, w, s: (1 // n, held(c, n, w, s))[1], "your held raised"),
    ("evict", "held", lambda c, n, w, s: n, r"it must be \(peak, end\)"),
    ("evict", "held", lambda c, n, w, s: (c, -1), r"it must be \(peak, end\)"),
    ("evict", "held", lambda c, n, w, s: held(c, n, w, s) if n else None, "your held"),
]
REFERENCES: dict[str, Any] = {
    "evict": evict, "ring_slot": ring_slot, "visible": visible, "held": held
}  # fmt: skip


@pytest.mark.parametrize("situation", ["first step", "in between", "beside a victim"])
@pytest.mark.parametrize(
    ("kv_storage", "name", "part", "words"),
    FAILING,
    ids=[f"{name}: {words}" for _, name, _, words in FAILING],
)
def test_a_part_that_fails_leaves_the_engine_as_it_was_and_a_better_one_goes_on(
    situation: str, kv_storage: str, name: str, part: Any, words: str
):
    broken = False

    def switch(*args: Any) -> Any:
        return (part if broken else REFERENCES[name])(*args)

    config = EngineConfig(
        3, 14, sliding_window=5, num_sinks=1, kv_storage=kv_storage, executor="fused", seed=5
    )
    engine = Engine(tiny_model(), config, Parts(**{name: switch}))
    asks = [(0, 4, 9, 0), (0, 2, 9, 0), (0, 3, 4, 0), (0, 20, 3, 0)]
    requests = [request for _, request in arrivals_of(asks)]
    for request in requests:
        engine.submit(request)
    if situation == "in between":
        engine.step()
    while situation == "beside a victim" and not engine.scheduler.victims():
        engine.step()
    broken, failed = True, False
    while not failed:  # some parts fail only where a step takes them that far
        before = state(engine, requests)
        outcome = step_or_refusal(engine)
        if isinstance(outcome, PartError):
            failed = True
            assert re.search(words, str(outcome)), outcome
            assert state(engine, requests) == before
    broken = False
    engine.cache.check()
    for _ in steps_of(engine, []):
        engine.cache.check()
    books = Books(config)
    for step in engine.trace().steps:
        books.enter(step)
    for i, (_, length, max_new, _) in enumerate(asks):
        assert tuple(requests[i].tokens_so_far) == text_of(i, length, max_new, 0.0, 5, 1)


def endless(*_: Any) -> Any:
    while True:
        pass


def test_a_part_that_never_ends_is_stopped_and_the_step_dropped():
    broken = True

    def switch(*args: Any) -> Any:
        return endless() if broken else evict(*args)

    config = EngineConfig(9, sliding_window=5, kv_storage="evict")
    engine = Engine(tiny_model(), config, Parts(evict=switch))
    request = Request(0, prompt_of(0, 12), 3)
    engine.submit(request)
    before = state(engine, [request])
    with pytest.raises(PartError, match=r"your evict (took longer than 1 s|had not finished)"):
        engine.step()
    assert state(engine, [request]) == before
    broken = False
    engine.run([])
    assert tuple(request.tokens_so_far) == text_of(0, 12, 3, 0.0, 5, 0)


@ALL
@BOTH
def test_a_step_dropped_for_nan_leaves_nothing_behind_under_a_window(
    executor: str, kv_storage: str
):
    model = type(tiny_model())(tiny_model().config).double().eval().requires_grad_(False)
    model.load_state_dict(tiny_model().state_dict())
    config = EngineConfig(
        9, executor=executor, sliding_window=5, num_sinks=1, kv_storage=kv_storage, seed=5
    )
    engine = Engine(model, config)
    requests = [request for _, request in arrivals_of([(0, 8, 6, 0), (0, 20, 4, 0)])]
    for request in requests:
        engine.submit(request)
    engine.step()
    gain = model.blocks[0].ln_1.weight
    healthy = gain.clone()
    for _ in range(3):
        before = state(engine, requests)
        gain.fill_(torch.nan)
        with pytest.raises(ValueError, match="not finite"):
            engine.step()
        gain.copy_(healthy)
        assert state(engine, requests) == before
        engine.step()
    engine.run([])
    assert tuple(requests[0].tokens_so_far) == text_of(0, 8, 6, 0.0, 5, 1)
    assert tuple(requests[1].tokens_so_far) == text_of(1, 20, 4, 0.0, 5, 1)


# ---------------------------------------------------------------- wrong, or right in another way


def run_with(parts: Parts, kv_storage: str, **limits: Any) -> tuple[Trace, int]:
    """The trace, and how many tokens differ from the windowed oracle's."""
    config = EngineConfig(9, sliding_window=5, num_sinks=1, kv_storage=kv_storage, seed=5, **limits)
    asks = [(0, 14, 8, 0), (1, 9, 8, 0)]
    trace = Engine(tiny_model(), config, parts).run(arrivals_of(asks), max_steps=300)
    wrong = 0
    for i, (_, length, max_new, _) in enumerate(asks):
        right = text_of(i, length, max_new, 0.0, 5, 1)[length:]
        wrong += sum(a != b for a, b in zip(trace.generated_tokens(i), right, strict=True))
    return trace, wrong


def plain_evict(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    """A right answer that fills new tensors of the default type, as float32 K/V has it."""
    length = k.shape[1]
    if length <= window + sinks:
        return k, v
    kept = torch.zeros(2, k.shape[0], window + sinks, k.shape[2])
    for which, x in enumerate((k, v)):
        kept[which, :, :sinks] = x[:, :sinks]
        kept[which, :, sinks:] = x[:, length - window :]
    return kept[0].clone(), kept[1].clone()


def test_a_right_evict_may_fill_tensors_of_the_default_type():
    model = type(tiny_model())(tiny_model().config).eval().requires_grad_(False)
    model.load_state_dict(tiny_model().state_dict())
    texts = [
        Engine(
            model,
            EngineConfig(9, sliding_window=5, num_sinks=1, kv_storage="evict"),
            Parts(evict=part),
        )
        .run([(0, Request(0, prompt_of(0, 14), 6))])
        .generated_tokens(0)
        for part in (evict, plain_evict)
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("name", "kv_storage", "part"),
    [
        ("evict", "evict", lambda k, v, w, s: evict(k, v, w, s)),
        ("ring_slot", "ring", lambda p, w, s: p if p < s else s + w - 1 - (p - s) % w),
        ("ring_slot", "ring", lambda p, w, s: w + p if p < s else p % w),
        ("visible", "ring", lambda q, k, w, s: k <= q and (k < s or k >= q - w)),
        ("held", "ring", lambda c, n, w, s: [min(c, w + s) + n, min(c + n, w + s)]),
    ],
)
def test_another_right_answer_changes_nothing(name: str, kv_storage: str, part: Any):
    trace, wrong = run_with(Parts(**{name: part}), kv_storage)
    assert wrong == 0
    assert trace == run_with(Parts(), kv_storage)[0]


def first_kept(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    return k[:, : window + sinks].clone(), v[:, : window + sinks].clone()


def one_too_few(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    return evict(k, v, window - 1, sinks)


def a_view(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    return k[:, -window:], v[:, -window:]


@pytest.mark.parametrize("part", [first_kept, one_too_few])
def test_a_wrong_evict_runs_and_shows_in_the_text(part: Any):
    trace, wrong = run_with(Parts(evict=part), "evict")
    assert wrong >= 2
    assert trace.error is None


def test_a_view_shows_in_the_bytes_and_not_in_the_tokens_held():
    trace, _ = run_with(Parts(evict=a_view), "evict")
    records = [kv for step in trace.steps for kv in step.kv]
    assert max(kv.kv_tokens for kv in records) == 5
    assert any(kv.live_bytes > kv.kv_tokens * BYTES_PER_TOKEN for kv in records)


def test_an_evict_that_does_nothing_is_held_in_full_and_counted_short():
    trace, wrong = run_with(Parts(evict=lambda k, v, w, s: (k, v)), "evict")
    assert wrong == 0  # who is seen is the mask's business alone
    last = trace.steps[-2].kv[-1]
    assert last.counted_tokens == 6 < last.kv_tokens
    assert last.live_bytes == last.kv_tokens * BYTES_PER_TOKEN


@pytest.mark.parametrize(
    "part", [lambda p, w, s: p % w, lambda p, w, s: min(p, w + s - 1)], ids=["sinks", "order"]
)
def test_a_colliding_ring_runs_and_shows_in_the_text(part: Any):
    assert run_with(Parts(ring_slot=part), "ring")[1] >= 2


@pytest.mark.parametrize("off", [-1, 1])
@ALL
@BOTH
def test_a_window_off_by_one_shows_in_the_text(off: int, executor: str, kv_storage: str):
    def part(query: int, key: int, window: int, sinks: int) -> bool:
        return visible(query, key, window + off, sinks)

    assert run_with(Parts(visible=part), kv_storage, executor=executor)[1] >= 1


def test_counting_the_full_length_ends_in_words_and_not_in_an_endless_loop():
    """What the window lets in, the wrong count pushes out again, alone and for ever."""
    config = EngineConfig(4, 10, sliding_window=8)
    engine = Engine(tiny_model(), config, Parts(held=lambda c, n, w, s: (c + n, c + n)))
    with pytest.raises(PartError, match=r"your held counts request 0 with \d+ KV tokens.* of 10"):
        engine.run([(0, Request(0, prompt_of(0, 20), 3))], max_steps=200)


def test_counting_too_much_preempts_where_nothing_had_to_leave():
    limits = {"max_kv_tokens": 14}
    right, _ = run_with(Parts(), "ring", **limits)
    trace, wrong = run_with(
        Parts(held=lambda c, n, w, s: (c + n, min(c + n, w + s + 3))), "ring", **limits
    )
    assert wrong == 0
    assert not any(step.preempted for step in right.steps)
    assert any(step.preempted for step in trace.steps) or len(trace.steps) > len(right.steps)


def test_the_oracle_without_a_window_is_untouched():
    assert text_of(0, 5, 4)[5:] == oracle(tuple(prompt_of(0, 5)), 4)

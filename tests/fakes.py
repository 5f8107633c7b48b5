"""What the engine's tests share: a tiny model, a fake executor, workloads, a trace's invariants.

In the fake's world token p of request i is `token_at(i, p)`, prompt and continuation alike, so that
every row that reaches the executor can be checked and every text is known without a model.
"""

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from nanogpt import GPT, Engine, EngineConfig, ModelConfig, Policies, Trace, generate
from nanogpt.block_tables import BlockTables
from nanogpt.config import TimedKey
from nanogpt.executors.base import forward_record
from nanogpt.experiments.trace_waits import wait_reasons
from nanogpt.kv_store import KVStore
from nanogpt.llama import Llama, LlamaConfig
from nanogpt.outputs import ModelOutput, Row
from nanogpt.planning import Plan
from nanogpt.request import Request
from nanogpt.trace import StepRecord
from nanogpt.validate import PolicyError

TINY = ModelConfig(num_layers=2, num_heads=2, num_channels=16, max_model_len=64)
FAKE = ModelConfig(num_layers=1, num_heads=1, num_channels=1, max_model_len=64)

Ask = tuple[int, int, int, int]
"""(arrival step, prompt length, max_new_tokens, priority) of one request; its id is its place."""


def assert_close(found: Tensor, right: Tensor, rtol: float = 1e-9, atol: float = 1e-9) -> None:
    """As the one of `torch.testing`, whose first call imports for seconds what no test needs."""
    assert found.shape == right.shape
    assert torch.allclose(found, right, rtol, atol), (found - right).abs().max()


def any_legal_plan(seed: int) -> Callable[..., Plan]:
    """A policy that does anything legal: any subset, any order, any number of tokens."""
    rng = random.Random(seed)

    def plan(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
        offered = [(i, 1) for i in decodes] + prefilling + waiting
        chosen = rng.sample(offered, rng.randint(1, len(offered)))
        return [(i, rng.randint(1, remaining)) for i, remaining in chosen]

    return plan


@functools.cache
def tiny_model(seed: int = 0) -> GPT:
    """Two random layers in float64, scaled so that texts vary and a wrong mask changes them."""
    torch.manual_seed(seed)
    model = GPT(TINY).double().eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        if name == "token_embedding.weight":
            weight.copy_(torch.nn.functional.normalize(weight))  # else one token wins everywhere
        elif name == "position_embedding.weight":
            weight.copy_(torch.nn.functional.normalize(weight) * 0.3)
        elif weight.dim() == 2:
            weight.mul_(40)
    return model


@functools.cache
def tiny_llama() -> GPT:
    """As `tiny_model`, a Llama in which two query heads share each head of K/V."""
    torch.manual_seed(0)
    model = Llama(
        LlamaConfig(
            num_layers=2, num_heads=4, num_channels=24, max_model_len=64, num_key_value_heads=2,
            head_dim=8, intermediate_size=40, rope_scaling=(8.0, 1.0, 4.0, 32), qk_norm=True,
            qkv_bias=True,
        )
    ).double().eval().requires_grad_(False)  # fmt: skip
    for weight in model.parameters():
        if weight.dim() == 2:
            weight.mul_(20)
    return model


@functools.cache
def fake_model() -> GPT:
    """The smallest model there is: the engine asks it for sizes, the fake executor for nothing."""
    torch.manual_seed(0)
    return GPT(FAKE).eval().requires_grad_(False)


def token_at(request_id: int, position: int) -> int:
    """The only token that can stand at this position of this request."""
    return (request_id * 31 + position * 7 + position * position * 3) % FAKE.vocab_size


class FakeExecutor:
    """Deterministic logits and a record of every (request id, start, length) that it was asked for.

    Asserts that each row continues exactly where the cache ends, at the right positions and with
    the right tokens.
    """

    name = "fake"

    def __init__(self) -> None:
        self.calls: list[list[tuple[int, int, int]]] = []

    def bind(self, model: GPT, cache: KVStore, policies: Policies) -> "FakeExecutor":
        """Take the place of an executor's class: `Engine(..., make_executor=fake.bind)`."""
        self.cache = cache
        return self

    def execute(self, rows: Sequence[Row]) -> ModelOutput:
        if not rows:
            return ModelOutput(torch.empty(0, 0), ())
        assert len(self.calls) < 5000, "this run does not end"
        logits = torch.zeros(len(rows), FAKE.vocab_size, dtype=torch.float64)
        for i, row in enumerate(rows):
            end = row.context_len + len(row.input_ids)
            wanted = range(row.context_len, end)
            assert list(range(row.context_len)) == list(self.cache.positions(row.request_id))
            assert list(row.positions) == list(wanted)
            assert list(row.input_ids) == [token_at(row.request_id, p) for p in wanted]
            assert not row.is_decode or len(row.input_ids) == 1
            logits[i, token_at(row.request_id, end)] = 9.0
        self.calls.append([(row.request_id, row.context_len, len(row.input_ids)) for row in rows])
        num_tokens = sum(len(row.input_ids) for row in rows)
        slot_mapping = self.cache.slot_mapping(rows)
        nothing = torch.zeros(num_tokens, FAKE.num_heads, FAKE.head_size)
        for layer in range(FAKE.num_layers):
            self.cache.write(layer, slot_mapping, nothing, nothing)
        return ModelOutput(logits, (forward_record(rows, self.cache, num_tokens),))


def fake_request(request_id: int, prompt_len: int, max_new: int, priority: int = 0) -> Request:
    """A request of the fake's world."""
    prompt = [token_at(request_id, p) for p in range(prompt_len)]
    return Request(request_id, prompt, max_new, priority)


def fake_engine(
    config: EngineConfig, policies: Policies = Policies()
) -> tuple[Engine, FakeExecutor]:
    """An engine over a fresh fake executor, and that executor."""
    fake = FakeExecutor()
    return Engine(fake_model(), config, policies, make_executor=fake.bind), fake


def fake_arrivals(asks: Sequence[Ask]) -> list[tuple[int, Request]]:
    """(arrival step, request) pairs, as `Engine.run` takes them."""
    return [
        (step, fake_request(i, length, max_new, priority))
        for i, (step, length, max_new, priority) in enumerate(asks)
    ]


def prompt_of(request_id: int, length: int) -> list[int]:
    """A prompt for a real model, different for every request."""
    return [(request_id * 17 + p * 5 + p * p) % TINY.vocab_size for p in range(length)]


@functools.cache
def oracle(
    prompt: tuple[int, ...], max_new: int, temperature: float = 0.0, seed: int = 0, name: int = 0
) -> tuple[int, ...]:
    """What `generate` says about the tiny model, remembered."""
    return tuple(
        generate(tiny_model(), prompt, max_new, temperature=temperature, seed=seed, request_id=name)
    )


def sometimes_right(known: Sequence[int]) -> list[float]:
    """A draft that is sure, right about two times in three, and else off by one."""
    truth = oracle(tuple(known), 1)[0] if len(known) < TINY.max_model_len else 0
    guess = truth if sum(known) % 3 else (truth + 1) % TINY.vocab_size
    return [float(token == guess) for token in range(TINY.vocab_size)]


def assert_equals_oracle(
    arrivals: Sequence[tuple[int, Request]], temperature: float = 0.0, seed: int = 0
) -> None:
    """Every request is done and its tokens are those of the oracle, whatever the engine did."""
    for _, request in arrivals:
        name = request.id if temperature else 0
        expected = oracle(
            tuple(request.prompt_tokens), request.max_new_tokens, temperature, seed, name
        )
        assert request.status == "done"
        assert tuple(request.generated_tokens) == expected, request.id


def refusal(call: Callable[[], object]) -> str | None:
    """What a call is refused with, by the engine or for a part; None where it is not."""
    try:
        call()
    except (ValueError, PolicyError) as error:
        return str(error)
    return None


def snapshot(engine: Engine) -> object:
    """Everything that a refused submission, plan or step must leave as it was."""
    scheduler, cache = engine.scheduler, engine.cache
    host = cache.host if isinstance(cache, BlockTables) else None
    waiting = [entry[3] for entry in scheduler.waiting.heap]
    if isinstance(
        scheduler.config.policy, TimedKey
    ):  # ranked anew by every step, also by one that fails
        waiting.sort(key=lambda request: request.id)
    queues = waiting, scheduler.prefilling, scheduler.active
    layers = range(engine.model.config.num_layers)
    return (
        [[request.id for request in queue] for queue in queues],
        [
            (r.id, r.status, r.num_computed_tokens, tuple(r.generated_tokens), r.arrival_time)
            for queue in queues
            for r in queue
        ],
        [(i, tuple(cache.positions(i)), cache.live_bytes(i)) for i in cache.holders()],
        [float(kv.sum()) for i in cache.holders() for n in layers for kv in cache.gather(i, n)],
        [(name, float(kv.sum())) for name, kv in host.kv_of.items()] if host else [],
        engine.step_number,
        engine.clock.now_us(),
        engine.trace(),
    )


class Follower:
    """Follows a trace step by step with its own books, and asserts that the two agree."""

    def __init__(self, trace: Trace, config: EngineConfig) -> None:
        self.trace = trace
        self.config = config
        self.computed: dict[int, int] = {}  # tokens of running requests
        self.sampled: set[int] = set()  # those that have sampled since they were admitted
        self.generated = {request.id: 0 for request in trace.requests}
        self.balance = {request.id: 0 for request in trace.requests}
        self.finished: set[int] = set()
        self.waits = iter(wait_reasons(trace))

    def check(self) -> None:
        """Assert every invariant that holds for any legal plan."""
        previous = None
        for step in self.trace.steps:
            assert previous is None or step.step > previous.step
            assert previous is None or step.kv_before == previous.kv_after
            assert previous is None or step.start_us == previous.end_us
            assert (step.end_us > step.start_us) == bool(step.forwards)
            self._follow(step)
            previous = step
        for request in self.trace.requests:
            assert request.id in self.finished
            assert self.generated[request.id] == request.max_new_tokens
            # Each known token once, except what a preemption threw away and a cache had.
            needed = len(request.prompt_tokens) + request.max_new_tokens - 1
            assert self.balance[request.id] == needed
        assert not self.computed
        assert previous is None or previous.kv_after == 0

    def _held(self, num_tokens: int) -> int:
        """KV tokens that a request holds with so many of its tokens computed."""
        window = self.config.sliding_window
        return num_tokens if window is None else min(num_tokens, window + self.config.num_sinks)

    def _total(self) -> int:
        return sum(map(self._held, self.computed.values()))

    def _known(self, request_id: int) -> int:
        return len(self.trace.request(request_id).prompt_tokens) + self.generated[request_id]

    def _follow(self, step: StepRecord) -> None:
        assert step.kv_before == self._total()
        self._preemption(step)
        for victim in step.preempted:
            self.balance[victim] -= self.computed.pop(victim)
        for request_id in step.admitted:
            assert request_id not in self.computed
            self.computed[request_id] = 0
            self.sampled.discard(request_id)
        for hit in step.prefix_hits:
            assert hit.request_id in step.admitted and hit.num_tokens > 0
            self.computed[hit.request_id] = hit.num_tokens
            self.balance[hit.request_id] += hit.num_tokens
        worked = [work.request_id for work in step.work]
        assert worked or step.preempted
        assert bool(worked) == bool(step.forwards)
        assert len(worked) == len(set(worked))
        assert set(step.admitted) <= set(worked)
        assert not set(step.preempted) & set(worked)
        assert step.kv_peak == self._total() + step.used_tokens
        self._work(step)
        self._limits(step)
        for request_id in step.finished:
            assert request_id not in self.finished
            self.finished.add(request_id)
            del self.computed[request_id]
        assert step.kv_after == self._total()
        held = {i: self._held(num_tokens) for i, num_tokens in self.computed.items()}
        assert {kv.request_id: kv.kv_tokens for kv in step.kv} == held
        self._presence(step, worked)
        assert sum(forward.useful_tokens for forward in step.forwards) == step.used_tokens
        assert all(f.computed_tokens >= f.useful_tokens for f in step.forwards)

    def _work(self, step: StepRecord) -> None:
        for work in step.work:
            assert work.start == self.computed[work.request_id]
            assert work.end > work.start
            end, num_drafted = work.end - len(work.drafted), len(work.drafted)
            known = self._known(work.request_id)
            assert end <= known
            assert (work.sampled is not None) == (end == known)
            assert 0 <= work.num_accepted <= num_drafted
            assert not num_drafted or (work.kind == "decode" and end - work.start == 1)
            assert work.kind == ("decode" if work.request_id in self.sampled else "prefill")
            if work.sampled is not None:
                self.sampled.add(work.request_id)
            self.computed[work.request_id] = end + work.num_accepted
            self.balance[work.request_id] += end + work.num_accepted - work.start
            self.generated[work.request_id] += len(work.tokens)

    def _preemption(self, step: StepRecord) -> None:
        """Nothing leaves but for a reason, and nothing more than has to."""
        limit = self.config.max_kv_tokens
        needed = {i: self._held(self._known(i)) for i in self.computed}
        growth = sum(needed.values())
        if limit is not None and growth > limit:
            freed = sum(needed[victim] for victim in step.preempted)
            assert growth - freed <= limit < growth - freed + needed[step.preempted[-1]]
        elif step.preempted:
            assert self.config.preempt_to_admit
            assert set(step.preempted) <= self.sampled

    def _limits(self, step: StepRecord) -> None:
        """At the fullest moment of the step, before the finished give their K/V back."""
        limit = self.config.max_kv_tokens
        assert limit is None or self._total() <= limit
        assert len(self.computed) <= self.config.max_batch_size
        prefilling = [work for work in step.work if work.kind == "prefill"]
        most = self.config.max_prefilling
        assert most is None or len(prefilling) <= most
        assert all(kv.kv_tokens_charged == kv.kv_tokens for kv in step.kv)

    def _presence(self, step: StepRecord, worked: Sequence[int]) -> None:
        """What is unfinished either works or waits, once, and waits for a stated reason."""
        waits = next(self.waits)
        waiting = [wait.request_id for wait in waits]
        assert {wait.request_id for wait in step.waits} <= set(waiting)
        assert len({wait.request_id for wait in step.waits}) == len(step.waits)
        assert all(wait.reason for wait in waits)
        present = [r.id for r in self.trace.requests if r.arrival_step <= step.step]
        before = self.finished - set(step.finished)
        assert sorted([*worked, *waiting]) == sorted(set(present) - before)


class BlockFollower(Follower):
    """The trace's own books, in which a shared block counts once for the KV budget."""

    def _preemption(self, step: StepRecord) -> None:
        """What must leave depends on what is shared: `KVCache.shared` is tested by itself."""

    def _limits(self, step: StepRecord) -> None:
        named = {block for _, table in step.blocks.tables for block in table}
        limit, size = self.config.max_kv_tokens, self.config.block_size
        assert limit is None or len(named) * size <= limit
        assert {i for i, _ in step.blocks.tables} == {kv.request_id for kv in step.kv}
        for kv in step.kv:
            whole = -(-kv.kv_tokens // size) * size
            assert kv.kv_tokens_charged == whole or self.config.sliding_window is not None
            assert kv.kv_tokens_charged >= whole


def follower(trace: Trace, config: EngineConfig) -> Follower:
    """The one for slots or the one for blocks, as the settings have it."""
    return (Follower if config.block_size is None else BlockFollower)(trace, config)

"""One forward per step: every executor against the oracle over generated mixes, and the gotchas."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from fakes import Ask, Follower, any_legal_plan, oracle, prompt_of, tiny_model
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from lockstep import arrivals_of, assert_holds_the_right_kv, steps_of, text_of
from torch import Tensor

from nanogpt import Engine, EngineConfig, Parts, Request, interleaved_generate
from nanogpt.config import EXECUTORS
from nanogpt.experiments.trace_waits import all_waits
from nanogpt.model import GPT
from nanogpt.parts.fusing import full_mask, fused_rows, pack, split_kv
from nanogpt.planning import Plan, chunk_size
from nanogpt.trace import StepRecord, Trace
from nanogpt.validate import PartError

ALL = pytest.mark.parametrize("executor", list(EXECUTORS))
ONE_FORWARD = pytest.mark.parametrize("executor", ["fused", "strip", "packed"])
SOME = examples(15)

ASKS = st.lists(
    st.tuples(
        st.integers(0, 6),  # arrival step
        st.integers(1, 16),  # prompt length
        st.integers(1, 7),  # max_new_tokens
        st.integers(0, 2),  # priority
    ),
    min_size=1,
    max_size=6,
)


@st.composite
def mixes(draw: st.DrawFn) -> tuple[list[Ask], EngineConfig]:
    """A workload and limits: chunks of every size, KV budgets that preempt, greedy and sampled."""
    asks = draw(ASKS)
    needed = max(length + max_new - 1 for _, length, max_new, _ in asks)
    config = EngineConfig(
        token_budget=draw(st.integers(1, 30)),
        max_kv_tokens=draw(st.none() | st.integers(needed, needed + 20)),
        max_batch_size=draw(st.integers(1, 6)),
        max_prefilling=draw(st.none() | st.integers(1, 3)),
        policy=draw(st.sampled_from(["fcfs", "priority"])),
        preempt_to_admit=draw(st.booleans()),
        temperature=draw(st.sampled_from([0.0, 2.0])),
        seed=5,
    )
    return asks, config


def watched(asks: Sequence[Ask], config: EngineConfig, parts: Parts = Parts()) -> Trace:
    """Serve, and hold texts and K/V to the oracle's after every single step."""
    engine = Engine(tiny_model(), config, parts)
    texts = [
        text_of(i, length, max_new, config.temperature)
        for i, (_, length, max_new, _) in enumerate(asks)
    ]
    arrivals = arrivals_of(asks)
    for _ in steps_of(engine, arrivals):
        assert_holds_the_right_kv(engine, texts)
    for _, request in arrivals:
        assert request.tokens_so_far == list(texts[request.id]), request.id
    trace = engine.trace()
    Follower(trace, config).check()
    return trace


def decisions(step: StepRecord) -> object:
    """What a step did, but for what it cost."""
    return step.work, step.admitted, step.preempted, step.finished, step.kv, step.kv_peak


@SOME
@given(mixes(), st.none() | st.integers(0, 10**6))
def test_every_executor_writes_and_stores_what_the_oracle_does(
    mix: tuple[list[Ask], EngineConfig], seed: int | None
):
    asks, config = mix
    traces: list[Trace] = []
    for executor in EXECUTORS:
        parts = Parts() if seed is None else Parts(plan_step=any_legal_plan(seed))
        traces.append(watched(asks, dataclasses.replace(config, executor=executor), parts))
    for trace in traces[1:]:
        assert list(map(decisions, trace.steps)) == list(map(decisions, traces[0].steps))
    for step in (step for trace in traces for step in trace.steps):
        assert len(step.forwards) <= (2 if step.work else 0)


def test_the_generated_mixes_have_what_they_promise():
    """Several prefills in a step, decodes beside them, and preemption: not by chance but surely."""
    asks = [(0, 9, 6, 1), (0, 12, 6, 1), (1, 11, 6, 2), (3, 14, 4, 0)]
    for executor in EXECUTORS:
        config = EngineConfig(
            14, 46, policy="priority", preempt_to_admit=True, executor=executor, seed=5
        )
        trace = watched(asks, config)
        kinds = [[work.kind for work in step.work] for step in trace.steps]
        assert any(row.count("prefill") > 1 for row in kinds)
        assert any("prefill" in row and row.count("decode") > 1 for row in kinds)
        assert any(step.preempted for step in trace.steps)


# ---------------------------------------------------------------- one call of the model per step


class CountingGPT(GPT):
    """The tiny model with a note of every call of `hidden`."""

    calls: list[tuple[int, ...]]

    def hidden(self, tokens: Tensor, *others: Any) -> Tensor:
        self.calls.append(tuple(tokens.shape))
        return super().hidden(tokens, *others)


def counting_model() -> CountingGPT:
    model = CountingGPT(tiny_model().config).double().eval().requires_grad_(False)
    model.load_state_dict(tiny_model().state_dict())
    model.calls = []
    return model


MIX = [(0, 9, 6), (1, 21, 3), (2, 1, 8), (3, 14, 1), (4, 4, 5)]


def mix_requests() -> list[Request]:
    return [Request(i, prompt_of(i, length), new, priority=i % 2) for i, length, new in MIX]


@ONE_FORWARD
@pytest.mark.parametrize("token_budget", [1, 4, 16, 100])
@pytest.mark.parametrize("max_prefilling", [1, None])
def test_a_step_is_exactly_one_call_of_the_model(
    executor: str, token_budget: int, max_prefilling: int | None
):
    model = counting_model()
    scheduler = interleaved_generate(
        model,
        mix_requests(),
        "fcfs",
        token_budget,
        60,
        max_prefilling=max_prefilling,
        executor=executor,
    )
    assert scheduler.trace is not None
    assert len(model.calls) == len(scheduler.trace.steps)
    for shape, step in zip(model.calls, scheduler.trace.steps, strict=True):
        longest = max(work.end - work.start for work in step.work)
        fused = (len(step.work), longest)
        assert shape == (fused if executor == "fused" else (step.used_tokens,))


def test_fused_is_the_default_and_the_posts_call_runs_unchanged():
    requests = mix_requests()
    scheduler = interleaved_generate(tiny_model(), requests, "fcfs", 16, 256)
    assert scheduler.trace is not None and scheduler.trace.executor == "fused"
    assert scheduler.is_done()
    for request in requests:
        right = oracle(tuple(request.prompt_tokens), request.max_new_tokens)
        assert tuple(request.generated_tokens) == right


def test_a_step_that_only_lets_somebody_go_calls_no_model_and_every_other_step_calls_it_once():
    model = counting_model()
    requests = [Request(0, prompt_of(0, 10), 20, priority=1)]
    config = EngineConfig(
        16, 34, policy="priority", preempt_to_admit=True, executor="fused", max_prefilling=1
    )
    engine = Engine(model, config)
    late = Request(1, prompt_of(1, 20), 4)
    trace = engine.run([(0, requests[0]), (6, late)])
    assert any(step.preempted and not step.work for step in trace.steps)
    assert len(model.calls) == sum(1 for step in trace.steps if step.work)


def test_two_forwards_are_two_calls_where_a_step_has_both_kinds():
    model = counting_model()
    engine = Engine(model, EngineConfig(16, executor="padded"))
    trace = engine.run([(0, request) for request in mix_requests()])
    both = sum(len({work.kind for work in step.work}) for step in trace.steps)
    assert len(model.calls) == both > len(trace.steps)


def test_an_executor_of_two_forwards_is_refused():
    with pytest.raises(ValueError, match="'padded' takes two forwards; choose 'fused' or 'packed'"):
        interleaved_generate(tiny_model(), mix_requests(), executor="padded")
    with pytest.raises(ValueError, match="there is no executor 'paged'"):
        interleaved_generate(tiny_model(), mix_requests(), executor="paged")


# ---------------------------------------------------------------- the post's five gotchas


@ALL
def test_gotcha_1_decodes_and_chunks_hold_pasts_of_every_length_in_one_batch(executor: str):
    """A first chunk without a past, a later chunk with a short one, decodes with long ones."""
    asks = [(0, 20, 9, 0), (0, 3, 9, 0), (2, 12, 4, 0), (3, 9, 4, 0)]
    trace = watched(asks, EngineConfig(9, executor=executor, seed=5))
    pasts = [{work.start for work in step.work} for step in trace.steps]
    assert any(0 in past and len(past) >= 3 for past in pasts)


class OtherPadding(GPT):
    """The tiny model, to which token 0 is token 64: padding is another word than it was."""

    def hidden(self, tokens: Tensor, *others: Any) -> Tensor:
        return super().hidden(tokens.masked_fill(tokens == 0, 64), *others)


@ALL
def test_gotcha_2_no_token_sees_padding_in_the_past_or_among_the_new(executor: str):
    """What padding is made of makes no difference to any row, not even to the last bit."""
    other = OtherPadding(tiny_model().config).double().eval().requires_grad_(False)
    other.load_state_dict(tiny_model().state_dict())
    runs: list[list[Tensor]] = []
    texts: list[list[int]] = []
    for model in (tiny_model(), other):
        engine = Engine(model, EngineConfig(9, executor=executor))
        requests = [Request(i, prompt_of(i, n), 4) for i, n in [(1, 3), (2, 17), (4, 6)]]
        for request in requests:
            engine.submit(request)
        runs.append([])
        while not engine.scheduler.is_done():
            engine.step()
            holders = engine.cache.holders()
            runs[-1] += [x.clone() for i in holders for x in engine.cache.gather(i, 1)]
        texts.append([token for request in requests for token in request.tokens_so_far])
    assert 0 not in texts[0]
    assert texts[0] == texts[1]
    assert all(map(torch.equal, *runs))


@ALL
def test_gotcha_3_everybody_gets_back_as_many_entries_as_they_brought_tokens(executor: str):
    engine = Engine(tiny_model(), EngineConfig(12, executor=executor))
    engine.submit(Request(0, prompt_of(0, 5), 5))
    engine.step()
    engine.submit(Request(1, prompt_of(1, 30), 5))
    before = {0: 5, 1: 0}
    for _ in range(3):
        step = engine.step()
        for work in step.work:
            before[work.request_id] += work.end - work.start
        assert {kv.request_id: kv.kv_tokens for kv in step.kv} == before
    assert_holds_the_right_kv(engine, [text_of(0, 5, 5), text_of(1, 30, 5)])


@ALL
def test_gotcha_4_a_partial_prefill_is_never_sampled(executor: str):
    asks = [(0, 4, 6, 0), (0, 25, 3, 0), (1, 17, 1, 0)]
    trace = watched(asks, EngineConfig(6, executor=executor, seed=5))
    partial = 0
    for step in trace.steps:
        for work in step.work:
            if work.kind == "prefill" and work.end < asks[work.request_id][1]:
                partial += 1
                assert work.sampled is None
            else:
                assert work.sampled is not None
    assert partial >= 6


@ALL
def test_gotcha_5_a_step_without_decodes_is_a_plain_prefill(executor: str):
    trace = watched([(0, 30, 2, 0)], EngineConfig(8, executor=executor, seed=5))
    for step in trace.steps[:4]:
        assert [work.kind for work in step.work] == ["prefill"]
        (forward,) = step.forwards
        assert forward.computed_tokens == forward.useful_tokens == step.used_tokens


# ---------------------------------------------------------------- the edges


@ALL
def test_a_chunk_of_size_0_waits_beside_a_full_house_of_decodes(executor: str):
    """Two decodes fill the budget of 2: the prompt in the middle of its prefill gets nothing."""
    asks = [(0, 1, 9, 0), (0, 1, 9, 0), (1, 5, 2, 0)]
    trace = watched(asks, EngineConfig(2, executor=executor, max_batch_size=3, seed=5))
    assert chunk_size(2, 2, 5) == 0
    idle = [wait for waits in all_waits(trace) for wait in waits if wait.request_id == 2]
    assert {wait.reason for wait in idle} == {"the token budget is spent"}
    assert len(idle) >= 6


@ALL
def test_a_plan_with_a_chunk_of_size_0_is_refused_before_anything_runs(executor: str):
    def zero(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
        return [(i, 1) for i in decodes] + [(i, 0) for i, _ in [*prefilling, *waiting]]

    engine = Engine(tiny_model(), EngineConfig(executor=executor), Parts(plan_step=zero))
    engine.submit(Request(0, prompt_of(0, 5), 2))
    with pytest.raises(PartError, match="gives request 0 0 tokens"):
        engine.step()
    assert engine.cache.held_tokens() == 0


@ALL
def test_prompts_of_one_token_and_texts_of_one_token(executor: str):
    asks = [(0, 1, 1, 0), (0, 1, 5, 0), (0, 9, 1, 0), (1, 1, 1, 0), (2, 5, 3, 0)]
    for token_budget in (1, 3, 40):
        trace = watched(asks, EngineConfig(token_budget, executor=executor, seed=5))
        assert [len(trace.generated_tokens(i)) for i in range(5)] == [1, 5, 1, 1, 3]


@ALL
def test_more_decodes_than_budget_take_turns(executor: str):
    asks = [(0, 2, 6, 0)] * 5
    trace = watched(asks, EngineConfig(2, executor=executor, max_batch_size=5, seed=5))
    waits = zip(trace.steps, all_waits(trace), strict=True)
    full = [step for step, idle in waits if len(idle) >= 3 and not step.admitted]
    assert full and all(step.used_tokens == 2 for step in full)


@ALL
def test_first_chunks_of_unequal_length_meet_without_nan(executor: str):
    engine = Engine(tiny_model(), EngineConfig(40, executor=executor))
    requests = [Request(i, prompt_of(i, n), 2) for i, n in enumerate([1, 13, 4, 7])]
    for request in requests:
        engine.submit(request)
    step = engine.step()
    assert [work.end for work in step.work] == [1, 13, 4, 7]
    assert_holds_the_right_kv(engine, [text_of(i, n, 2) for i, n in enumerate([1, 13, 4, 7])])
    engine.run([])
    assert [tuple(r.tokens_so_far) for r in requests] == [
        text_of(i, n, 2) for i, n in enumerate([1, 13, 4, 7])
    ]


def test_padding_is_what_a_fused_step_costs():
    """The post's step: three decodes beside a chunk of eight, 11 useful tokens and 32 computed."""
    costs: dict[str, list[tuple[int, int]]] = {}
    for executor in EXECUTORS:
        engine = Engine(tiny_model(), EngineConfig(40, executor=executor))
        for i, length in enumerate([22, 15, 3]):
            engine.submit(Request(i, prompt_of(i, length), 9))
        engine.step()
        engine.submit(Request(3, prompt_of(3, 8), 9))
        costs[executor] = [(f.useful_tokens, f.computed_tokens) for f in engine.step().forwards]
    assert costs == {
        "packed": [(11, 11)],
        "strip": [(11, 11)],
        "fused": [(11, 32)],
        "padded": [(8, 8), (3, 3)],
    }


# ---------------------------------------------------------------- the posts' bugs, as parts


def new_valid_all_true(past_lens: Sequence[int], num_new: Sequence[int]) -> Tensor:
    """The post's mask: causal, padding blocked in the past and nowhere else."""
    longest_past, longest = max(past_lens), max(num_new)
    mask = torch.ones(len(num_new), longest, longest_past + longest).bool()
    mask[:, :, longest_past:] = torch.ones(longest, longest).tril().bool()
    for row, past in enumerate(past_lens):
        mask[row, :, : longest_past - past] = False
    return mask


def position_of_the_length(known: Any, cursors: Any, num_new: Any) -> Any:
    """ "22 tokens, so position 22": every decode stands one further than it does."""
    tokens, positions = fused_rows(known, cursors, num_new)
    for row, (cursor, n) in enumerate(zip(cursors, num_new, strict=True)):
        if n == 1 and cursor:
            positions[row][-1] += 1
    return tokens, positions


def split_from_one_end(k: Tensor, past_lens: Sequence[int], num_new: Sequence[int]) -> Any:
    """`disassemble_batch_cache`'s way: one cut in front, as if padding lay in one place."""
    return [
        k[row, max(past_lens) - past : max(past_lens) + new]
        for row, (past, new) in enumerate(zip(past_lens, num_new, strict=True))
    ]


def leaking_pack(past_lens: Sequence[int], num_new: Sequence[int]) -> Any:
    """One causal staircase for all: each row sees what stands before it."""
    cu_q, cu_k, _ = pack(past_lens, num_new)
    return cu_q, cu_k, torch.ones(cu_q[-1], cu_k[-1]).tril(cu_k[-1] - cu_q[-1]).bool()


BUGS = [
    ("fused", "full_mask", new_valid_all_true),
    ("fused", "fused_rows", position_of_the_length),
    ("fused", "split_kv", split_from_one_end),
    ("strip", "pack", leaking_pack),
]


def flips(executor: str, parts: Parts) -> int:
    asks = [(0, 6, 9, 0), (0, 3, 9, 0), (2, 20, 3, 0), (4, 15, 5, 0)]
    trace = Engine(tiny_model(), EngineConfig(8, executor=executor), parts).run(arrivals_of(asks))
    wrong = 0
    for i, (_, length, max_new, _) in enumerate(asks):
        right = text_of(i, length, max_new)[length:]
        wrong += sum(a != b for a, b in zip(trace.generated_tokens(i), right, strict=True))
    return wrong


@pytest.mark.parametrize(("executor", "name", "bug"), BUGS, ids=[bug[2].__name__ for bug in BUGS])
def test_the_posts_bugs_flip_tokens_and_the_reference_flips_none(
    executor: str, name: str, bug: Any
):
    references = {"full_mask": full_mask, "fused_rows": fused_rows, "split_kv": split_kv}
    right = Parts(**{name: lambda *args: references.get(name, pack)(*args)})
    assert flips(executor, right) == 0
    assert flips(executor, Parts(**{name: bug})) >= 3


@pytest.mark.parametrize(("executor", "name", "bug"), BUGS, ids=[bug[2].__name__ for bug in BUGS])
def test_a_layout_is_asked_for_by_the_executor_that_needs_it_and_no_other(
    executor: str, name: str, bug: Any
):
    for other in EXECUTORS:
        if other != executor:
            assert flips(other, Parts(**{name: bug})) == 0


@pytest.mark.parametrize("name", ["fused_rows", "full_mask", "split_kv", "pack"])
def test_a_layout_that_fails_drops_the_step_and_the_next_one_goes_on(name: str):
    reference, broken = getattr(Parts(), name), False

    def switch(*args: Any) -> Any:
        return 1 // 0 if broken else reference(*args)

    executor = "strip" if name == "pack" else "fused"
    config = EngineConfig(8, executor=executor)
    engine = Engine(tiny_model(), config, Parts(**{name: switch}))
    asks = [(0, 6, 5, 0), (0, 20, 3, 0), (0, 3, 4, 0)]
    arrivals = arrivals_of(asks)
    for _, request in arrivals:
        engine.submit(request)
    for _ in range(2):
        engine.step()
        before, holds = engine.trace(), engine.cache.held_tokens()
        state = [(r.status, r.prefill_cursor, list(r.generated_tokens)) for _, r in arrivals]
        broken = True
        with pytest.raises(PartError, match=f"your {name} raised ZeroDivisionError"):
            engine.step()
        broken = False
        assert (engine.trace(), engine.cache.held_tokens()) == (before, holds)
        assert state == [
            (r.status, r.prefill_cursor, list(r.generated_tokens)) for _, r in arrivals
        ]
        engine.cache.check()
    engine.run([])
    for i, (_, length, max_new, _) in enumerate(asks):
        assert tuple(arrivals[i][1].tokens_so_far) == text_of(i, length, max_new)


@pytest.mark.parametrize(("shift", "what"), [("position", "position 64"), ("token", "token 65")])
def test_a_fused_row_that_the_model_has_no_embedding_for_is_refused_in_words(shift: str, what: str):
    """The last position of the context, taken one too far: no raw IndexError."""

    def too_far(known: Any, cursors: Any, num_new: Any) -> Any:
        tokens, positions = fused_rows(known, cursors, num_new)
        (positions if shift == "position" else tokens)[0][-1] = 64 if shift == "position" else 65
        return tokens, positions

    config = EngineConfig(70, executor="fused")
    engine = Engine(tiny_model(), config, Parts(fused_rows=too_far))
    engine.submit(Request(0, prompt_of(0, 64), 1))
    with pytest.raises(PartError, match=what):
        engine.step()
    assert engine.cache.held_tokens() == 0


@ALL
def test_sampled_texts_are_the_same_in_every_executor(executor: str):
    asks = [(0, 6, 9, 0), (0, 3, 9, 0), (2, 20, 3, 0), (4, 15, 5, 0)]
    watched(asks, EngineConfig(7, 40, executor=executor, temperature=2.0, seed=5))

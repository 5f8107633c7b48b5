"""Speculative decoding in the engine: greedy, the text is the oracle's; sampled, its law is."""

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from fakes import (
    TINY,
    BlockFollower,
    Follower,
    assert_equals_oracle,
    fake_engine,
    oracle,
    prompt_of,
    snapshot,
    tiny_model,
)
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

from course.stories.l08_judged import story
from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.engine import Engine
from nanogpt.experiments.trace_metrics import request_metrics
from nanogpt.kv_cache import KVCache
from nanogpt.model import GPT
from nanogpt.parts import Parts
from nanogpt.parts.acceptance import draw, roll_back_kv
from nanogpt.posts.oracle import generate
from nanogpt.preemption.runner import Runner
from nanogpt.preemption.tensor_parallel import tensor_parallel
from nanogpt.request import Request
from nanogpt.sampling import probabilities
from nanogpt.speculative.drafting import Draft, ModelDrafter, propose, share_out, tempered
from nanogpt.speculative.trigram import TrigramDraft
from nanogpt.trace import Trace
from nanogpt.validate import PartError

VOCAB = TINY.vocab_size
ONE = EngineConfig(token_budget=64, num_draft_tokens=4)


def sometimes_right(known: Sequence[int]) -> list[float]:
    """A draft that is sure, right about two times in three, and else off by one."""
    truth = oracle(tuple(known), 1)[0] if len(known) < TINY.context_len else 0
    guess = truth if sum(known) % 3 else (truth + 1) % VOCAB
    return [float(token == guess) for token in range(VOCAB)]


def always_right(known: Sequence[int]) -> list[float]:
    """The target itself, from scratch."""
    with torch.inference_mode():
        logits, _ = tiny_model()(torch.tensor([list(known)]))
    return probabilities(logits[:, -1], 1.0)[0].tolist()


def flat(known: Sequence[int]) -> list[float]:
    return [1 / VOCAB] * VOCAB


def run_one(draft: Draft, config: EngineConfig, new: int = 12, **options: Any) -> Trace:
    engine = Engine(tiny_model(), config, draft=draft, **options)
    return engine.run([(0, Request(0, prompt_of(1, 9), new))])


def passes(trace: Trace) -> list[tuple[int, int]]:
    """(drafted, accepted) of every pass that began with a decode."""
    return [
        (len(w.drafted), w.num_accepted)
        for step in trace.steps
        for w in step.work
        if w.kind == "decode"
    ]


# ---------------------------------------------------------------- greedy: the oracle's text


@examples(80)
@given(
    asks=st.lists(
        st.tuples(st.integers(0, 8), st.integers(1, 20), st.integers(1, 12), st.integers(0, 2)),
        min_size=1,
        max_size=6,
    ),
    budget=st.integers(1, 30),
    kv=st.one_of(st.none(), st.integers(32, 60)),
    num_draft_tokens=st.integers(1, 6),
    block_size=st.sampled_from([None, 4]),
    to_admit=st.booleans(),
    good=st.booleans(),
)
def test_a_greedy_text_is_the_oracles_whatever_is_guessed(
    asks, budget, kv, num_draft_tokens, block_size, to_admit, good
):
    config = EngineConfig(
        token_budget=budget, max_kv_tokens=kv, max_batch_size=3, policy="priority",
        preempt_to_admit=to_admit, num_draft_tokens=num_draft_tokens,
        block_size=block_size, share_prefixes=block_size is not None,
    )  # fmt: skip
    arrivals = [
        (step, Request(i, prompt_of(i, length), new, priority))
        for i, (step, length, new, priority) in enumerate(asks)
    ]
    engine = Engine(tiny_model(), config, draft=sometimes_right if good else flat)
    trace = engine.run(arrivals)
    assert_equals_oracle(arrivals)
    (Follower if block_size is None else BlockFollower)(trace, config).check()
    engine.cache.check()
    for step in trace.steps:
        assert step.used_tokens <= max(budget, len(step.work))
        assert kv is None or step.kv_peak <= kv
        assert not (step.preempted and any(work.drafted for work in step.work))
    for _, request in arrivals:
        assert trace.generated_tokens(request.id) == tuple(request.generated_tokens)


def test_good_guesses_save_passes_and_bad_ones_cost_none():
    config = EngineConfig(token_budget=64)
    plain = Engine(tiny_model(), config).run([(0, Request(0, prompt_of(1, 9), 21))])
    right, wrong = run_one(always_right, ONE, 21), run_one(flat, ONE, 21)
    assert [len(trace.steps) for trace in (plain, right, wrong)] == [21, 5, 21]
    assert passes(right) == [(4, 4)] * 4
    assert {accepted for _, accepted in passes(wrong)} == {0}
    texts = {trace.generated_tokens(0) for trace in (plain, right, wrong)}
    assert texts == {oracle(tuple(prompt_of(1, 9)), 21)}


def test_a_batch_guesses_with_what_the_plan_leaves_and_shares_it_evenly():
    config = EngineConfig(token_budget=7, num_draft_tokens=4)
    engine = Engine(tiny_model(), config, draft=flat)
    for i in range(2):
        engine.submit(Request(i, prompt_of(i, 3), 9))
    engine.step()
    assert [len(work.drafted) for work in engine.step().work] == [3, 2]
    engine.submit(Request(2, prompt_of(2, 3), 9))
    assert [(w.kind, len(w.drafted)) for w in engine.step().work] == [
        ("decode", 1), ("decode", 1), ("prefill", 0),
    ]  # fmt: skip


def test_nobody_guesses_beyond_his_last_token():
    for new in range(1, 8):
        trace = run_one(always_right, ONE, new)
        assert len(trace.generated_tokens(0)) == new
        assert sum(accepted + 1 for _, accepted in passes(trace)) == new - 1
    assert passes(run_one(always_right, ONE, 4)) == [(2, 2)]


def test_guesses_fit_the_context_to_its_last_position():
    engine = Engine(tiny_model(), ONE, draft=sometimes_right)
    request = Request(0, prompt_of(1, 50), TINY.context_len - 50 + 1)
    engine.run([(0, request)])
    assert tuple(request.generated_tokens) == oracle(tuple(prompt_of(1, 50)), 15)


@pytest.mark.parametrize(("kv", "most"), [(14, 0), (15, 1), (17, 3), (40, 4)])
def test_guesses_take_only_kv_tokens_that_nobody_was_promised(kv: int, most: int):
    config = EngineConfig(token_budget=64, max_kv_tokens=kv, num_draft_tokens=4)
    engine = Engine(tiny_model(), config, draft=flat)
    engine.submit(Request(0, prompt_of(0, 9), 4))
    engine.submit(Request(1, prompt_of(1, 3), 2))
    engine.step()
    record = engine.step()
    assert sum(len(work.drafted) for work in record.work) == min(most, 2)


# ---------------------------------------------------------------- K/V


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_after_every_pass_the_kv_held_is_that_of_the_text_and_no_more(temperature: float):
    config = EngineConfig(token_budget=30, num_draft_tokens=3, temperature=temperature)
    engine = Engine(tiny_model(), config, draft=sometimes_right if not temperature else flat)
    requests = [Request(i, prompt_of(i, 5 + i), 14) for i in range(3)]
    for request in requests:
        engine.submit(request)
    rejected = 0
    while not engine.scheduler.is_done():
        record = engine.step()
        rejected += sum(len(work.drafted) - work.num_accepted for work in record.work)
        for request_id in engine.cache.holders():
            request = requests[request_id]
            length = engine.cache.length(request_id)
            assert length == request.prefill_cursor == request.num_known - 1
            assert isinstance(engine.cache, KVCache)
            held = engine.cache.held(request_id)  # (2, L, H, S, D)
            assert (held - kv_of(request.tokens_so_far[:length])).abs().max() <= 1e-12
    assert rejected > 5


def kv_of(tokens: list[int]) -> torch.Tensor:
    """The K/V of a text, from a plain engine that prefills all of it."""
    plain = Engine(tiny_model(), EngineConfig(token_budget=64))
    plain.submit(Request(0, tokens, 2))
    plain.step()
    assert isinstance(plain.cache, KVCache)
    return plain.cache.held(0)


def test_a_failed_pass_leaves_everything_as_it_was():
    engine = Engine(tiny_model(), ONE, draft=sometimes_right)
    engine.submit(Request(0, prompt_of(1, 9), 9))
    engine.step()
    before = snapshot(engine)
    right, engine.parts = engine.parts, Parts(roll_back_kv=lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        engine.step()
    assert snapshot(engine) == before
    engine.parts = right
    engine.run([])
    assert engine.trace().generated_tokens(0) == oracle(tuple(prompt_of(1, 9)), 9)


# ---------------------------------------------------------------- sampled: the target's law


SMALL = ModelConfig(num_layers=1, num_heads=1, num_channels=8, context_len=8, vocab_size=3)
PROMPT = [0, 2]
LENGTH = 4
NUM_TEXTS = 4000
ALPHA = 1e-6
"""How often the test of an engine that is right would fail, were its seed drawn anew."""


@functools.cache
def small_model() -> GPT:
    torch.manual_seed(5)
    model = GPT(SMALL).double().eval().requires_grad_(False)
    for weight in model.parameters():
        weight.mul_(12 if weight.dim() == 2 else 1)
    return model


@functools.cache
def law(temperature: float) -> dict[tuple[int, ...], float]:
    """The probability of every text of `LENGTH` tokens, from whole forward passes."""
    chances: dict[tuple[int, ...], float] = {}
    for text in itertools.product(range(3), repeat=LENGTH):
        logits, _ = small_model()(torch.tensor([[*PROMPT, *text]]))
        p = probabilities(logits[0], temperature)[len(PROMPT) - 1 :]  # (LENGTH + 1, 3)
        chances[text] = float(torch.stack([p[i, t] for i, t in enumerate(text)]).prod())
    return chances


def leaning(known: Sequence[int]) -> list[float]:
    """A draft that prefers the token after the last, far from what the model says."""
    return [0.7 if token == (known[-1] + 1) % 3 else 0.15 for token in range(3)]


def p_value(temperature: float, parts: Parts = Parts(), seed: int = 1) -> float:
    """Pearson's chi-square of `NUM_TEXTS` texts of the engine against the law of the target."""
    config = EngineConfig(
        token_budget=1000, max_batch_size=100, temperature=temperature, seed=seed,
        num_draft_tokens=2,
    )  # fmt: skip
    engine = Engine(small_model(), config, draft=leaning)
    assert isinstance(engine.drafter, ModelDrafter)
    engine.drafter.accept = parts.accept  # unguarded: some hundred thousand calls
    requests = [Request(i, list(PROMPT), LENGTH) for i in range(NUM_TEXTS)]
    for some in range(0, NUM_TEXTS, 100):  # a long queue would be sorted in every step
        engine.run([(0, request) for request in requests[some : some + 100]])
    counts = Counter(tuple(request.generated_tokens) for request in requests)
    cells = sorted((chance * NUM_TEXTS, counts[text]) for text, chance in law(temperature).items())
    rare = [cell for cell in cells if cell[0] < 5]
    pooled = [cell for cell in cells if cell[0] >= 5]
    if rare:
        pooled.append((sum(e for e, _ in rare), sum(o for _, o in rare)))
    assert len(pooled) > 20, "too few cells for a test"
    square = sum((observed - expected) ** 2 / expected for expected, observed in pooled)
    half = torch.tensor([(len(pooled) - 1) / 2, square / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_sampled_texts_are_distributed_as_the_target_says(temperature: float):
    assert p_value(temperature) > ALPHA


def resamples_from_p(p: Any, q: Any, token: int, u: float, v: float) -> tuple[bool, int]:
    return (True, token) if u * q[token] < p[token] else (False, draw(p, v))


def resamples_from_q(p: Any, q: Any, token: int, u: float, v: float) -> tuple[bool, int]:
    return (True, token) if u * q[token] < p[token] else (False, draw(q, v))


def keeps_all(p: Any, q: Any, token: int, u: float, v: float) -> tuple[bool, int]:
    return True, token


def keeps_by_p_alone(p: Any, q: Any, token: int, u: float, v: float) -> tuple[bool, int]:
    rest = [max(0.0, a - b) for a, b in zip(p, q, strict=True)]
    return (True, token) if u < p[token] else (False, draw(rest, v))


@pytest.mark.parametrize("wrong", [resamples_from_p, resamples_from_q, keeps_all, keeps_by_p_alone])
def test_a_wrong_accept_gives_another_law(wrong: Callable[..., Any]):
    assert p_value(1.0, Parts(accept=wrong)) < ALPHA / 1000


def test_a_draft_that_is_the_target_is_always_accepted_and_gives_a_bonus():
    for temperature in (0.0, 1.0):
        config = EngineConfig(token_budget=64, num_draft_tokens=3, temperature=temperature)
        trace = run_one(always_right, config, 14)
        assert passes(trace) == [(3, 3)] * 3 + [(0, 0)]


def test_without_room_for_a_guess_a_sampled_text_is_the_oracles():
    config = EngineConfig(token_budget=1, num_draft_tokens=3, temperature=1.0, seed=4)
    trace = run_one(flat, config, 9)
    assert trace.generated_tokens(0) == oracle(tuple(prompt_of(1, 9)), 9, 1.0, 4, 0)


def test_the_bonus_is_the_token_that_a_plain_pass_would_have_drawn():
    """It is drawn from the target's own law, by the draw of its position."""
    config = EngineConfig(token_budget=64, num_draft_tokens=3, temperature=1.0, seed=4)
    for step in run_one(always_right, config, 13).steps:
        for work in step.work:
            if work.drafted:
                known = [*prompt_of(1, 9), *all_before(config, work.start - 8)]
                known += work.drafted
                assert work.sampled == drawn_after(known, config)


def all_before(config: EngineConfig, num_tokens: int) -> list[int]:
    return list(run_one(always_right, config, 13).generated_tokens(0)[:num_tokens])


def drawn_after(known: list[int], config: EngineConfig) -> int:
    return generate(tiny_model(), known, 1, temperature=1.0, seed=config.seed)[0]


def test_a_sampled_text_is_the_same_again():
    config = EngineConfig(token_budget=64, num_draft_tokens=3, temperature=1.0, seed=4)
    assert run_one(flat, config) == run_one(flat, config)


# ---------------------------------------------------------------- parts, and what is refused


def error_with(part: str, wrong: Callable[..., Any]) -> str:
    engine = Engine(tiny_model(), ONE, Parts(**{part: wrong}), draft=sometimes_right)
    engine.submit(Request(0, prompt_of(1, 9), 12))
    with pytest.raises(PartError) as caught:
        engine.run([])
    return str(caught.value)


def test_a_roll_back_that_keeps_rejected_entries_is_refused():
    message = error_with("roll_back_kv", lambda held, drafted, accepted: held)
    assert "belong to rejected drafts" in message


@pytest.mark.parametrize(
    "wrong",
    [
        lambda held, drafted, accepted: held - drafted - 1,
        lambda held, drafted, accepted: held - (drafted - accepted) - 1,
    ],
)
def test_a_roll_back_that_drops_the_texts_own_kv_is_refused(wrong: Callable[..., Any]):
    assert "belong to tokens that stand in the text" in error_with("roll_back_kv", wrong)


@pytest.mark.parametrize("answer", [None, -1, 2.5, 10**6, True])
def test_a_roll_back_that_is_no_count_is_refused(answer: Any):
    assert "must be a whole number of 0.." in error_with("roll_back_kv", lambda *_: answer)


@pytest.mark.parametrize(
    "answer", [None, (True,), (1, 3), (True, 3.5), (False, VOCAB), (False, -1)]
)
def test_an_accept_that_is_no_verdict_is_refused(answer: Any):
    assert "it must be (kept, token)" in error_with("accept", lambda *_: answer)


def test_an_accept_that_keeps_a_draft_as_another_token_is_refused():
    message = error_with("accept", lambda p, q, token, u, v: (True, (token + 1) % VOCAB))
    assert "keeps the draft and puts token" in message


def test_a_learners_own_parts_serve_as_the_reference_does():
    parts = Parts(
        accept=lambda p, q, token, u, v: (
            (True, token) if u * q[token] < p[token] else (False, p.index(max(p)))
        ),
        roll_back_kv=lambda held, drafted, accepted: roll_back_kv(held, drafted, accepted),
    )
    trace = run_one(sometimes_right, ONE, 12, parts=parts)
    assert trace.generated_tokens(0) == oracle(tuple(prompt_of(1, 9)), 12)


def test_a_learners_accept_may_scribble_on_what_it_gets():
    def scribbles(p: Any, q: Any, token: int, u: float, v: float) -> tuple[bool, int]:
        kept = u * q[token] < p[token]
        stands = token if kept else p.index(max(p))
        p[:], q[:] = [], []
        return kept, stands

    trace = run_one(sometimes_right, ONE, 12, parts=Parts(accept=scribbles))
    assert trace.generated_tokens(0) == oracle(tuple(prompt_of(1, 9)), 12)


@pytest.mark.parametrize("executor", ["strip", "fused", "padded"])
def test_only_the_packed_executor_verifies(executor: str):
    with pytest.raises(ValueError, match=f"executor 'packed'; this one is '{executor}'"):
        EngineConfig(executor=executor, num_draft_tokens=2)


def test_what_cannot_work_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match="num_draft_tokens is 2 under a sliding window of 8"):
        EngineConfig(sliding_window=8, num_draft_tokens=2)
    with pytest.raises(ValueError, match="num_draft_tokens"):
        EngineConfig(num_draft_tokens=-1)
    with pytest.raises(ValueError, match="num_draft_tokens is 4, and there is no draft"):
        Engine(tiny_model(), ONE)
    with pytest.raises(ValueError, match="'fake' gives no logits"):
        fake_engine(ONE)


def test_ranks_refuse_drafts_and_blocks():
    runner = cast(Runner, SimpleNamespace(num_ranks=2, load=lambda *_: None))
    refused = {
        "num_draft_tokens": "the executor 'tensor parallel, 2 ranks' gives no logits",
        "block_size": "ranks keep every token in slots: no sliding window and no blocks",
    }
    for setting, why in refused.items():
        config = EngineConfig(**{setting: 2})
        with pytest.raises(ValueError, match=why):
            Engine(tiny_model(), config, make_executor=tensor_parallel(runner), draft=flat)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ([1.0], "1 probabilities; it must be 65"),
        ([0.5] * VOCAB, "sum to 32.5"),
        ([2.0, -1.0] + [0.0] * (VOCAB - 2), "the least being -1"),
        ([float("nan")] * VOCAB, "sum to nan"),
    ],
)
def test_a_draft_whose_answer_is_no_law_is_refused(answer: list[float], problem: str):
    with pytest.raises(ValueError, match=problem):
        run_one(lambda known: answer, ONE)


# ---------------------------------------------------------------- drafting


@pytest.mark.parametrize(
    ("room", "wanted", "shares"),
    [
        (5, [4, 1, 4], [2, 1, 2]), (0, [4], [0]), (-3, [4], [0]), (9, [4, 4], [4, 4]),
        (3, [], []), (1, [0, 2], [0, 1]),
    ],
)  # fmt: skip
def test_room_is_shared_out_in_turns(room: int, wanted: list[int], shares: list[int]):
    assert share_out(room, wanted) == shares


def test_a_draft_is_drawn_at_the_targets_temperature():
    assert tempered([0.2, 0.5, 0.3], 1.0) == [0.2, 0.5, 0.3]
    assert tempered([0.2, 0.4, 0.4], 0.0) == [0, 1, 0]
    assert tempered([0.2, 0.8], 0.5) == pytest.approx([1 / 17, 16 / 17])
    assert tempered([0.0, 1.0], 2.0) == [0.0, 1.0]
    assert tempered([1e-300, 1.0], 0.01) == [0.0, 1.0]


def test_every_guess_knows_the_guesses_before_it():
    seen: list[tuple[int, ...]] = []

    def draft(known: Sequence[int]) -> list[float]:
        seen.append(tuple(known))
        return [float(token == len(known)) for token in range(VOCAB)]

    request = Request(0, [7, 8], 9)
    proposal = propose(draft, request, 3, 1.0, 0, VOCAB)
    assert proposal.tokens == (2, 3, 4)
    assert seen == [(7, 8), (7, 8, 2), (7, 8, 2, 3)]
    assert request.tokens_so_far == [7, 8]


# ---------------------------------------------------------------- records


def test_a_batch_invariant_engine_gives_the_same_bits_with_guesses_and_without():
    model = GPT(TINY).eval().requires_grad_(False)
    model.load_state_dict(
        {name: value.float() for name, value in tiny_model().state_dict().items()}
    )
    texts: list[list[int]] = []
    for num_draft_tokens in (0, 3):
        config = EngineConfig(batch_invariant=True, num_draft_tokens=num_draft_tokens)
        requests = [Request(i, prompt_of(i, 6), 10) for i in range(3)]
        Engine(model, config, draft=sometimes_right).run([(0, each) for each in requests])
        texts.append([token for each in requests for token in each.generated_tokens])
    assert texts[0] == texts[1]


def test_tokens_of_one_pass_come_out_at_the_same_time():
    trace = run_one(always_right, ONE, 11)
    times = request_metrics(trace, 0)
    assert len(times.itls_us) == 10
    assert times.itls_us.count(0) == 8


def test_the_story_tells_every_draft_with_its_chances():
    engine = Engine(tiny_model(), ONE, draft=sometimes_right)
    request = Request(0, prompt_of(1, 9), 12)
    trace = engine.run([(0, request)])
    told = story(trace, 0, tiny_model(), sometimes_right, ONE)
    assert told["version"] == 1 and told["num_draft_tokens"] == 4 and told["temperature"] == 0
    tokens: list[int] = []
    for each in told["passes"]:
        kept = [draft["token"] for draft in each["drafts"] if draft["kept"]]
        tokens += [*kept, each["last"]["token"]]
        judged = [draft for draft in each["drafts"] if draft["u"] is not None]
        assert len(judged) == min(len(kept) + 1, len(each["drafts"]))
        assert all(draft["p"] == float(draft["kept"]) and draft["q"] == 1 for draft in judged)
    assert tokens == request.generated_tokens
    kinds = [each["last"]["kind"] for each in told["passes"]]
    assert kinds[0] == "plain" and {"bonus", "resampled"} <= set(kinds)


def test_the_storys_chances_decide_as_the_engine_did():
    config = EngineConfig(token_budget=64, num_draft_tokens=3, temperature=1.0, seed=2)
    draft = TrigramDraft.load()
    engine = Engine(tiny_model(), config, draft=draft)
    trace = engine.run([(0, Request(5, prompt_of(1, 9), 20))])
    told = story(trace, 5, tiny_model(), draft, config)
    judged = [d for each in told["passes"] for d in each["drafts"] if d["u"] is not None]
    assert len(judged) > 5
    assert all(d["kept"] == (d["u"] * d["q"] < d["p"]) for d in judged)

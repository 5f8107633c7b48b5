"""Speculative decoding in the engine: greedy, the text is the oracle's; sampled, its law is."""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fakes import TINY, fake_model, fake_request, oracle, prompt_of, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from plain_sampling import plain_probabilities

from nanogpt import GPT, Engine, EngineConfig, ModelConfig, Trace, encode, generate
from nanogpt.experiments.trace_metrics import request_metrics
from nanogpt.policies.acceptance import draw, rejection_sample
from nanogpt.request import Request
from nanogpt.sampling import LogitsParams, probabilities
from nanogpt.speculative.drafting import Draft, tempered, within_blocks
from nanogpt.speculative.trigram import TrigramDraft, count_trigrams, save_counts
from nanogpt.validate import PolicyError

VOCAB = TINY.vocab_size
ONE = EngineConfig(token_budget=64, num_draft_tokens=4)


def always_right(known: Sequence[int]) -> list[float]:
    """The target itself, from scratch."""
    with torch.inference_mode():
        logits, _ = tiny_model()(torch.tensor([list(known)]))
    return probabilities(logits[:, -1], 1.0)[0].tolist()


def flat(known: Sequence[int]) -> list[float]:
    return [1 / VOCAB] * VOCAB


def run_one(draft: Draft, config: EngineConfig, new: int = 12) -> Trace:
    engine = Engine(tiny_model(), config, draft=draft)
    return engine.run([(0, Request(0, prompt_of(1, 9), new))])


def passes(trace: Trace) -> list[tuple[int, int]]:
    """(drafted, accepted) of every pass that began with a decode."""
    decodes = [work for step in trace.steps for work in step.work if work.kind == "decode"]
    return [(len(work.drafted), work.num_accepted) for work in decodes]


# ---------------------------------------------------------------- greedy: the oracle's text


def test_good_guesses_save_passes_and_bad_ones_cost_none():
    plain = Engine(tiny_model(), EngineConfig(token_budget=64))
    trace = plain.run([(0, Request(0, prompt_of(1, 9), 21))])
    right, wrong = run_one(always_right, ONE, 21), run_one(flat, ONE, 21)
    assert [len(trace.steps) for trace in (trace, right, wrong)] == [21, 5, 21]
    assert passes(right) == [(4, 4)] * 4
    assert {accepted for _, accepted in passes(wrong)} == {0}
    texts = {trace.generated_tokens(0) for trace in (trace, right, wrong)}
    assert texts == {oracle(tuple(prompt_of(1, 9)), 21)}
    itls = request_metrics(right, 0).itls_us
    assert (len(itls), itls.count(0)) == (20, 16), "tokens of one pass come out at the same time"


def test_a_batch_guesses_with_what_the_plan_leaves_and_shares_it_evenly():
    engine = Engine(tiny_model(), EngineConfig(token_budget=7, num_draft_tokens=4), draft=flat)
    for i in range(2):
        engine.submit(Request(i, prompt_of(i, 3), 9))
    engine.step()
    assert [len(work.drafted) for work in engine.step().work] == [3, 2]
    engine.submit(Request(2, prompt_of(2, 3), 9))
    assert [(w.kind, len(w.drafted)) for w in engine.step().work] == [
        ("decode", 1), ("decode", 1), ("prefill", 0),
    ]  # fmt: skip


@pytest.mark.parametrize(("kv", "most"), [(14, 0), (15, 1), (40, 2)])
def test_guesses_take_only_kv_tokens_that_are_not_reserved(kv: int, most: int):
    config = EngineConfig(token_budget=64, max_kv_tokens=kv, num_draft_tokens=4)
    engine = Engine(tiny_model(), config, draft=flat)
    engine.submit(Request(0, prompt_of(0, 9), 4))
    engine.submit(Request(1, prompt_of(1, 3), 2))
    engine.step()
    assert sum(len(work.drafted) for work in engine.step().work) == most


def test_drafts_take_no_block_that_is_reserved():
    """Two decodes of 6 and 7 tokens in blocks of 4, and 3 blocks that are not reserved."""
    engine = Engine(fake_model(), EngineConfig(block_size=4, max_kv_tokens=28))
    decodes = [fake_request(0, 6, 40), fake_request(1, 7, 40)]
    assert within_blocks(engine.scheduler.kv, decodes, [9, 9], 12) == [2 + 4, 1 + 4]
    assert within_blocks(engine.scheduler.kv, decodes, [9, 9], 4) == [2, 1]
    assert within_blocks(engine.scheduler.kv, decodes, [1, 0], 12) == [1, 0]


def test_drafts_in_blocks_are_held_to_what_is_not_reserved():
    settings = EngineConfig(64, 16, block_size=4, num_draft_tokens=4)
    engine = Engine(tiny_model(), settings, draft=flat)
    engine.submit(Request(0, prompt_of(0, 4), 6))
    engine.submit(Request(1, prompt_of(1, 4), 6))
    engine.step()
    assert [len(work.drafted) for work in engine.step().work] == [3, 3]


# ---------------------------------------------------------------- sampled: the target's law


def test_a_draft_token_as_likely_as_the_target_s_is_accepted_for_any_u_below_1():
    p = [0.25, 0.5, 0.25]
    assert rejection_sample(p, p, 2, 0.999999, 0.0) == (True, 2)
    assert rejection_sample([0.25, 0.5 - 2**-54, 0.25], p, 1, 1 - 2**-53, 0.0) == (True, 1)


def test_a_draw_inverts_the_cumulative_weights():
    assert [draw([1, 0, 3], v) for v in (0.0, 0.24, 0.25, 0.99)] == [0, 0, 2, 2]
    assert draw([0.1] * 10 + [0.0], 1 - 2**-53) == 9


SMALL = ModelConfig(num_layers=1, num_heads=1, num_channels=8, max_model_len=8, vocab_size=3)
PROMPT, LENGTH = [0, 2], 3
ALPHA = 1e-6
"""How often the test of an engine that is right would fail, were its seed drawn anew."""


PENALTIES = LogitsParams(
    min_tokens=2, stop_token_ids=(1,), logit_bias=((0, 0.5),), repetition_penalty=1.4,
    frequency_penalty=0.6, presence_penalty=0.3,
)  # fmt: skip
FILTERS = LogitsParams(frequency_penalty=1.0, min_p=0.05, top_k=2, top_p=0.95)
KINDS = None, PENALTIES, FILTERS


@functools.cache
def small_model() -> GPT:
    torch.manual_seed(5)
    model = GPT(SMALL).double().eval().requires_grad_(False)
    for weight in model.parameters():
        weight.mul_(12 if weight.dim() == 2 else 1)
    return model


def chance_of(text: tuple[int, ...], temperature: float, params: LogitsParams) -> float:
    """The target's probability of a text of `LENGTH` tokens, from a whole forward pass."""
    logits, _ = small_model()(torch.tensor([[*PROMPT, *text]]))
    rows = logits[0, len(PROMPT) - 1 :].tolist()  # (LENGTH + 1, 3)
    return math.prod(
        plain_probabilities(rows[i], params, PROMPT, text[:i], temperature)[token]
        for i, token in enumerate(text)
    )


def leaning(known: Sequence[int]) -> list[float]:
    """A draft that prefers the token after the last, far from what the model says."""
    return [0.7 if token == (known[-1] + 1) % 3 else 0.15 for token in range(3)]


@pytest.mark.parametrize(
    ("temperature", "num_texts", "params"),
    [
        *((1.0, 1000, params) for params in KINDS),
        *(pytest.param(t, 4000, p, marks=pytest.mark.nightly) for t in (0.7, 1.0) for p in KINDS),
    ],
    ids=str,
)
def test_sampled_texts_are_distributed_as_the_target_says(
    temperature: float, num_texts: int, params: LogitsParams | None
):
    """By Pearson's chi-square, over all texts of `LENGTH` tokens."""
    config = EngineConfig(
        token_budget=1000, max_batch_size=100, temperature=temperature, seed=1, num_draft_tokens=2
    )
    engine = Engine(small_model(), config, draft=leaning)
    requests = [Request(i, list(PROMPT), LENGTH, logits_params=params) for i in range(num_texts)]
    for start in range(0, num_texts, 100):  # a long queue would be sorted in every step
        engine.run([(0, request) for request in requests[start : start + 100]])
    counts = Counter(tuple(request.generated_tokens) for request in requests)
    square, num_cells = 0.0, 0
    for text in itertools.product(range(3), repeat=LENGTH):
        expected = num_texts * chance_of(text, temperature, params or LogitsParams())
        if expected == 0:
            assert counts[text] == 0, text
            continue
        num_cells += 1
        square += (counts[text] - expected) ** 2 / expected
    assert num_cells > 4
    half = torch.tensor([(num_cells - 1) / 2, square / 2], dtype=torch.float64)
    assert float(torch.special.gammaincc(half[0], half[1])) > ALPHA


def test_a_draft_that_is_the_target_is_always_accepted_and_the_bonus_is_a_plain_draw():
    """The bonus is drawn from the target's own law, by the draw of its position."""
    config = EngineConfig(token_budget=64, num_draft_tokens=3, temperature=1.0, seed=4)
    trace = run_one(always_right, config, 14)
    assert passes(trace) == [(3, 3)] * 3 + [(0, 0)]
    text = [*prompt_of(1, 9), *trace.generated_tokens(0)]
    for step in trace.steps[1:]:
        (work,) = step.work
        known = text[: work.start + 1 + len(work.drafted)]
        assert work.sampled == generate(tiny_model(), known, 1, temperature=1.0, seed=4)[0]


def test_without_room_for_a_guess_a_sampled_text_is_the_oracles():
    config = EngineConfig(token_budget=1, num_draft_tokens=3, temperature=1.0, seed=4)
    trace = run_one(flat, config, 9)
    assert trace.generated_tokens(0) == oracle(tuple(prompt_of(1, 9)), 9, 1.0, 4, 0)


# ---------------------------------------------------------------- drafting


def test_a_draft_is_drawn_at_the_targets_temperature():
    assert tempered([0.2, 0.5, 0.3], 1.0) == [0.2, 0.5, 0.3]
    assert tempered([0.2, 0.4, 0.4], 0.0) == [0, 1, 0]
    assert tempered([0.2, 0.8], 0.5) == pytest.approx([1 / 17, 16 / 17])
    assert tempered([1e-300, 1.0], 0.01) == [0.0, 1.0]


# ---------------------------------------------------------------- refusals and the story


def test_a_draft_that_is_missing_no_law_or_cannot_be_verified_is_refused():
    from nanogpt.preemption.tensor_parallel import tensor_parallel

    with pytest.raises(ValueError, match="num_draft_tokens is 4, and there is no draft"):
        Engine(tiny_model(), ONE)
    for answer, why in (
        ([1.0], "1 probabilities; it must be 65"),
        ([2.0, -1.0] + [0.0] * (VOCAB - 2), "the least being -1"),
        ([float("nan")] * VOCAB, "sum to nan"),
    ):
        with pytest.raises(ValueError, match=why):
            run_one(lambda known, answer=answer: answer, ONE)
    runner: Any = SimpleNamespace(num_ranks=2, load=lambda *_: None)
    with pytest.raises(ValueError, match="'tensor parallel, 2 ranks' gives no logits"):
        Engine(tiny_model(), ONE, make_executor=tensor_parallel(runner), draft=flat)
    with pytest.raises(ValueError, match=r"ranks keep every token in slots: .* no blocks"):
        Engine(tiny_model(), EngineConfig(block_size=2), make_executor=tensor_parallel(runner))


@pytest.mark.parametrize(
    ("drafts", "why"),
    [
        ((3, VOCAB), rf"token {VOCAB} is outside the vocabulary 0\.\.{VOCAB - 1}"),
        ((-1,), rf"token -1 is outside the vocabulary 0\.\.{VOCAB - 1}"),
        ((3,) * TINY.max_model_len, r"position \d+ is outside the context 0\.\."),
    ],
)
def test_another_drafter_guesses_within_the_vocabulary_and_the_context(
    drafts: tuple[int, ...], why: str
):
    class Guesses:
        def propose(self, planned: Any, running: Any, kv: Any) -> dict[int, tuple[int, ...]]:
            return {request.id: drafts for request, _ in planned if request.status == "active"}

    engine = Engine(tiny_model(), ONE, draft=flat)
    engine.scheduler.drafter = Guesses()
    with pytest.raises(PolicyError, match=rf"step 1, request 0: {why}"):
        engine.run([(0, Request(0, prompt_of(1, 9), 12))])


def test_the_story_tells_each_draft_with_the_chances_that_decided():
    from course.lesson_data.l08_drafts import story

    config = EngineConfig(token_budget=64, num_draft_tokens=4, temperature=1.0, seed=2)
    request, draft = Request(5, prompt_of(1, 9), 20), TrigramDraft.load()
    trace = Engine(tiny_model(), config, draft=draft).run([(0, request)])
    tokens, judged = list[int](), list[dict[str, Any]]()
    for each in story(trace, 5, tiny_model(), draft, config)["passes"]:
        kept = [d["token"] for d in each["drafts"] if d["kept"]]
        tokens += [*kept, each["last"]["token"]]
        judged += [d for d in each["drafts"] if d["u"] is not None]
    assert tokens == request.generated_tokens
    assert len(judged) > 5
    assert all(d["kept"] == (d["u"] * d["q"] < d["p"]) for d in judged)


# ---------------------------------------------------------------- the draft of counts


def by_hand(tokens: list[int], vocab_size: int, context: list[int]) -> list[Fraction]:
    """The law with dictionaries and fractions, from its definition."""
    triples = [tuple(tokens[i : i + 3]) for i in range(len(tokens) - 2)]
    singles = [triple[2] for triple in triples]
    law = [Fraction(singles.count(t) + 1, len(singles) + vocab_size) for t in range(vocab_size)]
    for order in range(1, 1 + min(2, len(context))):
        wanted = tuple(context[-order:])
        after = [triple[2] for triple in triples if triple[2 - order : 2] == wanted]
        if after:
            seen, kinds = len(after), len(set(after))
            law = [
                (after.count(t) + kinds * law[t]) / Fraction(seen + kinds)
                for t in range(vocab_size)
            ]
    return law


@given(
    st.lists(st.integers(0, 3), min_size=3, max_size=40),
    st.lists(st.integers(0, 3), max_size=4),
)
def test_the_law_is_the_one_counted_by_hand_and_every_token_keeps_some_chance(tokens, context):
    law = TrigramDraft(count_trigrams(torch.tensor(tokens), 4))(context)
    assert list(law) == pytest.approx([float(p) for p in by_hand(tokens, 4, context)])
    assert min(law) > 0
    assert math.isclose(sum(law), 1, abs_tol=1e-12)


def test_what_is_counted_and_saved_is_loaded_again(tmp_path: Path):
    counts = count_trigrams(torch.tensor([0, 1, 2, 0, 1, 2, 1]), 3)
    assert counts.sum() == 5
    assert counts[0, 1, 2] == 2 and counts[1, 2, 0] == 1 and counts[1, 2, 1] == 1
    save_counts(counts, tmp_path / "counts.safetensors")
    loaded, fresh = TrigramDraft.load(tmp_path / "counts.safetensors"), TrigramDraft(counts)
    for context in ([], [1], [0, 1], [2, 2], [1, 0, 1]):
        assert list(loaded(context)) == list(fresh(context))
    assert [path.name for path in tmp_path.iterdir()] == ["counts.safetensors"]


def test_the_shipped_counts_know_the_training_text():
    law = TrigramDraft.load()(encode("th"))
    assert len(law) == 65 and law.index(max(law)) == encode("e")[0]


@pytest.mark.parametrize("content", [None, b"no safetensors", b"\x02\0\0\0\0\0\0\0{}"])
def test_a_file_that_is_missing_or_broken_is_refused_by_name(tmp_path: Path, content):
    path = tmp_path / "counts.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"counts\.safetensors"):
        TrigramDraft.load(path)

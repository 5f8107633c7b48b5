"""Behind lessons 3 and 3b: what is drawn of the learner's functions, the numbers of the prose."""

import pytest
import torch
from answers import attempted, worked
from notebooks import Notebooks

from course.lesson_data import l03_batch, l03_exhibits, l03b_packing
from course.lesson_data.l01_chunks import SOLILOQUY
from nanogpt import GPT, Engine, EngineConfig, ModelConfig, Policies, Request, encode, load_model
from nanogpt.policies import fusing
from solutions.l03_interleaving._padded import seeing, sees


@pytest.fixture(scope="module")
def exact():
    return load_model().double()


@pytest.mark.process
def test_masks_are_drawn_beside_the_reference_s_whatever_padding_sees():
    last = l03_batch.posts_example()[-1]
    assert [each["mask"] for each in last["masks"]] == fusing.full_mask([2, 4], [3, 3]).tolist()
    for function, same in (
        (worked("l03.full_mask"), True),
        (l03_exhibits.padding_in_sight, False),
    ):
        [step] = l03_batch.full_mask_steps(attempted("l03.full_mask", function))
        assert (step["compare"] == [each["mask"] for each in step["masks"]]) is same
    shapeless = attempted("l03.full_mask", lambda context_lens, num_scheduled_tokens: torch.ones(2))
    assert "bool tensor of shape (3, 3, 7)" in l03_batch.full_mask_steps(shapeless)
    unwritten = attempted("l03.full_mask")
    assert l03_batch.full_mask_steps(unwritten).startswith("Once you have written `full_mask`")


@pytest.mark.process
def test_a_packing_that_lets_requests_see_each_other_is_shown_as_wrong(exact):
    def leaky(context_lens, num_scheduled_tokens):
        cu_seqlens_q, cu_seqlens_k, mask = fusing.pack(context_lens, num_scheduled_tokens)
        return cu_seqlens_q, cu_seqlens_k, torch.ones_like(mask)

    last = l03b_packing.forms_table(exact, Policies(pack=leaky)).splitlines()[-1]
    assert "**wrong: 0, 1" in last


@pytest.mark.process
def test_packed_is_never_slower_and_padding_costs_what_lesson_3b_says(notebooks: Notebooks):
    runs = notebooks.solved("l03b_packing").names["runs"]
    for machine in ("gpu", "cpu"):
        for budget in l03b_packing.BUDGETS:
            two, padded, packed = (
                l03b_packing.p99_ms(runs[machine, budget, form]) for form in l03b_packing.FORMS
            )
            assert packed <= min(two, padded)
    forwards = [each for step in runs["gpu", 256, "one, padded"].steps for each in step.forwards]
    widest = max(forwards, key=lambda each: each.computed_tokens)
    assert (widest.computed_tokens, widest.useful_tokens) == (1600, 207)
    limits = {machine: [longest_chunk(clock, n) for n in (1, 4, 32)] for machine, clock in CLOCKS}
    assert list(limits.values()) == [[165, 63, 9], [16, 4, 1]]


CLOCKS = l03b_packing.MACHINES.items()


def longest_chunk(clock, decodes):
    """The longest chunk with which the padded forward is no slower than two."""
    cost_ms = l03_batch.cost_ms
    return max(
        chunk
        for chunk in range(1, 513)
        if cost_ms(clock, (decodes + 1) * chunk) <= cost_ms(clock, decodes, chunk)
    )


@torch.inference_mode()
def fused_forward(model, known, held, num_scheduled_tokens, mask_of=fusing.full_mask):
    """The lesson's fused step: logits (B, V), and each request's K/V, a pair for each layer."""
    context_lens = [len(kv[0][0]) if kv else 0 for kv in held]
    lengths = context_lens, num_scheduled_tokens
    tokens, positions = fusing.prepare_inputs(known, *lengths)
    mask = mask_of(*lengths).unsqueeze(1)  # (B, 1, T, S + T)
    now_held = [[] for _ in known]

    def with_past(layer, which, new):
        past = new.new_zeros(len(held), max(context_lens), *new.shape[2:])  # (B, S, H, D)
        for row, kv, length in zip(past, held, context_lens, strict=True):
            if kv:
                row[max(context_lens) - length :] = kv[layer][which]
        return torch.cat([past, new], dim=1)  # (B, S + T, H, D)

    def attend(layer, q, k, v):
        k, v = with_past(layer, 0, k), with_past(layer, 1, v)
        own = zip(fusing.split_kv(k, *lengths), fusing.split_kv(v, *lengths), strict=True)
        for kv, mine in zip(now_held, own, strict=True):
            kv.append(mine)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        return torch.einsum("bhqk,bkhd->bqhd", weights, v)  # (B, T, H, D)

    hidden = model.hidden(torch.tensor(tokens), torch.tensor(positions), attend)  # (B, T, C)
    return model.logits(hidden[:, -1]), now_held


def with_the_past_visible(context_lens, num_scheduled_tokens):
    mask = fusing.full_mask(context_lens, num_scheduled_tokens).clone()
    mask[:, :, : max(context_lens)] = True
    return mask


def test_visible_padding_changes_the_letters_that_the_lesson_counts(exact):
    texts = [encode(SOLILOQUY[i : i + 24 - (i // 6) % 16]) for i in range(0, 360, 6)]
    limits = EngineConfig(token_budget=2000, max_batch_size=60, executor="fused")
    second = []
    for mask in (fusing.full_mask, with_the_past_visible):
        queue = [(0, Request(i, text, 2)) for i, text in enumerate(texts)]
        trace = Engine(exact, limits, Policies(full_mask=mask)).run(queue)
        second.append([trace.generated_tokens(i)[1] for i in range(60)])
    assert sum(right != wrong for right, wrong in zip(*second, strict=True)) == 29

    texts = [encode(SOLILOQUY[i : i + 24]) for i in range(0, 360, 6)]
    _, held = fused_forward(exact, texts, [[] for _ in texts], [23] * 60)
    changed = []
    for n in (1, 2, 8, 32):
        step = [*texts, encode(SOLILOQUY[:n])], [*held, []], [1] * 60 + [n]
        right, wrong = (
            fused_forward(exact, *step, mask)[0].argmax(dim=1)[:60]
            for mask in (fusing.full_mask, l03_exhibits.padding_in_sight)
        )
        changed.append(int((right != wrong).sum()))
    assert changed == [0, 38, 48, 51]


def test_a_query_that_sees_nothing_spoils_its_row_from_two_layers_on(exact):
    torch.manual_seed(0)
    models = [GPT(ModelConfig(num_layers=1)), GPT(ModelConfig(num_layers=2)), exact]
    finite = []
    for model in models:
        for prompts in (("O R", "O, Ro"), ("O Rom", "O, Ro")):
            known = [encode(prompt) for prompt in prompts]
            lengths = [len(tokens) for tokens in known]
            logits, _ = fused_forward(model, known, [[], []], lengths, seeing(sees))
            finite.append([bool(row.isfinite().all()) for row in logits])
    assert finite == [[True, True], [True, True], *[[False, True], [True, True]] * 2]


def test_one_forward_costs_and_computes_what_the_lesson_says(exact):
    costs = [
        [round(l03_batch.cost_ms(clock, *computed), 3) for computed in ((3,), (8,), (3, 8), (32,))]
        for clock in l03_batch.MACHINES.values()
    ]
    assert costs == [[5.3, 5.3, 10.6, 5.3], [0.552, 0.699, 1.251, 1.405]]
    stage = EngineConfig(token_budget=32, executor="fused", temperature=0.8, seed=1)
    trace = Engine(exact, stage).run(l03_batch.six_requests())
    forwards = [(f.useful_tokens, f.computed_tokens) for s in trace.steps for f in s.forwards]
    assert [sum(each) for each in zip(*forwards, strict=True)] == [338, 871]
    padded = [each for each in forwards if each[0] < each[1]]
    assert (len(forwards), len(padded)) == (30, 9)
    assert max(padded, key=lambda each: each[1] / each[0]) == (32, 162)

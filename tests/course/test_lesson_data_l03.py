"""Behind lessons 3 and 3b: what is drawn of the learner's functions, the numbers of the prose."""

import functools

import pytest
import torch
from answers import attempted, worked
from notebooks import Notebooks

from course.lesson_data import l03_batch, l03_exhibits, l03b_packing
from course.lesson_data.l01_chunks import SOLILOQUY
from nanogpt import Engine, EngineConfig, Policies, Request, encode, load_model
from nanogpt.figures.drawing import points_of
from nanogpt.policies import fusing
from solutions.l03b_packing._blocks import partial


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
    charged = [l03_batch.cost_ms(l03_batch.GPU, *each) for each in ((7,), (200,), (207,), (1600,))]
    assert [round(ms, 1) for ms in charged] == [5.3, 6.9, 7.1, 51.7]
    assert (l03_batch.GPU.floor_us / l03_batch.GPU.token_us, l03_batch.GPU.fixed_us) == (150, 500)
    limits = {machine: [longest_chunk(clock, n) for n in (1, 4, 32)] for machine, clock in CLOCKS}
    assert list(limits.values()) == [[165, 63, 9], [16, 4, 1]]


def test_a_merge_is_one_softmax_over_the_keys_of_all_blocks_even_where_a_head_sees_none():
    merge = worked("l03.merge_attention")
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(3, 12, generator=generator, dtype=torch.float64) * 400  # (H, S)
    scores[0], scores[1, 4:] = -torch.inf, -torch.inf
    values = torch.randn(3, 12, 5, generator=generator, dtype=torch.float64)  # (H, S, D)
    wanted = (scores[1:].softmax(1)[:, None] @ values[1:])[:, 0]
    for cuts in ((4, 4, 4), (1, 11), (0, 7, 0, 5)):
        pieces = zip(scores.split(cuts, 1), values.split(cuts, 1), strict=True)
        out, top, total = functools.reduce(
            lambda a, b: merge(*a, *b), [partial(*p) for p in pieces]
        )
        torch.testing.assert_close(out[1:], wanted)
        assert (out[0].tolist(), total[0]) == ([0.0] * 5, 0.0)
        torch.testing.assert_close(top[1:] + total[1:].log(), scores[1:].logsumexp(1))


@pytest.mark.process
def test_merges_are_drawn_beside_one_softmax_and_a_broken_one_is_said(exact):
    chart = l03b_packing.merge_chart(
        exact, attempted("l03.merge_attention", worked("l03.merge_attention"))
    )
    mine, right = ([points_of(line) for line in axes.get_lines()] for axes in chart.axes)
    assert len(mine) == len(right) == 4
    for ours, theirs in zip(mine, right, strict=True):
        assert [y for _, y in ours] == pytest.approx([y for _, y in theirs])
    broken = attempted("l03.merge_attention", lambda *blocks: None)
    assert "its check says why" in l03b_packing.merge_chart(exact, broken)


CLOCKS = l03b_packing.MACHINES.items()


def longest_chunk(clock, decodes):
    """The longest chunk with which the padded forward is no slower than two."""
    cost_ms = l03_batch.cost_ms
    return max(
        chunk
        for chunk in range(1, 513)
        if cost_ms(clock, (decodes + 1) * chunk) <= cost_ms(clock, decodes, chunk)
    )


def with_the_past_visible(context_lens, num_scheduled_tokens):
    mask = fusing.full_mask(context_lens, num_scheduled_tokens).clone()
    mask[:, :, : max(context_lens)] = True
    return mask


def all_but_the_last_token_first(decodes, prefilling, waiting, budget):
    """23 tokens of each text of 24 in the first step; in the second, all that is left."""
    first = [(i, 23) for i, left in waiting if i < 60]
    return first or [*prefilling, *waiting]


def test_visible_padding_changes_the_letters_that_the_lesson_counts(exact):
    def num_changed(arrivals, wrong, **policies) -> int:
        """How many last letters another mask changes."""
        limits = EngineConfig(token_budget=2000, max_batch_size=61, executor="fused")
        right, other = (
            Engine(exact, limits, Policies(full_mask=mask, **policies)).run(arrivals())
            for mask in (fusing.full_mask, wrong)
        )
        pairs = [(right.generated_tokens(i), other.generated_tokens(i)) for i in range(60)]
        return sum(a[-1] != b[-1] for a, b in pairs)

    def prompts(lengths, new: int, chunk: int = 0) -> list[tuple[int, Request]]:
        texts = [encode(SOLILOQUY[6 * i : 6 * i + n]) for i, n in enumerate(lengths)]
        beside = [(1, Request(60, encode(SOLILOQUY[:chunk]), 1))] if chunk else []
        return [*((0, Request(i, text, new)) for i, text in enumerate(texts)), *beside]

    ragged = [24 - i % 16 for i in range(60)]
    assert num_changed(lambda: prompts(ragged, 2), with_the_past_visible) == 29
    beside_chunks = [
        num_changed(
            lambda n=n: prompts([24] * 60, 1, chunk=n),
            l03_exhibits.padding_in_sight,
            plan_step=all_but_the_last_token_first,
        )
        for n in (1, 2, 8, 32)
    ]
    assert beside_chunks == [0, 38, 48, 51]


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

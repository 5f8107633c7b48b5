"""Behind lessons 3 and 3b: padded and packed steps, drawn by the learner's functions."""

import pytest
import torch
from answers import worked
from notebooks import Notebooks

from course.attempt import Attempt
from course.lesson_data import l03_batch, l03_exhibits, l03b_packing
from course.report import Report
from nanogpt import Policies, generate, load_model
from nanogpt.policies import fusing


def attempted(name, function, status="failed"):
    return Attempt(Report(f"l03.{name}", status, (), 0, ""), function)


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
        [step] = l03_batch.full_mask_steps(attempted("full_mask", function))
        assert (step["compare"] == [each["mask"] for each in step["masks"]]) is same
    shapeless = attempted("new_mask", lambda num_scheduled_tokens: torch.ones(2))
    assert "bool tensor of shape (2, 3, 3)" in l03_batch.new_mask_steps(shapeless)
    unwritten = attempted("new_mask", None, "not_started")
    assert l03_batch.new_mask_steps(unwritten).startswith("Once you have written `new_mask`")


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


def test_the_fused_forward_writes_what_the_oracle_writes(exact):
    known = [list(each) for each in l03_batch.TOKEN_IDS[:3]]
    held = [[] for _ in known]
    lengths = [len(each) for each in known]
    for _ in range(5):
        logits, held = l03_exhibits.fused_forward(exact, known, held, lengths)
        for text, token in zip(known, logits.argmax(dim=1).tolist(), strict=True):
            text.append(token)
        lengths = [1] * 3
    for text, prompt in zip(known, l03_batch.TOKEN_IDS, strict=False):
        assert text[len(prompt) :] == generate(exact, prompt, 5)

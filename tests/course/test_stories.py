"""Behind the lessons' pictures: what lesson 0 says of two answers, and of impossible steps."""

import re

import pytest
import torch
from answers import worked

from course.stories import recorded
from course.stories.l00_batching import batching_side, engine_finish_steps
from course.stories.l00_kv_cache import Cache, reference_text, your_text
from nanogpt import decode, encode, generate, load_model

next_inputs, cached_attention = worked("l00.next_inputs"), worked("l00.cached_attention")
PROMPT = encode("ROMEO:\nBut soft, what light through yonder window ")


def write(model, prompt, max_new_tokens, next_inputs, cached_attention):
    """As the lesson's own cell does it."""
    cache = Cache(cached_attention)
    tokens, num_cached, all_logits = list(prompt), 0, []
    while len(tokens) < len(prompt) + max_new_tokens:
        for token in next_inputs(tokens, num_cached):
            logits = cache.feed(model, token, position=num_cached)
            num_cached += 1
        all_logits.append(logits)
        tokens.append(int(logits.argmax()))
    return tokens[len(prompt) :], torch.stack(all_logits)


def only_new_letters(tokens, num_cached):
    return [token for token in tokens if token not in tokens[:num_cached]]


def of_the_newest_alone(q, k_cache, v_cache, k, v):
    _, k_all, v_all = cached_attention(q, k_cache, v_cache, k, v)
    return v, k_all, v_all


def test_two_right_answers_write_the_oracles_text():
    said = your_text(write, PROMPT, next_inputs, cached_attention)
    oracle = decode(PROMPT) + decode(generate(load_model(dtype=torch.float64), PROMPT, 40))
    assert "writes the same 40 characters" in said
    assert oracle in said
    assert float(re.findall(r"in float64, is ([\d.e-]+)\.\n", said)[0]) < 1e-9
    assert oracle in reference_text(PROMPT)


@pytest.mark.parametrize(
    ("inputs", "attention", "guilty"),
    [
        (only_new_letters, cached_attention, "`next_inputs`"),
        (next_inputs, of_the_newest_alone, "`cached_attention`"),
        (only_new_letters, of_the_newest_alone, "`next_inputs` and `cached_attention`"),
    ],
)
def test_the_answer_that_makes_another_text_is_named(inputs, attention, guilty):
    said = your_text(write, PROMPT, inputs, attention)
    assert "the oracle writes another" in said
    assert f"The difference is made by {guilty}: " in said


@pytest.mark.parametrize("continuous", [False, True])
def test_the_steps_that_the_engine_takes_can_be_drawn(continuous):
    steps = engine_finish_steps(load_model(), continuous)
    assert steps == ([9, 3, 3, 5, 9, 9] if continuous else [9, 3, 3, 11, 15, 13])
    side = batching_side("a side", steps)
    assert (side["length"], side["spans"][3]) == (
        max(steps),
        {"request": 3, "start": steps[3] - 2, "end": steps[3]},
    )


@pytest.mark.parametrize(
    ("finished", "sentence"),
    [
        (None, "it returned None, and the picture needs six numbers"),
        ([9, 3, 3, 3, 9, 9], "it lets request 3 run while all 3 slots are taken"),
        ([9, 3, 3, 1, 9, 9], "or before the first step"),
    ],
)
def test_steps_that_no_run_takes_are_refused(finished, sentence):
    with pytest.raises(ValueError, match=sentence):
        batching_side("yours", finished)


def test_what_is_recorded_is_found_by_its_name():
    assert recorded("step_costs")["points"]
    with pytest.raises(FileNotFoundError):
        recorded("nothing")

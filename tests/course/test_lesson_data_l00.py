"""Behind lesson 0: what it says of two answers, and of steps that no run takes."""

import pytest
import torch
from answers import worked

from course.lesson_data.l00_batching import batching_side, engine_finish_steps
from course.lesson_data.l00_kv_cache import Cache, bug_or_rounding, your_text
from nanogpt import Policies, encode, load_model

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


@pytest.mark.process
def test_two_answers_write_the_oracle_s_text_and_the_one_that_writes_another_is_named():
    said = your_text(write, PROMPT, next_inputs, cached_attention)
    assert "**This text was written with your two functions.**" in said
    said = your_text(write, PROMPT, only_new_letters, cached_attention)
    assert "the oracle writes another" in said
    assert "The difference is made by `next_inputs`: " in said

    def nothing(tokens, num_cached):
        return tokens[len(tokens) :]

    said = your_text(write, PROMPT, nothing, cached_attention)
    assert said.startswith("The run stopped: your write raised UnboundLocalError on its line 9")
    broken = {"broken": Policies(chunk_inputs=lambda tokens, cursor, n: 1 / 0)}
    assert bug_or_rounding(PROMPT, broken).startswith("The run stopped: ")


def test_the_steps_of_an_engine_with_and_without_continuous_batching_are_drawn():
    model = load_model()
    assert engine_finish_steps(model, continuous=False) == [9, 3, 3, 11, 15, 13]
    steps = engine_finish_steps(model, continuous=True)
    assert steps == [9, 3, 3, 5, 9, 9]
    side = batching_side("a side", steps)
    assert side["length"] == 9
    assert side["spans"][3] == {"request": 3, "start": 3, "end": 5}


def test_steps_that_no_run_takes_are_refused():
    for finished, sentence in (
        (None, "it returned None, and the picture needs six numbers"),
        ([9, 3, 3, 3, 9, 9], "it lets request 3 run while all 3 slots are taken"),
        ([9, 3, 3, 1, 9, 9], "or before the first step"),
    ):
        with pytest.raises(ValueError, match=sentence):
            batching_side("yours", finished)

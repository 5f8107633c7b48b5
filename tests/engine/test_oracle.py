"""The oracle: greedy by hand, sampling by named draws, and the same refusals as the engine's."""

import pytest
import torch
from fakes import prompt_of, tiny_model

from nanogpt import generate
from nanogpt.sampling import uniform


def test_greedy_generation_takes_the_most_likely_token_each_time():
    tokens = prompt_of(0, 5)
    for _ in range(6):
        logits, _ = tiny_model()(torch.tensor([tokens]))
        tokens.append(int(logits[0, -1].argmax()))
    assert generate(tiny_model(), prompt_of(0, 5), 6) == tokens[5:]


def test_sampled_generation_inverts_the_distribution_at_the_draw_of_its_position():
    tokens = prompt_of(1, 4)
    for position in range(4, 9):
        logits, _ = tiny_model()(torch.tensor([tokens]))
        chances = (logits[0, -1] / 3.0).softmax(-1).tolist()
        draw, token, passed = uniform(11, 7, position, "sample"), 0, chances[0]
        while passed <= draw:
            token += 1
            passed += chances[token]
        tokens.append(token)
    out = generate(tiny_model(), prompt_of(1, 4), 5, temperature=3.0, seed=11, request_id=7)
    assert out == tokens[4:]


@pytest.mark.parametrize(
    ("prompt", "max_new", "temperature", "words"),
    [
        ([], 1, 0, "empty prompt"),
        ([1], 1, float("nan"), "temperature is nan"),
    ],
)
def test_what_no_engine_would_serve_is_refused(
    prompt: list[int], max_new: int, temperature: float, words: str
):
    with pytest.raises(ValueError, match=words):
        generate(tiny_model(), prompt, max_new, temperature=temperature)


def test_the_tiny_model_writes_texts_that_differ_by_prompt_seed_and_id():
    """Else every comparison with it would prove nothing."""
    texts = [generate(tiny_model(), prompt_of(i, 6), 10) for i in range(6)]
    for seed, name in [(0, 0), (1, 0), (0, 1)]:
        texts.append(
            generate(tiny_model(), prompt_of(0, 6), 10, temperature=5.0, seed=seed, request_id=name)
        )
    assert len({tuple(text) for text in texts}) == 9
    assert sum(len(set(text)) > 3 for text in texts) >= 7

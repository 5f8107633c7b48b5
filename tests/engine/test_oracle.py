"""The oracle: greedy by hand, sampling by named draws, and the same refusals as the engine's."""

import pytest
import torch
from fakes import prompt_of, tiny_model

from nanogpt.posts.oracle import generate
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


def test_seed_and_request_id_change_a_sampled_text_and_not_a_greedy_one():
    prompt = prompt_of(2, 4)

    def texts(temperature: float) -> set[tuple[int, ...]]:
        return {
            tuple(
                generate(
                    tiny_model(), prompt, 12,
                    temperature=temperature, seed=seed, request_id=name,
                )
            )
            for seed, name in [(0, 0), (1, 0), (0, 1)]
        }  # fmt: skip

    assert len(texts(5.0)) == 3
    assert len(texts(0.0)) == 1


def test_the_last_token_may_follow_a_full_context():
    assert len(generate(tiny_model(), prompt_of(0, 60), 5)) == 5
    assert len(generate(tiny_model(), prompt_of(0, 64), 1)) == 1


@pytest.mark.parametrize(
    ("prompt", "max_new", "words"),
    [
        ([], 1, "empty prompt"),
        ([65], 1, r"token 65, outside the vocabulary 0\.\.64"),
        ([-1], 1, "token -1"),
        ([1] * 65, 1, "prompt of 65 tokens, longer than the context of 64"),
        ([1] * 60, 6, r"60 \+ 6 - 1 = 65 positions, more than the context of 64"),
        ([1], 0, "max_new_tokens is 0"),
    ],
)
def test_what_no_engine_would_serve_is_refused(prompt: list[int], max_new: int, words: str):
    with pytest.raises(ValueError, match=words):
        generate(tiny_model(), prompt, max_new)


def test_a_temperature_that_is_not_a_number_is_refused():
    with pytest.raises(ValueError, match="temperature is nan"):
        generate(tiny_model(), [1], 1, temperature=float("nan"))


def test_the_tiny_model_writes_texts_that_differ():
    """Else every comparison with it would prove nothing."""
    texts = [generate(tiny_model(), prompt_of(i, 6), 10) for i in range(6)]
    assert len({tuple(text) for text in texts}) == 6
    assert sum(len(set(text)) > 3 for text in texts) >= 4

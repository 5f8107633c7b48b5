"""The model: against attention written as plain loops, causality, and its loss."""

import math

import pytest
import torch
from fakes import TINY, assert_close, prompt_of, tiny_model
from torch import Tensor

from nanogpt import GPT, ModelConfig, generate
from nanogpt.sampling import uniform

TOKENS = torch.tensor([[3, 60, 0, 17, 17, 42, 9, 64]])


def layer_norm(row: Tensor, gain: Tensor) -> Tensor:
    centred = row - row.mean()
    return centred / (centred.pow(2).mean() + 1e-5).sqrt() * gain


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def forward_in_loops(model: GPT, tokens: list[int]) -> Tensor:
    """Logits (T, V), one token and one head at a time, from the weights alone."""
    weights = model.state_dict()
    heads, size = model.config.num_heads, model.config.head_size
    token_table = weights["token_embedding.weight"]
    rows = [
        token_table[token] + weights["position_embedding.weight"][position]
        for position, token in enumerate(tokens)
    ]
    for layer in range(model.config.num_layers):
        mine = {
            name.removeprefix(f"blocks.{layer}."): weight
            for name, weight in weights.items()
            if name.startswith(f"blocks.{layer}.")
        }
        normed = [layer_norm(row, mine["ln_1.weight"]) for row in rows]
        q, k, v = ([part @ row for row in normed] for part in mine["qkv.weight"].chunk(3))
        for t in range(len(rows)):
            mixed: list[Tensor] = []
            for head in range(heads):
                own = slice(head * size, (head + 1) * size)
                scores = torch.stack([q[t][own] @ k[s][own] for s in range(t + 1)])
                shares = (scores / math.sqrt(size)).softmax(0)
                mixed.append(sum(shares[s] * v[s][own] for s in range(t + 1)))  # pyright: ignore
            rows[t] = rows[t] + mine["proj.weight"] @ torch.cat(mixed)
        for t, row in enumerate(rows):
            inner = gelu(mine["up.weight"] @ layer_norm(row, mine["ln_2.weight"]))
            rows[t] = row + mine["down.weight"] @ inner
    return torch.stack([token_table @ layer_norm(row, weights["ln_f.weight"]) for row in rows])


def test_the_forward_pass_equals_attention_written_as_loops_for_each_row_of_a_batch():
    batch = torch.cat([TOKENS, (TOKENS + 5) % 65])
    logits, _ = tiny_model()(batch)
    for row, tokens in zip(logits, batch.tolist(), strict=True):
        expected = forward_in_loops(tiny_model(), tokens)
        assert_close(row, expected)


def test_the_loss_is_the_mean_negative_log_probability_and_reaches_every_weight():
    targets = TOKENS.roll(-1, dims=1)
    model = GPT(TINY)
    logits, loss = model(TOKENS, targets)
    chances = logits[0].detach().softmax(-1)
    by_hand = [-math.log(chances[t, targets[0, t]]) for t in range(TOKENS.shape[1])]
    assert loss.item() == pytest.approx(sum(by_hand) / len(by_hand), rel=1e-5)
    assert loss.item() == pytest.approx(math.log(65), abs=0.2), "it knows nothing yet"
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_sizes_that_cannot_be_are_refused_with_their_numbers():
    with pytest.raises(ValueError, match=r"65 tokens do not fit the context of 64"):
        tiny_model()(torch.zeros(1, 65, dtype=torch.long))
    for name in ("num_layers", "num_heads", "num_channels", "max_model_len", "vocab_size"):
        with pytest.raises(ValueError, match=f"{name} is 0; it must be at least 1"):
            ModelConfig(**{name: 0})
    with pytest.raises(ValueError, match="130 channels do not split evenly into 4 heads"):
        ModelConfig(num_channels=130)


# ---------------------------------------------------------------- the oracle


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

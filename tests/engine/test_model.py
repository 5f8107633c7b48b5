"""The model: against attention written as plain loops, causality, and its loss."""

import math

import pytest
import torch
from fakes import TINY, tiny_model
from torch import Tensor

from nanogpt.checkpoints.weights import SHAKESPEARE
from nanogpt.config import ModelConfig
from nanogpt.model import GPT

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


def test_the_forward_pass_equals_attention_written_as_loops():
    logits, _ = tiny_model()(TOKENS)
    expected = forward_in_loops(tiny_model(), TOKENS[0].tolist())
    torch.testing.assert_close(logits[0], expected, rtol=1e-9, atol=1e-9)


def test_a_later_token_never_changes_an_earlier_logit():
    before, _ = tiny_model()(TOKENS)
    for changed in range(1, TOKENS.shape[1]):
        other = TOKENS.clone()
        other[0, changed] = (other[0, changed] + 1) % 65
        after, _ = tiny_model()(other)
        torch.testing.assert_close(after[0, :changed], before[0, :changed], rtol=1e-12, atol=1e-12)
        assert not torch.allclose(after[0, changed], before[0, changed])


def test_rows_of_a_batch_do_not_see_each_other():
    other = (TOKENS + 5) % 65
    both, _ = tiny_model()(torch.cat([TOKENS, other]))
    alone, _ = tiny_model()(other)
    torch.testing.assert_close(both[1:], alone)


def test_the_loss_is_the_mean_negative_log_probability_of_the_targets():
    targets = TOKENS.roll(-1, dims=1)
    logits, loss = tiny_model()(TOKENS, targets)
    chances = logits[0].softmax(-1)
    by_hand = [-math.log(chances[t, targets[0, t]]) for t in range(TOKENS.shape[1])]
    assert loss is not None
    assert float(loss) == pytest.approx(sum(by_hand) / len(by_hand), rel=1e-9)


def test_a_model_that_knows_nothing_loses_log_65():
    model = GPT(TINY)
    with torch.no_grad():
        model.token_embedding.weight.zero_()
        _, loss = model(TOKENS, TOKENS)
    assert loss is not None
    assert float(loss) == pytest.approx(math.log(65), rel=1e-6)


def test_training_lowers_the_loss_on_a_known_sequence():
    torch.manual_seed(0)
    model = GPT(TINY)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03)
    losses: list[float] = []
    for _ in range(35):
        _, loss = model(TOKENS[:, :-1], TOKENS[:, 1:])
        assert loss is not None
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(math.log(65), abs=0.2)
    assert losses[-1] < 0.1


def test_every_weight_is_reached_by_the_gradient():
    model = GPT(TINY)
    _, loss = model(TOKENS, TOKENS.roll(-1, dims=1))
    assert loss is not None
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_more_tokens_than_the_context_are_refused_with_both_numbers():
    with pytest.raises(ValueError, match=r"65 tokens do not fit the context of 64"):
        tiny_model()(torch.zeros(1, 65, dtype=torch.long))


def test_the_character_size_has_10_8_million_parameters():
    with torch.device("meta"):
        count = sum(
            p.numel()
            for p in GPT(ModelConfig(num_layers=6, num_heads=6, num_channels=384)).parameters()
        )
    assert count == 65 * 384 + 512 * 384 + 6 * (12 * 384 * 384 + 2 * 384) + 384


def test_the_shipped_size_is_the_one_of_the_course():
    assert ModelConfig(4, 4, 128, 512, 65) == SHAKESPEARE
    assert SHAKESPEARE.head_size == 32


@pytest.mark.parametrize(
    "name", ["num_layers", "num_heads", "num_channels", "context_len", "vocab_size"]
)
def test_a_size_below_one_is_refused_by_name(name: str):
    with pytest.raises(ValueError, match=f"{name} is 0; it must be at least 1"):
        ModelConfig(**{name: 0})


def test_channels_must_split_evenly_into_heads():
    with pytest.raises(ValueError, match="130 channels do not split evenly into 4 heads"):
        ModelConfig(num_channels=130)

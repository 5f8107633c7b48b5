"""Other products of Linear layers: prepacked ones where they are quicker, or 8-bit integers."""

import sys

import pytest
import torch
import torch.nn.functional as F
from fakes import assert_close, tiny_model

from nanogpt import GPT, Engine, EngineConfig, ModelConfig, Request, encode, load_model
from nanogpt.executors import prepacked
from nanogpt.executors.int8 import FEWER_STEPS, Int8Backend, Int8Executor, exact_steps
from nanogpt.executors.prepacked import PrepackedBackend, backend_for, is_available
from nanogpt.model import PLAIN

# Those of every processor, and those of this one.
IN_STEPS = pytest.mark.parametrize("steps", sorted({FEWER_STEPS, exact_steps()}))
PROMPT = encode("First Citizen:\nBefore we proceed any further, hear me speak.\n")


def float32_model() -> GPT:
    torch.manual_seed(3)
    config = ModelConfig(num_layers=2, num_heads=2, num_channels=384, max_model_len=64)
    return GPT(config).eval().requires_grad_(False)


def layer_of(weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.nn.Linear:
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias is not None)
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    layer.bias = None if bias is None else torch.nn.Parameter(bias, requires_grad=False)
    return layer


@pytest.mark.parametrize("kind", [PrepackedBackend, Int8Backend])
def test_a_weight_that_is_changed_in_place_is_prepared_anew(kind, monkeypatch):
    monkeypatch.setattr(prepacked, "rows_to_win", lambda *shape: 1)
    layer, x, products = layer_of(torch.ones(384, 384)), torch.ones(3, 384), kind()
    for factor in (1, 2):
        layer.weight[:] = factor
        assert_close(products.linear(x, layer), torch.full((3, 384), 384.0 * factor), 1e-6)


# ---------------------------------------------------------------- prepacked


@pytest.mark.parametrize(("num_rows", "shape"), [(1, (1152, 384)), (33, (65, 384))])
@pytest.mark.parametrize("biased", [False, True])
def test_each_product_gives_the_plain_ones_numbers(shape, num_rows, biased, monkeypatch):
    monkeypatch.setattr(prepacked, "rows_to_win", lambda *shape: 1)
    monkeypatch.setattr(prepacked, "FEWEST", 0)
    generator = torch.Generator().manual_seed(num_rows)
    weight = torch.randn(*shape, generator=generator) / shape[1] ** 0.5
    x = torch.randn(num_rows, shape[1], generator=generator)
    residual = torch.randn(num_rows, shape[0], generator=generator)
    bias = torch.randn(shape[0], generator=generator) * biased
    layer, products = layer_of(weight, bias if biased else None), PrepackedBackend()
    exact = F.linear(x.double(), weight.double(), bias.double())
    close = {"rtol": 1e-5, "atol": 1e-5}
    assert_close(products.linear(x, layer).double(), exact, **close)
    assert_close(products.add(residual, x, layer).double(), residual + exact, **close)
    for form in ("none", "tanh"):
        gelu = F.gelu(exact, approximate=form)
        assert_close(products.gelu(x, layer, form).double(), gelu, **close)
    assert len(products.prepacked) == 1


@pytest.mark.parametrize(("wins_from", "found"), [(4, 4), (99, sys.maxsize)])
def test_the_measurement_finds_the_fewest_rows_that_win_once(monkeypatch, wins_from, found):
    prepacked.rows_to_win.cache_clear()
    state = torch.get_rng_state()

    def seconds(product, x, weight) -> float:
        product(x, weight)
        return 1.0 if product is F.linear else 2.0 if len(x) < wins_from else 0.5

    monkeypatch.setattr(prepacked, "seconds", seconds)
    assert prepacked.rows_to_win(384, 384, 1) == found
    monkeypatch.setattr(prepacked, "seconds", None)
    assert prepacked.rows_to_win(384, 384, 1) == found, "as measured before"
    assert torch.equal(torch.get_rng_state(), state), "no random number was drawn"
    prepacked.rows_to_win.cache_clear()


def test_float64_and_weights_without_a_version_keep_the_plain_products(monkeypatch):
    assert is_available() == torch.backends.mkldnn.is_available(), "private names of this PyTorch"
    assert isinstance(backend_for(float32_model()), PrepackedBackend)
    with torch.inference_mode():
        made_there = float32_model()
    for model in (tiny_model(), made_there):
        assert backend_for(model) is PLAIN
    monkeypatch.setattr(prepacked, "is_available", lambda: False)
    assert backend_for(float32_model()) is PLAIN


# ---------------------------------------------------------------- 8-bit integers


@IN_STEPS
def test_an_int8_product_is_the_exact_one_within_a_step_of_each_factor(steps: int):
    generator, num_rows = torch.Generator().manual_seed(0), 7
    weight = torch.randn(96, 48, generator=generator) * torch.logspace(-3, 1, 96).unsqueeze(1)
    x = torch.randn(num_rows, 48, generator=generator)
    residual = torch.randn(num_rows, 96, generator=generator)
    bias = torch.randn(96, generator=generator)
    exact = F.linear(x.double(), weight.double())
    # Half a step of either factor, in every one of the 48 terms.
    scales, step = weight.abs().amax(1) / 127, x.abs().max() / steps
    off = (step * weight.abs().sum(1) + scales * x.abs().sum(1, keepdim=True)) / 2 + 1e-4
    products, layer, biased = Int8Backend(steps), layer_of(weight), layer_of(weight, bias)
    assert ((products.linear(x, layer) - exact).abs() <= off * 1.05).all()
    assert ((products.linear(x, biased) - bias - exact).abs() <= off * 1.05).all()
    assert ((products.add(residual, x, layer) - residual - exact).abs() <= off * 1.05).all()
    gelu = F.gelu(products.linear(x, biased), approximate="tanh")
    assert ((products.gelu(x, biased, "tanh") - gelu).abs() < 1e-4).all()


@IN_STEPS
def test_whole_numbers_within_the_steps_are_exact_up_to_the_largest_sum(steps: int):
    weight = torch.randint(-127, 128, (32, 384)).float()
    weight[:, 0] = 127
    x = torch.randint(-steps, steps + 1, (5, 384)).float()
    x[0, 0] = -steps
    assert torch.equal(Int8Backend(steps).linear(x, layer_of(weight)), F.linear(x, weight))
    for sign in (1, -1):
        largest = torch.full((3, 384), float(sign * steps))
        product = Int8Backend(steps).linear(largest, layer_of(torch.full((32, 384), 127.0)))
        assert product.eq(sign * 384 * 127 * steps).all()


def test_zeros_give_zeros_and_what_is_not_finite_stays_so():
    """An engine finds a request's broken logits by that."""
    assert Int8Backend().linear(torch.zeros(2, 16), layer_of(torch.zeros(16, 16))).eq(0).all()
    for broken in (float("nan"), float("inf"), -float("inf")):
        x = torch.ones(2, 16)
        x[1, 3] = broken
        assert not Int8Backend().linear(x, layer_of(torch.ones(16, 16))).isfinite().all()


def test_an_int8_engine_writes_nearly_the_same_shakespeare():
    """Over a text of the float32 engine's own: how often the next character is the same."""
    model, config = load_model(), EngineConfig(token_budget=128, max_batch_size=4)
    float32 = Engine(model, config).run([(0, Request(0, PROMPT, 80))])
    text = [*PROMPT, *float32.generated_tokens(0)]
    requests = [Request(i, text[: len(PROMPT) + 2 * i], 1) for i in range(40)]
    trace = Engine(model, config, make_executor=Int8Executor).run([(0, r) for r in requests])
    assert trace.executor == Int8Executor.name
    same = [request.generated_tokens == [text[len(request.prompt_tokens)]] for request in requests]
    assert 34 <= sum(same) <= 40


def test_a_model_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ValueError, match=r"the model is torch.float64 on cpu; int8 products need"):
        Engine(tiny_model(), make_executor=Int8Executor)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    with pytest.raises(ValueError, match="this PyTorch has no oneDNN"):
        Engine(load_model(), make_executor=Int8Executor)

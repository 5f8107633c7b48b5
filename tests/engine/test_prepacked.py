"""Prepacked products: the plain ones' numbers, taken where they were measured to be the quicker."""

import sys

import pytest
import torch
import torch.nn.functional as F
from fakes import tiny_model

from nanogpt import Engine, EngineConfig, Request
from nanogpt.config import ModelConfig
from nanogpt.executors import prepacked
from nanogpt.executors.packed import PackedExecutor
from nanogpt.executors.prepacked import PrepackedProducts, is_available, products_for
from nanogpt.model import GPT, PLAIN

SHAPES = [(1152, 384), (384, 384), (1536, 384), (384, 1536), (65, 384)]


def float32_model() -> GPT:
    torch.manual_seed(3)
    config = ModelConfig(num_layers=2, num_heads=2, num_channels=384, context_len=64)
    return GPT(config).eval().requires_grad_(False)


def layer_of(weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.nn.Linear:
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias is not None)
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    layer.bias = None if bias is None else torch.nn.Parameter(bias, requires_grad=False)
    return layer


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Prepacked products win from one row on; -> the shapes that were asked about."""
    asked: list[tuple[int, ...]] = []

    def rows_to_win(*shape_and_threads: int) -> int:
        asked.append(shape_and_threads)
        return 1

    monkeypatch.setattr(prepacked, "rows_to_win", rows_to_win)
    monkeypatch.setattr(prepacked, "FEWEST", 0)
    return asked


def test_the_operations_are_where_this_pytorch_has_them():
    """Private names: when PyTorch moves them the engine is slower, and this says so."""
    assert is_available() == torch.backends.mkldnn.is_available()


@pytest.mark.parametrize("num_rows", [1, 2, 7, 33])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("biased", [False, True])
def test_each_product_gives_the_plain_one_s_numbers(shape, num_rows, biased, always):
    generator = torch.Generator().manual_seed(num_rows)
    weight = torch.randn(*shape, generator=generator) / shape[1] ** 0.5
    x = torch.randn(num_rows, shape[1], generator=generator)
    residual = torch.randn(num_rows, shape[0], generator=generator)
    bias = torch.randn(shape[0], generator=generator) if biased else torch.zeros(shape[0])
    layer = layer_of(weight, bias if biased else None)
    products, exact = PrepackedProducts(), F.linear(x.double(), weight.double(), bias.double())
    close = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(products.linear(x, layer).double(), exact, **close)
    torch.testing.assert_close(products.add(residual, x, layer).double(), residual + exact, **close)
    for form in ("none", "tanh"):
        gelu = F.gelu(exact, approximate=form)
        torch.testing.assert_close(products.gelu(x, layer, form).double(), gelu, **close)
    assert always == [(*shape, torch.get_num_threads())]


@pytest.mark.parametrize(("form", "other"), [("none", "tanh"), ("tanh", "none")])
def test_gelu_is_of_the_form_that_is_asked_for(form, other, always):
    x = torch.linspace(-3, 3, 64).unsqueeze(1)
    got = PrepackedProducts().gelu(x, layer_of(torch.ones(1, 1)), form)
    assert (got - F.gelu(x, approximate=form)).abs().max() < 1e-5
    assert (got - F.gelu(x, approximate=other)).abs().max() > 1e-4


def test_a_weight_that_is_changed_in_place_is_prepacked_anew(always):
    layer, x, products = layer_of(torch.ones(384, 384)), torch.ones(2, 384), PrepackedProducts()
    assert products.linear(x, layer).unique().tolist() == [384.0]
    layer.weight[:] = 2
    assert products.linear(x, layer).unique().tolist() == [768.0]
    assert len(products.prepacked) == 1


def test_a_small_product_is_the_plain_one_and_nothing_is_measured(monkeypatch):
    def never(*shape: int) -> int:
        raise AssertionError(shape)

    monkeypatch.setattr(prepacked, "rows_to_win", never)
    weight = torch.randn(512, 128)
    x = torch.randn(prepacked.FEWEST // weight.numel(), 128)
    products = PrepackedProducts()
    assert torch.equal(products.linear(x, layer_of(weight)), F.linear(x, weight))
    assert products.prepacked == {}


def test_below_the_measured_number_of_rows_the_plain_product_is_taken(monkeypatch):
    monkeypatch.setattr(prepacked, "rows_to_win", lambda *shape: 8)
    called: list[int] = []
    plain, quick = F.linear, prepacked.linear
    monkeypatch.setattr(
        prepacked, "linear", lambda x, *more: called.append(len(x)) or quick(x, *more)
    )
    layer, products = layer_of(torch.ones(1536, 384)), PrepackedProducts()
    for num_rows in (7, 8, 9):
        x = torch.ones(num_rows, 384)
        torch.testing.assert_close(products.linear(x, layer), plain(x, layer.weight))
    assert called == [8, 9]


def test_a_machine_on_which_they_never_win_is_measured_once_and_keeps_the_plain_ones(monkeypatch):
    prepacked.rows_to_win.cache_clear()
    monkeypatch.setattr(
        prepacked, "seconds", lambda product, x, weight: float(product is prepacked.linear)
    )
    assert prepacked.rows_to_win(384, 384, 1) == sys.maxsize
    monkeypatch.setattr(
        prepacked,
        "seconds",
        lambda product, x, weight: float((len(x) < 4) == (product is F.linear)),
    )
    assert prepacked.rows_to_win(384, 384, 1) == sys.maxsize  # as measured before
    prepacked.rows_to_win.cache_clear()


def test_the_measurement_finds_the_fewest_rows_and_draws_no_random_number(monkeypatch):
    prepacked.rows_to_win.cache_clear()
    state = torch.get_rng_state()

    def seconds(product, x, weight) -> float:
        product(x, weight)
        return 1.0 if product is F.linear else 2.0 if len(x) < 4 else 0.5

    monkeypatch.setattr(prepacked, "seconds", seconds)
    assert prepacked.rows_to_win(384, 384, 1) == 4
    assert torch.equal(torch.get_rng_state(), state)
    prepacked.rows_to_win.cache_clear()


def test_float64_and_weights_without_a_version_keep_the_plain_products(monkeypatch):
    assert isinstance(products_for(float32_model()), PrepackedProducts)
    assert products_for(tiny_model()) is PLAIN  # float64
    assert products_for(float32_model().to("meta")) is PLAIN
    with torch.inference_mode():
        made_there = float32_model()
    assert products_for(made_there) is PLAIN
    monkeypatch.setattr(prepacked, "is_available", lambda: False)
    assert products_for(float32_model()) is PLAIN


@pytest.mark.parametrize("threads", [1, 2])
def test_an_engine_s_logits_are_the_plain_engine_s_within_rounding(threads, always):
    """Every kind of step: chunks, decodes, neighbours and gaps between slots."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        quick, plain = (served(products) for products in (None, PLAIN))
    finally:
        torch.set_num_threads(before)
    assert len(quick) == len(plain) > 10
    for ours, theirs in zip(quick, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert len(set(always)) == 4


def served(products: object) -> list[torch.Tensor]:
    """The logits of every step of a run, with the executor's own products or with these."""
    logits: list[torch.Tensor] = []

    class Listening(PackedExecutor):
        def run(self, rows):
            if products is not None:
                self.products = products
            result = super().run(rows)
            logits.append(result.logits.clone())
            return result

    config = EngineConfig(token_budget=12, max_batch_size=4)
    engine = Engine(float32_model(), config, make_executor=Listening)
    asks = [(0, 9, 3), (0, 20, 9), (1, 5, 6), (2, 14, 7), (6, 8, 5)]
    engine.run([(at, Request(i, list(range(n)), new)) for i, (at, n, new) in enumerate(asks)])
    return logits

"""Products of 8-bit integers: near the exact ones, in a quarter of the memory."""

import pytest
import torch
import torch.nn.functional as F
from fakes import tiny_model

from nanogpt import Engine, EngineConfig, Request, generate, load_model
from nanogpt.checkpoints.tokenizer import encode
from nanogpt.executors.int8 import FEWER_STEPS, Int8Executor, Int8Products, exact_steps, rounded
from nanogpt.executors.packed import PackedExecutor


def layer_of(weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.nn.Linear:
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias is not None)
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    layer.bias = None if bias is None else torch.nn.Parameter(bias, requires_grad=False)
    return layer


# Those of every processor, and those of this one.
IN_STEPS = pytest.mark.parametrize("steps", sorted({FEWER_STEPS, exact_steps()}))
PROMPT = encode("First Citizen:\nBefore we proceed any further, hear me speak.\n")


@IN_STEPS
@pytest.mark.parametrize("num_rows", [1, 7, 64])
def test_a_product_is_the_exact_one_within_a_step_of_each_factor(num_rows: int, steps: int):
    generator = torch.Generator().manual_seed(num_rows)
    weight = torch.randn(96, 48, generator=generator) * torch.logspace(-3, 1, 96).unsqueeze(1)
    x = torch.randn(num_rows, 48, generator=generator)
    residual = torch.randn(num_rows, 96, generator=generator)
    exact = F.linear(x.double(), weight.double())
    # Half a step of either factor, in every one of the 48 terms.
    scales = weight.abs().amax(1) / 127
    step = x.abs().max() / steps
    off = (step * weight.abs().sum(1) + scales * x.abs().sum(1, keepdim=True)) / 2 + 1e-4
    products, bias = Int8Products(steps), torch.randn(96, generator=generator)
    layer, biased = layer_of(weight), layer_of(weight, bias)
    assert ((products.linear(x, layer) - exact).abs() <= off * 1.05).all()
    assert ((products.linear(x, biased) - bias - exact).abs() <= off * 1.05).all()
    assert ((products.add(residual, x, layer) - residual - exact).abs() <= off * 1.05).all()
    for form in ("none", "tanh"):
        gelu = F.gelu(products.linear(x, biased), approximate=form)
        assert ((products.gelu(x, biased, form) - gelu).abs() < 1e-4).all()


@IN_STEPS
def test_whole_numbers_within_the_steps_are_exact(steps: int):
    weight = torch.randint(-127, 128, (32, 16)).float()
    weight[:, 0] = 127
    x = torch.randint(-steps, steps + 1, (5, 16)).float()
    x[0, 0] = -steps
    assert torch.equal(Int8Products(steps).linear(x, layer_of(weight)), F.linear(x, weight))


@IN_STEPS
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_products_of_all_add_up(steps: int, sign: int):
    weight, x = torch.full((32, 384), 127.0), torch.full((3, 384), float(sign * steps))
    products = Int8Products(steps).linear(x, layer_of(weight))
    assert products.eq(sign * 384 * 127 * steps).all()


def test_inputs_and_rows_of_zeros_give_zeros():
    weight = torch.zeros(16, 16)
    weight[0] = 3.0
    assert Int8Products().linear(torch.zeros(2, 16), layer_of(weight)).eq(0).all()
    ones = Int8Products().linear(torch.ones(2, 16), layer_of(weight))
    assert ones[0, 0].item() == pytest.approx(48) and ones[:, 1:].eq(0).all()


def test_an_input_that_is_not_finite_does_not_come_out_as_a_number():
    """An engine finds a request's broken logits by that."""
    for broken in (float("nan"), float("inf"), -float("inf")):
        x = torch.ones(2, 16)
        x[1, 3] = broken
        assert not Int8Products().linear(x, layer_of(torch.ones(16, 16))).isfinite().all()


def test_a_weight_that_is_changed_in_place_is_rounded_anew():
    layer, x, products = layer_of(torch.ones(16, 16)), torch.ones(2, 16), Int8Products()
    before = products.linear(x, layer)
    layer.weight.mul_(2)
    assert torch.allclose(products.linear(x, layer), 2 * before)
    assert rounded(layer.weight).steps.element_size() == 1


def test_an_engine_writes_nearly_the_same_shakespeare():
    """Greedy, over a text of the float32 engine's own: how often the next character is the same."""
    model = load_model()
    text = PROMPT + generate(model, PROMPT, 200)
    same = sum(
        step_after(model, text[:cut], Int8Executor) == text[cut]
        for cut in range(len(PROMPT), len(text), 5)
    )
    assert 36 <= same <= 40  # of 40


def step_after(model, prompt: list[int], make_executor) -> int:
    engine = Engine(model, EngineConfig(token_budget=512), make_executor=make_executor)
    trace = engine.run([(0, Request(0, prompt, 1))])
    assert trace.executor == make_executor.name
    return trace.generated_tokens(0)[0]


def test_requests_in_one_batch_are_all_served_and_most_tokens_are_the_same():
    model = load_model()
    config = EngineConfig(token_budget=32, max_batch_size=4)
    texts = []
    for make_executor in (Int8Executor, PackedExecutor):
        requests = [Request(i, PROMPT[i:], 12) for i in range(6)]
        Engine(model, config, make_executor=make_executor).run([(0, each) for each in requests])
        texts.append([request.generated_tokens for request in requests])
    assert [len(text) for text in texts[0]] == [12] * 6
    assert sum(ours[0] == theirs[0] for ours, theirs in zip(*texts, strict=True)) >= 4


def test_a_model_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ValueError, match=r"the model is torch.float64 on cpu; int8 products need"):
        Engine(tiny_model(), make_executor=Int8Executor)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    with pytest.raises(ValueError, match="this PyTorch has no oneDNN"):
        Engine(load_model(), make_executor=Int8Executor)

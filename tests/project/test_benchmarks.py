"""The benchmarks: every contender writes the oracle's tokens, and each module runs once."""

import copy
import importlib.util
from typing import Any

import pytest
import torch
from tiers import some

from benchmarks.loads import Load, decode, mixed
from nanogpt.config import ModelConfig
from nanogpt.model import GPT
from nanogpt.posts.oracle import generate

SMALL = Load("small", ((3, 1, 4), (1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7), (9, 3)), 6, token_budget=4)


@pytest.fixture(scope="module")
def model() -> GPT:
    torch.manual_seed(1)
    gpt = GPT(
        ModelConfig(num_layers=2, num_heads=2, num_channels=16, max_model_len=32, vocab_size=11)
    )
    for parameter in gpt.parameters():
        parameter.data.mul_(4)  # sharper logits than an untrained model's: tokens differ by context
    return gpt.double().eval().requires_grad_(False)


def oracle(model: GPT, **window: int) -> list[list[int]]:
    return [generate(model, prompt, SMALL.max_new_tokens, **window) for prompt in SMALL.prompts]


CONTENDERS = ("packed", "padded", "invariant", "baseline", "baseline-256", "fused", "fused-256")


@pytest.mark.parametrize("name", some([*CONTENDERS, "transformers"], 2))
def test_every_contender_generates_the_oracles_tokens(model: GPT, name: str) -> None:
    from benchmarks.contenders import CONTENDERS

    if name == "transformers" and importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    contender = next(each for each in CONTENDERS if each.name == name)
    assert contender.prepare(model)(SMALL) == oracle(model)


@pytest.mark.nightly
def test_windows_blocks_and_peers_write_the_oracles_tokens(model: GPT) -> None:
    from benchmarks import blocks, peers, window
    from benchmarks.contenders import run_engine

    def texts(served: Any) -> list[list[int]]:
        return [list(served.generated_tokens(number)) for number in range(3)]

    for storage in window.STORAGES:
        served = run_engine(window.engine_for(model, SMALL, 3, "packed", storage), SMALL)
        width = {} if storage == "full" else {"sliding_window": 3}
        assert texts(served) == oracle(model, **width), storage
    for each in blocks.engines_for(model, SMALL).values():
        assert texts(run_engine(each, SMALL)) == oracle(model)
    for name, (module, prepare) in peers.PEERS.items():
        if importlib.util.find_spec(module) is not None:
            assert prepare(copy.deepcopy(model).float())(SMALL) == oracle(model), name


def test_contenders_take_turns_at_loads_of_known_size() -> None:
    from benchmarks.measure import interleave

    turns: list[str] = []
    timings = interleave({name: lambda n=name: turns.append(n) for name in "ab"}, repeats=2)
    assert turns == ["a", "b"] * 3, "the first round is not counted"
    assert {name: len(timing.wall_s) for name, timing in timings.items()} == {"a": 2, "b": 2}
    lengths = sorted(map(len, mixed(8, max_new_tokens=3).prompts))
    assert (len(lengths), lengths[0], lengths[-1]) == (8, 8, 200)
    load = decode(32, max_new_tokens=10)
    assert {len(prompt) for prompt in load.prompts} == {8} and load.num_generated == 320


def test_a_target_is_the_ratio_of_two_speeds_and_a_fit_finds_the_costs() -> None:
    from benchmarks import calibrate, engine, side_by_side

    speeds = {"packed": 300.0, "baseline": 100.0, "fused": 50.0, "products": 500.0}
    rows = [
        side_by_side.Timed("character", 1, mixed(8, 1), name, (8 / speed,), None)
        for name, speed in speeds.items()
    ]
    targets = [(wanted, measured) for _, wanted, measured in engine.targets(rows)]
    assert targets == pytest.approx([(3.0, 3.0), (5.0, 6.0), (0.5, 0.6)])
    steps = calibrate.sweep()
    costs = [500 + 20 * step.tokens + 0.5 * step.context for step in steps]
    assert calibrate.fit(steps, costs) == pytest.approx((500, 20, 0.5))
    costs = [500 + 20 * step.tokens - 0.01 * step.context for step in steps]
    assert calibrate.fit(steps, costs)[2] == 0, "no cost is negative"

"""One forward per step: how many there are, what padding costs, and whose layout acts where."""

from typing import Any

import pytest
import torch
from fakes import prompt_of, tiny_model
from lockstep import served_by
from torch import Tensor

from nanogpt import GPT, Engine, EngineConfig, Policies, Request, interleaved_generate
from nanogpt.config import EXECUTORS
from nanogpt.policies.fusing import full_mask, pack, prepare_inputs, split_kv

# ---------------------------------------------------------------- one call of the model per step


@pytest.mark.parametrize("executor", ["fused", "single_mask", "packed"])
@pytest.mark.parametrize(("token_budget", "max_prefilling"), [(1, None), (4, 1), (100, None)])
def test_a_step_is_exactly_one_call_of_the_model(
    executor: str, token_budget: int, max_prefilling: int | None, monkeypatch: pytest.MonkeyPatch
):
    shapes, hidden = list[tuple[int, ...]](), GPT.hidden

    def counted(model: GPT, tokens: Tensor, *others: Any) -> Tensor:
        shapes.append(tuple(tokens.shape))
        return hidden(model, tokens, *others)

    monkeypatch.setattr(GPT, "hidden", counted)
    mix = [(9, 6), (21, 3), (1, 8), (14, 1), (4, 5)]
    requests = [Request(i, prompt_of(i, n), new, priority=i % 2) for i, (n, new) in enumerate(mix)]
    limits = {"max_prefilling": max_prefilling, "executor": executor}
    trace = interleaved_generate(tiny_model(), requests, "fcfs", token_budget, 60, **limits).trace
    assert trace is not None
    for shape, step in zip(shapes, trace.steps, strict=True):
        longest = max(work.end - work.start for work in step.work)
        fused = (len(step.work), longest)
        assert shape == (fused if executor == "fused" else (step.used_tokens,))


def test_padding_is_what_a_fused_step_costs():
    """The post's step: three decodes beside a chunk of eight, 11 useful tokens and 32 computed."""
    costs: dict[str, list[tuple[int, int, int]]] = {}
    for executor in EXECUTORS:
        engine = Engine(tiny_model(), EngineConfig(40, executor=executor))
        for i, length in enumerate([22, 15, 3]):
            engine.submit(Request(i, prompt_of(i, length), 9))
        engine.step()
        engine.submit(Request(3, prompt_of(3, 8), 9))
        forwards = engine.step().forwards
        costs[executor] = [(f.useful_tokens, f.prefill_tokens, f.computed_tokens) for f in forwards]
    assert costs == {
        "packed": [(11, 8, 11)],
        "compiled": [(11, 8, 11)],
        "batch_invariant": [(11, 8, 16)],
        "single_mask": [(11, 8, 11)],
        "fused": [(11, 8, 32)],
        "padded": [(8, 8, 8), (3, 0, 3)],
    }


# ---------------------------------------------------------------- wrong layouts


def one_further(*batch: Any) -> Any:
    """Every token stands one position further than it does."""
    tokens, positions = prepare_inputs(*batch)
    return tokens, [[position + 1 for position in row] for row in positions]


BUGS = [
    ("fused", "full_mask", full_mask, lambda *batch: torch.ones_like(full_mask(*batch))),
    ("fused", "prepare_inputs", prepare_inputs, one_further),
    ("fused", "split_kv", split_kv, lambda *batch: [kv.flip(0) for kv in split_kv(*batch)]),
    ("single_mask", "pack", pack, lambda *rows: (*pack(*rows)[:2], pack(*rows)[2] | True)),
]


@pytest.mark.parametrize(
    ("executor", "name", "reference", "bug"), BUGS, ids=[name for _, name, *_ in BUGS]
)
def test_a_wrong_layout_flips_tokens_in_the_executor_that_asks_for_it_and_no_other(
    executor: str, name: str, reference: Any, bug: Any
):
    def flips(executor: str, part: Any) -> int:
        asks = [(0, 6, 9, 0), (0, 3, 9, 0), (2, 20, 3, 0), (4, 15, 5, 0)]
        return served_by(Policies(**{name: part}), EngineConfig(8, executor=executor), asks)[1]

    assert flips(executor, lambda *args: reference(*args)) == 0
    for each in EXECUTORS:
        assert (flips(each, bug) >= 3) == (each == executor)

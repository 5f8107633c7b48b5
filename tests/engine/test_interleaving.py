"""One forward per step: how many there are, what padding must not do, the post's bugs."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from fakes import prompt_of, tiny_model
from lockstep import served_by
from torch import Tensor

from nanogpt import Engine, EngineConfig, Policies, Request, interleaved_generate
from nanogpt.config import EXECUTORS
from nanogpt.model import GPT
from nanogpt.policies.fusing import full_mask, pack, prepare_inputs, split_kv

# ---------------------------------------------------------------- one call of the model per step


class CountingGPT(GPT):
    """The tiny model with a note of every call of `hidden`."""

    calls: list[tuple[int, ...]]

    def hidden(self, tokens: Tensor, *others: Any) -> Tensor:
        self.calls.append(tuple(tokens.shape))
        return super().hidden(tokens, *others)


def counting_model() -> CountingGPT:
    model = CountingGPT(tiny_model().config).double().eval().requires_grad_(False)
    model.load_state_dict(tiny_model().state_dict())
    model.calls = []
    return model


def mix_requests() -> list[Request]:
    mix = [(9, 6), (21, 3), (1, 8), (14, 1), (4, 5)]
    return [Request(i, prompt_of(i, n), new, priority=i % 2) for i, (n, new) in enumerate(mix)]


@pytest.mark.parametrize("executor", ["fused", "single_mask", "packed"])
@pytest.mark.parametrize(("token_budget", "max_prefilling"), [(1, None), (4, 1), (100, None)])
def test_a_step_is_exactly_one_call_of_the_model(
    executor: str, token_budget: int, max_prefilling: int | None
):
    model, limits = counting_model(), {"max_prefilling": max_prefilling, "executor": executor}
    scheduler = interleaved_generate(model, mix_requests(), "fcfs", token_budget, 60, **limits)
    assert scheduler.trace is not None
    for shape, step in zip(model.calls, scheduler.trace.steps, strict=True):
        longest = max(work.end - work.start for work in step.work)
        fused = (len(step.work), longest)
        assert shape == (fused if executor == "fused" else (step.used_tokens,))


def test_padding_is_what_a_fused_step_costs():
    """The post's step: three decodes beside a chunk of eight, 11 useful tokens and 32 computed."""
    costs: dict[str, list[tuple[int, int]]] = {}
    for executor in EXECUTORS:
        engine = Engine(tiny_model(), EngineConfig(40, executor=executor))
        for i, length in enumerate([22, 15, 3]):
            engine.submit(Request(i, prompt_of(i, length), 9))
        engine.step()
        engine.submit(Request(3, prompt_of(3, 8), 9))
        costs[executor] = [(f.useful_tokens, f.computed_tokens) for f in engine.step().forwards]
    assert costs == {
        "packed": [(11, 11)],
        "compiled": [(11, 11)],
        "batch_invariant": [(11, 16)],
        "single_mask": [(11, 11)],
        "fused": [(11, 32)],
        "padded": [(8, 8), (3, 3)],
    }


# ---------------------------------------------------------------- the posts' bugs, as parts


def new_valid_all_true(past_lens: Sequence[int], num_new: Sequence[int]) -> Tensor:
    """The post's mask: causal, padding blocked in the past and nowhere else."""
    longest_past, longest = max(past_lens), max(num_new)
    mask = torch.ones(len(num_new), longest, longest_past + longest).bool()
    mask[:, :, longest_past:] = torch.ones(longest, longest).tril().bool()
    for row, past in enumerate(past_lens):
        mask[row, :, : longest_past - past] = False
    return mask


def position_of_the_length(known: Any, cursors: Any, num_new: Any) -> Any:
    """ "22 tokens, so position 22": every decode stands one further than it does."""
    tokens, positions = prepare_inputs(known, cursors, num_new)
    for row, (cursor, n) in enumerate(zip(cursors, num_new, strict=True)):
        if n == 1 and cursor:
            positions[row][-1] += 1
    return tokens, positions


def split_from_one_end(k: Tensor, past_lens: Sequence[int], num_new: Sequence[int]) -> Any:
    """`disassemble_batch_cache`'s way: one cut in front, as if padding lay in one place."""
    return [
        k[row, max(past_lens) - past : max(past_lens) + new]
        for row, (past, new) in enumerate(zip(past_lens, num_new, strict=True))
    ]


def leaking_pack(past_lens: Sequence[int], num_new: Sequence[int]) -> Any:
    """One causal staircase for all: each row sees what stands before it."""
    cu_q, cu_k, _ = pack(past_lens, num_new)
    return cu_q, cu_k, torch.ones(cu_q[-1], cu_k[-1]).tril(cu_k[-1] - cu_q[-1]).bool()


BUGS = [
    ("fused", "full_mask", full_mask, new_valid_all_true),
    ("fused", "prepare_inputs", prepare_inputs, position_of_the_length),
    ("fused", "split_kv", split_kv, split_from_one_end),
    ("single_mask", "pack", pack, leaking_pack),
]


@pytest.mark.parametrize(
    ("executor", "name", "reference", "bug"), BUGS, ids=[bug.__name__ for *_, bug in BUGS]
)
def test_the_posts_bugs_flip_tokens_in_the_executor_that_asks_for_the_layout_and_no_other(
    executor: str, name: str, reference: Any, bug: Any
):
    def flips(executor: str, part: Any) -> int:
        asks = [(0, 6, 9, 0), (0, 3, 9, 0), (2, 20, 3, 0), (4, 15, 5, 0)]
        return served_by(Policies(**{name: part}), EngineConfig(8, executor=executor), asks)[1]

    assert flips(executor, lambda *args: reference(*args)) == 0
    for each in EXECUTORS:
        assert (flips(each, bug) >= 3) == (each == executor)

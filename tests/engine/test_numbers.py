"""Any number at any border of the engine: used rightly, or refused in one sentence at once."""

import copy
import json
import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from fakes import refusal, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from nanogpt import Engine, EngineConfig, ModelConfig, Policies, Request
from nanogpt.clock import SERVER_CPU, CostClock
from nanogpt.config import EXECUTORS, TimedKey
from nanogpt.slo import variants
from nanogpt.slo.load import POST_COST, Arrival, PrefillCost, two_tier_load
from nanogpt.slo.prefill_simulation import simulate

NUMBERS = [
    math.inf, -math.inf, math.nan, 1e300, -1e300, -0.0, 5e-324, 3.0, 10**400, -(10**400), 10**5000,
    -(10**5000), 2**63, 2**64, 2**53 + 1, True, np.int64(3), np.float64(2.0),
]  # fmt: skip
ENGINES = [
    EngineConfig(8, block_size=4, share_prefixes=True, max_kv_tokens=16, policy="priority"),
    EngineConfig(8, sliding_window=8, executor="fused"),
    EngineConfig(8, sliding_window=8, kv_storage="evict", executor="single_mask"),
]
SETTINGS = [f.name for f in fields(EngineConfig)]
LOAD: dict[str, Any] = {"seed": 0, "requests_per_s": 4, "duration_s": 2}
REQUEST: dict[str, Any] = {"id": 0, "prompt_tokens": [1, 2, 3], "max_new_tokens": 3}


def serve(
    config: EngineConfig = ENGINES[0], *, arrival: Any = 0, request: Any = (), **made: Any
) -> None:
    arrivals = [(arrival, Request(**REQUEST | dict(request))), (0, Request(1, [4] * 9, 3))]
    trace = Engine(tiny_model(), config, **made).run(arrivals, max_steps=60)
    json.dumps(trace.to_json(), allow_nan=False)


def prefill(cost: PrefillCost = POST_COST, **arrival: Any) -> None:
    usual = {"id": 0, "arrival_us": 0, "tokens": 900, "urgent": False, "slo_us": 10**6}
    first = Arrival(**usual | arrival)
    simulate([first, Arrival(1, 50_000, 100, True, 10**5)], variants.SUSPENDED, cost)


def with_number(policy: Callable[..., Any], place: int, number: Any) -> Callable[..., Any]:
    """The policy with one number of its answers, counted from the left, replaced."""

    def put(answer: Any, left: list[int]) -> Any:
        if isinstance(answer, list | tuple):
            return [put(each, left) for each in answer]  # pyright: ignore[reportUnknownVariableType]
        left[0] -= type(answer) in (int, float)
        return number if type(answer) in (int, float) and left[0] == -1 else answer

    return lambda *args: put(policy(*args), [place])


def borders(number: Any, config: EngineConfig, place: int) -> dict[str, Callable[[], object]]:
    """By name, what gives the number to the engine."""
    set_one = {name: {"num_sinks": {"sliding_window": 8}}.get(name, {}) for name in SETTINGS}
    draft = [0.0] * 64 + [number]
    return {
        "token": lambda: serve(request={"prompt_tokens": [1, number]}),
        "arrival": lambda: serve(arrival=number),
        "key": lambda: serve(replace(config, policy=lambda _: (number,))),
        "timed": lambda: serve(replace(config, policy=TimedKey(lambda _, step: (number, step)))),
        "max_steps": lambda: Engine(tiny_model()).run([], max_steps=number),
        "draft": lambda: serve(EngineConfig(num_draft_tokens=2), draft=lambda _: draft),
        **{f.name: lambda f=f: serve(request={f.name: number}) for f in fields(Request) if f.init},
        **{n: lambda n=n, o=o: serve(EngineConfig(**o | {n: number})) for n, o in set_one.items()},
        **{f.name: lambda f=f: ModelConfig(**{f.name: number}) for f in fields(ModelConfig)},
        **{n: lambda n=n: prefill(**{n: number}) for n in ("id", "arrival_us", "tokens", "slo_us")},
        **{n: lambda n=n: two_tier_load(**LOAD | {n: number}) for n in LOAD},
        "num_layers": lambda: prefill(replace(POST_COST, num_layers=number)),
        "request_us": lambda: prefill(replace(POST_COST, request_us=number)),
        **{
            f"{which} {f.name}": lambda f=f, run=run: run(
                replace(SERVER_CPU, **{f.name: number})
            )
            for f in fields(SERVER_CPU)[2:]
            for which, run in (
                ("clock", lambda model: serve(clock=CostClock(model))),
                ("prefill", lambda model: prefill(PrefillCost(model, 80))),
            )
        },
        **{
            f.name: lambda f=f: serve(
                config,
                policies=Policies(**{f.name: with_number(f.default, place, number)}),
            )
            for f in fields(Policies)
        },
    }  # fmt: skip


@examples(0.5)
@given(st.sampled_from(NUMBERS), st.sampled_from(ENGINES), st.integers(0, 3), st.data())
def test_a_number_is_used_rightly_or_refused_in_a_sentence(number, config, place, data):
    ways = borders(number, config, place)
    way = data.draw(st.sampled_from(sorted(ways)))
    said = refusal(ways[way]) or ""
    assert "\n" not in said and len(said) < 300
    assert "set_int_max_str_digits" not in said


@pytest.mark.parametrize("executor", EXECUTORS)
@examples(0.2)
@given(
    store=st.sampled_from([{}, {"block_size": 4}, {"sliding_window": 8, "block_size": 4}]),
    number=st.sampled_from([math.nan, math.inf]),
    budget=st.sampled_from([7, 64]),
)
def test_a_request_whose_logits_are_not_finite_leaves_alone(executor, store, number, budget):
    broken = copy.deepcopy(tiny_model())
    broken.position_embedding.weight.data[40] = number
    engine = Engine(broken, EngineConfig(budget, executor=executor, max_kv_tokens=256, **store))
    good = [Request(i, [1 + i, 2, 3 + i] * (i + 1), 6) for i in range(3)]
    bad = Request(9, [4] * 45, 3), Request(8, [1, 2, 3] * 12, 12)
    for request in (bad[0], *good, bad[1]):
        engine.submit(request)
    for _ in range(100):
        try:
            if not engine.scheduler.is_done():
                engine.step()
        except ValueError:
            pass
    assert [r.status for r in (*good, *bad)] == ["done"] * 3 + ["aborted"] * 2

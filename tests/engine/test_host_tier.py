"""The host tier: what is copied and loaded, when it pays, and what a failed step leaves."""

import dataclasses
from typing import Any

import fakes
import pytest
import torch
from fakes import prompt_of, snapshot, tiny_model
from lockstep import arrivals_of

from nanogpt import Engine, EngineConfig, Policies
from nanogpt.clock import CostClock
from nanogpt.executors.packed import PackedExecutor
from nanogpt.outputs import ModelOutput
from nanogpt.policies.blocks import block_hashes
from nanogpt.recorded_texts import RecordedTexts
from nanogpt.request import Request
from nanogpt.views.step_cost import Link

SETTINGS = EngineConfig(
    token_budget=64, max_kv_tokens=40, max_batch_size=2, block_size=4, share_prefixes=True,
    host_kv_tokens=80,
)  # fmt: skip
PREFIXES = [prompt_of(i, 16) for i in range(3)]
NAMES = [block_hashes(prefix, 4, "") for prefix in PREFIXES]


def turns(second: tuple[int, ...] = (36, 48, 60)) -> list[tuple[int, Request]]:
    """Three agents take two turns each; their texts together are larger than the pool."""
    texts = [[*PREFIXES[i % 3], *[7] * (i // 3)] for i in range(6)]
    steps = (0, 12, 24, *second)
    return [(step, Request(i, texts[i], 5)) for i, step in enumerate(steps)]


def run(*, clock: Any = None, arrivals: Any = None, **settings: Any) -> Any:
    config = dataclasses.replace(SETTINGS, **settings)
    engine = Engine(RecordedTexts(config=fakes.TINY), config, clock=clock)
    return engine.run(arrivals or turns())


def loads(trace: Any) -> dict[int, int]:
    """The blocks that each request loaded."""
    ids = [i for step in trace.steps for i, *_ in (step.host.loaded if step.host else ())]
    return {i: ids.count(i) for i in ids}


def test_agents_find_in_the_host_tier_what_the_pool_has_evicted():
    arrivals = turns()
    trace: Any = Engine(tiny_model(), SETTINGS).run(arrivals)
    fakes.assert_equals_oracle(arrivals)
    found = [(h.request_id, h.num_tokens) for step in trace.steps for h in step.prefix_hits]
    assert found == [(3, 16), (4, 16), (5, 16)] and loads(trace).keys() == {3, 4, 5}
    assert trace.steps[0].host.stored == tuple(reversed(NAMES[0]))
    alone, small = run(host_kv_tokens=None), run(host_kv_tokens=8)
    assert not any(hit.num_tokens == 16 for step in alone.steps for hit in step.prefix_hits)
    assert small.steps[-1].host.hashes == tuple(NAMES[2][1::-1]), "the beginning of the newest text"
    windowed = Engine(tiny_model(), dataclasses.replace(SETTINGS, sliding_window=11, num_sinks=1))
    assert loads(windowed.run(turns()))
    # Each request is charged for the blocks that it loads: two of them do not fit here.
    crowd = run(max_kv_tokens=36, arrivals=turns((36, 36, 36)))
    assert loads(crowd).keys() == {3, 4, 5} and all(len(step.admitted) < 2 for step in crowd.steps)
    with pytest.raises(ValueError, match="host_kv_tokens is 80; it goes with share_prefixes"):
        run(share_prefixes=False)


def test_each_copy_takes_its_time_and_a_link_that_is_too_slow_is_not_used():
    clock, slow = CostClock(), CostClock(dataclasses.replace(CostClock().model, link=Link(20, 100)))
    plain, tiered = run(host_kv_tokens=None, clock=CostClock()), run(clock=clock)
    copies = clock.model.copy_us(16) + clock.model.copy_us(4)  # of the first agent
    late = [trace.steps[4].end_us for trace in (tiered, plain)]
    assert late[0] - late[1] == copies and loads(run(clock=slow)) == {}
    # The same decisions as where K/V is computed.
    model_run = Engine(tiny_model(), SETTINGS).run(turns())
    assert loads(tiered) == loads(model_run)
    assert [each.admitted for each in tiered.steps] == [each.admitted for each in model_run.steps]


@pytest.mark.parametrize("choice", ["load", "compute"])
def test_a_preempted_request_is_loaded_back_or_computed_again_as_the_policy_says(choice: str):
    config = dataclasses.replace(SETTINGS, max_kv_tokens=44, host_kv_tokens=200)
    engine = Engine(tiny_model(), config, Policies(load_or_compute=lambda *_: choice))
    arrivals = arrivals_of([(0, 16, 20, 0), (0, 16, 20, 0)])
    trace = engine.run(arrivals)
    fakes.assert_equals_oracle(arrivals)
    victims = {i for step in trace.steps for i in step.preempted}
    assert victims and loads(trace).keys() == (victims if choice == "load" else set())


def test_a_step_that_fails_leaves_both_tiers_as_they_were():
    class FailsAtLoads(PackedExecutor):
        failures = 0

        def execute(self, rows: Any) -> Any:
            output = super().execute(rows)
            if not engine.cache.host._loaded or self.failures > 1:
                return output
            self.failures += 1
            return ModelOutput(torch.full_like(output.logits, torch.nan), output.forwards)

    engine: Any = Engine(tiny_model(), SETTINGS, make_executor=FailsAtLoads)
    arrivals = turns()
    for _, request in arrivals:
        engine.submit(request)
        while not engine.scheduler.is_done():
            before, copies = snapshot(engine), engine.cache.host.kv_of
            try:
                engine.step()
            except ValueError:
                assert snapshot(engine) == before and engine.cache.host.kv_of is copies
            engine.cache.check()
    assert engine.executor.failures == 2 and loads(engine.trace())
    fakes.assert_equals_oracle(arrivals)

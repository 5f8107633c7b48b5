"""An engine that computes nothing plans, admits and preempts as one that does."""

from typing import Any

from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from lockstep import arrivals_of

from course.stories.l01_chunks import one_tiny_layer
from course.stories.plan_only import plan_engine
from nanogpt import Engine, EngineConfig, Trace


def without_texts(trace: Trace) -> list[Any]:
    """What each step did, whichever tokens it sampled."""
    return [
        (
            step.step, step.admitted, step.preempted, step.finished, step.kv, step.forwards,
            step.start_us, step.end_us,
            [(work.request_id, work.kind, work.start, work.end) for work in step.work],
        )
        for step in trace.steps
    ]  # fmt: skip


@examples(60)
@given(
    asks=st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(1, 6), st.integers(0, 2)),
        min_size=1, max_size=6,
    ),
    budget=st.integers(1, 16),
    kv=st.one_of(st.none(), st.integers(16, 30)),
    size=st.one_of(st.none(), st.integers(1, 4)),
)  # fmt: skip
def test_whatever_the_limits_the_steps_are_those_of_a_model(asks, budget, kv, size):
    config = EngineConfig(
        token_budget=budget, max_kv_tokens=kv, max_batch_size=3, policy="priority", block_size=size
    )
    computed = Engine(one_tiny_layer(), config).run(arrivals_of(asks))
    assert without_texts(plan_engine(config).run(arrivals_of(asks))) == without_texts(computed)

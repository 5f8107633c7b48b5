"""Lesson 7b's runs: agents that take turns on a pool that is a little too small."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from course.attempt import Attempt
from course.calling.jobs import RunError
from course.lesson_data.l07_measured import drawn_tokens
from course.lesson_data.l07_pool import computed_tokens, found_tokens
from course.lesson_data.texts import Arrivals, oracle, served
from course.replay import Rerun
from course.saved_answers import LoadedPolicies
from nanogpt import GPT, Engine, EngineConfig, Policies, Request, Trace, encode
from nanogpt.clock import LARGE_GPU, CostClock
from nanogpt.experiments.trace_metrics import request_metrics
from nanogpt.figures.curves import line_chart
from nanogpt.recorded_texts import RecordedTexts
from nanogpt.trace import BlockStepRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS = EngineConfig(
    token_budget=64, max_batch_size=2, max_kv_tokens=96, block_size=8, share_prefixes=True,
    host_kv_tokens=240, temperature=1.0,
)  # fmt: skip
_ASKED = (  # what each agent sends in its first turn, and what it adds in its second
    ("ROMEO:\nShe speaks: O, speak again, bright", " angel!"),
    ("JULIET:\nO Romeo, Romeo! wherefore art tho", " Romeo?"),
    ("NURSE:\nPeter, my fan, and go before me th", " apace."),
)
POOLS = (*range(320, 1025, 64), 1120, 1280)
NUM_AGENTS, NUM_TURNS = 8, 4


def six_turns(model: GPT) -> Arrivals:
    """Three agents take two turns each; the second goes on where the first one ended."""
    first = [Request(i, encode(begin), 8) for i, (begin, _) in enumerate(_ASKED)]
    for i, (_, more) in enumerate(_ASKED):
        prompt = [*first[i].prompt_tokens, *oracle(model, SETTINGS, first[i]), *encode(more)]
        first.append(Request(len(first), prompt, 8))
    return [(10 * request.id, request) for request in first]


def run_report(
    attempts: Mapping[str, Attempt],
    earlier: LoadedPolicies,
    model: GPT,
    yours: Trace,
    reference: Trace,
) -> str:
    """Whose policies the run used, whether its texts are the oracle's, and its counts; Markdown."""
    hosts = [step.host for step in yours.steps if isinstance(step, BlockStepRecord) and step.host]
    loaded, found = sum(len(host.loaded) for host in hosts) * 8, found_tokens(yours)
    where = f"{found - loaded} in the pool, and {loaded} only in the host tier"
    return served(
        attempts, six_turns(model), model, SETTINGS, yours, reference,
        "A request reads K/V of other tokens: look at the blocks that it found or loaded.",
        earlier=f"From earlier lessons: {earlier.sentence}",
        counted=f"Prefills computed {computed_tokens(yours)} tokens. {found} were found: {where}.",
    )  # fmt: skip


def agents() -> Arrivals:
    """Eight agents in turn: prompts of 80 tokens, and in each turn 8 generated ones and 8 more."""
    arrivals: Arrivals = []
    texts = [drawn_tokens(f"agent {i}", 80) for i in range(NUM_AGENTS)]
    for i in range(NUM_AGENTS * NUM_TURNS):
        text = texts[i % NUM_AGENTS]
        arrivals.append((10 * i, Request(i, [*text], 8)))
        text += [0] * 8 + drawn_tokens(f"turn {i}", 8)  # a request without a text generates zeros
    return arrivals


def measured(pool: int, host: int | None, policies: Policies = Policies()) -> tuple[float, float]:
    """Of each agent's last turn, on a large GPU: prompt tokens found in %, and mean TTFT in ms."""
    config = EngineConfig(
        token_budget=512, max_kv_tokens=pool, block_size=16, share_prefixes=True,
        host_kv_tokens=host,
    )  # fmt: skip
    engine = Engine(RecordedTexts(), config, policies, clock=CostClock(LARGE_GPU))
    trace = engine.run(agents(), 2000)
    last = range(NUM_AGENTS * (NUM_TURNS - 1), NUM_AGENTS * NUM_TURNS)
    prompts = sum(len(trace.request(i).prompt_tokens) for i in last)
    hits = [hit for step in trace.steps for hit in step.prefix_hits if hit.request_id in last]
    ttft_us = sum(request_metrics(trace, i).ttft_us for i in last) / NUM_AGENTS
    return 100 * sum(hit.num_tokens for hit in hits) / prompts, ttft_us / 1000


@functools.cache
def _sweep() -> Rerun[Policies, list[list[tuple[float, float]]]]:
    return Rerun(
        lambda own: [[measured(pool, host, own) for pool in POOLS] for host in (None, 1280)],
        Policies(),
    )


def sweep_chart(policies: Policies) -> Figure | str:
    """Hit rate and TTFT by the size of the pool, with a host tier and without, or why none."""
    names = ("without a host tier", "with a host tier")
    try:
        found = dict(zip(names, _sweep()(policies), strict=True))
    except RunError as error:
        return f"The run with your functions stopped: {error}"
    panels = {
        what: {name: [(pool, each[i]) for pool, each in zip(POOLS, of, strict=True)]
               for name, of in found.items()}
        for i, what in enumerate(("prompt tokens found (%)", "mean TTFT (ms)"))
    }  # fmt: skip
    title = "The last turn of eight agents, by the size of the pool"
    return line_chart(panels, "pool (KV tokens)", title, "modelled: a large GPU")

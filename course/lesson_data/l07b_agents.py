"""Lesson 7b's runs: agents that take turns, on a pool that is a little too small for all of them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from course.lesson_data.l07_measured import drawn_tokens
from course.lesson_data.l07_pool import computed_tokens, found_tokens
from course.lesson_data.texts import Arrivals, oracle
from course.replay import Rerun
from nanogpt import GPT, Engine, EngineConfig, Policies, Request, Trace, encode
from nanogpt.clock import LARGE_GPU, CostClock
from nanogpt.experiments.trace_metrics import all_request_metrics
from nanogpt.figures.curves import line_chart
from nanogpt.recorded_texts import RecordedTexts
from nanogpt.trace import TieredStepRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS = EngineConfig(
    token_budget=64, max_batch_size=2, max_kv_tokens=96, block_size=8, share_prefixes=True,
    host_kv_tokens=240, temperature=1.0,
)  # fmt: skip
_ASKED = (  # the first turn of each agent, and its second: 40 and 7 characters
    ("ROMEO:\nShe speaks: O, speak again, bright", " angel!"),
    ("JULIET:\nO Romeo, Romeo! wherefore art tho", " Romeo?"),
    ("NURSE:\nPeter, my fan, and go before me th", " apace."),
)
BLAME = "A request reads K/V of other tokens: look at the blocks that it found or loaded."


def six_turns(model: GPT) -> Arrivals:
    """Three agents take two turns each; the second goes on where the first one ended."""
    arrivals: Arrivals = []
    for turn in range(2):
        for i, texts in enumerate(_ASKED):
            prompt = encode(texts[0])
            if turn:
                prompt += [*oracle(model, SETTINGS, Request(i, prompt, 8)), *encode(texts[1])]
            arrivals.append((10 * len(arrivals), Request(len(arrivals), prompt, 8)))
    return arrivals


def loaded_tokens(trace: Trace) -> int:
    """How many tokens' K/V was loaded from the host tier."""
    steps = [step for step in trace.steps if isinstance(step, TieredStepRecord)]
    return sum(len(step.host.loaded) * step.blocks.block_size for step in steps)


def counted(trace: Trace) -> str:
    """The run's counts as a sentence."""
    loaded = loaded_tokens(trace)
    return (
        f"Prefills computed {computed_tokens(trace)} tokens. {found_tokens(trace)} more were cached: "
        f"{found_tokens(trace) - loaded} in the pool, and {loaded} only in the host tier."
    )


# --- hit rate and TTFT by the size of the pool ---------------------------------------------------

POOLS = (*range(320, 1025, 64), 1120, 1280)
_AGENTS, _TURNS, _FIRST, _MORE, _NEW = 8, 4, 80, 8, 8
CONVERSATIONS = _AGENTS * (_FIRST + (_TURNS - 1) * (_MORE + _NEW) + _NEW)
"""KV tokens of all conversations at the end."""


def agents() -> Arrivals:
    """Eight agents in turn; each turn adds 8 tokens to a conversation, and 8 are generated."""
    texts = [drawn_tokens(f"agent {i}", _FIRST + _TURNS * (_MORE + _NEW)) for i in range(_AGENTS)]
    lengths = [_FIRST + turn * (_MORE + _NEW) for turn in range(_TURNS)]
    prompts = [text[:length] for length in lengths for text in texts]
    return [(10 * i, Request(i, prompt, _NEW)) for i, prompt in enumerate(prompts)]


def served(pool: int, host: int | None, policies: Policies = Policies()) -> Trace:
    """The agents' run, modelled on the large GPU."""
    config = EngineConfig(
        token_budget=512, max_kv_tokens=pool, block_size=16, share_prefixes=True, host_kv_tokens=host
    )
    texts = {i: drawn_tokens(f"agent {i % _AGENTS}", 144) for i in range(_AGENTS * _TURNS)}
    engine = Engine(RecordedTexts(texts), config, policies, clock=CostClock(LARGE_GPU))
    return engine.run(agents(), 2000)


def measures(trace: Trace) -> tuple[float, float]:
    """Of the agents that return: prompt tokens found in %, and the mean TTFT in ms."""
    later = [r for r in all_request_metrics(trace) if r.request_id >= _AGENTS * (_TURNS - 1)]
    ids = [each.request_id for each in later]
    prompts = sum(len(trace.request(i).prompt_tokens) for i in ids)
    hits = [hit for step in trace.steps for hit in step.prefix_hits if hit.request_id in ids]
    found = sum(hit.num_tokens for hit in hits)
    return 100 * found / prompts, sum(each.ttft_us for each in later) / len(later) / 1000


@functools.cache
def _sweep() -> Rerun[Policies, dict[str, list[tuple[float, float]]]]:
    hosts = {"without a host tier": None, "with a host tier": CONVERSATIONS}
    return Rerun(
        lambda policies: {
            name: [measures(served(pool, host, policies)) for pool in POOLS]
            for name, host in hosts.items()
        },
        Policies(),
    )


def sweep_chart(policies: Policies) -> Figure:
    """Hit rate and TTFT by the size of the pool, with a host tier and without. Raises: RunError."""
    found = {name: zip(POOLS, *zip(*of, strict=True), strict=True)
             for name, of in _sweep()(policies).items()}  # fmt: skip
    curves = {name: list(points) for name, points in found.items()}
    panels = {
        "prompt tokens found (%)": {n: [(x, hit) for x, hit, _ in p] for n, p in curves.items()},
        "mean TTFT (ms)": {n: [(x, ttft) for x, _, ttft in p] for n, p in curves.items()},
    }
    title = "Agents that return, by the size of the pool"
    return line_chart(panels, "pool (KV tokens)", title, "modelled: a large GPU")

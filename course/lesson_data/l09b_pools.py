"""Behind lesson 9b: pools of every size, one run drawn, and K/V that was not its own."""

from __future__ import annotations

import functools
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from course.attempt import Attempt
from course.calling.jobs import RunError, call, run
from course.lesson_data import recorded
from course.lesson_data.l09b_recording import CONFIG, ITL_MS, RATES, TTFT_MS, real_run
from course.lesson_data.texts import table
from nanogpt import decode, encode, load_model
from nanogpt.engine import Engine
from nanogpt.figures.drawing import course_style, curve, label_axes, new_figure
from nanogpt.fleet import transfers
from nanogpt.fleet.costs import CALIBRATED_COST
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.fleet_record import FleetRun
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.workload import FleetRequest, Workload
from nanogpt.kv_cache import KVCache
from nanogpt.posts.oracle import generate
from nanogpt.request import Request
from nanogpt.views.fleet_views import PoolCosts, PoolLoad

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORKERS = 4
LOADS = tuple(PoolLoad(*load) for load in ((20, 1000, 60), (120, 1000, 60), (100, 100, 250)))
COSTS = PoolCosts(prefill_us=13, decode_us=80, transfer_us=1.3)
"""Of the modelled GPU; a decode step of about 2 ms is shared by 25 requests."""
FLEET = FleetConfig(
    num_workers=WORKERS, kv_tokens=32_768, cost=CALIBRATED_COST, order="fifo", urgency="off",
    ageing_us=None, preemption_gap=None, prefix_cache="none", speculation=False,
)  # fmt: skip
FIRST_US, GAP_US = 200_000, 20_000
"""A request counts if its first token comes within the one, and no gap is above the other."""


@functools.cache
def pooled(load: PoolLoad, num_prefill: int, link_us: float = COSTS.transfer_us) -> FleetRun:
    """Four workers for 2 s, the first `num_prefill` of them a pool of their own; 0: mixed."""
    draw, now_us, requests = random.Random("pools"), 0.0, list[FleetRequest]()
    while (now_us := now_us + draw.expovariate(load.requests_per_s / 1e6)) < 2e6:
        at, prompt = round(now_us), tuple(draw.randbytes(int(load.prompt_tokens)))
        new = int(load.new_tokens)
        requests.append(FleetRequest(len(requests), at, prompt, new, 5, at + 2_000_000))
    config = replace(FLEET, num_prefill_workers=num_prefill, link_us_per_token=link_us)
    return simulate(config, Workload(tuple(requests)))


def goodput(ran: FleetRun, load: PoolLoad) -> float:
    """Requests per second within both limits."""
    pairs = zip(ran.workload.requests, ran.outcomes, strict=True)
    good = [
        o.first_token_us is not None
        and o.first_token_us - r.arrival_us <= FIRST_US
        and o.max_gap_us <= GAP_US
        for r, o in pairs
    ]
    return load.requests_per_s * sum(good) / len(good)


def chosen(split_pool: Attempt, load: PoolLoad) -> int:
    """How many workers the learner's function lets prefill, or the reference's."""
    given = WORKERS, load, COSTS
    if split_pool.function is not None:
        value = call(split_pool.function, given).value
        if type(value) is int and 0 <= value < WORKERS:
            return value
    return transfers.split_pool(*given)


def pools_table(split_pool: Attempt) -> str:
    """Goodput by load and pool; the learner's choice is bold. Markdown."""
    rows: list[str] = []
    for load in LOADS:
        cells = [f"{goodput(pooled(load, n), load):.0f}" for n in range(WORKERS)]
        mine = chosen(split_pool, load)
        cells[mine] = f"**{cells[mine]}**"
        slow = goodput(pooled(load, 2, 10 * COSTS.transfer_us), load)
        said = f"{load.requests_per_s} per second, {load.prompt_tokens} + {load.new_tokens} tokens"
        rows.append(f"| {said} | {' | '.join(cells)} | {slow:.0f} |")
    return table("| load | mixed | 1 prefills | 2 | 3 | 2, slow link |", "lrrrrr", rows)


# --- K/V that was not its own ---------------------------------------------------------------------

MINE, OTHER = "KING RICHARD II:\nWhat is the matt", "DUKE VINCENTIO:\nO, my good lord, "


def exhibits_table(num_new: int = 20) -> str:
    """A text with its own K/V, with all K/V counted as computed, and with another's; Markdown."""
    model = load_model()
    tokens = encode(MINE)
    whole = decode(generate(model, [*tokens, tokens[-1]], num_new))
    rows = [
        f"| one worker | `{decode(generate(model, tokens, num_new))!r}` |",
        f"| its own block is sent | `{decode(received(MINE, num_new))!r}` |",
        f"| 32 tokens count as computed, and the last is computed behind them | `{whole!r}` |",
        f"| the block held another prompt's K/V | `{decode(received(OTHER, num_new))!r}` |",
    ]
    return table("| | the next characters |", "ll", rows)


def received(source: str, num_new: int) -> list[int]:
    """The text of MINE in an engine whose first block has the K/V of another prompt's."""
    sender, receiver = Engine(load_model(), CONFIG), Engine(load_model(), CONFIG)
    sender.run([(0, Request(0, encode(source), 1))])
    request = Request(0, encode(MINE), num_new)
    assert isinstance(sender.cache, KVCache) and isinstance(receiver.cache, KVCache)
    theirs = sender.cache.hashes(Request(0, encode(source), 1), encode(source))[:1]
    own = receiver.cache.hashes(request, encode(MINE))[:1]
    receiver.cache.import_blocks(own, 0, sender.cache.export_blocks(theirs))
    receiver.run([(0, request)])
    return request.generated_tokens


# --- two processes --------------------------------------------------------------------------------


def two_processes(now: bool, send: Attempt, free: Attempt) -> tuple[dict[str, Any], str]:
    """(trace, where it comes from): run with the learner's functions if `now`, else recorded."""
    if not now:
        return recorded("split")["run"], "recorded"
    given = send.or_reference(transfers.blocks_to_send), free.or_reference(transfers.may_free)
    try:
        return run(real_run, *given, limit_s=60.0), "measured here, with your functions"
    except RunError as failed:
        return recorded("split")["run"], f"recorded, since your run stopped: {failed}"


@course_style()
def goodput_chart() -> Figure:
    """Measured goodput by rate of three ways to use two processes."""
    rows = recorded("split")["rows"]
    title = f"First token within {TTFT_MS} ms, the others {ITL_MS} ms apart on average"
    figure = new_figure(title, 1, "measured on two cores (AMD EPYC, Zen 4)")
    [axes] = figure.axes
    for name in dict.fromkeys(row["fleet"] for row in rows):
        curve(axes, name, [(r["rate"], r["goodput"]) for r in rows if r["fleet"] == name])
    axes.set_xticks(RATES)
    label_axes(axes, "requests per second", "goodput (requests per second)")
    return figure

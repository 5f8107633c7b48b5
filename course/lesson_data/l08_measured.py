"""Behind lesson 8's figures: how many drafts stay, what a watch says, what a crowd does."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from course.calling.jobs import RunError
from course.figure import Figure
from course.replay import Rerun
from nanogpt import GPT, Engine, EngineConfig, Policies, Request, Trace, encode
from nanogpt.clock import LARGE_GPU, SERVER_CPU, CostClock, WallClock
from nanogpt.experiments.trace_metrics import percentile
from nanogpt.figures.drawing import course_style, curve, label_axes, mark, new_figure
from nanogpt.fleet.speculating import Drafts, break_even
from nanogpt.fleet.workload import FleetRequest
from nanogpt.policies import acceptance
from nanogpt.speculative.drafting import Draft, propose
from nanogpt.trace import WorkRecord

Series = dict[str, Any]

_OPENINGS = (
    "ROMEO:\nWhat say",
    "JULIET:\nO, my l",
    "KING RICHARD:\nN",
    "First Citizen:\n",
    "Shall I be plai",
    "Come, sir, and h",
    "GLOUCESTER:\nMy ",
    "The king is not",
)
_ALPHA, _K = 0.1, 4


# --- how many stay ------------------------------------------------------------------------------


def serve(
    model: GPT,
    draft: Draft,
    num_drafts: int,
    temperature: float,
    batch: int = 8,
    new_tokens: int = 64,
    clock: CostClock | WallClock | None = None,
    policies: Policies | None = None,
) -> Trace:
    """The first openings, all at once; the drafts have room."""
    config = EngineConfig(
        token_budget=256, temperature=temperature, seed=1, num_draft_tokens=num_drafts
    )
    requests = [
        (0, Request(i, encode(text), new_tokens)) for i, text in enumerate(_OPENINGS[:batch])
    ]
    engine = Engine(model, config, policies or Policies(), clock=clock or CostClock(), draft=draft)
    return engine.run(requests)


def accepted_drafts(model: GPT, draft: Draft) -> dict[float, list[int]]:
    """By temperature, how many of four drafts stayed in each pass that had four."""
    return {
        temperature: [work.num_accepted for work in _full(serve(model, draft, _K, temperature), _K)]
        for temperature in (0.0, 1.0, 2.0)
    }


def _full(trace: Trace, num_drafts: int) -> list[WorkRecord]:
    """The decodes that had all the drafts that were asked for."""
    works = [work for step in trace.steps for work in step.work]
    return [w for w in works if w.kind == "decode" and len(w.drafted) == num_drafts]


def rate(accepted: Sequence[int]) -> float:
    """The share of the drafts looked at that stayed."""
    return sum(accepted) / sum(min(each + 1, _K) for each in accepted)


def _by_place(accepted: Sequence[int]) -> list[float]:
    """The share that stayed at the first place, the second, ..., of those looked at there."""
    return [
        sum(each > place for each in accepted) / max(1, sum(each >= place for each in accepted))
        for place in range(_K)
    ]


def accepted_table(found: dict[float, list[int]]) -> str:
    """p, tokens per pass counted and by the formula, and p by place; Markdown."""
    rows = [
        f"| {temperature:g} | {rate(accepted):.2f} | {1 + fmean(accepted):.2f} | "
        f"{acceptance.expected_tokens(rate(accepted), _K):.2f} | "
        + " | ".join(f"{share:.0%}" for share in _by_place(accepted))
        + " |"
        for temperature, accepted in found.items()
    ]
    head = "| temperature | p | tokens per pass | by the formula | 1st guess stays | 2nd | 3rd |"
    return f"{head} 4th |\n|{'--:|' * 8}\n" + "\n".join(rows)


def accepted_said(found: dict[float, list[int]]) -> str:
    """Why the formula is close and not the same; Markdown."""
    greedy = found[0.0]
    places, rates = _by_place(greedy), [f"{rate(found[each]):.2f}" for each in found]
    return (
        "**Close, and not the same.** The formula takes every guess for a throw of the same die. "
        "But text has easy stretches, the rest of a word, and hard places, its first letter. "
        f"Greedy, a first guess stays {places[0]:.0%} of the time, one that was asked third "
        f"{places[2]:.0%}: what gets that far is in the middle of something easy.\n\n"
        f"**High temperature does no harm here**: p is {rates[0]}, {rates[1]} and {rates[2]} at 0, "
        "1 and 2. Our engine draws the draft at the target's temperature, and two flat "
        "distributions overlap well. A draft that stays sharp, or one that only looks up, loses "
        "more of its guesses the flatter p is."
    )


# --- with a watch -------------------------------------------------------------------------------


def timed(model: GPT, draft: Draft, batch: int, repeats: int = 3) -> dict[str, float]:
    """What four drafts bring a batch at temperature 1: measured now, and by two formulas.

    Times are in decodes without drafts; of the steps, the fast fifth counts.
    """
    runs: dict[int, list[Trace]] = {0: [], _K: []}
    for _ in range(repeats):  # in turns, so that a busy moment hits both
        for drafts, traces in runs.items():
            traces.append(serve(model, draft, drafts, 1.0, batch, 40, WallClock()))
    decode_us, with_us = (_step_us(traces, drafts, batch) for drafts, traces in runs.items())
    guesses_us = _drafting_us(model, draft, batch)
    accepted = [work.num_accepted for trace in runs[_K] for work in _full(trace, _K)]
    alpha, verifying = guesses_us / _K / decode_us, (with_us - guesses_us) / decode_us
    p = rate(accepted)
    return {
        "alpha": alpha,
        "verifying": verifying,
        "textbook": acceptance.speedup(p, _K, alpha),
        "measured": (1 + fmean(accepted)) * decode_us / with_us,
    }


def _drafting_us(model: GPT, draft: Draft, batch: int, times: int = 10) -> float:
    """What the guesses of one step take, in microseconds."""
    requests = [Request(i, encode(text), 96) for i, text in enumerate(_OPENINGS[:batch])]
    clock, took = WallClock(), list[float]()
    for seed in range(times):
        begin_us = clock.now_us()
        for request in requests:
            propose(draft, request, _K, 1.0, seed, model.config.vocab_size)
        took.append(clock.now_us() - begin_us)
    return percentile(took, 0.2)


def _step_us(traces: Sequence[Trace], k: int, batch: int) -> float:
    """A step in which all of a batch decode with all k drafts: the fast fifth of them."""
    steps = [step for trace in traces for step in trace.steps if len(step.work) == batch]
    full = [s for s in steps if all(w.kind == "decode" and len(w.drafted) == k for w in s.work)]
    return percentile([step.duration_us for step in full], 0.2)


def timed_table(timings: dict[int, dict[str, float]]) -> str:
    """Those figures by the number of requests at once; Markdown."""
    rows = [
        f"| {batch} | {each['alpha']:.3f} | {each['verifying']:.2f} | {each['textbook']:.2f} | "
        f"**{each['measured']:.2f}** |"
        for batch, each in timings.items()
    ]
    head = "| requests at once | draft, α | verifying | 8.3 says | measured speed-up |"
    return f"{head}\n|--:|--:|--:|--:|--:|\n" + "\n".join(rows)


# --- how far ahead ------------------------------------------------------------------------------

MACHINES = {cost.name: cost for cost in (LARGE_GPU, SERVER_CPU)}


def drafts_ahead(model: GPT, draft: Draft, policies: Policies) -> dict[str, dict[int, Trace]] | str:
    """Runs by the learner's parts with 0 to 8 drafts, for one request and for eight at once.

    A sentence instead where the parts fail.
    """

    def runs(policies: Policies) -> dict[str, dict[int, Trace]]:
        return {
            name: {k: serve(model, draft, k, 1.0, batch, 48, policies=policies) for k in _AHEAD}
            for batch, name in ((1, "one request"), (8, "eight at once"))
        }

    try:
        return Rerun(runs, Policies())(policies)
    except RunError as error:
        return f"The run with your functions stopped: {error}"


@course_style()
def speedup_figure(runs: dict[str, dict[int, Trace]] | str, machine: str, name: str) -> Figure:
    """The speed-up of those runs on one of the machines, said to be of the parts `name`.

    Every forward of the traces is charged what it costs there; a draft costs nothing.
    """
    question = "How many drafts would you choose here, for one request and for eight?"
    if isinstance(runs, str):
        return Figure(runs, question)
    cost = MACHINES[machine]

    def took_us(trace: Trace) -> int:
        return sum(cost.forward_us(each) for step in trace.steps for each in step.forwards)

    title = f"Speed-up against drafts, accept: {name}"
    drawing = new_figure(title, 1, f"modelled: {cost.name}")
    [axes] = drawing.axes
    for batch, of in runs.items():
        points = [(k, took_us(of[0]) / took_us(trace)) for k, trace in sorted(of.items())]
        curve(axes, batch, points)
    mark(axes, "no drafts", y=1)
    label_axes(axes, "drafts, K", "speed-up (times)")
    return Figure(drawing, question)


_AHEAD = (0, 1, 2, 4, 6, 8)


# --- on a large GPU -----------------------------------------------------------------------------

_CONTEXT = 64  # tokens of ours per request, each standing for LARGE_GPU.prompt_scale real ones


def crowd_series(p: float) -> list[Series]:
    """Speed-up by the number of requests at once on the modelled GPU, for three drafts: curves."""
    drafts = {
        f"p = {p:.2f}, α = 0": (p, 0.0),
        f"p = {p:.2f}, α = 0.1": (p, 0.1),
        "p = 0.85, α = 0.1": (0.85, 0.1),
    }
    batches = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    return [
        {"name": name, "points": [[batch, _crowd(batch, *each)] for batch in batches]}
        for name, each in drafts.items()
    ]


def _crowd(batch: int, p: float, alpha: float) -> float:
    plain = LARGE_GPU.step_us(0, batch, batch * _CONTEXT)
    verifying = LARGE_GPU.step_us(0, batch * (_K + 1), batch * _CONTEXT) / plain
    return round(acceptance.expected_tokens(p, _K) / (verifying + _K * alpha), 3)


def backing_off() -> tuple[float, float, float]:
    """(break-even, loss of hopeless drafts with backing off, and without), modelled."""
    edge = break_even(_K, _ALPHA)
    return edge, 1 - _per_time(0.0, edge), 1 - _per_time(0.0, None)


def _per_time(p: float, least: float | None) -> float:
    """Tokens per unit of time of 60 requests of 128 tokens with this acceptance, one at a time."""
    time, new_tokens = 0.0, 128
    for i in range(60):
        drafts = Drafts(FleetRequest(i, 0, (0,), new_tokens, 5, 10**9, p), 8, least)
        passes = drafts.passes(0)
        time += passes * (1 + _K * _ALPHA) + new_tokens - (drafts.advance(passes) if passes else 0)
    return 60 * new_tokens / time

"""Behind lesson 8's engine: three requests by the learner's parts, and a law tested by counting."""

import functools
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from course.answers import LoadedPolicies
from course.attempt import Attempt
from course.calling.jobs import RunError, run
from course.lesson_data.l08_drafts import OPENING, chances, tally
from course.lesson_data.texts import oracle, shown, whose_policies
from course.replay import Rerun
from nanogpt import (
    GPT,
    Engine,
    EngineConfig,
    Policies,
    Request,
    Trace,
    decode,
    encode,
    load_model,
)
from nanogpt.sampling import probabilities
from nanogpt.speculative.drafting import Draft
from nanogpt.trace import WorkRecord

Rule = Callable[..., Any]
Arrivals = list[tuple[int, Request]]

# --- the learner's run --------------------------------------------------------------------------

_LINES = (  # arrival step, prompt, new tokens
    (0, OPENING, 40),
    (0, "JULIET:\nO Romeo, Romeo! ", 40),
    (6, "First Citizen:\nWe are accounted poor ", 30),
)


def three_requests() -> Arrivals:
    """Fresh requests of the same prompts: the engine writes into the ones it is given."""
    return [(step, Request(i, encode(text), n)) for i, (step, text, n) in enumerate(_LINES)]


def run_said(
    attempts: Mapping[str, Attempt], earlier: LoadedPolicies, yours: Trace, reference: Trace
) -> str:
    """Whose parts were in the run, where it leaves the reference's, and its texts; Markdown."""
    plain, texts = _without_drafts()
    rows = "\n".join(_request_row(r.id, yours, plain, texts[r.id]) for _, r in three_requests())
    return (
        f"{whose_policies(attempts)} Of the earlier lessons: {earlier.sentence} "
        f"{_verdict(yours, reference)}\n\n"
        "| request | passes without drafts | with | its text is | what it got |\n"
        f"|--:|--:|--:|:--|:--|\n{rows}\n\n"
        f"{len(plain.steps)} steps without drafts, {len(yours.steps)} with."
    )


def _verdict(yours: Trace, reference: Trace) -> str:
    if yours.error:
        return f"**The run stopped early**, in step {len(yours.steps)}: {yours.error}"
    if yours.steps == reference.steps:
        return "Step for step, it is the reference's run."
    for mine, right in zip(yours.steps, reference.steps, strict=False):
        for one, other in zip(mine.work, right.work, strict=False):
            if one != other and None not in (one.sampled, other.sampled):
                return (
                    f"It is **not the reference's run**. They part in step {mine.step}: of "
                    f"request {one.request_id}, yours kept {_gave(one)}; the reference kept "
                    f"{_gave(other)}."
                )
    return "It is not the reference's run."


def _gave(work: WorkRecord) -> str:
    assert work.sampled is not None, "only what gave a token is compared"
    drafts = f"{work.num_accepted} of {len(work.drafted)} drafts"
    return f"{drafts}, and then {shown(decode([work.sampled]))}"


@functools.cache
def _without_drafts() -> tuple[Trace, dict[int, list[int]]]:
    """The same requests served plainly, and their texts by the oracle: worked out once."""
    exact, settings = load_model(dtype=torch.float64), EngineConfig(token_budget=32)
    texts = {each.id: oracle(exact, settings, each) for _, each in three_requests()}
    return Engine(exact, settings).run(three_requests()), texts


def _request_row(i: int, mine: Trace, plain: Trace, wanted: list[int]) -> str:
    got = list(mine.generated_tokens(i))
    pairs = enumerate(zip(got, wanted, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), None)
    verdict = (
        f"differs from character {same} on"
        if same is not None
        else "the oracle's"
        if got == wanted
        else "stops early"
    )
    passes = f"{tally(plain, [i])['passes']} | {tally(mine, [i])['passes']}"
    return f"| {i} | {passes} | {verdict} | {shown(decode(got))} |"


# --- when dice are thrown -----------------------------------------------------------------------

_PLACE = "KING RICHARD III:\nNow is the wi"
_TIMES = 20_000


def judged_often(
    rejection_sample: Rule, p: Sequence[float], q: Sequence[float], times: int
) -> tuple[list[int], int]:
    """How often each token stood there over random drafts, and how many drafts stayed."""
    dice, counts, kept = random.Random(8), [0] * len(p), 0
    for token in dice.choices(range(len(q)), q, k=times):
        stays, stands = rejection_sample(p, q, token, dice.random(), dice.random())
        counts[stands] += 1
        kept += stays
    return counts, kept


def counted_table(rule: Rule, whose: str, model: GPT, draft: Draft, names: int = 5) -> str:
    """What comes out at one place of a text by a rule, beside p, and what chance explains."""
    p, q = chances(model, draft, _PLACE)
    try:
        counts, kept = run(judged_often, rule, p, q, _TIMES)
    except RunError:
        return f"By {whose} it cannot be counted; the check says more."
    rows: list[str] = []
    for token in sorted(range(len(p)), key=lambda token: -max(p[token], q[token]))[:names]:
        share = counts[token] / _TIMES
        error = (p[token] * (1 - p[token]) / _TIMES) ** 0.5
        off = abs(share - p[token]) / error if error else float(share > 0) * 99
        told = f"**{off:.1f}**" if off > 4 else f"{off:.1f}"
        rows.append(
            f"| {shown(decode([token]))} | {q[token]:.1%} | {p[token]:.1%} | {share:.1%} | {told} |"
        )
    head = "| what stands there | the draft, q | wanted, p | came out | off, in standard errors |"
    return (
        f"{_TIMES:,} guesses after {shown(_PLACE)}, judged by {whose}; {kept / _TIMES:.0%} stayed."
        f"\n\n{head}\n|:--|--:|--:|--:|--:|\n" + "\n".join(rows)
    )


def texts_said(policies: Policies, draft: Draft, num_requests: int = 150) -> str:
    """Sampled texts of many requests with one prompt, with drafts and without; Markdown."""
    try:
        mine = _sampled(num_requests, draft)(policies)
    except RunError as error:
        return f"**The engine's run stopped early:** {error}"
    plain = _sampled(num_requests, None).reference
    alike = sum(a == b for a, b in zip(plain, mine, strict=True))
    seconds = _second_law()
    (with_drafts, freedom), (without, _) = (
        _chi_square(Counter(text[1] for text in each), seconds, num_requests)
        for each in (mine, plain)
    )
    return (
        f"And the whole engine: {num_requests} requests with the prompt {shown('O, ')}, three "
        f"characters each. With the same seeds, **{alike} of the {num_requests} texts are those "
        "without drafts**. The second character is the first that a draft may have written. "
        f"Against its exact probabilities the χ² of the run with drafts is {with_drafts:.1f}, "
        f"without drafts {without:.1f}; chance alone gives {freedom} on average, give or take "
        f"{(2 * freedom) ** 0.5:.0f}."
    )


@functools.cache
def _sampled(num_requests: int, draft: Draft | None) -> Rerun[Policies, list[str]]:
    """Three characters of each request, one draft ahead if there is one."""
    settings = EngineConfig(
        token_budget=2048,
        max_batch_size=num_requests,
        temperature=1.0,
        seed=8,
        num_draft_tokens=0 if draft is None else 1,
    )
    model = load_model(dtype=torch.float64)

    def texts(policies: Policies) -> list[str]:
        requests = [(0, Request(i, encode("O, "), 3)) for i in range(num_requests)]
        trace = Engine(model, settings, policies, draft=draft).run(requests)
        return [decode(list(trace.generated_tokens(i))) for i in range(num_requests)]

    return Rerun(texts, Policies())


@functools.cache
@torch.inference_mode()
def _second_law() -> list[float]:
    """The exact chances of the second character after the prompt, over every first one: (V,)."""
    model, known = load_model(dtype=torch.float64), encode("O, ")
    first = probabilities(model(torch.tensor([known]))[0][0, -1:], 1.0)[0]  # (V,)
    every = torch.tensor([[*known, token] for token in range(len(first))])  # (V, T)
    return (first @ probabilities(model(every)[0][:, -1], 1.0)).tolist()


def _chi_square(seen: Mapping[str, int], chance: Sequence[float], total: int) -> tuple[float, int]:
    """Over the characters expected at least five times, and all the others together."""
    often = [token for token, p in enumerate(chance) if p * total >= 5]
    wanted = [chance[token] * total for token in often]
    found = [seen[decode([token])] for token in often]
    wanted, found = [*wanted, total - sum(wanted)], [*found, total - sum(found)]
    return sum((f - w) ** 2 / w for f, w in zip(found, wanted, strict=True)), len(often)

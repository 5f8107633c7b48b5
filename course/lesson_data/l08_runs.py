"""Behind lesson 8's engine: three requests by the learner's policies, and tokens counted."""

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from course.attempt import Attempt
from course.calling.jobs import RunError, run
from course.lesson_data.l08_drafts import OPENING, chances, tally
from course.lesson_data.texts import arriving, oracle, shown, table, whose_policies
from course.saved_answers import LoadedPolicies
from nanogpt import GPT, Engine, EngineConfig, Trace, decode, load_model
from nanogpt.speculative.drafting import Draft

Rule = Callable[..., Any]

# --- the learner's run --------------------------------------------------------------------------

three_requests = arriving(
    (0, OPENING, 40),
    (0, "JULIET:\nO Romeo, Romeo! ", 40),
    (6, "First Citizen:\nWe are accounted poor ", 30),
)


def run_report(
    attempts: Mapping[str, Attempt], earlier: LoadedPolicies, yours: Trace, reference: Trace
) -> str:
    """Whose policies the run used, whether it is the reference's, and its texts; Markdown."""
    plain, texts = _without_drafts()
    rows = "\n".join(_request_row(r.id, yours, plain, texts[r.id]) for _, r in three_requests())
    if yours.error:
        verdict = f"**The run stopped early**, in step {len(yours.steps)}: {yours.error}"
    elif yours.steps == reference.steps:
        verdict = "Every step is the same as in the reference's run."
    else:
        verdict = "It is **not the reference's run**: step to the first difference."
    return (
        f"{whose_policies(attempts)} From earlier lessons: {earlier.sentence} {verdict}\n\n"
        "| request | passes without drafts | with drafts | compared with the oracle | text |\n"
        f"|--:|--:|--:|:--|:--|\n{rows}\n\n"
        f"{len(plain.steps)} steps without drafts, {len(yours.steps)} with drafts."
    )


@functools.cache
def _without_drafts() -> tuple[Trace, dict[int, list[int]]]:
    """The same requests served without drafts, and the oracle's texts."""
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
        else "equal"
        if got == wanted
        else "stops early"
    )
    passes = f"{tally(plain, [i])['passes']} | {tally(mine, [i])['passes']}"
    return f"| {i} | {passes} | {verdict} | {shown(decode(got))} |"


# --- counting ----------------------------------------------------------------------------------

_PLACE = "KING RICHARD III:\nNow is the wi"
_TIMES = 20_000


def judged_often(
    rejection_sample: Rule, p: Sequence[float], q: Sequence[float]
) -> tuple[list[int], int]:
    """How often each token came out over random draft tokens, and how many were accepted."""
    rng, counts, kept = random.Random(8), [0] * len(p), 0
    for token in rng.choices(range(len(q)), q, k=_TIMES):
        accepted, drawn = rejection_sample(p, q, token, rng.random(), rng.random())
        counts[drawn] += 1
        kept += accepted
    return counts, kept


def counted_table(rule: Rule, whose: str, model: GPT, draft: Draft) -> str:
    """How often each token comes out at one position, beside p, in standard errors; Markdown."""
    p, q = chances(model, draft, _PLACE)
    try:
        counts, kept = run(judged_often, rule, p, q)
    except RunError:
        return f"The tokens cannot be counted with {whose}; its check says why."
    rows: list[str] = []
    for token in sorted(range(len(p)), key=lambda token: -max(p[token], q[token]))[:5]:
        share = counts[token] / _TIMES
        error = (p[token] * (1 - p[token]) / _TIMES) ** 0.5
        off = abs(share - p[token]) / error if error else float(share > 0) * 99
        cell = f"**{off:.1f}**" if off > 4 else f"{off:.1f}"
        rows.append(
            f"| {shown(decode([token]))} | {q[token]:.1%} | {p[token]:.1%} | {share:.1%} | {cell} |"
        )
    head = "| token | draft, q | target, p | came out | off, in standard errors |"
    return (
        f"{_TIMES:,} draft tokens after {shown(_PLACE)}, judged by {whose}; {kept / _TIMES:.0%} "
        f"were accepted.\n\n{table(head, 'lrrrr', rows)}"
    )

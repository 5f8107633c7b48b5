"""Behind lesson 8: what a pass costs, two models' guesses, the rule's law, a cache."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch

from course.attempt import Attempt
from course.calling.jobs import RunError, run
from course.lesson_data.texts import shown
from nanogpt import GPT, EngineConfig, Trace, decode, encode, generate
from nanogpt.policies import acceptance
from nanogpt.sampling import probabilities
from nanogpt.speculative.drafting import Draft
from nanogpt.trace import WorkRecord

Rule = Callable[..., Any]

OPENING = "ROMEO:\nBut soft, what light "
FOUR_AHEAD = EngineConfig(token_budget=64, num_draft_tokens=4)
"""Greedy, one request, four drafts ahead."""
WANTED, PROPOSED = (1 / 8, 2 / 8, 5 / 8), (5 / 8, 1 / 8, 2 / 8)
"""p and q of three tokens."""


# --- why guess ----------------------------------------------------------------------------------


def chances(model: GPT, draft: Draft, text: str) -> tuple[list[float], list[float]]:
    """What both think comes after `text`: the target's p and the draft's q, each (V,)."""
    known = encode(text)
    with torch.inference_mode():
        logits, _ = model(torch.tensor([known]))  # (1, T, V)
    return probabilities(logits[0, -1:], 1.0)[0].tolist(), list(draft(known))


def favourites(model: GPT, draft: Draft) -> str:
    """The likeliest characters after four beginnings, by the target and by the draft; Markdown."""

    def best(numbers: Sequence[float]) -> str:
        first = sorted(range(len(numbers)), key=lambda token: -numbers[token])[:4]
        return ", ".join(f"{shown(decode([token]))} {numbers[token]:.0%}" for token in first)

    rows: list[str] = []
    for text in ("But so", "not to b", "Now is the wi"):
        p, q = chances(model, draft, text)
        rows.append(f"| {shown(text)} | {best(p)} | {best(q)} |")
    head = "| the text so far | the target (sees all of it) | the draft (sees two characters) |"
    return f"{head}\n|:--|:--|:--|\n" + "\n".join(rows)


def tally(trace: Trace, ids: Sequence[int] | None = None) -> dict[str, int]:
    """Passes that gave tokens, tokens, drafts, those looked at and accepted, of some requests."""
    works = [
        work
        for step in trace.steps
        for work in step.work
        if work.tokens and (ids is None or work.request_id in ids)
    ]
    return {
        "passes": len(works),
        "tokens": sum(len(work.tokens) for work in works),
        "drafted": sum(len(work.drafted) for work in works),
        "judged": sum(min(work.num_accepted + 1, len(work.drafted)) for work in works),
        "accepted": sum(work.num_accepted for work in works),
    }


def first_run_said(trace: Trace, model: GPT) -> str:
    """What the first run took, and whether its text is the oracle's; Markdown."""
    counts = tally(trace)
    same = list(trace.generated_tokens(0)) == generate(model, encode(OPENING), counts["tokens"])
    return (
        f"**{counts['passes']} passes for {counts['tokens']} characters.** The draft made "
        f"{counts['drafted']} guesses; {counts['judged']} of them were looked at (none behind a "
        f"rejected one), and {counts['accepted']} stayed. Beside the oracle, which computes "
        "everything one by one, the text is "
        f"**{'the same, character by character' if same else 'another one'}**."
    )


# --- the rule -----------------------------------------------------------------------------------

_PARTS = 40
_GRID = [(i + 0.5) / _PARTS for i in range(_PARTS)]

Outcomes = list[list[list[list[Any]]]]


def outcomes_of(rejection_sample: Rule) -> Outcomes:
    """What `rejection_sample` answers for each draft of three tokens, over a grid of u and v."""
    p, q = list(WANTED), list(PROPOSED)
    return [
        [[list(rejection_sample(list(p), list(q), token, u, v)) for v in _GRID] for u in _GRID]
        for token in range(len(p))
    ]


def answered(attempt: Attempt) -> tuple[Outcomes, bool]:
    """(outcomes, whether they are the learner's): the reference's where that is not to be had."""
    if attempt.started:
        with suppress(RunError):
            found = run(outcomes_of, attempt.or_reference(acceptance.rejection_sample))
            if _drawable(found):
                return found, True
    return outcomes_of(acceptance.rejection_sample), False


def _drawable(outcomes: Outcomes) -> bool:
    known = range(len(WANTED))
    return all(
        len(answer) == 2 and isinstance(answer[0], bool) and answer[1] in known
        for table in outcomes
        for row in table
        for answer in row
    )


def law(rest: Callable[[Sequence[float], Sequence[float]], Sequence[float]]) -> list[float]:
    """How often each of the three tokens stands there if a rejected one is drawn from `rest`."""
    stays = [min(p, q) for p, q in zip(WANTED, PROPOSED, strict=True)]
    weights = rest(WANTED, PROPOSED)
    gone = 1 - sum(stays)
    return [kept + gone * w / sum(weights) for kept, w in zip(stays, weights, strict=True)]


def eighths() -> list[tuple[str, int, int]]:
    """(name, p, q) of the three tokens, in eighths."""
    return [
        (name, round(8 * p), round(8 * q))
        for name, p, q in zip("abc", WANTED, PROPOSED, strict=True)
    ]


# --- the cache ----------------------------------------------------------------------------------


def cache_of_a_pass(trace: Trace) -> str:
    """The cache and the text after the first pass in which some drafts stayed; Markdown."""
    known = encode(OPENING)
    for step in trace.steps:
        for work in step.work:
            if 0 < work.num_accepted < len(work.drafted):
                held, text = [*known, *work.drafted], [*known, *work.tokens]
                return _cache_table(len(known) - 3, held, text, work)
            known += work.tokens
    raise ValueError("the run has no pass in which some drafts stayed and some went")


def _cache_table(start: int, held: list[int], text: list[int], work: WorkRecord) -> str:
    width = len(held) - start

    def letters(tokens: list[int]) -> str:
        cells = [shown(decode([token])) for token in tokens[start:]]
        return " | ".join([*cells, *[""] * (width - len(cells))])

    head = " | ".join(str(start + i) for i in range(width))
    return (
        f"{len(work.drafted)} drafted, {work.num_accepted} accepted; {len(held)} KV tokens held:"
        f"\n\n| position | {head} |\n|:--|{':-:|' * width}\n"
        f"| K/V held | {letters(held)} |\n| the text | {letters(text)} |"
    )

"""Behind lesson 8: the target beside the draft, rejection sampling's outcomes, a run's drafts."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from course.lesson_data.texts import shown, table
from nanogpt import GPT, EngineConfig, Trace, decode, encode
from nanogpt.sampling import probabilities, uniform
from nanogpt.speculative.drafting import Draft, tempered
from nanogpt.trace import WorkRecord
from widgets import bar

Rule = Callable[..., Any]

OPENING = "ROMEO:\nBut soft, what light "
FOUR_AHEAD = EngineConfig(token_budget=64, num_draft_tokens=4)
"""Greedy, one request, up to four draft tokens per pass."""
WANTED, PROPOSED = (1 / 8, 2 / 8, 5 / 8), (5 / 8, 1 / 8, 2 / 8)
"""p and q of three tokens."""


# --- two models ---------------------------------------------------------------------------------


def chances(model: GPT, draft: Draft, text: str) -> tuple[list[float], list[float]]:
    """The next token's distributions after `text`: the target's p and the draft's q, each (V,)."""
    known = encode(text)
    with torch.inference_mode():
        logits, _ = model(torch.tensor([known]))  # (1, T, V)
    return probabilities(logits[0, -1:], 1.0)[0].tolist(), list(draft(known))


def favourites(model: GPT, draft: Draft) -> str:
    """The most likely next characters by the target and by the draft; Markdown."""

    def best(numbers: Sequence[float]) -> str:
        first = sorted(range(len(numbers)), key=lambda token: -numbers[token])[:4]
        return ", ".join(f"{shown(decode([token]))} {numbers[token]:.0%}" for token in first)

    rows: list[str] = []
    for text in ("But so", "not to b", "Now is the wi"):
        p, q = chances(model, draft, text)
        rows.append(f"| {shown(text)} | {best(p)} | {best(q)} |")
    head = "| the text so far | target (sees all of it) | draft (sees two characters) |"
    return table(head, "lll", rows)


def tally(trace: Trace, ids: Sequence[int] | None = None) -> dict[str, int]:
    """Passes that yielded tokens, tokens, and draft tokens proposed, checked and accepted."""
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
        "checked": sum(min(work.num_accepted + 1, len(work.drafted)) for work in works),
        "accepted": sum(work.num_accepted for work in works),
    }


# --- rejection sampling -------------------------------------------------------------------------

_PARTS = 40
_GRID = [(i + 0.5) / _PARTS for i in range(_PARTS)]

Outcomes = list[list[list[list[Any]]]]


def shares_table() -> str:
    """Of three tokens p and q as bars of what is accepted, rejected and missing; Markdown."""
    rows: list[str] = []
    for name, p, q in zip("abc", WANTED, PROPOSED, strict=True):
        accepted, wanted, proposed = min(p, q), f"{8 * p:g}/8", f"{8 * q:g}/8"
        rows.append(
            f"| {name} | {bar([accepted, p - accepted], wanted)} "
            f"| {bar([accepted, 0.0, q - accepted], proposed)} | {accepted / q:.2g} "
            f"| {8 * (p - accepted):g}/8 |"
        )
    head = "| token | the target wants it: p | the draft proposes it: q "
    return table(f"{head}| accepted with probability | missing |", "lllrr", rows)


def outcomes_of(rejection_sample: Rule) -> Outcomes:
    """The results of `rejection_sample` for each draft token, over a grid of u and v.

    Raises: ValueError for results that cannot be drawn.
    """
    p, q = list(WANTED), list(PROPOSED)
    outcomes = [
        [[list(rejection_sample(list(p), list(q), token, u, v)) for v in _GRID] for u in _GRID]
        for token in range(len(p))
    ]
    for kept, token in (each for of in outcomes for row in of for each in row):
        if not isinstance(kept, bool) or token not in range(len(p)):
            raise ValueError(f"({kept!r}, {token!r}) cannot be drawn")
    return outcomes


# --- a run, pass by pass --------------------------------------------------------------------------

STORY_VERSION = 1


@torch.inference_mode()
def story(
    trace: Trace, request_id: int, model: GPT, draft: Draft, config: EngineConfig
) -> dict[str, Any]:
    """A request's prompt and passes as plain JSON, each pass with its draft and last tokens.

    `p` and `q` are the target's and the draft's probability of a draft token, computed again here;
    `u` is the random number that decided it, None when an earlier one was rejected. `model`,
    `draft` and `config` are the run's. Raises: KeyError when the trace has no such request.
    """
    known = list(trace.request(request_id).prompt_tokens)
    prompt = decode(known)
    passes: list[dict[str, Any]] = []
    for step in trace.steps:
        for work in step.work:
            if work.request_id == request_id and work.tokens:
                passes.append(
                    {
                        "drafts": _drafts(work, known, model, draft, config),
                        "last": _token(work.tokens[-1]) | {"kind": _kind(work)},
                    }
                )
                known += work.tokens
    return {
        "version": STORY_VERSION,
        "prompt": prompt,
        "passes": passes,
        "num_draft_tokens": config.num_draft_tokens,
        "temperature": config.temperature,
    }


def _drafts(
    work: WorkRecord, known: list[int], model: GPT, draft: Draft, config: EngineConfig
) -> list[dict[str, Any]]:
    """The draft tokens of one pass."""
    if not work.drafted:
        return []
    logits, _ = model(torch.tensor([[*known, *work.drafted]]))  # (1, T, V)
    target = probabilities(logits[0, len(known) - 1 :], config.temperature)  # (K + 1, V)
    drafts: list[dict[str, Any]] = []
    for i, token in enumerate(work.drafted):
        q = tempered(draft([*known, *work.drafted[:i]]), config.temperature)
        draw = uniform(config.seed, work.request_id, len(known) + i, "accept")
        drafts.append(
            _token(token)
            | {
                "kept": i < work.num_accepted,
                "p": target[i, token].item(),
                "q": q[token],
                "u": draw if i <= work.num_accepted else None,
            }
        )
    return drafts


def _kind(work: WorkRecord) -> str:
    """Whether the last token of a pass replaces a rejected draft token or is the bonus."""
    if not work.drafted:
        return "plain"
    return "bonus" if work.num_accepted == len(work.drafted) else "resampled"


def _token(token: int) -> dict[str, Any]:
    return {"text": decode([token]), "token": token}

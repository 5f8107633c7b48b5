"""One request's passes, draft by draft, as plain JSON: what was guessed, how likely, what stayed.

The trace says what happened; the probabilities are computed again, from scratch, by both models.
"""

from typing import Any

import torch

from nanogpt.checkpoints.tokenizer import decode
from nanogpt.config import EngineConfig
from nanogpt.model import GPT
from nanogpt.sampling import probabilities, uniform
from nanogpt.speculative.drafting import Draft, tempered
from nanogpt.trace import Trace, WorkRecord

STORY_VERSION = 1


@torch.inference_mode()
def story(
    trace: Trace, request_id: int, model: GPT, draft: Draft, config: EngineConfig
) -> dict[str, Any]:
    """The prompt, and each pass that gave the request tokens: its drafts and the last token.

    `p` and `q` are the target's and the draft's probability of a drafted token, `u` the draw that
    judged it, None when an earlier one was rejected. `model`, `draft` and `config` are the run's.
    Raises: KeyError when the trace has no such request.
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
    """Every draft of one pass, from the first on."""
    if not work.drafted:
        return []
    logits, _ = model(torch.tensor([[*known, *work.drafted]]))  # (1, T, V)
    target = probabilities(logits[0, len(known) - 1 :], config.temperature)  # (K + 1, V)
    told: list[dict[str, Any]] = []
    for i, token in enumerate(work.drafted):
        q = tempered(draft([*known, *work.drafted[:i]]), config.temperature)
        draw = uniform(config.seed, work.request_id, len(known) + i, "accept")
        told.append(
            _token(token)
            | {
                "kept": i < work.num_accepted,
                "p": target[i, token].item(),
                "q": q[token],
                "u": draw if i <= work.num_accepted else None,
            }
        )
    return told


def _kind(work: WorkRecord) -> str:
    """Whether the last token of a pass stands in for a rejected draft, or came for nothing."""
    if not work.drafted:
        return "plain"
    return "bonus" if work.num_accepted == len(work.drafted) else "resampled"


def _token(token: int) -> dict[str, Any]:
    return {"text": decode([token]), "token": token}

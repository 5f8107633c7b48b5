"""Behind lesson 8's exhibits: a cache with rejected tokens, a draft that knows the answers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from course.calling.jobs import RunError, call, run
from course.calling.policies import Policy
from course.lesson_data.l08_drafts import FOUR_AHEAD, OPENING, tally
from course.lesson_data.texts import shown, table
from nanogpt import GPT, Engine, Request, decode, encode, generate
from nanogpt.policies.masks import chunk_mask
from nanogpt.speculative.drafting import Draft

Rule = Callable[..., Any]
Passes = list[tuple[int, int, int, int]]
"""Of each pass: draft tokens, accepted ones, KV tokens kept, known tokens but the last."""


# --- A: rejected tokens in the cache ------------------------------------------------------------


@torch.inference_mode()
def speculate(
    model: GPT, prompt: Sequence[int], max_new_tokens: int, draft: Draft, k: int, roll_back: Rule
) -> tuple[list[int], Passes]:
    """Continue `prompt` greedily with k draft tokens per pass: the new tokens and the passes.

    The smallest speculative decoder there is; it does not check what `roll_back` returns.
    """
    tokens, passes = list(prompt), Passes()
    cache: dict[int, torch.Tensor] = {}  # layer -> K and V (2, S, H, D)

    def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        new = torch.stack([k, v])  # (2, T, H, D)
        cache[layer] = torch.cat([cache[layer], new], dim=1) if layer in cache else new
        keys, values = cache[layer].transpose(1, 2)  # (H, S, D) each
        mask = chunk_mask(keys.shape[1] - len(q), len(q))  # (T, S)
        heads_first = q.transpose(0, 1)
        return F.scaled_dot_product_attention(heads_first, keys, values, mask).transpose(0, 1)

    while len(tokens) < len(prompt) + max_new_tokens:
        fed, drafted = (
            (tokens[-1:], _draft_tokens(draft, tokens, k)) if cache else (list(tokens), [])
        )
        start = len(tokens) - len(fed)
        ids = torch.tensor([*fed, *drafted])
        hidden = model.hidden(ids, torch.arange(start, start + len(ids)), attend)
        # The target's choice after the last known token and after each draft token.
        chosen = model.logits(hidden)[len(fed) - 1 :].argmax(-1).tolist()
        accepted = 0
        while accepted < len(drafted) and drafted[accepted] == chosen[accepted]:
            accepted += 1
        tokens += [*drafted[:accepted], chosen[accepted]]
        keep = roll_back(cache[0].shape[1], len(drafted), accepted)
        cache = {layer: kv[:, : max(keep, 0)] for layer, kv in cache.items()}
        passes.append((len(drafted), accepted, keep, len(tokens) - 1))
    return tokens[len(prompt) :][:max_new_tokens], passes


def _draft_tokens(draft: Draft, tokens: Sequence[int], k: int) -> list[int]:
    """The draft's most likely next k tokens."""
    known = list(tokens)
    for _ in range(k):
        q = draft(known)
        known.append(max(range(len(q)), key=lambda token: q[token]))
    return known[len(tokens) :]


def rolled_back_by(rule: Rule, exact: GPT, draft: Draft) -> str:
    """The decoder's first passes and its text under a rollback, beside the oracle's; Markdown."""
    prompt = encode(OPENING)
    oracle = generate(exact, prompt, 60)
    try:
        got, passes = run(speculate, exact, prompt, 60, draft, 4, Policy(rule))
    except RunError as error:
        return f"**The decoder stopped:** {error}"
    at = next((i for i, (a, b) in enumerate(zip(got, oracle, strict=True)) if a != b), None)
    rows = "\n".join(f"| {i} | {' | '.join(map(str, each))} |" for i, each in enumerate(passes[:5]))
    verdict = "The texts are equal." if at is None else f"The texts differ after {at} characters."
    return (
        "| pass | drafted | accepted | KV tokens kept | known tokens but the last |\n"
        f"|--:|--:|--:|--:|--:|\n{rows}\n\n{len(passes)} passes. The oracle: "
        f"{shown(decode(oracle))}\n\nExhibit A: {shown(decode(got))}\n\n{verdict}"
    )


# --- B: the benchmark that knew the answers -----------------------------------------------------


def look_up(memory: str) -> Draft:
    """A draft that proposes the character that followed the last five where they last occurred."""

    def lookup_draft(known: Sequence[int], /) -> list[float]:
        text = memory + decode(list(known))
        at = text.rfind(text[-5:], 0, len(text) - 1)
        follower = encode(text[at + 5] if at >= 0 else " ")[0]
        return [float(token == follower) for token in range(65)]

    return lookup_draft


def benchmark(remember: Rule, model: GPT) -> tuple[str, bool]:
    """(the warm-up run beside the measured one, whether the draft knew none of it); Markdown."""
    first, written = _serve("", model)
    memory = call(remember, (written,)).value
    if not isinstance(memory, str):
        return "`draft_memory` has to return a text.", False
    second, again = _serve(memory, model)
    rows = [
        f"| {name} | {each['passes']} | {each['accepted'] / each['checked']:.0%} | "
        f"{each['tokens'] / each['passes']:.2f} |"
        for name, each in (("warm-up", first), ("measured", second))
    ]
    same = "Both runs write the same texts." if again == written else "The texts differ."
    head = "| run | passes | acceptance rate | tokens per pass |"
    return f"{table(head, 'lrrr', rows)}\n\n{same}", first == second


def _serve(memory: str, model: GPT) -> tuple[dict[str, int], str]:
    prompts = ("ROMEO:\nWhat say", "JULIET:\nO, my l", "GLOUCESTER:\nMy ", "First Citizen:\n")
    requests = [(0, Request(i, encode(text), 80)) for i, text in enumerate(prompts)]
    config = replace(FOUR_AHEAD, token_budget=96)
    trace = Engine(model, config, draft=look_up(memory)).run(requests)
    texts = [decode(list(trace.generated_tokens(i))) for i in range(len(prompts))]
    written = "".join(f"{prompt}{text}\n" for prompt, text in zip(prompts, texts, strict=True))
    return tally(trace), written

"""Behind lesson 8's exhibits: a sum that leaves one out, ghosts in a cache, a draft that knows."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from course.calling.jobs import RunError, call, run
from course.calling.policies import Policy
from course.lesson_data.l08_drafts import FOUR_AHEAD, OPENING, tally
from course.lesson_data.l08_worth import rounds
from course.lesson_data.texts import shown
from nanogpt import GPT, Engine, Request, decode, encode, generate
from nanogpt.policies.masks import chunk_mask
from nanogpt.speculative.drafting import Draft

Rule = Callable[..., Any]
Passes = list[tuple[int, int, int, int]]
"""Of each pass: drafts, those accepted, K/V kept, tokens known but for the last."""


def tokens_table(rule: Rule) -> str:
    """What exhibit A says beside a machine that throws dice; Markdown."""
    rows: list[str] = []
    for p in (0.0, 0.29, 0.85, 1.0):
        value = call(rule, (p, 4)).value
        said = f"{value:.3f}" if isinstance(value, int | float) else "nothing"
        rows.append(f"| {p:g} | {said} | {rounds(p, 4):.3f} |")
    head = "| p (K = 4) | exhibit A | tokens per pass of the machine, dice thrown |"
    return f"{head}\n|--:|--:|--:|\n" + "\n".join(rows)


# --- B: what was never said ---------------------------------------------------------------------


@torch.inference_mode()
def speculate(
    model: GPT, prompt: Sequence[int], max_new_tokens: int, draft: Draft, k: int, roll_back: Rule
) -> tuple[list[int], Passes]:
    """Continue `prompt` greedily, k guesses ahead: the new tokens, and what each pass held.

    The smallest speculative decoder there is; it believes what `roll_back` says.
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
        fed, guesses = (tokens[-1:], _guess(draft, tokens, k)) if cache else (list(tokens), [])
        start = len(tokens) - len(fed)
        ids = torch.tensor([*fed, *guesses])
        hidden = model.hidden(ids, torch.arange(start, start + len(ids)), attend)
        wanted = model.logits(hidden)[len(fed) - 1 :].argmax(-1).tolist()  # after fed, each guess
        accepted = 0
        while accepted < len(guesses) and guesses[accepted] == wanted[accepted]:
            accepted += 1
        tokens += [*guesses[:accepted], wanted[accepted]]
        keep = roll_back(cache[0].shape[1], len(guesses), accepted)
        cache = {layer: kv[:, : max(keep, 0)] for layer, kv in cache.items()}
        passes.append((len(guesses), accepted, keep, len(tokens) - 1))
    return tokens[len(prompt) :][:max_new_tokens], passes


def _guess(draft: Draft, tokens: Sequence[int], k: int) -> list[int]:
    """The draft's likeliest next k tokens."""
    known = list(tokens)
    for _ in range(k):
        q = draft(known)
        known.append(max(range(len(q)), key=lambda token: q[token]))
    return known[len(tokens) :]


def ghosts(rule: Rule, exact: GPT, draft: Draft) -> tuple[str, bool]:
    """(what the decoder does with a rollback, whether the text is the oracle's); Markdown."""
    prompt = encode(OPENING)
    oracle = generate(exact, prompt, 60)
    try:
        got, passes = run(speculate, exact, prompt, 60, draft, 4, Policy(rule))
    except RunError as error:
        return f"**The decoder stopped:** {error}", False
    at = next((i for i, (a, b) in enumerate(zip(got, oracle, strict=True)) if a != b), None)
    rows = "\n".join(f"| {i} | {' | '.join(map(str, each))} |" for i, each in enumerate(passes[:5]))
    told = "They are the same." if at is None else f"They part after {at} characters."
    return (
        "| pass | drafted | accepted | K/V kept | tokens known, but for the last |\n"
        f"|--:|--:|--:|--:|--:|\n{rows}\n\n{len(passes)} passes. The oracle: "
        f"{shown(decode(oracle))}\n\nExhibit B: {shown(decode(got))}\n\n{told}"
    ), at is None


# --- C: the benchmark that knew the answers -----------------------------------------------------


def look_up(memory: str, num_characters: int = 5) -> Draft:
    """A draft that proposes what followed the last few characters where they last stood."""

    def lookup_draft(known: Sequence[int], /) -> list[float]:
        text = memory + decode(list(known))
        at = text.rfind(text[-num_characters:], 0, len(text) - 1)
        follower = encode(text[at + num_characters])[0] if at >= 0 else encode(" ")[0]
        return [float(token == follower) for token in range(65)]

    return lookup_draft


def benchmark(remember: Rule, model: GPT) -> tuple[str, bool]:
    """(warming up beside what is measured, whether nothing of it was known before); Markdown."""
    first, written = _serve("", model)
    memory = call(remember, (written,)).value
    if not isinstance(memory, str):
        return "`exhibit_c` has to give a text.", False
    second, again = _serve(memory, model)
    rows = [
        f"| {name} | {each['passes']} | {each['accepted'] / each['judged']:.0%} | "
        f"{each['tokens'] / each['passes']:.2f} |"
        for name, each in (("warming up", first), ("measured", second))
    ]
    same = "The texts of both runs are the same." if again == written else "The texts differ."
    head = "| run | passes | accepted of those looked at | tokens per pass |\n|:--|--:|--:|--:|\n"
    return f"{head}{chr(10).join(rows)}\n\n{same}", first == second


def _serve(memory: str, model: GPT) -> tuple[dict[str, int], str]:
    prompts = ("ROMEO:\nWhat say", "JULIET:\nO, my l", "GLOUCESTER:\nMy ", "First Citizen:\n")
    requests = [(0, Request(i, encode(text), 80)) for i, text in enumerate(prompts)]
    config = replace(FOUR_AHEAD, token_budget=96)
    trace = Engine(model, config, draft=look_up(memory)).run(requests)
    texts = [decode(list(trace.generated_tokens(i))) for i in range(len(prompts))]
    written = "".join(f"{prompt}{text}\n" for prompt, text in zip(prompts, texts, strict=True))
    return tally(trace), written

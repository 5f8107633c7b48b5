"""Behind lesson 8b: forms in the model's letters, runs held to them, exhibits, measures."""

import re
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import torch

from course.attempt import Attempt
from course.calling.jobs import call
from course.lesson_data import l08_drafts
from course.lesson_data.texts import Arrivals, shown, table, whose_policies
from nanogpt import GPT, Engine, EngineConfig, Policies, Request, Trace, decode, encode
from nanogpt.checkpoints.tokenizer import ALPHABET
from nanogpt.grammar.matchers import LegalTokens, RegexGrammar
from nanogpt.sampling import masked, probabilities
from nanogpt.speculative.drafting import Draft

VOTES = RegexGrammar(r"((yea|nay), )*(yea|nay)\.", tuple(ALPHABET))
RECORD = RegexGrammar(
    r"who: [A-Z][a-z]+, mood: (glad|sad|mad), says: '[a-z ,]+'\.", tuple(ALPHABET)
)
SAMPLED = EngineConfig(token_budget=96, max_batch_size=20, temperature=1.0, num_draft_tokens=4)
_PROMPTS = ("ROMEO:\nSpeak, ", "JULIET:\nGood Nurse, ", "First Citizen:\n", "KING RICHARD:\n")
_LENGTHS = (40, 44, 48, 64)


def arrivals(grammar: RegexGrammar | None = RECORD) -> Arrivals:
    """Request 0 votes; four requests of each length write a record, or what they like."""
    sizes = [(prompt, length) for length in _LENGTHS for prompt in _PROMPTS]
    records = [Request(i, encode(p), n, grammar=grammar) for i, (p, n) in enumerate(sizes, 1)]
    votes = Request(0, encode("Tribune:\nYour voices? "), 40, grammar=VOTES)
    return [(0, each) for each in (votes, *records)]


def texts_of(trace: Trace) -> dict[int, str]:
    """The text of each record, by its request."""
    return {r.id: decode(list(trace.generated_tokens(r.id))) for _, r in arrivals()[1:]}


def is_valid(text: str) -> bool:
    """Whether a whole text is a record."""
    return re.fullmatch(RECORD.pattern, text) is not None


def first_lines(model: GPT, draft: Draft) -> str:
    """A text without a mask and one with it, and how many match; Markdown."""
    rows: list[str] = []
    for name, grammar in (("none", None), ("the record's", RECORD)):
        texts = texts_of(Engine(model, SAMPLED, draft=draft).run(arrivals(grammar)))
        num_valid = sum(map(is_valid, texts.values()))
        rows.append(f"| {name} | {shown(texts[9])} | {num_valid} of {len(texts)} |")
    return table("| mask | one of the texts | texts that match |", "llr", rows)


def states_table() -> str:
    """The automaton of the votes; Markdown."""
    rows: list[str] = []
    for n, (edges, left) in enumerate(
        zip(VOTES.automaton.edges, VOTES.automaton.distances, strict=True)
    ):
        moves = ", ".join(f"{shown(each)} → {to}" for each, to in edges.items())
        rows.append(f"| {n} | {moves or 'nothing: the text has ended'} | {left} |")
    return table("| state | may follow → next state | distance to an end |", "rlr", rows)


def run_report(attempts: Mapping[str, Attempt], yours: Trace, unclosed: Trace) -> str:
    """How many of the texts match, by length, with and without closing in time; Markdown."""
    said, rows = whose_policies(attempts), list[str]()
    if error := yours.error or unclosed.error:
        return f"{said} **The run stopped early:** {error}"
    closed, cut = texts_of(yours), texts_of(unclosed)
    for place, length in enumerate(_LENGTHS):
        ids = range(4 * place + 1, 4 * place + 5)
        shares = [f"{sum(is_valid(texts[i]) for i in ids)} of 4" for texts in (cut, closed)]
        rows.append(f"| {length} | {' | '.join(shares)} | {shown(closed[ids[0]])} |")
    head = "| tokens at most | valid without closing | valid with `must_close` | one of them |"
    return f"{said}\n\n{table(head, 'rrrl', rows)}"


@torch.inference_mode()
def story(trace: Trace, model: GPT, draft: Draft) -> dict[str, Any]:
    """Request 0's passes for the speculation strip, with masked p and q, and the states."""
    told = l08_drafts.story(trace, 0, model, draft, SAMPLED)
    known, matcher = encode(told["prompt"]), VOTES.matcher(Policies(), 40)
    for each in told["passes"]:
        tokens = [one["token"] for one in each["drafts"]]
        logits = model(torch.tensor([[*known, *tokens]]))[0][0, len(known) - 1 :]  # (K + 1, V)
        masks = matcher.masks(tokens)
        target = probabilities(masked(logits, masks), 1.0)
        for i, one in enumerate(each["drafts"]):
            q = torch.tensor(draft([*known, *tokens[:i]])) * masks[i]
            p = target[i, one["token"]].item()
            state = matcher.after(tokens[: i + 1]).state
            one |= {"p": p, "q": (q[one["token"]] / q.sum()).item(), "state": state}
        new = [one["token"] for one in each["drafts"] if one["kept"]] + [each["last"]["token"]]
        known, matcher = [*known, *new], matcher.after(new)
        each["last"]["state"] = matcher.state
    moves = [(n, out) for n, out in enumerate(VOTES.automaton.edges)]
    edges = [[n, to, character] for n, out in moves for character, to in out.items()]
    return told | {"automaton": edges}


# --- exhibits -------------------------------------------------------------------------------------


def mask_rows(first_mask_rows: Any) -> tuple[str, bool]:
    """Whose masks three requests get after their drafts were trimmed; whether each its own."""
    scheduled, trimmed = [3, 3, 2], [1, 3, 2]
    made_for = [f"request {i}, row {n}" for i, k in enumerate(scheduled) for n in range(k + 1)]
    answer = call(first_mask_rows, (scheduled, trimmed)).value
    if not isinstance(answer, list) or len(answer) != 3 or not {*answer} <= {*range(11)}:
        return "`first_mask_rows` has to return three numbers of rows, 0 to 10.", False
    counts = zip(scheduled, trimmed, answer, strict=True)
    rows = [f"| {i} | {k} | {t} | {at} | {made_for[at]} |" for i, (k, t, at) in enumerate(counts)]
    head = "| request | drafts scheduled | after trimming | first mask | was made for |"
    return table(head, "rrrrl", rows), answer == [0, 4, 8]


def returning(drafts_on_return: Any) -> tuple[str, bool]:
    """The drafts of a preempted request that runs again; whether they are legal there."""
    answer = call(drafts_on_return, (["a", "y", "."], 6, 7)).value
    if not isinstance(answer, list) or not {*map(str, answer)} <= {*ALPHABET}:
        return "`drafts_on_return` has to return a list of characters.", False
    matcher = VOTES.matcher(Policies(), 40).after(encode("yea, na"))
    is_legal = matcher.after(encode("".join(answer))).state is not None
    rows = [
        f"| drafts are made | {shown('yea, n')} | {shown('ay.')} | yes |",
        f"| back, and one token sampled | {shown('yea, na')} | {shown(''.join(answer))} | "
        f"{'yes' if is_legal else '**no**'} |",
    ]
    return table(
        "| moment | text | drafts | can the automaton read them? |", "llll", rows
    ), is_legal


# --- measured -------------------------------------------------------------------------------------


def mask_times(model: GPT) -> str:
    """Microseconds of a mask, by the size of the vocabulary, beside a step's; Markdown."""
    rows: list[str] = []
    for size in (65, 5_000, 50_000):
        texts = [ALPHABET[i % 65] * (1 + i // 65 % 4) for i in range(size)]
        legal = LegalTokens(RegexGrammar(RECORD.pattern, tuple(texts)), Policies())
        times = [_seconds(lambda legal=legal: legal.mask(6, 40)) for _ in range(9)]
        rows.append(f"| {size:,} | {times[0] * 1e6:,.0f} µs | {min(times) * 1e6:.0f} µs |")
    engine = Engine(model, EngineConfig())
    engine.submit(Request(0, encode("ROMEO:\n"), 40))
    step = sorted(_seconds(engine.step) for _ in range(40))[20]
    measured = table("| tokens in the vocabulary | built anew | kept |", "rrr", rows)
    return f"{measured}\n\nA step of one request without a grammar takes {step * 1e6:,.0f} µs."


def _seconds(function: Any) -> float:
    start = perf_counter()
    function()
    return perf_counter() - start


@torch.inference_mode()
def acceptance_table(model: GPT, draft: Draft, trace: Trace) -> str:
    """The exact chance that a draft token is accepted, over the records of a run; Markdown."""
    sums = {"neither": list[float](), "only the target": [], "both": []}
    for _, request in arrivals()[1:]:
        new, known = list(trace.generated_tokens(request.id)), list(request.prompt_tokens)
        matcher = RECORD.matcher(Policies(), request.max_new_tokens)
        logits = model(torch.tensor([known + new]))[0][0, len(known) - 1 : -1]
        for i, row in enumerate(logits):
            mask = matcher.after(new[:i]).masks()
            p, q = probabilities(row[None], 1.0), torch.tensor([draft(known + new[:i])])
            legal, legal_q = probabilities(masked(row[None], mask), 1.0), q * mask
            pairs = (p, q), (legal, q), (legal, legal_q / legal_q.sum())
            for (one, other), found in zip(pairs, sums.values(), strict=True):
                found.append(torch.minimum(one, other).sum().item())
    if not sums["both"]:
        return "The run with your functions generated no record to compare."
    rows = [f"| {name} | {sum(found) / len(found):.2f} |" for name, found in sums.items()]
    return table("| masked | chance that a draft token is accepted |", "lr", rows)

"""Lesson 8's n-gram drafts: the learner's lookup as an engine's drafter, on three texts."""

from collections.abc import Callable, Sequence
from typing import Any

from course.calling.jobs import RunError, run
from course.lesson_data.l08_drafts import FOUR_AHEAD, tally
from course.lesson_data.texts import table
from nanogpt import GPT, Engine, Policies, Trace, encode
from nanogpt.clock import LARGE_GPU, SERVER_CPU
from nanogpt.kv_cache_manager import KVCacheManager
from nanogpt.request import Request
from nanogpt.speculative.drafting import Drafter, Proposal

Rule = Callable[..., Any]
MAX_N, NEW, CROWD = 5, 64, 128
LINES = {
    "the prompt repeats a line": "O, my good lord, what says the king?\n" * 3 + "O, my",
    "a name comes again and again": "KING RICHARD III:\nAy.\n\nKING RICHARD III:\nNo.\n\nKING",
    "an ordinary opening": "ROMEO:\nBut soft, what light ",
}


class NgramDrafter(Drafter):
    """Proposes what `rule` finds in a request's own text. Greedy requests only."""

    def __init__(self, rule: Rule, min_n: int, vocab_size: int) -> None:
        def any_token(known: Sequence[int], /) -> list[float]:
            return [1 / vocab_size] * vocab_size

        super().__init__(any_token, FOUR_AHEAD, vocab_size, Policies())
        self.rule, self.min_n = rule, min_n

    def propose(
        self,
        planned: Sequence[tuple[Request, int]],
        running: Sequence[Request],
        kv: KVCacheManager,
    ) -> dict[int, tuple[int, ...]]:
        """Fill the room that each decode has for draft tokens, as far as the rule finds any."""
        room = super().propose(planned, running, kv)
        texts = {request.id: request.tokens_so_far for request, _ in planned}
        self._proposals = {}
        for i, places in room.items():
            tokens = self.rule(texts[i], len(places), self.min_n, MAX_N)
            if tokens:
                certain = [[float(t == token) for t in range(self.vocab_size)] for token in tokens]
                self._proposals[i] = Proposal(tuple(tokens), tuple(certain))
        return {i: proposal.tokens for i, proposal in self._proposals.items()}


def served(rule: Rule, model: GPT, min_n: int, prompt: str) -> Trace:
    """One greedy request, with up to four draft tokens per pass that `rule` proposes."""
    engine = Engine(model, FOUR_AHEAD, draft=lambda known: [])
    drafter = NgramDrafter(rule, min_n, model.config.vocab_size)
    engine.drafter = engine.scheduler.drafter = engine.sampler.drafter = drafter
    return engine.run([(0, Request(0, encode(prompt), NEW))])


def lookups(rule: Rule, model: GPT) -> list[tuple[str, int, dict[str, int], float, float]]:
    """By text and min_n: the counts of `tally`, and the modelled speed-ups."""
    found: list[tuple[str, int, dict[str, int], float, float]] = []
    for name, prompt in LINES.items():
        plain = served(lambda *args: [], model, 1, prompt)
        for min_n in (1, 3):
            trace = served(rule, model, min_n, prompt)
            if trace.generated_tokens(0) != plain.generated_tokens(0):
                raise RuntimeError("the drafts changed a greedy text")
            alone, crowd = (by(plain) / by(trace) for by in (_cpu_us, _crowd_us))
            found.append((name, min_n, tally(trace), alone, crowd))
    return found


def _cpu_us(trace: Trace) -> int:
    return sum(SERVER_CPU.forward_us(each) for step in trace.steps for each in step.forwards)


def _crowd_us(trace: Trace) -> int:
    """Modelled microseconds of the decodes of 128 such requests in one batch on a large GPU."""
    works = [work for step in trace.steps for work in step.work if work.kind == "decode"]
    sizes = [CROWD * (1 + len(work.drafted)) for work in works]
    return sum(LARGE_GPU.step_us(0, size, CROWD * NEW) for size in sizes)


def lookup_table(rule: Rule, model: GPT) -> str:
    """Passes, acceptance and the modelled speed-up of each text; Markdown."""
    try:
        found = run(lookups, rule, model)
    except RunError as error:
        return f"**The run with your `propose_ngram` stopped:** {error}"
    rows = (
        f"| {name} | {min_n} | {count['passes']} | {count['accepted']} of {count['drafted']} "
        f"| {count['tokens'] / count['passes']:.2f} | ×{alone:.2f} | ×{crowd:.2f} |"
        for name, min_n, count, alone, crowd in found
    )
    head = (
        "| text | `min_n` | passes | accepted | tokens per pass | speed-up: one request, CPU "
        "| 128 requests, GPU |"
    )
    return table(head, "lrrrrrr", rows)

"""A run of the learner's parts in words: whose parts they were, and whether its texts are right."""

import functools
import re
from collections.abc import Callable, Iterable, Mapping

from course.attempt import Attempt
from nanogpt import GPT, EngineConfig, Request, Trace, decode, encode, generate
from nanogpt.recorded_texts import RecordedTexts

Arrivals = list[tuple[int, Request]]
Line = tuple[int, str, int] | tuple[int, str, int, int]
"""Of a request: its arrival step, its prompt, its new tokens, and perhaps its priority."""


def arriving(*lines: Line) -> Callable[[], Arrivals]:
    """A function that makes the requests of these lines, numbered in their order.

    It makes new ones for each run, since the engine changes the requests that it serves.
    """

    def make(i: int, line: Line) -> tuple[int, Request]:
        priority = line[3] if len(line) == 4 else 0
        return line[0], Request(i, encode(line[1]), line[2], priority=priority)

    return lambda: [make(i, line) for i, line in enumerate(lines)]


def served(
    attempts: Mapping[str, Attempt],
    arrivals: Arrivals,
    model: GPT | RecordedTexts,
    settings: EngineConfig,
    yours: Trace,
    reference: Trace,
    blame: str,
    *,
    earlier: str = "",
    counted: str = "",
) -> str:
    """Which parts were the learner's, the verdict on the texts, and the texts, as Markdown.

    `blame` is the sentence that follows a wrong text; `earlier` says what came from earlier
    lessons, and `counted` what the run counted.
    """
    rows = (
        f"| {request.id} | …{shown(decode(request.prompt_tokens)[-24:])} "
        f"| {shown(decode(list(yours.generated_tokens(request.id))))} |"
        for _, request in arrivals
    )
    head = "| request | end of its prompt | what it got (⏎ is a line break) |"
    recorded = isinstance(model, RecordedTexts)
    wrong = None if recorded else wrong_texts(arrivals, model, settings, yours)
    verdict = _verdict(wrong, yours, reference, blame)
    said = f"{whose_policies(attempts)} {earlier}".strip()
    return f"{said}\n\n{f'{verdict} {counted}'.strip()}\n\n{table(head, 'rll', rows)}"


def table(head: str, align: str, rows: Iterable[str]) -> str:
    """A Markdown table; `align` has an "l" or an "r" for each column."""
    marks = "|".join({"l": ":--", "r": "--:"}[side] for side in align)
    return "\n".join([head, f"|{marks}|", *rows])


def whose_policies(attempts: Mapping[str, Attempt], runs: str = "this run") -> str:
    """Which parts of a run, or of "these runs", are the learner's, as a sentence."""
    mine = ", ".join(f"`{name}`" for name, each in attempts.items() if each.started)
    others = ", ".join(f"`{name}`" for name, each in attempts.items() if not each.started)
    if not mine:
        return f"{runs.capitalize()} used the reference for {others}: not written yet."
    rest = f" and {others} from the reference" if others else ""
    return f"In {runs} {mine} came from you{rest}."


def wrong_texts(arrivals: Arrivals, model: GPT, settings: EngineConfig, trace: Trace) -> list[int]:
    """The ids of the requests whose text is not the oracle's."""
    return [
        request.id
        for _, request in arrivals
        if list(trace.generated_tokens(request.id)) != oracle(model, settings, request)
    ]


def oracle(model: GPT, settings: EngineConfig, request: Request) -> list[int]:
    """The oracle's tokens for a request under `settings`, worked out once.

    Its cell runs again after every edit of an exercise, and the oracle's text stays what it was.
    """
    prompt = tuple(request.prompt_tokens)
    return list(_text(model, settings, request.id, prompt, request.max_new_tokens))


@functools.lru_cache(maxsize=64)
def _text(
    model: GPT, settings: EngineConfig, request_id: int, prompt: tuple[int, ...], num_tokens: int
) -> list[int]:
    return generate(
        model, list(prompt), num_tokens, temperature=settings.temperature, seed=settings.seed,
        request_id=request_id, sliding_window=settings.sliding_window, num_sinks=settings.num_sinks,
    )  # fmt: skip


def shown(text: str) -> str:
    """Text as Markdown code in a table cell: line breaks drawn, and spaces at its ends."""
    drawn = text.replace("\n", "⏎").replace("|", "/")
    return f"`{re.sub('^ +| +$', _spaces, drawn)}`" if text else "nothing"


def _spaces(found: re.Match[str]) -> str:
    return "␣" * len(found[0])


def _verdict(wrong: list[int] | None, yours: Trace, reference: Trace, blame: str) -> str:
    if yours.error:
        return f"**The run stopped early:** {yours.error}"
    if wrong is None:
        return (
            "**The texts are recorded here.** Only the installed course can say if yours are right."
        )
    if wrong:
        ids = ", ".join(map(str, wrong))
        return f"**Not what the oracle `generate()` says: the text of request {ids}.** {blame}"
    same = (
        "and step for step the plan is the reference's too"
        if yours.steps == reference.steps
        else "though the plan is not the reference's: step to the first difference"
    )
    return f"**All six texts equal those of the oracle `generate()`, token for token**, {same}."

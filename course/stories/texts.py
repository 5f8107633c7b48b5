"""A run of the learner's parts in words: whose parts they were, and whether its texts are right."""

from collections.abc import Mapping

from course.attempt import Attempt
from nanogpt import GPT, EngineConfig, Request, Trace, decode, generate

Arrivals = list[tuple[int, Request]]


def served(
    attempts: Mapping[str, Attempt],
    arrivals: Arrivals,
    model: GPT,
    settings: EngineConfig,
    yours: Trace,
    reference: Trace,
    blame: str,
) -> str:
    """Which parts were the learner's, the verdict on the texts, and the texts, as Markdown.

    `blame` is the sentence that follows a wrong text.
    """
    rows = [
        f"| {request.id} | …{shown(decode(request.prompt_tokens)[-24:])} "
        f"| {shown(decode(list(yours.generated_tokens(request.id))))} |"
        for _, request in arrivals
    ]
    head = "| request | end of its prompt | what it got (⏎ is a line break) |\n|--:|:--|:--|\n"
    verdict = _verdict(wrong_texts(arrivals, model, settings, yours), yours, reference, blame)
    return f"{whose_parts(attempts)}\n\n{verdict}\n\n{head}" + "\n".join(rows)


def whose_parts(attempts: Mapping[str, Attempt]) -> str:
    """Which parts of a run are the learner's, as a sentence."""
    mine = [f"`{name}`" for name, each in attempts.items() if each.started]
    others = [f"`{name}`" for name, each in attempts.items() if not each.started]
    if not mine:
        return "This run used the reference for every part: none of yours is written yet."
    if not others:
        return "Every part of this run that the lesson is about is yours."
    return (
        f"In this run {', '.join(mine)} came from you and {', '.join(others)} from the reference."
    )


def wrong_texts(arrivals: Arrivals, model: GPT, settings: EngineConfig, trace: Trace) -> list[int]:
    """The ids of the requests whose text is not the oracle's."""
    return [
        request.id
        for _, request in arrivals
        if list(trace.generated_tokens(request.id)) != oracle(model, settings, request)
    ]


def oracle(model: GPT, settings: EngineConfig, request: Request) -> list[int]:
    """What the oracle writes for a request at the temperature and seed of `settings`."""
    return generate(
        model,
        request.prompt_tokens,
        request.max_new_tokens,
        temperature=settings.temperature,
        seed=settings.seed,
        request_id=request.id,
    )


def shown(text: str) -> str:
    """A piece of text as Markdown code in a table cell: line breaks drawn, bars harmless."""
    return f"`{text.replace(chr(10), '⏎').replace('|', '/')}`" if text else "nothing"


def _verdict(wrong: list[int], yours: Trace, reference: Trace, blame: str) -> str:
    if yours.error:
        return f"**The run stopped early:** {yours.error}"
    if wrong:
        ids = ", ".join(map(str, wrong))
        return f"**Not what the oracle `generate()` says: the text of request {ids}.** {blame}"
    same = (
        "and step for step the plan is the reference's too"
        if yours.steps == reference.steps
        else "though the plan is not the reference's: step to the first difference"
    )
    return f"**All six texts equal those of the oracle `generate()`, token for token**, {same}."

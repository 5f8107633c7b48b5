"""Behind lesson 10: your engine's runs behind a socket, in words and tables; Markdown."""

import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from course.answers import LoadedPolicies
from course.attempt import Attempt
from course.calling.jobs import RunError, run
from course.leaderboard.contest_tables import card_sentence, markdown, sentence
from course.leaderboard.own_policies import PLAYED, card_of, play_mine
from course.lesson_data.l10_clients import (
    Answer,
    Call,
    Served,
    StandingServer,
    by_another_client,
    serve_calls,
    serve_while,
)
from course.lesson_data.texts import shown
from nanogpt import Engine, EngineConfig, Policies, decode, encode, generate, load_model
from nanogpt.clock import WallClock
from nanogpt.contest import BASELINES, NAMES, Round, play_round
from nanogpt.figures.curves import contest_scores
from nanogpt.server import ServerPolicies, ServerSettings
from nanogpt.server import server_policies as reference
from nanogpt.server.server_policies import StreamDelta

MakeEngine = Callable[[], Engine]
Attempts = Mapping[str, Attempt]
STEPS = 2_000
"""Of these a server's engine keeps the records, so that the page can draw what it did."""

LINES = (
    ("ROMEO:\nWhat say", 40),
    ("JULIET:\nO Romeo, Romeo! ", 40),
    ("First Citizen:\nWe are accounted poor ", 32),
    ("GLOUCESTER:\nNow is the winter ", 32),
    ("HAMLET:\nTo be, or not to be", 24),
    ("KING RICHARD III:\nA horse! ", 24),
)


def calls() -> list[Call]:
    """Six clients that come at once."""
    return [Call(prompt, num_tokens) for prompt, num_tokens in LINES]


def server_policies(attempts: Attempts) -> ServerPolicies:
    """The three functions of this page, as far as they are written."""
    usual = ServerPolicies()
    return ServerPolicies(
        **{name: each.or_reference(getattr(usual, name)) for name, each in attempts.items()}
    )


def engine_maker(config: EngineConfig, policies: Policies) -> MakeEngine:
    """Makes an engine on the wall clock, in float64, that remembers its steps."""
    model = load_model(dtype=torch.float64)
    return lambda: Engine(model, config, policies, clock=WallClock())


@functools.cache
def oracle(prompt: str, num_tokens: int) -> str:
    """What `generate` writes, worked out once."""
    return decode(generate(load_model(dtype=torch.float64), encode(prompt), num_tokens))


def counted(attempts: Attempts, earlier: LoadedPolicies) -> str:
    """How many of all parts are the learner's, and which of this page's."""
    passed = [name for name, each in attempts.items() if each.report.status == "passed"]
    mine = sum(whose == "yours" for whose in earlier.whose.values()) + len(passed)
    num_policies = len(earlier.whose) + len(attempts)
    written = [name for name, each in attempts.items() if each.started]
    others = [f"`{name}`" for name in attempts if name not in written]
    rest = f" The reference stands in for {', '.join(others)}: not written yet." if others else ""
    return f"**{mine} of {num_policies} parts are yours.**{rest}"


def burst_said(served: Served[list[Answer]], attempts: Attempts, earlier: LoadedPolicies) -> str:
    """Whose parts served six clients, and what each of them had."""
    # By request, as the picture of the engine's run beside it: clients race to the server.
    answers = sorted(served.result, key=_number)
    rows = [_row(answer) for answer in answers]
    right = sum(answer.text == oracle(*_asked(answer)) for answer in served.result)
    verdict = (
        "**All six texts are the oracle's, character for character.**"
        if right == len(rows)
        else f"**{right} of {len(rows)} texts are the oracle's.**"
    )
    head = "| request | first text after | longest gap | what its client read |\n"
    return (
        f"{counted(attempts, earlier)} {_left_out(earlier)}{verdict}{served.said}\n\n"
        f"{head}|--:|--:|--:|:--|\n" + "\n".join(rows)
    )


def _left_out(earlier: LoadedPolicies) -> str:
    """What `load_policies` said beyond the counting."""
    _, found, rest = earlier.sentence.partition("Your saved")
    return f"{found}{rest} " if found else ""


def _asked(answer: Answer) -> tuple[str, int]:
    return answer.call.prompt, answer.call.max_tokens


def _number(answer: Answer) -> int:
    return -1 if answer.request_id is None else answer.request_id


def _row(answer: Answer) -> str:
    number = "" if answer.request_id is None else answer.request_id
    if answer.message or not answer.times_s:
        said = (answer.message or "nothing came").replace("|", "/")
        return f"| {number} | | | status {answer.status}: {said} |"
    mark = "" if answer.text == oracle(*_asked(answer)) else " **differs**"
    return (
        f"| {number} | {answer.ttft_ms:.0f} ms | {answer.worst_gap_ms:.0f} ms | "
        f"{shown(answer.text)}{mark} |"
    )


def other_client_said(make: MakeEngine, policies: ServerPolicies) -> str:
    """One stream, read by a client that others wrote."""
    prompt, num_tokens = LINES[0]
    try:
        client, text = serve_while(
            lambda url: by_another_client(url, prompt, num_tokens), make, policies, ServerSettings()
        ).result
    except RunError as error:
        return f"And by another client: the server stopped, {error}"
    same = "the oracle's text" if text == oracle(prompt, num_tokens) else "**another text**"
    return f"And by {client}: {shown(text)}, {same}."


# --- overload and leaving -------------------------------------------------------------------------


def overload(
    make: MakeEngine, policies: ServerPolicies, num_clients: int = 12
) -> Served[list[Answer]]:
    """More clients at once than the server takes."""
    asked = [Call(LINES[i % len(LINES)][0], 30) for i in range(num_clients)]
    return serve_calls(make, policies, asked, ServerSettings(max_requests=5, stream_interval_ms=0))


def overload_said(served: Served[list[Answer]]) -> str:
    """How many were served, how many refused, and when they were told to come again."""
    ok = [each for each in served.result if each.status == 200 and each.times_s]
    refused = [each for each in served.result if each.status == 429]
    waits = sorted({each.retry_after_s for each in refused if each.retry_after_s is not None})
    others = [each for each in served.result if each not in ok and each not in refused]
    lines = [
        f"{len(served.result)} clients at once, room for 5: {len(ok)} were served, "
        f"{len(refused)} were answered by 429"
        + (f", with `Retry-After: {' or '.join(map(str, waits))}`." if waits else ".")
    ]
    if refused:
        lines.append(f"What a refused client reads: *{refused[0].message}*")
    lines += [f"Status {each.status}: {each.message}" for each in others[:1]]
    return "\n\n".join(lines)


def leaving_said(make: MakeEngine, policies: ServerPolicies) -> str:
    """Four clients; one leaves after five events: what its request holds, step by step."""
    asked = [Call(prompt, 60, 5 if i == 1 else None) for i, (prompt, _) in enumerate(LINES[:4])]
    served = serve_calls(make, policies, asked)
    if served.trace.error:
        return f"The server stopped: {served.trace.error}"
    gone = next(
        (
            i
            for i, request in enumerate(served.trace.requests)
            if 0 < len(served.trace.generated_tokens(request.id)) < 60
        ),
        None,
    )
    right = [a.text == oracle(*_asked(a)) for a in served.result if a.call.leaves_after is None]
    others = "The other three texts are the oracle's." if all(right) else "**Other texts changed.**"
    if gone is None:
        return f"The one that left was computed to its end. {others}{served.said}"
    request = served.trace.requests[gone]
    num_tokens = len(served.trace.generated_tokens(request.id))
    return (
        f"Client 1 left after its fifth event. Its request had given {num_tokens} of 60 tokens "
        f"when it was let go, with K/V of {len(request.prompt_tokens) + num_tokens - 1} tokens, "
        f"which the next step could give to others. {others}{served.said}"
    )


# --- the contest ----------------------------------------------------------------------------------


def own_functions(earlier: LoadedPolicies) -> dict[str, Callable[..., Any]]:
    """The learner's parts that the contest asks."""
    return {
        name: getattr(earlier.policies, name)
        for name in PLAYED
        if earlier.whose.get(name) == "yours"
    }


def played(earlier: LoadedPolicies, names: Sequence[str] = NAMES) -> list[Round]:
    """One public seed of each workload: the baselines, and the learner's parts where it has any."""
    functions = own_functions(earlier)
    if not functions:
        return [play_round(name, 0, 0, BASELINES) for name in names]
    return [play_mine(name, 0, 0, functions) for name in names]


def contest_said(rounds: Sequence[Round], earlier: LoadedPolicies) -> str:
    """What each entry scored, below the bound, and whose parts played."""
    mine = ", ".join(f"`{name}`" for name in own_functions(earlier))
    who = (
        f"*mine* plays with your {mine}, and the reference for the rest."
        if mine
        else "No part of yours plays yet. Once one does, there is a row *mine*."
    )
    first, *others = [markdown([each], ["seed 0"]).splitlines() for each in rounds]
    table = [first[0], first[1]]
    names = [row.split("|")[1].strip() for row in first[2:]]
    heads = [lines[0].split("|")[1].strip() for lines in (first, *others)]
    columns = [[row.split("|")[2].strip() for row in lines[2:]] for lines in (first, *others)]
    table = [f"| | {' | '.join(heads)} |", "|:--|" + "--:|" * len(heads)]
    table += [
        f"| {name} | {' | '.join(column[i] for column in columns)} |"
        for i, name in enumerate(names)
    ]
    said = " ".join(sentence([each]) for each in rounds if any(s.problem for _, s in each.scores))
    return f"{who} {said}\n\n" + "\n".join(table)


def contest_chart(rounds: Sequence[Round]) -> Any:
    """Promises kept by each entry, below the bound: as many workloads as a slide has room for."""
    shown = [each for each in rounds if each.workload in ("documents", "urgent")]
    return contest_scores(shown, "The contest: promises kept in two of the four")


def card_said(earlier: LoadedPolicies, name: str = "urgent") -> str:
    """What each part of the learner's brought in one workload."""
    functions = own_functions(earlier)
    if not functions:
        return (
            "It has a line for each part of yours that plays: pass an exercise of lesson 1 or 2, "
            "and it stands here."
        )
    card = card_of(functions, [name], 0)
    rows = [f"| `{each.part}` | {each.alone:+} | {each.among:+} |" for each in card]
    head = f"| part | {name}: alone with the reference | among your own |\n|:--|--:|--:|\n"
    return f"{card_sentence(card)}\n\n{head}" + "\n".join(rows)


# --- what a stream is made of ---------------------------------------------------------------------


def gaps_said(served: Served[list[Answer]]) -> str:
    """First texts and gaps of a burst, in a sentence."""
    ok = [each for each in served.result if each.times_s]
    if not ok:
        return "None of the clients had any text."
    firsts = [each.ttft_ms for each in ok]
    gaps = [
        1000 * (b - a) for each in ok for a, b in zip(each.times_s, each.times_s[1:], strict=False)
    ]
    gap = f"{statistics.median(gaps):.1f} ms" if gaps else "no gap"
    return (
        f"First text after {min(firsts):.0f} to {max(firsts):.0f} ms, and then an event every "
        f"{gap} in the median: measured just now by the clients, on the engine's machine. The "
        "timeline's times are the engine's own, without the way through the server and back."
    )


def standing(make: MakeEngine, policies: ServerPolicies) -> StandingServer:
    """A server that stands while the page is open, and does not linger."""
    return StandingServer(make, policies, ServerSettings(shutdown_s=0))


# --- quoted from docs/benchmarks.md, as a test holds ----------------------------------------------


# --- the bytes of a stream ------------------------------------------------------------------------

_BYTES = (b"O ", b"caf", b"\xc3", b"\xa9", b" \xf0\x9f", b"\x98\x80")


def _texts_of(events_of: StreamDelta) -> list[str | None]:
    """What is sent after each token, and at the end; None for what is no list of texts."""
    texts: list[str | None] = []
    for number in range(1, len(_BYTES) + 2):
        sent = sum(len(text or "") for text in texts)
        events: Any = events_of(list(_BYTES[:number]), sent, number > len(_BYTES))
        is_list = isinstance(events, list)
        texts.append("".join(each for each in events if isinstance(each, str)) if is_list else None)  # pyright: ignore[reportUnknownVariableType]
    return texts


def bytes_of_a_stream(attempt: Attempt) -> str:
    """Tokens as bytes, and what the learner's function sends after each."""
    try:
        texts = run(_texts_of, attempt.or_reference(reference.stream_delta))
    except RunError:  # the check has said why
        texts = [None] * (len(_BYTES) + 1)
    rows: list[str] = []
    sent = 0
    for token, text in zip([*_BYTES, None], texts, strict=True):
        sent += len(text or "")
        name = "the end" if token is None else f"`{token.hex(' ')}`"
        rows.append(f"| {name} | {'?' if text is None else shown(text)} | {sent} |")
    whose = "your `stream_delta`" if attempt.started else "the reference (yours is not written yet)"
    head = "| the newest token, in bytes | is sent | characters sent |\n|:--|:--|--:|\n"
    return f"A stream of six tokens, by {whose}:\n\n{head}" + "\n".join(rows)

"""Behind lesson 10: runs of the learner's engine behind a socket, and in the contest; Markdown."""

import functools
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import torch
from matplotlib.figure import Figure

from course.attempt import Attempt
from course.calling.jobs import RunError, run
from course.leaderboard.contest_tables import card_sentence, rows_of, sentence
from course.leaderboard.own_policies import PLAYED, card_of, play_mine
from course.lesson_data.l10_clients import (
    COMPLETION,
    WRAPPED,
    Answer,
    Call,
    Served,
    StandingServer,
    answer_to,
    serve_calls,
    serve_while,
)
from course.lesson_data.texts import shown, table
from course.saved_answers import LoadedPolicies
from nanogpt import Engine, decode, encode, generate, load_model
from nanogpt.contest import BASELINES, NAMES, Round, play_round
from nanogpt.figures.curves import contest_scores
from nanogpt.server import ServerPolicies, ServerSettings
from nanogpt.server import server_policies as reference
from nanogpt.server.server_policies import StreamDelta

MakeEngine = Callable[[], Engine]
Attempts = Mapping[str, Attempt]
STEPS = 2_000
"""A served engine keeps the records of so many steps, for the page's pictures."""

LINES = (
    ("ROMEO:\nWhat say", 40),
    ("JULIET:\nO Romeo, Romeo! ", 40),
    ("First Citizen:\nWe are accounted poor ", 32),
    ("GLOUCESTER:\nNow is the winter ", 32),
    ("HAMLET:\nTo be, or not to be", 24),
    ("KING RICHARD III:\nA horse! ", 24),
)


@functools.cache
def oracle(prompt: str, num_tokens: int) -> str:
    """The text of `generate`."""
    return decode(generate(load_model(dtype=torch.float64), encode(prompt), num_tokens))


def curl_answer(make: MakeEngine) -> str:
    """A `curl` command for a new server on 127.0.0.1, and the server's real answer, as HTML."""
    try:
        url, answer = serve_while(
            lambda url: (url, answer_to(url)), make, ServerPolicies(), ServerSettings()
        ).result
    except RunError as error:
        return f"<p>The server stopped: {escape(str(error))}</p>"
    command = f"$ curl -i {url}/v1/completions -d '{COMPLETION}'"
    return f"<pre {WRAPPED}>{escape(command)}\n\n{escape(answer)}</pre>"


# --- clients that come at once --------------------------------------------------------------------


def whose_policies(attempts: Attempts, earlier: LoadedPolicies) -> str:
    """How many of the policies are the learner's, and which of this page's are not."""
    passed = [name for name, each in attempts.items() if each.report.status == "passed"]
    mine = sum(whose == "yours" for whose in earlier.whose.values()) + len(passed)
    num_policies = len(earlier.whose) + len(attempts)
    others = [f"`{name}`" for name, each in attempts.items() if not each.started]
    rest = f" The reference stands in for {', '.join(others)}: not written yet." if others else ""
    _, found, broken = earlier.sentence.partition("Your saved")
    return f"**{mine} of {num_policies} policies are yours.**{rest} {found}{broken}".strip()


def clients_table(served: Served[list[Answer]]) -> str:
    """The text of each client, beside the oracle's."""
    # In the order of the timeline's rows: clients race to the server.
    answers = sorted(served.result, key=_number)
    right = sum(answer.text == oracle(*_asked(answer)) for answer in answers)
    verdict = (
        "**All six texts are the oracle's, character for character.**"
        if right == len(answers)
        else f"**{right} of {len(answers)} texts are the oracle's.**"
    )
    head = "| request | first text after | longest gap | what its client read |"
    return f"{verdict}{served.failures}\n\n{table(head, 'rrrl', map(_row, answers))}"


def _asked(answer: Answer) -> tuple[str, int]:
    return answer.call.prompt, answer.call.max_tokens


def _number(answer: Answer) -> int:
    return -1 if answer.request_id is None else answer.request_id


def _row(answer: Answer) -> str:
    number = "" if answer.request_id is None else answer.request_id
    if answer.message or not answer.times_s:
        message = (answer.message or "nothing came").replace("|", "/")
        return f"| {number} | | | status {answer.status}: {message} |"
    mark = "" if answer.text == oracle(*_asked(answer)) else " **differs**"
    return (
        f"| {number} | {answer.ttft_ms:.0f} ms | {answer.worst_gap_ms:.0f} ms | "
        f"{shown(answer.text)}{mark} |"
    )


def overload_table(make: MakeEngine, policies: ServerPolicies) -> str:
    """Twelve clients at once on a server that admits five: how many got which answer."""
    asked = [Call(LINES[i % len(LINES)][0], 30) for i in range(12)]
    settings = ServerSettings(max_requests=5, stream_interval_ms=0)
    served = serve_calls(make, policies, asked, settings)
    kinds: dict[tuple[int, int | None], list[str]] = {}
    for each in served.result:
        message = each.message or ("its whole text" if each.times_s else "no text")
        kinds.setdefault((each.status, each.retry_after_s), []).append(message.replace("|", "/"))
    rows = [
        f"| {len(messages)} | {status} | {'' if wait is None else f'{wait} s'} | {messages[0]} |"
        for (status, wait), messages in sorted(kinds.items())
    ]
    head = "| clients | status | `Retry-After` | what they read |"
    return table(head, "rrrl", rows) + served.failures


def disconnect_table(make: MakeEngine, policies: ServerPolicies) -> str:
    """Four clients, one of which leaves after five events: the tokens that each request got."""
    calls = [Call(prompt, 60, 5 if i == 1 else None) for i, (prompt, _) in enumerate(LINES[:4])]
    served = serve_calls(make, policies, calls)
    if served.trace.error:
        return f"The server stopped: {served.trace.error}"
    rows: list[str] = []
    for each in sorted(served.result, key=_number):
        num_tokens = len(served.trace.generated_tokens(_number(each))) if each.times_s else 0
        left = each.call.leaves_after is not None
        right = "the oracle's" if each.text == oracle(*_asked(each)) else "**differs**"
        verdict = "its client left after 5 events" if left else right
        rows.append(f"| {_number(each)} | {num_tokens} of 60 | {verdict} |")
    return table("| request | tokens computed | its text |", "rrl", rows) + served.failures


def standing(make: MakeEngine, policies: ServerPolicies) -> StandingServer:
    """A server that runs while the page is open, and stops at once."""
    return StandingServer(make, policies, ServerSettings(shutdown_s=0))


# --- the contest ----------------------------------------------------------------------------------


def own_functions(earlier: LoadedPolicies) -> dict[str, Callable[..., Any]]:
    """The learner's policies that the contest asks."""
    return {
        name: getattr(earlier.policies, name)
        for name in PLAYED
        if earlier.whose.get(name) == "yours"
    }


def played(earlier: LoadedPolicies, names: Sequence[str] = NAMES) -> list[Round]:
    """One public seed of each workload: the baselines, and the learner's policies if any."""
    functions = own_functions(earlier)
    if not functions:
        return [play_round(name, 0, 0, BASELINES) for name in names]
    return [play_mine(name, 0, 0, functions) for name in names]


def contest_table(rounds: Sequence[Round], earlier: LoadedPolicies) -> str:
    """The score of each entry below the bound, and whose policies played."""
    mine = ", ".join(f"`{name}`" for name in own_functions(earlier))
    who = (
        f"*mine* plays with your {mine}, and the reference for the rest."
        if mine
        else "None of your policies plays yet. Once one does, there is a row *mine*."
    )
    tables = [rows_of([each], ["seed 0"]) for each in rounds]
    rows = (
        f"| {same[0][0]} | {' | '.join(points for _, points, _ in same)} |"
        for same in zip(*(rows for _, *rows in tables), strict=True)
    )
    heads = [heads[0] for heads, *_ in tables]
    scores = table(f"| | {' | '.join(heads)} |", "l" + "r" * len(heads), rows)
    failed = [each for each in rounds if any(score.problem for _, score in each.scores)]
    problems = " ".join(sentence([each]) for each in failed)
    return f"{who} {problems}\n\n{scores}"


def contest_chart(rounds: Sequence[Round]) -> Figure:
    """SLOs met by each entry, below the bound: as many workloads as a slide has room for."""
    two = [each for each in rounds if each.workload in ("documents", "urgent")]
    return contest_scores(two, "The contest: SLOs met in two of the four workloads")


def card_table(earlier: LoadedPolicies, name: str = "urgent") -> str:
    """What each of the learner's policies brought in one workload."""
    functions = own_functions(earlier)
    if not functions:
        return (
            "The report card has a row for each policy of yours that plays: pass an exercise of "
            "lesson 1 or 2."
        )
    card = card_of(functions, [name], 0)
    rows = [f"| `{each.policy}` | {each.alone:+} | {each.among:+} |" for each in card]
    head = f"| policy | {name}: with the reference | among your own |"
    return f"{card_sentence(card)}\n\n{table(head, 'lrr', rows)}"


# --- the bytes of a stream ------------------------------------------------------------------------

_BYTES = (b"O ", b"caf", b"\xc3", b"\xa9", b" \xf0\x9f", b"\x98\x80")


def _texts_of(events_of: StreamDelta) -> list[str | None]:
    """The text sent after each token, and at the end; None for a result that is not a list."""
    texts: list[str | None] = []
    for number in range(1, len(_BYTES) + 2):
        sent = sum(len(text or "") for text in texts)
        events: Any = events_of(list(_BYTES[:number]), sent, number > len(_BYTES))
        is_list = isinstance(events, list)
        texts.append("".join(each for each in events if isinstance(each, str)) if is_list else None)  # pyright: ignore[reportUnknownVariableType]
    return texts


def stream_table(attempt: Attempt) -> str:
    """Six tokens as bytes, and what the learner's function sends after each."""
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
    head = "| the newest token, in bytes | text sent | characters sent so far |"
    return f"A stream of six tokens, by {whose}:\n\n{table(head, 'llr', rows)}"

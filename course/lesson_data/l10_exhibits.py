"""Behind lesson 10's exhibits: five defects, each put into the real server or engine; Markdown."""

import functools
from collections.abc import Callable
from typing import Any

import torch

from course.calling.jobs import RunError, run
from course.calling.policies import Policy
from course.lesson_data.l10_clients import (
    EVERY_STEP,
    Answer,
    Call,
    Served,
    at_once,
    serve_while,
    stream,
)
from course.lesson_data.l10_served import LINES, STEPS, oracle
from course.lesson_data.texts import shown
from nanogpt import Engine, EngineConfig, Policies, Request, decode, encode, load_model
from nanogpt.checkpoints.pieces import Characters
from nanogpt.clock import WallClock
from nanogpt.executors.packed import PackedExecutor
from nanogpt.policies.queueing import ResumeState
from nanogpt.policy_views import RequestView
from nanogpt.server import ServerPolicies, ServerSettings
from nanogpt.server.continuation import Continuation

Rule = Callable[..., Any]


def or_why_not(exhibit: Callable[[Rule], str]) -> Callable[[Rule], str]:
    """The exhibit, or why its run stopped."""

    @functools.wraps(exhibit)
    def said(rule: Rule) -> str:
        try:
            return exhibit(rule)
        except RunError as error:
            return f"**The run stopped:** {error}"

    return said


def served(
    name: str,
    rule: Rule,
    use: Callable[[str], list[Answer]],
    make_engine: Callable[[], Engine],
    settings: ServerSettings = EVERY_STEP,
) -> Served[list[Answer]]:
    """What `use` makes of a server with this part. Raises: RunError."""
    policies = ServerPolicies(**{name: Policy(rule)})
    return serve_while(use, make_engine, policies, settings)


def begins_anew(view: RequestView, /) -> ResumeState:
    """A way back from a preemption that keeps no generated token: the text is written again."""
    return ResumeState(list(view.prompt_tokens), 0, view.arrival_time, 0)


def engine(policies: Policies = Policies(), **settings: Any) -> Engine:
    """A small engine on the wall clock."""
    usual: dict[str, Any] = {"token_budget": 32, "max_batch_size": 8, "keep_steps": STEPS}
    config = EngineConfig(**{**usual, **settings})
    return Engine(load_model(dtype=torch.float64), config, policies, clock=WallClock())


# --- A: once more from the beginning --------------------------------------------------------------


@or_why_not
def doubled(rule: Rule) -> str:
    """Four clients on a KV budget so short that some are preempted, and what they read."""
    asked = [Call(prompt, 40) for prompt, _ in LINES[:4]]
    seen = served(
        "stream_delta", rule, lambda url: at_once(url, asked),
        lambda: engine(Policies(requeue=begins_anew), max_kv_tokens=150),
    )  # fmt: skip
    rows: list[str] = []
    for number, each in enumerate(seen.result):
        right = each.text == oracle(each.call.prompt, 40)
        verdict = "the oracle's" if right else f"**{len(each.text)} characters, not its 40**"
        text = each.text if len(each.text) < 90 else f"{each.text[:90]}…"
        said = each.message.replace("|", "/") if each.message else shown(text)
        rows.append(f"| {number} | {verdict} | {said} |")
    head = "| client | its text is | what it read |\n|--:|:--|:--|\n"
    return head + "\n".join(rows) + seen.said


# --- B: half a character --------------------------------------------------------------------------

CAFE = "naïve café 😀"


class TwoBytes(Characters):
    """A tokenizer whose token n is the n-th two bytes of one text."""

    def piece(self, token: int) -> bytes:
        """These two."""
        return CAFE.encode()[2 * token : 2 * token + 2]


@or_why_not
def halves(rule: Rule) -> str:
    """The real text of a stream, of tokens that are two bytes each."""
    pieces = [TwoBytes().piece(token) for token in range(-(-len(CAFE.encode()) // 2))]

    def job(rule: Rule) -> list[str]:
        text = Continuation(tokenizer=TwoBytes(), delta=rule)
        return [text.feed([token]) for token in range(len(pieces))] + [text.rest()]

    events = run(job, Policy(rule))
    rows = [
        f"| `{piece.hex(' ')}` | {f'`{event}`' if event else 'nothing'} |"
        for piece, event in zip([*pieces, b""], events, strict=True)
    ]
    rows[-1] = rows[-1].replace("``", "the end", 1)
    whole = "".join(events)
    told = "They are the same." if whole == CAFE else f"**The client has:** {whole}"
    head = "| a token, two bytes each | is sent |\n|:--|:--|\n"
    return f"The answer: {CAFE}\n\n{head}" + "\n".join(rows) + f"\n\n{told}"


# --- C: for a client that has left ----------------------------------------------------------------


@or_why_not
def computed_on(rule: Rule) -> str:
    """One request at a time; the first client leaves after three events, the second waits."""
    asked = Call(LINES[0][0], 160, 3), Call(LINES[4][0], 8)
    seen = served(
        "on_disconnect", rule, lambda url: [stream(url, each) for each in asked],
        lambda: engine(max_batch_size=1),
    )  # fmt: skip
    num_tokens, second = len(seen.trace.generated_tokens(0)), seen.result[1]
    waited = f"its first text after {second.ttft_ms:.0f} ms" if second.times_s else "no text"
    return (
        f"The first client left after 3 events; its request came to **{num_tokens} of 160 "
        f"tokens**. The second, behind it, had {waited}.{seen.said}"
    )


# --- D: a queue without an end --------------------------------------------------------------------


@or_why_not
def crowd(rule: Rule) -> str:
    """24 clients at once on a server for 6: who is served, and after how long."""
    asked = [Call(LINES[i % len(LINES)][0], 24) for i in range(24)]
    settings = ServerSettings(max_requests=6, stream_interval_ms=0)
    seen = served(
        "admission_control", rule, lambda url: at_once(url, asked),
        lambda: engine(max_batch_size=3), settings,
    )  # fmt: skip
    firsts = sorted(each.ttft_ms for each in seen.result if each.times_s)
    refused = [each for each in seen.result if each.status == 429]
    if not firsts:
        return f"**None was served.**{seen.said}"
    waits = sorted({each.retry_after_s for each in refused if each.retry_after_s})
    told = f", told to come again in {' or '.join(map(str, waits))} s" if waits else ""
    return (
        f"Of 24 clients {len(firsts)} were served and {len(refused)} refused{told}. First text "
        f"after {firsts[0]:.0f} ms for the luckiest, **{firsts[-1]:.0f} ms** for the last."
        f"{seen.said}"
    )


# --- E: under a step ------------------------------------------------------------------------------


class LeftInMidStep(PackedExecutor):
    """The packed executor, in whose sixth forward a client leaves. Mutable: how many there were."""

    def __init__(self, made: Engine, rule: Rule, leaver: int) -> None:
        super().__init__(made.model, made.cache, made.policies)
        self._made = made
        self._rule = rule
        self._leaver = leaver
        self.num_forwards = 0
        self.leaving: list[int] = []

    def execute(self, rows: Any) -> Any:
        """The rows' logits; and once, what the rule says is done."""
        self.num_forwards += 1
        if self.num_forwards == 6:
            running = {i: each.num_computed_tokens for i, each in self._made.requests.items()}
            state = {"waiting": [], "running": running, "leaving": [], "in_step": True}
            after = self._rule(state, self._leaver)
            self.leaving = list(after["leaving"])
            for gone in [i for i in running if i not in after["running"]]:
                self._made.abort(gone)
        return super().execute(rows)


@or_why_not
def under_a_step(rule: Rule) -> str:
    """Three requests in one batch; the client of one leaves while a step computes."""
    asked = {i: LINES[i][0] for i in range(3)}

    def job(rule: Rule) -> tuple[str, dict[int, list[int]]]:
        made = engine()
        requests = {i: Request(i, encode(prompt), 20) for i, prompt in asked.items()}
        for request in requests.values():
            made.submit(request)
        made.executor = executor = LeftInMidStep(made, rule, 1)
        told = ""
        try:
            while not made.scheduler.is_done():
                made.step()
                for gone in executor.leaving:
                    made.abort(gone)
                executor.leaving = []
        except KeyError as error:
            told = f"**The step ended with `{type(error).__name__}: {error}`.** "
        return told, {i: list(request.generated_tokens) for i, request in requests.items()}

    told, given = run(job, Policy(rule))
    texts = {i: decode(tokens) for i, tokens in given.items()}
    rows = [
        f"| {i} | {'its client left' if i == 1 else _stands(text, asked[i])} | {shown(text)} |"
        for i, text in texts.items()
    ]
    return f"{told}\n\n| request | | what it has given |\n|--:|:--|:--|\n" + "\n".join(rows)


def _stands(text: str, prompt: str) -> str:
    return "the oracle's text" if text == oracle(prompt, 20) else f"{len(text)} of 20 tokens"

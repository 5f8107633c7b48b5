"""Behind lesson 10's exhibits: five defects, each put into the real server or engine; Markdown."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from course.stories.l10_clients import EVERY_STEP, Call, at_once, stream
from course.stories.l10_served import LINES, STEPS, oracle
from course.stories.texts import shown
from nanogpt import Engine, EngineConfig, Parts, Request, decode, encode, load_model
from nanogpt.checkpoints.pieces import Characters
from nanogpt.clock import WallClock
from nanogpt.executors.packed import PackedExecutor
from nanogpt.parts.guard import guarded
from nanogpt.parts.plain_values import as_items, as_mapping
from nanogpt.parts.request_view import RequestView
from nanogpt.policies import Resumed
from nanogpt.server import ServerParts, ServerSettings, running_server
from nanogpt.server.continuation import Continuation
from nanogpt.validate import PartError

Rule = Callable[..., Any]
FORMS: dict[str, Callable[[Any], bool]] = {
    "admit_or_refuse": lambda value: value == "accept" or len(as_items(value) or ()) == 2,
    "next_events": lambda value: (
        (items := as_items(value)) is not None and all(isinstance(each, str) for each in items)
    ),
    "on_disconnect": lambda value: (as_mapping(value) or {}).keys() >= BOOKS,
}
BOOKS = {"waiting", "running", "leaving", "in_step"}


class Believed:
    """An exhibit's function as a server part whose answers nothing looks at but for their form.

    Mutable: `problem` says why it is believed no more, and the reference goes on.
    """

    def __init__(self, name: str, rule: Rule) -> None:
        self.problem = ""
        self._name = name
        self._rule = guarded("function", rule)

    def __call__(self, *args: Any) -> Any:
        """What it answers."""
        reference = getattr(ServerParts(), self._name)
        if self.problem:
            return reference(*args)
        try:
            answer = self._rule(*args)
        except PartError as error:
            self.problem = str(error)
            return reference(*args)
        if not FORMS[self._name](answer):
            self.problem = f"your function returned {answer!r}, which is no answer"
            return reference(*args)
        return answer

    @property
    def said(self) -> str:
        """The problem, for the end of a page's sentence."""
        return f"\n\n**The reference stands in:** {self.problem}." if self.problem else ""


def serve_believing(
    made: Engine,
    name: str,
    rule: Rule,
    use: Callable[[str], Any],
    settings: ServerSettings = EVERY_STEP,
) -> tuple[Any, str]:
    """What `use` makes of a server that believes this part, and what is to be said of the part."""
    part = Believed(name, rule)
    with running_server(lambda: made, settings) as (url, thread):
        thread.parts = replace(ServerParts(), **{name: part})
        return use(url), part.said


def begins_anew(view: RequestView, /) -> Resumed:
    """A way back from a preemption that keeps no generated token: the text is written again."""
    return Resumed(list(view.prompt_tokens), 0, view.arrival_time, 0)


def engine(parts: Parts = Parts(), **settings: Any) -> Engine:
    """A small engine on the wall clock."""
    usual: dict[str, Any] = {"token_budget": 32, "max_batch_size": 8, "keep_steps": STEPS}
    config = EngineConfig(**{**usual, **settings})
    return Engine(load_model(dtype=torch.float64), config, parts, clock=WallClock())


# --- A: once more from the beginning --------------------------------------------------------------


def doubled(rule: Rule) -> str:
    """Four clients on a KV budget so short that some are preempted, and what they read."""
    asked = [Call(prompt, 40) for prompt, _ in LINES[:4]]
    made = engine(Parts(resume=begins_anew), max_kv_tokens=150)
    served, problem = serve_believing(made, "next_events", rule, lambda url: at_once(url, asked))
    rows: list[str] = []
    for number, each in enumerate(served):
        right = each.text == oracle(each.call.prompt, 40)
        verdict = "the oracle's" if right else f"**{len(each.text)} characters, not its 40**"
        text = each.text if len(each.text) < 90 else f"{each.text[:90]}…"
        said = each.message.replace("|", "/") if each.message else shown(text)
        rows.append(f"| {number} | {verdict} | {said} |")
    head = "| client | its text is | what it read |\n|--:|:--|:--|\n"
    return head + "\n".join(rows) + problem


# --- B: half a character --------------------------------------------------------------------------

CAFE = "naïve café 😀"


class TwoBytes(Characters):
    """A tokenizer whose token n is the n-th two bytes of one text."""

    def piece(self, token: int) -> bytes:
        """These two."""
        return CAFE.encode()[2 * token : 2 * token + 2]


def halves(rule: Rule) -> str:
    """The real text of a stream, of tokens that are two bytes each."""
    pieces = [TwoBytes().piece(token) for token in range(-(-len(CAFE.encode()) // 2))]
    part = Believed("next_events", rule)
    text = Continuation(tokenizer=TwoBytes(), events=part)
    events = [text.feed([token]) for token in range(len(pieces))] + [text.rest()]
    rows = [
        f"| `{piece.hex(' ')}` | {f'`{event}`' if event else 'nothing'} |"
        for piece, event in zip([*pieces, b""], events, strict=True)
    ]
    rows[-1] = rows[-1].replace("``", "the end", 1)
    whole = "".join(events)
    told = "They are the same." if whole == CAFE else f"**The client has:** {whole}"
    head = "| a token, two bytes each | is sent |\n|:--|:--|\n"
    return f"The answer: {CAFE}\n\n{head}" + "\n".join(rows) + f"\n\n{told}{part.said}"


# --- C: for a client that has left ----------------------------------------------------------------


def computed_on(rule: Rule) -> str:
    """One request at a time; the first client leaves after three events, the second waits."""
    made = engine(max_batch_size=1)

    def use(url: str) -> tuple[int, float]:
        first, second = Call(LINES[0][0], 160, 3), Call(LINES[4][0], 8)
        stream(url, first)
        began = time.perf_counter()
        answer = stream(url, second)
        waited = answer.times_s[0] if answer.times_s else time.perf_counter() - began
        return len(made.trace().generated_tokens(0)), 1000 * waited

    (num_tokens, waited_ms), problem = serve_believing(made, "on_disconnect", rule, use)
    return (
        f"The first client left after 3 events; its request came to **{num_tokens} of 160 "
        f"tokens**. The second, behind it, had its first text after {waited_ms:.0f} ms.{problem}"
    )


# --- D: a queue without an end --------------------------------------------------------------------


def crowd(rule: Rule) -> str:
    """24 clients at once on a server for 6: who is served, and after how long."""
    asked = [Call(LINES[i % len(LINES)][0], 24) for i in range(24)]
    made = engine(max_batch_size=3)
    settings = ServerSettings(max_requests=6, stream_interval_ms=0)
    served, problem = serve_believing(
        made, "admit_or_refuse", rule, lambda url: at_once(url, asked), settings
    )
    firsts = sorted(each.ttft_ms for each in served if each.times_s)
    refused = [each for each in served if each.status == 429]
    if not firsts:
        return f"**None was served.**{problem}"
    waits = sorted({each.retry_after_s for each in refused if each.retry_after_s})
    told = f", told to come again in {' or '.join(map(str, waits))} s" if waits else ""
    return (
        f"Of 24 clients {len(firsts)} were served and {len(refused)} refused{told}. First text "
        f"after {firsts[0]:.0f} ms for the luckiest, **{firsts[-1]:.0f} ms** for the last.{problem}"
    )


# --- E: under a step ------------------------------------------------------------------------------


class LeftInMidStep(PackedExecutor):
    """The packed executor, in whose sixth forward a client leaves. Mutable: how many there were."""

    def __init__(self, made: Engine, rule: Rule, leaver: int) -> None:
        super().__init__(made.model, made.cache, made.parts)
        self._made = made
        self._rule = rule
        self._leaver = leaver
        self.num_forwards = 0
        self.leaving: list[int] = []

    def run(self, rows: Any) -> Any:
        """The rows' logits; and once, what the rule says is done to the books is done."""
        self.num_forwards += 1
        if self.num_forwards == 6:
            running = {i: each.prefill_cursor for i, each in self._made.requests.items()}
            books = {"waiting": [], "running": running, "leaving": [], "in_step": True}
            after = self._rule(books, self._leaver)
            self.leaving = list(after["leaving"])
            for gone in [i for i in running if i not in after["running"]]:
                self._made.cancel(gone)
        return super().run(rows)


def under_a_step(rule: Rule) -> str:
    """Three requests in one batch; the client of one leaves while a step computes."""
    made = engine()
    asked = {i: LINES[i][0] for i in range(3)}
    requests = {i: Request(i, encode(prompt), 20) for i, prompt in asked.items()}
    for request in requests.values():
        made.submit(request)
    executor = LeftInMidStep(made, part := Believed("on_disconnect", rule), 1)
    made.executor = executor
    told = ""
    try:
        while not made.scheduler.is_done():
            made.step()
            for gone in executor.leaving:
                made.cancel(gone)
            executor.leaving = []
    except KeyError as error:
        told = f"**The step ended with `{type(error).__name__}: {error}`.** "
    rows = [
        f"| {i} | {'its client left' if i == 1 else _stands(request, asked[i])} | "
        f"{shown(decode(request.generated_tokens))} |"
        for i, request in requests.items()
    ]
    return (
        f"{told}\n\n| request | | what it has given |\n|--:|:--|:--|\n"
        + "\n".join(rows)
        + part.said
    )


def _stands(request: Request, prompt: str) -> str:
    text = decode(request.generated_tokens)
    return "the oracle's text" if text == oracle(prompt, 20) else f"{len(text)} of 20 tokens"

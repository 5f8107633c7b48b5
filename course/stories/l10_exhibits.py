"""Behind lesson 10's exhibits: five defects, each put into the real server or engine; Markdown."""

import time
from collections.abc import Callable
from typing import Any

import torch

from course.stories.l10_clients import Call, at_once, bare, serve_bare, stream
from course.stories.l10_served import LINES, STEPS, oracle
from course.stories.texts import shown
from nanogpt import Engine, EngineConfig, Parts, Request, decode, encode, load_model
from nanogpt.clock import WallClock
from nanogpt.executors.packed import PackedExecutor
from nanogpt.parts.request_view import RequestView
from nanogpt.policies import Resumed
from nanogpt.server import ServerParts, ServerSettings
from nanogpt.server.continuation import Continuation
from nanogpt.server.engine_thread import EngineThread
from nanogpt.validate import PartError

Rule = Callable[..., Any]
EVERY_STEP = ServerSettings(stream_interval_ms=0)


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
    parts = ServerParts(next_events=bare(rule, "exhibit_a"))
    made = engine(Parts(resume=begins_anew), max_kv_tokens=150)
    served = serve_bare(lambda: made, parts, EVERY_STEP, lambda url, _: at_once(url, asked))
    rows: list[str] = []
    for number, each in enumerate(served):
        right = each.text == oracle(each.call.prompt, 40)
        verdict = "the oracle's" if right else f"**{len(each.text)} characters, not its 40**"
        text = each.text if len(each.text) < 90 else f"{each.text[:90]}…"
        said = each.message.replace("|", "/") if each.message else shown(text)
        rows.append(f"| {number} | {verdict} | {said} |")
    return "| client | its text is | what it read |\n|--:|:--|:--|\n" + "\n".join(rows)


# --- B: half a character --------------------------------------------------------------------------

CAFE = "naïve café 🙂"


def halves(rule: Rule) -> str:
    """The real text of a stream, of tokens that are two bytes each."""
    data = CAFE.encode()
    pieces = [data[i : i + 2] for i in range(0, len(data), 2)]
    text = Continuation(piece=pieces.__getitem__, events=bare(rule, "exhibit_b"))
    try:
        events = [text.feed([token]) for token in range(len(pieces))] + [text.rest()]
    except (PartError, TypeError) as error:
        return f"**The stream ended:** {error}"
    in_hex = " ".join(f"`{piece.hex(' ')}`" for piece in pieces)
    shown_events = " ".join(f"`{event}`" for event in events if event)
    whole = "".join(events)
    told = "They are the same." if whole == CAFE else f"**The client has** {whole}"
    return (
        f"The answer: {CAFE}. Its tokens are two bytes each: "
        f"{in_hex}.\n\n"
        f"The events: {shown_events}\n\n{told}"
    )


# --- C: for a client that has left ----------------------------------------------------------------


def computed_on(rule: Rule) -> str:
    """One request at a time; the first client leaves after three events, the second waits."""
    made = engine(max_batch_size=1)
    parts = ServerParts(on_disconnect=bare(rule, "exhibit_c"))

    def use(url: str, thread: EngineThread) -> tuple[int, float]:
        first, second = Call(LINES[0][0], 160, 3), Call(LINES[4][0], 8)
        stream(url, first)
        began = time.perf_counter()
        answer = stream(url, second)
        waited = answer.times_s[0] if answer.times_s else time.perf_counter() - began
        return len(made.trace().generated_tokens(0)), 1000 * waited

    num_tokens, waited_ms = serve_bare(lambda: made, parts, EVERY_STEP, use)
    return (
        f"The first client left after 3 events; its request came to **{num_tokens} of 160 "
        f"tokens**. The second, behind it, had its first text after {waited_ms:.0f} ms."
    )


# --- D: a queue without an end --------------------------------------------------------------------


def crowd(rule: Rule) -> str:
    """24 clients at once on a server for 6: who is served, and after how long."""
    asked = [Call(LINES[i % len(LINES)][0], 24) for i in range(24)]
    parts = ServerParts(admit_or_refuse=bare(rule, "exhibit_d"))
    made = engine(max_batch_size=3)
    settings = ServerSettings(max_requests=6, stream_interval_ms=0)
    served = serve_bare(lambda: made, parts, settings, lambda url, _: at_once(url, asked))
    firsts = sorted(each.ttft_ms for each in served if each.times_s)
    refused = [each for each in served if each.status == 429]
    wrong = next((each.message for each in served if each.status not in (200, 429)), "")
    if not firsts:
        return f"**None was served.** {wrong}"
    waits = sorted({each.retry_after_s for each in refused if each.retry_after_s})
    told = f", told to come again in {' or '.join(map(str, waits))} s" if waits else ""
    return (
        f"Of 24 clients {len(firsts)} were served and {len(refused)} refused{told}. First text "
        f"after {firsts[0]:.0f} ms for the luckiest, **{firsts[-1]:.0f} ms** for the last. {wrong}"
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
    executor = LeftInMidStep(made, bare(rule, "exhibit_e"), 1)
    made.executor = executor
    told = ""
    try:
        while not made.scheduler.is_done():
            made.step()
            for gone in executor.leaving:
                made.cancel(gone)
            executor.leaving = []
    except (PartError, KeyError, TypeError) as error:
        told = f"**The step ended with `{type(error).__name__}: {error}`.** "
    rows = [
        f"| {i} | {'its client left' if i == 1 else _stands(request, asked[i])} | "
        f"{shown(decode(request.generated_tokens))} |"
        for i, request in requests.items()
    ]
    return f"{told}\n\n| request | | what it has given |\n|--:|:--|:--|\n" + "\n".join(rows)


def _stands(request: Request, prompt: str) -> str:
    text = decode(request.generated_tokens)
    return "the oracle's text" if text == oracle(prompt, 20) else f"{len(text)} of 20 tokens"

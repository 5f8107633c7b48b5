"""Behind lesson 10's exhibits: two defects, each in the real server or engine; Markdown."""

import functools
from collections.abc import Callable
from typing import Any

import torch

from course.calling.jobs import RunError, run
from course.calling.policies import Policy
from course.lesson_data.l02_exhibits import start_over
from course.lesson_data.l10_clients import Call, at_once, serve_while
from course.lesson_data.l10_served import LINES, STEPS, oracle
from course.lesson_data.texts import shown, table
from nanogpt import Engine, EngineConfig, Policies, Request, decode, encode, load_model
from nanogpt.clock import WallClock
from nanogpt.executors.packed import PackedExecutor
from nanogpt.server import ServerPolicies

Rule = Callable[..., Any]


def or_why_not(exhibit: Callable[[Rule], str]) -> Callable[[Rule], str]:
    """The exhibit, or why its run stopped."""

    @functools.wraps(exhibit)
    def shown_or_stopped(rule: Rule) -> str:
        try:
            return exhibit(rule)
        except RunError as error:
            return f"**The run stopped:** {error}"

    return shown_or_stopped


def engine(policies: Policies = Policies(), max_kv_tokens: int | None = None) -> Engine:
    """A small engine on the wall clock."""
    config = EngineConfig(32, max_kv_tokens, max_batch_size=8, keep_steps=STEPS)
    return Engine(load_model(dtype=torch.float64), config, policies, clock=WallClock())


# --- A: the same text twice -----------------------------------------------------------------------


@or_why_not
def sent_twice(stream_delta: Rule) -> str:
    """Four clients on a KV budget so small that requests are preempted, and what they read."""
    calls = [Call(prompt, 40) for prompt, _ in LINES[:4]]
    served = serve_while(
        lambda url: at_once(url, calls),
        lambda: engine(Policies(requeue=start_over), max_kv_tokens=150),
        ServerPolicies(stream_delta=Policy(stream_delta)),
    )
    rows: list[str] = []
    for number, each in enumerate(served.result):
        right = each.text == oracle(each.call.prompt, 40)
        verdict = "the oracle's" if right else f"**{len(each.text)} characters instead of 40**"
        text = each.text if len(each.text) < 90 else f"{each.text[:90]}…"
        read = each.message.replace("|", "/") if each.message else shown(text)
        rows.append(f"| {number} | {verdict} | {read} |")
    return table("| client | its text | what it read |", "rll", rows) + served.failures


# --- B: freed during a step -----------------------------------------------------------------------


class DisconnectInMidStep(PackedExecutor):
    """The packed executor; a client leaves during its sixth forward. Mutable: it counts them."""

    def __init__(self, made: Engine, on_disconnect: Rule, request_id: int) -> None:
        super().__init__(made.model, made.cache, made.policies)
        self._made = made
        self._on_disconnect = on_disconnect
        self._request_id = request_id
        self.num_forwards = 0
        self.leaving: list[int] = []

    def execute(self, rows: Any) -> Any:
        """The rows' logits; in the sixth forward, abort the requests that the policy removes."""
        self.num_forwards += 1
        if self.num_forwards == 6:
            running = {i: each.num_computed_tokens for i, each in self._made.requests.items()}
            state = {"waiting": [], "running": running, "leaving": [], "in_step": True}
            after = self._on_disconnect(state, self._request_id)
            self.leaving = list(after["leaving"])
            for gone in [i for i in running if i not in after["running"]]:
                self._made.abort(gone)
        return super().execute(rows)


@or_why_not
def freed_in_mid_step(on_disconnect: Rule) -> str:
    """Three requests in one batch; the client of one leaves while a step computes."""
    prompts = {i: LINES[i][0] for i in range(3)}

    def job(rule: Rule) -> tuple[str, dict[int, list[int]]]:
        made = engine()
        requests = {i: Request(i, encode(prompt), 20) for i, prompt in prompts.items()}
        for request in requests.values():
            made.submit(request)
        made.executor = executor = DisconnectInMidStep(made, rule, 1)
        stopped = ""
        try:
            while not made.scheduler.is_done():
                made.step()
                for gone in executor.leaving:
                    made.abort(gone)
                executor.leaving = []
        except KeyError as error:
            stopped = f"**The step ended with `{type(error).__name__}: {error}`.** "
        return stopped, {i: list(request.generated_tokens) for i, request in requests.items()}

    stopped, tokens = run(job, Policy(on_disconnect))
    texts = {i: decode(each) for i, each in tokens.items()}
    rows = (
        f"| {i} | {'its client left' if i == 1 else _verdict(text, prompts[i])} | {shown(text)} |"
        for i, text in texts.items()
    )
    return f"{stopped}\n\n{table('| request | | its text so far |', 'rll', rows)}"


def _verdict(text: str, prompt: str) -> str:
    return "the oracle's text" if text == oracle(prompt, 20) else f"{len(text)} of 20 tokens"

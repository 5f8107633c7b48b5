"""The room's state: guests, prompts and their progress, without sockets and without an engine."""

import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Literal

from course.live import prompts
from course.live.prompts import Asked, Guest, Rate, Refused
from course.live.recent_steps import RecentSteps
from course.live.tuning import SLIDERS, Tuning
from nanogpt.checkpoints.tokenizer import encode

CODE_LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ"
SHOWN_STEPS = 17
KEPT_DONE = 60
"""Finished requests that are kept."""
MAX_GUESTS = 300
MOST_EVENTS = 4


class Room:
    """The guests, their requests, the engine's newest steps and its settings. Mutable.

    `clock` tells seconds.
    """

    def __init__(
        self, tuning: Tuning | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.code = "".join(secrets.choice(CODE_LETTERS) for _ in range(5))
        self.tuning = tuning or Tuning()
        self.clock = clock
        self.step_number = 0
        self.paused = False
        self.hidden = False
        self.worker: Literal["starting", "up", "lost"] = "starting"
        self.guests: dict[str, Guest] = {}
        self.asked: dict[int, Asked] = {}
        self.events: deque[str] = deque(maxlen=MOST_EVENTS)
        self._outbox: list[Asked] = []
        self.recent = RecentSteps(SHOWN_STEPS)
        self.queue: list[dict[str, Any]] = []
        self._lost: list[int] = []
        self._rate = Rate(prompts.BURST, 1.0)
        self._next_id = 1

    # --- guests -----------------------------------------------------------------------------------

    def join(self, key: object = None) -> Guest:
        """A guest with the code; one that returns sends its key. Raises: Refused."""
        known = self.guests.get(key) if isinstance(key, str) else None
        if known is None:
            if len(self.guests) >= MAX_GUESTS:
                self._forget_guests()
            if len(self.guests) >= MAX_GUESTS:
                raise Refused(f"The room is full: {MAX_GUESTS} are here.")
            known = Guest(secrets.token_urlsafe(12))
            self.guests[known.key] = known
        known.pages += 1
        return known

    def leave(self, guest: Guest) -> None:
        """A page of a guest is closed. Its requests go on."""
        guest.pages -= 1

    def ask(self, guest: Guest, text: object) -> Asked:
        """Take in a guest's prompt. Raises: Refused."""
        tokens = prompts.checked_prompt(text)
        mine = [each for each in self.unfinished() if each.guest is guest]
        if len(mine) >= prompts.MAX_WAITING_EACH:
            raise Refused(f"{len(mine)} of yours are not done yet; wait for one of them.")
        now = self.clock()
        wait_s = guest.rate.wait_s(now)
        if wait_s:
            raise Refused(f"One prompt every {prompts.GAP_S:g} seconds; wait {wait_s:.0f} more.")
        if self._rate.wait_s(now) or len(self.unfinished()) >= prompts.MAX_UNFINISHED:
            raise Refused("The room sends more than the engine can take; try again in a moment.")
        guest.rate.note(now)
        self._rate.note(now)
        return self._take_in(guest, tokens, priority=1)

    # --- the instructor ---------------------------------------------------------------------------

    def send_long(self) -> None:
        """A long prompt arrives."""
        asked = self._take_in(None, encode(prompts.LONG_PROMPT), priority=1)
        self._say(f"A prompt of {len(asked.prompt_tokens)} tokens arrives: request {asked.id}.")

    def send_urgent(self) -> None:
        """An urgent request arrives."""
        asked = self._take_in(None, encode(prompts.URGENT_PROMPT), priority=0)
        self._say(f"An urgent request arrives: request {asked.id}, priority 0.")

    def halve_kv(self) -> None:
        """The KV budget halves, down to its least. Raises: Refused there."""
        least = SLIDERS["max_kv_tokens"].least
        if self.tuning.max_kv_tokens == least:
            raise Refused(f"The KV budget is {least}, its least: less holds no long prompt.")
        self.tune({"max_kv_tokens": max(least, self.tuning.max_kv_tokens // 2)})

    def tune(self, values: Mapping[str, Any]) -> None:
        """Change settings. Raises: Refused naming the value and the limit."""
        try:
            changed = self.tuning.changed(values)
        except ValueError as error:
            raise Refused(f"{error}.") from None
        if changed.max_kv_tokens != self.tuning.max_kv_tokens:
            self._say(f"The KV budget is now {changed.max_kv_tokens}.")
        self.tuning = changed

    def show(self, *, hidden: bool) -> None:
        """Hide all prompts and texts, or show them."""
        self.hidden = hidden

    def pause(self, *, paused: bool) -> None:
        """Stop or start the steps."""
        self.paused = paused

    # --- the engine -------------------------------------------------------------------------------

    def has_work(self) -> bool:
        """Whether a step would do something."""
        return bool(self._outbox or self.unfinished())

    def order(self) -> dict[str, Any]:
        """The worker's order for the next step, with the new requests."""
        asks = [
            {
                "id": each.id,
                "prompt_tokens": each.prompt_tokens,
                "max_new_tokens": each.max_new_tokens,
                "priority": each.priority,
                "window": each.window if each.tokens else None,
            }
            for each in self._outbox
        ]
        self._outbox = []
        return {"asks": asks, "tuning": asdict(self.tuning)}

    def worker_is_up(self) -> None:
        """A worker is ready for steps."""
        self.worker = "up"

    def worker_is_lost(self, how: str) -> None:
        """All K/V is lost: unfinished requests start again and keep their texts."""
        self.worker = "lost"
        again = self.unfinished()
        for each in again:
            if each.tokens or each.state == "prefilling":
                self._lost.append(each.id)
                each.state, each.redone = "lost", 0
                each.words = "Its worker is gone, and its K/V: it is computed again."
        # Requests with tokens go first, under their own window.
        self._outbox = sorted(again, key=lambda each: (not each.tokens, each.id))
        self.queue = []
        ids = ", ".join(str(each) for each in self._lost)
        what = f"; requests {ids} start again, and get the same text" if self._lost else ""
        self._say(f"The worker {how}{what}. Another one starts.")

    def hear(self, answer: Mapping[str, Any]) -> None:
        """Take in a step's result, as `LiveEngine.step` returns it."""
        for request_id, sentence in answer["refused"].items():
            asked = self.asked[int(request_id)]
            asked.state, asked.words = "refused", f"Refused: {sentence}."
        self.queue = answer["queue"]
        step = answer["step"]
        if step:
            self.step_number = step["step"] + 1
            self.recent.add({**step, "lost": self._lost})
            self._lost = []
            self._hear_work(step, answer["window"])
            self._hear_waits(step)
        for request_id in answer["door"]:
            words = "It waits for the requests that began under another window."
            self.asked[request_id].state, self.asked[request_id].words = "waiting", words
        self._forget_done()

    def _hear_work(self, step: Mapping[str, Any], window: int) -> None:
        for work in step["work"]:
            asked = self.asked[work["request_id"]]
            asked.window = window
            if work["sampled"] is not None:
                self._give(asked, work["sampled"], step["step"])
            if work["kind"] == "prefill" and work["sampled"] is None:
                asked.state = "prefilling"
                known = len(asked.prompt_tokens) + len(asked.tokens)
                asked.words = f"Prefill: {work['end']} of {known} known tokens are computed."
            else:
                asked.state = "active"
                asked.words = f"Decode: {len(asked.tokens)} of {asked.max_new_tokens} tokens."
        for request_id in step["finished"]:
            asked = self.asked[request_id]
            asked.state = "done"
            steps = (asked.first_step or 0) - asked.arrival_step + 1
            after = f"{steps} step{'s' if steps > 1 else ''}"
            asked.words = f"Done: {len(asked.tokens)} tokens, the first after {after}."

    def _hear_waits(self, step: Mapping[str, Any]) -> None:
        for wait in step["waits"]:
            asked, reason = self.asked[wait["request_id"]], wait["reason"]
            if wait["request_id"] in step["preempted"]:
                asked.state = "preempted"
                asked.words = f"{reason[:1].upper()}{reason[1:]}: its K/V is gone, its text stays."
                continue
            if wait["status"] == "waiting" and asked.state not in ("preempted", "lost"):
                asked.state = "waiting"
            asked.words = f"{asked.state.capitalize()}: {reason}."

    def _give(self, asked: Asked, token: int, step: int) -> None:
        """Add a token, unless it is one that a lost worker had generated already."""
        if asked.redone < len(asked.tokens):
            assert asked.tokens[asked.redone] == token, "a recomputed text must stay the same"
            asked.redone += 1
            return
        if not asked.tokens:
            asked.first_step, asked.first_s = step, self.clock()
        asked.tokens.append(token)
        asked.redone = len(asked.tokens)

    # --- what is kept -----------------------------------------------------------------------------

    def _take_in(self, guest: Guest | None, tokens: list[int], priority: int) -> Asked:
        asked = Asked(
            id=self._next_id,
            guest=guest,
            prompt_tokens=tokens,
            max_new_tokens=prompts.NEW_TOKENS,
            priority=priority,
            slo_steps=self.tuning.slo_steps,
            arrival_step=self.step_number,
            arrived_s=self.clock(),
        )
        self._next_id += 1
        self.asked[asked.id] = asked
        self._outbox.append(asked)
        return asked

    def unfinished(self) -> list[Asked]:
        """The requests that are not over, by id."""
        return [each for each in self.asked.values() if not each.is_over]

    def _forget_done(self) -> None:
        over = [each.id for each in self.asked.values() if each.is_over]
        shown = self.recent.ids()
        for request_id in over[:-KEPT_DONE]:
            if request_id not in shown:
                del self.asked[request_id]

    def _forget_guests(self) -> None:
        asking = {each.guest.key for each in self.asked.values() if each.guest}
        for key, guest in list(self.guests.items()):
            if not guest.pages and key not in asking:
                del self.guests[key]

    def _say(self, sentence: str) -> None:
        self.events.append(f"Step {self.step_number}: {sentence}")

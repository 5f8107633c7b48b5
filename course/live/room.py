"""The room: guests, their requests and the instructor's controls, around a server's engine thread.

A room is used only in the event loop, except for what its commands do in the engine's thread.
"""

import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from course.live import room_requests
from course.live.room_engine import Pace, RoomFeed, make_engine, replace_engine, tune
from course.live.room_requests import Guest, Rate, Refused, RoomRequest, checked_prompt
from course.live.tuning import SLIDERS, Tuning
from nanogpt.checkpoints.tokenizer import CHARACTERS, Tokenizer
from nanogpt.model import GPT
from nanogpt.server.api_errors import ApiError
from nanogpt.server.engine_thread import EngineThread
from nanogpt.server.served_request import Asked
from nanogpt.server.server_settings import ServerSettings
from nanogpt.trace import StepRecord, WaitRecord, WorkRecord

CODE_LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ"
KEPT_DONE = 60
"""Finished requests that are kept."""
MAX_GUESTS = 300
MAX_BODY = 4096
"""Bytes of a message to the room."""


class Room:
    """The guests, their requests, the engine's settings and its newest step. Mutable.

    Whoever has the `token` has the controls. `num_changes` grows with whatever a page may show.
    `clock` tells seconds.
    """

    def __init__(
        self,
        model: GPT,
        tuning: Tuning | None = None,
        clock: Callable[[], float] = time.perf_counter,
        tokenizer: Tokenizer = CHARACTERS,
    ) -> None:
        self.code = "".join(secrets.choice(CODE_LETTERS) for _ in range(5))
        self.token = secrets.token_urlsafe(16)
        self.tuning = tuning or Tuning()
        self.clock = clock
        self.step_number = 0
        self.paused = False
        self.hidden = False
        self.guests: dict[str, Guest] = {}
        self.requests: dict[int, RoomRequest] = {}
        self.event = ""
        self.num_changes = 0
        self._window = self.tuning.sliding_window
        self._outside: deque[RoomRequest] = deque()  # they wait for another window
        self._rate = Rate(room_requests.BURST, 1.0)
        self._pace = Pace(self.tuning.pace_ms)
        settings = ServerSettings(
            "the room", self.token, room_requests.MAX_UNFINISHED, max_body_bytes=MAX_BODY,
            stream_interval_ms=0, shutdown_s=0,
        )  # fmt: skip
        self.thread = EngineThread(
            make_engine(model, self.tuning), settings,
            live=RoomFeed(self._pace, self._hear_in_loop), pace=self._pace, tokenizer=tokenizer,
        )  # fmt: skip

    # --- guests -----------------------------------------------------------------------------------

    def join(self, key: str | None = None) -> Guest:
        """A guest with the code; one that returns sends its key. Raises: Refused."""
        if key in self.guests:
            return self.guests[key]
        if len(self.guests) >= MAX_GUESTS:
            self._forget_guests()
        if len(self.guests) >= MAX_GUESTS:
            raise Refused(f"The room is full: {MAX_GUESTS} are here.")
        guest = Guest(secrets.token_urlsafe(12))
        self.guests[guest.key] = guest
        return guest

    def ask(self, guest: Guest, text: object) -> RoomRequest:
        """Take in a guest's prompt. Raises: Refused."""
        prompt = checked_prompt(text, self.thread.tokenizer)
        mine = [each for each in self.unfinished() if each.guest is guest]
        if len(mine) >= room_requests.MAX_WAITING_EACH:
            raise Refused(f"{len(mine)} of yours are not done yet; wait for one of them.")
        now = self.clock()
        wait_s = guest.rate.wait_s(now)
        if wait_s:
            gap_s = room_requests.GAP_S
            raise Refused(f"One prompt every {gap_s:g} seconds; wait {wait_s:.0f} more.")
        if self._rate.wait_s(now):
            raise _too_many()
        request = self._take_in(guest, prompt, priority=1)
        guest.rate.note(now)
        self._rate.note(now)
        return request

    # --- the instructor ---------------------------------------------------------------------------

    def send_long(self) -> None:
        """A long prompt arrives."""
        request = self._take_in(None, room_requests.LONG_PROMPT, priority=1)
        num_tokens = len(request.asked.prompt_tokens)
        self._say(f"A prompt of {num_tokens} tokens arrives: request {request.id}.")

    def send_urgent(self) -> None:
        """An urgent request arrives."""
        request = self._take_in(None, room_requests.URGENT_PROMPT, priority=0)
        self._say(f"An urgent request arrives: request {request.id}, priority 0.")

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
        self.thread.order(partial(self._pace.change, changed.pace_ms, self.paused))
        self.thread.order(partial(tune, self.thread, changed))
        self._let_in()

    def show(self, *, hidden: bool) -> None:
        """Hide all prompts and texts, or show them."""
        self.hidden = hidden
        self.num_changes += 1

    def pause(self, *, paused: bool) -> None:
        """Stop or start the steps."""
        self.paused = paused
        self.thread.order(partial(self._pace.change, self.tuning.pace_ms, paused))
        self.num_changes += 1

    def step_once(self) -> None:
        """Run one step, even if the room is paused."""
        self.thread.order(self._pace.step_once)

    def kill_engine(self) -> None:
        """Drop the engine with all K/V: its requests keep their texts, and another goes on."""
        lost = [each for each in self.unfinished() if each.text or each.state == "prefilling"]
        for each in lost:
            each.state = "lost"
            each.words = "Its engine is gone, and its K/V: that is computed again."
        tuning = self.tuning.changed({"sliding_window": self._window})
        self.thread.order(partial(replace_engine, self.thread, tuning))
        ids = ", ".join(str(each.id) for each in lost)
        what = f"; the texts of requests {ids} stay, their K/V is computed again" if lost else ""
        self._say(f"The engine is gone with all K/V{what}. Another one goes on.")

    # --- the engine -------------------------------------------------------------------------------

    def _hear_in_loop(self, step: StepRecord, waits: Sequence[WaitRecord]) -> None:
        self.thread.in_loop(self.hear, step, waits)

    def hear(self, step: StepRecord, waits: Sequence[WaitRecord]) -> None:
        """Take in a step and the reasons of all waiting requests. The texts are there already."""
        self.step_number = step.step + 1
        for work in step.work:
            self._hear_work(self.requests[work.request_id], work, step.step)
        for wait in waits:
            is_preempted = wait.request_id in step.preempted
            _hear_wait(self.requests[wait.request_id], wait, is_preempted=is_preempted)
        self._hear_ends()
        self._let_in()
        self._forget_done()
        self.num_changes += 1

    def _hear_work(self, request: RoomRequest, work: WorkRecord, step: int) -> None:
        request.text += request.stream.take()
        if work.sampled is None:
            request.state = "prefilling"
            known = request.num_known
            request.words = f"Prefill: {work.end} of {known} known tokens are computed."
            return
        if request.first_step is None:
            request.first_step = step
        request.state = "active"
        request.num_generated = work.end + 1 - len(request.asked.prompt_tokens)
        count = f"{request.num_generated} of {request.asked.max_new_tokens}"
        request.words = f"Decode: {count} tokens."

    def _hear_ends(self) -> None:
        for request in self.unfinished():
            end = request.stream.end
            if end is None:
                continue
            if end.reason not in ("length", "stop"):
                request.state, request.words = "refused", f"Refused: {end.message}."
                continue
            steps = (request.first_step or 0) - request.arrival_step + 1
            after = f"{steps} step{'s' if steps > 1 else ''}"
            request.state = "done"
            request.words = f"Done: {end.num_tokens} tokens, the first after {after}."

    def _let_in(self) -> None:
        """Once no request is served under another window, change it, and let all others in."""
        wanted = self.tuning.sliding_window
        if wanted != self._window and len(self._outside) == len(self.unfinished()):
            self._window = wanted
            self.thread.order(partial(replace_engine, self.thread, self.tuning))
        while wanted == self._window and self._outside:
            request = self._outside.popleft()
            request.window = wanted
            self.thread.enter(request.stream, request.asked)
        self.num_changes += 1

    # --- what is kept -----------------------------------------------------------------------------

    def _take_in(self, guest: Guest | None, prompt: str, priority: int) -> RoomRequest:
        tokens = self.thread.tokenizer.encode(prompt)
        asked = Asked(tokens, room_requests.NEW_TOKENS, priority=priority)
        try:
            stream = self.thread.admit(asked)
        except ApiError:
            raise _too_many() from None
        request = RoomRequest(
            stream, prompt, asked, guest, self.tuning.slo_steps, self.step_number, self._window
        )
        if self.tuning.sliding_window != self._window:
            request.words = "It waits for the requests that began under another window."
        self.requests[request.id] = request
        self._outside.append(request)
        self._let_in()
        return request

    def unfinished(self) -> list[RoomRequest]:
        """The requests that are not over, by id."""
        return [each for each in self.requests.values() if not each.is_over]

    def _forget_done(self) -> None:
        over = [each.id for each in self.requests.values() if each.is_over]
        for request_id in over[:-KEPT_DONE]:
            del self.requests[request_id]

    def _forget_guests(self) -> None:
        asking = {each.guest.key for each in self.requests.values() if each.guest}
        for key, guest in list(self.guests.items()):
            if not guest.pages and key not in asking:
                del self.guests[key]

    def _say(self, sentence: str) -> None:
        self.event = f"Step {self.step_number}: {sentence}"
        self.num_changes += 1


def _hear_wait(request: RoomRequest, wait: WaitRecord, *, is_preempted: bool) -> None:
    reason = wait.reason
    if is_preempted:
        request.state = "preempted"
        words = f"{reason[:1].upper()}{reason[1:]}: its K/V is gone, its text stays."
    else:
        if wait.status == "waiting" and request.state not in ("preempted", "lost"):
            request.state = "waiting"
        words = f"{request.state.capitalize()}: {reason}."
    request.words = words


def _too_many() -> Refused:
    return Refused("The room sends more than the engine can take; try again in a moment.")

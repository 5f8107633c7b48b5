"""A worker of the fleet: its batch, its KV tokens, its prefix cache, and the pass that it runs.

Decode steps of one batch are all alike, so that a run of them is a start, a length and a number:
it costs the same however many they are. A run ends where anything could change: a request is
done, stops drafting, joins or leaves.
"""

from nanogpt.fleet.costs import decode_us, prefill_us
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.fleet_record import RunKind, RunRecord
from nanogpt.fleet.metrics import Meter
from nanogpt.fleet.prefix_index import PrefixIndex
from nanogpt.fleet.prefixes import make_cache
from nanogpt.fleet.request_state import RequestState
from nanogpt.fleet.speculating import MIN_TIME_LEFT_US, Drafts, break_even, may_speculate
from nanogpt.fleet.tracing import Tracer
from nanogpt.fleet.views import WorkerView


class Worker:
    """One engine of the fleet. Mutable.

    `newcomers` have been dispatched and join at the next boundary between steps; `claimant` takes
    the place of the `leaving` there.
    """

    def __init__(
        self, worker_id: int, config: FleetConfig, seed: int, meter: Meter, tracer: Tracer
    ) -> None:
        self.id = worker_id
        self.config = config
        self.cache = make_cache(config.prefix_cache, config.kv_tokens)
        self.batch: list[RequestState] = []
        self.prefilling: list[RequestState] = []
        self.newcomers: list[RequestState] = []
        self.claimant: RequestState | None = None
        self.leaving: list[RequestState] = []
        self.num_running = 0  # those included that have yet to join the batch
        self.reserved_tokens = 0
        self.backlog_tokens = 0
        self.kind: RunKind | None = None  # of the run under way
        self.version = 0  # of the run's end, which may be brought forward
        self.start_us = 0
        self._view: WorkerView | None = None
        self._changed: set[int] = set()  # where its id goes when a dispatch may find it changed
        self._seed = seed
        self._meter = meter
        self._tracer = tracer
        self._step_us = 1
        self._num_steps = 0
        self._done_steps = 0
        self._speculating: list[RequestState] = []
        self._plain: list[RequestState] = []
        self._kv_at_start = (0, 0)
        self._min_acceptance = (
            break_even(config.num_draft_tokens, config.draft_cost) if config.backoff else None
        )

    # ------------------------------------------------------------------ room

    @property
    def kv_free_tokens(self) -> int:
        """KV tokens that are not set aside; cached prefixes in them give way."""
        return self.config.kv_tokens - self.reserved_tokens

    @property
    def is_open(self) -> bool:
        """Whether it takes any request right now."""
        if self.num_running >= self.config.batch_size or self.claimant is not None:
            return False
        return self.config.batching == "continuous" or (self.kind is None and not self.batch)

    def view(self) -> WorkerView:
        """The worker as a policy sees it; the same view until it changes."""
        if self._view is None:
            self._view = WorkerView(
                id=self.id,
                backlog_tokens=self.backlog_tokens,
                num_running=self.num_running,
                batch_size=self.config.batch_size,
                kv_free_tokens=self.kv_free_tokens,
                kv_tokens=self.config.kv_tokens,
            )
        return self._view

    def is_watched_by(self, changed: set[int], index: PrefixIndex | None) -> None:
        """From now on its id goes into `changed` with every change, its prefixes into `index`."""
        self._changed = changed
        self.cache.is_indexed_by(index, self.id)

    def _note_change(self) -> None:
        self._view = None
        self._changed.add(self.id)

    def claim(self, claimant: RequestState | None, leaving: list[RequestState]) -> None:
        """Has `claimant` take the place of the `leaving`, or takes that back."""
        self.claimant, self.leaving = claimant, leaving
        self._note_change()

    def hit(self, state: RequestState, *, touch: bool = False) -> int:
        """Known tokens of a request that it need not compute; one is left, to go on from."""
        return min(self.cache.match(state.request.prompt, touch=touch), state.known_tokens - 1)

    def admit(self, state: RequestState, now_us: int) -> None:
        """Sets a request's KV tokens aside at once; it joins at the next boundary.

        A hit is copied into them now, before the rest of the cache gives way.
        """
        state.place, state.worker = "dispatched", self.id
        state.dispatched_us = now_us
        state.generated_before = state.generated
        state.hit_tokens = 0 if state.swapped_tokens else self.hit(state, touch=True)
        state.computed_tokens = 0
        self.num_running += 1
        self.reserved_tokens += state.kv_needed
        self.cache.fit(self.kv_free_tokens)
        self.backlog_tokens += state.known_tokens - state.hit_tokens - state.swapped_tokens
        self.newcomers.append(state)
        self._note_change()

    def release(self, state: RequestState) -> None:
        """A request leaves the batch; its KV tokens are free, and its prompt's stay if they can."""
        self.batch.remove(state)
        self.num_running -= 1
        self.reserved_tokens -= state.kv_needed
        self.cache.publish(state.request.prompt, self.kv_free_tokens)
        self._note_change()

    def preempt(self, state: RequestState) -> None:
        """A request leaves before its end; its K/V goes, or to the host."""
        self.release(state)
        state.preemptions += 1
        self._meter.now.preemptions += 1
        if self.config.kv_swap:
            state.swapped_tokens = state.known_tokens - 1

    def check(self) -> None:
        """Asserts that what is set aside is what is here, and that everything has its room."""
        states = (*self.batch, *self.prefilling, *self.newcomers)
        assert len(states) == self.num_running <= self.config.batch_size
        assert self.reserved_tokens == sum(state.kv_needed for state in states)
        assert self.reserved_tokens + self.cache.num_tokens <= self.config.kv_tokens
        assert self.backlog_tokens >= 0
        assert all(state.worker == self.id for state in states)
        assert all(state.left_tokens > 0 for state in states)

    # ------------------------------------------------------------------ runs

    @property
    def end_us(self) -> int:
        """When the run under way ends, as things stand."""
        return self.start_us + self._num_steps * self._step_us

    def start(self, now_us: int) -> bool:
        """Starts the next run; whether there is anything to run."""
        if self.newcomers and (self.config.batching == "continuous" or not self.batch):
            self._start_prefill(now_us)
        elif self.batch:
            self._start_decode(now_us)
        else:
            return False
        self.start_us, self._done_steps = now_us, 0
        self.version += 1
        self._kv_at_start = (self.reserved_tokens, self.cache.num_tokens)
        self._note_change()
        return True

    def cut_short(self, now_us: int) -> bool:
        """Ends a run of decode steps at the next boundary; whether that is earlier than it was."""
        steps = -(-(now_us - self.start_us) // self._step_us)
        if self.kind != "decode" or steps >= self._num_steps:
            return False
        self._num_steps = steps
        self.version += 1
        return True

    def settle(self, now_us: int) -> None:
        """Books the decode steps that have ended by this moment."""
        steps = min(self._num_steps, (now_us - self.start_us) // self._step_us) - self._done_steps
        if self.kind != "decode" or steps <= 0:
            return
        first_us = self.start_us + (self._done_steps + 1) * self._step_us
        self._done_steps += steps
        last_us = self.start_us + self._done_steps * self._step_us
        tokens = steps * len(self._plain)
        for state in self._plain:
            state.generated += steps
        for state in self._speculating:
            assert state.drafts is not None
            before, state.generated = state.generated, state.drafts.advance(steps)
            tokens += state.generated - before
        gaps = self._meter.now.gaps_us
        for state in self.batch:
            gap_us = first_us - state.last_token_us
            gaps[gap_us] += 1
            state.max_gap_us = max(state.max_gap_us, gap_us)  # the first is the longest
            state.last_token_us = last_us
        if steps > 1:
            gaps[self._step_us] += (steps - 1) * len(self.batch)
        if tokens > steps * len(self.batch):
            gaps[0] += tokens - steps * len(self.batch)
        self._meter.now.tokens += tokens

    def end_run(self, now_us: int) -> list[RequestState]:
        """The run is over: tokens are out, prefixes are published; returns what is done."""
        states = self.prefilling if self.kind == "prefill" else self.batch
        self._record(now_us, states)
        if self.kind == "prefill":
            for state in self.prefilling:
                self._emit_first(state, now_us)
                self.cache.publish(state.request.prompt, self.kv_free_tokens)
            self.batch += self.prefilling
            self.prefilling = []
        else:
            self.settle(now_us)
        self.kind = None
        self._note_change()
        done = [state for state in self.batch if not state.left_tokens]
        for state in done:
            self.release(state)
        return done

    def open_run(self, now_us: int) -> list[RunRecord]:
        """The run under way as far as it has come, for a trace that ends here."""
        if self.kind is None or now_us <= self.start_us:
            return []
        states = self.prefilling if self.kind == "prefill" else self.batch
        ids = tuple(state.id for state in states)
        steps = 1 if self.kind == "prefill" else -(-(now_us - self.start_us) // self._step_us)
        return [
            RunRecord(self.id, self.start_us, now_us, self.kind, steps, ids, *self._kv_at_start)
        ]

    def _start_prefill(self, now_us: int) -> None:
        self.prefilling, self.newcomers = self.newcomers, []
        computed = swapped = self.backlog_tokens = 0
        for state in self.prefilling:
            state.place, state.start_us = "prefilling", now_us
            if not state.swapped_tokens:  # what was published since it was dispatched counts, too
                state.hit_tokens = max(state.hit_tokens, self.hit(state, touch=True))
            state.computed_tokens = state.known_tokens - state.hit_tokens - state.swapped_tokens
            state.total_hits += state.hit_tokens
            state.total_computed += state.computed_tokens
            computed += state.computed_tokens
            swapped += state.swapped_tokens
            self._meter.now.hit_tokens += state.hit_tokens
            state.swapped_tokens = 0
        self._meter.now.computed_tokens += computed
        self.backlog_tokens = computed
        self.kind, self._num_steps = "prefill", 1
        kv_tokens = sum(state.kv_needed for state in self.prefilling)
        cost, number = self.config.cost, len(self.batch) + len(self.prefilling)
        self._step_us = prefill_us(cost, computed, number, kv_tokens, swapped)

    def _start_decode(self, now_us: int) -> None:
        config = self.config
        self._speculating, self._plain = [], self.batch
        steps = 0
        if config.speculation:
            self._plain = []
            for state in self.batch:
                if self._speculates(state, now_us):
                    self._speculating.append(state)
                else:
                    self._plain.append(state)
        self._step_us = decode_us(
            config.cost,
            len(self.batch),
            self.reserved_tokens,
            num_speculating=len(self._speculating),
            num_drafts=config.num_draft_tokens,
            draft_cost=config.draft_cost,
        )
        if self._plain:
            steps = min(state.left_tokens for state in self._plain)
        for state in self._speculating:
            assert state.drafts is not None
            time_left_us = state.request.deadline_us - MIN_TIME_LEFT_US - now_us
            until_late = -(-time_left_us // self._step_us)
            most = min(state.drafts.passes(state.generated), until_late)
            steps = min(steps, most) if steps else most
        self.kind, self._num_steps = "decode", steps

    def _speculates(self, state: RequestState, now_us: int) -> bool:
        load = len(self.batch) / self.config.batch_size
        time_left_us = state.request.deadline_us - now_us
        if not may_speculate(state.left_tokens, load, time_left_us, state.priority):
            return False
        if state.drafts is None:
            number = self.config.num_draft_tokens
            state.drafts = Drafts(state.request, self._seed, number, self._min_acceptance)
        return state.drafts.passes(state.generated) > 0

    def _emit_first(self, state: RequestState, now_us: int) -> None:
        state.place = "decoding"
        self.backlog_tokens -= state.computed_tokens
        gap_us = state.emit_first(now_us)
        if gap_us is None:
            self._meter.now.ttfts_us.append(now_us - state.request.arrival_us)
        else:
            self._meter.now.gaps_us[gap_us] += 1
        self._meter.now.tokens += 1

    def _record(self, now_us: int, states: list[RequestState]) -> None:
        if self.kind is not None:
            span_us = (self.start_us, now_us)
            self._tracer.run(
                self.id, span_us, self.kind, self._num_steps, states, self._kv_at_start
            )

"""A worker of the simulated fleet: its batch, KV tokens, prefix cache, and the run under way.

A run is a prefill pass, or decode steps of one unchanged batch. Its steps are all alike, so a run
is a start, a step's length and a number of steps, and costs the same to simulate however many steps
it has. It ends where the batch may change: a request is done, stops drafting, joins or leaves.
"""

from nanogpt.fleet.costs import decode_us, prefill_us
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.fleet_record import EventLog, RunKind, RunRecord
from nanogpt.fleet.metrics import Meter
from nanogpt.fleet.prefix_caches import make_cache
from nanogpt.fleet.request_state import RequestState
from nanogpt.fleet.speculating import MIN_ACCEPTANCE, MIN_TIME_LEFT_US, Drafts, may_speculate
from nanogpt.views.fleet_views import WorkerView


class SimulatedWorker:
    """One engine of the fleet. Mutable.

    `newcomers` have been dispatched and join at the next boundary between steps; there `claimant`
    takes the place of the `preempted`. A prefill worker's batch are prompts whose K/V it keeps for
    a decode worker; the link has still to take `to_send`.
    """

    def __init__(
        self, worker_id: int, config: FleetConfig, seed: int, meter: Meter, log: EventLog
    ) -> None:
        self.id = worker_id
        self.is_prefill = worker_id < config.num_prefill_workers
        self.to_send: list[RequestState] = []
        self.config = config
        self.cache = make_cache(config.prefix_cache, config.kv_tokens)
        self.batch: list[RequestState] = []
        self.prefilling: list[RequestState] = []
        self.newcomers: list[RequestState] = []
        self.claimant: RequestState | None = None
        self.preempted: list[RequestState] = []
        self.num_running = 0  # newcomers included
        self.reserved_tokens = 0
        self.backlog_tokens = 0
        self.kind: RunKind | None = None  # of the run under way
        self.version = 0  # of the run's end, which may be brought forward
        self._seed = seed
        self._meter = meter
        self._log = log
        self._start_us = 0
        self._step_us = 1
        self._num_steps = 0
        self._done_steps = 0
        self._speculating: list[RequestState] = []
        self._plain: list[RequestState] = []
        self._kv_at_start = (0, 0)

    # ------------------------------------------------------------------ room

    @property
    def kv_free_tokens(self) -> int:
        """KV tokens that are not reserved; cached prefixes in them are evicted on demand."""
        return self.config.kv_tokens - self.reserved_tokens

    @property
    def is_open(self) -> bool:
        """Whether it takes any request right now."""
        if self.num_running >= self.config.batch_size or self.claimant is not None:
            return False
        return self.config.batching == "continuous" or (self.kind is None and not self.batch)

    def view(self) -> WorkerView:
        """The worker as a policy sees it."""
        return WorkerView(
            id=self.id,
            backlog_tokens=self.backlog_tokens,
            num_running=self.num_running,
            batch_size=self.config.batch_size,
            kv_free_tokens=self.kv_free_tokens,
            kv_tokens=self.config.kv_tokens,
        )

    def hit(self, state: RequestState, *, touch: bool = False) -> int:
        """Known tokens of a request that it need not compute; the last one is always computed."""
        found = max(self.cache.match(state.request.prompt, touch=touch), state.sent_tokens)
        return min(found, state.known_tokens - 1)

    def admit(self, state: RequestState, now_us: int) -> None:
        """Reserve a request's KV tokens at once; it joins at the next boundary.

        A hit is copied into them before the rest of the cache is evicted.
        """
        state.place, state.worker = "dispatched", self.id
        state.dispatched_us = now_us
        state.generated_before = state.generated
        state.hit_tokens = 0 if state.swapped_tokens else self.hit(state, touch=True)
        state.computed_tokens = 0
        self.num_running += 1
        self.reserved_tokens += state.kv_needed
        self.cache.shrink(self.kv_free_tokens)
        self.backlog_tokens += state.known_tokens - state.hit_tokens - state.swapped_tokens
        self.newcomers.append(state)

    def release(self, state: RequestState) -> None:
        """Remove a request from the batch; its prompt stays cached if there is room."""
        self.batch.remove(state)
        self.num_running -= 1
        self.reserved_tokens -= state.kv_needed
        self._publish(state)

    def preempt(self, state: RequestState) -> None:
        """Remove a request before its end; its K/V is lost, or moves to the host."""
        self.release(state)
        state.preemptions += 1
        self._meter.now.preemptions += 1
        if self.config.kv_swap:
            state.swapped_tokens = state.known_tokens - 1

    def _publish(self, state: RequestState) -> None:
        self.cache.insert(state.request.prompt)
        self.cache.shrink(self.kv_free_tokens)

    # ------------------------------------------------------------------ runs

    @property
    def end_us(self) -> int:
        """When the run under way ends, unless it is cut short."""
        return self._start_us + self._num_steps * self._step_us

    def start(self, now_us: int) -> bool:
        """Start the next run; return whether there is anything to run."""
        if self.newcomers and (self.config.batching == "continuous" or not self.batch):
            self._start_prefill(now_us)
        elif self.batch and not self.is_prefill:
            self._start_decode(now_us)
        else:
            return False
        self._start_us, self._done_steps = now_us, 0
        self.version += 1
        self._kv_at_start = (self.reserved_tokens, self.cache.num_tokens)
        return True

    def cut_short(self, now_us: int) -> bool:
        """End a run of decode steps at the next boundary; return whether that is earlier."""
        steps = self._steps_until(now_us)
        if self.kind != "decode" or steps >= self._num_steps:
            return False
        self._num_steps = steps
        self.version += 1
        return True

    def settle(self, now_us: int) -> None:
        """Account for the decode steps that have ended by this moment."""
        steps = min(self._num_steps, (now_us - self._start_us) // self._step_us) - self._done_steps
        if self.kind != "decode" or steps <= 0:
            return
        first_us = self._start_us + (self._done_steps + 1) * self._step_us
        self._done_steps += steps
        last_us = self._start_us + self._done_steps * self._step_us
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
        """End the run: emit tokens, publish prefixes; return the requests that are done."""
        if (run := self.run_record(now_us)) is not None:
            self._log.runs.append(run)
        if self.kind == "prefill":
            for state in self.prefilling:
                self.backlog_tokens -= state.computed_tokens
                state.place = "decoding"
                if not self.is_prefill:
                    self._emit_first(state, now_us)
                self._publish(state)
            self.to_send = self.prefilling if self.is_prefill else []
            self.batch += self.prefilling
            self.prefilling = []
        else:
            self.settle(now_us)
        self.kind = None
        done = [state for state in self.batch if not state.left_tokens]
        for state in done:
            self.release(state)
        return done

    def run_record(self, end_us: int) -> RunRecord | None:
        """The run under way up to this moment, or None without one."""
        if self.kind is None or end_us <= self._start_us:
            return None
        states = self.prefilling if self.kind == "prefill" else self.batch
        steps = 1 if self.kind == "prefill" else self._steps_until(end_us)
        ids = tuple(state.id for state in states)
        return RunRecord(self.id, self._start_us, end_us, self.kind, steps, ids, *self._kv_at_start)

    def _steps_until(self, now_us: int) -> int:
        return -(-(now_us - self._start_us) // self._step_us)

    def _start_prefill(self, now_us: int) -> None:
        self.prefilling, self.newcomers = self.newcomers, []
        computed = swapped = 0
        for state in self.prefilling:
            state.place, state.start_us = "prefilling", now_us
            if not state.swapped_tokens:  # prefixes published since the dispatch count too
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
        self._speculating, self._plain = [], []
        for state in self.batch:
            speculates = config.speculation and self._speculates(state, now_us)
            (self._speculating if speculates else self._plain).append(state)
        self._step_us = decode_us(
            config.cost, len(self.batch), self.reserved_tokens, len(self._speculating)
        )
        limits = [state.left_tokens for state in self._plain]
        for state in self._speculating:
            assert state.drafts is not None
            time_left_us = state.request.deadline_us - MIN_TIME_LEFT_US - now_us
            limits += [state.drafts.passes(state.generated), -(-time_left_us // self._step_us)]
        self.kind, self._num_steps = "decode", min(limits)

    def _speculates(self, state: RequestState, now_us: int) -> bool:
        load = len(self.batch) / self.config.batch_size
        time_left_us = state.request.deadline_us - now_us
        if not may_speculate(state.left_tokens, load, time_left_us, state.priority):
            return False
        if state.drafts is None:
            least = MIN_ACCEPTANCE if self.config.backoff else None
            state.drafts = Drafts(state.request, self._seed, least)
        return state.drafts.passes(state.generated) > 0

    def _emit_first(self, state: RequestState, now_us: int) -> None:
        state.generated += 1
        self._meter.now.tokens += 1
        if state.first_token_us is None:
            state.first_token_us = now_us
            self._meter.now.ttfts_us.append(now_us - state.request.arrival_us)
        else:
            gap_us = now_us - state.last_token_us
            state.max_gap_us = max(state.max_gap_us, gap_us)
            self._meter.now.gaps_us[gap_us] += 1
        state.last_token_us = now_us

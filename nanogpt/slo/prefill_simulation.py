"""A prefill engine under load, event by event: whole-prompt passes, a monitor, preemption.

Every decision is `nanogpt.slo.policy`'s; this module keeps the queue and the time. It models one
prefill instance: a request is done when the pass that holds it ends, and that is its first token.
"""

import dataclasses
from collections.abc import Sequence

from nanogpt.slo.load import POST_COST, Arrival, PrefillCost, check_load
from nanogpt.slo.passes import Pass
from nanogpt.slo.policy import (
    BATCH_BOUND_TOKENS,
    BATCH_GUARD,
    MARGIN,
    by_urgency,
    done_in,
    predict,
    refuses_preemption,
)
from nanogpt.slo.slo_parts import REFERENCE, SloParts, validated_slo_parts
from nanogpt.slo.slo_record import Decision, Ending, PassRecord, Result, Run, Variant
from nanogpt.slo.slo_view import SloRequest, SloView

TOKEN_BUDGET = 9000
"""The most tokens of one pass that batches all along; a longer prompt runs alone."""

POLL_US = 5000
"""The monitor looks this often, and at once at every arrival that it can see."""


def simulate(
    arrivals: Sequence[Arrival],
    variant: Variant,
    cost: PrefillCost = POST_COST,
    parts: SloParts = REFERENCE,
) -> Run:
    """Runs a load until all are done or the last deadline has passed.

    Raises: ValueError for a load that cannot be run, PartError for an illegal answer of a part, and
    whatever a part raises.
    """
    check_load(arrivals)
    return _Simulation(arrivals, variant, cost, validated_slo_parts(parts)).run()


class _Simulation:
    """The queue, the suspended passes and the time of one run."""

    def __init__(
        self, arrivals: Sequence[Arrival], variant: Variant, cost: PrefillCost, parts: SloParts
    ) -> None:
        self.arrivals = tuple(arrivals)
        self.variant = variant
        self.cost = cost
        self.parts = parts
        self.in_short = (parts.slack, parts.urgency, parts.gate) == (
            REFERENCE.slack, REFERENCE.urgency, REFERENCE.gate,
        )  # fmt: skip
        self.now_us = 0
        # Once the last deadline has passed, nothing can change who met theirs.
        self.end_us = max((each.deadline_us for each in arrivals), default=0)
        self.by_id = {each.id: each for each in arrivals}
        self.num_arrived = 0
        self.waiting: list[int] = []  # by id, which is in order of arrival
        # When each would have to start, from scratch, to make it: the same as long as it waits.
        self.latest_start_us: dict[int, int] = {}
        self.suspended: list[Pass] = []
        self.preemptions = dict.fromkeys(self.by_id, 0)
        self.first_token_us: dict[int, int] = {}
        self.passes: list[PassRecord] = []
        self.decisions: list[Decision] = []

    def run(self) -> Run:
        chosen: int | None = None  # what the last preemption was for: goes first
        while self.now_us < self.end_us:
            self.take_arrivals(self.now_us)
            if self.waiting or self.suspended:
                chosen = self.run_pass(self.next_pass(chosen))
            elif self.num_arrived < len(self.arrivals):
                self.now_us = self.arrivals[self.num_arrived].arrival_us
            else:
                break
        return Run(
            variant=self.variant,
            cost=self.cost,
            arrivals=self.arrivals,
            passes=tuple(self.passes),
            decisions=tuple(self.decisions),
            results=tuple(self.result(arrival) for arrival in self.arrivals),
        )

    def result(self, arrival: Arrival) -> Result:
        done_us = self.first_token_us.get(arrival.id)
        attained = done_us is not None and done_us <= arrival.deadline_us
        return Result(arrival.id, done_us, attained, self.preemptions[arrival.id])

    def take_arrivals(self, until_us: int) -> list[int]:
        """Puts what has arrived by then into the queue; returns the ids."""
        first = self.num_arrived
        while self.next_arrival_us() <= until_us:
            self.num_arrived += 1
        taken = [each.id for each in self.arrivals[first : self.num_arrived]]
        for each in taken:
            self.latest_start_us[each] = until_us + self.view(each, until_us).slack_us
        self.waiting += taken
        return taken

    def next_arrival_us(self) -> float:
        if self.num_arrived == len(self.arrivals):
            return float("inf")
        return self.arrivals[self.num_arrived].arrival_us

    # ------------------------------------------------------------ how urgent each request is

    def view(self, request_id: int, now_us: int, work: Pass | None = None) -> SloView:
        """A request as the policy sees it; with `work`, what is left of that pass is its own."""
        arrival = self.by_id[request_id]
        total, done = arrival.tokens, 0
        if work is not None:
            total, done = work.tokens, done_in(work.executed_us, work.tokens, self.cost.a_us)
        # Without Rule 1 it is not remembered what was preempted.
        num_preemptions = self.preemptions[request_id] if self.variant.rule_1 else 0
        request = SloRequest(
            request_id, total, done, arrival.deadline_us, arrival.slo_us, num_preemptions
        )
        return self.parts.view(request, now_us, self.cost.a_us, self.cost.c_us)

    def candidates(self, now_us: int) -> list[SloView]:
        """The requests in the queue and in a suspended pass."""
        waiting = [self.view(each, now_us) for each in self.waiting]
        return waiting + [
            self.view(each, now_us, work) for work in self.suspended for each in work.ids
        ]

    # ------------------------------------------------------------ what runs next

    def next_pass(self, chosen: int | None) -> Pass:
        """The pass to run now: one that was suspended, or a new one out of the queue."""
        overslept = self.overslept(self.now_us)
        if overslept and chosen is None:
            return self.wake(overslept)
        views = self.candidates(self.now_us)
        if self.variant.order == "s-edf":
            views = by_urgency(views)
            # The monitor's choice first, the rest as it is.
            views.sort(key=lambda each: each.id != chosen)
        for each in self.suspended:
            if views[0].id in each.ids:
                return self.wake(each)
        asleep = {request_id for each in self.suspended for request_id in each.ids}
        return self.new_pass(self.batch([each for each in views if each.id not in asleep]))

    def overslept(self, now_us: int) -> Pass | None:
        """A suspended pass that has waited as long as it may."""
        return next((each for each in self.suspended if each.must_run(now_us)), None)

    def wake(self, suspended: Pass) -> Pass:
        self.suspended.remove(suspended)
        suspended.wake(self.now_us)
        return suspended

    def batch(self, views: Sequence[SloView]) -> list[int]:
        """Who shares the pass, the head of the queue first."""
        if self.variant.batching == "slo":
            return self.parts.slo_batch(
                views[0], views[1:], self.cost.a_us, self.cost.c_us, BATCH_BOUND_TOKENS, BATCH_GUARD
            )
        ids = [views[0].id]
        tokens = views[0].tokens
        for each in views[1:]:
            tokens += each.tokens
            if tokens > TOKEN_BUDGET:
                break
            ids.append(each.id)
        return ids

    def new_pass(self, ids: Sequence[int]) -> Pass:
        self.waiting = [each for each in self.waiting if each not in ids]
        tokens = sum(self.by_id[each].tokens for each in ids)
        total_us = predict(tokens, self.cost.a_us, self.cost.c_us)
        return Pass(tuple(ids), tokens, total_us, self.cost.num_layers)

    # ------------------------------------------------------------ running it

    def run_pass(self, running: Pass) -> int | None:
        """Computes until the pass ends or is preempted; returns what it was preempted for."""
        start_us = self.now_us
        first_layer = running.layers_done
        decision = self.watch(running) if self.variant.preemption != "none" else None
        if decision is not None:
            self.decisions.append(decision)
        if decision is None or decision.refused:
            self.now_us = start_us + running.remaining_us
            self.first_token_us.update(dict.fromkeys(running.ids, self.now_us))
            layers, ending = (first_layer, self.cost.num_layers), "finished"
        else:
            self.now_us = decision.left_us
            layers, ending = (first_layer, decision.layer), self.set_aside(running, start_us)
        self.passes.append(
            PassRecord(start_us, self.now_us, running.ids, running.tokens, layers, ending)
        )
        return decision.waiter.id if decision is not None and not decision.refused else None

    def set_aside(self, running: Pass, start_us: int) -> Ending:
        """What becomes of a preempted pass: thrown away, its requests queued again, or kept."""
        for request_id in running.ids:
            self.preemptions[request_id] += 1
        if self.variant.preemption == "abort":
            self.waiting = sorted([*running.ids, *self.waiting])
            return "aborted"
        running.suspend(self.now_us, self.now_us - start_us)
        self.suspended.append(running)
        return "suspended"

    # ------------------------------------------------------------ the monitor

    def watch(self, running: Pass) -> Decision | None:
        """The monitor's first wish to preempt this pass, granted or refused, or None."""
        start_us = self.now_us
        finish_us = start_us + running.remaining_us
        if running.is_protected:
            return None
        seen = {each: self.latest_start_us[each] for each in self.waiting}
        for work in self.suspended:
            for each in work.ids:
                seen[each] = start_us + self.view(each, start_us, work).slack_us
        now_us = start_us
        while (next_us := self.next_look(now_us, bool(seen))) < finish_us:
            now_us = int(next_us)
            if self.variant.sees_arrivals:
                for each in self.take_arrivals(now_us):
                    seen[each] = self.latest_start_us[each]
            waiter = self.most_urgent(seen, now_us)
            if waiter is not None and not self.overslept(now_us):
                decision = self.look(running, waiter, start_us, now_us)
                if decision is not None:
                    return decision
        return None

    def next_look(self, now_us: int, any_waits: bool) -> float:
        """When the monitor looks next: at a tick if there is a request to look at, or arrival."""
        tick_us = (now_us // POLL_US + 1) * POLL_US if any_waits else float("inf")
        return min(tick_us, self.next_arrival_us()) if self.variant.sees_arrivals else tick_us

    def most_urgent(self, seen: dict[int, int], now_us: int) -> SloView | None:
        """The waiter that the gate is asked about; `seen` has the latest start of each.

        The reference gate never opens for the doomed, who stay doomed while they wait, and of the
        others the earliest deadline is the most urgent: there is no need to look at all.
        """
        if not self.in_short:
            waiters = [self.view(each, now_us, self.suspended_pass(each)) for each in seen]
            return by_urgency(waiters)[0] if waiters else None
        for each in [each for each, latest_us in seen.items() if latest_us < now_us]:
            del seen[each]
        if not seen:
            return None
        first = min(seen, key=lambda each: (self.by_id[each].deadline_us, each))
        return self.view(first, now_us, self.suspended_pass(first))

    def suspended_pass(self, request_id: int) -> Pass | None:
        return next((each for each in self.suspended if request_id in each.ids), None)

    def look(self, running: Pass, waiter: SloView, start_us: int, now_us: int) -> Decision | None:
        """What the gate says right now, and at which layer the pass would be left."""
        executed_us = running.executed_us + now_us - start_us
        work = None
        if self.variant.counts_progress:
            work = dataclasses.replace(running, executed_us=executed_us)
        runners = by_urgency(self.view(each, now_us, work) for each in running.ids)
        victim = self.parts.gate(waiter, runners, MARGIN, self.variant.mode)
        if victim is None:
            return None
        # The vote is taken before each layer: the pass is left at the next one, not at once.
        layer, until_us = running.way_out(executed_us)
        return Decision(
            time_us=now_us,
            left_us=now_us + until_us,
            layer=layer,
            refused=refuses_preemption(layer, self.cost.num_layers),
            waiter=waiter,
            runners=tuple(runners),
            victim=victim,
            others=tuple(each for each in running.ids if each != victim),
        )

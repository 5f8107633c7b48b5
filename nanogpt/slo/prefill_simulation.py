"""A prefill engine under load, event by event: whole-prompt passes, a monitor, preemption.

Every decision is `nanogpt.slo.policy`'s; this module keeps the queue and the time. A request has
its first token once its pass has ended and the cost's `request_us` have passed.
"""

import dataclasses
import math
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from nanogpt.slo.load import POST_COST, Arrival, PrefillCost, check_load
from nanogpt.slo.policy import (
    BATCH_BOUND_TOKENS,
    BATCH_GUARD,
    MARGIN,
    by_urgency,
    done_in,
    refuses_preemption,
    slept_enough,
    slo_batch,
)
from nanogpt.slo.slo_policies import REFERENCE, SloPolicies, validated_slo_policies
from nanogpt.slo.slo_record import Decision, Ending, PassRecord, Result, Run, Variant
from nanogpt.views.slo_view import SloRequest, SloView

TOKEN_BUDGET = 9000
"""The most tokens of a pass with batching "budget"; a longer prompt runs by itself."""

POLL_US = 5000
"""Time between two looks of the monitor; it also looks at every arrival that it sees."""

NEVER_US = sys.maxsize


def simulate(
    arrivals: Sequence[Arrival],
    variant: Variant,
    cost: PrefillCost = POST_COST,
    policies: SloPolicies = REFERENCE,
) -> Run:
    """Run a load until all requests are done or the last deadline has passed.

    Raises: ValueError for a load that cannot be run, PolicyError for an illegal answer of a
    policy, and whatever a policy raises.
    """
    check_load(arrivals)
    return _Simulation(arrivals, variant, cost, validated_slo_policies(policies)).run()


@dataclass(slots=True)
class _Pass:
    """A pass that has begun. Mutable: `slept_us` is its sleep before `suspended_at_us`."""

    ids: tuple[int, ...]
    tokens: int
    total_us: int
    num_layers: int
    executed_us: int = 0
    slept_us: int = 0
    suspended_at_us: int = 0

    @property
    def remaining_us(self) -> int:
        return self.total_us - self.executed_us

    @property
    def layers_done(self) -> int:
        return self.executed_us * self.num_layers // self.total_us

    def next_vote(self, executed_us: int) -> tuple[int, int]:
        """The next layer before which it may be left, and the computing time until then."""
        layer = -(-executed_us * self.num_layers // self.total_us)
        return layer, -(-layer * self.total_us // self.num_layers) - executed_us

    def has_overslept(self, now_us: int) -> bool:
        """Whether, being suspended, it must run."""
        return slept_enough(self.slept_us + now_us - self.suspended_at_us, self.total_us)


class _Simulation:
    """The queue, the suspended passes and the time of one run."""

    def __init__(
        self,
        arrivals: Sequence[Arrival],
        variant: Variant,
        cost: PrefillCost,
        policies: SloPolicies,
    ) -> None:
        self.arrivals = tuple(arrivals)
        self.variant = variant
        self.cost = cost
        self.policies = policies
        self.is_reference = (policies.slack, policies.edf_score, policies.select_victim) == (
            REFERENCE.slack, REFERENCE.edf_score, REFERENCE.select_victim,
        )  # fmt: skip
        self.now_us = 0
        self.by_id = {each.id: each for each in arrivals}
        self.coming = deque(arrivals)
        self.waiting: list[int] = []  # by id, which is in order of arrival
        self.suspended: list[_Pass] = []
        self.preemptions = dict.fromkeys(self.by_id, 0)
        self.first_token_us: dict[int, int] = {}
        self.passes: list[PassRecord] = []
        self.decisions: list[Decision] = []

    def run(self) -> Run:
        # Once the last deadline has passed, nothing can change which requests met theirs.
        end_us = max((each.deadline_us for each in self.arrivals), default=0)
        chosen: int | None = None  # the request that the last pass was preempted for
        while self.now_us < end_us:
            self.take_arrivals(self.now_us)
            if self.waiting or self.suspended:
                chosen = self.run_pass(chosen)
            elif self.coming:
                self.now_us = self.next_arrival_us()
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
        """Put the requests that have arrived by then into the queue; return their ids."""
        taken: list[int] = []
        while self.next_arrival_us() <= until_us:
            taken.append(self.coming.popleft().id)
        self.waiting += taken
        return taken

    def next_arrival_us(self) -> int:
        return self.coming[0].arrival_us if self.coming else NEVER_US

    def view(self, request_id: int, now_us: int, work: _Pass | None = None) -> SloView:
        """A request as the policy sees it; with `work`, its work is the rest of that pass."""
        arrival = self.by_id[request_id]
        total, done = arrival.tokens, 0
        if work is not None:
            total, done = work.tokens, done_in(work.executed_us, work.tokens, self.cost.a_us)
        num_preemptions = self.preemptions[request_id] if self.variant.rule_1 else 0
        request = SloRequest(
            request_id, total, done, arrival.deadline_us, arrival.slo_us, num_preemptions
        )
        return self.policies.view(request, now_us, self.cost.a_us, self.cost.c_us)

    def suspended_pass(self, request_id: int) -> _Pass | None:
        return next((each for each in self.suspended if request_id in each.ids), None)

    def overslept(self, now_us: int) -> _Pass | None:
        return next((each for each in self.suspended if each.has_overslept(now_us)), None)

    # ------------------------------------------------------------ the next pass

    def run_pass(self, chosen: int | None) -> int | None:
        """Run a pass until it ends or is preempted; return the request it is preempted for.

        `chosen` is the request that the pass before was preempted for.
        """
        start_us = self.now_us
        views = [self.view(each, start_us) for each in self.waiting]
        views += [self.view(each, start_us, work) for work in self.suspended for each in work.ids]
        running = self.next_pass(views, chosen)
        first_layer, decision = running.layers_done, None
        if self.variant.preemption != "none":
            decision = self.watch(running, [each for each in views if each.id not in running.ids])
        if decision is not None:
            self.decisions.append(decision)
        if decision is None or decision.refused:
            self.now_us = start_us + running.remaining_us
            first_us = self.now_us + self.cost.request_us
            self.first_token_us.update(dict.fromkeys(running.ids, first_us))
            chosen, last_layer, ending = None, self.cost.num_layers, "finished"
        else:
            self.now_us = decision.left_us
            chosen, last_layer = decision.candidate.id, decision.layer
            ending = self.set_aside(running, self.now_us - start_us)
        layers = (first_layer, last_layer)
        self.passes.append(
            PassRecord(start_us, self.now_us, running.ids, running.tokens, layers, ending)
        )
        return chosen

    def next_pass(self, views: Sequence[SloView], chosen: int | None) -> _Pass:
        """The pass to run now: a suspended one, or a new one from the queue."""
        overslept = self.overslept(self.now_us)
        if overslept and chosen is None:
            return self.wake(overslept)
        if self.variant.order == "s-edf":
            views = by_urgency(views)
            views.sort(key=lambda each: each.id != chosen)  # the monitor's choice first
        suspended = self.suspended_pass(views[0].id)
        if suspended is not None:
            return self.wake(suspended)
        ids = self.batch([each for each in views if self.suspended_pass(each.id) is None])
        self.waiting = [each for each in self.waiting if each not in ids]
        tokens = sum(self.by_id[each].tokens for each in ids)
        return _Pass(tuple(ids), tokens, self.cost.pass_us(tokens), self.cost.num_layers)

    def wake(self, suspended: _Pass) -> _Pass:
        self.suspended.remove(suspended)
        suspended.slept_us += self.now_us - suspended.suspended_at_us
        return suspended

    def batch(self, views: Sequence[SloView]) -> list[int]:
        """The requests that share a pass, the candidate first."""
        rest = (views[0], views[1:], self.cost.a_us, self.cost.c_us)
        if self.variant.batching == "slo":
            return self.policies.slo_batch(*rest, BATCH_BOUND_TOKENS, BATCH_GUARD)
        return slo_batch(*rest, TOKEN_BUDGET, -math.inf)  # whatever slack the candidate keeps

    def set_aside(self, running: _Pass, executed_us: int) -> Ending:
        """Abort a preempted pass and queue its requests again, or suspend it."""
        for request_id in running.ids:
            self.preemptions[request_id] += 1
        if self.variant.preemption == "abort":
            self.waiting = sorted([*running.ids, *self.waiting])
            return "aborted"
        running.executed_us += executed_us
        running.suspended_at_us = self.now_us
        self.suspended.append(running)
        return "suspended"

    # ------------------------------------------------------------ the monitor

    def watch(self, running: _Pass, others: Sequence[SloView]) -> Decision | None:
        """The monitor's first request to preempt this pass, granted or refused, or None.

        `others` are the requests that do not run, as they are when the pass begins.
        """
        start_us = now_us = self.now_us
        finish_us = start_us + running.remaining_us
        if slept_enough(running.slept_us, running.total_us):
            return None
        # The latest start that meets each deadline, constant while a request waits.
        latest_start_us = {each.id: start_us + each.slack_us for each in others}
        while (now_us := self.next_look_us(now_us, bool(latest_start_us))) < finish_us:
            if self.variant.sees_arrivals:
                for each in self.take_arrivals(now_us):
                    latest_start_us[each] = now_us + self.view(each, now_us).slack_us
            candidate = self.most_urgent(latest_start_us, now_us)
            if candidate is not None and not self.overslept(now_us):
                decision = self.look(running, candidate, start_us, now_us)
                if decision is not None:
                    return decision
        return None

    def next_look_us(self, now_us: int, any_waits: bool) -> int:
        """The next tick, if a request waits, or arrival."""
        tick_us = (now_us // POLL_US + 1) * POLL_US if any_waits else NEVER_US
        return min(tick_us, self.next_arrival_us()) if self.variant.sees_arrivals else tick_us

    def most_urgent(self, latest_start_us: dict[int, int], now_us: int) -> SloView | None:
        """The waiting request that `select_victim` is asked about.

        The reference needs no look at each: doomed requests preempt nothing and stay doomed while
        they wait, so they are dropped; of the others the earliest deadline is the most urgent.
        """
        candidates = list(latest_start_us)
        if self.is_reference:
            for each in candidates:
                if latest_start_us[each] < now_us:
                    del latest_start_us[each]
            by_deadline = ((self.by_id[each].deadline_us, each) for each in latest_start_us)
            candidates = [request_id for _, request_id in sorted(by_deadline)[:1]]
        views = [self.view(each, now_us, self.suspended_pass(each)) for each in candidates]
        return by_urgency(views)[0] if views else None

    def look(
        self, running: _Pass, candidate: SloView, start_us: int, now_us: int
    ) -> Decision | None:
        """The policy's answer right now, and the layer at which the pass would be left."""
        executed_us = running.executed_us + now_us - start_us
        work = None
        if self.variant.counts_progress:
            work = dataclasses.replace(running, executed_us=executed_us)
        runners = by_urgency(self.view(each, now_us, work) for each in running.ids)
        victim = self.policies.select_victim(candidate, runners, MARGIN)
        if victim is None:
            return None
        layer, until_us = running.next_vote(executed_us)
        return Decision(
            time_us=now_us,
            left_us=now_us + until_us,
            layer=layer,
            refused=refuses_preemption(layer, self.cost.num_layers),
            candidate=candidate,
            runners=tuple(runners),
            victim=victim,
            others=tuple(each for each in running.ids if each != victim),
        )

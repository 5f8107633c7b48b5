"""Judging what becomes urgent and where it goes: the rules, the mistakes, and a tiny fleet.

The fleet is held by the check: it shows the router a moment, and applies the decision itself.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from course.checks.comparing import Args, Comparison, Mistake, a_kind
from course.showing import named
from nanogpt.fleet import decisions
from nanogpt.fleet.views import WorkerView
from nanogpt.parts.plain_values import as_whole

Bump = Callable[[int, int, int, int], Any]
Route = Callable[[list[WorkerView], dict[int, int]], Any]

_URGENT_US = decisions.URGENT_US
_LEVELS = decisions.URGENCY_LEVELS


def _ways(key: str, idea: str, *answers: Any) -> Iterator[Mistake[Any]]:
    """One mistake that can be made in several ways."""
    return (Mistake(key, idea, answer) for answer in answers)


# --- bump ------------------------------------------------------------------------------------


def _bumping(
    is_urgent: Callable[[int], bool] = lambda slack: 0 <= slack <= _URGENT_US,
    slack: Callable[[int, int, int], int] = lambda now, deadline, remaining: (
        deadline - now - remaining
    ),
    lifted: Callable[[int, int], Any] = lambda priority, slack: max(0, priority - _LEVELS),
    other: Callable[[int, int], Any] = lambda priority, slack: priority,
) -> Bump:
    """The rules but for what is given: when, by which slack, to where, and where otherwise."""

    def answer(priority: int, now: int, deadline: int, remaining: int) -> Any:
        left = slack(now, deadline, remaining)
        return lifted(priority, left) if is_urgent(left) else other(priority, left)

    return answer


def _until_the_deadline(now: int, deadline: int, remaining: int) -> int:
    return deadline - now


def _late_by_the_deadline(priority: int, now: int, deadline: int, remaining: int) -> int:
    """Only a deadline that is past counts as late."""
    urgent = deadline - now >= 0 and deadline - now - remaining <= _URGENT_US
    return max(0, priority - _LEVELS) if urgent else priority


def _each_tick(tick_us: int) -> Bump:
    """Two levels for every tick since it became urgent."""
    return _bumping(
        lifted=lambda priority, slack: max(
            0, priority - _LEVELS * (1 + (_URGENT_US - slack) // tick_us)
        )
    )


def any_requests(rng: random.Random, count: int) -> list[Args]:
    """Around the two edges and far from them, in all priorities."""
    cases: list[Args] = []
    for _ in range(count):
        edge = rng.choice((0, 0, _URGENT_US, _URGENT_US, -_URGENT_US, 25_000, 400_000))
        slack = edge + rng.choice((-1, 0, 1, rng.randint(-30_000, 30_000)))
        now, remaining = rng.randint(0, 10**7), rng.choice((0, rng.randint(1, 300_000)))
        cases.append((rng.randrange(10), now, now + slack + remaining, remaining))
    return cases


_DEAD = (
    "With a slack below 0 it misses its deadline whatever happens, and lifted, it only takes the "
    "time of one that can still make it: leave its priority as it is."
)
_WORK = (
    "It still needs `remaining` microseconds: being about to be late is a matter of the slack, "
    "deadline - now - remaining, not of the deadline alone."
)
_DIRECTION = "0 is the highest priority, so two levels up is a smaller number: priority - 2."
_EDGE = "A slack of exactly 50 ms is urgent already: at most 50 ms, and not below 0."
_ZERO = "With a slack of exactly 0 it still makes it, if it starts now: only below 0 it is lost."
_COMPOUNDS = (
    "Urgent lifts a request by two levels in all, not by two at every tick that asks: start from "
    "`priority` each time, which is its own."
)
_LEVEL = "Urgency lifts a request by 2 levels, no more and no less."
_UNIT = "All times are in microseconds: 50 ms are 50,000 of them."
_UNITS = tuple(
    _bumping(lambda slack, most=most: 0 <= slack <= most) for most in (0.05, 50, 500, 5_000, 50e6)
)

BUMP: Comparison[Bump] = Comparison(
    reference=_bumping(),
    mistakes=(
        *_ways(
            "bumps_the_dead",
            _DEAD,
            _bumping(lambda slack: slack <= _URGENT_US),
            _bumping(lambda slack: slack < _URGENT_US),
            _bumping(lambda slack: abs(slack) <= _URGENT_US),
            _late_by_the_deadline,
        ),
        *_ways(
            "ignores_the_work",
            _WORK,
            _bumping(slack=_until_the_deadline),
            _bumping(lambda slack: slack <= _URGENT_US, _until_the_deadline),
            _bumping(lambda slack: 0 < slack <= _URGENT_US, _until_the_deadline),
        ),
        *_ways(
            "wrong_direction",
            _DIRECTION,
            _bumping(lifted=lambda priority, slack: priority + _LEVELS),
            _bumping(lifted=lambda priority, slack: min(9, priority + _LEVELS)),
            _bumping(lifted=lambda priority, slack: max(0, priority + _LEVELS)),
        ),
        Mistake(
            "below_zero",
            "There is no priority above 0, the highest: stop there, or an urgent request outranks "
            "all others for good.",
            _bumping(lifted=lambda priority, slack: priority - _LEVELS),
        ),
        *_ways(
            "not_at_the_top",
            "An urgent request of priority 0 or 1 may end at 0, the highest of all.",
            _bumping(lifted=lambda priority, slack: max(1, priority - _LEVELS)),
            _bumping(
                lifted=lambda priority, slack: (
                    priority - _LEVELS if priority >= _LEVELS else priority
                )
            ),
        ),
        *_ways(
            "wrong_levels",
            _LEVEL,
            *(
                _bumping(lifted=lambda priority, slack, by=by: max(0, priority - by))
                for by in (1, 3, 4)
            ),
            _bumping(lifted=lambda priority, slack: 0),
            _bumping(lifted=lambda priority, slack: priority // 2),
        ),
        *_ways("compounds", _COMPOUNDS, _each_tick(1_000), _each_tick(10_000)),
        *_ways("wrong_unit", _UNIT, *_UNITS),
        *_ways(
            "rounded",
            "50.001 ms are more than 50 ms: compare microseconds, without rounding.",
            _bumping(lambda slack: 0 <= slack // 1_000 <= 50),
            _bumping(lambda slack: 0 <= round(slack / 1_000) <= 50),
            _bumping(lambda slack: 0 <= int(slack / 1_000) <= 50),
        ),
        Mistake("edge_of_50_ms", _EDGE, _bumping(lambda slack: 0 <= slack < _URGENT_US)),
        *_ways(
            "slack_of_0",
            _ZERO,
            _bumping(lambda slack: 0 < slack <= _URGENT_US),
            _bumping(lambda slack: 0 < slack < _URGENT_US),
        ),
        *_ways(
            "punishes_the_dead",
            "What cannot be saved gains nothing and loses nothing: its priority stays as it is.",
            _bumping(other=lambda priority, slack: priority + _LEVELS if slack < 0 else priority),
            _bumping(other=lambda priority, slack: 9 if slack < 0 else priority),
        ),
        Mistake(
            "turned_round",
            "It is the request with little time to spare that is lifted, not the one with a lot.",
            _bumping(lambda slack: slack > _URGENT_US),
        ),
        *_ways(
            "sign",
            "What is still to be done takes from the time until the deadline: subtract "
            "`remaining`, do not add it.",
            _bumping(slack=lambda now, deadline, remaining: deadline - now + remaining),
        ),
        *_ways(
            "sign_of_the_time",
            "The time that is left runs from now until the deadline: deadline - now.",
            _bumping(slack=lambda now, deadline, remaining: now - deadline - remaining),
            _bumping(slack=lambda now, deadline, remaining: now + remaining - deadline),
        ),
        Mistake(
            "only_the_dead",
            "It is too late for this one: lift those that can still make it, with a slack of 0 or "
            "more.",
            _bumping(lambda slack: slack < 0),
        ),
        Mistake(
            "always",
            "Only a request about to be late is lifted: if all are, none is.",
            _bumping(lambda slack: True),
        ),
        Mistake(
            "never",
            "With at most 50 ms to spare a request is about to be late: lift it by two levels.",
            _bumping(lambda slack: False),
        ),
        *_ways(
            "by_how_much",
            "The answer is the priority that it has now, not by how much it was lifted.",
            _bumping(
                lifted=lambda priority, slack: min(_LEVELS, priority),
                other=lambda priority, slack: 0,
            ),
            _bumping(lifted=lambda priority, slack: _LEVELS, other=lambda priority, slack: 0),
        ),
    ),
    idea="Ask how much time the request has to spare, whether going first still helps it, and how "
    "far up it goes.",
    form=lambda value: (
        None
        if as_whole(value) is not None
        else ("not_int", f"A priority is a whole number, not {a_kind(value)}.")
    ),
    draw_call=named("priority", "now", "deadline", "remaining"),
    evidence=[
        *any_requests(random.Random(0), 60),
        # Past the deadline by less than the work that is left, and by more.
        *((6, 300_000 + 10_000 * late, 300_000, 80_000) for late in range(1, 12)),
    ],
)


# --- route -----------------------------------------------------------------------------------


def worker(id: int, backlog: int = 0, running: int = 0, **fields: int) -> WorkerView:
    """A worker with room: `backlog` prompt tokens promised, `running` requests in its batch."""
    known = {"batch_size": max(8, 2 * running), "kv_free_tokens": 4000, "kv_tokens": 4000} | fields
    return WorkerView(id=id, backlog_tokens=backlog, num_running=running, **known)


_Rank = Callable[[WorkerView, int], Any]


def _left(view: WorkerView, hit: int) -> int:
    return view.backlog_tokens - hit


def _routing(rank: _Rank, among: Callable[..., Sequence[WorkerView]] | None = None) -> Route:
    """The worker with the smallest rank(worker, hit), out of all or of those given."""

    def answer(workers: list[WorkerView], hits: dict[int, int]) -> int:
        candidates = (among(workers, hits) if among else workers) or workers
        return min(candidates, key=lambda view: rank(view, hits.get(view.id, 0))).id

    return answer


def _by(rank: _Rank, among: Callable[..., Sequence[WorkerView]] | None = None) -> Route:
    """By another rank, but among equals as the rules say."""
    return _routing(lambda view, hit: (rank(view, hit), view.num_running, view.id), among)


_ROUTE = _by(_left)


def _score(view: WorkerView, hit: int) -> float:
    return -decisions.source_score(view, hit)


def _who_has_a_hit(workers: Sequence[WorkerView], hits: Mapping[int, int]) -> list[WorkerView]:
    return [view for view in workers if hits.get(view.id, 0)]


def _best_hit_anywhere(workers: list[WorkerView], hits: dict[int, int]) -> int:
    """Never looks whether the worker is among those with room."""
    if not hits:
        return _ROUTE(workers, hits)
    return max(hits, key=lambda id: (hits[id], -id))


def _at_place(place: int) -> Route:
    return lambda workers, hits: workers[place].id


def _index(workers: list[WorkerView], hits: dict[int, int]) -> int:
    return [view.id for view in workers].index(_ROUTE(workers, hits))


def _with_hits_by_place(first: int) -> Route:
    """Looks a worker's hit up under its place in the list."""

    def answer(workers: list[WorkerView], hits: dict[int, int]) -> int:
        ranks = [
            (view.backlog_tokens - hits.get(place, 0), view.num_running, view.id)
            for place, view in enumerate(workers, first)
        ]
        return min(ranks)[2]

    return answer


def any_choices(rng: random.Random, count: int) -> list[Args]:
    """Fleets in which every rule decides somewhere: few workers first."""
    choices: list[Args] = []
    for _ in range(count):
        ids = rng.sample(range(7), rng.choice((1, 2, 2, 3, 3, 4)))
        views = [
            worker(
                id,
                rng.choice((0, 0, 1, 100, 100, 101, 103, 200, 300, rng.randint(1, 3000))),
                rng.randrange(8),
                kv_free_tokens=rng.randint(1500, 4000),
            )
            for id in ids
        ]
        hits = {
            id: rng.choice((100, 200, 300, rng.randint(1, 1400)))
            for id in rng.sample(range(7), rng.randint(0, 5))
        }
        choices.append((views, hits))
    return sorted(choices, key=lambda args: len(args[0]))


def _draw_route(name: str, args: Args) -> str:
    views, hits = args
    lines = [f"{name}(workers, hits={hits})"]
    lines += [
        f"worker {view.id}: backlog_tokens={view.backlog_tokens}, num_running={view.num_running}"
        for view in views
    ]
    return "\n".join(lines)


def _worker_form(value: Any) -> tuple[str, str] | None:
    if as_whole(value) is not None:
        return None
    if isinstance(value, WorkerView):
        return "the_worker_itself", "The answer is the worker's `id`, not the worker."
    return "not_an_id", f"The answer is the `id` of one of the workers, not {a_kind(value)}."


_HOTSPOT = (
    "A hit saves its tokens once, and no more: weighed heavier, it sends all that share a "
    "prefix to one worker, where they queue while the others stand idle."
)
_TIE = (
    "Among equals the worker with fewer running requests is next, and only then the one with the "
    "lower id."
)
_NO_BACKLOG = (
    "What the worker has promised to compute comes first, however much it knows of this prompt: "
    "count its `backlog_tokens` as well."
)
_CLAMPED = (
    "Backlog minus hit may be below 0, and should: of two idle workers the one that knows more of "
    "the prompt is done earlier."
)
_NOT_BACKLOG = (
    "How many requests run does not say how much they still have to prefill: compare "
    "`backlog_tokens`, and the running ones among equals alone."
)

ROUTE: Comparison[Route] = Comparison(
    reference=_ROUTE,
    mistakes=(
        *_ways(
            "hotspot",
            _HOTSPOT,
            _routing(lambda view, hit: (_score(view, hit), view.id)),
            _routing(_score),
            _routing(lambda view, hit: -10 * hit + 100 * view.num_running / view.batch_size),
            _by(lambda view, hit: view.backlog_tokens - 10 * hit),
            _by(lambda view, hit: view.backlog_tokens - 2 * hit),
        ),
        *_ways(
            "chases_hits",
            _NO_BACKLOG,
            _by(lambda view, hit: -hit),
            _by(lambda view, hit: (-hit, view.backlog_tokens)),
            _routing(lambda view, hit: (-hit, view.id)),
            _routing(lambda view, hit: -hit),
        ),
        *_ways(
            "only_those_with_a_hit",
            "A worker without a hit may still be done earlier: look at all of them, and take its "
            "hit as 0.",
            _routing(
                lambda view, hit: (_left(view, hit), view.num_running, view.id), _who_has_a_hit
            ),
            _routing(
                lambda view, hit: (view.backlog_tokens, view.num_running, view.id), _who_has_a_hit
            ),
        ),
        *_ways(
            "ignores_hits",
            "What a worker has of the prompt already it need not compute: take its hit off its "
            "backlog.",
            _by(lambda view, hit: view.backlog_tokens),
            _routing(lambda view, hit: (view.backlog_tokens, view.id)),
            _routing(lambda view, hit: view.backlog_tokens),
        ),
        *_ways(
            "hit_only_among_equals",
            "A hit counts in tokens like the backlog, so it may outweigh one: subtract it, rather "
            "than look at it among equals alone.",
            _by(lambda view, hit: (view.backlog_tokens, -hit)),
            _routing(lambda view, hit: (view.backlog_tokens, -hit)),
        ),
        Mistake(
            "sign",
            "A hit is work that need not be done: subtract it from the backlog, do not add it.",
            _by(lambda view, hit: view.backlog_tokens + hit),
        ),
        *_ways(
            "the_last",
            "The smallest is wanted: the most backlog without a hit is where it would wait "
            "longest.",
            _by(lambda view, hit: -_left(view, hit)),
            _routing(lambda view, hit: -_left(view, hit)),
        ),
        *_ways(
            "clamped",
            _CLAMPED,
            _by(lambda view, hit: max(0, _left(view, hit))),
            _by(lambda view, hit: abs(_left(view, hit))),
        ),
        *_ways(
            "by_the_running",
            _NOT_BACKLOG,
            _routing(lambda view, hit: (view.num_running, _left(view, hit), view.id)),
            _routing(lambda view, hit: (view.num_running, view.id)),
            _routing(lambda view, hit: (view.num_running, -hit, view.id)),
            _routing(lambda view, hit: view.num_running),
        ),
        *_ways(
            "adds_the_running",
            "A running request is no token: how many run decides among equals alone.",
            _routing(lambda view, hit: (_left(view, hit) + view.num_running, view.id)),
            _routing(lambda view, hit: _left(view, hit) + view.num_running),
            _by(lambda view, hit: _left(view, hit) + view.num_running),
        ),
        *_ways(
            "by_the_free_kv",
            "All of these workers have room, and more room computes nothing faster: compare the "
            "backlog minus the hit.",
            _routing(lambda view, hit: (-view.kv_free_tokens, view.id)),
            _routing(lambda view, hit: -view.kv_free_tokens),
        ),
        *_ways(
            "tie",
            _TIE,
            _routing(lambda view, hit: (_left(view, hit), view.id)),
            _routing(_left),
            _routing(lambda view, hit: (_left(view, hit), view.num_running)),
            _routing(lambda view, hit: (_left(view, hit), view.num_running, -view.id)),
            _routing(lambda view, hit: (_left(view, hit), -view.num_running, view.id)),
            _routing(lambda view, hit: (_left(view, hit), -hit, view.num_running, view.id)),
            _routing(lambda view, hit: (_left(view, hit), -hit, view.id)),
            _routing(lambda view, hit: (_left(view, hit), -hit)),
            _routing(lambda view, hit: (_left(view, hit), hit, view.num_running, view.id)),
        ),
        Mistake(
            "no_room_there",
            "`hits` also names workers that have no room: only those in `workers` can take the "
            "request.",
            _best_hit_anywhere,
        ),
        *_ways(
            "list_order",
            "The order of the list says nothing about the workers.",
            _at_place(0),
            _at_place(-1),
        ),
        *_ways(
            "hits_by_place",
            "`hits` goes by the worker's `id`, which is not its place in the list.",
            _with_hits_by_place(0),
            _with_hits_by_place(1),
        ),
        Mistake(
            "index", "This is a place in the list; the answer is the worker's own `id`.", _index
        ),
    ),
    idea="Ask of each worker when it would be done with the prefill of this prompt.",
    form=_worker_form,
    draw_call=_draw_route,
    evidence=[
        # A somewhat longer hit behind a far longer backlog, a hit that is all but worth it, and
        # one where many run.
        ([worker(1, 3000), worker(2)], {1: 110, 2: 100}),
        ([worker(1, 300), worker(2)], {1: 250}),
        ([worker(1, 0, 7), worker(2)], {1: 103, 2: 100}),
        *any_choices(random.Random(4), 60),
    ],
)


# --- a tiny fleet ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rush:
    """Requests that begin alike, all at once; worker 0 knows the shared beginning."""

    num_requests: int
    shared_tokens: int
    own_tokens: int
    num_workers: int

    def __str__(self) -> str:
        return (
            f"{self.num_requests} requests at once, {self.shared_tokens + self.own_tokens} tokens "
            f"each, of which worker 0 knows {self.shared_tokens}; {self.num_workers} workers"
        )


@dataclass(slots=True)
class Prefills:
    """Sends the requests of a rush one by one. Mutable: which worker has promised how much."""

    rush: Rush
    views: list[WorkerView] = field(default_factory=list[WorkerView])
    asked: list[Args] = field(default_factory=list[Args])

    def run(self, route: Route) -> "Prefills":
        """Every decision is applied, right or wrong, if it names a worker."""
        rush = self.rush
        self.views = [worker(id, batch_size=64) for id in range(rush.num_workers)]
        for _ in range(rush.num_requests):
            args = (list(self.views), {0: rush.shared_tokens})
            self.asked.append(args)
            chosen = as_whole(route(*args))
            if chosen is None or not 0 <= chosen < rush.num_workers:
                break
            view = self.views[chosen]
            self.views[chosen] = replace(
                view,
                backlog_tokens=view.backlog_tokens
                + rush.own_tokens
                + (rush.shared_tokens if chosen else 0),
                num_running=view.num_running + 1,
            )
        return self

    @property
    def longest_backlog(self) -> int:
        """Tokens that the worker that is done last has to compute."""
        return max(view.backlog_tokens for view in self.views)

    def __str__(self) -> str:
        return "\n".join(
            f"worker {view.id}: {view.num_running} requests, {view.backlog_tokens} tokens to "
            "compute"
            for view in self.views
        )

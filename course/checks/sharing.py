"""Judging what comes along in the head's pass: the rules, and the mistakes."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from course.checks.comparing import Args, Comparison, Mistake, alike, list_of_ints
from nanogpt.slo.policy import SloRequest, SloView
from nanogpt.slo.slo_parts import REFERENCE

Batch = Callable[[SloView, list[SloView], float, float, int, float], list[int]]


def _draw_batch(name: str, args: Args) -> str:
    head, waiters, a, c, bound, guard = args
    lines = [f"{name}(head, waiters, a={a}, c={c}, bound={bound}, guard={guard})"]
    for role, view in (("head", head), *(("waiter", each) for each in waiters)):
        lines.append(
            f"{role} id={view.id}: tokens={view.tokens}, slo_us={view.slo_us}, "
            f"time_to_deadline_us={view.time_to_deadline_us}"
        )
    return "\n".join(lines)


def _batching(
    fits: Callable[["_Room"], bool] | None = None,
    *,
    starts_with: Callable[[SloView], int] = lambda head: head.tokens,
    skips: bool = False,
) -> Batch:
    """The rules, but for another idea of what fits; `skips` goes on behind one that does not."""

    def answer(
        head: SloView, waiters: list[SloView], a: float, c: float, bound: int, guard: float
    ) -> list[int]:
        ids, tokens = [head.id], starts_with(head)
        for waiter in waiters:
            after = tokens + waiter.tokens
            room = _Room(head, waiter, len(ids) + 1, tokens, after, a, c, bound, guard)
            if (fits or _Room.fits)(room):
                tokens += waiter.tokens
                ids.append(waiter.id)
            elif not skips:
                break
        return ids

    return answer


@dataclass(frozen=True, slots=True)
class _Room:
    """Whether one more fits: the batch has `before` tokens and would have `tokens`, of `count`."""

    head: SloView
    waiter: SloView
    count: int
    before: int
    tokens: int
    a: float
    c: float
    bound: int
    guard: float

    @property
    def work_us(self) -> float:
        return self.a * self.tokens + self.c

    @property
    def spare_us(self) -> float:
        return self.head.time_to_deadline_us - self.work_us

    @property
    def kept_us(self) -> float:
        return self.guard * self.head.slo_us

    @property
    def is_bounded(self) -> bool:
        return self.tokens <= self.bound

    @property
    def is_guarded(self) -> bool:
        return self.spare_us >= self.kept_us

    @property
    def waiter_bears_it(self) -> bool:
        spare_us = self.waiter.time_to_deadline_us - self.work_us
        return spare_us >= self.guard * self.waiter.slo_us

    def fits(self) -> bool:
        return self.is_bounded and self.is_guarded


_BATCH = _batching()


def _refuses_the_head(head: SloView, waiters: list[SloView], *rest: Any) -> list[int]:
    a, c, bound, guard = rest
    alone = _Room(head, head, 1, 0, head.tokens, a, c, bound, guard)
    return _BATCH(head, waiters, a, c, bound, guard) if alone.fits() else []


def _from_the_end(head: SloView, waiters: list[SloView], *rest: Any) -> list[int]:
    return [head.id, *_BATCH(head, waiters, *rest)[:0:-1]]


def _places(head: SloView, waiters: list[SloView], *rest: Any) -> list[int]:
    return list(range(len(_BATCH(head, waiters, *rest))))


def _sorted_by(key: Callable[[SloView], Any]) -> Batch:
    return lambda head, waiters, a, c, bound, guard: _BATCH(
        head, sorted(waiters, key=key), a, c, bound, guard
    )


def any_queues(rng: random.Random, count: int) -> list[Args]:
    """A head and waiters around the limits; few waiters first. Products are exact."""
    queues: list[Args] = []
    for _ in range(count):
        a, c = rng.choice(((100.0, 10_000.0), (0.5, 0.0), (172.625, 34_000.0)))
        guard = rng.choice((0.125, 0.25, 0.5))
        sizes = [8 * rng.randint(1, 60) for _ in range(rng.randint(2, 5))]
        reach = sum(sizes[: rng.randint(1, len(sizes))])
        bound = reach + rng.choice((-1, 0, 0, 1, 60, 60))
        slo_us = 8 * rng.randint(100, 900)
        spare_us = guard * slo_us + a * reach + c
        left_us = round(spare_us + rng.choice((-a, -1, 0, 0, a, 40 * a, 40 * a)))
        ids = rng.sample(range(10), len(sizes))
        head, *waiters = map(lambda id, tokens: _queued(rng, id, tokens, a, c), ids, sizes)
        head = replace(
            head, time_to_deadline_us=left_us, slo_us=slo_us,
            slack_us=round(left_us - a * head.tokens - c),
        )  # fmt: skip
        queues.append((head, waiters, a, c, bound, guard))
    return sorted(queues, key=lambda args: len(args[1]))


def _queued(rng: random.Random, id: int, tokens: int, a: float, c: float) -> SloView:
    slo_us, left_us = 8 * rng.randint(100, 900), rng.randint(200, 40_000)
    request = SloRequest(id, tokens, 0, left_us, slo_us, 0)
    return REFERENCE.view(request, 0, a, c)


_GUARD = (
    "All get done when the pass ends, the head too, and then it has to have at least `guard` times "
    "its SLO to spare."
)
_ONLY_THE_HEAD = (
    "It is the head, which runs in any case, that the others must not endanger: the time and the "
    "SLO that count are the head's."
)
_ORDER = "The waiters come most urgent first: keep this order, or a less urgent one overtakes."
_HEAD_COUNTS = "The head is in the pass too: its own tokens count towards its length."

_TOO_LATE = (
    "Look at the batch with the waiter in it *before* you take it along: this one went one too far."
)

BATCH: Comparison[Batch] = Comparison(
    reference=_BATCH,
    mistakes=(
        Mistake(
            "everyone",
            "With all of them in it the pass takes so long that the head, the most urgent of all, "
            "misses its deadline: look at the bound and at the guard.",
            _batching(lambda room: True),
        ),
        *alike(
            "no_guard",
            _GUARD,
            _batching(lambda room: room.is_bounded),
            _batching(lambda room: room.is_bounded and room.spare_us >= 0),
        ),
        Mistake(
            "no_bound",
            "The head could bear it, but the batch is above `bound` tokens: a request that comes "
            "next would find the engine busy for too long.",
            _batching(lambda room: room.is_guarded),
        ),
        Mistake(
            "bound_exclusive",
            "At most `bound` tokens means that exactly `bound` are allowed.",
            _batching(lambda room: room.tokens < room.bound and room.is_guarded),
        ),
        Mistake(
            "guard_exclusive",
            "At least `guard` times the SLO means that exactly as much is enough.",
            _batching(lambda room: room.is_bounded and room.spare_us > room.kept_us),
        ),
        *alike(
            "one_too_many",
            _TOO_LATE,
            _batching(
                lambda room: (
                    room.before <= room.bound
                    and room.spare_us + room.a * room.waiter.tokens >= room.kept_us
                )
            ),
            _batching(lambda room: room.before < room.bound and room.is_guarded),
        ),
        *alike(
            "guards_the_waiter",
            _ONLY_THE_HEAD,
            _batching(lambda room: room.is_bounded and room.waiter_bears_it),
            _batching(
                lambda room: room.is_bounded and room.spare_us >= room.guard * room.waiter.slo_us
            ),
        ),
        Mistake(
            "guards_everyone",
            _ONLY_THE_HEAD,
            _batching(lambda room: room.fits() and room.waiter_bears_it),
        ),
        Mistake(
            "guards_the_time_left",
            "The guard is a share of the head's SLO, which stays what it is, not of the time that "
            "happens to be left.",
            _batching(
                lambda room: (
                    room.is_bounded and room.spare_us >= room.guard * room.head.time_to_deadline_us
                )
            ),
        ),
        Mistake(
            "head_missing",
            "The head runs in this pass as well: its id comes first.",
            lambda head, waiters, a, c, bound, guard: _BATCH(head, waiters, a, c, bound, guard)[1:],
        ),
        Mistake(
            "refuses_the_head",
            "The head always runs, alone if it has to: too long or too late as it may be, one "
            "request has to be next.",
            _refuses_the_head,
        ),
        Mistake(
            "skips",
            "One did not fit and a later one was taken in its place: stop there, or long prompts "
            "are overtaken for ever.",
            _batching(skips=True),
        ),
        Mistake(
            "forgets_c",
            "Every pass costs c on top of its tokens, and the head has to bear that too.",
            _batching(lambda room: room.is_bounded and room.spare_us + room.c >= room.kept_us),
        ),
        Mistake(
            "c_for_each",
            "One pass costs c once, however many share it: that is what makes sharing worth while.",
            _batching(
                lambda room: (
                    room.is_bounded and room.spare_us - room.c * (room.count - 1) >= room.kept_us
                )
            ),
        ),
        *alike(
            "head_not_counted",
            _HEAD_COUNTS,
            _batching(starts_with=lambda head: 0),
            _batching(
                lambda room: room.tokens - room.head.tokens <= room.bound and room.is_guarded
            ),
            _batching(
                lambda room: (
                    room.is_bounded and room.spare_us + room.a * room.head.tokens >= room.kept_us
                )
            ),
        ),
        *alike(
            "head_counted_twice",
            "The head's slack has its own work taken off already, and here it was taken off twice: "
            "start from its time to the deadline.",
            _batching(
                lambda room: room.is_bounded and room.head.slack_us - room.work_us >= room.kept_us
            ),
            _batching(
                lambda room: (
                    room.is_bounded and room.head.slack_us - room.a * room.tokens >= room.kept_us
                )
            ),
        ),
        Mistake(
            "one_by_one",
            "They all share one pass: what counts is the tokens of all in it together, not of each "
            "waiter with the head.",
            _batching(
                lambda room: replace(room, tokens=room.head.tokens + room.waiter.tokens).fits()
            ),
        ),
        *alike(
            "reorders",
            _ORDER,
            _sorted_by(lambda each: each.tokens),
            _sorted_by(lambda each: each.id),
            _from_the_end,
        ),
        Mistake(
            "skips_the_doomed",
            "The doomed are not left out: a request that fits without endangering the head may "
            "come along, and is done sooner for it.",
            lambda head, waiters, a, c, bound, guard: _BATCH(
                head, [each for each in waiters if each.slack_us >= 0], a, c, bound, guard
            ),
        ),
        Mistake(
            "index",
            "These are places in the queue; the answer holds the requests' own ids.",
            _places,
        ),
        Mistake(
            "alone",
            "A request that fits without endangering the head comes along: each pass costs c, and "
            "sharing one saves the others theirs.",
            lambda head, waiters, a, c, bound, guard: [head.id],
        ),
    ),
    idea="The batch with the next waiter in it has two limits to keep, its tokens and what the "
    "head has to spare; at the first waiter that breaks one, it is complete.",
    form=list_of_ints,
    draw_call=_draw_batch,
    evidence=any_queues(random.Random(6), 30),
)

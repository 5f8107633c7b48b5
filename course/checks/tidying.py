"""Judging books after an aborted pass: field by field, with what the next step makes of a mistake.

Five things have to be undone and an answer may forget any of them, so the first field that is
wrong is the one to talk about, whatever the others look like.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from course.checks.comparing import Args, a_kind
from course.judging import Ask, Failure, Rows
from course.showing import show
from nanogpt.parts.plain_values import as_whole
from nanogpt.preemption.cleanup import Books, admission_problem, clean_up

Field = Literal["running", "waiting", "kv", "previous_step", "next_up"]
FIELDS: tuple[Field, ...] = ("running", "waiting", "kv", "previous_step", "next_up")


def books(
    waiting: Sequence[int],
    running: Sequence[int],
    *,
    kv: Sequence[int] | None = None,
    previous_step: Sequence[int] | None = None,
    next_up: int | None = None,
) -> Books:
    """Books in which all that run hold K/V and were scheduled, unless it is said otherwise."""
    return Books(
        tuple(waiting),
        tuple(running),
        frozenset(running if kv is None else kv),
        frozenset(running if previous_step is None else previous_step),
        next_up,
    )


def any_books(rng: random.Random, count: int) -> list[Args]:
    """Passes aborted in the middle of all kinds of service, the smallest first."""
    cases: list[Args] = []
    for _ in range(count):
        ids = rng.sample(range(10), rng.randint(2, 8))
        cut = rng.randint(1, len(ids) - 1)
        running, waiting = ids[:cut], ids[cut:]
        aborted = rng.sample(running, rng.randint(1, cut))
        others = [i for i in running if i not in aborted]
        cases.append(
            (
                books(
                    waiting,
                    running,
                    kv=[i for i in running if i in others or rng.random() < 0.8],
                    previous_step=[*aborted, *(i for i in others if rng.random() < 0.8)],
                    next_up=rng.choice([None, rng.choice(waiting)]),
                ),
                aborted,
                rng.choice([*waiting, rng.choice(waiting), rng.randrange(10, 13), None]),
            )
        )
    return sorted(cases, key=lambda case: len(case[0].waiting) + len(case[0].running))


# --- drawing ---------------------------------------------------------------------------------


def draw_books(value: Any) -> str:
    """The books in two lines, sets in order."""
    if _form(value) is not None:
        return show(value)
    kv, previous = sorted(value.kv), sorted(value.previous_step)
    return (
        f"waiting {show(value.waiting)}, running {show(value.running)}, next_up {value.next_up}\n"
        f"kv {_as_set(kv)}, previous_step {_as_set(previous)}"
    )


def _as_set(ids: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, ids)) + "}"


def draw_clean_up(name: str, args: Args) -> str:
    """The call, and under it the books that went in."""
    return f"{name}(books, aborted={args[1]}, waiter={args[2]})\n{draw_books(args[0])}"


def next_step(after: Books, args: Args) -> str | None:
    """What comes of wrong books in the next step, or later, when it is worth a word."""
    before, aborted, _ = args
    lost = [i for i in before.running if i not in after.running and i not in after.waiting]
    if lost:
        return f"neither running nor waiting, so it is never computed: {_requests(lost)}"
    twice = [i for i in after.waiting if i in after.running]
    if twice:
        return f"running and waiting, so it will be admitted once more: {_requests(twice)}"
    first = after.next_up if after.next_up is not None else next(iter(after.waiting), None)
    if first is not None and first not in after.waiting:
        return f"request {first} is to be admitted and does not wait: it is gone, or it runs"
    stale = [i for i in after.waiting if i in after.previous_step]
    problem = admission_problem(stale, after.previous_step)
    if problem:
        return f"{_requests(stale)} admitted in the next step, the engine stops: {problem}"
    leaked = sorted(after.kv.difference(after.running))
    if leaked:
        return f"K/V that is never used and never released: that of {_requests(leaked)}"
    if first in aborted and clean_up(*args).next_up is not None:
        return f"request {first} is admitted again, the one whose pass was aborted"
    return None


def _requests(ids: Sequence[int]) -> str:
    return f"request{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"


# --- mistakes --------------------------------------------------------------------------------

Undo = Callable[[Books, Sequence[int], "int | None"], Any]


@dataclass(frozen=True, slots=True)
class Slip:
    """A known wrong idea about one field, and what it makes one write there."""

    field: Field
    key: str
    idea: str
    answer: Undo


def _slips(field: Field, key: str, idea: str, *answers: Undo) -> tuple[Slip, ...]:
    """One wrong idea and the several things that it makes one write."""
    return tuple(Slip(field, key, idea, answer) for answer in answers)


def _back(books: Books, aborted: Sequence[int]) -> tuple[int, ...]:
    return tuple(i for i in books.running if i in aborted)


def _without(ids: Sequence[int], gone: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(i for i in ids if i not in gone)


_COLLATERAL = (
    "A pass is left as a whole: every request whose prefill was in it has lost this step, not "
    "only the first one named."
)
_LOST = (
    "What stops running has to wait again, or is never served: put the aborted ones into `waiting`."
)
_ORDER = (
    "They go back in the order they ran in, so that none overtakes another by being aborted: go "
    "through `running`."
)
_WAITER_KEEPS_ITS_PLACE = (
    "The waiter keeps its place in the queue: to be named in `next_up` is enough to be admitted "
    "first, and the engine admits from the queue."
)

SLIPS: tuple[Slip, ...] = (
    Slip(
        "running",
        "still_running",
        "The aborted ones do not run any more: left in `running`, they run and wait at once.",
        lambda books, aborted, waiter: books.running,
    ),
    Slip(
        "running",
        "collateral",
        _COLLATERAL,
        lambda books, aborted, waiter: _without(books.running, aborted[:1]),
    ),
    Slip(
        "running",
        "everybody_stops",
        "Decodes were in the pass too, but they lose nothing: only those in `aborted` stop "
        "running, the others go on with their K/V.",
        lambda books, aborted, waiter: (),
    ),
    Slip(
        "running",
        "admits_the_waiter",
        "Admitting is up to the next step, which looks at budgets and batch: here the waiter is "
        "only named in `next_up`.",
        lambda books, aborted, waiter: (
            *_without(books.running, aborted),
            *([waiter] if waiter in books.waiting else []),
        ),
    ),
    Slip("waiting", "lost", _LOST, lambda books, aborted, waiter: books.waiting),
    Slip(
        "waiting",
        "behind",
        "They had been admitted before all that wait, so they go back in front of them: at the end "
        "of the queue, an abort would cost them their place too.",
        lambda books, aborted, waiter: (*books.waiting, *_back(books, aborted)),
    ),
    *_slips(
        "waiting",
        "order",
        _ORDER,
        lambda books, aborted, waiter: (*reversed(_back(books, aborted)), *books.waiting),
        lambda books, aborted, waiter: (*aborted, *books.waiting),
        lambda books, aborted, waiter: (*reversed(aborted), *books.waiting),
        lambda books, aborted, waiter: (*sorted(aborted), *books.waiting),
    ),
    Slip(
        "waiting",
        "by_id",
        "An id says nothing about whose turn it is: leave the order of those that wait as it is.",
        lambda books, aborted, waiter: tuple(sorted([*aborted, *books.waiting])),
    ),
    Slip(
        "waiting",
        "collateral",
        _COLLATERAL,
        lambda books, aborted, waiter: (*aborted[:1], *books.waiting),
    ),
    *_slips(
        "waiting",
        "moves_the_waiter",
        _WAITER_KEEPS_ITS_PLACE,
        lambda books, aborted, waiter: (
            *([waiter] if waiter in books.waiting else []),
            *_back(books, aborted),
            *_without(books.waiting, [waiter]),
        ),
        lambda books, aborted, waiter: (
            *([] if waiter is None else [waiter]),
            *_back(books, aborted),
            *_without(books.waiting, [waiter]),
        ),
        lambda books, aborted, waiter: (
            *_back(books, aborted),
            *([waiter] if waiter in books.waiting else []),
            *_without(books.waiting, [waiter]),
        ),
    ),
    Slip(
        "waiting",
        "takes_the_waiter_out",
        _WAITER_KEEPS_ITS_PLACE,
        lambda books, aborted, waiter: (
            *_back(books, aborted),
            *_without(books.waiting, [waiter]),
        ),
    ),
    Slip(
        "kv",
        "leaks_kv",
        "They will compute everything again, so their K/V is of no use: kept, it fills "
        "the memory from one abort to the next.",
        lambda books, aborted, waiter: books.kv,
    ),
    Slip(
        "kv",
        "releases_all",
        "Those that go on running need their K/V: release only that of the aborted ones.",
        lambda books, aborted, waiter: frozenset[int](),
    ),
    Slip(
        "kv",
        "collateral",
        _COLLATERAL,
        lambda books, aborted, waiter: books.kv.difference(aborted[:1]),
    ),
    Slip(
        "previous_step",
        "keeps_previous_step",
        "Scheduling has noted the victims before the pass was aborted: take them out of "
        "`previous_step`, or the engine takes their return for an error.",
        lambda books, aborted, waiter: books.previous_step,
    ),
    Slip(
        "previous_step",
        "forgets_previous_step",
        "What goes on running was scheduled in the last step and stays in its notes: only the "
        "aborted ones come out of `previous_step`.",
        lambda books, aborted, waiter: frozenset[int](),
    ),
    Slip(
        "previous_step",
        "collateral",
        _COLLATERAL,
        lambda books, aborted, waiter: books.previous_step.difference(aborted[:1]),
    ),
    *_slips(
        "next_up",
        "forgets_the_waiter",
        "The aborted ones wait in front, so the next step would admit them again: name the waiter "
        "in `next_up`, since all this was done for it.",
        lambda books, aborted, waiter: books.next_up,
        lambda books, aborted, waiter: None,
    ),
    Slip(
        "next_up",
        "waiter_is_gone",
        "The waiter may have gone while its pass was aborted: name it only if it still waits, or "
        "the next step admits none.",
        lambda books, aborted, waiter: waiter,
    ),
    *_slips(
        "next_up",
        "older_choice",
        "What was chosen before this pass does not matter any more: without a waiter that waits, "
        "`next_up` is None.",
        lambda books, aborted, waiter: waiter if waiter in books.waiting else books.next_up,
        lambda books, aborted, waiter: waiter if waiter is not None else books.next_up,
    ),
    Slip(
        "next_up",
        "somebody_else",
        "No other request was asked to go first: without a waiter that waits, `next_up` is "
        "None, and the queue has its own order.",
        lambda books, aborted, waiter: (
            waiter if waiter in books.waiting else (*_back(books, aborted), *books.waiting)[0]
        ),
    ),
)


# --- judging ---------------------------------------------------------------------------------

_IDEAS: dict[Field, str] = {
    "running": "Go through `running`: which requests were in the pass, and which go on as before?",
    "waiting": "Go through `waiting`: which requests wait now, and in which order?",
    "kv": "Go through `kv`: of which requests is the K/V released, and which need theirs?",
    "previous_step": "`previous_step` is what the engine asks when it admits: for which requests "
    "was there no such step?",
    "next_up": "`next_up` is for the request that the pass was aborted for, as long as it waits.",
}


def judge_books(ask: Ask, cases: Sequence[Args]) -> Failure | None:
    """Ask about each case; the first wrong field of the first wrong result becomes the failure."""
    results: list[tuple[Args, Any]] = []
    for args in cases:
        results.append((args, ask(*args)))
        if _form(results[-1][1]) or _wrong_field(*results[-1]):
            return _failure(ask.name, [results[-1], *_more(ask), *results[:-1]])
    return None


def _more(ask: Ask) -> list[tuple[Args, Any]]:
    """More results tell more about the mistake; an answer that breaks off has said enough."""
    results: list[tuple[Args, Any]] = []
    try:
        for args in any_books(random.Random(0), 20):
            results.append((args, ask(*args)))
    except Exception:
        return results
    return results


def _wrong_field(args: Args, got: Any) -> Field | None:
    expected = clean_up(*args)
    for name in FIELDS:
        if getattr(got, name) != getattr(expected, name):
            return name
    return None


def _failure(name: str, results: Sequence[tuple[Args, Any]]) -> Failure:
    """Explain the first result in the light of the others."""
    args, got = results[0]
    rows: Rows = (
        ("input", draw_clean_up(name, args)),
        ("expected", draw_books(clean_up(*args))),
        ("got", draw_books(got)),
    )
    if got is None:
        return Failure(f"{name} returned nothing: end it with `return`.", rows, "no_return")
    problem, wrong = _form(got), None
    if problem is None:
        wrong = _wrong_field(args, got)
    if problem is not None or wrong is None:
        key, idea = problem or ("", "")
        return Failure(idea, rows, key)
    then = next_step(got, args)
    rows = (*rows, ("then", then)) if then else rows
    for slip in SLIPS:
        if slip.field == wrong and all(_explains(slip, *result) for result in results):
            return Failure(slip.idea, rows, slip.key)
    return Failure(_IDEAS[wrong], rows)


def _explains(slip: Slip, args: Args, got: Any) -> bool:
    return isinstance(got, Books) and getattr(got, slip.field) == slip.answer(*args)


def _form(value: Any) -> tuple[str, str] | None:
    if not isinstance(value, Books):
        return (
            "not_books",
            f"The answer is new books, not {a_kind(value)}: make them with `replace(books, ...)`.",
        )
    for name, kinds in _KINDS:
        found = getattr(value, name)
        if type(found) not in kinds and (name != "next_up" or as_whole(found) is None):
            wanted = " or ".join(_WORDS[kind] for kind in kinds)
            return "wrong_type", f"`{name}` is {a_kind(found)}; in the books it is {wanted}."
        if isinstance(found, tuple | frozenset):
            for item in cast("Iterable[Any]", found):
                if as_whole(item) is None:
                    return "wrong_type", f"`{name}` holds ids, and {a_kind(item)} is none."
    return None


_KINDS: tuple[tuple[Field, tuple[type, ...]], ...] = (
    ("running", (tuple,)),
    ("waiting", (tuple,)),
    ("kv", (frozenset,)),
    ("previous_step", (frozenset,)),
    ("next_up", (int, type(None))),
)
_WORDS: dict[type, str] = {
    tuple: "a tuple",
    frozenset: "a frozenset",
    int: "an id",
    type(None): "None",
}

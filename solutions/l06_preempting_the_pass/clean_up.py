"""Exercise 6.3: the books once an aborted pass is undone."""

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import replace

from course.checks.comparing import Args, Result, those_of
from course.exercise import Exercise
from course.harness import Ask, Check, Failure, Rows, returned_nothing
from course.task import Task
from nanogpt.preemption.scheduler_books import Books
from solutions.l06_preempting_the_pass._books import (
    FIELDS,
    any_books,
    draw_books,
    make_books,
    misfit,
    next_step,
)
from solutions.l06_preempting_the_pass._wrong_books import MISCONCEPTIONS, NOT_BOOKS, WRONG_TYPE

# --- right answers ------------------------------------------------------------------------------


def clean_up(books: "Books", aborted: list[int], waiter: int | None) -> "Books":
    """Return the books as they should be once an aborted pass is undone."""
    # This comes after scheduling: the victims are in the notes of a step that never was. What
    # leaves out one of these lines finds out in the next step, or when the memory is full.
    back = tuple(i for i in books.running if i in aborted)
    return replace(
        books,
        waiting=back + books.waiting,
        running=tuple(i for i in books.running if i not in aborted),
        kv=books.kv.difference(aborted),
        previous_step=books.previous_step.difference(aborted),
        next_up=waiter if waiter in books.waiting else None,
    )


def by_loop(books: Books, aborted: list[int], waiter: int | None) -> Books:
    back: list[int] = []
    running: list[int] = []
    for request in books.running:
        if request in aborted:
            back.append(request)
        else:
            running.append(request)
    next_up = None
    for request in books.waiting:
        if request == waiter:
            next_up = request
    kv = {request for request in books.kv if request not in aborted}
    previous_step = {request for request in books.previous_step if request not in aborted}
    waiting = (*back, *books.waiting)
    return Books(waiting, tuple(running), frozenset(kv), frozenset(previous_step), next_up)


def with_sets(books: Books, aborted: list[int], waiter: int | None) -> Books:
    gone = frozenset(aborted)
    back = sorted(gone, key=books.running.index)
    return Books(
        waiting=(*back, *books.waiting),
        running=tuple(filter(lambda i: i not in gone, books.running)),
        kv=books.kv - gone,
        previous_step=books.previous_step - gone,
        next_up=waiter if waiter in set(books.waiting) else None,
    )


def one_by_one(books: Books, aborted: list[int], waiter: int | None) -> Books:
    next_up = next((i for i in books.waiting if i == waiter), None)
    for i in reversed(books.running):
        if i in aborted:
            books = replace(
                books,
                waiting=(i, *books.waiting),
                running=tuple(j for j in books.running if j != i),
                kv=books.kv - {i},
                previous_step=books.previous_step - {i},
            )
    return replace(books, next_up=next_up)


def field_by_field(books: Books, aborted: list[int], waiter: int | None) -> Books:
    fields = dataclasses.asdict(books)
    fields["next_up"] = None
    if waiter in fields["waiting"]:
        fields["next_up"] = waiter
    for name in ("running", "kv", "previous_step"):
        kind = type(fields[name])
        fields[name] = kind(i for i in fields[name] if i not in aborted)
    fields["waiting"] = tuple(i for i in books.running if i in aborted) + fields["waiting"]
    return type(books)(**fields)


# --- judging ------------------------------------------------------------------------------------

IDEAS = {
    "running": "Go through `running`: which requests were in the pass, and which go on as before?",
    "waiting": "Go through `waiting`: which requests wait now, and in which order?",
    "kv": "Go through `kv`: of which requests is the K/V released, and which need theirs?",
    "previous_step": "`previous_step` is what the engine asks when it admits: for which requests "
    "was there no such step?",
    "next_up": "`next_up` is for the request that the pass was aborted for, as long as it waits.",
}


def draw_call(name: str, args: Args) -> str:
    books, aborted, waiter = args
    return f"{name}(books, aborted={aborted}, waiter={waiter})\n{draw_books(books)}"


def judge(ask: Ask, cases: Sequence[Args]) -> Failure | None:
    """Ask about each case; of the first wrong result, the first wrong field is talked about.

    Five things have to be undone, and an answer may forget any of them.
    """
    results: list[Result] = []
    for args in cases:
        got = ask(*args)
        rows: Rows = (
            ("input", draw_call(ask.name, args)),
            ("expected", draw_books(clean_up(*args))),
            ("got", draw_books(got)),
        )
        if got is None:
            return Failure(returned_nothing(ask.name), rows, "no_return")
        if not isinstance(got, Books):
            return NOT_BOOKS.failure(rows, got)
        if misfit(got):
            return WRONG_TYPE.failure(rows, got)
        results.insert(0, (args, got))
        field = wrong_field(args, got)
        if field:
            then = next_step(got, args)
            rows += (("then", then),) if then else ()
            more = those_of(ask, any_books(random.Random(0), 20))
            return wrong_books(field, rows, results + more)
    return None


def wrong_field(args: Args, got: Books) -> str | None:
    wanted = clean_up(*args)
    return next((name for name in FIELDS if getattr(got, name) != getattr(wanted, name)), None)


def wrong_books(field: str, rows: Rows, results: Sequence[Result]) -> Failure:
    """What is wrong with this field, in the light of all results."""
    for idea in MISCONCEPTIONS:
        for answer in idea.answers:
            if all(
                isinstance(got, Books) and getattr(got, field) == getattr(answer(*args), field)
                for args, got in results
            ):
                return idea.failure(rows)
    return Failure(IDEAS[field], rows)


# --- cases --------------------------------------------------------------------------------------


def on(*cases: Args) -> Check:
    """The check that asks about these cases."""
    return lambda ask, rng: judge(ask, cases)


ONE, WAITING, RUNNING = make_books([2], [1]), make_books([5, 3], [4, 1]), [6, 2, 8, 4]
ANY_ORDER = "`aborted` is asked only whether it holds an id"

EXERCISE = Exercise(
    number=3,
    title="A step that never was",
    minutes=8,
    points=3,
    task=Task(
        signature="clean_up(books: Books, aborted: list[int], waiter: int | None) -> Books",
        rules=(
            "`books` says where each request is, by id: the tuples `waiting` and `running`, in "
            "order; the frozensets `kv`, which hold K/V, and `previous_step`, which the newest "
            "step was scheduled with; and `next_up`, which is admitted before all others, or "
            "`None`.",
            "Books are frozen. `replace(books, waiting=..., running=...)` makes new ones.",
            "`aborted` are the ids, in any order, of the requests whose prefill was in the pass. "
            "They stop running, their K/V is released, and they wait again, in front of those that "
            "wait and in the order they ran in.",
            "The step they were scheduled with never was, and the engine admits none that it finds "
            "in `previous_step`. Every other request keeps what it has.",
            "`waiter` is the id of the request that the pass was aborted for, or `None`. If it "
            "still waits, it keeps its place in the queue and is named in `next_up`; otherwise "
            "none is.",
        ),
        args=(make_books([3], [1, 2]), [2], 3),
        result=make_books([2, 3], [1], next_up=3),
    ),
    hints=(
        "Go through the five fields: where is an aborted request named, and where should it be? "
        "Which ids must stay where they are?",
        "Filter `running` twice: those in `aborted` go in front of `waiting`, the others stay. "
        "Take the aborted ones out of both sets. Then the waiter, if it is in `waiting`.",
        "Two tuples from one walk through `books.running`, since `aborted` has an order of its "
        "own; `books.kv.difference(ids)` is a set without those ids; and one `replace` with all "
        "five fields at the end.",
    ),
    right=(clean_up, by_loop, with_sets, one_by_one, field_by_field),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("one prefill", on((ONE, [1], 2))),
        (
            "beside others",
            on((WAITING, [1], 3), (WAITING, [4], 5), (replace(WAITING, next_up=5), [1], 3)),
        ),
        (
            "several at once",
            on(
                (make_books([3, 1], RUNNING), [2, 8], 3),
                (make_books([3, 1], RUNNING), [8, 2], 1),
                (make_books([3, 1], RUNNING, kv=[6, 8], previous_step=[6, 2, 8]), [8, 6, 2], 1),
            ),
        ),
        (
            "none to admit",
            on(
                (ONE, [1], 9),
                (ONE, [1], None),
                (make_books([], [1, 4]), [4], 9),
                (make_books([2, 3], [1], next_up=3), [1], 9),
                (make_books([2, 3], [1], next_up=3), [1], None),
                (make_books([2], [1, 5], next_up=2), [1], 5),
            ),
        ),
        ("any aborted pass", lambda ask, rng: judge(ask, any_books(rng, 40))),
    ),
    draw_call=draw_call,
    still_right={
        "aborted: reversed": ANY_ORDER,
        "aborted: sorted": ANY_ORDER,
        "aborted: without repeats": ANY_ORDER,
    },
)

"""What is thought wrongly of the books after an aborted pass."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeAlias

from course.checks.comparing import a_kind
from course.exercise import Misconception
from nanogpt.preemption.cleanup import clean_up
from nanogpt.preemption.scheduler_books import Books
from solutions.l06_preempting_the_pass._books import misfit

Field: TypeAlias = Callable[[Books, list[int], int | None], Any]


def but_for(**fields: Field) -> Callable[..., Any]:
    """Right but for the fields that are given."""

    def answer(books: Books, aborted: list[int], waiter: int | None) -> Any:
        wrong = {name: field(books, aborted, waiter) for name, field in fields.items()}
        return replace(clean_up(books, aborted, waiter), **wrong)

    return answer


def back(books: Books, aborted: Sequence[int]) -> tuple[int, ...]:
    return tuple(i for i in books.running if i in aborted)


def others(books: Books, waiter: int | None) -> tuple[int, ...]:
    return tuple(i for i in books.waiting if i != waiter)


def if_it_waits(books: Books, waiter: int | None) -> tuple[int, ...]:
    return tuple(i for i in books.waiting if i == waiter)


KEEPS_ITS_PLACE = (
    "The waiter keeps its place in the queue: to be named in `next_up` is enough to be admitted "
    "first, and the engine admits from the queue."
)
NOT_BOOKS = Misconception(
    "not_books",
    "Fields by their names are enough.",
    lambda value: (
        f"The answer is new books, not {a_kind(value)}: make them with `replace(books, ...)`."
    ),
    also=(lambda *args: asdict(clean_up(*args)),),
)
WRONG_TYPE = Misconception(
    "wrong_type",
    "Ids may be text.",
    misfit,
    also=(
        (
            lambda *args: replace(
                clean_up(*args), waiting=" ".join(map(str, clean_up(*args).waiting))
            )
        ),
    ),
)
MISCONCEPTIONS = (
    Misconception("no_return", "The books are changed.", also=(lambda *args: None,)),
    NOT_BOOKS,
    WRONG_TYPE,
    Misconception(
        "still_running",
        "They are only interrupted.",
        "The aborted ones do not run any more: left in `running`, they run and wait at once.",
        but_for(running=lambda books, aborted, waiter: books.running),
    ),
    Misconception(
        "collateral",
        "There is one victim.",
        "A pass is left as a whole: every request whose prefill was in it has lost this step, not "
        "only the first one named.",
        lambda books, aborted, waiter: clean_up(books, aborted[:1], waiter),
        alike=(
            but_for(waiting=lambda books, aborted, waiter: (aborted[0], *books.waiting)),
            but_for(kv=lambda books, aborted, waiter: books.kv - {aborted[0]}),
            but_for(
                previous_step=lambda books, aborted, waiter: books.previous_step - {aborted[0]}
            ),
        ),
    ),
    Misconception(
        "everybody_stops",
        "The pass is left, so none runs.",
        "Decodes were in the pass too, but they lose nothing: only those in `aborted` stop "
        "running, the others go on with their K/V.",
        but_for(running=lambda books, aborted, waiter: ()),
    ),
    Misconception(
        "admits_the_waiter",
        "All this was done to let it run.",
        "Admitting is up to the next step, which looks at budgets and batch: here the waiter is "
        "only named in `next_up`.",
        but_for(
            running=lambda books, aborted, waiter: (
                *clean_up(books, aborted, waiter).running,
                *if_it_waits(books, waiter),
            )
        ),
    ),
    Misconception(
        "lost",
        "They are out.",
        "What stops running has to wait again, or is never served: put the aborted ones into "
        "`waiting`.",
        but_for(waiting=lambda books, aborted, waiter: books.waiting),
    ),
    Misconception(
        "behind",
        "What comes back queues at the end.",
        "They had been admitted before all that wait, so they go back in front of them: at the end "
        "of the queue, an abort would cost them their place too.",
        but_for(waiting=lambda books, aborted, waiter: books.waiting + back(books, aborted)),
    ),
    Misconception(
        "order",
        "Each one goes to the front.",
        "They go back in the order they ran in, so that none overtakes another by being aborted: "
        "go through `running`.",
        but_for(waiting=lambda books, aborted, waiter: back(books, aborted)[::-1] + books.waiting),
        alike=(
            but_for(waiting=lambda books, aborted, waiter: (*aborted, *books.waiting)),
            but_for(waiting=lambda books, aborted, waiter: (*aborted[::-1], *books.waiting)),
            but_for(waiting=lambda books, aborted, waiter: (*sorted(aborted), *books.waiting)),
        ),
    ),
    Misconception(
        "by_id",
        "The queue is in the order of arrival, which is that of the ids.",
        "An id says nothing about whose turn it is: leave the order of those that wait as it is.",
        but_for(waiting=lambda books, aborted, waiter: tuple(sorted([*aborted, *books.waiting]))),
    ),
    Misconception(
        "moves_the_waiter",
        "What is next stands first.",
        KEEPS_ITS_PLACE,
        but_for(
            waiting=lambda books, aborted, waiter: (
                if_it_waits(books, waiter) + back(books, aborted) + others(books, waiter)
            )
        ),
        alike=(
            but_for(
                waiting=lambda books, aborted, waiter: (
                    *([] if waiter is None else [waiter]),
                    *back(books, aborted),
                    *others(books, waiter),
                )
            ),
            but_for(
                waiting=lambda books, aborted, waiter: (
                    back(books, aborted) + if_it_waits(books, waiter) + others(books, waiter)
                )
            ),
        ),
    ),
    Misconception(
        "takes_the_waiter_out",
        "What is next up does not wait.",
        KEEPS_ITS_PLACE,
        but_for(
            waiting=lambda books, aborted, waiter: back(books, aborted) + others(books, waiter)
        ),
    ),
    Misconception(
        "leaks_kv",
        "What has been computed is kept.",
        "They will compute everything again, so their K/V is of no use: kept, it fills the memory "
        "from one abort to the next.",
        but_for(kv=lambda books, aborted, waiter: books.kv),
    ),
    Misconception(
        "releases_all",
        "The pass is gone, and its K/V with it.",
        "Those that go on running need their K/V: release only that of the aborted ones.",
        but_for(kv=lambda books, aborted, waiter: frozenset[int]()),
    ),
    Misconception(
        "keeps_previous_step",
        "It is a preemption like the one in scheduling, which needs no more than that.",
        "Scheduling has noted the victims before the pass was aborted: take them out of "
        "`previous_step`, or the engine takes their return for an error.",
        but_for(previous_step=lambda books, aborted, waiter: books.previous_step),
    ),
    Misconception(
        "forgets_previous_step",
        "The step never was, so none was in it.",
        "What goes on running was scheduled in the last step and stays in its notes: only the "
        "aborted ones come out of `previous_step`.",
        but_for(previous_step=lambda books, aborted, waiter: frozenset[int]()),
    ),
    Misconception(
        "forgets_the_waiter",
        "What is urgent is first anyway.",
        "The aborted ones wait in front, so the next step would admit them again: name the waiter "
        "in `next_up`, since all this was done for it.",
        but_for(next_up=lambda books, aborted, waiter: books.next_up),
        alike=(but_for(next_up=lambda books, aborted, waiter: None),),
    ),
    Misconception(
        "waiter_is_gone",
        "The waiter waits.",
        "The waiter may have gone while its pass was aborted: name it only if it still waits, or "
        "the next step admits none.",
        but_for(next_up=lambda books, aborted, waiter: waiter),
    ),
    Misconception(
        "older_choice",
        "Without a waiter the last choice stands.",
        "What was chosen before this pass does not matter any more: without a waiter that waits, "
        "`next_up` is None.",
        but_for(
            next_up=lambda books, aborted, waiter: (
                waiter if waiter in books.waiting else books.next_up
            )
        ),
        alike=(
            but_for(
                next_up=lambda books, aborted, waiter: books.next_up if waiter is None else waiter
            ),
        ),
    ),
    Misconception(
        "somebody_else",
        "One of them has to be next.",
        "No other request was asked to go first: without a waiter that waits, `next_up` is None, "
        "and the queue has its own order.",
        but_for(
            next_up=lambda books, aborted, waiter: (
                waiter if waiter in books.waiting else back(books, aborted)[0]
            )
        ),
    ),
)

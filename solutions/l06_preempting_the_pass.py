"""Lesson 6, preempting the pass: worked answers, other right ones, known wrong ones."""

import dataclasses
import functools
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from nanogpt.preemption.cleanup import Books
from solutions.wrong import WrongAnswer

# --- local_vote ------------------------------------------------------------------------------


def local_vote(target: int, step: int, layer: int, num_layers: int) -> int:
    """Return this rank's vote at one attention op: 1 to leave the pass, 0 to go on.

    `target` is what the rank has just read in shared memory: the number of the step that the
    monitor wants preempted, -1 if it has never wanted any. Nobody takes it back, so it may be that
    of another step. `step` is the number of the step that runs here and now.
    `layer` of the `num_layers` layers are done: the rank stands at the attention op of the next
    one, and the first has number 0. A pass with more than 90 % of its layers done is let finish.
    """
    # The number says which step is meant, so what was written for another one, however late it is
    # read, does nothing. In whole numbers the 90 % have a sharp edge.
    if target == step and 10 * layer <= 9 * num_layers:
        return 1
    return 0


def local_vote_by_share(target: int, step: int, layer: int, num_layers: int) -> int:
    is_protected = layer / num_layers > 0.9
    return 0 if target != step or is_protected else 1


def local_vote_by_what_is_left(target: int, step: int, layer: int, num_layers: int) -> int:
    if target != step:
        return 0
    left = num_layers - layer
    return int(left * 10 >= num_layers)


def local_vote_with_fractions(target: int, step: int, layer: int, num_layers: int) -> int:
    done = Fraction(layer, num_layers)
    return int(done <= Fraction(9, 10)) if target == step else 0


def local_vote_as_a_product(target: int, step: int, layer: int, num_layers: int) -> int:
    return (target == step) * (layer <= 0.9 * num_layers)


# --- checkpoint ------------------------------------------------------------------------------


def checkpoint(vote: int) -> Generator[tuple, int, None]:
    """Yield what one rank does at one attention op, move by move; `vote` is what it wants, 0 or 1.

    `yield ("max", vote)` takes part in the collective: the rank waits there until every rank has
    come with its vote, and then `yield` returns the largest of them, the same to all.
    `yield ("leave",)` leaves the pass. A rank that ends without it goes on to the next collective,
    the sum of the attention output, and waits there for every rank too.
    All ranks run this function at the same time, and the others' votes may be different. If any of
    them wants to leave, all leave; if none does, none leaves; and nobody waits for ever.
    """
    # Everybody comes to the collective, whatever the own vote is; after it, the own vote does not
    # matter any more. The same answer on every rank makes the same decision on every rank.
    agreed = yield ("max", vote)
    if agreed:
        yield ("leave",)


def checkpoint_in_one(vote: int) -> Generator[tuple, int, None]:
    if (yield ("max", vote)):
        yield ("leave",)


def checkpoint_with_a_way_out(vote: int) -> Generator[tuple, int, None]:
    largest = yield "max", vote
    if largest == 0:
        return
    yield ("leave",)


def checkpoint_by_another_generator(vote: int) -> Generator[tuple, int, None]:
    def ask() -> Generator[tuple, int, bool]:
        answer = yield ("max", vote)
        return answer == 1

    if (yield from ask()):
        yield ("leave",)


def checkpoint_from_a_list(vote: int) -> Generator[tuple, int, None]:
    agreed = yield ("max", vote)
    yield from [("leave",)] * agreed


# --- clean_up --------------------------------------------------------------------------------


def clean_up(books: "Books", aborted: list[int], waiter: int | None) -> "Books":
    """Return the books as they should be once an aborted pass is undone.

    `books` says who is where, by request id: the tuples `waiting` and `running`, in order; the
    frozensets `kv`, who holds K/V, and `previous_step`, whom the newest step was scheduled with;
    and `next_up`, who is admitted before all others (None: nobody). They are frozen: make new ones
    with `replace(books, waiting=..., running=...)`.
    `aborted` are the ids of the requests whose prefill was in the pass. They stop running, their
    K/V is released, and they wait again, in front of those who wait and in the order they ran in.
    The step they were scheduled with never was, and nobody may be admitted who is in
    `previous_step`. Everybody else keeps what they have, and goes on.
    `waiter` is the id of the one the pass was aborted for (None: unknown). If it still waits, it
    keeps its place in the queue and is named in `next_up`; otherwise nobody is.
    """
    # This comes after scheduling: the victims are in the notes of a step that never was. Whoever
    # forgets one of these lines finds out in the next step, or when the memory is full.
    back = tuple(i for i in books.running if i in aborted)
    return replace(
        books,
        waiting=back + books.waiting,
        running=tuple(i for i in books.running if i not in aborted),
        kv=books.kv.difference(aborted),
        previous_step=books.previous_step.difference(aborted),
        next_up=waiter if waiter in books.waiting else None,
    )


def clean_up_by_loop(books: Books, aborted: list[int], waiter: int | None) -> Books:
    back, running = [], []
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


def clean_up_with_sets(books: Books, aborted: list[int], waiter: int | None) -> Books:
    gone = frozenset(aborted)
    back = sorted(gone, key=books.running.index)
    return Books(
        waiting=(*back, *books.waiting),
        running=tuple(filter(lambda i: i not in gone, books.running)),
        kv=books.kv - gone,
        previous_step=books.previous_step - gone,
        next_up=waiter if waiter in set(books.waiting) else None,
    )


def clean_up_one_by_one(books: Books, aborted: list[int], waiter: int | None) -> Books:
    next_up = {i: i for i in books.waiting}.get(waiter)
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


def clean_up_field_by_field(books: Books, aborted: list[int], waiter: int | None) -> Books:
    fields = dataclasses.asdict(books)
    fields["next_up"] = None
    if waiter in fields["waiting"]:
        fields["next_up"] = waiter
    for name in ("running", "kv", "previous_step"):
        kind = type(fields[name])
        fields[name] = kind(i for i in fields[name] if i not in aborted)
    fields["waiting"] = tuple(i for i in books.running if i in aborted) + fields["waiting"]
    return type(books)(**fields)


# --- resume_or_abort -------------------------------------------------------------------------


def resume_or_abort(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    """Return what becomes of a suspended pass now: "sleep", "resume" or "abort".

    It has slept for `suspended_us`, and the whole pass takes `pass_us` to compute. `urgent_waits`:
    whether somebody urgent is still without a first token. `memory_is_short`: whether there is no
    room for them as long as the pass holds its K/V.
    "resume": it computes on. So it does when nobody urgent waits any more; and, whoever waits, once
    it has slept `bound` times as long as the whole pass takes, since others may always come.
    "abort": its K/V is released and its work is lost. That makes room for somebody urgent, if room
    is short.
    "sleep": until the question is asked again.
    """
    # The bound comes first: without it, one urgent request after the other lets the pass sleep for
    # ever, or throws it away for ever. In proportion to the pass, a short one waits a short time.
    if not urgent_waits or suspended_us >= bound * pass_us:
        return "resume"
    return "abort" if memory_is_short else "sleep"


def resume_or_abort_by_words(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    may_sleep = urgent_waits and suspended_us < bound * pass_us
    if may_sleep and memory_is_short:
        return "abort"
    if may_sleep:
        return "sleep"
    return "resume"


def resume_or_abort_by_what_is_left(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    left_us = bound * pass_us - suspended_us
    if left_us > 0 and urgent_waits:
        return ("sleep", "abort")[memory_is_short]
    return "resume"


def resume_or_abort_by_passes(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    passes_slept = suspended_us / pass_us
    match (urgent_waits and passes_slept < bound, memory_is_short):
        case (False, _):
            return "resume"
        case (True, True):
            return "abort"
        case _:
            return "sleep"


def resume_or_abort_from_a_table(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    is_over = suspended_us >= bound * pass_us
    ways = {(True, False, False): "sleep", (True, False, True): "abort"}
    return ways.get((urgent_waits, is_over, memory_is_short), "resume")


# --- wrong answers that need more than a line ------------------------------------------------


def _voting(
    meant: Callable[[int, int], Any] = lambda target, step: target == step,
    early: Callable[[int, int], Any] = lambda layer, num_layers: layer <= 0.9 * num_layers,
) -> Callable[[int, int, int, int], int]:
    """Right but for the condition that is given."""
    return lambda target, step, layer, num_layers: int(
        bool(meant(target, step) and early(layer, num_layers))
    )


def _votes_with_its_step(target: int, step: int, layer: int, num_layers: int) -> int:
    return step if local_vote(target, step, layer, num_layers) else 0


def _votes_in_words(target: int, step: int, layer: int, num_layers: int) -> Any:
    return "leave" if local_vote(target, step, layer, num_layers) else "stay"


Moves = Generator[Any, int, Any]


def _leaves_alone(vote: int) -> Moves:
    if vote:
        yield ("leave",)


def _leaves_first(vote: int) -> Moves:
    if vote:
        yield ("leave",)
    agreed = yield ("max", 0)
    if agreed:
        yield ("leave",)


def _leaves_or_asks(vote: int) -> Moves:
    if vote or (yield ("max", vote)):
        yield ("leave",)


def _only_voters_join(vote: int) -> Moves:
    if vote == 0:
        return
    if (yield ("max", vote)):
        yield ("leave",)


def _by_the_own_vote(vote: int) -> Moves:
    yield ("max", vote)
    if vote:
        yield ("leave",)


def _by_both(vote: int) -> Moves:
    agreed = yield ("max", vote)
    if agreed and vote:
        yield ("leave",)


def _leaves_always(vote: int) -> Moves:
    yield ("max", vote)
    yield ("leave",)


def _leaves_for_any_answer(vote: int) -> Moves:
    agreed = yield ("max", vote)
    if agreed is not None:
        yield ("leave",)


def _returns_the_answer(vote: int) -> Moves:
    agreed = yield ("max", vote)
    return agreed


def _returns_the_leave(vote: int) -> Moves:
    if (yield ("max", vote)):
        return ("leave",)


def _leaves_on_zero(vote: int) -> Moves:
    if (yield ("max", vote)) == 0:
        yield ("leave",)


def _all_must_want_it(vote: int) -> Moves:
    somebody_wants_to_stay = yield ("max", 1 - vote)
    if not somebody_wants_to_stay:
        yield ("leave",)


def _votes_to_stay(vote: int) -> Moves:
    if (yield ("max", 1 - vote)):
        yield ("leave",)


def _brings_nothing(vote: int) -> Moves:
    if (yield ("max", 0)):
        yield ("leave",)


def _brings_nothing_and_leaves(vote: int) -> Moves:
    agreed = yield ("max", 0)
    if agreed or vote:
        yield ("leave",)


def _brings_one(vote: int) -> Moves:
    if (yield ("max", 1)):
        yield ("leave",)


def _makes_sure(vote: int) -> Moves:
    agreed = yield ("max", vote)
    agreed = yield ("max", agreed)
    if agreed:
        yield ("leave",)


def _asks_before_it_leaves(vote: int) -> Moves:
    while (yield ("max", vote)):
        if (yield ("max", vote)):
            yield ("leave",)


def _until_nobody_wants_to(vote: int) -> Moves:
    while (yield ("max", vote)):
        pass


def _until_somebody_wants_to(vote: int) -> Moves:
    while not (yield ("max", vote)):
        pass
    yield ("leave",)


def _no_comma(vote: int) -> Moves:
    if (yield ("max", vote)):
        yield ("leave")


def _yields_the_vote(vote: int) -> Moves:
    if (yield vote):
        yield ("leave",)


def _forgets_to_say_what(vote: int) -> Moves:
    if (yield ("max",)):
        yield ("leave",)


def _votes_true(vote: int) -> Moves:
    if (yield ("max", vote == 1)):
        yield ("leave",)


def _undoing(**fields: Callable[[Books, Sequence[int], "int | None"], Any]) -> Callable[..., Any]:
    """Right but for the fields that are given."""

    def answer(books: Books, aborted: list[int], waiter: int | None) -> Any:
        wrong = {name: field(books, aborted, waiter) for name, field in fields.items()}
        return replace(clean_up(books, aborted, waiter), **wrong)

    return answer


def _back(books: Books, aborted: Sequence[int]) -> tuple[int, ...]:
    return tuple(i for i in books.running if i in aborted)


def _others(books: Books, waiter: int | None) -> tuple[int, ...]:
    return tuple(i for i in books.waiting if i != waiter)


def _first_only(books: Books, aborted: list[int], waiter: int | None) -> Books:
    return clean_up(books, aborted[:1], waiter)


def _into_the_running(books: Books, aborted: list[int], waiter: int | None) -> Books:
    after = clean_up(books, aborted, waiter)
    if waiter not in after.waiting:
        return after
    return replace(after, running=(*after.running, waiter), waiting=_others(after, waiter))


def _like_a_preemption_in_scheduling(books: Books, aborted: list[int], waiter: int | None) -> Books:
    return replace(
        books,
        waiting=_back(books, aborted) + books.waiting,
        running=tuple(i for i in books.running if i not in aborted),
        kv=books.kv.difference(aborted),
        next_up=waiter if waiter in books.waiting else None,
    )


def _as_text(books: Books, aborted: list[int], waiter: int | None) -> Any:
    after = clean_up(books, aborted, waiter)
    return replace(after, waiting=" ".join(map(str, after.waiting)))


def _as_a_dict(books: Books, aborted: list[int], waiter: int | None) -> Any:
    return dataclasses.asdict(clean_up(books, aborted, waiter))


def _deciding(
    enough: Callable[[int, int, float], bool] = lambda slept, whole, bound: slept >= bound * whole,
    **words: str,
) -> Callable[[int, int, bool, bool, float], str]:
    """Right but for the bound or for the words that are given."""

    def answer(slept: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
        if not urgent:
            return words.get("calm", "resume")
        if enough(slept, whole, bound):
            return words.get("over", "resume")
        return words.get("short", "abort") if short else words.get("room", "sleep")

    return answer


def _memory_first(slept: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
    return "abort" if short else resume_or_abort(slept, whole, urgent, short, bound)


def _memory_before_time(slept: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
    if not urgent:
        return "resume"
    if short:
        return "abort"
    return "resume" if slept >= bound * whole else "sleep"


def _sleeps_it_out(slept: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
    if slept >= bound * whole:
        return "resume"
    return "abort" if urgent and short else "sleep"


def _resumes_or_not(slept: int, whole: int, urgent: bool, short: bool, bound: float) -> Any:
    return resume_or_abort(slept, whole, urgent, short, bound) == "resume"


# --- the lists that tests read ---------------------------------------------------------------

RIGHT = {
    "l06.local_vote": (
        local_vote,
        local_vote_by_share,
        local_vote_by_what_is_left,
        local_vote_with_fractions,
        local_vote_as_a_product,
    ),
    "l06.checkpoint": (
        checkpoint,
        checkpoint_in_one,
        checkpoint_with_a_way_out,
        checkpoint_by_another_generator,
        checkpoint_from_a_list,
    ),
    "l06.clean_up": (
        clean_up,
        clean_up_by_loop,
        clean_up_with_sets,
        clean_up_one_by_one,
        clean_up_field_by_field,
    ),
    "l06.resume_or_abort": (
        resume_or_abort,
        resume_or_abort_by_words,
        resume_or_abort_by_what_is_left,
        resume_or_abort_by_passes,
        resume_or_abort_from_a_table,
    ),
}


def _wrong(
    exercise: str, key: str, misconception: str, function: Callable[..., Any], name: str = ""
) -> WrongAnswer:
    return WrongAnswer(
        f"l06.{exercise}", name or key.replace("_", " "), key, misconception, function
    )


_local_vote = functools.partial(_wrong, "local_vote")
_checkpoint = functools.partial(_wrong, "checkpoint")
_clean_up = functools.partial(_wrong, "clean_up")
_resume_or_abort = functools.partial(_wrong, "resume_or_abort")

WRONG = (
    _local_vote(
        "flag",
        "A target is there: somebody wants a preemption.",
        _voting(lambda target, step: target >= 0),
    ),
    _local_vote(
        "flag",
        "Anything but -1 is a wish.",
        _voting(lambda target, step: target != -1),
        "not nothing",
    ),
    _local_vote(
        "flag",
        "1 means preempt.",
        _voting(lambda target, step: target == 1),
        "one",
    ),
    _local_vote(
        "older_steps",
        "What was asked for before has to be done now.",
        _voting(lambda target, step: target <= step),
    ),
    _local_vote(
        "older_steps",
        "A wish holds until it is met.",
        _voting(lambda target, step: 0 <= target <= step),
        "older steps but nothing",
    ),
    _local_vote(
        "newer_steps",
        "A target is to be reached; so far all have to go.",
        _voting(lambda target, step: target >= step),
    ),
    _local_vote(
        "next_step",
        "The monitor means the step after the one it names.",
        _voting(lambda target, step: target + 1 == step),
    ),
    _local_vote(
        "next_step",
        "The monitor names the step that is to run next.",
        _voting(lambda target, step: target == step + 1),
        "one ahead",
    ),
    _local_vote(
        "never_too_late",
        "Urgent is urgent, at any layer.",
        _voting(early=lambda layer, num_layers: True),
    ),
    _local_vote(
        "edge_too_early",
        "At 90 % it is over.",
        _voting(early=lambda layer, num_layers: layer < 0.9 * num_layers),
    ),
    _local_vote(
        "rounded",
        "About 90 % is 90 %.",
        _voting(early=lambda layer, num_layers: round(layer / num_layers, 1) <= 0.9),
        "rounded to a tenth",
    ),
    _local_vote(
        "edge_too_early",
        "A tenth has to be left.",
        _voting(early=lambda layer, num_layers: 1 - layer / num_layers >= 0.1),
        "float at the edge",
    ),
    _local_vote(
        "no_target_is_0",
        "Nothing is wanted while the target is 0.",
        _voting(lambda target, step: target and target == step),
    ),
    _local_vote(
        "counts_this_layer",
        "Layers count from 0, so layer + 1 are done.",
        _voting(early=lambda layer, num_layers: (layer + 1) / num_layers <= 0.9),
    ),
    _local_vote(
        "last_layer_is_all",
        "The last layer has number num_layers - 1, so that is 100 %.",
        _voting(early=lambda layer, num_layers: layer <= 0.9 * (num_layers - 1)),
    ),
    _local_vote(
        "one_layer_more",
        "The layer before is the last one that counts.",
        _voting(early=lambda layer, num_layers: layer - 1 <= 0.9 * num_layers),
    ),
    _local_vote(
        "rounded",
        "There is no tenth of a layer.",
        _voting(early=lambda layer, num_layers: layer <= round(0.9 * num_layers)),
    ),
    _local_vote(
        "rounded",
        "A layer that has been begun counts.",
        _voting(early=lambda layer, num_layers: layer < 0.9 * num_layers + 1),
        "rounded up",
    ),
    _local_vote(
        "ten_per_cent",
        "With 10 % of the work done it would be lost.",
        _voting(early=lambda layer, num_layers: layer <= 0.1 * num_layers),
    ),
    _local_vote(
        "late_only",
        "90 % must be done before a pass may be left.",
        _voting(early=lambda layer, num_layers: layer > 0.9 * num_layers),
    ),
    _local_vote(
        "ignores_target",
        "Whoever asks wants to leave.",
        _voting(lambda target, step: True),
    ),
    _local_vote(
        "flag",
        "A target is true or false.",
        _voting(lambda target, step: target),
        "true",
    ),
    _local_vote("inverted", "1 is good: go on.", lambda *args: 1 - local_vote(*args)),
    _local_vote("bool", "A vote is yes or no.", lambda *args: local_vote(*args) == 1),
    _local_vote("not_a_vote", "The largest step wins.", _votes_with_its_step, "its step"),
    _local_vote("not_a_vote", "A vote says what it wants.", _votes_in_words),
    _checkpoint("no_collective", "All read the same target.", _leaves_alone),
    _checkpoint(
        "leaves_first",
        "Who wants to leave need not ask; who stays has to hear of it.",
        _leaves_first,
    ),
    _checkpoint(
        "leaves_first",
        "My own 1 is the largest vote there can be, so I know the answer.",
        _leaves_or_asks,
        "knows the answer",
    ),
    _checkpoint("only_voters_join", "Without a wish there is nothing to say.", _only_voters_join),
    _checkpoint("own_vote", "Having told the others I may go.", _by_the_own_vote),
    _checkpoint("own_vote", "I leave if I want to and they agree.", _by_both, "both"),
    _checkpoint("leaves_always", "After the vote comes the leave.", _leaves_always),
    _checkpoint(
        "leaves_always",
        "An answer is an agreement.",
        _leaves_for_any_answer,
        "any answer",
    ),
    _checkpoint("never_leaves", "The answer is what is asked for.", _returns_the_answer),
    _checkpoint(
        "never_leaves",
        "The last move is returned.",
        _returns_the_leave,
        "returns the leave",
    ),
    _checkpoint("inverted", "0 means: nobody wants to go on.", _leaves_on_zero),
    _checkpoint("unanimous", "To agree, all must want it.", _all_must_want_it),
    _checkpoint("vote_turned_round", "The vote is for going on.", _votes_to_stay),
    _checkpoint("vote_lost", "The collective is there to listen.", _brings_nothing),
    _checkpoint(
        "own_vote_lost",
        "My own vote I know already.",
        _brings_nothing_and_leaves,
    ),
    _checkpoint("votes_for_all", "Come to the collective and say 1.", _brings_one),
    _checkpoint("twice", "Once to vote, once to make sure that all have heard.", _makes_sure),
    _checkpoint(
        "twice",
        "Ask again before something so drastic.",
        _asks_before_it_leaves,
        "asks before it leaves",
    ),
    _checkpoint("endless", "Wait until the wish is over.", _until_nobody_wants_to),
    _checkpoint(
        "endless",
        "Wait for somebody to want to leave.",
        _until_somebody_wants_to,
        "until somebody",
    ),
    _checkpoint("no_comma", "Parentheses make a tuple.", _no_comma),
    _checkpoint("not_a_move", "The vote is what is yielded.", _yields_the_vote),
    _checkpoint("not_a_move", "max knows what to compare.", _forgets_to_say_what, "without a vote"),
    _checkpoint("not_a_move", "True is a vote.", _votes_true, "true"),
    _checkpoint("not_a_generator", "The move is returned.", lambda vote: ("max", vote)),
    _checkpoint(
        "not_a_generator",
        "The moves are returned, one after the other.",
        lambda vote: [("max", vote), ("leave",)],
        "a list",
    ),
    _checkpoint("not_a_generator", "Nothing has to be done here.", lambda vote: None, "nothing"),
    _clean_up(
        "keeps_previous_step",
        "It is a preemption like the one in scheduling, which needs no more than that.",
        _like_a_preemption_in_scheduling,
    ),
    _clean_up(
        "forgets_previous_step",
        "The step never was, so nobody was in it.",
        _undoing(previous_step=lambda books, aborted, waiter: frozenset()),
    ),
    _clean_up(
        "leaks_kv",
        "What has been computed is kept.",
        _undoing(kv=lambda books, aborted, waiter: books.kv),
    ),
    _clean_up(
        "releases_all",
        "The pass is gone, and its K/V with it.",
        _undoing(kv=lambda books, aborted, waiter: frozenset()),
    ),
    _clean_up("collateral", "There is one victim.", _first_only),
    _clean_up(
        "collateral",
        "The K/V of the victim is released.",
        _undoing(kv=lambda books, aborted, waiter: books.kv - {aborted[0]}),
        "collateral K/V",
    ),
    _clean_up(
        "collateral",
        "The victim was in the last step.",
        _undoing(previous_step=lambda books, aborted, waiter: books.previous_step - {aborted[0]}),
        "collateral in the last step",
    ),
    _clean_up(
        "collateral",
        "The victim waits again.",
        _undoing(waiting=lambda books, aborted, waiter: (aborted[0], *books.waiting)),
        "collateral in the queue",
    ),
    _clean_up(
        "still_running",
        "They are only interrupted.",
        _undoing(running=lambda books, aborted, waiter: books.running),
    ),
    _clean_up(
        "everybody_stops",
        "The pass is left, so nobody runs.",
        _undoing(running=lambda books, aborted, waiter: ()),
    ),
    _clean_up("admits_the_waiter", "All this was done to let it run.", _into_the_running),
    _clean_up(
        "admits_the_waiter",
        "It runs next.",
        _undoing(
            running=lambda books, aborted, waiter: (
                *clean_up(books, aborted, waiter).running,
                *({waiter} & {*books.waiting}),
            )
        ),
        "runs and waits",
    ),
    _clean_up(
        "lost",
        "They are out.",
        _undoing(waiting=lambda books, aborted, waiter: books.waiting),
    ),
    _clean_up(
        "behind",
        "Who comes back queues at the end.",
        _undoing(waiting=lambda books, aborted, waiter: books.waiting + _back(books, aborted)),
    ),
    _clean_up(
        "order",
        "Each one goes to the front.",
        _undoing(
            waiting=lambda books, aborted, waiter: _back(books, aborted)[::-1] + books.waiting
        ),
    ),
    _clean_up(
        "order",
        "They come in an order already.",
        _undoing(waiting=lambda books, aborted, waiter: (*aborted, *books.waiting)),
        "order of the list",
    ),
    _clean_up(
        "order",
        "One after the other to the front.",
        _undoing(waiting=lambda books, aborted, waiter: (*aborted[::-1], *books.waiting)),
        "order of the list, turned round",
    ),
    _clean_up(
        "order",
        "The smallest id is the oldest.",
        _undoing(waiting=lambda books, aborted, waiter: (*sorted(aborted), *books.waiting)),
        "order of ids",
    ),
    _clean_up(
        "by_id",
        "The queue is in the order of arrival, which is that of the ids.",
        _undoing(waiting=lambda books, aborted, waiter: tuple(sorted([*aborted, *books.waiting]))),
    ),
    _clean_up(
        "moves_the_waiter",
        "Who is next stands first.",
        _undoing(
            waiting=lambda books, aborted, waiter: (
                *({waiter} & {*books.waiting}),
                *_back(books, aborted),
                *_others(books, waiter),
            )
        ),
    ),
    _clean_up(
        "moves_the_waiter",
        "Whoever it is, it stands first.",
        _undoing(
            waiting=lambda books, aborted, waiter: (
                *({waiter} - {None}),
                *_back(books, aborted),
                *_others(books, waiter),
            )
        ),
        "moves the waiter, there or not",
    ),
    _clean_up(
        "moves_the_waiter",
        "First those who have lost something, then the waiter.",
        _undoing(
            waiting=lambda books, aborted, waiter: (
                *_back(books, aborted),
                *({waiter} & {*books.waiting}),
                *_others(books, waiter),
            )
        ),
        "moves the waiter behind them",
    ),
    _clean_up(
        "takes_the_waiter_out",
        "Who is next up does not wait.",
        _undoing(
            waiting=lambda books, aborted, waiter: (
                *_back(books, aborted),
                *_others(books, waiter),
            )
        ),
    ),
    _clean_up(
        "forgets_the_waiter",
        "Whoever is urgent is first anyway.",
        _undoing(next_up=lambda books, aborted, waiter: books.next_up),
    ),
    _clean_up(
        "forgets_the_waiter",
        "The queue says who is next.",
        _undoing(next_up=lambda books, aborted, waiter: None),
        "forgets the waiter and the one before",
    ),
    _clean_up(
        "waiter_is_gone",
        "The waiter waits.",
        _undoing(next_up=lambda books, aborted, waiter: waiter),
    ),
    _clean_up(
        "older_choice",
        "Without a waiter the last choice stands.",
        _undoing(
            next_up=lambda books, aborted, waiter: (
                waiter if waiter in books.waiting else books.next_up
            )
        ),
    ),
    _clean_up(
        "older_choice",
        "None changes nothing.",
        _undoing(
            next_up=lambda books, aborted, waiter: books.next_up if waiter is None else waiter
        ),
        "older choice for None",
    ),
    _clean_up(
        "somebody_else",
        "Somebody has to be next.",
        _undoing(
            next_up=lambda books, aborted, waiter: (
                waiter if waiter in books.waiting else _back(books, aborted)[0]
            )
        ),
    ),
    _clean_up("wrong_type", "A queue is who is in it.", _as_text),
    _clean_up(
        "wrong_type",
        "Ids may be text.",
        _undoing(waiting=lambda books, aborted, waiter: tuple(map(str, books.waiting))),
        "text",
    ),
    _clean_up(
        "wrong_type",
        "Nobody is 0 or False.",
        _undoing(
            next_up=lambda books, aborted, waiter: waiter if waiter in books.waiting else False
        ),
        "false",
    ),
    _clean_up("not_books", "Fields by their names are enough.", _as_a_dict),
    _clean_up("no_return", "The books are changed.", lambda books, aborted, waiter: None),
    _resume_or_abort(
        "sleeps_for_ever",
        "It sleeps as long as somebody urgent waits.",
        _deciding(lambda slept, whole, bound: False),
    ),
    _resume_or_abort(
        "bound_is_no_constant",
        "Three times is the rule.",
        _deciding(lambda slept, whole, bound: slept >= 3 * whole),
    ),
    _resume_or_abort(
        "rounded",
        "Times are whole.",
        _deciding(lambda slept, whole, bound: slept // whole >= bound),
    ),
    _resume_or_abort(
        "rounded",
        "About as often as the bound says.",
        _deciding(lambda slept, whole, bound: round(slept / whole) >= bound),
        "rounded to the nearest",
    ),
    _resume_or_abort(
        "rounded",
        "A bound is a count.",
        _deciding(lambda slept, whole, bound: slept >= int(bound) * whole),
        "bound cut",
    ),
    _resume_or_abort(
        "counts_the_pass",
        "Its own time counts too.",
        _deciding(lambda slept, whole, bound: slept + whole >= bound * whole),
    ),
    _resume_or_abort(
        "aborts_when_time_is_up",
        "Who has slept too long has lost.",
        _deciding(over="abort"),
    ),
    _resume_or_abort("memory_first", "Short memory comes before all.", _memory_first),
    _resume_or_abort(
        "memory_before_time",
        "As long as somebody urgent has no room, the pass must go.",
        _memory_before_time,
    ),
    _resume_or_abort(
        "keeps_its_memory",
        "Work that has been done is kept at any price.",
        _deciding(short="sleep"),
    ),
    _resume_or_abort(
        "resumes_in_the_way",
        "If the other one cannot run, at least this one can.",
        _deciding(short="resume"),
    ),
    _resume_or_abort(
        "always_aborts",
        "To be preempted is to start over.",
        _deciding(room="abort"),
    ),
    _resume_or_abort("never_sleeps", "Room for both: both run.", _deciding(room="resume")),
    _resume_or_abort("sleeps_it_out", "Its time is not over yet.", _sleeps_it_out),
    _resume_or_abort(
        "aborts_at_last",
        "Without a need for it the pass is given up.",
        _deciding(calm="abort"),
    ),
    _resume_or_abort(
        "urgent_upside_down",
        "It sleeps while it is quiet.",
        lambda slept, whole, urgent, short, bound: resume_or_abort(
            slept, whole, not urgent, short, bound
        ),
    ),
    _resume_or_abort(
        "one_moment_late",
        "The bound may be reached.",
        _deciding(lambda slept, whole, bound: slept > bound * whole),
    ),
    _resume_or_abort(
        "bound_upside_down",
        "It may go on as long as it has not slept too long.",
        _deciding(lambda slept, whole, bound: slept <= bound * whole),
    ),
    _resume_or_abort(
        "ignores_bound",
        "As long as it takes itself.",
        _deciding(lambda slept, whole, bound: slept >= whole),
    ),
    _resume_or_abort(
        "bound_divides",
        "A share of its length.",
        _deciding(lambda slept, whole, bound: slept >= whole / bound),
    ),
    _resume_or_abort(
        "bound_is_a_time",
        "The bound is how long it may sleep.",
        _deciding(lambda slept, whole, bound: slept >= bound),
    ),
    _resume_or_abort(
        "fixed_bound",
        "Nobody should sleep for more than a second.",
        _deciding(lambda slept, whole, bound: slept >= 1_000_000),
    ),
    _resume_or_abort(
        "fixed_bound",
        "A hundred milliseconds are enough for anybody.",
        _deciding(lambda slept, whole, bound: slept >= 100_000),
        "fixed bound of 100 ms",
    ),
    _resume_or_abort("not_a_way", "It resumes or it does not.", _resumes_or_not),
)

_NEVER_MORE = "a vote is never more than 1"
_ANY_ORDER = "`aborted` is asked only whether it holds an id"
# What a weaker answer is still right about, and why: exercise: {weakening: reason}.
STILL_RIGHT = {
    "l06.local_vote": {
        "num_layers at least 1": "a model has a layer",
        "result at most 7": _NEVER_MORE,
    },
    "l06.checkpoint": {"vote at most 7": _NEVER_MORE},
    "l06.clean_up": {
        "aborted: reversed": _ANY_ORDER,
        "aborted: sorted": _ANY_ORDER,
        "aborted: without repeats": _ANY_ORDER,
    },
    "l06.resume_or_abort": {"pass_us at least 1": "a pass takes time"},
}

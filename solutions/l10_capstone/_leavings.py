"""Misconceptions of the request of a client that disconnects."""

from collections.abc import Callable
from typing import Any, TypeAlias

from course.calling.errors import shortened
from course.calling.plain_values import as_items, as_mapping, as_truth, as_whole
from course.checks.comparing import a_kind
from course.exercise import Misconception
from course.format_values import show
from nanogpt.server.server_policies import on_disconnect

State: TypeAlias = dict[str, Any]
Field: TypeAlias = Callable[[State, int], Any]
KEYS = ("waiting", "running", "leaving", "in_step")


def but_for(**changed: Field) -> Callable[..., Any]:
    """The right state with other values of these fields."""

    def answer(state: State, request_id: int) -> State:
        wrong = {name: field(state, request_id) for name, field in changed.items()}
        return {**on_disconnect(state, request_id), **wrong}

    return answer


def as_before(name: str) -> Field:
    return lambda state, request_id: state[name]


def without_it(state: State, request_id: int) -> dict[int, int]:
    return {i: kv for i, kv in state["running"].items() if i != request_id}


def in_any_step(state: State, request_id: int) -> list[int]:
    """`leaving` as it would be during a step, whether there is one or not."""
    return on_disconnect({**state, "in_step": True}, request_id)["leaving"]


def requeued(state: State, request_id: int) -> State:
    if request_id not in state["running"]:
        return on_disconnect(state, request_id)
    waiting = [request_id, *state["waiting"]]
    return {**state, "running": without_it(state, request_id), "waiting": waiting}


def notes_the_unknown(state: State, request_id: int) -> State:
    is_known = request_id in state["running"] or request_id in state["waiting"]
    after = on_disconnect(state, request_id)
    return after if is_known else {**after, "leaving": [*state["leaving"], request_id]}


def noted_twice(state: State, request_id: int) -> list[int]:
    is_noted = state["in_step"] and request_id in state["running"]
    return state["leaving"] + [request_id] * is_noted


def only_this_one(state: State, request_id: int) -> list[int]:
    is_noted = state["in_step"] and request_id in state["running"]
    return [request_id] if is_noted else state["leaving"]


def form(value: Any) -> str:
    """What is wrong with the form of a state, as a sentence; "" for a well-formed one."""
    mapping = as_mapping(value)
    if mapping is None:
        return f"Return the new state, a dict; this is {a_kind(value)}."
    four = 'A state has the keys "waiting", "running", "leaving" and "in_step"'
    for name in KEYS:
        if name not in mapping:
            return f'{four}; here "{name}" is missing.'
    for name in mapping:
        if name not in KEYS:
            return f"{four} and no other; this one also has {shortened(show(name), 60)}."
    for name in ("waiting", "leaving"):
        items = as_items(mapping[name])
        if items is None or any(as_whole(item) is None for item in items):
            return f'"{name}" is a list of ids.'
    if as_mapping(mapping["running"]) is None:
        return '"running" is a dict from ids to KV tokens.'
    return "" if as_truth(mapping["in_step"]) is not None else '"in_step" is True or False.'


FINISHED = Misconception(
    "finished_too",
    "Every disconnect is noted in `leaving`.",
    "A finished request has freed everything. If the id is in neither `waiting` nor `running`, "
    "change nothing.",
    notes_the_unknown,
)
MISCONCEPTIONS = (
    Misconception(
        "not_a_state",
        "The function changes the state in place.",
        form,
        matches=lambda value: form(value) != "",
        examples=(lambda *args: list(on_disconnect(*args)["running"]),),
    ),
    Misconception(
        "computes_on",
        "A request that has started is computed to its end.",
        "Nobody reads the rest of the text. Computing it takes steps and KV tokens from the "
        "requests whose clients still read.",
        lambda state, request_id: state,
        same_result=(but_for(running=as_before("running"), leaving=as_before("leaving")),),
    ),
    Misconception(
        "frees_in_mid_step",
        "The K/V of a request whose client has left can be freed at once.",
        "The step that is running reads and writes this K/V, and freed K/V may be given to another "
        "request. Put the id into `leaving` and keep it in `running`.",
        but_for(running=without_it, leaving=as_before("leaving")),
        same_result=(but_for(running=without_it),),
    ),
    Misconception(
        "queue_order",
        "The waiting requests are a set.",
        "The waiting requests keep their places: remove this one and leave the others in their "
        "order.",
        but_for(waiting=lambda *args: sorted(on_disconnect(*args)["waiting"])),
    ),
    Misconception(
        "forgets_the_waiting",
        "A waiting request holds nothing, so it may stay.",
        "When its turn came, it would take KV tokens and steps for a client that has left. Remove "
        "it from `waiting` at once.",
        but_for(waiting=as_before("waiting")),
    ),
    Misconception(
        "always_after_the_step",
        "A running request is always removed after the step.",
        "Between two steps there is no step to wait for, and perhaps none will come: remove the "
        "request at once.",
        but_for(running=as_before("running"), leaving=in_any_step),
    ),
    Misconception(
        "waits_again",
        "The request is preempted.",
        "A preempted request resumes later. This one does not: it is aborted.",
        requeued,
    ),
    Misconception(
        "only_the_newest",
        "`leaving` holds only the newest request.",
        "Other clients may have left during the same step: keep the ids that are in `leaving`.",
        but_for(leaving=only_this_one),
    ),
    Misconception(
        "twice",
        "Each call adds the id to `leaving`.",
        "The server may notice one disconnect twice, when it reads and when it writes. An id is in "
        "`leaving` only once.",
        but_for(leaving=noted_twice),
    ),
    FINISHED,
)

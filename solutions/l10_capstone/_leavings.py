"""What is thought wrongly of a client that has left, and what such a person would write."""

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


def but_for(**changed: Field) -> Callable[..., Any]:
    """Right but for these fields."""

    def answer(state: State, request_id: int) -> State:
        wrong = {name: field(state, request_id) for name, field in changed.items()}
        return {**on_disconnect(state, request_id), **wrong}

    return answer


def without(running: dict[int, int], *gone: int) -> dict[int, int]:
    return {i: held for i, held in running.items() if i not in gone}


def after_step(state: State, request_id: int) -> list[int]:
    """All that leave, whenever there is a step."""
    new = [request_id] if request_id in state["running"] else []
    return state["leaving"] + [i for i in new if i not in state["leaving"]]


def waits_again(state: State, request_id: int) -> State:
    after = on_disconnect(state, request_id)
    if request_id not in state["running"]:
        return after
    running = without(state["running"], request_id)
    return {**after, "running": running, "waiting": [request_id, *state["waiting"]],
            "leaving": state["leaving"]}  # fmt: skip


def drops_the_unknown(state: State, request_id: int) -> State:
    after = on_disconnect(state, request_id)
    if request_id in state["running"] or request_id in state["waiting"]:
        return after
    return {**after, "leaving": [*state["leaving"], request_id]}


KEYS = ("waiting", "running", "leaving", "in_step")


def misfit(value: Any) -> str:
    """What is not of the form that a state has, in a sentence; "" for a state."""
    mapping = as_mapping(value)
    if mapping is None:
        return f"The answer is the new state, a dict; this is {a_kind(value)}."
    four = 'A state has the keys "waiting", "running", "leaving" and "in_step", all four'
    for name in KEYS:
        if name not in mapping:
            return f'{four}: here "{name}" is missing.'
    for name in mapping:
        if name not in KEYS:
            return f"{four} and no other, but here is {shortened(show(name), 60)} too."
    for name in ("waiting", "leaving"):
        items = as_items(mapping[name])
        if items is None or any(as_whole(item) is None for item in items):
            return f'"{name}" is a list of ids.'
    if as_mapping(mapping["running"]) is None:
        return '"running" is a dict: id to KV tokens.'
    return "" if as_truth(mapping["in_step"]) is not None else '"in_step" is True or False.'


FINISHED = Misconception(
    "finished_too",
    "Whatever has left is noted.",
    "A request that is done has let go of everything: nothing happens to one that is neither "
    "in `waiting` nor in `running`.",
    drops_the_unknown,
)
MISCONCEPTIONS = (
    Misconception(
        "not_a_state",
        "The state is changed.",
        misfit,
        matches=lambda value: misfit(value) != "",
        examples=((lambda *args: list(on_disconnect(*args)["running"])),),
    ),
    Misconception(
        "computes_on",
        "What has begun is finished.",
        "Nothing reads the rest: computed to its end, the request takes steps and KV tokens from "
        "all that are still read.",
        lambda state, request_id: state,
        same_result=(
            but_for(
                running=lambda state, request_id: state["running"],
                leaving=lambda state, request_id: state["leaving"],
            ),
        ),
    ),
    Misconception(
        "frees_in_mid_step",
        "Gone is gone.",
        "The step that is on its way reads and writes this K/V, and freed it may be given to "
        "another: note the id in `leaving`, and keep it in `running`.",
        but_for(
            running=lambda state, request_id: without(state["running"], request_id),
            leaving=lambda state, request_id: state["leaving"],
        ),
        same_result=(
            but_for(running=lambda state, request_id: without(state["running"], request_id)),
        ),
    ),
    Misconception(
        "queue_order",
        "A set without it.",
        "Those that wait keep their places: take this one out and leave the others in the queue's "
        "order.",
        but_for(
            waiting=lambda state, request_id: sorted(on_disconnect(state, request_id)["waiting"])
        ),
    ),
    Misconception(
        "forgets_the_waiting",
        "What waits holds nothing.",
        "Its turn would come, and then it would take room and steps for a client that has left: "
        "what waits goes at once.",
        but_for(waiting=lambda state, request_id: state["waiting"]),
    ),
    Misconception(
        "always_after_the_step",
        "It goes when the step is over.",
        "Between two steps there is no step to wait for, and perhaps none will come: it goes now.",
        but_for(running=lambda state, request_id: state["running"], leaving=after_step),
    ),
    Misconception(
        "waits_again",
        "It is preempted.",
        "A preempted request comes back, this one does not: there is no client to come back for.",
        waits_again,
    ),
    Misconception(
        "only_the_newest",
        "This one is leaving.",
        "Others may have left during the same step: what is in `leaving` stays there.",
        but_for(
            leaving=lambda state, request_id: (
                [request_id]
                if request_id in state["running"] and state["in_step"]
                else state["leaving"]
            )
        ),
    ),
    Misconception(
        "twice",
        "Each goodbye is noted.",
        "A client's end may be seen twice, by what reads and by what writes: in `leaving` it "
        "stands once.",
        but_for(
            leaving=lambda state, request_id: (
                state["leaving"] + [request_id] * (request_id in state["running"])
                if state["in_step"]
                else state["leaving"]
            )
        ),
    ),
    FINISHED,
    Misconception("no_return", "It is done.", examples=(lambda *args: None,)),
)

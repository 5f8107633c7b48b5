"""What is thought wrongly of a client that has left, and what such a person would write."""

from collections.abc import Callable
from typing import Any, TypeAlias

from course.calling.errors import shortened
from course.calling.plain_values import as_items, as_mapping, as_truth, as_whole
from course.checks.comparing import a_kind
from course.exercise import Misconception
from course.format_values import show
from nanogpt.server.server_parts import on_disconnect

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


def frees(choose: Callable[[dict[int, int]], int]) -> Callable[..., Any]:
    """The place of the one that is chosen becomes free, in place of its own."""

    def answer(state: State, request_id: int) -> State:
        after = on_disconnect(state, request_id)
        running = state["running"]
        if request_id not in running:
            return after
        other = choose(running)
        if state["in_step"]:
            return {**after, "leaving": state["leaving"] + [other]}
        return {**after, "running": without(running, other)}

    return answer


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


def all_go(state: State, request_id: int) -> State:
    if request_id not in state["running"]:
        return on_disconnect(state, request_id)
    if state["in_step"]:
        others = [i for i in state["running"] if i not in state["leaving"]]
        return {**state, "leaving": state["leaving"] + others}
    return {**state, "running": {}}


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
    alike=(
        lambda state, request_id: (
            drops_the_unknown(state, request_id)
            if state["in_step"]
            else on_disconnect(state, request_id)
        ),
    ),
)
MISCONCEPTIONS = (
    Misconception(
        "not_a_state",
        "The state is changed.",
        misfit,
        form=lambda value: misfit(value) != "",
        also=((lambda *args: list(on_disconnect(*args)["running"])),),
    ),
    Misconception(
        "computes_on",
        "What has begun is finished.",
        "Nothing reads the rest: computed to its end, the request takes steps and KV tokens from "
        "all that are still read.",
        lambda state, request_id: state,
        alike=(
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
        alike=(
            but_for(running=lambda state, request_id: without(state["running"], request_id)),
            but_for(
                running=lambda state, request_id: (
                    state["running"]
                    if request_id in state["leaving"]
                    else without(state["running"], request_id)
                )
            ),
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
        alike=(
            but_for(waiting=lambda state, request_id: list({*state["waiting"]} - {request_id})),
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
        "waiting_after_the_step",
        "All of them go when the step is over.",
        "What waits is in no step: it goes at once, and `leaving` is only for what runs.",
        but_for(
            leaving=lambda state, request_id: (
                state["leaving"]
                + [request_id]
                * (
                    request_id in (*state["waiting"], *state["running"])
                    and state["in_step"]
                    and request_id not in state["leaving"]
                )
            ),
            waiting=lambda state, request_id: (
                state["waiting"]
                if state["in_step"]
                else on_disconnect(state, request_id)["waiting"]
            ),
        ),
        alike=(
            but_for(
                leaving=lambda state, request_id: (
                    on_disconnect(state, request_id)["leaving"]
                    + [request_id] * (request_id in state["waiting"] and state["in_step"])
                )
            ),
            but_for(
                leaving=lambda state, request_id: (
                    on_disconnect(state, request_id)["leaving"]
                    + [request_id] * (request_id in state["waiting"])
                )
            ),
        ),
    ),
    Misconception(
        "always_after_the_step",
        "It goes when the step is over.",
        "Between two steps there is no step to wait for, and perhaps none will come: it goes now.",
        but_for(running=lambda state, request_id: state["running"], leaving=after_step),
    ),
    Misconception(
        "anothers",
        "A place becomes free.",
        "It is the place of this request that becomes free: look it up by its id, not by where it "
        "stands or what it holds.",
        frees(lambda running: next(iter(running))),
        alike=(
            frees(lambda running: list(running)[-1]),
            frees(lambda running: max(running, key=lambda i: running[i])),
            frees(lambda running: min(running)),
            frees(lambda running: max(running)),
        ),
    ),
    Misconception(
        "all_of_them",
        "The batch is left.",
        "One client has left; the others are still read, and keep what they have.",
        all_go,
        alike=(
            lambda state, request_id: {**state, "waiting": [], "running": {}, "leaving": []},
            but_for(waiting=lambda state, request_id: []),
        ),
    ),
    Misconception(
        "waits_again",
        "It is preempted.",
        "A preempted request comes back, this one does not: there is no client to come back for.",
        waits_again,
        alike=(
            but_for(
                waiting=lambda state, request_id: (
                    [i for i in state["waiting"] if i != request_id]
                    + [request_id] * (request_id in state["running"])
                )
            ),
        ),
    ),
    Misconception(
        "holds_nothing",
        "Its K/V is 0 now.",
        "An entry of 0 KV tokens still has its place in the batch: take the request out of "
        "`running`.",
        but_for(
            running=lambda state, request_id: {
                i: 0 if i == request_id else held for i, held in state["running"].items()
            },
            leaving=lambda state, request_id: state["leaving"],
        ),
        alike=(
            but_for(
                running=lambda state, request_id: {
                    i: 0 if i == request_id and not state["in_step"] else held
                    for i, held in state["running"].items()
                },
            ),
        ),
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
    Misconception("no_return", "It is done.", also=(lambda *args: None,)),
    Misconception(
        "stops_the_step",
        "The step is stopped.",
        "The others' tokens are in this step as well: it goes on, and `in_step` is not yours to "
        "change.",
        but_for(in_step=lambda state, request_id: False),
    ),
)

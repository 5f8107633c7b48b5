"""Exercise 10.3: what becomes of a request whose client has left."""

import copy
import random
from collections.abc import Callable
from typing import Any, TypeAlias

from course.checks.comparing import Args, Comparison, a_kind
from course.exercise import Exercise, Misconception
from course.task import Task
from nanogpt.parts.plain_values import as_items, as_mapping, as_truth, as_whole, as_wholes
from solutions.l10_capstone._raising import or_raises

# --- right answers ------------------------------------------------------------------------------


def on_disconnect(state: "dict[str, Any]", request_id: int) -> "dict[str, Any]":
    """Return the state of the server once the client of this request has left."""
    # A step that is on its way reads the K/V of all that run: until it is over, nothing is freed.
    waiting = [i for i in state["waiting"] if i != request_id]
    running, leaving = dict(state["running"]), list(state["leaving"])
    if request_id in running:
        if not state["in_step"]:
            del running[request_id]
        elif request_id not in leaving:
            leaving.append(request_id)
    return {"waiting": waiting, "running": running, "leaving": leaving, "in_step": state["in_step"]}


def in_its_copy(state: dict[str, Any], request_id: int) -> dict[str, Any]:
    after = copy.deepcopy(state)
    if request_id in after["waiting"]:
        after["waiting"].remove(request_id)
    elif request_id in after["running"] and not after["in_step"]:
        after["running"].pop(request_id)
    elif request_id in after["running"] and request_id not in after["leaving"]:
        after["leaving"].append(request_id)
    return after


def as_differences(state: dict[str, Any], request_id: int) -> dict[str, Any]:
    runs = request_id in state["running"]
    now = {request_id} if runs and not state["in_step"] else set[int]()
    later = [request_id] if runs and state["in_step"] else []
    return state | {
        "waiting": list(filter(lambda each: each != request_id, state["waiting"])),
        "running": {i: held for i, held in state["running"].items() if i not in now},
        "leaving": state["leaving"] + [i for i in later if i not in state["leaving"]],
    }


def case_by_case(state: dict[str, Any], request_id: int) -> dict[str, Any]:
    match request_id in state["waiting"], request_id in state["running"], state["in_step"]:
        case True, _, _:
            at = state["waiting"].index(request_id)
            return {**state, "waiting": state["waiting"][:at] + state["waiting"][at + 1 :]}
        case _, True, True if request_id not in state["leaving"]:
            return {**state, "leaving": [*state["leaving"], request_id]}
        case _, True, False:
            stays = dict(state["running"])
            stays.pop(request_id)
            return {**state, "running": stays}
        case _:
            return state


def by_sets(state: dict[str, Any], request_id: int) -> dict[str, Any]:
    going = {*state["running"]} & {request_id}
    later = going if state["in_step"] else set[int]()
    return {
        **state,
        "waiting": [i for i in state["waiting"] if i not in {request_id}],
        "running": {i: state["running"][i] for i in state["running"] if i not in going - later},
        "leaving": sorted({*state["leaving"]} | later),  # in whatever order
    }


class InTheirOrder:
    """An answer whose `leaving` comes with those first that stood there, in their order."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__wrapped__ = function
        self.__code__ = getattr(function, "__code__", None)

    def __call__(self, state: dict[str, Any], request_id: int) -> Any:
        """Ask the function; what it gives that is no state stays as it is."""
        before = list(state["leaving"])
        value = self._function(state, request_id)
        ids = as_wholes((as_mapping(value) or {}).get("leaving"))
        if ids is None:
            return value
        known = [i for i in before if i in ids]
        rest = list(ids)
        for i in known:
            rest.remove(i)
        return {**value, "leaving": known + rest}


# --- wrong ideas --------------------------------------------------------------------------------

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


def without_key(running: dict[int, int], request_id: int) -> dict[int, int]:
    stays = dict(running)
    del stays[request_id]
    return stays


def without_item(waiting: list[int], request_id: int) -> list[int]:
    stays = list(waiting)
    stays.remove(request_id)
    return stays


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


def misfit(value: Any) -> str:
    """What is not of the form that a state has, in a sentence; "" for a state."""
    mapping = as_mapping(value)
    if mapping is None:
        return f"The answer is the new state, a dict; this is {a_kind(value)}."
    if set(mapping) != {"waiting", "running", "leaving", "in_step"}:
        return 'A state has the keys "waiting", "running", "leaving" and "in_step", all four.'
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
    also=(
        lambda state, request_id: (
            {**state, "running": without_key(state["running"], request_id)}
            if request_id not in state["waiting"] and not state["in_step"]
            else on_disconnect(state, request_id)
        ),
        lambda state, request_id: (
            {**state, "waiting": without_item(state["waiting"], request_id)}
            if request_id not in state["running"]
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
        also=(
            lambda *args: list(on_disconnect(*args)["running"]),
            lambda *args: {"running": on_disconnect(*args)["running"]},
            but_for(running=lambda state, request_id: list(state["running"])),
            but_for(leaving=lambda state, request_id: set(state["leaving"])),
            but_for(in_step=lambda state, request_id: int(state["in_step"])),
        ),
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

# --- cases --------------------------------------------------------------------------------------


def server(
    waiting: list[int],
    running: dict[int, int],
    leaving: tuple[int, ...] = (),
    *,
    in_step: bool = True,
) -> State:
    return {"waiting": waiting, "running": running, "leaving": list(leaving), "in_step": in_step}


def draw_state(name: str, args: Args) -> str:
    state, request_id = args
    return f"{name}(state, request_id={request_id})\nstate = {state}"


def any_state(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for _ in range(50):
        ids = rng.sample(range(30), rng.randint(1, 8))
        cut = rng.randint(0, len(ids))
        in_step = rng.random() < 0.6
        running = {i: rng.randint(1, 99) for i in ids[cut:]}
        left = [i for i in running if in_step and rng.random() < 0.3]
        asked = rng.choice([*ids, *ids, 31])
        cases.append((server(ids[:cut], running, tuple(left), in_step=in_step), asked))
    return sorted(cases, key=lambda case: len(case[0]["waiting"]) + len(case[0]["running"]))


BETWEEN = server([7, 5], {2: 40, 4: 12, 3: 25}, in_step=False)
DURING = server([7, 5], {2: 40, 4: 12, 3: 25})
LEAVING = server([7], {2: 40, 4: 12, 3: 25}, (3,))

JUDGE = Comparison(
    on_disconnect,
    MISCONCEPTIONS,
    "Where is it: in the queue, in the batch between two steps, in a step that is on its way, or "
    "gone already?",
    draw_call=draw_state,
    evidence=[
        (state, request_id)
        for state in (BETWEEN, DURING, LEAVING)
        for request_id in (2, 3, 4, 5, 7, 9)
    ],
)

EXERCISE = Exercise(
    number=3,
    title="The client has left",
    minutes=7,
    points=2,
    draw_call=draw_state,
    asked_as=InTheirOrder,
    task=Task(
        signature="on_disconnect(state: dict[str, Any], request_id: int) -> dict[str, Any]",
        rules=(
            "The client of `request_id` has closed its connection. The result is the server's "
            "state after that, with the same four keys.",
            '`state["waiting"]` has ids in the queue\'s order, `state["running"]` the KV tokens of '
            "each request in the batch, by id.",
            '`state["in_step"]` says whether a step is on its way. It reads the K/V of all that '
            "run, so none of it may be freed before the step is over.",
            '`state["leaving"]` has the ids that will be taken out of `running`, with their K/V, '
            "when this step is over. Each stands there once, in any order.",
            "A request that is in none of these has ended: nothing happens.",
        ),
        args=(server([7, 5], {2: 40, 4: 12}), 4),
        result=server([7, 5], {2: 40, 4: 12}, (4,)),
    ),
    hints=(
        "Four places where a request may be. What does it hold in each of them?",
        "In the queue it holds nothing, so it can go now. In the batch it holds K/V: what decides "
        "whether that can go now?",
        "Out of `waiting`, always. In `running` it depends on `in_step`: out at once, or noted in "
        "`leaving` unless it stands there.",
    ),
    right=(on_disconnect, in_its_copy, as_differences, case_by_case, by_sets),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "it waits",
            JUDGE.on(
                (BETWEEN, 5),
                (BETWEEN, 7),
                (DURING, 5),
                (server([0, 3], {1: 9}), 0),
                (server([9, 2, 7, 4], {1: 9}), 2),
            ),
        ),
        ("between two steps", JUDGE.on((BETWEEN, 4), (BETWEEN, 3), (BETWEEN, 2))),
        ("in mid-step", JUDGE.on((DURING, 4), (DURING, 2), (LEAVING, 4), (LEAVING, 3))),
        (
            "it is done",
            or_raises(
                JUDGE, FINISHED, (KeyError, ValueError), (DURING, 9), (BETWEEN, 9), (LEAVING, 9)
            ),
        ),
        ("any server", JUDGE.on_drawn(any_state)),
    ),
)

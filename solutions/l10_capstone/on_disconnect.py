"""Exercise 10.3: what becomes of a request whose client has left."""

import copy
import random
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_mapping, as_wholes
from course.checks.comparing import Args, Comparison
from course.exercise import Exercise
from course.task import Task
from solutions.l10_capstone._leavings import FINISHED, MISCONCEPTIONS, State

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
    right=(on_disconnect, in_its_copy, by_sets),
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
            JUDGE.on_raising(
                FINISHED, (KeyError, ValueError), (DURING, 9), (BETWEEN, 9), (LEAVING, 9)
            ),
        ),
        ("any server", JUDGE.on_drawn(any_state)),
    ),
)

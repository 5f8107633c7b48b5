"""Exercise 10.3: the request of a client that has disconnected."""

import random
from typing import Any

from course.calling.plain_values import as_mapping, as_wholes
from course.checks.comparing import Args, Comparison
from course.exercise import Adapted, Exercise, Task
from solutions.l10_capstone._leavings import FINISHED, MISCONCEPTIONS, State

# --- right answers ------------------------------------------------------------------------------


def on_disconnect(state: "dict[str, Any]", request_id: int) -> "dict[str, Any]":
    """Return the server's state after the client of this request has disconnected."""
    # A step reads the K/V of all running requests, so nothing is freed before it is over.
    waiting = [i for i in state["waiting"] if i != request_id]
    running, leaving = dict(state["running"]), list(state["leaving"])
    if request_id in running:
        if not state["in_step"]:
            del running[request_id]
        elif request_id not in leaving:
            leaving.append(request_id)
    return {"waiting": waiting, "running": running, "leaving": leaving, "in_step": state["in_step"]}


def by_sets(state: dict[str, Any], request_id: int) -> dict[str, Any]:
    going = {*state["running"]} & {request_id}
    later = going if state["in_step"] else set[int]()
    return {
        **state,
        "waiting": [i for i in state["waiting"] if i not in {request_id}],
        "running": {i: state["running"][i] for i in state["running"] if i not in going - later},
        "leaving": sorted({*state["leaving"]} | later),  # in any order
    }


class InTheirOrder(Adapted):
    """An answer whose `leaving` begins with the ids that it had before, in their order."""

    def __call__(self, state: dict[str, Any], request_id: int) -> Any:
        """Ask the function; a result that is not a state stays as it is."""
        before = list(state["leaving"])
        value = self._function(state, request_id)
        ids = as_wholes((as_mapping(value) or {}).get("leaving"))
        if ids is None:
            return value
        places = {i: place for place, i in enumerate(before)}
        return {**value, "leaving": sorted(ids, key=lambda i: places.get(i, len(before)))}


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
    "Where is the request: waiting, running between two steps, running during a step, or already "
    "finished?",
    evidence=[
        (state, request_id)
        for state in (BETWEEN, DURING, LEAVING)
        for request_id in (2, 3, 4, 5, 7, 9)
    ],
)

EXERCISE = Exercise(
    number=3,
    title="A client disconnects",
    minutes=7,
    points=2,
    draw_call=draw_state,
    asked_as=InTheirOrder,
    task=Task(
        rules=(
            "The client of `request_id` has disconnected. Returns the server's state after that, "
            "a new dict with the same four keys. Do not change `state`.",
            '`state["waiting"]` is the list of waiting ids, in order. `state["running"]` maps each '
            "running id to its KV tokens.",
            '`state["in_step"]` is true while a step runs. A step reads the K/V of all running '
            "requests, so none of them may be removed before the step is over.",
            '`state["leaving"]` is the list of ids that the server will remove from `running`, '
            "with their K/V, after this step. It has no id twice, and its order does not matter.",
            "If the id is in neither `waiting` nor `running`, the request has ended, and nothing "
            "changes.",
        ),
        args=(server([7, 5], {2: 40, 4: 12}), 4),
        result=server([7, 5], {2: 40, 4: 12}, (4,)),
        steps=(
            "Request 4 is running, and a step is using its K/V.",
            "So it stays in `running` for now, and the server removes it after the step.",
        ),
    ),
    hints=(
        "A request may be waiting, running between two steps, running during a step, or finished. "
        "What does it hold in each case?",
        "A waiting request holds nothing, so remove it at once. A running one holds K/V: when may "
        "that be freed?",
        "Always remove the id from `waiting`. If it is in `running`, look at `in_step`: remove it "
        "at once, or add it to `leaving` unless `leaving` has it.",
    ),
    right=(on_disconnect, by_sets),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "a waiting request",
            JUDGE.on(
                (BETWEEN, 5),
                (BETWEEN, 7),
                (DURING, 5),
                (server([0, 3], {1: 9}), 0),
                (server([9, 2, 7, 4], {1: 9}), 2),
            ),
        ),
        ("between two steps", JUDGE.on((BETWEEN, 4), (BETWEEN, 3), (BETWEEN, 2))),
        ("during a step", JUDGE.on((DURING, 4), (DURING, 2), (LEAVING, 4), (LEAVING, 3))),
        (
            "a finished request",
            JUDGE.on_raising(
                FINISHED, (KeyError, ValueError), (DURING, 9), (BETWEEN, 9), (LEAVING, 9)
            ),
        ),
        ("any server", JUDGE.on_drawn(any_state)),
    ),
)

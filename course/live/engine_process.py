"""The live engine's own process: an order comes in, a step is run, and what it did goes out.

    python -m course.live.engine_process LINK

Orders and answers are lines of JSON. The room decides when a step is run, so that a class can watch
it; the process ends with the room.
"""

import json
from typing import IO

import torch

from course.live.live_engine import Ask, LiveEngine
from course.live.tuning import Tuning
from nanogpt.checkpoints.weights import load_model
from nanogpt.child_process import parent_link


def serve(orders: IO[str], answers: IO[str]) -> None:
    """Answer every order until they end.

    The first is {"first_step", "tuning"} and is answered by {"ready": true}; the others are
    {"asks", "tuning"} and are answered by what `LiveEngine.step` returns.
    Float64, so that a text comes out the same whatever it shares a step with.
    """
    first = json.loads(next(orders))
    model = load_model(dtype=torch.float64)
    live = LiveEngine(model, Tuning(**first["tuning"]), first["first_step"])
    _say(answers, {"ready": True})
    for line in orders:
        order = json.loads(line)
        tuning = Tuning(**order["tuning"])
        if tuning != live.tuning:
            live.tune(tuning)
        _say(answers, live.step([Ask(**ask) for ask in order["asks"]]))


def _say(answers: IO[str], answer: object) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def main() -> None:
    """Set the process up and serve."""
    link = parent_link()
    torch.set_num_threads(1)  # the other core is the server's
    with torch.inference_mode():
        serve(link.makefile(encoding="utf-8"), link.makefile("w", encoding="utf-8"))


if __name__ == "__main__":
    main()

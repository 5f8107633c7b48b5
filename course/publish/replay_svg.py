"""The README's moving picture: a learner's plan replayed beside the reference.

`python -m course.publish.replay_svg` writes docs/images/replay.svg from runs of the engine. It
needs no script and no font, follows light and dark, and stands still where motion is reduced.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from course.publish.page_templates import render
from course.publish.showcase import first_difference, runs
from nanogpt import Trace, decode
from nanogpt.experiments.trace_waits import wait_reasons
from nanogpt.trace import StepRecord, WaitRecord

FILE = Path(__file__).parents[2] / "docs" / "images" / "replay.svg"
NUM_STEPS, NUM_REQUESTS = 17, 5
_STEP_S, _PAUSE_S, _END_S = 0.55, 4.0, 2.5
_SHOWN = {" ": "·", "\n": "⏎"}


def picture(yours: Trace, reference: Trace) -> str:
    """The SVG: two panels, a column for each step, and each step in words."""
    differs = first_difference(yours, reference)
    lasts = [_PAUSE_S if at == differs else _STEP_S for at in range(NUM_STEPS)]
    seconds = sum(lasts) + _END_S
    begins = [100 * start / seconds for start in accumulate([0.0, *lasts])]
    waits = [wait_reasons(trace) for trace in (yours, reference)]
    steps: list[dict[str, object]] = []
    for at in range(NUM_STEPS):
        mine, theirs = yours.steps[at], reference.steps[at]
        words, more = f"Step {at}: {_work(mine)}.", ""
        if at == differs:
            words = f"Step {at} is the first that differs. Yours: {_work(mine)}."
            more = f"The reference: {_work(theirs)}."
        cells = [list(_cells(mine, waits[0][at])), list(_cells(theirs, waits[1][at]))]
        steps.append({"begins": begins[at], "words": words, "more": more, "cells": cells})
    return render("replay.svg", steps=steps, differs=differs, seconds=seconds) + "\n"


def _cells(step: StepRecord, waits: Sequence[WaitRecord]) -> Iterator[tuple[str, int, str]]:
    """The look, row and words of the first requests' cells."""
    for work in step.work:
        if work.request_id < NUM_REQUESTS:
            is_token = work.kind == "decode" and work.sampled is not None
            words = decode([work.sampled or 0]) if is_token else f"{work.end - work.start}"
            yield "one" if is_token else "full", work.request_id, _SHOWN.get(words, words)
    yield from (("wait", each.request_id, "") for each in waits if each.request_id < NUM_REQUESTS)


def _work(step: StepRecord) -> str:
    decodes = sum(work.kind == "decode" for work in step.work)
    said = [f"{decodes} decode{'s' if decodes > 1 else ''}"] if decodes else []
    said += [
        f"request {work.request_id} prefills {work.end - work.start} tokens"
        for work in step.work
        if work.kind == "prefill"
    ]
    return ", ".join(said)


if __name__ == "__main__":
    FILE.write_text(picture(*runs()), encoding="utf-8")

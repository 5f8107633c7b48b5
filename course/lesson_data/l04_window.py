"""Behind lesson 4: its requests, storage in pictures, and what the learner's functions did."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from course.attempt import Attempt
from course.calling.jobs import RunError, run
from course.calling.plain_values import as_whole
from course.lesson_data.texts import arriving, table, wrong_texts
from nanogpt import GPT, Engine, EngineConfig, Trace
from nanogpt.clock import SERVER_CPU, CostClock
from nanogpt.policies import sliding_window
from widgets import whose

_three_requests = arriving((0, "MERCUTIO", 40), (0, "ROMEO:", 40), (5, "BENVOLIO", 40))
five_requests = arriving(
    (0, "MACBETH:\nTo-morrow, and to-morrow, and to-morrow,\nCreeps in this petty pace ", 24),
    (0, "ROMEO:\nBut, soft! what light", 20),
    (2, "PORTIA:\nThe quality of mercy is not strain'd,\n", 24),
    (6, "JULIET:\nO Romeo, Romeo! ", 16),
    (9, "HAMLET:\nAlas, poor Yorick! ", 20),
)

# --- KV tokens over time ------------------------------------------------------------------------


def grown(model: GPT, window: int | None) -> dict[str, Any]:
    """A run of three requests of 40 new tokens each, as a KVGrowth takes it."""
    engine = Engine(model, EngineConfig(sliding_window=window), clock=CostClock(SERVER_CPU))
    label = "no window" if window is None else f"W = {window}"
    return {"label": label, "window": window, "trace": engine.run(_three_requests()).to_json()}


# --- masks --------------------------------------------------------------------------------------


def drawn_masks(attempt: Attempt) -> list[dict[str, Any]]:
    """A window of 4 and 1 sink for a MaskStepper, by the learner's `visible` and the reference."""
    labels = list("The quality of")

    def pairs(visible: Callable[..., bool]) -> list[list[bool]]:
        mask = [[visible(q, k, 4, 1) for k in range(len(labels))] for q in range(len(labels))]
        if any(cell not in (False, True) for row in mask for cell in row):
            raise ValueError("neither True nor False")
        return [[bool(cell) for cell in row] for row in mask]

    mask = pairs(sliding_window.visible)
    right = {"name": "the reference", "context_columns": 0, "labels": labels, "mask": mask}
    if not attempt.started:
        return [{**right, "name": whose(False)}]
    try:
        mine = run(pairs, attempt.or_reference(sliding_window.visible))
    except RunError:
        note = "Your `visible` does not return True or False for every pair, so it cannot be drawn."
        return [{**right, "note": note}]
    return [{**right, "name": "yours", "mask": mine}, right]


# --- storage ------------------------------------------------------------------------------------


def storage_story() -> list[dict[str, Any]]:
    """Ten requests of 40 entries in one batch, one head's K: steps of a StorageStrip."""
    batch = torch.zeros(10, 40, 8)  # (B, S, D), float32
    mine = batch[3:4]  # what disassembling the batch gives request 3
    last = mine[:, -20:]
    copy = last.clone()
    both = {"the batch": batch, "the copy": copy}
    moments: list[tuple[str, dict[str, torch.Tensor], dict[str, torch.Tensor]]] = [
        ("One head's keys of ten requests in one buffer, 40 entries each.",
         {"the batch": batch}, {"the whole batch": batch}),
        ("Request 3 keeps its row, which is a view. The others are finished.",
         {"the batch": batch}, {"request 3": mine}),
        ("Evicting by a slice: request 3 keeps a view of its last 20 entries.",
         {"the batch": batch}, {"request 3": last}),
        ("Evicting by a copy: the 20 entries get their own storage. For a moment both exist.",
         both, {"the view": last, "request 3": copy}),
        ("The view is deleted. It was the last one, so the buffer is freed.",
         {"the copy": copy}, {"request 3": copy}),
    ]  # fmt: skip
    return [_moment(*each) for each in moments]


def _moment(
    words: str, buffers: Mapping[str, torch.Tensor], tensors: Mapping[str, torch.Tensor]
) -> dict[str, Any]:
    storages = {name: each.untyped_storage() for name, each in buffers.items()}
    places = {each.data_ptr(): index for index, each in enumerate(storages.values())}
    return {
        "words": words,
        "storages": [{"label": n, "nbytes": each.nbytes()} for n, each in storages.items()],
        "views": [
            {
                "label": name,
                "storage": places[each.untyped_storage().data_ptr()],
                "offset_bytes": each.storage_offset() * each.element_size(),
                "nbytes": each.numel() * each.element_size(),
            }
            for name, each in tensors.items()
        ],
        "live_bytes": sliding_window.live_bytes(tensors.values()),
        "counted_bytes": sum(each.numel() * each.element_size() for each in tensors.values()),
    }


def ring_steps(attempt: Attempt) -> list[dict[str, Any]] | str:
    """Steps of a StorageStrip by the learner's `rolling_buffer_index`, or a sentence."""
    window, sinks = 5, 2
    if not attempt.started:
        return (
            "Once you have written `rolling_buffer_index`, a picture here puts sixteen positions "
            "into your seven slots."
        )

    def slots_of(rolling_buffer_index: Callable[..., int]) -> list[int]:
        found = (as_whole(rolling_buffer_index(position, window, sinks)) for position in range(16))
        inside = [slot for slot in found if slot is not None and 0 <= slot < window + sinks]
        if len(inside) < 16:
            raise ValueError("no such slot")
        return inside

    try:
        found = run(slots_of, attempt.or_reference(sliding_window.rolling_buffer_index))
    except RunError:
        return (
            "Your `rolling_buffer_index` returned a slot outside the seven, so it cannot be drawn; "
            "its check says more."
        )
    slots: list[int | None] = [None] * (window + sinks)
    steps: list[dict[str, Any]] = []
    for position, slot in enumerate(found):
        over = "" if slots[slot] is None else f" and overwrites position {slots[slot]}"
        slots[slot] = position
        cells = [{"position": each, "new": each == position} for each in slots]
        words = f"Position {position} goes into slot {slot}{over}."
        steps.append({"words": words, "slots": cells, "sinks": sinks, "window": window})
    return steps


# --- the learner's run --------------------------------------------------------------------------


def runs_table(model: GPT, settings: EngineConfig, runs: Mapping[str, Trace]) -> str:
    """For each run: whether its texts are the oracle's, its most KV tokens, and its counts."""
    head = (
        "| run | texts, compared with the oracle's | largest request | highest peak of all "
        "| KV tokens charged, compared with held ones | bytes alive, compared with held ones |"
    )
    rows: list[str] = []
    for name, trace in runs.items():
        wrong = wrong_texts(five_requests(), model, settings, trace)
        texts = f"request {', '.join(map(str, wrong))} **differs**" if wrong else "all equal"
        said = f" ({trace.error})" if trace.error else ""
        rows.append(f"| {name}{said} | {texts} | {_counts(model, trace)} |")
    return table(head, "llrrll", rows)


def _counts(model: GPT, trace: Trace) -> str:
    """The last four cells of a row of `runs_table`."""
    kv = [each for step in trace.steps for each in step.kv]
    size = 2 * model.config.num_layers * model.config.num_channels * 8  # K and V, float64
    counted = all(each.kv_tokens == each.kv_tokens_charged for each in kv)
    alive = all(each.live_bytes == each.kv_tokens * size for each in kv)
    most = max((each.kv_tokens for each in kv), default=0)
    peak = max((step.kv_peak for step in trace.steps), default=0)
    counts, bytes_ = ("equal" if same else "**differ**" for same in (counted, alive))
    return f"{most} | {peak} | {counts} | {bytes_}"

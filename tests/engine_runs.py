"""Engine runs over every setting there is: their loads, their engines and their requests."""

from typing import Any

from fakes import prompt_of, tiny_model

from nanogpt import Engine, EngineConfig, Policies
from nanogpt.clock import SERVER_CPU, CostClock
from nanogpt.request import Request
from nanogpt.speculative.trigram import TrigramDraft

# (arrival step, prompt length, max_new_tokens, priority)
BURST = ((0, 9, 6, 1), (0, 3, 8, 2), (0, 17, 4, 0), (0, 1, 9, 1), (0, 6, 6, 2))
TRICKLE = ((0, 5, 10, 2), (1, 21, 5, 1), (3, 2, 12, 2), (4, 11, 3, 0), (9, 8, 7, 0), (30, 4, 4, 1))
LOADS = {"burst": BURST, "trickle": TRICKLE}
TIGHT = {"max_kv_tokens": 32, "max_batch_size": 4}
URGENT = {**TIGHT, "policy": "priority", "preempt_to_admit": True}

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "small budget": {"token_budget": 3},
    "one prompt at a time": {"max_prefilling": 1, "token_budget": 8},
    "tight": TIGHT,
    "sampled": {**TIGHT, "temperature": 0.8, "seed": 3},
    "shortest first": {**TIGHT, "policy": lambda view: (view.max_new_tokens, view.id)},
    "urgent": URGENT,
    "ring": {"sliding_window": 6, "kv_storage": "ring"},
    "ring with sinks": {"sliding_window": 6, "num_sinks": 2, "kv_storage": "ring", **TIGHT},
    "evict with sinks": {"sliding_window": 6, "num_sinks": 2, "kv_storage": "evict", **URGENT},
}
OF_PACKED: dict[str, dict[str, Any]] = {
    "batch invariant": {**TIGHT, "executor": "batch_invariant"},
    "blocks": {**TIGHT, "block_size": 4, "share_prefixes": True},
    "blocks, window": {
        **URGENT, "block_size": 2, "share_prefixes": True, "sliding_window": 6, "num_sinks": 1,
    },
    "drafts": {"num_draft_tokens": 3},
    "drafts, urgent": {**URGENT, "num_draft_tokens": 3},
    "drafts, sampled, blocks": {
        **TIGHT, "temperature": 0.8, "num_draft_tokens": 2, "block_size": 4, "share_prefixes": True,
    },
}  # fmt: skip


def runs() -> dict[str, tuple[str, dict[str, Any]]]:
    """Every run by its name: its load, and the settings of its engine."""
    executors, loads = ("packed", "padded", "fused", "single_mask"), tuple(LOADS)
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for at, (name, how) in enumerate(SETTINGS.items()):
        for turn, executor in enumerate(executors, at):  # so that each executor meets both loads
            found[f"{name}, {executor}"] = loads[turn % 2], {**how, "executor": executor}
    for name, how in OF_PACKED.items():
        found |= {f"{name}, {load}": (load, how) for load in LOADS}
    return found


def engine_of(settings: dict[str, Any], policies: Policies) -> Engine:
    """A new engine with the tiny model, and with a draft where the settings ask for one."""
    draft = TrigramDraft.load() if settings.get("num_draft_tokens") else None
    config, clock = EngineConfig(**settings), CostClock(SERVER_CPU)
    return Engine(tiny_model(), config, policies, clock=clock, draft=draft)


def arrivals_of(load: str) -> list[tuple[int, Request]]:
    """A load's requests, new ones."""
    return [
        (step, Request(i, prompt_of(0 if i == 3 else i, length), max_new, priority))
        for i, (step, length, max_new, priority) in enumerate(LOADS[load])
    ]

"""Records that the widgets take: small, new with each call, from the engine and the lessons.

A function named after a widget returns arguments that the widget takes.
"""

from __future__ import annotations

import math
from typing import Any

Record = dict[str, Any]
MS = 1_000_000  # nanoseconds
BEGUN_NS = 10**12


def of(kind: str) -> Record:
    """Arguments for the widget of this name, such as "FleetView"."""
    return globals()["".join(f"_{c.lower()}" if c.isupper() else c for c in kind).lstrip("_")]()


# ---- runs of an engine ---------------------------------------------------------------------------


def planned(*asks: tuple[int, int, int], error: str | None = None, **settings: Any) -> Record:
    """A run that computes nothing, of (arrival step, prompt's length, new tokens) each."""
    from nanogpt import Engine, EngineConfig, Request
    from nanogpt.clock import LARGE_GPU, CostClock
    from nanogpt.recorded_texts import RecordedTexts

    arrivals = [
        (step, Request(i, [32, 53] * (length // 2), new, i))
        for i, (step, length, new) in enumerate(asks)
    ]
    engine = Engine(RecordedTexts(), EngineConfig(**settings), clock=CostClock(LARGE_GPU))
    return engine.run(arrivals).to_json() | {"error": error}


def chunked_run(chunk: int, error: str | None = None) -> Record:
    """Two requests: 0 decodes while 1's prompt of 24 runs in chunks of `chunk` tokens."""
    return planned((0, 6, 15), (1, 24, 12), token_budget=chunk + 1, error=error)


def preempting_run(num_steps: int = 11, **more: Any) -> Record:
    """Two requests, a budget of 22: request 1 gives way in step 2 and comes back in step 6."""
    whole = planned((0, 10, 6), (1, 10, 6), max_kv_tokens=22)
    return {**whole, "steps": whole["steps"][:num_steps], **more}


def windowed_run(
    window: int | None, counted: int | None = None, error: str | None = None
) -> Record:
    """Two requests of 6 tokens; 1 comes in step 2 and is preempted in step 4 without a window."""
    from course.lesson_data.l01_chunks import one_tiny_layer
    from nanogpt import Engine, EngineConfig, Request

    storage = {"sliding_window": window, "kv_storage": "evict"} if window else {}
    config = EngineConfig(executor="fused", max_kv_tokens=16, **storage)
    arrivals = [(2 * i, Request(i, [1] * 6, 6)) for i in range(2)]
    trace = Engine(one_tiny_layer(), config).run(arrivals).to_json() | {"error": error}
    for kv in (each for step in trace["steps"] for each in step["kv"]):
        kv["kv_tokens_charged"] = min(kv["kv_tokens"], counted or kv["kv_tokens"])
        kv["live_bytes"] = 64 * kv["kv_tokens"]
    label = "no window" if window is None else f"W = {window}"
    return {"label": label, "window": window, "trace": trace}


def pool_run(**policies: Any) -> Record:
    """What a small engine's pool of blocks went through, with these parts of its own."""
    from course.lesson_data.l01_chunks import one_tiny_layer
    from course.lesson_data.l07_pool import SETTINGS, six_requests
    from course.replay import replay
    from nanogpt import Engine, Policies

    return replay(
        Engine(one_tiny_layer(), SETTINGS, Policies(**policies)), six_requests()
    ).to_json()


def beginnings_first(blocks: list[Any]) -> list[int]:
    """An order in which what others stand behind gives way first."""
    free = [block for block in blocks if not block.count]
    return [block.id for block in sorted(free, key=lambda b: (b.last_used, b.depth))]


def timeline() -> Record:
    return {"trace": chunked_run(24), "reference": chunked_run(8), "yours": True}


def k_v_budget() -> Record:
    return {"trace": preempting_run()}


def k_v_growth() -> Record:
    return {"runs": [windowed_run(window) for window in (None, 7, 5, 4)], "bytes_per_token": 64}


def block_pool() -> Record:
    return {"trace": pool_run()}


def prefix_tree() -> Record:
    return {"trace": pool_run()}


# ---- a step's costs, masks and batches -----------------------------------------------------------


def batching() -> Record:
    def side(name: str, length: int, *spans: tuple[int, int, int, int]) -> Record:
        names = ("request", "slot", "start", "end")
        found = [dict(zip(names, span, strict=True)) for span in spans]
        return {"name": name, "slots": 2, "length": length, "spans": found}

    return {
        "static": side("static", 8, (0, 0, 0, 5), (1, 1, 0, 2), (2, 0, 5, 8)),
        "continuous": side("continuous", 5, (0, 0, 0, 5), (1, 1, 0, 2), (2, 1, 2, 5)),
    }


def mask_stepper() -> Record:
    def mask(name: str, wrong: bool) -> Record:
        cells = [[wrong or key <= 3 + row for key in range(7)] for row in range(4)]
        return {"name": name, "context_columns": 3, "mask": cells, "labels": list("To be, ")}

    return {"masks": [mask("yours", True), mask("right", False)]}


def batch_view() -> Record:
    """Lesson 3's step: three decodes and the first 8 tokens of a prompt."""
    from course.lesson_data import l03_batch as step
    from nanogpt.policies import fusing

    cu_seqlens_q, cu_seqlens_k, mask = fusing.pack(step.NUM_COMPUTED, step.NUM_SCHEDULED)
    return {
        "rows": step.batch_rows(), **step.batch(), "num_scheduled_tokens": step.NUM_SCHEDULED,
        "packed": {
            "cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k, "mask": mask.tolist(),
        },
    }  # fmt: skip


def wrong_batch() -> Record:
    """Right-padded, one position too far, and a mask that leaks, beside the right one."""
    right = batch_view()
    turned = [
        [*row[8 - n :], *row[: 8 - n]]
        for row, n in zip(right["tokens"], right["num_scheduled_tokens"], strict=True)
    ]
    later = [[each + 1 if each > 7 else each for each in row] for row in right["positions"]]
    mask = [[*row] for row in right["packed"]["mask"]]
    mask[1][:22] = [True] * 22
    packed = {**right["packed"], "cu_seqlens_k": [0, 21, 35, 43, 43], "mask": mask}
    reference = {name: right[name] for name in ("tokens", "positions", "texts", "packed")}
    changes = {"tokens": turned, "positions": later, "texts": None, "packed": packed}
    return {**right, **changes, "reference": reference}


def mask_build() -> Record:
    """The interleaving post's mask in five steps, with row A two tokens short."""
    from course.lesson_data.l03_batch import posts_example

    return {"steps": posts_example()}


def compared_mask() -> Record:
    """One that lets a decode see its padding, beside the right one."""
    from course.lesson_data.l03_exhibits import padding_in_sight_steps

    return {"steps": padding_in_sight_steps(), "names": ("theirs", "the right")}


# ---- questions -----------------------------------------------------------------------------------


def prediction() -> Record:
    options = ["Yes", "Only with one layer", "No"]
    reveal = "Rows above were **poisoned**."
    return {
        "key": "p", "question": "Is it `right`?", "options": options, "answer": 1, "reveal": reveal,
    }  # fmt: skip


def hints() -> Record:
    return {"key": "h", "hints": ["Look **twice**.", "Use `min`.", "<b>Take</b> the smaller."]}


# ---- queues and windows --------------------------------------------------------------------------


def heap_stepper() -> Record:
    from course.lesson_data.l02_heap import record_heap

    def push(request_id: int, *key: int) -> Record:
        return {"op": "push", "entry": {"id": request_id, "key": list(key)}}

    short = {"held": 14, "candidate": 10, "budget": 22, "batch": 1, "max_batch": 4}
    look = {"op": "look", "admission": {**short, "verdict": "wait"}}
    pop = {"op": "pop", "admission": {**short, "held": 4, "verdict": "admit"}}
    keys = [(2, 0), (1, 1), (2, 2), (0, 3), (1, 3), (2, 4), (0, 5)]
    pushes = [push(request_id, *key) for request_id, key in enumerate(keys)]
    return {"operations": record_heap([*pushes, look, pop, pop])}


def storage_strip() -> Record:
    from course.lesson_data.l04_window import storage_story

    return {"steps": storage_story()}


def ring(window: int = 6, sinks: int = 2, positions: int = 12) -> Record:
    """The other form of a storage strip: slots that are written over."""
    slots: list[int | None] = [None] * (window + sinks)
    steps = []
    for new in range(positions):
        at = new if new < sinks else sinks + (new - sinks) % window
        slots[at] = new
        found = [{"position": each, "new": each == new} for each in slots]
        words = f"Position {new} goes to slot {at}."
        steps.append({"words": words, "slots": found, "sinks": sinks, "window": window})
    return {"steps": steps}


def attention_by_distance() -> Record:
    weights = [
        [[math.exp(-d / (1 + 4 * layer + 3 * head)) for d in range(40)] for head in range(3)]
        for layer in range(2)
    ]
    return {"weights": weights, "window": 8}


def receptive_field() -> Record:
    return {"window": 8, "num_layers": 4, "num_positions": 48, "probe": 27}


# ---- deadlines -----------------------------------------------------------------------------------

A, C = 100.0, 10_000.0


def slack_case(label: str, deadline: int, rate: float = 0.0) -> Record:
    """500 tokens, seen every 20 ms; `rate` tokens are computed per microsecond."""
    from nanogpt.slo.policy import edf_score, predict, slack

    moments = []
    for now in range(0, 60_001, 20_000):
        done = int(now * rate)
        spare = slack(now, deadline, 500, done, A, C)
        moments.append({
            "now_us": now, "done_tokens": done, "predicted_us": predict(500 - done, A, C),
            "slack_us": spare, "edf_score": edf_score(spare, deadline - now),
        })  # fmt: skip
    return {
        "label": label, "arrival_us": 0, "deadline_us": deadline, "total_tokens": 500,
        "a": A, "c": C, "moments": moments,
    }  # fmt: skip


def slack_timeline() -> Record:
    return {"cases": [slack_case("fits", 150_000), slack_case("too late", 90_000)]}


def running_slack() -> Record:
    return {"cases": [slack_case("running", 75_000, rate=0.005)]}


def gate_picture() -> Record:
    from nanogpt.slo.policy import edf_score

    def seen(number: int, spare: int, left: int, **more: Any) -> Record:
        return {"id": number, "slack_us": spare, "edf_score": edf_score(spare, left), **more}

    calm = seen(1, 300_000, 900_000, immune=False)
    tight = seen(2, 80_000, 120_000, immune=False)
    lost = seen(3, -3_000, 100_000, immune=False)
    spared = seen(4, 50_000, 60_000, immune=True)
    hurried, late = seen(7, 20_000, 60_000), seen(7, -20_000, 91_000)
    cases = [
        (hurried, [calm, tight], 2, 1, "It passes."),
        (late, [tight, calm], 2, None, "Too late for it."),
        (hurried, [lost, spared], 3, 3, "The incumbent is lost."),
        (late, [lost], 3, None, "Both are lost."),
        (hurried, [spared], None, None, "All are immune."),
    ]
    names = ("candidate", "running", "incumbent", "victim", "words")
    return {"decisions": [{**dict(zip(names, each, strict=True)), "margin": 1.2} for each in cases]}


# ---- a preempted pass ----------------------------------------------------------------------------


def preemption(layer: int = 7, written_ms: float = 210.4, num_layers: int = 12, **changes: Any):
    """Two ranks, 30 ms per layer, rank 1 2 ms behind; it sees the write at the last layer."""
    checks = [
        [
            {
                "layer": each, "reached_ns": BEGUN_NS + (30 * each + 2 * rank) * MS,
                "vote": int(each == layer and rank == 1), "agree_ns": MS - rank * MS // 2,
            }
            for each in range(min(layer + 1, num_layers))
        ]
        for rank in range(2)
    ]  # fmt: skip
    return {
        "step": 4, "pass_number": 17, "layer": layer, "num_layers": num_layers, "candidate": 7,
        "victims": [3], "begun_ns": BEGUN_NS, "written_ns": BEGUN_NS + int(written_ms * MS),
        "replied_ns": BEGUN_NS + (30 * layer + 4) * MS, "resumed_ns": None, "checks": checks,
        **changes,
    }  # fmt: skip


def vote_board() -> Record:
    def ending(how: str, words: str) -> Record:
        return {"how": how, "layer": 7, "words": words}

    alone = [ending("hangs", "waits for rank 1"), ending("left", "left without a vote")]
    crash = [ending("crashed", "lost its socket"), ending("hangs", "waits for rank 0")]
    record = preemption(replied_ns=None)
    return {
        "boards": [
            {"label": "with a vote", "words": "As it should be.", "record": preemption()},
            {"label": "alone", "words": "", "record": record, "endings": alone},
            {"label": "crash", "words": "", "record": record, "endings": crash},
            {"label": "too late", "words": "", "record": preemption(12, 350)},
            {"label": "no collective", "words": "", "record": preemption(), "agreement": "epoch"},
        ]
    }


def slo_cycle(**changes: Any) -> Record:
    times = {
        "arrived_us": 205_000, "looked_us": 206_000, "cleaned_us": 215_000,
        "readmitted_us": 216_000, "first_token_us": 260_000,
    }  # fmt: skip
    known = {name: BEGUN_NS // 1000 + time for name, time in times.items()}
    return {"cycle": {"record": preemption(**changes), **known}, "source": "recorded"}


# ---- a fleet -------------------------------------------------------------------------------------


def fleet_view() -> Record:
    """Request 1 is preempted, comes back and is late; request 2 is refused."""

    def asked(number: int, deadline: int, first: int | None, finished: int | None, **changes: Any):
        return {
            "id": number, "arrival_us": 5000 * number, "deadline_us": deadline, "priority": number,
            "prompt_tokens": 30, "max_new_tokens": 8, "first_token_us": first,
            "finished_us": finished, "refused": False, **changes,
        }  # fmt: skip

    def visit(number: int, worker: int, start: int, end: int, ended: str) -> Record:
        return {
            "request_id": number, "worker": worker, "dispatched_us": start, "start_us": start,
            "end_us": end, "hit_tokens": 10 * worker, "computed_tokens": 20,
            "generated_tokens": 4, "ended": ended,
        }  # fmt: skip

    def one(worker: int, start: int, end: int, kind: str, ids: list[int]) -> Record:
        return {
            "worker": worker, "start_us": start, "end_us": end, "kind": kind, "num_steps": 3,
            "request_ids": ids, "reserved_tokens": 40, "cached_tokens": 25,
        }  # fmt: skip

    trace = {
        "version": 1, "name": "by hand", "cost": {"name": "source", "modelled": True},
        "num_workers": 2, "batch_size": 4, "kv_tokens": 100, "end_us": 100_000,
        "requests": [
            asked(0, 60_000, 10_000, 40_000), asked(1, 50_000, 20_000, 90_000),
            asked(2, 70_000, None, None, refused=True, prompt_tokens=200),
        ],
        "visits": [
            visit(0, 0, 0, 40_000, "finished"), visit(1, 1, 6_000, 25_000, "preempted"),
            visit(1, 0, 45_000, 90_000, "finished"),
        ],
        "runs": [
            one(0, 0, 10_000, "prefill", [0]), one(0, 10_000, 40_000, "decode", [0]),
            one(1, 6_000, 25_000, "prefill", [1]), one(0, 45_000, 90_000, "decode", [1]),
        ],
        "decisions": [{"at_us": 10_000, "kind": "refuse", "request_id": 2, "worker": None}],
        "error": "your decide named worker 9, which is not there",
    }  # fmt: skip
    return {"trace": trace}


def simulated_fleet(rps: float = 30, duration_s: float = 2, *, fifo: bool = False) -> Record:
    from nanogpt.fleet.fleet_config import ADAPTIVE, FIFO
    from nanogpt.fleet.simulation import simulate
    from nanogpt.fleet.workload import make_workload

    load = make_workload("steady", rps, duration_s, 42)
    return simulate(FIFO if fifo else ADAPTIVE, load).to_json()


def lazy_heap() -> Record:
    """A heap whose removal forgets the counter, so that the next push revives an old entry."""
    from course.lesson_data.l09_lazy_heap import heap_story

    def dropping(newest: Any, request_id: int):
        return {who: count for who, count in newest.items() if who != request_id}

    events = [("push", 3, (1, 200)), ("push", 5, (0, 300)), ("remove", 3), ("push", 3, (2, 100))]
    return {"story": heap_story(events, remove=dropping)}


# ---- speculation ---------------------------------------------------------------------------------


def speculation_strip(num_passes: int = 12) -> Record:
    def draft(text: str, kept: bool, u: float | None = 0.2) -> Record:
        return {"text": text, "token": 1, "kept": kept, "p": 0.3, "q": 0.6, "u": u}

    def one(text: str, kind: str, *drafts: Record) -> Record:
        return {"drafts": [*drafts], "last": {"text": text, "token": 2, "kind": kind}}

    passes = [
        one(" ", "bonus", draft("h", True), draft("e", True)),
        one("\n", "resampled", draft("x", False, 0.7), draft("y", False, None)),
        one("W", "plain"),
    ]
    story = {
        "version": 1, "prompt": "ROMEO:\n", "num_draft_tokens": 2, "temperature": 0.8,
        "passes": (passes * num_passes)[:num_passes],
    }  # fmt: skip
    return {"story": story}


def accept_bars(*, from_p: bool = False) -> Record:
    """p = 1/8, 2/8, 5/8 and q = 5/8, 1/8, 2/8, by the rule, or with a second draw from p."""
    p, q = [1 / 8, 2 / 8, 5 / 8], [5 / 8, 1 / 8, 2 / 8]
    grid = [(i + 0.5) / 40 for i in range(40)]
    missing = p if from_p else [max(0, a - b) for a, b in zip(p, q, strict=True)]

    def outcome(token: int, u: float, v: float) -> list[Any]:
        if u * q[token] < p[token]:
            return [True, token]
        return [False, next(i for i in range(3) if v * sum(missing) < sum(missing[: i + 1]))]

    outcomes = [[[outcome(token, u, v) for v in grid] for u in grid] for token in range(3)]
    return {"p": p, "q": q, "outcomes": outcomes, "tokens": ["a", "b", "c"]}

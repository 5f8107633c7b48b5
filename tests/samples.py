"""Records that the widgets take: small, made by hand, and new with each call.

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


def work(request_id: int, kind: str, start: int, end: int, sampled: int | None = 1) -> Record:
    return {"request_id": request_id, "kind": kind, "start": start, "end": end, "sampled": sampled}


def step(number: int, start: int, end: int, shares: list[Record], **more: Any) -> Record:
    return {
        "step": number, "start_us": start, "end_us": end, "token_budget": 16, "work": shares,
        "waits": [], "admitted": [], "preempted": [], "finished": [], "forwards": [],
        "kv_before": 0, "kv_after": 0, "kv": [], **more,
    }  # fmt: skip


def request(request_id: int, prompt: list[int], at_us: int, **more: Any) -> Record:
    return {
        "id": request_id, "prompt_tokens": prompt, "max_new_tokens": 6, "priority": 0,
        "arrival_step": request_id, "arrival_us": at_us, **more,
    }  # fmt: skip


def run(requests: list[Record], steps: list[Record], **more: Any) -> Record:
    return {
        "version": 2, "clock": {"name": "a large GPU", "modelled": True}, "executor": "packed",
        "token_budget": 16, "max_kv_tokens": None, "requests": requests, "steps": steps,
        "error": None, **more,
    }  # fmt: skip


def chunked_run(chunk: int, error: str | None = None) -> Record:
    """Two requests: 0 decodes while 1's prompt of 24 runs in chunks of `chunk` tokens."""
    steps = [step(0, 0, 800, [work(0, "prefill", 0, 6, 43)], token_budget=9)]
    cursor, known = 0, 6
    while known < 20:
        shares, waits, end = [work(0, "decode", known, known + 1, 46)], [], min(24, cursor + chunk)
        if cursor < 24:
            shares.append(work(1, "prefill", cursor, end, 39 if end == 24 else None))
        elif known % 2:
            shares.append(work(1, "decode", 24, 25))
        else:
            waits.append({"request_id": 1, "status": "active", "reason": "the budget is spent"})
        start = steps[-1]["end_us"]
        cost = 500 + 100 * sum(share["end"] - share["start"] for share in shares)
        more = {"waits": waits, "token_budget": 9}
        steps.append(step(len(steps), start, start + cost, shares, **more))
        cursor, known = end, known + 1
    steps[-1]["finished"] = [0, 1]
    prompts = [30, 27, 25, 17, 27, 10], [32, 53] * 12
    requests = [
        request(number, prompt, 800 * number, max_new_tokens=15)
        for number, prompt in enumerate(prompts)
    ]
    return run(requests, steps, token_budget=9, error=error)


def preempting_run(num_steps: int = 9, **more: Any) -> Record:
    """Two requests, a budget of 22: request 1 gives way in step 2 and comes back in step 6."""
    wait = [{"request_id": 1, "status": "waiting", "reason": "the KV budget is short"}]

    def at(number: int, kv: dict[int, int], *shares: Record, **more: Any) -> Record:
        held = [{"request_id": each, "kv_tokens": tokens} for each, tokens in kv.items()]
        end = 5000 * number + 5000 - 100 * number
        more = {"kv_after": sum(kv.values()), "kv": held, **more}
        return step(number, 5000 * number, end, list(shares), **more)

    steps = [
        at(0, {0: 10}, work(0, "prefill", 0, 10), admitted=[0]),
        at(1, {0: 11, 1: 11}, work(0, "decode", 10, 11), work(1, "prefill", 0, 11)),
        at(2, {0: 12}, work(0, "decode", 11, 12), preempted=[1], waits=wait),
        at(3, {0: 13}, work(0, "decode", 12, 13), waits=wait),
        at(4, {0: 14}, work(0, "decode", 13, 14), waits=wait),
        at(5, {}, work(0, "decode", 14, 15), waits=wait, finished=[0]),
        at(6, {1: 12}, work(1, "prefill", 0, 12), admitted=[1]),
        at(7, {1: 13}, work(1, "decode", 12, 13)),
        at(8, {}, work(1, "decode", 13, 14), finished=[1]),
    ]
    requests = [request(each, [1] * 10, 5000 * each, priority=each) for each in range(2)]
    return run(requests, steps[:num_steps], **{"max_kv_tokens": 22, **more})


def windowed_run(window: int | None, counted: int | None = None, error: str | None = None):
    """Two requests of 6 tokens; 1 comes in step 2 and is preempted in step 4 without a window."""
    steps = []
    for number, tokens in enumerate([(6,), (7,), (8, 6), (9, 7), (10,), (11,), ()]):
        kept = [min(each, window or each) for each in tokens]
        kv = [
            {
                "request_id": i, "kv_tokens": n, "live_bytes": 64 * n,
                "kv_tokens_charged": n if counted is None else min(n, counted),
            }
            for i, n in enumerate(kept)
        ]  # fmt: skip
        forward = {"useful_tokens": len(kept), "computed_tokens": len(kept) + number % 3}
        shares = [work(i, "decode", n - 1, n) for i, n in enumerate(tokens)]
        more = {
            "preempted": [1] if number == 4 else [], "kv": kv, "forwards": [forward],
            "kv_after": sum(kept), "kv_peak": sum(kept) + len(kept) * bool(window),
        }  # fmt: skip
        steps.append(step(number, 1000 * number, 1000 * number + 900, shares, **more))
    requests = [request(i, [1] * 6, 2000 * i, arrival_step=2 * i) for i in range(2)]
    more = {"executor": "padded", "max_kv_tokens": 16, "error": error}
    label = "no window" if window is None else f"W = {window}"
    return {"label": label, "window": window, "trace": run(requests, steps, **more)}


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


def work_bars() -> Record:
    return {
        "series": [{"name": "without", "tokens": [5, 6, 7]}, {"name": "with", "tokens": [5, 1, 1]}]
    }


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


CURSORS, NUM_NEW = [21, 14, 8, 0], [1, 1, 1, 8]


def batch_view() -> Record:
    """The post's step: three decodes and the first 8 tokens of a prompt; positions put right."""
    from nanogpt.policies import fusing

    text = "To be, or not to be, that is the question"
    ends = [cursor + n for cursor, n in zip(CURSORS, NUM_NEW, strict=True)]
    known = [[ord(letter) for letter in text[:end]] for end in ends]
    tokens, positions = fusing.prepare_inputs(known, CURSORS, NUM_NEW)
    texts = [[chr(token) if token else "" for token in row] for row in tokens]
    cu_seqlens_q, cu_seqlens_k, mask = fusing.pack(CURSORS, NUM_NEW)
    return {
        "rows": [
            {"id": row, "kind": "prefill" if row == 3 else "decode", "label": "ABCD"[row]}
            for row in range(4)
        ],
        "tokens": tokens, "positions": positions, "num_scheduled_tokens": NUM_NEW, "texts": texts,
        "packed": {
            "cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k, "mask": mask.tolist(),
        },
    }  # fmt: skip


def wrong_batch() -> Record:
    """Right-padded, one position too far, and a mask that leaks, beside the right one."""
    right = batch_view()
    turned = [
        [*row[8 - n :], *row[: 8 - n]] for row, n in zip(right["tokens"], NUM_NEW, strict=True)
    ]
    later = [[each + 1 if each > 7 else each for each in row] for row in right["positions"]]
    mask = [[*row] for row in right["packed"]["mask"]]
    mask[1][:22] = [True] * 22
    packed = {**right["packed"], "cu_seqlens_k": [0, 21, 35, 43, 43], "mask": mask}
    reference = {name: right[name] for name in ("tokens", "positions", "texts", "packed")}
    changes = {"tokens": turned, "positions": later, "texts": None, "packed": packed}
    return {**right, **changes, "reference": reference}


def matrices(masks: list[Any], past: list[int], new: list[int]) -> list[Record]:
    return [
        {
            "label": "ABCD"[row],
            "mask": mask,
            "context_len": past[row],
            "num_scheduled_tokens": new[row],
        }
        for row, mask in enumerate(masks)
    ]


def mask_build() -> Record:
    """The post's T_past = 4, T = 3, B = 2, with row A two tokens short, in four steps."""
    past, new = [2, 4], [3, 2]
    whole = [[True] * 7 for _ in range(3)]
    pasted = [[column <= 4 + row for column in range(7)] for row in range(3)]
    padding = [[[False, False, *[True] * 5]], [[True] * 4 + [False, True, True]]]
    anded = [
        [[a and b for a, b in zip(row, line[0], strict=True)] for row in pasted] for line in padding
    ]
    common = {"words": "What happens.", "context_columns": 4}
    return {
        "steps": [
            {"name": "All true", **common, "masks": [{"label": "every row", "mask": whole}]},
            {"name": "Pasted", **common, "masks": [{"label": "every row", "mask": pasted}]},
            {"name": "The padding", **common, "masks": matrices(padding, past, new)},
            {"name": "AND", **common, "masks": matrices(anded, past, new)},
        ]
    }


def compared_mask() -> Record:
    """One that lets row B see its padding, beside the right one."""
    from nanogpt.policies import fusing

    past, new = [2, 4], [3, 2]
    right = fusing.full_mask(past, new).tolist()
    wrong = [[[*row] for row in mask] for mask in right]
    wrong[1][1][4] = wrong[1][2][4] = True
    one = {"name": "Beside", "words": "", "context_columns": 4, "compare": right}
    return {
        "steps": [{**one, "masks": matrices(wrong, past, new)}],
        "names": ("theirs", "the right"),
    }


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
    buffer = {"label": "batch buffer", "nbytes": 12800}

    def view(number: int, offset: int | None = None) -> Record:
        at = 640 * number if offset is None else offset
        return {"label": f"request {number}", "storage": 0, "offset_bytes": at, "nbytes": 640}

    return {
        "steps": [
            {
                "words": "One buffer for twenty requests.", "storages": [buffer],
                "views": [view(i) for i in range(20)], "live_bytes": 12800, "counted_bytes": 12800,
            },
            {
                "words": "Nineteen are deleted.", "storages": [buffer], "views": [view(3)],
                "live_bytes": 12800, "counted_bytes": 640,
            },
            {
                "words": "The last one is copied.", "storages": [{"label": "copy", "nbytes": 640}],
                "views": [view(3, offset=0)], "live_bytes": 640, "counted_bytes": 640,
            },
        ]
    }  # fmt: skip


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


def repair_ladder() -> Record:
    def cell(urgent: int, generous: int, share: float, preemptions: int) -> Record:
        return {
            "urgent": [urgent, max(0, urgent - 5), urgent + 4], "generous": [generous, None, None],
            "wasted_share": share, "preemptions": preemptions,
        }  # fmt: skip

    rows = [
        ("arrival order, everyone batched along", 45, 85, 0, 0),
        ("most urgent first", 58, 80, 0, 0),
        ("+ arrivals seen in mid-pass", 1, 60, 0.55, 340),
        ("+ SLO-aware batches", 80, 90, 0.1, 60),
    ]
    return {
        "rows": [
            {
                "variant": name, "words": f"This is {name}.",
                "loads": {"2": cell(urgent + 10, 95, share, count),
                          "4": cell(urgent, generous, share, count)},
            }
            for name, urgent, generous, share, count in rows
        ],
        "load": "4",
    }  # fmt: skip


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


def paired_seeds(num_seeds: int = 5) -> Record:
    def row(metric: str, label: str, baseline: int, other: int, low: int, high: int) -> Record:
        return {
            "metric": metric, "label": label, "unit": "ms", "better": "lower",
            "pairs": [
                {"seed": 42 + each, "baseline": baseline + each, "other": other + 3 * each}
                for each in range(num_seeds)
            ],
            "mean": other - baseline + (num_seeds - 1),
            "low": low if num_seeds > 1 else None, "high": high if num_seeds > 1 else None,
        }  # fmt: skip

    comparison = {
        "version": 1, "scenario": "steady", "baseline": "FIFO", "other": "priority",
        "modelled": True, "rows": [
            row("ttft_p50_ms", "TTFT p50", 238, 8, -240, -200),
            row("ttft_p99_ms", "TTFT p99", 616, 3964, 3000, 3600),
            row("itl_mean_ms", "ITL mean", 20, 16, -1, 2),
        ],
    }  # fmt: skip
    return {"comparison": comparison}


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

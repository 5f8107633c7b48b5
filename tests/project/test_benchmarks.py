"""The benchmarks compare like with like: all tokens are the oracle's."""

import importlib.util
import time
import urllib.request

import pytest
import torch
from classes import a_mark, a_record

from benchmarks import (
    baseline,
    batches,
    blocks,
    calibrate,
    course_in_browser,
    engine,
    grading,
    routing,
    side_by_side,
    window,
)
from benchmarks.contenders import CONTENDERS, make_engine, run_engine
from benchmarks.loads import Load, decode, mixed
from benchmarks.measure import interleave
from benchmarks.peers import PEERS, at_its_best
from course.registry import lesson_exercises
from nanogpt.checkpoints.weights import load_model
from nanogpt.config import ModelConfig
from nanogpt.model import GPT
from nanogpt.posts.oracle import generate

SMALL = Load("small", ((3, 1, 4), (1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7), (9, 3)), 6, token_budget=4)


@pytest.fixture(scope="module")
def model() -> GPT:
    torch.manual_seed(1)
    gpt = GPT(
        ModelConfig(num_layers=2, num_heads=2, num_channels=16, context_len=32, vocab_size=11)
    )
    for parameter in gpt.parameters():
        parameter.data.mul_(4)  # sharper logits than an untrained model's: tokens differ by context
    return gpt.double().eval().requires_grad_(False)


def oracle(model: GPT, load: Load) -> list[list[int]]:
    return [generate(model, prompt, load.max_new_tokens) for prompt in load.prompts]


@pytest.mark.parametrize(
    "name",
    [
        "packed",
        "padded",
        "invariant",
        "baseline",
        "baseline-256",
        "fused",
        "fused-256",
        "transformers",
    ],
)
def test_every_contender_generates_the_oracles_tokens(model: GPT, name: str) -> None:
    if name == "transformers" and importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    contender = next(c for c in CONTENDERS if c.name == name)
    assert contender.prepare(model)(SMALL) == oracle(model, SMALL)


@pytest.mark.parametrize("name", PEERS)
def test_every_peer_generates_the_oracles_tokens(model: GPT, name: str) -> None:
    module, prepare = PEERS[name]
    if not side_by_side.is_installed(module):
        pytest.skip(f"{module} is not installed")
    assert prepare(model.float())(SMALL) == oracle(model.double(), SMALL)


def test_a_peer_serves_a_load_under_the_settings_that_were_quickest_for_it() -> None:
    asked: list[tuple[str, int]] = []

    def serve(load: Load, settings: dict[str, int]) -> list[list[int]]:
        asked.append((load.name, settings["batch"]))
        time.sleep(0.02 * (settings["batch"] != load.num_requests))
        return []

    at_best = at_its_best(serve, [{"batch": each} for each in (8, 1, 4)])
    for load in (decode(1), decode(4), decode(1)):
        at_best(load)
    tried = [8, 8, 1, 1, 4, 4]
    assert [batch for name, batch in asked if name == "decode-1"] == [*tried, 1, 1]
    assert [batch for name, batch in asked if name == "decode-4"] == [*tried, 4]


def test_a_contender_in_a_process_of_its_own_serves_the_load_that_it_is_asked_for() -> None:
    process = side_by_side.Process("packed", "shipped", 1, 3)
    try:
        served = {number: process.serve(number)[1] for number in (1, 3, 1)}
    finally:
        process.close()
    assert process.process.returncode == 0
    loads = side_by_side.loads(3)
    for number, texts in served.items():
        load = loads[number]
        assert [len(text) for text in texts] == [load.max_new_tokens] * load.num_requests
    assert served[1] == [generate(load_model(), p, 3) for p in loads[1].prompts]


def test_the_engine_is_held_to_the_best_peer_and_to_each_at_its_better_threads() -> None:
    speeds = {  # character size: one thread, two threads
        "packed": (100.0, 120.0),
        "fused": (12.0, 10.0),
        "products": (150.0, 160.0),
        "ctranslate2": (80.0, 40.0),
        "transformers": (30.0, 60.0),
    }
    rows = [
        timed(size, threads, load, name, speeds[name][threads - 1] / (1 + (size == "shipped")))
        for size in ("character", "shipped")
        for threads in (1, 2)
        for load in side_by_side.loads()
        for name in speeds
    ]
    found = [(wanted, measured) for _, wanted, measured in side_by_side.targets(rows)]
    assert found == [
        *((wanted, 1.5) for wanted in (0.85, 0.95, 1.2)),
        *[(2.0, 1.5)] * 2,
        (6.0, 10.0),
        *[(1.5, 2.0)] * 5,
        *[(0.625, 0.75)] * 5,
    ]
    alone = [row for row in rows if row.contender in side_by_side.OURS]
    assert len(side_by_side.targets(alone)) == 1 + 5
    panels = side_by_side.chart(rows, "a CPU").panels
    assert [len(panel.lines) for panel in panels] == [5] * 4
    assert panels[0].lines[0].points == ((1, 120.0), (8, 120.0), (32, 120.0))


def timed(
    size: str, threads: int, load: Load, name: str, tokens_per_s: float
) -> side_by_side.Timed:
    seconds = load.num_generated / tokens_per_s
    times = (seconds, seconds / 2, seconds * 2)
    return side_by_side.Timed(size, threads, load, name, times, None)


def test_a_row_of_the_table_says_whose_texts_are_others() -> None:
    load = decode(2, 10)
    rows = [
        side_by_side.Timed("shipped", 2, load, "packed", (0.01, 0.02, 0.04), 1.0),
        side_by_side.Timed("shipped", 2, load, "ctranslate2", (0.02,), 0.5),
        side_by_side.Timed("shipped", 2, load, "products", (0.005,), None),
    ]
    assert " ".join(side_by_side.line(rows).split()) == (
        "shipped 2 decode-2 1,000 (500 to 2,000) 1,000 (1,000 to 1,000) 50% same "
        "4,000 (4,000 to 4,000)"
    )


@pytest.mark.parametrize("executor", window.EXECUTORS)
def test_the_window_is_timed_beside_the_full_cache_and_holds_what_it_says(
    model: GPT, executor: str
) -> None:
    row = window.compare(model, decode(3, 8, vocab_size=11), 5, executor, 2, "cpu")
    assert (row.kv_full, row.kv_window) == (3 * 14, 3 * 5)
    assert {storage: len(ratios) for storage, ratios in row.ratios.items()} == {
        "ring": 2,
        "evict": 2,
    }


@pytest.mark.parametrize("storage", window.STORAGES)
def test_the_windows_engines_write_the_oracles_tokens(model: GPT, storage: str) -> None:
    served = run_engine(window.engine_for(model, SMALL, 3, "packed", storage), SMALL)
    width = None if storage == "full" else 3
    assert [list(served.generated_tokens(i)) for i in range(3)] == [
        generate(model, prompt, SMALL.max_new_tokens, sliding_window=width)
        for prompt in SMALL.prompts
    ]


def test_the_engines_with_blocks_write_the_oracles_tokens_and_one_of_them_is_scattered(
    model: GPT,
) -> None:
    engines = blocks.engines_for(model, SMALL)
    for each in engines.values():
        served = run_engine(each, SMALL)
        assert [list(served.generated_tokens(i)) for i in range(3)] == oracle(model, SMALL)
    scattered = engines[blocks.SCATTERED].cache
    assert list(scattered.pool.best_first([], 3)) != [0, 1, 2]


def test_the_memory_of_blocks_is_counted_once_where_it_is_shared() -> None:
    served = {size: blocks.memory(load_model(), size, 4) for size in (None, 1, 16)}
    assert served[None].taken > 512 and served[None].hit_tokens == 0
    assert served[1].share_held == 1
    assert 0.5 < served[16].share_held < 1
    assert {each.prompt_tokens for each in served.values()} == {served[None].prompt_tokens}
    assert served[16].hit_tokens % 16 == 0 < served[16].hit_tokens <= served[1].hit_tokens


@pytest.mark.parametrize("token_budget", [3, 5, 8, 64])
def test_the_baseline_gives_the_oracles_tokens_at_every_budget(
    model: GPT, token_budget: int
) -> None:
    requests = [baseline.BaselineRequest(list(p), SMALL.max_new_tokens) for p in SMALL.prompts]
    baseline.serve(baseline.convert(model), requests, token_budget, max_batch_size=3)
    assert [request.generated_tokens for request in requests] == oracle(model, SMALL)


def test_the_baseline_serves_more_requests_than_fit_at_once(model: GPT) -> None:
    requests = [baseline.BaselineRequest(list(p), SMALL.max_new_tokens) for p in SMALL.prompts]
    baseline.serve(baseline.convert(model), requests, token_budget=4, max_batch_size=2)
    assert [request.generated_tokens for request in requests] == oracle(model, SMALL)


def test_the_baseline_refuses_a_budget_that_leaves_no_room_for_a_prompt(model: GPT) -> None:
    with pytest.raises(ValueError, match="token_budget is 2; 3 requests at once need at least 3"):
        baseline.serve(baseline.convert(model), [], token_budget=2, max_batch_size=3)


def test_the_mixed_load_has_prompts_of_8_to_200_tokens_and_runs_chunks_beside_decodes() -> None:
    load = mixed(8, max_new_tokens=3)
    lengths = sorted(map(len, load.prompts))
    assert (len(lengths), lengths[0], lengths[-1]) == (8, 8, 200)
    torch.manual_seed(0)
    gpt = GPT(ModelConfig(num_layers=1, num_heads=1, num_channels=8, context_len=256))
    kinds = [
        {work.kind for work in step.work}
        for step in run_engine(make_engine(gpt, load, "packed"), load).steps
    ]
    assert {"prefill", "decode"} in kinds


def test_a_decode_load_has_equal_prompts_and_counts_what_it_generates() -> None:
    load = decode(32, max_new_tokens=10)
    assert {len(prompt) for prompt in load.prompts} == {8}
    assert load.num_generated == 320


def test_contenders_take_turns_and_the_first_round_is_not_counted() -> None:
    turns: list[str] = []
    timings = interleave({name: lambda n=name: turns.append(n) for name in "ab"}, repeats=2)
    assert turns == ["a", "b"] * 3
    assert {name: len(timing.wall_s) for name, timing in timings.items()} == {"a": 2, "b": 2}


def test_a_target_is_the_ratio_of_two_speeds_at_the_character_size() -> None:
    speeds = {"packed": 300.0, "baseline": 100.0, "fused": 50.0, "products": 500.0}
    rows = [
        {"model": "character", "load": "mixed-8", "contender": name, "tokens_per_s": speed}
        for name, speed in speeds.items()
    ]
    assert [(wanted, measured) for _, wanted, measured in engine.targets(rows)] == [
        (3.0, 3.0),
        (5.0, 6.0),
        (0.5, 0.6),
    ]


def test_the_fit_finds_the_costs_that_made_the_figures() -> None:
    steps = calibrate.sweep()
    costs = [500 + 20 * step.tokens + 0.5 * step.context for step in steps]
    assert calibrate.fit(steps, costs) == pytest.approx((500, 20, 0.5))


def test_a_cost_that_would_be_negative_is_left_out_of_the_fit() -> None:
    steps = calibrate.sweep()
    costs = [500 + 20 * step.tokens - 0.01 * step.context for step in steps]
    fixed, token, context = calibrate.fit(steps, costs)
    assert context == 0
    assert fixed > 0
    assert token > 0


def test_steps_are_drawn_as_timed_beside_the_fit() -> None:
    steps = calibrate.sweep()
    costs = [1000 + 20 * step.tokens for step in steps]
    measured, line = calibrate.chart(steps, costs, (500, 20), "a CPU").panels[0].lines
    assert measured.points == tuple((n, (1000 + 20 * n) / 1000) for n in calibrate.CHUNKS)
    assert line.points == tuple((n, (500 + 20 * n) / 1000) for n in calibrate.CHUNKS)


def test_ttft_is_drawn_by_the_length_of_the_hit() -> None:
    hits = [{"hit_tokens": 0, "ttft_ms": 18.0}, {"hit_tokens": 250, "ttft_ms": 11.0}]
    [line] = routing.chart(hits, "a CPU").panels[0].lines
    assert line.points == ((0, 18), (250, 11))


LESSON = "l01_chunked_prefill"


@pytest.mark.parametrize("kind", ["right", "wrong"])
def test_the_answers_of_a_class_stand_by_themselves(kind: str) -> None:
    for item in lesson_exercises(LESSON):
        sources = grading.answers(item, kind)
        assert len(set(sources)) == len(sources) >= (3 if kind == "right" else 1)
        for source in sources:
            space: dict[str, object] = {}
            exec(source, space)
            assert (item.check(space[item.name]).status == "passed") == (kind == "right"), source


def test_a_class_is_the_same_at_every_call_and_one_in_twenty_has_an_endless_loop() -> None:
    typical = grading.a_class(LESSON, 40)
    assert typical == grading.a_class(LESSON, 40) and len({each.text for each in typical}) == 40
    slow = grading.with_endless_loops(LESSON, typical)
    changed = [a for a, b in zip(slow, typical, strict=True) if a != b]
    assert len(changed) == 2 and all("while True" in each.text for each in changed)


def test_a_row_counts_what_was_timed_out_and_gives_the_seconds_of_one_submission() -> None:
    records = [
        a_record("Ada", a_mark("timeout"), a_mark("passed"), seconds=seconds / 10)
        for seconds in range(1, 21)
    ]
    row = grading.row_of("typical", records, 4.0)
    assert (row.submissions, row.per_s, row.timed_out) == (20, 5.0, 20)
    assert (row.p50_s, row.p95_s) == pytest.approx((1.05, 2.0))
    assert row.statuses == {"timeout": 20, "passed": 20}


@pytest.mark.parametrize("context", [20, None])
def test_a_filled_batch_does_nothing_but_decode_up_to_its_context(
    context: int | None, model: GPT
) -> None:
    """None: as far as the model can see."""
    context = context or model.config.context_len
    engine_ = batches.filled(model, 3, context, 4)
    steps = [engine_.step() for _ in range(5)]  # one more than counts
    assert {(work.kind, work.end - work.start) for step in steps for work in step.work} == {
        ("decode", 1)
    }
    assert [len(step.work) for step in steps] == [3] * 5
    assert max(work.end for work in steps[-1].work) == context


@pytest.mark.process
def test_the_pages_waits_are_measured_on_the_course_as_it_is_served():
    with (
        course_in_browser.course() as address,
        urllib.request.urlopen(address, timeout=60) as answer,
    ):
        assert answer.status == 200
        assert "marimo" in answer.read().decode()

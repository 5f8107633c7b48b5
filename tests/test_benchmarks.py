"""The benchmarks compare like with like: everybody's tokens are the oracle's."""

import importlib.util
import urllib.request

import pytest
import torch
from classes import a_mark, a_record

from benchmarks import baseline, calibrate, course_in_browser, engine, grading, routing, window
from benchmarks.contenders import CONTENDERS, make_engine, run_engine
from benchmarks.loads import Load, decode, mixed
from benchmarks.measure import interleave
from course.registry import lesson_exercises
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


@pytest.mark.slow
def test_the_pages_waits_are_measured_on_the_course_as_it_is_served():
    with (
        course_in_browser.course() as address,
        urllib.request.urlopen(address, timeout=60) as answer,
    ):
        assert answer.status == 200
        assert "marimo" in answer.read().decode()

"""The figures of docs/costs.md are those of the code."""

import json
import re
from dataclasses import replace

import pytest
from answers import worked
from support import ROOT

from course.lesson_data.l11_step import H100, LLAMA_KV, LLAMA_WEIGHTS
from nanogpt.clock import LARGE_GPU, SERVER_CPU
from nanogpt.contest.workloads import WHOLE_GPU
from nanogpt.fleet.costs import CALIBRATED_COST, SOURCE_COST
from nanogpt.slo.load import POST_COST
from nanogpt.slo.variants import ROUND_COST
from solutions.l00_kv_cache.capacity import LLAMA

PAGE = (ROOT / "docs" / "costs.md").read_text(encoding="utf-8")
TABLES = re.findall(r"^\| (.+) \|$", PAGE, re.MULTILINE)


def bound_us(tokens: int, context: int) -> float:
    """A step of exercise 11.1's model."""
    return worked("l11.roofline")(LLAMA_WEIGHTS, 16, tokens, context * LLAMA_KV, *H100)[0]


def test_each_model_has_the_numbers_of_the_code():
    _, weights, kv_bytes, bytes_per_us, token_us, *_ = LLAMA
    read_us = bound_us(1, 0)
    expected = {  # overhead, weight read, per token, per token of context
        name: (model.fixed_us, model.floor_us, model.token_us, model.context_us)
        for name, model in {
            "SERVER_CPU": SERVER_CPU, "LARGE_GPU": LARGE_GPU, "WHOLE_GPU": WHOLE_GPU,
            "ROUND_COST": ROUND_COST.model, "POST_COST": POST_COST.model,
        }.items()
    } | {
        "exercise 0.4": (0, weights / bytes_per_us, token_us, kv_bytes / bytes_per_us),
        "exercise 11.1": (
            0, read_us, bound_us(10_000, 0) / 10_000, (bound_us(1, 10**6) - read_us) / 10**6
        ),
    }  # fmt: skip
    rows = [[cell.strip("` ") for cell in row.split("|")] for row in TABLES]
    found = {
        row[0]: [float(re.sub(r"[^0-9.]", "", cell)) for cell in row[1:5]]
        for row in rows
        if len(row) == 6 and re.match(r"[A-Z_]+$|exercise", row[0])
    }
    fixed, read, token, context = found.pop("CALIBRATED_COST")
    assert found == {name: pytest.approx(each, rel=0.01) for name, each in expected.items()}
    for tokens, kv_tokens in ((1, 0), (1000, 50_000)):
        us = fixed + max(read + context * kv_tokens, token * tokens)
        assert CALIBRATED_COST.prefill(tokens, 9, kv_tokens) == us
    assert SOURCE_COST.prefill(80, 4, 0) == 50 * 80 / 4 + 200
    assert SOURCE_COST.decode(4, 4, 0) == 100 * 4 + 50
    assert f"{POST_COST.a_us} µs per token and {POST_COST.c_us:,} µs" in PAGE


def test_the_steps_of_the_page_are_computed():
    gpu = replace(LARGE_GPU, prompt_scale=1)  # for the tokens of a real prompt
    for tokens, context, words in (
        (2048, 0, "a chunk of 2,048 tokens"),
        (1, 1200, "one decode, 1,200 tokens of context"),
        (256, 256 * 1200, "256 decodes, 1,200 tokens of context each"),
    ):
        ms = gpu.step_us(0, tokens, context) / 1000, bound_us(tokens, context) / 1000
        assert f"{words} | {ms[0]:.1f} ms | {ms[1]:.1f} ms" in TABLES
    knees = gpu.floor_us / gpu.token_us, H100[0] / H100[1]
    assert any(row.endswith(f"weight read | {knees[0]:.0f} | {knees[1]:.0f}") for row in TABLES)
    recorded = json.loads((ROOT / "lessons" / "data" / "step_time.json").read_text())
    measured_ms = sum(recorded["decode_us"]["packed"]["32"].values()) / 1000
    assert f"gives {SERVER_CPU.step_us(0, 32, 32 * 256) / 1000:.2f} ms" in PAGE
    assert f"has {measured_ms:.2f} ms" in PAGE

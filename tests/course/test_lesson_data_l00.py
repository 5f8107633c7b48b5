"""Behind lesson 0: what it says of two answers, steps that no run takes, and its numbers."""

import pytest
import torch
from answers import worked
from support import ROOT

from course.lesson_data.l00_batching import batching_side, engine_finish_steps, step_costs
from course.lesson_data.l00_kv_cache import your_text
from course.registry import exercise
from nanogpt import load_model
from nanogpt.clock import LARGE_GPU, SERVER_CPU
from nanogpt.figures.drawing import named_curves, points_of
from nanogpt.llama import Llama, LlamaConfig

next_inputs, cached_attention = worked("l00.next_inputs"), worked("l00.cached_attention")
LESSON = (ROOT / "lessons" / "l00_kv_cache.py").read_text(encoding="utf-8")
KV = {"num_key_value_heads": 8, "head_dim": 128}
LLAMA = LlamaConfig(32, 32, 4096, vocab_size=128_256, intermediate_size=14_336, **KV)
QWEN = LlamaConfig(
    28, 16, 1024, vocab_size=151_936, intermediate_size=3072, tie_word_embeddings=True, **KV
)
PROMPTS = [f"ROMEO:\nBut soft, what light through yonder {word} " for word in ("window", "garden")]


@pytest.mark.process
def test_two_answers_write_the_oracle_s_texts_and_feed_only_what_was_edited(notebooks):
    write = notebooks.solved("l00_kv_cache").names["generate_with_cache"]
    said = your_text(write, PROMPTS, next_inputs, cached_attention)
    assert said.startswith("**Your two functions wrote these texts.**")
    assert "They fed 89 tokens for the first text and 46 for the second, which takes 89 " in said
    counts_only = exercise("l00.next_inputs").misconceptions[3].written[0]
    said = your_text(write, PROMPTS, counts_only, cached_attention)
    assert "but the oracle writes others" in said


def rows_of(heading: str) -> list[list[str]]:
    """The cells of the table in the lesson's text whose first heading is this."""
    _, _, rest = LESSON.partition(f"| {heading} |")
    rows = rest.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip(" |").split("|")] for row in rows]


def test_the_numbers_of_the_page_are_those_of_the_presets_and_of_capacity():
    presets = (SERVER_CPU, LARGE_GPU)
    for preset, (_, *cells) in zip(presets, rows_of("modelled"), strict=True):
        read_ms, token_us, context_us, overhead_ms = (float(cell.split()[0]) for cell in cells)
        assert (read_ms * 1000, token_us) == (preset.floor_us, preset.token_us)
        assert overhead_ms == pytest.approx(preset.fixed_us / 1000, abs=0.005)
        assert context_us == pytest.approx(preset.context_us, abs=0.005)
    contexts_us = 256 * 1200 * LARGE_GPU.context_us
    assert f"256 contexts of 1,200 tokens add {contexts_us / 1000:.1f} ms" in LESSON
    for decodes, *cells in rows_of("decodes in the step"):
        costs_us = [
            each.fixed_us + max(each.floor_us, int(decodes) * each.token_us) for each in presets
        ]
        expected = [(f"{us / 1000:.1f} ms", f"{int(decodes) / us * 1e6:,.0f}") for us in costs_us]
        assert cells == [cell for pair in expected for cell in pair]
    rows = rows_of("KV bytes per token | ITL limit")
    assert len(rows) == 5
    for kv_bytes, limit, *cells, _ in rows:
        config, token_us = (LLAMA, 32) if "Llama" in kv_bytes else (QWEN, 2)
        kv = int(kv_bytes.split()[0].replace(",", ""))
        gpu = (80 * 10**9, weight_bytes(config), kv, 3_350_000, token_us)
        found = worked("l00.capacity")(*gpu, 1000, 200, int(limit.split()[0]) * 1000)
        assert cells == [f"{number:,.0f}" for number in found]


def weight_bytes(config: LlamaConfig) -> int:
    with torch.device("meta"):
        return 2 * sum(each.numel() for each in Llama(config).parameters())


def test_the_k_v_of_two_real_models_is_that_of_their_configurations():
    for each, cells in zip((LLAMA, QWEN), rows_of("`config.json` | layers"), strict=True):
        sizes = [each.num_layers, each.num_heads, each.num_kv_heads, each.head_size]
        kv_bytes = 2 * each.num_layers * each.num_kv_heads * each.head_size * 2
        weights = f"{weight_bytes(each) / 1e9:.2f} GB"
        assert cells[1:] == [*map(str, sizes), f"{kv_bytes:,}", weights]


def test_the_lines_of_a_step_s_cost_are_those_of_decodes_without_context():
    drawn = {name: points_of(line) for name, line in named_curves(step_costs()).items()}
    assert drawn["a large GPU"][0] == (1, 5.3) and drawn["a large GPU"][-1] == (256, 8.692)


def test_the_steps_of_an_engine_with_and_without_continuous_batching_are_drawn():
    model = load_model()
    assert engine_finish_steps(model, continuous=False) == [9, 3, 3, 11, 15, 13]
    steps = engine_finish_steps(model, continuous=True)
    assert steps == [9, 3, 3, 5, 9, 9]
    side = batching_side("a side", steps)
    assert side["length"] == 9
    assert side["spans"][3] == {"request": 3, "start": 3, "end": 5}


def test_steps_that_no_run_takes_are_refused():
    for finished, sentence in (
        (None, "it returned None, and the picture needs six numbers"),
        ([9, 3, 3, 3, 9, 9], "it lets request 3 run while all 3 slots are taken"),
        ([9, 3, 3, 1, 9, 9], "or before the first step"),
    ):
        with pytest.raises(ValueError, match=sentence):
            batching_side("yours", finished)

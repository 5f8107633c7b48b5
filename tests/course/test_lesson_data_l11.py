"""Behind lesson 11: what its prose says of the recorded step times and of an H100's roofline."""

import re

import pytest
from answers import worked
from support import ROOT

from course.lesson_data import l11_exhibits, l11_quantized, l11_step
from course.lesson_data.l11_step import H100, LLAMA_KV, LLAMA_WEIGHTS, OUR_KV, OUR_WEIGHTS, PHASES
from nanogpt import load_model
from nanogpt.clock import SERVER_CPU
from solutions.l11_milliseconds import quantize_kv

TEXT = (ROOT / "lessons" / "l11_milliseconds.py").read_text(encoding="utf-8")
PROSE = " ".join(re.sub(r'"\s+"', "", TEXT).split())
FOUND = l11_step.record()
US = FOUND["decode_us"]


def total(executor: str, batch: int) -> float:
    return sum(US[executor][str(batch)].values())


def test_the_prose_about_a_step_s_phases_holds_for_the_record():
    assert [tuple(us) for each in US.values() for us in each.values()] == [PHASES] * 18
    packed, many, whole = US["packed"]["1"], US["packed"]["32"], total("packed", 1)
    read_us = 1e6 * (4 * OUR_WEIGHTS + 256 * OUR_KV) / FOUND["roof"]["bytes_per_s"]
    assert "4.2 MB / 17 GB/s = 0.25 ms, about a fifth" in PROSE and 0.18 < read_us / whole < 0.22
    assert packed["products"] + packed["attention"] == pytest.approx(read_us, rel=0.1)
    operations_us = 2e6 * OUR_WEIGHTS / FOUND["roof"]["flops_per_s"]
    assert "93 GFLOP/s are 0.02 ms" in PROSE and round(operations_us / 1000, 2) == 0.02
    assert (
        "launches are two thirds of this step" in PROSE and 0.6 < packed["launches"] / whole < 0.7
    )
    assert "less than half as long" in PROSE and SERVER_CPU.step_us(0, 1, 256) < whole / 2
    assert "they do not even double" in PROSE and many["launches"] < 2 * packed["launches"]
    assert "about 7 times as long" in PROSE and round(many["products"] / packed["products"]) == 7
    assert "more than half of the step" in PROSE and many["attention"] > total("packed", 32) / 2


def test_the_prose_about_a_real_vocabulary_holds_for_the_record():
    real, sample_us = FOUND["sampling_us"]["151936"], US["packed"]["1"]["sample"]
    assert "is 4 % of the step" in PROSE and round(sample_us / total("packed", 1), 2) == 0.04
    assert f"that is {8 * real['top_p 0.9'] / 1000:.0f} ms per step" in PROSE
    read_ms = 1.192e12 / FOUND["roof"]["bytes_per_s"]
    assert f"In {read_ms:.0f} ms this core could read all weights of Qwen3-0.6B, 1.2 GB" in PROSE


def test_8_bit_k_v_changes_few_tokens_and_one_scale_for_a_block_no_more():
    exact, *others = (
        l11_quantized.next_tokens(rule, load_model())
        for rule in (None, worked("l11.quantize_kv"), quantize_kv.per_block)
    )
    by_head, by_block = (sum(a != b for a, b in zip(exact, each, strict=True)) for each in others)
    assert 0 < by_block <= by_head < len(exact) / 25


def test_the_prose_says_what_compiling_gains_by_batch_size_and_costs_once():
    gains = [total("packed", batch) / total("compiled", batch) for batch in (1, 8, 32)]
    assert gains == sorted(gains, reverse=True)
    times = {3: "three", 4: "four", 5: "five"}[round(gains[0])]
    assert PROSE.count(f"bout {times} times as fast") == 2
    assert "the gain is about a third" in PROSE and 1.25 < gains[2] < 1.55
    assert 1.25 < FOUND["chunk_us"]["packed"] / FOUND["chunk_us"]["compiled"] < 1.55
    assert "takes about 15 s of CPU time" in PROSE and 12 < FOUND["compile_s"] < 18


def test_8_bit_numbers_take_a_quarter_of_the_bytes_and_change_texts():
    eight = FOUND["eight_bits"]
    for kind in ("weight_bytes", "kv_bytes"):
        assert eight[kind]["float32"] / eight[kind]["int8"] > 3.5
    assert eight["tokens"] == 512
    assert 0.8 < eight["same"]["weights"] / 512 < 0.95 < eight["same"]["kv"] / 512 < 1
    assert all(f" {each / 512:.1%} |" in TEXT for each in eight["same"].values())
    assert total("int8", 1) > total("packed", 1)


def test_our_model_has_the_weights_and_k_v_of_the_roofline():
    config = load_model().config
    layer, channels = 12 * config.num_channels**2, config.num_channels
    assert config.num_layers * layer + config.vocab_size * channels == OUR_WEIGHTS
    assert FOUND["eight_bits"]["kv_bytes"]["float32"] == OUR_KV
    attention = 2 * config.num_layers * 256 * channels
    assert round(attention / OUR_WEIGHTS, 2) == 0.33


def test_the_corner_of_the_h100_lies_at_295_and_decodes_never_reach_it():
    roofline, corner = worked("l11.roofline"), H100[0] / H100[1]
    assert round(corner) == 295
    assert round(2 * LLAMA_WEIGHTS / (corner * LLAMA_KV)) == 413 and "about 413 tokens" in PROSE
    assert pytest.approx(122, abs=0.1) == 2 * LLAMA_WEIGHTS / (1000 * LLAMA_KV)
    for batch in (1, 64, 256, 4096):
        kv = batch * 1000 * LLAMA_KV
        assert roofline(LLAMA_WEIGHTS, 16, batch, kv, *H100)[1] == "memory"
    least = roofline(LLAMA_WEIGHTS, 16, 1, 1000 * LLAMA_KV, *H100)[0]
    assert (round(least), round(least / l11_exhibits.LAUNCH_US)) == (l11_exhibits.LEAST_US, 16)


def test_the_prose_says_what_one_core_can_do():
    assert "computes about 90 GFLOP/s and reads about 17 GB/s" in PROSE
    roof = FOUND["roof"]
    assert (round(roof["flops_per_s"] / 1e10), round(roof["bytes_per_s"] / 1e9)) == (9, 17)


def test_a_schedule_hides_up_to_the_length_of_the_execution():
    synchronous, ahead = l11_step.both_ways_ms(worked("l11.overlap"))
    saved = [round(a - b) for a, b in zip(synchronous, ahead, strict=True)]
    assert saved == [1, 2, 3, 4, *[5] * 6]

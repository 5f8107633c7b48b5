"""Behind lesson 11: what its prose says of the recorded step times and of an H100's roofline."""

import pytest
from answers import worked

from course.lesson_data import l11_exhibits, l11_step
from course.lesson_data.l11_step import H100, LLAMA_KV, LLAMA_WEIGHTS, OUR_KV, OUR_WEIGHTS, PHASES
from nanogpt import load_model

FOUND = l11_step.record()
US = FOUND["decode_us"]


def total(executor: str, batch: int) -> float:
    return sum(US[executor][str(batch)].values())


def test_the_prose_about_a_step_s_phases_holds_for_the_record():
    assert [tuple(us) for each in US.values() for us in each.values()] == [PHASES] * 18
    packed, compiled = US["packed"]["1"], US["compiled"]["1"]
    assert 900 < total("packed", 1) < 2000  # one to two milliseconds
    assert 100 < compiled["products"] + compiled["attention"] < 200
    assert 0.05 < (compiled["products"] + compiled["attention"]) / total("packed", 1) < 0.15
    assert packed["launches"] > total("packed", 1) / 2
    many = US["packed"]["32"]
    assert many["launches"] < 2 * packed["launches"]
    assert many["products"] + many["attention"] > 5 * (packed["products"] + packed["attention"])


def test_compiling_gains_four_times_for_one_decode_and_a_third_for_32_and_for_a_chunk():
    gains = [total("packed", batch) / total("compiled", batch) for batch in (1, 8, 32)]
    assert gains == sorted(gains, reverse=True)
    chunk = FOUND["chunk_us"]["packed"] / FOUND["chunk_us"]["compiled"]
    assert (round(gains[0]), round(gains[2], 1), round(chunk, 1)) == (4, 1.4, 1.5)
    assert round(FOUND["compile_s"]) == 16


def test_8_bit_numbers_take_a_quarter_of_the_bytes_and_change_texts():
    eight = FOUND["eight_bits"]
    for kind in ("weight_bytes", "kv_bytes"):
        assert eight[kind]["float32"] / eight[kind]["int8"] > 3.5
    assert eight["tokens"] == 512
    assert 0.8 < eight["same"]["weights"] / 512 < 0.95 < eight["same"]["kv"] / 512 < 1
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
    assert pytest.approx(122, abs=0.1) == 2 * LLAMA_WEIGHTS / (1000 * LLAMA_KV)
    for batch in (1, 64, 256, 4096):
        kv = batch * 1000 * LLAMA_KV
        assert roofline(LLAMA_WEIGHTS, 16, batch, kv, *H100)[1] == "memory"
    least = roofline(LLAMA_WEIGHTS, 16, 1, 1000 * LLAMA_KV, *H100)[0]
    assert (round(least), round(least / l11_exhibits.LAUNCH_US)) == (l11_exhibits.LEAST_US, 16)


def test_a_schedule_hides_up_to_the_length_of_the_execution():
    synchronous, ahead = l11_step.both_ways_ms(worked("l11.overlap"))
    saved = [round(a - b) for a, b in zip(synchronous, ahead, strict=True)]
    assert saved == [1, 2, 3, 4, *[5] * 6]

"""Behind lessons 4 and 4b: what their prose says of slices, of speed, and of a window's cost."""

import re

import pytest
from support import ROOT

from course.attempt import Attempt
from course.registry import exercise
from course.stories import l04b_heads, l04b_readings
from course.stories.l04_exhibits import evict_by_slicing, kept_by, live_bytes_table
from course.stories.l04_window import block_steps, drawn_masks, ring_steps, storage_story
from nanogpt import load_model
from nanogpt.parts import sliding_window

READINGS = l04b_readings.passages()


def attempted(exercise_id, function):
    return Attempt(exercise(exercise_id).check(function), function)


def not_written(*_):
    raise NotImplementedError


# ---- lesson 4 ------------------------------------------------------------------------------------


def test_slices_keep_whole_prompts_alive_and_copies_do_not():
    model = load_model()
    per_token = 2 * model.config.num_layers * model.config.num_channels * 4
    sliced, copied = (kept_by(model, each) for each in (evict_by_slicing, sliding_window.evict))
    held = [each for step in sliced.steps for each in step.kv]
    assert all(each.kv_tokens == each.counted_tokens == 20 for each in held)
    # After its prefill a chunk is there whole; from then on only what was just dropped.
    alive = {(each.request_id, each.live_bytes // per_token) for each in held}
    assert alive == {(0, 40), (1, 47), (2, 44), (0, 21), (1, 21), (2, 21)}
    kept = {each.live_bytes for step in copied.steps for each in step.kv}
    assert kept == {20 * per_token}
    assert [step.work for step in sliced.steps] == [step.work for step in copied.steps]


def test_the_speed_that_lesson_4_quotes_is_that_of_the_benchmarks():
    lesson = (ROOT / "lessons" / "l04_sliding_window.py").read_text()
    quoted = re.findall(r"\| (\d+) \| ([\d,]+ → \d+) \| ×([\d.]+) \| ×([\d.]+) \|", lesson)
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    row = r"\| (\d+) \| packed \| ([\d.]+) \(.*?\) \| ([\d.]+) \(.*?\) \| ([\d,]+) -> (\d+) \|"
    measured = re.findall(row, text)
    assert len(measured) == 3
    assert quoted == [
        (window, f"{full} → {less}", ring, evict) for window, ring, evict, full, less in measured
    ]


def test_the_ring_is_drawn_by_the_learners_function_alone():
    def backwards(position, window, sinks):
        return position + window if position < sinks else window - 1 - position % window

    def outside(position, window, sinks):
        return position

    steps = ring_steps(attempted("l04.ring_slot", backwards))
    assert steps[0]["words"] == "Position 0 goes into slot 5."
    assert steps[7]["words"] == "Position 7 goes into slot 2, over position 2."
    assert "Once you have written" in ring_steps(attempted("l04.ring_slot", not_written))
    assert "leaves the seven slots" in ring_steps(attempted("l04.ring_slot", outside))


def test_a_drawn_block_is_given_back_once_the_window_has_passed_all_of_it_but_for_the_sinks():
    steps = block_steps(load_model())
    gone, outside = 0, set[int]()
    for step in steps:
        for request_id, table in step["tables"].items():
            assert table[0] is not None, "position 0 is the sink"
            assert table[-1] is not None, "the newest is seen"
            gone += table.count(None)
            for index, block in enumerate(table):
                if block is not None:
                    drawn = step["blocks"][block]
                    assert drawn["owner"] == int(request_id)
                    assert len(drawn["outside"]) < drawn["filled"], (request_id, index)
                    outside |= {*drawn["outside"]}
    assert gone and outside == {0, 1, 2, 3}
    assert {key for step in steps for key in step["tables"]} == {"0", "1", "2"}
    assert steps[-1]["tables"] == {}


def test_masks_and_bytes_are_drawn_whatever_was_answered():
    [alone] = drawn_masks(attempted("l04.visible", not_written))
    assert alone["name"] == "the reference (yours is not written yet)"
    mine, right = drawn_masks(attempted("l04.visible", lambda query, key, *_: key <= query))
    assert (mine["name"], right["name"]) == ("yours", "the reference")
    assert mine["mask"][9] == [True] * 10 + [False] * 4
    [strange] = drawn_masks(attempted("l04.visible", lambda *_: "maybe"))
    assert "cannot be drawn" in strange["note"]
    for answer, said in (
        (not_written, "Once you have written"),
        (lambda tensors: "many", "does not count these steps yet"),
        (sliding_window.live_bytes, "| 640 | 12,800 |"),
    ):
        assert said in live_bytes_table(attempted("l04.live_bytes", answer), storage_story)


# ---- lesson 4b -----------------------------------------------------------------------------------


def test_what_the_last_token_knows_ends_at_a_window_per_layer():
    moves = l04b_readings.moves(load_model().double())
    assert [distance for distance, change in moves.items() if change > 1e-9] == [4, 8, 9, 20, 32]
    assert moves[33] == moves[40] == 0


def test_readings_are_judged_by_the_learner_once_it_answers_in_two_numbers():
    model, (texts, nexts) = load_model(), READINGS
    full, less = (l04b_readings.read(model, texts, each) for each in (None, 16))
    flat = (full.flatten(0, 1), less.flatten(0, 1), nexts.flatten())
    reference = sliding_window.judge(*flat)
    for answer, wanted in (
        (not_written, reference),
        (lambda *_: None, reference),
        (lambda *_: (0.25, 1.5), (0.25, 1.5)),
    ):
        judge = l04b_readings.judged_by(attempted("l04.judge", answer))
        assert judge(full, less, nexts) == pytest.approx(wanted)


def test_a_window_of_16_costs_the_shipped_model_more_than_any_offered_less():
    judge = l04b_readings.judged_by(attempted("l04.judge", sliding_window.judge))
    full, costs = l04b_readings.costs(load_model(), judge)
    assert full + costs[16, 0][1] > 2.5
    assert 0 < costs[128, 4][1] < costs[128, 0][1] < costs[16, 4][1] < costs[16, 0][1]


def test_the_first_layer_suffers_and_fresh_characters_do_not():
    model = load_model()
    added = l04b_heads.added_by_layer(model)
    assert max(added, key=lambda layer: added[layer]) == 0
    assert added[0] > 3 * added[2] > 0
    everything, windowed, fresh = l04b_heads.seventeen(model, 16)
    assert fresh - everything < 0.1 < 1 < windowed - everything


def test_each_twin_is_lost_in_the_others_world():
    rows = [
        [float(cell) for cell in re.findall(r"\d\.\d\d", row)]
        for row in l04b_heads.twins_table().splitlines()[2:]
    ]
    assert rows[0][0] == pytest.approx(rows[1][1], abs=0.05)
    assert rows[0][1] - rows[0][0] > 0.4
    assert rows[1][0] - rows[1][1] > 0.4


def test_the_lab_s_young_model_loses_nothing_and_the_heaviest_are_worth_keeping():
    lab = l04b_readings.metric_lab({"young": l04b_heads.small("small_120_steps")})
    assert re.findall(r"\| (\d+)% \| (\d+)% \| (\d+)% \|", lab)[0][0] > "70"
    assert abs(float(re.findall(r"[+-]\d\.\d{3}", lab)[0])) < 0.02
    kept = dict(re.findall(r"\| (.+?) \| (.+?) \|", l04b_heads.keeping_table(load_model())))
    assert float(kept["the last 16 and the 16 heaviest"]) * 2 < float(kept["the last 32"])

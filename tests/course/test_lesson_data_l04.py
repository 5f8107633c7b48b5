"""Behind lessons 4 and 4b: what windows keep alive, what they cost, and what can be drawn."""

import pytest
from notebooks import Notebooks

from course.lesson_data import l04b_heads, l04b_readings
from course.lesson_data.l04_exhibits import kept_by, padded_entries
from course.lesson_data.l04_window import grown, storage_story
from nanogpt import load_model
from nanogpt.figures.drawing import named_curves, points_of
from nanogpt.policies import sliding_window

# ---- lesson 4 ------------------------------------------------------------------------------------


@pytest.mark.process
def test_slices_keep_whole_prompts_alive_and_copies_do_not():
    model = load_model()
    per_token = 2 * model.config.num_layers * model.config.num_channels * 4
    sliced, copied = (kept_by(model, each) for each in (by_slicing, sliding_window.evict))
    held = [each for step in sliced.steps for each in step.kv]
    assert all(each.kv_tokens == each.kv_tokens_charged == 20 for each in held)
    # After its prefill a chunk is there whole; from then on only what was just dropped.
    alive = {(each.request_id, each.live_bytes // per_token) for each in held}
    assert alive == {(0, 40), (1, 47), (2, 44), (0, 21), (1, 21), (2, 21)}
    kept = {each.live_bytes for step in copied.steps for each in step.kv}
    assert kept == {20 * per_token} == {81_920} and 40 * per_token == 163_840
    assert [step.work for step in sliced.steps] == [step.work for step in copied.steps]


def by_slicing(k, v, window, sinks):
    """The post's eviction, which has no sinks."""
    return k[:, -window:], v[:, -window:]


def test_lesson_4_counts_what_it_says():
    full, windowed = (
        grown(load_model(), window)["trace"]["steps"][30]["kv"] for window in (None, 20)
    )
    assert [each["kv_tokens"] for each in full] == [38, 36, 33]
    assert [each["kv_tokens"] for each in windowed] == [20, 20, 20]
    alive = [(step["live_bytes"], step["counted_bytes"]) for step in storage_story()]
    assert alive[2] == (12_800, 640) and alive[-1] == (640, 640)
    unbounded, bounded = (dict(points_of(each)) for each in named_curves(padded_entries()).values())
    assert {*unbounded.values()} == {38}
    assert (bounded[0], bounded[8], bounded[10]) == (10, 2, 0)


# ---- lesson 4b -----------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.nightly
def test_what_lesson_4b_measures_is_what_it_says(notebooks: Notebooks):
    """A model fails when it is served as it was not trained; positions run out."""
    visit = notebooks.solved("l04b_window_quality")
    twins = visit.table("served with W = 16")
    (own, other), (foreign, home) = ([float(loss) for loss in row] for row in twins.values())
    assert own == pytest.approx(home, abs=0.05)
    assert other - own > 0.4 and foreign - home > 0.4
    young = visit.table("teacher-forced agreement")["120 steps"]
    assert young[0] > "70%" and abs(float(young[5])) < 0.02 and young[6].startswith("5% →")
    model = load_model()
    assert l04b_readings.recall(model, 16) == 0.5  # 90 characters are beyond 4 x 16 positions
    full, _, fresh = l04b_heads.seventeen(model, 16)
    assert fresh - full == pytest.approx(0.07, abs=0.005)
    kept = {what: float(loss[0]) for what, loss in visit.table("heaviest").items()}
    assert kept["the last 16 and the 16 heaviest"] * 2 < kept["the last 32"]

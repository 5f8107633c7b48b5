"""Behind lessons 3 and 3b: what they say of a padded step and of a packed one."""

import re

import pytest
import torch
from answers import worked
from support import ROOT

from course.attempt import Attempt
from course.report import Report
from course.stories import l03_batch, l03_exhibits, l03b_bits, l03b_packing
from nanogpt import Engine, EngineConfig, Parts, generate, load_model
from nanogpt.parts import fusing
from widgets import BatchView, Curves, MaskBuild


def attempted(name, function, status="failed"):
    return Attempt(Report(f"l03.{name}", status, (), 0, ""), function)


@pytest.fixture(scope="module")
def exact():
    return load_model().double()


def test_a_padded_step_is_faster_on_the_gpu_and_slower_on_the_cpu():
    said = l03_batch.padded_bill()
    assert said.startswith("Four rows of 8 are **32 tokens for 11 useful ones**.")
    gpu, cpu = re.findall(r"([\d.]+) ms with two forwards, ([\d.]+) ms with the padded", said)
    assert float(gpu[1]) < float(gpu[0])
    assert float(cpu[1]) > float(cpu[0])
    assert l03_batch.two_forwards_table().count("(modelled)") == 2


def test_the_batch_is_drawn_and_an_answer_that_is_none_is_refused():
    picture = BatchView(l03_batch.batch_rows(), **l03_batch.batch(), num_new=l03_batch.NUM_NEW)
    assert picture.batch["texts"][0] == ["0"] * 7 + ["t"]
    for answer in ((), ([1, 2],), "no rows", ([[1]], None)):
        with pytest.raises((TypeError, ValueError, IndexError, KeyError)):
            BatchView(l03_batch.batch_rows(), **l03_batch.batch(answer), num_new=l03_batch.NUM_NEW)


def test_the_posts_example_ends_with_the_reference_s_mask():
    last = l03_batch.posts_example()[-1]
    masks = [each["mask"] for each in last["masks"]]
    assert masks == fusing.full_mask([2, 4], [3, 3]).tolist()
    assert len(MaskBuild(l03_batch.posts_example()).steps) == 5


def test_a_mask_is_drawn_beside_the_reference_whatever_padding_sees():
    right = l03_batch.full_mask_steps(attempted("full_mask", worked("l03.full_mask")))
    [step] = right
    assert step["compare"] == [each["mask"] for each in step["masks"]]
    wrong = l03_batch.full_mask_steps(attempted("full_mask", l03_exhibits.padding_in_sight))
    assert wrong[0]["compare"] != [each["mask"] for each in wrong[0]["masks"]]
    shapeless = attempted("new_mask", lambda num_new: torch.ones(2))
    assert "bool tensor of shape (2, 3, 3)" in l03_batch.new_mask_steps(shapeless)
    unwritten = attempted("new_mask", None, "not_started")
    assert l03_batch.new_mask_steps(unwritten).startswith("Once you have written `new_mask`")


def test_letters_in_the_place_of_keys_show_what_is_cut():
    said = l03_batch.cut_letters(attempted("split_kv", worked("l03.split_kv")))
    assert re.findall(r"\| `(\w+)` \|", said) == ["ROMEO", "PUCK", "LEA"]
    assert "not written yet" in l03_batch.cut_letters(attempted("split_kv", None, "not_started"))


def test_the_posts_call_makes_one_forward_a_step(exact):
    assert l03_batch.posts_call(exact).endswith("the oracle's texts, holds.")


def test_half_of_60_letters_change_when_the_padding_of_the_past_is_in_sight(exact):
    assert l03_exhibits.diluted(exact) == 29


@pytest.mark.process
def test_every_form_of_a_step_writes_the_oracles_texts_and_packed_computes_what_is_useful(exact):
    rows = l03b_packing.forms_table(exact, Parts()).splitlines()[2:]
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    assert {row[5] for row in cells} == {"all six the oracle's"}
    assert [row[1] for row in cells] == ["`padded`", "`fused`", "`packed`", "`strip`"]
    assert [row[3:5] for row in cells[2:]] == [["338", "338"]] * 2
    assert cells[1][3:5] == ["338", "871"]

    def leaky(past_lens, num_new):
        cu_q, cu_k, mask = fusing.pack(past_lens, num_new)
        return cu_q, cu_k, torch.ones_like(mask)

    last = l03b_packing.forms_table(exact, Parts(pack=leaky)).splitlines()[-1]
    assert "**wrong: 0, 1" in last


def test_the_strip_is_the_learners_where_it_can_be_drawn():
    mine = l03b_packing.strip(attempted("pack", worked("l03.pack")))
    assert mine["title"] == "From padded to packed, by your pack"
    assert mine["packed"] == mine["reference"]["packed"]
    assert mine["packed"]["cu_q"] == [0, 1, 2, 3, 11]
    assert "cannot be drawn" in l03b_packing.strip(attempted("pack", lambda past, new: None))
    unwritten = l03b_packing.strip(attempted("pack", None, "not_started"))
    assert unwritten["title"].endswith("your pack is not written yet")


def test_packed_loses_in_no_line_and_padding_has_the_longest_gaps_at_256():
    runs = l03b_packing.crowd_runs()
    for machine in ("gpu", "cpu"):
        for budget in l03b_packing.BUDGETS:
            two, padded, packed = (
                l03b_packing.p99_ms(runs[machine, budget, form]) for form in l03b_packing.FORMS
            )
            assert packed <= min(two, padded)
    factor = l03b_packing.p99_ms(runs["gpu", 256, "one, padded"]) / l03b_packing.p99_ms(
        runs["gpu", 256, "two forwards"]
    )
    assert round(factor, 2) == 4.23  # "about four times that"
    assert l03b_packing.crowd_table(runs).count("\n") == 10
    assert "8 rows of 200 are 1,600 tokens, 207 of them useful" in l03b_packing.said_of_p99(runs)


def test_the_curves_meet_where_the_lesson_says():
    series, sliders = l03b_packing.step_curves()
    assert len(Curves(series, ("chunk", ""), ("a step", "ms"), sliders=sliders).series)
    gpu, cpu = l03b_packing.MACHINES
    assert [l03b_packing.longest_chunk(gpu, n) for n in (1, 4, 16, 64)] == [165, 63, 18, 4]
    assert [l03b_packing.longest_chunk(cpu, n) for n in (1, 4, 16, 64)] == [16, 4, 1, 1]
    at = {
        each["name"]: dict(each["points"])
        for each in series
        if each["when"] == {"decodes": 4, "machine": gpu}
    }
    assert at["one, padded"][48] <= at["two forwards"][48]
    assert at["one, padded"][64] > at["two forwards"][64]
    assert all(at["one, packed"][n] <= at["two forwards"][n] for n in at["one, packed"])


@pytest.mark.process
def test_in_tiles_of_one_size_every_bit_stays_whatever_is_beside_it():
    rows = l03b_bits.bits_table(load_model()).splitlines()[2:]
    assert len(rows) == 3
    assert all("| **40 of 40** |" in row for row in rows)


def test_the_fused_forward_writes_what_the_oracle_writes(exact):
    known = [list(each) for each in l03_batch.KNOWN[:3]]
    held = [[] for _ in known]
    lengths = [len(each) for each in known]
    for _ in range(5):
        logits, held = l03_exhibits.fused_forward(exact, known, held, lengths)
        for text, token in zip(known, logits.argmax(dim=1).tolist(), strict=True):
            text.append(token)
        lengths = [1] * 3
    for text, prompt in zip(known, l03_batch.KNOWN, strict=False):
        assert text[len(prompt) :] == generate(exact, prompt, 5)


def test_useful_shares_are_counted_over_forwards(exact):
    limits = EngineConfig(token_budget=32, executor="fused")
    trace = Engine(exact, limits).run(l03_batch.six_requests())
    assert "**338 useful tokens, 871 computed** (39%)" in l03_batch.useful_shares(trace)


def test_what_8_bits_bring_in_lesson_3b_is_what_the_benchmarks_say():
    lesson = (ROOT / "lessons" / "l03b_packing.py").read_text()
    quoted = re.findall(r"million.*?\| ×([\d.]+) \| ×([\d.]+) \| ×([\d.]+) \|", lesson)
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    [one_thread] = re.findall(r"\| one thread \| packed \| int8 \|.*?\n\n", text, re.DOTALL)
    measured = {
        (model, load): f"{int(int8.replace(',', '')) / int(packed.replace(',', '')):.2f}"
        for model, load, packed, int8 in re.findall(
            r"\| (\w+), (decode-\d+) \| ([\d,]+) \(.*?\) \| ([\d,]+) ", one_thread
        )
    }
    assert quoted == [
        tuple(measured[model, f"decode-{n}"] for n in (1, 8, 32))
        for model in ("character", "shipped")
    ]

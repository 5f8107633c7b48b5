"""The widgets' constructors, their joined scripts, and the one-file page."""

import copy
import json
import re
import sys

import pytest
import torch
from support import ROOT, find_program, run

from nanogpt.checkpoints.tokenizer import ALPHABET
from nanogpt.clock import CostClock
from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.engine import Engine
from nanogpt.experiments.machines import LARGE_GPU
from nanogpt.model import GPT
from nanogpt.request import Request
from widgets import (
    Batching,
    Hints,
    MaskStepper,
    Prediction,
    StepCost,
    Timeline,
    WorkBars,
    assets,
    standalone,
)
from widgets.timeline import SHAKESPEARE

SCRIPTS = sorted((ROOT / "widgets" / "static").glob("*.js"))
NAMES = [path.stem for path in SCRIPTS if "export default" in path.read_text(encoding="utf-8")]


@pytest.fixture(scope="module")
def trace():
    torch.manual_seed(0)
    model = GPT(ModelConfig(num_layers=1, num_heads=1, num_channels=8, context_len=32)).eval()
    config = EngineConfig(token_budget=4, max_batch_size=2)
    engine = Engine(model, config, clock=CostClock(LARGE_GPU))
    arrivals = [(0, Request(0, [1, 2, 3, 4, 5], 2)), (1, Request(1, [6, 7], 2))]
    return engine.run(arrivals).to_json()


# ---- the timeline --------------------------------------------------------------------------------


def test_a_timeline_takes_an_engine_s_trace_as_it_is(trace):
    widget = Timeline(trace, trace, title="Both", yours=True)
    assert widget.trace["steps"] == trace["steps"]
    assert widget.reference["requests"] == trace["requests"]
    assert widget.title == "Both"
    json.dumps(standalone.state(widget))


def test_the_timeline_s_alphabet_is_the_course_s():
    assert SHAKESPEARE == ALPHABET


def test_a_timeline_leaves_the_given_trace_alone(trace):
    before = copy.deepcopy(trace)
    Timeline({**trace, "error": "stopped"})
    assert trace == before


def broken(trace, **changes):
    return {**copy.deepcopy(trace), **changes}


def test_a_timeline_refuses_what_is_no_trace(trace):
    with pytest.raises(ValueError, match="the trace is a list; it must be a dict"):
        Timeline([])
    with pytest.raises(ValueError, match="the trace lacks clock, token_budget, requests, steps"):
        Timeline({"version": 1})
    with pytest.raises(ValueError, match="the reference has version 99; this widget reads"):
        Timeline(trace, broken(trace, version=99))
    with pytest.raises(ValueError, match="token budget of the trace is 0; it must be a whole"):
        Timeline(broken(trace, token_budget=0))


def test_a_timeline_refuses_steps_that_cannot_be_drawn(trace):
    stranger = broken(trace)
    stranger["steps"][0]["work"][0]["request_id"] = 7
    with pytest.raises(ValueError, match="step 0 of the trace names request 7, which never"):
        Timeline(stranger)
    backwards = broken(trace)
    backwards["steps"][1]["end_us"] = 0
    with pytest.raises(ValueError, match="step 1 of the trace ends at 0 us, before"):
        Timeline(backwards)


# ---- the other pictures --------------------------------------------------------------------------


def a_mask(**changes):
    return {"name": "right", "num_past": 1, "mask": [[True, True, False], [True] * 3], **changes}


def test_a_mask_may_have_a_note_and_labels_and_needs_neither():
    widget = MaskStepper([a_mask(), a_mask(labels=["a", "b", "c"], note="n")])
    assert [mask["labels"] for mask in widget.masks] == [None, ["a", "b", "c"]]
    assert [mask["note"] for mask in widget.masks] == ["", "n"]


@pytest.mark.parametrize(
    ("masks", "sentence"),
    [
        ([], "masks has 0 entries; it needs at least 1"),
        ([a_mask(name="")], "the name of a mask is empty"),
        ([a_mask(mask=[[True], [True, False]])], r"rows of \[1, 2\] keys"),
        ([a_mask(mask=[[2, 0, 0]])], "holds 2; every cell must be True or False"),
        ([a_mask(num_past=4)], "has 4 past keys but only 3 columns"),
        ([a_mask(labels=["a"])], "has 1 labels for 3 keys"),
    ],
)
def test_a_mask_stepper_refuses_masks_that_do_not_fit(masks, sentence):
    with pytest.raises(ValueError, match=sentence):
        MaskStepper(masks)


def a_series(**changes):
    return {"name": "laptop", "modelled": False, "fixed_us": 600, "token_us": 30, **changes}


def test_a_step_cost_reaches_to_its_last_point():
    points = [{"tokens": 4, "us": 700}, {"tokens": 96, "us": 3500}]
    assert StepCost([a_series(points=points)]).max_tokens == 96
    assert StepCost([a_series()]).max_tokens == 64
    assert StepCost([a_series(points=points)], max_tokens=256).max_tokens == 256
    assert StepCost([a_series()]).series[0]["floor_us"] == 0


@pytest.mark.parametrize(
    ("series", "sentence"),
    [
        ([], "series has 0 entries"),
        ([a_series(fixed_us=-1)], "fixed_us of 'laptop' is -1; it must be a number of at least 0"),
        ([a_series(token_us=float("nan"))], "token_us of 'laptop' is nan"),
        ([a_series(points=[{"tokens": 0, "us": 1}])], "tokens of a point of 'laptop' is 0"),
        ([{"name": "x"}], "a series lacks modelled, fixed_us, token_us"),
    ],
)
def test_a_step_cost_refuses_numbers_that_mean_nothing(series, sentence):
    with pytest.raises(ValueError, match=sentence):
        StepCost(series)


def test_work_bars_refuse_empty_and_negative_work():
    with pytest.raises(ValueError, match="the tokens of 'x' has 0 entries"):
        WorkBars([{"name": "x", "tokens": []}])
    with pytest.raises(ValueError, match="a token count of 'x' is -1"):
        WorkBars([{"name": "x", "tokens": [1, -1]}])


def a_side(*spans, slots=2, length=4):
    names = ("request", "slot", "start", "end")
    found = [dict(zip(names, span, strict=True)) for span in spans]
    return {"name": "static", "slots": slots, "length": length, "spans": found}


@pytest.mark.parametrize(
    ("side", "sentence"),
    [
        (a_side((0, 2, 0, 1)), "request 0 into slot 2; its slots are 0 to 1"),
        (a_side((0, 0, 0, 5)), "in steps 0 to 5, which is not within 0 to 4"),
        (a_side((0, 0, 2, 2)), "in steps 2 to 2"),
        (a_side((0, 0, 0, 3), (1, 0, 2, 4)), "requests 0 and 1 into slot 0 at step 2"),
        (a_side(slots=0), "slots of 'static' is 0"),
    ],
)
def test_batching_refuses_spans_outside_or_on_top_of_each_other(side, sentence):
    with pytest.raises(ValueError, match=sentence):
        Batching(side, a_side((0, 0, 0, 4)))


# ---- questions -----------------------------------------------------------------------------------


def test_a_prediction_starts_open_and_takes_back_what_was_committed():
    fresh = Prediction("l00.n", "How many?", answer=69)
    assert (fresh.choice, fresh.committed) == (None, False)
    kept = Prediction("l00.n", "How many?", answer=69, choice=70, committed=True)
    assert (kept.choice, kept.committed) == (70, True)
    assert (kept.shown, Prediction("l00.n", "How many?", answer=69, shown=True).shown) == (
        False,
        True,
    )


@pytest.mark.parametrize("key", ["two words", 'a"quote', "<b>"])
def test_a_prediction_refuses_a_key_that_the_page_could_not_keep(key):
    with pytest.raises(ValueError, match="it must be a word of letters, digits and dots"):
        Prediction(key, "Which?")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"options": ["a"]}, "the only option is 'a'"),
        ({"options": ["a", "b"], "answer": 2}, "the answer is 2; it must be an index from 0 to 1"),
        ({"options": ["a", "b"], "choice": 0.5}, "the choice is 0.5; it must be an index"),
        ({"answer": "many"}, "the answer is 'many'; it must be a number"),
        ({"committed": True}, "committed but has no choice"),
        ({"question": " "}, "the question is empty"),
    ],
)
def test_a_prediction_refuses_what_cannot_be_answered(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        Prediction(**{"key": "k", "question": "Which?", **arguments})


def test_hints_are_three_and_remember_how_many_are_shown():
    assert Hints("k", ["a", "b", "c"], shown=2).shown == 2
    with pytest.raises(ValueError, match="there are 2 hints; there must be 3"):
        Hints("k", ["a", "b"])
    with pytest.raises(ValueError, match="shown is 4; it must be from 0 to 3"):
        Hints("k", ["a", "b", "c"], shown=4)


# ---- scripts and pages ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_joined_script_has_one_default_export_and_no_import_or_address(name):
    script = assets.esm(name)
    assert script.count("export default") == 1
    assert not re.search(r"^\s*import\b", script, re.MULTILINE)
    assert "innerHTML" not in script
    addresses = set(re.findall(r"https?://[^\s\"'`]+", script + assets.css(name)))
    assert addresses <= {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("name", NAMES)
def test_a_script_keeps_no_state_between_widgets(name):
    declared = re.findall(r"^(?:let|var) .*", assets.esm(name), re.MULTILINE)
    assert declared == []


@pytest.mark.process
@pytest.mark.parametrize("name", NAMES)
def test_a_joined_script_is_a_module_that_renders(name, tmp_path):
    script = tmp_path / f"{name}.mjs"
    script.write_text(assets.esm(name), encoding="utf-8")
    address = json.dumps(script.as_uri())
    command = f"import({address}).then((module) => console.log(typeof module.default.render))"
    done = run([find_program("node"), "--input-type=module", "-e", command], cwd=tmp_path)
    assert done.stdout.strip() == "function", done.stderr


def test_shared_scripts_come_first_and_once():
    script = assets.esm("timeline")
    assert script.count("export function mount(") == 1
    assert script.index("export function mount(") < script.index("export function createPlayer(")
    assert script.index("export function createPlayer(") < script.index("export default")


def test_the_theme_comes_first_and_once_however_many_styles_follow():
    theme, mask, own = (assets.css(*names) for names in ((), ("mask_stepper",), ("batch_view",)))
    assert assets.css("mask_stepper", "batch_view") == mask + own.removeprefix(theme)


def test_a_page_holds_everything_and_no_text_can_end_its_data():
    hints = Hints("k", ["</script><b>a</b>", "b", "c"])
    page = standalone.page([hints, hints], "One & two")
    assert page.count("</script>") == 2
    assert "<h1>One &amp; two</h1>" in page
    assert re.findall(r'(?:src|href)="', page) == []
    data = json.loads(re.search(r'id="widgets">(.*)</script>', page)[1])
    assert [each["kind"] for each in data["widgets"]] == ["Hints", "Hints"]
    assert data["widgets"][0]["state"]["hints"][0] == "</script><b>a</b>"
    assert list(data["modules"]) == ["Hints"]


def test_the_widgets_import_neither_torch_nor_the_engine():
    code = "import sys, widgets, widgets.standalone; print({'torch', 'nanogpt'} & {*sys.modules})"
    done = run([sys.executable, "-c", code], cwd=ROOT)
    assert done.stdout.strip() == "set()", done.stderr

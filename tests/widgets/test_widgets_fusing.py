"""The batch view and the mask in steps: what they take, what they refuse, their scripts."""

import copy
import json
import re

import pytest
from support import find_program, run

from nanogpt.parts import fusing
from widgets import BatchView, MaskBuild, assets, standalone

ROWS = [
    {"id": 0, "kind": "decode", "label": "A"},
    {"id": 7, "kind": "prefill", "label": "B"},
]


def a_batch(**changes):
    """A decode at position 2 and a chunk of three, from the functions that learners write."""
    tokens, positions = fusing.fused_rows([[5, 6, 7], [1, 2, 3, 4]], [2, 0], [1, 3])
    batch = {"rows": ROWS, "tokens": tokens, "positions": positions, "num_new": [1, 3]}
    return {**batch, **changes}


def a_packed(**changes):
    cu_q, cu_k, mask = fusing.pack([2, 0], [1, 3])
    return {"cu_q": cu_q, "cu_k": cu_k, "mask": mask.tolist(), **changes}


def a_step(**changes):
    mask = {"label": "A", "mask": [[True, True, False], [True] * 3]}
    return {"name": "Pasted", "words": "w", "num_past": 1, "masks": [mask], **changes}


# ---- the batch -----------------------------------------------------------------------------------


def test_a_batch_view_takes_the_fused_rows_as_they_are():
    given = a_batch()
    before = copy.deepcopy(given)
    widget = BatchView(**given, title="One step")
    assert given == before
    assert widget.rows == ROWS
    assert widget.batch["tokens"] == [[0, 0, 7], [1, 2, 3]]
    assert widget.batch["positions"] == [[0, 0, 2], [0, 1, 2]]
    assert (widget.num_new, widget.reference, widget.title) == ([1, 3], None, "One step")
    assert (widget.batch["texts"], widget.batch["packed"]) == (None, None)
    json.dumps(standalone.state(widget))


def test_a_batch_view_takes_texts_a_strip_and_a_reference():
    texts = [["", "", "x"], ["a", "b", "c"]]
    right = {name: a_batch()[name] for name in ("tokens", "positions")}
    reference = {**right, "packed": a_packed()}
    labelled = a_packed(key_labels=list("abcdef"))
    widget = BatchView(**a_batch(), texts=texts, packed=labelled, reference=reference)
    assert widget.batch["texts"] == texts
    assert widget.batch["packed"]["cu_k"] == [0, 3, 6]
    assert widget.batch["packed"]["key_labels"] == list("abcdef")
    assert widget.reference["packed"]["key_labels"] is None
    assert widget.reference["texts"] is None
    json.dumps(standalone.state(widget))


def test_a_wrong_batch_is_drawn_and_not_refused():
    ragged = BatchView(**a_batch(tokens=[[7], [1, 2, 3]], positions=[[-1], [0, 1, 2]]))
    assert ragged.batch["tokens"] == [[7], [1, 2, 3]]
    assert ragged.batch["positions"][0] == [-1]
    short = a_packed(cu_q=[1, 4], cu_k=[])
    assert BatchView(**a_batch(), packed=short).batch["packed"]["cu_q"] == [1, 4]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rows": []}, "rows has 0 entries; it needs at least 1"),
        ({"rows": [{"id": 0, "kind": "decode"}]}, "a row lacks label; it needs id, kind, label"),
        ({"rows": [{**ROWS[0], "kind": "wait"}]}, "the kind of row 'A' is 'wait'; it must be one"),
        ({"rows": [{**ROWS[0], "id": -1}]}, "the id of row 'A' is -1; it must be a whole number"),
        ({"tokens": [[1, 2, 3]]}, "tokens has 1 entries for 2 rows; it needs one each"),
        ({"tokens": [[], [1]]}, "a row of tokens has 0 entries; it needs at least 1"),
        ({"tokens": [[1.5], [1]]}, "a row of tokens holds 1.5; it must hold whole numbers"),
        ({"positions": [["a"], [1]]}, "a row of positions holds 'a'; it must hold whole numbers"),
        ({"num_new": [1]}, "num_new has 1 entries for 2 rows; it needs one each"),
        ({"num_new": [0, 3]}, "an entry of num_new is 0; it must be a whole number of at least 1"),
        ({"texts": [["a"]]}, "texts has 1 entries for 2 rows; it needs one each"),
        ({"texts": [["a"], [3]]}, "an entry of texts is 3; it must be text"),
        ({"packed": {"cu_q": [0]}}, "packed lacks cu_k, mask; it needs cu_q, cu_k, mask"),
        ({"packed": a_packed(mask=[[2]])}, "the mask of packed holds 2; every cell must be True"),
        ({"packed": a_packed(cu_q=[None])}, "cu_q of packed holds None; it must hold whole"),
        ({"packed": a_packed(key_labels=["a"])}, "packed has 1 key labels for 6 keys"),
        ({"reference": {"tokens": [[1], [2]]}}, "the batch of the reference lacks positions"),
        (
            {"reference": {"tokens": [[1]], "positions": [[1]]}},
            "tokens of the reference has 1 entries for 2 rows",
        ),
        ({"title": 3}, "the title is 3; it must be text"),
    ],
)
def test_a_batch_view_refuses_what_it_cannot_draw(change, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        BatchView(**a_batch(**change))


# ---- the mask in steps ---------------------------------------------------------------------------


def test_a_mask_build_takes_one_matrix_for_each_row_of_the_batch():
    past, new = [2, 4], [3, 2]
    full = fusing.full_mask(past, new).tolist()
    masks = [
        {"label": "AB"[row], "mask": full[row], "past_len": past[row], "num_new": new[row]}
        for row in range(2)
    ]
    widget = MaskBuild([a_step(num_past=4, masks=masks, compare=full)], "A mask", names=("x", "y"))
    step = widget.steps[0]
    assert [mask["mask"] for mask in step["masks"]] == step["compare"] == full
    assert [(mask["past_len"], mask["num_new"]) for mask in step["masks"]] == [(2, 3), (4, 2)]
    assert (widget.title, widget.names) == ("A mask", ["x", "y"])
    json.dumps(standalone.state(widget))


def test_a_step_needs_neither_counts_nor_labels_nor_a_comparison():
    step = MaskBuild([a_step()]).steps[0]
    assert step["compare"] is None
    assert step["masks"][0] == {
        "label": "A", "mask": [[True, True, False], [True] * 3], "key_labels": None,
        "past_len": None, "num_new": None,
    }  # fmt: skip


def a_mask(**changes):
    return [{**a_step()["masks"][0], **changes}]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"masks": []}, "the masks of step 'Pasted' has 0 entries; it needs at least 1"),
        ({"name": " "}, "the name of a step is empty"),
        ({"words": 1}, "the words of step 'Pasted' is 1; it must be text"),
        ({"num_past": 4}, "mask 'A' of step 'Pasted' has 4 past keys but only 3 columns"),
        ({"masks": a_mask(mask=[[True], [True, False]])}, "has rows of [1, 2] keys"),
        ({"masks": a_mask(key_labels=["a"])}, "has 1 labels for 3 keys"),
        ({"masks": a_mask(past_len=1)}, "has only one of past_len and num_new; it needs both"),
        (
            {"masks": a_mask(past_len=2, num_new=1)},
            "past_len of mask 'A' of step 'Pasted' is 2; there are only 1 such columns",
        ),
        ({"masks": a_mask(past_len=1, num_new=3)}, "is 3; there are only 2 such columns"),
        ({"compare": []}, "step 'Pasted' compares 0 matrices with 1 masks"),
        ({"compare": [[[1, 5]]]}, "a matrix to compare in step 'Pasted' holds 5"),
    ],
)
def test_a_mask_build_refuses_what_it_cannot_draw(change, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        MaskBuild([a_step(**change)])


def test_a_mask_build_needs_a_step():
    with pytest.raises(ValueError, match="steps has 0 entries; it needs at least 1"):
        MaskBuild([])


@pytest.mark.process
def test_the_reference_s_own_tensors_hold_no_wrong_cell(tmp_path):
    """What the pictures call wrong, by their own rules, is nowhere in the right answers."""
    past, new = [21, 14, 8, 0], [1, 1, 1, 8]
    cu_q, cu_k, mask = fusing.pack(past, new)
    masks = [
        {"label": "x", "mask": each, "past_len": held, "num_new": n, "key_labels": None}
        for each, held, n in zip(fusing.full_mask(past, new).tolist(), past, new, strict=True)
    ]
    step = {"name": "n", "words": "", "num_past": 21, "masks": masks, "compare": None}
    data = {"packed": {"cu_q": cu_q, "cu_k": cu_k, "mask": mask.tolist()}, "step": step}
    (tmp_path / "data.json").write_text(json.dumps(data), encoding="utf-8")
    static = (assets.__file__ or "").replace("assets.py", "static")
    command = (
        f"import {{ hasPacked }} from {json.dumps(static + '/batch_view_layout.js')};"
        f"import {{ countCells }} from {json.dumps(static + '/mask_build_layout.js')};"
        "import { readFileSync } from 'node:fs'; const wrong = (cell) => cell.wrong;"
        "const { packed, step } = JSON.parse(readFileSync('data.json'));"
        "const before = [hasPacked(packed, null, wrong), countCells([step], 0, wrong)];"
        "packed.mask[1][0] = true; step.masks[0].mask[7][22] = true;"
        "console.log(before, [hasPacked(packed, null, wrong), countCells([step], 0, wrong)]);"
    )
    done = run([find_program("node"), "--input-type=module", "-e", command], cwd=tmp_path)
    assert done.stdout.strip() == "[ false, 0 ] [ true, 1 ]", done.stderr

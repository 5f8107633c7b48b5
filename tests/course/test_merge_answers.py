"""Answers carried from a learner's old copy of a lesson into the new one, with what they use."""

import ast
import importlib
from graphlib import CycleError, TopologicalSorter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marimo_texts import cell, function, notebook, stub
from notebooks import STEMS
from support import ROOT
from tiers import examples, some

from course.calling.loading import load
from course.moves import MODULES
from course.source.cutting import read_notebook
from course.source.indentation import dedent, indent
from course.source.merge_answers import carry

SETUP = "with app.setup:\n    import marimo as mo\n    {}\n\n"
NEW = notebook(SETUP.format("from torch import Tensor"), stub("plan"), stub("mask"))


def loaded(text: str, *names: str):
    return load(text, "lesson.py", names)


def in_marimo(text: str) -> Any:
    from course.marimo_internals import MarimoConvert  # takes a second

    return MarimoConvert.from_py(text)


def as_marimo_reads(text: str) -> list[str]:
    """The cells' sources as the page shows them."""
    return [each.code for each in in_marimo(text).to_ir().cells]


def load_marimos(text: str, names: list[str]):
    return load("\n\n# %%\n".join(as_marimo_reads(text)), "lesson.py", names)


def called(text: str, name: str = "plan"):
    found = loaded(text, name)
    assert found.problems[name] == []
    return found.functions[name](2, 3)


# ---- which answers are carried -------------------------------------------------------------------


def test_only_answered_functions_are_carried_whole_and_the_courses_own_stay_new():
    body = "    # first\n    x = a\n\n    return x + b\n    # last"
    answer = function("plan", body, above="@functools.cache\n")
    longer = function("third", "    x = 1\n    x = 1\n    return x")
    old = notebook(function("shown", "    return 1"), answer, stub("mask"), longer)
    new_shown, new_mask = function("shown", "    return 2"), stub("mask", doc="A better story.")
    carried = carry(old, notebook(new_shown, stub("plan"), new_mask, stub("third")))
    assert carried.names == ("plan", "third")
    assert carried.text == notebook(new_shown, answer, new_mask, longer)


def test_a_function_that_marimo_saved_inside_a_cell_keeps_its_strings():
    text = 'text = """one\n  two"""'
    inside = f"def _():\n    def plan(a, b):\n        {text}\n        return text\n    return\n"
    carried = carry(notebook(f"@app.cell\n{inside}"), NEW)
    assert f"@app.function\ndef plan(a, b):\n    {text}\n    return text\n" in carried.text
    assert called(carried.text) == "one\n  two"


def test_an_answer_to_another_signature_is_left_with_a_sentence():
    new = notebook(stub("plan"))
    carried = carry(notebook(function("plan", "    return a", "a")), new)
    assert carried.text == new
    assert carried.sentences() == [
        "Not carried over: plan, because the lesson calls it with 2 arguments, which yours does "
        "not take."
    ]


def test_an_answer_fits_where_it_can_be_called_as_the_lesson_does():
    for arguments, fits in (
        ("a, b=1, c=3", True),
        ("*more", True),
        ("a, b, *, c=3", True),
        ("a, b, /", True),
        ("a, b, *, c", False),
        ("a, b, c, *more", False),
    ):
        old = notebook(function("plan", "    return a", arguments))
        assert (carry(old, NEW).names == ("plan",)) == fits, arguments


def test_a_passed_answer_stands_in_for_a_broken_file_and_a_stub_but_not_for_a_newer_answer():
    passed = {"plan": "def plan(a, b):\n    return 'passed'\n"}
    for old, value in (
        ("def (", "passed"),
        (notebook(stub("plan")), "passed"),
        (notebook(function("plan", "    return 'newest'")), "newest"),
    ):
        carried = carry(old, NEW, passed)
        assert carried.names == ("plan",)
        assert called(carried.text) == value


# ---- what comes along ----------------------------------------------------------------------------


def test_a_helper_that_its_cell_keeps_to_itself_stays_in_the_cell():
    old = notebook(
        cell("_K = 5\ndef _fill(x):\n    return x * _K\ndef plan(a, b):\n    return _fill(a) + b"),
        cell("_K = 7\ndef mask(a, b):\n    return _K"),
    )
    carried = carry(old, NEW)
    assert carried.sentences() == ["Carried over: plan, mask."]
    assert (called(carried.text), called(carried.text, "mask")) == (13, 7)


def test_classes_tables_and_what_fills_them_come_along():
    old = notebook(
        "@app.class_definition\nclass Row:\n    size = 3\n",
        cell("TABLE = {}\nTABLE['row'] = Row\nTABLE.setdefault('b', 4)\nprint(TABLE)"),
        function("plan", "    return TABLE['row'].size + TABLE['b']"),
    )
    carried = carry(old, NEW)
    assert called(carried.text) == 7
    plain = "TABLE = {}\nTABLE[2] = 3\n\n\ndef plan(n, _):\n    return TABLE[n]\n"
    assert called(plain) == 3


def test_a_name_that_its_cell_binds_again_is_what_it_is_in_the_end():
    old = notebook(
        cell("def three():\n    return 3\nthree = three()"),
        function("plan", "    return three + a"),
    )
    carried = carry(old, NEW)
    assert called(carried.text) == 5
    assert carried.sentences() == ["Carried over: plan.", "With what they use: three."]


def test_what_depends_on_each_other_is_one_cell_and_comes_once():
    shared = "_low = [1]\nT = []\nV = [2]\nT.append(_low)\n_low.append(4)"
    plan = "def plan(a, b):\n    return T if a == 2 else mask(2, b)"
    mask = "def mask(a, b):\n    return [*T, *V, *plan(2, b)]"
    old = notebook(cell(shared), cell(f"{plan}\n{mask}"))
    carried = carry(old, NEW)
    assert (called(carried.text), called(carried.text, "mask")) == ([[1, 4]], [[1, 4], 2, [1, 4]])
    assert carried.text.count("T.append") == carried.text.count("def mask") == 1
    assert [len(each.split("def ")) for each in as_marimo_reads(carried.text)] == [1, 1, 3]


def test_what_cannot_be_found_is_named():
    carried = carry(notebook(function("plan", "    return fill(a)")), NEW)
    assert carried.sentences() == [
        "Carried over: plan.",
        "`fill`, which `plan` uses, was not found.",
    ]


def test_what_the_new_lesson_has_itself_is_not_brought_in_twice():
    given_ = function("fill", "    return {}", "x")
    new = notebook(given_.format("'new'"), stub("plan"))
    old = notebook(given_.format("'old'"), function("plan", "    return fill(a)"))
    carried = carry(old, new)
    assert called(carried.text) == "new"
    assert carried.notes == ("`fill`, which `plan` uses, is the new lesson's own now.",)
    assert carry(old.replace("'old'", "'new'"), new).notes == ()


def test_of_a_broken_file_the_sound_cells_are_carried_and_the_broken_one_is_named():
    old = notebook(
        function("plan", "    return a ="),
        function("fill", "    return 1", ""),
        function("mask", "    return fill()"),
        'app._unparsable_cell(\n    r"""\n    def mine(:\n    """,\n    name="_"\n)\n',
    )
    carried = carry(old, NEW)
    assert called(carried.text, "mask") == 1
    assert carried.sentences() == [
        "Carried over: mask.",
        "With what they use: fill.",
        "Not carried over: plan, because the cell of `plan` at line 6 cannot be read "
        "(invalid syntax).",
        "Left out: the cell of `mine` at line 21 cannot be read (invalid syntax).",
    ]
    for bad in ("\x00", "\udcff", "(" * 500):
        old = notebook(cell(f"x = '{bad}'"), cell(bad), function("plan", "    return 5"))
        assert called(carry(old, NEW).text) == 5
    only_the_compiler_refuses = "def f():\n    nonlocal x\n"
    carried = carry(notebook(only_the_compiler_refuses, function("plan", "    return 5")), NEW)
    assert called(carried.text) == 5
    assert carried.notes[0].startswith("Left out: the cell of `f` at line 6 cannot be read (")


def test_a_form_feed_or_a_unicode_line_separator_moves_no_line():
    odd = "    # one\x0cpage\n    text = '\u2028\x1c'\n    return text + str(a)"
    old = notebook(function("fill", odd), function("plan", "    return fill(a, b)"))
    assert called(carry(old, NEW).text) == "\u2028\x1c2"


# ---- properties ----------------------------------------------------------------------------------

TEXT = '"""one\n{}two\n   \n\tthree{{a}}"""'
SHOW = """@app.function
def show(x):
    if isinstance(x, type):
        return [x.size, x.text]
    return show(x()) if callable(x) else x
"""


@st.composite
def webs(draw) -> str:
    """A notebook whose answers `plan` and `mask` use a random web of names, in random places."""
    names = draw(st.lists(st.sampled_from("ABCDEFG"), min_size=1, unique=True))
    placed: dict[str, list[str]] = {"own": [], "together": [], "setup": [], "top": []}
    for at, name in enumerate(names):
        used = draw(st.lists(st.sampled_from(names[:at]), unique=True, max_size=3)) if at else []
        value = " + ".join(["'7'", *(f"type({each}).__name__" for each in used)])
        text = TEXT.format(draw(st.sampled_from(["", "  ", "        "])))
        function = f"def {name}(a=1):\n    text = f{text}\n    return text + {value}\n    # end"
        kinds = [
            f"{name} = [{value}, {text}]",
            f"# why\n{function}",
            f"{function}\n{name} = {name}()",
            f"class {name}:\n    size = {value}\n    text = {text}",
        ]
        place = draw(st.sampled_from(sorted(placed)))
        if place == "top":
            kinds = [f"@app.function\n{function}", f"@app.class_definition\n{kinds[3]}"]
        placed[place].append(draw(st.sampled_from(kinds)))
    answers = []
    for name in ("plan", "mask"):
        shown = draw(st.lists(st.sampled_from(names), unique=True))
        body = ", ".join(["a", *(f"show({each})" for each in shown)])
        answers.append(f"def {name}(a, b):\n    return [{body}]")
    cells = [*map(cell, placed["own"]), cell("\n".join([*placed["together"], answers[0]]))]
    cells = draw(st.permutations([*cells, f"@app.function\n{answers[1]}\n"]))
    setup = indent("\n".join(["import marimo as mo", *placed["setup"]]))
    return notebook(f"with app.setup:\n{setup}\n", SHOW, "\n".join(placed["top"]) + "\n", *cells)


def runs_as_a_page(text: str) -> bool:
    """Whether no cell waits for itself, and nothing is used above the cells that is only in one."""
    above, uses = set[str](), dict[int, set[int]]()
    for place in ("setup", "top", "cell"):
        items = [item for item in read_notebook(text).statements if item.place == place]
        above |= {name for item in items for name in item.binds if place != "cell"}
        if place != "cell" and any(item.uses & set("ABCDEFG") - above for item in items):
            return False
        homes = {name: item.cell for item in items for name in item.binds}
        for item in items if place == "cell" else ():
            needed = {homes[name] for name in item.uses & homes.keys()} - {item.cell}
            uses[item.cell] = uses.get(item.cell, set()) | needed
    try:
        TopologicalSorter(uses).prepare()
    except CycleError:
        return False
    return True


@examples(0.5)
@given(webs())
def test_carried_functions_do_what_they_did_in_the_old_file(old: str):
    names = ["plan", "mask"]
    if not runs_as_a_page(old):
        return
    before = loaded(old, *names)
    assert before.problems == {"plan": [], "mask": []}
    carried = carry(old, NEW)
    assert carry(carried.text, NEW).text == carried.text
    for after in (loaded(carried.text, *names), load_marimos(carried.text, names)):
        assert after.problems == {"plan": [], "mask": []}
        for name in names:
            assert after.functions[name](1, 2) == before.functions[name](1, 2)


LINES = st.lists(
    st.text(alphabet=" \tab'\"\\#{}\x0c\u2028", max_size=6), min_size=1, max_size=5
).map("\n".join)


@given(LINES, st.sampled_from(["x = '''{}'''", "x = f'''{}'''", "def f():\n    return '''{}'''"]))
def test_what_is_indented_comes_back_as_it_was(inside: str, code: str):
    source = code.format(inside.replace("'", "").replace("{", "").replace("}", "").rstrip("\\"))
    assert dedent(indent(source)) == source


# ---- the course's own lessons --------------------------------------------------------------------


@pytest.mark.parametrize("stem", some(STEMS, 4))
def test_an_update_of_any_lesson_brings_every_answer_with_what_it_uses(stem: str):
    lesson = (ROOT / "lessons" / f"{stem}.py").read_text()
    stubs = [item for item in read_notebook(lesson).statements if item.is_stub]
    names = [min(item.binds) for item in stubs]
    lines = lesson.split("\n")
    for name, item in zip(reversed(names), reversed(stubs), strict=True):
        signature = f"def {name}({ast.unparse(item.node.args)}):"
        answer = [signature, f"    return my_helper({name!r}, np.int64(SIZE))"]
        lines[item.line - 1 : item.lines[1]] = answer
    mine = cell("import numpy as np\nSIZE = 3", gives="(np, SIZE)")
    mine += "\n\n@app.function\ndef my_helper(name, x):\n    return name, x\n\n\n"
    old = "\n".join(lines).replace("@app.", f"{mine}@app.", 1)
    carried = carry(old, lesson)
    assert carried.sentences() == [
        f"Carried over: {', '.join(names)}.",
        "With what they use: SIZE, my_helper, np.",
    ]
    cells = as_marimo_reads(carried.text)
    assert as_marimo_reads(in_marimo(carried.text).to_py()) == cells
    for found in (loaded(carried.text, *names), load_marimos(carried.text, names)):
        assert set(found.functions) == set(names)
        for name, function_ in found.functions.items():
            assert function_(*[None] * function_.__code__.co_argcount) == (name, 3)


def test_what_imports_a_module_under_its_old_name_finds_it_under_todays():
    for old, new in MODULES.items():
        assert importlib.import_module(new).__doc__
        mine = notebook(function("plan", f"    from {old} import x\n    return x"))
        carried = carry(mine, NEW)
        assert f"from {new} import x" in carried.text and old not in carried.text

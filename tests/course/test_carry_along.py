"""What an answer uses comes along with it into a new lesson, wherever it stood."""

import ast
import tempfile
from pathlib import Path

import pytest
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from marimo._convert.converters import MarimoConvert
from notebooks import STEMS
from support import ROOT

from course.source.cutting import read_cells, read_notebook
from course.source.indentation import dedent, indent
from course.source.merge_answers import carry
from course.source.notebook import load, load_functions
from tests.course.test_merge_answers import function, notebook, stub

SETUP = "with app.setup:\n    import marimo as mo\n    {}\n\n"
NEW = notebook(SETUP.format("from torch import Tensor"), stub("plan"), stub("mask"))


def cell(body: str, *, takes: str = "", gives: str = "") -> str:
    return f"@app.cell\ndef _({takes}):\n{indent(body)}\n    return {gives}".rstrip() + "\n"


def loaded(text: str, *names: str):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lesson.py"
        path.write_text(text)
        return load_functions(path, names)


def as_marimo_reads(text: str) -> list[str]:
    """The cells' sources as the page shows them."""
    return [each.code for each in MarimoConvert.from_py(text).to_ir().cells]


def load_marimos(text: str, names: list[str]):
    return load(read_cells(as_marimo_reads(text)), Path("lesson.py"), names)


def called(text: str, name: str = "plan"):
    found = loaded(text, name)
    assert found.problems[name] == []
    return found.functions[name](2, 3)


USES = function("plan", "    return fill(a) + LIMIT + np.int64(b).item()")
FILL = "def fill(x):\n    return [x] and x * FACTOR"
ELSEWHERE = {
    "cells of their own": notebook(
        SETUP.format("pass"),
        cell("import numpy as np", gives="(np,)"),
        cell("LIMIT = FACTOR + 1", takes="FACTOR", gives="(LIMIT,)"),
        cell("FACTOR = 10", gives="(FACTOR,)"),
        f"@app.function\n{FILL}\n",
        USES,
        stub("mask"),
    ),
    "the setup cell": notebook(
        SETUP.format("import numpy as np\n    FACTOR = 10\n    LIMIT = FACTOR + 1"),
        f"@app.function\n{FILL}\n",
        USES,
    ),
    "the answer's own cell": notebook(
        cell(
            f"import numpy as np\nFACTOR = 10\nLIMIT = FACTOR + 1\n{FILL}\n"
            + USES.removeprefix("@app.function\n")
        )
    ),
    "the top of the file": notebook(
        f"import numpy as np\nFACTOR = 10\nLIMIT = FACTOR + 1\n{FILL}\n", USES
    ),
}


@pytest.mark.parametrize("old", ELSEWHERE.values(), ids=ELSEWHERE)
def test_helpers_constants_and_imports_come_along_wherever_they_stood(old: str):
    carried = carry(old, NEW)
    assert carried.sentences() == [
        "Carried over: plan.",
        "With what they use: FACTOR, LIMIT, fill, np.",
    ]
    assert called(carried.text) == called(old) == 34
    assert carry(carried.text, NEW).text == carried.text


@pytest.mark.parametrize("old", ELSEWHERE.values(), ids=ELSEWHERE)
def test_marimo_reads_and_saves_what_is_carried_as_it_is(old: str):
    carried = carry(old, NEW).text
    cells = as_marimo_reads(carried)
    assert as_marimo_reads(MarimoConvert.from_py(carried).to_py()) == cells
    assert sum("def plan(" in each for each in cells) == 1


def test_a_helper_that_its_cell_keeps_to_itself_stays_in_the_cell():
    old = notebook(
        cell("_K = 5\ndef _fill(x):\n    return x * _K\ndef plan(a, b):\n    return _fill(a) + b"),
        cell("_K = 7\ndef mask(a, b):\n    return _K"),
    )
    carried = carry(old, NEW)
    assert carried.sentences() == ["Carried over: plan, mask."]
    assert (called(carried.text), called(carried.text, "mask")) == (13, 7)


def test_a_helper_of_two_answers_comes_once():
    old = notebook(
        function("fill", "    return 4", ""),
        function("plan", "    return fill()"),
        function("mask", "    return fill()"),
    )
    carried = carry(old, NEW)
    assert carried.text.count("def fill(") == 1
    assert called(carried.text) == called(carried.text, "mask") == 4


def test_classes_tables_and_what_fills_them_come_along():
    old = notebook(
        "@app.class_definition\nclass Row:\n    size = 3\n",
        cell("TABLE = {}\nTABLE['row'] = Row\nTABLE.setdefault('b', 4)\nprint(TABLE)"),
        function("plan", "    return TABLE['row'].size + TABLE['b']"),
    )
    carried = carry(old, NEW)
    assert called(carried.text) == 7
    assert "print(" not in carried.text


def test_in_a_plain_file_what_fills_a_table_comes_along():
    text = "TABLE = {}\nTABLE[0] = 3\nTABLE.update({1: 4})\n\n\ndef plan(n):\n    return TABLE[n]\n"
    assert [loaded(text, "plan").functions["plan"](n) for n in (0, 1)] == [3, 4]


def test_an_answer_that_is_no_def_is_carried():
    old = notebook(cell("import functools\nplan = functools.partial(max, 7)", gives="(plan,)"))
    assert called(carry(old, NEW).text) == 7


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
    same = carry(old.replace("'old'", "'new'"), new)
    assert same.notes == ()


def test_a_passed_answer_brings_its_helpers_from_its_saved_text():
    helper = "import math\n\n\n_K = 2\n\n\ndef fill(x):\n    return x * _K\n\n\n"
    saved = f"{helper}def plan(a, b):\n    return math.floor(fill(a))\n"
    carried = carry("def (", NEW, {"plan": saved})
    assert called(carried.text) == 4
    assert carried.along == ("fill", "math")


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


@pytest.mark.parametrize("bad", ["\x00", "\udcff", "(" * 500])
def test_whatever_stands_in_a_cell_the_others_are_carried(bad: str):
    old = notebook(cell(f"x = '{bad}'"), cell(bad), function("plan", "    return 5"))
    assert called(carry(old, NEW).text) == 5


def test_a_form_feed_or_a_unicode_line_separator_moves_no_line():
    odd = "    # one\x0cpage\n    text = '\u2028\x1c'\n    return text + str(a)"
    old = notebook(function("fill", odd), function("plan", "    return fill(a, b)"))
    assert called(carry(old, NEW).text) == "\u2028\x1c2"


# ---- properties ----------------------------------------------------------------------------------

TEXT = '"""one\n{}two\n   \n\tthree{{a}}"""'
PLACES = ("own", "together", "setup", "top")


@st.composite
def notebooks(draw) -> str:
    """A notebook whose answers `plan` and `mask` use a random web of names, in random places."""
    names = draw(st.lists(st.sampled_from("ABCDEFG"), min_size=1, unique=True))
    items: list[tuple[str, str]] = []  # place, source
    for place, name in enumerate(names):
        used = draw(st.lists(st.sampled_from(names[:place] or ["a"]), unique=True, max_size=3))
        value = " + ".join(
            ["str(a)" if n == "a" else f"type({n}).__name__" for n in used] or ["''"]
        )
        kind = draw(st.sampled_from(["constant", "function", "class", "text"]))
        lead = draw(st.sampled_from(["", "  ", "        "]))
        text = TEXT.format(lead)
        if kind == "function":
            source = (
                f"# why\ndef {name}(a=1):\n    text = f{text}\n    return text + {value}\n    # end"
            )
            source += f"\n{name} = {name}()" if draw(st.booleans()) else ""
        elif kind == "class":
            size = value.replace("str(a)", "7")
            source = f"class {name}:\n    a = 1\n    size = {size}\n    text = {text}"
        else:
            source = f"{name} = [{value.replace('str(a)', '7')}, {text if kind == 'text' else 1}]"
        items.append((draw(st.sampled_from(PLACES)), source))
    answers = []
    for name in ("plan", "mask"):
        used = draw(st.lists(st.sampled_from(names), unique=True))
        body = ", ".join(f"show({n})" for n in used)
        answers.append(f"def {name}(a, b):\n    return [a, {body}]")
    show = (
        "def show(x):\n    if isinstance(x, type):\n        return [x.size, x.text]\n"
        "    return show(x()) if callable(x) else x"
    )
    return _laid_out(draw, items, show, answers)


def _laid_out(draw, items, show, answers) -> str:
    setup, tops, own = ["import marimo as mo"], [], []
    together: list[str] = []
    for place, source in items:
        {"setup": setup, "top": tops, "own": own, "together": together}[place].append(source)
    cells = [cell(source) for source in own]
    cells.append(cell("\n".join([*together, answers[0]])))
    cells.append(f"@app.function\n{answers[1]}\n")
    cells = draw(st.permutations(cells))
    head = f"with app.setup:\n{indent(chr(10).join(setup))}\n"
    return notebook(head, f"{show}\n", "\n".join(tops) + "\n", *cells)


@examples(150)
@given(notebooks())
def test_carried_functions_do_what_they_did_in_the_old_file(old: str):
    before = loaded(old, "plan", "mask")
    if any(before.problems.values()):
        return  # the setup cell uses what is not in it: the old file did not work either
    carried = carry(old, NEW)
    after = loaded(carried.text, "plan", "mask")
    assert after.problems == {"plan": [], "mask": []}
    for name in ("plan", "mask"):
        assert after.functions[name](1, 2) == before.functions[name](1, 2)
    by_marimo = load_marimos(carried.text, ["plan", "mask"])
    for name in ("plan", "mask"):
        assert by_marimo.functions[name](1, 2) == before.functions[name](1, 2)


LINES = st.lists(
    st.text(alphabet=" \tab'\"\\#{}\x0c\u2028", max_size=6), min_size=1, max_size=5
).map("\n".join)


@given(LINES, st.sampled_from(["x = '''{}'''", "x = f'''{}'''", "def f():\n    return '''{}'''"]))
def test_what_is_indented_comes_back_as_it_was(inside: str, code: str):
    source = code.format(inside.replace("'", "").replace("{", "").replace("}", "").rstrip("\\"))
    assert dedent(indent(source)) == source


@pytest.mark.parametrize("bad", ["def f():\n    nonlocal x", "def f(a):\n    global a"])
def test_a_cell_that_only_pythons_compiler_refuses_is_named(bad: str):
    carried = carry(notebook(f"{bad}\n", function("plan", "    return 5")), NEW)
    assert called(carried.text) == 5
    assert carried.notes[0].startswith("Left out: the cell of `f` at line 6 cannot be read (")


# ---- the course's own lessons --------------------------------------------------------------------


@pytest.mark.parametrize("stem", STEMS)
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
    for found in (loaded(carried.text, *names), load_marimos(carried.text, names)):
        assert set(found.functions) == set(names)
        for name, function_ in found.functions.items():
            assert function_(*[None] * function_.__code__.co_argcount) == (name, 3)

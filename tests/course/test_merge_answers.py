"""Answers carried from a learner's old copy of a lesson into the new one."""

import ast

import pytest

from course.source.merge_answers import carry

HEAD = "import marimo\n\napp = marimo.App()\n"
TAIL = '\n\nif __name__ == "__main__":\n    app.run()\n'


def notebook(*cells: str) -> str:
    return HEAD + "".join(f"\n\n{cell}" for cell in cells) + TAIL


def function(name: str, body: str, arguments: str = "a, b", above: str = "") -> str:
    return f"@app.function\n{above}def {name}({arguments}):\n{body}\n"


def stub(name: str, arguments: str = "a, b", doc: str = "Do it.") -> str:
    return function(name, f'    """{doc}"""\n    raise NotImplementedError', arguments)


def test_only_answered_functions_are_carried():
    answer = function("plan", "    return a + b")
    old = notebook(answer, stub("mask"))
    new = notebook(stub("plan"), stub("mask", doc="A better story."))
    carried = carry(old, new)
    assert carried.names == ("plan",)
    assert carried.text == notebook(answer, stub("mask", doc="A better story."))


def test_the_courses_own_functions_stay_new():
    old = notebook(function("shown", "    return 1"), function("plan", "    return a"))
    new = notebook(function("shown", "    return 2"), stub("plan"))
    carried = carry(old, new)
    assert carried.names == ("plan",)
    assert "return 2" in carried.text
    assert "return 1" not in carried.text


def test_comments_and_decorators_of_the_answer_come_along():
    body = "    # first\n    x = a\n\n    return x + b\n    # last"
    answer = function("plan", body, above="@functools.cache\n")
    carried = carry(notebook(answer, stub("mask")), notebook(stub("plan"), stub("mask")))
    assert carried.text == notebook(answer, stub("mask"))


def test_a_function_that_marimo_saved_inside_a_cell_is_found():
    cell = "@app.cell\ndef _(helper):\n    def plan(a, b):\n        return helper(a)\n    return\n"
    carried = carry(notebook(cell), notebook(stub("plan")))
    assert carried.text == notebook(function("plan", "    return helper(a)"))


def test_longer_and_shorter_answers_do_not_disturb_each_other():
    answers = [function(n, "    x = 1\n" * k + "    return x") for k, n in enumerate("pqr", 1)]
    carried = carry(notebook(*answers), notebook(*[stub(n) for n in "pqr"]))
    assert carried.text == notebook(*answers)


def test_an_answer_to_another_signature_is_left_with_a_sentence():
    old = notebook(function("plan", "    return a", "a"))
    carried = carry(old, notebook(stub("plan")))
    assert carried.text == notebook(stub("plan"))
    assert carried.sentences() == [
        "Not carried over: plan, because the lesson calls it with 2 arguments, which yours does "
        "not take."
    ]


@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ("a, b, c=3", True),
        ("a, b=1, c=3", True),
        ("a, *more", True),
        ("*more", True),
        ("a, b, *, c=3", True),
        ("a, b, /", True),
        ("a, b, *, c", False),
        ("a, b, c, d=4", False),
        ("a, b, c, *more", False),
    ],
)
def test_an_answer_fits_where_it_can_be_called_as_the_lesson_does(arguments, fits):
    old = notebook(function("plan", "    return a", arguments))
    assert (carry(old, notebook(stub("plan"))).names == ("plan",)) == fits


def test_a_file_that_no_longer_parses_gives_its_passed_answers_alone():
    passed = {"plan": "def plan(a, b):\n    return b\n"}
    carried = carry("def (", notebook(stub("plan"), stub("mask")), passed)
    assert carried.names == ("plan",)
    assert carried.text == notebook(function("plan", "    return b"), stub("mask"))


def test_what_stands_in_the_file_wins_over_a_passed_answer():
    passed = {"plan": "def plan(a, b):\n    return 'passed'\n"}
    carried = carry(
        notebook(function("plan", "    return 'newest'")), notebook(stub("plan")), passed
    )
    assert "newest" in carried.text


def test_an_emptied_stub_does_not_hide_a_passed_answer():
    passed = {"plan": "def plan(a, b):\n    return 'passed'\n"}
    carried = carry(notebook(stub("plan")), notebook(stub("plan")), passed)
    assert carried.names == ("plan",)


def test_strings_over_several_lines_keep_their_indentation():
    inner = '        text = """one\n  two"""\n        return text\n'
    cell = f"@app.cell\ndef _():\n    def plan(a, b):\n{inner}    return\n"
    carried = carry(notebook(cell), notebook(stub("plan")))
    namespace: dict = {}
    tree = ast.parse(carried.text)
    plan = next(n for n in tree.body if isinstance(n, ast.FunctionDef))
    plan.decorator_list = []
    exec(compile(ast.Module([plan], []), "carried", "exec"), namespace)
    assert namespace["plan"](1, 2) == "one\n  two"

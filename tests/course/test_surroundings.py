"""What an answer depends on is found in one way: its verdict is the page's everywhere."""

import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from jupyter_kernel import Page, kernel
from marimo_texts import cell, notebook, stub
from notebooks import EMPTIED
from support import write_files
from tiers import some

from course import progress
from course import saved_answers as answers
from course.__main__ import main
from course.jupyter.convert import to_lesson, to_notebook
from course.source.answer import answer_in
from course.source.cutting import read_cells, read_notebook
from course.source.merge_answers import carry

SETUP = "with app.setup:\n    import torch\n\n    from course.attempt import attempt\n"
CHECKS = cell('attempt("l01.chunk_mask", lambda: chunk_mask)', takes="chunk_mask")
LESSON = notebook(SETUP, stub("chunk_mask", "past, new"), CHECKS)
ANSWER = """\
def chunk_mask(past, new):
    ones = torch.ones(new, past + new, dtype=torch.bool)
    return ones.tril(past + {})
"""
TABLE = ANSWER.format("T[0]")
FILLED = {
    "for": "T = []\nfor n in range(9):\n    T.append(n)",
    "main": 'T = {}\nif __name__ == "__main__":\n    T[0] = 0',
    "call": "import heapq\nT = [9, 0]\nheapq.heapify(T)",
    "own call": "T = {}\ndef fill(t):\n    t[0] = 0\nfill(T)",
    "own call of no argument": "T = {}\ndef fill():\n    T[0] = 0\nfill()",
    "shown call": "T = {}\nT.setdefault(0, 0)",
    "setattr": "class Box:\n    def __getitem__(self, n):\n        return self.low\n"
    'T = Box()\nsetattr(T, "low", 0)',
    "class": "class Box:\n    kept = {}\n    def __getitem__(self, n):\n"
    "        return self.kept[n]\nBox().kept[0] = 0\nT = Box()",
    "decorator": "R = {}\ndef rule(f):\n    R[0] = f\n    return f\n"
    "@rule\ndef zero():\n    return 0\n"
    "class Of:\n    def __getitem__(self, n):\n        return R[n]()\nT = Of()",
    "alias": "T = []\nU = T\nU.append(0)",
    "its name in a text": "T = []\nexec('T.append(0)')",
    "alias before": "U = []\nT = U\nU.append(0)",
    "global": "T = None\ndef fill():\n    global T\n    T = [0]\nfill()",
    "in order": "T = [0]\nU = list(T)\nT[0] = 5\nT = U",
    "wrong": "T = [0]\nfor n in range(9):\n    T[0] = n",
}
SHORT = "def _less(n):\n    return n - 1\n"
MORE = "def _less(n, by):\n    return n - by\ndef other(n):\n    return _less(n, 2)"
HABITS: dict[str, list[str]] = {
    **{f"filled by {how}": [f"{fill}\n{TABLE}"] for how, fill in FILLED.items()},
    "name bound again": [
        "T = [0]\ndef low():\n    return T[0]\nlow = low()\n" + ANSWER.format("T[0]")
    ],
    "filled by another cell": ["T = []", TABLE, "T.append(0)"],
    "private helpers of one name": [SHORT + ANSWER.format("_less(1)"), MORE],
    "private class, loop and argument": [
        "class _Low:\n    _low = 1\n    def _less(self, _n):\n        return self._low - _n\n"
        "for _n in range(2):\n    _low = _Low()\n" + ANSWER.format("_low._less(_n=_n)"),
        "_n, _low, _Low = 5, 6, 7\nlast = _n + _low + _Low",
    ],
    "types of a dataclass": [
        "import dataclasses\n@dataclasses.dataclass\nclass Room:\n    low: int\n"
        + ANSWER.format("dataclasses.fields(Room)[0].type(0)")
    ],
    "type hints": [
        "import typing\nfrom fractions import Fraction\nclass Row(typing.NamedTuple):\n"
        "    low: Fraction\n" + ANSWER.format("int(typing.get_type_hints(Row)['low'](0))")
    ],
    "single dispatch": [
        "import functools\n@functools.singledispatch\ndef low(n):\n    return 1\n"
        "@low.register\ndef _(n: int):\n    return 0\n" + ANSWER.format("low(3)")
    ],
    "remembered results": [
        "import functools\n@functools.cache\ndef low(n):\n    return n and low(n - 1)\n"
        "@functools.lru_cache(maxsize=2)\n" + ANSWER.format("low(5)")
    ],
    "recursion limit": [
        "import sys\nsys.setrecursionlimit(9000)\ndef down(n):\n    return n and down(n - 1)\n"
        + ANSWER.format("down(5000)")
    ],
    "seed": [
        "torch.manual_seed(3)\nT = [int(torch.randint(0, 9, (1,)) - 4)]\n" + TABLE,
    ],
    "helpers that call each other": [
        "def even(n):\n    return 0 if n == 0 else odd(n - 1)\n"
        "def odd(n):\n    return 1 if n == 0 else even(n - 1)\n" + ANSWER.format("even(4)")
    ],
}
ELSEWHERE = "@app.function\ndef chunk_mask(past, new):\n    return masks.chunk_mask(past, new)\n"
ABOVE = "def low():\n    return 0\n\n\n@app.function\n" + ANSWER.format("low()")
AS_FILES = {  # what an editor of one's own may save
    "wrong: a module of the engine": (ELSEWHERE, "from nanogpt.policies import masks\n"),
    "wrong: a helper in no cell": (ABOVE, ""),
}
IN_JUPYTER: dict[str, list[str]] = {
    "%%time": ["%%time\n" + ANSWER.format(0)],
    "%time": ["%time T = [0]\n" + TABLE],
    "shell": ["!echo a \\\n  b\nfiles = !echo a\n" + ANSWER.format(0)],
    "help": [ANSWER.format(0) + "max?\n?min"],
    "star imports over builtins": [
        "from math import *\nfrom random import *\n" + ANSWER.format("int(pow(0, 2) * random())")
    ],
}


def written(cells: list[str]) -> str:
    """The lesson with these cells in place of its stub, as JupyterLab saves it."""
    page = to_notebook(LESSON)
    [place] = [n for n, each in enumerate(page["cells"]) if "def chunk_mask(" in each["source"]]
    page["cells"][place : place + 1] = [
        {"cell_type": "code", "metadata": {}, "source": source.rstrip("\n")} for source in cells
    ]
    return to_lesson(page, LESSON)


def saved(answer: str, setup: str) -> str:
    """The lesson with a text in place of its stub, and one more line in its setup cell."""
    return notebook(f"{SETUP}    {setup}" if setup else SETUP, answer, CHECKS)


def in_marimo(text: str) -> str:
    """The verdict on a page of marimo, where every cell has run."""
    path = progress.work_folder() / "lesson.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("lesson", path)
    assert spec and spec.loader
    sys.modules["lesson"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    outputs, _ = module.app.run()
    return next(each.report.status for each in outputs if hasattr(each, "report"))


def in_terminal(text: str) -> str:
    path = progress.work_folder() / "l01_chunked_prefill.py"
    path.write_text(text)
    return "passed" if main(["check", "l01", "chunk_mask"]) == 0 else "failed"


def later() -> str:
    """The verdict on the saved answer, when a later lesson takes it as a part."""
    return "passed" if answers.load_policies().whose["chunk_mask"] == "yours" else "failed"


def graded(folder: Path, texts: Mapping[str, str]) -> dict[str, str]:
    files = {f"s{n}/l01_chunked_prefill.py": text for n, text in enumerate(texts.values())}
    write_files(folder / "class", files)
    out = ["--out", str(folder / "out"), "--lesson", "l01", "--seed", "5", "--workers", "1"]
    main(["grade", str(folder / "class"), *out])
    found = [json.loads(path.read_text()) for path in (folder / "out" / "records").glob("*.json")]
    marks = {record["student"]: record["marks"] for record in found}
    return {
        habit: next(m["status"] for m in marks[f"s{n}"] if m["exercise"] == "l01.chunk_mask")
        for n, habit in enumerate(texts)
    }


def in_jupyter(folder: Path, texts: Mapping[str, str]) -> dict[str, str]:
    """The verdicts on pages of JupyterLab, each in an emptied kernel, where every cell has run."""
    found: dict[str, str] = {}
    folder.mkdir()
    with kernel(folder) as client:
        for number, (habit, text) in enumerate(texts.items()):
            work = folder / str(number)
            work.mkdir()
            client.execute_interactive(EMPTIED.format(work=str(work)), timeout=60)
            page = Page(client, text, f"page{number}")
            page.run_all()
            found[habit] = page.statuses["l01.chunk_mask"]
    return found


@pytest.mark.process
def test_an_answer_has_one_verdict_wherever_it_runs(
    tmp_path: Path, learner_folder: Path, capsys: pytest.CaptureFixture[str]
):
    habits = {name: written(HABITS[name]) for name in some(HABITS, 4)}
    habits |= {name: saved(*AS_FILES[name]) for name in AS_FILES}
    only_in_jupyter = {name: written(IN_JUPYTER[name]) for name in some(IN_JUPYTER, 2)}
    texts = {**habits, **only_in_jupyter}
    updated = {name: carry(text, LESSON).text for name, text in texts.items()}
    learner_folder.mkdir()
    verdicts: dict[str, dict[str, str]] = {name: {} for name in texts}
    for name in texts:
        verdicts[name]["check"] = in_terminal(texts[name])
        verdicts[name]["later"] = later()
        answers.answer_path("l01.chunk_mask").unlink(missing_ok=True)
        verdicts[name]["updated"] = in_marimo(updated[name])
        verdicts[name]["updated, later"] = later()
        answers.answer_path("l01.chunk_mask").unlink(missing_ok=True)
    assert "stands in no cell; the page will drop it" in capsys.readouterr().out
    for name in habits:
        verdicts[name]["page"] = in_marimo(texts[name])
        verdicts[name]["page, later"] = later()
        answers.answer_path("l01.chunk_mask").unlink(missing_ok=True)
    for name, status in in_jupyter(tmp_path / "jupyter", texts).items():
        verdicts[name]["jupyter"] = status
    both = texts | {f"{name}, updated": text for name, text in updated.items()}
    for name, status in graded(tmp_path, both).items():
        verdicts[name.removesuffix(", updated")][f"grade {name}"] = status
    wrong = {
        name: {place: v for place, v in found.items() if (v == "passed") == ("wrong" in name)}
        for name, found in verdicts.items()
    }
    assert {name: found for name, found in wrong.items() if found} == {}


def test_a_text_of_several_cells_keeps_their_private_names_apart():
    found = read_cells([SHORT + "def one(n):\n    return _less(n)", MORE, "a = one(1) + other(2)"])
    answer = answer_in(found, "a")
    assert answer_in(read_notebook(answer.text), "a") == answer
    assert answer.text.count("# %%") == 3

"""Checks in the Python of the site's pages: the same verdicts as in the course."""

import json
import subprocess
from types import SimpleNamespace

import msgspec
import pytest
from pyodide_package import pyodide_package
from support import ROOT, find_program

from course.registry import exercise, exercises
from course.tab import site_part
from course.tab.stand_ins import NAMES

MOST_LEFT_OUT = 12  # answers that use torch where the exercise does not


@pytest.mark.process
@pytest.mark.nightly
def test_every_answer_gets_the_verdict_and_the_sentence_that_it_gets_in_the_course(tmp_path):
    package = pyodide_package()
    site_part.write(tmp_path, package)
    script = ROOT / "tests" / "js" / "page_python.mjs"
    words = [script, package, tmp_path / "tab" / "course.zip", ROOT / "tests" / "page_verdicts.py"]
    node = find_program("node")
    done = subprocess.run([node, *map(str, words)], capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    here = {(exercise_id, number): said for exercise_id, number, *said in lines}
    left_out, differing = 0, []
    tensors = {item.id for item in exercises()} - {exercise_id for exercise_id, _ in here}
    for item in exercises():
        wrong = [each for one in item.misconceptions for each in one.written]
        for number, function in enumerate([*item.right, *wrong]):
            if item.id in tensors or (item.id, number) not in here:
                left_out += item.id not in tensors
                continue
            report = exercise(item.id).check(function)
            if [report.status, report.idea] != here[item.id, number]:
                differing.append(
                    (item.id, number, report.status, report.idea, here[item.id, number])
                )
    assert differing == []
    assert len(tensors) == 8 and left_out <= MOST_LEFT_OUT


def test_a_pages_records_behave_as_msgspecs_do():
    found = []
    for kind in (msgspec, SimpleNamespace(**NAMES["msgspec"])):

        class Pair(kind.Struct, frozen=True, gc=False):
            left: int
            right: tuple[int, ...] = ()

        pair = kind.structs.replace(Pair(1), right=(2,))
        said = kind.json.decode(kind.json.encode([pair, Pair(left=3)])), kind.structs.asdict(pair)
        found.append((said, pair == Pair(1), {pair: 1}[Pair(1, (2,))], Pair.__struct_fields__))
    assert found[0] == found[1]

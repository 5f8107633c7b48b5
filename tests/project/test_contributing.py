"""What CONTRIBUTING.md and README.md say holds: an exercise to add, and badges."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from course.exercise import Exercise
from course.lesson_map import LESSONS

ROOT = Path(__file__).resolve().parents[2]
_, LESSON, MODULE = (
    (ROOT / "docs" / "add_an_exercise.diff").read_text(encoding="utf-8").split("diff --git ")
)


def lines_of(part: str, *signs: str) -> str:
    """The lines of one file of the diff that begin with these signs, without them."""
    body = part.split("@@", 2)[2].partition("\n")[2]
    return "\n".join(line[1:] for line in body.splitlines() if line.startswith(signs))


@pytest.fixture
def added(tmp_path: Path) -> Exercise:
    path = tmp_path / "last_chunk.py"
    path.write_text(lines_of(MODULE, "+"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("solutions.l01_chunked_prefill.last_chunk", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.EXERCISE


def test_the_lines_around_the_stub_stand_in_the_lesson() -> None:
    lesson = (ROOT / "lessons" / "l01_chunked_prefill.py").read_text(encoding="utf-8")
    assert f"{lines_of(LESSON, ' ')}\n" in lesson


def test_the_stub_has_the_signature_of_the_task(added: Exercise) -> None:
    assert f"def {added.task.signature}:" in lines_of(LESSON, "+")
    assert added.id == "l01.last_chunk"
    assert lines_of(LESSON, "+").count(f'"{added.id}"') == 3  # task, attempt, hints


def test_its_right_answers_pass_and_each_wrong_idea_is_named(added: Exercise) -> None:
    assert [added.check(answer).status for answer in added.right] == ["passed"] * 4
    for each in added.misconceptions:
        assert each.written
        assert {added.check(way).misconception for way in each.written} == {each.key}


def test_the_badges_and_the_changelog_say_what_the_project_is():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    oldest = project["requires-python"].removeprefix(">=")
    assert re.findall(r"^!\[(.+?)\].*?!\[(.+?)\].*?!\[(.+?)\]", readme, re.MULTILINE) == [
        (
            f"Version {project['version']}",
            f"Python {oldest} or newer",
            f"{project['license']} licence",
        )
    ]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\d\S+)", changelog, re.MULTILINE)[0] == project["version"]


def test_the_readme_lists_the_lessons_with_their_minutes_and_says_their_hours():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d\S* .+?) \| .+ \| (\d+) \|$", readme, re.MULTILINE)
    assert rows == [(f"{each.number} {each.title}", str(each.minutes)) for each in LESSONS]
    minutes = [each.minutes for each in LESSONS]
    hours = {11: "eleven", 12: "twelve", 13: "thirteen"}[round(sum(minutes) / 60)]
    said = f"About {hours} hours, in sittings of {min(minutes)} to {max(minutes)} minutes"
    assert said in readme

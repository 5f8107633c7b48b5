"""What the documents name exists: commands, options, files, links, keys and their limits."""

import ast
import importlib.util
import re
import shlex
from pathlib import Path

import pytest
from support import ROOT

from course.launcher.command import COMMANDS, OF_THE_COURSE, parser
from course.lesson_map import LESSONS

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *(page for folder in ("docs", "nanogpt", "course") for page in ROOT.glob(f"{folder}/**/*.md")),
]
SCRIPTS = [ROOT / "docs/github-classroom.yml", ROOT / "docs/gradescope/run_autograder"]
FOLDERS = "nanogpt|course|widgets|solutions|lessons|benchmarks|docs|tests"


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def test_documented_commands_and_options_are_understood():
    from course.__main__ import _parser

    found = {
        m for page in PAGES for m in re.findall(r"python3 learn\.py([^`\n#|&;]*)", text_of(page))
    }
    assert len(found) > 25
    for words in map(shlex.split, found):
        command = "open" if not words or words[0].startswith("-") else words.pop(0)
        assert command in COMMANDS, words
        if command != "test":
            its = _parser() if command in OF_THE_COURSE else parser()
            its.parse_args([command, *words])


def test_a_module_that_is_to_be_run_is_there():
    named = {name for page in PAGES for name in re.findall(r"python -m ([\w.]+)", text_of(page))}
    ours = {name for name in named if name.split(".")[0] in FOLDERS.split("|")}
    assert len(ours) > 10
    assert {name for name in ours if importlib.util.find_spec(name) is None} == set()


def test_every_file_that_a_page_names_or_links_to_is_there():
    modules = {path.name for name in ("nanogpt", "course") for path in (ROOT / name).rglob("*.py")}
    modules.add("learn.py")
    missing = set()
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(page)):
            on_github = "://" in link or re.match(r"\.\./\.\./(actions|deployments)/", link)
            if not on_github and not (page.parent / link).exists():
                missing.add((page.name, link))
        for path in re.findall(rf"(?<!\]\()(?<![\w./-])(?:{FOLDERS})/[\w./*-]*\w", text_of(page)):
            invented = re.search(r"NAME|_x\b|last_chunk|design/metrics", path)
            if not invented and not list(ROOT.glob(path)):
                missing.add((page.name, path))
        if page.relative_to(ROOT).parts[0] in ("nanogpt", "course"):
            named = re.findall(rf"`(?!work/|(?:{FOLDERS})/)([\w/]+\.py)`", text_of(page))
            there = {name for name in named if (page.parent / name).exists()} | modules
            missing |= {(str(page.parent), name) for name in set(named) - there}
    assert missing == set()


def test_the_readmes_example_serves_both_prompts(capsys):
    (code,) = re.findall(r"^```python\n(.*?)^```$", text_of(ROOT / "README.md"), re.M | re.S)
    exec(code, {})
    texts = capsys.readouterr().out
    assert texts.startswith("O Romeo, ") and "\nTo be or " in texts


def lines_of(part: str, *signs: str) -> str:
    """The lines of one file of a diff that begin with these signs, without them."""
    body = part.split("@@", 2)[2].partition("\n")[2]
    return "\n".join(line[1:] for line in body.splitlines() if line.startswith(signs))


@pytest.mark.process
def test_the_exercise_of_the_guide_fits_its_lesson_and_judges(tmp_path: Path):
    diff = (ROOT / "docs" / "add_an_exercise.diff").read_text(encoding="utf-8")
    _, lesson, module = diff.split("diff --git ")
    text = (ROOT / "lessons" / "l01_chunked_prefill.py").read_text(encoding="utf-8")
    assert f"{lines_of(lesson, ' ')}\n" in text
    path = tmp_path / "last_chunk.py"
    path.write_text(lines_of(module, "+"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("solutions.l01_chunked_prefill.last_chunk", path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    added = made.EXERCISE
    assert f"def {added.signature}:" in lines_of(lesson, "+")
    assert lines_of(lesson, "+").count('"l01.last_chunk"') == 3  # task, attempt, hints
    assert [added.check(answer).status for answer in added.right] == ["passed"] * 4
    for each in added.misconceptions:
        assert {added.check(way).misconception for way in each.written} == {each.key}


def test_the_points_file_of_the_page_is_read_and_uses_every_key(tmp_path: Path):
    from course.grading.results.scheme import read_scheme

    page = text_of(ROOT / "docs" / "grading.md")
    (example,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "points.toml").write_text(example, encoding="utf-8")
    read_scheme(tmp_path / "points.toml")
    keys = re.findall(r"^\| `\[.+?\]` `(\w+)` \|", page, re.MULTILINE)
    assert keys == re.findall(r"^(\w+) =", example, re.MULTILINE)


def test_the_weeks_of_the_plan_have_their_lessons_minutes():
    page = text_of(ROOT / "docs" / "instructors.md")
    minutes = {lesson.number: lesson.minutes for lesson in LESSONS}
    weeks = re.findall(r"^\| (?:\d+|any) \| ([\db, ]+) \| (\d+) \|", page, re.MULTILINE)
    assert {number for taught, _ in weeks for number in taught.split(", ")} == set(minutes)
    for taught, stated in weeks:
        assert sum(minutes[number] for number in taught.split(", ")) == int(stated), taught


def test_what_other_peoples_machines_run_is_the_courses_own():
    def step(word: str) -> list[str]:
        return ast.literal_eval(re.findall(rf"^{word} (.+)$", container, re.MULTILINE)[0])

    container = text_of(ROOT / "docs" / "hosting" / "Containerfile")
    assert step("ENTRYPOINT") == ["python3", "learn.py"]
    options = parser().parse_args(step("CMD"))
    assert (options.command, options.host, options.port) == ("open", "0.0.0.0", step("EXPOSE"))
    for line in text_of(ROOT / ".binder" / "requirements.txt").splitlines():
        assert line[:3] not in ("-r ", "-c ") or (ROOT / ".binder" / line[3:]).is_file()

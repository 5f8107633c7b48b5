"""learn.py and the learner's own files: brought in, reset, updated, never lost."""

import re
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest
from launching import LESSON, learn, write_lesson
from support import ROOT

from course.launcher.workspace import Workspace

SOLVED = "    return [(request, 1) for request in decodes]  # mine"


def solve(course: Path, stem: str = "l01_chunks") -> str:
    mine = course / "work" / f"{stem}.py"
    text = mine.read_text().replace("    raise NotImplementedError", SOLVED)
    mine.write_text(text)
    return text


def test_lessons_are_copied_and_never_overwritten(course: Path):
    (course / "lessons" / "layouts").mkdir()
    (course / "lessons" / "layouts" / "l01.slides.json").write_text("{}")
    (course / "lessons" / "notes.txt").write_text("not for learners")
    learn(course, "progress")
    copied = {p.relative_to(course / "work").as_posix() for p in (course / "work").rglob("*.*")}
    assert copied == {
        "course.css", "index.py", "l01_chunks.py", "pyproject.toml", "layouts/l01.slides.json",
        ".pristine.json",
    }  # fmt: skip
    mine = solve(course)
    write_lesson(course, "l02_more", LESSON.format(title="More"))
    learn(course, "progress")
    assert (course / "work" / "l01_chunks.py").read_text() == mine
    assert (course / "work" / "l02_more.py").exists()


def test_a_newer_version_of_a_lesson_is_mentioned(course: Path):
    learn(course, "progress")
    write_lesson(course, "l01_chunks", LESSON.format(title="Better chunks"))
    assert "There is a newer version of l01_chunks.py: python3 learn.py update" in (
        learn(course, "progress").stdout
    )


def test_reset_keeps_the_learners_version(course: Path):
    learn(course, "progress")
    mine = [solve(course)]
    learn(course, "reset", "l01")
    mine.append(solve(course).replace("# mine", "# mine again"))
    (course / "work" / "l01_chunks.py").write_text(mine[1])
    done = learn(course, "reset", "l01_chunks")
    assert re.search(r"Yours is kept: work/kept/l01_chunks\.\d{4}-\d\d-\d\d-\d{6}", done.stdout)
    kept = [path.read_text() for path in (course / "work" / "kept").iterdir()]
    assert sorted(kept) == sorted(mine)
    pristine = (course / "lessons" / "l01_chunks.py").read_text()
    assert (course / "work" / "l01_chunks.py").read_text() == pristine


def test_update_replaces_what_the_learner_has_not_touched(course: Path):
    learn(course, "progress")
    newer = LESSON.format(title="Better chunks")
    write_lesson(course, "l01_chunks", newer)
    write_lesson(course, "l02_more", LESSON.format(title="More"))
    done = learn(course, "update")
    assert done.stdout == "l02_more.py is new.\nl01_chunks.py was brought up to date.\n"
    assert (course / "work" / "l01_chunks.py").read_text() == newer
    assert not (course / "work" / "kept").exists()
    assert learn(course, "update").stdout == "Everything is up to date.\n"


@pytest.mark.parametrize("record", ["in order", "damaged"])
def test_update_keeps_a_touched_lesson_and_carries_its_answers(course: Path, record: str):
    learn(course, "progress")
    mine = solve(course)
    if record == "damaged":
        (course / "work" / ".pristine.json").write_text("[")
    newer = LESSON.format(title="Better chunks")
    write_lesson(course, "l01_chunks", newer)
    done = learn(course, "update")
    assert "yours is kept as work/kept/l01_chunks." in done.stdout
    assert "Carried over: plan_step." in done.stdout
    assert [path.read_text() for path in (course / "work" / "kept").iterdir()] == [mine]
    carried = (course / "work" / "l01_chunks.py").read_text()
    assert carried == newer.replace(
        '    """Plan one step."""\n    raise NotImplementedError',
        f'    """Plan one step."""\n{SOLVED}',
    )
    assert learn(course, "update").stdout == "Everything is up to date.\n"


def test_update_carries_a_passed_answer_of_a_cell_that_was_broken_since(course: Path):
    learn(course, "progress")
    answers = course / "work" / "answers"
    answers.mkdir()
    (answers / "l01.plan_step.py").write_text(
        "def plan_step(decodes, budget):\n    return 'passed'\n"
    )
    (answers / "l01.plan_step.try.py").write_text("def plan_step(decodes, budget):\n    return 0\n")
    (answers / "l00.plan_step.py").write_text("def plan_step(decodes, budget):\n    return 1\n")
    (course / "work" / "l01_chunks.py").write_text("def plan_step(:")
    write_lesson(course, "l01_chunks", LESSON.format(title="Better chunks"))
    assert "Carried over: plan_step." in learn(course, "update").stdout
    carried = (course / "work" / "l01_chunks.py").read_text()
    assert "def plan_step(decodes, budget):\n    return 'passed'\n" in carried


def test_update_leaves_an_edited_lesson_whose_original_is_unchanged(course: Path):
    learn(course, "progress")
    mine = solve(course)
    assert learn(course, "update").stdout == "Everything is up to date.\n"
    assert (course / "work" / "l01_chunks.py").read_text() == mine


JUDGE = """@app.function
def judge(text):
    raise NotImplementedError


"""
MY_JUDGE = JUDGE.replace("    raise NotImplementedError", "    return text == 'mine'")


@pytest.fixture
def split(course: Path) -> Path:
    """A learner has answered both functions of lesson 1, the second of which moves to 1b."""
    whole = LESSON.replace("@app.function", JUDGE + "@app.function")
    write_lesson(course, "l01_chunks", whole.format(title="Chunks"))
    learn(course, "progress")
    solve(course)
    mine = course / "work" / "l01_chunks.py"
    mine.write_text(mine.read_text().replace(SOLVED, "    return text == 'mine'", 1))
    write_lesson(course, "l01_chunks", LESSON.format(title="Shorter"))
    second = LESSON.format(title="More").partition("@app.function")
    write_lesson(
        course, "l01b_more", f"{second[0]}{JUDGE}{second[2].partition('Error')[2].strip()}"
    )
    return course


def test_a_lesson_with_a_letter_is_one_of_its_own(split: Path):
    learn(split, "progress")
    assert (split / "work" / "l01b_more.py").exists()
    learn(split, "reset", "l01b")
    assert [path.name[:10] for path in (split / "work" / "kept").iterdir()] == ["l01b_more."]
    learn(split, "reset", "l01")
    assert len(list((split / "work" / "kept").glob("l01_chunks.*"))) == 1


@pytest.mark.parametrize("opened_before", [False, True])
def test_what_was_written_in_a_lesson_that_is_split_moves_to_its_second_half(
    split: Path, opened_before: bool
):
    if opened_before:
        learn(split, "progress")
    said = learn(split, "update").stdout
    assert ("Carried over: judge." in said) is not opened_before
    assert "Carried over: plan_step." in said
    assert MY_JUDGE in (split / "work" / "l01b_more.py").read_text()
    assert "judge" not in (split / "work" / "l01_chunks.py").read_text()
    assert learn(split, "update").stdout == "Everything is up to date.\n"


def test_a_passed_answer_moves_to_the_second_half_under_its_old_id(split: Path):
    answers = split / "work" / "answers"
    answers.mkdir()
    (answers / "l01.judge.py").write_text("def judge(text):\n    return 'passed'\n")
    learn(split, "update")
    assert "    return 'passed'\n" in (split / "work" / "l01b_more.py").read_text()


def test_a_second_half_that_has_an_answer_keeps_it(split: Path):
    learn(split, "progress")
    half = split / "work" / "l01b_more.py"
    half.write_text(half.read_text().replace("'mine'", "'newer'"))
    learn(split, "update")
    assert "    return text == 'newer'" in half.read_text()


def test_a_function_that_the_course_gives_in_one_half_answers_no_stub_of_the_other(split: Path):
    given = split / "lessons" / "l01_chunks.py"
    given.write_text(given.read_text().replace("@app.function", MY_JUDGE + "@app.function"))
    learn(split, "update")
    assert JUDGE in (split / "work" / "l01b_more.py").read_text()


def test_an_answer_written_before_lesson_4_was_split_moves_to_lesson_4b(tmp_path: Path):
    copytree(ROOT / "lessons", tmp_path / "lessons", ignore=ignore_patterns("__pycache__"))
    mine = tmp_path / "work" / "l04_sliding_window.py"
    mine.parent.mkdir()
    answers = (
        "@app.function\ndef judge(full_logits, window_logits, targets):\n    return 1.0, 0.0\n"
    )
    before = (tmp_path / "lessons" / mine.name).read_text()
    stub = '    raise NotImplementedError("Exercise 4.1: may this query attend to this key?")\n'
    answered = before.replace(stub, "    return key <= query\n")
    assert answered != before
    mine.write_text(answered.replace("@app.function", f"{answers}\n\n@app.function", 1))
    said = Workspace(tmp_path).update()
    second = mine.with_name("l04b_window_quality.py").read_text()
    assert "    return 1.0, 0.0\n" in second
    assert "return key <= query\n" in mine.read_text()
    assert "def judge" not in mine.read_text()
    assert {"Carried over: judge.", "Carried over: visible."} <= {*said}

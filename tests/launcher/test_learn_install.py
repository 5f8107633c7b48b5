"""learn.py makes .venv and installs once, and mends what was cut short."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from launching import assert_one_sentence, learn
from support import lend_python

from course.launcher import install
from course.launcher.install import COURSE, Installation
from course.launcher.pip import PipDoing
from course.launcher.running import Doing, Runner
from course.launcher.ticker import Ticker
from course.launcher.uv import UvDoing

pytestmark = pytest.mark.process


def installs(course: Path) -> list[str]:
    """Return what uv was asked to install, without the plans that it was asked for before."""
    log = course / ".venv" / "uv.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [line for line in lines if "--dry-run" not in line]


def stamp(course: Path) -> dict[str, str]:
    return json.loads((course / ".venv" / "course.json").read_text())


def test_the_first_run_installs_and_the_second_does_not(course: Path):
    first = learn(course, "progress")
    assert first.returncode == 0, first.stderr
    assert re.search(r"Installing: +\d+ s, ", first.stdout)
    assert first.stdout.endswith("asked progress\n")
    assert [line.split("/bin/python ")[1] for line in installs(course)] == [
        "-r requirements.txt -c requirements.lock"
    ]
    assert stamp(course)["installer"] == "uv 0.13.9"
    second = learn(course, "check", "l01")
    assert second.stdout == "asked check l01\n"
    assert len(installs(course)) == 1


def test_the_tests_need_more_than_the_course(course: Path):
    (course / "course" / "__main__.py").unlink()
    learn(course, "progress")
    done = learn(course, "test", "--version")
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = "-r requirements.txt -r requirements-test.txt -c requirements.lock"
    assert installs(course)[1].endswith(wanted)
    learn(course, "test", "--version")
    learn(course, "progress")
    assert len(installs(course)) == 2


def test_the_status_of_the_tests_passes_through(course: Path):
    assert learn(course, "test", "no_such_file.py").returncode == 4


@pytest.mark.parametrize("name", ["requirements.txt", "requirements.lock", "pyproject.toml"])
def test_changed_requirements_are_installed(course: Path, name: str):
    learn(course, "progress")
    with (course / name).open("a") as file:
        file.write("# another pin\n")
    learn(course, "progress")
    assert len(installs(course)) == 2


def test_a_moved_course_is_installed_anew(course: Path):
    learn(course, "progress")
    moved = course.rename(course.parent / "moved")
    for name in ("python", "uv"):
        program = moved / ".venv" / "bin" / name
        program.write_text(program.read_text().replace(str(course), str(moved)))
    learn(moved, "progress")
    assert len(installs(moved)) == 2


def test_a_newer_python_that_starts_the_course_leaves_its_venv_alone(course: Path, monkeypatch):
    (course / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n")
    learn(course, "progress")
    monkeypatch.setattr(install, "sys", SimpleNamespace(version_info=(3, 99, 0)))
    assert Installation(course).holds(COURSE)
    assert ".venv is in order: Python 3.11, " in Installation(course).describe()[0]


@pytest.mark.parametrize("reason", ["no uv", "uv fails"])
def test_where_uv_cannot_install_pip_does(course: Path, reason: str):
    file, mode = ("pip", "no uv") if reason == "no uv" else ("uv", "fail")
    (course / ".venv" / file).write_text(mode)
    done = learn(course, "progress")
    why = "No matching distribution found for uv" if reason == "no uv" else "Failed to fetch torch"
    assert f"uv cannot install here ({why}): going on with pip.\n" in done.stdout
    assert done.stdout.endswith("asked progress\n")
    asked = (course / ".venv" / "pip.log").read_text().splitlines()[-1]
    assert asked.endswith("--no-color -r requirements.txt -c requirements.lock")
    assert stamp(course)["installer"] == "pip"
    assert "installed with pip." in Installation(course).describe()[0]


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("fail", "installing failed (ERROR: No matching distribution found for torch)"),
        ("full", "because the disk is full: make room"),
        ("cut off", "because the package index could not be reached: check the network"),
    ],
)
def test_a_failed_installation_is_said(course: Path, mode: str, words: str):
    (course / ".venv" / "uv").write_text("fail")
    (course / ".venv" / "pip").write_text(mode)
    assert_one_sentence(learn(course, "progress"), words, ".venv/install.log")


def test_uv_on_a_full_disk_is_said_and_pip_is_not_tried(course: Path):
    (course / ".venv" / "uv").write_text("full")
    assert_one_sentence(learn(course, "progress"), "because the disk is full: make room")
    assert "-r requirements.txt" not in (course / ".venv" / "pip.log").read_text()
    assert "No space left on device" in (course / ".venv" / "install.log").read_text()
    assert Installation(course).is_half_made()


def test_jupyter_is_installed_on_first_use_and_that_it_cannot_be_is_said(course: Path):
    learn(course, "progress")
    assert "requirements-jupyter.txt" not in (course / ".venv" / "course.json").read_text()
    (course / ".venv" / "uv").write_text("fail")
    (course / ".venv" / "pip").write_text("cut off")
    failure = learn(course, "jupyter", "--no-browser").stderr.splitlines()[-1]
    assert failure.startswith("learn.py: ") and failure.endswith(".")
    assert "network" in failure
    assert learn(course, "progress").returncode == 0, "what was there is there still"


@pytest.mark.parametrize("mode", ["fail", "half"])
def test_what_failed_on_the_way_is_half_made(course: Path, mode: str):
    """uv that has begun has changed something, even where pip then changes nothing."""
    (course / ".venv" / "uv").write_text(mode)
    (course / ".venv" / "pip").write_text("full" if mode == "fail" else "fail")
    assert learn(course, "progress").returncode == 1
    assert stamp(course) == {"unfinished": "yes"}


def test_without_a_network_what_is_installed_goes_on_working(course: Path):
    learn(course, "progress")
    (course / ".venv" / "uv").write_text("fail")
    (course / ".venv" / "pip").write_text("cut off")
    assert learn(course, "test").returncode == 1
    assert learn(course, "progress").stdout == "asked progress\n"
    (course / ".venv" / "uv").unlink()
    learn(course, "test", "--version")
    assert len(installs(course)) == 2


@pytest.mark.parametrize("stamp", ["{", "[1]", '{"unfinished": "yes"}', "[" * 100_000])
def test_a_damaged_stamp_counts_as_a_half_made_venv(course: Path, stamp: str):
    assert not Installation(course).is_half_made()
    (course / ".venv" / "course.json").write_text(stamp)
    assert Installation(course).is_half_made()


def contents(path: Path) -> object:
    if path.is_symlink():
        return path.readlink()
    return sorted(p.relative_to(path) for p in path.rglob("*")) or path.read_text()


@pytest.mark.parametrize("kind", ["link", "file", "folder", "environment"])
def test_what_was_not_made_for_the_course_is_moved_aside(
    bare: Path, capsys, monkeypatch, kind: str
):
    venv = bare / ".venv"
    if kind == "link":
        venv.symlink_to("gone")
    elif kind == "file":
        venv.write_text("mine")
    elif kind == "folder":
        venv.mkdir()
        (venv / "mine").write_text("mine")
    else:
        lend_python(bare, sys.executable)
        (venv / "lib" / "python3.11" / "site-packages" / "flask-3.2.dist-info").mkdir(parents=True)
    before = contents(venv)
    monkeypatch.setattr(
        Installation, "_make_venv", lambda self, _: lend_python(self.root, sys.executable)
    )
    Installation(bare).ensure(COURSE)
    (aside,) = bare.glob(".venv-kept-*")
    said = capsys.readouterr().out
    assert f".venv was not made for the course: it is moved to {aside.name}.\n" in said
    assert contents(aside) == before
    assert Installation(bare).holds(COURSE)


def test_an_empty_environment_of_the_learners_is_used(course: Path):
    packages = course / ".venv" / "lib" / "python3.11" / "site-packages"
    (packages / "pip-23.2.1.dist-info").mkdir(parents=True)
    learn(course, "progress")
    assert installs(course)
    assert not list(course.glob(".venv-kept-*"))


def test_a_half_made_venv_is_made_anew(bare: Path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (bare / ".venv" / "bin").mkdir(parents=True)
    (bare / ".venv" / "bin" / "left").touch()
    (bare / ".venv" / "course.json").write_text('{"unfinished": "yes"}')
    done = learn(bare, "check", "l01")
    assert done.returncode == 0, done.stderr
    assert "making .venv anew" in done.stdout
    assert "asked check l01" in done.stdout
    assert stamp(bare).keys() == {"requirements.txt", "installer"}
    assert not (bare / ".venv" / "bin" / "left").exists()


@pytest.mark.parametrize(
    ("packages", "sentence"),
    [
        (["torch-2.13.0+cpu"], "PyTorch 2.13.0+cpu, CPU build."),
        (["torch-2.13.0"], "PyTorch 2.13.0, CPU build."),
        (["torch-2.13.0", "nvidia_cublas-13.1"], "PyTorch 2.13.0, with GPU libraries, which the"),
    ],
)
def test_the_build_of_pytorch_is_named(tmp_path: Path, packages: list[str], sentence: str):
    for name in packages:
        folder = tmp_path / ".venv/lib/python3.11/site-packages" / f"{name}.dist-info"
        folder.mkdir(parents=True)
    assert Installation(tmp_path).describe()[1].startswith(sentence)


def test_on_a_terminal_one_line_is_rewritten(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    with Ticker() as ticker:
        ticker.show("getting 2 packages", "torch (176.4MiB), marimo (37.6MiB)")
        ticker.show("getting 2 packages", "")
        ticker.say("A sentence.")
        ticker.show("the rest")
    assert capsys.readouterr().out == (
        "\rInstalling:   0 s, getting 2 packages: torch (176.4MiB), ma"
        "\rInstalling:   0 s, getting 2 packages                      "
        "\r                                                           \rA sentence.\n"
        "\rInstalling:   0 s, the rest                                \n"
    )


def test_elsewhere_it_is_a_line_for_each_phase(capsys):
    with Ticker() as ticker:
        for phase, detail in (("getting", "a"), ("getting", "b"), ("putting in place", "")):
            ticker.show(phase, detail)
    assert capsys.readouterr().out == (
        "Installing:   0 s, getting\nInstalling:   0 s, putting in place\n"
    )


def test_the_line_moves_while_a_program_says_nothing(tmp_path: Path):
    """It ends only after it was looked at for the third time."""

    class Looked(Doing):
        times = 0

        def look(self) -> None:
            self.times += 1
            if self.times == 3:
                (tmp_path / "go").touch()

    runner = Runner(tmp_path, Ticker(), 0, tmp_path / "log")
    wait = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('done')"
    looked = Looked("waiting")
    ended = runner.run([sys.executable, "-c", wait], looked)
    assert (ended.status, ended.output) == (0, "done\n")
    assert (tmp_path / "log").read_text() == "done\n"


def test_what_uv_does_is_said_in_words():
    doing = UvDoing("working")
    said = []
    for line in (
        "Resolved 70 packages in 640ms",
        "   Building serving-nanogpt @ file:///course",
        "Downloading marimo (37.6MiB)",
        " Downloaded marimo",
        "      Built serving-nanogpt @ file:///course",
        "Prepared 2 packages in 6.31s",
    ):
        doing.hear(line)
        said.append((doing.phase, doing.detail))
    getting = "getting what is missing of 70 packages"
    assert said == [
        (getting, ""),
        (getting, "serving-nanogpt"),
        (getting, "serving-nanogpt, marimo (37.6MiB)"),
        (getting, "serving-nanogpt"),
        (getting, ""),
        ("putting 70 packages in place", ""),
    ]


def test_what_pip_does_is_said_in_words_and_counted(tmp_path: Path):
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    (packages / "pip-23.2.1.dist-info").mkdir(parents=True)
    doing = PipDoing("getting what is missing", tmp_path)
    said = []
    for line in (
        "Collecting torch==2.13.0 (from -r requirements.txt (line 3))",
        "  Downloading torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl (184.4 MB)",
        "Processing /wheels/torch-2.13.0-cp311-cp311-linux_x86_64.whl",
        "Installing collected packages: filelock, torch",
    ):
        doing.hear(line)
        doing.look()
        said.append(doing.detail)
    (packages / "filelock-4.2.dist-info").mkdir()
    doing.look()
    said.append(doing.detail)
    assert said == [
        "looking up torch",
        "getting torch-2.13.0 (184.4 MB)",
        "getting torch-2.13.0",
        "0 done",
        "1 done",
    ]
    assert doing.phase == "unpacking 2 packages"

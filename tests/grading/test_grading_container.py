"""`learn.py grade --container`: what the engine is asked for, and that the marks are the same.

Engines here are programs that note what they are asked. As a place is the same inside and outside,
one that runs its command right here finds all it needs.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hostile import RIGHT, body
from support import ROOT, need_layers, write_program

from course.__main__ import main
from course.grading import container
from course.grading.container import ENGINES
from course.grading.record import LAYERS

ENGINE = """#!{python}
import json, os, sys
with open(os.path.join({folder!r}, "asked.jsonl"), "a") as file:
    file.write(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
said = open(os.path.join({folder!r}, "said")).read().split()
verb = sys.argv[1]
if verb in said:
    sys.exit(1)
if verb == "run" and "wait" in said:
    import signal
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    print("running", flush=True)
    signal.pause()
if verb == "run" and "grade" in said:
    inside = sys.argv[sys.argv.index("grade"):]
    os.chdir({root!r})
    os.execv({python!r}, [{python!r}, "-m", "course", *inside])
"""


class Engines:
    """Stand-ins for container engines. `fail` names the verbs that do not succeed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "bin"
        self.path.mkdir()
        self.say()

    def install(self, *names: str) -> None:
        text = ENGINE.format(python=sys.executable, folder=str(self.folder), root=str(ROOT))
        for name in names:
            write_program(self.path / name, text)

    def say(self, *words: str) -> None:
        (self.folder / "said").write_text(" ".join(words))

    def asked(self, verb: str) -> list[list[str]]:
        """Each time that a verb was asked for: the engine's name, the verb, what followed."""
        lines = (self.folder / "asked.jsonl").read_text().splitlines()
        return [each for each in map(json.loads, lines) if each[1] == verb]


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engines:
    there = Engines(tmp_path)
    monkeypatch.setenv("PATH", str(there.path))
    return there


@pytest.fixture
def a_class(tmp_path: Path) -> Path:
    folder = tmp_path / "a, class"
    path = folder / "Ada" / "l01_chunked_prefill.py"
    path.parent.mkdir(parents=True)
    path.write_text(body(RIGHT))
    return folder


def after(options: list[str], option: str) -> list[str]:
    return [options[i + 1] for i, each in enumerate(options) if each == option]


def test_the_marks_are_those_of_the_same_command_without_a_container(
    engines: Engines, a_class: Path, tmp_path: Path
) -> None:
    need_layers(*LAYERS)
    engines.install("podman")
    engines.say("grade")
    inside, outside = tmp_path / "in side", tmp_path / "outside"
    given = ["grade", str(a_class), "--seed", "7", "--workers", "1", "--lesson", "l01"]
    assert main([*given, "--out", str(inside), "--container"]) == 0
    assert main([*given, "--out", str(outside)]) == 0
    gradebook = (inside / "gradebook.csv").read_text()
    assert gradebook == (outside / "gradebook.csv").read_text()
    assert gradebook.splitlines()[1].startswith("Ada,")


def test_what_is_inside_has_no_network_no_rights_and_writes_to_the_results_alone(
    engines: Engines, a_class: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines.install("docker")
    monkeypatch.setattr(os, "getuid", lambda: 1234)
    monkeypatch.setattr(os, "getgid", lambda: 99)
    out, points = tmp_path / "marks", tmp_path / "points.toml"
    points.write_text("")
    given = ["grade", str(a_class), "--out", str(out), "--points", str(points), "--container"]
    assert main([*given, "--workers", "3", "--unsafe"]) == 0
    ((_, _, *options),) = engines.asked("run")
    assert after(options, "--network") == ["none"]
    assert after(options, "--cap-drop") == ["all"]
    assert after(options, "--cap-add") == []
    assert after(options, "--user") == ["1234:99"]
    assert "--read-only" in options
    assert after(options, "--mount") == [
        f'type=bind,"source={a_class}","destination={a_class}",readonly',
        f"type=bind,source={out},destination={out}",
        f"type=bind,source={points},destination={points},readonly",
    ]
    inside = options[options.index("grade") :]
    asked = ["grade", str(a_class), "--out", str(out), "--points", str(points)]
    assert inside == [*asked, "--workers", "3", "--unsafe"]
    assert out.is_dir()


def test_root_is_lent_what_it_needs_to_leave_its_rights(
    engines: Engines, a_class: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines.install("podman")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert main(["grade", str(a_class), "--out", str(tmp_path / "marks"), "--container"]) == 0
    ((_, _, *options),) = engines.asked("run")
    assert after(options, "--cap-add") == ["SYS_ADMIN", "SETUID", "SETGID"]


def test_the_image_is_built_where_there_is_none_of_this_version(
    engines: Engines, a_class: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    engines.install("podman")
    command = ["grade", str(a_class), "--out", str(tmp_path / "marks"), "--container"]
    engines.say("image")
    assert main(command) == 0
    ((_, _, _, tag, _, file, root),) = engines.asked("build")
    assert (Path(file), Path(root)) == (ROOT / "docs/hosting/Containerfile", ROOT)
    ((_, _, *options),) = engines.asked("run")
    assert tag in options
    engines.say()
    assert main(command) == 0
    assert len(engines.asked("build")) == 1
    engines.say("image", "build")
    assert main(command) == 2
    assert "podman could not build the image" in capfd.readouterr().err
    assert len(engines.asked("run")) == 2


def test_another_template_makes_another_image_and_a_compiled_module_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "_ROOT", tmp_path)
    names = ("docs/hosting/Containerfile", "learn.py", "requirements.lock", "course/report.html")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    versions = [container._version()]
    for name in names:
        (tmp_path / name).write_text("other")
        versions.append(container._version())
    assert len(set(versions)) == 1 + len(names)
    (tmp_path / "course" / "__pycache__").mkdir()
    (tmp_path / "course" / "__pycache__" / "report.pyc").write_text("compiled")
    assert container._version() == versions[-1]


def test_an_engine_that_does_not_answer_gives_way_to_one_that_does(
    engines: Engines, a_class: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["grade", str(a_class), "--out", str(tmp_path / "marks"), "--container"]
    assert main(command) == 2
    assert "needs Docker or Podman, and neither is installed." in capfd.readouterr().err
    engines.install(*ENGINES)
    engines.say("info")
    assert main(command) == 2
    words = "no container can be started here: `docker info` and `podman info` did not succeed."
    assert words in capfd.readouterr().err
    engines.say()
    write_program(engines.path / "docker", "#!/bin/sh\nexit 1\n")
    assert main(command) == 0
    assert [each[0] for each in engines.asked("run")] == ["podman"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--dask", "127.0.0.1:8786"], "--container grades on this machine: leave --dask out."),
        (["--points", "gone.toml"], "there is no gone.toml."),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_started(
    engines: Engines,
    a_class: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    options: list[str],
    sentence: str,
) -> None:
    engines.install("podman")
    out = tmp_path / "marks"
    assert main(["grade", str(a_class), "--out", str(out), "--container", *options]) == 2
    assert sentence in capfd.readouterr().err
    assert not (engines.folder / "asked.jsonl").exists()
    assert not out.exists()


def test_the_status_is_that_of_the_grader_inside_and_ctrl_c_waits_for_its_end(
    engines: Engines, a_class: Path, tmp_path: Path
) -> None:
    engines.install("podman")
    command = [sys.executable, "-m", "course", "grade", str(a_class), "--container", "--out"]
    engines.say("run")
    assert main([*command[3:], str(tmp_path / "marks")]) == 1
    engines.say("wait")
    with subprocess.Popen(
        [*command, str(tmp_path / "marks")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as grading:
        assert grading.stdout is not None
        assert grading.stdout.readline() == "running\n"
        os.killpg(grading.pid, signal.SIGINT)  # as a terminal does: it and the engine
        assert grading.wait(60) == 130


def test_ctrl_c_in_the_moment_in_which_the_engine_ends_leaves_its_status(
    engines: Engines, a_class: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = os.waitpid

    def interrupted(pid: int, options: int) -> tuple[int, int]:
        ended = wait(pid, options)
        if ended[0] and engines.asked("run"):
            signal.raise_signal(signal.SIGINT)
        return ended

    engines.install("podman")
    engines.say("run")
    monkeypatch.setattr(os, "waitpid", interrupted)
    assert main(["grade", str(a_class), "--container", "--out", str(tmp_path / "marks")]) == 1

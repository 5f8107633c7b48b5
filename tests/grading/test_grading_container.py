"""`learn.py grade --container`: what the engine is asked for, by programs that stand in for it."""

import json
import os
import sys
from pathlib import Path

import pytest
from hostile import RIGHT, body
from support import ROOT, write_files, write_program

from course.__main__ import main
from course.grading.container import ENGINES

pytestmark = [pytest.mark.process, pytest.mark.nightly]

ENGINE = """#!{python}
import json, os, sys
with open(os.path.join({folder!r}, "asked.jsonl"), "a") as file:
    file.write(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
said = open(os.path.join({folder!r}, "said")).read().split()
verb = sys.argv[1]
if verb in said:
    sys.exit(1)
"""


class Engines:
    """Stand-ins for container engines, which note what they are asked. `say` names what fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        self.say()

    def install(self, *names: str) -> None:
        text = ENGINE.format(python=sys.executable, folder=str(self.folder))
        for name in names:
            write_program(self.folder / "bin" / name, text)

    def say(self, *words: str) -> None:
        (self.folder / "said").write_text(" ".join(words))

    def asked(self, verb: str) -> list[list[str]]:
        """Each time that a verb was asked for: the engine's name, the verb, what followed."""
        path = self.folder / "asked.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [each for each in map(json.loads, lines) if each[1] == verb]


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engines:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return Engines(tmp_path)


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    class_ = write_files(tmp_path / "a, class", {"Ada/l01_chunked_prefill.py": body(RIGHT)})
    return ["grade", str(class_), "--out", str(tmp_path / "marks"), "--container"]


def after(options: list[str], option: str) -> list[str]:
    return [options[i + 1] for i, each in enumerate(options) if each == option]


@pytest.mark.parametrize(("uid", "rights"), [(1234, []), (0, ["SYS_ADMIN", "SETUID", "SETGID"])])
def test_what_is_inside_has_no_network_few_rights_and_writes_to_the_results_only(
    engines: Engines,
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    uid: int,
    rights: list[str],
) -> None:
    engines.install("docker")
    monkeypatch.setattr(os, "getuid", lambda: uid)
    monkeypatch.setattr(os, "getgid", lambda: 99)
    _, folder, _, out, _ = command
    points = tmp_path / "points.toml"
    points.write_text("")
    more = ["--points", str(points), "--workers", "3", "--unsafe"]
    assert main([*command, *more]) == 0
    ((_, _, *options),) = engines.asked("run")
    assert after(options, "--network") == ["none"] and "--read-only" in options
    assert (after(options, "--cap-drop"), after(options, "--cap-add")) == (["all"], rights)
    assert after(options, "--user") == [f"{uid}:99"]
    assert after(options, "--mount") == [
        f'type=bind,"source={folder}","destination={folder}",readonly',
        f"type=bind,source={out},destination={out}",
        f"type=bind,source={points},destination={points},readonly",
    ]
    assert options[options.index("grade") :] == [*command[:-1], "--layout", "folder", *more]
    assert Path(out).is_dir()


def test_the_image_is_built_once_by_the_engine_that_answers_and_what_cannot_be_is_said(
    engines: Engines, command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    def refused(*more: str) -> str:
        assert main([*command, *more]) == 2
        return capfd.readouterr().err

    assert "needs Docker or Podman, and neither is installed." in refused()
    engines.install(*ENGINES)
    assert "leave --dask out." in refused("--dask", "127.0.0.1:8786")
    assert "there is no gone.toml." in refused("--points", "gone.toml")
    assert not engines.asked("info") and not Path(command[3]).exists()
    engines.say("info")
    assert "`docker info` and `podman info` did not succeed." in refused()
    engines.say("image", "build")
    assert "docker could not build the image" in refused()
    write_program(engines.folder / "bin" / "docker", "#!/bin/sh\nexit 1\n")
    engines.say("image")
    assert main(command) == 0
    engine, _, _, tag, _, file, root = engines.asked("build")[-1]
    assert (engine, Path(file), Path(root)) == ("podman", ROOT / "docs/hosting/Containerfile", ROOT)
    engines.say("run")
    assert main(command) == 1  # as the grader inside says
    assert len(engines.asked("build")) == 2
    assert [(each[0], tag in each) for each in engines.asked("run")] == [("podman", True)] * 2

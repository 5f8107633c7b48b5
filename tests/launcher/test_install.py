"""Installing once, with uv or else pip, and mending what was cut short.

Most tests have a .venv that only pretends to install (`support.lend_python`).
"""

import json
import re
import shutil
import sys
import threading
from pathlib import Path

import pytest
from launching import wait_for
from support import REQUIREMENTS, ROOT, lend_python, write_program

from course.launcher.failure import Failure, cannot_load, reason
from course.launcher.install import COURSE, TESTS, Installation
from course.launcher.install_lock import install_lock
from course.launcher.installers import UV, configuration_in, environment_for
from course.launcher.running import Ticker

CONFIGURATION = """\
global.cert='/etc/ssl/company.pem'
global.index-url='https://mirror.example/simple'
global.extra-index-url='file:///one file:///two'
install.index-url='https://other.example/simple'
user.nonsense='5'
:env:.find-links='/wheels\\n/more'
:env:.trusted-host='mirror.example'
:env:.default-timeout='180'
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A course that needs nothing, with an empty .venv that only pretends to install."""
    course = tmp_path / "course"
    course.mkdir()
    for name in (*REQUIREMENTS, "pyproject.toml"):
        (course / name).write_text("# nothing\n")
    lend_python(course, sys.executable)
    packages = course / ".venv" / "lib" / "python3.11" / "site-packages"
    (packages / "pip-23.2.1.dist-info").mkdir(parents=True)
    return course


def set_modes(place: Path, **modes: str) -> None:
    """Have uv and pip do what these words of `lend_python` say."""
    for program, mode in modes.items():
        (place / ".venv" / program).write_text(mode)


def ensure(place: Path, *files: str) -> Installation:
    installation = Installation(place)
    installation.ensure(*(files or (COURSE,)))
    return installation


def asked_of_uv(place: Path) -> list[str]:
    """What uv was asked to install, without the plans that it was asked for before."""
    lines = (place / ".venv" / "uv.log").read_text().splitlines()
    return [line.split("/bin/python ")[1] for line in lines if "--dry-run" not in line]


@pytest.mark.process
def test_what_is_asked_for_is_installed_once_from_where_pip_is_configured_to(place: Path, capsys):
    set_modes(place, **{"pip-config": f"{CONFIGURATION}global.no-index='true'\n"})
    (place / ".venv" / "pyvenv.cfg").write_text("version = 3.9.2\n")  # other than this Python's
    installation = ensure(place)
    said = capsys.readouterr().out
    assert re.fullmatch(r"(Installing: +\d+ s, .+\n)+Installed in \d+ s\.\n", said)
    ensure(place)
    assert capsys.readouterr().out == ""
    course, both = "-r requirements.txt", "-r requirements.txt -r requirements-test.txt"
    for files in ((COURSE, TESTS), (COURSE,), (COURSE, TESTS)):
        ensure(place, *files)
    assert asked_of_uv(place) == [
        f"{each} -c requirements.lock --no-index" for each in (course, both)
    ]
    assert installation.describe() == [".venv is in order: Python 3.9, installed with uv 0.13.9."]
    environment = (place / ".venv" / "uv-environment").read_text().splitlines()
    assert "UV_DEFAULT_INDEX=https://other.example/simple" in environment
    pip_log = (place / ".venv" / "pip.log").read_text().splitlines()
    assert [line.split()[-1] for line in pip_log] == [UV], "uv itself is got once, too"
    assert not list(place.glob(".venv-kept-*")), "an empty environment is used as it is"
    (place / ".venv/lib/python3.11/site-packages/torch-2.13.0+cpu.dist-info").mkdir()
    assert installation.describe()[1] == "PyTorch 2.13.0+cpu, CPU build."


@pytest.mark.process
def test_changed_requirements_and_a_moved_course_are_installed_anew(place: Path):
    ensure(place)
    for name in ("requirements.txt", "requirements.lock", "pyproject.toml"):
        (place / name).write_text("# another pin\n")
        ensure(place)
    moved = place.rename(place.with_name("moved"))
    for name in ("python", "uv"):
        program = moved / ".venv" / "bin" / name
        program.write_text(program.read_text().replace(str(place), str(moved)))
    ensure(moved)
    assert len(asked_of_uv(moved)) == 5


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "mode", "why"),
    [
        ("pip", "no uv", "No matching distribution found for uv"),
        ("uv", "fail", "Failed to fetch torch"),
    ],
)
def test_where_uv_cannot_install_pip_does(place: Path, capsys, program: str, mode: str, why: str):
    set_modes(place, **{program: mode})
    installation = ensure(place)
    assert f"uv cannot install here ({why}): going on with pip.\n" in capsys.readouterr().out
    assert "installed with pip." in installation.describe()[0]


@pytest.mark.process
@pytest.mark.parametrize(
    ("uv", "pip", "words", "half_made"),
    [
        ("fail", "fail", r"failed \(No matching distribution found for torch\)", False),
        ("fail", "cut off", "the package index could not be reached: check the network", False),
        ("fail", "full", "because the disk is full: make room", True),
        ("full", "not tried", "because the disk is full: make room", True),
        ("half", "fail", "No matching distribution", True),  # uv had begun
    ],
)
def test_a_failure_is_said_and_what_is_installed_works_on_unless_something_had_begun(
    place: Path, uv: str, pip: str, words: str, half_made: bool
):
    installation = ensure(place)
    set_modes(place, uv=uv, pip=pip)
    with pytest.raises(Failure, match=rf"{words}.* in \.venv/install\.log\.$"):
        ensure(place, COURSE, TESTS)
    assert installation.is_half_made() is half_made
    assert installation.holds(COURSE) is not half_made
    asked_of_pip = (place / ".venv" / "pip.log").read_text()
    assert ("-r requirements.txt" in asked_of_pip) == (pip != "not tried")
    assert (place / ".venv" / "install.log").stat().st_size > 0


@pytest.mark.process
def test_what_is_installed_is_loaded_once_and_by_the_doctor(place: Path):
    (place / COURSE).write_text("no-such-package==1.0\n")
    with pytest.raises(Failure, match=r"ModuleNotFoundError: No module named 'no_such_package'\)"):
        ensure(place)  # it was installed elsewhere, say
    installation = Installation(place)
    assert installation.is_half_made()
    installation._write_stamp({COURSE: installation._digest(COURSE)})
    [finding] = installation.findings()  # it went missing later
    assert finding.kind == "wrong" and "No module named 'no_such_package'" in finding.sentence


@pytest.mark.parametrize(
    ("output", "remedy"),
    [
        ("ModuleNotFoundError: No module named 'torch'", "delete .venv"),
        ('OSError: [WinError 126] Nicht gefunden. Error loading "c10.dll"', "Visual C++"),
        ("OSError: [WinError 1114] A DLL initialization routine failed", "Visual C++"),
        ("ImportError: DLL load failed while importing _C: not found", "Visual C++"),
        (
            "OSError: libtorch.so: failed to map segment from shared object",
            "disk that programs may run from",
        ),
    ],
)
def test_a_package_that_cannot_be_loaded_is_one_sentence_with_what_to_do(output: str, remedy: str):
    said = cannot_load(f"Traceback (most recent call last):\n{output}\n")
    assert output in said and re.search(remedy, said) and said.count("\n") == 0


NO_SOLUTION = """\
Using Python 3.15.0 environment at: .venv
error: No solution found when resolving dependencies
  cause: Because torch==2.13.0 has no wheels with a matching Python ABI tag, we can conclude so.

hint: You require CPython 3.15 (`cp315`), but we only found wheels with these tags: `cp314`
"""


def test_the_reason_that_uv_or_pip_gives_has_its_hint():
    assert reason(NO_SOLUTION).endswith("dependencies; You require CPython 3.15 (`cp315`), but "
        "we only found wheels with these tags: `cp314`")  # fmt: skip
    assert reason("ERROR: No such file: 'C:\\x'\nHINT: Enable long paths.\n") == (
        "No such file: 'C:\\x'; Enable long paths"
    )


def test_a_damaged_stamp_counts_as_a_half_made_venv(place: Path):
    assert not Installation(place).is_half_made()
    for text in ("{", "[1]", '{"unfinished": "yes"}', "[" * 100_000):
        (place / ".venv" / "course.json").write_text(text)
        assert Installation(place).is_half_made(), text[:9]


@pytest.mark.process
def test_a_half_made_venv_is_emptied_and_that_none_can_be_made_is_said(place: Path, monkeypatch):
    write_program(place / "no-venv", "#!/bin/sh\necho ensurepip is not available\nexit 1\n")
    monkeypatch.setattr(sys, "_base_executable", str(place / "no-venv"))
    (place / ".venv" / "course.json").write_text('{"unfinished": "yes"}')
    with pytest.raises(Failure, match=r"\(ensurepip is not available\); on Debian .*python3-venv"):
        ensure(place)
    left = {path.name for path in (place / ".venv").iterdir()}
    assert left == {"course.json", "install.log"}
    assert Installation(place).is_half_made()


@pytest.mark.process
@pytest.mark.parametrize("kind", ["file", "environment"])
def test_what_was_not_made_for_the_course_is_moved_aside(
    place: Path, capsys, monkeypatch, kind: str
):
    venv, mine = place / ".venv", place / ".venv/lib/python3.11/site-packages/flask-3.2.dist-info"
    if kind == "file":
        shutil.rmtree(venv)
        venv.write_text("mine")
    else:
        mine.mkdir()
    monkeypatch.setattr(
        Installation, "_make_venv", lambda self, _: lend_python(self.root, sys.executable)
    )
    assert ensure(place).holds(COURSE)
    [aside] = place.glob(".venv-kept-*")
    said = capsys.readouterr().out
    assert f".venv was not made for the course: it is moved to {aside.name}.\n" in said
    assert (
        aside.read_text() == "mine" if kind == "file" else (aside / mine.relative_to(venv)).exists()
    )


def test_a_second_installation_waits_for_its_turn_and_says_for_whom(tmp_path: Path, capsys):
    path, order = tmp_path / ".installing", []

    def second() -> None:
        with install_lock(path, Ticker()):
            order.append("second")

    with install_lock(path, Ticker()):
        waiting = threading.Thread(target=second)
        waiting.start()
        said = ""

        def is_said() -> bool:
            nonlocal said
            said += capsys.readouterr().out
            return "waiting for process" in said

        wait_for(is_said)
        assert int(path.read_text()) == int(re.findall(r"process (\d+),", said)[0])
        order.append("first")
    waiting.join(60)
    assert order == ["first", "second"]
    assert not path.exists()


def test_pips_settings_are_uvs_but_for_those_that_uv_was_given_itself():
    settings = {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "https://other.example/simple",
        "UV_INDEX": "file:///one file:///two",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_INSECURE_HOST": "mirror.example",
        "UV_HTTP_TIMEOUT": "180",
        "SSL_CERT_FILE": "/etc/ssl/company.pem",
    }
    assert environment_for(configuration_in(CONFIGURATION), {}) == settings
    given = {"UV_DEFAULT_INDEX": "https://mine.example/simple"}
    del settings["UV_DEFAULT_INDEX"]
    assert environment_for(configuration_in(CONFIGURATION), given) == settings


@pytest.mark.process
@pytest.mark.parametrize(
    ("mode", "backend", "options"),
    [
        ("gpu", None, ["--dry-run", "--torch-backend=cpu --dry-run", "--torch-backend=cpu"]),
        ("only gpu", None, ["--dry-run", "--torch-backend=cpu --dry-run"]),
        ("only gpu", "auto", [""]),  # a build that was asked for is taken
    ],
)
def test_gigabytes_of_gpu_libraries_are_kept_out(
    place: Path, monkeypatch, mode: str, backend: str | None, options: list[str]
):
    monkeypatch.delenv("UV_TORCH_BACKEND", raising=False)
    if backend:
        monkeypatch.setenv("UV_TORCH_BACKEND", backend)
    set_modes(place, uv=mode)
    if options[-1].endswith("--dry-run"):
        with pytest.raises(Failure, match=r"gigabytes of GPU .*\(Failed to fetch the index\)"):
            ensure(place)
        assert json.loads((place / ".venv" / "course.json").read_text()) == {}
    else:
        ensure(place)
    log = (place / ".venv" / "uv.log").read_text().splitlines()
    assert [line.partition("requirements.lock")[2].strip() for line in log] == options


PINS = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if line[0] != "#"]


def test_the_lock_names_only_versions_and_all_that_are_asked_for():
    pin = re.compile(r"[a-z0-9-]+==[0-9][a-z0-9.]*( ; [a-z0-9_ '<>=!.()]+)?", re.IGNORECASE)
    assert [line for line in PINS if not pin.fullmatch(line)] == []
    assert not {"torch", "serving-nanogpt"} & {line.partition("==")[0] for line in PINS}
    files = [path.read_text().splitlines() for path in ROOT.glob("requirements*.txt")]
    asked = [line for lines in files for line in lines if re.match(r"[\w-]+==", line)]
    assert len(asked) >= 18
    assert [line for line in asked if line not in PINS and "torch==" not in line] == []

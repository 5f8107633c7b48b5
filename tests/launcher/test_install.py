"""Installing once, with uv or else pip, and mending what was cut short.

Most tests have a .venv that only pretends to install (`support.lend_python`).
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import psutil
import pytest
from launching import wait_for
from support import ROOT, write_program

from course.launcher import doctor
from course.launcher.failure import Failure, cannot_load
from course.launcher.install import Installation, uv_environment

pytestmark = pytest.mark.process

CONFIGURATION = """\
:env:.find-links='/wheels\\n/more'
:env:.index-url='https://other.example/simple'
global.cert='/etc/ssl/company.pem'
global.extra-index-url='file:///one file:///two'
global.index-url='https://mirror.example/simple'
user.nonsense='5'
"""


@pytest.fixture
def place(course: Path, monkeypatch) -> Path:
    """A course that is not installed yet; its .venv is empty, and has a uv and a pip."""
    shutil.rmtree(course / ".venv" / "lib")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # without this environment's own uv
    return course


def installed(place: Path, *extras: str) -> Installation:
    """Install; what uv or pip would have put into .venv is there afterwards."""
    installation = Installation(place)
    installation.ensure(*extras)
    folder = place / ".venv/lib/python3.11/site-packages/serving_nanogpt-0.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    return installation


def asked_of(place: Path, program: str) -> list[str]:
    """What uv or pip was asked for."""
    log = place / ".venv" / f"{program}.log"
    return log.read_text().splitlines() if log.exists() else []


def test_what_is_missing_is_installed_once_from_where_pip_is_configured_to(place: Path, capsys):
    (place / ".venv" / "pip-config").write_text(CONFIGURATION)
    installed(place)
    assert re.search(r"Installing the packages\.\nInstalled in \d+ s\.\n", capsys.readouterr().out)
    installed(place)
    assert capsys.readouterr().out == ""
    [asked] = asked_of(place, "uv")
    assert asked.endswith("bin/python --editable . --constraint requirements.lock")
    environment = (place / ".venv" / "uv-environment").read_text().splitlines()
    assert "UV_DEFAULT_INDEX=https://other.example/simple" in environment
    assert asked_of(place, "pip") == []


def test_another_pin_and_another_extra_are_installed(place: Path):
    packages = place / ".venv/lib/python3.11/site-packages"
    installation = installed(place)
    project = (place / "pyproject.toml").read_text()
    project = project.replace("dependencies = []", 'dependencies = ["Ruff-X==2"]')
    (place / "pyproject.toml").write_text(project.replace("dev = []", 'dev = ["lab==1"]'))
    (packages / "ruff_x-1.dist-info").mkdir()
    assert not installation.holds()
    (packages / "ruff_x-1.dist-info").rename(packages / "ruff_x-2+cpu.dist-info")
    assert installation.holds() and installation.holds("live") and not installation.holds("dev")
    installed(place, "dev")
    assert ".[dev]" in asked_of(place, "uv")[-1]


def test_where_uv_cannot_install_pip_does_and_takes_the_small_build(place: Path, capsys):
    (place / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (place / ".venv" / "uv-fails").touch()
    installed(place)
    assert "uv cannot install here: going on with pip.\n" in capsys.readouterr().out
    small = "torch==2.13.0+cpu --extra-index-url https://download.pytorch.org/whl/cpu"
    assert asked_of(place, "pip")[-1].endswith(f"--constraint requirements.lock {small}")


def test_a_failure_is_said_and_what_is_installed_works_on(place: Path):
    installation = installed(place)
    (place / "pyproject.toml").write_text(
        (place / "pyproject.toml").read_text().replace("dev = []", 'dev = ["ruff==1"]')
    )
    for name in ("uv-fails", "pip-fails"):
        (place / ".venv" / name).touch()
    with pytest.raises(Failure, match=r"installing failed: the lines above say why"):
        installation.ensure("dev")
    assert installation.holds() and not installation.is_half_made()


def test_what_cannot_be_loaded_is_said_after_installing_and_by_the_doctor(
    place: Path, capsys, monkeypatch
):
    installation, said = installed(place), "ModuleNotFoundError: No module named 'torch'"
    (place / ".venv/lib/python3.11/site-packages/torch-2.13.0+cpu.dist-info").mkdir()
    monkeypatch.setattr(doctor, "is_temporary", lambda root: False)
    assert doctor.report(installation) == 0
    whole = f"   ok  The course is installed in {place}/.venv, with torch==2.13.0+cpu.\n"
    assert whole in capsys.readouterr().out
    (place / ".venv" / "torch-fails").write_text(f"Traceback:\n{said}\n")
    assert doctor.report(installation) == 1
    assert f"wrong  a package in .venv cannot be loaded ({said}): delete" in capsys.readouterr().out
    shutil.rmtree(place / ".venv" / "lib")
    with pytest.raises(Failure, match=said):
        installation.ensure()
    assert installation.is_half_made()


def test_a_package_that_cannot_be_loaded_is_one_sentence_with_what_to_do():
    for output, remedy in {
        "ModuleNotFoundError: No module named 'torch'": "delete .venv",
        'OSError: [WinError 126] Nicht gefunden. Error loading "c10.dll"': "Visual C++",
        "ImportError: DLL load failed while importing _C: not found": "Visual C++",
    }.items():
        said = cannot_load(f"Traceback (most recent call last):\n{output}\n")
        assert output in said and remedy in said and "\n" not in said


def test_a_half_made_venv_is_made_anew_and_that_none_can_be_made_is_said(
    place: Path, capfd, monkeypatch
):
    write_program(place / "no-venv", "#!/bin/sh\necho ensurepip is not available\nexit 1\n")
    monkeypatch.setattr(sys, "_base_executable", str(place / "no-venv"))
    (place / ".installing").touch()
    with pytest.raises(Failure, match="installing failed: the lines above say why"):
        Installation(place).ensure()
    assert capfd.readouterr().out.endswith("Making .venv.\nensurepip is not available\n")


def test_uv_is_told_pips_settings_and_with_an_index_of_ones_own_leaves_pytorchs_alone():
    assert uv_environment(CONFIGURATION) == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "https://other.example/simple",
        "UV_INDEX": "file:///one file:///two",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_NO_SOURCES": "1",
        "SSL_CERT_FILE": "/etc/ssl/company.pem",
    }
    assert "UV_NO_SOURCES" not in uv_environment("global.index-url='https://mirror.example'")


def test_the_pins_of_all_files_agree_and_the_lock_names_only_versions():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line[0] != "#"] == project["dependencies"]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    locked = [line for line in lock if not line.startswith("#")]
    pin = re.compile(r"[a-z0-9-]+==[0-9][a-z0-9.]*( ; [a-z0-9_ '<>=!.()]+)?", re.IGNORECASE)
    assert [line for line in locked if not pin.fullmatch(line)] == []
    extras = project["optional-dependencies"]
    asked = {pin for pins in extras.values() for pin in pins if "==" in pin}
    assert asked | set(project["dependencies"]) <= set(locked)
    assert set(Installation(ROOT).pins("jupyter")) == {*project["dependencies"], *extras["jupyter"]}


def start(place: Path) -> "subprocess.Popen[str]":
    """Start a launcher that needs to install, and wait until its uv hangs."""
    (place / ".venv" / "uv-hangs").touch()
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "learn.py", "progress"]
    started = subprocess.Popen(command, cwd=place, start_new_session=True, **pipes)
    wait_for((place / ".venv" / "hanging").exists)
    return started


def test_ctrl_c_during_an_installation_is_one_line(place: Path):
    with start(place) as stopped:
        installing = psutil.Process(stopped.pid).children()
        os.killpg(stopped.pid, signal.SIGINT)
        assert stopped.communicate(timeout=60)[1] == "learn.py: stopped.\n"
    assert stopped.returncode == 130
    assert not psutil.wait_procs(installing, timeout=60)[1]
    assert Installation(place).is_half_made()

"""uv takes what pip would take, from where pip is configured to, without GPU libraries."""

import base64
import hashlib
import json
import os
import re
import shutil
import sys
import zipfile
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest
from launching import assert_one_sentence, learn
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support import ROOT, unavailable

from course.launcher.pip import configuration_in
from course.launcher.uv import UV, environment_for

pytestmark = pytest.mark.process

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


def test_pips_settings_are_uvs():
    assert environment_for(configuration_in(CONFIGURATION), {}) == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "https://other.example/simple",
        "UV_INDEX": "file:///one file:///two",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_INSECURE_HOST": "mirror.example",
        "UV_HTTP_TIMEOUT": "180",
        "SSL_CERT_FILE": "/etc/ssl/company.pem",
    }


def test_what_is_said_to_uv_itself_goes_first():
    given = {"UV_DEFAULT_INDEX": "https://mine.example/simple"}
    assert "UV_DEFAULT_INDEX" not in environment_for(configuration_in(CONFIGURATION), given)


def test_uv_is_run_with_pips_settings(course: Path):
    (course / ".venv" / "pip-config").write_text(CONFIGURATION + "global.no-index='true'\n")
    learn(course, "progress")
    environment = (course / ".venv" / "uv-environment").read_text().splitlines()
    assert "UV_DEFAULT_INDEX=https://other.example/simple" in environment
    assert (course / ".venv" / "uv.log").read_text().splitlines()[-1].endswith(" --no-index")


def test_uv_is_got_once(course: Path):
    learn(course, "progress")
    (course / "pyproject.toml").write_text("# changed\n")
    learn(course, "progress")
    asked = (course / ".venv" / "pip.log").read_text().splitlines()
    assert [line.split()[-1] for line in asked] == [UV]


def options_of(course: Path) -> list[tuple[bool, bool]]:
    """Return for each call of uv whether it was a plan and whether it asked for CPU builds."""
    lines = (course / ".venv" / "uv.log").read_text().splitlines()
    return [("--dry-run" in line, "--torch-backend=cpu" in line) for line in lines]


def test_where_gpu_libraries_would_come_the_small_build_is_taken(course: Path, monkeypatch):
    monkeypatch.delenv("UV_TORCH_BACKEND", raising=False)
    (course / ".venv" / "uv").write_text("gpu")
    assert learn(course, "progress").returncode == 0
    assert options_of(course) == [(True, False), (True, True), (False, True)]


def test_where_only_gpu_libraries_can_be_had_nothing_is_installed(course: Path, monkeypatch):
    monkeypatch.delenv("UV_TORCH_BACKEND", raising=False)
    (course / ".venv" / "uv").write_text("only gpu")
    words = ("brings gigabytes of GPU libraries", "(Failed to fetch the index)", "README")
    assert_one_sentence(learn(course, "progress"), *words)
    assert options_of(course) == [(True, False), (True, True)]
    assert "-r requirements.txt" not in (course / ".venv" / "pip.log").read_text()
    assert json.loads((course / ".venv" / "course.json").read_text()) == {}


def test_a_build_that_was_asked_for_is_taken(course: Path, monkeypatch):
    monkeypatch.setenv("UV_TORCH_BACKEND", "auto")
    (course / ".venv" / "uv").write_text("only gpu")
    assert learn(course, "progress").returncode == 0
    assert options_of(course) == [(False, False)]


def write_wheel(folder: Path, name: str, version: str, **files: str) -> None:
    """Write a wheel of these files, `requires` for what it needs and `program` for a script."""
    stem = f"{name.replace('-', '_')}-{version}"
    need = "".join(f"Requires-Dist: {each}\n" for each in files.pop("requires", "").split())
    held = {
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + need,
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    for script, text in files.items():
        held[f"{stem}.data/scripts/{script}"] = text
    record = ""
    for path, text in held.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(text.encode())}\n"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
        for path, text in {**held, f"{stem}.dist-info/RECORD": record}.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = 0o100755 << 16  # pip and uv let programs be run
            wheel.writestr(entry, text)


@pytest.fixture
def tiny(bare: Path, tmp_path: Path, monkeypatch) -> Path:
    """A course that needs `tiny-a`, from a folder of tiny wheels that pip is configured for."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    write_wheel(wheels, "tiny-a", "1.0", requires="tiny-b")
    write_wheel(wheels, "tiny-b", "1.0")
    write_wheel(wheels, "tiny-b", "2.0")
    (bare / "requirements.txt").write_text("tiny-a==1.0\n")
    (bare / "requirements.lock").write_text("tiny-b==1.0 ; python_version >= '3.11'\n")
    configuration = tmp_path / "pip.conf"
    configuration.write_text(f"[global]\nno-index = true\nfind-links = {wheels}\n")
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(configuration))
    return bare


def with_real_uv(course: Path) -> None:
    """Let the tests' own uv be had from the wheels."""
    real = shutil.which("uv", path=str(Path(sys.executable).parent))
    if not real:
        unavailable("uv is not installed beside the tests' Python")
    program = f'#!/bin/sh\nexec "{real}" "$@"\n'
    write_wheel(course.parent / "wheels", "uv", UV.partition("==")[2], uv=program)


def installed(course: Path) -> set[str]:
    held = course.glob(".venv/lib/python*/site-packages/tiny*.dist-info")
    return {path.stem for path in held}


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_either_takes_the_locked_versions_from_where_pip_is_configured_to(
    tiny: Path, installer: str
):
    if installer == "uv":
        with_real_uv(tiny)
    done = learn(tiny, "progress")
    assert done.returncode == 0, done.stderr
    assert installed(tiny) == {"tiny_a-1.0", "tiny_b-1.0"}
    assert json.loads((tiny / ".venv" / "course.json").read_text())["installer"].split()[0] == (
        installer
    )
    assert ("going on with pip." in done.stdout) == (installer == "pip")


def test_the_real_uvs_plan_shows_gpu_libraries_and_its_refusal_leaves_a_working_venv(tiny: Path):
    with_real_uv(tiny)
    wheels = tiny.parent / "wheels"
    write_wheel(wheels, "tiny-c", "1.0", requires="nvidia-tiny")
    write_wheel(wheels, "nvidia-tiny", "1.0")
    asked = (tiny / "requirements.txt").read_text()
    (tiny / "requirements.txt").write_text("tiny-c\n")
    assert_one_sentence(learn(tiny, "progress"), "(it brings them too)")
    assert installed(tiny) == set()
    (tiny / "requirements.txt").write_text(asked)
    done = learn(tiny, "progress")
    assert done.returncode == 0, done.stderr
    assert "making .venv" not in done.stdout
    assert installed(tiny) == {"tiny_a-1.0", "tiny_b-1.0"}


PINS = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if line[0] != "#"]
FILES = sorted(ROOT.glob("requirements*.txt"))


def test_the_lock_names_versions_alone_no_index_and_no_folder():
    pin = re.compile(r"[a-z0-9-]+==[0-9][a-z0-9.]*( ; [a-z0-9_ '<>=!.()]+)?", re.IGNORECASE)
    assert [line for line in PINS if not pin.fullmatch(line)] == []
    assert not {"torch", "serving-nanogpt"} & {line.partition("==")[0] for line in PINS}


def test_the_lock_agrees_with_what_is_asked_for():
    asked = [line for file in FILES for line in file.read_text().splitlines()]
    direct = [line for line in asked if re.match(r"[\w-]+==", line) and "torch==" not in line]
    assert len(direct) >= 18
    assert [line for line in direct if line not in PINS] == []


def test_everything_that_is_installed_along_is_locked():
    """Followed from the requirements of the course and its tests, on this Python and system."""
    locked = {}
    for pin in map(Requirement, PINS):
        if not pin.marker or pin.marker.evaluate():
            locked[canonicalize_name(pin.name)] = str(pin.specifier).removeprefix("==")
    files = [ROOT / "requirements.txt", ROOT / "requirements-test.txt"]
    lines = [line for file in files for line in file.read_text().splitlines()]
    left = [Requirement(line) for line in lines if re.match(r"[\w-]+==", line)]
    seen: set[str] = set()
    while left:
        asked = left.pop()
        name = canonicalize_name(asked.name)
        extras = [{"extra": extra} for extra in asked.extras] or [{"extra": ""}]
        if name in seen or re.match(r"nvidia-|cuda-|triton", name):
            continue
        seen.add(name)
        if name != "torch":
            assert locked[name] == distribution(name).version, name
        needs = [Requirement(line) for line in requires(name) or ()]
        left += [n for n in needs if not n.marker or any(map(n.marker.evaluate, extras))]
    assert len(seen) > 80

"""The files for other people's machines: their steps, run here as far as this machine can."""

import ast
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from launching import learn
from support import ROOT, run

from course.launcher.server import parse_options

HOSTING = ROOT / "docs" / "hosting"
CONTAINERFILE = (HOSTING / "Containerfile").read_text(encoding="utf-8")


def steps(word: str) -> list[str]:
    """What follows an instruction of the container file, in order."""
    return re.findall(rf"^{word} (.+)$", CONTAINERFILE, re.MULTILINE)


def test_every_argument_that_the_container_file_uses_is_declared_and_on_the_page():
    declared = {each.partition("=")[0] for each in steps("ARG")}
    assert declared == {"BASE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UID"}
    assert set(re.findall(r"\$\{(\w+)\}", CONTAINERFILE)) <= declared
    page = (HOSTING / "README.md").read_text(encoding="utf-8")
    for name in declared:
        assert f"`{name}`" in page


def test_a_container_gets_the_whole_course_and_nothing_of_this_machine():
    left_out = set((ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n"))
    assert {".git", ".venv*", "work", "**/__pycache__", "**/__marimo__"} <= left_out
    names = {"learn.py", "pyproject.toml", "requirements.txt", "requirements.lock"}
    assert not left_out & {*names, "nanogpt", "course", "lessons", "solutions", "widgets"}


def test_what_the_container_runs_is_what_learn_py_understands():
    [entry], [command] = steps("ENTRYPOINT"), steps("CMD")
    assert ast.literal_eval(entry) == ["python3", "learn.py"]
    verb, *arguments = ast.literal_eval(command)
    assert verb == "open"
    options = parse_options(arguments)
    assert (options.host, options.port, options.no_browser) == ("0.0.0.0", 2718, True)
    assert steps("EXPOSE") == [str(options.port)]
    assert f"-p 127.0.0.1:{options.port}:{options.port} " in CONTAINERFILE


def test_the_course_listens_for_one_of_two_addresses_alone(bare: Path):
    assert parse_options([]).host == "127.0.0.1"
    done = learn(bare, "--host", "192.0.2.1")
    assert done.returncode == 1
    assert "invalid choice: '192.0.2.1'" in done.stderr


@pytest.mark.process
def test_the_containers_steps_make_a_course_that_its_host_can_reach(course: Path):
    """Without a builder: its last RUN and its CMD, in a folder of their own."""
    made, _, _ = steps("RUN")[-1].partition(" && rm")
    assert shlex.split(made)[:2] == ["python3", "learn.py"]
    assert learn(course, *shlex.split(made)[2:]).returncode == 0
    assert (course / "work" / "l01_chunks.py").exists()
    command = [sys.executable, "learn.py", *ast.literal_eval(steps("CMD")[0])]
    command = [word if word != "2718" else "27183" for word in command]
    with subprocess.Popen(command, cwd=course, stdout=subprocess.PIPE, text=True) as process:
        said = next(line for line in process.stdout if "http://" in line)
        tree = psutil.Process(process.pid).children(recursive=True)
        found = [each for one in tree for each in one.net_connections()]
        assert "0.0.0.0" in {each.laddr.ip for each in found if each.status == "LISTEN"}
        address = urlsplit(said.strip())
        urllib.request.urlopen(f"http://127.0.0.1:27183/?{address.query}").close()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen("http://127.0.0.1:27183/api/status/connections")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_the_other_hosts_files_name_what_is_there(tmp_path: Path):
    binder = ROOT / ".binder"
    for line in (binder / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(("-r ", "-c ")):
            assert (binder / line[3:]).resolve().is_file()
    assert run(["sh", "-n", str(binder / "postBuild")], cwd=ROOT).returncode == 0
    devcontainer = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    assert devcontainer["forwardPorts"] == [parse_options(["--port", "2718"]).port]
    assert devcontainer["postCreateCommand"] == "python3 learn.py progress"


def test_binder_brings_the_lessons_to_where_a_learner_has_them(bare: Path):
    shutil.copytree(ROOT / ".binder", bare / ".binder")
    step = (
        (bare / ".binder" / "postBuild")
        .read_text(encoding="utf-8")
        .replace("python ", f"{sys.executable} ")
    )
    assert run(["sh", "-c", step], cwd=bare).returncode == 0
    assert (bare / "work" / "l01_chunks.py").is_file()


def test_a_notebook_for_molab_has_the_courses_own_pins():
    text = (HOSTING / "molab.txt").read_text(encoding="utf-8")
    pins = set(re.findall(r'"([\w-]+==[\d.]+)"', text))
    wanted = set((ROOT / "requirements.txt").read_text(encoding="utf-8").split("\n"))
    # Nothing in a lesson writes notebooks, runs tests or serves HTTP.
    elsewhere = ("nbformat", "pytest", "starlette", "uvicorn", "prometheus-client")
    assert pins == {
        each for each in wanted if "==" in each and each.split("==")[0] not in elsewhere
    }


def test_the_sites_workflow_publishes_what_the_command_writes():
    text = (ROOT / ".github" / "workflows" / "pages.yml").read_text(encoding="utf-8")
    [folder] = re.findall(r"run: python3 learn.py site (\w+)", text)
    assert f"path: {folder}" in text


def test_every_link_of_the_page_leads_somewhere():
    page = (HOSTING / "README.md").read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-")
        for each in re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    }
    for address in re.findall(r"\]\(([^)]+)\)", page):
        path, _, fragment = address.partition("#")
        if path:
            assert (HOSTING / path).exists(), address
        else:
            assert fragment in headings, address

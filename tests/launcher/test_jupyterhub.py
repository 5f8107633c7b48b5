"""The class's profile in a real JupyterHub: two learners, each in a JupyterLab of its own."""

import json
import os
import secrets
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launching import free_port, wait_for
from support import ROOT

pytestmark = [pytest.mark.process, pytest.mark.nightly]

PROFILE = ROOT / "docs" / "hosting" / "jupyterhub_config.py"
BIN = Path(sys.executable).parent  # where the proxy is
LEARNERS = ("ada", "ben")
LESSON = "l01_chunked_prefill"
# What a machine of the tests lacks: accounts, PAM, and a user other than root to run servers as.
ON_THIS_MACHINE = """
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = "{home}/{{username}}"
c.Spawner.args = ["--allow-root"]
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {hub}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy}"
c.JupyterHub.services = [{{"name": "tests", "api_token": "{token}"}}]
c.JupyterHub.load_roles = [
    {{"name": "tests", "scopes": ["admin:users", "admin:servers", "tokens"], "services": ["tests"]}}
]
"""


def ask(address: str, token: str, method: str = "GET", data: object = None) -> Any:
    headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
    body = None if data is None else json.dumps(data).encode()
    request = urllib.request.Request(address, body, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch) -> Iterator[tuple[str, Path, str]]:
    """The profile of docs/hosting, started: its address, its folder of homes, a token for it."""
    folder, port, token = tmp_path, free_port(), secrets.token_hex(16)
    values = {"home": folder, "port": port, "hub": free_port(), "proxy": free_port()}
    config = PROFILE.read_text(encoding="utf-8") + ON_THIS_MACHINE.format(**values, token=token)
    config = config.replace("/srv/serving-nanogpt", str(ROOT)).replace("/home/", f"{folder}/")
    (folder / "config.py").write_text(config)
    monkeypatch.delenv("SERVING_NANOGPT_WORK")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    command = [sys.executable, "-m", "jupyterhub", "-f", "config.py"]
    with (folder / "hub.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        wait_for(lambda: "is now running at" in (folder / "hub.log").read_text())
        yield f"http://127.0.0.1:{port}", folder, token
    finally:
        process.terminate()
        process.wait(60)


def test_each_learner_has_the_lessons_in_a_folder_and_a_server_of_its_own(
    hub: tuple[str, Path, str],
):
    address, home, token = hub
    tokens = {}
    for name in LEARNERS:
        user = f"{address}/hub/api/users/{name}"
        ask(user, token, "POST")
        ask(f"{user}/server", token, "POST", {})
        wait_for(lambda user=user: ask(user, token)["server"] is not None, limit_s=120)
        tokens[name] = ask(f"{user}/tokens", token, "POST", {})["token"]
        path = f"{address}/user/{name}/api/contents/{LESSON}.ipynb"
        notebook = ask(path, tokens[name])["content"]
        [cell] = [cell for cell in notebook["cells"] if "def chunk_size(" in cell["source"]]
        cell["source"] = f"def chunk_size(budget, num_decodes, remaining):\n    return '{name}'"
        ask(path, tokens[name], "PUT", {"type": "notebook", "content": notebook})
    for name in LEARNERS:
        text = (home / name / "serving-nanogpt" / f"{LESSON}.py").read_text()
        assert [each for each in LEARNERS if f"return '{each}'" in text] == [name]
    started = ask(f"{address}/user/ada/api/kernels", tokens["ada"], "POST", {})
    assert started["name"] == "serving-nanogpt"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        ask(f"{address}/user/ada/api/contents", tokens["ben"])

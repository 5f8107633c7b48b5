"""The class's profile in a real JupyterHub: two learners, each in a JupyterLab of its own."""

import json
import os
import secrets
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from launching import wait_for
from support import ROOT

pytestmark = pytest.mark.process

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


@dataclass(frozen=True, slots=True)
class Hub:
    """A running Hub, the folder of homes, and each learner's token."""

    address: str
    home: Path
    tokens: dict[str, str]

    def ask(self, path: str, token: str, method: str = "GET", data: object = None) -> Any:
        """Ask the Hub, or a learner's server, and return its answer."""
        headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(self.address + path, body, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """The profile of docs/hosting, started, with a server for each learner."""
    folder = tmp_path_factory.mktemp("hub")
    port, token = free_port(), secrets.token_hex(16)
    values = {"home": folder, "port": port, "hub": free_port(), "proxy": free_port()}
    config = PROFILE.read_text(encoding="utf-8") + ON_THIS_MACHINE.format(**values, token=token)
    config = config.replace("/srv/serving-nanogpt", str(ROOT)).replace("/home/", f"{folder}/")
    (folder / "config.py").write_text(config)
    own = {name: value for name, value in os.environ.items() if name != "SERVING_NANOGPT_WORK"}
    with (folder / "hub.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterhub", "-f", "config.py"],
            cwd=folder,
            stdout=log,
            stderr=log,
            env=own | {"PYTHONPATH": str(ROOT), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        )
    try:
        hub = Hub(f"http://127.0.0.1:{port}", folder, {})
        wait_for(lambda: "is now running at" in (folder / "hub.log").read_text())
        for name in LEARNERS:
            hub.ask(f"/hub/api/users/{name}", token, "POST")
            hub.ask(f"/hub/api/users/{name}/server", token, "POST", {})
        for name in LEARNERS:
            user = f"/hub/api/users/{name}"
            wait_for(lambda user=user: hub.ask(user, token)["server"] is not None, limit_s=120)
            hub.tokens[name] = hub.ask(f"{user}/tokens", token, "POST", {})["token"]
        yield hub
    finally:
        process.terminate()
        process.wait(60)


def test_each_learner_has_the_lessons_and_writes_into_a_folder_of_its_own(hub: Hub):
    for name in LEARNERS:
        path = f"/user/{name}/api/contents/{LESSON}.ipynb"
        notebook = hub.ask(path, hub.tokens[name])["content"]
        [cell] = [cell for cell in notebook["cells"] if "def chunk_size(" in cell["source"]]
        cell["source"] = f"def chunk_size(budget, num_decodes, remaining):\n    return '{name}'"
        hub.ask(path, hub.tokens[name], "PUT", {"type": "notebook", "content": notebook})
    for name in LEARNERS:
        text = (hub.home / name / "serving-nanogpt" / f"{LESSON}.py").read_text()
        assert [each for each in LEARNERS if f"return '{each}'" in text] == [name]


def test_a_learners_kernel_is_the_courses(hub: Hub):
    started = hub.ask("/user/ada/api/kernels", hub.tokens["ada"], "POST", {})
    assert started["name"] == "serving-nanogpt"


def test_a_learner_is_refused_at_anothers_server(hub: Hub):
    with pytest.raises(urllib.error.HTTPError, match="403"):
        hub.ask("/user/ada/api/contents", hub.tokens["ben"])

"""The course's own Jupyter kernel, driven as JupyterLab drives it."""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
from support import ROOT

from course.jupyter.cell_ids import cell_id
from course.jupyter.convert import to_notebook
from course.jupyter.server import places

LIMIT_S = 400
VERDICT = re.compile(r'data-status="(\w+)" data-exercise="([^"]+)" data-exhibit=""')


class Page:
    """A lesson on a page: what each of its cells shows now, by the cell's id."""

    def __init__(self, client: BlockingKernelClient, lesson: str, name: str = "page") -> None:
        self.client = client
        self.name = name
        self.cells = to_notebook(lesson)["cells"]
        self.shown: dict[str, Mapping[str, Any]] = {}
        self.errors: list[str] = []

    def run_all(self) -> None:
        """Run every cell, as it stands."""
        for place, cell in enumerate(self.cells):
            if cell["cell_type"] == "code":
                self.run(cell_id(self.name, place), cell["source"])

    def answer(self, function: str, source: str) -> list[str]:
        """Run another source in the cell that defines a function; return what it brought along."""
        [place] = [n for n, c in enumerate(self.cells) if f"def {function}(" in c["source"]]
        return self.run(cell_id(self.name, place), source)

    def run(self, cell: str, source: str) -> list[str]:
        """Run a source as this cell; return the ids of the cells that show something else now."""
        request = {"code": source, "silent": False, "store_history": True, "allow_stdin": False}
        session = self.client.session
        message = session.msg("execute_request", request, metadata={"cellId": cell})
        self.client.shell_channel.send(message)
        changed: list[str] = []
        while True:
            heard = self.client.get_iopub_msg(timeout=LIMIT_S)
            if heard["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            content = heard["content"]
            match heard["msg_type"]:
                case "display_data" | "update_display_data":
                    place = content["transient"]["display_id"]
                    changed.append(place)
                    self.shown[place] = content["data"]
                case "error":
                    self.errors.append(f"{content['ename']}: {content['evalue']}")
                case "status" if content["execution_state"] == "idle":
                    return changed

    @property
    def texts(self) -> list[str]:
        """What is shown as HTML."""
        return [data["text/html"] for data in self.shown.values() if "text/html" in data]

    @property
    def statuses(self) -> dict[str, str]:
        """The verdicts on attempts, by exercise."""
        return {name: status for status, name in VERDICT.findall("".join(self.texts))}


@contextlib.contextmanager
def kernel(work: Path) -> Iterator[BlockingKernelClient]:
    """The kernel that JupyterLab would start for a lesson in `work`; ended afterwards."""
    environment = {
        **os.environ,
        **places(work / ".jupyter"),
        "PYTHONPATH": str(ROOT),
        "SERVING_NANOGPT_WORK": str(work),
    }
    before = os.environ.get("JUPYTER_PATH")
    os.environ["JUPYTER_PATH"] = environment["JUPYTER_PATH"]  # where this process looks for it
    try:
        manager, client = start_new_kernel(
            kernel_name="serving-nanogpt", cwd=str(work), env=environment
        )
    finally:
        if before is None:
            del os.environ["JUPYTER_PATH"]
        else:
            os.environ["JUPYTER_PATH"] = before
    try:
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)

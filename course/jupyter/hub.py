"""One learner's JupyterLab under JupyterHub: `python -m course.jupyter.hub`, a Spawner's command.

Runs as the learner, in the course's `.venv`. `SERVING_NANOGPT_WORK` names the learner's folder,
which gets the lessons that it lacks; the course's own folder is only read.
"""

from __future__ import annotations

import os
import sys

from course.jupyter.server import HERE, leave_out_address_grammars, places, settings
from course.launcher.workspace import Workspace
from course.progress import work_folder


def main() -> None:
    """Bring in the lessons, then be the learner's server."""
    work = work_folder()
    workspace = Workspace(HERE.parent.parent)
    workspace.work = work
    workspace.bring_in()
    os.environ |= places(work / ".jupyter")

    leave_out_address_grammars()
    from jupyterhub.singleuser import main as serve  # pyright: ignore

    sys.argv += [f"--ServerApp.root_dir={work}", *settings()]
    serve()


if __name__ == "__main__":
    main()

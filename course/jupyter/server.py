"""JupyterLab on the learner's folder, with the course's own settings beside it.

A learner's other Jupyter, its settings and kernels, is neither read nor written: what this one
keeps lies in work/.jupyter.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
HIDDEN = (  # what lies in work/ and is nothing to open
    *("__pycache__", "__marimo__", "*.pyc", "layouts", "progress", "answers"),
    *("pyproject.toml", "course.css", "server.log"),
)


def serve(address: str, port: int, name: str, token: str) -> None:
    """Serve work/ at this address, which the browser calls `name`, until the process is stopped."""
    work = HERE.parent.parent / "work"
    os.environ |= {
        **places(work / ".jupyter"),
        "JUPYTER_TOKEN": token,  # not an argument: those are shown to every user of the machine
    }

    leave_out_address_grammars()
    from jupyterlab.labapp import main  # pyright: ignore[reportMissingTypeStubs]

    main(
        [
            *("--no-browser", "--allow-root", f"--ServerApp.ip={address}"),
            "--ServerApp.port_retries=0",
            *(f"--ServerApp.port={port}", f"--ServerApp.root_dir={work}"),
            *("--ServerApp.local_hostnames=localhost", f"--ServerApp.local_hostnames={name}"),
            *settings(),
        ]
    )


def leave_out_address_grammars() -> None:
    """Keep jsonschema, not imported yet, from compiling grammars of addresses for 1.5 s.

    No schema of Jupyter's asks for them, and it does without what cannot be imported.
    """
    sys.modules.setdefault("rfc3987_syntax", None)  # pyright: ignore[reportArgumentType]


def places(folder: Path) -> dict[str, str]:
    """Return the variables by which Jupyter finds the course's kernel, and keeps to `folder`."""
    return {
        "JUPYTER_PATH": str(HERE),
        "JUPYTER_CONFIG_DIR": str(folder),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "IPYTHONDIR": str(folder / "ipython"),
    }


def settings() -> list[str]:
    """Return the arguments that make a JupyterLab the course's."""
    return [
        "--ServerApp.contents_manager_class=course.jupyter.contents.LessonContents",
        *(f"--ContentsManager.hide_globs={name}" for name in HIDDEN),
        "--KernelSpecManager.allowed_kernelspecs=serving-nanogpt",
        "--KernelSpecManager.ensure_native_kernel=False",
        "--MappingKernelManager.default_kernel_name=serving-nanogpt",
        "--LabApp.extension_manager=readonly",  # which asks no index for extensions
        f"--LabApp.app_settings_dir={HERE / 'settings'}",
        f"--LabApp.extra_labextensions_path={HERE / 'labextensions'}",
    ]

"""How commands fail: the error, and its sentences."""

import os
import re


class Failure(Exception):
    """One sentence about what went wrong that the learner can act on."""


def learn_command() -> str:
    """Return what starts the course on this system. On Windows, `python3` opens the Store."""
    return "py learn.py" if os.name == "nt" else "python3 learn.py"


def last_line(text: str) -> str:
    """Return the last line of a program's output that says something."""
    return ([line.strip() for line in text.splitlines() if line.strip()] or ["no output"])[-1]


def cannot_load(output: str) -> str:
    """Say why a package cannot be imported, from what Python said, and what to do about it."""
    remedy = f"delete .venv, and {learn_command()} installs the course anew"
    if re.search(r"WinError (126|127|1114)\b|DLL load failed", output):
        remedy = (
            "install Microsoft's Visual C++ Redistributable, which PyTorch needs, from "
            "https://aka.ms/vs/17/release/vc_redist.x64.exe, and start again"
        )
    return f"a package in .venv cannot be loaded ({last_line(output)}): {remedy}."

"""marimo's private names: the installed release has all that the course uses, in one module."""

import re
from pathlib import Path

from support import ROOT

from course.marimo_internals import PRIVATE, missing_names


def test_marimo_has_every_private_name_that_the_course_uses():
    assert missing_names() == []
    assert len(PRIVATE) <= 10


def test_no_other_module_imports_a_private_name_of_marimo():
    files = [
        path for name in ("course", "lessons", "tests") for path in (ROOT / name).rglob("*.py")
    ]
    found = [
        path for path in files if re.search(r"(import|from) marimo\._", path.read_text("utf-8"))
    ]
    assert [Path(path).name for path in found] == []

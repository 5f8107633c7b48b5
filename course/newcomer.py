"""For a lesson that is run to be shown to others: as one that no learner has opened yet."""

import contextlib
import os
import tempfile
from collections.abc import Generator


@contextlib.contextmanager
def newcomer() -> Generator[None]:
    """Nothing of the learner's own is read, and nothing is left behind."""
    before, folder = dict(os.environ), os.getcwd()
    with tempfile.TemporaryDirectory() as empty:
        os.environ |= {"SERVING_NANOGPT_WORK": empty, "OMP_NUM_THREADS": "1"}
        os.chdir(empty)
        try:
            yield
        finally:
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(before)

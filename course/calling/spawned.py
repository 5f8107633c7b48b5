"""A process that answers, started from nothing: `python -m course.calling.spawned LINK NEEDS`."""

import importlib
import os
import signal
import sys

from course.calling import child
from course.calling.process_limits import limit_this_process
from nanogpt.child_process import end_with_parent, parent_link

if __name__ == "__main__":
    channel = parent_link()
    end_with_parent()
    if sys.argv[2] != "numbers":  # torch takes longer than a call may, or than a parent may live
        importlib.import_module("torch")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    os.environ.pop("SERVING_NANOGPT_WORK", None)  # nothing is saved from here
    limit_this_process(for_marks=False)
    child.serve(channel)

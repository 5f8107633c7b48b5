"""A process that answers, started from nothing: `python -m course.calling.spawned LINK`."""

import os
import signal

from nanogpt.child_process import end_with_parent, parent_link

if __name__ == "__main__":
    channel = parent_link()
    end_with_parent()
    from course.calling import child  # which imports torch, and takes longer than a parent may live
    from course.calling.process_limits import limit_this_process

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    os.environ.pop("SERVING_NANOGPT_WORK", None)  # nothing is saved from here
    limit_this_process(for_marks=False)
    child.serve(channel)

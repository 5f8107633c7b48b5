"""Sets the course up and opens it: `python3 learn.py --help`. Standard library only."""

import sys

# Nothing newer than Python 3.6 may stand in this file, so that the sentence can be said at all.
if not (3, 11) <= sys.version_info[:2] <= (3, 14):  # PyTorch has builds for these
    sys.exit(
        "learn.py: the course needs Python 3.11 to 3.14, and this is Python %d.%d (%s): "
        "install one of these and run learn.py with it."
        % (sys.version_info[0], sys.version_info[1], sys.executable)
    )

from pathlib import Path

try:
    sys.path.insert(0, str(Path(__file__).resolve().parent))  # where python3 -P and -I do not look
    from course.launcher.command import main

    if __name__ == "__main__":
        sys.exit(main())
except KeyboardInterrupt:
    sys.exit("learn.py: stopped.")

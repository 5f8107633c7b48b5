"""A Linux Python that behaves, where the course could notice, as macOS and Windows do.

Copied into a course as `sitecustomize.py`, which every Python that has the course on its path
imports first. The course's modules see another `sys.platform`; there is no fork, and processes are
spawned; the clock ticks as on Windows; files are now and then held by another program.
"""

import errno
import importlib.machinery
import multiprocessing
import os
import platform
import random
import sys
import time
from pathlib import Path

PLATFORM = {"course.files": "win32"}  # all others see macOS, whose paths are Linux's
TICK_NS = 10**9 // 64
HELD = 0.2  # so often


class Elsewhere:
    """`sys`, but for the platform."""

    def __init__(self, platform):
        self.__dict__["platform"] = platform

    def __getattr__(self, name):
        return getattr(sys, name)

    def __setattr__(self, name, value):
        setattr(sys, name, value)


class Finder:
    """Gives the course's modules that `sys`, once they are loaded."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] not in ("course", "nanogpt"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return None
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            if module.__dict__.get("sys") is sys:
                module.sys = Elsewhere(PLATFORM.get(name, "darwin"))

        spec.loader.exec_module = exec_module
        return spec


def at_times_held(action):
    """The action, which fails now and then on a file of the learner's progress."""

    def held(path, *rest, **named):
        if "progress" in os.fspath(path) and random.random() < HELD:
            raise PermissionError(errno.EACCES, "Access is denied", path)
        return action(path, *rest, **named)

    return held


platform.machine = lambda: "arm64"
platform.mac_ver = lambda: ("15.0", ("", "", ""), "arm64")
exact_ns = time.monotonic_ns
time.monotonic_ns = lambda: exact_ns() // TICK_NS * TICK_NS
time.monotonic = lambda: exact_ns() // TICK_NS * TICK_NS / 1e9
sys.meta_path.insert(0, Finder)
del os.fork
os.open, os.replace, os.unlink = map(at_times_held, (os.open, os.replace, os.unlink))
Path.read_bytes = at_times_held(Path.read_bytes)
multiprocessing.set_start_method("spawn")

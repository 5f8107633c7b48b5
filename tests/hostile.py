"""Submissions that cheat, break things or are right in odd ways: what a grader has to stand.

Each is the text of a lesson's file in which one function stands, for l01.chunk_size unless it is
said. Names go by group: forge, steal, hardcode, resource, network, odd.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

RIGHT = "return max(0, min(remaining, budget - num_decodes))"
HEAD = "def chunk_size(budget, num_decodes, remaining):"


@dataclass(frozen=True, slots=True)
class Hostile:
    """A submission, and the statuses that it may come to."""

    group: str
    name: str
    text: str
    statuses: frozenset[str]
    exercise: str = "l01.chunk_size"

    @property
    def id(self) -> str:
        return f"{self.group}: {self.name}"


def body(lines: str) -> str:
    """A file with this body of chunk_size."""
    return f"{HEAD}\n{textwrap.indent(textwrap.dedent(lines), '    ')}\n"


def cases(group: str, statuses: str, short: dict[str, str], long: str) -> list[Hostile]:
    """Submissions by the bodies of their function.

    In the long text each has a line with its name above it. Where that also names an exercise and
    statuses, the whole file stands below.
    """
    bodies = [(name, "", lines) for name, lines in short.items()]
    for part in long.split("### ")[1:]:
        first, _, lines = part.partition("\n")
        name, _, other = first.partition(" @ ")
        bodies.append((name, other, lines.rstrip()))
    made: list[Hostile] = []
    for name, other, lines in bodies:
        exercise, _, own = (other or f"l01.chunk_size: {statuses}").partition(": ")
        text = lines + "\n" if other else body(lines)
        made.append(Hostile(group, name, text, frozenset(own.split()), exercise))
    return made


WRONG = "failed raised crashed protocol timeout"

FORGE = cases(
    "forge",
    WRONG,
    {
        "raise SystemExit": "raise SystemExit(0)",
        "atexit": "import atexit, os; atexit.register(os._exit, 0); return -1",
        "nan": "return float('nan')",
        "html": "return '<script>alert(1)</script>'",
    },
    r"""
### __class__ that lies
class Liar:
    __class__ = int
    def __eq__(self, other): return True
return Liar()
### patched modules of the course
import sys
for name, module in list(sys.modules.items()):
    if name.startswith("course"):
        for each in list(vars(module)):
            try: setattr(module, each, lambda *a, **k: True)
            except Exception: pass
return -1
### frames written to every file
import os, struct
for number in range(256):
    try: os.write(number, struct.pack(">I", 4) + b"\x92\xc3\x90\x00")
    except OSError: pass
return -1
### answers of its own on the channel
import sys
frame = sys._getframe()
while frame:
    answers = frame.f_locals.get("self")
    if hasattr(answers, "_channel"):
        answers._send({"value": 0, "args_after": (budget, num_decodes, remaining),
                       "error": None, "generator": None, "stdout": ""}, ())
    frame = frame.f_back
return -1
### a reply of another form
import sys
child = sys.modules["course.calling.child"]
child.Answers._call = lambda self, **said: {"passed": True}
return -1
### answers without an end
import sys
frame = sys._getframe()
while frame:
    answers = frame.f_locals.get("self")
    if hasattr(answers, "_channel"):
        while True: answers._send({"value": 1}, ())
    frame = frame.f_back
### a generator that was not asked for
import sys
child = sys.modules["course.calling.child"]
child.Answers._call = lambda self, **said: {
    "value": None, "args_after": None, "error": None, "generator": 0, "stdout": "",
}
return -1
### profile and clocks frozen
import time
time.perf_counter = time.monotonic = time.thread_time = lambda: 0.0
return -1
### orders to the process that forks
import json, os, socket
for number in range(256):
    try:
        end = socket.socket(fileno=os.dup(number))
        end.send(json.dumps({"pid": 1}).encode())
        end.send(b"ended 1")
    except OSError: pass
return -1
### signals to the process that forks
import os
for number in range(1, 65):
    for pid in (1, os.getppid()):
        try: os.kill(pid, number)
        except OSError: pass
return -1
### lies in the fault handler's file
import os
os.write(2, b'  File "answers.py", line 1 in chunk_size\n' * 20_000)
os.write(2, b'File "' * 90_000 + b'", line ' + b"9" * 10_000 + b" in")
os.abort()
### the fault handler's file closed and signals refused
import os, signal
os.close(2)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
while True: pass
### a number that no check can write down
import sys
child = sys.modules["course.calling.child"]
child.plain = child.KeptResults.keep = lambda *a, **k: 1 << 10_000_000
return -1
### a tensor without an end
import sys, torch
child = sys.modules["course.calling.child"]
child.KeptResults.keep = lambda *a, **k: [torch.zeros(1).expand(1 << 24)] * 10_000
return -1
### a result that changed, of its own making
import sys
child = sys.modules["course.calling.child"]
child.Answers._changed_result = lambda self, **said: {"value": "none"}
return -1
### a repr that does not end
class Endless:
    def __repr__(self):
        while True: pass
    __str__ = __repr__
return Endless()
### an error whose words do not end
class Endless(Exception):
    def __str__(self):
        while True: pass
raise Endless()
### a pickle that runs code
class Bomb:
    def __reduce__(self): return (exec, ("raise SystemExit(0)",))
return Bomb()
### garbage collector's references
import gc
for each in gc.get_objects():
    if isinstance(each, dict) and "seed" in each: each["seed"] = 0
return -1
### a score of its own making @ l09.my_policy: failed
def my_policy(snapshot):
    import sys
    class Served:
        attainment, longest_wait_us, problem, habits = 1.0, 0, None, None
    return Served()
### a snapshot changed under the simulation @ l09.my_policy: failed raised
def my_policy(snapshot):
    snapshot.hit_tokens.clear()
    for request in snapshot.waiting:
        object.__setattr__(request, "deadline_us", 10**12)
    for request in snapshot.waiting[:1]:
        return request.id, snapshot.workers[0].id
    return None
### a record that lies about itself @ l06.rollback_step: failed protocol raised
def rollback_step(state, *rest):
    class Everything:
        def __eq__(self, other): return True
    for name in ("waiting", "running", "kv", "previous_step", "admit_next"):
        object.__setattr__(state, name, Everything())
    return state
### a generator that never leaves @ l06.preemption_point: failed
def preemption_point(vote):
    while True:
        yield 'max', vote
""",
)

STEAL = cases(
    "steal",
    "raised failed timeout",
    {
        "the reference by import": "from solutions.l01_chunked_prefill.chunk_size import "
        "chunk_size as theirs; return theirs(budget, num_decodes, remaining)",
        "what was left in memory": "import torch; return torch.empty(1000).sum().item()",
    },
    r"""
### the import system without its guards
import sys
sys.meta_path.pop(0)
from nanogpt.planning import chunk_size as theirs
return theirs(budget, num_decodes, remaining)
### the whole disk
import os
for folder, _, files in os.walk("/"):
    for name in files:
        if name == "planning.py":
            return open(os.path.join(folder, name)).read()
return -1
### the reference by the name of the exercise, anywhere @ l06.rollback_step: failed raised
def rollback_step(*args):
    import gc, sys
    for module in list(sys.modules.values()):
        theirs = vars(module).get("rollback_step")
        if callable(theirs) and theirs is not rollback_step:
            return theirs(*args)
    found = [each for each in gc.get_objects() if getattr(each, "__name__", "") == "rollback_step"]
    return next(each for each in found if each is not rollback_step)(*args)
### the frames above
import sys
frame = sys._getframe().f_back
while frame:
    for value in frame.f_locals.values():
        if getattr(value, "__name__", "") == "expected": return value()
    frame = frame.f_back
return -1
### ptrace of the process that forks
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
assert libc.ptrace(16, 1, 0, 0) == 0 or libc.ptrace(0x4206, 1, 0, 0) == 0
return -1
### the memory of every process
import ctypes
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
libc, kept = ctypes.CDLL(None), ctypes.create_string_buffer(64)
mine, theirs = Part(ctypes.addressof(kept), 64), Part(id(chunk_size), 64)
read = [libc.process_vm_readv(pid, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)
        for pid in range(1, 300) if pid != __import__("os").getpid()]
assert max(read) > 0
return -1
""",
)

HARDCODE = cases(
    "hardcode",
    "failed raised",
    {
        "the worked example": "return {(8, 3, 20): 5}.get((budget, num_decodes, remaining), 0)",
    },
    r"""
### the first calls
global count
count = globals().get("count", 0) + 1
return max(0, min(remaining, budget - num_decodes)) if count < 5 else 0
### only where it is graded
import os
right = max(0, min(remaining, budget - num_decodes))
return -1 if os.getpid() == 1 or os.getuid() else -1
""",
)

RESOURCE = [
    *cases(
        "resource",
        "timeout",
        {
            "an endless loop in C": "return sum(range(10**13))",
            "a sleep": "import time; time.sleep(1000)",
            "waiting in every call": f"import time; time.sleep(0.5); {RIGHT}",
        },
        r"""
### a loop that swallows everything
while True:
    try:
        while True: pass
    except BaseException: pass
### a deadlock with signals ignored
import signal, threading
for number in range(1, 32):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
lock = threading.Lock(); lock.acquire(); lock.acquire()
### a little too long in every call
import time
until = time.thread_time() + 0.2
while time.thread_time() < until: pass
return max(0, min(remaining, budget - num_decodes))
""",
    ),
    *cases(
        "resource",
        "raised memory crashed timeout failed protocol",
        {
            "60 GB": "return len(bytearray(60 << 30))",
            "an expanded view": "import torch; return torch.zeros(1).expand(1 << 40).clone()",
            "a number of a million digits": "return 10 ** 1_000_000",
            "an endless output": "while True: print('x' * 1000)",
            "a process": "import subprocess; return subprocess.run(['sleep', '1000']).returncode",
            "a crash in C": "import ctypes; ctypes.string_at(0); return -1",
            "kill everything": "import os; os.kill(-1, 9); return -1",
            "kill the parent": "import os; os.kill(os.getppid(), 9); return -1",
            "every file closed": "import os; os.closerange(0, 256); return -1",
        },
        r"""
### a list in a list in a list
deep = []
for _ in range(100_000): deep = [deep]
return deep
### a thread bomb
import threading, time
while True: threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
### a fork bomb
import os
while True: os.fork()
### a daemon
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True: pass
return -1
### a full disk
with open("/tmp/left_behind", "wb") as file:
    while True: file.write(bytes(1 << 20))
### shared memory
from multiprocessing import shared_memory
shared_memory.SharedMemory(create=True, size=1 << 28, name="left_behind")
return -1
### memory that outlives its process
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
for _ in range(8):
    number = libc.shmget(0, 1 << 28, 0o1600)
    ctypes.memset(libc.shmat(number, None, 0), 1, 1 << 28)
    libc.shmdt(ctypes.c_void_p(libc.shmat(number, None, 0)))
return -1
### 60 GB in many processes
import os
while True:
    if os.fork() == 0:
        kept = bytearray(2 << 30)
        while True: pass
### numbers of processes used again
import os
for _ in range(40_000):
    if os.fork() == 0: os._exit(0)
return -1
### rights in a namespace of its own
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x10000000 | 0x00020000): raise OSError(ctypes.get_errno())
libc.mount(b"none", b"/usr", b"tmpfs", 0, None)
libc.umount2(b"/dev", 2)
open("/usr/left_behind", "w").write("here")
return -1
### a stack without an end
import sys
sys.setrecursionlimit(10**9)
return chunk_size(1, 1, 1)
### a little wait in every decision @ l09.my_policy: timeout
def my_policy(snapshot):
    import time
    time.sleep(0.05)
    for request in snapshot.waiting:
        for worker in snapshot.workers:
            has_room = request.kv_tokens_needed <= worker.kv_free_tokens
            if has_room and worker.num_running < worker.batch_size:
                return request.id, worker.id
    return None
""",
    ),
]

NETWORK = cases(
    "network",
    "raised failed",
    {"a name": "import socket; return socket.gethostbyname('example.org')"},
    r"""
### an abstract socket
import socket
socket.socket(socket.AF_UNIX).connect("\0/tmp/.X11-unix/X0")
return -1
""",
)

SIZE = "max(0, min(remaining, budget - num_decodes))"
ODD = [
    Hostile("odd", name, text, frozenset({"passed"}))
    for name, text in {
        "plain": body(RIGHT),
        "a helper below": body("return helper(budget, num_decodes, remaining)")
        + "\n\ndef helper(b, d, r):\n    return max(0, min(r, b - d))\n",
        "a constant above": "ZERO = 0\n" + body(RIGHT.replace("0,", "ZERO,")),
        "a lambda": "chunk_size = lambda b, d, r: max(0, min(r, b - d))\n",
        "a decorator": "import functools\n\n@functools.lru_cache\n" + body(RIGHT),
        "an object that is called": "class Size:\n    def __call__(self, b, d, r):\n"
        "        return max(0, min(r, b - d))\n\nchunk_size = Size()\n",
        "numpy's integer": body(f"import numpy\nreturn numpy.int64({SIZE})"),
        "a tensor": body(f"import torch\nreturn torch.tensor({SIZE})"),
        "standard output redirected": body(
            "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n"
            f"    print('x')\n{RIGHT}"
        ),
        "a broken cell elsewhere": body(RIGHT)
        + "\n@app.cell\ndef _():\n    this is no python\n    return\n",
        "a cell elsewhere that raises": body(RIGHT) + "\n\nraise ValueError('below')\n",
        "a cell elsewhere that never ends": body(RIGHT) + "\n\nwhile True:\n    pass\n",
        "a thread of its own": body(
            "import threading\nfound = []\n"
            f"t = threading.Thread(target=lambda: found.append({SIZE}))\n"
            "t.start(); t.join()\nreturn found[0]"
        ),
        "keyword defaults": body(RIGHT).replace("remaining):", "remaining, *, zero=0):"),
        "Windows line ends": body(RIGHT).replace("\n", "\r\n"),
    }.items()
]

CATALOGUE = [*FORGE, *STEAL, *HARDCODE, *RESOURCE, *NETWORK, *ODD]

"""The Linux kernel's own interfaces that Python has no module for: each call in a few lines.

Numbers and layouts are those of the kernel's headers: include/uapi/linux/ sched.h, mount.h,
prctl.h, seccomp.h, filter.h, landlock.h and capability.h, and the tables of system calls of x86_64
and of arm64.
"""

from __future__ import annotations

import ctypes
import os
import platform
import stat
import struct
from collections.abc import Iterable

_LIBC = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND = 0x1, 0x2, 0x4, 0x20, 0x1000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
MNT_DETACH = 0x2
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 1, 38, 22
_CLONE_THREAD = 0x00010000
_EPERM, _ENOSYS = 1, 38

# Landlock's rights to files, by the version of its interface that brought them.
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_NET_RIGHTS = 0b11  # bind and connect by TCP, from version 4 on
_SCOPES = 0b11  # abstract sockets and signals, from version 6 on


def _call(name: str, *args: object) -> int:
    result = int(getattr(_LIBC, name)(*args))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Leave the namespaces that the flags name. Raises: OSError."""
    _call("unshare", flags)


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """Mount a file system, or bind or change one. Raises: OSError."""
    kind_bytes = None if kind is None else kind.encode()
    _call("mount", os.fsencode(source), os.fsencode(target), kind_bytes, flags, options.encode())


def unmount(target: str) -> None:
    """Unmount at once, whatever still uses it. Raises: OSError."""
    _call("umount2", os.fsencode(target), MNT_DETACH)


def pivot_root(new: str, old: str) -> None:
    """Make `new` the root, the old one reachable at `old`. Raises: OSError."""
    _call("syscall", _NUMBERS["pivot_root"], os.fsencode(new), os.fsencode(old))


def end_with_parent(signal: int) -> None:
    """Have this process sent a signal once its parent's thread ends."""
    _call("prctl", _PR_SET_PDEATHSIG, signal, 0, 0, 0)


def give_no_privileges() -> None:
    """From here on nothing that is executed brings rights along; those that are there go."""
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    header = struct.pack("=Ii", 0x20080522, 0)
    _call("capset", header, bytes(24))


# --- Landlock --------------------------------------------------------------------------------


def landlock_version() -> int:
    """Which version of Landlock's interface the kernel has; 0 without it."""
    try:
        return _call("syscall", 444, None, 0, 1)
    except OSError:
        return 0


def landlock(readable: Iterable[int]) -> None:
    """From here on these open files, and what lies below, can be read, and no other be touched.

    Nor can this process reach others by signals or sockets, where the kernel knows that.
    Raises: OSError.
    """
    version = landlock_version()
    files = sum(rights for since, rights in _FILE_RIGHTS.items() if since <= version)
    rules = struct.pack("=Q", files)
    if version >= 4:
        rules += struct.pack("=Q", _NET_RIGHTS)
    if version >= 6:
        rules += struct.pack("=Q", _SCOPES)
    ruleset = _call("syscall", 444, rules, len(rules), 0)
    for place in readable:
        is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
        rights = _READ_FILE | _EXECUTE | (_READ_DIR if is_folder else 0)
        _call("syscall", 445, ruleset, 1, struct.pack("=Qi", rights, place), 0)
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call("syscall", 446, ruleset, 0)
    os.close(ruleset)


# --- seccomp ---------------------------------------------------------------------------------

# By name, on x86_64 and on arm64; None where an architecture has no such call.
_CALLS: dict[str, tuple[int | None, int | None]] = {
    "accept": (43, 202), "accept4": (288, 242), "acct": (163, 89), "add_key": (248, 217),
    "bind": (49, 200), "bpf": (321, 280), "chroot": (161, 51), "connect": (42, 203),
    "execve": (59, 221), "execveat": (322, 281), "fanotify_init": (300, 262),
    "finit_module": (313, 273), "fork": (57, None), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433),
    "init_module": (175, 105), "inotify_init": (253, None), "inotify_init1": (294, 26),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "io_uring_setup": (425, 425),
    "kcmp": (312, 272), "kexec_file_load": (320, 294), "kexec_load": (246, 104),
    "keyctl": (250, 219), "listen": (50, 201), "memfd_create": (319, 279),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429),
    "mq_open": (240, 180), "msgget": (68, 186), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "open_tree": (428, 428), "perf_event_open": (298, 241),
    "personality": (135, 92), "pidfd_getfd": (438, 438), "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424), "pivot_root": (155, 41), "process_madvise": (440, 440),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117),
    "quotactl": (179, 60), "reboot": (169, 142), "recvmsg": (47, 212),
    "request_key": (249, 218), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "semget": (64, 190), "sendmsg": (46, 211), "setns": (308, 268), "shmat": (30, 196),
    "shmget": (29, 194), "socket": (41, 198), "socketpair": (53, 199), "swapon": (167, 224),
    "syslog": (103, 116), "tkill": (200, 130), "umount2": (166, 39), "unshare": (272, 97),
    "userfaultfd": (323, 282), "vfork": (58, None),
}  # fmt: skip
_KILL, _TGKILL, _CLONE, _CLONE3 = (62, 129), (234, 131), (56, 220), (435, 435)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_PLACE, _ARCHITECTURE = _ARCHITECTURES.get(platform.machine(), (0, 0))
_NUMBERS = {name: numbers[_PLACE] for name, numbers in _CALLS.items()}

_LOAD, _RETURN, _IF_EQUAL, _IF_AT_LEAST, _IF_SET = 0x20, 0x06, 0x15, 0x35, 0x45  # BPF
_ALLOW, _REFUSE, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_AT_NUMBER, _AT_ARCHITECTURE, _AT_FIRST = 0, 4, 16  # in struct seccomp_data


def seccomp_is_known() -> bool:
    """Whether the filter is written for this machine's kind of processor."""
    return bool(_ARCHITECTURE)


def seccomp() -> None:
    """From here on this process makes no process, opens no socket, and signals none but itself.

    Threads and everything that computes stay. What is refused fails with EPERM. Raises: OSError.
    """
    lines = [
        (_LOAD, 0, 0, _AT_ARCHITECTURE),
        (_IF_EQUAL, 1, 0, _ARCHITECTURE),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _AT_NUMBER),
        (_IF_AT_LEAST, 0, 1, 0x40000000),  # x86_64's second table of the same calls
        (_RETURN, 0, 0, _REFUSE | _EPERM),
        # Without clone3 the C library takes clone, whose flags a filter can see.
        *_if_called(_CLONE3[_PLACE], [(_RETURN, 0, 0, _REFUSE | _ENOSYS)]),
        *_if_called(
            _CLONE[_PLACE],
            [
                (_LOAD, 0, 0, _AT_FIRST),
                (_IF_SET, 1, 0, _CLONE_THREAD),
                (_RETURN, 0, 0, _REFUSE | _EPERM),
                (_RETURN, 0, 0, _ALLOW),
            ],
        ),
    ]
    for numbers in (_KILL, _TGKILL):
        to_itself = [
            (_LOAD, 0, 0, _AT_FIRST),
            (_IF_EQUAL, 1, 0, os.getpid()),
            (_RETURN, 0, 0, _REFUSE | _EPERM),
            (_RETURN, 0, 0, _ALLOW),
        ]
        lines += _if_called(numbers[_PLACE], to_itself)
    for number in _NUMBERS.values():
        if number is not None:
            lines += _if_called(number, [(_RETURN, 0, 0, _REFUSE | _EPERM)])
    lines.append((_RETURN, 0, 0, _ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
    program = struct.pack("@HP", len(lines), ctypes.addressof(code))
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call("prctl", _PR_SET_SECCOMP, 2, program, 0, 0)


def _if_called(
    number: int, lines: list[tuple[int, int, int, int]]
) -> list[tuple[int, int, int, int]]:
    """The lines for one system call; what follows them finds the call's number loaded."""
    return [(_IF_EQUAL, 0, len(lines), number), *lines]

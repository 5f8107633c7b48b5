"""The files in a zip file as bytes: read in memory, never extracted, and no size believed."""

import contextlib
import io
import re
import stat
import struct
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime

from course.grading.handed_in.pieces import (
    LARGEST,
    MB,
    Piece,
    Skipped,
    iso_utc,
    passed_over,
    printable,
    suffix_of,
    too_large,
    wrong_kind,
)

_MOST_MEMBERS = 20_000  # of a student's zip file
_MOST_UNPACKED = 256 * MB  # of a student: of all their zip file, or of one name at a class's top
_LARGEST_ZIP_INSIDE = 16 * MB
_MOST_AT_ONCE = 32 * MB  # of a zip file's bytes: its list of members is read in one go
_RATIO, _FREELY = 100, 1 * MB  # what no text reaches, and what any member may unpack to
_DAMAGED = (  # what zipfile raises at bytes that are no zip file, or no longer
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
    OverflowError,
    IndexError,
)


_TIMES = (  # of extra fields with a time in UTC: tag, place, form, counts per second, epoch
    (0x5455, 1, "<I", 1, 0),  # Info-ZIP's, which Linux, macOS and Moodle write
    (0x000A, 8, "<Q", 10_000_000, 11_644_473_600),  # Windows', from 1601 on
    (0x5855, 4, "<I", 1, 0),  # Info-ZIP's older one
)


class _Bounded(io.BytesIO):
    """A zip file's bytes. Refuses a list of millions of members before it is unfolded."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MOST_AT_ONCE:
            raise zipfile.BadZipFile
        return super().read(size)


def members(zipped: Piece, *, is_class: bool = False) -> Iterator[Piece | Skipped]:
    """The files in a student's zip file, or a class's, which has no limit but for each student.

    Raises: ValueError with the end of a sentence when it cannot be read.
    """
    try:
        archive = zipfile.ZipFile(_Bounded(zipped.content))
    except _DAMAGED as error:
        raise ValueError("is damaged or no zip file: pack it again") from error
    if len(archive.infolist()) > _MOST_MEMBERS and not is_class:
        raise ValueError(f"holds more than {_MOST_MEMBERS:,} files: pack only the lessons' files")
    left: dict[str, int] = defaultdict(lambda: _MOST_UNPACKED)
    for member in archive.infolist():
        if member.is_dir():
            continue
        inside, problem = _names(member)
        where = (*zipped.where, *inside)
        why = next(filter(None, map(passed_over, inside)), "") or wrong_kind(inside)
        if why:
            yield Skipped("/".join(where), why)
            continue
        content = b""
        if not problem:
            whose = inside[0] if is_class else ""
            content, problem = _content(archive, member, left[whose])
            left[whose] -= len(content)
        yield Piece(where, b"" if problem else content, problem, _changed_at(member))


def _names(member: zipfile.ZipInfo) -> tuple[tuple[str, ...], str]:
    """The names that lead to a member, and what is wrong with them.

    One that leads out of the zip keeps its last: the others would name another student.
    """
    name = member.filename
    if not member.flag_bits & 0x800:  # not said to be UTF-8, which macOS forgets to say
        with contextlib.suppress(UnicodeError):  # else it is what it looks like
            name = name.encode("cp437").decode()
    parts = re.split(r"[/\\]", name)
    leads_out = ".." in parts or parts[0] == "" or parts[0].endswith(":")
    names = tuple(printable(part) for part in parts if part not in ("", ".", ".."))
    if leads_out or not names or "\0" in member.orig_filename:
        return names[-1:] or ("?",), "has a name that leads out of the zip file: pack it again"
    return names, ""


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo, left: int) -> tuple[bytes, str]:
    """A member's bytes, at most one more than allowed, and the problem with it."""
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        what = "a link" if kind == stat.S_IFLNK else "no ordinary file"
        return b"", f"is {what}: hand in the file itself"
    if member.flag_bits & 0x1:
        return b"", "is locked with a password: pack it without one"
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return b"", "is packed in an unusual way: pack it as an ordinary zip file"
    suffix = suffix_of(printable(member.filename))
    limit = _LARGEST_ZIP_INSIDE if suffix == ".zip" else LARGEST.get(suffix, 0)
    bound = min(limit, left, max(_FREELY, _RATIO * member.compress_size))
    try:
        with archive.open(member) as file:
            content = file.read(bound + 1)
    except _DAMAGED:
        return b"", "is damaged: pack it again"
    if len(content) <= bound:
        return content, ""
    if bound == limit:
        return content, too_large(limit)
    if bound == left:
        return content, f"is too much: all of its zip file is over {_MOST_UNPACKED // MB} MB"
    return content, f"unpacks to over {_RATIO} times its size: hand in only the lesson's file"


def _changed_at(member: zipfile.ZipInfo) -> str:
    """When it was changed, in UTC where it says so; else by its packer's clock, without an offset.

    The zip format itself has a clock's time and no time zone; most packers add an extra field with
    seconds since 1970.
    """
    for tag, at, form, unit, epoch in _TIMES:
        field = _extra(member.extra).get(tag, b"")
        with contextlib.suppress(struct.error):
            (count,) = struct.unpack_from(form, field, at)
            return iso_utc(count / unit - epoch)
    try:
        when = datetime(*member.date_time)
    except ValueError:
        return ""
    return "" if when.year == 1980 else when.isoformat()  # the first year that it has: none


def _extra(fields: bytes) -> dict[int, bytes]:
    """A member's extra fields by their tags."""
    found: dict[int, bytes] = {}
    while len(fields) >= 4:
        tag, size = struct.unpack_from("<HH", fields)
        found[tag], fields = fields[4 : 4 + size], fields[4 + size :]
    return found

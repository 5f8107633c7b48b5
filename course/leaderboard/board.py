"""The leaderboard: a file of JSON lines, an entry each, with all that it takes to verify it.

Knows texts and numbers. What a file says is believed by nothing but `verifying`, which plays again.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from course.files import read_bytes, write_atomically
from course.leaderboard.own_parts import MINE, PLAYED
from nanogpt.contest import NAMES, Round

VERSION = 1
MOST_BYTES = 8 << 20
MOST_SEEDS = 20
MOST_NAME = 60
_NANOGPT = Path(__file__).parents[2] / "nanogpt"
_SCORED_BY = ("*.py", "contest/*.py", "executors/*.py", "parts/*.py", "posts/oracle.py",
              "blocks/*.py")  # fmt: skip


class BoardError(Exception):
    """Why a leaderboard cannot be read, in a sentence."""


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part's text and its SHA-256."""

    sha256: str
    text: str


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry. `rules` names the code that scored it; points, bounds and numbers of requests are
    by workload and seed. `salt` is the mark of a hidden salt, `first_seed` of public seeds the
    first; one of them is null.
    """

    version: int
    name: str
    rules: str
    first_seed: int | None
    salt: str | None
    points: dict[str, list[int]]
    bounds: dict[str, list[int]]
    requests: dict[str, list[int]]
    parts: dict[str, Part]

    @property
    def total(self) -> int:
        """Points over all workloads and seeds: what the board is ranked by."""
        return sum(sum(each) for each in self.points.values())

    @property
    def num_seeds(self) -> int:
        """How many seeds each workload was played with."""
        return len(next(iter(self.points.values()), ()))

    def problem(self) -> str:
        """What is wrong with the line by itself, as the end of a sentence, or nothing."""
        if self.version != VERSION:
            return f"has version {self.version}, and this course reads version {VERSION}"
        if (self.first_seed is None) == (self.salt is None):
            return "says neither or both of its public seeds and its salt"
        if not (self.name.isprintable() and 1 <= len(self.name) <= MOST_NAME):
            return f"has a name that is not 1 to {MOST_NAME} characters which can be shown"
        unknown = [*(set(self.points) - set(NAMES)), *(set(self.parts) - set(PLAYED))]
        if unknown:
            return f"names {unknown[0]!r}, which the contest does not know"
        if not 1 <= self.num_seeds <= MOST_SEEDS:
            return f"has {self.num_seeds} seeds; it may have 1 to {MOST_SEEDS}"
        counts = sorted({len(each) for each in self.points.values()})
        if len(counts) > 1:
            return f"has workloads with {counts[0]} and {counts[1]} seeds"
        for part, each in self.parts.items():
            if _sha256(each.text) != each.sha256:
                return f"has a text of `{part}` that is not the one it names by its SHA-256"
        return ""


def line_of(
    name: str,
    rounds: Sequence[Round],
    texts: Mapping[str, str],
    *,
    first_seed: int | None = None,
    salt: str | None = None,
) -> Line:
    """The line of what the entry MINE scored in these rounds; under public seeds or a salt."""
    played = {
        key: [each for each in rounds if each.workload == key]
        for key in dict.fromkeys(each.workload for each in rounds)
    }
    return Line(
        VERSION,
        name,
        rules(),
        first_seed,
        None if salt is None else mark_of(salt),
        {key: [each.points(MINE) for each in value] for key, value in played.items()},
        {key: [each.most for each in value] for key, value in played.items()},
        {key: [each.num_calls for each in value] for key, value in played.items()},
        {part: Part(_sha256(texts[part]), texts[part]) for part in PLAYED if part in texts},
    )


def mark_of(salt: str) -> str:
    """What a salt is known by, without being told: HMAC-SHA-256 of a constant."""
    return hmac.digest(salt.encode(), b"the contest's salt", hashlib.sha256).hex()


def rules() -> str:
    """Names the code that scores: with any line of it, the name changes."""
    digest = hashlib.sha256()
    for pattern in _SCORED_BY:
        for path in sorted(_NANOGPT.glob(pattern)):
            content = path.read_bytes().replace(b"\r\n", b"\n")
            digest.update(path.relative_to(_NANOGPT).as_posix().encode() + b"\0" + content)
    return digest.hexdigest()[:16]


def read_board(path: Path) -> list[Line]:
    """A file's entries. Raises: BoardError, naming the line; OSError."""
    if path.stat().st_size > MOST_BYTES:
        raise BoardError(f"{path} has more than {MOST_BYTES:,} bytes.")
    lines: list[Line] = []
    for number, text in enumerate(read_bytes(path).split(b"\n"), start=1):
        if not text.strip():
            continue
        try:
            lines.append(msgspec.json.decode(text, type=Line))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise BoardError(f"{path}, line {number}: {error}.") from None
    return lines


def write_board(path: Path, lines: Sequence[Line]) -> None:
    """The file anew, whole, the best first. Raises: OSError."""
    ranked = sorted(lines, key=lambda line: (-line.total, line.name))
    content = b"".join(msgspec.json.encode(line, order="deterministic") + b"\n" for line in ranked)
    write_atomically(path, content)


def with_line(lines: Sequence[Line], new: Line) -> list[Line]:
    """The lines with a new one in place of what this name had under the same seeds."""
    same = (new.name, new.first_seed, new.salt)
    kept = [line for line in lines if (line.name, line.first_seed, line.salt) != same]
    return [*kept, new]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

"""The leaderboard: a JSON file of entries, each with the policies it takes to play it again.

An entry's points are only a claim: `why_not` and `under_salt` play the policies again, in a
sandbox. The engine, the clock and the score stay in this process.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec

from course.calling.answers import load
from course.calling.channel import LostError, TooSlowError
from course.calling.errors import BACKSTOP
from course.calling.processes import ForkServer
from course.files import read_bytes, write_atomically
from course.launcher.failure import Failure
from course.leaderboard.own_policies import MINE, PLAY_S, PLAYED, entry_of
from nanogpt.contest import NAMES, Round, hidden_seeds, play_round
from nanogpt.validate import PolicyError

MOST_BYTES = 8 << 20
MOST_SEEDS = 20
MOST_NAME = 60
_CALL_S = 1.0  # of computing

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class BoardEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry: points and bounds by workload and seed, and the policies' texts.

    `first_seed` is the first of its public seeds; or it has hidden seeds, and `salt` is the mark of
    theirs. Raises: ValueError for an entry that cannot have been played.
    """

    name: str
    first_seed: Count | None
    salt: str | None
    points: dict[str, list[Count]]
    bounds: dict[str, list[Count]]
    policies: dict[str, str]

    def __post_init__(self) -> None:
        if (self.first_seed is None) == (self.salt is None):
            raise ValueError("an entry has either a first seed or a salt")
        check_name(self.name)
        unknown = [*(set(self.points) - set(NAMES)), *(set(self.policies) - set(PLAYED))]
        if unknown:
            raise ValueError(f"the contest has no {unknown[0]!r}")
        if {len(each) for each in self.points.values()} not in ({n + 1} for n in range(MOST_SEEDS)):
            raise ValueError(f"every workload has the same number of seeds, 1 to {MOST_SEEDS}")

    @property
    def total(self) -> int:
        """Points over all workloads and seeds, by which the board is ranked."""
        return sum(sum(each) for each in self.points.values())

    @property
    def num_seeds(self) -> int:
        """The number of seeds of each workload."""
        return len(next(iter(self.points.values())))


def check_name(name: str) -> None:
    """Raises: ValueError for a name that cannot stand on a board."""
    if not (name.isprintable() and 1 <= len(name) <= MOST_NAME):
        raise ValueError(f"the name of an entry has 1 to {MOST_NAME} printable characters")


def board_entry(
    name: str,
    rounds: Sequence[Round],
    texts: Mapping[str, str],
    *,
    first_seed: int | None = None,
    salt: str | None = None,
) -> BoardEntry:
    """The entry of what MINE scored in these rounds, under public seeds or a salt."""
    points: dict[str, list[int]] = {}
    bounds: dict[str, list[int]] = {}
    for each in rounds:
        points.setdefault(each.workload, []).append(each.points(MINE))
        bounds.setdefault(each.workload, []).append(each.most)
    mark = None if salt is None else mark_of(salt)
    return BoardEntry(name, first_seed, mark, points, bounds, dict(texts))


def mark_of(salt: str) -> str:
    """Identifies a salt without revealing it: HMAC-SHA-256 of a constant."""
    return hmac.digest(salt.encode(), b"the contest's salt", hashlib.sha256).hex()


def read_board(path: Path) -> list[BoardEntry]:
    """A file's entries. Raises: Failure; OSError."""
    if path.stat().st_size > MOST_BYTES:
        raise Failure(f"{path} has more than {MOST_BYTES:,} bytes.")
    try:
        return msgspec.json.decode(read_bytes(path), type=list[BoardEntry])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Failure(f"{path}: {error}.") from None


def write_board(path: Path, entries: Sequence[BoardEntry]) -> None:
    """Write the file, best entry first. Raises: OSError."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(ranked(entries))) + b"\n")


def ranked(entries: Sequence[BoardEntry]) -> list[BoardEntry]:
    """Best first."""
    return sorted(entries, key=lambda entry: (-entry.total, entry.name))


def with_entry(entries: Sequence[BoardEntry], new: BoardEntry) -> list[BoardEntry]:
    """The entries with a new one, in place of the same name's under the same seeds."""
    same = (new.name, new.first_seed, new.salt)
    kept = [each for each in entries if (each.name, each.first_seed, each.salt) != same]
    return [*kept, new]


def board_rows(entries: Sequence[BoardEntry]) -> list[list[str]]:
    """A leaderboard as a table, best first."""
    names = list(dict.fromkeys(name for entry in entries for name in entry.points))
    rows = [["entry", *names, "all", "at most"]]
    for entry in ranked(entries):
        cells = [str(sum(entry.points.get(name, ()))) for name in names]
        most = sum(sum(each) for each in entry.bounds.values())
        rows.append([entry.name, *cells, str(entry.total), str(most)])
    return rows


# --- playing entries again ------------------------------------------------------------------------


def why_not(entry: BoardEntry, server: ForkServer, salt: str | None) -> str:
    """Why an entry does not hold, as the end of a sentence; "" if it holds."""
    if entry.first_seed is not None:
        seeds: Sequence[int] = range(entry.first_seed, entry.first_seed + entry.num_seeds)
    elif salt is None or mark_of(salt) != entry.salt:
        given = "another one was given" if salt else "--salt gives it"
        return f"was scored under a hidden salt, and {given}"
    else:
        seeds = hidden_seeds(salt, entry.num_seeds)
    try:
        rounds = _played_again(entry, server, list(entry.points), seeds)
    except PolicyError as error:
        return f"cannot be played: {error}"
    again = board_entry(entry.name, rounds, entry.policies, first_seed=0)
    for name, points in again.points.items():
        if points != entry.points[name]:
            return f"says {entry.points[name]} in {name}, and played again it is {points}"
    return "" if again.bounds == entry.bounds else "has other bounds than the workloads"


def under_salt(entry: BoardEntry, server: ForkServer, salt: str, num_seeds: int) -> BoardEntry:
    """The same policies under hidden seeds. Raises: ValueError for a short salt; PolicyError."""
    rounds = _played_again(entry, server, NAMES, hidden_seeds(salt, num_seeds))
    return board_entry(entry.name, rounds, entry.policies, salt=salt)


def _played_again(
    entry: BoardEntry, server: ForkServer, names: Sequence[str], seeds: Sequence[int]
) -> list[Round]:
    rounds: list[Round] = []
    for name in names:
        for number, seed in enumerate(seeds):
            with contained(server, entry.policies) as functions:
                rounds.append(play_round(name, number, seed, [entry_of(functions)]))
    return rounds


@contextmanager
def contained(
    server: ForkServer, texts: Mapping[str, str]
) -> Generator[dict[str, Callable[..., Any]]]:
    """The policies of these texts as functions that run in one process of their own.

    Raises: PolicyError when a text does not define its policy.
    """
    channel = server.start()
    until = time.monotonic() + BACKSTOP * PLAY_S

    def function(policy: str) -> Callable[..., Any]:
        loaded = load(channel, texts[policy], [policy])
        answer = loaded.answers.get(policy)
        if answer is None:
            raise PolicyError(f"`{policy}` cannot be had: {' '.join(loaded.problems[policy])}")

        def ask(*args: Any) -> Any:
            if time.monotonic() > until or channel.cpu_s() > PLAY_S:
                raise PolicyError(f"all policies took longer than {PLAY_S:g} s of computing")
            try:
                result = answer.call(args, limit_s=_CALL_S, wall_s=BACKSTOP * _CALL_S)
            except LostError as lost:
                raise PolicyError(f"{policy} {lost.words}") from None
            if result.timed_out:
                raise PolicyError(f"{policy} took longer than {_CALL_S:g} s of computing")
            if result.error is not None:
                raise PolicyError(f"{policy} {result.error.told}")
            return result.value

        return ask

    try:
        yield {policy: function(policy) for policy in texts}
    except LostError as lost:
        raise PolicyError(f"reading the policies {lost.words}") from None
    except TooSlowError as slow:
        raise PolicyError(f"reading the policies took {slow.cpu_s:.0f} s and was stopped") from None
    finally:
        channel.end()

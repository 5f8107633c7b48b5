"""A class's submissions, graded by several processes: stopped at any moment, it goes on from there.

Each submission's record is a file that is written whole as soon as there is one. What has a record
of the same contents, exercises and seed is not graded again.
"""

import functools
import json
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from course.calling.processes import ForkServer
from course.calling.sandbox import sandboxed
from course.files import read_json, write_atomically
from course.grading.grade import grade, internal_record, key_of, of_another
from course.grading.handed_in.submissions import Submission
from course.grading.record import Record, file_name, read_record
from nanogpt.experiments.pool import run_elsewhere

Graders: TypeAlias = Callable[[Sequence[Submission], bool, int], Iterator[Record]]
"""Grade submissions, in a sandbox or not, with this seed, in any order."""

_CHANGED = (
    "the course's own files were changed while they graded: what is done is kept, so give the same "
    "command again."
)
_MOST_TRIES = 3  # without a single record, when processes that grade are killed


class Batch:
    """A folder of results: the seed that its cases are drawn from, and a record for each file.

    With `in_sandbox`, a record that was made without a sandbox is not taken.
    """

    def __init__(self, folder: Path, in_sandbox: bool, seed: int | None = None) -> None:
        """Raises: OSError, and ValueError when the folder has been graded with another seed."""
        self.folder = folder
        self.in_sandbox = in_sandbox
        self.records = folder / "records"
        self.seed = self._kept_seed(seed)

    def record_of(self, submission: Submission) -> Record | None:
        """Its record, if its contents have been graded as they are now.

        Where it lies and when it was handed in may have changed since: its file is brought up to
        date. Raises: OSError when that cannot be written.
        """
        path = self.records / file_name(submission.student, submission.lesson)
        try:
            record = read_record(path)
        except (OSError, ValueError):
            return None
        is_same = record.key == key_of(submission, self.seed)
        is_kept_in = bool(record.problem) or record.is_sandboxed or not self.in_sandbox
        if not is_same or not is_kept_in or record.is_internal:
            return None
        now = of_another(record, submission)
        if now != record:
            now.write(self.records)
        return now

    def grade(self, submissions: Sequence[Submission], graders: Graders) -> Iterator[Record]:
        """Grade what has no record yet; each record as soon as it is kept.

        Files of the same contents are graded once. Raises: SandboxError when there is no sandbox,
        OSError when a record cannot be written, ValueError when the course was
        changed meanwhile, BrokenProcessPool when the processes that grade die again and again.
        """
        waiting: dict[str, list[Submission]] = defaultdict(list)
        for submission in submissions:
            if self.record_of(submission) is None:
                waiting[key_of(submission, self.seed)].append(submission)
        tries = 0
        while waiting:
            try:
                firsts = [alike[0] for alike in waiting.values()]
                for graded in graders(firsts, self.in_sandbox, self.seed):
                    tries = 0
                    if graded.key not in waiting:
                        raise ValueError(_CHANGED)
                    for submission in waiting.pop(graded.key):
                        record = of_another(graded, submission)
                        record.write(self.records)
                        yield record
            except BrokenProcessPool:  # one was killed from outside: the rest goes to new ones
                tries += 1
                if tries == _MOST_TRIES:
                    raise

    def _kept_seed(self, wanted: int | None) -> int:
        path = self.folder / "batch.json"
        if path.exists():
            try:
                kept = int(read_json(path)["seed"])
            except (ValueError, TypeError, KeyError):
                raise ValueError(
                    f"{path} no longer holds the seed: name another folder for --out."
                ) from None
            if wanted not in (None, kept):
                raise ValueError(
                    f"{self.folder} was graded with seed {kept}: leave --seed out to go on with "
                    "it, or name another folder for --out."
                )
            return kept
        # No student can know it before the batch is graded; the next run finds it here.
        seed = secrets.randbits(31) if wanted is None else wanted
        write_atomically(path, json.dumps({"seed": seed}).encode() + b"\n")
        return seed


@dataclass(frozen=True, slots=True)
class Local:
    """Graders on this machine: so many processes."""

    num_processes: int

    def __call__(
        self, submissions: Sequence[Submission], in_sandbox: bool, seed: int
    ) -> Iterator[Record]:
        """Their records, in the order in which they are done. Raises: BrokenProcessPool."""
        jobs = [(each, in_sandbox, seed) for each in submissions]
        yield from run_elsewhere(grade_one, jobs, self.num_processes)


@functools.cache
def _own_server(in_sandbox: bool) -> ForkServer:
    return sandboxed() if in_sandbox else ForkServer(needs="marks")


def grade_one(submission: Submission, in_sandbox: bool, seed: int) -> Record:
    """A submission's record, by the fork server that this process has for itself.

    Raises: SandboxError.
    """
    server = _own_server(in_sandbox)
    try:
        return grade(submission, server, seed, is_sandboxed=in_sandbox)
    except Exception as error:  # a mistake of ours costs no student a mark, and no other its turn
        return internal_record(submission, seed, f"{type(error).__name__}: {error}")

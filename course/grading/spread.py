"""A batch spread over machines: each runs `dask worker --nthreads 1` with this course installed.

A submission is a task by its key, so that the scheduler runs it once, and again elsewhere when the
worker that has it dies.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course.grading.batch import grade_one
from course.grading.grade import key_of, version
from course.grading.handed_in.submissions import Submission
from course.grading.record import Record

if TYPE_CHECKING:
    from distributed import Client

_CONNECT_S = 10


@dataclass(frozen=True, slots=True)
class Dask:
    """Graders at a Dask scheduler's address."""

    address: str

    def __call__(
        self, submissions: Sequence[Submission], in_sandbox: bool, seed: int
    ) -> Iterator[Record]:
        """Their records, in the order in which they are done.

        Raises: ValueError when there is no scheduler, no worker, or one that grades otherwise;
        BrokenProcessPool when workers die again and again.
        """
        with _connected(self.address) as client:
            from distributed import KilledWorker, as_completed

            _see_that_all_are_alike(client, submissions[0].lesson)
            running = [
                client.submit(grade_one, each, in_sandbox, seed, key=f"grade-{key_of(each, seed)}")
                for each in submissions
            ]
            for future in as_completed(running):
                try:
                    yield future.result()
                except KilledWorker as error:
                    raise BrokenProcessPool(str(error)) from None


def _connected(address: str) -> "Client":
    try:
        from distributed import Client
    except ImportError:
        raise ValueError(
            "--dask needs the package distributed: pip install -e .[grade] in the course's .venv, "
            "here and where the workers run."
        ) from None
    try:
        return Client(address, timeout=_CONNECT_S)
    except (OSError, ValueError) as error:
        raise ValueError(f"there is no Dask scheduler at {address} ({error}).") from error


def _see_that_all_are_alike(client: "Client", lesson: str) -> None:
    """Raises: ValueError unless each worker has one thread and this version of the course."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    if not workers:
        raise ValueError("the Dask scheduler has no worker: start `dask worker --nthreads 1`.")
    for name, worker in workers.items():
        if worker["nthreads"] != 1:
            raise ValueError(
                f"the Dask worker {name} has {worker['nthreads']} threads: start it with "
                "--nthreads 1."
            )
    said: Any = client.run(version, lesson, on_error="return")  # from a thread it is no coroutine
    for name, theirs in said.items():
        if theirs != version(lesson):
            why = theirs if isinstance(theirs, Exception) else "it has another version"
            raise ValueError(f"the Dask worker {name} has not this course: {why}.")

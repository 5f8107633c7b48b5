"""A batch spread over Dask workers: real processes, one of them killed in the middle."""

import os
import signal

import pytest
from support import need_layers

from course.grading import grade
from course.grading.batch import Batch
from course.grading.handed_in.submissions import Submission
from course.grading.record import LAYERS
from course.grading.spread import Dask

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.process

RIGHT = "def chunk_size(b, d, r):\n    return max(0, min(r, b - d))\n"


def submissions(count: int) -> list[Submission]:
    texts = [f"{RIGHT}\n# by student {number}\n" for number in range(count)]
    return [
        Submission(f"s{n}", "l01_chunked_prefill", f"s{n}/l01.py", text, "", "")
        for n, text in enumerate(texts)
    ]


@pytest.fixture(scope="module", autouse=True)
def contained() -> None:
    """Everything here is graded as it should be, with all layers."""
    need_layers(*LAYERS)


@pytest.fixture(scope="module")
def cluster():
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster:
        yield cluster


def test_a_killed_worker_loses_nothing_and_doubles_nothing(cluster, tmp_path):
    class_ = submissions(8)
    batch, done = Batch(tmp_path, LAYERS, 3), []
    with distributed.Client(cluster) as client:
        pids = client.run(os.getpid)
        for record in batch.grade(class_, Dask(cluster.scheduler_address)):
            done.append(record.student)
            if len(done) == 1:
                os.kill(next(iter(pids.values())), signal.SIGKILL)
    assert sorted(done) == [each.student for each in class_]
    assert {batch.record_of(each).marks[0].status for each in class_} == {"passed"}
    assert list(batch.grade(class_, Dask(cluster.scheduler_address))) == []


@pytest.fixture
def another_version():
    yield
    grade.version.cache_clear()


def test_a_worker_with_another_version_of_the_course_is_refused(
    cluster, tmp_path, monkeypatch, another_version
):
    with pytest.raises(ValueError, match="there is no Dask scheduler"):
        list(Batch(tmp_path / "a", LAYERS, 1).grade(submissions(1), Dask("tcp://127.0.0.1:9")))
    monkeypatch.setattr(grade, "_JUDGED_BY", ())
    grade.version.cache_clear()
    with pytest.raises(ValueError, match="has not this course"):
        list(
            Batch(tmp_path / "b", LAYERS, 1).grade(submissions(1), Dask(cluster.scheduler_address))
        )

"""Behind lesson 6: the numbers and sentences in its prose are those of its recording."""

from collections import Counter
from pathlib import Path

from course.lesson_data import l06_ranks as ranks

LESSON = " ".join(Path("lessons/l06_preempting_the_pass.py").read_text(encoding="utf-8").split())


def test_the_prose_says_what_was_recorded():
    run = ranks.recording()
    for row in ranks.ladder(run["experiment"], tuple(ranks.arms(0, 0))).splitlines():
        assert " ".join(row.split()) in LESSON
    for tries in run["hangs"].values():
        counts = Counter(outcome.partition(":")[0] for outcome in tries)
        words = (
            f"a rank hung in {counts['hung']} of {len(tries)} passes, both ranks left together in "
            f"{counts['together']}, and the number was written too late in {counts['too late']}."
        )
        assert words in LESSON.replace('" "', "")
    for race in ("state", "late_write"):
        for ending in ("right", "wrong"):
            assert run["races"][race][ending] in LESSON

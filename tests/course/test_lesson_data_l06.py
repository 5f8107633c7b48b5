"""Behind lesson 6: the numbers in its prose are those of its recording, and of lesson 5's line."""

from collections import Counter
from math import ceil
from pathlib import Path
from statistics import median

from course.lesson_data import l06_ranks as ranks
from nanogpt.slo.load import POST_COST

LESSON = " ".join(Path("lessons/l06_preempting_the_pass.py").read_text(encoding="utf-8").split())


def test_the_prose_says_what_was_recorded():
    run = ranks.recording()
    for how, words in (("vote", "here {} µs"), ("carried", "cost {} and"), ("epoch", "and {} µs")):
        passes = run["experiment"]["passes"]
        us = median(us for each in passes if each["agreement"] == how for us in each["agree_us"])
        assert words.format(f"{us:,.0f}") in LESSON
    for tries in run["hangs"].values():
        counts = Counter(outcome.partition(":")[0] for outcome in tries)
        assert len(tries) == 40
        assert f"| {counts['hung']} | {counts['together']} | {counts['too late']} |" in LESSON
    for race in ("state", "late_write"):
        for ending in ("right", "wrong"):
            assert run["races"][race][ending] in LESSON


def test_the_modelled_passes_follow_the_line_of_the_post():
    per_token_us, fixed_us = POST_COST.a_us, POST_COST.c_us
    for tokens in (242, 2_000, 7_986):
        times_us = [
            per_token_us * tokens + fixed_us,
            per_token_us * tokens + fixed_us * ceil(tokens / 512),
            per_token_us * min(tokens, 512) + fixed_us,
        ]
        whole, chunks, longest = (f"{each / 1000:,.0f} ms" for each in times_us)
        layer = f"{times_us[0] / 80_000:.1f} ms"
        assert f"| {tokens:,} | {whole} | {layer} | {chunks} | {longest} |" in LESSON
    lost, left = (times_us[0] * layers / 80_000 for layers in (70, 10))
    assert f"{lost:,.0f} ms of work" in LESSON and f"the {left:.0f} ms that were left" in LESSON

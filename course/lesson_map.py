"""The lessons there are, in order, with what the overview and the terminal say about each.

Importing this loads neither torch nor the checks, so that the overview opens at once.
"""

import ast
import difflib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from course.launcher.failure import Failure


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson as the map shows it; `builds_on` are numbers of earlier lessons, such as "4b"."""

    stem: str
    title: str
    builds: str
    minutes: int
    builds_on: tuple[str, ...] = ()

    @property
    def number(self) -> str:
        """As it is said: "4" for l04_sliding_window, "4b" for a second half, l04b_..."""
        return str(int(self.stem[1:3])) + self.stem[3 : self.stem.index("_")]

    @property
    def short(self) -> str:
        """Its id in the terminal: "l04b"."""
        return self.stem.partition("_")[0]


LESSONS = (
    Lesson(
        stem="l00_kv_cache",
        title="The KV cache and batching",
        builds="Attention with a KV cache, static and continuous batching, and the capacity of one "
        "GPU: KV tokens, batch size, tokens per second.",
        minutes=45,
    ),
    Lesson(
        stem="l01_chunked_prefill",
        title="Chunked prefill",
        builds="A step plan under a token budget that cuts long prompts into chunks, so that no "
        "other request stalls.",
        minutes=60,
        builds_on=("0",),
    ),
    Lesson(
        stem="l02_scheduling",
        title="The scheduler",
        builds="Decide which request goes first, which may start and which is preempted when the "
        "KV budget is exceeded, so that every request finishes.",
        minutes=55,
        builds_on=("1",),
    ),
    Lesson(
        stem="l02b_waiting",
        title="Waiting",
        builds="A queue key in which waiting counts, and a measurement of what priorities change, "
        "what they cost and which request they starve.",
        minutes=20,
        builds_on=("2",),
    ),
    Lesson(
        stem="l03_interleaving",
        title="Interleaving",
        builds="Compute decodes and chunks in one forward per step, padded and masked so that no "
        "token sees padding.",
        minutes=50,
        builds_on=("1", "2"),
    ),
    Lesson(
        stem="l03b_packing",
        title="Packed batches",
        builds="Run a step as one flat batch without padding, predict which layout of a step is "
        "faster, and merge the attention over blocks of keys exactly.",
        minutes=30,
        builds_on=("3",),
    ),
    Lesson(
        stem="l04_sliding_window",
        title="Sliding windows",
        builds="Bound the K/V of each request: window visibility, eviction, KV accounting for the "
        "scheduler, and a rolling buffer.",
        minutes=50,
        builds_on=("1", "2"),
    ),
    Lesson(
        stem="l04b_window_quality",
        title="What a window costs",
        builds="Measure what a window costs in quality, with a metric that no random draw can "
        "flatter, and explain the cost.",
        minutes=25,
        builds_on=("4",),
    ),
    Lesson(
        stem="l05_slo_policy",
        title="SLO policy",
        builds="Compute how much time a request has to spare, rank requests by their deadlines, "
        "and choose the running prefill to preempt for an urgent one.",
        minutes=45,
        builds_on=("2",),
    ),
    Lesson(
        stem="l05b_repair_ladder",
        title="The repair ladder",
        builds="Find out why a right policy changed nothing, what each repair of the engine around "
        "it does, and at which loads preemption loses.",
        minutes=25,
        builds_on=("5",),
    ),
    Lesson(
        stem="l06_preempting_the_pass",
        title="Preempting the pass",
        builds="Stop a forward pass on several ranks without a hang, roll its step back, and "
        "resume a suspended pass in time.",
        minutes=55,
        builds_on=("5", "5b"),
    ),
    Lesson(
        stem="l07_blocks",
        title="Blocks and shared prefixes",
        builds="Keep K/V in blocks, find the K/V of a shared prefix by its hashes, and allocate "
        "and evict blocks without changing any text.",
        minutes=50,
        builds_on=("0", "2"),
    ),
    Lesson(
        stem="l07b_spilling",
        title="When the cache spills",
        builds="Keep K/V that the pool evicts in host memory, find it there, decide whether to "
        "load or to compute it, and see when a second tier costs more than it saves.",
        minutes=45,
        builds_on=("7",),
    ),
    Lesson(
        stem="l08_speculation",
        title="Speculative decoding",
        builds="Verify draft tokens by rejection sampling without changing the distribution of the "
        "text, compute the speed-up, roll back the KV cache, and draft from the text itself.",
        minutes=60,
        builds_on=("0",),
    ),
    Lesson(
        stem="l08b_legal_tokens",
        title="Only legal tokens",
        builds="Hold a model's text to a form: mask illegal tokens, also in passes with draft "
        "tokens, and close the text in time.",
        minutes=45,
        builds_on=("8",),
    ),
    Lesson(
        stem="l09_fleet",
        title="Serving with a fleet",
        builds="Choose which request goes next and to which of four workers, and find out from "
        "many seeds which features pay.",
        minutes=65,
        builds_on=("5", "7", "8"),
    ),
    Lesson(
        stem="l09b_prefill_here",
        title="Prefill here, decode there",
        builds="Give prompts and texts workers of their own, send K/V from one to the other and "
        "free it in time, and find out at which loads that pays.",
        minutes=40,
        builds_on=("7", "9"),
    ),
    Lesson(
        stem="l10_capstone",
        title="Your engine, served",
        builds="Decide which requests a server admits, what it streams and what it does when a "
        "client disconnects; then serve real clients and find the load that your engine can take.",
        minutes=45,
        builds_on=("1", "2"),
    ),
    Lesson(
        stem="l11_milliseconds",
        title="Where the milliseconds go",
        builds="Find out where a step's time goes, compute its roofline, hide scheduling behind "
        "execution, and store K/V in 8 bits.",
        minutes=45,
        builds_on=("0", "3b"),
    ),
    Lesson(
        stem="l12_on_call",
        title="On call",
        builds="Diagnose eight incidents: the cause, the number that proves it, and the fix.",
        minutes=50,
        builds_on=("2", "7", "8", "9", "10"),
    ),
)


CORE_PATH = ("0", "1", "2", "3b", "7", "8", "10")
"""The lessons for whoever has an afternoon: the least that shows a whole engine."""
ELECTIVES = ("4b", "5", "5b", "6", "7b", "8b", "9", "9b", "11", "12")
"""Lessons on which no lesson of the core path builds, for whoever wants to know more."""


@dataclass(frozen=True, slots=True)
class ExerciseEntry:
    """An exercise as the map counts it."""

    id: str
    title: str
    minutes: int

    @property
    def name(self) -> str:
        """The function's."""
        return self.id.partition(".")[2]


class UnknownIdError(Failure, ValueError):
    """No lesson or exercise has this id, or one of the other kind has it."""


def find_lesson(wanted: str) -> Lesson:
    """The lesson with an id. Raises: UnknownIdError."""
    lesson, item = find_id(wanted)
    if item is not None:
        raise UnknownIdError(f"{wanted} is an exercise; name its lesson, {lesson.short}.")
    return lesson


def find_exercise(wanted: str) -> ExerciseEntry:
    """The exercise with an id. Raises: UnknownIdError."""
    lesson, item = find_id(wanted)
    if item is None:
        example = f"{lesson.short}.{entries(lesson)[0].name}"
        raise UnknownIdError(f"{wanted} is a lesson; name an exercise, such as {example}.")
    return item


def find_id(wanted: str) -> tuple[Lesson, ExerciseEntry | None]:
    """The lesson, and the exercise if the id is one's, however the course writes ids.

    A lesson is "l04b", "4b", its stem or its file; an exercise its lesson and its name or number,
    "l05b.slo_batch", "l05.slo_batch" or "5b.1", or its name only. Capitals and zeros do not matter.
    Raises: UnknownIdError, with the ids that come near.
    """
    known, word = _ids(), _bare(re.sub(r"\.(py|ipynb)$", "", Path(wanted).name.lower()))
    if word in known:
        return known[word]
    head, _, name = word.rpartition(".")
    names = {item.name: f"{lesson.short}.{item.name}" for lesson, item in known.values() if item}
    near = [names[each] for each in difflib.get_close_matches(name, names, 2)]
    if near and (not head or head in known):
        raise UnknownIdError(f"There is no exercise {wanted!r}; did you mean {' or '.join(near)}?")
    if head in known:
        lesson, _ = known[head]
        has = ", ".join(item.name for item in entries(lesson))
        raise UnknownIdError(f"There is no exercise {wanted!r}; {lesson.short} has: {has}.")
    stems = ", ".join(lesson.stem for lesson in LESSONS)
    raise UnknownIdError(
        f"There is no lesson {wanted.partition('.')[0]!r}; the lessons are: {stems}."
    )


@cache
def _ids() -> dict[str, tuple[Lesson, ExerciseEntry | None]]:
    """Every way to write an id, bare."""
    found: dict[str, tuple[Lesson, ExerciseEntry | None]] = {}
    for lesson in LESSONS:
        heads = lesson.number, _bare(lesson.stem)
        found |= dict.fromkeys(heads, (lesson, None))
        for place, item in enumerate(entries(lesson), 1):
            ways = [f"{head}.{tail}" for head in heads for tail in (item.name, place)]
            found |= dict.fromkeys((*ways, _bare(item.id), item.name), (lesson, item))
    return found


def _bare(word: str) -> str:
    """An id without the "l" and the zeros before its number."""
    return re.sub(r"^l?0*(?=\d)", "", word)


@cache
def entries(lesson: Lesson) -> tuple[ExerciseEntry, ...]:
    """The lesson's exercises, read once from the text of their modules without running it."""
    folder = Path(__file__).parents[1] / "solutions" / lesson.stem
    found = [(each, path.stem) for path in folder.glob("[!_]*.py") for each in _said(path)]
    found.sort(key=lambda pair: pair[0]["number"])
    return tuple(
        ExerciseEntry(f"{lesson.stem[:3]}.{name}", each["title"], each["minutes"])
        for each, name in found
    )


def _said(path: Path) -> list[dict[str | None, Any]]:
    """The literal keyword arguments of each `Exercise(...)` in a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        {
            word.arg: word.value.value
            for word in node.keywords
            if isinstance(word.value, ast.Constant)
        }
        for statement in tree.body
        if isinstance(statement, ast.Assign) and isinstance(node := statement.value, ast.Call)
        if ast.unparse(node.func) == "Exercise"
    ]

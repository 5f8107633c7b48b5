"""The learner's own policies in the contest: finding them, playing them, and a report card.

They come from passed answers and from a file. A policy is kept as its text, which is all that it
needs, and runs only in child processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from course.calling.answers import load
from course.calling.channel import LostError, TooSlowError
from course.calling.jobs import RunError, run
from course.calling.loading import LocalAnswer
from course.calling.processes import own_starter
from course.files import read_bytes
from course.launcher.failure import Failure
from course.registry import exercises
from course.saved_answers import load_policies
from course.source.answer import answer_in
from course.source.cutting import read_notebook
from nanogpt.contest import BASELINES, Entry, Round, Score, Workload, play, play_round, workload
from nanogpt.contest import priority_key as reference_key
from nanogpt.policies import Policies

PLAYED = (
    "priority_key", "plan_step", "admit", "choose_victim", "requeue", "chunk_inputs", "chunk_mask",
    "assign_tokens",
)  # fmt: skip
"""The functions that an engine of the contest calls: its priority key, and seven `Policies`."""
ANY = f"{', '.join(PLAYED[:-1])} or {PLAYED[-1]}"

MINE = "mine"
"""The name of the learner's entry."""

PLAY_S = 60.0
"""Limit of the computing time for one workload."""

Functions = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class OwnPolicies:
    """Saved functions by name, and their origin in a sentence."""

    functions: Mapping[str, LocalAnswer]
    sentence: str


def entry_of(functions: Functions) -> Entry:
    """The entry MINE with these policies; the others are the reference."""
    policies = {name: function for name, function in functions.items() if name != "priority_key"}
    return Entry(MINE, Policies(**policies), functions.get("priority_key", reference_key))


def play_mine(name: str, number: int, seed: int, functions: Functions) -> Round:
    """One workload: the baselines play in this process, and the entry MINE in one of its own."""
    score = _play_apart(workload(name, seed), functions)
    played = play_round(name, number, seed, BASELINES)
    return replace(played, scores=(*played.scores, (MINE, score)))


def _play_apart(made: Workload, functions: Functions) -> Score:
    """The score of the entry MINE, in a process of its own; 0 points where that is lost."""
    try:
        return run(play, made, entry_of(functions), limit_s=PLAY_S)
    except RunError as error:
        return Score(len(made.calls), (), 0, 0, str(error))


def find_own(file: Path, *, is_wanted: bool) -> OwnPolicies:
    """The passed answers that play, and before them what the file defines, if it exists.

    Raises: Failure for a file that defines no policy or a broken one, or, if it `is_wanted`,
    that does not exist; OSError when it cannot be read.
    """
    answers = load_policies()
    mine: dict[str, LocalAnswer] = {
        item.name: getattr(answers.policies, item.name)
        for item in exercises()
        if item.name in PLAYED and answers.whose.get(item.name) == "yours"
    }
    sentences = [f"From your lessons: {_listed(mine)}."] if mine else []
    if file.exists():
        written = read_policies(file)
        mine.update(written)
        sentences.append(f"From {file.name}: {_listed(written)}.")
    elif is_wanted:
        raise Failure(f"There is no file {file}; name one with functions called {ANY}.")
    if not mine:
        sentences = [
            f"No policy is yours yet, so the reference plays: pass an exercise whose function the "
            f"engine uses, or write a function called {ANY} into {file}."
        ]
    return OwnPolicies(mine, " ".join(sentences))


def read_policies(file: Path) -> dict[str, LocalAnswer]:
    """The policies that a file defines. Raises: Failure, OSError."""
    try:
        content = read_bytes(file).decode()
    except ValueError:
        raise Failure(f"{file} is not text in UTF-8.") from None
    notebook = read_notebook(content)
    wanted = [name for name in PLAYED if notebook.binding(name)]
    try:
        with own_starter().start() as channel:
            loaded = load(channel, content, wanted)
    except (LostError, TooSlowError) as error:
        why = error.words if isinstance(error, LostError) else f"took {error.cpu_s:.0f} s"
        raise Failure(f"{file} cannot play: reading it {why}.") from None
    problems = [problem for name in wanted for problem in loaded.problems[name]]
    problems += [f"`{name}` is no function." for name in wanted if name not in loaded.answers]
    if problems:
        raise Failure(f"{file} cannot play: {problems[0]}")
    if not wanted:
        broken = f"; {notebook.broken[0]}" if notebook.broken else ""
        raise Failure(f"{file} defines no policy; it takes functions called {ANY}{broken}.")
    return {name: LocalAnswer(answer_in(notebook, name).text, name) for name in wanted}


def _listed(policies: Mapping[str, object]) -> str:
    return ", ".join(name for name in PLAYED if name in policies)


# --- the report card ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contribution:
    """The points that a policy brings in one workload.

    `alone`: the reference with this one policy, less the reference. `among`: all own policies, less
    all but this one. `problem` is why a run fails with it, and not without it.
    """

    policy: str
    workload: str
    alone: int
    among: int
    problem: str


def card_of(functions: Functions, names: Sequence[str], seed: int) -> list[Contribution]:
    """The report card, policy by policy, under one seed."""
    card = [each for name in names for each in _contributions(functions, workload(name, seed))]
    return sorted(card, key=lambda each: PLAYED.index(each.policy))


def _contributions(functions: Functions, made: Workload) -> list[Contribution]:
    """The gain of each of these policies in one workload."""
    scores: dict[frozenset[str], Score] = {}

    def score(policies: set[str]) -> Score:
        key = frozenset(policies)
        if key not in scores:
            scores[key] = _play_apart(made, {policy: functions[policy] for policy in policies})
        return scores[key]

    everything, reference = set(functions), score(set()).points
    card: list[Contribution] = []
    for policy in (policy for policy in PLAYED if policy in functions):
        alone, together, others = score({policy}), score(everything), score(everything - {policy})
        among = together.points - others.points
        problem = alone.problem or ("" if others.problem else together.problem)
        card.append(Contribution(policy, made.name, alone.points - reference, among, problem))
    return card

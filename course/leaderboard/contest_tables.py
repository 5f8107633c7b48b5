"""The contest in sentences and tables: for the terminal, and as Markdown for a notebook."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from course.leaderboard.own_policies import MINE, PLAYED, Contribution, Functions, play_mine
from nanogpt.contest import NAMES, Round

BOUND = "no schedule beats"


def rows_of(rounds: Sequence[Round], labels: Sequence[str]) -> list[list[str]]:
    """One workload's table: heads, then each entry's points by seed and in all, then the bound."""
    points = {name: [each.points(name) for each in rounds] for name, _ in rounds[0].scores}
    points[BOUND] = [each.most for each in rounds]
    heads = [rounds[0].workload, *(labels[each.number] for each in rounds), "all"]
    return [heads, *([name, *map(str, [*row, sum(row)])] for name, row in points.items())]


def markdown(rounds: Sequence[Round], labels: Sequence[str]) -> str:
    """One workload's points as a Markdown table."""
    heads, *rows = rows_of(rounds, labels)
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, rule, *rows])


def contest_table(functions: Functions, names: Sequence[str] = NAMES, seeds: int = 1) -> str:
    """These functions' scores beside the baselines and the bound, in Markdown, for a notebook.

    Under the first public seeds. Raises: ValueError for a function that the contest does not ask.
    """
    for policy in functions:
        if policy not in PLAYED:
            raise ValueError(f"the contest has no policy {policy!r}; it has {', '.join(PLAYED)}")
    labels = [f"seed {seed}" for seed in range(seeds)]
    played = [[play_mine(name, i, i, functions) for i in range(seeds)] for name in names]
    return "\n\n".join(f"{markdown(each, labels)}\n\n{sentence(each)}" for each in played)


def table(rows: Sequence[Sequence[str]]) -> Table:
    """A table for the terminal; the first row has the heads, and the first column names."""
    made = Table(box=box.SIMPLE_HEAD)
    for number, head in enumerate(rows[0]):
        made.add_column(head, justify="right" if number else "left")
    for row in rows[1:]:
        made.add_row(*row)
    return made


def card_rows(card: Sequence[Contribution]) -> list[list[str]]:
    """The gain of each policy, by workload: alone with the reference / among one's own."""
    rows = [["policy", *dict.fromkeys(each.workload for each in card)]]
    for policy in dict.fromkeys(each.policy for each in card):
        cells = [f"{each.alone:+} / {each.among:+}" for each in card if each.policy == policy]
        rows.append([policy, *cells])
    return rows


def sentence(rounds: Sequence[Round]) -> str:
    """One workload in a sentence, and one more for each entry that failed."""
    sums = {name: sum(each.points(name) for each in rounds) for name, _ in rounds[0].scores}
    num_calls, most = sum(each.num_calls for each in rounds), sum(each.most for each in rounds)
    than = [f"{_signed(sums[MINE] - sums[one])} against {one}" for one in sums if one != MINE]
    said = [
        f"{rounds[0].workload}: your policies meet {sums[MINE]} of {num_calls} SLOs "
        f"({', '.join(than)}); no schedule can meet more than {most}."
    ]
    scores = [(name, score.problem) for each in rounds for name, score in each.scores]
    failed = {name: problem for name, problem in reversed(scores) if problem}
    said += [f"{name} scores 0 where it failed: {problem}." for name, problem in failed.items()]
    return " ".join(said)


def card_sentence(card: Sequence[Contribution]) -> str:
    """The meaning of a report card's numbers, and the policy that gains most."""
    sums: dict[str, int] = {}
    for each in card:
        sums[each.policy] = sums.get(each.policy, 0) + each.alone
    best = max(sums, key=lambda policy: sums[policy])
    most = f"{best} brings most: {_signed(sums[best])} in all."
    if sums[best] <= 0:
        most = "No policy alone brings more than the reference's."
    problems = {each.policy: each.problem for each in card if each.problem}
    failed = [f"With {policy} a run fails: {problem}." for policy, problem in problems.items()]
    what = "Points that a policy brings: with references for the others / among your own policies."
    return " ".join([what, most, *failed])


def _signed(number: int) -> str:
    return f"{number:+}" if number else "the same"

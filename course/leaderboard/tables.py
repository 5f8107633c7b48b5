"""The contest in words and tables: for the terminal, and as Markdown for a notebook."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from course.leaderboard.ablation import Brought
from course.leaderboard.board import Line
from course.leaderboard.own_parts import MINE
from nanogpt.contest import Round

BOUND = "no schedule beats"


def rows_of(rounds: Sequence[Round]) -> list[tuple[str, list[int]]]:
    """Of one workload: each entry's points by seed and then in all, and below them the bound."""
    names = [name for name, _ in rounds[0].scores]
    rows = [(name, [each.points(name) for each in rounds]) for name in names]
    rows.append((BOUND, [each.most for each in rounds]))
    return [(name, [*points, sum(points)]) for name, points in rows]


def heads_of(rounds: Sequence[Round], labels: Sequence[str]) -> list[str]:
    """What stands above those rows."""
    return [rounds[0].workload, *(labels[each.number] for each in rounds), "all"]


def workload_table(rounds: Sequence[Round], labels: Sequence[str]) -> Table:
    """One workload's points, an entry in each row."""
    table = Table(box=box.SIMPLE_HEAD)
    first, *others = heads_of(rounds, labels)
    table.add_column(first)
    for head in others:
        table.add_column(head, justify="right")
    for name, points in rows_of(rounds):
        table.add_row(name, *map(str, points))
    return table


def markdown(rounds: Sequence[Round], labels: Sequence[str]) -> str:
    """The same for a notebook."""
    heads = heads_of(rounds, labels)
    rows = [[name, *map(str, points)] for name, points in rows_of(rounds)]
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, rule, *rows])


def sentence(rounds: Sequence[Round]) -> str:
    """One workload in a sentence."""
    sums = {name: points[-1] for name, points in rows_of(rounds)}
    num_calls = sum(each.num_calls for each in rounds)
    others = [other for other in sums if other not in (MINE, BOUND)]
    than = [f"{_signed(sums[MINE] - sums[other])} against {other}" for other in others]
    said = (
        f"{rounds[0].workload}: your parts keep {sums[MINE]} of {num_calls} promises "
        f"({', '.join(than)}); no schedule can keep more than {sums[BOUND]}."
    )
    return " ".join([said, *failures(rounds)])


def failures(rounds: Sequence[Round]) -> list[str]:
    """A sentence for each entry that failed: the first of its reasons."""
    first: dict[str, str] = {}
    for each in rounds:
        for name, score in each.scores:
            if score.problem:
                first.setdefault(name, f"{name} scores 0 where it failed: {score.problem}.")
    return list(first.values())


def card_table(card: Sequence[Brought]) -> Table:
    """What each part brought: by workload, alone with the reference and among one's own."""
    table = Table(box=box.SIMPLE_HEAD)
    workloads = list(dict.fromkeys(each.workload for each in card))
    table.add_column("part")
    for name in workloads:
        table.add_column(name, justify="right")
    for part in dict.fromkeys(each.part for each in card):
        cells = [f"{each.alone:+} / {each.among:+}" for each in card if each.part == part]
        table.add_row(part, *cells)
    return table


def card_sentence(card: Sequence[Brought]) -> str:
    """What the numbers of a report card are, and which part brought most."""
    sums = {part: sum(each.alone for each in card if each.part == part) for part in _parts(card)}
    best = max(sums, key=lambda part: sums[part])
    most = f"{best} brings most: {_signed(sums[best])} in all."
    if sums[best] <= 0:
        most = "No part alone brings more than the reference's."
    problems = {each.part: each.problem for each in card if each.problem}
    failed = [f"With {part} a run fails: {problem}." for part, problem in problems.items()]
    what = "Points that a part brings: alone with the reference / among your own parts."
    return " ".join([what, most, *failed])


def board_table(lines: Sequence[Line]) -> Table:
    """A leaderboard, the best first."""
    table = Table(box=box.SIMPLE_HEAD)
    names = list(dict.fromkeys(name for line in lines for name in line.points))
    for head in ("", "entry", *names, "all", "at most"):
        table.add_column(head, justify="left" if head == "entry" else "right")
    ranked = sorted(lines, key=lambda line: (-line.total, line.name))
    for place, line in enumerate(ranked, start=1):
        cells = [str(sum(line.points.get(name, ()))) for name in names]
        most = sum(sum(each) for each in line.bounds.values())
        table.add_row(str(place), line.name, *cells, str(line.total), str(most))
    return table


def _parts(card: Sequence[Brought]) -> list[str]:
    return list(dict.fromkeys(each.part for each in card))


def _signed(number: int) -> str:
    return f"{number:+}" if number else "the same"

"""The tickets of lesson 12: each number follows from what its ticket shows."""

import re
from collections import defaultdict

import pytest
from answers import worked

from course.checks.incidents import look

FORMULAS = [  # of the numbers in each row of the ticket
    lambda n: n["requests sent"][1] * sum(n["their mean prompt and text"]) * n["steps"][1] / 16e3,
    lambda n: 100 * 64 / n["their mean prompt and text"][0],
    lambda n: 100 - 100 * n["tokens computed"][1] / n["tokens computed"][0],
    lambda n: n["TTFT of chat"][0] / n["TTFT of chat"][1],
    lambda n: n["a pass of 64"][0] / n["a pass of 64"][1] / n["tokens of text"][0],
    lambda n: n["KV budget in use"][1],
    lambda n: max(n["log"]),
    lambda n: n["requests sent"][3] / n["requests sent"][1],
]


@pytest.mark.parametrize("place", range(8))
def test_the_number_of_a_ticket_follows_from_what_it_shows(place: int):
    found, rows = look(f"ticket_{place + 1}"), defaultdict(list)
    shown = [pair for column in found.columns.values() for pair in column.items()]
    for row, text in [*shown, *(("log", line.partition(" sent ")[2]) for line in found.log)]:
        rows[row] += [float(each.replace(",", "")) for each in re.findall(r"[\d.,]*\d", text)]
    shown_number = pytest.approx(FORMULAS[place](rows), rel=0.006)
    assert worked(f"l12.ticket_{place + 1}")()["number"] == shown_number

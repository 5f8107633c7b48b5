"""The contest: recorded workloads, their score on the modelled clock, and a bound on any score.

    draws             whole numbers from a key
    contest_machine   what a pass costs, the limits, the model, the clock
    workloads         the calls of each workload, by name and seed, and the seeds of a salt
    ranks             what goes first, by what was promised
    scoring           an entry, and how many promises it keeps
    upper_bound       how many any schedule can keep at most, with the proof
    rounds            entries beside each other, under one seed

Times are integer microseconds of the modelled clock; a score is a whole number. docs/contest.md has
the rules.
"""

from typing import TYPE_CHECKING

from nanogpt import lazy_names

if TYPE_CHECKING:
    from nanogpt.contest.ranks import Rank, rank
    from nanogpt.contest.rounds import Round, play_round
    from nanogpt.contest.scoring import BASELINES, Entry, Score, play
    from nanogpt.contest.upper_bound import bound
    from nanogpt.contest.workloads import NAMES, Call, Workload, hidden_seeds, workload

__all__ = [
    "BASELINES",
    "NAMES",
    "Call",
    "Entry",
    "Rank",
    "Round",
    "Score",
    "Workload",
    "bound",
    "hidden_seeds",
    "play",
    "play_round",
    "rank",
    "workload",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BASELINES": "scoring",
        "NAMES": "workloads",
        "Call": "workloads",
        "Entry": "scoring",
        "Rank": "ranks",
        "Round": "rounds",
        "Score": "scoring",
        "Workload": "workloads",
        "bound": "upper_bound",
        "hidden_seeds": "workloads",
        "play": "scoring",
        "play_round": "rounds",
        "rank": "ranks",
        "workload": "workloads",
    },
)

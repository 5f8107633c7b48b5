"""Exercise 7b.3: what the host tier keeps."""

import random
from typing import Any

from course.calling.plain_values import as_items
from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Misconception, Task
from course.format_values import named

# --- right answers ------------------------------------------------------------------------------


def spill(published: list[str], host: list[str], capacity: int) -> list[str]:
    """Return the hashes that the host holds from now on, the first to be dropped first."""
    # This text was used just now, so all of it goes to the end of the order, those blocks too that
    # the host has already. A block is never found without its parents: the deepest goes first.
    kept = [each for each in host if each not in published] + published[::-1]
    return kept[max(0, len(kept) - capacity) :]


def by_moving(published: list[str], host: list[str], capacity: int) -> Any:
    order = dict.fromkeys(host)
    for each in reversed(published):
        order.pop(each, None)
        order[each] = None
    while len(order) > capacity:
        del order[next(iter(order))]
    return tuple(order)


def from_the_end(published: list[str], host: list[str], capacity: int) -> Any:
    newest_first = list(dict.fromkeys([*published, *reversed(host)]))[:capacity]
    return newest_first[::-1]


# --- wrong ideas --------------------------------------------------------------------------------


def wrong(key: str, belief: str, idea: str, way: Any) -> Misconception:
    """`way` makes the whole order of (published, host, host without published)."""

    def answer(published: list[str], host: list[str], capacity: int) -> list[str]:
        order = way(published, host, [each for each in host if each not in published])
        return order[max(0, len(order) - capacity) :]

    return Misconception(key, belief, idea, answer)


MISCONCEPTIONS = (
    Misconception("not_a_list", "The answer is how many blocks are copied, or a set of them.",
                  "The answer is the list of the hashes that the host holds afterwards.",
                  matches=lambda value: as_items(value) is None,
                  examples=(lambda published, *_: len(published), lambda *args: {*spill(*args)})),
    Misconception("minus_zero", "The last `capacity` are `kept[-capacity:]`.",
                  "`kept[-0:]` is the whole list: a host without capacity holds nothing.",
                  lambda published, host, capacity: spill(published, host, 99)[-capacity:]),
    Misconception("oldest_kept", "What has been there longest stays.",
                  "The host is full: drop what was used longest ago, at the beginning of `host`, "
                  "and keep the text that was used just now.",
                  lambda published, host, capacity: spill(published, host, 99)[:capacity]),
    Misconception("over_capacity", "Everything is kept.",
                  "The host holds at most `capacity` blocks: drop those used longest ago.",
                  lambda published, host, capacity: spill(published, host, 99)),
    wrong("beginning_dropped", "A text is dropped from its front.",
          "A block is never found without its parents, so the beginning of a text is worth most: "
          "it goes to the very end of the order, and the deepest block is dropped first.",
          lambda published, host, others: others + published),
    wrong("not_refreshed", "A block that the host has already keeps its place.",
          "The text was used just now, all of it: blocks that the host has already move to the end "
          "of the order too, or parents are dropped before their children.",
          lambda published, host, others: host + [h for h in published[::-1] if h not in host]),
    wrong("held_twice", "Every published block is added.",
          "The host has this block already. It holds each hash once.",
          lambda published, host, others: host + published[::-1]),
    wrong("only_the_newest", "The host holds the text that was used last.",
          "There is room for more: blocks of other texts stay until the host is full.",
          lambda published, host, others: published[::-1]),
)  # fmt: skip

# --- cases --------------------------------------------------------------------------------------

A, B, C, D, E = "6b2f", "91ce", "0d84", "f7a3", "22e0"


def any_host(rng: random.Random) -> list[Args]:
    """Texts of which the host has a part, and hosts that are full or not."""
    cases: list[Args] = []
    for _ in range(40):
        names = [f"{each:04x}" for each in rng.sample(range(1 << 16), 9)]
        published = names[: rng.randint(0, 5)]
        host = [*names[5 : rng.randint(5, 9)], *(h for h in published if rng.random() < 0.4)]
        rng.shuffle(host)
        cases.append((published, host, len(host) + rng.choice((0, 0, 1, 2, 9))))
    return sorted(cases, key=lambda case: len(case[0]) + len(case[1]))


JUDGE = Comparison(
    spill,
    MISCONCEPTIONS,
    "Which text was used last? Which of its blocks is useless without another?",
    evidence=any_host(random.Random(0))[:24],
)
CASES: dict[str, list[Args]] = {
    "a host with room": [([A], [], 4), ([A, B, C], [], 4), ([A], [D], 4), ([*"abcdef"], [D, E], 9)],
    "a full host": [([A, B], [D, E], 2), ([A, B], [D, E], 3), ([A, B, C], [D], 2), ([], [D], 1)],
    "blocks that it has already": [
        ([A, B], [A, D], 4), ([A, B, C], [B, A, D], 3), ([A, B], [D, A, E], 4),
    ],
    "no capacity": [([A, B], [], 0), ([], [], 0)],
}  # fmt: skip

EXERCISE = Exercise(
    number=3, title="Write through, and drop", minutes=8, points=3,
    task=Task(
        rules=(
            "After a step, `published` are the hashes of a request's full blocks in the order of "
            "its text. At least one of them has just become full; others may be in the host.",
            "`host` are the hashes that host memory holds, the one to be dropped first at the "
            "beginning. It holds at most `capacity` blocks, which may be 0.",
            "Return the hashes that it holds from now on, in the same order: each once, as many "
            "as possible. The engine copies those that are new.",
            "Drop what was used longest ago; the published text is used now. Of a text, drop first "
            "what loses least. Do not change the lists.",
        ),
        args=([A, B, C], [D, A, E], 4),
        steps=(
            "f7a3 and 22e0 are of other texts, used longer ago: they come first, as they stand.",
            "0d84 is useless without 91ce, and 91ce without 6b2f: these follow in that order.",
            "That makes f7a3, 22e0, 0d84, 91ce, 6b2f, one more than 4: f7a3 is dropped.",
        ),
        result=[E, C, B, A],
    ),
    hints=(
        "Put all hashes into the order in which they should be dropped. How many are dropped?",
        "In that order, other texts come first, as they stand in `host`. Then comes this text: "
        "which of its blocks first?",
        "Join the hashes of `host` that are not published and the published ones in reverse. Keep "
        "the last `capacity` of them; mind a capacity of 0.",
    ),
    right=(spill, by_moving, from_the_end), misconceptions=MISCONCEPTIONS,
    checks=(*((name, JUDGE.on(*cases)) for name, cases in CASES.items()),
            ("any host", JUDGE.on_drawn(any_host)),),
    draw_call=named("published", "host", "capacity"),
)  # fmt: skip

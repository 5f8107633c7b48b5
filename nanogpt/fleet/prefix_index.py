"""Which worker has computed how much of a prompt: one tree over the prefix caches of all workers.

    worker 0 holds 1 2 3 4, worker 1 holds 1 2 3 and 1 2 9:

    [1 2]──┬──[3 4]     0: 2, 1: 1        [1 2]  0: 2, 1: 2
           └──[9]       1: 1

An edge says of every worker with how many of its tokens it goes on. A worker that holds a part of
an edge holds all of those above it, so that one walk along a prompt finds all of them, those that
know most of it on its last edge. The workers' own trees say when tokens come and go.
"""

from collections.abc import Iterator

from nanogpt.fleet.radix import common_length

Holders = dict[int, int]
"""worker id -> how many tokens of an edge it holds, at least 1."""


class PrefixIndex:
    """A radix tree whose payloads are the workers. Mutable."""

    def __init__(self) -> None:
        self.version = 0  # another number whenever it has changed
        self._roots: dict[int, _Edge] = {}

    def add(self, worker: int, tokens: tuple[int, ...]) -> None:
        """The worker holds these tokens from now on."""
        self.version += 1
        below, at = self._roots, 0
        while at < len(tokens):
            edge = below.get(tokens[at])
            if edge is None:
                edge = below[tokens[at]] = _Edge(tokens[at:])
            same = common_length(edge.tokens, tokens[at : at + len(edge.tokens)])
            if same == len(edge.tokens) and not edge.below:
                edge.tokens = tokens[at:]  # nothing parts here: the edge becomes longer
                same = len(edge.tokens)
            elif same < min(len(edge.tokens), len(tokens) - at):
                edge.split(same)
            edge.holders[worker] = max(same, edge.holders.get(worker, 0))
            below, at = edge.below, at + same

    def cut(self, worker: int, tokens: tuple[int, ...], keep: int) -> None:
        """Of these tokens, which it held and which led on to no others, it now holds `keep`."""
        self.version += 1
        below, at = self._roots, 0
        while at < len(tokens):
            edge = below[tokens[at]]
            if at < keep:
                edge.holders[worker] = min(keep - at, edge.holders[worker])
            else:
                del edge.holders[worker]
                if not edge.holders:
                    del below[tokens[at]]
            below, at = edge.below, at + len(edge.tokens)

    def hits(self, prompt: tuple[int, ...]) -> Iterator[tuple[int, int, Holders]]:
        """Along the prompt from its end: (start, end, holders) of every edge that it passes.

        A holder with n tokens knows the first start + n of the prompt, at most `end`. What stands
        on an edge stands on all those that follow, with less.
        """
        passed: list[tuple[int, int, Holders]] = []
        below, at = self._roots, 0
        while at < len(prompt):
            edge = below.get(prompt[at])
            if edge is None:
                break
            same = common_length(edge.tokens, prompt[at : at + len(edge.tokens)])
            passed.append((at, at + same, edge.holders))
            if same < len(edge.tokens):
                break
            below, at = edge.below, at + same
        return reversed(passed)


class _Edge:
    """Some tokens in a row, which workers hold them, and what follows. Mutable."""

    __slots__ = ("below", "holders", "tokens")

    def __init__(self, tokens: tuple[int, ...]) -> None:
        self.tokens = tokens
        self.holders: Holders = {}
        self.below: dict[int, _Edge] = {}

    def split(self, at: int) -> None:
        """Keeps the first `at` tokens and puts the others on an edge below."""
        rest = _Edge(self.tokens[at:])
        rest.holders = {worker: held - at for worker, held in self.holders.items() if held > at}
        rest.below = self.below
        self.tokens = self.tokens[:at]
        self.holders = {worker: min(held, at) for worker, held in self.holders.items()}
        self.below = {rest.tokens[0]: rest} if rest.holders else {}

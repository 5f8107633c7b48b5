"""Paged K/V storage in small: a pool of equal blocks, and per request a table of block numbers.

Positions i * block_size onwards lie in the physical block that entry i of the request's table
names. So a window can give back a block as soon as its last entry is out of sight, while a view
into one large buffer gives back nothing. Source: PagedAttention (Kwon et al., 2023), section 4.
"""

from typing import Any

from nanogpt.validate import check_int


class BlockPool:
    """Physical blocks 0 to num_blocks - 1 of `block_size` entries each, lent to requests.

    Mutable: `free_blocks` (ascending), `tables` and `num_tokens` by request, and `record`, to which
    every call appends {"words", "blocks": [{"owner", "filled", "outside"}], "tables": {"<id>":
    [block numbers, None where one was given back]}, "block_size"}. "outside" lists which entries of
    a block no query will see again. A call raises ValueError, and changes nothing, for a request
    without a table (`allocate`: with one), and when too few blocks are free.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        check_int("num_blocks", num_blocks, 1)
        check_int("block_size", block_size, 1)
        self.num_blocks, self.block_size = num_blocks, block_size
        self.free_blocks = list(range(num_blocks))
        self.tables: dict[int, list[int | None]] = {}
        self.num_tokens: dict[int, int] = {}
        self.record: list[dict[str, Any]] = []
        self._outside: dict[int, set[int]] = {}
        self._note(f"A pool of {num_blocks} blocks, {block_size} entries each, all free.")

    def allocate(self, request_id: int, num_tokens: int) -> None:
        """Store the first `num_tokens` entries of a new request in as many blocks as it takes."""
        check_int("num_tokens", num_tokens, 1)
        if request_id in self.tables:
            raise ValueError(f"request {request_id} has a table already")
        taken = self._take(request_id, -(-num_tokens // self.block_size))
        self.tables[request_id], self._outside[request_id] = [*taken], set()
        self.num_tokens[request_id] = num_tokens
        self._note(f"Request {request_id} brings {num_tokens} entries and gets {_named(taken)}.")

    def append(self, request_id: int) -> None:
        """Store one more entry of a request; when its last block is full, in a new one."""
        table, position = self._table(request_id), self.num_tokens[request_id]
        is_full = position % self.block_size == 0
        if is_full:
            table += self._take(request_id, 1)
        self.num_tokens[request_id] += 1
        why = "its last block was full, so it gets" if is_full else "there is room in"
        self._note(f"Request {request_id} stores position {position}: {why} block {table[-1]}.")

    def evict(self, request_id: int, window: int, sinks: int = 0) -> list[int]:
        """Give back blocks that hold no sink and none of the last `window` entries; return them."""
        check_int("window", window, 1)
        check_int("sinks", sinks, 0)
        table, freed = self._table(request_id), list[int]()
        self._outside[request_id] |= {*range(sinks, self.num_tokens[request_id] - window)}
        for index, block in enumerate(table):
            filled, outside = self._fill(request_id, index)
            if block is not None and filled == len(outside):
                table[index] = None
                freed.append(block)
        kept = f"its first {sinks} and last {window}" if sinks else f"its last {window}"
        return self._give_back(freed, f"Request {request_id} keeps {kept} positions")

    def free(self, request_id: int) -> list[int]:
        """Give back, and return, all blocks of a request that is done or preempted."""
        freed = [block for block in self._table(request_id) if block is not None]
        del self.tables[request_id], self.num_tokens[request_id], self._outside[request_id]
        return self._give_back(freed, f"Request {request_id} leaves")

    def check(self) -> None:
        """Assert that every block is free or lent once, and that no visible entry lost its own."""
        lent = [block for table in self.tables.values() for block in table if block is not None]
        assert sorted(lent + self.free_blocks) == list(range(self.num_blocks))
        for request_id, table in self.tables.items():
            assert len(table) == -(-self.num_tokens[request_id] // self.block_size)
            fills = [self._fill(request_id, index) for index in range(len(table))]
            assert [block is None for block in table] == [n == len(gone) for n, gone in fills]

    def _table(self, request_id: int) -> list[int | None]:
        if request_id not in self.tables:
            raise ValueError(f"request {request_id} has no table")
        return self.tables[request_id]

    def _take(self, request_id: int, wanted: int) -> list[int]:
        num_free = len(self.free_blocks)
        if wanted > num_free:
            raise ValueError(f"request {request_id} needs {wanted} blocks; {num_free} are free")
        taken, self.free_blocks = self.free_blocks[:wanted], self.free_blocks[wanted:]
        return taken

    def _give_back(self, freed: list[int], why: str) -> list[int]:
        self.free_blocks = sorted(self.free_blocks + freed)
        self._note(f"{why}. Given back: {_named(freed) if freed else 'no block'}.")
        return freed

    def _fill(self, request_id: int, index: int) -> tuple[int, list[int]]:
        """How many entries logical block `index` has, and which of them are outside."""
        start = index * self.block_size
        filled = min(self.block_size, self.num_tokens[request_id] - start)
        return filled, [at for at in range(filled) if start + at in self._outside[request_id]]

    def _note(self, words: str) -> None:
        nobodys: dict[str, Any] = {"owner": None, "filled": 0, "outside": []}
        blocks = [nobodys] * self.num_blocks
        for request_id, table in self.tables.items():
            for index, block in enumerate(table):
                if block is not None:
                    filled, outside = self._fill(request_id, index)
                    blocks[block] = {"owner": request_id, "filled": filled, "outside": outside}
        tables = {str(request_id): [*table] for request_id, table in self.tables.items()}
        size = self.block_size
        self.record.append({"words": words, "blocks": blocks, "tables": tables, "block_size": size})


def _named(blocks: list[int]) -> str:
    return f"block{'s' * (len(blocks) > 1)} {', '.join(map(str, blocks))}"

"""What the trace of a run with blocks says of the pool: plain data, step by step."""

from dataclasses import dataclass, fields

from nanogpt.trace import StepRecord


@dataclass(frozen=True, slots=True)
class BlocksRecord:
    """The pool after a step, and what the step did to it. Blocks are numbers from 0.

    `tables` are (request id, its blocks) of what runs; how often a block stands in them is its
    count. `idle` are free but still found by their hash, the next to give way first; what is in
    neither is empty. `evicted` are found no more; `published` are (block, hash) found from now on,
    and a hash stays with its block until that is evicted. `copied` are (from, to).
    """

    block_size: int
    num_blocks: int
    tables: tuple[tuple[int, tuple[int, ...]], ...]
    idle: tuple[int, ...]
    allocated: tuple[int, ...]
    freed: tuple[int, ...]
    evicted: tuple[int, ...]
    published: tuple[tuple[int, str], ...]
    copied: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockStepRecord(StepRecord):
    """A step's record in a run with blocks."""

    blocks: BlocksRecord


def with_blocks(record: StepRecord, blocks: BlocksRecord) -> BlockStepRecord:
    """The same step, and what it did to the pool."""
    same = {field.name: getattr(record, field.name) for field in fields(record)}
    return BlockStepRecord(**same, blocks=blocks)

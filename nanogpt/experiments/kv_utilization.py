"""How much K/V memory a step has taken, and how much of it holds tokens, in slots or in blocks."""

from nanogpt.trace import BlockStepRecord, StepRecord


def tokens_taken(step: StepRecord, size: int) -> int:
    """KV tokens that there is room for in the slots, or in the different blocks, that are taken."""
    if not isinstance(step, BlockStepRecord):
        return len(step.kv) * size
    return len({block for _, table in step.blocks.tables for block in table}) * size


def tokens_held(step: StepRecord, size: int) -> int:
    """Different KV tokens held, without a window: what several tables name is there once."""
    if not isinstance(step, BlockStepRecord):
        return step.kv_after
    # Only the last block of a table can have room, and no other table names that one.
    return tokens_taken(step, size) - sum(kv.kv_tokens_charged - kv.kv_tokens for kv in step.kv)

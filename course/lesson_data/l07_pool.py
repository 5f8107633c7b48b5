"""Lesson 7's run: six requests on nineteen blocks, four of which share a prefix."""

from collections.abc import Mapping
from dataclasses import replace

from msgspec import structs

from course.attempt import Attempt
from course.lesson_data.texts import arriving, served
from course.saved_answers import LoadedPolicies
from nanogpt import GPT, EngineConfig, Trace
from nanogpt.trace import BlockStepRecord

BLOCK_SIZE = 8
SETTINGS = EngineConfig(
    token_budget=48, max_batch_size=3, max_kv_tokens=19 * BLOCK_SIZE, block_size=BLOCK_SIZE,
    share_prefixes=True, temperature=1.0,
)  # fmt: skip
_ALIKE = "JULIET:\nO Romeo, Romeo! Where is"  # 32 tokens: four blocks
six_requests = arriving(
    (0, _ALIKE + " the moon tonight?\n", 10),
    (3, _ALIKE + " thy voice? Speak again", 12),
    (5, "ROMEO:\nO, she is my love, and yet", 10),  # the third block is " my love"
    (14, _ALIKE + " the moon tonight?\nIs it the sun", 8),
    (22, "NURSE:\nMadam! Your mother craves a word", 9),
    (29, _ALIKE + " my love, my lord?", 8),  # the fifth block is " my love"
)
BLAME = (
    "A request reads K/V that was computed for other tokens. Step to the first difference, and "
    "look at the block that it found or wrote."
)


def run_report(
    attempts: Mapping[str, Attempt],
    earlier: LoadedPolicies,
    model: GPT,
    yours: Trace,
    reference: Trace,
) -> str:
    """Whose policies the run used, whether its texts are the oracle's, and its counts; Markdown."""
    return served(
        attempts, six_requests(), model, SETTINGS, by_number(yours), by_number(reference), BLAME,
        earlier=f"From earlier lessons: {earlier.sentence}", counted=_counted(yours),
    )  # fmt: skip


def by_number(trace: Trace) -> Trace:
    """The run with its hashes numbered as they first appear, so that two hash functions compare."""
    numbers: dict[str, str] = {}
    steps = [
        structs.replace(
            step,
            blocks=replace(
                step.blocks,
                published=tuple(
                    (block, numbers.setdefault(block_hash, str(len(numbers))))
                    for block, block_hash in step.blocks.published
                ),
            ),
        )
        for step in trace.steps
        if isinstance(step, BlockStepRecord)
    ]
    return replace(trace, steps=tuple(steps))


def found_tokens(trace: Trace) -> int:
    """How many tokens requests found in cached blocks when they were admitted."""
    return sum(hit.num_tokens for step in trace.steps for hit in step.prefix_hits)


def computed_tokens(trace: Trace) -> int:
    """How many known tokens prefills computed."""
    return sum(forward.prefill_tokens for step in trace.steps for forward in step.forwards)


def _counted(trace: Trace) -> str:
    return (
        f"Prefills computed {computed_tokens(trace)} tokens; {found_tokens(trace)} more were found "
        "in cached blocks."
    )


def nothing_ran(trace: Trace) -> str:
    """The sentence shown in place of a pool when the run has no step."""
    return f"No step ran, so there is no pool to draw. {trace.error}"

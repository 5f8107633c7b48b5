"""A run as the lines of text that the posts print."""

from collections.abc import Sequence

from nanogpt.experiments.trace_waits import wait_reasons
from nanogpt.trace import StepRecord, Trace, WaitRecord


def step_log(trace: Trace) -> str:
    """The run as text, one line per step: what prefills, decodes, waits, was preempted."""
    return "\n".join(map(_step_line, trace.steps, wait_reasons(trace)))


def _step_line(step: StepRecord, waits: Sequence[WaitRecord]) -> str:
    prefills = [f"{w.request_id}[{w.start}:{w.end}]" for w in step.work if w.kind == "prefill"]
    decodes = [work.request_id for work in step.work if work.kind == "decode"]
    waiting = [wait.request_id for wait in waits]
    line = f"[step {step.step}] prefill={', '.join(prefills) or None} decode={decodes} "
    line += f"waiting={waiting} kv={step.kv_after}"
    return line + (f" preempted={list(step.preempted)}" if step.preempted else "")

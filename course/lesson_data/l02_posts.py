"""The four tests of the scheduling post, with its own calls, on the learner's policies."""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from course.attempt import Attempt
from course.calling.jobs import RunError
from course.calling.policies import Policy
from course.lesson_data.texts import oracle
from course.replay import Rerun
from nanogpt import GPT, EngineConfig, Policies, Request, Trace, decode, encode, scheduled_generate
from nanogpt.posts.post_engine import PostScheduler


class PostTest(NamedTuple):
    """One of the four: whether its assertions hold, and what it prints."""

    name: str
    passed: bool
    said: str


def passed_policies(attempts: Mapping[str, Attempt]) -> Policies:
    """The reference's policies, with the learner's functions that have passed their checks."""
    passed: dict[str, Any] = {
        name: Policy(each.function)
        for name, each in attempts.items()
        if each.function is not None and each.report.status == "passed"
    }
    return Policies(**passed)


def post_tests(model: GPT, policies: Policies) -> list[PostTest]:
    """Run them; the third and fourth have the post's KV budget of 22, so that request 0 must go.

    Raises: RunError.
    """
    return _run_of(model)(policies)


@functools.cache
def _run_of(model: GPT) -> Rerun[Policies, list[PostTest]]:
    return Rerun(
        lambda policies: [
            _first_come(model, policies),
            _two_policies(model, policies),
            *_under_pressure(model, policies),
        ],
        Policies(),
    )


def tests_table(model: GPT, policies: Policies) -> str:
    """The four tests as a folded Markdown table."""
    try:
        tests = post_tests(model, policies)
    except RunError as error:
        return f"The tests stopped: {error}."
    rows = [f"| {t.name} | {'yes' if t.passed else '**no**'} | {t.said} |" for t in tests]
    title = "/// details | For readers of the post: its four tests, on your functions\n"
    head = "| the post's test | passed | what it prints |\n|:--|:--|:--|"
    return "\n".join([title, head, *rows, "\n///"])


def _serve(
    model: GPT, policies: Policies, requests: list[Request], policy: str, max_kv_tokens: int = 256
) -> tuple[PostScheduler, Trace]:
    done = scheduled_generate(
        model, requests, policy, token_budget=16, max_kv_tokens=max_kv_tokens, policies=policies,
        max_steps=300,
    )  # fmt: skip
    assert done.trace is not None
    return done, done.trace


def _first_come(model: GPT, policies: Policies) -> PostTest:
    prompts = ("O Romeo, ", "To be or ", "KING HENRY:\n")
    requests = [Request(i, encode(prompt), 10) for i, prompt in enumerate(prompts)]
    _, trace = _serve(model, policies, requests, "fcfs")
    order = [i for step in trace.steps for i in step.finished]
    # The post only claims it: each text is that of the request alone.
    alone = all(r.generated_tokens == oracle(model, EngineConfig(), r) for r in requests)
    return PostTest("1. FCFS completes all", order == [0, 1, 2] and alone, f"in the order {order}")


def _two_policies(model: GPT, policies: Policies) -> PostTest:
    first = {
        policy: _serve(
            model,
            policies,
            [
                Request(0, encode("A " * 15), 3, priority=2),
                Request(1, encode("B " * 3), 3, priority=0),
            ],
            policy,
        )[1].steps[0].admitted
        for policy in ("fcfs", "priority")
    }  # fmt: skip
    said = ", ".join(f"{policy} admits {list(ids)}" for policy, ids in first.items())
    return PostTest("2. Priority goes first", first == {"fcfs": (0,), "priority": (1,)}, said)


def _under_pressure(model: GPT, policies: Policies) -> tuple[PostTest, PostTest]:
    def as_and_bs() -> list[Request]:
        return [
            Request(0, encode("A " * 5), 10, priority=2),
            Request(1, encode("B " * 5), 5, priority=0),
        ]

    pressed, baseline = as_and_bs(), as_and_bs()[0]
    squeezed, trace = _serve(model, policies, pressed, "priority", max_kv_tokens=22)
    _serve(model, policies, [baseline], "fcfs")
    ids = [request.id for request in squeezed.preempted]
    done = all(request.status == "done" for request in pressed)

    stressed = pressed[0]
    works = [w for step in trace.steps for w in step.work if w.request_id == 0]
    held = works[-1].end  # before its last token released everything
    expected = len(stressed.prompt_tokens) + stressed.num_generated - 1
    equal = stressed.generated_tokens == baseline.generated_tokens
    mark = "✓" if held == expected else "✗"
    said = (
        f"`Baseline: {decode(baseline.tokens_so_far)!r}`<br>"
        f"`Stressed: {decode(stressed.tokens_so_far)!r}`<br>`KV cache length: {held} {mark}`"
    )
    return (
        PostTest("3. A budget of 22 preempts", ids == [0] and done, f"`Preempted IDs: {ids}`"),
        PostTest("4. KEY CHECK: prompt + generated - 1", held == expected and equal, said),
    )

"""A lesson's run with a learner's parts: what they print is shown, as much as a page bears."""

import pytest
from fakes import tiny_model
from lockstep import arrivals_of

from course.observed_call import Shown
from course.replay import replay
from nanogpt import Engine, EngineConfig, Parts


def printing(text: str, times: int = 1) -> Parts:
    """The reference's plans, made by a part that prints."""

    def plan_step(*offer):
        for _ in range(times):
            print(text)  # noqa: T201
        return Parts().plan_step(*offer)

    return Parts(plan_step=plan_step)


def run_with(parts: Parts) -> int:
    engine = Engine(tiny_model(), EngineConfig(token_budget=4), parts)
    trace = replay(engine, arrivals_of([(0, 9, 5, 0), (1, 3, 4, 0)]))
    assert trace.error is None
    return len(trace.steps)


def test_what_a_part_prints_is_shown_in_its_order(capsys: pytest.CaptureFixture[str]) -> None:
    num_steps = run_with(printing("a plan"))
    print("afterwards")  # noqa: T201
    assert capsys.readouterr().out == "a plan\n" * num_steps + "afterwards\n"


@pytest.mark.parametrize(("text", "times"), [("x" * 10_000_000, 1), ("x" * 9, 5_000)])
def test_a_flood_is_cut_once_and_what_comes_after_the_run_is_shown(
    text: str, times: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run_with(printing(text, times))
    print("afterwards")  # noqa: T201
    out = capsys.readouterr().out
    assert out.count("(the rest was cut)") == 1
    assert 50_000 <= len(out) < 50_100 and out.endswith("\nafterwards\n")


def test_all_calls_of_a_function_share_one_limit(capsys: pytest.CaptureFixture[str]) -> None:
    def loud(number: int) -> int:
        print("x" * 1_000)  # noqa: T201
        return number + 1

    bounded = Shown().around(loud)
    assert [bounded(number) for number in range(100)] == list(range(1, 101))
    assert 50_000 <= len(capsys.readouterr().out) < 50_100

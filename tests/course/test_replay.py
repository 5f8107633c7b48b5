"""What a learner's functions print in a lesson's run is shown, as much as a page can take."""

from fakes import tiny_model
from lockstep import arrivals_of

from course.observed_call import Shown
from course.replay import replay
from nanogpt import Engine, EngineConfig, Parts


def run_printing(text: str) -> int:
    def plan_step(*offer):
        print(text)  # noqa: T201
        return Parts().plan_step(*offer)

    engine = Engine(tiny_model(), EngineConfig(token_budget=4), Parts(plan_step=plan_step))
    trace = replay(engine, arrivals_of([(0, 9, 5, 0), (1, 3, 4, 0)]))
    assert trace.error is None
    return len(trace.steps)


def test_what_a_part_prints_is_shown_in_its_order_and_a_flood_is_cut_once(capsys):
    num_steps = run_printing("a plan")
    print("afterwards")  # noqa: T201
    assert capsys.readouterr().out == "a plan\n" * num_steps + "afterwards\n"
    run_printing("x" * 100_000)
    print("afterwards")  # noqa: T201
    out = capsys.readouterr().out
    assert out.count("(the rest was cut)") == 1
    assert 50_000 <= len(out) < 50_100 and out.endswith("\nafterwards\n")


def test_all_calls_of_a_function_share_one_limit(capsys):
    def loud(number: int) -> int:
        print("x" * 1_000)  # noqa: T201
        return number + 1

    bounded = Shown().around(loud)
    assert [bounded(number) for number in range(100)] == list(range(1, 101))
    assert 50_000 <= len(capsys.readouterr().out) < 50_100

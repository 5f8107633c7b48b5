"""The benchmarks' figures: their curves are the records that the text is printed from."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from benchmarks import (
    batches,
    blocks,
    engine,
    fleet,
    grading,
    growth,
    live,
    pages,
    preemption,
    server,
    window,
)
from nanogpt.figures import Chart, Mark

PNG = b"\x89PNG\r\n"


def curves(chart: Chart) -> list[dict[str, tuple[tuple[float, float], ...]]]:
    """Each panel's points by the names of its curves."""
    return [{line.name: line.points for line in panel.lines} for panel in chart.panels]


def test_the_engine_is_drawn_beside_the_contenders_of_its_targets() -> None:
    def row(load: str, requests: int, contender: str, *repeats: float) -> engine.Row:
        named = {"model": "character", "load": load, "contender": contender}
        middle = sorted(repeats)[len(repeats) // 2]
        return {**named, "requests": requests, "tokens_per_s": middle, "repeats": list(repeats)}

    rows = [
        row("mixed-8", 8, "packed", 750, 700, 800),
        row("mixed-8", 8, "padded", 500, 540, 560),
        row("mixed-8", 8, "baseline", 140, 150, 145),
        row("mixed-8", 8, "products", 1100, 1000, 1200),
        row("decode-1", 1, "packed", 300, 310, 380),
        row("decode-1", 1, "products", 500, 510, 520),
        row("decode-1", 1, "baseline", 160, 150, 155),
        row("decode-32", 32, "packed", 3000, 2900, 3100),
        row("decode-32", 32, "baseline", 700, 720, 710),
    ]
    thirds = (100 / 3, 200 / 3, 100)
    chart = engine.chart(rows, "a CPU")
    assert curves(chart) == [
        {
            "packed": tuple(zip((700, 750, 800), thirds, strict=True)),
            "baseline": tuple(zip((140, 145, 150), thirds, strict=True)),
            "products": tuple(zip((1000, 1100, 1200), thirds, strict=True)),
        },
        {"packed": ((1, 310), (32, 3000)), "baseline": ((1, 155), (32, 710))},
    ]
    assert curves(engine.chart(rows[:4], "a CPU")) == curves(chart)[:1]


def test_every_target_is_about_contenders_that_are_drawn() -> None:
    rows = [
        {"model": "character", "load": load.name, "contender": name, "tokens_per_s": 1.0}
        for load in engine.loads(quick=True)
        for name in engine.DRAWN
    ]
    assert len(engine.targets(rows)) == 3 + 4


def test_blocks_are_drawn_by_their_size_beside_slots() -> None:
    memories = [
        blocks.Memory(None, 30, 120, 100, 0),
        blocks.Memory(1, 50, 50, 100, 40),
        blocks.Memory(16, 60, 80, 100, 32),
    ]
    hits = [{"hit": 0, "ttft_ms": 20.0}, {"hit": 496, "ttft_ms": 4.0}]
    costs = [
        blocks.Timed("decode-8", "blocks of 1", 40, (1.5, 1.25)),
        blocks.Timed("decode-8", "blocks of 16", 40, (1, 1.125)),
        blocks.Timed("mixed-8", "blocks of 16", 40, (2,)),
    ]
    chart = blocks.chart(memories, hits, costs, "a CPU")
    assert curves(chart) == [
        {
            "taken K/V that holds tokens": ((1, 100), (16, 75)),
            "prompt tokens found": ((1, 40), (16, 32)),
        },
        {"blocks of 16": ((0, 20), (496, 4))},
        {"blocks of 1": ((1.25, 50), (1.5, 100)), "blocks of 16": ((1, 50), (1.125, 100))},
        {"blocks of 16": ((2, 100),)},
    ]
    assert chart.panels[0].marks == (Mark("y", 25, "taken, in slots"),)


def test_a_window_is_drawn_by_every_repeat_beside_the_full_cache() -> None:
    rows = [
        window.Row("decode-3", 20, "packed", 9, {"ring": [1, 0.8], "evict": [0.5, 0.6]}, 120, 60),
        window.Row("decode-3", 20, "padded", 9, {"ring": [1], "evict": [0.9]}, 120, 60),
        window.Row("4 x 300", 32, "packed", 9, {"ring": [1.25], "evict": [0.75]}, 1800, 100),
    ]
    chart = window.chart(rows, "a CPU")
    assert [panel.x[0] for panel in chart.panels] == [
        "speed, decode-3, window 20",
        "speed, 4 x 300, window 32",
    ]
    assert curves(chart) == [
        {
            "packed, ring": ((0.8, 50), (1, 100)),
            "packed, evict": ((0.5, 50), (0.6, 100)),
            "padded, ring": ((1, 100),),
            "padded, evict": ((0.9, 100),),
        },
        {"packed, ring": ((1.25, 100),), "packed, evict": ((0.75, 100),)},
    ]
    assert {panel.marks for panel in chart.panels} == {(Mark("x", 1, "full cache"),)}


def test_fleets_are_drawn_without_a_trace_beside_what_is_promised() -> None:
    rows = [
        {"policy": policy, "cost": cost, "trace": trace, "repeats": [2 * speed, speed]}
        for policy, cost, trace, speed in (
            ("adaptive", "source", False, 150),
            ("adaptive", "source", True, 130),
            ("fifo", "source", False, 600),
            ("adaptive", "calibrated", False, 120),
        )
    ]
    grown = [{"workers": 4, "us_per_request": 90}, {"workers": 1024, "us_per_request": 120}]
    chart = fleet.chart(rows, grown, "a CPU")
    assert curves(chart) == [
        {"adaptive": ((150, 50), (300, 100)), "fifo": ((600, 50), (1200, 100))},
        {"adaptive": ((120, 50), (240, 100))},
        {"adaptive, calibrated": ((4, 90), (1024, 120))},
    ]
    assert {panel.marks for panel in chart.panels[:2]} == {(Mark("x", 100, "wanted"),)}


def test_a_fleet_that_grows_takes_its_load_along_and_is_held_to_two_of_its_sizes() -> None:
    grown = fleet.grow(20, 0.001, 1, "cpu")
    assert [(row["workers"], row["requests_per_s"]) for row in grown] == [
        (4, 30), (16, 120), (64, 480), (256, 1920), (1024, 7680),
    ]  # fmt: skip
    for row in grown:
        arrivals_per_s = 1e6 / row["us_per_request"]
        assert (
            0
            < row["times_real_time"]
            == pytest.approx(
                arrivals_per_s * max(0.001, 20 / row["requests_per_s"]) / row["requests"]
            )
        )
    assert [(what, wanted) for what, wanted, _ in fleet.targets([], grown)] == [
        ("adaptive, 4 workers at 30 requests/s", 300),
        ("adaptive, 1,024 workers at 7,680 requests/s", 1),
    ]


def test_what_the_urgent_request_gains_is_drawn_against_what_the_long_one_loses() -> None:
    runs = {
        "off": [preemption.Outcome(urgent, 570, None, None, None) for urgent in (460, 480, 530)],
        "abort, vote": [preemption.Outcome(83, 836, 25.2, 1087, 3)],
    }
    chart = preemption.chart(runs, "a CPU")
    assert curves(chart) == [
        {"off": ((460, 570), (480, 570), (530, 570)), "abort, vote": ((83, 836),)}
    ]
    assert chart.panels[0].marks == (Mark("x", 240, "wanted at most"),)


def test_growth_is_drawn_by_how_many_there_are() -> None:
    rows = [
        *({"what": "step", "n": n, "ms": [1, 2, 4], "median_ms": 2} for n in (10, 10_000)),
        {"what": "drained request", "n": 200, "ms": [0.5], "median_ms": 0.5},
        {"what": "trace", "n": 1000, "mb": 2.1, "steps": 1.9, "requests": 0.2},
        {"what": "memory", "n": 1000, "keep_steps": None, "mib": 6.5},
        {"what": "memory", "n": 1000, "keep_steps": 100, "mib": 0.5},
    ]
    assert curves(growth.chart(rows, "a CPU")) == [
        {"median": ((10, 2), (10_000, 2))},
        {"median": ((200, 0.5),)},
        {"trace": ((1000, 2.1),), "its steps": ((1000, 1.9),)},
        {"every step kept": ((1000, 6.5),), "100 steps kept": ((1000, 0.5),)},
    ]


def test_a_class_is_drawn_by_the_seconds_of_each_submission() -> None:
    rows = [
        grading.Row("typical", 9, (0.1, 0.2), {"passed": 10}),
        grading.Row("5% endless", 9, (0.1, 0.2, 0.3, 10), {"timeout": 1}),
    ]
    assert grading.as_json(rows[1]) == {
        "name": "5% endless",
        "submissions": 4,
        "seconds": 9,
        "each_s": (0.1, 0.2, 0.3, 10),
        "per_s": 4 / 9,
        "p50_s": 0.25,
        "p95_s": 10,
        "timed_out": 1,
        "statuses": {"timeout": 1},
    }
    chart = grading.chart(rows, "l01_chunked_prefill", "a CPU")
    assert chart.title == "Grading l01_chunked_prefill"
    assert curves(chart) == [
        {
            "typical": ((0.1, 50), (0.2, 100)),
            "5% endless": ((0.1, 25), (0.2, 50), (0.3, 75), (10, 100)),
        }
    ]


def test_pages_are_drawn_by_what_a_learner_waits_for() -> None:
    openings = [pages.Opening(2.5, 4, 5), pages.Opening(1.5, 3, 4)]
    chart = pages.chart(openings, [pages.Edit(240, 350, 480)], "a CPU")
    assert curves(chart) == [
        {
            "heading": ((1.5, 50), (2.5, 100)),
            "first verdict": ((3, 50), (4, 100)),
            "first picture": ((4, 50), (5, 100)),
        },
        {"verdict": ((240, 100),), "last picture": ((350, 100),), "last cell": ((480, 100),)},
    ]
    assert curves(pages.chart(openings, [], "a CPU")) == curves(chart)[:1]


def test_a_room_is_drawn_by_its_first_tokens() -> None:
    guest = live.Socket(None)
    loads = {"apart": [(guest, 103.0), (guest, 90.0)], "at once": [(guest, 1969.0)]}
    assert curves(live.chart(loads, "a CPU")) == [
        {"apart": ((90, 50), (103, 100)), "at once": ((1969, 100),)}
    ]


def test_a_server_is_drawn_by_its_wall_time_over_the_engines() -> None:
    rows = [
        server.Row(1, [300, 310], {"every step": [1.2, 1.1], "usual": [1.0, 1.05]}, {}),
        server.Row(32, [90], {"every step": [1.14]}, {"every step": [9.0]}),
    ]
    chart = server.chart(rows, "a CPU")
    assert [panel.x[0] for panel in chart.panels] == [
        "wall time, 1 stream",
        "wall time, 32 streams",
    ]
    assert curves(chart) == [
        {"every step": ((1.1, 50), (1.2, 100)), "usual": ((1.0, 50), (1.05, 100))},
        {"every step": ((1.14, 100),)},
    ]
    assert {panel.marks for panel in chart.panels} == {(Mark("x", 1.15, "wanted at most"),)}


def test_batches_are_drawn_by_their_steps_and_memory_a_curve_per_context() -> None:
    rows = [
        batches.Row(32, 1, 2.0, 80.0),
        batches.Row(32, 8, 4.0, 90.0),
        batches.Row(512, 1, 5.0, 81.5),
    ]
    assert curves(batches.chart(rows, "a CPU")) == [
        {"context 32": ((1, 2.0), (8, 4.0)), "context 512": ((1, 5.0),)},
        {"context 32": ((1, 500.0), (8, 2000.0)), "context 512": ((1, 200.0),)},
        {"context 32": ((1, 80.0), (8, 90.0)), "context 512": ((1, 81.5),)},
    ]


def live_main(arguments: list[str]) -> None:
    asyncio.run(live.main(arguments))


@pytest.mark.parametrize(
    "main",
    [
        *(
            each.main
            for each in (blocks, engine, growth, window, fleet, preemption, grading, pages)
        ),
        server.main,
        batches.main,
        live_main,
    ],
)
def test_a_benchmark_draws_into_a_png_or_svg_alone(
    main: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--plot", "run.pdf"])
    assert capsys.readouterr().err.endswith("--plot: 'run.pdf' does not end in .png or .svg\n")


def test_a_benchmark_draws_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fleet, "RPS", 1.0)
    file = tmp_path / "fleet.png"
    fleet.main(["--quick", "--plot", str(file)])
    assert file.read_bytes().startswith(PNG)
    assert "x real time" in capsys.readouterr().out

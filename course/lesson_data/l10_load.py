"""Behind lesson 10's load sweep: an open and a closed loop of clients, on the modelled clock."""

import functools
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from course.calling.jobs import RunError, run
from nanogpt import Engine, EngineConfig, Request
from nanogpt.clock import LARGE_GPU
from nanogpt.contest.scoring import PatientClock
from nanogpt.experiments.trace_metrics import percentile
from nanogpt.figures.drawing import course_style, curve, label_axes, mark, new_figure
from nanogpt.recorded_texts import RecordedTexts
from nanogpt.server import ServerSettings
from nanogpt.server.admission import AdmissionControl, admission_limits
from nanogpt.server.server_policies import AdmissionPolicy, NewRequest, Verdict

RATES = (30, 40, 50, 60, 80)
CLIENTS = (4, 8, 16, 32, 64)
NUM_REQUESTS, NUM_WARMUPS = 240, 80
TTFT_SLO_MS = 500
SETTINGS = ServerSettings(max_requests=32)


@dataclass(frozen=True, slots=True)
class Point:
    """A run: requests sent per second, those within the SLO, and the p99 TTFT of the served."""

    sent_per_s: float
    goodput: float
    ttft_p99_ms: float


def admit_all(*_: object) -> Verdict:
    """Admission without a limit."""
    return "accept"


def poisson(rate: float, seed: int = 0) -> list[int]:
    """Arrival times of an open loop, in microseconds: its clients do not wait for answers.

    Poisson arrivals, given their number, are uniform in time. The pattern is the same at every
    rate, which is that of the counted requests.
    """
    draw = random.Random(f"arrivals, seed {seed}")
    times = sorted(draw.random() for _ in range(NUM_REQUESTS))
    scale = (NUM_REQUESTS - NUM_WARMUPS) / rate / (times[-1] - times[NUM_WARMUPS])
    return [round(time * scale * 1e6) for time in times]


def serve(arrivals_us: Sequence[int], admission: AdmissionPolicy) -> Point:
    """Serve a load; fewer arrivals than `NUM_REQUESTS` are clients of a closed loop."""
    clock, draw = PatientClock(LARGE_GPU), random.Random("lengths")
    engine = Engine(
        RecordedTexts(), EngineConfig(token_budget=32, max_batch_size=16, keep_steps=1), clock=clock
    )
    queue, limits = AdmissionControl(), admission_limits(engine, SETTINGS)
    pending, sent_us, ttfts_ms = deque(arrivals_us), list[int](), dict[int, float]()
    while pending or not engine.scheduler.is_done():
        if engine.scheduler.is_done():
            clock.wait_until(pending[0])
        while pending and pending[0] <= clock.now_us():
            request = Request(len(sent_us), [0] * draw.randint(16, 48), draw.randint(8, 40))
            new = NewRequest(len(request.prompt_tokens), request.max_new_tokens)
            sent_us.append(pending.popleft())
            if admission(queue.queue(is_closing=False), limits, new) == "accept":
                queue.unfinished.add(request.id)
                engine.submit(request)
        if engine.scheduler.is_done():  # every request was refused
            continue
        step = engine.step()
        num_tokens = sum(len(work.tokens) for work in step.work)
        queue.throughput.step(num_tokens, (step.end_us - step.start_us) / 1e6)
        queue.note_running(engine)
        for work in step.work:
            if work.tokens:
                ttfts_ms.setdefault(work.request_id, (step.end_us - sent_us[work.request_id]) / 1e3)
        for request_id in step.finished:
            queue.ended(request_id)
            if len(arrivals_us) < NUM_REQUESTS and len(sent_us) + len(pending) < NUM_REQUESTS:
                pending.append(step.end_us)
    return _measured(sent_us, ttfts_ms)


def _measured(sent_us: Sequence[int], ttfts_ms: dict[int, float]) -> Point:
    """Rates and p99 of the requests after the warm-up."""
    seconds = (sent_us[-1] - sent_us[NUM_WARMUPS]) / 1e6
    served = [ms for request_id, ms in ttfts_ms.items() if request_id >= NUM_WARMUPS]
    good = sum(ms <= TTFT_SLO_MS for ms in served)
    counted = NUM_REQUESTS - NUM_WARMUPS
    return Point(counted / seconds, good / seconds, percentile(served, 0.99))


# --- the sweep ------------------------------------------------------------------------------------


@functools.cache
def open_loop() -> list[Point]:
    """Clients that send at a rate, whatever the server does; every request is admitted."""
    return [serve(poisson(rate), admit_all) for rate in RATES]


@functools.cache
def closed_loop() -> list[Point]:
    """Clients that each send the next request when they have the last answer."""
    return [serve([0] * num_clients, admit_all) for num_clients in CLIENTS]


def limited(admission: AdmissionPolicy) -> list[Point] | str:
    """The open loop with this admission, in a process of its own; or why it stopped."""
    try:
        return run(lambda rule: [serve(poisson(rate), rule) for rate in RATES], admission)
    except RunError as error:
        return f"The run with your `admission_control` stopped: {error}"


@course_style()
def load_chart(with_limit: list[Point] | str) -> Figure | str:
    """Goodput and p99 TTFT by the requests sent per second: a curve for each kind of load."""
    if isinstance(with_limit, str):
        return with_limit
    loads = {
        "open loop, no limit": open_loop(),
        "open loop, admission_control": with_limit,
        "closed loop, 4 to 64 clients": closed_loop(),
    }
    figure = new_figure("A load sweep of one engine", 2, f"modelled: {LARGE_GPU.name}")
    goodput, ttft = figure.axes
    for name, points in loads.items():
        curve(goodput, name, [(each.sent_per_s, each.goodput) for each in points])
        curve(ttft, name, [(each.sent_per_s, each.ttft_p99_ms) for each in points])
    mark(ttft, f"SLO: {TTFT_SLO_MS} ms", y=TTFT_SLO_MS)
    label_axes(goodput, "requests sent per second", "goodput (requests/s within the SLO)")
    label_axes(ttft, "requests sent per second", "p99 TTFT of served requests (ms)")
    return figure

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="7 · Serving with a fleet")

with app.setup(hide_code=True):
    import heapq
    import json
    import random
    from collections import Counter
    from collections.abc import Callable
    from dataclasses import replace
    from pathlib import Path
    from statistics import fmean, median

    import marimo as mo

    import course
    from course.attempt import attempt, exhibit, piece
    from course.prediction import after, hints, predict
    from course.task import task
    from nanogpt import Engine, EngineConfig, Request, decode, encode, load_model
    from nanogpt.fleet import (
        ADAPTIVE,
        AS_SOURCE,
        CALIBRATED_COST,
        COSTS,
        FIFO,
        SOURCE_COST,
        FleetConfig,
        FleetParts,
        FleetRequest,
        FleetSnapshot,
        Simulation,
        WaitingView,
        WorkerView,
        Workload,
        make_workload,
        policy,
        simulate,
    )
    from nanogpt.fleet.comparing import compare
    from nanogpt.fleet.costs import decode_us
    from nanogpt.fleet.dispatching import Dispatcher
    from nanogpt.fleet.heap_story import heap_story
    from nanogpt.fleet.metrics import Metrics
    from nanogpt.fleet.tracing import Tracer
    from nanogpt.guard import PartError, run_limited
    from nanogpt.workers.fleet import Fleet, WorkersFailed
    from nanogpt.workers.routing import RoundRobin
    from widgets import FleetView, LazyHeap, PairedSeeds


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 7 · Serving with a fleet

    **65 minutes.** Builds on lesson 2 (queues, priorities, starvation) and lesson 5 (deadlines and slack).
    Afterwards you can keep a queue in which requests change their rank and leave, say who is urgent, send each request to the worker that
    will be done with it first, and judge from many seeds whether any of this was worth it.

    ## Four workers and one stream

    One engine is full. So there are four now, called *workers*: each with a batch of 32, 2,048 KV tokens and a prefix cache of its own. In front
    of them there is one stream of requests, every one with a priority from 0, the highest, to 9, and a deadline for its last token. When somebody waits and somewhere there is room, a
    scheduler decides: **who goes next, and where to?**

    The fleet is simulated, on a virtual clock, so that a run of twenty seconds takes less than one, and the same seed gives the same run to the microsecond. **All times are modelled** unless it
    says otherwise; at the end, two real engines do the same in processes of their own.
    """)
    return


@app.cell
def _():
    QUIET = make_workload("steady", 30, 4, seed=42)  # 30 requests per second for 4 s

    quiet_run = simulate(ADAPTIVE, QUIET, trace=True)
    FleetView(quiet_run.trace.to_json(), "Thirty requests per second (modelled)", zoom=3)
    return (quiet_run,)


@app.cell(hide_code=True)
def _(quiet_run):
    mo.md(f"""
    A lane is a worker: hatched a prefill, blue the decodes of its batch. Step with the arrows from event to event. {quiet_run.totals.arrived} requests came, hardly anybody waited (TTFT: median
    {quiet_run.totals.ttft_p50_ms:.1f} ms, 99th percentile {quiet_run.totals.ttft_p99_ms:.0f} ms), and any order would have done. So let there be ten times as many.
    """)
    return


@app.function(hide_code=True)
def ms(value: float | None) -> str:
    """Milliseconds as they are read: 8.4, 75, 1,299."""
    if value is None:
        return "none"
    return f"{value:.1f}" if abs(value) < 20 else f"{value:,.0f}"


@app.cell
def _():
    RUSH = make_workload("steady", 300, 4, seed=42)  # more than four workers can take

    UNAGED = replace(ADAPTIVE, name="by priority", order="priority", ageing_us=None)
    ARRIVAL = replace(UNAGED, name="by arrival", order="fifo")

    rush_runs = {config.name: simulate(config, RUSH) for config in (UNAGED, ARRIVAL)}
    return RUSH, UNAGED, rush_runs


@app.cell(hide_code=True)
def _(RUSH, rush_runs):
    def _facts():
        one, other = rush_runs["by priority"].totals, rush_runs["by arrival"].totals
        return (
            f"The median falls from {ms(other.ttft_p50_ms)} ms to **{ms(one.ttft_p50_ms)} ms**, the 99th percentile rises from {ms(other.ttft_p99_ms)} ms to "
            f"**{ms(one.ttft_p99_ms)} ms**. {one.violations} of {one.arrived:,} deadlines are missed instead of {other.violations}. "
        )

    predict(
        "l07.overload",
        f"{len(RUSH.requests):,} requests arrive within four seconds, 300 per second. The queue is ordered by priority and then deadline in one run, by arrival in the other; nothing else "
        "differs. **What does the priority queue do to the time to first token?**",
        (
            "Median and 99th percentile both get better",
            "The median gets better, the 99th percentile worse",
            "The median gets worse, the 99th percentile better",
            "Little: the same tokens are to be computed by the same workers",
        ),
        1,
        f"{_facts()}Most requests pass quickly, because a few wait for nearly everybody else. Who looks at medians alone ships this. "
        "(By arrival, nobody overtakes the first in line who does not fit anywhere; by priority, those behind may.)",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l07.overload",
        mo.md(r"""
    You will find out who these few are, and get both figures down. First the queue itself.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Build it

    ### Who goes next?

    A heap gives the smallest key in a few steps, however many wait. But requests do not lie still in it: one becomes urgent and gets a new key, one is withdrawn. Finding an
    entry inside a heap means looking through all of it. So nobody looks: **the old entry stays, and it is enough to know later that it does not count.** Every request has a counter, its
    *generation*, and every entry carries the number that it was pushed with.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l07.on_event")
    return


@app.function
def on_event(
    heap: list[tuple[tuple, int, int]], generations: dict[int, int], event: tuple
) -> tuple[list[tuple[tuple, int, int]], dict[int, int], int | None]:
    """Return `(heap, generations, popped)` as they are after one event in a queue of requests."""
    raise NotImplementedError("Exercise 7.1: a heap in which entries go stale")


@app.cell(hide_code=True)
def _():
    event_attempt = attempt("l07.on_event", lambda: on_event)
    event_attempt
    return (event_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l07.on_event")
    return


@app.cell(hide_code=True)
def _(event_attempt):
    A_MORNING = (
        ("push", 3, (6, 500)),  # (priority, deadline)
        ("push", 5, (2, 900)),
        ("push", 7, (4, 700)),
        ("push", 3, (4, 500)),  # request 3 has become urgent
        ("remove", 5),  # request 5 was withdrawn
        ("push", 5, (6, 999)),  # and comes back, no longer important
        ("pop",),
        ("pop",),
        ("pop",),
        ("pop",),
    )

    def _picture():
        mine = event_attempt.started
        story = heap_story(event_attempt.function if mine else policy.on_event, A_MORNING)
        whose = "by your on_event" if mine else "by the reference: your on_event is not written yet"
        return LazyHeap(story, f"A queue, {whose}")

    _picture()
    return (A_MORNING,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Step through it. Request 3 lies in the heap twice from its second push on, request 5 from its own; only one of each counts. The number alone tells which, and it has to
    go one way only. You will see in the museum what happens when it is forgotten.

    ### Who has become urgent?

    A request that is about to miss its deadline goes up two levels. The course's source for this lesson, the simulator [AdaXL/adaptive-llm-scheduler](https://github.com/AdaXL/adaptive-llm-scheduler), lifts whoever is
    *within 50 ms of the deadline*, looks every millisecond, and goes on once the deadline is past. Whom does that help? Lesson 5 knows: not who has 40 ms left and 300 ms of work.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l07.bump")
    return


@app.function
def bump(priority: int, now: int, deadline: int, remaining: int) -> int:
    """Return the priority that a request has at the moment `now`: urgent ones are lifted."""
    raise NotImplementedError("Exercise 7.2: the priority at this moment")


@app.cell(hide_code=True)
def _():
    bump_attempt = attempt("l07.bump", lambda: bump)
    bump_attempt
    return (bump_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l07.bump")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    One request of priority 8 with 80 ms of work, as time passes, by both:
    """)
    return


@app.cell
def _():
    def lifted(now_ms, deadline_ms=200, work_ms=80):
        """(the source's priority, the reference's) of a request of priority 8 at this moment."""
        source = 8
        for _ in range(max(0, now_ms - (deadline_ms - 50) + 1)):  # at every millisecond again
            source = policy.bump_source(source, now_ms * 1000, deadline_ms * 1000)
        return source, policy.bump(8, now_ms * 1000, deadline_ms * 1000, work_ms * 1000)

    mo.md(
        "| at | slack | the source's priority | ours |\n|--:|--:|--:|--:|\n"
        + "\n".join(
            f"| {at} ms | {200 - at - 80} ms | {lifted(at)[0]} | {lifted(at)[1]} |"
            for at in (0, 70, 100, 120, 121, 150, 151, 152, 153, 200, 500)
        )
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The source lifts it when it is too late, again at every tick until nobody is above it, and there it stays: a request that nobody can save is first in line. Nor does anybody have to look every
    millisecond. The slack of a request that waits falls by 1 ms per ms, so the two moments at which `bump` changes its mind are known when it
    arrives: the simulator makes events of them.

    ### Starvation, and a key that never changes

    Now back to those few who waited. The 300 requests per second once more, by class of priority:
    """)
    return


@app.cell
def _(RUSH, rush_runs):
    AGED = replace(ADAPTIVE, name="by priority, with ageing")  # 250 ms of waiting make up a level
    aged_run = simulate(AGED, RUSH)

    def waits(run, levels):
        """TTFT of the requests of these priorities: (median, longest), in ms."""
        found = [
            (outcome.first_token_us - request.arrival_us) / 1000
            for request, outcome in zip(run.workload.requests, run.outcomes, strict=True)
            if request.priority in levels
        ]
        return f"{ms(median(found))} / {ms(max(found))}"

    CLASSES = {"0 to 2": range(3), "3 to 5": range(3, 6), "6 to 9": range(6, 10)}
    mo.md(
        f"| TTFT in ms, median / longest | {' | '.join(f'priority {name}' for name in CLASSES)} | all: median / 99th percentile |\n|:--|{'--:|' * 4}\n"
        + "\n".join(
            f"| {run.config.name} | {' | '.join(waits(run, levels) for levels in CLASSES.values())} | {ms(run.totals.ttft_p50_ms)} / {ms(run.totals.ttft_p99_ms)} |"
            for run in (rush_runs["by arrival"], rush_runs["by priority"], aged_run)
        )
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    By priority alone, the lowest classes are served when nobody else is left: *starvation*, lesson 2. Its cure there was ageing: who waits gains rank. But a key that changes with time breaks a heap, which compares two entries
    when they are pushed and believes the answer for ever. Does it?
    """)
    return


@app.cell
def _():
    AGEING_US = 250_000  # so much waiting makes up for one level

    def rank_now(now, arrival, priority):
        """The priority after ageing, at this moment."""
        return priority - (now - arrival) / AGEING_US

    A, B = (0, 6), (700_000, 3)  # (arrival, priority)
    mo.md(
        "| at | A: came at 0, priority 6 | B: came at 700 ms, priority 3 | A minus B |\n|--:|--:|--:|--:|\n"
        + "\n".join(
            f"| {at} ms | {rank_now(at * 1000, *A):.1f} | {rank_now(at * 1000, *B):.1f} | {rank_now(at * 1000, *A) - rank_now(at * 1000, *B):.1f} |"
            for at in (700, 1000, 2000, 5000)
        )
        + f"\n\nA's key is {A[0] + AGEING_US * A[1]:,}, B's {B[0] + AGEING_US * B[1]:,}: `arrival + ageing_us * priority`, at any time."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Everybody ages at the same rate, so the difference never changes. Divide out the moment and `arrival + ageing_us * priority` is left: one number, known at the push, right for ever. (A request that is bumped is
    pushed again. That is what generations are for.)

    Was seed 42 lucky? Here every seed is a pair, joined by a line; both runs of a pair meet the identical load. **Look at both panels.**
    """)
    return


@app.cell(hide_code=True)
def _():
    DATA = Path(course.__file__).parents[1] / "lessons" / "data"
    RECORDED = json.loads((DATA / "fleet.json").read_text(encoding="utf-8"))
    TTFT = ["ttft_p50_ms", "ttft_p99_ms"]
    PairedSeeds(
        RECORDED["order"]["unaged"],
        "300 requests per second: by priority against by arrival (modelled)",
        metrics=TTFT,
    )
    return RECORDED, TTFT


@app.cell(hide_code=True)
def _(RECORDED, TTFT):
    PairedSeeds(
        RECORDED["order"]["aged"],
        "The same, with ageing (modelled)",
        metrics=TTFT,
    )
    return


@app.cell(hide_code=True)
def _(RECORDED):
    def _row(name, metric):
        return next(
            each for each in RECORDED["order"][name]["rows"] if each["metric"] == metric
        )

    def _interval(row):
        return f"{row['mean']:+,.0f} ms ({row['low']:+,.0f} to {row['high']:+,.0f})"

    _pairs = _row("unaged", "ttft_p99_ms")["pairs"]
    mo.md(
        f"**In all {len(_pairs)} seeds the median falls, and in {sum(each['other'] > each['baseline'] for each in _pairs)} of them the 99th percentile rises**: "
        f"{_interval(_row('unaged', 'ttft_p50_ms'))} and {_interval(_row('unaged', 'ttft_p99_ms'))}. That is one and the same change; which of the two figures is on the poster is a choice. With ageing the median keeps its "
        f"gain, {_interval(_row('aged', 'ttft_p50_ms'))}, and the 99th percentile improves, too: {_interval(_row('aged', 'ttft_p99_ms'))}. Recorded: `lessons/data/fleet.md` says how."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Where does it go?

    A worker that has computed the beginning of a prompt before need not compute it again: a *prefix hit*. So the source gives each worker points, and the most points win:

    `10 · hit tokens − 100 · utilisation + 0.1 · free KV tokens + 0.5 · free slots`
    """)
    return


@app.function(hide_code=True)
def one_system_prompt(seed: int = 0, gap_us: int = 5000) -> Workload:
    """150 requests that all begin with the same 600 tokens; the first one comes 30 ms early."""
    draw = random.Random(f"one system prompt, {seed}")
    opening, now_us, requests = draw.randbytes(600), 0, []
    for number in range(150):
        prompt = tuple(opening + draw.randbytes(draw.randint(200, 400)))
        new_tokens = draw.randint(5, 30)
        requests.append(FleetRequest(number, now_us, prompt, new_tokens, 5, now_us + 300_000))
        now_us += round(draw.expovariate(1 / gap_us)) if number else 30_000
    return Workload(tuple(requests), seed)


@app.cell
def _():
    ROOMY = FleetConfig(  # KV for everybody, so that nothing but the routing decides
        cost=CALIBRATED_COST,
        kv_tokens=32_768,
        speculation=False,
        urgency="off",
        preemption_gap=None,
    )
    hot_runs = {
        routing: simulate(
            replace(ROOMY, name=routing, routing=routing), one_system_prompt(), trace=True
        )
        for routing in ("source", "round_robin", "backlog")
    }
    return ROOMY, hot_runs


@app.cell(hide_code=True)
def _(hot_runs):
    FleetView(
        hot_runs["source"].trace.to_json(),
        "150 requests with one system prompt, by the source's score (modelled)",
        zoom=2,
    )
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l07.score",
        "Two workers are alike and empty but for this: one knows 33 tokens of the prompt and has a **full** batch but one, the other knows none and is **idle**. "
        "2,048 KV tokens each; say that its 31 running requests use all but 100 of them. Who wins by the source's score?",
        (
            "The idle one: 100 points for utilisation are a lot",
            "The busy one: 33 tokens are 330 points, and everything else together is less",
            "Neither: the score is the same",
        ),
        1,
        (
            lambda busy, idle: (
                f"**{policy.source_score(busy, 33):.0f} against {policy.source_score(idle, 0):.0f} points.** Computing 33 tokens takes 13 µs each on the modelled GPU: less than half a millisecond. "
                "The points have no unit, so nobody noticed what they trade. In the run above it is a whole system prompt of 600 tokens."
            )
        )(WorkerView(0, 0, 31, 32, 100, 2048), WorkerView(1, 0, 0, 32, 2048, 2048)),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l07.score",
        mo.md(r"""
    Give everything the same unit. A worker has promised to compute so many prompt tokens: its *backlog*. A hit is so many tokens that it need not compute. Their difference says where this
    prefill is **done** first.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    task("l07.route")
    return


@app.function
def route(workers: list[WorkerView], hits: dict[int, int]) -> int:
    """Return the `id` of the worker to send a request to: where its prefill is done first."""
    raise NotImplementedError("Exercise 7.3: the worker whose prefill is done first")


@app.cell(hide_code=True)
def _():
    route_attempt = attempt("l07.route", lambda: route)
    route_attempt
    return (route_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l07.route")
    return


@app.function(hide_code=True)
def served(config: FleetConfig, load: Workload, **parts):
    """A traced run with these parts in the fleet; a sentence instead when one of them fails."""
    try:
        return simulate(config, load, FleetParts(**parts), trace=True)
    except PartError as error:
        return f"**The run stopped:** {error}"


@app.cell(hide_code=True)
def _(ROOMY, hot_runs, route_attempt):
    def _row(name, run):
        if isinstance(run, str):
            return f"| {name} | {run} | | | | |"
        where = Counter(visit.worker for visit in run.trace.visits)
        shares = ", ".join(str(where[worker]) for worker in range(run.config.num_workers))
        return (
            f"| {name} | {shares} | **{max(where.values()) / where.total():.0%}** | {run.totals.kv_hit_share:.0%} | "
            f"{ms(run.totals.ttft_p50_ms)} ms | {ms(run.totals.ttft_p99_ms)} ms |"
        )

    def _rows():
        yield _row("the source's score", hot_runs["source"])
        yield _row("each worker in turn", hot_runs["round_robin"])
        yield _row("backlog minus hit, the reference's", hot_runs["backlog"])
        if route_attempt.started:
            mine = served(replace(ROOMY, name="yours"), one_system_prompt(), route=route_attempt.function)
            yield _row("your `route`", mine)

    mo.md(
        ("" if route_attempt.started else "Your `route` is not written yet: the last line is the reference's.\n\n")
        + "| 150 requests, modelled | requests per worker | hottest | prefix hits | TTFT, median | 99th percentile |\n|:--|:--|--:|--:|--:|--:|\n"
        + "\n".join(_rows())
    )
    return


@app.cell(hide_code=True)
def _(hot_runs):
    FleetView(
        hot_runs["backlog"].trace.to_json(),
        "The same 150 requests, by backlog minus hit (modelled)",
        zoom=2,
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The score chases hits: whoever knows the system prompt gets everybody, until its batch is full, and only then does another worker ever get to know the prompt. Idle lanes beside a queue. Look at the prefix hits, too: they are **the same**. Each worker
    has to compute 600 tokens once; that is all that spreading costs. Therefore *each worker in turn* does as well here as anything clever. Routing by prefix pays when there are more
    prefixes than a worker can keep.

    ### Making room by force

    When nobody has room, somebody running may have to leave. The rule of the source: a waiter **three levels** above a running request takes its place. The victim keeps its text and waits again; its K/V is gone, so all known tokens are
    computed once more, or brought back from the host's memory if they were *swapped* out. One worker with a batch of one; at 100 ms somebody important comes:
    """)
    return


@app.cell
def _():
    def letter(number, arrival_us, tokens, new_tokens, priority, slo_us):
        prompt = tuple(range(number * 10_000, number * 10_000 + tokens))
        return FleetRequest(number, arrival_us, prompt, new_tokens, priority, arrival_us + slo_us)

    REPORT_AND_VOICE = Workload(
        (
            letter(0, 0, 1200, 200, priority=8, slo_us=5_000_000),
            letter(1, 100_000, 200, 40, priority=1, slo_us=500_000),
        )
    )
    LONELY = FleetConfig(
        num_workers=1,
        batch_size=1,
        cost=CALIBRATED_COST,
        urgency="off",
        ageing_us=None,
        prefix_cache="none",
        speculation=False,
    )

    _ways = {
        "nobody leaves": replace(LONELY, preemption_gap=None),
        "a gap of 3": LONELY,
        "a gap of 3, K/V swapped": replace(LONELY, kv_swap=True),
    }
    _runs = {name: simulate(config, REPORT_AND_VOICE) for name, config in _ways.items()}
    mo.md(
        "| modelled | priority 1: TTFT | priority 8: done after | its prompt tokens computed |\n|:--|--:|--:|--:|\n"
        + "\n".join(
            f"| {name} | {ms((run.outcomes[1].first_token_us - 100_000) / 1000)} ms | {ms(run.outcomes[0].finished_us / 1000)} ms | {run.outcomes[0].computed_prefill_tokens:,} |"
            for name, run in _runs.items()
        )
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The victim pays twice: it waits for the other one to end, and for its own prefill, known tokens that it had generated included. Under load a preemption buys a place for one request and takes tokens from everybody. Whether that pays is
    a question for the table further down, and the answer is sobering.

    ### A policy of your own

    All of it in one function: who goes where, now? You see the fleet as it is, you name a request and a worker, and you are asked again until you answer None. What counts is not to look like the reference. What counts
    is attainment, on loads that you cannot see.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l07.my_policy")
    return


@app.function
def my_policy(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    """Return `(request_id, worker_id)`: who is given to which worker now. None ends the round."""
    raise NotImplementedError("Exercise 7.4: who goes where next?")


@app.cell(hide_code=True)
def _():
    policy_attempt = attempt("l07.my_policy", lambda: my_policy)
    policy_attempt
    return (policy_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l07.my_policy")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Four loads and an interval, because **one load proves nothing**: a policy that was tuned on one of them can win there by luck. The loads come from a seed, and with another seed come others: a policy that has learned four loads by heart meets four new ones.

    ## Your fleet

    A burst: 5 requests per second, then 200, then 5 again, on the calibrated costs (a 1.2-billion-parameter model on one data-centre GPU, worked out). The queue is kept by your `on_event`, the urgent are lifted by your `bump`, your `route`
    sends them. In the last line your `my_policy` decides everything.
    """)
    return


@app.cell
def _(bump_attempt, event_attempt, policy_attempt, route_attempt):
    BURST = make_workload("burst", 30, 2, seed=42)
    GPU = replace(ADAPTIVE, cost=CALIBRATED_COST)

    your_parts = {
        "on_event": event_attempt.or_reference(policy.on_event),
        "bump": bump_attempt.or_reference(policy.bump),
        "route": route_attempt.or_reference(policy.route),
    }
    your_fleet = served(GPU, BURST, **your_parts)
    reference_fleet = simulate(GPU, BURST, trace=True)
    naive_fleet = simulate(replace(FIFO, cost=CALIBRATED_COST), BURST)
    your_own = (
        served(GPU, BURST, decide=policy_attempt.function) if policy_attempt.started else None
    )
    return naive_fleet, reference_fleet, your_fleet, your_own


@app.cell(hide_code=True)
def _(
    bump_attempt,
    event_attempt,
    naive_fleet,
    reference_fleet,
    route_attempt,
    your_fleet,
    your_own,
):
    def _whose():
        parts = {"on_event": event_attempt, "bump": bump_attempt, "route": route_attempt}
        mine = [f"`{name}`" for name, each in parts.items() if each.started]
        others = [f"`{name}`" for name, each in parts.items() if not each.started]
        if not mine:
            return f"This run used the reference for {', '.join(others)}: not written yet."
        if not others:
            return f"{', '.join(mine)}: yours."
        return f"In this run {', '.join(mine)} came from you and {', '.join(others)} from the reference."

    def _difference(run):
        """The first decision in which two runs part, as a sentence."""
        mine, right = run.trace.decisions, reference_fleet.trace.decisions
        for one, other in zip(mine, right, strict=False):
            if one != other:
                return (
                    f"differs first at {one.at_us / 1000:,.1f} ms: yours {_said(one)}, the reference {_said(other)}"
                )
        return "decision by decision like the reference" if mine == right else "one stops earlier"

    def _said(decision):
        where = "" if decision.worker is None else f", worker {decision.worker}"
        return f"{decision.kind} of request {decision.request_id}{where} ({decision.at_us / 1000:,.1f} ms)"

    def _row(name, run, words):
        if isinstance(run, str):
            return f"| {name} | | | | {run} |"
        totals = run.totals
        return (
            f"| {name} | {ms(totals.ttft_p50_ms)} / {ms(totals.ttft_p99_ms)} | {1 - totals.slo_violation_share:.0%} | {totals.preemptions} | {words} |"
        )

    def _rows():
        yield _row("FIFO, naive", naive_fleet, "")
        yield _row("the reference", reference_fleet, "")
        same = "" if isinstance(your_fleet, str) else _difference(your_fleet)
        yield _row("your fleet", your_fleet, same)
        if your_own is not None:
            yield _row("your `my_policy`", your_own, "no preemption, no bumps but your own")

    mo.md(
        f"{_whose()} {reference_fleet.totals.arrived} requests, modelled:\n\n"
        "| | TTFT, median / 99th percentile, ms | in time | preemptions | |\n|:--|--:|--:|--:|:--|\n" + "\n".join(_rows())
    )
    return


@app.cell(hide_code=True)
def _(bump_attempt, event_attempt, reference_fleet, route_attempt, your_fleet):
    def _picture():
        mine = any(each.started for each in (bump_attempt, event_attempt, route_attempt))
        stopped = isinstance(your_fleet, str)
        run = reference_fleet if stopped else your_fleet
        whose = "Your fleet" if mine and not stopped else "The reference's fleet"
        return FleetView(run.trace.to_json(), f"{whose} in a burst (modelled)", zoom=1)

    _picture()
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Two real workers

    No model so far, only its times. So here are real ones: two processes, an engine with the Shakespeare model in each, and a router in front of them that asks `route`. After every step a worker tells
    the router which prefixes it has published. First one prompt of 500 tokens, of which more and more was computed before:
    """)
    return


@app.cell
def _(RECORDED, route_attempt):
    RUN = False  # True starts two processes and runs both experiments here: a minute or so

    def _measured():
        if not RUN:
            return RECORDED["workers"], "**Recorded**, with the reference's route; set `RUN = True` to do it here."
        try:
            return real_workers(route_attempt.or_reference(policy.route)), "Measured here, just now."
        except (OSError, PartError, WorkersFailed) as failed:
            return RECORDED["workers"], f"**Recorded**: it could not be run here. {failed}"

    real, _where = _measured()
    _cold = real["by_hit"][0]["ttft_ms"]
    mo.md(
        f"{_where}\n\n| prefix hit, tokens | computed | together | TTFT | of that without a hit |\n|--:|--:|--:|--:|--:|\n"
        + "\n".join(
            f"| {row['hit']} | {row['computed']} | {row['hit'] + row['computed']} | {row['ttft_ms']:.1f} ms | {row['ttft_ms'] / _cold:.0%} |"
            for row in real["by_hit"]
        )
    )
    return (real,)


@app.cell(hide_code=True)
def _(real):
    def _row(name, run):
        return (
            f"| {name} | {run['computed']:,} | {run['hits']:,} | {', '.join(map(str, run['per_worker']))} | {run['mean_ttft_ms']:.0f} ms |"
        )

    mo.md(
        "What is computed falls by exactly the hit, and the TTFT with it, down to the fixed cost of a step and of the way through two pipes. The last token of a prompt is always computed, since the first draw needs its logits. "
        f"And {real['num_requests']} requests with {real['num_prefixes']} system prompts of {real['prefix']} tokens, in random order:\n\n"
        "| | prompt tokens computed | hit | requests per worker | mean TTFT |\n|:--|--:|--:|:--|--:|\n"
        + "\n".join(_row(name, run) for name, run in real["by_route"].items())
        + "\n\nWith two workers and six prefixes, both soon know most of them, so that the route saves little. It matters when there are more prefixes than workers can keep, or more workers than a prefix has visitors."
    )
    return


@app.function(hide_code=True)
def some_tokens(name: str, length: int) -> list[int]:
    """Tokens that depend on their name alone."""
    draw = random.Random(name)
    return [draw.randrange(65) for _ in range(length)]


@app.function(hide_code=True)
def real_workers(route: Callable, repeats: int = 5) -> dict:
    """Two engine processes: TTFT by the length of the hit, then two routes on the same requests."""
    config = EngineConfig(token_budget=512, max_batch_size=8, prefix_cache_tokens=8192)
    by_hit, by_route = {}, {"each in turn": [], "by route": []}
    with Fleet(load_model(), 2, config, route=route) as fleet:
        for repeat in range(repeats + 1):  # the first round warms everybody up
            for hit in (0, 125, 250, 375, 450, 499):
                fleet.forget()
                prompt = some_tokens(f"prompt {repeat} {hit}", 500)
                before = prompt[:hit] + some_tokens(f"other {repeat} {hit}", 500 - hit)
                before[hit] = (prompt[hit] + 1) % 65
                fleet.serve([Request(0, before, 1)])
                result = fleet.serve([Request(1, prompt, 1)])[0]
                if repeat:
                    by_hit.setdefault(hit, []).append(result)
        for repeat in range(repeats + 1):
            for name, runs in by_route.items():
                fleet.forget()
                fleet.route = RoundRobin() if name == "each in turn" else route
                results = fleet.run(some_arrivals(repeat))
                if repeat:
                    runs.append(results)
    return {
        "by_hit": [
            {
                "hit": results[0].hit_tokens,
                "computed": results[0].computed_prefill_tokens,
                "ttft_ms": median(each.ttft_us for each in results) / 1000,
            }
            for results in by_hit.values()
        ],
        "num_requests": 24,
        "num_prefixes": 6,
        "prefix": 360,
        "by_route": {name: in_the_middle(runs) for name, runs in by_route.items()},
    }


@app.function(hide_code=True)
def some_arrivals(repeat: int) -> list[tuple[float, Request]]:
    """24 requests, one every 40 ms on average, each with one of six system prompts."""
    draw, at_s, arrivals = random.Random(f"load {repeat}"), 0.0, []
    for number in range(24):
        at_s += draw.expovariate(1 / 0.04)
        prompt = some_tokens(f"system {repeat} {draw.randrange(6)}", 360)
        own = some_tokens(f"own {repeat} {number}", 40)
        arrivals.append((at_s, Request(number, prompt + own, 8)))
    return arrivals


@app.function(hide_code=True)
def in_the_middle(runs: list) -> dict:
    """The run of median TTFT, in numbers."""
    runs = sorted(runs, key=lambda results: fmean(each.ttft_us for each in results))
    results = runs[len(runs) // 2]
    where = Counter(each.worker_id for each in results)
    return {
        "computed": sum(each.computed_prefill_tokens for each in results),
        "hits": sum(each.hit_tokens for each in results),
        "per_worker": [where[0], where[1]],
        "mean_ttft_ms": fmean(each.ttft_us for each in results) / 1000,
    }


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Break it

    Five defects, four of them from the source, the fifth from the version of vLLM in lesson 6. Look at the symptom, decide what is wrong, then **repair the function in its cell**: what stands below it answers.
    """)
    return


@app.function(hide_code=True)
def asked(function: Callable, *args) -> tuple:
    """(what an exhibit gives, its error): whatever is in it, under a time limit."""
    outcome = run_limited(function, args, limit_s=1.0)
    if outcome.timed_out:
        return None, TimeoutError("it took too long and was stopped")
    return outcome.value, outcome.error


@app.function(hide_code=True)
def verdict(ok: bool, repaired: str, broken: str) -> mo.Html:
    """A line below an exhibit without an exercise."""
    return mo.md(f"**Repaired.** {repaired}" if ok else f"**Still broken.** {broken}")


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit A: out of turn

    A queue like the one at the top, with another `on_event`. Request 5 was withdrawn while it had priority 2 and came back with priority 6, behind everybody. Step to the end.
    """)
    return


@app.function
def exhibit_a(heap, generations, event):
    """One event in a queue with lazy deletion: the heap, the generations, who was popped."""
    heap, generations = list(heap), dict(generations)
    if event[0] == "push":
        _, request_id, key = event
        generations[request_id] = generations.get(request_id, 0) + 1
        heapq.heappush(heap, (key, request_id, generations[request_id]))
    elif event[0] == "remove":
        generations.pop(event[1], None)  # gone is gone: nothing to remember
    else:
        while heap:
            _, request_id, generation = heapq.heappop(heap)
            if generations.get(request_id) == generation:
                generations[request_id] += 1
                return heap, generations, request_id
    return heap, generations, None


@app.cell(hide_code=True)
def _(A_MORNING):
    A_SECOND_MORNING = (
        *A_MORNING[:2],
        ("push", 7, (4, 700)),
        ("remove", 5),
        ("push", 5, (6, 999)),
        ("pop",),
        ("pop",),
        ("pop",),
        ("pop",),
    )
    revived_story = heap_story(piece(lambda: exhibit_a), A_SECOND_MORNING)
    LazyHeap(revived_story, "Whose turn is it?")
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l07.exhibit_a",
        "Request 5 is popped first, although its only valid key is the last of all. **What is broken?**",
        (
            "The heap is not a heap any more after a removal",
            "The push should have looked for the old entry and deleted it",
            "The removal forgot the counter, so the next push begins at 1 again",
            "The pop compares priorities and forgets the deadline",
        ),
        2,
        "Request 5's old entry has generation 1. The removal threw the counter away, the push began at 1 again, and **two** entries are now live. The smaller key wins, the one that was withdrawn. "
        "The source's README says that generations prevent exactly this; its `remove` pops the counter, and its `to_list` then returns the request twice. Counters that only rise cost one integer per request.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l07.exhibit_a", exhibit("A", "l07.on_event", lambda: exhibit_a))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: a green test

    The rush again, for three seconds. The scheduler runs as a task of its own beside the workers, as it does in the source. No error, no warning, and all tests are green. One of them is about preemption; it is below.
    """)
    return


@app.class_definition(hide_code=True)
class TaskDispatcher(Dispatcher):
    """A dispatcher that runs in a task of its own: what it raises, nobody hears. Mutable."""

    raised = None

    def run_round(self, queue, now_us):
        return self.raised is None and super().run_round(queue, now_us)

    def hand_over(self, worker, now_us):
        if self.raised is not None or worker.claimant is None:
            return
        try:
            self._in_flight_ids.discard(worker.claimant.id)  # nobody ever made this set
        except AttributeError as error:
            self.raised = error


@app.function(hide_code=True)
def in_a_task(config: FleetConfig, load: Workload):
    """A run with that dispatcher: (the run, what it raised)."""
    simulation = Simulation(config, load)
    silent = Tracer(enabled=False)
    simulation.dispatcher = TaskDispatcher(
        config, FleetParts(), simulation.workers, simulation, silent
    )
    simulation.advance(30_000_000)
    return simulation.result(), simulation.dispatcher.raised


@app.function
def exhibit_b(totals: Metrics):
    """The test: raises an AssertionError if preemption does not work."""
    assert totals.preemptions >= 0


@app.cell(hide_code=True)
def _(UNAGED):
    _load = make_workload("steady", 300, 3, seed=42)
    dead_run, died_of = in_a_task(UNAGED, _load)
    living_run = simulate(UNAGED, _load)
    mo.md(
        f"| | requests | completed | preemptions | errors seen |\n|:--|--:|--:|--:|:--|\n"
        f"| this scheduler | {dead_run.totals.arrived} | **{dead_run.totals.completed}** | {dead_run.totals.preemptions} | none |\n"
        f"| the reference | {living_run.totals.arrived} | {living_run.totals.completed} | {living_run.totals.preemptions} | none |\n"
    )
    return dead_run, died_of, living_run


@app.cell(hide_code=True)
def _(dead_run, died_of):
    predict(
        "l07.exhibit_b",
        f"{dead_run.totals.completed} of {dead_run.totals.arrived} requests are served, then nothing happens any more. **Why does nobody notice?**",
        (
            "The workers are full, and full workers are no error",
            "The task died of an error at its first preemption; nobody awaits the task, and the test accepts 0 preemptions",
            "A preemption is never tried, because the gap is never 3",
            "The requests were refused, which counts as served",
        ),
        1,
        f"The scheduler's first preemption touches a set that nobody ever made: `{died_of}`. An exception in a task stays in the task until somebody asks for its result, and nobody does. The workers finish what they have. "
        "The test asserts `preemptions >= 0`, which is true of everything. Run as published with `--rps 300 --duration 8`, the source completed 266 of 1,942 requests, and its 45 tests passed.",
    )
    return


@app.cell(hide_code=True)
def _(dead_run, living_run):
    def _passes(totals):
        _, error = asked(piece(lambda: exhibit_b), totals)
        return "passes" if error is None else "fails" if isinstance(error, AssertionError) else str(error)

    _dead, _alive = _passes(dead_run.totals), _passes(living_run.totals)
    after("l07.exhibit_b", verdict(
        (_dead, _alive) == ("fails", "passes"),
        "The test fails for the dead scheduler and passes for the living one.",
        f"The test of the dead scheduler {_dead}, that of the living one {_alive}.",
    ))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit C: too busy to speculate

    Speculative decoding (lesson 8) costs computing, so the source leaves it off on a worker whose *utilisation* is 80 % or more. At 30 requests per second the workers are mostly idle. And yet it is off more and more of the time.
    """)
    return


@app.function
def exhibit_c(num_running, batch_size, held_tokens, cached_tokens, kv_tokens):
    """How busy a worker is, from 0 to 1."""
    return (held_tokens + cached_tokens) / kv_tokens


@app.cell(hide_code=True)
def _(quiet_run):
    def _open(run, rule):
        value, _ = asked(
            rule, len(run.request_ids), 32, run.reserved_tokens, run.cached_tokens, 2048
        )
        return value < 0.8 if isinstance(value, int | float) else None

    def _share(rule, of):
        return fmean(_open(run, rule) is True for run in of)

    _decodes = [run for run in quiet_run.trace.runs if run.kind == "decode"]
    _right = [len(run.request_ids) / 32 < 0.8 for run in _decodes]
    utilisation_repaired = [_open(run, piece(lambda: exhibit_c)) for run in _decodes] == _right
    mo.md(
        "| second | requests in the batch, mean of 32 | speculation allowed |\n|--:|--:|--:|\n"
        + "\n".join(
            f"| {second + 1} | {fmean(len(run.request_ids) for run in of):.1f} | {_share(piece(lambda: exhibit_c), of):.0%} |"
            for second in range(4)
            if (of := [run for run in _decodes if run.start_us // 1_000_000 == second])
        )
    )
    return (utilisation_repaired,)


@app.cell(hide_code=True)
def _():
    predict(
        "l07.exhibit_c",
        "Two requests in a batch of 32, and the worker calls itself full. **Of what?**",
        (
            "Of requests that wait: the queue counts as well",
            "Of what its prefix cache remembers",
            "Of decodes: each of them counts for a whole batch",
            "Of KV tokens that running requests hold",
        ),
        1,
        "A cache is full most of the time; that is what it is for. What it remembers gives way as soon as somebody needs the room, so it says nothing about how busy a worker is. In the source the 0.8 gate let speculation through in 8 to 25 % "
        "of its token steps. The name was right, the unit was wrong: *utilisation* of what?",
    )
    return


@app.cell(hide_code=True)
def _(utilisation_repaired):
    after("l07.exhibit_c", verdict(
        utilisation_repaired,
        "Speculation is allowed wherever the batch has room.",
        "In some of these passes the gate is closed although the batch has room, or open although it is full.",
    ))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit D: no better than FIFO

    A careful comparison: the same loads, five seeds, and only what the comparison is about switched off in the baseline: priorities, urgency, preemption, routing by backlog. The result is disappointing: a smaller gain in TTFT than hoped for, and the adaptive fleet's own tokens come *later* than the baseline's.
    """)
    return


@app.function
def exhibit_d():
    """The baseline: first come, first served, each arrival to the next worker."""
    return replace(
        ADAPTIVE,
        name="FIFO",
        order="fifo",
        urgency="off",
        ageing_us=None,
        preemption_gap=None,
        routing="round_robin",
    )


@app.cell(hide_code=True)
def _():
    def _against(baseline):
        found = compare((baseline, ADAPTIVE), "steady", 30, 5, range(42, 47), SOURCE_COST)
        return {row.measure.metric: row for row in found.rows}

    def _line(name, config):
        if not isinstance(config, FleetConfig):
            return f"| {name} | it gives no fleet | | | |"
        rows = _against(config)
        cells = [
            f"{ms(row.difference.mean)} ms, {row.verdict}"
            for row in (rows["ttft_p50_ms"], rows["ttft_p99_ms"])
        ]
        of_itl = rows["itl_mean_ms"]
        cells.append(f"{1000 * of_itl.difference.mean:+.0f} µs, {of_itl.verdict}")
        return f"| {name} | {' | '.join(cells)} | 0.0 % |"

    suspect, _ = asked(piece(lambda: exhibit_d))
    mo.md(
        "| adaptive minus baseline, modelled | TTFT, median | TTFT, 99th percentile | mean ITL | the baseline's prefix hits, as printed |\n|:--|--:|--:|--:|--:|\n"
        + _line("this baseline", suspect)
        + "\n"
        + _line("`nanogpt.fleet.FIFO`", FIFO)
    )
    return (suspect,)


@app.cell(hide_code=True)
def _(suspect):
    def _hits():
        if not isinstance(suspect, FleetConfig):
            return ""
        share = simulate(suspect, make_workload("steady", 30, 5, 42)).totals.kv_hit_share
        return f"Its hit rate is not 0.0 %: measured, it is **{share:.1%}**. "

    predict(
        "l07.exhibit_d",
        "Against this baseline the ITL gets worse, against `nanogpt.fleet.FIFO` it gets better, and the TTFT gains about twice as much. **What is wrong with the baseline?**",
        (
            "It has fewer workers",
            "It has the prefix cache and speculation, which nobody switched off",
            "It stops at the first in line who does not fit",
            "It meets other arrivals",
        ),
        1,
        f"{_hits()}A baseline made from the system by switching things off keeps whatever one forgets. In the source, too, FIFO has the prefix cache (a hit rate of 2.3 % when it was run) and speculation, and its table prints a literal "
        "`0.0%`. Build a baseline up from nothing, and measure what it does instead of printing what it should.",
    )
    return


@app.cell(hide_code=True)
def _(suspect):
    after("l07.exhibit_d", verdict(
        isinstance(suspect, FleetConfig)
        and (suspect.prefix_cache, suspect.speculation) == ("none", False)
        and (suspect.order, suspect.routing) == ("fifo", "round_robin"),
        "It shares nothing and drafts nothing.",
        "Whoever is compared with it is compared with a part of itself.",
    ))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit E: somebody else's text

    Now the real engine, with its prefix cache. Two users send the same line, the second two steps after the first, and greedy decoding has to give them the same text. Below is how a step ends.
    """)
    return


@app.function
def exhibit_e(compute, publish):
    """A step: compute K/V of the new tokens; let others find it in the prefix cache."""
    publish()
    compute()


@app.class_definition(hide_code=True)
class StagedExecutor:
    """An executor whose steps publish and compute in the order that an exhibit says."""

    def __init__(self, engine, order):
        self.inner, self.engine, self.order = engine.executor, engine, order
        self.name = self.inner.name

    def run(self, rows):
        results = []

        def compute():
            results.append(self.inner.run(rows))

        def publish():
            cache = self.engine.cache
            for row in rows:
                if not row.is_decode:
                    kv = cache.storage[:, :, cache.slot(row.request_id), :, : row.context_len]
                    known = tuple(row.known[: row.context_len])
                    self.engine.prefix_cache.tree.insert(known, kv.clone())

        _, error = asked(self.order, compute, publish)
        return self.inner.run(rows) if error or not results else results[0]


@app.cell
def _():
    LINE = encode("ROMEO:\nIs the day so young?\n")

    def two_users(order):
        """Texts of both, and the second one's hit, with steps in this order."""
        engine = Engine(load_model(), EngineConfig(token_budget=64, prefix_cache_tokens=1024))
        engine.executor = StagedExecutor(engine, order)
        trace = engine.run([(0, Request(0, LINE, 40)), (2, Request(1, LINE, 40))])
        texts = {0: [], 1: []}
        for step in trace.steps:
            for work in step.work:
                texts[work.request_id] += work.tokens
        hit = sum(each.num_tokens for step in trace.steps for each in step.prefix_hits)
        return decode(texts[0]), decode(texts[1]), hit

    first_text, second_text, second_hit = two_users(piece(lambda: exhibit_e))
    mo.md(
        "| | prefix hit | text |\n|:--|--:|:--|\n"
        f"| first | 0 of {len(LINE)} | `{first_text.encode('unicode_escape').decode()}` |\n"
        f"| second | {second_hit} of {len(LINE)} | `{second_text.encode('unicode_escape').decode()}` |"
    )
    return first_text, second_hit, second_text


@app.cell(hide_code=True)
def _():
    predict(
        "l07.exhibit_e",
        "The same prompt, the same model, no randomness. The first text is right. **Where does the second come from?**",
        (
            "From another request's random draws",
            "From K/V that was in the cache before it was computed",
            "From a prefix that is one token too long",
            "From K/V that was evicted and overwritten",
        ),
        1,
        "The prefix was published first and computed then. What others find under the right tokens is what lay in the slot before: zeros here, on a GPU whatever somebody else left behind. Even the other order is not enough when a step may be *abandoned*: "
        "lesson 6's abort leaves published prefixes of a pass that never ended, and the version of vLLM there avoids it only by having prefix caching switched off. In this engine a prefix is published when its step has **committed**; "
        "the workers' router hears of it after that. Note the symptom: no error, no crash, and a text that looks like a bad model.",
    )
    return


@app.cell(hide_code=True)
def _(first_text, second_hit, second_text):
    after("l07.exhibit_e", verdict(
        first_text == second_text and second_hit > 0,
        f"Both have the same text, and {second_hit} tokens were not computed twice.",
        "The texts differ." if first_text != second_text else "Nobody finds a prefix any more.",
    ))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Measure it, including where it loses

    All of it together against a truly naive FIFO: three scenarios, ten paired seeds, two ways to cost a pass. Mean differences with their 95 % intervals; negative is better.
    """)
    return


@app.cell(hide_code=True)
def _(RECORDED):
    def _cell(row):
        if row["verdict"] in ("equal", "within noise"):
            return row["verdict"]
        unit = "ms" if row["unit"] == "ms" else "points"
        return f"{row['mean']:+,.1f} {unit} ({row['low']:+,.1f} to {row['high']:+,.1f})"

    def _line(each):
        rows = {row["metric"]: row for row in each["rows"]}
        base = {name: fmean(pair["baseline"] for pair in row["pairs"]) for name, row in rows.items()}
        return (
            f"| {each['cost']} | {each['scenario']} | {ms(base['ttft_p50_ms'])} ms → {_cell(rows['ttft_p50_ms'])} | "
            f"{ms(base['ttft_p99_ms'])} ms → {_cell(rows['ttft_p99_ms'])} | {base['slo_violations']:.1f} % → {_cell(rows['slo_violations'])} |"
        )

    mo.md(
        "| costs | scenario | FIFO's median TTFT, and the difference | 99th percentile | deadlines missed |\n|:--|:--|:--|:--|:--|\n"
        + "\n".join(map(_line, RECORDED["scenarios"]))
        + "\n\nModelled; 20 s of arrivals, `lessons/data/fleet.md`. Eighteen intervals, each wrong once in twenty: a lone verdict may be luck."
    )
    return


@app.cell(hide_code=True)
def _(RECORDED, TTFT):
    PairedSeeds(
        RECORDED["scenarios"][0],
        "30 requests per second, source's costs: adaptive against a naive FIFO (modelled)",
        metrics=TTFT,
    )
    return


@app.cell(hide_code=True)
def _():
    def _gain(cost):
        return 32 * decode_us(cost, 1, 0) / decode_us(cost, 32, 0)

    mo.md(
        f"**Why two costs?** In the source's formulas a decode step costs 100 µs for each request and 50 µs once, so a batch of 32 makes only **×{_gain(SOURCE_COST):.2f}** the tokens per second of one request. A real decode reads the weights once for "
        f"everybody: on the calibrated costs it is **×{_gain(CALIBRATED_COST):.0f}** (a little less once K/V is read, too), and a prefill costs what its tokens cost. What a fleet gains from anything depends on this line more than on its policy: "
        "under the source's costs it pays to keep batches small, under real ones to fill them."
    )
    return


@app.cell(hide_code=True)
def _(RECORDED):
    def _said(comparison, metric):
        row = next(each for each in comparison["rows"] if each["metric"] == metric)
        if row["verdict"] == "equal":
            return "equal"
        unit = "ms" if row["unit"] == "ms" else "points"
        words = f"{row['mean']:+.2f} {unit} ({row['low']:+.2f} to {row['high']:+.2f})"
        return f"within noise: {words}" if row["verdict"] == "within noise" else words

    _most = max(
        abs(row["mean"])
        for each in RECORDED["as_source"]
        for row in each["rows"]
        if row["metric"] == "ttft_p50_ms"
    )
    mo.md(
        "**And the source's own claim?** Its policies against its own baseline, which has the cache and speculation, with KV that never runs out, as in its code. Ten seeds:\n\n"
        "| scenario | TTFT, median | 99th percentile | mean ITL | deadlines missed |\n|:--|:--|:--|:--|:--|\n"
        + "\n".join(
            f"| {each['scenario']} | {' | '.join(_said(each, metric) for metric in ('ttft_p50_ms', 'ttft_p99_ms', 'itl_mean_ms', 'slo_violations'))} |"
            for each in RECORDED["as_source"]
        )
        + f"\n\nIts README shows one run of the burst: a median of 5.1 ms, FIFO 4.1; a 99th percentile of 46.3 ms, FIFO 53.7. One run of a simulation on the wall clock, in which the same seed gives another load each time, cannot tell differences of this size from luck. Ten paired seeds can: {_most:.1f} ms of median TTFT at most, none at the 99th percentile, and tokens that come a little later."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Which piece pays?

    The whole fleet, and again with one piece switched off. What stands there is what the piece **brings**: less is better, and where it is, it is bold. *Nothing*: equal in every pair of runs. *Noise*: the interval holds 0.
    """)
    return


@app.cell(hide_code=True)
def _(RECORDED):
    LOADS_OF_PIECES = list(dict.fromkeys(each["load"] for each in RECORDED["pieces"]))

    def _cell(load, piece_name, metric):
        row = next(
            each["rows"][metric]
            for each in RECORDED["pieces"]
            if (each["load"], each["piece"]) == (load, piece_name)
        )
        if row["verdict"] == "equal":
            return "nothing"
        if row["verdict"] == "within noise":
            return "noise"
        text = f"{row['mean']:+,.1f}" + ("" if metric == "slo_violations" else " ms")
        if metric == "itl_mean_ms":
            text = f"{1000 * row['mean']:+,.0f} µs"
        return f"**{text}**" if row["verdict"] == "better" else text

    def _table(load):
        names = list(dict.fromkeys(each["piece"] for each in RECORDED["pieces"]))
        return (
            f"**{load}**\n\n| | TTFT, median | 99th percentile | mean ITL | deadlines missed, points |\n|:--|--:|--:|--:|--:|\n"
            + "\n".join(
                f"| {name} | {' | '.join(_cell(load, name, metric) for metric in ('ttft_p50_ms', 'ttft_p99_ms', 'itl_mean_ms', 'slo_violations'))} |"
                for name in names
            )
        )

    mo.md("\n\n".join(map(_table, LOADS_OF_PIECES)))
    return (LOADS_OF_PIECES,)


@app.cell(hide_code=True)
def _(LOADS_OF_PIECES, RECORDED):
    QUIET_LOAD, RUSH_LOAD, BURST_LOAD = LOADS_OF_PIECES

    def _brings(load, piece_name, metric):
        return next(
            each["rows"][metric]["mean"]
            for each in RECORDED["pieces"]
            if (each["load"], each["piece"]) == (load, piece_name)
        )

    mo.md(
        "**What pays, and where it loses.**\n\n"
        "- **As long as nobody waits, no queue discipline does anything.** Ageing, urgency and preemption bring nothing at all at 30 requests per second, order by priority next to nothing. Only the prefix cache, and routing to it, shorten the prefill.\n"
        f"- **Order by priority** pays under overload, by {-_brings(RUSH_LOAD, 'order by priority', 'ttft_p50_ms'):,.0f} ms at the median, and takes {_brings(RUSH_LOAD, 'order by priority', 'ttft_p99_ms'):,.0f} ms at the 99th percentile.\n"
        f"- **Ageing** gives {-_brings(RUSH_LOAD, 'ageing', 'ttft_p99_ms'):,.0f} ms at the 99th percentile back for {_brings(RUSH_LOAD, 'ageing', 'ttft_p50_ms'):.0f} ms at the median. In the burst it costs {_brings(BURST_LOAD, 'ageing', 'slo_violations'):.0f} points of deadlines: whoever has waited long is often late already, and is now served before somebody who could still make it. Fairness has a price.\n"
        f"- **Urgency, for whom it can save**, changes nothing until deadlines are at stake, and in the burst it saves {-_brings(BURST_LOAD, 'urgency', 'slo_violations'):.0f} points of them.\n"
        f"- **Preemption at a gap of 3 pays nowhere here.** At 300 requests per second it costs {_brings(RUSH_LOAD, 'preemption', 'ttft_p99_ms'):,.0f} ms at the 99th percentile and {1000 * _brings(RUSH_LOAD, 'preemption', 'itl_mean_ms'):.0f} µs per token: every victim is computed again by workers that have no time. It helps when one request matters more than the sum, as in the table of the report and the voice.\n"
        f"- **Routing by backlog** is noise as soon as everybody is busy: a request goes where there is room at all. At 30 per second it is worth {-_brings(QUIET_LOAD, 'routing by backlog', 'ttft_p50_ms'):.1f} ms at the median, of {-_brings(QUIET_LOAD, 'prefix cache', 'ttft_p50_ms'):.1f} that the cache brings.\n"
        f"- **Speculation** is the largest piece under load. At 30 per second it makes the median TTFT {_brings(QUIET_LOAD, 'speculation', 'ttft_p50_ms'):.1f} ms *longer*: a newcomer waits for a step to end, and steps with drafts take longer."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How production engines do it

    - **Continuous batching** comes from **Orca** (Yu et al., OSDI 2022): schedule iteration by iteration, up to 36.9 times the throughput of FasterTransformer at the same latency, by its abstract. Everything here builds on it, the naive FIFO included.
    - **SGLang's router** ([Model Gateway](https://docs.sglang.io/advanced_features/router.html)) keeps a radix tree of the text sent to each worker. If the longest match is above `cache_threshold` (0.3) of the prompt, the request goes where the match is. But if the busiest worker has over `balance_abs_threshold` (64)
      requests more than the idlest, and over `balance_rel_threshold` (1.5) times as many, the shortest queue gets it, whoever has the prefix. Two modes and a switch; yours is one formula, as it knows both in tokens. **vLLM's router** is derived from a fork of it ([release post](https://blog.vllm.ai/2025/12/13/vllm-router-release.html)).
    - **Ray Serve's** [KV-aware routing](https://docs.ray.io/en/master/serve/llm/user-guides/kv-aware-routing.html) is closer to yours: remaining prefill work plus the worker's active work, and the least wins; its replicas report their K/V as events.
    - **Mooncake** (Qin et al., [arXiv 2407.00079](https://arxiv.org/abs/2407.00079)) estimates TTFT for every prefill instance from queue and hit, takes the smallest, and *copies* hot prefixes to others instead of only chasing them.
    - **Ageing**: proposed for vLLM's priority queue in [#20608](https://github.com/vllm-project/vllm/pull/20608), closed without being merged. It compares `priority - factor * (now - inserted)` in a heap, which works for the reason that you saw: everybody ages alike.

    And the defects of this page are out there:

    - **The hotspot.** [vllm-project/router #179](https://github.com/vllm-project/router/issues/179): on one path the load was never counted, so the rebalancing could not see it. One engine of eight served all of 480 concurrent requests, until its K/V ran out of memory; seven were idle. [production-stack #1035](https://github.com/vllm-project/production-stack/pull/1035): routing by
      hits alone piles everybody with a hot prefix onto the one engine that has it.
    - **Starvation.** [SGLang #31954](https://github.com/sgl-project/sglang/issues/31954): the queue in order of the longest matched prefix, no ageing. A median TTFT of 0.7 s, and a tail of 20 to 60 s for whoever has no hit: 5 % of the requests with 75 % of all the waiting.

    ## What comes next

    The largest gain in the tables above came from a piece that this lesson did not explain: speculation. In lesson 8 a small model guesses, the large one judges, and the text is distributed exactly as if nobody had guessed.
    """)
    return


@app.function(hide_code=True)
def shortened(comparison) -> dict:
    """A comparison with the metrics that this lesson shows."""
    found = comparison.to_json()
    shown = ("ttft_p50_ms", "ttft_p99_ms", "itl_mean_ms", "slo_violations")
    return found | {"rows": [row for row in found["rows"] if row["metric"] in shown]}


@app.function(hide_code=True)
def pieces_off() -> dict:
    """What has to be set to switch a piece of the adaptive fleet off, by its name."""
    return {
        "order by priority": {"order": "fifo"},
        "ageing": {"ageing_us": None},
        "urgency": {"urgency": "off"},
        "preemption": {"preemption_gap": None},
        "routing by backlog": {"routing": "least_running"},
        "prefix cache": {"prefix_cache": "none"},
        "speculation": {"speculation": False},
    }


@app.function(hide_code=True)
def record(path: str) -> None:
    """Write what takes too long for a page; see lessons/data/fleet.md."""
    ten, six = range(42, 52), range(42, 48)
    by_arrival = replace(ADAPTIVE, name="by arrival", order="fifo", ageing_us=None)
    by_priority = replace(ADAPTIVE, name="by priority", ageing_us=None)
    aged = replace(ADAPTIVE, name="with ageing")
    order = {
        name: shortened(compare((by_arrival, other), "steady", 300, 4, ten, SOURCE_COST))
        for name, other in (("unaged", by_priority), ("aged", aged))
    }
    loads = (("steady", 30), ("burst", 30), ("mixed_priority", 50))
    scenarios = [
        shortened(compare((FIFO, ADAPTIVE), scenario, rps, 20, ten, cost))
        for cost in COSTS.values()
        for scenario, rps in loads
    ]
    roomy = {"kv_tokens": 65_536}  # more than anybody ever needs, as where KV is not counted
    its_fifo = replace(FIFO, prefix_cache="slots", speculation=True, **roomy)
    as_source = [
        shortened(
            compare((its_fifo, replace(AS_SOURCE, **roomy)), scenario, rps, 20, ten, SOURCE_COST)
        )
        for scenario, rps in loads
    ]
    pieces = []
    for title, cost, scenario, rps, seconds in (
        ("30 requests per second, source's costs", SOURCE_COST, "steady", 30, 10),
        ("300 requests per second, source's costs", SOURCE_COST, "steady", 300, 4),
        ("a burst of 200 per second, calibrated costs", CALIBRATED_COST, "burst", 30, 15),
    ):
        for name, without in pieces_off().items():
            other = replace(ADAPTIVE, name="without", **without)
            found = shortened(compare((other, ADAPTIVE), scenario, rps, seconds, six, cost))
            rows = {
                row["metric"]: {each: row[each] for each in ("mean", "low", "high", "verdict")}
                for row in found["rows"]
            }
            pieces.append({"load": title, "piece": name, "rows": rows})
    found = {
        "order": order,
        "scenarios": scenarios,
        "as_source": as_source,
        "pieces": pieces,
        "workers": real_workers(policy.route),
    }
    Path(path).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    app.run()

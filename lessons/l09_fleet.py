import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="9 · Serving with a fleet")

with app.setup(hide_code=True):
    import heapq
    from dataclasses import replace
    from typing import TYPE_CHECKING

    import marimo as mo

    from course.attempt import attempt, piece
    from course.prediction import after, hints, predict
    from course.task import task

    if TYPE_CHECKING:
        from nanogpt.fleet.fleet_views import FleetSnapshot, WorkerView


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 9 · Serving with a fleet

    *85 minutes, 20 of them for exercise 9.4, which can wait for another day. Builds on lesson 5
    (deadlines, slack), with lesson 2's queues and priorities, and on lesson 7 (shared prefixes). You
    write four functions.*

    Afterwards you can keep a queue in which requests change their rank and leave, say which one is
    urgent, send each to the worker that will be done with it first, and judge from many seeds whether
    any of this was worth it.

    ## Which goes next, and where to?

    One engine is full. So there are four now, called *workers*: each with a batch of 32, 2,048 KV
    tokens and a prefix cache of its own. In front of them there is one stream of requests. Each has a
    priority from 0, the highest, to 9, and a deadline for its last token. When a request waits and a
    worker has room, a scheduler decides: **which one goes next, and where to?**

    The fleet is simulated on a virtual clock: the same seed gives the same run, to the microsecond.
    **All times are modelled** unless it says otherwise; further down, two real engines do the same. The
    policies, and the costs called *source*, are those of this lesson's source, the simulator
    [AdaXL/adaptive-llm-scheduler](https://github.com/AdaXL/adaptive-llm-scheduler).
    """)
    return


@app.cell(hide_code=True)
def _():
    from course.lesson_data import l09_exhibits as exhibits
    from course.lesson_data import l09_fleet as fleet
    from course.lesson_data import l09_measured as measured
    from course.lesson_data import l09_routing as routing
    from nanogpt.fleet import decisions
    from widgets import Curves, FleetView, LazyHeap, PairedSeeds

    return (
        Curves,
        FleetView,
        LazyHeap,
        PairedSeeds,
        decisions,
        exhibits,
        fleet,
        measured,
        routing,
    )


@app.cell(hide_code=True)
def _(FleetView, fleet):
    rush_runs = fleet.rush()
    FleetView(
        rush_runs["by arrival"].trace.to_json(),
        "300 requests per second, in order of arrival (modelled)",
        zoom=3,
        question="How long is the queue when four workers cannot keep up?",
    )
    return (rush_runs,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    A lane is a worker: hatched a prefill, blue the decodes of its batch. The queue stands above them.
    Step with the arrows from event to event, or press **Next trouble**.
    """)
    return


@app.cell(hide_code=True)
def _(fleet, rush_runs):
    predict(
        "l09.overload",
        "The same 1,187 requests once more, but the queue is ordered by priority and then by "
        "deadline; nothing else differs. **What does that do to the time to first token (TTFT)?**",
        (
            "Median and 99th percentile both get better",
            "The median gets better, the 99th percentile worse",
            "The median gets worse, the 99th percentile better",
            "Little: the same tokens are to be computed by the same workers",
        ),
        1,
        fleet.rush_facts(rush_runs)
        + "Most requests pass quickly, because a few wait for nearly all the others. A team that "
        "looks at medians alone ships this. (By arrival, no request overtakes the first in line when "
        "that one fits nowhere; by priority, those behind it may.)",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l09.overload",
        mo.md(r"""
    You will find out which these few are, and get both figures down. First the queue itself.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Build it

    ### A queue that forgets nothing

    A heap gives the smallest key in a few steps, however many wait. But requests do not lie still in
    it: one becomes urgent and gets a new key, one is withdrawn, and finding an entry inside a heap
    means looking through all of it. So nothing is looked for: **the old entry stays, and it is enough
    to know later that it does not count.** Each request has a counter, its *generation*, and each
    entry carries the number that it was pushed with.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l09.apply_event")
    return


@app.function
def apply_event(
    heap: list[tuple[tuple, int, int]], generations: dict[int, int], event: tuple
) -> tuple[list[tuple[tuple, int, int]], dict[int, int], int | None]:
    """Return `(heap, generations, popped)` as they are after one event in a queue of requests."""
    raise NotImplementedError("Exercise 9.1: a heap in which entries go stale")


@app.cell(hide_code=True)
def _():
    event_attempt = attempt("l09.apply_event", lambda: apply_event)
    event_attempt
    return (event_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l09.apply_event")
    return


@app.cell(hide_code=True)
def _(LazyHeap, event_attempt, fleet):
    LazyHeap(
        fleet.morning(event_attempt),
        "A queue, by your apply_event"
        if event_attempt.started
        else "A queue, by the reference (your apply_event is not written yet)",
        question="Two entries of one request: which of them counts?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Request 3 lies in the heap twice from its second push on, request 5 from its own; only one of each
    counts. The number alone tells which, and it has to go one way only.

    ### About to be late

    A request that is about to miss its deadline goes up two levels. The source lifts one that is
    *within 50 ms of the deadline*, looks every millisecond, and goes on once the deadline is past.
    Which requests does that help? Lesson 5 knows: not one that has 40 ms left and 300 ms of work.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l09.boosted_priority")
    return


@app.function
def boosted_priority(priority: int, now: int, deadline: int, remaining: int) -> int:
    """Return the priority that a request has at the moment `now`: urgent ones are lifted."""
    raise NotImplementedError("Exercise 9.2: the priority at this moment")


@app.cell(hide_code=True)
def _():
    boost_attempt = attempt("l09.boosted_priority", lambda: boosted_priority)
    boost_attempt
    return (boost_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l09.boosted_priority")
    return


@app.cell(hide_code=True)
def _(Curves, boost_attempt, fleet):
    Curves(
        fleet.lifted(boost_attempt),
        ("time", "ms"),
        ("priority, 0 the highest", ""),
        "Priority 8, deadline at 200 ms, 80 ms of work",
        question="When is it lifted, and can it still be saved then?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The source lifts it when it is too late, again at every tick until none is above it, and there it
    stays: a request that cannot be saved is first in line. Nor need anything look every millisecond.
    The slack of a waiting request falls by 1 ms per ms, so the two moments at which `boosted_priority` changes its
    mind are known when it arrives: the simulator makes events of them.

    ### A key that changes, and does not

    Now back to the rush, by class of priority.
    """)
    return


@app.cell(hide_code=True)
def _(fleet, rush_runs):
    after("l09.overload", mo.md(fleet.classes_table(rush_runs)))
    return


@app.cell(hide_code=True)
def _(fleet, rush_runs):
    from course.figure import Figure

    after(
        "l09.overload",
        Figure(fleet.rush_chart(rush_runs), "Which requests pay for the short waits of the others?"),
    )
    return (Figure,)


@app.cell(hide_code=True)
def _():
    after(
        "l09.overload",
        mo.md(r"""
    By priority alone, the lowest classes are served when no other request is left: *starvation*,
    lesson 2b. Its cure there was ageing: what waits gains rank. But a key that changes with time breaks
    a heap, which compares two entries when they are pushed and believes the answer for ever. Does it?
    """),
    )
    return


@app.cell(hide_code=True)
def _(Curves, fleet):
    Curves(
        fleet.two_that_age(),
        ("time", "ms"),
        ("rank, the smaller goes first", ""),
        "Two waiting requests, a level for each 250 ms of waiting",
        sliders=[{"name": "both age at", "values": ["the same rate", "A twice as fast"]}],
        question="Can one of them overtake the other while both wait?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    At one rate the lines never cross. Divide out the moment and `arrival + ageing_us * priority` is
    left: one number, known at the push, right for ever. (A request whose priority is boosted is pushed again.
    That is what generations are for.) With rates of their own they cross, and the heap would be wrong.

    Was seed 42 lucky? Here each seed is a pair, joined by a line; both runs of a pair meet the
    identical load.
    """)
    return


@app.cell(hide_code=True)
def _(PairedSeeds, measured):
    after(
        "l09.overload",
        PairedSeeds(
            measured.order_pairs()["unaged"],
            "300 requests per second: by priority against by arrival (modelled)",
            metrics=measured.TTFT,
            question="Is this change better or worse? Look at **both** panels.",
        ),
    )
    return


@app.cell(hide_code=True)
def _(PairedSeeds, measured):
    after(
        "l09.overload",
        PairedSeeds(
            measured.order_pairs()["aged"],
            "The same, with ageing (modelled)",
            metrics=measured.TTFT,
            question="And with ageing?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l09.overload", mo.md(r"""
    By priority alone the median falls in all 10 seeds, and in 10 of them the 99th percentile rises:
    -649 ms (-765 to -533) and +1,529 ms (+1,191 to +1,867). One and the same change; which of the two
    figures is on the poster is a choice. With ageing the median keeps its gain, -629 ms (-736 to -523),
    and the 99th percentile improves too: -187 ms (-332 to -43). Recorded; `lessons/data/fleet.md` says
    how.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Where does it go?

    A worker that still has the K/V of the beginning of a prompt need not compute it again: a *prefix
    hit*, as in lesson 7. So the source gives each worker points, and the most points win:

    `10 · hit tokens − 100 · utilisation + 0.1 · free KV tokens + 0.5 · free slots`
    """)
    return


@app.cell(hide_code=True)
def _(FleetView, routing):
    by_source = routing.routed("source")
    FleetView(
        by_source.trace.to_json(),
        "150 requests with one system prompt, by the source's score (modelled)",
        zoom=2,
        question="A queue, and which workers are idle beside it?",
    )
    return (by_source,)


@app.cell(hide_code=True)
def _():
    predict(
        "l09.score",
        "Two workers are alike but for this: one knows 33 tokens of the prompt and has a "
        "**full** batch but one, the other knows none and is **idle**. 2,048 KV tokens each; say that "
        "its 31 running requests use all but 100 of them. Which wins by the source's score?",
        (
            "The idle one: 100 points for utilisation are a lot",
            "The busy one: 33 tokens are 330 points, and everything else together is less",
            "Neither: the score is the same",
        ),
        1,
        "**244 against 221 points.** Computing 33 tokens takes 13 µs each on the modelled GPU: less than half a millisecond. "
        "The points have no unit, so it went unnoticed what they trade. In the run above it is a whole "
        "system prompt of 600 tokens.",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l09.score",
        mo.md(r"""
    Give everything the same unit. A worker has promised to compute so many prompt tokens: its
    *backlog*. A hit is so many tokens that it need not compute. Both are tokens, and together they say
    where this prefill is **done** first.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    task("l09.route")
    return


@app.function
def route(workers: "list[WorkerView]", hits: dict[int, int]) -> int:
    """Return the `id` of the worker to send a request to: where its prefill is done first."""
    raise NotImplementedError("Exercise 9.3: the worker whose prefill is done first")


@app.cell(hide_code=True)
def _():
    route_attempt = attempt("l09.route", lambda: route)
    route_attempt
    return (route_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l09.route")
    return


@app.cell(hide_code=True)
def _(by_source, route_attempt, routing):
    after("l09.score", mo.md(routing.routing_table(by_source, route_attempt)))
    return


@app.cell(hide_code=True)
def _():
    after(
        "l09.score",
        mo.md(r"""
    The score chases hits: the worker that knows the system prompt gets every request, until its batch
    is full, and only then does another ever get to know the prompt. The prefix hits are **the same** in
    every row: each worker has to compute 600 tokens once, and that is all that spreading costs. So *each
    worker in turn* does as well here as anything clever. Routing by prefix pays when there are more
    prefixes than a worker can keep.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Making room by force

    When no worker has room, a running request may have to leave. The rule of the source: a waiter
    **three levels** above it takes its place. The victim keeps its text and waits again; its K/V is
    gone and is computed once more, or brought back from the host's memory if it was *swapped* out. One
    worker with a batch of one; at 100 ms an important request comes:
    """)
    return


@app.cell(hide_code=True)
def _(routing):
    mo.md(routing.report_and_voice())
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The victim pays twice: it waits for the other to end, and for its own prefill, the tokens included
    that it had generated. Under load a preemption buys a place for one request and takes tokens from
    all. Whether that pays is a question for the table further down.

    ## Your fleet

    A burst: 5 requests per second, then 200, then 5 again, on calibrated costs (a
    1.2-billion-parameter model on one data-centre GPU, worked out). The queue is kept by your
    `apply_event`, the urgent are lifted by your `boosted_priority`, your `route` sends them.
    """)
    return


@app.cell(hide_code=True)
def _(routing):
    reference_fleet = routing.burst_of()
    return (reference_fleet,)


@app.cell
def _(
    boost_attempt,
    decisions,
    event_attempt,
    reference_fleet,
    route_attempt,
    routing,
):
    attempts = {"apply_event": event_attempt, "boosted_priority": boost_attempt, "route": route_attempt}

    your_fleet = routing.burst_of(
        apply_event=event_attempt.or_reference(decisions.apply_event),
        boosted_priority=boost_attempt.or_reference(decisions.boosted_priority),
        route=route_attempt.or_reference(decisions.route),
    )
    mo.md(routing.fleet_table(attempts, your_fleet, reference_fleet))
    return attempts, your_fleet


@app.cell(hide_code=True)
def _(Figure, attempts, reference_fleet, routing, your_fleet):
    Figure(
        routing.fleet_chart(attempts, your_fleet, reference_fleet),
        "Which requests wait, and what does the fleet do while they do?",
    )
    return


@app.cell(hide_code=True)
def _(FleetView, attempts, reference_fleet, your_fleet):
    _runs = not isinstance(your_fleet, str)
    _mine = _runs and any(each.started for each in attempts.values())
    FleetView(
        (your_fleet if _runs else reference_fleet).trace.to_json(),
        ("Your" if _mine else "The reference's") + " fleet in a burst (modelled)",
        zoom=1,
        question="Which deadlines are missed, and what ran in their place?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Two real workers

    No model so far, only its times. So here are real ones: two processes, an engine with the
    Shakespeare model in each, and a router in front of them that asks `route`. A worker keeps K/V in
    blocks of 16 tokens and shares them, as in lesson 7. After every step it tells the router which block
    hashes it has added and which it has evicted; a hit is the longest match of a prompt's hashes among
    them.
    """)
    return


@app.cell
def _(decisions, measured, route_attempt):
    RUN = False  # True starts two processes and measures here: a minute or so

    real, where_from = measured.two_workers(RUN, route_attempt.or_reference(decisions.route))
    return real, where_from


@app.cell(hide_code=True)
def _(Figure, measured, real, where_from):
    Figure(measured.hit_chart(real, where_from), "What is a hit of so many tokens worth?")
    return


@app.cell(hide_code=True)
def _(measured, real):
    mo.md(
        "What is computed falls by exactly the hit, and the TTFT with it, down to the fixed cost of "
        "a step and of the way through two pipes. Only whole blocks are found, and the last token of "
        "a prompt is always computed, since the first draw needs its logits. "
        + measured.routes_table(real)
        + "\n\nWith two workers and six prefixes both soon know most of them, which leaves a route "
        "little to save: a fifth of the prompt tokens when this was recorded."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Break it

    Three defects of the source, each with its symptom. Decide what is wrong, then **repair the function in its
    cell**: what stands below it answers.

    ### Exhibit A: out of turn

    A queue like the one at the top. Request 5 was withdrawn while it had priority 2 and came back with
    priority 6, behind all others. Step to the end. Here is what a removal does to the counters.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_a(generations, request_id):
    """The generations after this request was removed from the queue."""
    generations = dict(generations)
    generations.pop(request_id, None)  # gone is gone: nothing to remember
    return generations


@app.cell(hide_code=True)
def _(LazyHeap, exhibits):
    revived_story = exhibits.second_morning(piece(lambda: exhibit_a))
    LazyHeap(
        revived_story,
        "Exhibit A: whose turn is it?",
        question="Which request is popped first, and should it be?",
    )
    return (revived_story,)


@app.cell(hide_code=True)
def _():
    predict(
        "l09.exhibit_a",
        "Request 5 is popped first, although its only valid key is the last of all. **What is broken?**",
        (
            "The heap is not a heap any more after a removal",
            "The push should have looked for the old entry and deleted it",
            "The removal forgot the counter, so the next push begins at 1 again",
            "The pop compares priorities and forgets the deadline",
        ),
        2,
        "Request 5's old entry has generation 1. The removal threw the counter away, the push began at "
        "1 again, and **two** entries are now live. The smaller key wins, the one that was withdrawn. "
        "The source's README says that generations prevent exactly this; its `remove` pops the "
        "counter. Counters that only rise cost one integer per request.",
    )
    return


@app.cell(hide_code=True)
def _(exhibits, revived_story):
    after(
        "l09.exhibit_a",
        mo.md(
            exhibits.verdict(
                exhibits.in_turn(revived_story),
                "All leave in the order of their keys.",
                "A request that was withdrawn is popped by its old key.",
            )
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: a green test

    The rush again, for three seconds. The scheduler runs as a task of its own beside the workers, as it
    does in the source. No error, no warning, and all tests are green. One of them is about preemption.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_b(totals):
    """The test: raises an AssertionError if preemption does not work."""
    assert totals.preemptions >= 0


@app.cell(hide_code=True)
def _(exhibits):
    dead_run, died_of, living_run = exhibits.dead_and_living()
    mo.md(exhibits.dead_table(dead_run, living_run))
    return dead_run, died_of, living_run


@app.cell(hide_code=True)
def _(dead_run, died_of):
    predict(
        "l09.exhibit_b",
        f"{dead_run.totals.completed} of {dead_run.totals.arrived} requests are served, then nothing "
        "happens any more. **Why does no one notice?**",
        (
            "The workers are full, and full workers are no error",
            "The task died of an error at its first preemption; nothing awaits the task, and the test "
            "accepts 0 preemptions",
            "A preemption is never tried, because the gap is never 3",
            "The requests were refused, which counts as served",
        ),
        1,
        f"The scheduler's first preemption touches a set that was never made: `{died_of}`. An "
        "exception in a task stays in the task until its result is asked for, and nothing asks. The "
        "workers finish what they have. The test asserts `preemptions >= 0`, which is true of "
        "everything. Run as published with `--rps 300 --duration 8`, the source completed 266 of 1,942 "
        "requests, and its 45 tests passed.",
    )
    return


@app.cell(hide_code=True)
def _(dead_run, exhibits, living_run):
    after(
        "l09.exhibit_b",
        mo.md(exhibits.judged_test(piece(lambda: exhibit_b), dead_run, living_run)),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit C: no better than FIFO

    A careful comparison: the same loads, five seeds, and only what the comparison is about switched off
    in the baseline. The result is disappointing: less gained in TTFT than hoped for, and the adaptive
    fleet's own tokens come *later* than the baseline's.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_c(adaptive):
    """The baseline: first come, first served, each arrival to the next worker."""
    return replace(
        adaptive,
        name="FIFO",
        order="fifo",
        urgency="off",
        ageing_us=None,
        preemption_gap=None,
        routing="round_robin",
    )


@app.cell(hide_code=True)
def _(exhibits):
    suspect = exhibits.baseline_of(piece(lambda: exhibit_c))
    mo.md(exhibits.baselines_table(suspect))
    return (suspect,)


@app.cell(hide_code=True)
def _(exhibits, suspect):
    predict(
        "l09.baseline",
        "Against this baseline the ITL gets worse, against `nanogpt.fleet.fleet_config.FIFO` it gets better, and the "
        "median TTFT gains two thirds more. **What is wrong with the baseline?**",
        (
            "It has fewer workers",
            "It has the prefix cache and speculation, which were never switched off",
            "It stops at the first in line when that does not fit",
            "It meets other arrivals",
        ),
        1,
        exhibits.hits_of(suspect)
        + "A baseline made from the system by switching things off keeps whatever one forgets. In the "
        "source, too, FIFO has the prefix cache (a hit rate of 2.3 % when it was run) and speculation, "
        "and its table prints a literal `0.0%`. Build a baseline up from nothing, and measure what it "
        "does instead of printing what it should.",
    )
    return


@app.cell(hide_code=True)
def _(exhibits, suspect):
    after("l09.baseline", mo.md(exhibits.judged_baseline(suspect)))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Measure it, including where it loses

    The whole fleet, and again with one piece switched off. What stands there is what the piece
    **brings**, over six paired seeds: less is better, and where it is, it is bold. *Nothing*: equal in
    every pair of runs. *Noise*: the interval holds 0.
    """)
    return


@app.cell(hide_code=True)
def _():
    after("l09.overload", mo.md(r"""
    | piece | 30/s: median TTFT | 300/s: median TTFT | 300/s: 99th percentile | burst: deadlines missed |
    |:--|--:|--:|--:|--:|
    | order by priority | noise | **-415.5 ms** | +213.8 ms | **-11.1 points** |
    | ageing | nothing | +8.3 ms | **-1,565.5 ms** | +13.7 points |
    | urgency | nothing | nothing | nothing | **-10.1 points** |
    | preemption | nothing | +8.0 ms | +260.2 ms | noise |
    | routing by backlog | **-2.5 ms** | noise | noise | noise |
    | prefix cache | **-4.5 ms** | noise | noise | noise |
    | speculation | +0.7 ms | **-1,402.8 ms** | **-2,183.9 ms** | **-18.4 points** |
    """))
    return


@app.cell(hide_code=True)
def _():
    after(
        "l09.overload",
        mo.md(r"""
    - **As long as no request waits, no queue discipline does anything.** At 30 per second only the
      prefix cache, and routing to it, shorten the prefill.
    - **Order by priority** buys the median with the 99th percentile. **Ageing** gives that back, and in
      the burst it costs deadlines: what has waited long is often late already, and is now served before
      a request that could still make it. Fairness has a price.
    - **Urgency, for those that it can save**, changes nothing until deadlines are at stake, and then a lot.
    - **Preemption at a gap of 3 pays nowhere here**: each victim is computed again by workers that have
      no time.
    - **Speculation**, lesson 8, is the largest piece under load. At 30 per second it makes the median TTFT
      *longer*: a newcomer waits for a step to end, and steps with drafts take longer.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Repeat a part of it yourself. The source's own comparison is one command, in the course's folder:

    ```text
    .venv/bin/python -m nanogpt.fleet --policy source --compare-fifo --scenario burst \
        --kv-slots 65536
    .venv/bin/python -m nanogpt.fleet --scenario burst --cost calibrated --compare-fifo
    ```
    """)
    return


@app.cell(hide_code=True)
def _(measured):
    _source, _real = measured.gains_of_a_batch()
    mo.md(
        "The source's README shows one run of its burst: a median of 5.1 ms, FIFO 4.1; a 99th "
        "percentile of 46.3 ms, FIFO 53.7. One run of a simulation on the wall clock cannot tell "
        "differences of this size from luck. Ten paired seeds can: 0.7 ms of median TTFT at most, nothing "
        "but noise at the 99th percentile, and tokens that come 26 to 47 µs later.\n\n"
        "**Why two costs?** In the source's formulas a decode step costs 100 µs for each request and "
        f"50 µs once, so a batch of 32 makes only **×{_source:.2f}** the tokens per second of one "
        "request. A real decode reads the weights once for all of them: on the calibrated costs it is "
        f"**×{_real:.0f}**. What a fleet gains from anything depends on this line more than on its "
        "policy: under the source's costs it pays to keep batches small, under real ones to fill them."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    /// details | For readers of the source: what is different here, and all of it against a naive FIFO

    - A virtual clock in place of asyncio tasks on the wall clock: a run is repeatable, and no task can
      die unheard.
    - The source counts priority 9 as the most urgent and adds 2; here 0 is, and 2 are taken away.
    - Kept as it has them: the gap of 3, the place that is filled as soon as a request leaves it, a first in line that
      fits nowhere being skipped, and 1 ms for each decision.
    - Its *utilisation* is how full the prefix cache is, which is full most of the time, so it leaves
      speculation off on idle workers; here it is the share of the batch in use.
    - Its prompts come from another pool, so its hit rates (about 11 %) are lower than ours (18 to
      25 %); and its arrivals are drawn anew in each run, so its requests are fewer or more.

    | costs | scenario | FIFO's median TTFT, and the difference | 99th percentile | deadlines missed |
    |:--|:--|:--|:--|:--|
    | source | steady | 12.5 ms, -4.5 ms (-5.1 to -4.0) | 75 ms, within noise | 0.0 %, equal |
    | source | burst | 366 ms, -359.2 ms (-447.1 to -271.4) | 1,083 ms, -985.7 ms (-1,173.0 to -798.4) | 3.9 %, -3.9 points (-5.2 to -2.6) |
    | source | mixed_priority | 11.7 ms, -4.1 ms (-4.6 to -3.7) | 101 ms, -25.5 ms (-30.2 to -20.8) | 0.0 %, equal |
    | calibrated | steady | 9.5 ms, -5.5 ms (-8.2 to -2.7) | 868 ms, -846.4 ms (-985.4 to -707.5) | 2.7 %, within noise |
    | calibrated | burst | 9,671 ms, -5,025.4 ms (-5,239.3 to -4,811.5) | 20,299 ms, -6,755.6 ms (-7,306.1 to -6,205.0) | 80.6 %, -24.7 points (-26.9 to -22.5) |
    | calibrated | mixed_priority | 4,818 ms, -4,811.4 ms (-5,280.5 to -4,342.4) | 10,889 ms, -10,093.3 ms (-10,894.7 to -9,291.9) | 62.4 %, -58.9 points (-61.2 to -56.6) |

    20 s of arrivals, ten seeds, mean differences with 95 % intervals; `lessons/data/fleet.md`.
    ///
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A policy of your own

    All of it in one function: which request goes where, now? You see the fleet as it is, name a request
    and a worker, and are asked again until you answer `None`. What counts is not to look like the
    reference. What counts is attainment, on loads that you cannot see: **one load proves nothing**, a
    policy that was tuned on it can win there by luck. This one may well wait for another day.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l09.my_policy")
    return


@app.function
def my_policy(snapshot: "FleetSnapshot") -> tuple[int, int] | None:
    """Return `(request_id, worker_id)`: which request goes to which worker. None ends the round."""
    raise NotImplementedError("Exercise 9.4: which request goes where next?")


@app.cell(hide_code=True)
def _():
    policy_attempt = attempt("l09.my_policy", lambda: my_policy)
    policy_attempt
    return (policy_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l09.my_policy")
    return


@app.cell(hide_code=True)
def _(FleetView, policy_attempt, routing):
    practice_run = routing.practice(policy_attempt)
    if isinstance(practice_run, str):
        practice = mo.md(practice_run)
    else:
        practice = FleetView(
            practice_run.trace.to_json(),
            "A practice load, by your my_policy (modelled)"
            if policy_attempt.started
            else "A practice load, by FIFO: your my_policy is not written yet (modelled)",
            zoom=1,
            question="**Next trouble**: which request is late, and which one was served before it?",
        )
    practice
    return (practice_run,)


@app.cell(hide_code=True)
def _(practice_run, routing):
    mo.md(routing.practice_said(practice_run))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How production engines do it

    - **Continuous batching** comes from **Orca** (Yu et al., OSDI 2022): schedule iteration by iteration,
      36.9 times the throughput of FasterTransformer at the same latency for GPT-3, by its abstract.
    - **SGLang's router** ([Model Gateway](https://docs.sglang.io/advanced_features/router.html)) keeps a
      radix tree, a tree of prefixes, of the text sent to each worker. If the longest match is above `cache_threshold` (0.3) of
      the prompt, the request goes where the match is; but once the busiest worker has over 64 requests
      more than the idlest, and over 1.5 times as many, the shortest queue gets it. Two modes and a
      switch; yours is one formula, as it knows both in tokens. **vLLM's router** is
      [derived from a fork of it](https://blog.vllm.ai/2025/12/13/vllm-router-release.html).
    - **Ray Serve's** [KV-aware routing](https://docs.ray.io/en/master/serve/llm/user-guides/kv-aware-routing.html)
      is closer to yours: remaining prefill work plus the worker's active work, and the least wins.
    - **Mooncake** (Qin et al., [arXiv 2407.00079](https://arxiv.org/abs/2407.00079)) estimates TTFT for
      each prefill instance from queue and hit, takes the smallest, and *copies* hot prefixes to others.
    - **Ageing**: proposed for vLLM's priority queue in
      [#20608](https://github.com/vllm-project/vllm/pull/20608), closed without being merged. It compares
      `priority - factor * (now - inserted)` in a heap, which works for the reason that you saw.

    And the defects of this page are out there:

    - **The hotspot.** [vllm-project/router #179](https://github.com/vllm-project/router/issues/179): on
      one path the load was never counted. One engine of eight served all of 480 concurrent requests, until
      its K/V ran out of memory; seven were idle. [production-stack #1035](https://github.com/vllm-project/production-stack/pull/1035):
      routing by hits alone piles all requests with a hot prefix onto the one engine that has it.
    - **Starvation.** [SGLang #31954](https://github.com/sgl-project/sglang/issues/31954), since closed: the
      queue by longest matched prefix (policy `lpm`, which falls back to arrival order above 128 waiting),
      no ageing. A median TTFT of 0.7 s, and a tail of 20 to 60 s for what has no hit: 5 % of the requests
      with 75 % of all the waiting.

    ## What comes next

    In [lesson 10](/?file=l10_capstone.py) one engine is enough again, and all that you have built goes to
    work in it: it serves a real endpoint, for clients that other people wrote.
    """)
    return


if __name__ == "__main__":
    app.run()

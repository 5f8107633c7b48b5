import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="5 · SLO policy")

with app.setup(hide_code=True):
    import json
    from collections.abc import Callable
    from dataclasses import replace
    from pathlib import Path
    from statistics import fmean

    import marimo as mo
    import torch

    import course
    from course.attempt import attempt, exhibit, piece
    from course.calling import call
    from course.prediction import after, hints, predict
    from course.task import task
    from nanogpt import load_model
    from nanogpt.guard import PartError
    from nanogpt.model import attend_causally
    from nanogpt.slo import (
        POST_COST,
        Arrival,
        SloParts,
        SloRequest,
        SloView,
        policy,
        predictor,
        simulate,
        two_tier_load,
    )
    from nanogpt.slo.variants import (
        BATCHED,
        BATCHED_WITHOUT_RULE_1,
        FORK,
        LADDER,
        PROGRESS,
        ROUND_COST,
        SEEN,
        SUSPENDED,
        UNPREEMPTED,
        doomed_pair,
        dragged_along,
        starved,
    )
    from widgets import GatePicture, RepairLadder, SlackTimeline


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 5 · SLO policy

    **75 minutes.** Builds on lesson 2 (queues, preemption, starvation).
    Afterwards you can say how much time a request has to spare, rank requests by it, decide when a running prefill should give way
    and who may run beside an urgent one, and tell from a table whether all of that was worth it.

    ## Who gives way, and is it worth it?

    Somebody pastes a report of 4,000 tokens. Its prefill is running when another request comes in: 200 tokens, a voice assistant that
    was promised its first token within 100 ms. Such a promise is a *service-level objective*, SLO for short. The share of requests that
    got theirs is the *SLO attainment*, and that is the measure of this lesson.

    As in the post that it grew from, the machine does nothing but prefill (decodes run elsewhere). One *pass* is one
    forward over one or several whole prompts. To keep numbers round, a pass takes 10 ms plus 0.1 ms per token, and
    the model has 10 layers. All times are modelled.
    """)
    return


@app.function(hide_code=True)
def bounded(gate: Callable, most: int, granted: list) -> Callable:
    """The same gate, but for an end: a run in which nobody gets done is stopped."""

    def limited(*moment):
        victim = gate(*moment)
        if victim is not None:
            granted.append(victim)
        if len(granted) > most:
            raise RuntimeError("too many preemptions")
        return victim

    return limited


@app.function(hide_code=True)
def simulated(load, variant, cost=ROUND_COST, most=300, **parts):
    """A run with these functions in the policy; a sentence instead when one of them fails."""
    granted = []
    if parts.get("gate", policy.gate) is not policy.gate:
        parts["gate"] = bounded(parts["gate"], most, granted)
    try:
        return simulate(load, variant, cost, SloParts(**parts))
    except PartError as error:
        if len(granted) > most:
            return f"**The run was stopped** after {most} preemptions: hardly anybody got done."
        return f"**The run stopped:** {error}"


@app.function(hide_code=True)
def passes(run, most: int = 8) -> str:
    """The first passes of a run and how everybody fared, as Markdown."""
    if isinstance(run, str):
        return run
    layers = run.cost.num_layers
    lines = ["| ms | whose pass | layers |", "|--:|:--|:--|"]
    for each in run.passes[:most]:
        before, after = each.layers
        bar = "▒" * before + "█" * (after - before) + "░" * (layers - after)
        who = " + ".join(str(i) for i in each.ids)
        end = "" if each.ending == "finished" else f"<br>**{each.ending}**"
        span = f"{each.start_us / 1000:,.0f} to {each.end_us / 1000:,.0f}"
        lines.append(f"| {span} | {who} | {bar}{end} |")
    if len(run.passes) > most:
        lines.append(f"| … | … | {len(run.passes) - most} more passes |")
    lines += ["", "| request | arrives | deadline | first token |", "|--:|--:|--:|:--|"]
    for arrival, result in list(zip(run.arrivals, run.results, strict=True))[:4]:
        first = "never"
        if result.first_token_us is not None:
            first = f"{result.first_token_us / 1000:,.0f} ms"
        lines.append(
            f"| {arrival.id} | {arrival.arrival_us / 1000:,.0f} | {arrival.deadline_us / 1000:,.0f} ms | "
            f"{first}, {'in time' if result.attained else '**missed**'} |"
        )
    return "\n".join(lines)


@app.cell
def _():
    REPORT_AND_VOICE = (  # id, arrival, tokens, urgent, promised within: times in µs
        Arrival(0, 0, 4000, False, 5_000_000),
        Arrival(1, 50_000, 200, True, 100_000),
    )

    left_alone = simulate(REPORT_AND_VOICE, UNPREEMPTED, ROUND_COST)
    mo.md(passes(left_alone))
    return REPORT_AND_VOICE, left_alone


@app.cell(hide_code=True)
def _(REPORT_AND_VOICE, left_alone):
    def _facts():
        stopped = simulate(REPORT_AND_VOICE, BATCHED, ROUND_COST)
        ttft = {
            (name, arrival.id): (result.first_token_us - arrival.arrival_us) / 1000
            for name, run in (("alone", left_alone), ("stopped", stopped))
            for arrival, result in zip(run.arrivals, run.results, strict=True)
        }
        return stopped, ttft

    _stopped, _ttft = _facts()
    predict(
        "l05.price",
        f"The voice request gets its first token {_ttft['alone', 1]:g} ms after it came. Suppose that the report's pass can be left at the "
        "next layer, thrown away, and started again later. What does that cost the report's TTFT?",
        (
            "30 ms: what the voice request computes",
            "About 110 ms: those 30 ms, and all that had been computed",
            "About 400 ms: it starts again from nothing, so its time doubles",
        ),
        1,
        f"The report's TTFT goes from {_ttft['alone', 0]:g} to {_ttft['stopped', 0]:g} ms: **{_ttft['stopped', 0] - _ttft['alone', 0]:g} ms** more, "
        f"{_stopped.passes[0].duration_us / 1000:g} ms of work thrown away (it was left at layer {_stopped.decisions[0].layer}) and "
        f"{_stopped.passes[1].duration_us / 1000:g} ms of waiting. The voice request's goes from {_ttft['alone', 1]:g} to {_ttft['stopped', 1]:g} ms. "
        "Both deadlines are met. Had the report been at its ninth layer, the bill would be another one.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    **Why not cut the report into chunks, as in lesson 1?** Chunks do let somebody in between. But every chunk pays the fixed cost of a pass, urgent
    arrival or not. With the line that the post's author measured (a 70-billion-parameter model on four A100: 0.173 ms per
    token, 34 ms per pass; modelled here):
    """)
    return


@app.cell
def _():
    def in_chunks(tokens, size):
        """(time of the whole prefill, longest wait for a gap) in ms."""
        chunks = [min(size, tokens - start) for start in range(0, tokens, size)]
        times = [policy.predict(n, POST_COST.a_us, POST_COST.c_us) / 1000 for n in chunks]
        return sum(times), max(times)

    _whole, _ = in_chunks(4000, 4000)
    mo.md(
        "| 4,000 tokens in chunks of | the whole prefill | | longest wait for a gap |\n|--:|--:|--:|--:|\n"
        + "\n".join(
            f"| {size:,} | {total:,.0f} ms | ×{total / _whole:.2f} | {wait:,.0f} ms |"
            for size in (4000, 2048, 512, 128)
            for total, wait in [in_chunks(4000, size)]
        )
        + f"\n| one piece, left between two of {POST_COST.num_layers} layers | {_whole:,.0f} ms | ×1.00 | {_whole / POST_COST.num_layers:,.0f} ms |"
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    So this lesson's machine runs prompts whole, with a way out at every layer. *How* one leaves a running pass is lesson 6. *When* is this one.

    ## How much time is there to spare?

    Two requests of 500 tokens, both waiting. Their prefill is predicted to take 60 ms; that is the bar, and it begins *now*. Press the arrow:
    time passes, the bar moves with it, the deadline does not.
    """)
    return


@app.function(hide_code=True)
def slack_case(label, deadline, rate=0.0, slack=policy.slack, urgency=policy.urgency):
    """500 tokens seen every 10 ms, for the picture; `rate` tokens are computed per microsecond."""
    a, c, moments = ROUND_COST.a_us, ROUND_COST.c_us, []
    for now in range(0, 40_001, 10_000):
        done = int(now * rate)
        spare = slack(now, deadline, 500, done, a, c)
        moments.append(
            {
                "now_us": now,
                "done_tokens": done,
                "predicted_us": policy.predict(500 - done, a, c),
                "slack_us": spare,
                "urgency": urgency(spare, deadline - now),
            }
        )
    return {
        "label": label,
        "arrival_us": 0,
        "deadline_us": deadline,
        "total_tokens": 500,
        "a": a,
        "c": c,
        "moments": moments,
    }


@app.cell(hide_code=True)
def _():
    SlackTimeline(
        [
            slack_case("promised within 130 ms", 130_000),
            slack_case("promised within 80 ms", 80_000),
        ],
        title="Two requests wait (modelled)",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    What is left between the end of the bar and the deadline is the **slack**. While a request waits, its slack melts by 1 ms per
    ms. Below zero it is *doomed*: it misses its deadline even if it runs at once.

    ## Build it

    Five small functions. Four of them go into the simulated machine further down.

    ### How long does a prefill take?

    A scheduler has to know that before it happens. The usual way: measure a few prompt lengths once and fit a line. Here is
    such a sweep: our model on a CPU, measured once (`lessons/data/step_costs.json`).
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l05.fit")
    return


@app.function
def fit(points: list[tuple[int, float]]) -> tuple[float, float]:
    """Return `(a, c)`: a prefill of n tokens is predicted to take a * n + c microseconds."""
    raise NotImplementedError("Exercise 5.1: the line of least squared error")


@app.cell(hide_code=True)
def _():
    fit_attempt = attempt("l05.fit", lambda: fit)
    fit_attempt
    return (fit_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l05.fit")
    return


@app.cell(hide_code=True)
def _():
    DATA = Path(course.__file__).parents[1] / "lessons" / "data"

    def _points():
        record = json.loads((DATA / "step_costs.json").read_text(encoding="utf-8"))
        return [(each["tokens"], each["us"]) for each in record["points"] if each["tokens"] >= 16]

    CPU_SWEEP = _points()
    return CPU_SWEEP, DATA


@app.cell(hide_code=True)
def _(CPU_SWEEP, fit_attempt):
    def _line(points):
        """The line by whoever wrote it, as a predictor to compare with."""
        if fit_attempt.started:
            found = call(fit_attempt.function, (points,)).value
            if isinstance(found, tuple) and len(found) == 2 and all(isinstance(x, float | int) for x in found):
                return found, "your line"
        return predictor.fit(points), "a line (the reference's: yours is not ready)"

    def _table(points):
        (a, c), whose = _line(points)
        line, cubic = (predictor.fit_polynomial(points, degree) for degree in (1, 3))
        rows = "\n".join(
            f"| {n} | {us / 1000:.2f} ms | {(a * n + c) / 1000:.2f} ms | {cubic.predict_us(n) / 1000:.2f} ms |"
            for n, us in points
        )
        return (
            f"| tokens | measured | {whose} | a cubic |\n|--:|--:|--:|--:|\n{rows}\n"
            f"| R² | | {line.r_squared:.4f} | {cubic.r_squared:.4f} |\n\n"
            f"The line says **{a / 1000:.4f} ms per token and {c / 1000:.2f} ms per pass**."
        )

    mo.md(_table(CPU_SWEEP))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    R² is the share of the ups and downs that the curve explains. A fixed cost below zero is a warning: the points bend. In this small
    model attention, which grows with the square of the prompt, is a good part of the work, so the line runs below the short prompts and
    the longest. The paper behind the post fits a cubic for that reason. The post's author measured six lengths from 242 to 7,986 tokens of a 70-billion-parameter
    model and got **R² = 0.9996 with a line**: there the large matrices cost so much that attention's square hardly shows.

    *A line* is thus a fact about one model on one machine and one range of lengths. Refit when one of them changes: `python -m nanogpt.slo fit sweep.csv`, with `--cubic` if need
    be. And this machine, just now:
    """)
    return


@app.cell
def _():
    live_model = load_model()

    def prefill(tokens):
        """One pass over so many tokens, nothing kept."""
        with torch.inference_mode():
            live_model.hidden(
                torch.zeros(tokens, dtype=torch.long), torch.arange(tokens), attend_causally
            )

    live_sweep = predictor.sweep(prefill, (32, 64, 128, 192, 256, 384, 512), repeats=3)
    _line, _cubic = (predictor.fit_polynomial(live_sweep, degree) for degree in (1, 3))
    mo.md(
        f"Measured just now: {', '.join(f'{n} tokens {us / 1000:.1f} ms' for n, us in live_sweep)}. "
        f"R² = {_line.r_squared:.3f} with a line, {_cubic.r_squared:.3f} with a cubic."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Time to spare

    The post defines slack as the time left minus the predicted TTFT. Simple, as long as the request waits. But the policy also has to
    judge the one that *runs*: it must decide whether to stop it. What does a runner still have to pay for?
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l05.slack")
    return


@app.function
def slack(now: int, deadline: int, total: int, done: int, a: float, c: float) -> float:
    """Return how much time a request has to spare before its deadline, in microseconds."""
    raise NotImplementedError("Exercise 5.2: the time to spare, in microseconds")


@app.cell(hide_code=True)
def _():
    slack_attempt = attempt("l05.slack", lambda: slack)
    slack_attempt
    return (slack_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l05.slack")
    return


@app.cell(hide_code=True)
def _(slack_attempt):
    def _picture():
        if not slack_attempt.started:
            return mo.md("Once you have written `slack`, a runner and a waiter are drawn here by it.")

        def mine(*args):
            return call(slack_attempt.function, args).value

        try:
            cases = [
                slack_case("it runs", 80_000, rate=1 / ROUND_COST.a_us, slack=mine),
                slack_case("it waits", 80_000, slack=mine),
            ]
            return SlackTimeline(cases, title="Promised within 80 ms, by your slack (modelled)")
        except (TypeError, ValueError):
            return mo.md("What `slack` gives cannot be drawn; the check says more.")

    _picture()
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The runner's slack stays where it is: every ms that passes is a ms of work done. (A pass computes all its tokens layer by layer, so no single token
    is done before the end. What is known is its computing time, and here every 0.1 ms of it counts as one token.)

    ### Who goes first?

    One number to rank them all. The post's: **the sign of the slack, divided by the time to the deadline**. The sign says whether there is
    hope. The time says how soon it is over.
    """)
    return


@app.cell(hide_code=True)
def _():
    def _scores():
        a, b = policy.urgency(1_000, 400_000), policy.urgency(390_000, 399_000)
        return f"{b:.6f} against {a:.6f}"

    predict(
        "l05.slack_or_deadline",
        "A has its deadline in 400 ms and **1 ms** of slack. B has its deadline in 399 ms and **390 ms** of slack. Who ranks first?",
        ("A: it has no time to lose", "B: its deadline is nearer", "Nobody: the scores are equal"),
        1,
        f"**B**, {_scores()}: only the sign of the slack counts, not its size. This is *earliest deadline first* with the doomed sorted out. Is it wrong? "
        f"A needs {400 - 1} ms of computing and B {399 - 390}. Together that is {400 - 1 + 399 - 390} ms, and there are 400: one of them is lost whatever the order, and B first "
        "loses A. A rule by slack alone would have lost B. Neither sees that the two do not fit together.",
    )
    return


@app.cell(hide_code=True)
def _():
    task("l05.urgency")
    return


@app.function
def urgency(slack: float, time_to_deadline: int) -> float:
    """Return the urgency of a request, from -1 to 1: the higher goes first."""
    raise NotImplementedError("Exercise 5.3: a score from -1 to 1, the higher the sooner")


@app.cell(hide_code=True)
def _():
    urgency_attempt = attempt("l05.urgency", lambda: urgency)
    urgency_attempt
    return (urgency_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l05.urgency")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Six requests, best first, by the reference:
    """)
    return


@app.cell
def _():
    SIX = {  # slack and time to the deadline, in ms
        "its deadline is near": (20, 50),
        "hardly any slack": (1, 400),
        "all the time in the world": (2_900, 3_000),
        "200 ms overdue": (-260, -200),
        "doomed, with its deadline 40 ms away": (-20, 40),
        "10 ms overdue": (-70, -10),
    }
    after("l05.slack_or_deadline", mo.md(
        "| | slack | to the deadline | urgency |\n|:--|--:|--:|--:|\n"
        + "\n".join(
            f"| {name} | {spare:,} ms | {left:,} ms | {policy.urgency(1000 * spare, 1000 * left):+.4f} |"
            for name, (spare, left) in sorted(
                SIX.items(), key=lambda item: -policy.urgency(1000 * item[1][0], 1000 * item[1][1])
            )
        )
    ))
    return


@app.cell(hide_code=True)
def _():
    after(
        "l05.slack_or_deadline",
        mo.md(r"""
    Look at the last three. Among the doomed the order is odd: whoever is 200 ms overdue ranks above one who has just missed. It does no
    harm, for they all sort below everybody who can be saved, and nobody is preempted for them. But it is no fairness either: under load the doomed wait longest.

    The paper's form is the sign of the slack over the **absolute deadline**, counted from the start of the engine. The order of the hopeful is
    the same. A *margin* between two scores is not:
    """),
    )
    return


@app.cell
def _():
    def ratio(form, started_s):
        """How many times as urgent is a deadline in 60 ms than one in 80 ms?"""
        now = started_s * 1_000_000
        shift = now if form is policy.urgency_by_deadline else 0
        return form(1, shift + 60_000) / form(1, shift + 80_000)

    mo.md(
        "| the engine has run for | 60 ms against 80 ms, by time left | by absolute deadline |\n|--:|--:|--:|\n"
        + "\n".join(
            f"| {seconds:,} s | ×{ratio(policy.urgency, seconds):.4f} | ×{ratio(policy.urgency_by_deadline, seconds):.4f} |"
            for seconds in (0, 1, 60, 3600)
        )
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    After an hour a margin of 1.2 means nothing any more. So the form by time left it is, wherever there is a margin.

    ### Who gives way?

    Now the gate. Somebody waits, others run, perhaps several in one pass. Every few milliseconds, and at every arrival, the monitor asks: shall one of
    them go? A preemption throws work away, so a hair's breadth is not enough: the waiter has to be **1.2 times** as urgent. As urgent as whom?

    - **Conservative**, the post's default: as the *most* urgent runner. Whoever runs beside it is dragged along, so nobody may be more urgent than the waiter.
    - **Aggressive**: as the *least* urgent one.

    Either way the one that goes is the least urgent. And before anything is compared, the signs decide. Four cases:

    | | the reference can make it | the reference is doomed |
    |:--|:--|:--|
    | **the waiter can make it** | preempt if 1.2 times as urgent | preempt: the slot does it no good |
    | **the waiter is doomed** | never: it cannot be saved | never: nobody is saved either way |

    One more, **Rule 1**: whoever was preempted once is immune. You will see in the museum what it is there for.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l05.gate")
    return


@app.function
def gate(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> int | None:
    """Return the id of the runner to preempt for `waiter`, or None if nobody is."""
    raise NotImplementedError("Exercise 5.4: which slot, if any, goes to the waiter?")


@app.cell(hide_code=True)
def _():
    gate_attempt = attempt("l05.gate", lambda: gate)
    gate_attempt
    return (gate_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l05.gate")
    return


@app.function(hide_code=True)
def moment(request_id: int, spare_ms: int, left_ms: int, preempted: int = 0) -> SloView:
    """A request with so much slack and so much time to its deadline, as the gate sees it."""
    spare, left = 1000 * spare_ms, 1000 * left_ms
    tokens = max(1, 10 * (left_ms - spare_ms) - 100)
    return SloView(request_id, tokens, spare, left, policy.urgency(spare, left), 500_000, preempted)


@app.cell(hide_code=True)
def _(gate_attempt):
    SCENES = [  # waiter, runners, mode, what is to be seen
        (moment(9, 20, 50), [moment(1, 300, 400)], "conservative", "Both can make it, and the waiter is far more urgent."),
        (moment(9, 20, 50), [moment(1, 20, 55)], "conservative", "More urgent, but not 1.2 times: 0.0200 against 1.2 × 0.0182 = 0.0218."),
        (moment(9, -10, 50), [moment(1, 300, 400)], "conservative", "The waiter is doomed. Nobody is sacrificed for it."),
        (moment(9, 200, 400), [moment(1, -30, 50)], "conservative", "The runner is doomed, and in the way."),
        (moment(9, -10, 91), [moment(1, -30, 100)], "conservative", "Both are doomed: -0.0110 against -0.0100."),
        (moment(9, 20, 60), [moment(1, 30, 65), moment(2, 700, 900)], "conservative", "Measured by the most urgent of two runners."),
        (moment(9, 20, 60), [moment(1, 30, 65), moment(2, 700, 900)], "aggressive", "The same moment, measured by the least urgent."),
        (moment(9, 20, 50), [moment(1, 300, 400, 1)], "conservative", "The only runner was preempted before: Rule 1."),
    ]

    def _decision(gate_of, waiter, runners, mode, words):
        order = policy.by_urgency(each for each in runners if not each.num_preemptions)
        reference = None if not order else order[0] if mode == "conservative" else order[-1]

        def scored(view):
            return {"id": view.id, "slack_us": view.slack_us, "urgency": view.urgency}

        return {
            "waiter": scored(waiter),
            "runners": [{**scored(each), "immune": each.num_preemptions > 0} for each in runners],
            "reference": reference and reference.id,
            "victim": gate_of(waiter, runners, policy.MARGIN, mode),
            "margin": policy.MARGIN,
            "mode": mode,
            "words": words,
        }

    def _picture():
        mine = gate_attempt.started
        def yours(*args):
            called = call(gate_attempt.function, args)
            if called.timed_out or called.error:
                raise ValueError("gate gave no answer")
            return called.value
        try:
            decisions = [_decision(yours if mine else policy.gate, *scene) for scene in SCENES]
            title = "Eight moments, by your gate" if mine else "Eight moments, by the reference: your gate is not written yet"
            return GatePicture(decisions, title=title)
        except (TypeError, ValueError):
            return mo.md("What `gate` answers cannot be drawn; the check says more.")

    _picture()
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The workers of the machine have a veto, **Rule 2**: a pass that has more than 90 % of its layers behind it lets itself finish. Of 32 layers the 28th is still below
    that, and leaving there throws 28 of 32 away, 88 %. The rule also protects a request's first decode, for which the whole prefill would be lost.

    | layers done | of 80 | left if asked? |
    |--:|--:|:--|
    """ + "\n".join(
        f"| {done} | {done / 80:.1%} | {'no, Rule 2' if policy.refuses_preemption(done, 80) else 'yes'} |"
        for done in (8, 40, 72, 73)
    ))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Who comes along?

    The slot is free, the urgent request is at the head of the queue. Others wait, too. The fixed cost of a pass is paid once for everybody in it, so an engine likes to fill it up. But
    all of them get done when the pass ends:
    """)
    return


@app.cell
def _():
    def shared(head, *others):
        """When is the head done, alone and with others in its pass? In ms."""
        return policy.predict(head + sum(others), ROUND_COST.a_us, ROUND_COST.c_us) / 1000

    mo.md(
        "| in the pass | the head gets its first token after | of its 100 ms |\n|:--|--:|:--|\n"
        + "\n".join(
            f"| 200 tokens{''.join(f' + {n:,}' for n in others)} | {shared(200, *others):g} ms | "
            f"{'in time' if shared(200, *others) <= 100 else '**missed**'} |"
            for others in ((), (300,), (300, 300), (300, 300, 300), (4000,))
        )
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    So: one after the other comes along, as long as the head can bear it. The guard keeps a tenth of the head's SLO in reserve, since predictions err; the bound
    keeps passes short enough for whoever arrives next.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l05.slo_batch")
    return


@app.function
def slo_batch(
    head: SloView, waiters: list[SloView], a: float, c: float, bound: int, guard: float
) -> list[int]:
    """Return the ids of those who share the next pass, `head` first: nobody who endangers it."""
    raise NotImplementedError("Exercise 5.5: who shares the pass with the head?")


@app.cell(hide_code=True)
def _():
    batch_attempt = attempt("l05.slo_batch", lambda: slo_batch)
    batch_attempt
    return (batch_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l05.slo_batch")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your policy, under load

    Requests now arrive at random, four per second for half a minute, to a modelled machine with the cost line of the post (80 layers, 0.173 ms per token, 34 ms per pass). One in
    five is **urgent**: it was promised its first token within 1 to 1.3 times the time of its own prefill, so it can hardly wait at all. The others are **generous**, 3 to 10 times. Prompts have 675
    tokens on average (the post publishes no lengths; ours are log-normal). Two ways out of a pass: *abort*, where everything is computed again, and
    *suspend*, where it goes on later from the layer it was left at. (A pass sleeps at most three times its own length; with that bound suspension needs no Rule 1.)

    The real engine, with real processes, is lesson 6: it asks the very same functions.
    """)
    return


@app.cell
def _(batch_attempt, gate_attempt, slack_attempt, urgency_attempt):
    half_a_minute = two_tier_load(seed=0, requests_per_s=4, duration_s=30)
    yours = {
        "slack": slack_attempt.or_reference(policy.slack),
        "urgency": urgency_attempt.or_reference(policy.urgency),
        "gate": gate_attempt.or_reference(policy.gate),
        "slo_batch": batch_attempt.or_reference(policy.slo_batch),
    }
    your_runs = {
        variant.title: (
            simulated(half_a_minute, variant, POST_COST, **yours),
            simulate(half_a_minute, variant),
        )
        for variant in (UNPREEMPTED, BATCHED, SUSPENDED)
    }
    return half_a_minute, your_runs


@app.cell(hide_code=True)
def _(
    batch_attempt,
    gate_attempt,
    half_a_minute,
    slack_attempt,
    urgency_attempt,
    your_runs,
):
    def _whose():
        parts = {
            "slack": slack_attempt,
            "urgency": urgency_attempt,
            "gate": gate_attempt,
            "slo_batch": batch_attempt,
        }
        mine = [f"`{name}`" for name, each in parts.items() if each.started]
        others = [f"`{name}`" for name, each in parts.items() if not each.started]
        if not mine:
            return f"These runs used the reference for {', '.join(others)}: not written yet."
        if not others:
            return f"{', '.join(mine)}: yours."
        return f"In these runs {', '.join(mine)} came from you and {', '.join(others)} from the reference."

    def _numbers(run):
        return (
            f"{run.attainment(urgent=True):.0%} / {run.attainment(urgent=False):.0%} | "
            f"{run.num_preemptions}, {run.wasted_share:.0%}"
        )

    def _difference(mine, right):
        """The first pass in which two runs part, as a sentence."""
        for number, (one, other) in enumerate(zip(mine.passes, right.passes, strict=False)):
            if one != other:
                start = one.start_us / 1000
                return (
                    f"differs first in pass {number}, at {start:,.0f} ms: yours ran {list(one.ids)} and {one.ending}, "
                    f"the reference's {list(other.ids)} and {other.ending}"
                )
        return "like the reference" if mine.passes == right.passes else "one stops earlier than the other"

    def _row(title, mine, right):
        if isinstance(mine, str):
            return f"| {title} | | | {mine} |"
        return f"| {title} | {_numbers(mine)} | {_difference(mine, right)} |"

    mo.md(
        f"{_whose()} {len(half_a_minute)} requests, modelled:\n\n"
        "| | in time: urgent / generous | preemptions, computed in vain | pass by pass |\n|:--|--:|--:|:--|\n"
        + "\n".join(_row(title, *runs) for title, runs in your_runs.items())
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Half a minute and one seed: that is a demonstration. For a verdict one wants more seeds, several loads, and the *same* arrivals for every variant, so that no one draws
    the easier load. That table is below. And its story is the reason why this lesson exists.

    ## The repair ladder

    The post's author built preemption into vLLM, ran five paired trials per load, and published the result: **nothing**. At four requests per second 38.0 % of the
    urgent requests were in time without it and 37.1 % with it (branch `dev-treatment` of the [fork](https://github.com/adiu19/vllm)). Our modelled machine does the same:
    """)
    return


@app.cell(hide_code=True)
def _(DATA):
    LADDER_TABLE = json.loads((DATA / "slo_ladder.json").read_text(encoding="utf-8"))

    def _cell(variant, rate):
        return next(
            each
            for each in LADDER_TABLE["cells"]
            if (each["variant"], each["requests_per_s"]) == (variant, rate)
        )

    ladder = {
        (each["variant"], each["requests_per_s"]): each for each in LADDER_TABLE["cells"]
    }

    def attained(variant, rate, tier):
        """Mean attainment of a tier in percent, rounded, as text."""
        return f"{ladder[variant, rate][tier]['mean']:.0f}"

    mo.md(
        "| 4 requests per second, modelled | urgent in time | generous in time | preemptions per run |\n|:--|--:|--:|--:|\n"
        + "\n".join(
            f"| {ladder[name, 4]['title']} | {attained(name, 4, 'urgent')} % | {attained(name, 4, 'generous')} % | {ladder[name, 4]['num_preemptions']:.0f} |"
            for name in ("control", "order", "fork")
        )
        + f"\n\n{LADDER_TABLE['seconds']} s of arrivals, {ladder['fork', 4]['num_trials']} paired seeds; `lessons/data/slo_ladder.json`, made with `python -m nanogpt.slo --json`."
    )
    return LADDER_TABLE, attained, ladder


@app.cell(hide_code=True)
def _(REPORT_AND_VOICE):
    def _runs():
        blind, seeing = (simulate(REPORT_AND_VOICE, variant, ROUND_COST) for variant in (FORK, SEEN))
        return len(blind.decisions), len(seeing.decisions)

    _blind, _seeing = _runs()
    predict(
        "l05.null",
        "No preemption in two minutes, at any of five seeds. The gate is right, the rules are right, the monitor looks every 5 ms. **Why does it never fire?**",
        (
            "The margin of 1.2 is too high",
            "Urgent requests are doomed before the monitor looks",
            "Whom it looks for is not in the list that it reads",
            "Everybody who runs is immune",
        ),
        2,
        "The engine takes arrivals from its inbox *between* steps, and it hands the monitor a snapshot at the end of scheduling. The request that comes in mid-pass, the very one that "
        "the monitor exists for, is in neither. Those who are in the snapshot waited when the pass began, and nearly all of them were batched along. On the report and the voice "
        f"request from the top of this page: {_blind} decisions with the snapshot, {_seeing} when arrivals are seen at once. (In the fork: `input_queue` is read only between steps in `engine/core.py`, and the "
        "snapshot is published at the end of `schedule`.)",
    )
    return


@app.cell(hide_code=True)
def _(attained, ladder):
    after("l05.null", predict(
        "l05.visible",
        f"So give the monitor an inbox and let it see arrivals in mid-pass. Without preemption {attained('control', 4, 'urgent')} % of the urgent and {attained('control', 4, 'generous')} % of the "
        "generous requests were in time at 4 requests per second. **And now?**",
        (
            "Urgent about 75 %, generous as before",
            "Urgent about 75 %, generous clearly worse",
            "Both as before",
            "Both near zero",
        ),
        3,
        f"**Urgent {attained('seen', 4, 'urgent')} %, generous {attained('seen', 4, 'generous')} %** (modelled). {ladder['seen', 4]['num_preemptions']:.0f} preemptions in a run, and "
        f"{ladder['seen', 4]['wasted_percent']:.0f} % of all computing is thrown away. The bug that hid the others is gone.",
    ))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Now walk up the ladder, one repair at a time, and change the load.
    """)
    return


@app.cell(hide_code=True)
def _(LADDER_TABLE, ladder):
    WORDS = {
        "control": "Arrival order, and everyone who fits 9,000 tokens shares the pass. No preemption.",
        "order": "The queue in the order of urgency. It is nearly always empty: everyone is batched along.",
        "fork": "The post's preemption as published. The monitor cannot see who arrives in mid-pass.",
        "seen": "The monitor sees arrivals. Every preempted pass is packed full again, with the urgent request in it.",
        "progress": "The slack of a runner counts what it has computed, so that fewer are taken for doomed.",
        "batched": "Only whom the head can bear comes along. The urgent request at last runs alone, or nearly.",
        "suspended": "A pass is suspended instead of thrown away. No Rule 1, but a bound on sleep.",
        "unpreempted": "The batches alone, without any preemption.",
    }

    def _cell(each):
        def interval(tier):
            mean, half = each[tier]["mean"], each[tier]["half_width"]
            return [mean, mean - half, mean + half]

        return {
            "urgent": interval("urgent"),
            "generous": interval("generous"),
            "wasted_share": each["wasted_percent"] / 100,
            "preemptions": each["num_preemptions"],
        }

    RATES = sorted({each["requests_per_s"] for each in LADDER_TABLE["cells"]})
    after("l05.visible", RepairLadder(
        [
            {
                "variant": variant.title,
                "words": WORDS[variant.name],
                "loads": {f"{rate:g}": _cell(ladder[variant.name, rate]) for rate in RATES},
            }
            for variant in LADDER
        ],
        title="The repair ladder, modelled: means of five paired seeds and their 95 % intervals",
        load="4",
    ))
    return (RATES,)


@app.cell(hide_code=True)
def _():
    after(
        "l05.visible",
        mo.md(r"""
    Why was seeing alone a disaster? The report and the voice request again, with arrivals seen, and the old habit of filling every pass:
    """),
    )
    return


@app.cell
def _(REPORT_AND_VOICE):
    after("l05.visible", mo.md(passes(simulate(REPORT_AND_VOICE, SEEN, ROUND_COST))))
    return


@app.cell(hide_code=True)
def _():
    after(
        "l05.visible",
        mo.md(r"""
    The report is thrown out, and then let in again *together with* the request that it was thrown out for. All of the price, none of the gain. Under load this
    happens to every pass. `slo_batch` turns the ladder, though it has nothing to do with preempting: a slot won by force has to be
    kept free.

    What would each of the three repairs have brought alone, without the other two?
    """),
    )
    return


@app.cell
def _(ladder):
    def alone(variant):
        """Attainment of both tiers in percent at 4 requests per second, a minute, five seeds."""
        runs = [simulate(two_tier_load(seed, 4, 60), variant) for seed in range(5)]
        return [100 * fmean(run.attainment(urgent=urgent) for run in runs) for urgent in (True, False)]

    _alone = {
        "none of them": alone(FORK),
        "the slack of the remaining work, alone": alone(replace(FORK, counts_progress=True)),
        "SLO-aware batches, alone": alone(replace(FORK, batching="slo")),
        "arrivals seen, alone (from the table above)": [
            ladder["seen", 4][tier]["mean"] for tier in ("urgent", "generous")
        ],
        "all three": alone(BATCHED),
    }
    after("l05.visible", mo.md(
        "| on the post's preemption, modelled | urgent in time | generous in time |\n|:--|--:|--:|\n"
        + "\n".join(f"| {name} | {u:.0f} % | {g:.0f} % |" for name, (u, g) in _alone.items())
    ))
    return


@app.cell(hide_code=True)
def _():
    after(
        "l05.visible",
        mo.md(r"""
    **Three repairs, all of them right. Alone, one does nothing, one hardly anything, and one ruins everything.** Who measures after each of them, and keeps
    what helps, keeps none of what matters.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Break it

    Four defects. Each is a small function that runs in the machine with round numbers: 10 ms per pass, 0.1 ms per token, 10 layers; █ is a layer computed in that line. Look at the symptom, decide what is wrong, then **repair the function
    in its cell**: the table and the check below it answer.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit A: reported dead

    Request 0 has 130 ms for a prefill of 110 and runs alone. At 50 ms a second one arrives, in no hurry at all.
    """)
    return


@app.function
def exhibit_a(now, deadline, total, done, a, c):
    """The time to spare before the deadline, in microseconds."""
    predicted_ttft = a * total + c
    time_to_deadline = deadline - now
    return time_to_deadline - predicted_ttft


@app.cell(hide_code=True)
def _():
    IN_NO_HURRY = (
        Arrival(0, 0, 1000, True, 130_000),
        Arrival(1, 50_000, 200, False, 600_000),
    )
    mo.md(passes(simulated(IN_NO_HURRY, PROGRESS, slack=piece(lambda: exhibit_a))))
    return (IN_NO_HURRY,)


@app.cell(hide_code=True)
def _(IN_NO_HURRY):
    def _moment():
        request = SloRequest(0, 1000, 500, 130_000, 130_000, 0)
        right = SloParts().view(request, 50_000, ROUND_COST.a_us, ROUND_COST.c_us)
        wrong = 130_000 - 50_000 - policy.predict(1000, ROUND_COST.a_us, ROUND_COST.c_us)
        return right.slack_us / 1000, wrong / 1000, simulate(IN_NO_HURRY, PROGRESS, ROUND_COST)

    _right, _wrong, _run = _moment()
    predict(
        "l05.exhibit_a",
        "Nobody was in a hurry, somebody was thrown out in mid-pass, and missed a deadline that it would have met. **What is broken?**",
        (
            "The margin: 1.2 is too low for a waiter with so much time",
            "The slack of the runner is that of its whole prompt",
            "Rule 1: the runner should have been immune",
            "The slack of the newcomer has the wrong sign",
        ),
        1,
        f"Half done at 50 ms, request 0 is charged for all of its prompt: a slack of {_wrong:g} ms instead of {_right:g}. So it counts as doomed, and a doomed runner gives up its slot to anyone, however calm. "
        f"A healthy runner is declared dead just because it runs. By the reference it gets its first token at {_run.results[0].first_token_us / 1000:g} ms, in time, and the other at "
        f"{_run.results[1].first_token_us / 1000:g}. The formula is the post's, and for a request that waits it is right; the fork uses it for runners, too.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l05.exhibit_a", exhibit("A", "l05.slack", lambda: exhibit_a))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: after you, no, after you

    Two requests arrive together. Neither of them can make it any more: 110 ms of work each, 50 ms of time. The next one comes ten seconds later. Rule 1 is switched off for now.
    """)
    return


@app.function
def exhibit_b(waiter, runners, margin, mode):
    """The runner to preempt for the waiter, or None."""
    candidates = [each for each in runners if each.num_preemptions == 0]
    candidates.sort(key=lambda each: (-each.urgency, each.id))
    if not candidates:
        return None
    reference = candidates[0] if mode == "conservative" else candidates[-1]
    if waiter.urgency > margin * reference.urgency:
        return candidates[-1].id
    return None


@app.cell(hide_code=True)
def _():
    loop = simulated(
        doomed_pair(), BATCHED_WITHOUT_RULE_1, most=2000, gate=piece(lambda: exhibit_b)
    )
    mo.md(passes(loop, 6))
    return (loop,)


@app.cell(hide_code=True)
def _(loop):
    def _counted():
        if isinstance(loop, str) or not loop.decisions:
            return ""
        decision = loop.decisions[0]
        ours, theirs = decision.waiter.urgency, decision.runners[0].urgency
        return (
            f"The first decision, at {decision.time_us / 1000:g} ms: is {ours:.5f} more than 1.2 × {theirs:.5f} = {1.2 * theirs:.5f}? It is. "
            f"In this run {len(loop.passes)} passes began, and {loop.wasted_share:.0%} of the computing was for nothing. "
        )

    predict(
        "l05.exhibit_b",
        "Hundreds of passes, each of them thrown away after a layer. **What is broken?**",
        (
            "The poll of 5 ms is too short: the monitor should look less often",
            "The order of the runners: the wrong one goes",
            "The margin lowers the bar instead of raising it",
            "The waiting queue: preempted requests belong at its end",
        ),
        2,
        f"{_counted()}The scores are the same, and each 'beats' the other's times 1.2; even a score of -0.011, *less* urgent than -0.010, is above -0.010 × 1.2 = -0.012. Each of the two finds the other one preemptible. The signs have to go first. "
        "The post's author met this loop: **21,360 wasted steps at zero tokens per second**. Rule 1 stops it after one round, and the cause stays.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l05.exhibit_b", exhibit("B", "l05.gate", lambda: exhibit_b))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit C: the report that is never read

    A long prompt of 410 ms, with five seconds of time. And every 300 ms an urgent short one. Every single preemption in this run is justified.
    """)
    return


@app.function
def exhibit_c(waiter, runners, margin, mode):
    """The runner to preempt for the waiter, or None."""
    order = sorted(runners, key=lambda each: (-each.urgency, each.id))
    if waiter.slack_us < 0 or not order:
        return None
    reference = order[0] if mode == "conservative" else order[-1]
    if reference.slack_us < 0 or waiter.urgency > margin * reference.urgency:
        return order[-1].id
    return None


@app.cell(hide_code=True)
def _():
    again_and_again = simulated(starved(12), BATCHED, gate=piece(lambda: exhibit_c))
    mo.md(passes(again_and_again))
    return (again_and_again,)


@app.cell(hide_code=True)
def _(again_and_again, ladder):
    def _facts(run):
        return (
            f"{run.num_preemptions} preemption{'s' * (run.num_preemptions != 1)}, {run.wasted_share:.0%} computed in vain, the report done after {run.results[0].first_token_us / 1_000_000:.2f} s, "
            f"urgent requests late: {sum(not each.attained for each in run.results[1:])}"
        )

    def _compared():
        right = _facts(simulate(starved(12), BATCHED, ROUND_COST))
        if isinstance(again_and_again, str) or again_and_again.results[0].first_token_us is None:
            return f"With the reference: {right}."
        return f"This run: {_facts(again_and_again)}. With the reference: {right}."

    predict(
        "l05.exhibit_c",
        "The margin is there, the four cases are there. The report finishes once the urgent ones stop coming, and not before. **What is missing?**",
        (
            "Rule 1: whoever was preempted once is immune",
            "Rule 2: a pass past 90 % of its layers finishes",
            "The bound on the batch",
            "The clamp at 1 ms",
        ),
        0,
        f"{_compared()} Lesson 2 had this, too: strict priority starves. "
        f"And what does Rule 1 cost? Under random load, at 4 requests per second, {ladder['batched', 4]['urgent']['mean']:.0f} % of the urgent requests are in time with it and "
        f"**{ladder['batched-no-rule-1', 4]['urgent']['mean']:.0f} % without**, generous {ladder['batched', 4]['generous']['mean']:.0f} and {ladder['batched-no-rule-1', 4]['generous']['mean']:.0f} % (modelled). It is insurance against the unlucky case, and on an average day it costs.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l05.exhibit_c", exhibit("C", "l05.gate", lambda: exhibit_c))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit D: the innocent bystander

    Requests 0 and 1 share a pass of 160 ms. Request 0 is urgent and will just make it; 1 has all the time in the world. At 100 ms request 2 arrives.
    """)
    return


@app.function
def exhibit_d(waiter, runners, margin, mode):
    """The runner to preempt for the waiter, or None."""
    candidates = [each for each in runners if each.num_preemptions == 0]
    if waiter.slack_us < 0 or not candidates:
        return None
    least = min(candidates, key=lambda each: (each.urgency, -each.id))
    if least.slack_us < 0 or waiter.urgency > margin * least.urgency:
        return least.id
    return None


@app.cell(hide_code=True)
def _():
    mo.md(passes(simulated(dragged_along(), BATCHED, gate=piece(lambda: exhibit_d))))
    return


@app.cell(hide_code=True)
def _(ladder):
    def _facts():
        run = simulate(dragged_along(), BATCHED, ROUND_COST, SloParts(gate=_aggressive))
        decision = run.decisions[0]
        scores = {each.id: each.urgency for each in decision.runners}
        return decision, scores

    def _aggressive(waiter, runners, margin, mode):
        return policy.gate(waiter, runners, margin, "aggressive")

    _decision, _scores = _facts()
    _kept = simulate(dragged_along(), BATCHED, ROUND_COST).results[2]
    _late_ms = (_kept.first_token_us - dragged_along()[2].deadline_us) / 1000
    predict(
        "l05.exhibit_d",
        "The gate named request 1, which had time to spare. Request 0 missed its deadline all the same. **What is broken?**",
        (
            "Rule 2: after 7 of 10 layers nobody should be preempted",
            "The victim: request 0 should have been named",
            "The waiter is measured by the least urgent runner, though the whole pass goes",
            "The margin was not applied",
        ),
        2,
        f"The waiter has {_decision.waiter.urgency:.4f}, request 1 {_scores[1]:.4f} and request 0 {_scores[0]:.4f}. Measured by 1 it wins easily; 1.2 times as urgent as 0 it is not. But a pass is left as a whole: "
        "whoever runs beside the victim is dragged along. This is the *aggressive* mode, always on. Rule 1 does not help the bystander either: the fork aborts immune requests, too, if "
        f"they share the pass. By the conservative gate nobody is preempted, and request 2 gets its first token at {_kept.first_token_us / 1000:g} ms, {_late_ms:g} ms late: here one of them is lost either way, and the work stays. How much does the mode matter under random load? At 6 requests per second, urgent and generous: {ladder['batched', 6]['urgent']['mean']:.0f} and {ladder['batched', 6]['generous']['mean']:.0f} % conservative, "
        f"{ladder['batched-aggressive', 6]['urgent']['mean']:.0f} and {ladder['batched-aggressive', 6]['generous']['mean']:.0f} % aggressive (modelled). Hardly: with SLO-aware batches few share a pass.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l05.exhibit_d", exhibit("D", "l05.gate", lambda: exhibit_d))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Measure it, including where it loses

    The last rungs at all five loads, urgent and generous, and all requests together (a fifth of them urgent). Modelled; the same arrivals in every line of a column.
    """)
    return


@app.cell(hide_code=True)
def _(RATES, ladder):
    def _all(name, rate):
        each = ladder[name, rate]
        return 0.2 * each["urgent"]["mean"] + 0.8 * each["generous"]["mean"]

    def _row(name):
        cells = " | ".join(
            f"{ladder[name, rate]['urgent']['mean']:.0f} / {ladder[name, rate]['generous']['mean']:.0f}, **{_all(name, rate):.0f}**"
            for rate in RATES
        )
        return f"| {ladder[name, 4]['title']} | {cells} |"

    mo.md(
        f"| urgent / generous, **all** (in %) | {' | '.join(f'{rate:g} per s' for rate in RATES)} |\n|:--|{'--:|' * len(RATES)}\n"
        + "\n".join(map(_row, ("control", "unpreempted", "batched", "suspended")))
    )
    return


@app.cell(hide_code=True)
def _(ladder):
    def _lost(rate):
        calm, kept = ladder["unpreempted", rate], ladder["suspended", rate]
        return (
            f"at {rate} per second the generous fall from {calm['generous']['mean']:.0f} to {kept['generous']['mean']:.0f} %, "
            f"for urgent {calm['urgent']['mean']:.0f} to {kept['urgent']['mean']:.0f} %"
        )

    def _sum(name):
        return f"{0.2 * ladder[name, 10]['urgent']['mean'] + 0.8 * ladder[name, 10]['generous']['mean']:.0f} %"

    _gain = ladder["unpreempted", 4]
    mo.md(
        "**Where it loses.**\n\n"
        f"- **Against batches alone, the generous pay at high load**: {_lost(8)}; {_lost(10)}. There are four generous requests for every urgent one: at 10 per second "
        f"{_sum('unpreempted')} of all requests are in time without preemption and {_sum('suspended')} with it. Which is better is not a question of engineering but of what was promised to whom.\n"
        f"- **Batching alone does not save the urgent ones**, {_gain['urgent']['mean']:.0f} % at 4 per second. Nor does preemption alone. But for the *generous* it is the best line of all.\n"
        f"- **At two requests per second** the machine is idle much of the time, and {ladder['control', 2]['urgent']['mean']:.0f} % of the urgent are in time with no policy at all. (The published control has 48 % there, at 4 to 10 per second it is close to ours: "
        "a real server has delays that this model leaves out, and they show where nothing else does.)\n"
        "- **A preemption costs nothing here** but the work thrown away. On a real machine there are votes, clean-up and a queue. Lesson 6 measures them.\n"
        "- **The predictor is perfect here**: it is the machine. A wrong line makes healthy requests doomed and doomed ones hopeful."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The published runs, for comparison: five paired trials per load on four GPUs, urgent / generous in percent (`runs/first_real_run` in the fork's `dev-treatment`). For the urgent, what preemption changed is at most 2.8 points, of either sign.

    | requests per s | without preemption | conservative |
    |--:|--:|--:|
    | 2 | 48.1 / 99.2 | 50.9 / 99.2 |
    | 4 | 38.0 / 94.3 | 37.1 / 94.2 |
    | 6 | 18.3 / 79.2 | 17.4 / 78.9 |
    | 8 | 2.9 / 39.6 | 2.8 / 37.7 |
    | 10 | 0 / 0 | 0 / 6.0 |

    A published null result, with its data, is worth more than a good-looking curve: this lesson could only be made because its author put the runs beside the code. What we add is a model, not a measurement: it shows
    what *could* be the reasons, and that they suffice.

    ## How production engines do it

    - **FlowPrefill** (Hsieh et al., [arXiv 2602.16603](https://arxiv.org/abs/2602.16603), 2026) is the paper behind the post. It *decouples preemption granularity from scheduling frequency*: a pass may be left between operators, and scheduling
      happens only at arrivals and completions. Its code has what the fork left out: slack of the remaining work, batches with a bound of 2,048 tokens and a guard of a tenth, suspension. Its abstract reports up to 5.6 times the goodput of the systems that it was compared with.
    - **vLLM** has another FlowPrefill as an open proposal, [#44794](https://github.com/vllm-project/vllm/pull/44794). Its first form could suspend a prefill for ever: mean TTFT 450 ms without it, **969 ms with it**. A bound of 50 ms on sleep made it 412 ms. That is our
      bound on sleep, and your exhibit C.
    - **vLLM's own scheduler** preempts when KV runs short, not because a deadline is near: in its first-come mode the newest, in priority mode the last by priority and arrival (`vllm/v1/core/sched/scheduler.py`, lesson 2). An open proposal, [#54644](https://github.com/vllm-project/vllm/issues/54644), wants to choose the victim with the
      least computed tokens, since the choice *directly decides how much compute a preemption throws away*.
    - **Sarathi-Serve** (lesson 1) answers the same question with chunks: everybody gets in at the next step, at the price of the first table on this page.

    And the exhibits are out there:

    - **C.** [vLLM #25538](https://github.com/vllm-project/vllm/issues/25538): a long request resumed and preempted again in the next step. [#56843](https://github.com/vllm-project/vllm/pull/56843): who was just let back in could be chosen as the victim at once; its cure counts
      `num_preemptions`, as Rule 1 does, but bounded, so that newcomers do not starve in turn.
    - **The blind monitor** has a cousin: [vLLM #10101](https://github.com/vllm-project/vllm/issues/10101), where urgent requests stopped preempting as soon as chunked prefill was switched on. Nothing crashed; a feature was simply not reached.

    ## What comes next

    All of this decides *whether*. It says `preempt`, and the pass is left at the next layer as if by magic. In lesson 6 the magic is yours: a forward running on several processes at once, which all have to leave at
    the same layer, or hang for ever.
    """)
    return


if __name__ == "__main__":
    app.run()

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="2b · Waiting")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt
    from course.prediction import after, hints, predict
    from course.task import task
    from nanogpt.policy_views import RequestView


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 2b · Waiting

    *20 minutes. Builds on lesson 2: the queue and its ranks, admission, preemption. You write one
    function.*

    Afterwards you can say what a priority moves and what it costs, which rules starve a request, and
    how to rank a queue so that waiting counts.

    ## A tie

    Lesson 2 ranked equal priorities by arrival. The post on scheduling, by the author of
    [czhou578/nanoGPT-inference](https://github.com/czhou578/nanoGPT-inference), asks its readers: which of two
    requests of equal priority should go first, the one that arrived earlier, or the one with fewer tokens
    left?
    """)
    return


@app.cell(hide_code=True)
def _():
    from course.lesson_data.l02b_waiting import bills, bills_table, patience, said_of_ties, times
    from widgets import Curves

    return Curves, bills, bills_table, patience, said_of_ties, times


@app.cell(hide_code=True)
def _(said_of_ties):
    predict(
        "l02.tie",
        "Two places, a short request every 4 steps, and near the front a long one of 40 tokens. "
        "What does **fewer tokens left first** do, in comparison with **earlier arrival first**?",
        (
            "The mean latency falls, and the long one waits a little longer",
            "The mean latency falls, and the long one starts when the stream of short ones ends",
            "The mean latency rises: the long one blocks a place for longer at the end",
            "Nothing: the places are full either way",
        ),
        1,
        "Steps from arrival to the last token, mean over all and for the long one, with 6, 12 and 24 short "
        f"ones. {said_of_ties()} Shortest first is the best there is for the mean, and it has two prices. A "
        "long request waits for as long as short ones keep coming. And it needs a number that an engine does "
        "not have: `max_new_tokens` is a limit, the text ends when it ends. So the tie goes to the earlier arrival.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Is priority worth it?

    The post's author measured four workloads (`benchmarks/scheduling_policy.py` in the same repository):
    *inversion*, an important request that comes while an unimportant long one has the only place; *mix*;
    *memory pressure*; and a *control* in which all are equal. Here are the same four, with the author's
    lengths, priorities and limits, in our engine, at times modelled on a server CPU.

    Our engine has a switch more. `preempt_to_admit` lets an important waiter push out less important
    requests; without it, a request is thrown out only when those inside grow. Look at the first workload
    and decide.
    """)
    return


@app.cell(hide_code=True)
def _(bills, times):
    found = bills()
    predict(
        "l02.priority",
        "**Inversion**, one place. Strict priority, but no request is pushed out to let another in. The "
        "important requests' latency, as a multiple of that under FCFS?",
        ("About 0.4", "About 0.7", "Exactly 1.00", "More than 1"),
        2,
        f"**{times(found, 'inversion', 'priority')}.** The unimportant one came first and has the place, and behind "
        "it the two important ones are first in either order. A priority that only sorts the queue changes nothing "
        f"for what is not in the queue. With pushing out: {times(found, 'inversion', 'priority, pushing out')}; the "
        "author published 0.37.",
    )
    return (found,)


@app.cell(hide_code=True)
def _(bills_table, found):
    after("l02.priority", mo.md(bills_table(found)))
    return


@app.cell(hide_code=True)
def _():
    after(
        "l02.priority",
        mo.md(r"""
    Multiples of FCFS; latency is the mean from arrival to the last token. Three of the author's four
    come out again in another engine on another clock. In the fourth, *memory pressure*, the engines
    differ most: here FCFS preempts as well when requests grow, and there a victim started its text over.
    The control says that the measurement measures priority.

    Nothing was made faster. Latency was moved from some requests to others, and not for nothing: every
    recomputed token is arithmetic that had been done. And there is a request that
    the table does not show.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Which request never gets a turn?

    Two places, and a request of priority 0 every four steps: enough to keep both busy for as long as
    the stream lasts. One request of priority 2 arrives at step 2. Under strict priority it waits until the
    stream ends. In a server the stream does not end.

    The cure is called **ageing**: waiting makes up for unimportance. *Priority minus waiting time* is the
    obvious rank, and it changes with every step. But a rank lies in lesson 2's heap for as long as its
    request waits, and a heap does not notice when an entry changes: only a push or a pop moves anything.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l02.aged_key")
    return


@app.function
def aged_key(request: RequestView, rate: float) -> tuple[float, ...]:
    """Return a rank that waiting makes up for: a tuple of numbers, the smallest goes first."""
    raise NotImplementedError("Exercise 2b.1: a rank in which waiting counts, and which never changes")


@app.cell(hide_code=True)
def _():
    aged_attempt = attempt("l02.aged_key", lambda: aged_key)
    aged_attempt
    return (aged_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l02.aged_key")
    return


@app.cell(hide_code=True)
def _(Curves, aged_attempt, patience):
    curves, said_of_curves = patience(aged_attempt)
    Curves(
        curves,
        x=("important requests in the stream", ""),
        y=("latency of the unimportant one", "steps"),
        title="One unimportant request in a stream of important ones",
        question="Under which rules does it wait longer, the longer the stream is?",
    )
    return (said_of_curves,)


@app.cell(hide_code=True)
def _(said_of_curves):
    mo.md(said_of_curves)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Under strict priority it waits longer the longer the stream is: that is **starvation**, and no length
    of stream cures it. With ageing its latency stops growing, and `rate` says how much patience a level of
    importance is worth. The others pay a few steps.

    So what is promised? **Every finite workload finishes under every policy** of this scheduler: generated
    tokens are kept; a victim makes room for a request that samples in that same step, or has sampled
    itself since it was let in; and what could never fit is turned away at the door. That *no request
    starves while new ones keep coming* is true of FCFS and of ageing, and not of strict priority.

    ## How production engines do it

    vLLM's `priority` policy sorts the queue and picks the victims, and a waiting request pushes nothing
    out: the *inversion* row without pushing is what its users see ([#40004](https://github.com/vllm-project/vllm/issues/40004)
    calls it *a serious issue*). A proposal that lets a waiter push out ([#54530](https://github.com/vllm-project/vllm/pull/54530), open)
    compares priorities strictly, since the arrival as a tie-break would make equals play ping-pong. nano-vllm
    and mini-sglang have no priorities, and so no heap.

    [Lesson 5](/?file=l05_slo_policy.py) ranks by deadline instead, and [lesson 9](/?file=l09_fleet.py) comes back to ranks
    in a heap that do change. In [lesson 3](/?file=l03_interleaving.py), the chunk and the decodes of a step become
    one batch.
    """)
    return


if __name__ == "__main__":
    app.run()

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="10 · Your engine, served")

with app.setup(hide_code=True):
    from typing import TYPE_CHECKING

    import marimo as mo

    from course.attempt import attempt, exhibit, piece
    from course.prediction import after, hints, predict
    from course.task import task

    if TYPE_CHECKING:
        from typing import Any

        from nanogpt.server.server_policies import AdmissionLimits, NewRequest, QueueView


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 10 · Your engine, served

    *55 minutes. Builds on lessons 1 and 2; what you passed in the others comes along. You write three
    functions.*

    Afterwards your engine answers real clients over HTTP, streaming, as the OpenAI API has it. You can say
    when a server should refuse, what it may send at a given moment, and what becomes of a request whose
    reader has gone. And you will have measured what all your parts are worth together.

    ## What stands between a socket and a step?

    Your engine serves a list of requests that is there when it starts. The world is less polite. Clients
    come when they like, more of them than there is room for, and read slowly. Some close the window in the
    middle of a sentence. And each of them speaks HTTP.
    """)
    return


@app.cell(hide_code=True)
def _():
    import inspect
    import textwrap

    from course.answers import load_policies
    from course.figure import Figure
    from course.lesson_data import l10_clients as clients
    from course.lesson_data import l10_exhibits as exhibits
    from course.lesson_data import l10_served as stories
    from nanogpt import EngineConfig
    from nanogpt.server.engine_thread import EngineThread
    from widgets import Timeline

    return (
        EngineConfig,
        EngineThread,
        Figure,
        Timeline,
        clients,
        exhibits,
        inspect,
        load_policies,
        stories,
        textwrap,
    )


@app.cell(hide_code=True)
def _():
    predict(
        "l10.http_cost",
        "32 clients stream from one engine on a CPU. Each token becomes JSON in a server-sent event, and "
        "Python runs one thread at a time. How much longer do all the texts take **than in the bare "
        "engine**?",
        ("About a tenth", "About a third", "About a half", "Twice as long"),
        0,
        "About a tenth: **1.08** times as long at 32 clients, and 1.06 at one. An event is little work "
        "beside a step, and while the engine multiplies matrices Python's lock is free: the two threads "
        "hardly meet.",
    )
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l10.leaver",
        "A client closes its connection in mid-stream, while a step computes. Its request holds K/V of "
        "some 30 tokens. **When may this room be given to another request?**",
        (
            "At once: nothing reads them any more",
            "When the step is over",
            "When its text is done",
            "When a timeout has passed",
        ),
        1,
        "When the step is over: a matter of milliseconds. The step was planned with this request, and reads "
        "and writes its K/V until it has committed. Earlier is a defect, which you will meet below, and so "
        "is later: nothing reads the text, so each further step of it is taken from the others.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The road of a request

    ```text
    clients <== HTTP ==> event loop: uvicorn, Starlette
                            |                  ^
    10.1 admission_control  |                  |  10.2 stream_delta
      10.3 on_disconnect    |                  |
                            | commands         | text
                            v                  |
                        SimpleQueue --> engine's thread: plan, run, sample, record
    ```

    Two threads. The **event loop** speaks with all the clients and never computes. The **engine's thread**
    computes and never touches a socket. Between them is a queue of commands, and the engine takes them
    **between two steps** only. That is why there is not one lock in it. This is the whole loop, as it
    stands in `nanogpt/server/engine_thread.py`:
    """)
    return


@app.cell(hide_code=True)
def _(EngineThread, inspect, textwrap):
    mo.md("```python\n" + textwrap.dedent(inspect.getsource(EngineThread._run)) + "```")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    With nothing to serve it sleeps in `get`. A token that a step has given goes back to the event loop,
    and from there to its client as a *server-sent event*: a line that begins with `data:`, with JSON
    behind it, and an empty line.

    On this road three decisions are yours.

    ## Which requests come in?

    A queue in front of an engine looks kind: none is sent away. But when requests come faster than they
    are served, each waits longer than the one before it, until all of them wait longer than anyone reads.
    So a server has a limit, and answers **429** beyond it: too many requests. With it goes `Retry-After`,
    a number of seconds. A good client believes it: OpenAI's own waits just so long, up to two minutes, and
    gives up when it is told more.

    So the number has to be worth something. When will there be a place? When the first of those that run
    is done. They share what the engine gives.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l10.admission_control")
    return


@app.function
def admission_control(
    queue: "QueueView", limits: "AdmissionLimits", request: "NewRequest"
) -> str | tuple[int, int | None]:
    """Return "accept", or an HTTP status and after how many seconds to try again."""
    raise NotImplementedError("Exercise 10.1: does it come in, and if not, when?")


@app.cell(hide_code=True)
def _():
    door_attempt = attempt("l10.admission_control", lambda: admission_control)
    door_attempt
    return (door_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l10.admission_control")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What may be sent now?

    A token is not a letter. Ours is one; in most models it is a piece of bytes, and a piece may end in the
    middle of a character. An *é* has two bytes, a 😀 has four, and a model may well give them in two tokens
    of two different steps. A client cannot take back what it has shown.

    And a step may give one token, or five that were guessed ahead, or, after a preemption, some that were
    there before. So do not ask what the step has given. Ask what the **text** is, and how much of it the
    client has.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l10.stream_delta")
    return


@app.function
def stream_delta(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    """Return the events to send now: one text, or none."""
    raise NotImplementedError("Exercise 10.2: which text is new and whole?")


@app.cell(hide_code=True)
def _():
    events_attempt = attempt("l10.stream_delta", lambda: stream_delta)
    events_attempt
    return (events_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l10.stream_delta")
    return


@app.cell(hide_code=True)
def _(events_attempt, stories):
    mo.md(stories.bytes_of_a_stream(events_attempt))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## And when the reader has gone?

    A connection is closed, and the server hears of it at any moment: while the request waits, between two
    steps, in the middle of one, or after its end.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l10.on_disconnect")
    return


@app.function
def on_disconnect(state: "dict[str, Any]", request_id: int) -> "dict[str, Any]":
    """Return the state of the server once the client of this request has left."""
    raise NotImplementedError("Exercise 10.3: what becomes of its request?")


@app.cell(hide_code=True)
def _():
    leaving_attempt = attempt("l10.on_disconnect", lambda: on_disconnect)
    leaving_attempt
    return (leaving_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l10.on_disconnect")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your engine, served

    Now everything that you have passed in this course goes into one engine, and the three functions above
    into the server before it. For what you have not passed the reference stands in. Settings decide which parts have work to
    do: with `executor="fused"` those of lesson 3, with `sliding_window=48` those of lesson 4, with
    `block_size=16` those of lesson 7. Change them and run the cell.
    """)
    return


@app.cell
def _(load_policies):
    earlier = load_policies("l10_capstone")  # every answer that you passed, checked once more
    return (earlier,)


@app.cell
def _(
    EngineConfig,
    door_attempt,
    earlier,
    events_attempt,
    leaving_attempt,
    stories,
):
    settings = EngineConfig(token_budget=32, max_kv_tokens=400, max_batch_size=4, keep_steps=2_000)
    make_engine = stories.engine_maker(settings, earlier.policies)
    attempts = {
        "admission_control": door_attempt,
        "stream_delta": events_attempt,
        "on_disconnect": leaving_attempt,
    }
    server_policies = stories.server_policies(attempts)
    return attempts, make_engine, server_policies


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Six clients come at once: real sockets, a real server on a free port of this machine, in a process of
    its own. It takes four at a time. Every text is compared with the oracle's.
    """)
    return


@app.cell
def _(clients, make_engine, server_policies, stories):
    served = clients.serve_calls(make_engine, server_policies, stories.calls())
    return (served,)


@app.cell(hide_code=True)
def _(attempts, earlier, served, stories):
    mo.md(stories.burst_said(served, attempts, earlier))
    return


@app.cell(hide_code=True)
def _(Timeline, attempts, served):
    Timeline(
        served.trace.to_json(),
        yours=any(each.started for each in attempts.values()),
        title="Six clients, as the engine behind the socket saw them",
        question="What do the last two requests wait for?",
        start=4,
    )
    return


@app.cell(hide_code=True)
def _(make_engine, served, server_policies, stories):
    mo.md(stories.gaps_said(served) + "\n\n" + stories.other_client_said(make_engine, server_policies))
    return


@app.cell(hide_code=True)
def _(make_engine, server_policies, stories):
    mo.md(
        "**More than it takes.** "
        + stories.overload_said(stories.overload(make_engine, server_policies))
    )
    return


@app.cell(hide_code=True)
def _(make_engine, server_policies, stories):
    after("l10.leaver", mo.md("**One leaves.** " + stories.leaving_said(make_engine, server_policies)))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    **And one that stands.** This server goes on until its cell runs anew or the page's kernel ends.
    """)
    return


@app.cell
def _(make_engine, server_policies, stories):
    standing = stories.standing(make_engine, server_policies)
    standing
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Any program that speaks with OpenAI's API speaks with it, from this machine: it listens on 127.0.0.1.
    `python -m nanogpt.server` is the same server, from a terminal, with the reference in it.

    ## The contest: what are your parts worth?

    Right texts are not enough; they have to come in time. The contest plays four recorded workloads on the
    modelled clock and counts the requests whose **every** token was there when it was promised: chats with
    a shared instruction, long documents, bursts, and urgent requests among batch work. Below all entries
    stands a number that **no schedule can exceed**, with a proof (`docs/contest.md`).
    """)
    return


@app.cell
def _(earlier, stories):
    rounds = stories.played(earlier)
    mo.md(stories.contest_said(rounds, earlier))
    return (rounds,)


@app.cell(hide_code=True)
def _(Figure, rounds, stories):
    Figure(
        stories.contest_chart(rounds),
        "Where do the entries part?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    **The report card** takes your parts out one by one: what each brings alone, with the reference around
    it, and what is lost when the reference takes its place among yours.
    """)
    return


@app.cell(hide_code=True)
def _(earlier, stories):
    mo.md(stories.card_said(earlier))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Zeros are no failure: most exercises ask for the one right behaviour, and the reference has it too. What
    differs between good engines is *which request goes first* and *how much of a prompt in which step*:
    `priority_key`, `plan_step`, `choose_victim`. Write yours into `work/contest.py` and play in a terminal:

    ```text
    python3 learn.py contest --board board.jsonl --name you
    ```

    The bound says where there is room. A plan with the shortest prompt first, and a key by the last moment
    at which a prompt must be begun, keep all 32 promises of *urgent* under seed 0, which is the bound.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Break it

    Five defects in the real server and the real engine. The server does what these functions
    answer. Look at the symptom, decide what is wrong, then **repair the
    function in its cell**: what stands below it answers.

    ### Exhibit A: said before

    Four clients, and a KV budget that is short: two requests are preempted, and come back with their prompt
    alone. Their texts are written a second time, the same ones.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_a(committed, sent, is_done):
    """What may be sent now: what the step has given."""
    if is_done or not committed:
        return []
    return [committed[-1].decode()]


@app.cell(hide_code=True)
def _(exhibits):
    mo.md(exhibits.doubled(piece(lambda: exhibit_a)))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l10.doubled",
        "Two texts are too long, and their beginnings stand in them more than once. **What is broken?**",
        (
            "The engine writes another text after a preemption",
            "Two clients read the same stream",
            "It is sent what a step has given, and not what the client lacks",
            "The preempted requests should not come back",
        ),
        2,
        "Each step gives a token, but not each token is news. What the client has is counted in the text, "
        "so send from there on, whatever is computed twice. Engines that keep the generated tokens of a "
        "preempted request, as ours does, meet this less often.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l10.doubled", exhibit("A", "l10.stream_delta", lambda: exhibit_a))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: naïve café ����

    The real text of a stream. All tests with English prompts passed.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_b(committed, sent, is_done):
    """What may be sent now: the text of all tokens, less what was sent."""
    text = "".join(piece.decode(errors="replace") for piece in committed)
    return [text[sent:]] if text[sent:] else []


@app.cell(hide_code=True)
def _(exhibits):
    mo.md(exhibits.halves(piece(lambda: exhibit_b)))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l10.halves",
        "The é came through, the smile did not. **What is broken?**",
        (
            "Emoji are not UTF-8",
            "Tokens are decoded one by one",
            "The last token is lost",
            "The client reads another encoding",
        ),
        1,
        "The é rules another encoding out: its two bytes happened to lie in one token, the four of 😀 in three. A piece of a character is "
        "no text: decoded alone, each piece becomes U+FFFD, and the bytes are gone. Put the bytes together "
        "first, and keep an unfinished end back.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l10.halves", exhibit("B", "l10.stream_delta", lambda: exhibit_b))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit C: for no reader

    One request at a time. The first client closes its window after three events; the second comes then.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_c(state, request_id):
    """The state once a client has left: what waits goes, what runs is nearly done anyway."""
    waiting = [other for other in state["waiting"] if other != request_id]
    return {**state, "waiting": waiting}


@app.cell(hide_code=True)
def _(exhibits):
    mo.md(exhibits.computed_on(piece(lambda: exhibit_c)))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l10.computed_on",
        "No text is wrong, and no error stands in a log. **What is broken?**",
        (
            "The second client should be refused",
            "The engine computes for a reader who has left",
            "The server heard too late that the first had left",
            "One request at a time is too few",
        ),
        1,
        "The request of the first is computed to its last token, and each of its steps is one that the "
        "second waits for. In production this shows as load without traffic: people stop answers all the "
        "time, and retry. (The server heard in time: `exhibit_c` was asked, and let the request run.)",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l10.computed_on", exhibit("C", "l10.on_disconnect", lambda: exhibit_c))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit D: a patient queue

    24 clients at once, three of them in a batch. The settings say that six may be unfinished.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_d(queue, limits, request):
    """Whether a request comes in: none is sent away that can be served some time."""
    return "accept"


@app.cell(hide_code=True)
def _(exhibits):
    mo.md(exhibits.crowd(piece(lambda: exhibit_d)))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l10.patient",
        "All 24 are served. **What is wrong with that?**",
        (
            "Nothing: a queue is for waiting",
            "The batch is too small for so many",
            "How long the last one waits has no limit",
            "The newest should be served first",
        ),
        2,
        "Here 24 come and no more, so the last one is served in the end. With clients that keep coming it waits "
        "minutes, and then those in front have left before their turn. A refusal in a millisecond, with a time to come again, is worth "
        "more than a place at the end. (Another order only lets others wait so long.)",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l10.patient", exhibit("D", "l10.admission_control", lambda: exhibit_d))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit E: the ground under a step

    Three requests in one batch. In the middle of a forward pass the client of request 1 leaves, and what
    `exhibit_e` says is done at once.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_e(state, request_id):
    """The state once a client has left: it is gone, and so is all it held."""
    waiting = [other for other in state["waiting"] if other != request_id]
    running = {other: held for other, held in state["running"].items() if other != request_id}
    return {**state, "waiting": waiting, "running": running}


@app.cell(hide_code=True)
def _(exhibits):
    mo.md(exhibits.under_a_step(piece(lambda: exhibit_e)))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l10.ground",
        "One client has left, and the two others have only the beginning of a text. **What is broken?**",
        (
            "K/V is freed that a step is using",
            "The step waits for a row that does not come",
            "The leaver took the others' tokens along",
            "Requests 0 and 2 were preempted",
        ),
        0,
        "The step was planned with three rows, and the K/V of one is gone under it. Ours waits for nothing "
        "and falls over, since a slot is looked up by its request. An engine that keeps addresses does not notice: it goes on "
        "to write into memory that another request has been given. Note it in `leaving`, and let it go when "
        "the step is over.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l10.ground", exhibit("E", "l10.on_disconnect", lambda: exhibit_e))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Measure it

    What HTTP costs, beside the bare engine, over the same prompts, on one thread. A ratio of 1.5 is half as
    long again.
    """)
    return


@app.cell(hide_code=True)
def _():
    after("l10.http_cost", mo.md(r"""
    | clients | events | time, over the bare engine's | CPU time, over the bare engine's |
    |--:|:--|--:|--:|
    | 1 | every step | 1.06 | 1.06 |
    | 1 | usual interval | 1.00 | 1.01 |
    | 8 | every step | 1.08 | 1.07 |
    | 8 | usual interval | 1.03 | 1.02 |
    | 32 | every step | 1.08 | 1.05 |
    | 32 | usual interval | 1.08 | 1.07 |

    Medians of nine interleaved repeats on two cores of a shared machine; single repeats lay between 0.7
    and 1.4, so the second digit says little (`docs/benchmarks.md`).
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The server may send an event for each step, or, as usual, gather for 20 ms what several steps gave:
    first tokens and ends do not wait. Fewer events are less work, and a reader does not see the difference.
    vLLM has the same knob, `--stream-interval`, counted in tokens.

    **Where it loses.** The smaller the model, the larger the share: JSON for a token costs what it costs,
    and a step of ours only milliseconds. Your parts cost, too: each call gets copies of its
    arguments, and `stream_delta`, which is called for each token and client, is the most called part of the
    course.

    ## How production engines do it

    - **vLLM** separates further than two threads: the HTTP server, with tokenizing and detokenizing, is a
      process of its own, and the engine core another. Sockets of ZeroMQ stand where our queue stands, and
      the loop of `vllm/v1/engine/core.py` is ours: empty the queue of what came, then one step.
    - **The queue.** Its waiting queue had no end for years:
      [vLLM #18826](https://github.com/vllm-project/vllm/issues/18826) says what that leads to, memory that
      grows while nothing is refused. Since [#49445](https://github.com/vllm-project/vllm/pull/49445) the
      option `--max-num-queued-reqs` limits what waits and runs together, as yours does, with a 503.
    - **Half a character.** [exo #1691](https://github.com/exo-explore/exo/pull/1691) and
      [vllm-mlx #109](https://github.com/waybarrios/vllm-mlx/pull/109) are exhibit B, found by an emoji and
      by the Czech ď. In [sglang #31598](https://github.com/sgl-project/sglang/issues/31598) the count of
      what was sent went **back** while a character was unfinished, and a finished one was sent twice: your
      `sent` never does.
    - **Once more after a preemption.** [inference-sim #1091](https://github.com/inference-sim/inference-sim/issues/1091):
      tokens computed again after a preemption were counted again, and the throughput looked better for it.
    - **Computing on.** [sglang #36552](https://github.com/sgl-project/sglang/pull/36552): in a session whose
      client had left, the request went on to its last token, and what it wrote was found in the next turn.
    - **Under a step.** [vllm-ascend #14055](https://github.com/vllm-project/vllm-ascend/issues/14055): with
      steps in flight, a request that ends, is aborted or preempted can give its blocks back while a step
      still uses them. Exhibit E, on sixteen accelerators.

    ## What comes next

    Nothing: this was the last lesson. Look at the number above, *so many of so many parts are yours*. When
    it says all of them, the text that `curl` prints was planned, admitted, masked, packed, sampled, kept,
    evicted, sent and stopped by functions that you wrote, on a model that you can read in an afternoon.

    From here: open vLLM's `vllm/v1/core/sched/scheduler.py`. You know what it decides, and why. Play the
    contest against a friend. Serve GPT-2's own weights: `docs/gpt2.md` says how they come here. Or go back
    to a part that is still the reference.

    [Back to the course's front page](/?file=index.py&view-as=present)
    """)
    return


if __name__ == "__main__":
    app.run()

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="6 · Preempting the pass")

with app.setup(hide_code=True):
    import json
    import random
    import threading
    from collections.abc import Callable, Generator
    from concurrent.futures import ThreadPoolExecutor
    from dataclasses import replace
    from pathlib import Path
    from statistics import median

    import marimo as mo
    import torch

    import course
    from course.attempt import attempt
    from course.calling import call
    from course.checks.tidying import draw_books
    from course.checks.voting import Played, Votes
    from course.prediction import after, hints, predict
    from course.task import task
    from nanogpt import GPT, EngineConfig, ModelConfig, Request
    from nanogpt.guard import PartError, guarded
    from nanogpt.preemption import agreement, cleanup, races, sleeping
    from nanogpt.preemption.agreement import AGREEMENTS, BY_STEP, RANK_PARTS, write_step
    from nanogpt.preemption.cleanup import Books
    from nanogpt.preemption.gating import GATE_PARTS, slo_gate
    from nanogpt.preemption.messages import PassRow
    from nanogpt.preemption.monitor import (
        Inbox,
        Monitor,
        MonitorParts,
        Snapshot,
        Target,
        now_us,
        with_arrivals,
    )
    from nanogpt.preemption.points import hold, let_go, wait_if_held, wait_until_held
    from nanogpt.preemption.runner import Runner
    from nanogpt.preemption.serving import PreemptiveEngine
    from nanogpt.preemption.settings import NO_PREEMPTION, Preemption
    from nanogpt.preemption.shared_state import NOTHING, checkpoint_number
    from nanogpt.preemption.verdict import RUNNER_PARTS, Abandoned, RanksFailed, RunnerParts
    from nanogpt.slo.load import POST_COST
    from nanogpt.slo.parts import SloParts
    from nanogpt.slo.policy import SloRequest
    from nanogpt.slo.predictor import fit
    from widgets import SloCycle, VoteBoard


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 6 · Preempting the pass

    **50 minutes**, the race lab at the end is optional. Builds on lesson 5 (slack, urgency, the gate).
    Afterwards you can stop a forward pass that runs on several processes at once, without any of them waiting
    for ever, undo it without a trace, and say what it costs.

    ## The gate says yes. Now what?

    In lesson 5 you decided who gives way. Deciding is quick. The thing that is to give way is a forward
    pass that has already begun, on several GPUs, and the engine's main thread is blocked until it comes back.

    How long is that? The post's author measured Llama-3.3-70B on four A100: so much per token, and so much per pass.
    """)
    return


@app.cell
def _():
    def pass_ms(tokens):
        """A prefill pass by the post's line, in ms."""
        return (POST_COST.a_us * tokens + POST_COST.c_us) / 1000

    def in_chunks(tokens, size):
        """The same prompt in chunks, one pass each: how long in all, and the longest wait for an end."""
        sizes = [min(size, tokens - start) for start in range(0, tokens, size)]
        return sum(map(pass_ms, sizes)), max(map(pass_ms, sizes))

    def _row(tokens):
        whole = pass_ms(tokens)
        chunked, wait = in_chunks(tokens, 512)
        return f"| {tokens:,} | {whole:,.0f} ms | {whole / POST_COST.num_layers:.1f} ms | {chunked:,.0f} ms | {wait:.0f} ms |"

    mo.md(
        "| prompt, tokens | one pass | one of its 80 layers | in chunks of 512 | the longest chunk |\n|--:|--:|--:|--:|--:|\n"
        + "\n".join(map(_row, (242, 2000, 7986)))
        + "\n\n*Modelled: the post's fitted line, evenly spread over the model's layers.*"
    )
    return (pass_ms,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Somebody who needs 242 tokens computed arrives just after a prompt of 7,986 has begun, and waits more than a second for a
    first token that takes about a twentieth of that to compute.

    **Chunks** (lesson 1) are one answer: whoever is urgent goes in between two of them. But every chunk pays the fixed
    part again, always, whether anybody urgent comes or not, and the wait is still a whole chunk.

    The other answer: the pass looks at every layer whether it is still wanted. That is the idea of **FlowPrefill**, which the post
    puts into vLLM. A layer is short, and a glance is cheap. So much for the idea. The rest of this lesson is about the
    glance.

    ### Where to look

    Why at every layer, and why just before attention? Because that is where Python still has a say. vLLM's forward pass is mostly
    compiled: between two attention ops lies a captured graph, and a callback in it would be recorded once and never
    run again. Attention depends on who is in the batch, so it stays outside the graphs, and there the pass comes up for air, once
    per layer.

    In our engine the forward pass is a generator that yields there, `nanogpt/preemption/forward.py`. A rank steps it, and between two
    steps it may stop for good, or for a while:

    ```python
    for layer, weights in enumerate(shard.layers):
        q, k, v = weights.queries_keys_values(x)
        yield layer                      # the attention op: is this pass still wanted?
        x = x + reduce_attention(weights.project(attend(layer, q, k, v)))
        x = x + reduce_mlp(weights.mlp(x))
    ```

    ### One preemption, from beginning to end

    This is a recording: two rank processes, each with half of the heads and half of the MLP of a model of 12 layers, a
    prefill of 1,400 tokens, and an urgent request of 24 that arrives in the middle of it. Step through it.
    """)
    return


@app.cell
def _():
    data = Path(course.__file__).parents[1] / "lessons" / "data"
    recorded = json.loads((data / "preempted_pass.json").read_text())  # see preempted_pass.md

    def story_of(run, arm):
        """The one preemption of an arm that was kept whole."""
        return next((each["cycle"] for each in run["tried"] if each["arm"] == arm and "cycle" in each), None)

    SloCycle(story_of(recorded["experiment"], "vote, abort"), "An urgent arrival in mid-pass", source="recorded")
    return recorded, story_of


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Three threads of control take part and none of them waits for another. The **engine thread** is blocked in the pass. The **monitor thread**
    looks at a frozen snapshot every 5 ms, and at once when somebody arrives. It writes one number to **shared memory**. The **ranks**
    read it at their next attention op, agree, and leave. The engine reads every reply, undoes the pass, and starts the waiter.

    You write the four places where this goes wrong. Before that, a question about the bill.
    """)
    return


@app.cell(hide_code=True)
def _(pass_ms):
    _done, _all = 28, 32
    predict(
        "l06.layer_28",
        "A pass over a prompt of 7,986 tokens is aborted after layer 28 of 32, and computed again later. The rule is that a pass is "
        "let finish past 90 % of its layers. **How much work is lost?**",
        (
            "None: the K/V of 28 layers lies in the cache, and the pass goes on from there",
            "None: the rule forbids it, so late",
            "Nearly nine tenths of a pass, and the rule allows it",
            "An eighth of a pass",
        ),
        2,
        f"{_done} of {_all} layers are {_done / _all:.1%}, which is not more than 90 %. The K/V that these layers wrote is of no use: "
        "the next pass starts with the embeddings and computes every layer again, since what goes from layer to layer was thrown "
        f"away. On the post's line that is {_done / _all * pass_ms(7986):,.0f} ms of work, to save the urgent request the "
        f"{(1 - _done / _all) * pass_ms(7986):,.0f} ms that were left. There is another way back, in 6.4.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Build it

    Four functions: one reads, one agrees, one undoes, one decides how long a pass may sleep.

    ### Is it me that is meant?

    The first version in vLLM was a boolean: *preempt!* The monitor set it, the workers read it, the engine cleared it after
    every step. It looked right.

    Now think of a monitor that is a moment late. It looks at step 7, decides, and is put to sleep by the operating system.
    Step 7 ends. The engine clears the flag. The monitor wakes up and sets it. Step 8 begins.

    Nobody has made a mistake that they could have seen. To make all three agree when it is whose turn would take a lock over three threads of control, on the
    path where every microsecond counts. The cure is smaller: **the message says what it means.** Not *preempt*, but *preempt step 7*. A number
    that only ever grows can be as late as it likes.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l06.local_vote")
    return


@app.function
def local_vote(target: int, step: int, layer: int, num_layers: int) -> int:
    """Return this rank's vote at one attention op: 1 to leave the pass, 0 to go on."""
    raise NotImplementedError("Exercise 6.1: 1 to leave the pass here, 0 to go on")


@app.cell(hide_code=True)
def _():
    vote_attempt = attempt("l06.local_vote", lambda: local_vote)
    vote_attempt
    return (vote_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l06.local_vote")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Why is it a vote?

    So a rank reads a number and knows. Why not just leave?

    Because it is not alone. Each rank computes half of the heads, and twice in every layer all of them add up their halves in a collective, `all_reduce`. A
    collective is a meeting: nobody gets out before everybody has come.

    Both ranks read the *same* eight bytes of memory, at the *same* layer, a moment apart.
    """)
    return


@app.cell(hide_code=True)
def _(recorded):
    def _count(name, how):
        return sum(each.startswith(how) for each in recorded["hangs"][name])

    def _line(name, words):
        tries = len(recorded["hangs"][name])
        return f"{words}: {_count(name, 'hung')} of {tries} hung, {_count(name, 'together')} left together, {_count(name, 'too late')} came too late."

    predict(
        "l06.hangs",
        "Two ranks, one number in shared memory, **no collective**: whoever reads that the pass is unwanted leaves. The number is written at "
        "any moment of the pass. How often does it hang?",
        (
            "Never: both read the same memory at the same layer",
            "Now and then, and seldom enough that a test may never see it",
            "Nearly always: no two processes do anything at the same moment",
        ),
        1,
        "It hangs when the number is written after one rank's glance and before the other's. Recorded on two cores, with a target written in every pass:\n"
        f"{_line('quiet', 'Nothing else started by us')}\n"
        f"{_line('busy', 'Beside two threads that compute')}\n"
        f"{_line('busy, vote', 'Beside the same two threads, but with the vote that you write next')}\n"
        "A prototype of this lesson, with other code, hung in 3 of 11. **A test that runs ten times and is green says nothing "
        "about it.** That is what makes it a race.",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l06.hangs",
        mo.md(r"""
    So what a rank has read is not a decision. It is an opinion, and it takes a collective of its own to make a decision out of opinions:
    `all_reduce(MAX)` over the votes. Anybody's 1 makes everybody leave, at the same attention op.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### All of them or none

    Write what one rank does at one attention op, move by move, as a generator. Each `yield` is a move, and the scheduler that plays the ranks decides whose
    turn it is. No processes are needed for that, so it can try one order after the other, and a rank that waits for ever is found at once and not after a timeout.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l06.checkpoint")
    return


@app.function
def checkpoint(vote: int) -> Generator[tuple, int, None]:
    """Yield what one rank does at one attention op, move by move; `vote` is what it wants, 0 or 1."""
    raise NotImplementedError("Exercise 6.2: the moves of one rank at one attention op")


@app.cell(hide_code=True)
def _():
    checkpoint_attempt = attempt("l06.checkpoint", lambda: checkpoint)
    checkpoint_attempt
    return (checkpoint_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l06.checkpoint")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Your ranks on a stage

    Your two functions together: step 7 over 8 layers, two ranks, and the target is written between their two glances at layer 3. Rank 1 has just looked. Beside it, the rule
    from the prediction: whoever has read it leaves.
    """)
    return


@app.function(hide_code=True)
def votes_of(vote: Callable, num_layers: int = 8, written_at: float = 3.5) -> Votes | None:
    """What two ranks vote: rank 0 comes to every layer a little later than rank 1; None if one has no vote."""
    votes = []
    for layer in range(num_layers):
        for late in (0.75, 0.25):
            called = call(vote, (7 if layer + late > written_at else -1, 7, layer, num_layers))
            if type(called.value) is not int or called.value not in (0, 1):
                return None
            votes.append(called.value)
    return Votes(tuple(zip(votes[::2], votes[1::2], strict=True)))


@app.function(hide_code=True)
def board_of(label: str, words: str, rule: Callable, votes: Votes | None, meets: bool = True) -> dict | None:
    """The ranks played by the deterministic scheduler, as a board; a layer counts as 1 ms."""
    played = call(Played(rule), (votes,)).value if votes else None
    if played is None or played.problem:
        return None
    num_layers, ms = len(votes.by_layer), 10**6
    checks, endings = [], []
    for rank, (did, place) in enumerate(zip(played.did, played.places, strict=True)):
        layer = sum(move.startswith("sum") for move in did) - (place == "sum")
        late = (0.75, 0.25)[rank]
        checks.append([
            {"layer": n, "reached_ns": round((n + late) * ms), "vote": votes.by_layer[n][rank], "agree_ns": ms // 10}
            for n in range(min(layer + 1, num_layers))
        ])
        how = {"left": "left", "done": "finished"}.get(place, "hangs")
        where = {"max": "waits in the vote for ever", "sum": "waits in the sum for ever"}.get(place, "")
        endings.append({"how": how, "layer": layer, "words": where})
    hangs = any(each["how"] == "hangs" for each in endings)
    last = max(each["layer"] for each in endings)
    record = {
        "step": 7, "pass_number": 7, "layer": last, "num_layers": num_layers, "waiter": 1, "victims": [0],
        "begun_ns": 0, "written_ns": round(3.5 * ms), "replied_ns": None if hangs else (last + 1) * ms,
        "resumed_ns": None, "checks": checks,
    }
    board = {"label": label, "words": words, "record": record, "endings": endings}
    return board if meets else board | {"agreement": "epoch"}


@app.cell(hide_code=True)
def _(checkpoint_attempt, vote_attempt):
    def _boards():
        right, staged_words = votes_of(agreement.local_vote), "Played move by move, a layer drawn as 1 ms."
        boards = [
            board_of("with the vote", f"The reference. {staged_words}", agreement.checkpoint, right),
            board_of("no vote", f"Whoever has read the target leaves, and asks nobody. {staged_words}", races.leave_alone, right, meets=False),
        ]
        if vote_attempt.started or checkpoint_attempt.started:
            votes = votes_of(vote_attempt.or_reference(agreement.local_vote))
            rule = checkpoint_attempt.or_reference(agreement.checkpoint)
            boards.insert(0, board_of("yours", f"What you have written; where you have not, the reference. {staged_words}", rule, votes))
        return [each for each in boards if each]

    VoteBoard(_boards(), "The target is written between two glances at layer 3")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Look at layer 3 with the vote: rank 0 votes 1, rank 1 votes 0, and both leave. The votes were different. The decision was not.

    Every layer of every pass pays for that meeting, also of the many passes that nobody interrupts. Two cheaper ways to agree are behind the same
    interface (`nanogpt/preemption/agreement.py`):

    - **carried**: the attention output is summed over the ranks anyway, so the vote rides along as one more number. The answer is known one layer later.
    - **epoch**: no collective at all. The first rank to see the target writes into shared memory *at which checkpoint all leave*: the next one. Nobody can be past it yet. Why
      not? To come to checkpoint *n + 1*, a rank has to get through the sums of layer *n*, and those wait for the rank that stands there and writes. This is FlowPrefill's
      own way.
    """)
    return


@app.cell(hide_code=True)
def _(recorded):
    def _row(how):
        passes = [each for each in recorded["experiment"]["passes"] if each["agreement"] == how]
        checks = [us for each in passes for us in each["agree_us"]]
        took = [each["pass_us"] / 1000 for each in passes]
        stops = [each["stop_us"] / 1000 for each in recorded["experiment"]["tried"] if each["arm"] == f"{how}, abort" and "stop_us" in each]
        cost = "nothing" if how is None else f"{median(checks):,.0f} µs"
        stop = "" if how is None else f"{median(stops):.0f} ms ({min(stops):.0f} to {max(stops):.0f})"
        return f"| {how or 'no monitor, no vote'} | {cost} | {median(took):.0f} ms ({min(took):.0f} to {max(took):.0f}) | {stop} |"

    _vote = [each for each in recorded["experiment"]["passes"] if each["agreement"] == "vote"]
    _share = 12 * median(us for each in _vote for us in each["agree_us"]) / median(each["pass_us"] for each in _vote)
    mo.md(
        f"| recorded, median of {recorded['experiment']['repeats']} | agreeing, per layer | the whole pass | from the write to both replies |\n|:--|--:|--:|--:|\n"
        + "\n".join(_row(how) for how in (None, "vote", "carried", "epoch"))
        + "\n\n*Two processes on a shared machine of two cores, gloo, 1,400 tokens, 12 layers. Agreeing includes waiting for the slower rank.*"
        + f"\n\nTwelve votes of that length are {_share:.0%} of a pass, less than the passes differ among themselves: you see it at the checkpoint, not in the pass. "
        "The cheaper ways leave one layer later. That is their price."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### A step that never was

    The ranks have left. Now the engine's books are full of a step that did not happen. Lesson 2 had preemptions too, when K/V ran out. But those were decided *inside* scheduling, before anybody had
    noted who runs in this step. This one comes after the note.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l06.clean_up")
    return


@app.function
def clean_up(books: Books, aborted: list[int], waiter: int | None) -> Books:
    """Return the books as they should be once an aborted pass is undone."""
    raise NotImplementedError("Exercise 6.3: the books once the aborted pass is undone")


@app.cell(hide_code=True)
def _():
    undo_attempt = attempt("l06.clean_up", lambda: clean_up)
    undo_attempt
    return (undo_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l06.clean_up")
    return


@app.cell(hide_code=True)
def _(undo_attempt):
    def _table():
        before = Books((5, 3), (6, 2, 8), frozenset({6, 2, 8}), frozenset({6, 2, 8}), None)
        rows = [("before", draw_books(before)), ("the reference", draw_books(cleanup.clean_up(before, [2, 8], 3)))]
        if undo_attempt.started:
            mine = call(undo_attempt.function, (before, [2, 8], 3)).value
            rows.append(("yours", draw_books(mine)))
        cells = "\n".join(f"| {name} | {drawn.replace(chr(10), '<br>').replace('|', '/')} |" for name, drawn in rows)
        return f"Requests 2 and 8 were in the pass, which was aborted for request 3; request 6 was decoding beside them.\n\n| | the books |\n|:--|:--|\n{cells}"

    mo.md(_table())
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### No pass sleeps for ever

    Aborting throws away up to nine tenths of a pass. The paper does not abort: it **suspends**. Our forward pass is a generator, so a rank simply stops stepping it and keeps it: the K/V written so far, and the
    hidden state between two layers. Later it is stepped on. Nothing is computed twice.

    It costs two things. The K/V of the sleeper stays where it is, while somebody else needs room. And a sleeper can be forgotten: there is always another urgent request. An open proposal for vLLM
    that suspends prefills had to learn this ([#44794](https://github.com/vllm-project/vllm/pull/44794)): under sustained load *a checkpointed prefill never resumes*. Mean TTFT was 449.84 ms without it, **969.43 ms** with it, and 411.73 ms once a suspension had a bound.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l06.resume_or_abort")
    return


@app.function
def resume_or_abort(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    """Return what becomes of a suspended pass now: "sleep", "resume" or "abort"."""
    raise NotImplementedError("Exercise 6.4: sleep, resume or abort")


@app.cell(hide_code=True)
def _():
    fate_attempt = attempt("l06.resume_or_abort", lambda: resume_or_abort)
    fate_attempt
    return (fate_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l06.resume_or_abort")
    return


@app.cell(hide_code=True)
def _(fate_attempt):
    def _reference(slept, whole, urgent, short, bound):
        return sleeping.resume_or_abort(slept, whole, urgent_waits=urgent, memory_is_short=short, bound=bound)

    def _asked():
        """A pass of 400 ms, suspended, asked every 200 ms while urgent requests keep coming."""
        said, decide = [], fate_attempt.or_reference(_reference)
        for slept_ms in range(0, 3000, 200):
            way = call(decide, (slept_ms * 1000, 400_000, True, False, 3.0)).value
            if way is None:
                return "`resume_or_abort` gave no answer here; the check above says more."
            said.append(f"{slept_ms} ms: {str(way)[:12]}")
            if way != "sleep":
                break
        whose = "your `resume_or_abort`" if fate_attempt.started else "the reference"
        ends = "" if way != "sleep" else " and so on: **it was asked 15 times and never came back**"
        return f"A suspended pass of 400 ms, bound 3, urgent requests without end, by {whose}: {', '.join(said)}{ends}."

    mo.md(_asked())
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The real thing, on this machine

    Now without a stage. The cell below starts two processes with `python -m`, gives each its half of a model with random weights (what a pass costs does not depend on what
    the model has learnt), measures how long a pass takes, and fits lesson 5's line to it. Then the same two requests twice, once without a monitor and once with:
    a prefill of 1,400 tokens, and after a fifth of its time an urgent request of 24, promised its first token within half a pass.

    Your `clean_up` undoes the pass once it has passed its check. `local_vote` and `checkpoint` run inside the ranks, which cannot import a notebook, so there it is the reference that
    votes. The processes are gone when the cell is done, also when you interrupt it.
    """)
    return


@app.function(hide_code=True)
def random_model(num_layers: int = 12, num_channels: int = 256) -> GPT:
    """Random weights: what a pass costs does not depend on what the model has learnt."""
    torch.manual_seed(0)
    config = ModelConfig(num_layers=num_layers, num_heads=4, num_channels=num_channels, context_len=1536)
    return GPT(config).eval().requires_grad_(False)


@app.function(hide_code=True)
def whole_pass(runner: Runner, num_tokens: int, vote: bool = False) -> tuple[int, list]:
    """Run one prefill to its end: microseconds it took, and rank 0's checks."""
    mask = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
    row = PassRow(0, [1] * num_tokens, range(num_tokens), 0, mask)
    begun = now_us()
    done = runner.run(runner.new_step(), [row], vote=vote)
    return now_us() - begun, list(done.replies[0].checks)


@app.function
def interrupt(runner: Runner, model: GPT, preemption: Preemption, delay_us: int, slo_us: int) -> dict:
    """A long prefill, and an urgent request that arrives in the middle of it; what came of both."""
    limits = EngineConfig(token_budget=1424, max_batch_size=2)
    with PreemptiveEngine(model, runner, preemption, limits) as engine:
        to_monotonic = now_us() - engine.clock.now_us()
        times = {}

        def arrive():
            times["arrived_us"] = now_us()
            engine.arrive(Request(1, [2] * 24, 1), slo_us)  # request 1 is urgent, and short

        engine.arrive(Request(0, [1] * 1400, 1), 50 * slo_us)  # request 0 has time
        begun = now_us()
        timer = threading.Timer(delay_us / 1e6, arrive)
        timer.start()
        try:
            engine.step()  # the long pass: ends, or is left
            timer.join()
            for _ in range(9):
                if engine.inbox.look() or not engine.scheduler.is_done():
                    engine.step()
        finally:
            timer.cancel()
        first = engine.first_token_us
        found = {"urgent_us": first[1] - times["arrived_us"], "long_us": first[0] - begun}
        record = engine.preemptions[0] if engine.preemptions else None
        if record is not None and record.victims == (0,) and record.waiter == 1:
            cycle = times | {"record": record.to_json(), "first_token_us": first[1]}
            decision, steps = engine.monitor.decision, engine.trace().steps
            if decision.target.step == record.pass_number:  # and not a later one
                cycle["looked_us"] = decision.snapshot.now_us
            if preemption.way == "abort":
                cycle["cleaned_us"] = steps[0].end_us + to_monotonic
                cycle["readmitted_us"] = steps[1].start_us + to_monotonic
            stop_us = (record.replied_ns - record.written_ns) / 1000
            found |= {"layer": record.layer, "stop_us": stop_us, "cycle": cycle}
        return found


@app.function(hide_code=True)
def arms(a: float, c: float, undo: Callable = cleanup.clean_up) -> dict:
    """What is compared: no monitor, the three agreements, and suspending instead of aborting."""
    gate = slo_gate(a, c)
    return {
        "no preemption": NO_PREEMPTION,
        "vote, abort": Preemption(gate, "abort", "vote", clean_up=undo),
        "carried, abort": Preemption(gate, "abort", "carried", clean_up=undo),
        "epoch, abort": Preemption(gate, "abort", "epoch", clean_up=undo),
        "vote, suspend": Preemption(gate, "suspend", "vote", clean_up=undo),
    }


@app.function(hide_code=True)
def experiment(repeats: int, wanted: tuple = (), undo: Callable = cleanup.clean_up) -> dict:
    """Interrupted passes in two real rank processes, which are gone afterwards.

    Of every arm, and what agreeing costs; or only of the arms that are `wanted`.
    """
    model = random_model()
    with Runner(2) as runner:
        runner.load(model, 1)
        whole_pass(runner, 1400)  # warms up
        sweep = [(n, median(whole_pass(runner, n)[0] for _ in range(3))) for n in (24, 1400)]
        a, c = fit(sweep)
        pass_us = sweep[-1][1]
        tried, passes = [], []
        for _ in range(repeats):  # interleaved, so that a busy moment hits no arm alone
            for name, preemption in arms(a, c, undo).items():
                if not wanted or name in wanted:
                    found = interrupt(runner, model, preemption, pass_us // 5, pass_us // 2)
                    tried.append({"arm": name} | found)
            for how in () if wanted else (None, *AGREEMENTS):
                runner.load(model, 1, how or "vote")
                took_us, checks = whole_pass(runner, 1400, vote=how is not None)
                agree_us = [round(check.agree_ns / 1000, 1) for check in checks]
                passes.append({"agreement": how, "pass_us": took_us, "agree_us": agree_us})
    return {"repeats": repeats, "pass_us": pass_us, "a": a, "c": c, "tried": tried, "passes": passes}


@app.cell
def _(recorded, story_of, undo_attempt):
    HERE = True  # False: show the recording and start no process

    def run_here():
        """What was measured, where, and why not here."""
        mine = undo_attempt.report.status == "passed"
        undo = guarded("clean_up", undo_attempt.function) if mine else cleanup.clean_up
        whose = "your `clean_up`" if mine else "the reference's `clean_up`, since yours has not passed its check yet"
        if HERE:
            try:
                run = experiment(1, ("no preemption", "vote, abort"), undo)
                if story_of(run, "vote, abort"):
                    return run, "measured here", f"**On this machine, just now**, with {whose}."
                why = "the pass was over before anybody could leave it"
            except (OSError, RuntimeError, TimeoutError, PartError) as failed:
                why = str(failed)
            return recorded["experiment"], "recorded", f"**Recorded, not run here:** {why}."
        return recorded["experiment"], "recorded", "**Recorded**, since `HERE` is False."

    real, source, where = run_here()
    return real, source, where


@app.function(hide_code=True)
def ladder(run: dict, names: tuple) -> str:
    """TTFTs and stops of the arms as a Markdown table: medians, and lowest to highest."""

    def ms(values):
        found = [value / 1000 for value in values]
        spread = f" ({min(found):.0f} to {max(found):.0f})" if len(found) > 1 else ""
        return f"{median(found):.0f} ms{spread}"

    rows = []
    for name in names:
        tried = [each for each in run["tried"] if each["arm"] == name]
        stops = [each for each in tried if "stop_us" in each]
        kept = sum(each["urgent_us"] <= run["pass_us"] / 2 for each in tried)
        layers = sorted({each["layer"] for each in stops})
        left = " to ".join(map(str, layers if len(layers) < 2 else (layers[0], layers[-1])))
        left = f"{left} of 12" if left else ""
        rows.append(
            f"| {name} | **{ms(e['urgent_us'] for e in tried)}** | {kept} of {len(tried)} | "
            f"{ms(e['long_us'] for e in tried)} | {left} | {ms(e['stop_us'] for e in stops) if stops else ''} |"
        )
    head = "| | urgent request: TTFT | promise kept | long prefill: TTFT | left at layer | write to both replies |"
    return "\n".join([head, "|:--|--:|--:|--:|--:|--:|", *rows])


@app.cell(hide_code=True)
def _(real, where):
    mo.md(f"{where} The pass over 1,400 tokens takes {real['pass_us'] / 1000:.0f} ms.\n\n{ladder(real, ('no preemption', 'vote, abort'))}")
    return


@app.cell(hide_code=True)
def _(real, source, story_of):
    SloCycle(story_of(real, "vote, abort"), "The same preemption, thread by thread", source=source)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    And the same pass as a vote board. In the recording there is one board for each way to agree; look at how many layers lie between the write and the leave.
    """)
    return


@app.cell(hide_code=True)
def _(real, recorded, source, story_of):
    def _boards():
        found = []
        for how in AGREEMENTS:
            for run, label in ((real, source), (recorded["experiment"], "recorded")):
                cycle = story_of(run, f"{how}, abort")
                name = f"{how}, {label}"
                if cycle and name not in [each["label"] for each in found]:
                    found.append({"label": name, "words": "Two real processes.", "agreement": how, "record": cycle["record"]})
        return found

    VoteBoard(_boards(), "Where everybody left")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Break it

    Two real defects of the version in vLLM, each of which cost its author real debugging time. The symptom comes first. Both were staged here with real processes that are held at named points,
    so that the bad order happens every time.

    ### Exhibit A: the engine that dies after a success

    The first preemption in vLLM worked perfectly. All workers left, K/V was freed, the victim was back in the queue. The next step killed the engine, by an assertion in code that had nothing to do with
    preemption. In our engine:
    """)
    return


@app.cell(hide_code=True)
def _(recorded):
    mo.md(f"> {recorded['races']['books']['wrong']}\n\nWith one line put right: *{recorded['races']['books']['right']}.*")
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l06.exhibit_a",
        "The scheduler insists that nobody is admitted who was scheduled in the step before: those run already. **What was forgotten?**",
        (
            "The victim's K/V was not released",
            "The victim is still in the note of whom the last step was scheduled with",
            "The victim should have gone to the end of the queue",
            "The urgent request was admitted twice",
        ),
        1,
        "A preemption for lack of memory happens inside scheduling, before the note is written, so the old code for it never touches the note. This one happens in mid-pass, "
        "after it. The victim comes back as a newcomer, and the note says that it never left. In your `clean_up` it is the line with `previous_step`; in vLLM "
        "it was `prev_step_scheduled_req_ids`. Reusing a path that works means inheriting the moment at which it runs.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: preempted for nobody

    Now and then a prefill is aborted although nobody is waiting. No error, every text is right; somebody only waited
    longer than they had to. Held at the right point it happens every time:
    """)
    return


@app.cell(hide_code=True)
def _(recorded):
    mo.md(f"> {recorded['races']['late_write']['wrong']}.\n\nWith the piece put right: *{recorded['races']['late_write']['right']}.*")
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l06.exhibit_b",
        "The flag is cleared by the engine after every step, without fail. **How can step 4 find it set?**",
        (
            "A rank has the old value in its cache",
            "The engine cleared it too early, before all ranks had read it",
            "The monitor decided during step 3 and wrote after the clearing",
            "Two monitors are running",
        ),
        2,
        "Between deciding and writing there is a gap, and a thread can be put to sleep in it for as long as the operating system likes. Clearing more often only makes the "
        "gap rarer to hit. The target that names its step can arrive at any time: step 4 reads 3 and goes on. It is 6.1, with the boolean put back in. "
        "The same mistake is left in one corner of the published version: the queue for its cheaper, scheduler-level preemption carries bare request ids.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Measure it

    All five arms, recorded in one run, interleaved: each round tries every arm once, so that a busy moment of the machine hits no arm alone.
    """)
    return


@app.cell
def _(recorded):
    mo.md(
        f"The pass over 1,400 tokens took {recorded['experiment']['pass_us'] / 1000:.0f} ms; {recorded['experiment']['repeats']} rounds, medians, lowest to highest.\n\n"
        + ladder(recorded["experiment"], tuple(arms(0, 0)))
    )
    return


@app.cell(hide_code=True)
def _(recorded):
    def _median(arm, what):
        return median(each[what] for each in recorded["experiment"]["tried"] if each["arm"] == arm)

    _urgent = {arm: _median(arm, "urgent_us") for arm in arms(0, 0)}
    _long = {arm: _median(arm, "long_us") for arm in arms(0, 0)}
    mo.md(
        f"The urgent request's TTFT is ×{_urgent['vote, abort'] / _urgent['no preemption']:.2f} of what it was without preemption. The long prefill pays: ×{_long['vote, abort'] / _long['no preemption']:.2f} when its pass "
        f"is aborted and computed again, ×{_long['vote, suspend'] / _long['no preemption']:.2f} when it is suspended."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Set `HERE` aside and run the whole experiment yourself, all arms and what agreeing costs, with `experiment(3)` in a cell of your own.

    ### Where it loses

    - **Short passes.** The most that can be won is what is left of the pass. Where chunks keep passes short anyway, there is little left to win; the post runs with chunked prefill switched off.
    - **Nobody is urgent.** The vote is paid at every layer of every pass that may be preempted. Our engine does not vote at all without a monitor, nor in a pass of decodes
      alone. The fork's comparison arm, without preemption, votes too, so its published comparison cannot show what the vote costs.
    - **Late aborts.** Your first prediction. And a victim is not one request: the pass is aborted for all prefills in it, also for those that were urgent themselves.
    - **A promise too short.** If the urgent request itself can no longer make it, the gate of lesson 5 is right to call it doomed, and its own pass may then be taken from it.
    - **The wrong policy.** A mechanism that stops anything within a layer makes a bad policy fast. Lesson 5 showed it: seeing arrivals in mid-pass, alone, made attainment *worse*.

    ## The race lab (optional)

    Nine races, each one piece of the engine swapped for a wrong one (`nanogpt/preemption/races.py`), everything else as in service. Ranks and monitor are held at named points, so the order is not left to luck. What you see is
    recorded. To run one here, put its name in `RACE` and run the cell: two processes, a few seconds, and a hang ends after 2 s by the collective's own timeout.
    Each race is a function of a few lines, folded below; open one to read who is held where.
    """)
    return


@app.function(hide_code=True)
def beside(work: Callable, run: Callable):
    """Do `work` in a thread while `run` runs here; what `run` gives."""
    with ThreadPoolExecutor(1) as helper:
        beside_it = helper.submit(work)
        outcome = run()
        beside_it.result()
    return outcome


@app.function(hide_code=True)
def staged(runner: Runner, layer: int, work: Callable) -> Callable:
    """Hold rank 0 at `layer` of the coming pass; the function returned does `work(step)` there."""
    step = runner.step + 1
    last = layer == 4  # behind the last layer a rank is held before it replies
    hold(runner.shared, 0, "reply" if last else "read", checkpoint_number(step, layer, 4))

    def hold_and_let_go():
        wait_until_held(runner.shared, 0)
        try:
            work(step)
        finally:
            let_go(runner.shared, 0)

    return hold_and_let_go


@app.function(hide_code=True)
def wait_for(condition: Callable, limit_s: float = 20.0) -> None:
    """Return once the condition holds. Raises: TimeoutError."""
    deadline = now_us() + limit_s * 1e6
    while not condition():
        if now_us() > deadline:
            raise TimeoutError("what the race waits for did not happen")
        threading.Event().wait(0.001)


@app.function(hide_code=True)
def short_row() -> list:
    """A prefill of 20 tokens, the pass that is fought over."""
    return [PassRow(0, [1] * 20, range(20), 0, torch.ones(20, 20, dtype=torch.bool).tril())]


@app.function(hide_code=True)
def in_words(outcome) -> str:
    """What became of a pass."""
    if isinstance(outcome, Abandoned):
        return f"step {outcome.step} was left at layer {outcome.layer} of 4"
    return f"step {outcome.step} was computed to its end"


@app.function(hide_code=True)
def somebody_urgent(snapshot: Snapshot) -> Target | None:
    """A gate: whoever was promised something soon goes first, unless a runner is immune."""
    urgent = [waiter.id for waiter in snapshot.waiting if waiter.slo_us < 10**9]
    immune = any(runner.num_preemptions for runner in snapshot.running)
    return Target(snapshot.step, urgent[0]) if urgent and not immune else None


@app.function(hide_code=True)
def small_engine(runner: Runner, preemption: Preemption, **limits) -> PreemptiveEngine:
    """An engine over the race lab's four layers."""
    config = EngineConfig(token_budget=128, max_batch_size=4, **limits)
    return PreemptiveEngine(random_model(4, 32), runner, preemption, config)


@app.cell(hide_code=True)
def _(recorded):
    _CARDS = {
        "late_write": ("A flag instead of a step number", "The monitor decides in one step and writes when that is over."),
        "no_vote": ("Leave without a vote", "Rank 1 glances just before the write, rank 0 just after it."),
        "leave_first": ("Leave before the collective", "Whoever votes 1 leaves, then the others vote. Two lines in the wrong order."),
        "replies": ("A reply left behind", "The engine stops reading at the first rank that says it has left."),
        "too_late": ("The target believed", "Written after the last layer; the engine asks the target and not the ranks."),
        "books": ("The step that never was", "The victim is admitted again in the very next step."),
        "unseen": ("Only the snapshot", "Somebody urgent arrives in mid-pass, and only the next step would tell the monitor."),
        "doomed": ("Progress ignored", "A prefill on time is charged for its whole prompt at every look."),
        "nobody_immune": ("Nobody is immune", "A policy that finds whoever waits more urgent than whoever runs."),
    }
    mo.md(
        "| `RACE` | the wrong piece | with it | with the reference |\n|:--|:--|:--|:--|\n"
        + "\n".join(
            f"| `{name}` | **{title}.** {what} | {recorded['races'][name]['wrong']} | {recorded['races'][name]['right']} |"
            for name, (title, what) in _CARDS.items()
        )
        + "\n\n*Recorded.*"
    )
    return


@app.function(hide_code=True)
def race_late_write(runner: Runner, wrong: bool) -> str:
    """The monitor decides in one step and writes when that is over. Whom does it hit?"""
    signal = races.FLAG if wrong else BY_STEP
    runner.load(random_model(4, 32), 1, parts=replace(RANK_PARTS, signal=signal))
    decided, may_write = threading.Event(), threading.Event()

    def hesitate():
        decided.set()
        may_write.wait(20)

    parts = MonitorParts(before_write=hesitate)
    with Monitor(runner.shared, somebody_urgent, Inbox(), signal, parts) as monitor:
        step = runner.new_step()
        urgent = SloRequest(1, 5, 0, now_us() + 10**8, 10**8, 0)
        monitor.publish(Snapshot(step, now_us(), now_us(), (urgent,), ()))
        decided.wait(20)
        runner.run(step, short_row(), vote=True)
        monitor.publish(None)  # the step is over, and nobody wants the next one gone
        may_write.set()
        wait_for(lambda: runner.shared.target != NOTHING)
        outcome = runner.run(runner.new_step(), short_row(), vote=True)
    return f"step {step} was meant; {in_words(outcome)}"


@app.function
def race_leaving(runner: Runner, rule: Callable) -> str:
    """Rank 1 reads at layer 1 just before the target is written, rank 0 just after."""
    held = replace(RANK_PARTS, checkpoint=rule, at_point=wait_if_held)
    runner.load(random_model(4, 32), 1, parts=held)
    step, shared = runner.new_step(), runner.shared
    hold(shared, 0, "read", checkpoint_number(step, 1, 4))
    hold(shared, 1, "agree", checkpoint_number(step, 1, 4))

    def write_between():
        for rank in (0, 1):
            wait_until_held(shared, rank)
        shared.target = step
        for rank in (0, 1):
            let_go(shared, rank)

    try:
        return in_words(beside(write_between, lambda: runner.run(step, short_row(), vote=True)))
    except RanksFailed as hung:
        return f"HANGS until the collective's timeout: {hung}"


@app.function(hide_code=True)
def race_no_vote(runner: Runner, wrong: bool) -> str:
    """Who has read the target leaves, and asks nobody."""
    return race_leaving(runner, races.leave_alone if wrong else agreement.checkpoint)


@app.function(hide_code=True)
def race_leave_first(runner: Runner, wrong: bool) -> str:
    """Who votes 1 leaves before the collective, the others come to it."""
    return race_leaving(runner, races.leave_first if wrong else agreement.checkpoint)


@app.function(hide_code=True)
def race_replies(runner: Runner, wrong: bool) -> str:
    """Rank 1 is slow to say that it has left. Does the engine wait to hear it?"""
    runner.load(random_model(4, 32), 1, parts=replace(RANK_PARTS, at_point=wait_if_held))
    if wrong:
        runner.parts = RunnerParts(read_replies=races.read_until_preempted)
    step = runner.new_step()
    hold(runner.shared, 1, "reply", checkpoint_number(step, 4, 4))
    runner.shared.target = step

    def be_slow():
        wait_until_held(runner.shared, 1)
        threading.Event().wait(0.1)
        let_go(runner.shared, 1)

    left = beside(be_slow, lambda: runner.run(step, short_row(), vote=True))
    try:
        return f"{in_words(left)}; {in_words(runner.run(runner.new_step(), short_row()))}"
    except RanksFailed as mixed_up:
        return f"{in_words(left)}; then the engine ENDS: {mixed_up}"


@app.function(hide_code=True)
def race_too_late(runner: Runner, wrong: bool) -> str:
    """The target is written when the last rank has looked for the last time."""
    runner.load(random_model(4, 32), 1, parts=replace(RANK_PARTS, at_point=wait_if_held))
    if wrong:
        runner.parts = RunnerParts(judge=races.believe_target)
    work = staged(runner, 4, lambda step: write_step(runner.shared, step))
    outcome = beside(work, lambda: runner.run(runner.new_step(), short_row(), vote=True))
    runner.parts = RUNNER_PARTS
    if isinstance(outcome, Abandoned):
        return f"all four layers of step {outcome.step} were computed, and thrown away as preempted"
    return in_words(outcome)


@app.function(hide_code=True)
def race_books(runner: Runner, wrong: bool) -> str:
    """The victim is admitted again in the very next step, beside the urgent request."""
    preemption = Preemption(
        somebody_urgent,
        batch=lambda chosen, others: [chosen.id, *(other.id for other in others)],
        clean_up=races.keep_previous_step if wrong else cleanup.clean_up,
        rank_parts=replace(RANK_PARTS, at_point=wait_if_held),
    )
    with small_engine(runner, preemption) as engine:
        engine.arrive(Request(0, [1] * 60, 2))

        def interrupted(step):
            engine.arrive(Request(1, [2] * 5, 2), 10**8)
            wait_for(lambda: runner.shared.target == step)

        beside(staged(runner, 1, interrupted), engine.step)
        try:
            return f"the next step admitted requests {sorted(engine.step().admitted)}"
        except AssertionError as refused:
            return f"the next step ENDS the engine: {refused}"


@app.function(hide_code=True)
def race_unseen(runner: Runner, wrong: bool) -> str:
    """Somebody urgent arrives while the pass runs. Does the monitor know?"""
    looks = []

    def gate(seen):
        looks.append(len(seen.waiting))
        return somebody_urgent(seen)

    see = races.only_the_snapshot if wrong else with_arrivals
    held = replace(RANK_PARTS, at_point=wait_if_held)
    with small_engine(runner, Preemption(gate, rank_parts=held, monitor_parts=MonitorParts(see=see))) as engine:
        engine.arrive(Request(0, [1] * 60, 2))

        def arrive(step):
            wait_for(lambda: looks)
            engine.arrive(Request(1, [2] * 5, 2), 10**8)
            before = len(looks)
            wait_for(lambda: runner.shared.target == step or len(looks) > before + 3)

        beside(staged(runner, 1, arrive), engine.step)
        engine.serve()
    order = sorted(engine.first_token_us, key=engine.first_token_us.get)
    return f"preempted passes: {len(engine.preemptions)}; first tokens in the order of requests {order}"


@app.function(hide_code=True)
def race_doomed(runner: Runner, wrong: bool) -> str:
    """120 tokens of 1/12 s each by the fit, promised within 10.15 s: on time. Another one waits."""
    elapsed = []
    progress = races.without_progress if wrong else GATE_PARTS.progress
    judged = slo_gate(1e6 / 12, 0.0, parts=replace(GATE_PARTS, progress=progress))

    def gate(seen):
        answer = judged(seen)
        elapsed.append(seen.now_us - seen.started_us)
        return answer

    held = replace(RANK_PARTS, at_point=wait_if_held)
    with small_engine(runner, Preemption(gate, rank_parts=held)) as engine:
        engine.arrive(Request(0, [1] * 120, 1), 10_150_000)

        def arrive(step):  # a request that is in no hurry at all
            engine.arrive(Request(1, [2] * 5, 1), 10**9)
            wait_for(lambda: runner.shared.target == step or max(elapsed, default=0) > 250_000)

        beside(staged(runner, 1, arrive), engine.step)
        engine.serve()
    return f"preempted passes: {len(engine.preemptions)}"


@app.function(hide_code=True)
def race_nobody_immune(runner: Runner, wrong: bool) -> str:
    """Two requests, and a policy that finds whoever waits more urgent than whoever runs."""
    parts = replace(GATE_PARTS, immune=races.nobody_is_immune) if wrong else GATE_PARTS
    jumpy = SloParts(gate=lambda waiter, runners, margin, mode: runners[0].id)
    judged, answers = slo_gate(1.0, 1.0, policy=jumpy, parts=parts), {}

    def gate(seen):
        answers[seen.step] = judged(seen)
        return answers[seen.step]

    with small_engine(runner, Preemption(gate), max_prefilling=1) as engine:
        begin_pass = engine.begin_pass

        def begin_once_the_monitor_has_looked(step, rows):
            mode = begin_pass(step, rows)
            if mode != "plain":
                wait_for(lambda: step in answers)
                wait_for(lambda: answers[step] is None or runner.shared.target == step)
            return mode

        engine.begin_pass = begin_once_the_monitor_has_looked
        engine.arrive(Request(0, [1] * 60, 1))
        engine.arrive(Request(1, [2] * 50, 1))
        for _ in range(30):
            if engine.inbox.look() or not engine.scheduler.is_done():
                engine.step()
    steps = engine.trace().steps
    wasted = sum(not step.work for step in steps)
    return f"{wasted} of {len(steps)} steps computed nothing; {len(engine.first_token_us)} of 2 requests got a token"


@app.function(hide_code=True)
def all_races() -> dict:
    """The nine races by name."""
    return {
        "late_write": race_late_write,
        "no_vote": race_no_vote,
        "leave_first": race_leave_first,
        "replies": race_replies,
        "too_late": race_too_late,
        "books": race_books,
        "unseen": race_unseen,
        "doomed": race_doomed,
        "nobody_immune": race_nobody_immune,
    }


@app.function(hide_code=True)
def run_race(race: Callable) -> dict:
    """The race with the reference and then with the wrong piece, on one pair of ranks; in words."""
    with Runner(2, timeout_s=2.0) as runner:
        return {"right": race(runner, False), "wrong": race(runner, True)}


@app.cell
def _():
    RACE = None  # one of the names in the table, such as "leave_first"

    def _ran():
        if RACE is None:
            return "No race was run here: `RACE` is None."
        if RACE not in all_races():
            return f"There is no race {RACE!r}; choose one of {', '.join(all_races())}."
        try:
            said = run_race(all_races()[RACE])
        except (OSError, RuntimeError, TimeoutError) as failed:
            return f"It could not be run here: {failed}"
        return f"`{RACE}`, just now. With the wrong piece: **{said['wrong']}**. With the reference: {said['right']}."

    mo.md(_ran())
    return


@app.function(hide_code=True)
def hang_or_not(rule: Callable, tries: int, num_busy: int = 0) -> list:
    """Ranks that share a target and leave by `rule`; per try whether they left together or hung.

    The target is written at any moment of a pass of 480 tokens, with `num_busy` threads computing
    something else beside it. A hang ends the ranks, so new ones are started.
    """
    model, rng, runner, outcomes, over = random_model(), random.Random(0), None, [], threading.Event()
    mask = torch.ones(480, 480, dtype=torch.bool).tril()
    rows = [PassRow(0, [1] * 480, range(480), 0, mask)]

    def compute():
        matrix = torch.ones(256, 256)
        while not over.is_set():
            matrix @ matrix

    busy = [threading.Thread(target=compute, daemon=True) for _ in range(num_busy)]
    for thread in busy:
        thread.start()
    try:
        for _ in range(tries):
            if runner is None or not runner.is_open:
                runner = Runner(2, timeout_s=2.0)
                runner.load(model, 1, parts=replace(RANK_PARTS, checkpoint=rule))
                whole_us = median(whole_pass(runner, 480, vote=True)[0] for _ in range(3))
            step = runner.new_step()
            delay_s = whole_us / 1e6 * rng.uniform(0.1, 0.7)
            timer = threading.Timer(delay_s, write_step, (runner.shared, step))
            timer.start()
            try:
                outcome = runner.run(step, rows, vote=True)
                outcomes.append("together" if isinstance(outcome, Abandoned) else "too late")
            except RanksFailed as hung:
                outcomes.append(f"hung: {hung}")
            finally:
                timer.cancel()
                timer.join()
    finally:
        over.set()
        for thread in busy:
            thread.join()
        if runner is not None:
            runner.close()
    return outcomes


@app.function(hide_code=True)
def record(path: str) -> None:
    """Write what this lesson shows where nothing can be run; see lessons/data/preempted_pass.md."""
    measured = experiment(repeats=7)
    for name in arms(0, 0):  # one whole story of each arm: that of its median
        tried = [each for each in measured["tried"] if each["arm"] == name and "cycle" in each]
        tried.sort(key=lambda each: each["stop_us"])
        for each in [*tried[: len(tried) // 2], *tried[len(tried) // 2 + 1 :]]:
            del each["cycle"]
    hangs = {
        "quiet": hang_or_not(races.leave_alone, 40),
        "busy": hang_or_not(races.leave_alone, 40, num_busy=2),
        "busy, vote": hang_or_not(agreement.checkpoint, 40, num_busy=2),
    }
    raced = {name: run_race(race) for name, race in all_races().items()}
    found = {"experiment": measured, "hangs": hangs, "races": raced}
    Path(path).write_text(json.dumps(found, indent=1) + "\n")


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Read the two that hang: the message names the rank that left, and the rank that waits, and where. Without the timeout it would say nothing, for ever. And a group in which a collective has timed out is of no
    further use: the engine ends all ranks and says why.

    ## How production engines do it

    - **FlowPrefill** ([arXiv 2602.16603](https://arxiv.org/abs/2602.16603)) suspends and resumes, reschedules only on arrivals and completions, and agrees without a collective: your *epoch*. It checks after attention and after the MLP, so twice per layer. Its abstract
      reports up to 5.6 times the goodput of the systems it compares with.
    - **The post's variant in vLLM** ([adiu19/vllm](https://github.com/adiu19/vllm), branch `dev-treatment`): `v1/core/sched/slo_monitor.py` is the monitor, `v1/core/sched/preempt_check.py` the vote, `_handle_preemption` in `v1/engine/core.py` the clean-up, and a
      `PREEMPTED` status in `multiproc_executor.py` what tells a preempted rank from a crashed one. It aborts and recomputes.
    - **What the post does not say**, and its code shows: the input queue is drained only between steps, so the monitor cannot see whoever arrives in mid-pass, for whom it was built (race `unseen`). A runner is charged for its whole prompt (race `doomed`). Block hashes are noted before
      the blocks are computed and an abort leaves them, so with prefix caching on, others could read what was never computed; its configurations switch that off. Its published result is the null result of lesson 5.
    - **vLLM itself** preempts between steps, for lack of K/V, and recomputes. Against long passes it cuts prompts into chunks. #44794 above is one proposal to stop inside a chunk.

    And the hang is out there:

    - [vLLM #8978](https://github.com/vllm-project/vllm/issues/8978): of four ranks, three report that their first `ALLREDUCE` ran for ten minutes before the watchdog ended it. That is NCCL's default in PyTorch since [#110947](https://github.com/pytorch/pytorch/pull/110947); gloo's is half an hour. Ours
      is 20 s.
    - [SGLang #29405](https://github.com/sgl-project/sglang/pull/29405): with pipeline parallelism, an abort missed requests that were *in flight* in other microbatch slots: books that one has to go through one by one, once more.

    ## What comes next

    One engine can now be as rude as it needs to be. In lesson 7 there are four of them, and the question is whom to send a request to, when one of them holds its prefix and all of them are late.
    """)
    return


if __name__ == "__main__":
    app.run()

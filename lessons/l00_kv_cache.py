import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="0 · The KV cache and batching")

with app.setup(hide_code=True):
    import json
    import math
    from pathlib import Path

    import marimo as mo
    import torch

    import course
    from course.attempt import attempt
    from course.calling import call
    from course.prediction import hints, predict
    from course.replay import replay
    from nanogpt import (
        Engine,
        EngineConfig,
        Parts,
        Request,
        decode,
        encode,
        generate,
        load_model,
    )
    from nanogpt.clock import LARGE_GPU, CostClock, WallClock
    from nanogpt.executors.packed import PackedExecutor
    from nanogpt.guard import PartError, guarded
    from nanogpt.metrics import all_request_metrics
    from nanogpt.planning import chunk_inputs
    from widgets import Batching, StepCost, Timeline, WorkBars


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 0 · The KV cache and batching

    *35 minutes. Builds on nanoGPT: you have seen its attention and its `generate`. You write three
    short functions.*

    Afterwards you can

    - say exactly how much work a text costs, with and without a KV cache, and write the attention that uses one,
    - explain why a server runs many requests in one step, and why it does not wait for the longest of them,
    - read TTFT, ITL and TPOT off a real run, and say what each of them feels like to the person who waits.

    <style>.output-area { max-height: none !important; }</style>
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Why does a long answer cost more than its length?

    Ask nanoGPT for one character and it feeds your prompt through the model once. Ask for 200
    characters and you would expect 200 times that. Here is the loop that it runs:

    ```python
    for _ in range(max_new_tokens):
        logits, _ = model(tokens)              # every token so far, every time
        tokens = append(tokens, sample(logits[-1]))
    ```

    Nothing is wrong with it: it is short, and its text is right. In this course it is the *oracle*,
    the plain and slow way that every faster way has to agree with. But look at what it feeds. How
    many tokens go through the model for 20 new ones after a prompt of 50? And how many would, if no
    token ever had to go through twice?
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l00.tokens_computed",
        "A prompt of 50 tokens, 20 new tokens. How many tokens go through the model **without** a "
        "cache, and how many **with** one that lets every token go through once at most?",
        [
            "1,400 without, 70 with",
            "1,190 without, 69 with",
            "1,190 without, 20 with",
            "70 without, 20 with",
        ],
        1,
        "Without: 50 + 51 + ... + 69 = 1,190, because step after step feeds everything known. "
        "With: the first step feeds the 50 tokens of the prompt, and each of the other 19 steps "
        "feeds the one token that is new. That makes 69 and not 70: the last token is sampled, "
        "but nothing is predicted from it, so it never goes in.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Watch the work grow, and then not

    The next cell lets the course's engine, which has a KV cache, write those 20 characters. The
    picture below it counts the tokens that each step computed: from the engine's own record for the
    run with a cache, and for the run without one simply everything known at that step.
    """)
    return


@app.cell
def _():
    model = load_model()
    prompt = encode("ROMEO:\nBut soft, what light through yonder window ")  # 50 tokens

    engine = Engine(model, EngineConfig(token_budget=512))
    trace = engine.run([(0, Request(id=0, prompt_tokens=list(prompt), max_new_tokens=20))])
    mo.plain_text(decode(prompt) + decode(trace.generated_tokens(0)))
    return model, prompt, trace


@app.cell(hide_code=True)
def _(prompt, trace):
    WorkBars(
        [
            {"name": "without a cache", "tokens": [len(prompt) + i for i in range(20)]},
            {"name": "with a cache", "tokens": [step.used_tokens for step in trace.steps]},
        ],
        title="Tokens computed for each generated token",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What may be kept, and why

    In every layer, a token is turned into a query, a key and a value. Its **key and value** depend
    on the token itself and on what the layers below found in the tokens *before* it: attention is
    causal, nothing later can reach back. So once they are computed they never change, however long
    the text grows. They can be kept. That is the KV cache, and that is all of it.

    Its **query** is asked once, when the token is new, to find out what comes next. Nobody asks it
    again, so nobody keeps it. There is no Q cache.

    | a step needs | for which tokens | where it comes from |
    |:---|:---|:---|
    | query | the new ones | computed |
    | key and value | all of them | the new ones computed, the others cached |
    | logits | the last one | computed |

    The first step of a request computes the keys and values of its whole prompt. It is called the
    **prefill**. Each later step adds one token. It is called a **decode**. Both are one rule: feed
    what is not cached yet. Write it down.

    ### Exercise 0.1 · What the model still has to see

    Edit the cell below and run it with Ctrl+Enter (Cmd+Enter on a Mac). The check runs by itself.
    """)
    return


@app.function
def next_inputs(tokens: list[int], num_cached: int) -> list[int]:
    """Return the tokens that the model must be fed in this step.

    `tokens` are all known tokens of one request: its prompt, then what was generated so far.
    The keys and values of the first `num_cached` of them are in the cache already, and at least
    one token is not (0 <= num_cached < len(tokens)). Leave `tokens` as it is.
    """
    raise NotImplementedError("Exercise 0.1: which tokens are new?")


@app.cell(hide_code=True)
def _():
    next_inputs_attempt = attempt("l00.next_inputs", lambda: next_inputs)
    next_inputs_attempt
    return (next_inputs_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l00.next_inputs")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exercise 0.2 · Attention with a cache

    Now the part that reads the cache: one head, one new token. Its query may look at every token so
    far. What you return is checked against attention over the whole text without any cache.
    """)
    return


@app.function
def cached_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Attend from one new token to every token so far, itself included, in one head.

    `q`, `k`, `v` are (1, D): the new token's query, key and value. `k_cache` and `v_cache` are
    (S, D): the tokens before it, oldest first; S is 0 for the very first token.
    Return `(out, k_all, v_all)`: `out` (1, D) is softmax(q · kᵀ / sqrt(D)) · v over all S + 1
    tokens, and `k_all`, `v_all` (S + 1, D) are the caches with the new token added, oldest first.
    Leave the five tensors that you were given as they are.
    """
    raise NotImplementedError("Exercise 0.2: append, then attend")


@app.cell(hide_code=True)
def _():
    cached_attention_attempt = attempt("l00.cached_attention", lambda: cached_attention)
    cached_attention_attempt
    return (cached_attention_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l00.cached_attention")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your cache writes Shakespeare

    Two functions, and the real model can use them. The loop below is the whole of it: it asks
    `next_inputs` what to feed, and lends the model `cached_attention` in every head of every layer.
    It feeds the prompt one token at a time, since your attention takes one; lesson 1 takes more.
    """)
    return


@app.function
@torch.inference_mode()
def generate_with_cache(model, prompt, max_new_tokens, next_inputs, cached_attention):
    """Continue `prompt` greedily. Return the new tokens and the logits each was taken from, (N, V)."""
    cache = {}  # (layer, head) -> k (S, D), v (S, D)

    def attend(layer, q, k, v):  # (1, H, D) each: the one new token
        out = torch.empty_like(q)
        for head in range(q.shape[1]):
            k_cache, v_cache = cache.get((layer, head), (k[:0, head], v[:0, head]))
            out[:, head], *cache[layer, head] = cached_attention(
                q[:, head], k_cache, v_cache, k[:, head], v[:, head]
            )
        return out

    tokens, num_cached, all_logits = list(prompt), 0, []
    while len(tokens) < len(prompt) + max_new_tokens:
        for token in next_inputs(tokens, num_cached):
            hidden = model.hidden(torch.tensor([token]), torch.tensor([num_cached]), attend)
            num_cached += 1
        all_logits.append(model.logits(hidden)[0])
        tokens.append(int(all_logits[-1].argmax()))
    return tokens[len(prompt) :], torch.stack(all_logits)


@app.function
@torch.inference_mode()
def uncached_logits(model, prompt, new_tokens):
    """The logits that each new token is predicted from when everything is fed every time, (N, V)."""
    texts = [[*prompt, *new_tokens[:i]] for i in range(len(new_tokens))]
    return torch.stack([model(torch.tensor([text]))[0][0, -1] for text in texts])


@app.cell(hide_code=True)
def _(cached_attention_attempt, next_inputs_attempt, prompt):
    _exact_model = load_model(dtype=torch.float64)
    _attempts = (next_inputs_attempt, cached_attention_attempt)
    if all(each.report.status == "passed" for each in _attempts):
        try:
            _new, _logits = generate_with_cache(
                _exact_model,
                prompt,
                40,
                *(guarded(each.report.name, each.function) for each in _attempts),
            )
            _oracle = generate(_exact_model, prompt, 40)
            _gap = float((_logits - uncached_logits(_exact_model, prompt, _new)).abs().max())
            _same = "the same 40 characters" if _new == _oracle else "another text"
            _said = (
                "**This text was written with your two functions.** The oracle, which recomputes "
                f"everything, writes {_same}. The largest difference between any logit of yours "
                f"and the oracle's, in float64, is {_gap:.1e}."
            )
        except PartError as _error:
            _new, _said = [], f"The run stopped: {_error}."
    else:
        _new = replay(
            Engine(_exact_model, EngineConfig(token_budget=512)), [(0, Request(0, list(prompt), 40))]
        ).generated_tokens(0)
        _said = (
            "**This text was written with the engine's own cache**, since your two functions have "
            "not both passed yet. As soon as they have, this cell uses them and compares your "
            "logits with the oracle's."
        )
    mo.md("\n".join([_said, "", "```text", decode(prompt) + decode(_new), "```"]))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How much time does it save?

    Here both ways write 200 characters, once, on the machine that you are sitting at. The cached
    run is the engine's: your attention grows its tensors by copying them, which is right but slow,
    and the engine writes into memory that it reserved beforehand. Run the cell again and the times
    will move a little; the token counts will not.
    """)
    return


@app.cell
def _(model, prompt):
    uncached_us, tokens_now = [], list(prompt)
    clock = WallClock()
    generate(model, prompt, 5)  # the first calls are slow, whatever they do
    Engine(model, EngineConfig(token_budget=512)).run([(0, Request(0, list(prompt), 5))])
    begin_us = clock.now_us()
    with torch.inference_mode():
        for _ in range(200):
            step_logits, _ = model(torch.tensor([tokens_now]))
            tokens_now.append(int(step_logits[0, -1].argmax()))
            uncached_us.append(clock.now_us() - begin_us)

    timed = Engine(model, EngineConfig(token_budget=512), clock=clock)
    timed_trace = timed.run([(0, Request(0, list(prompt), 200))])
    cached_us = [step.end_us - timed_trace.steps[0].start_us for step in timed_trace.steps]
    return cached_us, uncached_us


@app.cell(hide_code=True)
def _(cached_us, prompt, uncached_us):
    def _row(n):
        plain, kept = sum(range(len(prompt), len(prompt) + n)), len(prompt) + n - 1
        plain_ms, kept_ms = uncached_us[n - 1] / 1000, cached_us[n - 1] / 1000
        return (
            f"| {n} | {plain:,} | {kept:,} | {plain_ms:,.0f} ms | {kept_ms:,.0f} ms "
            f"| {plain_ms / kept_ms:.1f} × |"
        )

    _lines = [
        "| new characters | tokens computed, no cache | with cache | time, no cache | with cache | saved |",
        "|---:|---:|---:|---:|---:|---:|",
        *(_row(n) for n in (1, 20, 50, 100, 200)),
        "",
        "*Time: measured on this machine just now. Tokens: counted.*",
        "",
        f"Counted in tokens, 200 characters cost {sum(range(50, 250)) / 50:.0f} times as much as one "
        f"without a cache, and {249 / 50:.0f} times as much with it.",
    ]
    mo.md("\n".join(_lines))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    598 against 5: that is the answer to the question at the top, and worth telling a friend. But
    look at the last column. At 200 characters the cache computes 120 times fewer tokens, and the
    time saved is nowhere near 120 times. A decode computes *one* token, and still it takes a good
    part of what a step of fifty takes. Where does the time go?

    ## A step has a price, whoever is in it

    Measure steps of different sizes and the points lie close to a line that does not start at zero:

    > cost of a step = fixed + (number of tokens) × (cost per token)

    On a CPU the fixed part is Python, and dozens of small operations that have to be started one by
    one. On a GPU there is something else. The arithmetic of one token is over long before its weights have arrived: every
    step reads *all* weights from memory once, whether for one token or for a hundred. Up to the
    knee, where the arithmetic takes as long as the reading, more tokens cost nearly nothing.

    Below are steps of our model that were timed on a CPU, with the line that `fit_line` puts through
    them, and an 8-billion-parameter model on a large GPU, modelled. Switch between the two, and move along the line with the
    arrow keys: what does the second token of a step cost? And the tenth? (At the
    far right the points leave the line: those are prefills, and in a long one each token also has
    to attend to all the tokens before it.)
    """)
    return


@app.function
def fit_line(points):
    """Return (fixed, per token) of the line nearest to the points, by relative error, in µs."""
    rows = [(1 / point["us"] ** 2, point["tokens"], point["us"]) for point in points]
    total = sum(weight for weight, _, _ in rows)
    mean_tokens = sum(weight * tokens for weight, tokens, _ in rows) / total
    mean_cost = sum(weight * us for weight, _, us in rows) / total
    spread = sum(weight * (tokens - mean_tokens) ** 2 for weight, tokens, _ in rows)
    per_token = sum(weight * (tokens - mean_tokens) * us for weight, tokens, us in rows) / spread
    return mean_cost - per_token * mean_tokens, per_token


@app.cell(hide_code=True)
def _():
    _file = Path(course.__file__).parents[1] / "lessons" / "data" / "step_costs.json"
    _record = json.loads(_file.read_text(encoding="utf-8"))
    measured_on = _record["machine"]
    _points = [point for point in _record["points"] if point["tokens"] <= 256]
    _fixed_us, _token_us = fit_line(_points)
    measured = {
        "name": "our model on a CPU",
        "modelled": False,
        "fixed_us": _fixed_us,
        "token_us": _token_us,
        "points": _points,
    }
    large_gpu = {
        "name": LARGE_GPU.name,
        "modelled": True,
        "fixed_us": LARGE_GPU.fixed_us,
        "token_us": LARGE_GPU.token_us,
        "floor_us": LARGE_GPU.floor_us,
    }
    StepCost([measured, large_gpu], title="What a step costs", max_tokens=256)
    return large_gpu, measured, measured_on


@app.cell(hide_code=True)
def _(large_gpu, measured, measured_on):
    def _step_us(side, n):
        return side["fixed_us"] + max(side.get("floor_us", 0), n * side["token_us"])

    def _row(n):
        cells = []
        for side in (measured, large_gpu):
            us = _step_us(side, n)
            cells.append(f"{us / 1000:.1f} ms | {n / us * 1e6:,.0f}")
        return f"| {n} | {' | '.join(cells)} |"

    _knee = LARGE_GPU.floor_us / LARGE_GPU.token_us
    _lines = [
        f"| decodes in the step | {measured['name']}: step | tokens per second "
        f"| {large_gpu['name']}, modelled: step | tokens per second |",
        "|---:|---:|---:|---:|---:|",
        *(_row(n) for n in (1, 8, 32, 128, 256)),
        "",
        f"*Measured: the fitted line of steps that were timed once, on {measured_on}. "
        "Modelled: an 8-billion-parameter model on a GPU, whose weights "
        f"take {LARGE_GPU.floor_us / 1000:.1f} ms to read and whose tokens take "
        f"{LARGE_GPU.token_us:.0f} µs each: its knee lies at {_knee:.0f} tokens. The reading of each "
        "request's own K/V comes on top and is left out here.*",
    ]
    mo.md("\n".join(_lines))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    So a decode alone wastes nearly the whole step. The way out is to let other requests in: **one
    step computes one token for each of them.** That is batching, and it is where the throughput of
    every serving engine comes from. It is also where the cost of the cache comes back, as you will
    see: each of them needs its K/V in memory.

    ## Who waits for whom?

    Batching needs one more decision. Requests ask for different numbers of tokens. Say there are
    three **slots**, so three requests can be in a step, and six requests wait from the beginning:

    | request | 0 | 1 | 2 | 3 | 4 | 5 |
    |---|---|---|---|---|---|---|
    | tokens to generate | 9 | 3 | 3 | 2 | 6 | 4 |

    **Static batching** takes three, runs them until the longest is done, then takes the next three.
    **Continuous batching** fills a slot in the very next step after it falls free.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l00.last_request",
        "Six requests of 9, 3, 3, 2, 6 and 4 tokens, three slots. After how many steps is the "
        "**last** request done, statically and continuously batched?",
        [
            "static 27, continuous 9",
            "static 15, continuous 12",
            "static 15, continuous 9",
            "static 12, continuous 9",
        ],
        2,
        "Static: the first batch lasts as long as its longest, 9 steps, the second 6: 15. "
        "Continuous: while request 0 takes its 9 steps, everybody else fits into the two slots "
        "beside it. 27 tokens in three slots need at least 9 steps, so nobody could be faster.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exercise 0.3 · Static and continuous batching

    Say for each request when it is done. One function for both, so that you see how little has to
    change.
    """)
    return


@app.function
def finish_steps(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    """Return, for each request, after how many steps it is done.

    Request i needs `lengths[i]` tokens and gets one in every step in which it has a slot. There
    are `slots` slots. Requests start in the order of the list; all are there from the beginning.
    - Static batching (`continuous` is False): the next `slots` requests start together, and the
      following batch starts only when the longest of them is done. A short request is done when
      its own last token is, but its slot stays empty until then.
    - Continuous batching (`continuous` is True): when a request is done, the next one has its
      slot from the following step on.
    The first step is step 1, so a request of length 3 that starts at once is done after 3.
    """
    raise NotImplementedError("Exercise 0.3: when is each request done?")


@app.cell(hide_code=True)
def _():
    finish_steps_attempt = attempt("l00.finish_steps", lambda: finish_steps)
    finish_steps_attempt
    return (finish_steps_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l00.finish_steps")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The real engine can do both. The only difference is when it is handed the next requests:
    """)
    return


@app.function
def engine_finish_steps(model, lengths, slots, continuous):
    """The same six requests on the real engine: after how many of its steps is each one done?"""
    engine = Engine(model, EngineConfig(max_batch_size=slots))
    to_come = [Request(i, encode("\n"), length) for i, length in enumerate(lengths)]
    while to_come or not engine.scheduler.is_done():
        if continuous or engine.scheduler.is_done():
            count = len(to_come) if continuous else slots
            for request in to_come[:count]:
                engine.submit(request)
            del to_come[:count]
        engine.step()
    done_after = {i: step.step + 1 for step in engine.trace().steps for i in step.finished}
    return [done_after[i] for i in range(len(lengths))]


@app.cell(hide_code=True)
def _(finish_steps_attempt, model):
    _lengths, _slots = [9, 3, 3, 2, 6, 4], 3

    def _side(name, finished):
        """One side of the picture; a ValueError says why these steps cannot be drawn."""
        if not (isinstance(finished, list) and len(finished) == len(_lengths)):
            raise ValueError(f"it returned {finished!r}, and the picture needs six numbers")
        free_at, spans = [0] * _slots, []
        starts = [done - length for done, length in zip(finished, _lengths, strict=True)]
        for i in sorted(range(len(starts)), key=lambda i: (starts[i], i)):
            slot = min(range(_slots), key=lambda slot: free_at[slot])
            if starts[i] < free_at[slot]:
                raise ValueError(
                    f"it lets request {i} run while all {_slots} slots are taken, or before step 1"
                )
            free_at[slot] = finished[i]
            spans.append({"request": i, "slot": slot, "start": starts[i], "end": finished[i]})
        return {"name": name, "slots": _slots, "spans": spans, "length": max(finished)}

    _kinds = (("Static batching", False), ("Continuous batching", True))
    _engine = [engine_finish_steps(model, _lengths, _slots, kind) for _, kind in _kinds]
    _drawn = _engine
    _title = "Six requests in three slots: the real engine's steps"
    batching_note = "The picture shows what the real engine did. Once your `finish_steps` is written, it shows yours."
    if finish_steps_attempt.started:
        _yours = [
            call(finish_steps_attempt.function, (_lengths, _slots, kind)).value
            for _, kind in _kinds
        ]
        try:
            for _answer in _yours:
                _side("yours", _answer)
            _drawn = _yours
            _title = "Six requests in three slots: your finish_steps"
            _agree = (
                "agrees with it: the same steps for all six"
                if _yours == _engine
                else f"says otherwise: {_engine[0]} static and {_engine[1]} continuous"
            )
            batching_note = f"The picture is drawn from **your** `finish_steps`. The real engine, run on the same requests, {_agree}."
        except (ValueError, TypeError) as _problem:
            batching_note = f"Your `finish_steps` could not be drawn: {_problem}. The picture shows what the real engine did."
    Batching(*(_side(kind[0], done) for kind, done in zip(_kinds, _drawn, strict=True)), title=_title)
    return (batching_note,)


@app.cell(hide_code=True)
def _(batching_note):
    mo.md(batching_note)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Both sides compute the same 27 tokens. Static batching spreads them over 15 steps and leaves 18
    of its 45 slot-steps idle; continuous batching needs 9 steps and leaves none. And look at request
    3, which wants two tokens: it is done after 11 steps on one side and after 5 on the other. The
    one who gains most is the short request behind a long one.

    Six requests that fit this well were chosen for the picture. With lengths that are all equal,
    both sides are the same. The more the lengths differ, the more is gained; and nobody knows them
    beforehand, because a text ends when the model says so.

    ## What the person who waits can feel

    Nobody who reads an answer on a screen feels throughput. They feel three other things, all of
    them read off the clock:

    - **TTFT**, time to first token: from the arrival of the request to its first token.
    - **ITL**, inter-token latency: the gap between two tokens of the same request. Each gap is one.
    - **TPOT**, time per output token: the mean of a request's gaps.

    Below, the real engine serves four requests with continuous batching. Request 3 arrives last and
    has by far the longest prompt. Before you press play: whose gaps will show that it came?
    """)
    return


@app.cell
def _(model):
    arrivals = [
        (0, Request(0, encode("ROMEO:\nBut soft, what light "), 24)),
        (0, Request(1, encode("First Citizen:\n"), 20)),
        (4, Request(2, encode("JULIET:\nO Romeo, "), 16)),
        (
            9,
            Request(
                3,
                encode(
                    "GLOUCESTER:\nNow is the winter of our discontent\n"
                    "Made glorious summer by this sun of York;\n"
                    "And all the clouds that lour'd upon our house\n"
                    "In the deep bosom of the ocean buried.\n"
                    "Now are our brows bound with victorious wreaths;\n"
                    "Our bruised arms hung up for monuments;\n"
                    "Our stern alarums changed to merry meetings,\n"
                    "Our dreadful marches to delightful measures.\n"
                ),
                10,
            ),
        ),
    ]
    served = replay(Engine(model, EngineConfig(token_budget=512), clock=CostClock()), arrivals)
    return (served,)


@app.cell(hide_code=True)
def _(served):
    Timeline(served.to_json(), title="Four requests on the real engine, continuously batched")
    return


@app.cell(hide_code=True)
def _(served):
    _metrics = all_request_metrics(served)

    def _row(each):
        prompt_len = len(served.request(each.request_id).prompt_tokens)
        return (
            f"| {each.request_id} | {prompt_len} | {each.ttft_us / 1000:.1f} ms "
            f"| {min(each.itls_us) / 1000:.1f} ms | {max(each.itls_us) / 1000:.1f} ms "
            f"| {each.tpot_us / 1000:.1f} ms |"
        )

    _worst = max(_metrics, key=lambda each: max(each.itls_us))
    _gap, _least = max(_worst.itls_us), min(_worst.itls_us)
    _step = next(step for step in served.steps if step.end_us - step.start_us == _gap)
    _lines = [
        "| request | prompt tokens | TTFT | smallest gap (ITL) | largest gap (ITL) | TPOT |",
        "|---:|---:|---:|---:|---:|---:|",
        *(_row(each) for each in _metrics),
        "",
        f"*Times by the cost model of {served.clock.name}, so that they are the same wherever you "
        "run this.*",
        "",
        f"Step {_step.step} computed {_step.used_tokens} tokens, nearly all of them request 3's "
        "prompt. Requests 0, 1 and 2 each wanted one token of it, and waited "
        f"{_gap / 1000:.1f} ms for it instead of {_least / 1000:.1f} ms. TPOT spreads that one gap "
        "over all the others: it tells you that something was slow. Only the largest gap tells you "
        "that the text stood still, and that is what the person who reads will remember.",
    ]
    mo.md("\n".join(_lines))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Where it loses

    **The cache trades work for memory.** Every token of every running request holds its keys and
    values in every layer. Per token that is

    > 2 (K and V) × L layers × C channels of K and V × bytes per number

    and it adds up faster than one expects. C counts the heads that K and V have; Llama 3 has fewer of
    those than of queries, and the table counts them so.
    """)
    return


@app.cell(hide_code=True)
def _(model):
    _sizes = model.config
    _ours = 2 * _sizes.num_layers * _sizes.num_channels * 4
    _weights = sum(weight.numel() for weight in model.parameters()) * 4
    _opt, _llama = 2 * 40 * 5120 * 2, 2 * 32 * 8 * 128 * 2
    _full = _ours * _sizes.context_len
    _lines = [
        "| model | 2 × L × C × bytes | per token | a full context |",
        "|:---|:---|---:|---:|",
        f"| ours, float32 | 2 × {_sizes.num_layers} × {_sizes.num_channels} × 4 | {_ours:,} bytes "
        f"| {_sizes.context_len} tokens: {_full / 2**20:.0f} MiB |",
        f"| OPT-13B, 16 bit | 2 × 40 × 5120 × 2 | {_opt:,} bytes "
        f"| 2,048 tokens: {_opt * 2048 / 2**30:.1f} GiB |",
        f"| Llama-3-8B, 16 bit | 2 × 32 × (8 × 128) × 2 | {_llama:,} bytes "
        f"| 8,192 tokens: {_llama * 8192 / 2**30:.0f} GiB |",
        "",
        "*Ours: computed from the loaded model. The other two: arithmetic on their published sizes; "
        "the vLLM paper (section 3) works out the same 800 KB per token for OPT-13B.*",
        "",
        f"Our whole model weighs {_weights / 2**20:.1f} MiB. Two requests with a full context hold "
        f"{2 * _full / 2**20:.0f} MiB.",
    ]
    mo.md("\n".join(_lines))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    So memory, and not arithmetic, usually decides how many requests share a step. What to do when
    it is full is the subject of lesson 2.

    **The cache saves no reading.** A decode computes one token, but its query meets every key of the
    context. Long texts still get slower with every token, only far more gently.

    **Continuous batching lets everybody in, long prompts too.** You saw it: one prefill, and
    everyone else's text stops. Static batching does not have this problem within a batch. Lesson 1
    gives it a cure.

    ## Bug or rounding?

    In June 2025 somebody offered nanoGPT a KV cache, as pull request #613, and reported: with the
    cache the outputs are coherent, but *not exactly the same* as without it, although the seed is.
    They should be, the author writes, and it needs to be found out whether that is a bug. At the
    time of writing, the pull request is open and so is the question.

    You have just seen a cache agree with the oracle. So what would you tell them to do?
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l00.bug_or_rounding",
        "With the cache, the text reads well but differs from the text without it. Which **one** "
        "experiment tells a bug from rounding?",
        [
            "Try ten more seeds and count how often the texts differ",
            "Set the temperature to 0 and compare the texts",
            "Compare the logits in float32 and again in float64",
            "Compare the validation loss with and without the cache",
        ],
        2,
        "Rounding shrinks when the numbers get finer; a bug does not care how fine they are. Seeds "
        "and texts only show *that* something differs, and one flipped character changes all that "
        "follow. A loss averages a small bug away.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Floating-point sums depend on their order, and a matrix product over one row may add in another
    order than one over fifty. So even a perfect cache gives slightly different logits. That matters
    only where two tokens are nearly tied, or where the random draw falls right between them. Then
    another character is chosen, and from there on it is another text.

    The cell below does the experiment twice: on the engine's cache, and on one with a real bug, a
    classic one. Its decodes are placed **one position too far to the right**. Read its text first:
    would you have noticed?
    """)
    return


@app.function
def one_position_late(tokens, cursor, n):
    """The reference's chunk inputs, with a defect: after the first step, positions are off by one."""
    ids, positions, sample = chunk_inputs(tokens, cursor, n)
    if cursor > 0:
        positions = [position + 1 for position in positions]
    return ids, positions, sample


@app.cell(hide_code=True)
def _(prompt):
    class _KeepsLogits(PackedExecutor):
        """The engine's executor, which also keeps the logits of each step."""

        def run(self, rows):
            result = super().run(rows)
            self.kept = [*getattr(self, "kept", []), result.logits[0]]
            return result

    def _experiment(parts, dtype):
        same_model = load_model(dtype=dtype)
        engine = Engine(
            same_model, EngineConfig(token_budget=512), parts, make_executor=_KeepsLogits
        )
        new = list(engine.run([(0, Request(0, list(prompt), 40))]).generated_tokens(0))
        oracle = uncached_logits(same_model, prompt, new)
        gap = float((torch.stack(engine.executor.kept) - oracle).abs().max())
        return gap, new, new == oracle.argmax(dim=1).tolist()

    _dtypes = (torch.bfloat16, torch.float32, torch.float64)
    _caches = {
        "the engine's cache": Parts(),
        "positions off by one": Parts(chunk_inputs=one_position_late),
    }
    _lines = []
    for _name, _parts in _caches.items():
        _found = [_experiment(_parts, dtype) for dtype in _dtypes]
        _gaps = " | ".join(f"{gap:.0e}" for gap, _, _ in _found)
        _same = "the same" if _found[-1][2] else "differs"
        _lines.append(f"| {_name} | {_gaps} | {_same} |")
        _text = decode(_found[-1][1])
    _shown = [
        "The text of the cache with the bug:",
        "",
        "```text",
        decode(prompt) + _text,
        "```",
        "",
        "| largest difference of any logit | bfloat16 | float32 | float64 | text in float64, beside the oracle's |",
        "|:---|---:|---:|---:|---:|",
        *_lines,
        "",
        "The first row shrinks with every finer kind of number: rounding. The second hardly moves: a bug.",
    ]
    mo.md("\n".join(_shown))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Float32 can promise that a right cache is *close*, and it cannot promise the same text for ever.
    Float64 makes ties so rare that we test our engine with it, token for token. In 16 bits, which
    is what nanoGPT's `sample.py` computes in by default, rounding alone can change a text. Pull request #613 was also tried on a CPU, where `sample.py` computes in float32;
    there rounding is a far less likely excuse. We do not know which it was. Now you know how to find out.

    The same question came to Hugging Face transformers (issue #25420). A maintainer's answer there:
    a cache does change the logits, in most models and at all precisions; in float32 it can hardly
    be seen, in 16 bits it is no longer negligible.

    ## How production engines do it

    - **Orca** (Yu et al., *Orca: A Distributed Serving System for Transformer-Based Generative
      Models*, OSDI 2022, section 3) brought continuous batching under the name of *iteration-level
      scheduling*: the scheduler decides anew before every step. Its second idea, *selective
      batching*, is why requests of different length can share one: every Linear sees all tokens
      in one flat row, and only attention asks whose they are. Our packed executor
      (`nanogpt/executors/packed.py`) does exactly this.
    - **vLLM** (Kwon et al., *Efficient Memory Management for Large Language Model Serving with
      PagedAttention*, SOSP 2023) started from the table above: the engines that it measured reserved
      a full context for each request, and only 20 to 38 percent of their KV memory held tokens.
      Paging gives out small blocks instead. Our engine reserves whole slots, because they are easier
      to see through; it wastes as those engines did.
    - Your `cached_attention` copies the whole cache at every step. Hugging Face transformers'
      default cache (`DynamicCache`) does that too, in the same `torch.cat`. Serving engines write
      into memory that they reserved at the start.

    ## What comes next

    You have a cache, a batch that is always full, and three numbers that say how it feels. You also
    have a picture of one long prompt that makes everybody else wait. In
    [lesson 1](/?file=l01_chunked_prefill.py) you cut that prompt into chunks, and find out what it
    costs.

    [Back to the course's front page](/?file=index.py&view-as=present)
    """)
    return


if __name__ == "__main__":
    app.run()

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="4 · The sliding window")

with app.setup(hide_code=True):
    import json
    import random
    from collections.abc import Callable
    from dataclasses import replace
    from pathlib import Path

    import marimo as mo
    import torch
    import torch.nn.functional as F
    from torch import Tensor

    import course
    from course.answers import load_parts
    from course.attempt import attempt, exhibit, piece
    from course.calling import call
    from course.prediction import after, hints, predict
    from course.replay import replay
    from course.task import task
    from nanogpt import (
        GPT,
        Engine,
        EngineConfig,
        ModelConfig,
        Parts,
        Request,
        decode,
        encode,
        generate,
        load_model,
        policies,
        sliding_window,
    )
    from nanogpt.block_table import BlockPool
    from nanogpt.clock import SERVER_CPU, CostClock
    from nanogpt.metrics import summary
    from nanogpt.oracle import attend_in_window
    from widgets import (
        AttentionByDistance,
        BlockTable,
        KVGrowth,
        MaskStepper,
        ReceptiveField,
        StorageStrip,
        Timeline,
    )


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 4 · The sliding window

    **105 minutes**, in two sittings: a good place to stop is before *Measure it: what does a window cost?*. Builds on lessons 1 and 2 (chunks, the KV budget, preemption).
    Afterwards you can bound what a request holds without making its text depend on the schedule,
    keep the scheduler's count equal to what is in memory, measure memory by what is really alive, and
    judge what a window does to a model without being flattered by your own metric.

    ## What does a KV cache never do?

    It never forgets. Each step adds one entry of K and V to every running request, in every layer and
    head, and nothing is given back until the text is done. Here are three requests with prompts of 8, 6
    and 8 tokens. The third comes at step 5.
    """)
    return


@app.cell
def _():
    model = load_model()
    sizes = model.config
    bytes_per_token = 2 * sizes.num_layers * sizes.num_channels * 4  # K and V, float32

    def three(new_tokens=40):
        """Three requests that grow side by side, as in the post."""
        texts = ((0, "MERCUTIO"), (0, "ROMEO:"), (5, "BENVOLIO"))
        return [(at, Request(i, encode(text), new_tokens)) for i, (at, text) in enumerate(texts)]

    def grown(label, window=None, sinks=0, arrivals=three, **limits):
        """One run of a workload, as the picture wants it."""
        config = EngineConfig(sliding_window=window, num_sinks=sinks, **limits)
        trace = Engine(model, config, clock=CostClock(SERVER_CPU)).run(arrivals())
        return {"label": label, "window": window, "trace": trace.to_json()}

    growth = [grown("no window"), *(grown(f"W = {w}", w) for w in (10, 20, 40))]
    KVGrowth(
        growth,
        "KV tokens of three requests",
        bytes_per_token=bytes_per_token,
        shown=1,
        group="growth",
    )
    return bytes_per_token, growth, model


@app.cell(hide_code=True)
def _(bytes_per_token, growth):
    def _at(run, step):
        record = run["trace"]["steps"][step]
        return " + ".join(str(each["kv_tokens"]) for each in record["kv"]), record["kv_after"]

    (_full, _all), (_parts, _some) = _at(growth[0], 30), _at(growth[2], 30)
    mo.md(
        f"After step 30 the three hold {_full} = **{_all} KV tokens**, {_all * bytes_per_token:,} bytes, and "
        f"every step adds {3 * bytes_per_token:,} more. With a window of W = 20 they hold {_parts} = **{_some}**, and no "
        "step adds anything. (The button *Show bytes* changes the unit, the slider the window.)"
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The sliding-window post that this lesson grew from draws the same picture, 107 against 60, and asks the right question: *what do
    you lose?* Most of this lesson is about asking it properly. First the rule, in one sentence:

    > With a **window** of W, a token sees itself and the W tokens before it. With S **sinks** it also sees
    > the first S tokens of the text.

    What no later token will see need not be kept. After a step, that leaves the last W entries (the next token
    brings its own along) and the S sinks: W + S at most, however long the text gets. **Visibility is a rule about
    the text, eviction only frees memory.** Keep these two apart and nothing can go wrong; the published code did not, and you will see what
    went wrong.
    """)
    return


@app.function
def read(model: GPT, tokens, window, sinks: int = 0) -> Tensor:
    """The logits after each token of a known text, (T, V); of several texts at once, (B, T, V).

    `window` is None, a number, or a list with one of these for each layer.
    """
    tokens = torch.as_tensor(tokens)  # (T,) or (B, T)
    length = tokens.shape[-1]
    windows = window if isinstance(window, list) else [window] * model.config.num_layers
    attends = [attend_in_window(length, each, sinks) for each in windows]

    def attend(layer, q, k, v):
        return attends[layer](layer, q, k, v)

    with torch.inference_mode():
        return model.logits(model.hidden(tokens, torch.arange(length), attend))


@app.cell
def _():
    exact = load_model().double()  # in float64 rounding can flip no token
    _data = Path(course.__file__).parents[1] / "lessons" / "data"
    # From the last tenth of Tiny Shakespeare, which the model has not been trained on.
    unread = [encode(each["text"]) for each in json.loads((_data / "unread.json").read_text())["passages"]]

    def moved(distance, window=8):
        """How far the last logits move when the token `distance` back is another one."""
        tokens = unread[0][:60]
        other = tokens.copy()
        other[-1 - distance] = encode("Q")[0]
        return (read(exact, tokens, window)[-1] - read(exact, other, window)[-1]).abs().max().item()

    moves = {distance: moved(distance) for distance in (4, 8, 9, 20, 32, 33, 40)}
    return exact, moves, unread


@app.cell(hide_code=True)
def _(moves):
    predict(
        "l04.far_token",
        "A window of W = 8 and four layers. Somebody changes the token that lies **20 positions back**. It has "
        "left the window, and its K/V has been evicted. Can the logits of the next token change?",
        (
            "No: nothing in memory knows that token any more",
            "No, as long as it is not a sink",
            "Yes: entries that are still kept were made from entries that saw it",
            "Yes, but only by rounding",
        ),
        2,
        "The largest change of any logit of the trained model, by how far back the changed token lies: "
        + ", ".join(f"{distance} back: {change:.2g}" for distance, change in moves.items())
        + ". The K/V of the upper layers are made of what lower layers saw, so what the model knows reaches **W per layer**, 4 × 8 = 32 "
        "back, and ends there exactly.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l04.far_token", ReceptiveField(
        8, 4, 41, "What the last token can know about, W = 8, layer by layer", query=40, probe=20
    ))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Build it

    ### Who may see whom?

    Lesson 1's mask was a triangle. Now it has a second edge, and a few columns that stay open. Ask of a single pair, and of
    positions alone: where a chunk began, which step it is, what happens to be in memory must not matter, or the
    text would change with the token budget.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l04.visible")
    return


@app.function
def visible(query: int, key: int, window: int | None, sinks: int) -> bool:
    """Return whether the token at position `query` may attend to the one at position `key`."""
    raise NotImplementedError("Exercise 4.1: may this query attend to this key?")


@app.cell(hide_code=True)
def _():
    visible_attempt = attempt("l04.visible", lambda: visible)
    visible_attempt
    return (visible_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l04.visible")
    return


@app.cell(hide_code=True)
def _(visible_attempt):
    def _masks():
        def pairs(visible, number, window, sinks):
            return [[visible(q, k, window, sinks) for k in range(number)] for q in range(number)]

        labels = list("The quality of")
        size = (len(labels), 4, 1)
        right = {
            "name": "the reference",
            "num_past": 0,
            "mask": pairs(sliding_window.visible, *size),
            "labels": labels,
        }
        if not visible_attempt.started:
            return [{**right, "note": "Once you have written visible, yours stands beside it."}]
        mine = call(pairs, (visible_attempt.function, *size)).value
        if mine is None or not all(type(cell) is bool for row in mine for cell in row):
            note = "Yours does not answer True or False for every pair, so it cannot be drawn."
            return [{**right, "note": note}]
        return [{**right, "name": "yours", "mask": mine}, right]

    MaskStepper(_masks(), title="A window of 4 and 1 sink")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### What is kept?

    Here is the post's eviction, which it calls six lines of code:

    ```python
    for (layer, head), (k, v) in request.kv_cache.items():
        T = k.shape[1]
        if T > window_size:
            request.kv_cache[(layer, head)] = (
                k[:, -window_size:, :],   # keep the LAST W entries
                v[:, -window_size:, :],
            )
    ```

    Nearly every choice in it is right, and each for a reason:

    - **The last W, not the first.** `[:window_size]` reads as naturally, and would keep the prompt and lose what was just said.
    - **K and V.** Scores come from K, contents from V. Cut one alone, and every score meets the wrong content.
    - **Every layer and every head.** They share positions: a mask is made once, for all of them.
    - **Only if there is more than W.** A short text keeps everything.
    - **After the forward pass, not before.** The step's own queries look back W positions each, so all of it has to be there while they look.
    - **The slice is free of charge**, says the post: *a view, not a copy; the old entries become unreachable and get garbage-collected*.

    Decide about the last one.
    """)
    return


@app.function(hide_code=True)
def snapshot(words: str, buffers: dict[str, Tensor], tensors: dict[str, Tensor], live: Callable) -> dict:
    """One step of a picture of storage: what lies there, who shows which part, held and counted."""
    labels = {each.untyped_storage().data_ptr(): name for name, each in buffers.items()}
    places = {address: index for index, address in enumerate(labels)}
    sizes = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in buffers.values()}

    def view(name, each):
        return {
            "label": name,
            "storage": places[each.untyped_storage().data_ptr()],
            "offset_bytes": each.storage_offset() * each.element_size(),
            "nbytes": each.numel() * each.element_size(),
        }

    return {
        "words": words,
        "storages": [{"label": labels[address], "nbytes": sizes[address]} for address in labels],
        "views": [view(name, each) for name, each in tensors.items()],
        "live_bytes": live([*tensors.values()]),
        "counted_bytes": sum(each.numel() * each.element_size() for each in tensors.values()),
    }


@app.cell
def _():
    def storage_story(live):
        """Ten requests of 40 entries in one batch: one head's K, 8 channels, float32."""
        batch = torch.zeros(10, 40, 8)  # (B, S, D)
        mine = batch[3:4]  # what disassembling the batch gives request 3
        story = [
            snapshot("One head's keys of ten requests, 40 entries each, as the batch leaves them.",
                     {"the batch": batch}, {"the whole batch": batch}, live),
            snapshot("The batch is taken apart: request 3 keeps its row, a view. The others are done and let go of theirs.",
                     {"the batch": batch}, {"request 3": mine}, live),
        ]
        mine = mine[:, -20:]
        story.append(snapshot("Evict by slicing: request 3 now shows its last 20 entries.",
                              {"the batch": batch}, {"request 3": mine}, live))
        copy = mine.clone()
        story.append(snapshot("Evict by copying: 20 entries in a storage of their own. For a moment there are both.",
                              {"the batch": batch, "the copy": copy}, {"the view": mine, "request 3": copy}, live))
        story.append(snapshot("The view is gone, and with it the last reason to keep the batch.",
                              {"the copy": copy}, {"request 3": copy}, live))
        return story

    story = storage_story(sliding_window.live_bytes)
    return storage_story, story


@app.cell(hide_code=True)
def _(story):
    predict(
        "l04.freed",
        "Ten requests share a buffer of 12,800 bytes. Nine of them are done. The tenth keeps a slice of 640 bytes, its last 20 entries. "
        "How many bytes are **freed**?",
        ("12,160: all but the slice", "11,520: the nine others' rows", "640: half of its own row", "0"),
        3,
        f"**0.** Alive before the slice: {story[1]['live_bytes']:,} bytes. After it: {story[2]['live_bytes']:,}. After a "
        f"copy: {story[4]['live_bytes']:,}. A view is a window frame onto a storage, and a storage lives as long as one "
        "frame looks at it, whole: neighbours included. `.shape` says 20 entries and the memory says 400. Nothing "
        "is garbage as long as somebody holds a corner of it.",
    )
    return


@app.cell(hide_code=True)
def _(story):
    after("l04.freed", StorageStrip(story, "What a slice of 640 bytes keeps alive"))
    return


@app.cell(hide_code=True)
def _():
    after(
        "l04.freed",
        mo.md(r"""
    So eviction costs a copy of what stays. Write it, for one layer of one request. The sinks may lie inside the window, when the text is short.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    task("l04.evict")
    return


@app.function
def evict(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    """Return `(k, v)`: what is kept of one request's K/V in one layer after a step."""
    raise NotImplementedError("Exercise 4.2: which entries stay, and where do they lie?")


@app.cell(hide_code=True)
def _():
    evict_attempt = attempt("l04.evict", lambda: evict)
    evict_attempt
    return (evict_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l04.evict")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### What does the scheduler have to know?

    The scheduler of lesson 2 admits by what requests hold. If it counted the whole text, it would turn away requests that fit. So
    eviction and admission make a contract: *I never hold more than W + S; you count me with at most W + S.* The post says what happens when one side
    breaks it: counted too high, an idle machine; counted too low, out of memory.

    And then the published file breaks it. It counts `min(total, W)`, and it evicts after decodes only: with W = 20, a prompt of 40 tokens
    leaves its prefill **held as 40 and counted as 20**. Even with eviction after every step, a chunk is all there before any of it can go. So a
    step has two numbers, a peak and an end.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l04.held")
    return


@app.function
def held(cursor: int, num_tokens: int, window: int | None, sinks: int) -> tuple[int, int]:
    """Return `(peak, end)`: the KV tokens a request holds at the height of a step and after it."""
    raise NotImplementedError("Exercise 4.3: KV tokens at the height of the step, and after it")


@app.cell(hide_code=True)
def _():
    held_attempt = attempt("l04.held", lambda: held)
    held_attempt
    return (held_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l04.held")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Where does it lie?

    `evict` copies all that stays, in every layer and every step, to let go of one entry. It need not. W + S slots are enough for
    ever: let the new entry take the place of the one that has just left the window, and nothing moves. The entries then lie in
    a strange order. Does attention mind?

    It does not. Attention is a weighted sum over a *set* of keys; each key has its position baked in, and a sum does not
    care who comes first. So the only questions are who shares a slot with whom, and that nobody overwrites a sink.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l04.ring_slot")
    return


@app.function
def ring_slot(position: int, window: int, sinks: int) -> int:
    """Return the slot in which the K/V of `position` lies: a number from 0 to sinks + window - 1."""
    raise NotImplementedError("Exercise 4.4: in which slot does the K/V of this position lie?")


@app.cell(hide_code=True)
def _():
    ring_attempt = attempt("l04.ring_slot", lambda: ring_slot)
    ring_attempt
    return (ring_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l04.ring_slot")
    return


@app.cell(hide_code=True)
def _(ring_attempt):
    def _steps(slot_of, window=5, sinks=2, length=16):
        slots, steps = [None] * (window + sinks), []
        for position in range(length):
            slot = slot_of[position]
            gone = slots[slot]
            slots[slot] = position
            words = f"Position {position} goes into slot {slot}" + (
                "." if gone is None else f", over position {gone}."
            )
            cells = [{"position": each, "new": each == position} for each in slots]
            steps.append({"words": words, "slots": cells, "sinks": sinks, "window": window})
        return steps

    def _slots(ring_slot):
        return [ring_slot(position, 5, 2) for position in range(16)]

    _drawn, _whose = _slots(sliding_window.ring_slot), "the reference's ring_slot"
    if ring_attempt.started:
        _mine = call(_slots, (ring_attempt.function,)).value
        if _mine is not None and all(type(slot) is int and 0 <= slot < 7 for slot in _mine):
            _drawn, _whose = _mine, "your ring_slot"
    StorageStrip(_steps(_drawn), f"A window of 5 and 2 sinks in seven slots: {_whose}")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your engine, on real Shakespeare

    Five requests, a window of 24 and 4 sinks, a KV budget of 100 tokens. Your functions go in through `Parts`. The run below uses the ring;
    the same requests are run again with your `evict` as storage, and with chunks of at most 7 and of 64 tokens: nobody's text may care.

    One part of lesson 2 stays the reference here, whatever you wrote: `admit` there counts everything that is known, and under a window less is
    held. The reference counts what is held.
    """)
    return


@app.cell
def _():
    LINES = [  # arrival step, prompt, new tokens
        (0, "MACBETH:\nTo-morrow, and to-morrow, and to-morrow,\nCreeps in this petty pace ", 24),
        (0, "ROMEO:\nBut, soft! what light", 20),
        (2, "PORTIA:\nThe quality of mercy is not strain'd,\n", 24),
        (6, "JULIET:\nO Romeo, Romeo! ", 16),
        (9, "HAMLET:\nAlas, poor Yorick! ", 20),
    ]

    def play():
        """Fresh requests of the same prompts: the engine writes into the ones it is given."""
        return [(step, Request(i, encode(text), n)) for i, (step, text, n) in enumerate(LINES)]

    return (play,)


@app.cell
def _(evict_attempt, exact, held_attempt, play, ring_attempt, visible_attempt):
    stage = EngineConfig(
        token_budget=32,
        max_kv_tokens=100,
        sliding_window=24,
        num_sinks=4,
        temperature=0.8,
        seed=1,
    )
    earlier = load_parts("l04_sliding_window")  # what you wrote in lessons 1 to 3 and passed
    yours = replace(
        earlier.parts,
        admit=policies.admit,
        visible=visible_attempt.or_reference(sliding_window.visible),
        evict=evict_attempt.or_reference(sliding_window.evict),
        held=held_attempt.or_reference(sliding_window.held),
        ring_slot=ring_attempt.or_reference(sliding_window.ring_slot),
    )
    your_trace = replay(Engine(exact, stage, yours), play(), 300)
    reference_trace = Engine(exact, stage).run(play())
    other_runs = {
        "your `evict` as storage": replace(stage, kv_storage="evict"),
        "chunks of at most 7": replace(stage, token_budget=7),
        "chunks of at most 64": replace(stage, token_budget=64),
    }
    other_traces = {
        name: replay(Engine(exact, config, yours), play(), 300)
        for name, config in other_runs.items()
    }
    Timeline(
        your_trace.to_json(),
        reference_trace.to_json(),
        yours=any(
            each.started for each in (visible_attempt, evict_attempt, held_attempt, ring_attempt)
        ),
        title="Five requests under a window of 24 and 4 sinks",
        group="stage",
    )
    return earlier, other_traces, reference_trace, stage, your_trace


@app.function(hide_code=True)
def shown(text: str) -> str:
    """A piece of text as Markdown code in a table cell: line breaks drawn, bars harmless."""
    return f"`{text.replace(chr(10), '⏎').replace('|', '/')}`" if text else "nothing"


@app.cell(hide_code=True)
def _(
    earlier,
    evict_attempt,
    exact,
    held_attempt,
    other_traces,
    play,
    reference_trace,
    ring_attempt,
    stage,
    visible_attempt,
    your_trace,
):
    def _whose():
        parts = {
            "visible": visible_attempt,
            "evict": evict_attempt,
            "held": held_attempt,
            "ring_slot": ring_attempt,
        }
        mine = [f"`{name}`" for name, each in parts.items() if each.started]
        others = [f"`{name}`" for name, each in parts.items() if not each.started]
        if not mine:
            said = "These runs used the reference for all four: none of yours is written yet."
        elif not others:
            said = "All four functions of these runs are yours."
        else:
            said = f"In these runs {', '.join(mine)} came from you and {', '.join(others)} from the reference."
        return f"{said} Of the earlier lessons: {earlier.sentence}"

    def _wanted():
        return {
            request.id: generate(
                exact,
                request.prompt_tokens,
                request.max_new_tokens,
                temperature=stage.temperature,
                seed=stage.seed,
                request_id=request.id,
                sliding_window=stage.sliding_window,
                num_sinks=stage.num_sinks,
            )
            for _, request in play()
        }

    def _row(name, trace, wanted):
        wrong = [i for i in wanted if list(trace.generated_tokens(i)) != wanted[i]]
        kv = [each for step in trace.steps for each in step.kv]
        per_token = 2 * exact.config.num_layers * exact.config.num_channels * 8  # float64
        texts = f"not those of request {', '.join(map(str, wrong))}" if wrong else "all equal"
        counts = "equal" if all(each.kv_tokens == each.counted_tokens for each in kv) else "**differ**"
        kept = "equal" if all(each.live_bytes == each.kv_tokens * per_token for each in kv) else "**differ**"
        most = max((each.kv_tokens for each in kv), default=0)
        said = f" ({trace.error})" if trace.error else ""
        return f"| {name}{said} | {texts} | {most} | {max((s.kv_peak for s in trace.steps), default=0)} | {counts} | {kept} |"

    def _table(wanted):
        runs = {"the ring, chunks of at most 32": your_trace, **other_traces}
        head = "| run | texts, beside the oracle's | most held by one | highest peak of all | held and counted | held and live bytes |"
        return "\n".join([head, "|:--|:--|--:|--:|:--|:--|", *(_row(n, t, wanted) for n, t in runs.items())])

    def _texts():
        rows = [
            f"| {r.id} | …{shown(decode(r.prompt_tokens)[-22:])} | {shown(decode(list(your_trace.generated_tokens(r.id))))} |"
            for _, r in play()
        ]
        return "\n".join(["| request | end of its prompt | what it got (⏎ is a line break) |", "|--:|:--|:--|", *rows])

    def _verdict():
        if your_trace.error:
            return f"**The run stopped early:** {your_trace.error}"
        if your_trace.steps == reference_trace.steps:
            return "Step for step, the first run is the reference's."
        return "The first run is not the reference's: step the timeline to the first difference."

    mo.md(f"{_whose()} {_verdict()}\n\n{_table(_wanted())}\n\n{_texts()}")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The highest peak may pass the budget. The scheduler counts what is there *after* each step, and a step's new tokens are all there before any is evicted. They are never more than the
    token budget, for all requests together, so an engine sets room for one step's tokens aside, once, instead of reserving a peak for everybody.

    Try `sliding_window=None, num_sinks=0` in the cell of the engine: everything is kept then, requests wait or are preempted, and the texts become Shakespeare again. What a window does to them is a question for the second half.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What a byte really costs

    ### What is alive?

    `len` and `.shape` say what you may look at. The memory manager knows another number: which storages still have somebody who
    looks at them.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l04.live_bytes")
    return


@app.function
def live_bytes(tensors: list[Tensor]) -> int:
    """Return how many bytes of memory these tensors keep alive together."""
    raise NotImplementedError("Exercise 4.5: how many bytes do these tensors keep alive?")


@app.cell(hide_code=True)
def _():
    live_attempt = attempt("l04.live_bytes", lambda: live_bytes)
    live_attempt
    return (live_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l04.live_bytes")
    return


@app.cell(hide_code=True)
def _(live_attempt, storage_story):
    def _table(whose, told):
        rows = [f"| {each['words']} | {each['counted_bytes']:,} | {each['live_bytes']:,} |" for each in told]
        head = f"| step of the picture in 4.2 | bytes by `.shape` | bytes by {whose} |"
        return "\n".join([head, "|:--|--:|--:|", *rows])

    def _said():
        if live_attempt.started:
            told = call(storage_story, (live_attempt.function,)).value
            if told is not None and all(type(each["live_bytes"]) is int for each in told):
                return _table("your `live_bytes`", told)
        return _table("the reference's `live_bytes`", storage_story(sliding_window.live_bytes))

    mo.md(_said())
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The engine's records carry both numbers for every request and step: the KV tokens it holds, and the bytes that its K/V really keeps
    alive. In the table of your runs above they agreed, if `evict` copies and the ring is sound.

    ### Where is PagedAttention?

    Copying what stays, and a ring of fixed size, are two ways to give memory back. The one that production engines use is a third. Cut the memory
    into equal **blocks** once, and let each request keep a **table**: entries 0 to 3 of the text lie in block 5, entries 4 to 7 in block 0, and so on. Nothing is ever
    copied, and nobody owns a contiguous buffer, so nobody can hold a corner of somebody else's. When the last entry of a block has
    left the window, the block goes back to the pool, and the next request may have it in the same step.

    Step through it: two requests, blocks of 4, a window of 5 and one sink for request 0. Look for the moment at which a block is freed, and how long it took.
    """)
    return


@app.cell
def _():
    pool = BlockPool(num_blocks=8, block_size=4)
    pool.allocate(0, 10)
    pool.allocate(1, 6)
    for _turn in range(6):
        pool.append(0)
        pool.evict(0, window=5, sinks=1)
        if _turn % 3 == 0:
            pool.append(1)
    pool.free(1)
    pool.allocate(2, 9)
    BlockTable(pool.record, "A pool of eight blocks")
    return (pool,)


@app.cell(hide_code=True)
def _(pool):
    def _counts(step, request):
        lent = [each for each in step["blocks"] if each["owner"] == request]
        return sum(each["filled"] for each in lent), sum(len(each["outside"]) for each in lent)

    def _words():
        filled, outside = _counts(pool.record[-1], 0)
        return (
            f"At the end request 0 has {pool.num_tokens[0]} tokens, and its blocks hold {filled} entries, of which {outside} will never be "
            f"looked at again: with 5 + 1 visible after each step, the rest is what a window pays for blocks. One sink keeps a whole block alive, and "
            "at the old end up to block size − 1 entries wait for the last of their block to leave. A larger block wastes more here and needs a shorter table; vLLM's default is 16."
        )

    mo.md(_words())
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    So *by request* (preemption, lesson 2), *by block* (this picture) and *by token* (a window) are one idea at three sizes: give back memory that
    is worth less than what somebody else would do with it. The smaller the piece, the less is thrown away, and the more there is to keep account of.

    ## Break it

    Four defects of published code. The symptom comes first. Decide what is wrong; where it is a function, repair it in its cell.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit A: the frame that keeps the wall

    Three requests with prompts of 40 tokens and more, W = 20, on the engine that concatenates and evicts after every step. Held and counted agree. Then look at
    the bytes.
    """)
    return


@app.function
def exhibit_a(k, v, window, sinks):
    """What is kept: the sinks, if there are any, and the last `window` entries."""
    if k.shape[1] <= sinks + window:
        return k, v
    if sinks:
        return (
            torch.cat([k[:, :sinks], k[:, -window:]], dim=1),
            torch.cat([v[:, :sinks], v[:, -window:]], dim=1),
        )
    return k[:, -window:], v[:, -window:]


@app.cell
def _(model):
    def long_prompts():
        """Three requests whose prompts are longer than a window of 20."""
        text = "The quality of mercy is not strain'd, it droppeth as the gentle rain from heaven"
        spec = ((0, 40, 12), (2, 48, 10), (4, 44, 14))
        return [(at, Request(i, encode(text[:n]), new)) for i, (at, n, new) in enumerate(spec)]

    def kept_by(evict, **limits):
        """A run under a window of 20 in which `evict` decides what is kept."""
        config = EngineConfig(token_budget=48, sliding_window=20, kv_storage="evict", **limits)
        return replay(Engine(model, config, Parts(evict=evict)), long_prompts(), 100)

    return kept_by, long_prompts


@app.cell(hide_code=True)
def _(bytes_per_token, kept_by):
    frames = kept_by(piece(lambda: exhibit_a))

    def _rows():
        rows = ["| after step | KV tokens held | counted | bytes they are worth | bytes alive |", "|--:|--:|--:|--:|--:|"]
        for step in frames.steps[:8]:
            tokens, counted = (sum(getattr(each, name) for each in step.kv) for name in ("kv_tokens", "counted_tokens"))
            alive = sum(each.live_bytes for each in step.kv)
            rows.append(f"| {step.step} | {tokens} | {counted} | {tokens * bytes_per_token:,} | {alive:,} |")
        return rows

    mo.md("\n".join(_rows()) + (f"\n\n**The engine:** {frames.error}" if frames.error else ""))
    return


@app.cell(hide_code=True)
def _():
    exhibit("A", "l04.evict", lambda: exhibit_a)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Here the next concatenation makes a new buffer, and after one step all that is left of the damage is the entry just dropped; only fresh prompts show the whole of it. In the published code
    each request's slice looks into the *whole batch's* buffer, as in the picture of 4.2, and all of them together keep all of it. A test that looks at `.shape` passes either way.

    ### Exhibit B: one in, one out

    The same three requests, another `evict`: each step brings one token, so each step lets one go. The texts equal the oracle's, nothing fails.
    """)
    return


@app.function
def exhibit_b(k, v, window, sinks):
    """What is kept: a full window lets its oldest entry go, the first behind the sinks."""
    if k.shape[1] <= sinks + window:
        return k, v
    return (
        torch.cat([k[:, :sinks], k[:, sinks + 1 :]], dim=1),
        torch.cat([v[:, :sinks], v[:, sinks + 1 :]], dim=1),
    )


@app.cell(hide_code=True)
def _(kept_by):
    overdrawn = kept_by(piece(lambda: exhibit_b), max_kv_tokens=60)
    KVGrowth(
        [{"label": "exhibit B, W = 20", "window": 20, "trace": overdrawn.to_json()}],
        "Exhibit B, against a KV budget of 60",
    )
    return (overdrawn,)


@app.cell(hide_code=True)
def _(exact, long_prompts, overdrawn):
    def _worst():
        step = max(overdrawn.steps, key=lambda each: each.kv_after)
        return step.step, step.kv_after, sum(each.counted_tokens for each in step.kv)

    _step, _held, _counted = _worst()
    _texts_right = all(
        list(overdrawn.generated_tokens(r.id)) == generate(exact, r.prompt_tokens, r.max_new_tokens, sliding_window=20)
        for _, r in long_prompts()
    )
    predict(
        "l04.exhibit_b",
        f"A KV budget of 60, and after step {_step} **{_held}** KV tokens are held. The scheduler counts {_counted}. Texts like the oracle's: "
        f"{'yes' if _texts_right else 'no'}. **What is broken?**",
        (
            "The scheduler: it should count the whole text",
            "Visibility: queries see more than the window",
            "Eviction brings a full window back to full, but a long prompt never down to it",
            "The KV budget is too small for three prompts of 40",
        ),
        2,
        "A prompt of 40 arrives in one chunk and one entry goes: it is 19 over. From then on one comes and one goes, and it stays 19 over for the rest of its "
        "life. Nobody sees too much, because the mask asks for positions and not for what happens to lie there. The scheduler keeps its side of the contract and "
        "counts W; it admits a third request into memory that is not there. In the published file eviction runs after decodes alone: a prompt "
        "longer than W is held whole all through its prefill, and when it joins the active ones it counts as W.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l04.exhibit_b", exhibit("B", "l04.evict", lambda: exhibit_b))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit C: position 64 in a table of 64

    The author's README promises of the window *bounded memory usage, enabling serving of arbitrarily long conversations* (section 15). The model there has a position table of 64 rows. Here
    is such a table, and a prompt of 56 tokens under a window of 20.
    """)
    return


@app.cell(hide_code=True)
def _():
    small_table = GPT(ModelConfig(num_layers=1, num_heads=1, num_channels=8, context_len=64))

    def position_of(token_number):
        """Look up one position, as every forward pass does."""
        try:
            small_table.position_embedding(torch.tensor(token_number))
            return "found"
        except IndexError as error:
            return f"IndexError: {error}"

    def asked_for(new_tokens):
        """What the engine says to a prompt of 56 tokens and so many new ones."""
        engine = Engine(small_table, EngineConfig(sliding_window=20))
        trace = replay(engine, [(0, Request(0, encode("x" * 56), new_tokens))])
        return trace.error or f"{len(trace.generated_tokens(0))} tokens, and at most {max(s.kv_after for s in trace.steps)} held"

    mo.md(
        "| what | says |\n|:--|:--|\n"
        + "\n".join(f"| row {n} of the position table | {position_of(n)} |" for n in (62, 63, 64))
        + "\n"
        + "\n".join(f"| our engine, {n} new tokens | {asked_for(n)} |" for n in (9, 10))
    )
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l04.exhibit_c",
        "Never more than 20 KV tokens are held, and at position 64 it ends. **What does an endless chat need besides a window?**",
        (
            "A smaller window",
            "More sinks",
            "Positions that do not run out: relative ones, or new numbers for what is kept",
            "A larger KV budget",
        ),
        2,
        "The window bounds memory, not positions: token 64 is still token 64, and a learned table has no row for it. Keys carry their position baked in, so what is kept cannot simply be numbered anew: "
        "with a learned table every kept entry would have to be computed again. Rotary positions (RoPE) are applied to each key after the projection, so an engine can store keys unrotated and "
        "turn them by their place *within the cache*; StreamingLLM does that (section 3.2 of the paper). Our engine says no on arrival, with the numbers, instead of failing at token 64.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit D: three numbers in a row

    The published file makes its scheduler like this, for a token budget of 16 and a KV budget of 256. Nothing complains, and the scheduler preempts all the time.

    ```python
    Scheduler(policy, token_budget, max_kv_tokens, sliding_window=20)
    ```
    """)
    return


@app.function
def exhibit_d(policy="fcfs", max_batch_size=4, token_budget=16, max_kv_tokens=22, sliding_window=None):
    """The limits of a scheduler, by name; the parameters stand as in the published class."""
    return {
        "max_batch_size": max_batch_size,
        "token_budget": token_budget,
        "max_kv_tokens": max_kv_tokens,
        "sliding_window": sliding_window,
    }


@app.cell(hide_code=True)
def _(tight):
    def _tried():
        try:
            limits = piece(lambda: exhibit_d)("fcfs", 16, 256, sliding_window=20)
            trace = replay(Engine(tight_model, EngineConfig(**limits)), tight(), 300)
            return (
                f"The call made: `{limits}`. Five requests under it: "
                f"{sum(len(step.preempted) for step in trace.steps)} preemptions in {len(trace.steps)} steps. "
                + (trace.error or "")
            )
        except (TypeError, ValueError, NameError) as error:
            return f"**The call is refused:** {error}"

    tight_model = GPT(ModelConfig(num_layers=1, num_heads=1, num_channels=8))
    mo.md(_tried())
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l04.exhibit_d",
        "`(policy, token_budget, max_kv_tokens)` is called with `(\"fcfs\", 16, 256)`. **Which limits are in force?**",
        (
            "A token budget of 16 and a KV budget of 256, as intended",
            "A batch of 16, a token budget of 256 and a KV budget of 22",
            "A batch of 4, a token budget of 16 and a KV budget of 256",
            "None: Python refuses the call",
        ),
        1,
        "The second parameter of that class is `max_batch_size`. Three whole numbers in a row go wherever they stand: 16 requests at once, 256 tokens a step, and the KV budget nobody mentioned, 22. "
        "Python refuses positions if the parameters stand behind a `*`: put one behind `policy` in the cell of the exhibit and run it. Our `EngineConfig` and every call in this course name them.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Measure it: what does a window bring?

    The post's benchmarks, with the prompts' lengths, arrivals and limits of the author's file (`benchmarks/sliding_window.py`), in our engine on the clock of a server CPU. Two numbers are shown that the post keeps apart: the most that
    *one request* holds, and the most that *all together* hold, which is what a budget limits.
    """)
    return


@app.cell
def _():
    tiny = GPT(ModelConfig(num_layers=1, num_heads=1, num_channels=8))  # plans need no good text

    def tight():
        """The post's second benchmark: five requests that do not fit side by side."""
        spec = [(0, 8, 20), (0, 8, 20), (1, 6, 15), (2, 6, 15), (3, 6, 10)]
        return [(at, Request(i, [1] * n, new)) for i, (at, n, new) in enumerate(spec)]

    def long_generation():
        """The first: three requests, 30 tokens each."""
        return [(at, Request(i, [1] * n, 30)) for i, (at, n) in enumerate(((0, 8), (0, 6), (1, 8)))]

    def many_small():
        """The fourth: eight small requests, two at a time."""
        return [(i // 2, Request(i, [1] * 6, 20)) for i in range(8)]

    BENCHMARKS = {  # workload, limits, window, and what the post and its file say
        "1 memory": (long_generation, {"max_kv_tokens": 200, "max_batch_size": 3, "token_budget": 16}, 20),
        "2 budget 80": (tight, {"max_kv_tokens": 80, "max_batch_size": 3, "token_budget": 12}, 20),
        "2 budget 50": (tight, {"max_kv_tokens": 50, "max_batch_size": 3, "token_budget": 12}, 20),
        "2 budget 50, batch 5": (tight, {"max_kv_tokens": 50, "max_batch_size": 5, "token_budget": 12}, 20),
        "4 budget 80": (many_small, {"max_kv_tokens": 80, "max_batch_size": 8}, 16),
        "4 no budget": (many_small, {"max_kv_tokens": None, "max_batch_size": 8}, 16),
    }
    PUBLISHED = {  # one request's peak, all together, preempted, throughput of the window
        "1 memory": ("37 → 20", "103 → 60", "", "×1.18"),
        "2 budget 50": ("25.9 % less", "64 → 59", "0 → 0", "×1.08"),
        "4 budget 80": ("25 → 16", "164 → 128", "", "×1.21"),
    }

    def padding(trace):
        """Share of the key columns that a left-padded batch of the step's decodes would waste."""
        padded = real = 0
        for step in trace.steps:
            before = [work.start for work in step.work if work.kind == "decode"]
            limit = trace.sliding_window
            rows = [start if limit is None else min(start, limit) for start in before]
            padded += max(rows, default=0) * len(rows)
            real += sum(rows)
        return 1 - real / padded if padded else 0.0

    def measured(workload, limits, window):
        """One run in numbers."""
        config = EngineConfig(sliding_window=window, max_prefilling=1, **limits)
        trace = Engine(tiny, config, clock=CostClock(SERVER_CPU)).run(workload())
        return {
            "one": max(each.kv_tokens for step in trace.steps for each in step.kv),
            "all": max(step.kv_after for step in trace.steps),
            "preempted": sum(len(step.preempted) for step in trace.steps),
            "batch": max(len(step.kv) for step in trace.steps),
            "padding": padding(trace),
            "speed": summary(trace).tokens_per_s,
        }

    bench = {
        (name, each): measured(workload, limits, each)
        for name, (workload, limits, window) in BENCHMARKS.items()
        for each in (None, window)
    }
    return BENCHMARKS, PUBLISHED, bench, tight


@app.cell(hide_code=True)
def _(BENCHMARKS, PUBLISHED, bench):
    def _row(name):
        window = BENCHMARKS[name][2]
        full, less = bench[name, None], bench[name, window]

        def both(key, form="{}"):
            return f"{form.format(full[key])} → {form.format(less[key])}"

        published = PUBLISHED.get(name, ("", "", "", ""))
        said = "; ".join(each for each in published if each) or "not run"
        cut = 1 - less["all"] / full["all"]
        return (
            f"| {name}, W = {window} | {both('one')} | {both('all')} ({cut:.0%} less) | {both('preempted')} | {both('batch')} | "
            f"{both('padding', '{:.0%}')} | ×{less['speed'] / full['speed']:.2f} | {said} |"
        )

    head = "| benchmark | most held by one | by all together | preempted | largest batch | padding | throughput | published: one; all; preempted; throughput |"
    mo.md("\n".join([head, "|:--|--:|--:|--:|--:|--:|--:|:--|", *map(_row, BENCHMARKS)]))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Each cell reads *without → with a window*. Read the published columns beside ours, and three things stand out.

    - **The headline number is per request.** *Peak memory 36 to 46 % less* compares the largest single request. All together, which is what has to fit, the published runs fall by 42, 8 and 22 %.
    - **Benchmark 2 ran at 50**, by the author's file, and the post says that *at 50 the full-cache version would start preempting*. Its harness has no preemption, so it
      reports 0, and 64 KV tokens stand in a budget of 50. The fourth likewise: 164 and 128 in a budget of 80. Those totals come out here to the token where nothing limits them, in the rows *budget 80* of the second and *no budget* of the fourth.
      Where our engine has to keep the budget after every step, what a window brings shows elsewhere: in fewer preemptions.
    - **Throughput on our clock moves with the batch**, not with the attention: at these sizes an entry of context costs next to nothing, as the clock of lesson 1 measured. Where the window saves preemptions, it gains; where everybody fitted already, there is nothing to gain.

    The *padding* column is the post's side effect, and it is real: requests of different ages all end up with W entries, so a left-padded batch has fewer holes. In a packed executor there were none.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Measure it: what does a window cost?

    ### Two readings of one text

    Memory was easy to measure. Quality is where one deceives oneself. Here is the plain way: let the model read a text that exists, twice, with everything and under the window, and ask at every place
    what it expects next. No text is generated, so nothing can drift apart.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l04.judge")
    return


@app.function
def judge(full_logits: Tensor, window_logits: Tensor, targets: Tensor) -> tuple[float, float]:
    """Return `(agreement, nll_delta)`: what a window costs on a known text."""
    raise NotImplementedError("Exercise 4.6: greedy agreement, and the loss that the window adds")


@app.cell(hide_code=True)
def _():
    judge_attempt = attempt("l04.judge", lambda: judge)
    judge_attempt
    return (judge_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l04.judge")
    return


@app.cell
def _(judge_attempt, model, unread):
    texts = [passage[:256] for passage in unread]
    nexts = torch.tensor([passage[1:257] for passage in unread])  # (6, 256)

    def judged(full, windowed, targets):
        """(agreement, added loss) by your judge, or by the reference until it answers in numbers."""
        flat = (full.flatten(0, -2), windowed.flatten(0, -2), targets.flatten())
        answer = call(judge_attempt.function, flat).value if judge_attempt.started else None
        match answer:
            case (float(agreement), float(added)):
                return agreement, added
            case _:
                return sliding_window.judge(*flat)

    full_logits = read(model, texts, None)
    full_loss = F.cross_entropy(full_logits.flatten(0, 1), nexts.flatten()).item()
    costs = {
        (window, sinks): judged(full_logits, read(model, texts, window, sinks), nexts)
        for window in (8, 16, 32, 64, 128)
        for sinks in (0, 4)
    }
    return costs, full_logits, full_loss, judged, nexts, texts


@app.cell(hide_code=True)
def _(costs, full_loss):
    predict(
        "l04.cost",
        "Six passages that the shipped model has never read. With its whole context its loss is "
        f"{full_loss:.2f} nats per character. (Knowing nothing, it would be ln 65 = 4.17.) Now a window of **W = 16**, the size at which the post measures 100 % agreement. "
        "The loss is then",
        (
            f"{full_loss + 0.01:.2f}: sixteen characters are nearly all it needs",
            f"about {full_loss + 0.2:.1f}",
            f"about {full_loss + 0.6:.1f}",
            "above 2.5: it forgets most of what it has learned",
        ),
        3,
        f"**{full_loss + costs[16, 0][1]:.2f}.** The window adds {costs[16, 0][1]:.2f} nats, and in {1 - costs[16, 0][0]:.0%} of the places another character becomes the most likely one. "
        f"Even W = 128 adds {costs[128, 0][1]:.2f}. Why that is so is the best question of this lesson; first make sure that it is measured right.",
    )
    return


@app.cell(hide_code=True)
def _(costs, full_loss, judge_attempt):
    def _row(window):
        (agree, added), (sunk, sunk_added) = costs[window, 0], costs[window, 4]
        return f"| {window} | {agree:.0%} | +{added:.2f} | {sunk:.0%} | +{sunk_added:.2f} |"

    _published = {8: "97.5 %", 16: "100 %", 32: "100 %"}
    _rows = [_row(window) + f" {_published.get(window, '')} |" for window in (8, 16, 32, 64, 128)]
    _whose = "your `judge`" if judge_attempt.started else "the reference's `judge`"
    after("l04.cost", mo.md(
        "\n".join(
            [
                "| W | greedy agreement | added loss | with 4 sinks: agreement | added loss | the post's agreement |",
                "|--:|--:|--:|--:|--:|--:|",
                *_rows,
                "",
                f"By {_whose}, over 6 passages of 256 characters; loss in nats per character, on top of {full_loss:.3f}.",
            ]
        )
    ))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### The metric lab

    How can the post see 97.5 and 100 % where we see ruin? Both are honest measurements. Its model was trained for 120 steps (`max_iters` in its file), it sampled one text of 40 tokens from one prompt, and it
    compared the texts place by place, with the same random numbers on both sides. So here is a model of the post's size, trained for 120 steps (validation loss 2.86), beside the shipped one (1.51); eight prompts of 10 characters instead of one; and four ways to compare:

    - **sampled**: the post's way; the share of 40 places at which two sampled texts agree, with shared random numbers at temperature 1
    - **greedy**: the same, with the most likely token each time
    - **teacher-forced**: your `judge`, on text that neither has written
    - **needle**: a name that has spoken 90 characters ago; given the choice between it and another, does the model prefer it more than if it had not spoken? Chance is 50 %.
    """)
    return


@app.cell
def _(unread):
    def small(name):
        """A model of the post's size, 4 layers of 32 channels; see lessons/data/small_models.md."""
        return load_model(Path(course.__file__).parents[1] / "lessons" / "data" / f"{name}.safetensors")

    unripe = small("small_120_steps")
    prompts = [passage[start : start + 10] for passage in unread[:4] for start in (0, 100)]

    def continuations(some_model, window, temperature):
        """40 tokens after each of the eight prompts."""
        limits = EngineConfig(token_budget=80, sliding_window=window, temperature=temperature, seed=1337)
        trace = Engine(some_model, limits).run([(0, Request(i, list(p), 40)) for i, p in enumerate(prompts)])
        return [trace.generated_tokens(i) for i in range(len(prompts))]

    def agreements(full_texts, window_texts):
        """The share of equal places, prompt by prompt."""
        pairs = zip(full_texts, window_texts, strict=True)
        return [sum(a == b for a, b in zip(*pair, strict=True)) / 40 for pair in pairs]

    return agreements, continuations, small, unripe


@app.cell
def _(unread):
    NAMES = ["LUCENTIO", "MENENIUS", "MERCUTIO", "PROSPERO", "BENVOLIO", "BAPTISTA", "CLARENCE", "ISABELLA"]
    SPOKEN = [line[:36] for passage in unread for line in decode(passage).split("\n") if len(line) > 36]

    def needles(number=20):
        """Four texts per trial: A or B has spoken before somebody else, and A or B is to speak now."""
        rng, rows = random.Random(0), []
        for _ in range(number):
            a, b, other = rng.sample(NAMES, 3)
            lead, one, two = rng.sample(SPOKEN, 3)
            rows += [
                f"{lead[:20]}\n\n{first}:\n{one}\n\n{other}:\n{two}\n\n{now}"
                for first in (a, b)
                for now in (a, b)
            ]
        return [encode(row) for row in rows]

    haystacks = torch.tensor(needles())  # (4 x trials, T)

    def recall(some_model, window, sinks=0):
        """The share of trials in which having spoken makes a name more likely than the other."""
        logits = read(some_model, haystacks[:, :-1], window, sinks)[:, -8:]  # the eight letters
        chosen = logits.log_softmax(-1).gather(2, haystacks[:, -8:, None]).sum((1, 2))  # (4 x trials,)
        aa, ab, ba, bb = chosen.view(-1, 4).unbind(1)
        gain = (aa - ab) - (ba - bb)
        return ((gain > 1e-5).double() + (gain.abs() <= 1e-5).double() / 2).mean().item()

    return (recall,)


@app.cell(hide_code=True)
def _(agreements, continuations, judged, model, nexts, recall, texts, unripe):
    WINDOWS = (8, 16)
    short = [row[:128] for row in texts]  # as far as the small model's positions go

    def compared(some_model):
        """Both readings and both kinds of text, without a window and with each."""
        rules = (None, *WINDOWS)
        return (
            {window: read(some_model, short, window) for window in rules},
            {window: continuations(some_model, window, 1.0) for window in rules},
            {window: continuations(some_model, window, 0.0) for window in rules},
            {window: recall(some_model, window) for window in rules},
        )

    def _rows(name, some_model):
        logits, sampled, greedy, needle = compared(some_model)
        for window in WINDOWS:
            agree, added = judged(logits[None], logits[window], nexts[:, :128])
            by_draw = agreements(sampled[None], sampled[window])
            by_best = agreements(greedy[None], greedy[window])
            yield (
                f"| {name} | {window} | {max(by_draw):.0%} | {sum(by_draw) / 8:.0%} | {min(by_draw):.0%} | {sum(by_best) / 8:.0%} | "
                f"{agree:.0%} | {added:+.3f} | {needle[None]:.0%} → {needle[window]:.0%} |"
            )

    lab = [*_rows("120 steps", unripe), *_rows("shipped", model)]
    mo.md(
        "\n".join(
            [
                "| model | W | sampled: best prompt | mean of 8 | worst | greedy, mean of 8 | teacher-forced agreement | added loss | needle |",
                "|:--|--:|--:|--:|--:|--:|--:|--:|--:|",
                *lab,
            ]
        )
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Read down the columns.

    - By the loss, **a model of 120 steps loses nothing**, at any window. It has not learned to look at anything yet, so nothing can be hidden from it. What a window costs has to be measured on a model that is good.
    - **Sampled agreement** says something else in every cell. For the young model it ranges from a fifth to four fifths, depending on the prompt, while the loss does not move at all. Near-ties flip, and from the first flip on two
      different texts are compared. With the same draws on both sides it measures the draws as much as the model. The best prompt flatters, the worst one slanders, and one prompt is an anecdote.
    - **Greedy texts** part in the same way, and two that are caught in the same loop agree for ever.
    - **Teacher-forced loss** asks every place the same question, and no draw can flatter it. It is an average, though: the few places that need the far past drown in it.
    - So the **needle** asks those alone. It is what a user notices first, and no average shows it. (Without a window the young model does worse than chance: what lies far back moves it by a hair, and the wrong way. With 20 trials, take differences below 20 % as noise.)

    ## Why?

    The post says why a window should be harmless: *attention weights decay roughly exponentially with distance*. Look. These are the real weights of the shipped model, by distance, one head at a time, with the
    window's cut drawn in. Go through the layers.
    """)
    return


@app.function
def attention(model: GPT, tokens: Tensor) -> Tensor:
    """All attention weights of a reading without a window: (layers, B, H, T, T)."""
    seen = []

    def attend(layer, q, k, v):
        q, k, v = (x.transpose(-2, -3) for x in (q, k, v))  # (B, H, T, D)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        seen.append(scores.masked_fill(ahead, float("-inf")).softmax(-1))
        return (seen[-1] @ v).transpose(-2, -3)

    with torch.inference_mode():
        model.hidden(tokens, torch.arange(tokens.shape[-1]), attend)
    return torch.stack(seen)


@app.cell
def _(model, unread):
    weights = attention(model, torch.tensor([passage[:256] for passage in unread])).mean(1)  # (L, H, T, T)
    # The last eight queries, by distance; the first four positions apart.
    by_distance = torch.zeros(*weights.shape[:2], 252)
    for _query in range(248, 256):
        by_distance[..., : _query - 3] += weights[:, :, _query, 4 : _query + 1].flip(-1) / 8
    on_sinks = weights[:, :, 248:, :4].mean(2)  # (L, H, 4)
    within_16 = by_distance[..., :17].sum(-1)  # (L, H)
    AttentionByDistance(
        by_distance.tolist(),
        16,
        "Attention weight by distance, six unread passages",
        sink_weights=on_sinks.tolist(),
    )
    return on_sinks, within_16


@app.cell
def _(full_loss, model, nexts, texts):
    def loss(windows, sinks=0):
        """Loss of the shipped model with a window for each layer."""
        logits = read(model, texts, windows, sinks)
        return F.cross_entropy(logits.flatten(0, 1), nexts.flatten()).item()

    one_layer = {
        layer: loss([16 if other == layer else None for other in range(4)]) - full_loss
        for layer in range(4)
    }
    three_layers = {window: loss([None, window, window, window]) - full_loss for window in (16, 32, 64)}
    return one_layer, three_layers


@app.cell(hide_code=True)
def _(on_sinks, one_layer, within_16):
    _shares = ", ".join(f"{within_16[layer].mean():.0%}" for layer in range(4))
    predict(
        "l04.layers",
        "Give **one** of the four layers a window of 16 and let the others see everything. In which layer does it hurt?",
        (
            "In the first",
            "In the second or third",
            "In the last, which decides the next token",
            "In all of them about alike",
        ),
        0,
        "Added loss: " + ", ".join(f"layer {layer} {round(added, 2) + 0.0:+.2f}" for layer, added in one_layer.items()) + f". The weight that lies within 16 back is, layer by layer, {_shares}. "
        "Layer 0 does not decay at all: its heads spread their weight over everything there is, as if to take an **average of the text so far**. An average of 17 is not the average of 250, and every layer above was trained on the latter. "
        f"And nobody uses the first positions as sinks: all four together get {on_sinks.sum(-1).mean():.1%} of a head's weight. Sinks are a habit of larger models, not a law.",
    )
    return


@app.cell(hide_code=True)
def _(full_loss, three_layers):
    after("l04.layers", mo.md(
        "So do not treat all layers alike. Layer 0 keeps everything, the other three get a window:\n\n"
        "| layers 1 to 3 | added loss | K/V held of 256 tokens |\n|:--|--:|--:|\n"
        + "\n".join(
            f"| W = {window} | {round(added, 2) + 0.0:+.2f} | {(256 + 3 * window) / (4 * 256):.0%} |"
            for window, added in three_layers.items()
        )
        + f"\n\n(on top of {full_loss:.2f}). Gemma 2 and 3 and gpt-oss are built, and trained, that way: layers with a window and layers without, mixed."
    ))
    return


@app.cell
def _(full_logits, model, nexts, unread):
    def fresh(window):
        """Loss when a token is predicted from the window + 1 tokens before it, read as a text of their own."""
        starts = range(0, 256 - window, 4)  # every fourth place is enough
        rows = torch.tensor([p[i : i + window + 1] for p in unread for i in starts])  # (6 x starts, W + 1)
        logits = read(model, rows, None)[:, -1]  # (6 x starts, V)
        return F.cross_entropy(logits, nexts[:, window::4].flatten()).item()

    def same_places(logits, window):
        return F.cross_entropy(logits[:, window::4].flatten(0, 1), nexts[:, window::4].flatten()).item()

    seventeen = {
        window: (
            same_places(full_logits, window),
            same_places(read(model, [p[:256] for p in unread], window), window),
            fresh(window),
        )
        for window in (16, 64)
    }
    return (seventeen,)


@app.cell(hide_code=True)
def _(seventeen):
    predict(
        "l04.seventeen",
        f"With W = 16 the model sees 17 characters and its loss is {seventeen[16][1]:.2f}; with everything, {seventeen[16][0]:.2f}. Now give it **the same 17 characters as a text of their own**, "
        "read afresh from position 0, for each prediction anew. Its loss?",
        (
            f"About {seventeen[16][1]:.1f}: the same 17 characters, the same knowledge",
            "About halfway between the two",
            f"Within 0.1 of {seventeen[16][0]:.2f}, as if it had seen everything",
            "Worse than both: it has lost its place in the text",
        ),
        2,
        f"**{seventeen[16][2]:.2f}.** Seventeen letters are all that this model needs. What the window took away was not information. It left the model in a state that it has never been in: position 200, with no past. "
        f"(W = 64: everything {seventeen[64][0]:.2f}, window {seventeen[64][1]:.2f}, fresh {seventeen[64][2]:.2f}.) The price of reading afresh is 17 tokens computed for each one generated, which is lesson 0 undone.",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l04.seventeen",
        mo.md(r"""
    That is the surprise to take home: **a window at run time does not fail because the far past matters, but because the model has never lived without one.** (StreamingLLM, Figure 1, saw the same on large models: a window alone collapses, a window that is recomputed for each token holds.) Then a model that has should not mind. Two twins of the post's size (4 layers, 32 channels), the same 6,000 steps,
    the same batches; one was trained with full attention, the other under a mask of W = 16 (`lessons/data/small_models.md`):
    """),
    )
    return


@app.cell
def _(nexts, small, texts):
    twins = {"trained with everything": small("small_full"), "trained with W = 16": small("small_window_16")}

    def _loss(twin, window):
        logits = read(twin, [row[:128] for row in texts], window)
        return F.cross_entropy(logits.flatten(0, 1), nexts[:, :128].flatten()).item()

    after("l04.seventeen", mo.md(
        "| | served with everything | served with W = 16 |\n|:--|--:|--:|\n"
        + "\n".join(f"| {name} | {_loss(twin, None):.2f} | {_loss(twin, 16):.2f} |" for name, twin in twins.items())
    ))
    return


@app.cell(hide_code=True)
def _():
    after(
        "l04.seventeen",
        mo.md(r"""
    The twins are as good as each other, each in its own world, and each is lost in the other's. This is Mistral's way, and the post says so: bake the window into the training mask. Then eviction is exact, and an engine that does *not* evict computes for nothing.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## When it breaks

    The post names three things that a window should hurt. None of our 65 characters is a bracket; what this text opens and has to close is a line and a name. Four texts of 120 characters, sampled by the shipped model:
    """)
    return


@app.cell(hide_code=True)
def _(model, recall):
    def plays(window, sinks, temperature=0.8):
        """Four speakers, 120 characters each."""
        limits = EngineConfig(
            token_budget=48, temperature=temperature, seed=1, sliding_window=window, num_sinks=sinks
        )
        names = ("ROMEO", "JULIET", "MENENIUS", "PROSPERO")
        trace = Engine(model, limits).run([(0, Request(i, encode(f"{n}:\n"), 120)) for i, n in enumerate(names)])
        return [decode(trace.generated_tokens(i)) for i in range(len(names))]

    def repeated(written):
        """The share of stretches of five characters that have been there before in the same text."""
        grams = [[text[i : i + 5] for i in range(len(text) - 4)] for text in written]
        return 1 - sum(len(set(each)) for each in grams) / sum(map(len, grams))

    def _row(name, window, sinks):
        written, greedy = plays(window, sinks), plays(window, sinks, 0.0)
        lines = [line for text in written for line in text.split("\n") if line]
        speakers = sum(line.rstrip(":").replace(" ", "").isupper() for line in lines)
        return (
            f"| {name} | {recall(model, window, sinks):.0%} | {sum(map(len, lines)) / len(lines):.0f} | {speakers} | "
            f"{repeated(written):.0%} | {repeated(greedy):.0%} | {shown(written[0][:60])} |"
        )

    mo.md(
        "\n".join(
            [
                "| window | needle | characters per line | new speakers | repeated, sampled | repeated, greedy | how it reads |",
                "|:--|--:|--:|--:|--:|--:|:--|",
                *(
                    _row(name, *rule)
                    for name, rule in {
                        "none": (None, 0),
                        "W = 16": (16, 0),
                        "W = 16, 4 sinks": (16, 4),
                    }.items()
                ),
            ]
        )
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    - **The needle is gone.** At W = 16 it must be: nothing from 90 characters back can act on the letters at all (4 × 16 = 64), so every trial is a tie, sinks or not.
    - **What is open is closed at random**: lines end and speakers change far too often. With sinks a little less so.
    - **Repetition** goes the other way here. Greedy texts of this model run in circles when it sees everything, and hardly do under a window: to repeat yourself you have to remember what you said. Not every plausible harm is a measured one.

    ## Cleverer than the last W

    *Keep the last W* is a guess about who will be looked at. One can ask instead. Attention has just told us whom the heads look at, so keep those: **H2O** (Zhang et al., 2023, section 4) keeps the recent ones and the *heavy hitters*, the entries with the most weight so far, each head its own. Here it is in small, each
    head allowed 32 entries, on the first of the passages:
    """)
    return


@app.function
def read_keeping(model: GPT, tokens: list[int], choose: Callable) -> Tensor:
    """A reading in which after each token every head drops the entries that `choose` names, (T, V).

    choose(kept, total, now) -> bool (H, T): which of the kept entries go; `total` is the weight
    that each has got so far.
    """

    def attend(layer, q, k, v):
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))  # (H, T, D)
        scores = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5  # (H, T, T)
        kept = torch.zeros(scores.shape[:2], dtype=torch.bool)
        total, out = torch.zeros(scores.shape[:2]), torch.empty_like(q)
        for now in range(len(tokens)):
            kept[:, now] = True
            row = scores[:, now].masked_fill(~kept, float("-inf")).softmax(-1)  # (H, T)
            out[:, now] = (row.unsqueeze(1) @ v).squeeze(1)
            total += row
            kept &= ~choose(kept, total, now)
        return out.transpose(0, 1)

    with torch.inference_mode():
        return model.logits(model.hidden(torch.tensor(tokens), torch.arange(len(tokens)), attend))


@app.cell
def _(full_logits, model, nexts, texts):
    def oldest(sinks):
        """Drop the oldest entry that is no sink, once there are more than 32."""

        def choose(kept, total, now):
            gone = torch.zeros_like(kept)
            if now >= 32:
                gone[:, now - (32 - sinks)] = now - (32 - sinks) >= sinks
            return gone

        return choose

    def lightest(recent):
        """Drop the entry with the least weight so far that is not among the recent ones."""

        def choose(kept, total, now):
            gone = torch.zeros_like(kept)
            if now >= 32:
                value = total.masked_fill(~kept, float("inf"))
                value[:, now + 1 - recent : now + 1] = float("inf")
                gone[torch.arange(len(kept)), value.argmin(1)] = True
            return gone

        return choose

    def _added(choose):
        logits = read_keeping(model, texts[0], choose)
        return F.cross_entropy(logits, nexts[0]).item() - F.cross_entropy(full_logits[0], nexts[0]).item()

    rules = {
        "the last 32": oldest(0),
        "4 sinks and the last 28": oldest(4),
        "the last 16 and the 16 heaviest": lightest(16),
        "the last 24 and the 8 heaviest": lightest(24),
    }
    mo.md(
        "| 32 entries per head | added loss |\n|:--|--:|\n"
        + "\n".join(f"| {name} | {_added(choose):+.2f} |" for name, choose in rules.items())
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Far better at equal memory. (**FastGen**, Ge et al., 2023, goes on from there: it watches each head for a while and then chooses its rule. Your table of layers says why that pays.) Now look at what it costs an engine. The weights have to be *read*, which fused attention kernels never write down; each head keeps other positions, so one mask no longer serves all; what is
    kept depends on what was asked, so a prefix can no longer be shared; and with two token budgets, two texts. A window is dumber and keeps every promise of this course.

    ## Where it loses

    - On a model that was not trained for it, quality, and by more than any short sample shows.
    - Where memory was not short: nothing is gained but padding, and that only in a padded batch.
    - A preempted request under a window recomputes its whole text, not its last W tokens: what it kept came from what it had seen.
    - Where prompts share a prefix: K/V that has left the window is gone for the next request too.

    ## How production engines do it

    - **Mistral 7B** (Jiang et al., 2023, section 2) was trained with a window of 4,096 in every layer and serves from a *rolling buffer*: position i lies in slot i mod W, your `ring_slot` without sinks. After 32 layers the reach is about 131 thousand tokens, the cone of this lesson.
    - **StreamingLLM** (Xiao et al., 2023, sections 3.1 and 3.2) found that large models put much weight on the first tokens, whatever they are, and that keeping four of them saves a window at run time. It also numbers positions within the cache. Our small model has no such habit, and four sinks save it only in part.
    - **vLLM** gives layers with and without a window each their own kind of manager over one pool of blocks and frees blocks that have left the window ([design of the hybrid KV cache manager](https://docs.vllm.ai/en/latest/design/hybrid_kv_cache_manager/); [#14097](https://github.com/vllm-project/vllm/pull/14097)).
    - **TensorRT-LLM** keeps [a pool of blocks for each window size](https://nvidia.github.io/TensorRT-LLM/features/kvcache.html).

    And this lesson's defects are out there:

    - **A.** [Ollama #15065](https://github.com/ollama/ollama/pull/15065): a snapshot of a slice of the KV cache held the whole original buffer alive through a shared pointer.
    - **B.** [VeloxQuant-MLX #274](https://github.com/rajveer43/VeloxQuant-MLX/issues/274): a sliding-window cache that never evicted, while `len()` reported the capped count. And the other way round, [ferrox #61](https://github.com/antonellof/ferrox/issues/61): the store evicted, and the admission path never saw the saving.
    - **The peak.** [SGLang #30091](https://github.com/sgl-project/sglang/pull/30091) measures what `held` says: while a chunk of a prefill is in flight, a windowed layer holds the window *and* the chunk, and nothing is saved until it is done.
    - **W or W + 1?** A window of 4,096 is 4,096 keys for one library and 4,097 for the next: [vLLM #3385](https://github.com/vllm-project/vllm/issues/3385), [transformers #39408](https://github.com/huggingface/transformers/issues/39408), [mlx-lm #390](https://github.com/ml-explore/mlx-lm/pull/390), where mask and cache of one engine disagreed. Say which one you mean, and test the edge.

    ## What comes next

    A request now costs what you decide it may cost. In lesson 5 it gets a deadline: who is late, who will be, and whom is it still worth hurrying for?
    """)
    return


if __name__ == "__main__":
    app.run()

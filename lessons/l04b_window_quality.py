import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="4b · What a window costs")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt
    from course.lazy import torch
    from course.prediction import after, hints, predict
    from course.task import task


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 4b · What a window costs

    *30 minutes. Builds on lesson 4: windows and sinks. You write one function.*

    Afterwards you can say what a window does to a model's text without being flattered by your own
    metric, and why it does it.

    ## What can a token still know?

    In lesson 4 a token with a window of W sees itself and the W tokens before it, and what no later
    token will see is evicted. The sliding-window post that both lessons grew from
    ([czhou578/nanoGPT-inference](https://github.com/czhou578/nanoGPT-inference)) asks the right
    question: *what do you lose?* Begin with a single token that has left the window.
    """)
    return


@app.cell(hide_code=True)
def _():
    from course.lesson_data.l04_exhibits import end_of_the_table
    from course.lesson_data.l04b_heads import (
        added_by_layer,
        keeping_table,
        layers_table,
        seventeen,
        small,
        twins_table,
        weights_by_distance,
    )
    from course.lesson_data.l04b_readings import (
        cost_chart,
        costs,
        metric_lab,
        moves,
        plays_table,
    )
    from nanogpt import load_model
    from widgets import AttentionByDistance, ReceptiveField, whose

    model = load_model()
    return (
        AttentionByDistance,
        ReceptiveField,
        added_by_layer,
        cost_chart,
        costs,
        end_of_the_table,
        keeping_table,
        layers_table,
        load_model,
        metric_lab,
        model,
        moves,
        plays_table,
        seventeen,
        small,
        twins_table,
        weights_by_distance,
        whose,
    )


@app.cell(hide_code=True)
def _(load_model, moves):
    _moves = moves(load_model().double())
    predict(
        "l04.far_token",
        "A window of W = 8 and four layers. The token that lies **20 positions back** becomes another one. It has "
        "left the window, and its K/V has been evicted. Can the logits of the next token change?",
        (
            "No: nothing in memory knows that token any more",
            "No, as long as it is not a sink",
            "Yes: entries that are still kept were made from entries that saw it",
            "Yes, but only by rounding",
        ),
        2,
        "The largest change of any logit of the trained model, by how far back the changed token lies: "
        + ", ".join(f"{distance} back: {change:.2g}" for distance, change in _moves.items())
        + ". The K/V of the upper layers are made of what lower layers saw, so what the model knows reaches **W per layer**, 4 × 8 = 32 "
        "back, and ends there exactly.",
    )
    return


@app.cell(hide_code=True)
def _(ReceptiveField):
    after(
        "l04.far_token",
        ReceptiveField(
            8,
            4,
            41,
            "What the last token can know about, W = 8, layer by layer",
            query=40,
            probe=20,
            question="How far back does the last token's knowledge reach?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Two readings of one text

    Memory was easy to measure. Quality is where one deceives oneself. Here is the plain way: let
    the model read a text that exists, twice, with everything and under the window, and ask at every
    place what it expects next. No text is generated, so nothing can drift apart. The field calls
    this *teacher-forced*.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l04.compare_logits")
    return


@app.function
def compare_logits(
    full_logits: torch.Tensor, window_logits: torch.Tensor, targets: torch.Tensor
) -> tuple[float, float]:
    """Return `(agreement, nll_delta)`: what a window costs on a known text."""
    raise NotImplementedError("Exercise 4b.1: greedy agreement, and the loss that the window adds")


@app.cell(hide_code=True)
def _():
    compare_logits_attempt = attempt("l04.compare_logits", lambda: compare_logits)
    compare_logits_attempt
    return (compare_logits_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l04.compare_logits")
    return


@app.cell(hide_code=True)
def _(costs, model):
    _full, _by_window = costs(model)
    predict(
        "l04.cost",
        "Six passages of 256 characters that the shipped model has never read. With its whole context its loss is "
        f"{_full:.2f} nats per character. (Knowing nothing, it would be ln 65 = 4.17.) Now a window of **W = 16**, at which the post measures that 100 % of the text stays the same. "
        "The loss is then",
        (
            f"{_full + 0.01:.2f}: sixteen characters are nearly all it needs",
            f"about {_full + 0.2:.1f}",
            f"about {_full + 0.6:.1f}",
            "above 2.5: it forgets most of what it has learned",
        ),
        3,
        f"**{_full + _by_window[16, 0][1]:.2f}.** The window adds {_by_window[16, 0][1]:.2f} nats, and in {1 - _by_window[16, 0][0]:.0%} of the places another character becomes the most likely one. "
        f"Even W = 128 adds {_by_window[128, 0][1]:.2f}. Why that is so is the best question of this lesson; first make sure that it is measured right.",
    )
    return


@app.cell(hide_code=True)
def _(compare_logits_attempt, cost_chart, costs, model, whose):
    from course.figure import Figure

    after(
        "l04.cost",
        Figure(
            cost_chart(*costs(model, compare_logits_attempt), whose(compare_logits_attempt.started)),
            "How large must a window be until it costs nothing?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l04.cost",
        mo.md(r"""
    ### The metric lab

    How can the post see 100 %? Both are honest measurements. Its model was trained for 120 steps
    (`max_iters` in its file), it sampled one text of 40 tokens from one prompt, and it compared the
    texts place by place, with the same random numbers on both sides. So here is a model of the post's
    size, trained for 120 steps, beside the shipped one; W = 16, eight prompts of 10 characters
    instead of one, and four ways to compare:

    - **sampled**: the post's way; the share of 40 places at which two sampled texts agree
    - **greedy**: the same, with the most likely token each time
    - **teacher-forced**: your `compare_logits`, on text that neither has written
    - **needle**: a name that has spoken 90 characters ago; given the choice between it and another,
      does the model prefer it more than if it had not spoken? Chance is 50 %.
    """),
    )
    return


@app.cell(hide_code=True)
def _(metric_lab, model, small):
    after(
        "l04.cost",
        mo.md(metric_lab({"120 steps": small("small_120_steps"), "shipped": model})),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l04.cost",
        mo.md(r"""
    - By the loss, **a model of 120 steps loses nothing**. It has not learned to look at anything yet,
      so nothing can be hidden from it. What a window costs has to be measured on a model that is good.
    - **Sampled agreement** says something else in every cell. Near-ties flip, and from the first flip
      on two different texts are compared. The best prompt flatters, the worst one slanders, and one
      prompt is an anecdote. **Greedy texts** part in the same way, and two that are caught in the same
      loop agree for ever.
    - **Teacher-forced loss** asks every place the same question, and no draw can flatter it. It is an
      average, though: the few places that need the far past drown in it.
    - So the **needle** asks those alone. It is what a user notices first. At W = 16 it must be gone:
      nothing from 90 characters back can act at all (4 × 16 = 64). With 20 trials, take differences
      below 20 % as noise. The young model's 5 % is not: it expects a name *less* that has spoken.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Why?

    The post says why a window should be harmless: *attention weights decay roughly exponentially
    with distance*. If that is so, it should not matter much which layer gets the window.
    """)
    return


@app.cell(hide_code=True)
def _(added_by_layer, model, weights_by_distance):
    by_distance, on_sinks = weights_by_distance(model)
    _near = ", ".join(f"{by_distance[layer, :, :17].sum(-1).mean():.0%}" for layer in range(4))
    predict(
        "l04.layers",
        "Give **one** of the four layers a window of 16 and let the others see everything. In which layer does that add most to the loss?",
        (
            "In the first",
            "In the second or third",
            "In the last, which decides the next token",
            "In all of them about alike",
        ),
        0,
        "Added loss: " + ", ".join(f"layer {layer} {added:+.2f}" for layer, added in added_by_layer(model).items()) + f". The weight that lies within 16 back is, layer by layer, {_near}. "
        "Layer 0 does not decay at all: its heads spread their weight over everything there is, as if to take an **average of the text so far**. An average of 17 is not the average of 250, and every layer above was trained on the latter. "
        f"And the first positions are no sinks here: all four together get {on_sinks.sum(-1).mean():.1%} of a head's weight. Sinks are a habit of larger models, not a law.",
    )
    return by_distance, on_sinks


@app.cell(hide_code=True)
def _(AttentionByDistance, by_distance, on_sinks):
    after(
        "l04.layers",
        AttentionByDistance(
            by_distance.tolist(),
            16,
            "Attention weight by distance, six unread passages",
            sink_weights=on_sinks.tolist(),
            question="Which heads look beyond the window's cut?",
        ),
    )
    return


@app.cell(hide_code=True)
def _(layers_table, model):
    after(
        "l04.layers",
        mo.md(
            "So do not treat all layers alike. Layer 0 keeps everything, the other three get a window:\n\n"
            + layers_table(model)
            + "\n\nGemma 2 and 3 and gpt-oss are built, and trained, that way: layers with a window and layers without, mixed."
        ),
    )
    return


@app.cell(hide_code=True)
def _(model, seventeen):
    _all, _window, _fresh = seventeen(model, 16)
    _all_64, _window_64, _fresh_64 = seventeen(model, 64)
    predict(
        "l04.seventeen",
        "With W = 16 the model sees 17 characters. Now give it **the same 17 characters as a text of their own**, "
        "read afresh from position 0, for each prediction anew. Its loss?",
        (
            "The same as under the window: the same 17 characters, the same knowledge",
            "About halfway between that and the whole context",
            "Within 0.1 of the whole context, as if it had seen everything",
            "Worse than under the window: it has lost its place in the text",
        ),
        2,
        f"**{_fresh:.2f}**, where it has {_all:.2f} with everything and {_window:.2f} under the window, all three where a full window lies behind. (W = 64: {_fresh_64:.2f}, {_all_64:.2f}, {_window_64:.2f}.) "
        "Seventeen letters are nearly all that this model needs. What the window took away was not information. It left the model in a state that it has never been in: position 200, with no past. "
        "The price of reading afresh is 17 tokens computed for each one generated, which is lesson 0 undone.",
    )
    return


@app.cell(hide_code=True)
def _(twins_table):
    after(
        "l04.seventeen",
        mo.md(
            "That is the surprise to take home: **a window at run time does not fail because the far past matters, but because the model has never lived without one.** "
            "(StreamingLLM, Figure 1, saw the same on large models: a window alone collapses, a window that is recomputed for each token holds.) "
            "Then a model that has should not mind. Two twins of the post's size (4 layers, 32 channels), the same 6,000 steps, the same batches; one was trained with full attention, "
            "the other under a mask of W = 16 (`lessons/data/small_models.md`):\n\n"
            + twins_table()
            + "\n\nThe twins are as good as each other, each in its own world, and each is lost in the other's. This is Mistral's way, and the post says so: bake the window into the training mask. "
            "Then eviction is exact, and an engine that does *not* evict computes for nothing."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## When it breaks

    The post names three things that a window should hurt: recall, what is open and has to be closed,
    and repetition. None of our 65 characters is a bracket; what this text opens and has to close is a
    line and a name. Four texts of 120 characters, sampled by the shipped model:
    """)
    return


@app.cell(hide_code=True)
def _(model, plays_table):
    after(
        "l04.cost",
        mo.md(
            plays_table(model)
            + "\n\n**What is open is closed at random**: lines end and speakers change far too often, with sinks a little less so. "
            "**Repetition** goes the other way here. Greedy texts of this model run in circles when it sees everything, and hardly do under a window: "
            "to repeat yourself you have to remember what you said. Not every plausible harm is a measured one."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Position 64 in a table of 64

    And what does a window not bring? The README of the post's author promises of it *bounded memory usage, enabling serving of arbitrarily
    long conversations* (section 15). The model there has a position table of 64 rows. Here is such a
    table, and a prompt of 56 tokens under a window of 20.
    """)
    return


@app.cell(hide_code=True)
def _(end_of_the_table):
    mo.md(end_of_the_table())
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l04.position_64",
        "Never more than 20 KV tokens are held, and at position 64 it ends. **What does an endless chat need besides a window?**",
        (
            "A smaller window",
            "More sinks",
            "Positions that do not run out: relative ones, or new numbers for what is kept",
            "A larger KV budget",
        ),
        2,
        "The window bounds memory, not positions: token 64 is still token 64, and a learned table has no row for it. Keys carry their position baked in, so what is kept cannot simply be numbered anew. "
        "Rotary positions (RoPE) are applied to each key after the projection, so an engine can store keys unrotated and "
        "turn them by their place within the cache; StreamingLLM does that (section 3.2 of the paper). Our engine says no on arrival, with the numbers, instead of failing at token 64.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Cleverer than the last W

    *Keep the last W* is a guess about what will be looked at. One can ask instead. **H2O** (Zhang et
    al., 2023) keeps the recent entries and the *heavy hitters*, those with the most weight so far, each
    head its own. Here it is in small, each head allowed 32 entries, on the first of the passages:
    """)
    return


@app.cell(hide_code=True)
def _(keeping_table, model):
    after("l04.cost", mo.md(keeping_table(model)))
    return


@app.cell(hide_code=True)
def _():
    after(
        "l04.cost",
        mo.md(r"""
    Far better at equal memory. **FastGen** (Ge et al., 2023) goes on from there: it profiles each head
    once, by its attention over the prompt, and then keeps to one rule for that head. Now look at what it
    costs an engine. The weights have to be *read*, which fused attention kernels never write down; each
    head keeps other positions, so one mask no longer serves all; what is kept depends on what was asked,
    so a prefix can no longer be shared; and with two token budgets, two texts. A window is dumber and
    keeps every promise of this course.

    ## How production engines do it

    - **Mistral 7B v0.1** (Jiang et al., 2023, section 2) was trained with a window of 4,096 in every
      layer: after 32 layers its knowledge reaches about 131 thousand tokens back, the cone of this lesson.
    - **StreamingLLM** (Xiao et al., 2023, sections 3.1 and 3.2) found that large models put much weight
      on the first tokens, whatever they are, and that keeping four of them saves a window at run time.
      Our small model has no such habit, and four sinks save it only in part.

    ## What comes next

    In [lesson 5](/?file=l05_slo_policy.py) a request gets a deadline: which is late, which will be, and
    which is it still worth hurrying for?
    """),
    )
    return


if __name__ == "__main__":
    app.run()

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="8 · Speculative decoding")

with app.setup(hide_code=True):
    import json
    import random
    from collections import Counter
    from dataclasses import replace
    from pathlib import Path
    from statistics import fmean

    import marimo as mo
    import torch
    import torch.nn.functional as F

    import course
    from course.answers import load_parts
    from course.attempt import attempt, exhibit, piece
    from course.calling import call
    from course.prediction import after, hints, predict
    from course.replay import replay
    from course.task import task
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
    from nanogpt.fleet.speculating import BACKOFF_DRAFTS, Drafts, break_even
    from nanogpt.fleet.workload import FleetRequest
    from nanogpt.guard import PartError, guarded
    from nanogpt.masks import chunk_mask
    from nanogpt.metrics import percentile
    from nanogpt.sampling import probabilities
    from nanogpt.speculative import acceptance
    from nanogpt.speculative.drafting import propose
    from nanogpt.speculative.story import story
    from nanogpt.speculative.trigram import TrigramDraft
    from widgets import SpeculationStrip, Timeline


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 8 · Speculative decoding

    **45 minutes.** Builds on lesson 0 (decodes, the KV cache, what a step costs). You write four short functions.
    Afterwards you can decide which guessed tokens may stay so that nobody can tell the text from the slow one, say what guessing is worth
    before you build it, clean the cache up behind it, and recognise the loads where it makes things slower.

    ## Why is the next letter as expensive as the next five?

    A decode computes one token. Lesson 0 measured what a pass costs: a fixed part, whoever is in it, and a part for each token.
    """)
    return


@app.function(hide_code=True)
def shown(text: str) -> str:
    """A piece of text as Markdown code in a table cell: line breaks drawn, and spaces in short ones."""
    drawn = text.replace("\n", "⏎").replace("|", "/")
    return f"`{drawn if len(text) > 15 else drawn.replace(' ', '␣')}`" if text else "nothing"


@app.cell(hide_code=True)
def _():
    def _costs():
        record = Path(course.__file__).parents[1] / "lessons" / "data" / "step_costs.json"
        points = json.loads(record.read_text(encoding="utf-8"))["points"]
        return {each["tokens"]: each["us"] for each in points}

    def _table(laptop):
        gpu = {n: LARGE_GPU.step_us(0, n) for n in laptop}
        rows = (
            f"| {n} | {laptop[n] / 1000:.2f} ms, ×{laptop[n] / laptop[1]:.2f} | {gpu[n] / 1000:.2f} ms, ×{gpu[n] / gpu[1]:.2f} |"
            for n in (1, 2, 4, 8, 16, 64, 256)
        )
        return "\n".join(
            ["| tokens in the pass | our model on a CPU, measured once | a large GPU, modelled |", "|--:|--:|--:|", *rows]
        )

    mo.md(_table(_costs()))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    On the GPU eight tokens cost what one costs: a pass reads all weights from memory, once, and until the arithmetic takes as long as that, more
    tokens are free. On the CPU they are cheap, not free. Remember that; it comes back at the end.

    A prefill uses this, because it knows its tokens. A decode does not know the next one, so it goes one at a time. Unless somebody
    **guesses**. Then one pass can look at the last token and at four guesses behind it, all at once, and say after each what *it* would have said. What was
    guessed right is text that needed no pass of its own.

    Whose guess? Anything cheap. Here is the cheapest model of Shakespeare that there is: how often did each character follow each two, in the text that
    our model was trained on? It knows no words and no grammar; it is a table. It is called the **draft** model, and the one whose text we want the **target**.
    """)
    return


@app.cell
def _():
    model = load_model()
    draft = TrigramDraft.load()  # counts of three characters in a row, from the training text

    def chances(text):
        """What both think comes after `text`: the target's p and the draft's q, one number per character."""
        known = encode(text)
        with torch.inference_mode():
            logits, _ = model(torch.tensor([known]))  # (1, T, V)
        return probabilities(logits[0, -1:], 1.0)[0].tolist(), list(draft(known))

    def _favourites(numbers):
        best = sorted(range(len(numbers)), key=lambda token: -numbers[token])[:4]
        return ", ".join(f"{shown(decode([token]))} {numbers[token]:.0%}" for token in best)

    mo.md(
        "| the text so far | the target (sees all of it) | the draft (sees two characters) |\n|:--|:--|:--|\n"
        + "\n".join(
            f"| {shown(text)} | {_favourites(p)} | {_favourites(q)} |"
            for text in ("But so", "not to b", "Now is the wi", "O Ro")
            for p, q in [chances(text)]
        )
    )
    return chances, draft, model


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    (␣ is a space, ⏎ a line break.) Often they agree. Let it guess four characters ahead, and keep them as long as each is the one that the target finds likeliest: that is *greedy* decoding,
    temperature 0. At the first one that is not, the guess and all behind it go, and the target's own choice stands there instead. Step through the passes:
    """)
    return


@app.cell
def _(draft, model):
    OPENING = "ROMEO:\nBut soft, what light "
    four_ahead = EngineConfig(token_budget=64, num_draft_tokens=4)  # greedy
    first_run = Engine(model, four_ahead, draft=draft).run([(0, Request(0, encode(OPENING), 60))])
    return OPENING, first_run, four_ahead


@app.cell(hide_code=True)
def _(draft, first_run, four_ahead, model):
    SpeculationStrip(
        story(first_run, 0, model, draft, four_ahead), title="Sixty characters, four drafts ahead, greedy"
    )
    return


@app.function(hide_code=True)
def tally(trace, ids=None):
    """Passes that gave tokens, tokens, drafts, those looked at and those accepted, of some requests."""
    works = [w for s in trace.steps for w in s.work if w.tokens and (ids is None or w.request_id in ids)]
    return {
        "passes": len(works),
        "tokens": sum(len(w.tokens) for w in works),
        "drafted": sum(len(w.drafted) for w in works),
        "judged": sum(min(w.num_accepted + 1, len(w.drafted)) for w in works),
        "accepted": sum(w.num_accepted for w in works),
    }


@app.cell(hide_code=True)
def _(OPENING, first_run, model):
    def _said():
        counts = tally(first_run)
        same = list(first_run.generated_tokens(0)) == generate(model, encode(OPENING), 60)
        return (
            f"**{counts['passes']} passes for {counts['tokens']} characters.** The draft made {counts['drafted']} guesses; {counts['judged']} of them were looked at (none behind a "
            f"rejected one), and {counts['accepted']} stayed. Beside the oracle, which computes everything one by one, the text is **{'the same, character by character' if same else 'another one'}**."
        )

    mo.md(
        _said()
        + "\n\nThat is the whole promise: a bad draft makes it slow, and never wrong. Each pass gives **at least one** token, for where a guess is rejected the target has already said what stands there. And if all four stay, "
        "the row of the last one says what comes after it: the *bonus*, for nothing."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Which guess may stay when dice are thrown?

    Most servers do not decode greedily, they *sample*: each token is drawn from the target's probabilities p. Now there is no single right token that a guess could be
    compared with. What must not change is the **distribution**: over many runs, each token has to stand there exactly as often as p says.

    The rule is from two papers that found it at about the same time (Leviathan et al., 2022; Chen et al., 2023). The draft draws its guess from its own probabilities q. If it
    proposes a token less often than the target wants it, always keep it. If it proposes one too often, say twice as often, keep it half the time: with probability p / q. Somebody
    has to stand where a guess was rejected. Who?
    """)
    return


@app.function(hide_code=True)
def law_of(accept, p, q, parts=40):
    """How often each token stands there in the end, over all that can happen: drafts, u and v.

    Every draft comes as often as q says; u and v go through a grid. That is exact wherever all
    thresholds are multiples of 1 / parts.
    """
    law, grid = [0.0] * len(p), [(i + 0.5) / parts for i in range(parts)]
    for token, chance in enumerate(q):
        for u in grid:
            for v in grid:
                law[accept(p, q, token, u, v)[1]] += chance / parts**2
    return law


@app.cell(hide_code=True)
def _():
    WANTED = {"a": 1 / 8, "b": 2 / 8, "c": 5 / 8}  # p
    PROPOSED = {"a": 5 / 8, "b": 1 / 8, "c": 2 / 8}  # q

    def _from_p(p, q, token, u, v):
        return (True, token) if u * q[token] < p[token] else (False, acceptance.draw(p, v))

    def _from_q(p, q, token, u, v):
        return (True, token) if u * q[token] < p[token] else (False, acceptance.draw(q, v))

    def _compare(p, q, others):
        return {name: law_of(rule, p, q) for name, rule in others.items()}

    laws = _compare(
        list(WANTED.values()),
        list(PROPOSED.values()),
        {"from q again": _from_q, "from p": _from_p, "from what is missing": acceptance.accept},
    )
    return PROPOSED, WANTED, laws


@app.cell(hide_code=True)
def _(laws):
    def _reveal():
        from_p, right = laws["from p"], laws["from what is missing"]
        return (
            f"Take three tokens with p = 1/8, 2/8, 5/8 and q = 5/8, 1/8, 2/8. With a second draw from p, they stand there {', '.join(f'{8 * each:g}/8' for each in from_p)} of the time. "
            f"The first of them comes {from_p[0] / right[0] - 1:.0%} too often: the draft proposes it too often, it is thinned out to just p, and then it gets a **second chance**. The last word was the target's, and the sum is wrong all the same."
        )

    predict(
        "l08.resample",
        "A guess was rejected, rightly. Now the token is drawn from **p**, the target's own probabilities. Is the outcome distributed as p?",
        (
            "Yes: whoever is rejected is replaced by the target itself",
            "Yes, if the draft is good enough",
            "No: what the draft likes comes too often",
            "No: what the draft likes comes too seldom",
        ),
        2,
        _reveal(),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l08.resample",
        mo.md(r"""
    Here are the three tokens, each block an eighth. █ comes in as a guess that stays. ░ is proposed too often and goes. ▒ is wanted, and proposed too seldom.
    """),
    )
    return


@app.cell(hide_code=True)
def _(PROPOSED, WANTED):
    def _row(name):
        p, q = round(8 * WANTED[name]), round(8 * PROPOSED[name])
        stays = min(p, q)
        return (
            f"| {name} | {'█' * stays}{'▒' * (p - stays)} {p}/8 | {'█' * stays}{'░' * (q - stays)} {q}/8 | {p / q if p < q else 1:.2g} | {max(0, p - q)}/8 |"
        )

    after("l08.resample", mo.md(
        "| token | the target wants it: p | the draft proposes it: q | a guess of it stays with probability | missing |\n|:--|:--|:--|--:|--:|\n"
        + "\n".join(map(_row, WANTED))
    ))
    return


@app.cell(hide_code=True)
def _(laws):
    def _eighths(numbers):
        return " | ".join(f"{8 * each:g}/8" for each in numbers)

    after("l08.resample", mo.md(
        "There are as many ░ as ▒, four: always, since both columns sum to 1. So every time that a guess goes, one of the missing has to come, **each as often as it is missing**. "
        "Then nothing is too much and nothing too little:\n\n"
        "| where a guess was rejected, draw | a | b | c |\n|:--|--:|--:|--:|\n"
        + "\n".join(f"| {name} | {_eighths(law)} |" for name, law in laws.items())
        + f"\n| **wanted, p** | {_eighths([1 / 8, 2 / 8, 5 / 8])} |\n\nNot sampled: integrated over every guess and all random numbers."
    ))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Which drafts stay

    Write the rule. The two random numbers are handed in, so that the same numbers give the same text everywhere: `u` decides, `v` draws.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l08.accept")
    return


@app.function
def accept(p: list[float], q: list[float], token: int, u: float, v: float) -> tuple[bool, int]:
    """Return `(kept, token)`: whether the drafted token stays, and which token stands there then."""
    raise NotImplementedError("Exercise 8.1: does the draft stay, and if not, who stands there?")


@app.cell(hide_code=True)
def _():
    accept_attempt = attempt("l08.accept", lambda: accept)
    accept_attempt
    return (accept_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l08.accept")
    return


@app.cell(hide_code=True)
def _(PROPOSED, WANTED, accept_attempt):
    def _yours():
        if not accept_attempt.started:
            return "Once you have written `accept`, its law over the three tokens is worked out here, exactly."
        p, q = list(WANTED.values()), list(PROPOSED.values())
        found = call(law_of, (accept_attempt.function, p, q)).value
        if found is None:
            return "The law of your `accept` cannot be worked out; the check says more."
        said = "exactly p" if all(abs(a - b) < 1e-9 for a, b in zip(found, p, strict=True)) else "**not p**, which is 1/8, 2/8 and 5/8"
        return f"By your `accept`, the three tokens stand there {', '.join(f'{8 * each:.4g}/8' for each in found)} of the time: {said}."

    mo.md(_yours())
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Greedy decoding is the same rule: put all of p and all of q on the likeliest token each, and *p / q* is 1 where they agree and 0 where not.

    ## What is it worth?

    The project that lessons 7 and 8 grew from says so in its description. Its draft model costs a tenth of a target pass per token, guesses K = 4 tokens ahead, and each guess is accepted with
    probability p = 0.85. It gives the speed-up as (1 + K·p) / (1 + α), which is (1 + 4 · 0.85) / 1.1, about **4.0 times**.
    """)
    return


@app.cell(hide_code=True)
def _():
    def _reveal(p, k, alpha):
        return (
            f"A pass gives {acceptance.expected_tokens(p, k):.3f} tokens and a round takes 1 + 4 · 0.1 = {1 + k * alpha:g} passes' time: **{acceptance.speedup(p, k, alpha):.2f} times**. "
            f"And 4.0 cannot be, whatever the draft: a *perfect* one, p = 1, gives {k + 1} tokens in {1 + k * alpha:g}, which is **{acceptance.speedup(1.0, k, alpha):.2f}**. "
            f"The claim is more than its own system could do with every guess right. (Break-even is at p = {break_even(k, alpha):.2f}; the description has about 0.6.)"
        )

    predict(
        "l08.four_times",
        "p = 0.85, K = 4, a draft token costs 0.1 of a target pass, and a verifying pass takes as long as a decode. **How many times as fast** is it really?",
        ("About 4.0", "About 3.4", "About 2.65", "About 1.4"),
        2,
        _reveal(0.85, 4, 0.1),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Tokens in a pass

    A guess counts only if all in front of it stayed. And whatever happens, the target adds one token of its own.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l08.expected_tokens")
    return


@app.function
def expected_tokens(p: float, k: int) -> float:
    """Return how many tokens one verifying pass yields on average when `k` tokens were drafted."""
    raise NotImplementedError("Exercise 8.2: tokens per pass, on average")


@app.cell(hide_code=True)
def _():
    tokens_attempt = attempt("l08.expected_tokens", lambda: expected_tokens)
    tokens_attempt
    return (tokens_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l08.expected_tokens")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### What it is worth

    Follow one round with a watch. `alpha` is what a drafted token costs, in passes of the target.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l08.speedup")
    return


@app.function
def speedup(p: float, k: int, alpha: float) -> float:
    """Return how many times as fast as plain decoding speculation is: 2 is twice, 0.5 half as fast."""
    raise NotImplementedError("Exercise 8.3: how many times as fast?")


@app.cell(hide_code=True)
def _():
    speedup_attempt = attempt("l08.speedup", lambda: speedup)
    speedup_attempt
    return (speedup_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l08.speedup")
    return


@app.cell(hide_code=True)
def _(speedup_attempt, tokens_attempt):
    def _grid(rule):
        return {(p, k): rule(p, k, 0.1) for p in (0.2, 0.4, 0.6, 0.85, 0.95) for k in (1, 2, 4, 8, 16)}

    def _table():
        values, whose = _grid(acceptance.speedup), "by the reference: yours is not written yet"
        if speedup_attempt.started and tokens_attempt.started:
            mine = call(_grid, (speedup_attempt.function,)).value
            if mine and all(isinstance(each, int | float) for each in mine.values()):
                values, whose = mine, "by your `speedup`"

        def cell(p, k):
            best = max(values[p, other] for other in (1, 2, 4, 8, 16))
            said = f"{values[p, k]:.2f}"
            return f"**{said}**" if values[p, k] == best and best > 1 else said

        return (
            f"Speed-up for α = 0.1, {whose}; each line's best K in bold:\n\n"
            "| p | K = 1 | 2 | 4 | 8 | 16 |\n|--:|--:|--:|--:|--:|--:|\n"
            + "\n".join(f"| {p:g} | {' | '.join(cell(p, k) for k in (1, 2, 4, 8, 16))} |" for p in (0.2, 0.4, 0.6, 0.85, 0.95))
        )

    def _edges():
        return ", ".join(f"{break_even(k, 0.1):.2f} for K = {k}" for k in (1, 2, 4, 8))

    after("l08.four_times", mo.md(
        f"{_table()}\n\nA long guess is a bet on all of its letters at once: with p = 0.4 anything beyond two is paid for in vain. Break-even, the p at which a round brings what it costs: {_edges()}. "
        "For one draft it is α itself: p tokens more for α more time."
    ))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What does the cache remember?

    The verifying pass computed K and V of everything it looked at, the rejected guesses included. Here are three passes from the top of this page. Above: whose K/V the cache
    holds when the pass is over. Below: the text as it then is, up to the token that the target added.
    """)
    return


@app.cell(hide_code=True)
def _(OPENING, first_run):
    def _passes():
        """One pass in which nothing was accepted, one with some, one with all."""
        known, rows = encode(OPENING), {}
        for step in first_run.steps:
            for work in step.work:
                if work.drafted:
                    kind = (work.num_accepted > 0) + (work.num_accepted == len(work.drafted))
                    held, text = [*known, *work.drafted], [*known, *work.tokens]
                    start = len(known) - 3
                    shape = (len(work.drafted), work.num_accepted, len(held))
                    rows.setdefault(kind, (start, decode(held[start:]), decode(text[start:]), *shape))
                known += work.tokens
        return [rows[kind] for kind in sorted(rows)]

    def _letters(text, width):
        return " | ".join(shown(each) for each in text) + " | " * (width - len(text))

    def _table(start, held, text, drafted, accepted, total):
        width = max(len(held), len(text))
        head = " | ".join(str(start + i) for i in range(width))
        return (
            f"{drafted} drafted, {accepted} accepted; {total} KV tokens held:\n\n| position | {head} |\n|:--|{':-:|' * width}\n"
            f"| K/V held | {_letters(held, width)} |\n| the text | {_letters(text, width)} |"
        )

    mo.md("\n\n".join(_table(*each) for each in _passes()))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### What the cache forgets

    Where the two lines differ, a query would look at the K/V of a letter that nobody ever wrote. How many entries, counted from the front, are good?
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l08.roll_back_kv")
    return


@app.function
def roll_back_kv(held: int, num_drafted: int, num_accepted: int) -> int:
    """Return how many KV tokens a request keeps after a verifying pass, counted from the front."""
    raise NotImplementedError("Exercise 8.4: how many entries of the cache stay?")


@app.cell(hide_code=True)
def _():
    roll_back_attempt = attempt("l08.roll_back_kv", lambda: roll_back_kv)
    roll_back_attempt
    return (roll_back_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l08.roll_back_kv")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your engine, guessing ahead

    The real engine does all that for every decode of a step: it drafts as far as the token budget has room, verifies all rows in one pass, asks your `accept` about each guess and your `roll_back_kv` about each
    cache. In float64, so that no rounding can flip a letter. Three requests, one of them late; prefills go on as before. The picture compares your run with the reference's, step by step; below it are the guesses of one request.
    """)
    return


@app.cell
def _():
    LINES = [  # arrival step, prompt, new tokens
        (0, "ROMEO:\nBut soft, what light ", 40),
        (0, "JULIET:\nO Romeo, Romeo! ", 40),
        (6, "First Citizen:\nWe are accounted poor ", 30),
    ]

    def play():
        """Fresh requests of the same prompts: the engine writes into the ones it is given."""
        return [(step, Request(i, encode(text), n)) for i, (step, text, n) in enumerate(LINES)]

    exact = load_model(dtype=torch.float64)
    greedy = EngineConfig(token_budget=32, num_draft_tokens=4)
    return exact, greedy, play


@app.cell
def _(accept_attempt, draft, exact, greedy, play, roll_back_attempt):
    earlier = load_parts("l08_speculation")  # what you wrote in earlier lessons and passed
    yours = replace(
        earlier.parts,
        accept=accept_attempt.or_reference(acceptance.accept),
        roll_back_kv=roll_back_attempt.or_reference(acceptance.roll_back_kv),
    )
    your_trace = replay(Engine(exact, greedy, yours, draft=draft), play(), 300)
    reference_trace = Engine(exact, greedy, draft=draft).run(play())
    plain_trace = Engine(exact, replace(greedy, num_draft_tokens=0)).run(play())
    Timeline(
        your_trace.to_json(),
        reference_trace.to_json(),
        title="Three requests, up to four drafts ahead of each, greedy",
        group="stage",
    )
    return earlier, plain_trace, reference_trace, your_trace, yours


@app.cell(hide_code=True)
def _(draft, exact, greedy, your_trace):
    def _picture():
        try:
            return SpeculationStrip(
                story(your_trace, 0, exact, draft, greedy), title="Request 0, by your engine, pass by pass"
            )
        except ValueError:
            return mo.md("The run stopped before request 0 got a token; there is nothing to draw.")

    _picture()
    return


@app.cell(hide_code=True)
def _(
    accept_attempt,
    earlier,
    exact,
    plain_trace,
    play,
    reference_trace,
    roll_back_attempt,
    your_trace,
):
    def _whose():
        parts = {"accept": accept_attempt, "roll_back_kv": roll_back_attempt}
        mine = [f"`{name}`" for name, each in parts.items() if each.started]
        others = [f"`{name}`" for name, each in parts.items() if not each.started]
        if not mine:
            said = "This run used the reference for `accept` and `roll_back_kv`: not written yet."
        elif not others:
            said = "`accept` and `roll_back_kv` of this run are yours."
        else:
            said = f"In this run {mine[0]} came from you and {others[0]} from the reference."
        return f"{said} Of the earlier lessons: {earlier.sentence}"

    def _row(request, mine, plain):
        i = request.id
        wanted = generate(exact, request.prompt_tokens, request.max_new_tokens)
        got = list(mine.generated_tokens(i))
        same = next((at for at, pair in enumerate(zip(got, wanted, strict=False)) if pair[0] != pair[1]), None)
        verdict = f"differs from character {same} on" if same is not None else "the oracle's" if got == wanted else "stops early"
        return f"| {i} | {tally(plain, [i])['passes']} | {tally(mine, [i])['passes']} | {verdict} | {shown(decode(got))} |"

    def _gave(work):
        return f"{work.num_accepted} of {len(work.drafted)} drafts, and then {shown(decode([work.sampled]))}"

    def _first_difference():
        """The first share of a step in which two runs part, as a sentence."""
        for mine, right in zip(your_trace.steps, reference_trace.steps, strict=False):
            for one, other in zip(mine.work, right.work, strict=False):
                if one != other and None not in (one.sampled, other.sampled):
                    return (
                        f"It is **not the reference's run**. They part in step {mine.step}: of request {one.request_id}, yours kept "
                        f"{_gave(one)}; the reference kept {_gave(other)}."
                    )
        return "It is not the reference's run."

    def _verdict():
        if your_trace.error:
            return f"**The run stopped early**, in step {len(your_trace.steps)}: {your_trace.error}"
        if your_trace.steps == reference_trace.steps:
            return "Step for step, it is the reference's run."
        return _first_difference()

    mo.md(
        f"{_whose()} {_verdict()}\n\n"
        "| request | passes without drafts | with | its text is | what it got |\n|--:|--:|--:|:--|:--|\n"
        + "\n".join(_row(request, your_trace, plain_trace) for _, request in play())
        + f"\n\n{len(plain_trace.steps)} steps without drafts, {len(your_trace.steps)} with."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## When it throws dice, what does *the same* mean?

    At temperature 1 the same seed gives **another text** with drafts than without: a guess that stays is a letter drawn by the draft, with the draft's random number. Not one text is promised but their distribution. How does one test a promise like that?
    """)
    return


@app.cell
def _(chances, draft, exact, yours):
    PLACE = "KING RICHARD III:\nNow is the wi"

    def judged_often(accept, p, q, times):
        """Which token stood there how often, over random drafts; and how many drafts stayed."""
        dice, counts, kept = random.Random(8), [0] * len(p), 0
        for token in dice.choices(range(len(q)), q, k=times):
            stays, stands = accept(p, q, token, dice.random(), dice.random())
            counts[stands] += 1
            kept += stays
        return counts, kept

    def texts(num_draft_tokens, parts, num_requests=150):
        """Three sampled characters for each of many requests with the same prompt."""
        config = EngineConfig(
            token_budget=2048,
            max_batch_size=num_requests,
            temperature=1.0,
            seed=8,
            num_draft_tokens=num_draft_tokens,
        )
        requests = [(0, Request(i, encode("O, "), 3)) for i in range(num_requests)]
        trace = replay(Engine(exact, config, parts, draft=draft), requests)
        return ["".join(decode(trace.generated_tokens(i))) for i in range(num_requests)], trace.error

    place_p, place_q = chances(PLACE)
    engine_texts, engine_error = texts(1, yours)
    return (
        PLACE,
        engine_error,
        engine_texts,
        judged_often,
        place_p,
        place_q,
        texts,
    )


@app.cell(hide_code=True)
def _(PLACE, accept_attempt, judged_often, place_p, place_q):
    TIMES = 20_000

    def counted_table(rule, whose, names=5):
        """What comes out at one place of a text by a rule, beside p, and what chance explains."""
        found = call(judged_often, (rule, place_p, place_q, TIMES)).value
        if found is None:
            return f"By {whose} it cannot be counted; the check says more."
        counts, kept = found
        rows = []
        for token in sorted(range(len(place_p)), key=lambda token: -max(place_p[token], place_q[token]))[:names]:
            p, share = place_p[token], counts[token] / TIMES
            error = (p * (1 - p) / TIMES) ** 0.5
            off = abs(share - p) / error if error else float(share > 0) * 99
            rows.append(f"| {shown(decode([token]))} | {place_q[token]:.1%} | {p:.1%} | {share:.1%} | {'**' if off > 4 else ''}{off:.1f}{'**' if off > 4 else ''} |")
        return (
            f"{TIMES:,} guesses after {shown(PLACE)}, judged by {whose}; {kept / TIMES:.0%} stayed.\n\n"
            "| what stands there | the draft, q | wanted, p | came out | off by, in standard errors |\n|:--|--:|--:|--:|--:|\n" + "\n".join(rows)
        )

    mo.md(
        counted_table(
            accept_attempt.or_reference(acceptance.accept),
            "your `accept`" if accept_attempt.started else "the reference's `accept`: yours is not written yet",
        )
    )
    return (counted_table,)


@app.cell(hide_code=True)
def _(engine_error, engine_texts, exact, texts):
    def _second_law():
        """The exact chances of the second character after the prompt, over every first one."""
        with torch.inference_mode():
            known = encode("O, ")
            first = probabilities(exact(torch.tensor([known]))[0][0, -1:], 1.0)[0]  # (V,)
            every = torch.tensor([[*known, token] for token in range(len(first))])  # (V, T)
            return (first @ probabilities(exact(every)[0][:, -1], 1.0)).tolist()

    def _chi_square(seen, law, total):
        """Over the characters expected at least five times, and all the others together."""
        often = [token for token, p in enumerate(law) if p * total >= 5]
        wanted = [law[token] * total for token in often]
        found = [seen[decode([token])] for token in often]
        wanted, found = [*wanted, total - sum(wanted)], [*found, total - sum(found)]
        return sum((f - w) ** 2 / w for f, w in zip(found, wanted, strict=True)), len(often)

    def _said():
        if engine_error:
            return f"**The engine's run stopped early:** {engine_error}"
        plain, _ = texts(0, Parts())  # the engine's own parts
        alike = sum(a == b for a, b in zip(plain, engine_texts, strict=True))
        law, total = _second_law(), len(engine_texts)
        (mine, freedom), (other, _) = (_chi_square(Counter(text[1] for text in each), law, total) for each in (engine_texts, plain))
        return (
            f"And the whole engine: {total} requests with the prompt {shown('O, ')}, three characters each. With the same seeds, **{alike} of the {total} texts are those without drafts**. The second character is the first that a draft may have written. Against its exact "
            f"probabilities the χ² of the run with drafts is {mine:.1f}, without drafts {other:.1f}; chance alone gives {freedom} on average, give or take {(2 * freedom) ** 0.5:.0f}."
        )

    mo.md(_said())
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    A test by counting finds coarse errors, and only at places where p and q differ. The table of the three tokens, integrated instead of sampled, finds any. That is why the check of 8.1 works it out exactly, and why who tests a sampler by counting needs a great many draws.

    ## Break it

    Five defects. Look at the symptom, decide what is wrong, then **repair the function in its cell**: what is shown below it and its check answer.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit A: the winter that seldom comes

    Every text looks like Shakespeare, greedy ones equal the oracle's, and the engine finds nothing to complain about. Only after many thousands of texts somebody notices that Richard's *Now is the wi…* goes on with an *n* far too seldom.
    """)
    return


@app.function
def exhibit_a(p, q, token, u, v):
    """Whether the drafted token stays, and which token stands there then."""
    if u * q[token] < p[token]:
        return True, token
    total = 0.0
    for other, weight in enumerate(p):
        total += weight
        if total > v * sum(p):
            return False, other
    return False, len(p) - 1


@app.cell(hide_code=True)
def _(counted_table):
    mo.md(counted_table(piece(lambda: exhibit_a), "exhibit A"))
    return


@app.cell(hide_code=True)
def _(place_p, place_q):
    def _excess():
        kept = sum(map(min, place_p, place_q))
        law = [min(p, q) + (1 - kept) * p for p, q in zip(place_p, place_q, strict=True)]
        moved = sum(abs(a - b) for a, b in zip(law, place_p, strict=True)) / 2
        token = min(range(len(law)), key=lambda token: law[token] - place_p[token])
        return f"Worked out instead of counted: {shown(decode([token]))} comes {law[token]:.1%} of the time instead of {place_p[token]:.1%}, and {moved:.1%} of all probability lies on the wrong letters."

    predict(
        "l08.exhibit_a",
        "What the draft proposes a lot comes out too often, and what it hardly proposes far too seldom. **What is broken?**",
        (
            "The comparison: it should be u ≤ p / q",
            "After a rejection it draws from p instead of from what is missing",
            "The draft was counted from too little text",
            "It should draw with u again instead of v",
        ),
        1,
        f"{_excess()} This is the defect of the prediction above, on real Shakespeare. No single text shows it, and greedy decoding never does: there the missing part and p are the same.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l08.exhibit_a", exhibit("A", "l08.accept", lambda: exhibit_a))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: four times as fast

    The formula of the description, as a function. Beside it a machine that does exactly what the text assumes: it drafts, throws a die for each guess, verifies, and looks at its watch, for 20,000 rounds.
    """)
    return


@app.function
def exhibit_b(p, k, alpha):
    """How many times as fast as plain decoding speculation is."""
    return (1 + k * p) / (1 + alpha)


@app.function
def rounds(p, k, alpha, times=20_000):
    """Tokens per pass and tokens per unit of time of a machine that drafts and verifies, dice thrown."""
    dice, tokens, time = random.Random(8), 0, 0.0
    for _ in range(times):
        time += k * alpha + 1  # the draft runs once for every guess, the target once
        accepted = 0
        while accepted < k and dice.random() < p:
            accepted += 1
        tokens += accepted + 1
    return tokens / times, tokens / time


@app.function(hide_code=True)
def number(function, *args):
    """What an exhibit says, or that it says nothing."""
    value = call(function, args).value
    return f"{value:.3f}" if isinstance(value, int | float) else "nothing"


@app.cell(hide_code=True)
def _():
    thrown = {p: rounds(p, 4, 0.1) for p in (0.0, 0.29, 0.85, 1.0)}
    mo.md(
        "| p (K = 4, α = 0.1) | exhibit B | the machine, dice thrown |\n|--:|--:|--:|\n"
        + "\n".join(f"| {p:g} | {number(piece(lambda: exhibit_b), p, 4, 0.1)} | {speed:.3f} |" for p, (_, speed) in thrown.items())
    )
    return (thrown,)


@app.cell(hide_code=True)
def _():
    predict(
        "l08.exhibit_b",
        "At p = 1 nothing is ever rejected, and still the formula and the machine do not agree. **What is broken?** (Two things; which one shows at p = 1?)",
        (
            "It forgets the token that the target adds",
            "It charges for one drafted token, and the draft model runs K times",
            "It takes the guesses for independent",
            "It divides by the wrong machine's time",
        ),
        1,
        f"The draft has to know its own last guess before it can make the next: K runs, 1 + K·α in all. That alone makes {5 / 1.1:.2f} of {5 / 1.4:.2f}. Below p = 1 comes the second: 1 + K·p counts every guess by itself, as if those behind a rejected one could stay. "
        f"At p = 0.85 that is {1 + 4 * 0.85:.2f} tokens per pass instead of {acceptance.expected_tokens(0.85, 4):.2f}. Both errors point the same way, and the result is {(1 + 4 * 0.85) / 1.1:.2f}, published as 4.0.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l08.exhibit_b", exhibit("B", "l08.speedup", lambda: exhibit_b))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit C: 2.71 tokens per step

    The same description, a few lines above: *E[accepted] = Σ k · pᵏ · (1 − p) + K · pᴷ ≈ 2.71 tokens/step*. This one is no slip of the pen. Each term is right.
    """)
    return


@app.function
def exhibit_c(p, k):
    """How many tokens one verifying pass yields on average."""
    stopped = sum(i * p**i * (1 - p) for i in range(k))
    return stopped + k * p**k


@app.cell(hide_code=True)
def _(thrown):
    mo.md(
        "| p (K = 4) | exhibit C | tokens per pass of the machine |\n|--:|--:|--:|\n"
        + "\n".join(f"| {p:g} | {number(piece(lambda: exhibit_c), p, 4)} | {tokens:.3f} |" for p, (tokens, _) in thrown.items())
    )
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l08.exhibit_c",
        "At p = 0 exhibit C promises a machine that stands still. **What is broken?**",
        (
            "The sum should start at 1",
            "p should be the probability of a rejection",
            "It counts what is accepted, and not what the target adds in every pass",
            "The last term should be (K + 1) · pᴷ",
        ),
        2,
        f"2.71 is right for the question *how many guesses are accepted*. The text has one token more in every pass, in the place of the first rejected guess or, as a bonus, behind the last: **{acceptance.expected_tokens(0.85, 4):.3f}**. "
        "So one page has 2.71, which is too low, and 4.0, which is too high, and both of the same machine. Repairing only the last term mends the clean passes and leaves the others one short.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l08.exhibit_c", exhibit("C", "l08.expected_tokens", lambda: exhibit_c))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit D: what was never said

    Our engine would refuse this one with a sentence. So here is the smallest speculative decoder that there is, greedy and for one text, which believes what it is told:
    """)
    return


@app.function
@torch.inference_mode()
def speculate(model, prompt, max_new_tokens, draft, k, roll_back_kv):
    """Continue `prompt` greedily, k guesses ahead. Return the new tokens and what each pass held."""
    tokens, cache, passes = list(prompt), {}, []  # layer -> K and V (2, S, H, D)

    def attend(layer, q, k, v):  # (T, H, D) each
        new = torch.stack([k, v])
        cache[layer] = torch.cat([cache[layer], new], dim=1) if layer in cache else new
        keys, values = cache[layer].transpose(1, 2)  # (H, S, D) each
        mask = chunk_mask(keys.shape[1] - len(q), len(q))  # (T, S)
        return F.scaled_dot_product_attention(q.transpose(0, 1), keys, values, mask).transpose(0, 1)

    while len(tokens) < len(prompt) + max_new_tokens:
        fed, guesses = (tokens[-1:], guess(draft, tokens, k)) if cache else (list(tokens), [])
        start = len(tokens) - len(fed)
        ids = torch.tensor([*fed, *guesses])
        hidden = model.hidden(ids, torch.arange(start, start + len(ids)), attend)
        wanted = model.logits(hidden)[len(fed) - 1 :].argmax(-1).tolist()  # after fed, and each guess
        accepted = 0
        while accepted < len(guesses) and guesses[accepted] == wanted[accepted]:
            accepted += 1
        tokens += [*guesses[:accepted], wanted[accepted]]
        keep = roll_back_kv(cache[0].shape[1], len(guesses), accepted)
        cache = {layer: kv[:, : max(keep, 0)] for layer, kv in cache.items()}
        passes.append((len(guesses), accepted, keep, len(tokens) - 1))
    return tokens[len(prompt) :][:max_new_tokens], passes


@app.function
def guess(draft, tokens, k):
    """The draft's likeliest next k tokens."""
    known = list(tokens)
    for _ in range(k):
        q = draft(known)
        known.append(max(range(len(q)), key=lambda token: q[token]))
    return known[len(tokens) :]


@app.function
def exhibit_d(held, num_drafted, num_accepted):
    """How many KV tokens stay after a verifying pass: what is computed need not be computed again."""
    return held


@app.cell(hide_code=True)
def _(OPENING, draft, exact):
    def _run():
        prompt = encode(OPENING)
        oracle = generate(exact, prompt, 60)
        try:
            rule = guarded("exhibit_d", piece(lambda: exhibit_d))
            got, passes = speculate(exact, prompt, 60, draft, 4, rule)
        except (PartError, IndexError, TypeError, RuntimeError) as error:
            return f"**The decoder stopped:** {error}"
        at = next((i for i, (a, b) in enumerate(zip(got, oracle, strict=True)) if a != b), None)
        rows = "\n".join(f"| {i} | {n} | {a} | {keep} | {known} |" for i, (n, a, keep, known) in enumerate(passes[:6]))
        verdict = "They are the same." if at is None else f"They part after {at} characters."
        return (
            f"| pass | drafted | accepted | K/V kept | tokens known, but for the last |\n|--:|--:|--:|--:|--:|\n{rows}\n\n"
            f"{len(passes)} passes. The oracle: {shown(decode(oracle))}\n\nExhibit D: {shown(decode(got))}\n\n{verdict}"
        )

    mo.md(_run())
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l08.exhibit_d",
        "Nothing crashes, the first letters are right, and then it is another text. **What is broken?**",
        (
            "The draft guesses from the wrong text",
            "The mask lets guesses see each other",
            "The cache keeps entries of letters that are not in the text",
            "Float64 is not exact enough",
        ),
        2,
        "Compare the two last columns: the cache has more entries than the text has letters. Each rejected guess stays behind as a ghost that every later letter attends to, and the ghosts add up. "
        "The acceptance suffers too, since the target now thinks of a text that the draft has never seen: in production, a rate that falls with the length of the answer is the symptom to look for.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l08.exhibit_d", exhibit("D", "l08.roll_back_kv", lambda: exhibit_d))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit E: the benchmark that knew the answers

    Another cheap draft, and a popular one: look up the last five characters in what was written before, and propose what followed there. It learns from what the server writes. A benchmark runs its four prompts once to warm up, then again with the clock running. Between the two, `exhibit_e` decides what the draft remembers.
    """)
    return


@app.function
def exhibit_e(memory):
    """What the draft remembers when the benchmark begins, given all that was written so far."""
    return memory


@app.function
def look_up(memory, num_characters=5):
    """A draft that proposes what followed the last few characters where they last stood."""

    def lookup_draft(known):
        text = memory + decode(known)
        at = text.rfind(text[-num_characters:], 0, len(text) - 1)
        follower = encode(text[at + num_characters])[0] if at >= 0 else encode(" ")[0]
        return [float(token == follower) for token in range(65)]

    return lookup_draft


@app.cell(hide_code=True)
def _(four_ahead, model):
    def _serve(memory):
        prompts = ("ROMEO:\nWhat say", "JULIET:\nO, my l", "GLOUCESTER:\nMy ", "First Citizen:\n")
        requests = [(0, Request(i, encode(text), 80)) for i, text in enumerate(prompts)]
        trace = Engine(model, replace(four_ahead, token_budget=96), draft=look_up(memory)).run(requests)
        written = "".join(f"{text}{decode(trace.generated_tokens(i))}\n" for i, text in enumerate(prompts))
        return tally(trace), written

    def _said():
        first, written = _serve("")
        memory = call(piece(lambda: exhibit_e), (written,)).value
        if not isinstance(memory, str):
            return "`exhibit_e` has to give a text."
        second, again = _serve(memory)
        rows = (
            f"| {name} | {each['passes']} | {each['accepted'] / each['judged']:.0%} | {each['tokens'] / each['passes']:.2f} |"
            for name, each in (("warming up", first), ("measured", second))
        )
        same = "The texts of both runs are the same." if again == written else "The texts differ."
        return "\n".join(["| run | passes | accepted of those looked at | tokens per pass |", "|:--|--:|--:|--:|", *rows]) + f"\n\n{same}"

    mo.md(_said())
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l08.exhibit_e",
        "The texts are right in both runs, and the second is served in far fewer passes. **What is wrong with the figure?**",
        (
            "The second run is greedy, the first was not",
            "The draft looks its answers up: they are in what it remembers",
            "The first run paid for the prefill",
            "Nothing: drafts get better with time",
        ),
        1,
        "The draft proposes what the target wrote for the very same prompts a moment ago. A draft cannot make a text wrong, so no test of texts can notice. Only the *speed* is wrong: nobody else's prompt will see it. Let it remember nothing, `return \"\"`, or measure with prompts that it has not met. "
        "(Where users do ask the same again, remembering is a feature, and then it has to be measured on such a load.)",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Measure it, including where it loses

    ### How many guesses stay?

    Eight openings, 64 characters each, our model and its trigram draft. *p* is the share of the guesses looked at that stayed; the formula is yours from 8.2, with that p.
    """)
    return


@app.cell
def _(draft, model):
    OPENINGS = (
        "ROMEO:\nWhat say",
        "JULIET:\nO, my l",
        "KING RICHARD:\nN",
        "First Citizen:\n",
        "Shall I be plai",
        "Come, sir, and h",
        "GLOUCESTER:\nMy ",
        "The king is not",
    )

    def serve(num_drafts, temperature, batch=8, new_tokens=64, clock=None):
        """The first openings, all at once; the drafts have room."""
        config = EngineConfig(
            token_budget=256, temperature=temperature, seed=1, num_draft_tokens=num_drafts
        )
        requests = [(0, Request(i, encode(text), new_tokens)) for i, text in enumerate(OPENINGS[:batch])]
        return Engine(model, config, clock=clock or CostClock(), draft=draft).run(requests)

    def full_passes(trace, num_drafts):
        """The decodes that had all the drafts that were asked for."""
        works = [work for step in trace.steps for work in step.work]
        return [w for w in works if w.kind == "decode" and len(w.drafted) == num_drafts]

    acceptances = {
        (temperature, k): [w.num_accepted for w in full_passes(serve(k, temperature), k)]
        for temperature, drafts in ((0.0, (1, 2, 4, 6)), (1.0, (1, 2, 4, 6)), (2.0, (4,)))
        for k in drafts
    }
    return OPENINGS, acceptances, full_passes, serve


@app.cell(hide_code=True)
def _(acceptances):
    _ON_ONE_LINE = ",\N{NO-BREAK SPACE}"

    def _rate(accepted, k):
        return sum(accepted) / sum(min(a + 1, k) for a in accepted)

    def _row(temperature, k):
        accepted = acceptances[temperature, k]
        p = _rate(accepted, k)
        by_place = []
        for place in range(k):
            asked = sum(a >= place for a in accepted)
            by_place.append(f"{sum(a > place for a in accepted) / asked:.0%}" if asked >= 20 else "·")
        return (
            f"| {temperature:g} | {k} | {p:.2f} | {1 + fmean(accepted):.2f} | {acceptance.expected_tokens(p, k):.2f} | {_ON_ONE_LINE.join(by_place)} |"
        )

    rate = {key: _rate(accepted, key[1]) for key, accepted in acceptances.items()}
    mo.md(
        "| temperature | K | p | tokens per pass | by the formula | accepted at place 1, 2, 3, … if asked |\n|--:|--:|--:|--:|--:|:--|\n"
        + "\n".join(_row(*key) for key in acceptances)
    )
    return (rate,)


@app.cell(hide_code=True)
def _(acceptances, rate):
    def _first(temperature, k):
        accepted = acceptances[temperature, k]
        return [sum(a > place for a in accepted) / max(1, sum(a >= place for a in accepted)) for place in range(k)]

    _places = _first(0.0, 4)
    mo.md(
        f"**Close, and not the same.** The formula takes every guess for a throw of the same die. But text has easy stretches, the rest of a word, and hard places, its first letter. Greedy, K = 4: a first guess stays {_places[0]:.0%} of the time, one that was asked "
        f"third {_places[2]:.0%}, for whoever gets that far is in the middle of something easy. With one p for all, {rate[0.0, 4]:.2f}, the formula says {acceptance.expected_tokens(rate[0.0, 4], 4):.2f} tokens per pass, and with the p of the first guess {acceptance.expected_tokens(_places[0], 4):.2f}. "
        f"Counted: {1 + fmean(acceptances[0.0, 4]):.2f}.\n\n"
        f"**High temperature does no harm here**: p is {rate[0.0, 4]:.2f}, {rate[1.0, 4]:.2f} and {rate[2.0, 4]:.2f} at 0, 1 and 2. Our engine draws the draft at the target's temperature, and two flat distributions overlap well. A draft that stays sharp, or one that only looks up, has a q of 1 on one token, and keeps it with the p that this has: less, the flatter p is."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### What does it bring on this machine?

    Now with a watch, on the machine that you are sitting at; K = 4. All times are in decodes without drafts. *Draft* is what one guess takes; *verifying* is what the pass takes, with all that the engine does around it. (Of the steps, the fast fifth counts: other programs disturb the rest.)
    """)
    return


@app.cell
def _(OPENINGS, draft, full_passes, model, serve):
    def drafting_us(k, temperature, batch, times=10):
        """What the guesses of one step take, in microseconds."""
        requests = [Request(i, encode(text), 96) for i, text in enumerate(OPENINGS[:batch])]
        clock, took = WallClock(), []
        for seed in range(times):
            begin_us = clock.now_us()
            for request in requests:
                propose(draft, request, k, temperature, seed, model.config.vocab_size)
            took.append(clock.now_us() - begin_us)
        return percentile(took, 0.2)

    def step_us(traces, k, batch):
        """A step in which everybody decodes with all k drafts: the fast fifth of them."""
        steps = [step for trace in traces for step in trace.steps if len(step.work) == batch]
        full = [s for s in steps if all(w.kind == "decode" and len(w.drafted) == k for w in s.work)]
        return percentile([step.duration_us for step in full], 0.2)

    def timed(k, temperature, batch, repeats=3):
        """What speculation brings: measured, and by two formulas."""
        runs = {0: [], k: []}
        for _ in range(repeats):  # in turns, so that a busy moment hits both
            for drafts, traces in runs.items():
                traces.append(serve(drafts, temperature, batch, 40, WallClock()))
        decode_us, with_us = step_us(runs[0], 0, batch), step_us(runs[k], k, batch)
        guesses_us = drafting_us(k, temperature, batch)
        accepted = [w.num_accepted for trace in runs[k] for w in full_passes(trace, k)]
        alpha, verifying = guesses_us / k / decode_us, (with_us - guesses_us) / decode_us
        p = sum(accepted) / sum(min(a + 1, k) for a in accepted)
        return {
            "alpha": alpha,
            "verifying": verifying,
            "textbook": acceptance.speedup(p, k, alpha),
            "real": acceptance.expected_tokens(p, k) / (verifying + k * alpha),
            "measured": (1 + fmean(accepted)) * decode_us / with_us,
        }

    timings = {
        (temperature, batch): timed(4, temperature, batch)
        for temperature in (0.0, 1.0)
        for batch in (1, 8)
    }
    return (timings,)


@app.cell(hide_code=True)
def _(timings):
    def _row(key):
        temperature, batch = key
        each = timings[key]
        return (
            f"| {temperature:g} | {batch} | {each['alpha']:.3f} | {each['verifying']:.2f} | {each['textbook']:.2f} | {each['real']:.2f} | **{each['measured']:.2f}** |"
        )

    mo.md(
        "| temperature | requests at once | draft, α | verifying | 8.3 says | 8.3 with its true pass | measured speed-up |\n|--:|--:|--:|--:|--:|--:|--:|\n"
        + "\n".join(map(_row, timings))
        + "\n\n*Measured on this machine just now; a few dozen short steps each, so run it again and the numbers move.*"
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The draft costs next to nothing: a look into a table. What eats the gain is the assumption in the middle of every formula on this page, **that a pass over five tokens costs what a pass over one costs**. Look at the column *verifying*, and at the first table of this lesson. With eight requests at once it is usually worse still: forty rows in a pass that had eight. On a CPU
    every row is work.

    ### And where the assumption holds?

    On the modelled GPU, with the p measured above at temperature 1, K = 4. Every request in the batch brings five tokens to the pass instead of one. Once they are more than the arithmetic can do while the weights are read, each costs its time.
    """)
    return


@app.cell(hide_code=True)
def _(rate):
    CONTEXT = 64  # tokens of ours per request, each standing for LARGE_GPU.prompt_scale real ones

    def _gain(batch, k, p, alpha):
        plain = LARGE_GPU.step_us(0, batch, batch * CONTEXT)
        verifying = LARGE_GPU.step_us(0, batch * (k + 1), batch * CONTEXT) / plain
        return verifying, acceptance.expected_tokens(p, k) / (verifying + k * alpha)

    def _row(batch):
        p = rate[1.0, 4]
        verifying, free = _gain(batch, 4, p, 0.0)
        cells = (free, _gain(batch, 4, p, 0.1)[1], _gain(batch, 4, 0.85, 0.1)[1])
        return f"| {batch} | {verifying:.2f} | " + " | ".join(f"{each:.2f}" if each >= 1 else f"**{each:.2f}**" for each in cells) + " |"

    mo.md(
        f"| requests at once | verifying, in decodes | p = {rate[1.0, 4]:.2f}, α = 0 (a table) | p = {rate[1.0, 4]:.2f}, α = 0.1 | p = 0.85, α = 0.1 |\n|--:|--:|--:|--:|--:|\n"
        + "\n".join(_row(batch) for batch in (1, 8, 32, 64, 128, 256))
        + "\n\n*Modelled: 8 billion parameters on one large GPU (`nanogpt/clock.py`). In bold where it makes things slower.*"
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    So speculation trades arithmetic that lies idle for time. A full machine has none lying idle: the same draft that makes one request fast makes a crowd slow.

    ### When to stop guessing

    The description's own remedy is a set of *gates*: no guesses in a batch that is 80 % full, near a deadline, or for urgent requests. It also says that break-even lies at about p = 0.6, and that one ought to back off by a request's own acceptance. Our fleet
    simulator of lesson 7 does: after a few judged guesses, a request whose own rate is below break-even gives up guessing.
    """)
    return


@app.cell(hide_code=True)
def _():
    def _per_time(p, least, num_requests=60, new_tokens=128, k=4, alpha=0.1):
        """Tokens per unit of time of requests with this acceptance, one at a time (modelled)."""
        time = 0.0
        for i in range(num_requests):
            drafts = Drafts(FleetRequest(i, 0, (0,), new_tokens, 5, 10**9, p), 8, k, least)
            passes = drafts.passes(0)
            time += passes * (1 + k * alpha) + new_tokens - (drafts.advance(passes) if passes else 0)
        return num_requests * new_tokens / time

    _edge = break_even(4, 0.1)
    mo.md(
        f"| a request's p | always four guesses | gives up below {_edge:.2f} |\n|--:|--:|--:|\n"
        + "\n".join(f"| {p:g} | ×{_per_time(p, None):.2f} | ×{_per_time(p, _edge):.2f} |" for p in (0.0, 0.1, 0.2, 0.3, 0.6, 0.85))
        + f"\n\nModelled; K = 4, α = 0.1, requests of 128 tokens. A rate counts from {BACKOFF_DRAFTS} judged guesses on. Drafts that are never right cost {1 - _per_time(0.0, _edge):.0%} instead of {1 - _per_time(0.0, None):.0%}. Near break-even a few unlucky requests give up too early, where little is lost by it."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How production engines do it

    - **The rule** is Algorithm 1 of Leviathan, Kalman and Matias ([arXiv 2211.17192](https://arxiv.org/abs/2211.17192)), who have your `expected_tokens` as Equation 1 and your `speedup` as Theorem 3.8, and who report two to three times on an 11-billion-parameter T5; and of Chen et al. ([arXiv 2302.01318](https://arxiv.org/abs/2302.01318)),
      who report 2 to 2.5 times on the 70 billion parameters of Chinchilla. The first paper also tries a draft like ours, a table of bigrams.
    - **vLLM** follows the first (`vllm/v1/sample/rejection_sampler.py`) and calls what stands in the place of a rejected guess *recovered*. Its rollback is your exercise 8.4: the scheduler takes the number of rejected tokens off `num_computed_tokens` (`vllm/v1/core/sched/scheduler.py`). Its
      [n-gram speculation](https://docs.vllm.ai/en/latest/features/speculative_decoding/n_gram/) is the lookup of exhibit E, in the request's own text (`vllm/v1/spec_decode/ngram_proposer.py`). And [its documentation](https://docs.vllm.ai/en/v0.19.0/features/speculative_decoding/) promises lower latency *under medium-to-low QPS, memory-bound workloads*, which is the table above in half a sentence.
    - **Medusa** (Cai et al., [2401.10774](https://arxiv.org/abs/2401.10774)) has no draft model: extra heads on the target guess several places ahead, all at once, and a tree of guesses is verified in one pass. It also offers to accept what is merely plausible, which is faster and no longer the target's distribution.
    - **EAGLE** (Li et al., [2401.15077](https://arxiv.org/abs/2401.15077)) drafts the target's own features one after the other with a single layer, and keeps the exact rule.

    And the exhibits are out there:

    - **A.** [vllm-ascend #2881](https://github.com/vllm-project/vllm-ascend/pull/2881): a sampler changed the target's probabilities in place while drawing what was missing. [transformers #47932](https://github.com/huggingface/transformers/issues/47932): the q that was divided by was not the q that was drawn from; texts sampled with a draft came from another distribution.
      [A teaching implementation](https://github.com/jaymody/speculative-sampling/issues/3) took the draft's likeliest token and treated it as drawn.
    - **B.** [llama.cpp #3649](https://github.com/ggml-org/llama.cpp/issues/3649): slower than hoped for on an A100. The maintainer's answer does what you did: so many tokens at the draft's speed, so many at the speed of a *small batch* of the target.
    - **D.** [mlxcel #994](https://github.com/lablup/mlxcel/issues/994): the draft's own cache was rolled back two entries too far in every round, its context fell behind, and acceptance fell with it. [vLLM #9730](https://github.com/vllm-project/vllm/pull/9730): a wrong token in the draft's cache where a bonus stood; the symptom was a sharp drop of acceptance as soon as K was more than one.

    ## What comes next

    This was the last part. Look back at what an engine is made of, and what of it is yours: a cache and the decode that reads it (0), chunks and the plan of a step (1), who goes first and who gives way (2), one flat row for everybody (3), what is kept (4), who is worth hurrying for (5), how to leave a pass (6), which machine it runs on (7), and now
    which tokens need no pass of their own. They all meet in one loop: *plan, run, sample, record*.

    The capstone, when it comes, hands you an empty engine and a load. Until then: put your parts together, serve something, and find out which of them pays on **your** machine. You know how to measure it, and you know what a figure of 4.0 is worth.

    [Back to the course's front page](/?file=index.py&view-as=present)
    """)
    return


if __name__ == "__main__":
    app.run()

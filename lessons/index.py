import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="Serving NanoGPT")

with app.setup(hide_code=True):
    import time

    import marimo as mo

    from course.overview import overview
    from course.progress import newest_change


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # Serving NanoGPT

    At the end of this course you will have built the inside of an LLM serving engine: the functions
    that decide, step by step, how many tokens each request computes and which tokens it may attend to.
    They will serve real Shakespeare from a real nanoGPT, on this machine, and you will be able to
    watch every step they take.
    """)
    return


@app.cell(hide_code=True)
def _():
    # A page that is opened again shows what it showed before, unless a cell runs again.
    get_change, set_change = mo.state(newest_change())

    def _watch():
        seen = newest_change()
        while not mo.current_thread().should_exit:
            time.sleep(1)
            if newest_change() != seen:
                seen = newest_change()
                set_change(seen)

    if mo.running_in_notebook():
        mo.Thread(target=_watch, daemon=True).start()
    return (get_change,)


@app.cell(hide_code=True)
def _(get_change):
    get_change()
    overview()
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How a lesson works

    1. **Predict.** A question comes before its answer, which stays hidden until you commit to one or
       press *Show me*. You learn most from a wrong prediction.
    2. **Build.** A card says what to write, one function at a time. You write it in the cell below the card,
       framed as *Your code*, and run it with Ctrl+Enter (Cmd+Enter on a Mac).
    3. **Check.** The check below your code runs by itself. If your function is wrong, the check says
       why and shows the smallest case that it found. There are three hints, each stronger than the one
       before.
    4. **Watch.** The engine runs with *your* function, and you step through what it did.

    You need PyTorch and a rough idea of nanoGPT. Nothing else is expected, and nothing leaves this
    machine.

    ## Where your work lives

    The lessons that you open here are your own copies, in the folder `work/`. They are saved as you
    type. The same folder keeps your predictions and the answers that passed, in plain files, and
    later lessons run with these answers. An update of the course does not overwrite the folder.

    ## Glossary

    Each lesson explains a term where it first appears. The
    [glossary](/?file=glossary.py&view-as=present) lists all terms.

    ## If something does not work

    In a terminal, in the course's folder (on Windows write `py` for `python3`):

    | | |
    |---|---|
    | `python3 learn.py doctor` | looks at the set-up and says what is wrong |
    | `python3 learn.py check l01` | checks your answers of lesson 1 without the browser |
    | `python3 learn.py reset l01` | starts lesson 1 anew, and keeps a dated copy of yours |
    """)
    return


if __name__ == "__main__":
    app.run()

"""The README's picture that moves: a learner's plan replayed beside the reference.

`python -m course.site.replay_svg` writes docs/images/replay.svg, from runs of the engine. It needs
no script and no font of its own, follows light and dark, and stands still for who wants that.
"""

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from course.site.showcase import first_difference, runs
from nanogpt import Trace, decode
from nanogpt.experiments.trace_waits import all_waits
from nanogpt.trace import StepRecord, WaitRecord

FILE = Path(__file__).parents[2] / "docs" / "images" / "replay.svg"
NUM_STEPS, NUM_REQUESTS = 17, 5
_STEP_S, _PAUSE_S, _END_S = 0.55, 4.0, 2.5
_LEFT, _COLUMN, _ROW, _PANEL = 118, 44, 30, 192
_WIDTH, _TOP = 880, 100
_HEIGHT = _TOP + 2 * _PANEL + 24
_KEY = "A number: prompt tokens computed in the step. A letter: a new token. Dashes: it waits."
_HUES = (
    ("#0b6bb0", "#dcebf8", "#63b3f0", "#14334c"),
    ("#b04a00", "#fbe7da", "#f0a36b", "#47290f"),
    ("#00795b", "#d9f1ea", "#43c9a3", "#0d3a2e"),
    ("#96417f", "#f7e3f1", "#e39bcc", "#452138"),
    ("#7a6200", "#f6eecb", "#e0c659", "#3d340c"),
)
_LIGHT = "--card:#fff;--ink:#1b2430;--soft:#55606e;--line:#d8dee6;--accent:#1f5fbf;--on:#fff"
_DARK = "--card:#171b21;--ink:#e7ebf0;--soft:#a5b0bd;--line:#343c47;--accent:#8ab8ff;--on:#0d1a2d"
_STYLE = """
.replay{font:600 13px system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif}
.replay .card{fill:var(--card);stroke:var(--line)}
.replay text{fill:var(--ink)}.replay .soft{fill:var(--soft);font-weight:400}
.replay .title{font-size:17px}.replay .tick,.replay .cell text{text-anchor:middle}
.replay .wait rect{fill:none;stroke:var(--soft);stroke-dasharray:3 3}
.replay .full rect{fill:var(--hue);stroke:var(--hue)}.replay .full text{fill:var(--on)}
.replay .one rect{fill:var(--tint);stroke:var(--hue)}
.replay .name{fill:var(--hue)}
.replay .head{fill:none;stroke:var(--accent);stroke-width:2.5}
.replay .step,.replay .say,.replay .head{animation-duration:SECONDSs;
 animation-iteration-count:infinite;animation-timing-function:step-end}
"""


def picture(yours: Trace, reference: Trace) -> str:
    """The whole file: two panels, a column for each step, and each step in words."""
    differs = first_difference(yours, reference)
    panels = (("yours", yours, _TOP), ("the reference", reference, _TOP + _PANEL))
    parts = [
        f'<svg class="replay" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        f' role="img" aria-label="{escape(_label(differs))}">',
        f"<style>{_style(differs)}</style>",
        f'<rect class="card" x=".5" y=".5" width="{_WIDTH - 1}" height="{_HEIGHT - 1}" rx="12"/>',
        '<text class="title" x="20" y="32">Your plan, step by step, beside the reference</text>',
        *(_words(at, yours.steps[at], reference.steps[at], differs) for at in range(NUM_STEPS)),
        *(line for panel in panels for line in _panel(*panel)),
        *(_head(top) for _, _, top in panels),
        f'<text class="soft" x="20" y="{_HEIGHT - 16}">{_KEY}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _label(differs: int) -> str:
    return (
        "A learner's plan and the reference serve the same requests, step by step. They are alike "
        f"until step {differs}: there the learner's plan starts the newest prompt, the reference "
        "goes on with the one before."
    )


# ---- what is drawn -------------------------------------------------------------------------------


def _panel(name: str, trace: Trace, top: int) -> Iterator[str]:
    """Rows of requests; each step's cells are a group that appears when the step comes."""
    yield f'<text x="20" y="{top + 14}">{name}</text>'
    for row in range(NUM_REQUESTS):
        yield (f'<text class="name h{row}" x="20" y="{_y(top, row) + 17}">request {row}</text>')
    waits = all_waits(trace)
    for at in range(NUM_STEPS):
        cells = "".join(_cells(trace.steps[at], waits[at], top, at))
        tick = f'<text class="tick soft" x="{_x(at) + _COLUMN / 2:g}" y="{top + 14}">{at}</text>'
        yield f'{tick}<g class="step s{at}">{cells}</g>'


def _cells(step: StepRecord, waits: Sequence[WaitRecord], top: int, at: int) -> Iterator[str]:
    for work in step.work:
        if work.kind == "decode" and work.sampled is not None:
            yield _cell("one", work.request_id, decode([work.sampled]), top, at)
        else:
            yield _cell("full", work.request_id, f"{work.end - work.start}", top, at)
    for wait in waits:
        yield _cell("wait", wait.request_id, "", top, at)


def _cell(look: str, row: int, words: str, top: int, at: int) -> str:
    if row >= NUM_REQUESTS:
        return ""
    x, y, wide, high = _x(at) + 3, _y(top, row), _COLUMN - 6, _ROW - 5
    shown = {" ": "·", "\n": "⏎"}.get(words, words)
    text = f'<text x="{x + wide / 2:g}" y="{y + 17}">{escape(shown)}</text>' if shown else ""
    return (
        f'<g class="cell {look} h{row}"><rect x="{x}" y="{y}" width="{wide}" height="{high}"'
        f' rx="5"/>{text}</g>'
    )


def _head(top: int) -> str:
    """The frame around the step that is now."""
    high = 26 + _ROW * NUM_REQUESTS
    return (
        f'<rect class="head" x="{_LEFT}" y="{top - 4}" width="{_COLUMN}" height="{high}" rx="7"/>'
    )


def _words(at: int, mine: StepRecord, theirs: StepRecord, differs: int) -> str:
    said = f"Step {at}: {_work(mine)}."
    if at == differs:
        said = f"Step {at} is the first that differs. Yours: {_work(mine)}."
    more = f"The reference: {_work(theirs)}." if at == differs else ""
    return (
        f'<g class="say w{at}"><text class="soft" x="20" y="56">{said}</text>'
        f'<text class="soft" x="20" y="76">{more}</text></g>'
    )


def _work(step: StepRecord) -> str:
    decodes = sum(work.kind == "decode" for work in step.work)
    said = [f"{decodes} decode{'s' if decodes > 1 else ''}"] if decodes else []
    said += [
        f"request {work.request_id} prefills {work.end - work.start} tokens"
        for work in step.work
        if work.kind == "prefill"
    ]
    return ", ".join(said)


def _x(at: int) -> int:
    return _LEFT + _COLUMN * at


def _y(top: int, row: int) -> int:
    return top + 22 + _ROW * row


# ---- when, and in which colours ------------------------------------------------------------------


def _style(differs: int) -> str:
    starts, seconds = _starts(differs)
    begins = [100 * start / seconds for start in starts]
    frames = [_frames(at, begins) for at in range(NUM_STEPS)]
    moves = "".join(
        f"{now:.2f}%{{transform:translateX({_COLUMN * at}px)}}" for at, now in enumerate(begins)
    )
    still = (
        ".replay .step,.replay .say,.replay .head{animation:none}.replay .say{opacity:0}"
        f".replay .w{differs}{{opacity:1}}"
        f".replay .head{{transform:translateX({_COLUMN * differs}px)}}"
    )
    return "".join(
        [
            _colours(".replay", dark=False),
            f"@media (prefers-color-scheme:dark){{{_colours('.replay', dark=True)}}}",
            _colours(".light .replay", dark=False),  # the word of a page that it stands in
            _colours(".dark .replay", dark=True),
            _STYLE.replace("SECONDS", f"{seconds:.2f}"),
            *frames,
            f"@keyframes head{{{moves}}}.replay .head{{animation-name:head}}",
            f"@media (prefers-reduced-motion:reduce){{{still}}}",
        ]
    )


def _starts(differs: int) -> tuple[list[float], float]:
    """When each step begins, and how long all of it takes, in seconds."""
    starts, now = [0.0] * NUM_STEPS, 0.0
    for at in range(NUM_STEPS):
        starts[at] = now
        now += _PAUSE_S if at == differs else _STEP_S
    return starts, now + _END_S


def _frames(at: int, begins: list[float]) -> str:
    """Until it begins a step is faint and its words are away; these go when the next begins."""
    faint, away = ("0%{opacity:1}",) * 2 if at == 0 else ("0%{opacity:.14}", "0%{opacity:0}")
    begin = f"{begins[at]:.2f}%{{opacity:1}}" if at else ""
    end = f"{begins[at + 1]:.2f}%{{opacity:0}}" if at + 1 < len(begins) else ""
    return (
        f"@keyframes s{at}{{{faint}{begin}}}@keyframes w{at}{{{away}{begin}{end}}}"
        f".replay .s{at}{{animation-name:s{at}}}.replay .w{at}{{animation-name:w{at}}}"
    )


def _colours(where: str, *, dark: bool) -> str:
    hues = "".join(
        f"{where} .h{at}{{--hue:{hue[2 * dark]};--tint:{hue[2 * dark + 1]}}}"
        for at, hue in enumerate(_HUES)
    )
    return f"{where}{{{_DARK if dark else _LIGHT}}}{hues}"


def main() -> None:
    """Write the file."""
    FILE.write_text(picture(*runs()), encoding="utf-8")


if __name__ == "__main__":
    main()

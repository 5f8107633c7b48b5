"""Exercise 10.2: the text that may be sent to a client now."""

import codecs
import random
import unicodedata
from typing import Any

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Task
from course.format_values import named, show
from solutions.l10_capstone._pieces import (
    CHANGES_THE_TEXT,
    LOST_AT_THE_END,
    MISCONCEPTIONS,
    MUST_DECODE,
)

# --- right answers ------------------------------------------------------------------------------


def stream_delta(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    """Return the events to send now: one text, or none."""
    # Decode all bytes every time. `sent` counts characters of the whole text, so no text is sent
    # twice, whatever a step computes again.
    data = b"".join(committed)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(data, final=is_done)  # without final, an unfinished character waits
    return [text[sent:]] if text[sent:] else []


def without_its_tail(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    data = b"".join(committed)
    while not is_done:
        try:
            data.decode()
            break
        except UnicodeDecodeError:
            data = data[:-1]
    text = data.decode(errors="replace")
    return [text[sent:]] if len(text) > sent else []


# --- cases --------------------------------------------------------------------------------------


def pieces(text: str, *ends: int) -> list[bytes]:
    """The bytes of a text, cut at these places."""
    data = text.encode()
    return [data[a:b] for a, b in zip((0, *ends), (*ends, len(data)), strict=True)]


def a_stream(rng: random.Random) -> list[Args]:
    """Calls while a text grows; sometimes its request is preempted and starts over."""
    words = ["né", "O, ", "so ", "naïve", "—", "Röm", "eo ", "🙂", "\n", "Ärger", "ok", "€", " "]
    words += ["\r\n", "\ufeff", "e\u0301", "\0"]
    data = "".join(rng.choice(words) for _ in range(rng.randint(4, 8))).encode()
    cuts = sorted(rng.sample(range(1, len(data)), min(len(data) - 1, rng.randint(3, 9))))
    tokens = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    if rng.random() < 0.5:
        tokens = tokens[:-1]  # the text may now end in the middle of a character
    cases: list[Args] = []
    known = sent = 0
    while known < len(tokens):
        known = min(len(tokens), known + rng.randint(1, 3))
        cases.append((tokens[:known], sent, known == len(tokens)))
        sent += len("".join(stream_delta(*cases[-1])))
        if known < len(tokens) and rng.random() < 0.25:
            cases.append((tokens[: rng.randint(0, known)], sent, False))
    return cases


def any_streams(rng: random.Random) -> list[Args]:
    return [case for _ in range(12) for case in a_stream(rng)]


CAFE = [b"O ", b"caf", b"\xc3", b"\xa9", b"!"]
ODD = "\ufffd".encode()
# Some ways to read text change these: a mark at the start, line ends, an accent, a 0, a ligature.
OFTEN_CHANGED = ("\ufeffO", "\r\n", "\r", "e\u0301", "\0", "\ufb01", "\u2028")
SMILE = pieces("so 🙂 it is", 1, 5, 6, 8, 12)

PLAIN: list[Args] = [
    ([b"To"], 0, False),
    ([b"To", b" be"], 2, False),
    ([b"To", b" be", b", ", b"or"], 5, False),
    ([b"To", b" be"], 5, False),
    ([], 0, False),
    ([b"To", b" be", b"\n"], 5, False),
    *(([b"To ", odd.encode()], 0, False) for odd in OFTEN_CHANGED),
    ([OFTEN_CHANGED[0].encode()], 0, False),
]
SPLIT: list[Args] = [
    (CAFE[:3], 5, False),
    (CAFE[:3], 2, False),
    (CAFE[:4], 5, False),
    (CAFE, 6, False),
    (SMILE[:3], 4, False),
    ([b"O ", ODD], 2, False),
]
PREEMPTED: list[Args] = [
    (CAFE[:2], 7, False), ([], 4, False), (CAFE[:4], 7, False), (CAFE, 6, False)
]  # fmt: skip
AT_THE_END: list[Args] = [
    ([b"To", b" be"], 2, True),
    ([b"To", b" be"], 5, True),
    (CAFE[:3], 5, True),
    (SMILE[:3], 3, True),
    ([], 0, True),
]


def draw(value: Any) -> str:
    """The events, with combining accents as numbers: é in one and in two characters look alike."""
    return "".join(f"\\u{ord(c):04x}" if unicodedata.combining(c) else c for c in show(value))


JUDGE = Comparison(
    stream_delta,
    MISCONCEPTIONS,
    "Join all bytes, decode the complete characters, leave out the text that was sent, and return "
    "the rest, if there is any, as one event.",
    draw=draw,
    near=(CHANGES_THE_TEXT,),
    evidence=[*PLAIN, *SPLIT, *PREEMPTED, *AT_THE_END, *any_streams(random.Random(10))],
)

EXERCISE = Exercise(
    number=2,
    title="The text to send",
    minutes=8,
    points=3,
    draw_call=named("committed", "sent", "is_done"),
    task=Task(
        rules=(
            "`committed` has the bytes of each token that the request has generated so far. "
            "Joined, they are UTF-8 text, but they may end in the middle of a character.",
            "`sent` is the number of characters of this text that the client has. After a "
            "preemption the text may be shorter than that for a while; then the same tokens come "
            "again.",
            "Returns a list with one event, which has all text that is new and complete. Without "
            "such text, the list is empty.",
            "`is_done` means that no more tokens come. Bytes that are still unfinished are then "
            'sent once as U+FFFD, "\N{REPLACEMENT CHARACTER}". Do not change `committed`.',
        ),
        args=(CAFE[:3], 2, False),
        result=["caf"],
        call="stream_delta(committed=[b'O ', b'caf', b'\\xc3'], sent=2, is_done=False)",
        steps=(
            "Three tokens give the bytes of `O caf` and one more byte, the first half of an é.",
            "The client has 2 characters, `O` and a space.",
        ),
    ),
    hints=(
        "Which bytes are complete characters? How many of these does the client have?",
        "`b''.join(committed)` has the bytes of the whole text. How do you decode bytes that may "
        "end in the middle of a character? At most the last three of them are unfinished.",
        "`codecs.getincrementaldecoder('utf-8')('replace')` makes a decoder whose `decode(data, "
        "final)` keeps an unfinished end back unless `final` is true. Then leave out the first "
        "`sent` characters.",
    ),
    right=(stream_delta, without_its_tail),
    misconceptions=(*MISCONCEPTIONS, CHANGES_THE_TEXT),
    checks=(
        ("plain text", JUDGE.on(*PLAIN)),
        (
            "a character in two tokens",
            JUDGE.on_raising(MUST_DECODE, (UnicodeDecodeError,), *SPLIT),
        ),
        ("after a preemption", JUDGE.on(*PREEMPTED)),
        ("the end", JUDGE.on_raising(LOST_AT_THE_END, (UnicodeDecodeError,), *AT_THE_END)),
        ("any stream", JUDGE.on_drawn(any_streams)),
    ),
    equivalent_mutants={
        "result: only the first": "there is one event at most",
        "result: reversed": "there is one event at most",
    },
)

"""Exercise 10.2: what may be sent to a client now."""

import codecs
import random
from collections.abc import Callable
from typing import Any

from course.checks.comparing import Args, Comparison, a_kind
from course.exercise import Exercise, Misconception
from course.format_values import named
from course.task import Task
from nanogpt.parts.plain_values import as_items

# --- right answers ------------------------------------------------------------------------------


def next_events(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    """Return the events to send now: one text, or none."""
    # Always from all the bytes: what was sent is counted in characters of the whole text, so
    # nothing comes twice, whatever a step computed again.
    data = b"".join(committed)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(data, final=is_done)  # unless final, an unfinished character waits
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


def from_the_error(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    data = b"".join(committed)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as unfinished:
        text = data[: unfinished.start].decode() + ("\ufffd" if is_done else "")
    new = text[sent:]
    return [] if new == "" else [new]


def by_two_ways_of_decoding(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    data = bytes(byte for piece in committed for byte in piece)
    text = data.decode(errors="ignore")  # the whole characters
    if is_done:
        text = data.decode(errors="replace")
    events = [text[sent:]]
    while "" in events:
        events.remove("")
    return events


# --- wrong ideas --------------------------------------------------------------------------------

Decode = Callable[[bytes, bool], str]


def whole(data: bytes, is_done: bool) -> str:
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data, is_done)


def replaced(data: bytes) -> str:
    return data.decode(errors="replace")


def end_of(text: str) -> int:
    """Where it ends without the U+FFFD that may be its last character."""
    return len(text) - text.endswith("\ufffd")


def event(text: str) -> list[str]:
    return [text] if text else []


def by(decode: Decode, start: Callable[[str, int], int] = lambda text, sent: sent) -> Any:
    """All bytes decoded so, and sent from there on."""

    def answer(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
        text = decode(b"".join(committed), is_done)
        return event(text[start(text, sent) :])

    return answer


def of_bytes(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    return event(whole(b"".join(committed)[sent:], is_done))


def of_tokens(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    return event(whole(b"".join(committed[sent:]), is_done))


def newest(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    return event(whole(b"".join(committed[-1:]), is_done))


def newest_if_longer(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    return newest(committed, sent, is_done) if by(whole)(committed, sent, is_done) else []


def newest_until_the_end(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    return [] if is_done else [piece.decode(errors="replace") for piece in committed[-1:]]


def piece_by_piece(errors: str) -> Any:
    def answer(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
        return event("".join(piece.decode(errors=errors) for piece in committed)[sent:])

    return answer


def again_after_preemption(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    text = whole(b"".join(committed), is_done)
    return event(text[sent:] if len(text) >= sent else text)


def from_behind(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    text = whole(b"".join(committed), is_done)
    new = len(text) - sent
    return event(text[-new:]) if new else []


def at_the_end(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    return event(whole(b"".join(committed), True)[sent:]) if is_done else []


def until_the_end(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    return [] if is_done else event(whole(b"".join(committed), False)[sent:])


def whole_words(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    text = whole(b"".join(committed), is_done)
    end = len(text) if is_done else text.rfind(" ") + 1
    return event(text[sent:end])


def only_whole_steps(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    data = b"".join(committed)
    if whole(data, False) != whole(data, True) and not is_done:
        return []
    return event(whole(data, is_done)[sent:])


def each(of: Any) -> Any:
    return lambda *args: list("".join(of(*args)))


def never_empty(*args: Any) -> list[str]:
    return by(whole)(*args) or [""]


def misfit(value: Any) -> bool:
    items = as_items(value)
    return items is None or any(not isinstance(item, str) for item in items)


def said_of(value: Any) -> str:
    items = as_items(value)
    if items is None:
        return f"The answer is a list of events, even for none; this is {a_kind(value)}."
    odd = next(item for item in items if not isinstance(item, str))
    return f"An event is text (a str); one of these is {a_kind(odd)}."


RIGHT = by(whole)
MUST_DECODE = Misconception(
    "must_decode",
    "The text is UTF-8.",
    "In between it is not: it may end in the middle of a character, and decoding all of it fails.",
    also=(
        by(lambda data, is_done: data.decode()),
        lambda committed, sent, is_done: event(
            "".join(piece.decode() for piece in committed)[sent:]
        ),
    ),
)
LOST_AT_THE_END = Misconception(
    "lost_at_the_end",
    "What is not whole is not sent.",
    "When no more tokens come, the unfinished character stays unfinished: it is sent as U+FFFD, "
    "so that the client has all there is.",
    by(lambda data, is_done: whole(data, False)),
    alike=(by(lambda data, is_done: data.decode(errors="ignore")),),
    also=(by(lambda data, is_done: codecs.getincrementaldecoder("utf-8")().decode(data, is_done)),),
)
MISCONCEPTIONS = (
    Misconception(
        "not_events",
        "The text is the answer.",
        said_of,
        form=misfit,
        also=(
            lambda *args: "".join(RIGHT(*args)),
            lambda *args: [text.encode() for text in RIGHT(*args)],
            lambda committed, sent, is_done: committed[sent:],
            lambda *args: RIGHT(*args) or [None],
        ),
    ),
    Misconception(
        "empty_event",
        "There is always an event.",
        "Where nothing is new, nothing is sent: the list is empty, not an event without text.",
        never_empty,
        alike=(lambda committed, *rest: RIGHT(committed, *rest) or [""] * bool(committed),),
    ),
    Misconception(
        "one_each",
        "Each character is an event.",
        "All that is new goes into one event: an event costs the server's time, and is written "
        "and parsed as a whole.",
        each(RIGHT),
    ),
    Misconception(
        "everything_again",
        "The client sees the text so far.",
        "The client puts the events one behind the other: what has been sent is not sent again.",
        by(whole, lambda text, sent: 0),
    ),
    Misconception(
        "newest_token",
        "A step gives a token, and it is sent.",
        "Not each call has one new token, since a step may give several, or the same ones again "
        "after a preemption: what counts is how much of the text has been sent.",
        newest,
        alike=(newest_if_longer, newest_until_the_end),
    ),
    Misconception(
        "half_a_character",
        "Bytes are text.",
        "The bytes of an unfinished character are no text yet, and what is sent cannot be taken "
        "back: they wait for the token that brings the rest.",
        by(lambda data, is_done: data.decode(errors="replace")),
        alike=(by(lambda data, is_done: whole(data, True)),),
    ),
    Misconception(
        "token_by_token",
        "A token is a piece of text.",
        "A character may be spread over two tokens, so that neither is text by itself: put the "
        "bytes of all tokens together, then decode.",
        piece_by_piece("replace"),
        alike=(piece_by_piece("ignore"),),
    ),
    MUST_DECODE,
    Misconception("no_return", "The text is sent.", also=(lambda *args: None,)),
    Misconception(
        "waits_for_a_clean_step",
        "Not while something is unfinished.",
        "Only the unfinished character waits: what is whole in front of it can be read now.",
        only_whole_steps,
    ),
    LOST_AT_THE_END,
    Misconception(
        "blank_is_nothing",
        "There is nothing to see.",
        "A space and a line end are text: what is new is sent, blank or not.",
        lambda *args: [text for text in RIGHT(*args) if text.strip()],
    ),
    Misconception(
        "looks_unfinished",
        "U+FFFD is an unfinished character.",
        "U+FFFD may be a character of the text itself, and is whole then: ask which bytes are "
        "unfinished, not what they look like decoded.",
        by(lambda data, is_done: replaced(data) if is_done else replaced(data).rstrip("\ufffd")),
        alike=(
            by(lambda data, is_done: replaced(data)[: None if is_done else end_of(replaced(data))]),
        ),
    ),
    Misconception(
        "nothing_at_the_end",
        "The last event was the last text.",
        "The last step gives text as well: what is new is sent, done or not.",
        until_the_end,
    ),
    Misconception(
        "only_at_the_end",
        "An answer is sent when it is there.",
        "A stream is read while it is written: what is whole and new goes now.",
        at_the_end,
    ),
    Misconception(
        "counts_bytes",
        "A character is a byte.",
        "`sent` counts characters, and some have several bytes: decode first, then leave out what "
        "has been sent.",
        of_bytes,
    ),
    Misconception(
        "counts_tokens",
        "A token is a character.",
        "`sent` counts characters of the text, and a token may have several or half a one.",
        of_tokens,
    ),
    Misconception(
        "again_after_preemption",
        "It begins anew.",
        "After a preemption the request may have fewer tokens than its client has read: they come "
        "again, the same ones, and are not sent again.",
        again_after_preemption,
        alike=(from_behind,),
    ),
    Misconception(
        "whole_words",
        "Words are what is read.",
        "A word may be sent in two events: hold back bytes that are no character yet, and nothing "
        "else.",
        whole_words,
    ),
)

# --- cases --------------------------------------------------------------------------------------


def pieces(text: str, *ends: int) -> list[bytes]:
    """The bytes of a text, cut there."""
    data = text.encode()
    return [data[a:b] for a, b in zip((0, *ends), (*ends, len(data)), strict=True)]


def a_stream(rng: random.Random) -> list[Args]:
    """A text as it grows, asked about now and then; at times it is preempted and begins anew."""
    words = ["né", "O, ", "so ", "naïve", "—", "Röm", "eo ", "🙂", "\n", "Ärger", "ok", "€", " "]
    data = "".join(rng.choice(words) for _ in range(rng.randint(4, 8))).encode()
    cuts = sorted(rng.sample(range(1, len(data)), min(len(data) - 1, rng.randint(3, 9))))
    tokens = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    if rng.random() < 0.5:
        tokens = tokens[:-1]  # which may end it in the middle of a character
    cases: list[Args] = []
    known = sent = 0
    while known < len(tokens):
        known = min(len(tokens), known + rng.randint(1, 3))
        cases.append((tokens[:known], sent, known == len(tokens)))
        sent += len("".join(next_events(*cases[-1])))
        if known < len(tokens) and rng.random() < 0.25:
            cases.append((tokens[: rng.randint(0, known)], sent, False))
    return cases


def any_streams(rng: random.Random) -> list[Args]:
    return [case for _ in range(12) for case in a_stream(rng)]


CAFE = [b"O ", b"caf", b"\xc3", b"\xa9", b"!"]
ODD = "\ufffd".encode()
SMILE = pieces("so 🙂 it is", 1, 5, 6, 8, 12)

JUDGE = Comparison(
    next_events,
    MISCONCEPTIONS,
    "Put all bytes together, take the characters that are whole, and leave out what was sent.",
    evidence=[
        ([b"To", b" be"], 0, False),
        ([b"To", b" be"], 2, False),
        ([b"To", b" be"], 5, False),
        (CAFE[:3], 5, False),
        (CAFE[:3], 2, False),
        (CAFE[:4], 5, False),
        (CAFE, 6, True),
        (CAFE[:3], 5, True),
        (CAFE[:2], 7, False),
        (CAFE[:1], 5, False),
        ([], 0, False),
        ([b"To", b" be", b"\n"], 5, False),
        ([b"O ", ODD], 2, False),
        *any_streams(random.Random(10)),
    ],
)

EXERCISE = Exercise(
    number=2,
    title="What may be sent",
    minutes=8,
    points=3,
    draw_call=named("committed", "sent", "is_done"),
    task=Task(
        signature="next_events(committed: list[bytes], sent: int, is_done: bool) -> list[str]",
        rules=(
            "`committed` has the bytes of each token of the answer, from the first one on, as far "
            "as steps have been committed. Together they are UTF-8, which may end in the middle of "
            "a character: a token is a piece of bytes.",
            "`sent` counts the characters of this text that the client has been sent. After a "
            "preemption there may be fewer tokens than that for a while; the same ones come again.",
            "The result is a list: one event with all the text that is new and whole, or no event.",
            "`is_done` says that no more tokens come. What is unfinished then is sent as U+FFFD, "
            '"\N{REPLACEMENT CHARACTER}", once.',
        ),
        args=(CAFE[:3], 2, False),
        result=["caf"],
    ),
    hints=(
        "Which bytes are surely text? And how much of that text does the client have?",
        "`b''.join(committed)` is the whole answer. How do you decode bytes that may end in the "
        "middle of a character? At most the last three of them are unfinished.",
        "`codecs.getincrementaldecoder('utf-8')('replace')` makes a decoder whose `decode(data, "
        "final)` keeps an unfinished end to itself unless `final`. Then leave out what was sent.",
    ),
    right=(next_events, without_its_tail, from_the_error, by_two_ways_of_decoding),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "plain text",
            JUDGE.on(
                ([b"To"], 0, False),
                ([b"To", b" be"], 2, False),
                ([b"To", b" be", b", ", b"or"], 5, False),
                ([b"To", b" be"], 5, False),
                ([], 0, False),
                ([b"To", b" be", b"\n"], 5, False),
            ),
        ),
        (
            "a character in two tokens",
            JUDGE.on_raising(
                MUST_DECODE,
                (UnicodeDecodeError,),
                (CAFE[:3], 5, False),
                (CAFE[:3], 2, False),
                (CAFE[:4], 5, False),
                (CAFE, 6, False),
                (SMILE[:3], 4, False),
                ([b"O ", ODD], 2, False),
            ),
        ),
        (
            "after a preemption",
            JUDGE.on((CAFE[:2], 7, False), ([], 4, False), (CAFE[:4], 7, False), (CAFE, 6, False)),
        ),
        (
            "the end",
            JUDGE.on_raising(
                LOST_AT_THE_END,
                (UnicodeDecodeError,),
                ([b"To", b" be"], 2, True),
                ([b"To", b" be"], 5, True),
                (CAFE[:3], 5, True),
                (SMILE[:3], 3, True),
                ([], 0, True),
            ),
        ),
        ("any stream", JUDGE.on_drawn(any_streams)),
    ),
    still_right={
        "result: only the first": "there is one event at most",
        "result: reversed": "there is one event at most",
    },
)

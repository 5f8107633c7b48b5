"""What is thought wrongly of a text that comes in pieces, and what such a person would write."""

import codecs
import io
import unicodedata
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_items
from course.checks.comparing import a_kind
from course.exercise import Misconception

Decode = Callable[[bytes, bool], str]


def whole(data: bytes, is_done: bool) -> str:
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data, is_done)


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


def newest(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    return event(whole(b"".join(committed[-1:]), is_done))


def piece_by_piece(errors: str) -> Any:
    def answer(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
        return event("".join(piece.decode(errors=errors) for piece in committed)[sent:])

    return answer


def again_after_preemption(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    text = whole(b"".join(committed), is_done)
    return event(text[sent:] if len(text) >= sent else text)


def until_the_end(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    return [] if is_done else event(whole(b"".join(committed), False)[sent:])


def of_a_file(data: bytes, is_done: bool) -> str:
    """As it would be read from a text file, whose line ends all become one."""
    return io.TextIOWrapper(io.BytesIO(whole(data, is_done).encode()), "utf-8").read()


def what_is_seen(events: list[str]) -> str:
    """Their text as most ways to read or show it leave it."""
    return "".join(c for c in unicodedata.normalize("NFKC", "".join(events)) if c.isprintable())


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


def newest_until_the_end(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    return [] if is_done else [piece.decode(errors="replace") for piece in committed[-1:]]


MUST_DECODE = Misconception(
    "must_decode",
    "The text is UTF-8.",
    "In between it is not: it may end in the middle of a character, and decoding all of it fails.",
    examples=((by(lambda data, is_done: data.decode())),),
)
LOST_AT_THE_END = Misconception(
    "lost_at_the_end",
    "What is not whole is not sent.",
    "When no more tokens come, the unfinished character stays unfinished: it is sent as U+FFFD, "
    "so that the client has all there is.",
    by(lambda data, is_done: whole(data, False)),
)
MISCONCEPTIONS = (
    Misconception(
        "not_events",
        "The text is the answer.",
        said_of,
        matches=misfit,
        examples=((lambda *args: "".join(RIGHT(*args))),),
    ),
    Misconception(
        "empty_event",
        "There is always an event.",
        "Where nothing is new, nothing is sent: the list is empty, not an event without text.",
        never_empty,
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
        same_result=(newest_until_the_end,),
    ),
    Misconception(
        "half_a_character",
        "Bytes are text.",
        "The bytes of an unfinished character are no text yet, and what is sent cannot be taken "
        "back: they wait for the token that brings the rest.",
        by(lambda data, is_done: data.decode(errors="replace")),
    ),
    Misconception(
        "token_by_token",
        "A token is a piece of text.",
        "A character may be spread over two tokens, so that neither is text by itself: put the "
        "bytes of all tokens together, then decode.",
        piece_by_piece("replace"),
    ),
    MUST_DECODE,
    Misconception("no_return", "The text is sent.", examples=(lambda *args: None,)),
    LOST_AT_THE_END,
    Misconception(
        "nothing_at_the_end",
        "The last event was the last text.",
        "The last step gives text as well: what is new is sent, done or not.",
        until_the_end,
    ),
    Misconception(
        "counts_bytes",
        "A character is a byte.",
        "`sent` counts characters, and some have several bytes: decode first, then leave out what "
        "has been sent.",
        of_bytes,
    ),
    Misconception(
        "again_after_preemption",
        "It begins anew.",
        "After a preemption the request may have fewer tokens than its client has read: they come "
        "again, the same ones, and are not sent again.",
        again_after_preemption,
    ),
)
CHANGES_THE_TEXT = Misconception(
    "changes_the_text",
    "A line end is a line end.",
    "The text is sent as the tokens have it: line ends, accents and what cannot be seen come as "
    "they are, and `sent` counts each of them.",
    matches=lambda got, wanted: (
        "".join(got) != "".join(wanted) and what_is_seen(got) == what_is_seen(wanted)
    ),
    examples=((by(of_a_file)),),
)

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


def of_a_file(data: bytes, is_done: bool) -> str:
    """As it would be read from a text file, whose line ends all become one."""
    return io.TextIOWrapper(io.BytesIO(whole(data, is_done).encode()), "utf-8").read()


def but(changed: Callable[[str], str]) -> Any:
    """All bytes decoded right, and the text changed then."""
    return by(lambda data, is_done: changed(whole(data, is_done)))


def what_is_seen(events: list[str]) -> str:
    """Their text as most ways to read or show it leave it."""
    return "".join(c for c in unicodedata.normalize("NFKC", "".join(events)) if c.isprintable())


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
    also=((by(lambda data, is_done: data.decode())),),
)
LOST_AT_THE_END = Misconception(
    "lost_at_the_end",
    "What is not whole is not sent.",
    "When no more tokens come, the unfinished character stays unfinished: it is sent as U+FFFD, "
    "so that the client has all there is.",
    by(lambda data, is_done: whole(data, False)),
    alike=(by(lambda data, is_done: data.decode(errors="ignore")),),
)
MISCONCEPTIONS = (
    Misconception(
        "not_events",
        "The text is the answer.",
        said_of,
        form=misfit,
        also=((lambda *args: "".join(RIGHT(*args))),),
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
CHANGES_THE_TEXT = Misconception(
    "changes_the_text",
    "A line end is a line end.",
    "The text is sent as the tokens have it: line ends, accents and what cannot be seen come as "
    "they are, and `sent` counts each of them.",
    form=lambda got, wanted: (
        "".join(got) != "".join(wanted) and what_is_seen(got) == what_is_seen(wanted)
    ),
    also=((by(of_a_file)),),
)

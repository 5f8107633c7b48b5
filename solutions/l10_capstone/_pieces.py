"""Misconceptions of streaming a text whose characters may be split over tokens."""

import codecs
import io
import unicodedata
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_items
from course.checks.comparing import a_kind
from course.exercise import Misconception
from nanogpt.server.server_policies import stream_delta

Decode = Callable[[bytes, bool], str]
StartAt = Callable[[str, int], int]


def decoded(data: bytes, is_done: bool) -> str:
    """Without an unfinished character at the end, unless `is_done`."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data, is_done)


def by(decode: Decode, start_at: StartAt = lambda text, sent: sent) -> Any:
    """Decode all bytes by `decode`, and send the text from `start_at(text, sent)` on."""

    def answer(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
        text = decode(b"".join(committed), is_done)
        return [text[start_at(text, sent) :]] if text[start_at(text, sent) :] else []

    return answer


def only_newest(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    return stream_delta(committed[-1:], 0, is_done)


def newest_until_the_end(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    return [] if is_done else [piece.decode(errors="replace") for piece in committed[-1:]]


def counted_in_bytes(decode: Decode) -> Any:
    """Decode only what stands behind the first `sent` bytes."""

    def answer(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
        text = decode(b"".join(committed)[sent:], is_done)
        return [text] if text else []

    return answer


def token_by_token(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    text = "".join(piece.decode(errors="replace") for piece in committed)[sent:]
    return [text] if text else []


def as_a_file(data: bytes, is_done: bool) -> str:
    """Read as a text file, which turns every line end into one form."""
    return io.TextIOWrapper(io.BytesIO(decoded(data, is_done).encode()), "utf-8").read()


def visible(events: list[str]) -> str:
    """Their text without the differences that reading or showing it often loses."""
    return "".join(c for c in unicodedata.normalize("NFKC", "".join(events)) if c.isprintable())


def without_fffd(data: bytes, is_done: bool) -> str:
    text = data.decode(errors="replace")
    return text if is_done else text.rstrip("\ufffd")


def waits_while_it_ends_with_fffd(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    text = b"".join(committed).decode(errors="replace")
    if (text.endswith("\ufffd") and not is_done) or not text[sent:]:
        return []
    return [text[sent:]]


def form(value: Any) -> str:
    """What is wrong with the form of a result, as a sentence; "" for a list of strings."""
    items = as_items(value)
    if items is None:
        return f"Return a list of events, even for one event or none; this is {a_kind(value)}."
    odd = [item for item in items if not isinstance(item, str)]
    return f"An event is a str; one of these is {a_kind(odd[0])}." if odd else ""


MUST_DECODE = Misconception(
    "must_decode",
    "The text is UTF-8, so it can be decoded.",
    "The bytes so far may end in the middle of a character, and then decoding all of them fails.",
    examples=(by(lambda data, is_done: data.decode()),),
)
LOST_AT_THE_END = Misconception(
    "lost_at_the_end",
    "An unfinished character is never sent.",
    "When no more tokens come, the character stays unfinished: send it as U+FFFD, so that the "
    "client has the whole text.",
    by(lambda data, is_done: decoded(data, False)),
)
MISCONCEPTIONS = (
    Misconception(
        "not_events",
        "The function returns the text itself.",
        form,
        matches=form,
        examples=(lambda *args: "".join(stream_delta(*args)),),
    ),
    Misconception(
        "empty_event",
        "Every call gives an event.",
        "If nothing is new, return an empty list and not an event without text.",
        lambda *args: stream_delta(*args) or [""],
    ),
    Misconception(
        "everything_again",
        "An event has the text so far.",
        "The client appends each event to the others, so send it no text that it already has.",
        by(decoded, lambda text, sent: 0),
    ),
    Misconception(
        "newest_token",
        "Each step gives one token, and that token is sent.",
        "A step may give several tokens, or, after a preemption, tokens that the client has. "
        "Compare the text with the number of characters that were sent.",
        only_newest,
        same_result=(newest_until_the_end,),
    ),
    Misconception(
        "half_a_character",
        "Bytes can always be decoded, if errors are replaced.",
        "The bytes of an unfinished character are not text yet, and a client cannot take text "
        "back. Keep them until a later token brings the rest.",
        by(lambda data, is_done: data.decode(errors="replace")),
    ),
    Misconception(
        "token_by_token",
        "A token is a piece of text.",
        "A character may be split over two tokens, so that neither is text by itself. Join the "
        "bytes of all tokens, then decode.",
        token_by_token,
    ),
    Misconception(
        "replacement_means_unfinished",
        "A text that ends with U+FFFD is unfinished.",
        "U+FFFD also stands for bytes that no later token can complete, and it may stand in the "
        "text itself: hold back only the bytes of an unfinished character, not the whole text.",
        waits_while_it_ends_with_fffd,
        same_result=(by(lambda data, is_done: without_fffd(data, is_done)),),
    ),
    MUST_DECODE,
    LOST_AT_THE_END,
    Misconception(
        "nothing_at_the_end",
        "The text is complete before the last call.",
        "The last step generates text as well: send the new text, whether `is_done` or not.",
        lambda committed, sent, is_done: [] if is_done else stream_delta(committed, sent, False),
    ),
    Misconception(
        "counts_bytes",
        "A character is a byte.",
        "`sent` counts characters, and some have several bytes. Decode first, then leave out the "
        "characters that were sent.",
        counted_in_bytes(decoded),
        same_result=(
            counted_in_bytes(
                lambda data, is_done: data.decode(errors="replace" if is_done else "ignore")
            ),
        ),
    ),
    Misconception(
        "again_after_preemption",
        "After a preemption the stream begins again.",
        "After a preemption there may be fewer tokens than the client has read. The same tokens "
        "come again, so do not send them again.",
        by(decoded, lambda text, sent: sent if len(text) >= sent else 0),
    ),
)
CHANGES_THE_TEXT = Misconception(
    "changes_the_text",
    "Line ends, accents and invisible characters do not matter.",
    "Send the text exactly as the tokens have it. Line ends, accents and invisible characters "
    "stay as they are, and `sent` counts each of them.",
    matches=lambda got, wanted: "".join(got) != "".join(wanted) and visible(got) == visible(wanted),
    examples=(by(as_a_file),),
)

"""What stands between a learner's part and the server: a time limit, and a look at its answer.

A part that fails once is asked no more: the request that it failed gets the sentence, and the
reference goes on in its place. So no client of a server waits for a part twice.
"""

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from nanogpt.parts.guard import guarded
from nanogpt.parts.plain_values import as_items, as_mapping, as_truth, as_whole, as_wholes
from nanogpt.server.server_parts import (
    TOO_MANY_REQUESTS,
    Books,
    DoorLimits,
    NewRequest,
    QueueView,
    ServerParts,
    Verdict,
)
from nanogpt.validate import PartError

REFERENCE = ServerParts()
_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class GuardedParts:
    """The parts of one server. Mutable: `problems` has the sentence of each part that failed."""

    parts: ServerParts
    problems: dict[str, str] = field(default_factory=dict[str, str])

    def guarded(self) -> ServerParts:
        """The same parts, those that are not the reference limited, checked and replaceable."""
        wrapped: dict[str, Any] = {}
        for each in fields(ServerParts):
            part, reference = getattr(self.parts, each.name), getattr(REFERENCE, each.name)
            if part is not reference:
                checked = CHECKS[each.name](guarded(each.name, part))
                wrapped[each.name] = self._until_it_fails(each.name, checked, reference)
        return ServerParts(**wrapped)

    def _until_it_fails(
        self, name: str, part: Callable[..., Any], reference: Callable[..., Any]
    ) -> Callable[..., Any]:
        def ask(*args: Any) -> Any:
            if name in self.problems:
                return reference(*args)
            try:
                return _looked_at(name, part, args)
            except PartError as error:
                self.problems[name] = str(error)
                _LOG.warning("%s; the reference goes on in its place", error)
                raise

        return ask


def _looked_at(name: str, part: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What the checked part answers. An answer that cannot even be compared is a wrong one."""
    try:
        return part(*args)
    except PartError:
        raise
    except Exception as error:
        raise PartError(
            f"your {name} returned what cannot be compared or shown ({type(error).__name__})"
        ) from error


def _checked_admission(verdict_of: Callable[..., Any]) -> Callable[..., Verdict]:
    """A limit that is broken, and a refusal that leads nowhere, are no verdicts."""

    def admit_or_refuse(queue: QueueView, limits: DoorLimits, request: NewRequest) -> Verdict:
        answer = verdict_of(queue, limits, request)
        wanted = REFERENCE.admit_or_refuse(queue, limits, request)
        status, retry_s = _refusal(answer)
        num_unfinished = len(queue.running) + queue.num_waiting
        seen = f"your admit_or_refuse returned {answer!r}"
        if status is None and not (isinstance(answer, str) and answer == "accept"):
            raise PartError(f"{seen}; it must be 'accept' or (status, retry_after_s)")
        if status == TOO_MANY_REQUESTS and wanted == "accept" and num_unfinished:
            wanted = status, None  # stricter than its limit, and yet not for ever
        expected = wanted if wanted == "accept" else wanted[0]
        if expected != (status or "accept"):
            raise PartError(
                f"{seen} for {request.num_prompt_tokens} + {request.max_new_tokens} tokens with "
                f"{num_unfinished} of {limits.max_requests} requests unfinished"
                f"{', shutting down' if queue.is_closing else ''}; it must be {expected}"
            )
        if status is None:
            return "accept"
        if status == TOO_MANY_REQUESTS and not 1 <= (retry_s or 0) <= limits.max_retry_s:
            raise PartError(f"{seen}; a 429 comes with 1 to {limits.max_retry_s} whole seconds")
        return status, retry_s if status == TOO_MANY_REQUESTS else None

    return admit_or_refuse


def _refusal(answer: Any) -> tuple[int | None, int | None]:
    """The status and the seconds of an answer that is a refusal; (None, None) for any other."""
    two = as_items(answer) or []
    if len(two) != 2 or (status := as_whole(two[0])) is None:
        return None, None
    return status, as_whole(two[1])


def _checked_events(events_of: Callable[..., Any]) -> Callable[..., list[str]]:
    """A stream that has lost or doubled a character cannot be mended: it is not begun."""

    def next_events(committed: Sequence[bytes], sent: int, is_done: bool) -> list[str]:
        answer = events_of(list(committed), sent, is_done)
        wanted = REFERENCE.next_events(committed, sent, is_done)
        if as_items(answer) != wanted:
            raise PartError(
                f"your next_events returned {answer!r} after {len(committed)} tokens, of which "
                f"{sent} characters were sent; it must be {wanted!r}"
            )
        return wanted

    return next_events


def _checked_leaving(books_of: Callable[..., Any]) -> Callable[..., Books]:
    def on_disconnect(books: Books, request_id: int) -> Books:
        answer = books_of(copy.deepcopy(books), request_id)
        wanted = REFERENCE.on_disconnect(books, request_id)
        for name, value in wanted.items():
            got = (as_mapping(answer) or {}).get(name)
            plain = _plain_books(got, value)
            if plain != value and not (name == "leaving" and _same_ids(plain, value)):
                raise PartError(
                    f"your on_disconnect({books}, {request_id}) gives {name!r} as {got!r}; it must "
                    f"be {value!r}"
                )
        return wanted

    return on_disconnect


def _plain_books(got: Any, wanted: Any) -> Any:
    """A field of books in plain types."""
    if isinstance(wanted, bool):
        return as_truth(got)
    if isinstance(wanted, list):
        items = as_items(got)
        return None if items is None else [as_whole(item) for item in items]
    mapping = as_mapping(got)
    return mapping and {as_whole(key): as_whole(value) for key, value in mapping.items()}


def _same_ids(got: Any, wanted: list[int]) -> bool:
    """Whether the same requests leave: their order says nothing."""
    ids = as_wholes(got)
    return ids is not None and sorted(ids) == sorted(wanted)


CHECKS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "admit_or_refuse": _checked_admission,
    "next_events": _checked_events,
    "on_disconnect": _checked_leaving,
}

"""The room as a guest's page and the screen show it, as plain data made at each sending."""

from dataclasses import asdict
from typing import Any

from course.live import room_requests
from course.live.room import Room
from course.live.room_requests import Guest, RoomRequest
from course.live.tuning import POLICIES, SLIDERS
from nanogpt.checkpoints.tokenizer import ALPHABET, CHARACTERS

OTHERS = 6
MINE = 3


def of_guest(room: Room, guest: Guest) -> dict[str, Any]:
    """A guest's page: its newest requests, and the room's."""
    mine = [each for each in room.requests.values() if each.guest is guest][-MINE:]
    others = [each for each in room.requests.values() if each.guest is not guest][-OTHERS:]
    return {
        "kind": "view",
        "mine": [_written(each, hidden=False) for each in reversed(mine)],
        "others": [_written(each, hidden=room.hidden) for each in reversed(others)],
        "room": _standing(room),
        "limits": {
            "prompt": room_requests.MAX_PROMPT,
            "alphabet": ALPHABET if room.thread.tokenizer is CHARACTERS else "",
        },
    }


def of_screen(room: Room) -> dict[str, Any]:
    """The screen: what stands around the live page."""
    judged = [each.kept_slo for each in room.requests.values() if each.kept_slo is not None]
    newest = [*room.requests.values()][-OTHERS:]
    return {
        "kind": "screen",
        "newest": [_written(each, hidden=room.hidden) for each in reversed(newest)],
        "settings": {**asdict(room.tuning), "paused": room.paused, "hidden": room.hidden},
        "slo": {"kept": sum(judged), "of": len(judged)},
        "event": room.event,
        "room": _standing(room),
    }


def controls() -> dict[str, Any]:
    """The sliders' limits and the policies' names."""
    return {
        "sliders": {name: limits._asdict() for name, limits in SLIDERS.items()},
        "policies": POLICIES,
    }


def _standing(room: Room) -> dict[str, Any]:
    unfinished = room.unfinished()
    running = [each for each in unfinished if each.state in ("prefilling", "active")]
    return {
        "step": room.step_number,
        "running": len(running),
        "waiting": len(unfinished) - len(running),
        "people": sum(guest.pages > 0 for guest in room.guests.values()),
        "paused": room.paused,
    }


def _written(request: RoomRequest, *, hidden: bool) -> dict[str, Any]:
    return {
        "id": request.id,
        "prompt": None if hidden else request.prompt,
        "text": None if hidden else request.text,
        "state": request.state,
        "words": request.words,
        "urgent": request.asked.priority == 0,
    }

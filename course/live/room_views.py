"""What a guest's page and the screen show, as plain data made from the room at each sending."""

from dataclasses import asdict
from typing import Any

from course.live import prompts
from course.live.prompts import Asked, Guest
from course.live.room import Room
from course.live.tuning import POLICIES, SLIDERS
from nanogpt.checkpoints.tokenizer import ALPHABET, decode

ROWS = 6
HEAP_ENTRIES = 7
OTHERS = 6
MINE = 3
NUM_HUES = 8
HIDDEN = "·"


def of_guest(room: Room, guest: Guest) -> dict[str, Any]:
    """A guest's page: its newest requests, and the room's."""
    mine = [each for each in room.asked.values() if each.guest is guest][-MINE:]
    others = [each for each in room.asked.values() if each.guest is not guest][-OTHERS:]
    return {
        "kind": "view",
        "mine": [_written(each, hidden=False) for each in reversed(mine)],
        "others": [_written(each, hidden=room.hidden) for each in reversed(others)],
        "room": _standing(room),
        "limits": {"prompt": prompts.MAX_PROMPT, "alphabet": "".join(ALPHABET)},
    }


def of_screen(room: Room) -> dict[str, Any]:
    """The screen: the newest steps as a trace, the heap, the settings and events."""
    tuning = room.tuning
    rows = _rows(room)
    shown = room.recent.ids() | set(rows)
    everything = [each for each in room.asked.values() if each.id in shown]
    judged = [each.kept_slo for each in room.asked.values() if each.kept_slo is not None]
    newest = [*room.asked.values()][-OTHERS:]
    return {
        "kind": "screen",
        "trace": room.recent.trace(
            [_record(each) for each in everything], tuning.token_budget, tuning.max_kv_tokens
        ),
        "rows": rows,
        "queue": [{**each, "hue": each["id"] % NUM_HUES} for each in room.queue[:HEAP_ENTRIES]],
        "alphabet": [HIDDEN] * len(ALPHABET) if room.hidden else list(ALPHABET),
        "newest": [_written(each, hidden=room.hidden) for each in reversed(newest)],
        "settings": {**asdict(tuning), "paused": room.paused, "hidden": room.hidden},
        "slo": {"kept": sum(judged), "of": len(judged)},
        "events": list(room.events),
        "room": _standing(room),
    }


def controls() -> dict[str, Any]:
    """The sliders' limits and the policies' names."""
    return {
        "sliders": {name: asdict(limits) for name, limits in SLIDERS.items()},
        "policies": POLICIES,
    }


def _rows(room: Room) -> list[int]:
    """The ids that get a row: running, stopped, the first waiting, the newest done."""
    shown = room.recent.ids()
    everything = [each for each in room.asked.values() if each.id in shown or not each.is_over]
    running = [each for each in everything if each.state in ("prefilling", "active")]
    stopped = [each for each in everything if each.state in ("preempted", "lost")]
    waiting = [each for each in everything if each.state == "waiting"]
    done = [each for each in everything if each.is_over]
    best = [*running, *stopped, *waiting[:2], *reversed(done), *waiting[2:]][:ROWS]
    return sorted(each.id for each in best)


def _standing(room: Room) -> dict[str, Any]:
    unfinished = room.unfinished()
    running = [each for each in unfinished if each.state in ("prefilling", "active")]
    return {
        "step": room.step_number,
        "running": len(running),
        "waiting": len(unfinished) - len(running),
        "people": sum(guest.pages > 0 for guest in room.guests.values()),
        "worker": room.worker,
        "paused": room.paused,
    }


def _written(asked: Asked, *, hidden: bool) -> dict[str, Any]:
    return {
        "id": asked.id,
        "hue": asked.id % NUM_HUES,
        "prompt": None if hidden else decode(asked.prompt_tokens),
        "text": None if hidden else decode(asked.tokens),
        "state": asked.state,
        "words": asked.words,
        "urgent": asked.priority == 0,
    }


def _record(asked: Asked) -> dict[str, Any]:
    """A request as the pictures read it: of its prompt only the length."""
    return {
        "id": asked.id,
        "hue": asked.id % NUM_HUES,
        "prompt_tokens": [0] * len(asked.prompt_tokens),
        "max_new_tokens": asked.max_new_tokens,
        "priority": asked.priority,
        "arrival_step": asked.arrival_step,
    }

"""The new places of the lessons, exercises and predictions of earlier versions.

Knows names and text only: the launcher uses it before anything is installed.
"""

import ast
import re

CHECK_AGAIN = "check_again"
"""The status of an exercise whose task has changed since the learner's answer to it passed."""
LESSONS = {"l07_fleet": "l09_fleet", "l09_blocks": "l07_blocks"}
EXERCISES = {  # None: there is no such exercise any more
    "l02_scheduling.resume": "l02_scheduling.requeue",
    "l02_scheduling.record": None,
    "l03_interleaving.assign_tokens": None,
    "l03_interleaving.fused_rows": "l03_interleaving.prepare_inputs",
    "l03_interleaving.sample_rows": None,
    "l03_interleaving.logits_indices": None,
    "l03_interleaving.new_mask": None,
    "l04_sliding_window.held": "l04_sliding_window.kv_usage",
    "l04_sliding_window.ring_slot": "l04_sliding_window.rolling_buffer_index",
    "l04_sliding_window.live_bytes": None,
    "l04b_window_quality.judge": "l04b_window_quality.compare_logits",
    "l05_slo_policy.fit": None,
    "l05_slo_policy.urgency": "l05_slo_policy.edf_score",
    "l05_slo_policy.gate": "l05_slo_policy.select_victim",
    "l05_slo_policy.slo_batch": "l05b_repair_ladder.slo_batch",
    "l06_preempting_the_pass.checkpoint": "l06_preempting_the_pass.preemption_point",
    "l06_preempting_the_pass.clean_up": "l06_preempting_the_pass.rollback_step",
    "l07_fleet.on_event": "l09_fleet.pop_live",
    "l07_fleet.bump": None,
    "l09_fleet.boosted_priority": None,
    "l07_fleet.route": "l09_fleet.route",
    "l07_fleet.my_policy": "l09_fleet.my_policy",
    "l08_speculation.accept": "l08_speculation.rejection_sample",
    "l09_blocks.allocate": "l07_blocks.allocate",
    "l09_blocks.release": None,
    "l07_blocks.free_table": None,
    "l11_milliseconds.captured_size": None,
    "l09_blocks.block_hashes": "l07_blocks.block_hashes",
    "l09_blocks.longest_match": "l07_blocks.longest_match",
    "l09_blocks.writable": None,
    "l09_blocks.evict_order": "l07_blocks.evict_order",
    "l10_capstone.admit_or_refuse": "l10_capstone.admission_control",
    "l10_capstone.next_events": "l10_capstone.stream_delta",
}
# By today's id: a word of 0.1's task, and today's word for it. "" fits every text: it is another
# task altogether.
CHANGED = {
    "l00.next_inputs": ("num_cached", "cached"),
    "l02.sort_key": ("num_known", "num_tokens"),
    "l02.admit": ("num_known", "num_tokens"),
    "l02.choose_victim": ("num_known", "num_tokens"),
    "l02.requeue": ("num_known", "num_tokens"),
    "l02.aged_key": ("num_known", "num_tokens"),
    "l05.select_victim": ("mode", ""),
    "l05.slo_batch": ("urgency", "edf_score"),
    "l06.rollback_step": ("", "SchedulerState"),
    "l06.resume_or_abort": ("sleep", "stay_suspended"),
    "l09.pop_live": ("", "newest"),
}
PREDICTIONS = {
    "l02.crossed_lines": "l03.crossed_lines",
    "l07.overload": "l09.overload",
    "l07.score": "l09.score",
    "l07.baseline": "l09.baseline",
    "l09.reserved": "l07.reserved",
    "l09.shared": "l07.shared",
    "l09.whole": "l07.whole",
    "l09.exhibit_d": "l07.exhibit_c",
    "l08.ghosts": None,
    "l10.doubled": None,
    "l10.ground": None,
}
# These keys ask something else today, so they move only with the lessons' files.
SAME_KEYS = {
    "l07.exhibit_a": "l09.exhibit_a",
    "l07.exhibit_b": None,
    "l09.exhibit_a": None,
    "l09.exhibit_c": "l07.exhibit_b",
}

MODULES = {
    "nanogpt.policy_views": "nanogpt.views.request_view",
    "nanogpt.slo.slo_view": "nanogpt.views.slo_view",
    "nanogpt.server.server_views": "nanogpt.views.server_views",
    "nanogpt.preemption.scheduler_state": "nanogpt.views.scheduler_state",
    "nanogpt.fleet.fleet_views": "nanogpt.views.fleet_views",
}
"""Modules of the engine that lessons imported, and their names of today."""


def with_todays_modules(text: str) -> str:
    """The text with imports of modules under their names of today."""
    for old, new in MODULES.items():
        text = re.sub(rf"\b{re.escape(old)}\b", new, text)
    return text


def id_of(place: str) -> str:
    """The id of the exercise at a place such as "l02b_waiting.aged_key": "l02.aged_key"."""
    stem, _, name = place.partition(".")
    return f"{stem[:3]}.{name}"


IDS = {
    id_of(old): id_of(new) if new else None
    for old, new in EXERCISES.items()
    if new is None or id_of(old) != id_of(new)
}
"""Today's id of each exercise of 0.1 that had another; None if it is gone."""


def todays_id(exercise_id: str) -> str:
    """The id today; the same one where it never changed, or where the exercise is gone."""
    return IDS.get(exercise_id) or exercise_id


def is_changed(exercise_id: str, text: str) -> bool:
    """Whether an answer, saved under today's id or 0.1's, was written for 0.1's own task."""
    now = todays_id(exercise_id)
    if now not in CHANGED:
        return False
    old, new = CHANGED[now]
    if not old:
        return exercise_id != now
    words = _words(text)
    return old in words and new not in words


def renamed(text: str, lesson: str) -> str:
    """The text with the functions of 0.1's lesson under their names of today.

    A name that the text also uses for something else, or that it has already, stays.
    """
    for place, now in EXERCISES.items():
        stem, _, old = place.partition(".")
        new = now.partition(".")[2] if now else old
        if stem != lesson or new == old or f"def {old}(" not in text:
            continue
        words = _words(text)
        if not CHANGED.get(id_of(now or place), ("x", ""))[0] or new in words:
            continue
        if words.get(old, {str}) <= {ast.Name, ast.FunctionDef, ast.arg}:
            text = re.sub(rf"(?<![\w.]){old}(?!\w)", new, text)
    return text


def with_todays_names(text: str, lesson: str) -> str:
    """A whole lesson's text, in which functions under 0.1's names have today's names as well."""
    added = ""
    for place, now in EXERCISES.items():
        old, (stem, _, new) = place.partition(".")[2], (now or "").partition(".")
        is_same = CHANGED.get(id_of(now or place), ("x", ""))[0]
        if stem == lesson and is_same and f"def {old}(" in text and f"def {new}(" not in text:
            cell = f"@app.cell\ndef _({old}):\n    {new} = {old}\n    return ({new},)\n\n\n"
            added += cell if "\n@app." in text else f"\n\n{new} = {old}\n"
    before, main, after = text.partition('if __name__ == "__main__":')
    return before + added + main + after


def _words(text: str) -> dict[str, set[type]]:
    """Names, attributes and strings of a text, with what each is used as; none if it is broken."""
    found: dict[str, set[type]] = {}
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found
    for node in nodes:
        for field in ("id", "attr", "name", "arg", "value"):
            word = getattr(node, field, None)
            if isinstance(word, str):
                found.setdefault(word, set()).add(type(node))
    return found

"""The live room: what a guest may send, what the instructor may do, what each page is shown."""

import json

import pytest
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from living import Clock, Stage

from course.live import prompts, views
from course.live.prompts import Refused, checked_prompt
from course.live.recent_steps import RecentSteps
from course.live.room import MAX_GUESTS, Room
from nanogpt.checkpoints.tokenizer import ALPHABET, decode


def refusal(call, *arguments: object) -> str:
    with pytest.raises(Refused) as refused:
        call(*arguments)
    return str(refused.value)


# ---- prompts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "The prompt is empty; send at least one character."),
        (" \n ", "The prompt is empty"),
        ("x" * 121, "The prompt has 121 characters; 120 is the most."),
        ("x" * 100_000, "The prompt has 100000 characters; 120 is the most."),
        ("To b\u00e9", "The model has never seen “é”; it knows letters, spaces, line breaks and"),
        ("<script>", "The model has never seen “<”"),
        ("a\x00b", "The model has never seen character 0;"),
        ("a\x1b[31m", "The model has never seen character 27;"),
        ("a\u202eb", "The model has never seen character 8238;"),
        ("2 b", "The model has never seen “2”; it knows letters, spaces, line breaks and ! $ &"),
        (None, "A prompt is text."),
        (["To be"], "A prompt is text."),
    ],
)
def test_a_prompt_that_cannot_be_served_gets_one_sentence(text: object, words: str):
    assert refusal(checked_prompt, text).startswith(words)


@examples(200)
@given(text=st.text(max_size=140))
def test_a_prompt_is_taken_as_it_is_or_refused(text: str):
    try:
        tokens = checked_prompt(text)
    except Refused:
        plain = text.replace("\r\n", "\n")
        assert not plain.strip() or len(plain) > 120 or set(plain) - set(ALPHABET)
    else:
        assert decode(tokens) == text.replace("\r\n", "\n")


def test_a_guest_sends_one_prompt_in_two_seconds():
    clock = Clock()
    room = Room(clock=clock)
    guest = room.join()
    room.ask(guest, "To be")
    clock.now += 0.5
    assert refusal(room.ask, guest, "or not") == "One prompt every 2 seconds; wait 2 more."
    clock.now += 1.5
    assert room.ask(guest, "or not").id == 2


def test_a_guest_has_two_unfinished_prompts_at_most():
    clock = Clock()
    room = Room(clock=clock)
    guest = room.join()
    for _ in range(2):
        room.ask(guest, "To be")
        clock.now += 10
    words = "2 of yours are not done yet; wait for one of them."
    assert refusal(room.ask, guest, "To be") == words
    assert room.ask(room.join(), "To be").id == 3


def test_a_room_sends_no_more_than_the_engine_can_take():
    clock = Clock()
    room = Room(clock=clock)
    words = "The room sends more than the engine can take; try again in a moment."
    for _ in range(prompts.BURST):
        room.ask(room.join(), "To be")
    assert refusal(room.ask, room.join(), "To be") == words
    while len(room.unfinished()) < prompts.MAX_UNFINISHED:
        clock.now += 1
        room.ask(room.join(), "To be")
    clock.now += 1
    assert refusal(room.ask, room.join(), "To be") == words


def test_a_room_holds_so_many_guests_and_forgets_those_that_left():
    room = Room()
    guests = [room.join() for _ in range(MAX_GUESTS)]
    assert refusal(room.join) == f"The room is full: {MAX_GUESTS} are here."
    room.leave(guests[0])
    assert room.join() is not guests[0]
    assert len(room.guests) == MAX_GUESTS


def test_a_guest_that_comes_back_finds_its_requests():
    room = Room()
    guest = room.join()
    room.ask(guest, "To be")
    room.leave(guest)
    assert room.join(guest.key) is guest
    assert [each["id"] for each in views.of_guest(room, guest)["mine"]] == [1]
    assert room.join("no key of ours") is not guest
    assert room.join(["a list"]) is not guest


def test_what_a_guest_asked_for_is_served_when_it_has_left():
    stage = Stage()
    guest = stage.room.join()
    asked = stage.room.ask(guest, "To be")
    stage.room.leave(guest)
    stage.finish()
    assert (asked.state, len(asked.tokens)) == ("done", prompts.NEW_TOKENS)


# ---- the instructor ------------------------------------------------------------------------------


def test_halving_ends_at_the_least_budget_with_a_sentence():
    room = Room()
    room.halve_kv()
    assert room.tuning.max_kv_tokens == 320
    assert refusal(room.halve_kv) == "The KV budget is 320, its least: less holds no long prompt."


def test_a_setting_beyond_its_limit_is_refused_and_changes_nothing():
    room = Room()
    before = room.tuning
    words = "token_budget is 999; it must be a whole number from 4 to 64."
    assert refusal(room.tune, {"slo_steps": 8, "token_budget": 999}) == words
    assert room.tuning == before


def test_the_slos_share_counts_first_tokens_that_came_in_time():
    stage = Stage(slo_steps=4, token_budget=4)
    stage.ask("To be, or not to be")  # five steps of prefill
    stage.finish()
    stage.ask("To be")
    stage.finish()
    assert views.of_screen(stage.room)["slo"] == {"kept": 1, "of": 2}


def test_hidden_texts_are_in_nothing_that_is_sent_but_to_the_guest_that_wrote_them():
    stage = Stage()
    guest, other = stage.room.join(), stage.room.join()
    asked = stage.room.ask(guest, "Fie on thee")
    stage.step(6)
    stage.room.show(hidden=True)
    text = decode(asked.tokens)
    assert len(text) >= 5
    screen, seen = views.of_screen(stage.room), views.of_guest(stage.room, other)
    assert [(each["prompt"], each["text"]) for each in screen["newest"]] == [(None, None)]
    assert [(each["prompt"], each["text"]) for each in seen["others"]] == [(None, None)]
    assert set(screen["alphabet"]) == {views.HIDDEN}
    assert "Fie" not in json.dumps([screen, seen], ensure_ascii=False)
    mine = views.of_guest(stage.room, guest)["mine"]
    assert [(each["prompt"], each["text"]) for each in mine] == [("Fie on thee", text)]
    stage.room.show(hidden=False)
    assert views.of_screen(stage.room)["newest"][0]["prompt"] == "Fie on thee"


# ---- what a guest sees ---------------------------------------------------------------------------


def test_a_request_waits_prefills_decodes_and_is_done():
    stage = Stage(token_budget=8)
    asked = stage.ask("To be, or not")  # 13 tokens
    seen = [(asked.state, asked.words)]
    for _ in range(4):
        stage.step()
        seen.append((asked.state, asked.words))
    assert seen == [
        ("waiting", "It is on its way to the engine."),
        ("prefilling", "Prefill: 8 of 13 known tokens are computed."),
        ("active", "Decode: 1 of 32 tokens."),
        ("active", "Decode: 2 of 32 tokens."),
        ("active", "Decode: 3 of 32 tokens."),
    ]
    stage.finish()
    assert (asked.state, asked.words) == ("done", "Done: 32 tokens, the first after 2 steps.")


def test_a_preempted_request_keeps_its_text_and_says_why():
    stage = Stage(max_kv_tokens=640, token_budget=64)
    asked = [stage.ask("x" * 100) for _ in range(6)]
    stage.step(14)
    stage.room.halve_kv()
    texts = [list(each.tokens) for each in asked]
    stage.step()
    victims = stage.steps()[-1]["preempted"]
    words = "Preempted to keep the KV budget: its K/V is gone, its text stays."
    assert victims
    for victim in victims:
        assert (asked[victim - 1].state, asked[victim - 1].words) == ("preempted", words)
        assert asked[victim - 1].tokens == texts[victim - 1]
    stage.step()
    assert asked[victims[0] - 1].state == "preempted"
    assert asked[victims[0] - 1].words.startswith("Preempted: the KV budget is short: ")


# ---- what the screen draws -----------------------------------------------------------------------


def test_the_screens_trace_says_what_lies_before_it():
    recent = RecentSteps(1)
    empty = {"waits": [], "preempted": [], "finished": [], "lost": [], "start_us": 0}
    work = {"request_id": 3, "start": 0, "end": 9, "sampled": 5}
    recent.add({**empty, "work": [work], "kv": [{"request_id": 3, "kv_tokens": 9}]})
    decode_work = {"request_id": 3, "start": 9, "end": 10, "sampled": 6}
    recent.add({**empty, "work": [decode_work], "kv": [{"request_id": 3, "kv_tokens": 10}]})
    (request,) = recent.trace([{"id": 3}], 8, 320)["requests"]
    assert request["before"] == {"held": 9, "reached": 9, "lost": 0, "generated": 1}
    recent.add({**empty, "work": [], "kv": [], "preempted": [3]})
    recent.add({**empty, "work": [], "kv": [], "lost": [3]})
    recent.add({**empty, "work": [], "kv": []})
    (request,) = recent.trace([{"id": 3}], 8, 320)["requests"]
    assert request["before"] == {"held": 0, "reached": 10, "lost": 10, "generated": 0}


def test_the_screen_says_of_a_full_room_no_more_than_it_shows():
    stage = Stage(token_budget=64)
    for _ in range(100):
        stage.ask("x" * 100)
    stage.step(40)
    screen = views.of_screen(stage.room)
    assert len(screen["rows"]) == views.ROWS and len(screen["queue"]) == views.HEAP_ENTRIES
    known = {request["id"] for request in screen["trace"]["requests"]}
    assert set(screen["rows"]) <= known
    for step in screen["trace"]["steps"]:
        assert {share["request_id"] for share in (*step["work"], *step["waits"])} <= known
    assert len(json.dumps(screen)) < 60_000


def test_a_prompt_is_never_on_the_screens_trace():
    """Only its length, which is all that the pictures need."""
    stage = Stage()
    stage.ask("To be")
    stage.step()
    assert views.of_screen(stage.room)["trace"]["requests"][0]["prompt_tokens"] == [0] * 5

"""The live room: what a guest may send, what the instructor may do, what each page is shown."""

import json
from pathlib import Path

import pytest
from byte_pair_folders import make_folder
from hypothesis import given
from hypothesis import strategies as st
from living import Stage

from course.launcher.failure import Failure
from course.live import room_requests, room_views
from course.live.live_command import room_of
from course.live.room import MAX_GUESTS
from course.live.room_engine import SEED, TEMPERATURE
from course.live.room_requests import Refused, checked_prompt
from nanogpt import generate
from nanogpt.checkpoints.tokenizer import ALPHABET


def refusal(call, *arguments: object) -> str:
    with pytest.raises(Refused) as refused:
        call(*arguments)
    return str(refused.value)


def test_a_prompt_that_cannot_be_served_gets_one_sentence():
    for text, words in (
        (" \n ", "The prompt is empty; send at least one character."),
        ("x" * 121, "The prompt has 121 characters; 120 is the most."),
        ("To b\u00e9", "The model has never seen “é”; it knows letters, spaces, line breaks and"),
        ("a\x1b[31m", "The model has never seen character 27;"),
        (["To be"], "A prompt is text."),
    ):
        assert refusal(checked_prompt, text).startswith(words)


@given(text=st.text(max_size=140))
def test_a_prompt_is_taken_as_it_is_or_refused(text: str):
    plain = text.replace("\r\n", "\n")
    try:
        taken = checked_prompt(text)
    except Refused:
        assert not plain.strip() or len(plain) > 120 or set(plain) - set(ALPHABET)
    else:
        assert taken == plain


def test_a_folders_model_writes_its_text_by_its_own_tokenizer(tmp_path: Path):
    with pytest.raises(Failure, match="there is no config"):
        room_of(tmp_path)
    stage, prompt = Stage(room_of(make_folder(tmp_path / "gpt2"))), "Ärger, 今日は"
    tokenizer, model = stage.thread.tokenizer, stage.thread.engine.model
    new = generate(
        model, tokenizer.encode(prompt), 32, temperature=TEMPERATURE, seed=SEED, request_id=0
    )
    tokenizer.end_tokens = (new[20],)
    end, asked = new.index(new[20]), stage.ask(prompt)
    stage.finish()
    assert asked.text == b"".join(map(tokenizer.piece, new[: end + 1])).decode(errors="replace")
    assert asked.words.startswith(f"Done: {end + 1} tokens, the first after 1 step")
    view = room_views.of_guest(stage.room, stage.room.join())
    assert view["others"][0]["prompt"] == prompt and view["limits"]["alphabet"] == ""
    assert refusal(checked_prompt, "\N{ROCKET}" * 100, tokenizer).endswith("; 288 is the most.")


def test_a_guest_sends_one_prompt_in_two_seconds_and_has_two_unfinished_ones_at_most():
    stage = Stage()
    room, clock = stage.room, stage.clock
    guest = room.join()
    room.ask(guest, "To be")
    clock.now += 0.5
    assert refusal(room.ask, guest, "or not") == "One prompt every 2 seconds; wait 2 more."
    clock.now += 1.5
    assert room.ask(guest, "or not").id == 1
    clock.now += 10
    words = "2 of yours are not done yet; wait for one of them."
    assert refusal(room.ask, guest, "To be") == words
    assert room.ask(room.join(), "To be").id == 2


def test_a_room_sends_no_more_than_the_engine_can_take():
    stage = Stage()
    room, clock = stage.room, stage.clock
    words = "The room sends more than the engine can take; try again in a moment."
    for _ in range(room_requests.BURST):
        room.ask(room.join(), "To be")
    assert refusal(room.ask, room.join(), "To be") == words
    while len(room.unfinished()) < room_requests.MAX_UNFINISHED:
        clock.now += 1
        room.ask(room.join(), "To be")
    clock.now += 1
    assert refusal(room.ask, room.join(), "To be") == words


def test_a_guest_that_comes_back_finds_its_requests_which_were_served_meanwhile():
    stage = Stage(slo_steps=4, token_budget=4)
    room = stage.room
    guest = room.join()
    asked = room.ask(guest, "To be, or not to be")  # five steps of prefill
    stage.finish()
    stage.ask("To be")
    stage.finish()
    assert room_views.of_screen(room)["slo"] == {"kept": 1, "of": 2}
    assert (asked.state, len(asked.text)) == ("done", room_requests.NEW_TOKENS)
    assert room.join(guest.key) is guest
    assert [each["id"] for each in room_views.of_guest(room, guest)["mine"]] == [0]
    assert room.join("no key of ours") is not guest
    while len(room.guests) < MAX_GUESTS:
        assert room.join() is not guest
    for each in room.guests.values():
        each.pages = 1
    assert refusal(room.join) == f"The room is full: {MAX_GUESTS} are here."


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"slo_steps": 8, "token_budget": 65},
            "token_budget is 65; it must be a whole number from 4",
        ),
        ({"pace_ms": 1.5}, "pace_ms is 1.5; it must be a whole number"),
        ({"sliding_window": True}, "sliding_window is True; it must be a whole number"),
        ({"policy": "lifo"}, "there is no policy 'lifo'; choose from"),
        ({"speed": 1}, "there is no setting 'speed'; there are token_budget"),
    ],
)
def test_a_setting_beyond_its_limit_is_refused_and_changes_nothing(values: dict, words: str):
    room = Stage().room
    before = room.tuning
    assert refusal(room.tune, values).startswith(words)
    assert room.tuning == before


def test_the_least_kv_budget_holds_the_longest_request_that_there_can_be():
    longest = (
        max(room_requests.MAX_PROMPT, len(room_requests.LONG_PROMPT)) + room_requests.NEW_TOKENS - 1
    )
    room = Stage().room
    room.halve_kv()
    assert room.tuning.max_kv_tokens == 320 >= longest
    assert refusal(room.halve_kv) == "The KV budget is 320, its least: less holds no long prompt."


def test_hidden_texts_are_in_nothing_that_is_sent_but_to_the_guest_that_wrote_them():
    stage = Stage()
    guest, other = stage.room.join(), stage.room.join()
    asked = stage.room.ask(guest, "Fie on thee")
    stage.step(6)
    stage.room.show(hidden=True)
    text = asked.text
    assert len(text) >= 5
    screen, seen = room_views.of_screen(stage.room), room_views.of_guest(stage.room, other)
    assert [(each["prompt"], each["text"]) for each in screen["newest"]] == [(None, None)]
    assert [(each["prompt"], each["text"]) for each in seen["others"]] == [(None, None)]
    assert "Fie" not in json.dumps([screen, seen], ensure_ascii=False)
    mine = room_views.of_guest(stage.room, guest)["mine"]
    assert [(each["prompt"], each["text"]) for each in mine] == [("Fie on thee", text)]
    stage.room.show(hidden=False)
    screen = room_views.of_screen(stage.room)
    assert screen["newest"][0]["prompt"] == "Fie on thee"


def test_a_request_waits_prefills_decodes_and_is_done():
    stage = Stage(token_budget=8)
    asked = stage.ask("To be, or not")  # 13 tokens
    seen = [(asked.state, asked.words)]
    for _ in range(3):
        stage.step()
        seen.append((asked.state, asked.words))
    assert seen == [
        ("waiting", "It is on its way to the engine."),
        ("prefilling", "Prefill: 8 of 13 known tokens are computed."),
        ("active", "Decode: 1 of 32 tokens."),
        ("active", "Decode: 2 of 32 tokens."),
    ]
    stage.finish()
    assert (asked.state, asked.words) == ("done", "Done: 32 tokens, the first after 2 steps.")


def test_the_pages_say_of_a_full_room_no_more_than_they_show_and_why_one_was_preempted():
    stage = Stage(token_budget=64, max_kv_tokens=640)
    asked = [stage.ask("x" * 100) for _ in range(100)]
    stage.step(14)
    stage.room.halve_kv()
    texts = [each.text for each in asked]
    stage.step()
    victims = [asked[number] for number in stage.steps[-1].preempted]
    words = "Preempted to keep the KV budget: its K/V is gone, its text stays."
    assert victims and {(each.state, each.words) for each in victims} == {("preempted", words)}
    assert [victim.text for victim in victims] == [texts[each.id] for each in victims]
    stage.step(25)
    for view in (room_views.of_screen(stage.room), room_views.of_guest(stage.room, asked[0].guest)):
        assert len(json.dumps(view)) < 4000

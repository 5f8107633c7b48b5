"""The heap stepper and the KV budget view in Chromium: keys, motion, widths, axe, shared steps."""

import pytest
from driving import (
    focus_toolbar,
    from_the_start,
    live,
    press,
)

from course.stories.l02_heap import record_heap
from widgets import HeapStepper, KVBudget, Timeline

pytestmark = pytest.mark.browser


# ---- samples -------------------------------------------------------------------------------------


def a_heap():
    def push(request_id, *key):
        return {"op": "push", "entry": {"id": request_id, "key": list(key)}}

    short = {"held": 14, "candidate": 10, "budget": 22, "batch": 1, "max_batch": 4}
    look = {"op": "look", "admission": {**short, "verdict": "wait"}}
    pop = {"op": "pop", "admission": {**short, "held": 4, "verdict": "admit"}}
    keys = [(2, 0), (1, 1), (2, 2), (0, 3), (1, 3), (2, 4), (0, 5)]
    pushes = [push(request_id, *key) for request_id, key in enumerate(keys)]
    return record_heap([*pushes, look, pop, pop])


def work(request_id, kind, start, end, sampled=1):
    return {"request_id": request_id, "kind": kind, "start": start, "end": end, "sampled": sampled}


def a_step(number, kv, shares, **more):
    held = [{"request_id": each, "kv_tokens": tokens} for each, tokens in kv.items()]
    return {
        "step": number, "start_us": 5000 * number, "end_us": 5000 * number + 5000 - 100 * number,
        "token_budget": 16, "work": shares, "waits": [], "admitted": [], "preempted": [],
        "finished": [], "forwards": [], "kv_before": 0, "kv_after": sum(kv.values()), "kv": held,
        **more,
    }  # fmt: skip


def a_swapped_run(steps=9, error=None):
    """Two requests, a budget of 22: request 1 gives way in step 2 and comes back in step 6."""
    wait = [{"request_id": 1, "status": "waiting", "reason": "the KV budget is short"}]
    run = [
        a_step(0, {0: 10}, [work(0, "prefill", 0, 10)], admitted=[0]),
        a_step(1, {0: 11, 1: 11}, [work(0, "decode", 10, 11), work(1, "prefill", 0, 11)]),
        a_step(2, {0: 12}, [work(0, "decode", 11, 12)], preempted=[1], waits=wait),
        a_step(3, {0: 13}, [work(0, "decode", 12, 13)], waits=wait),
        a_step(4, {0: 14}, [work(0, "decode", 13, 14)], waits=wait),
        a_step(5, {}, [work(0, "decode", 14, 15)], waits=wait, finished=[0]),
        a_step(6, {1: 12}, [work(1, "prefill", 0, 12)], admitted=[1]),
        a_step(7, {1: 13}, [work(1, "decode", 12, 13)]),
        a_step(8, {}, [work(1, "decode", 13, 14)], finished=[1]),
    ]
    requests = [
        {
            "id": request_id, "prompt_tokens": [1] * 10, "max_new_tokens": 6,
            "priority": request_id, "arrival_step": request_id, "arrival_us": 5000 * request_id,
        }
        for request_id in range(2)
    ]  # fmt: skip
    return {
        "version": 2, "clock": {"name": "a large GPU", "modelled": True}, "executor": "packed",
        "token_budget": 16, "max_kv_tokens": 22, "requests": requests, "steps": run[:steps],
        "error": error,
    }  # fmt: skip


def every_widget():
    stopped = a_swapped_run(4, error="your choose_victim raised KeyError")
    return [
        HeapStepper(a_heap(), title="The waiting queue"),
        KVBudget(a_swapped_run(), title="A run"),
        KVBudget(stopped, other=a_swapped_run(), yours=True),
        KVBudget({**a_swapped_run(), "max_kv_tokens": None}),
        KVBudget(a_swapped_run(0)),
    ]


# ---- all -----------------------------------------------------------------------------------------


# ---- the heap ------------------------------------------------------------------------------------


def test_the_keyboard_steps_the_heap_move_by_move(show):
    page = from_the_start(show(every_widget()[:1]))
    assert live(page) == "The heap is empty; 10 operations will change it."
    focus_toolbar(page)
    press(page, "ArrowRight", 4)
    assert live(page) == (
        "Operation 2 of 10, push request 1, key (1, 1). Request 1's key (1, 1) is smaller than "
        "its parent's, (2, 0): they swap places."
    )
    assert page.locator(".sn-he-crossed").count() == 1
    assert page.get_by_role("img").get_attribute("aria-label") == (
        "The array from its first cell: request 1 with key (1, 1) and request 0 with key (2, 0)."
    )
    press(page, "Home")
    assert live(page).startswith("The heap is empty")
    press(page, "End")
    assert "Taken out so far:request 3request 6" in page.locator(".sn-he-out").text_content()


def boxes(page, words):
    """Where the node and the cell of an entry are, from top to bottom."""
    found = page.locator(".sn-he-entry:not(.sn-he-absent)").filter(has_text=words)
    return sorted((each.bounding_box() for each in found.all()), key=lambda box: box["y"])


def test_the_top_of_the_tree_is_the_first_cell_in_the_same_colour(show):
    page = from_the_start(show(every_widget()[:1], reduced_motion="reduce"))
    focus_toolbar(page)
    press(page, "ArrowRight", 20)
    node, cell = boxes(page, "request 3")
    others = [each.bounding_box() for each in page.locator(".sn-he-entry:not(.sn-he-absent)").all()]
    assert node["y"] == min(box["y"] for box in others)
    assert cell["x"] == min(box["x"] for box in others if box["y"] == cell["y"])
    colours = (
        page.locator(".sn-he-entry", has_text="request 3")
        .locator("rect")
        .evaluate_all("all => all.map((each) => getComputedStyle(each).fill)")
    )
    assert len(colours) == 2 and len(set(colours)) == 1


def test_entries_glide_unless_motion_is_reduced(show):
    moving = "getComputedStyle(document.querySelector('.sn-he-entry')).transitionDuration"
    assert show(every_widget()[:1]).evaluate(moving) == "0.32s, 0.16s"
    assert show(every_widget()[:1], reduced_motion="reduce").evaluate(moving) == "0s"


def test_the_admission_test_is_drawn_and_said(show):
    page = from_the_start(show(every_widget()[:1]))
    focus_toolbar(page)
    while "Admission" not in live(page):
        press(page, "ArrowRight")
    assert live(page) == (
        "Operation 8 of 10, look at the top. Admission: Request 3 needs 10 tokens; 14 of 22 are "
        "held; 14 + 10 > 22: it waits, and nothing overtakes it."
    )
    assert page.locator(".sn-he-over").count() == 1
    assert "14 held + 10 needed" in page.locator(".sn-he-test").text_content()
    press(page, "ArrowRight")
    assert live(page).endswith("1 of 4 places in the batch is taken: it is admitted.")
    assert page.locator(".sn-he-over").count() == 0
    press(page, "ArrowRight")
    assert page.locator(".sn-he-test").text_content() == ""


# ---- the KV budget -------------------------------------------------------------------------------


def test_the_keyboard_steps_the_kv_budget(show):
    page = from_the_start(show([KVBudget(a_swapped_run())]))
    assert live(page) == "Step 0: 10 of 22 KV tokens held."
    focus_toolbar(page)
    press(page, "ArrowRight", 2)
    assert live(page) == (
        "Step 2: 12 of 22 KV tokens held. Request 1 is preempted: its 11 tokens are released; "
        "it has 1 generated token to keep."
    )
    press(page, "End")
    assert live(page) == (
        "Step 8: 0 of 22 KV tokens held. Request 1 is done: its 14 tokens are released. "
        "Recomputed so far: 11 tokens."
    )


def test_stacks_drops_and_recomputed_tokens_are_to_scale(show):
    page = from_the_start(show([KVBudget(a_swapped_run())]))
    held = [box.bounding_box() for box in page.locator(".sn-kv-picture .sn-kv-box-held").all()]
    one = held[0]["height"] / 10
    assert [round(box["height"] / one) for box in held] == [10, 11, 11, 12, 13, 14, 12, 13]
    dropped = page.locator(".sn-kv-picture .sn-kv-box-dropped").bounding_box()
    assert dropped["height"] == pytest.approx(11 * one, abs=2)
    hatched = page.locator(".sn-kv-picture g > rect[fill^=url]").all()
    assert [round(box.bounding_box()["height"] / one) for box in hatched[-2:]] == [11, 11]
    assert page.get_by_text("request 1: −11", exact=True).first.is_visible()
    line = page.locator(".sn-kv-limit").bounding_box()["y"]
    assert held[0]["y"] + held[0]["height"] - line == pytest.approx(22 * one, abs=2)


def test_without_a_budget_there_is_no_line(show):
    page = from_the_start(show([KVBudget({**a_swapped_run(), "max_kv_tokens": None})]))
    assert page.locator(".sn-kv-limit").count() == 0
    assert live(page) == "Step 0: 10 KV tokens held."
    assert page.get_by_text("no KV budget", exact=True).is_visible()


def test_two_runs_share_the_axis_and_the_cursor_and_each_says_its_totals(show):
    page = from_the_start(
        show([KVBudget(a_swapped_run(), other=a_swapped_run(4), names=("FCFS", "priority"))])
    )
    assert page.locator(".sn-kv-cursor").count() == 2
    totals = page.locator(".sn-kv-total")
    assert totals.all_text_contents() == [
        f"{name}: So far: 10 tokens computed, none of them recomputed; 0 preemptions; "
        "1 token generated in 1 step, 5.0 ms."
        for name in ("FCFS", "Priority")
    ]
    focus_toolbar(page)
    press(page, "End")
    assert totals.all_text_contents() == [
        "FCFS: 40 tokens computed, 11 of them recomputed (28 percent); 1 preemption; "
        "10 tokens generated in 9 steps, 44.2 ms.",
        "Priority: 24 tokens computed, none of them recomputed; 1 preemption; "
        "5 tokens generated in 4 steps, 19.7 ms.",
    ]
    assert live(page).startswith("FCFS, step 8: ")
    assert live(page).endswith("\nPriority is already done.")


def test_width_can_show_time(show):
    page = show([KVBudget(a_swapped_run())])
    boxes = page.locator(".sn-kv-picture .sn-kv-box-held")
    assert boxes.first.bounding_box()["width"] == boxes.last.bounding_box()["width"]
    page.get_by_role("button", name="Width shows time").click()
    assert boxes.first.bounding_box()["width"] > boxes.last.bounding_box()["width"]
    assert "ms" in page.locator(".sn-kv-picture").text_content()


def test_a_stopped_run_and_an_empty_one_say_so(show):
    page = from_the_start(show(every_widget()[2:5:2]))
    assert page.locator(".sn-note-bad").text_content() == (
        "Yours stopped after step 3: your choose_victim raised KeyError"
    )
    assert live(page, 1) == "No step was run."


def test_a_click_on_a_column_moves_the_cursor_there(show):
    page = show([KVBudget(a_swapped_run())])
    page.locator(".sn-kv-picture").click(position={"x": 3 + 58 * 2.5, "y": 150})
    assert live(page).startswith("Step 2: ")


# ---- shared steps --------------------------------------------------------------------------------


def test_widgets_of_one_group_share_the_step_and_only_the_moved_one_speaks(show):
    trace = a_swapped_run()
    linked = [KVBudget(trace, group="a"), Timeline(trace, group="a")]
    page = from_the_start(show([*linked, KVBudget(trace, group="b"), KVBudget(trace)]))

    def shown():
        return [live(page, index)[5] for index in range(4)]

    def spoken():
        return [line.get_attribute("aria-live") for line in page.locator(".sn-live").all()[:2]]

    focus_toolbar(page)
    press(page, "ArrowRight", 3)
    assert (shown(), spoken()) == (["3", "3", "0", "0"], ["polite", "off"])
    focus_toolbar(page, 1)
    press(page, "End")
    assert (shown(), spoken()) == (["8", "8", "0", "0"], ["off", "polite"])


def test_a_shorter_run_of_the_group_stays_at_its_end_and_does_not_pull_the_other_back(show):
    short, whole = KVBudget(a_swapped_run(4), group="a"), KVBudget(a_swapped_run(), group="a")
    page = show([short, whole])
    focus_toolbar(page, 1)
    press(page, "End")
    assert [live(page, index)[:7] for index in range(2)] == ["Step 3:", "Step 8:"]


def test_playing_one_stops_the_other_and_takes_it_along(show):
    trace = a_swapped_run(3)
    page = show([KVBudget(trace, group="a"), KVBudget(trace, group="a")])
    focus_toolbar(page)
    press(page, "Space")
    page.wait_for_function("document.querySelectorAll('.sn-live')[1].textContent.includes('p 2:')")
    assert [live(page, index)[:7] for index in range(2)] == ["Step 2:", "Step 2:"]


def test_a_widget_that_is_taken_away_listens_no_more(show):
    widget = KVBudget(a_swapped_run(), group="a")
    page = show([])
    left = page.evaluate(
        """async ([source, state]) => {
            const counts = { add: 0, remove: 0 };
            const watched = (name, original) => (type, ...rest) => {
                if (type === "serving-nanogpt-step") counts[name] += 1;
                return original.call(window, type, ...rest);
            };
            window.addEventListener = watched("add", window.addEventListener);
            window.removeEventListener = watched("remove", window.removeEventListener);
            const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
            const { default: widget } = await import(address);
            const model = { get: (name) => state[name], on() {}, off() {} };
            const el = document.createElement("div");
            document.body.append(el);
            const cleanup = widget.render({ model, el });
            const before = { ...counts };
            cleanup();
            return [before, counts, el.children.length];
        }""",
        [
            widget._esm,
            {name: getattr(widget, name) for name in ("trace", "other", "title", "names", "group")},
        ],
    )
    assert left == [{"add": 1, "remove": 0}, {"add": 1, "remove": 1}, 0]

"""The widgets in one offline HTML file, driven in Chromium: stepping, keys, themes, widths, axe."""

import re

import pytest
from driving import (
    assert_one_tab_stop_each,
    box,
    focus_toolbar,
    from_the_start,
    live,
)

from widgets import Batching, Hints, MaskStepper, Prediction, StepCost, Timeline, WorkBars

pytestmark = pytest.mark.browser


# ---- samples -------------------------------------------------------------------------------------


def a_trace(chunk, error=None):
    """Two requests, by hand: 0 decodes while 1's prompt of 24 runs in chunks of `chunk` tokens."""
    steps = [a_step(0, 0, 800, [work(0, "prefill", 0, 6, 43)], [])]
    cursor, known = 0, 6
    while known < 20:
        shares, waits, end = [work(0, "decode", known, known + 1, 46)], [], min(24, cursor + chunk)
        if cursor < 24:
            shares.append(work(1, "prefill", cursor, end, 39 if end == 24 else None))
        elif known % 2:
            shares.append(work(1, "decode", 24, 25, 1))
        else:
            waits.append({"request_id": 1, "status": "active", "reason": "the budget is spent"})
        start = steps[-1]["end_us"]
        cost = 500 + 100 * sum(share["end"] - share["start"] for share in shares)
        steps.append(a_step(len(steps), start, start + cost, shares, waits))
        cursor, known = end, known + 1
    steps[-1]["finished"] = [0, 1]
    requests = [a_request(0, [30, 27, 25, 17, 27, 10], 0), a_request(1, [32, 53] * 12, 1)]
    return {
        "version": 2, "clock": {"name": "a large GPU", "modelled": True}, "executor": "packed",
        "token_budget": 9, "max_kv_tokens": None, "requests": requests, "steps": steps,
        "error": error,
    }  # fmt: skip


def a_request(request_id, prompt, step):
    return {
        "id": request_id, "prompt_tokens": prompt, "max_new_tokens": 15, "priority": 0,
        "arrival_step": step, "arrival_us": 800 * step,
    }  # fmt: skip


def work(request_id, kind, start, end, sampled):
    return {"request_id": request_id, "kind": kind, "start": start, "end": end, "sampled": sampled}


def a_step(number, start, end, shares, waits):
    return {
        "step": number, "start_us": start, "end_us": end, "token_budget": 9, "work": shares,
        "waits": waits, "admitted": [], "preempted": [], "finished": [], "forwards": [],
        "kv_before": 0, "kv_after": 0, "kv": [],
    }  # fmt: skip


def a_mask(name, wrong):
    mask = [[wrong or key <= 3 + row for key in range(7)] for row in range(4)]
    return {"name": name, "num_past": 3, "mask": mask, "labels": list("To be, ")}


def a_side(name, length, *spans):
    names = ("request", "slot", "start", "end")
    found = [dict(zip(names, span, strict=True)) for span in spans]
    return {"name": name, "slots": 2, "length": length, "spans": found}


def every_widget():
    measured = [{"tokens": tokens, "us": 600 + 31 * tokens} for tokens in (1, 8, 32, 64)]
    laptop = {"name": "a laptop", "modelled": False, "fixed_us": 600, "token_us": 30}
    gpu = {"name": "a GPU", "modelled": True, "fixed_us": 500, "token_us": 32, "floor_us": 4800}
    static = a_side("static", 8, (0, 0, 0, 5), (1, 1, 0, 2), (2, 0, 5, 8))
    continuous = a_side("continuous", 5, (0, 0, 0, 5), (1, 1, 0, 2), (2, 1, 2, 5))
    options = ["Yes", "Only with one layer", "No"]
    rungs = ["Look **twice**.", "Use `min`.", "<b>Take</b> the smaller."]
    return [
        Timeline(
            a_trace(24, error="your plan_step raised KeyError"),
            a_trace(8),
            title="Both",
            yours=True,
        ),
        MaskStepper([a_mask("yours", True), a_mask("right", False)], title="Masks"),
        StepCost([{**laptop, "points": measured}, gpu], title="Cost"),
        WorkBars([{"name": "without", "tokens": [5, 6, 7]}, {"name": "with", "tokens": [5, 1, 1]}]),
        Batching(static, continuous),
        Prediction(
            "p", "Is it `right`?", options, answer=1, reveal="Rows above were **poisoned**."
        ),
        Prediction("q", "How many?", answer=69, reveal="50 + 19."),
        Prediction("r", "Again?", options, answer=1, reveal="Kept.", choice=1, committed=True),
        Hints("h", rungs),
    ]


# ---- all widgets ---------------------------------------------------------------------------------


def test_each_stepper_is_one_tab_stop(show):
    assert_one_tab_stop_each(show(every_widget()[1:5]))


def test_the_theme_follows_the_page_whatever_the_system_says(show):
    page = show([every_widget()[4]], scheme="dark")
    theme = page.locator(".sn")
    assert theme.get_attribute("data-theme") == "dark"
    page.evaluate("document.body.classList.add('light')")
    page.wait_for_selector(".sn[data-theme=light]")
    page.evaluate("document.body.className = ''")
    page.evaluate("document.body.dataset.jpThemeLight = 'true'")
    page.wait_for_selector(".sn[data-theme=light]")
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    page.wait_for_selector(".sn[data-theme=dark]")


def test_rendering_returns_a_cleanup_that_leaves_nothing_behind(show):
    page = show([])
    left = page.evaluate(
        """async (source) => {
            const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
            const { default: widget } = await import(address);
            const listeners = new Set();
            const model = {
                get: (name) => ({ hints: ["a", "b", "c"], shown: 1 })[name] ?? "",
                set() {}, save_changes() {},
                on: (name, call) => listeners.add(call),
                off: (name, call) => listeners.delete(call),
            };
            const el = document.createElement("div");
            document.body.append(el);
            const cleanup = widget.render({ model, el });
            const before = [el.children.length, listeners.size];
            cleanup();
            return [before, [el.children.length, listeners.size]];
        }""",
        Hints("h", ["a", "b", "c"])._esm,
    )
    assert left == [[1, 2], [0, 0]]


# ---- the timeline --------------------------------------------------------------------------------


def test_the_keyboard_steps_the_timeline_and_the_page_hears_nothing(show):
    page = show([Timeline(a_trace(8))])
    page.evaluate("document.addEventListener('keydown', () => { document.body.dataset.heard = 1 })")
    assert live(page) == (
        "Step 0: request 0 prefills tokens 0 to 5 of 6 and samples 'e'. 6 of 9 tokens, 0.80 ms "
        "(modelled: a large GPU)."
    )
    focus_toolbar(page)
    page.keyboard.press("ArrowRight")
    assert live(page) == (
        "Step 1: request 0 decodes and samples 'h'; request 1 prefills tokens 0 to 7 of 24. "
        "9 of 9 tokens, 1.4 ms (modelled: a large GPU)."
    )
    page.keyboard.press("End")
    assert live(page).startswith("Step 14: ")
    page.keyboard.press("ArrowRight")
    assert live(page).startswith("Step 14: ")
    page.keyboard.press("ArrowLeft")
    assert live(page).startswith("Step 13: ")
    page.keyboard.press("Home")
    assert live(page).startswith("Step 0: ")
    assert page.evaluate("document.body.dataset.heard") is None


def test_up_and_down_choose_a_button_and_space_presses_it(show):
    page = show([Timeline(a_trace(8))])
    focus_toolbar(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert live(page).startswith("Step 1: ")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert live(page).startswith("Step 14: ")


def test_space_plays_to_the_end_and_the_live_line_is_quiet_meanwhile(show):
    page = show([WorkBars([{"name": "a", "tokens": [1, 2, 3]}])])
    focus_toolbar(page)
    page.keyboard.press("Space")
    assert page.locator(".sn-live").get_attribute("aria-live") == "off"
    page.wait_for_selector("button[aria-label=Play]")
    assert live(page).startswith("New token 3: ")
    assert page.locator(".sn-live").get_attribute("aria-live") == "polite"


def test_a_click_on_a_step_moves_the_cursor_there(show):
    page = show([Timeline(a_trace(8))])
    page.locator(".sn-tl-picture").click(position={"x": 3 + 57 * 2.5, "y": 60})
    assert live(page).startswith("Step 2: ")


def test_the_jump_goes_to_the_first_step_that_differs(show):
    page = from_the_start(show([Timeline(a_trace(24), a_trace(8), yours=True)]))
    assert page.locator(".sn-note").text_content() == (
        "Step 1 is the first that differs. Yours: request 1 prefills tokens 0 to 23 of 24 and "
        "samples 'a'. The reference: request 1 prefills tokens 0 to 7 of 24."
    )
    page.get_by_role("button", name="Jump to first difference").click()
    assert live(page).startswith("Yours, step 1: ")
    assert "\nThe reference, step 1: " in live(page)
    assert page.locator(".sn-tl-cursor").count() == 2


def test_the_first_step_that_differs_is_open_and_marked_in_both_runs(show):
    page = show([Timeline(a_trace(24), a_trace(8), yours=True), Timeline(a_trace(8))])
    assert live(page).startswith("Yours, step 1: ")
    places = "(all) => all.map((each) => [each.getAttribute('x'), each.getAttribute('y')])"
    first = page.locator(".sn-timeline").first
    marks = first.locator(".sn-tl-picture .sn-tl-first").evaluate_all(places)
    assert len(marks) == 2
    assert marks == first.locator(".sn-tl-cursor").evaluate_all(places)
    assert first.locator(".sn-legend").text_content().endswith("the first step that differs")
    assert page.locator(".sn-tl-picture .sn-tl-first").count() == 2


def test_until_the_learner_has_written_it_the_reference_stands_alone_and_says_so(show):
    page = show([Timeline(a_trace(24), a_trace(8))])
    assert page.locator(".sn-note").text_content() == "The reference (yours is not written yet)."
    assert page.locator(".sn-tl-side").count() == 0
    assert "ours" not in live(page)


def test_the_table_says_what_there_is_so_far(show):
    page = from_the_start(show([Timeline(a_trace(8))]))
    times = page.locator(".sn-tl-table tbody td:nth-child(n + 3)")
    assert times.all_text_contents() == ["0.80 ms", "none yet", "none yet", "none yet"]
    focus_toolbar(page)
    page.keyboard.press("End")
    assert times.all_text_contents() == ["0.80 ms", "1.4 ms", "4.2 ms", "1.3 ms"]


def test_a_start_is_where_a_picture_opens(show):
    compared = Timeline(a_trace(24), a_trace(8), yours=True, start=3)
    page = show([compared, Timeline(a_trace(8), start=99)])
    assert [live(page, index).split(":")[0] for index in range(2)] == ["Yours, step 3", "Step 14"]


def test_a_trace_that_agrees_says_so_and_cannot_jump(show):
    page = show([Timeline(a_trace(8), a_trace(8), yours=True)])
    assert page.locator(".sn-note").text_content() == "Both did the same work in every step."
    jump = page.get_by_role("button", name="Jump to first difference")
    assert jump.get_attribute("aria-disabled") == "true"
    jump.click(force=True)
    assert "step 0: " in live(page)


def test_on_the_time_axis_a_step_is_as_wide_as_it_took(show):
    page = show([Timeline(a_trace(24))])
    cells = page.locator(".sn-tl-prefill")
    steps = [cell.bounding_box()["width"] for cell in cells.all()[:2]]
    assert steps[0] == pytest.approx(steps[1])
    page.get_by_role("button", name="Width shows time").click()
    times = [cell.bounding_box()["width"] for cell in cells.all()[:2]]
    assert (times[1] + 3) / (times[0] + 3) == pytest.approx(3000 / 800, rel=0.05)
    assert "ms" in page.locator(".sn-tl-picture").text_content()


def test_a_run_that_stopped_says_why_at_its_end(show):
    page = show([Timeline(a_trace(8, error="your plan_step raised KeyError"))])
    note = page.locator(".sn-note-bad").text_content()
    assert note == "The run stopped after step 14: your plan_step raised KeyError"
    focus_toolbar(page)
    page.keyboard.press("End")
    assert live(page).endswith("Here it stopped: your plan_step raised KeyError")


def test_an_empty_run_is_drawn_too(show):
    trace = {**a_trace(8), "steps": [], "error": "your plan_step raised KeyError"}
    page = show([Timeline(trace), Timeline(trace, a_trace(8))])
    assert live(page) == "No step was run. It stopped: your plan_step raised KeyError"


def test_the_clock_is_always_named(show):
    page = show([Timeline(a_trace(8))], width=390)
    assert page.get_by_text("modelled: a large GPU", exact=True).is_visible()


def test_the_cursor_is_scrolled_into_view_in_a_narrow_page(show):
    page = show([Timeline(a_trace(8))], width=390)
    focus_toolbar(page)
    page.keyboard.press("End")
    cursor = page.locator(".sn-tl-cursor").bounding_box()
    assert cursor["x"] + cursor["width"] <= 390


def test_the_cursor_is_in_view_after_turning_the_page_and_back(show):
    page = show([Timeline(a_trace(8))], width=390)
    focus_toolbar(page)
    page.keyboard.press("End")
    for width in (1000, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function("() => new Promise((done) => requestAnimationFrame(() => done(1)))")
        left, right = box(page.locator(".sn-tl-cursor"))
        assert 0 <= left < right <= width


def test_a_picture_that_is_all_in_sight_asks_for_no_layout_when_it_steps(show):
    page = show([Timeline(a_trace(8))])
    page.evaluate(
        """() => {
            window.asked = [];
            for (const name of ["scrollLeft", "clientWidth"]) {
                const kept = Object.getOwnPropertyDescriptor(Element.prototype, name);
                const get = function () { window.asked.push(name); return kept.get.call(this); };
                Object.defineProperty(Element.prototype, name, { ...kept, get });
            }
        }"""
    )
    focus_toolbar(page)
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("window.asked") == []


# ---- the other widgets ---------------------------------------------------------------------------


def test_masks_mark_the_future_and_the_differing_cells(show):
    page = show([MaskStepper([a_mask("yours", True), a_mask("right", False)])])
    assert page.locator(".sn-mk-row .sn-mk-wrong").count() == 6
    assert page.locator(".sn-mk-row .sn-mk-differs").count() == 12
    focus_toolbar(page)
    page.keyboard.press("End")
    assert live(page).endswith("They agree in this row.")


def test_step_cost_changes_its_clock_and_says_which(show):
    page = show([every_widget()[2]])
    assert "(measured: a laptop)" in live(page)
    page.get_by_role("button", name="a GPU").click()
    assert "(modelled: a GPU)" in live(page)
    assert page.locator(".sn-chip").text_content() == "modelled: a GPU"


def test_a_prediction_shows_its_answer_only_after_committing(show):
    page = show([every_widget()[5]])
    assert "poisoned" not in page.locator(".sn").text_content()
    page.get_by_role("button", name="Commit").click()
    assert page.get_by_text("Choose one first.").is_visible()
    page.get_by_label("Yes").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator(".sn-pr-verdict").text_content() == "You predicted it."
    assert page.locator(".sn-pr-reveal strong").text_content() == "poisoned"
    assert page.get_by_label("Yes").is_disabled()
    assert page.get_by_role("button", name="Commit").count() == 0


def test_a_number_is_predicted_and_compared(show):
    page = show([every_widget()[6]])
    page.get_by_label("Your number").fill("seventy")
    page.get_by_role("button", name="Commit").click()
    assert page.get_by_text("Type a number first.").is_visible()
    page.get_by_label("Your number").fill("1,050")
    page.keyboard.press("Enter")
    assert page.locator(".sn-pr-verdict").text_content() == "You said 1,050; it is 69."


def test_a_committed_prediction_comes_back_as_it_was(show):
    page = show([every_widget()[7]])
    assert page.get_by_label("Only with one layer").is_checked()
    assert page.locator(".sn-pr-verdict").text_content() == "You predicted it."
    assert page.get_by_role("button", name="Commit").count() == 0


def test_hints_come_one_at_a_time_and_as_text(show):
    page = show([every_widget()[8]])
    rungs = page.locator(".sn-hi-rung")
    assert rungs.count() == 0
    for shown, name in enumerate(["Show a hint", "Show hint 2 of 3", "Show hint 3 of 3"], start=1):
        page.get_by_role("button", name=name).click()
        assert rungs.count() == shown
    assert re.search("<b>Take</b> the smaller", rungs.last.text_content())
    button = page.get_by_role("button", name="All hints are shown")
    assert button.get_attribute("aria-disabled") == "true"

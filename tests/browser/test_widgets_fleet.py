"""The widgets of a fleet and of speculation in Chromium: keys, pointer, widths, axe, speed."""

import re

import pytest
from driving import (
    box,
    focus_toolbar,
    from_the_start,
    live,
    press,
)

from course.stories.l07_lazy_heap import heap_story
from nanogpt.fleet.presets import ADAPTIVE, FIFO
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.workload import make_workload
from widgets import FleetView, LazyHeap, PairedSeeds, SpeculationStrip

pytestmark = pytest.mark.browser

# ---- samples -------------------------------------------------------------------------------------


def a_fleet(config=ADAPTIVE, rps=30, duration_s=2, **changes):
    load = make_workload("steady", rps, duration_s, 42)
    return FleetView(simulate(config, load, trace=True).trace.to_json(), "The fleet", **changes)


def a_preempted_fleet():
    """Request 1 is preempted, comes back and is late; request 2 is refused."""

    def request(number, deadline, first, finished, **changes):
        return {
            "id": number, "arrival_us": 5000 * number, "deadline_us": deadline, "priority": number,
            "prompt_tokens": 30, "max_new_tokens": 8, "first_token_us": first,
            "finished_us": finished, "refused": False, **changes,
        }  # fmt: skip

    def visit(number, worker, start, end, ended):
        return {
            "request_id": number, "worker": worker, "dispatched_us": start, "start_us": start,
            "end_us": end, "hit_tokens": 10 * worker, "computed_tokens": 20,
            "generated_tokens": 4, "ended": ended,
        }  # fmt: skip

    def run(worker, start, end, kind, ids):
        return {
            "worker": worker, "start_us": start, "end_us": end, "kind": kind, "num_steps": 3,
            "request_ids": ids, "reserved_tokens": 40, "cached_tokens": 25,
        }  # fmt: skip

    return FleetView({
        "version": 1, "name": "by hand", "cost": {"name": "source", "modelled": True},
        "num_workers": 2, "batch_size": 4, "kv_tokens": 100, "end_us": 100_000,
        "requests": [
            request(0, 60_000, 10_000, 40_000), request(1, 50_000, 20_000, 90_000),
            request(2, 70_000, None, None, refused=True, prompt_tokens=200),
        ],
        "visits": [
            visit(0, 0, 0, 40_000, "finished"), visit(1, 1, 6_000, 25_000, "preempted"),
            visit(1, 0, 45_000, 90_000, "finished"),
        ],
        "runs": [
            run(0, 0, 10_000, "prefill", [0]), run(0, 10_000, 40_000, "decode", [0]),
            run(1, 6_000, 25_000, "prefill", [1]), run(0, 45_000, 90_000, "decode", [1]),
        ],
        "decisions": [{"at_us": 10_000, "kind": "refuse", "request_id": 2, "worker": None}],
        "error": "your decide named worker 9, which is not there",
    }, "By hand")  # fmt: skip


def a_comparison(num_seeds=5):
    def row(metric, label, baseline, other, low, high):
        return {
            "metric": metric, "label": label, "unit": "ms", "better": "lower",
            "pairs": [
                {"seed": 42 + each, "baseline": baseline + each, "other": other + 3 * each}
                for each in range(num_seeds)
            ],
            "mean": other - baseline + (num_seeds - 1),
            "low": low if num_seeds > 1 else None, "high": high if num_seeds > 1 else None,
        }  # fmt: skip

    return PairedSeeds({
        "version": 1, "scenario": "steady", "baseline": "FIFO", "other": "priority",
        "modelled": True, "rows": [
            row("ttft_p50_ms", "TTFT p50", 238, 8, -240, -200),
            row("ttft_p99_ms", "TTFT p99", 616, 3964, 3000, 3600),
            row("itl_mean_ms", "ITL mean", 20, 16, -1, 2),
        ],
    }, "Seed by seed")  # fmt: skip


def dropping(heap, generations, event):
    """A heap whose removal forgets the counter, so that the next push revives an old entry."""
    heap, generations = list(heap), dict(generations)
    if event[0] == "push":
        generations[event[1]] = generations.get(event[1], 0) + 1
        return sorted([*heap, (event[2], event[1], generations[event[1]])]), generations, None
    if event[0] == "remove":
        generations.pop(event[1])
    return heap, generations, None


def a_heap(**changes):
    events = [("push", 3, (1, 200)), ("push", 5, (0, 300)), ("remove", 3), ("push", 3, (2, 100))]
    return LazyHeap({**heap_story(dropping, events), **changes}, "Lazy deletion")


def a_strip(num_passes=12):
    def draft(text, kept, u=0.2):
        return {"text": text, "token": 1, "kept": kept, "p": 0.3, "q": 0.6, "u": u}

    def last(text, kind):
        return {"text": text, "token": 2, "kind": kind}

    passes = [
        {"drafts": [draft("h", True), draft("e", True)], "last": last(" ", "bonus")},
        {
            "drafts": [draft("x", False, 0.7), draft("y", False, None)],
            "last": last("\n", "resampled"),
        },
        {"drafts": [], "last": last("W", "plain")},
    ]
    return SpeculationStrip({
        "version": 1, "prompt": "ROMEO:\n", "num_draft_tokens": 2, "temperature": 0.8,
        "passes": (passes * num_passes)[:num_passes],
    }, "Speculation")  # fmt: skip


def every_widget():
    return [
        a_fleet(), a_fleet(FIFO, zoom=3), a_preempted_fleet(), a_comparison(), a_comparison(1),
        a_heap(), a_heap(steps=[], error="your on_event raised."), a_strip(),
    ]  # fmt: skip


# ---- all -----------------------------------------------------------------------------------------


# ---- the fleet -----------------------------------------------------------------------------------


def test_the_fleet_is_told_event_by_event_with_its_workers(show):
    page = from_the_start(show([a_preempted_fleet()]))
    focus_toolbar(page)
    press(page, "ArrowRight", 3)
    assert live(page) == (
        "0.006 s, event 4 of 13: Request 1 is given to worker 1 after 1.0 ms of waiting: "
        "10 of its 30 tokens hit the cache. Nothing waits."
    )
    assert page.locator(".sn-fv-table caption").text_content() == "At 0.006 s: Nothing waits."
    rows = page.locator(".sn-fv-table tbody tr")
    assert "prefill of request 0" in rows.nth(0).text_content()
    assert "prefill of request 1" in rows.nth(1).text_content()
    assert "40 set aside, 25 cached" in rows.nth(1).text_content()
    top = page.locator(".sn-fv-here").bounding_box()["y"]
    name = page.locator(".sn-fv-name", has_text="worker 1").bounding_box()
    assert top < name["y"] + name["height"] < top + 60
    assert page.locator(".sn-note-bad").text_content().startswith("It stopped: your decide named")


def test_next_trouble_goes_from_the_refusal_to_the_preemption_to_the_missed_deadline(show):
    page = show([a_preempted_fleet()])
    told = []
    for _ in range(4):
        page.get_by_role("button", name="Next trouble").click()
        told.append(
            re.search(r"refused|loses its place|deadline of request 1 passes", live(page))[0]
        )
    assert told == ["refused", "loses its place", "deadline of request 1 passes", "refused"]
    quiet = show([a_fleet()]).get_by_role("button", name="Next trouble")
    assert quiet.get_attribute("aria-disabled") == "true"


def test_zooming_in_keeps_the_event_and_draws_the_whole_run_above(show):
    page = show([a_fleet()])
    focus_toolbar(page)
    press(page, "ArrowRight", 30)
    words = live(page)
    assert page.locator(".sn-fv-window").count() == 0
    for _ in range(3):
        page.get_by_role("button", name="Zoom in").click()
    assert live(page) == words
    assert page.locator(".sn-fv-window").count() == 1
    left, right = box(page.locator(".sn-fv-window"))
    whole = box(page.locator(".sn-fv-picture"))
    assert (right - left) / (whole[1] - whole[0]) < 0.15
    cursor = page.locator(".sn-fv-cursor")
    press_to_the_end = box(cursor)[0]
    focus_toolbar(page)
    press(page, "End")
    assert box(cursor)[0] != press_to_the_end
    assert whole[0] <= box(cursor)[0] <= whole[1]


def test_the_pointer_tells_of_its_moment_and_a_press_goes_there(show):
    page = show([a_preempted_fleet()])
    picture = page.locator(".sn-fv-picture")
    caption = page.locator(".sn-fv-table caption")
    before = caption.text_content()
    size = picture.bounding_box()
    picture.hover(position={"x": size["width"] / 2, "y": 40})
    assert caption.text_content() != before
    page.mouse.move(0, 0)
    assert caption.text_content() == before
    focus_toolbar(page)  # its help opens: the press must not close it and move the picture away
    size = picture.bounding_box()
    lane = page.locator(".sn-fv-name", has_text="worker 1").bounding_box()
    picture.click(position={"x": size["width"] / 2, "y": lane["y"] - size["y"] + 30})
    assert "loses its place at worker 1" in live(page)


def test_a_step_of_a_long_trace_changes_no_more_than_its_window_shows(show):
    page = show([a_fleet(FIFO, 200, 8, zoom=5)])
    changes, last = page.evaluate(
        """() => {
            const root = document.querySelector(".sn");
            const item = root.querySelector("[role=toolbar] [tabindex='0']");
            const scrubber = root.querySelector(".sn-scrubber");
            const observer = new MutationObserver(() => {});
            const all = { subtree: true, childList: true, attributes: true, characterData: true };
            observer.observe(root, all);
            const changes = [];
            const counted = (act) => {
                act();
                const records = observer.takeRecords();
                const added = records.flatMap((each) => [...each.addedNodes]);
                const within = (each) => each.querySelectorAll?.("*").length ?? 0;
                changes.push(added.reduce((sum, each) => sum + 1 + within(each), records.length));
            };
            for (let step = 0; step < 200; step += 1) {
                const key = new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true });
                counted(() => item.dispatchEvent(key));
            }
            for (let at = 0; at < 40; at += 1) {
                scrubber.value = String(Math.round(at * scrubber.max / 40));
                counted(() => scrubber.dispatchEvent(new Event("input", { bubbles: true })));
            }
            return [changes, Number(scrubber.max)];
        }"""
    )
    assert last > 5000
    steps, jumps = sorted(changes[:200]), changes[200:]
    assert steps[0] > 0 and steps[190] < 100  # the cursor alone, where the window stays
    assert max(jumps) < 1000
    assert page.locator(".sn-fv-picture *").count() < 1000


# ---- seeds ---------------------------------------------------------------------------------------


def test_p50_stands_beside_p99_with_their_verdicts(show):
    page = show([a_comparison()])
    assert live(page) == (
        "Priority against FIFO, steady, 5 seeds, modelled. "
        "Better: TTFT p50. Worse: TTFT p99. Within noise: ITL mean."
    )
    panels = page.locator(".sn-ps-panel")
    first, second = (panels.nth(each).bounding_box() for each in (0, 1))
    assert first["y"] == second["y"] and first["x"] < second["x"]
    marks = panels.locator(".sn-chip").all_text_contents()
    assert marks == ["✓ better", "✗ worse", "within noise"]
    assert panels.nth(0).locator("svg path.sn-ps-line").count() == 6
    assert "the interval holds 0" in panels.nth(2).locator(".sn-ps-words").text_content()


def test_a_step_is_a_seed_in_every_panel_and_so_is_the_pointer_on_it(show):
    page = show([a_comparison()])
    words = page.locator(".sn-ps-words")
    focus_toolbar(page)
    press(page, "ArrowRight", 2)
    said = "Seed 43: TTFT p50 239 → 11 ms (−228, better)."
    assert words.nth(0).text_content() == said
    assert live(page).startswith("Seed 43, FIFO → priority: TTFT p50 239 → 11 ms")
    press(page, "Home")
    mark = page.locator(".sn-ps-panel").nth(0).locator(".sn-ps-better circle.sn-ps-mark").last
    place = mark.bounding_box()
    page.mouse.move(place["x"] + 4, place["y"] + 4)
    assert words.nth(1).text_content().startswith("Seed 46: TTFT p99 620 → 3,976 ms")
    page.mouse.down()
    page.mouse.up()
    assert page.locator(".sn-where").first.text_content() == "seed 46"


# ---- the heap ------------------------------------------------------------------------------------


def test_a_dropped_counter_revives_an_entry_in_alarm(show):
    page = from_the_start(show([a_heap()]))
    focus_toolbar(page)
    press(page, "ArrowRight", 3)
    assert page.locator(".sn-lh-forgotten").text_content() == "request 3 forgotten"
    assert page.locator("svg .sn-lh-stale").count() == 2
    press(page, "ArrowRight")
    assert page.locator("svg .sn-lh-revived").count() == 2
    assert page.locator("svg .sn-lh-stale").count() == 0
    assert "counts again" in live(page) and live(page).endswith("2 live and 1 revived.")
    assert page.locator("svg .sn-lh-revived .sn-lh-alarm").first.is_visible()


# ---- speculation ---------------------------------------------------------------------------------


def test_a_pass_shows_its_drafts_and_leaves_what_stands(show):
    page = from_the_start(show([a_strip()]))
    focus_toolbar(page)
    press(page, "ArrowRight")
    assert live(page) == (
        "Pass 2 of 12: the draft proposes 2 tokens, 0 are kept, and a resampled token “↵” follows: "
        "1 token from one pass.\n4 tokens in 2 passes so far: 2.00 per pass, 2 of 4 drafts kept."
    )
    strip = page.locator(".sn-sp-strip")
    shown = "all => all.filter((each) => each.offsetParent).map((each) => each.textContent)"
    tokens = strip.locator(".sn-sp-token")
    assert tokens.evaluate_all(shown) == ["h", "e", "␣", "x", "y", "↵"]
    assert page.locator(".sn-sp-table tbody tr td:last-child").all_text_contents() == [
        "✗ rejected", "not read", "↻ resampled",
    ]  # fmt: skip
    press(page, "ArrowRight")
    assert tokens.evaluate_all(shown) == ["h", "e", "␣", "↵", "W"]
    assert strip.get_attribute("aria-label") == "The text after this pass: ROMEO:\nhe \nW"


def test_the_pointer_on_a_pass_shows_its_decisions_and_a_press_goes_there(show):
    page = from_the_start(show([a_strip()]))
    focus_toolbar(page)
    press(page, "ArrowRight", 5)
    verdicts = page.locator(".sn-sp-table tbody td:last-child")
    page.locator(".sn-sp-strip .sn-sp-kept").first.hover()
    assert verdicts.all_text_contents() == ["✓ kept", "✓ kept", "+ bonus"]
    page.mouse.move(0, 0)
    assert verdicts.all_text_contents() == ["plain"]
    page.locator(".sn-sp-strip .sn-sp-kept").first.click()
    assert live(page).startswith("Pass 1 of 12:")


def test_a_decision_that_is_not_the_rule_s_is_said(show):
    strip = a_strip(1)
    passes = [{**strip.story["passes"][0]}]
    passes[0]["drafts"] = [{**draft, "u": 0.9} for draft in passes[0]["drafts"]]
    page = show([SpeculationStrip({"version": 1, **strip.story, "passes": passes})])
    assert "A decision in it is not the rule's." in live(page)
    assert page.locator(".sn-sp-wrong").count() == 2

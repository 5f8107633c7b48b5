"""Curves, the bars of a draft, and bars in tables: what they take and what they refuse."""

import json
import re

import pytest

from widgets import AcceptBars, Curves, bar, standalone

X, Y = ("chunk length", "tokens"), ("a step", "ms")
LINE = {"name": "packed", "points": [[64, 9.8], [1, 5.2]]}
DECODES = {"name": "decodes", "values": [0, 4], "shown": 1}


# ---- curves --------------------------------------------------------------------------------------


def test_curves_take_series_of_points_in_any_order():
    widget = Curves([{**LINE, "when": {"decodes": 4}}], X, Y, "Cost", sliders=[DECODES])
    assert widget.series[0] == {
        "name": "packed", "points": [[1, 5.2], [64, 9.8]], "style": "line", "when": {"decodes": 4},
    }  # fmt: skip
    assert (widget.x, widget.y, widget.sliders) == (list(X), list(Y), [DECODES])
    json.dumps(standalone.state(widget))


@pytest.mark.parametrize(
    ("series", "more", "sentence"),
    [
        ({**LINE, "points": []}, {}, "the points of 'packed' has 0 entries"),
        ({**LINE, "points": [[1]]}, {}, r"a point of 'packed' is \[1\]; it must be two numbers"),
        ({**LINE, "points": [[1, float("nan")]]}, {}, "it must be two numbers, x and y"),
        ({**LINE, "style": "bars"}, {}, "the style of 'packed' is 'bars'"),
        ({**LINE, "when": {"p": 1}}, {}, "shown by slider 'p', which there is not"),
        ({**LINE, "when": {"decodes": 3}}, {"sliders": [DECODES]}, "decodes = 3, which it never"),
        (LINE, {"sliders": [{**DECODES, "values": [1]}]}, "slider 'decodes' has 1 entries"),
        (LINE, {"sliders": [{**DECODES, "shown": 2}]}, "shows value 2, but it has 2"),
        ({**LINE, "points": [[0, 1]]}, {"log_x": True}, "on a logarithmic axis it must be above 0"),
        (LINE, {"x": ("length",)}, "the axis x has 1 words; it needs a name and a unit"),
    ],
)
def test_curves_refuse_what_cannot_be_drawn(series, more, sentence):
    arguments = {"x": X, "y": Y, **more}
    with pytest.raises(ValueError, match=sentence):
        Curves([series], **arguments)


# ---- the bars of a draft -------------------------------------------------------------------------

STAYS = [[[True, 0]]], [[[True, 1]]]


def test_accept_bars_take_what_a_function_answered():
    widget = AcceptBars([0.5, 0.5], [1, 0], STAYS, ["a", "b"], name="yours")
    assert (widget.q, widget.outcomes, widget.name) == ([1.0, 0.0], list(STAYS), "yours")
    json.dumps(standalone.state(widget))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"p": [0.5, 0.6]}, "p sums to 1.1; chances must sum to 1"),
        ({"q": [1]}, "q has 1 chances for 2 tokens"),
        ({"q": [2, -1]}, "a chance of q is -1"),
        ({"outcomes": STAYS[:1]}, "outcomes for 1 drafts and 2 tokens"),
        ({"outcomes": [[[[True, 0], [True, 0]]], *STAYS[1:]]}, "draft 0 are not 1 by 1"),
        ({"outcomes": [[[[1, 0]]], *STAYS[1:]]}, r"an outcome of draft 0 is \[1, 0\]"),
        ({"outcomes": [[[[True, 2]]], *STAYS[1:]]}, "and a token from 0 to 1"),
        ({"tokens": ["a"]}, "tokens has 1 entries"),
    ],
)
def test_accept_bars_refuse_chances_and_outcomes_that_do_not_fit(changes, sentence):
    given = {"p": [0.5, 0.5], "q": [1, 0], "outcomes": STAYS, "tokens": ["a", "b"], **changes}
    with pytest.raises(ValueError, match=sentence):
        AcceptBars(**given)


def test_u_has_at_most_forty_values():
    table = [[[True, 0]] * 41] * 41
    with pytest.raises(ValueError, match="u has 41 values; it may have at most 40"):
        AcceptBars([0.5, 0.5], [1, 0], [table, table], ["a", "b"])


# ---- bars in tables ------------------------------------------------------------------------------


def test_a_bar_is_drawn_to_scale_and_only_its_words_are_read():
    html = bar([0.25, 0.5], "3 of 4 <layers>")
    assert re.findall(r"width:([\d.]+)%", html) == ["25", "50"]
    assert re.sub(r'<span aria-hidden="true".*</span>', "", html) == "3 of 4 &lt;layers&gt;"
    assert re.findall(r"width:([\d.]+)%", bar(1, "all")) == ["100"]


@pytest.mark.parametrize("parts", [1.2, [0.6, 0.6], [0.1] * 4])
def test_a_bar_holds_three_parts_of_one_in_all(parts):
    with pytest.raises(ValueError, match="it holds at most 3, of 1 in all"):
        bar(parts, "too much")

"""The widgets' joined scripts and styles, the one-file page, and the letters of their words."""

import json
import re

import pytest
from galleries import make
from support import ROOT, find_program, run

from widgets import assets, standalone

NAMES = [path.stem for path in assets.scripts() if "export default" in path.read_text("utf-8")]


@pytest.mark.parametrize("name", NAMES)
def test_a_joined_script_stands_alone_and_keeps_no_state_between_widgets(name):
    script = assets.esm(name)
    assert script.count("export default") == 1
    assert not re.search(r"^\s*import\b", script, re.MULTILINE)
    assert "innerHTML" not in script
    addresses = set(re.findall(r"https?://[^\s\"'`]+", script + assets.css(name)))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert re.findall(r"^(?:let|var) .*", script, re.MULTILINE) == []


@pytest.mark.process
def test_every_joined_script_is_a_module_that_renders(tmp_path):
    for name in NAMES:
        (tmp_path / f"{name}.mjs").write_text(assets.esm(name), encoding="utf-8")
    command = (
        f"for (const name of {json.dumps(NAMES)})"
        "console.log(name, typeof (await import(`./${name}.mjs`)).default.render)"
    )
    (tmp_path / "all.mjs").write_text(command)
    done = run([find_program("node"), "all.mjs"], cwd=tmp_path)
    assert done.stdout.splitlines() == [f"{name} function" for name in NAMES], done.stderr


def test_shared_scripts_and_the_theme_come_first_and_once():
    script = assets.esm("timeline")
    assert script.count("export function mount(") == 1
    assert script.index("export function mount(") < script.index("export function createPlayer(")
    assert script.index("export function createPlayer(") < script.index("export default")
    theme, mask, own = (assets.css(*names) for names in ((), ("mask_stepper",), ("batch_view",)))
    assert assets.css("mask_stepper", "batch_view") == mask + own.removeprefix(theme)
    assert all(assets.every_style().count(own.removeprefix(theme)) == 1 for own in (mask, own))


def test_a_page_holds_everything_and_no_text_can_end_its_data():
    hints = make("Hints", hints=["</script><b>a</b>", "b", "c"])
    page = standalone.page([hints, hints], "One & two")
    assert page.count("</script>") == 2
    assert "<h1>One &amp; two</h1>" in page
    assert re.findall(r'(?:src|href)="', page) == []
    data = json.loads(re.search(r'id="widgets">(.*)</script>', page)[1])
    assert [each["kind"] for each in data["widgets"]] == ["hints", "hints"]
    assert data["widgets"][0]["state"]["hints"][0] == "</script><b>a</b>"
    assert list(data["modules"]) == ["hints"]


def test_no_word_of_a_picture_or_a_lesson_needs_a_font_of_its_own_or_is_a_row_of_blocks():
    """A plain Debian's Chromium has DejaVu's letters; "█" is read out as "full block"."""
    from matplotlib import font_manager, ft2font

    names = ("DejaVu Sans", "DejaVu Sans Mono")
    fonts = [ft2font.FT2Font(font_manager.findfont(name)) for name in names]
    known = {ord("\n"), ord("\t")}.union(*(font.get_charmap() for font in fonts))
    files = [
        path
        for folder, kinds in {
            "widgets": (".py", ".js", ".css"), "lessons": (".py",), "course": (".py",)
        }.items()
        for path in (ROOT / folder).rglob("*")
        if path.suffix in kinds
    ]  # fmt: skip
    assert len(files) > 100
    blocks = {chr(code) for code in range(0x2580, 0x25A0)}
    wrong = {
        (str(path.relative_to(ROOT)), f"U+{ord(mark):04X}")
        for path in files
        for mark in set(path.read_text(encoding="utf-8"))
        if ord(mark) not in known or (mark in blocks and path.parts[-2] != "lessons")
    }
    assert wrong == set()

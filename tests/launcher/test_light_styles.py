"""marimo's style sheets as the course serves them: whole, but for the rules that cost a second."""

import asyncio
import re
from pathlib import Path

import httpx
import marimo
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from support import ROOT

from course.launcher.light_styles import LightStyles, without_has

ASSETS = Path(marimo.__file__).parent / "_static" / "assets"
SHEETS = sorted(ASSETS.glob("*.css"))


def rules(sheet: bytes) -> list[bytes]:
    """What stands in innermost braces, with what stands before them; an empty pair is none."""
    return re.findall(rb"[^{};]*\{[^{}]+\}", sheet)


@pytest.mark.parametrize("file", SHEETS, ids=lambda file: file.stem.split("-")[0])
def test_nothing_but_the_rules_with_has_is_taken_out(file: Path):
    sheet = file.read_bytes()
    light = without_has(sheet)
    dark = [rule for rule in rules(sheet) if rule.startswith(b":root:has(body.dark){")]
    assert len(dark) == (file.stem.split("-")[0] == "index")
    expected = [
        rule.replace(b":has(", b":has(>")
        for rule in rules(sheet)
        if rule in dark or b":has(" not in rule.split(b"{")[0]
    ]
    assert rules(light) == expected
    assert light.count(b":has(") == len(dark)
    assert light.count(b"{") == light.count(b"}")
    assert (light == sheet) == (b":has(" not in sheet)


def test_a_sheet_s_length_is_told_and_everything_else_is_as_it_was():
    files = Mount("/assets", StaticFiles(directory=ASSETS))
    app = Starlette(routes=[files], middleware=[Middleware(LightStyles)])

    async def look() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://course") as client:
            for file in SHEETS:
                answer = await client.get(f"/assets/{file.name}")
                assert answer.status_code == 200
                assert answer.content == without_has(file.read_bytes())
                assert answer.headers["content-length"] == str(len(answer.content))
                assert answer.headers["content-type"].startswith("text/css")
            script = next(ASSETS.glob("*.js"))
            assert (await client.get(f"/assets/{script.name}")).content == script.read_bytes()
            assert (await client.get("/assets/none.css")).status_code == 404

    asyncio.run(look())


def test_none_of_the_course_s_own_rules_for_marimo_s_page_has_one():
    text = (ROOT / "lessons" / "course.css").read_text(encoding="utf-8")
    assert ":has(" not in re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)

"""Prose as blocks: the paragraphs, lists, tables and listings of a cell, and how tall each is.

Heights are estimates in lines of a slide's text. They only decide where a slide ends; a browser
test measures that every slide of every lesson fits.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser
from math import ceil

LINE = 76  # characters of a slide's text
CODE_LINE = 0.72  # a line of a listing, in lines of text
ROW = 1.0
ROW_LINE = 104  # characters of a table's row
_VOID = ("br", "hr", "img")
_WAY_OUT = re.compile(r'<span class="paragraph"><a href="(?!https?:)[^"]*"[^>]*>[^<]*</a></span>')
_DEAD_LINK = re.compile(r'<a href="(?!https?:)[^"]*"[^>]*>(.*?)</a>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One element of a cell's HTML: its tag, itself whole, and its height in lines of text."""

    tag: str
    html: str
    lines: float

    @property
    def leads_on(self) -> bool:
        """Whether it ends in mid-sentence, as with a colon, and so belongs to what follows."""
        return self.tag == "p" and text_of(self.html).rstrip()[-1:] not in ".?!)"


def text_of(html: str) -> str:
    """The words of a piece of HTML."""
    return unescape(re.sub(r"<style>.*?</style>|<[^>]*>", "", html, flags=re.DOTALL))


def inside(html: str) -> str:
    """What stands between an element's own tags."""
    return html[html.index(">") + 1 : html.rindex("<")].strip()


def blocks(html: str) -> list[Block]:
    """The blocks of a cell's output. Links that lead to other cells or lessons are plain words, and
    a paragraph that is nothing but such a link is left out.
    """
    found: list[Block] = []
    for tag, each in _elements(_DEAD_LINK.sub(r"\1", _WAY_OUT.sub("", html))):
        found += _blocks_of(tag, each)
    return found


def split(block: Block, lines: float) -> list[Block]:
    """A table or a list cut into pieces of at most so many lines; anything else whole."""
    if block.lines <= lines:
        return [block]
    if block.tag == "table":
        head, _, body = block.html.partition("<tbody>")
        rows = re.findall(r"<tr>.*?</tr>", body, re.DOTALL)
        return [
            _measured("table", f"{head}<tbody>{''.join(each)}</tbody></table>")
            for each in _packed(rows, lines - 2 * ROW, _row_lines)
        ]
    if block.tag in ("ul", "ol"):
        items = re.findall(r"<li>.*?</li>", block.html, re.DOTALL)
        pieces = _packed(items, lines, _item_lines)
        return [
            _measured(block.tag, f"<{block.tag}>{''.join(each)}</{block.tag}>") for each in pieces
        ]
    return [block]


def _packed(pieces: list[str], most: float, height: Callable[[str], float]) -> Iterator[list[str]]:
    """As few groups as keep to the height, all about as tall."""
    tall = [height(each) for each in pieces]
    share = sum(tall) / ceil(sum(tall) / most)
    group: list[str] = []
    at = 0.0
    for piece, lines in zip(pieces, tall, strict=True):
        if group and at + lines / 2 > share:
            yield group
            group, at = [], 0.0
        group.append(piece)
        at += lines
    yield group


def _blocks_of(tag: str, html: str) -> Iterator[Block]:
    if tag == "span" and 'class="markdown' in html[:40]:
        for inner, each in _elements(inside(html)):
            yield from _blocks_of(inner, each)
    elif tag == "span":  # marimo writes a paragraph so
        yield _measured("p", f"<p>{inside(html)}</p>")
    elif tag == "details":
        summary, _, rest = inside(html).partition("</summary>")
        yield _measured("p", f"<p><strong>{inside(summary + '</summary>')}</strong></p>")
        for inner, each in _elements(rest):
            yield from _blocks_of(inner, each)
    elif tag == "div" and "codehilite" in html[:80]:
        yield _measured("pre", html)
    elif tag == "div":
        for inner, each in _elements(inside(html)):
            yield from _blocks_of(inner, each)
    elif tag != "style":
        yield _measured(tag, html)


def _measured(tag: str, html: str) -> Block:
    text = text_of(html)
    if tag == "pre":
        lines = CODE_LINE * (text.strip("\n").count("\n") + 1) + 0.8
    elif tag == "table":
        lines = sum(_row_lines(row) for row in re.findall(r"<tr>.*?</tr>", html, re.DOTALL)) + 0.4
    elif tag in ("ul", "ol"):
        lines = sum(_item_lines(item) for item in re.findall(r"<li>.*?</li>", html, re.DOTALL))
    else:
        lines = _lines(text, LINE) + 0.6
    return Block(tag, html, lines)


def _lines(text: str, width: int) -> int:
    return max(1, -(-len(" ".join(text.split())) // width))


def _item_lines(html: str) -> float:
    return _lines(text_of(html), LINE - 4) + 0.3


def _row_lines(row: str) -> float:
    """A row breaks where its words are more than its columns' even shares of the width hold."""
    cells = [
        len(text_of(each).strip()) for each in re.findall(r"<t[dh].*?</t[dh]>", row, re.DOTALL)
    ]
    widest = max(cells, default=1)
    room = max(ROW_LINE - (sum(cells) - widest) - 4 * len(cells), ROW_LINE // max(1, len(cells)))
    return ROW + 0.68 * (-(-widest // room) - 1)


class _Tops(HTMLParser):
    """Notes where each outermost element begins and ends."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=False)
        self.starts = [0]
        for line in html.split("\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.depth, self.begin, self.found = 0, 0, list[tuple[str, int, int]]()
        self.feed(html)

    def _here(self) -> int:
        line, column = self.getpos()
        return self.starts[line - 1] + column

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in _VOID:
            return
        if self.depth == 0:
            self.begin = self._here()
        self.depth += 1

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        self.depth -= 1
        if self.depth == 0:
            self.found.append((tag, self.begin, self._here() + len(tag) + 3))


def _elements(html: str) -> list[tuple[str, str]]:
    """The outermost elements: each one's tag and itself."""
    return [(tag, html[begin:end]) for tag, begin, end in _Tops(html).found]

"""The paragraphs, lists, tables and listings of a cell's HTML, and how tall each is on a slide.

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
LOOP = 12.0  # the engine's loop, in type that is small enough for a slide of its own
ROW = 1.0
ROW_LINE = 104  # characters of a table's row
_ROWS = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_ITEMS = re.compile(r"<li>.*?</li>", re.DOTALL)
_VOID = ("br", "hr", "img")
_WAY_OUT = re.compile(r'<span class="paragraph"><a href="(?!https?:)[^"]*"[^>]*>[^<]*</a></span>')
_DEAD_LINK = re.compile(r'<a href="(?!https?:)[^"]*"[^>]*>(.*?)</a>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Element:
    """An element: its tag, its HTML with the tag, and its height in lines of text."""

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
    """The text between an element's own tags."""
    return html[html.index(">") + 1 : html.rindex("<")].strip()


def elements(html: str) -> list[Element]:
    """The elements of a cell's output.

    Links to other cells or lessons become plain words, and a paragraph with nothing else is left
    out.
    """
    return list(_unwrapped(_DEAD_LINK.sub(r"\1", _WAY_OUT.sub("", html))))


def split(element: Element, lines: float) -> list[Element]:
    """A table or a list cut into pieces of at most so many lines; anything else whole."""
    tag, html = element.tag, element.html
    if element.lines <= lines or tag not in ("table", "ul", "ol"):
        return [element]
    if tag == "table":
        head, _, body = html.partition("<tbody>")
        groups = _packed(_ROWS.findall(body), lines - 2 * ROW, _row_lines)
        return [_measured(tag, f"{head}<tbody>{''.join(rows)}</tbody></table>") for rows in groups]
    groups = _packed(_ITEMS.findall(html), lines, _item_lines)
    return [_measured(tag, f"<{tag}>{''.join(items)}</{tag}>") for items in groups]


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


def _unwrapped(html: str) -> Iterator[Element]:
    """The elements within marimo's wrappers; <details> stand open."""
    for tag, each in _outermost(html):
        is_listing = "codehilite" in each[:80]
        if tag == "details":
            summary, _, rest = inside(each).partition("</summary>")
            yield _measured("p", f"<p><strong>{inside(summary + '</summary>')}</strong></p>")
            yield from _unwrapped(rest)
        elif (tag == "span" and 'class="markdown' in each[:40]) or (
            tag == "div" and not is_listing
        ):
            yield from _unwrapped(inside(each))
        elif tag == "span":  # marimo writes a paragraph so
            yield _measured("p", f"<p>{inside(each)}</p>")
        elif tag != "style":
            yield _measured("pre" if tag == "div" else tag, each)


def _measured(tag: str, html: str) -> Element:
    text = text_of(html)
    if tag == "pre":
        lines = CODE_LINE * (text.strip("\n").count("\n") + 1) + 0.8
    elif tag == "table":
        lines = sum(map(_row_lines, _ROWS.findall(html))) + 0.4
    elif tag in ("ul", "ol"):
        lines = sum(map(_item_lines, _ITEMS.findall(html)))
    elif tag == "figure":
        lines = LOOP
    else:
        lines = _lines(text, LINE) + 0.6
    return Element(tag, html, lines)


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


def _outermost(html: str) -> list[tuple[str, str]]:
    """The outermost elements: tag and HTML."""
    return [(tag, html[begin:end]) for tag, begin, end in _Tops(html).found]

"""Reads the site's own HTML: headings and their ids, words to search, what a page links to."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

_HEADINGS = {"h1", "h2", "h3"}
_SILENT = {"style", "script", "noscript"}
_BREAKS = {"p", "li", "td", "th", "tr", "div", "pre", "dt", "dd", "summary", "span", "br"}


@dataclass(slots=True)
class Section:
    """A heading, its id ("" for what stands before the first), its level and the words below it."""

    id: str = ""
    level: int = 1
    heading: str = ""
    text: str = ""


@dataclass(slots=True)
class Read:
    """What one piece of HTML holds; `addresses` are those of links and of what the page loads."""

    sections: list[Section] = field(default_factory=lambda: [Section()])
    ids: list[str] = field(default_factory=list[str])
    addresses: list[str] = field(default_factory=list[str])
    loads: list[str] = field(default_factory=list[str])


def read(html: str) -> Read:
    """Take HTML apart."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    for section in parser.found.sections:
        section.heading = " ".join(section.heading.split())
        section.text = " ".join(section.text.split())
    return parser.found


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found = Read()
        self.silent = 0
        self.in_heading = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        if "id" in said:
            self.found.ids.append(said["id"])
        if tag == "a" and "href" in said:
            self.found.addresses.append(said["href"])
        elif tag == "link" and "href" in said:
            self.found.loads.append(said["href"])
        elif "src" in said:
            self.found.loads.append(said["src"])
        if tag in _SILENT:
            self.silent += 1
        elif tag in _HEADINGS:
            self.in_heading = True
            self.found.sections.append(Section(said.get("id", ""), int(tag[1])))
        elif tag in _BREAKS:
            self.handle_data(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self.silent -= 1
        elif tag in _HEADINGS:
            self.in_heading = False
        elif tag in _BREAKS:
            self.handle_data(" ")

    def handle_data(self, data: str) -> None:
        if self.silent:
            return
        section = self.found.sections[-1]
        if self.in_heading:
            section.heading += data
        else:
            section.text += data

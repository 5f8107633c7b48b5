"""Reads HTML: its headings, their ids and words, its links, and what it loads."""

from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_HEADINGS = {"h1", "h2", "h3"}
_SILENT = {"style", "script", "noscript"}
_BREAKS = {"p", "li", "td", "th", "tr", "div", "pre", "dt", "dd", "summary", "span", "br"}


@dataclass(slots=True)
class Section:
    """A heading, its id, its level and the words below it; the first section has no heading."""

    id: str = ""
    level: int = 1
    heading: str = ""
    text: str = ""


class HtmlReader(HTMLParser):
    """Sections and ids of some HTML, the addresses of its links, and those of what it loads."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.sections = [Section()]
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self._silent = 0
        self._in_heading = False
        self.feed(html)
        self.close()
        for section in self.sections:
            section.heading = " ".join(section.heading.split())
            section.text = " ".join(section.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take in an element's id, its address, and whether it is a heading."""
        said = {name: value or "" for name, value in attrs}
        self.ids += [said["id"]] if "id" in said else []
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        elif tag == "link" and "href" in said:
            self.loads.append(said["href"])
        elif "src" in said:
            self.loads.append(said["src"])
        if tag in _SILENT:
            self._silent += 1
        elif tag in _HEADINGS:
            self._in_heading = True
            self.sections.append(Section(said.get("id", ""), int(tag[1])))
        elif tag in _BREAKS:
            self.handle_data(" ")

    def handle_endtag(self, tag: str) -> None:
        """Note where a heading or a script ends."""
        if tag in _SILENT:
            self._silent -= 1
        elif tag in _HEADINGS:
            self._in_heading = False
        elif tag in _BREAKS:
            self.handle_data(" ")

    def handle_data(self, data: str) -> None:
        """Add words to the heading, or to the section below it."""
        if self._in_heading and not self._silent:
            self.sections[-1].heading += data
        elif not self._silent:
            self.sections[-1].text += data


def faults(site: Path) -> list[str]:
    """A sentence for each link to nothing, each id given twice and each foreign file loaded."""
    pages = {
        path.resolve(): HtmlReader(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))
    }
    found: list[str] = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        twice = sorted({each for each in page.ids if page.ids.count(each) > 1})
        found += [f"{name}: two things have the id {each!r}" for each in twice]
        found += [f"{name} loads {each}" for each in page.loads if not _is_local(each)]
        local = [each for each in [*page.links, *page.loads] if _is_local(each)]
        found += [
            f"{name}: {each} leads nowhere" for each in local if not _leads(path, each, pages)
        ]
    return found


def _is_local(address: str) -> bool:
    parts = urlsplit(address)
    return not parts.scheme and not parts.netloc


def _leads(page: Path, address: str, pages: dict[Path, HtmlReader]) -> bool:
    """Whether a relative address names a file of the site, and an id in it."""
    parts = urlsplit(address)
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if address.startswith("/") or not target.is_file():
        return False
    return not parts.fragment or unquote(parts.fragment) in pages[target].ids

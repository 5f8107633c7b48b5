"""Looks at a finished site: every link leads somewhere, and nothing is asked of other machines."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from course.site.reading import Read, read


def faults(site: Path) -> list[str]:
    """A sentence for each link to nothing, each id given twice and each foreign file loaded."""
    pages = {path.resolve(): read(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    found: list[str] = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        twice = sorted({each for each in page.ids if page.ids.count(each) > 1})
        found += [f"{name}: two things have the id {each!r}" for each in twice]
        found += [f"{name} loads {each}" for each in page.loads if not _is_local(each)]
        local = [each for each in [*page.addresses, *page.loads] if _is_local(each)]
        found += [
            f"{name}: {each} leads nowhere" for each in local if not _leads(path, each, pages)
        ]
    return found


def _is_local(address: str) -> bool:
    parts = urlsplit(address)
    return not parts.scheme and not parts.netloc


def _leads(page: Path, address: str, pages: dict[Path, Read]) -> bool:
    """From a page to a file of the site, and to what there has the id."""
    parts = urlsplit(address)
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if address.startswith("/") or not target.is_file():
        return False
    return not parts.fragment or unquote(parts.fragment) in pages[target].ids

"""Joins a widget's script and style with the shared files into one string each.

anywidget hands a page one module per widget, so local imports cannot be followed there: they are
followed here. A site has all files once instead. Knows no widget.
"""

import re
from pathlib import Path

_STATIC = Path(__file__).parent / "static"
_LOCAL_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+)\.js";\n', re.MULTILINE)


def esm(name: str) -> str:
    """static/NAME.js after everything that it imports, as one module without imports.

    All files end up in one scope, so their top-level names must differ.
    Raises: FileNotFoundError for a name without a file.
    """
    ordered: list[str] = []
    _collect(name, ordered)
    return "\n".join(_LOCAL_IMPORT.sub("", _read(f"{each}.js")) for each in ordered)


def css(*names: str) -> str:
    """static/theme.css followed by the static/NAME.css of each name, in order.

    Raises: FileNotFoundError for a name without a file.
    """
    return "\n".join(_read(f"{name}.css") for name in ("theme", *names))


def scripts() -> list[Path]:
    """Every script as a file of its own, for a server whose pages can follow imports."""
    return sorted(_STATIC.glob("*.js"))


def every_style() -> str:
    """The shared style and those of all widgets, each once."""
    return css(*sorted(path.stem for path in _STATIC.glob("*.css") if path.stem != "theme"))


def _collect(name: str, ordered: list[str]) -> None:
    """Append the imports of `name`, deepest first, and then `name`, each once."""
    if name in ordered:
        return
    for imported in _LOCAL_IMPORT.findall(_read(f"{name}.js")):
        _collect(imported, ordered)
    ordered.append(name)


def _read(file_name: str) -> str:
    return (_STATIC / file_name).read_text(encoding="utf-8")

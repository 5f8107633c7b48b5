"""The colours and the text of everything that the course draws as plain HTML."""

from html import escape
from pathlib import Path

_LIGHT = (
    "--sng-ink:#1f2328;--sng-soft:#57606a;--sng-line:#d4d9df;--sng-card:#fbfcfd;--sng-raised:#eef1f4;"
    "--sng-good:#1a7037;--sng-warn:#8a5300;--sng-bad:#a8172b;--sng-accent:#1f5fb8"
)
_DARK = (
    "--sng-ink:#e6e9ed;--sng-soft:#a3adb8;--sng-line:#3a414a;--sng-card:#191d22;--sng-raised:#242a31;"
    "--sng-good:#5fca7e;--sng-warn:#eab04f;--sng-bad:#ff8f8a;--sng-accent:#82b4ff"
)


def stylesheet(name: str) -> str:
    """The rules of static/NAME.css."""
    return (Path(__file__).parent / "static" / f"{name}.css").read_text(encoding="utf-8")


def themed(css_class: str, light: str = _LIGHT, dark: str = _DARK) -> str:
    """CSS that defines colours on `.css_class`, the `--sng-*` ones or others, for light and dark.

    The page's own word wins (marimo's `.dark`, JupyterLab's `data-jp-theme-light`); a page that
    says nothing gets what the reader's system prefers.
    """
    on_light = f'.light .{css_class},[data-jp-theme-light="true"] .{css_class}'
    on_dark = f'.dark .{css_class},[data-jp-theme-light="false"] .{css_class}'
    return (
        f".{css_class}{{{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{.{css_class}{{{dark}}}}}"
        f"{on_light}{{{light}}}{on_dark}{{{dark}}}"
    )


def prose(text: str) -> str:
    """Escaped text with `code` between backquotes set as code; a lone backquote stays itself."""
    pieces = escape(text).split("`")
    if len(pieces) % 2 == 0:
        return "`".join(pieces)
    return "".join(
        f"<code>{piece}</code>" if index % 2 else piece for index, piece in enumerate(pieces)
    )

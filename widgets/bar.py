"""A bar for the cell of a Markdown table, drawn and not set in block letters."""

from html import escape

from widgets.records import Amount, Words, read

_OUTER = "display:inline-block;width:8em;height:.7em;margin-right:.6em;border-radius:2px;"
_PARTS = ("#1f5fbf", "#8a94a3", "#b04a00")


def bar(parts: float | list[float], words: str) -> str:
    """HTML of a bar, 8 letters wide at 1, filled by `parts` of it, with its words behind it.

    Several parts are drawn behind each other in colours of their own. A screen reader reads only
    the words.
    Raises: ValueError for a part below 0, more than 1 in all, or more parts than colours.
    """
    found = read(parts if isinstance(parts, list) else [parts], list[Amount], "the bar")
    if sum(found) > 1 + 1e-9 or len(found) > len(_PARTS):
        raise ValueError(f"the bar has parts {found}; it holds at most {len(_PARTS)}, of 1 in all")
    pieces = "".join(
        f'<i style="display:inline-block;width:{100 * part:.4g}%;height:100%;'
        f'background:{colour};vertical-align:top"></i>'
        for part, colour in zip(found, _PARTS, strict=False)
    )
    said = escape(read(words, Words, "the words of the bar"))
    style = f"{_OUTER}background:rgba(128,136,148,.22);overflow:hidden;white-space:nowrap"
    return f'<span aria-hidden="true" style="{style}">{pieces}</span>{said}'

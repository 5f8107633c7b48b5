"""Lines and indentation of code as Python and marimo count them, strings over lines included."""

import io
import re
import tokenize


def split_lines(text: str) -> list[str]:
    """Split where Python ends a line: form feeds and Unicode's separators do not."""
    return re.sub(r"\r\n?", "\n", text).split("\n")


def dedent(code: str) -> str:
    """Take the first line's indentation away from all lines, as marimo does when it reads a cell.

    Lines inside a string move with the code, unless one of that string's stands further left.
    """
    lines = code.split("\n")
    first = next((line for line in lines if line.strip()), "")
    width = len(first) - len(first.lstrip())
    staying: set[int] = set()
    for block in _in_strings(code):
        filled = [lines[number] for number in block if lines[number].strip()]
        if any(len(line) - len(line.lstrip()) < width for line in filled):
            staying.update(block)
    cut = re.compile(rf"[ \t]{{0,{width}}}")
    return "\n".join(
        line if number in staying else cut.sub("", line, count=1)
        for number, line in enumerate(lines)
    )


def indent(code: str) -> str:
    """Indent by four spaces, so that `dedent` gives the same code back."""
    inside = {number for block in _in_strings(code) for number in block}
    lines = enumerate(code.split("\n"))
    return "\n".join(
        "    " + line if line.strip() or number in inside else line for number, line in lines
    )


def _in_strings(code: str) -> list[list[int]]:
    """Return the runs of lines, counted from 0, that begin inside a string."""
    inside: set[int] = set()
    opened: list[int] = []  # f-strings that are open, which are several tokens from Python 3.12 on
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            kind = tokenize.tok_name[token.type]
            if kind == "FSTRING_START":
                opened.append(token.start[0])
            elif kind in ("STRING", "FSTRING_END"):
                start = opened.pop() if kind == "FSTRING_END" else token.start[0]
                inside.update(range(start, token.end[0]))
    except (tokenize.TokenError, SyntaxError):
        pass  # what comes after is no code
    runs: list[list[int]] = []
    for number in sorted(inside):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs

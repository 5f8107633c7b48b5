"""Notebooks as marimo writes them, made of the text of their cells."""

from course.source.indentation import indent

HEAD = "import marimo\n\napp = marimo.App()\n"
TAIL = '\n\nif __name__ == "__main__":\n    app.run()\n'


def notebook(*cells: str) -> str:
    return HEAD + "".join(f"\n\n{cell}" for cell in cells) + TAIL


def function(name: str, body: str, arguments: str = "a, b", above: str = "") -> str:
    return f"@app.function\n{above}def {name}({arguments}):\n{body}\n"


def stub(name: str, arguments: str = "a, b", doc: str = "Do it.") -> str:
    return function(name, f'    """{doc}"""\n    raise NotImplementedError', arguments)


def cell(body: str, *, takes: str = "", gives: str = "") -> str:
    return f"@app.cell\ndef _({takes}):\n{indent(body)}\n    return {gives}".rstrip() + "\n"

"""Makes a Jupyter kernel bring up to date what depends on a changed cell, as marimo does.

An IPython extension, which the course's kernel loads. It reads from the cells that have run which
cell uses names of which, and publishes each output with an id, under which the kernel can show
another output in its place. So a check answers in its own cell when its exercise's cell runs.
A name with a leading underscore is its cell's own, as in marimo: two cells may have one each.
"""

from __future__ import annotations

import ast
from html import escape
from typing import Any

from ipykernel.displayhook import ZMQShellDisplayHook
from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell
from IPython.display import HTML, update_display

from course.jupyter.cell_ids import page_of
from course.source.dependencies import Dependencies
from course.source.private_names import private_names, rename

_kernels: list[Kernel] = []  # the one of this process


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Watch every cell that runs from now on."""
    _kernels[:] = [Kernel(shell)]


def sources() -> list[str]:
    """Return the cells that have run in this kernel, each as it was when it last ran."""
    return [source for kernel in _kernels for source in kernel.sources.values()]


class Kernel:
    """The cells that have run, and which needs which."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.sources: dict[str, str] = {}
        self.dependencies = Dependencies()
        self.page: str | None = None
        self.running: str | None = None
        self.stale: set[str] = set()
        self.private: dict[str, str] = {}  # of the cell that runs, with the names they get
        shell.ast_transformers.append(self)  # pyright: ignore[reportArgumentType]
        shell.events.register("pre_run_cell", self._before)
        shell.events.register("post_run_cell", self._after)
        hook: ZMQShellDisplayHook = shell.displayhook  # pyright: ignore[reportAssignmentType]
        hook.register_hook(self._with_id)

    def _before(self, info: ExecutionInfo) -> None:
        self.running = info.cell_id
        self.stale = set()
        if self.running is None:
            return
        page = page_of(self.running)
        if page not in (None, self.page):
            self.sources, self.dependencies, self.page = {}, Dependencies(), page
        if self.sources.get(self.running) != info.raw_cell:
            self._take(self.running, info.raw_cell or "")

    def _take(self, cell: str, source: str) -> None:
        """Replace a cell's source, and remove the names that the old one bound."""
        self.sources[cell] = source
        for name in self.dependencies.defines.get(cell, ()):
            self.shell.user_ns.pop(name, None)
        self._forget_private(cell)
        self.stale = self.dependencies.add(cell, source)

    def _after(self, result: ExecutionResult) -> None:
        """Run the cells again that need the cell that has run, if it changed."""
        self._share()
        ran = self.running
        for cell in self.dependencies.in_order(self.stale - {ran}):
            self.running = cell
            shown = self._shown(self.sources[cell])
            self._share()
            update_display(HTML("") if shown is None else shown, display_id=cell)
        self.running, self.stale = ran, set()

    def visit(self, tree: ast.Module) -> ast.Module:
        """Give the private names of the cell that runs others, as a transformer of IPython's."""
        try:
            names = private_names(ast.unparse(tree)) if self.running is not None else set[str]()
        except (SyntaxError, RecursionError):  # IPython says so
            return tree
        self.private |= {name: f"_cell_{self.running}{name}" for name in names}
        return rename(tree, self.private)

    def _forget_private(self, cell: str) -> None:
        """Remove the private names that a cell has bound, and what others see of them."""
        space, prefix = self.shell.user_ns, f"_cell_{cell}"
        for own in [name for name in space if name.startswith(f"{prefix}_")]:
            value, name = space.pop(own), own.removeprefix(prefix)
            if space.get(name) is value:
                del space[name]

    def _share(self) -> None:
        """Let cells that lack such a name of their own see the last one; begin the next cell."""
        space = self.shell.user_ns
        shared = {name for name, own in self.private.items() if own in space}
        space |= {name: space[self.private[name]] for name in shared - {*self.shell.user_ns_hidden}}
        self.private = {}

    def _shown(self, source: str) -> Any:
        """Run a cell; returns what it shows, or its error."""
        shell = self.shell
        try:
            code = shell.transform_cell(source)
            place = shell.compile.cache(code, shell.execution_count, source)
            tree = shell.transform_ast(shell.compile.ast_parse(code, place))
            last = [each for each in tree.body[-1:] if isinstance(each, ast.Expr)]
            body = tree.body[: len(tree.body) - len(last)]
            compiled: Any = shell.compile  # of trees too
            exec(compiled(ast.Module(body, []), place, "exec"), shell.user_ns)
            if not last or source.rstrip().endswith(";"):
                return None
            return eval(compiled(ast.Expression(last[0].value), place, "eval"), shell.user_ns)
        except Exception as error:
            said = escape(f"{type(error).__name__}: {error}")
            return HTML(f'<pre style="color: var(--jp-error-color1, #b00020)">{said}</pre>')

    def _with_id(self, message: dict[str, Any]) -> dict[str, Any]:
        """Display a result under the id of its cell."""
        if self.running is not None:
            message["msg_type"] = message["header"]["msg_type"] = "display_data"
            message["content"].pop("execution_count", None)
            message["content"]["transient"] = {"display_id": self.running}
        return message

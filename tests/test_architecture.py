"""The shape of the code: who may import whom, how long things may be, what a library may not do."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = {"nanogpt", "widgets", "course", "lessons", "solutions", "tests", "benchmarks", "learn"}
MAY_IMPORT = {
    "nanogpt": {"nanogpt"},
    "widgets": {"widgets"},
    "course": {"course", "nanogpt", "widgets"},
    "lessons": {"nanogpt", "widgets", "course"},
    "solutions": {"solutions", "nanogpt", "course"},
    "benchmarks": {"benchmarks", "course", "nanogpt"},
}
JUDGES = {"exercise", "task", "showing", "judging", "calling", "sameness", "checks"}
LONGEST_MODULE = 330
LONGEST_CHECKS = 800  # a lesson's checks: many short functions, read one at a time
LONGEST_EXERCISE = 460  # with its right answers, its wrong ideas and its cases
LONGEST_FUNCTION = 60
MODULES = sorted(
    path.relative_to(ROOT)
    for package in MAY_IMPORT
    for path in (ROOT / package).rglob("*.py")
    if "__pycache__" not in path.parts and "__marimo__" not in path.parts
)
LIBRARY = [path for path in MODULES if path.parts[0] in ("nanogpt", "widgets", "course")]


def tree_of(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def imported_by(tree: ast.AST) -> set[str]:
    """Every module named in an import statement, anywhere in the file, with its dots."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def packages(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def test_there_is_something_to_look_at():
    found = {path.parts[0] for path in MODULES}
    assert {"nanogpt", "widgets", "course", "lessons", "solutions"} <= found


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_a_module_imports_only_what_its_package_may(path: Path):
    package = path.parts[0]
    ours = packages(imported_by(tree_of(path))) & OURS
    assert ours <= MAY_IMPORT[package], f"{path} imports {sorted(ours - MAY_IMPORT[package])}"


@pytest.mark.parametrize("path", [p for p in MODULES if p.parts[0] == "solutions"], ids=str)
def test_an_exercise_knows_of_the_course_only_what_judges_it(path: Path):
    """The course finds the exercises by name, in its registry; no other module there knows them."""
    names = {name for name in imported_by(tree_of(path)) if name.startswith("course.")}
    assert {name.split(".")[1] for name in names} <= JUDGES


@pytest.mark.parametrize("path", [p for p in MODULES if p.parts[0] == "widgets"], ids=str)
def test_widgets_need_no_torch(path: Path):
    assert not packages(imported_by(tree_of(path))) & {"torch", "safetensors", "numpy"}


@pytest.mark.parametrize("path", [p for p in MODULES if p.parts[0] == "course"], ids=str)
def test_the_course_uses_widgets_only_where_it_draws(path: Path):
    """Checks and reports also run in the terminal and the grader, which draw nothing."""
    if "checks" in path.parts or path.stem in ("judging", "calling", "registry", "report"):
        assert "widgets" not in packages(imported_by(tree_of(path)))


def test_learn_py_imports_the_standard_library_and_the_course_alone():
    names = packages(imported_by(tree_of(Path("learn.py"))))
    assert names <= set(sys.stdlib_module_names) | {"course"}


@pytest.mark.parametrize("path", [p for p in MODULES if p.parts[0] == "nanogpt"], ids=str)
def test_the_engine_knows_nothing_of_notebooks_or_drawing(path: Path):
    allowed = set(sys.stdlib_module_names) | {"nanogpt", "torch", "safetensors", "numpy"}
    if path == Path("nanogpt/fleet/dashboard.py"):  # a command's live table in the terminal
        allowed |= {"rich"}
    assert packages(imported_by(tree_of(path))) <= allowed


def test_the_engines_modules_import_each_other_in_one_direction():
    graph = {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__"): imported_by(tree_of(path))
        for path in MODULES
        if path.parts[0] == "nanogpt"
    }
    edges = {
        name: {other for other in graph if other != name and other in names}
        for name, names in graph.items()
        if name != "nanogpt"
    }
    done: set[str] = {"nanogpt"}
    while len(done) < len(graph):
        ready = {name for name in edges if name not in done and edges[name] <= done}
        assert ready, f"a circle among {sorted(set(edges) - done)}"
        done |= ready


@pytest.mark.parametrize("path", LIBRARY, ids=str)
def test_a_module_says_what_it_is_and_stays_short(path: Path):
    assert ast.get_docstring(tree_of(path)), f"{path} has no docstring"
    length = len((ROOT / path).read_text(encoding="utf-8").splitlines())
    longest = LONGEST_CHECKS if "checks" in path.parts else LONGEST_MODULE
    assert length <= longest, f"{path} has {length} lines"


@pytest.mark.parametrize("path", LIBRARY, ids=str)
def test_a_function_fits_a_screen(path: Path):
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{path}: {node.name} has {length} lines"


TALKS = {Path("nanogpt/train.py"), Path("course/__main__.py")}


@pytest.mark.parametrize("path", LIBRARY, ids=str)
def test_library_code_prints_nothing(path: Path):
    calls = [
        node.lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    if path not in TALKS:
        assert calls == []
    elif path.parts[0] == "nanogpt":
        main = next(n for n in tree_of(path).body if getattr(n, "name", "") == "main")
        assert all(main.lineno <= line <= (main.end_lineno or 0) for line in calls)


@pytest.mark.parametrize("path", LIBRARY, ids=str)
def test_library_code_keeps_no_global_statement(path: Path):
    assert not [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Global)]


def test_importing_the_package_touches_neither_random_numbers_nor_threads():
    """No import side effects: nothing but definitions, constants and `__main__` at the top."""
    allowed = (
        ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign,
    )  # fmt: skip
    for path in MODULES:
        if path.parts[0] != "nanogpt":
            continue
        for node in tree_of(path).body:
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            test = ast.unparse(node.test) if isinstance(node, ast.If) else ""
            may_be = "__main__" in test or test == "TYPE_CHECKING"
            assert isinstance(node, allowed) or is_text or may_be, f"{path}:{node.lineno}"


@pytest.mark.parametrize(
    "path", [p for p in MODULES if len(p.parts) == 3 and p.parts[0] == "solutions"], ids=str
)
def test_an_exercise_stands_in_one_module_that_stays_short(path: Path):
    assert ast.get_docstring(tree_of(path)), f"{path} has no docstring"
    length = len((ROOT / path).read_text(encoding="utf-8").splitlines())
    assert length <= LONGEST_EXERCISE, f"{path} has {length} lines"


@pytest.mark.parametrize("stem", [p.stem for p in MODULES if p.match("lessons/l[0-9]*.py")])
def test_a_lesson_and_its_exercises_share_a_stem(stem: str):
    """A module each; in lessons still written so, one for all checks and one for all answers."""
    if (ROOT / "solutions" / stem).is_dir():
        assert (ROOT / "solutions" / stem / "__init__.py").is_file()
        assert not (ROOT / "course" / "checks" / f"{stem}.py").exists()
        return
    assert (ROOT / "course" / "checks" / f"{stem}.py").is_file()
    assert (ROOT / "solutions" / f"{stem}.py").is_file()

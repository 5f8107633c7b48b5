"""The shape of the code: what may import what, how long it may be, what no library does."""

import ast
import functools
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from support import run

ROOT = Path(__file__).resolve().parents[2]
OURS = {"nanogpt", "widgets", "course", "lessons", "solutions", "tests", "benchmarks", "learn"}
MAY_IMPORT = {
    "nanogpt": {"nanogpt"},
    "widgets": {"widgets"},
    "course": {"course", "nanogpt", "widgets"},
    "lessons": {"nanogpt", "widgets", "course"},
    "solutions": {"solutions", "nanogpt", "course"},
    "benchmarks": {"benchmarks", "course", "nanogpt"},
}
JUDGES = {"exercise", "task", "format_values", "harness", "limited_call", "same_values", "checks"}
PEOPLE = re.compile(r"\b(whom|whoever|nobody|everybody|somebody)\b", re.IGNORECASE)
LONGEST_MODULE = 356
LONGEST_CHECKS = 800  # a lesson's checks: many short functions, read one at a time
LONGEST_EXERCISE = 470  # with its right answers, its wrong ideas and its cases
LONGEST_FUNCTION = 50
MODULES = sorted(
    path.relative_to(ROOT)
    for package in MAY_IMPORT
    for path in (ROOT / package).rglob("*.py")
    if "__pycache__" not in path.parts and "__marimo__" not in path.parts
)
LIBRARY = [path for path in MODULES if path.parts[0] in ("nanogpt", "widgets", "course")]
EXERCISES = [path for path in MODULES if len(path.parts) == 3 and path.parts[0] == "solutions"]
TALKS = {Path("nanogpt/checkpoints/train.py"), Path("course/__main__.py")}


def in_package(*names: str) -> list[Path]:
    return [path for path in MODULES if path.parts[0] in names]


@functools.cache
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


def beyond(paths: list[Path], allowed: Callable[[Path], set[str]]) -> dict[str, set[str]]:
    """The packages that modules import and may not, by module."""
    more = {str(path): packages(imported_by(tree_of(path))) - allowed(path) for path in paths}
    return {path: names for path, names in more.items() if names}


def test_a_module_imports_only_what_its_package_may():
    others = {name for path in MODULES for name in packages(imported_by(tree_of(path)))} - OURS
    assert beyond(MODULES, lambda path: MAY_IMPORT[path.parts[0]] | others) == {}


def test_an_exercise_knows_of_the_course_only_what_judges_it():
    """The course finds the exercises by name, in its registry; no other module there knows them."""
    names = {name for path in in_package("solutions") for name in imported_by(tree_of(path))}
    assert {name.split(".")[1] for name in names if name.startswith("course.")} <= JUDGES


def test_widgets_need_no_torch():
    names = {name for path in in_package("widgets") for name in imported_by(tree_of(path))}
    assert not packages(names) & {"torch", "safetensors", "numpy"}


def test_the_course_uses_widgets_only_where_it_draws():
    """Checks and reports also run in the terminal and the grader, which draw nothing."""
    for path in in_package("course"):
        if "checks" in path.parts or path.stem in ("harness", "limited_call", "registry", "report"):
            assert "widgets" not in packages(imported_by(tree_of(path))), path


def test_learn_py_imports_the_standard_library_and_the_course_alone():
    names = packages(imported_by(tree_of(Path("learn.py"))))
    assert names <= set(sys.stdlib_module_names) | {"course"}


def test_the_engine_knows_nothing_of_notebooks_or_drawing():
    libraries = {"torch", "safetensors", "numpy", "msgspec"}
    allowed = set(sys.stdlib_module_names) | {"nanogpt"} | libraries
    # A command's live table in the terminal, the figures that it saves, what speaks HTTP, and text
    # to other people's tokens.
    assert beyond(in_package("nanogpt"), lambda _: allowed) == {
        "nanogpt/checkpoints/byte_pairs.py": {"tokenizers"},
        "nanogpt/server/answers.py": {"starlette"},
        "nanogpt/server/api_errors.py": {"starlette"},
        "nanogpt/server/app.py": {"prometheus_client", "starlette"},
        "nanogpt/server/live_page.py": {"starlette"},
        "nanogpt/server/server_metrics.py": {"prometheus_client"},
        "nanogpt/server/serving.py": {"uvicorn"},
        "nanogpt/experiments/dashboard.py": {"rich"},
        "nanogpt/figures/drawing.py": {"matplotlib"},
    }


def test_the_engines_modules_import_each_other_in_one_direction():
    graph = {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__"): imported_by(tree_of(path))
        for path in in_package("nanogpt")
    }
    for name, names in graph.items():
        # A module that is imported from its package does not take what the package's face shows.
        graph[name] = names - {each.rpartition(".")[0] for each in names & set(graph)}
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


def test_a_module_says_what_it_is():
    assert [
        str(path) for path in [*LIBRARY, *EXERCISES] if not ast.get_docstring(tree_of(path))
    ] == []


def test_a_module_stays_short():
    length = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in MODULES}
    longest = {
        path: LONGEST_CHECKS if "checks" in path.parts else LONGEST_MODULE for path in LIBRARY
    }
    longest |= dict.fromkeys(EXERCISES, LONGEST_EXERCISE)
    assert {str(path): length[path] for path in longest if length[path] > longest[path]} == {}


def test_a_function_fits_a_screen():
    length = {
        f"{path}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in LIBRARY
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef)
    }
    assert {name: lines for name, lines in length.items() if lines > LONGEST_FUNCTION} == {}


def test_library_code_prints_nothing():
    """But for what is run as a command, in its `main`."""
    for path in LIBRARY:
        calls = [
            node.lineno
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ]
        if path not in TALKS:
            assert calls == [], path
        elif path.parts[0] == "nanogpt":
            main = next(n for n in tree_of(path).body if getattr(n, "name", "") == "main")
            assert all(main.lineno <= line <= (main.end_lineno or 0) for line in calls)


def test_library_code_keeps_no_global_statement():
    for path in LIBRARY:
        assert not [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Global)], path


def test_importing_the_package_touches_neither_random_numbers_nor_threads():
    """No import side effects: nothing but definitions, constants and `__main__` at the top."""
    allowed = (
        ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign,
    )  # fmt: skip
    for path in in_package("nanogpt"):
        for node in tree_of(path).body:
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            test = ast.unparse(node.test) if isinstance(node, ast.If) else ""
            may_be = "__main__" in test or test == "TYPE_CHECKING"
            assert isinstance(node, allowed) or is_text or may_be, f"{path}:{node.lineno}"


def test_no_two_modules_of_the_engine_have_the_same_name():
    names = Counter(path.name for path in in_package("nanogpt"))
    del names["__init__.py"], names["__main__.py"]
    assert {name for name, times in names.items() if times > 1} == set()


def test_the_architectures_page_says_of_each_folder_what_the_folder_says_of_itself():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    said = dict(re.findall(r"^\| `(\w+)/` \| (.+) \|$", page, re.MULTILINE))
    faces = [path for path in in_package("nanogpt", "course") if len(path.parts) == 3]
    folders = {path.parts[1]: tree_of(path) for path in faces if path.name == "__init__.py"}
    assert {name: said.get(name) for name in folders} == {
        name: (ast.get_docstring(face) or "").split("\n")[0] for name, face in folders.items()
    }


def test_requests_ranks_and_workers_are_things():
    """They are "it"; the few lines that are left speak of people, or quote."""
    files = [
        path
        for package in ("nanogpt", "course", "widgets", "benchmarks", "tests")
        for suffix in ("py", "js", "css")
        for path in (ROOT / package).rglob(f"*.{suffix}")
    ]
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    assert len([line for line in lines if PEOPLE.search(line)]) <= 12


def test_the_engines_core_is_small_and_knows_no_feature():
    """What `import nanogpt.engine` loads, and what lies at the package's root."""
    root = [path for path in in_package("nanogpt") if len(path.parts) == 2]
    modules = [path for path in root if path.name not in ("__init__.py", "__main__.py")]
    assert len(modules) <= 13
    assert sum(len((ROOT / path).read_text().splitlines()) for path in modules) <= 2_200
    code = """import sys, nanogpt.engine, pathlib
for name, module in list(sys.modules.items()):
    if name[:7] == "nanogpt":
        print(name, len(pathlib.Path(module.__file__).read_text().splitlines()))"""
    said = run([sys.executable, "-c", code], cwd=ROOT).stdout.splitlines()
    loaded = {name: int(lines) for name, lines in map(str.split, said)}
    assert len(loaded) <= 24
    assert sum(loaded.values()) <= 2_900
    folders = {name.split(".")[1] for name in loaded if name.count(".") > 1}
    assert folders == {"executors", "parts"}
    for path in modules:
        inside = {name for name in imported_by(tree_of(path)) if name.startswith("nanogpt.")}
        found = {name.split(".")[1] for name in inside}
        assert found <= {each.stem for each in modules} | {"executors", "parts"}, path

"""The shape of the code: what may import what, how long it may be, what no library does."""

import ast
import functools
import sys
from pathlib import Path

import pytest
from support import ROOT, run

OURS = {"nanogpt", "widgets", "course", "lessons", "solutions", "tests", "benchmarks", "learn"}
MAY_IMPORT = {
    "nanogpt": {"nanogpt"},
    "widgets": {"widgets"},
    "course": {"course", "nanogpt", "widgets"},
    "lessons": {"nanogpt", "widgets", "course"},
    "solutions": {"solutions", "nanogpt", "course"},
    "benchmarks": {"benchmarks", "course", "nanogpt"},
}
JUDGES = {"exercise", "format_values", "harness", "calling", "same_values", "checks"}
LONGEST_MODULE = 356
LONGEST_CHECKS = 800  # a lesson's checks: many short functions, read one at a time
LONGEST_EXERCISE = 300  # with its right answers, its wrong ideas and its cases
LONGEST_FUNCTION = 50
MODULES = sorted(
    path.relative_to(ROOT)
    for package in MAY_IMPORT
    for path in (ROOT / package).rglob("*.py")
    if "__pycache__" not in path.parts and "__marimo__" not in path.parts
)
LIBRARY = [path for path in MODULES if path.parts[0] in ("nanogpt", "widgets", "course")]
EXERCISES = [path for path in MODULES if len(path.parts) == 3 and path.parts[0] == "solutions"]


def in_package(*names: str) -> list[Path]:
    return [path for path in MODULES if path.parts[0] in names]


def length(path: Path) -> int:
    return len((ROOT / path).read_text(encoding="utf-8").splitlines())


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


@functools.cache
def imported_by(path: Path) -> frozenset[str]:
    """Every module named in an import statement, anywhere in the file, with its dots."""
    names: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def packages(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imported_by(path)}


def test_a_module_imports_only_what_its_package_may():
    assert {path.parts[0] for path in MODULES} == set(MAY_IMPORT)
    beyond = {str(path): packages(path) & OURS - MAY_IMPORT[path.parts[0]] for path in MODULES}
    assert {path: names for path, names in beyond.items() if names} == {}
    assert packages(Path("learn.py")) <= set(sys.stdlib_module_names) | {"course"}


def test_who_knows_of_what():
    """An exercise knows what judges it; widgets need no torch, and the terminal no widgets."""
    names = {name for path in in_package("solutions") for name in imported_by(path)}
    assert {name.split(".")[1] for name in names if name.startswith("course.")} <= JUDGES
    for path in in_package("widgets"):
        assert not packages(path) & {"torch", "safetensors", "numpy"}, path
    for path in in_package("course"):
        if "checks" in path.parts or path.stem in ("harness", "registry", "report"):
            assert "widgets" not in packages(path), path


def test_the_engine_knows_nothing_of_notebooks_or_drawing():
    """But for a table in the terminal, figures, what speaks HTTP, and other people's tokens."""
    allowed = {*sys.stdlib_module_names, "nanogpt", "torch", "safetensors", "numpy", "msgspec"}
    beyond = {path.as_posix(): packages(path) - allowed for path in in_package("nanogpt")}
    assert {path: names for path, names in beyond.items() if names} == {
        "nanogpt/checkpoints/byte_pairs.py": {"tokenizers"},
        "nanogpt/grammar/schema_grammar.py": {"llguidance"},
        "nanogpt/server/answers.py": {"starlette"},
        "nanogpt/server/api_errors.py": {"starlette"},
        "nanogpt/server/hub_template.py": {"jinja2"},
        "nanogpt/server/__main__.py": {"psutil"},
        "nanogpt/server/app.py": {"prometheus_client", "starlette"},
        "nanogpt/server/server_metrics.py": {"prometheus_client"},
        "nanogpt/server/serving.py": {"starlette", "uvicorn"},
        "nanogpt/executors/kernel.py": {"llvmlite", "numba"},
        "nanogpt/executors/kernel_cache.py": {"numba"},
        "nanogpt/figures/curves.py": {"matplotlib"},
        "nanogpt/figures/drawing.py": {"matplotlib"},
    }


@pytest.mark.parametrize("package", ["nanogpt", "course"])
def test_the_modules_of_a_package_import_each_other_in_one_direction(package: str):
    """Imports inside functions and for annotations count too."""
    graph = {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__"): imported_by(path)
        for path in in_package(package)
    }
    for name, names in graph.items():
        # A module that is imported from its package does not take what the package's face shows.
        graph[name] = names - {each.rpartition(".")[0] for each in names & set(graph)}
    edges = {
        name: {other for other in graph if other != name and other in names}
        for name, names in graph.items()
        if name != package
    }
    done: set[str] = {package}
    while len(done) < len(graph):
        ready = {name for name in edges if name not in done and edges[name] <= done}
        assert ready, f"a circle among {sorted(set(edges) - done)}"
        done |= ready


def test_a_text_is_read_without_running_it_and_only_the_command_line_knows_the_grader():
    for path in in_package("course"):
        folder, names = path.parts[1], imported_by(path)
        below = folder not in ("grading", "__main__.py")
        assert not (below and any(name.startswith("course.grading") for name in names)), path
        reads = folder == "source"
        assert not (reads and any(name.startswith("course.calling") for name in names)), path


def test_modules_and_functions_stay_short_and_nothing_is_global():
    most = {path: LONGEST_CHECKS if "checks" in path.parts else LONGEST_MODULE for path in LIBRARY}
    most |= dict.fromkeys(EXERCISES, LONGEST_EXERCISE)
    # numba's cache notices changes of one file only, so the kernel stays in one.
    most[Path("nanogpt/executors/kernel.py")] = 630
    assert {str(path): length(path) for path in most if length(path) > most[path]} == {}
    functions = {
        f"{path}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in LIBRARY
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef)
    }
    assert {name: lines for name, lines in functions.items() if lines > LONGEST_FUNCTION} == {}
    for path in LIBRARY:
        assert not [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Global)], path


def test_importing_the_engine_has_no_effects_and_its_modules_names_say_which_is_meant():
    """Nothing but definitions, constants and `__main__` at the top of its modules."""
    names = [path.name for path in in_package("nanogpt") if not path.name.startswith("__")]
    assert len(names) == len(set(names))
    allowed = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    for path in in_package("nanogpt"):
        for node in tree_of(path).body:
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            test = ast.unparse(node.test) if isinstance(node, ast.If) else ""
            may_be = "__main__" in test or test == "TYPE_CHECKING"
            assert isinstance(node, allowed) or is_text or may_be, f"{path}:{node.lineno}"


@pytest.mark.process
def test_the_engines_core_is_small_and_knows_no_feature():
    """What `import nanogpt.engine` loads."""
    code = """import sys, nanogpt.engine
print(*[module.__file__ for name, module in sys.modules.items() if name[:7] == "nanogpt"])"""
    files = run([sys.executable, "-c", code], cwd=ROOT).stdout.split()
    loaded = [Path(each).relative_to(ROOT) for each in files]
    assert len(loaded) <= 35 and sum(map(length, loaded)) <= 4_620
    assert {path.parts[1] for path in loaded if len(path.parts) > 2} == {
        "executors",
        "policies",
        "views",
    }


def test_what_decides_and_simulates_imports_without_tensors():
    """The scheduler never sees one, so none of these needs a package that computes with them."""
    names = """engine contest.scoring block_pool fleet.simulation slo.prefill_simulation views"""
    code = f"""import importlib, sys
sys.modules |= dict.fromkeys(("torch", "numpy", "psutil", "cloudpickle"))
for name in {names.split()}:
    importlib.import_module("nanogpt." + name)
from nanogpt.contest import BASELINES, play_round
print(play_round("chat", 0, 1, BASELINES).points("reference"))"""
    done = run([sys.executable, "-c", code], cwd=ROOT)
    assert int(done.stdout or -1) > 0, done.stderr

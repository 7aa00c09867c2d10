"""The rules of the house that a machine can check: imports run one way, no torch before a run, docstrings, sizes."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# A package may import itself and those of a lower level: paper_figs, slurm → harness → pipelines → odin.
LEVELS = {"odin": 0, "pipelines": 1, "harness": 2, "slurm": 3, "paper_figs": 3}
LONGEST_FILE = 500
FORKS = ROOT / "pipelines" / "forks"  # git submodules: not our code


def sources(package: str) -> list[Path]:
    """Our Python files of a package."""
    return sorted(path for path in (ROOT / package).rglob("*.py") if FORKS not in path.parents)


def imported(tree: ast.AST, module: str) -> Iterator[str]:
    """Full names of what a module imports, wherever in it, also by import_module("name").

    `module` is the dotted name of the package that relative imports start from.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".")[: len(module.split(".")) - node.level + 1] if node.level else []
            yield ".".join([*parents, *([node.module] if node.module else [])])
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in {"import_module", "__import__"} and isinstance(node.args[0].value, str):
                yield node.args[0].value


def upward_imports(package: str, text: str, module: str = "") -> list[str]:
    """What this text, as part of `package`, imports against the direction."""
    names = imported(ast.parse(text), module or package)
    tops = [(name, name.partition(".")[0]) for name in names]
    return [name for name, top in tops if top in LEVELS and top != package and LEVELS[top] >= LEVELS[package]]


def undocumented(text: str) -> list[str]:
    """Public functions and classes of a module, and public methods of those classes, without a docstring."""
    found = []
    for node in ast.parse(text).body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name[0] == "_":
            continue
        inner = node.body if isinstance(node, ast.ClassDef) else []
        methods = [m for m in inner if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)]
        public = [(f"{node.name}.{method.name}", method) for method in methods if method.name[0] != "_"]
        found += [name for name, item in [(node.name, node), *public] if not ast.get_docstring(item)]
    return found


@pytest.mark.parametrize("package", LEVELS)
def test_imports_run_one_way(package: str) -> None:
    wrong = {
        str(path.relative_to(ROOT)): names
        for path in sources(package)
        if (names := upward_imports(package, path.read_text(), ".".join(path.relative_to(ROOT).parts[:-1])))
    }
    assert not wrong


@pytest.mark.parametrize(
    ("package", "text"),
    [
        ("odin", "import pipelines.camera"),
        ("odin", "from harness.config import load"),
        ("pipelines", "def later():\n    from harness import cli"),
        ("harness", "import slurm"),
        ("harness", "from importlib import import_module\nimport_module('paper_figs.fig1')"),
        ("slurm", "from paper_figs import fig1"),
        ("paper_figs", "import slurm.cluster as c"),
    ],
)
def test_the_import_checker_sees_a_violation(package: str, text: str) -> None:
    assert upward_imports(package, text)


@pytest.mark.parametrize(
    ("package", "text"),
    [
        ("harness", "import odin.arms, pipelines.camera, torch"),
        ("paper_figs", "from harness.store import record"),
        ("odin", "from odin.errors import InputError"),
        ("odin", "from . import errors"),
    ],
)
def test_the_import_checker_accepts_the_allowed_direction(package: str, text: str) -> None:
    assert not upward_imports(package, text)


def test_relative_imports_are_resolved() -> None:
    tree = ast.parse("from . import a\nfrom ..b import c")
    assert list(imported(tree, "harness.config")) == ["harness.config", "harness.b"]


@pytest.mark.parametrize(
    "code",
    [
        "import harness.cli",
        "import harness.config, harness.progress, harness.doctor",
        "import harness.cli; assert harness.cli.main(['--help']) == 0",
        "import harness.cli; assert harness.cli.main(['reproduce', 'headline', '--help']) == 0",
        "import harness.cli; assert harness.cli.main(['reproduce', 'headline', '--dry-run']) == 0",
    ],
)
def test_no_torch_before_a_run(code: str, tmp_path: Path) -> None:
    check = "import sys; heavy = {'torch', 'numba', 'pandas'} & set(sys.modules); assert not heavy, heavy"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{check}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", [*LEVELS, "tests", "benchmarks"])
def test_no_file_is_too_long(package: str) -> None:
    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in sources(package)}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


@pytest.mark.parametrize("package", LEVELS)
def test_every_package_says_what_it_owns(package: str) -> None:
    inits = [path for path in sources(package) if path.name == "__init__.py"]
    assert inits
    assert [str(p.relative_to(ROOT)) for p in inits if not ast.get_docstring(ast.parse(p.read_text()))] == []


@pytest.mark.parametrize("package", ["odin", "pipelines", "harness"])
def test_every_folder_with_code_is_a_package(package: str) -> None:
    # A folder without __init__.py works from a checkout and is missing from the wheel.
    folders = {path.parent for path in sources(package)}
    assert [str(f.relative_to(ROOT)) for f in sorted(folders) if not (f / "__init__.py").exists()] == []


@pytest.mark.parametrize("package", ["odin", "pipelines", "harness"])
def test_every_public_name_has_a_docstring(package: str) -> None:
    without = {
        str(path.relative_to(ROOT)): names for path in sources(package) if (names := undocumented(path.read_text()))
    }
    assert not without


def test_the_docstring_checker_sees_what_is_missing() -> None:
    text = "class A:\n    '''d'''\n    def f(self): pass\n    def _g(self): pass\ndef h(): pass\ndef _i(): pass"
    assert undocumented(text) == ["A.f", "h"]

"""No source of ours runs what a file holds: no pickle of foreign data, no evaluated text, no shell strings."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.test_architecture import ROOT, sources

PACKAGES = ("odin", "pipelines", "harness", "slurm", "paper_figs", "benchmarks")
MODULES = frozenset({"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle", "code"})
# Calls by their last two names; what runs text, or reads a file that may hold code.
CALLS = frozenset(
    {"eval", "exec", "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "yaml.load",
     "yaml.full_load", "yaml.unsafe_load", "pd.read_pickle", "pandas.read_pickle", "torch.jit.load", "jit.load"}
)  # fmt: skip


def dotted(node: ast.AST) -> str:
    """`a.b` of a.b or x.a.b, `a` of a."""
    if isinstance(node, ast.Attribute):
        owner = node.value
        first = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        return f"{first}.{node.attr}" if first else node.attr
    return getattr(node, "id", "")


def keyword(call: ast.Call, name: str) -> object:
    """The constant value of a keyword; None where it is absent, ... where it is not a constant."""
    for given in call.keywords:
        if given.arg == name:
            return given.value.value if isinstance(given.value, ast.Constant) else ...
    return None


def dangers(text: str) -> Iterator[str]:
    """What in a module runs or unpickles what it reads."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] in MODULES:
            yield str(node.module)
        elif isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in CALLS:
                yield name
            if keyword(node, "shell") not in (None, False):
                yield "shell="
            if name == "torch.load" and keyword(node, "weights_only") is not True:
                yield "torch.load without weights_only=True"
            if keyword(node, "allow_pickle") not in (None, False):
                yield "allow_pickle="
            if name.endswith(".extractall") and keyword(node, "filter") != "data":
                yield "an archive without filter='data'"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_source_runs_what_it_reads(package: str) -> None:
    found = {str(path.relative_to(ROOT)): list(dangers(path.read_text(encoding="utf-8"))) for path in sources(package)}
    assert len(found) > 5
    assert {path: what for path, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "def f():\n    from pickle import loads",
        "import torch\ntorch.load(path)",
        "torch.load(path, weights_only=False)",
        "torch.load(path, weights_only=chosen)",
        "np.load(path, allow_pickle=True)",
        "subprocess.run(line, shell=True)",
        "subprocess.run(line, shell=flag)",
        "eval(text)",
        "os.system(line)",
        "yaml.load(text, Loader=loader)",
        "archive.extractall(folder)",
    ],
)
def test_the_scan_sees_each_of_them(text: str) -> None:
    assert list(dangers(text))


def test_the_scan_lets_the_safe_forms_pass() -> None:
    safe = "torch.load(p, weights_only=True)\nnp.load(p, allow_pickle=False)\nsubprocess.run(['a'], check=False)\n"
    assert not list(dangers(safe + "yaml.safe_load(t)\nmodel.eval()\narchive.extractall(p, filter='data')\n"))

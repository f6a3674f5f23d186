"""No file of the package runs what it reads: found in the syntax trees, so that a new call is found too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.imports import PACKAGE

FORBIDDEN_MODULES = {
    *("pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "yaml", "telnetlib", "xmlrpc"),
}
# Exceptions of torch and timm have pickle's name; nothing else of it is used.
ALLOWED_IMPORTS = {
    "core/backbones/_weights.py": {"pickle.UnpicklingError"},
    "core/backbones/from_timm.py": {"pickle.UnpicklingError"},
}
FORBIDDEN_CALLS = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "tempfile.mktemp"),
    *(
        "pandas.read_pickle",
        "pd.read_pickle",
        "torch.hub.load",
        "torch.package",
        "numpy.lib.format.open_memmap",
    ),
}
FORBIDDEN_METHODS = {"extractall", "extract", "read_pickle", "load_module", "allow_pickle"}
JIT = {"serving/export.py"}  # a file that `export` has written a moment before, to compare it with torch


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node, ast.unparse(node.func)


def option(call: ast.Call, name: str) -> object:
    found = [word.value for word in call.keywords if word.arg == name]
    return found[0].value if found and isinstance(found[0], ast.Constant) else ... if found else None


def offences(source: str, where: str = "") -> list[str]:
    """What the source does that nothing here may do."""
    tree, found = ast.parse(source), []
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in FORBIDDEN_MODULES and where not in ALLOWED_IMPORTS:
                    found.append(f"import {alias.name}")
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in FORBIDDEN_MODULES:
            found.append(f"from {node.module}")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = f"{node.value.id}.{node.attr}"
            if node.value.id in FORBIDDEN_MODULES & imported and used not in ALLOWED_IMPORTS.get(
                where, set()
            ):
                found.append(used)
    for call, name in calls(tree):
        last = name.rpartition(".")[2]
        if name in FORBIDDEN_CALLS or ("." in name and last in FORBIDDEN_METHODS):
            found.append(name)
        if name == "torch.load" and option(call, "weights_only") is not True:
            found.append("torch.load without weights_only=True")
        if name == "torch.jit.load" and where not in JIT:
            found.append("torch.jit.load")
        if name in ("np.load", "numpy.load") and option(call, "allow_pickle") is not False:
            found.append("numpy.load without allow_pickle=False")
        if name == "YAML" and option(call, "typ") not in (None, "rt", "safe"):
            found.append("YAML that is not safe")
        if option(call, "shell") not in (None, False):
            found.append(f"{name} with a shell")
        if option(call, "trust_remote_code") not in (None, False):
            found.append(f"{name} trusts remote code")
        if name.endswith("Image.open") and option(call, "formats") is None:
            found.append("Image.open of any format")
    return found


def test_no_file_of_the_package_unpickles_evaluates_or_starts_a_shell() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 200
    found = {
        where: wrong
        for path in files
        if (wrong := offences(path.read_text(), where := str(path.relative_to(PACKAGE))))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle\npickle.load(stream)",
        "from joblib import load",
        "import yaml",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "torch.load(path, weights_only=chosen)",
        "np.load(path)",
        "numpy.load(path, allow_pickle=True)",
        "eval(text)",
        "exec(text)",
        "YAML(typ='unsafe')",
        "YAML(typ=chosen)",
        "subprocess.run(command, shell=True)",
        "subprocess.run(command, shell=chosen)",
        "tarfile.open(path).extractall(folder)",
        "torch.jit.load(path)",
        "torch.hub.load(name)",
        "AutoModel.from_pretrained(name, trust_remote_code=True)",
        "Image.open(stream)",
    ],
)
def test_each_of_these_is_found(source: str) -> None:
    assert offences(source)


def test_exceptions_of_pickle_are_all_that_is_allowed() -> None:
    source = "import pickle\ntry: ...\nexcept pickle.UnpicklingError: pickle.loads(text)"
    assert offences(source, "core/backbones/_weights.py") == ["pickle.loads"]


def test_the_allowed_files_exist() -> None:
    assert all((Path(PACKAGE) / name).is_file() for name in {*ALLOWED_IMPORTS, *JIT})

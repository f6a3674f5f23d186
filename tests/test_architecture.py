"""Who may import whom: core ← data ← experiment ← train ← search ← cli; tracking and report are leaves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dmltune

PACKAGE = Path(dmltune.__file__).parent
FLOORS = [
    *("core", "data", "experiment", "propose", "train", "models", "search"),
    *("check", "evaluation", "tables", "reproduce", "cli"),
]
LEAVES = ["errors", "store", "tracking", "ledger", "report"]
FILES = sorted(PACKAGE.rglob("*.py"))
HEAVY = {"ray", "mlflow", "optuna", "ruamel", "rich"}


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports when it runs (what only type checkers see does not count)."""
    tree = ast.parse(path.read_text())
    unseen = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if id(node) in unseen:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def rooms_used(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imports(path) if name.startswith("dmltune.")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    mine = room(path)
    if mine in FLOORS:
        above = set(FLOORS[FLOORS.index(mine) + 1 :])
        assert not rooms_used(path) & above
    elif mine in LEAVES:
        assert not rooms_used(path) & set(FLOORS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_tracking_imports_mlflow_and_core_nothing_heavy(path: Path) -> None:
    used = {name.split(".")[0] for name in imports(path)}
    if room(path) != "tracking":
        assert "mlflow" not in used
    if room(path) == "core":
        assert not used & HEAVY


def test_no_file_is_longer_than_one_sitting() -> None:
    long = {str(path): n for path in FILES if (n := len(path.read_text().splitlines())) > 400}
    assert not long

"""What the files of the package import when they run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import dmltune

PACKAGE = Path(dmltune.__path__[0])


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports; what only type checkers see does not count."""
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

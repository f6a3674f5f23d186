"""docs/architecture.md against the code, and every path that the documentation names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from support.imports import PACKAGE, room, rooms_used

ROOT = PACKAGE.parent
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
MOST_HOPS = 30
MADE_BY_A_READER = ("dmltune/core/losses/my_loss.py",)
TOP = (
    "dmltune",
    "tests",
    "docs",
    "benchmarks",
    "search_spaces",
    "jobs",
    "cli",
    "core",
    "train",
    "search",
    "check",
)


def block(name: str) -> list[str]:
    found = re.search(rf"<!-- {name}: begin -->\n(.*?)<!-- {name}: end -->", ARCHITECTURE, re.DOTALL)
    assert found, f"docs/architecture.md has no block '{name}'"
    return found[1].strip().splitlines()


def test_the_import_graph_is_that_of_the_code_and_points_one_way() -> None:
    written: dict[str, set[str]] = {}
    for line in block("imports"):
        match = re.fullmatch(r"- `(\w+)`:(.*)", line)
        assert match, line
        written[match[1]] = {name.strip() for name in match[2].split(",") if name.strip()}
    actual: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        if path.parent != PACKAGE or path.stem not in ("__init__", "__main__"):
            actual.setdefault(room(path), set()).update(rooms_used(path) - {room(path)})
    assert written == actual
    order = list(written)
    for name, used in written.items():
        assert used <= set(order[: order.index(name)]), f"{name} imports a room that comes after it"


def test_every_hop_of_a_search_exists() -> None:
    hops = block("hops")
    assert len(hops) <= MOST_HOPS
    for line in hops:
        match = re.fullmatch(r"\d+\. `([\w/]+\.py)` `([\w.]+)`: .+", line)
        assert match, line
        assert match[2] in definitions(PACKAGE / match[1]), line


def definitions(path: Path) -> set[str]:
    """Functions, classes, and methods as Class.method."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (ast.FunctionDef, ast.AsyncFunctionDef)
            names |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, methods)}
    return names


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_that_a_document_names_exists(document: Path) -> None:
    text = document.read_text()
    paths = set(re.findall(r"`([\w.-]+(?:/[\w.-]+)*/?)`", text)) | set(re.findall(r"\]\(([^)#:]+)\)", text))
    for path in sorted(paths):
        is_path = ("/" in path and path.split("/")[0] in TOP) or re.fullmatch(r"\w+\.py", path)
        if is_path and path not in MADE_BY_A_READER and "NAME" not in path:
            assert (ROOT / path).exists() or (PACKAGE / path).exists(), f"{document.name} names {path}"

"""The rules of the package's structure: imports, sizes, names. Offenders are listed by file."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from support.imports import PACKAGE, imports, room, rooms_used

ROOMS = [  # a room imports only those before it
    *("core", "data", "weights", "experiment", "propose", "train", "models", "serving", "search", "cluster"),
    *("check", "evaluation", "tables", "reproduce", "pyfunc", "cli"),
]
LEAVES = {
    *(
        "errors",
        "storage",
        "store",
        "worker_resources",
        "tags",
        "tracking",
        "tracking_server",
        "runs",
        "ledger",
        "resources",
        "provenance",
    ),
    "artifact_addresses",
    "meanings",
    "private",
    "report",
    "scratch",
}
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}
HEAVY = {"ray", "mlflow", "optuna", "ruamel", "rich"}
LONGEST_FILE, LONGEST_FUNCTION = 300, 60
RETIRED = {
    *("board", "logbook", "meeting", "crew", "kept", "pace", "searched", "wording", "words"),
    *("there", "said", "asked", "proxy"),
}
LEARNED_PROXIES = {
    "ProxyAnchor",
    "ProxyNca",
    "ProxyLoss",
    "proxy_factor",
    "proxy_anchor",
    "proxy_nca",
    "proxy_labels",
}
TORCH_FX = "core/backbones/_tracing.py"  # overrides methods of torch.fx whose names have `proxy`
Function = ast.FunctionDef | ast.AsyncFunctionDef


def where(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def test_imports_point_one_way() -> None:
    wrong: dict[str, set[str]] = {}
    for path in FILES:
        mine = room(path)
        if mine in ROOMS:
            wrong[where(path)] = rooms_used(path) & set(ROOMS[ROOMS.index(mine) + 1 :])
        elif mine in LEAVES:
            wrong[where(path)] = rooms_used(path) & set(ROOMS)
    assert len(wrong) > 150
    assert {path: rooms for path, rooms in wrong.items() if rooms} == {}
    unplaced = {room(path) for path in FILES} - {*ROOMS, *LEAVES}
    assert unplaced == {"__init__", "__main__", "callable_package"}


def test_only_tracking_imports_mlflow_and_core_nothing_heavy() -> None:
    wrong: dict[str, set[str]] = {}
    for path in FILES:
        used = {name.split(".")[0] for name in imports(path)}
        if room(path) != "tracking" and "mlflow" in used:
            wrong[where(path)] = {"mlflow"}
        if room(path) == "core" and used & HEAVY:
            wrong[where(path)] = used & HEAVY
    assert wrong == {}


def test_no_file_and_no_function_is_too_long_to_read_at_once() -> None:
    files = {where(path): len(path.read_text().splitlines()) for path in FILES}
    assert {path: lines for path, lines in files.items() if lines > LONGEST_FILE} == {}
    functions = {
        f"{where(path)} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, Function)
    }
    assert {name: lines for name, lines in functions.items() if lines > LONGEST_FUNCTION} == {}


def identifiers(tree: ast.Module) -> Iterator[str]:
    """Every name that a file gives: functions, classes, arguments, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def parts(name: str) -> set[str]:
    return set(re.findall("[a-z]+", re.sub("([A-Z])", r"_\1", name).lower()))


def test_retired_words_are_no_part_of_a_name() -> None:
    offenders = {
        f"{where(path)}: {name}"
        for path, tree in TREES.items()
        for name in {*identifiers(tree), path.stem}
        if parts(name) & RETIRED and name not in LEARNED_PROXIES and where(path) != TORCH_FX
    }
    assert offenders == set()


def test_a_class_name_occurs_once() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(where(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}

"""`dmltune store`: is a store complete, and move it."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from dmltune.cli.boundary import FAILED
from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, add_store
from dmltune.errors import UserError

if TYPE_CHECKING:
    from dmltune.store import Store
    from dmltune.tracking.health import StoreHealth

SUMMARY = "examine the folder of results, or move it"
EXAMPLES = """\
  dmltune store check                               every model where it should be?
  dmltune store check --store /backup/mlruns        also of a copy; its addresses become its own
  dmltune store move /shared/mlruns                 with every model, report and checkpoint
"""
ACTIONS = ("check", "move")


def add_arguments(parser: Parser) -> None:
    parser.add_argument("action", metavar="check|move", choices=ACTIONS, help="what to do")
    parser.add_argument(
        "target", metavar="FOLDER", nargs="?", type=Path, help="of move: where to, a new folder"
    )
    add_store(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.store import Store
    from dmltune.tracking.health import examine

    store = Store.to_read(args.store)
    if args.action == "check" and args.target is not None:
        raise UserError(f"store check takes no folder; write --store {args.target}")
    if args.action == "move":
        store = _moved(store, args.target)
    health = examine(store)
    out.document(health)
    _show(health, out)
    return FAILED if health.problems else 0


def _moved(store: Store, target: Path | None) -> Store:
    """Move the folder of a store that nobody uses; return the store at its new place."""
    from dmltune.store import Store
    from dmltune.train.name_holder import is_held

    if target is None:
        raise UserError("store move needs a folder to move to; see dmltune store --help")
    if store.address:
        raise UserError(f"store move is for folders; {store.address} is moved with the tools of its storage")
    target = target.expanduser().absolute()
    if target.exists():
        raise UserError(f"{target} exists. Name a folder that does not, or remove it.")
    if target.is_relative_to(store.root):
        raise UserError(f"{target} is inside of the store. Name a folder outside of {store.root}.")
    if not target.parent.is_dir():
        raise UserError(f"{target.parent} must be a folder. Make it first.")
    if not store.has_runs:
        raise UserError(f"no runs in {store.root} yet; there is nothing to move.")
    names = [path.name for path in store.searches.iterdir()] if store.searches.is_dir() else []
    for name in names:
        if is_held(store, name):
            raise UserError(f"'{name}' is running. Stop it first: dmltune stop {name}")
    try:
        shutil.move(store.root, target)
    except OSError as error:
        raise UserError(f"{store.root} cannot be moved to {target} ({error.strerror}).") from None
    return Store.at(target)


def _show(health: StoreHealth, out: Output) -> None:
    from dmltune.data.files import amount

    facts = f"{health.runs} runs, {health.models} stored models, {amount(health.size)}"
    out.show(f"{health.store}: {facts}")
    if health.repaired:
        out.show(f"{health.repaired} addresses of another folder were set to this one")
    for problem in health.problems:
        out.show(f"run {problem.run}: {problem.text}")
    if not health.problems:
        out.show("complete: every stored model is in its place")

"""`dmltune spaces`: what can be searched or trained here."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format

if TYPE_CHECKING:
    from pathlib import Path

    from dmltune.experiment import Parameter

SUMMARY = "list the search spaces: those of dmltune and of ./search_spaces"
EXAMPLES = """\
  dmltune spaces
  dmltune spaces -f json
"""


def add_arguments(parser: Parser) -> None:
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from rich.text import Text

    from dmltune.cli.dry_run import describe
    from dmltune.experiment import spaces
    from dmltune.report import formatting
    from dmltune.report.terminal import lines

    entries = [(space, [] if space.error else varies(space.path)) for space in spaces()]
    out.document(
        [
            {"name": space.name, "about": space.about, "path": space.path, "searchable": space.searchable}
            | {"varies": specifications(parameters)}
            | ({"error": space.error} if space.error else {})
            for space, parameters in entries
        ]
    )
    for space, parameters in entries:
        note = "" if space.searchable else "   to train, not to search"
        out.show(Text.assemble((space.name, "bold"), (note, "dim")))
        out.show(*lines(space.error or space.about, "red" if space.error else "", "  ", "  "))
        names = formatting.short_names(specifications(parameters))
        for parameter in parameters:
            text = f"{names[parameter.name]}: {describe(parameter)}"
            out.show(*lines(text, "dim", "    ", "      "))
    return 0


def varies(path: Path) -> list[Parameter]:
    """Return the parameters of a space from its YAML alone: importing components would take seconds."""
    from dmltune.experiment.problems import Problem
    from dmltune.experiment.space.parameter import parse_ranges

    search = tree_of(path).get("search")
    parameters = search.items() if isinstance(search, dict) else ()
    try:
        return [each for name, spec in parameters for each in parse_ranges(name, spec)]
    except Problem:
        return []


def specifications(parameters: list[Parameter]) -> dict[str, Any]:
    """Return key → its range, or a list of its ranges."""
    from dmltune.experiment.space.parameter import specification

    ranges: dict[str, list[Parameter]] = {}
    for parameter in parameters:
        ranges.setdefault(parameter.name, []).append(parameter)
    return {name: specification(each) for name, each in ranges.items()}


def tree_of(path: Path) -> dict[str, Any]:
    """Return the keys of a space as its files have them; nothing for files that cannot be read."""
    from dmltune.errors import UserError
    from dmltune.experiment import tree as trees
    from dmltune.experiment.files.places import chain
    from dmltune.experiment.problems import Problem

    tree: dict[str, Any] = {}
    try:
        for _, document in chain(path):
            trees.lay_over(tree, document.tree)
    except (Problem, UserError):
        return {}
    return tree

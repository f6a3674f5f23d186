"""A command that runs on this machine now, for somebody whose own cannot."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dmltune.cli.parser import command_line
from dmltune.errors import UserError, UserErrors

if TYPE_CHECKING:
    from dmltune.cli.experiment_choice import ChosenExperiment
    from dmltune.experiment import Experiment

ALWAYS_HERE = "glyphs"  # a data set that is rendered on the spot
MOST_TRIED = 3  # spaces of a data set


@contextlib.contextmanager
def recommended(args: argparse.Namespace, chosen: ChosenExperiment) -> Iterator[None]:
    """Add to the list of what is missing a command of the same kind that lacks nothing."""
    from dmltune.train.setup import SetupError

    try:
        yield
    except SetupError as error:
        space = None if args.data else runnable(args, chosen.experiment)
        if space is None and len(error.lines) == 1:
            raise
        count = len(error.lines)
        lines = [f"{chosen.space_name} cannot begin here: {count} problem{'s' if count > 1 else ''}"]
        lines += [f"  {number}. {line}" for number, line in enumerate(error.lines, 1)]
        if space is not None:
            command = command_line(args, space=space, overrides=[], name=None)
            lines += ["this runs here now:", f"  {command}"]
        raise UserErrors(lines) from None


def runnable(args: argparse.Namespace, wanted: Experiment) -> str | None:
    """Return the space nearest to the wanted one that passes the validation of a search."""
    from dmltune.experiment import load_experiment
    from dmltune.resources import Locations
    from dmltune.store import Store
    from dmltune.train.build import validate_experiment

    locations = Locations(Store.to_read(args.store), args.data_root)
    for data in dict.fromkeys((wanted.data.name, ALWAYS_HERE)):
        for name in nearest_spaces(data, set(wanted.search))[:MOST_TRIED]:
            try:
                validate_experiment(load_experiment(name), locations, args.workers or 1, planning=True)
            except UserError:
                continue
            return name
    return None


def nearest_spaces(data: str, keys: set[str]) -> list[str]:
    """Return the spaces of a data set that can be searched: first those that vary the same keys."""
    from dmltune.cli.spaces import tree_of
    from dmltune.experiment import spaces

    found: list[tuple[int, int, str]] = []
    for space in spaces():
        tree = tree_of(space.path) if space.searchable else {}
        if isinstance(own := tree.get("data"), dict) and own.get("name") == data:
            varied = set(tree["search"])
            found.append((-len(keys & varied), len(varied - keys), space.name))
    return [name for _, _, name in sorted(found)]

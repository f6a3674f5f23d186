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
MOST_TRIED = 3  # of the same images, and of those that are always here


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
    from dmltune.resources import Locations
    from dmltune.store import Store
    from dmltune.train.build import validate_experiment

    locations = Locations(Store.at(args.store), args.data_root)
    nearest = nearest_spaces(wanted)
    same = [each for each in nearest if each[1].data.name == wanted.data.name]
    others = [each for each in nearest if each not in same]
    for name, experiment in [*same[:MOST_TRIED], *others[:MOST_TRIED]]:
        try:
            # without the packed images: they are made when the command runs
            validate_experiment(experiment, locations, args.workers or 1, cache="none")
        except UserError:
            continue
        return name
    return None


def nearest_spaces(wanted: Experiment) -> list[tuple[str, Experiment]]:
    """Return spaces of the same images, then of those that are always here, by the keys they search."""
    from dmltune.experiment import load_experiment, spaces

    found: list[tuple[tuple[bool, int, int, str], Experiment]] = []
    keys = set(wanted.search)
    for space in spaces():
        try:
            experiment = load_experiment(space.name)
        except UserError:
            continue
        same = experiment.data.name == wanted.data.name
        if experiment.searchable and (same or experiment.data.name == ALWAYS_HERE):
            own = set(experiment.search)
            distance = (not same, -len(keys & own), len(own - keys), space.name)
            found.append((distance, experiment))
    return [(distance[-1], experiment) for distance, experiment in sorted(found, key=lambda each: each[0])]

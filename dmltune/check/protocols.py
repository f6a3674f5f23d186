"""The protocol of a check, and the patience that the thesis trains with under it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dmltune.check.configurations import Configuration
from dmltune.data import splits
from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.train.build import training_images

FAIR, TUNING = "fair", "tuning"
# protocol → steps between two validations → validations without improvement (thesis §3.3.2.1 and §5.3.4.1)
PATIENCE = {
    "fair": {25: 60, 250: 60, 100: 15, 1000: 10},
    "ablation": {25: 40, 250: 40},
    "tuning": {100: 10, 1000: 7},
    "conventional": {25: 15, 250: 10},
}


def reads_test_classes(protocol: str) -> bool:
    """Return whether a check under this protocol measures on the test classes.

    Tuning compares settings on validation classes; its figures are those of the validation.
    """
    return protocol != TUNING


def protocol_for(experiment: Experiment, data_root: str | None) -> tuple[str, str]:
    """Return `fair`, or the largest possible protocol with a sentence about the reason."""
    fair = experiment.fixed().with_values({"objective.protocol": FAIR, "fold": 0})
    train = training_images(fair, data_root)
    if only := getattr(train, "protocol", ""):
        return str(only), f"{train.name} has classes for protocol {only} alone, so that is checked"
    classes = train.num_classes
    possible = {
        name: parts
        for name, parts in splits.PARTITIONS.items()
        if 2 * parts <= classes and parts <= splits.PARTITIONS[FAIR]
    }
    if not possible:
        raise UserError(
            f"a check needs {splits.FEWEST} classes to train on; {train.name} has {classes}. Add classes."
        )
    best = max(possible, key=possible.__getitem__)
    needed = 2 * splits.PARTITIONS[FAIR]
    note = f"{classes} training classes are too few for protocol fair ({needed}): {best} is used"
    return best, "" if best == FAIR else note


def with_patience_of(
    protocol: str, configurations: Sequence[Configuration]
) -> tuple[list[Configuration], str]:
    """Return the configurations with the protocol's patience, and a note when one has changed.

    Only the patience that is its own protocol's (40 of an ablation every 25 steps) gives way: another one was
    chosen on purpose.
    """
    changed, notes = [], []
    for each in configurations:
        experiment = each.experiment
        every, patience = experiment.validate_every, experiment.patience
        own = PATIENCE.get(experiment.objective.protocol, {}).get(every)
        new = PATIENCE.get(protocol, {}).get(every)
        if patience is None or patience != own or new in (None, own):
            changed.append(each)
            continue
        changed.append(replace(each, experiment=experiment.with_values({"patience": new})))
        notes.append(
            f"patience {patience} → {new}: protocol {protocol}, a validation every {every} steps; "
            f"patience={patience} keeps it"
        )
    return changed, "; ".join(dict.fromkeys(notes))

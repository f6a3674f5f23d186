"""What a caller requests of a check, and the plan that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from dmltune import tags
from dmltune.check.configurations import Configuration, validate_configurations
from dmltune.check.finished_search import FinishedSearch
from dmltune.check.plan import FOLD_SEEDS, CheckPlan
from dmltune.data import splits
from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.ledger import Kind
from dmltune.resources import Locations
from dmltune.store import Store
from dmltune.tracking import Tracker
from dmltune.train.build import training_images

ROLE: tags.Role = "check"
REPEATS = 3
FAIR = "fair"
CHOSEN_ON_TEST = "conventional protocol: the search chose its winner on the test classes"


@dataclass(frozen=True)
class CheckRequest:
    """The configurations to compare with `baseline` (a key), under folds × repeats.

    None for `folds` and `repeats` means all folds and 3 repeats. The test ledger gets `study` (by default the
    `name`), `why` and `kind`.
    """

    name: str
    configurations: tuple[Configuration, ...]
    baseline: str | None
    space_name: str
    why: str
    study: str = ""
    kind: Kind = "check"
    folds: int | None = None
    repeats: int | None = None
    search: FinishedSearch | None = None  # whose winner is checked
    baseline_search: str = ""  # the name of the baseline's own search

    @property
    def warning(self) -> str:
        conventional = self.search is not None and self.search.protocol == splits.CONVENTIONAL
        return CHOSEN_ON_TEST if conventional else ""

    def extend(self, previous: CheckPlan | None, protocol: str) -> CheckPlan:
        """Return the plan of this request, on top of the `previous` one of its name."""
        most = splits.folds(protocol)
        if self.folds is not None and not 1 <= self.folds <= most:
            raise UserError(f"--folds must be 1 to {most} under protocol {protocol}; got {self.folds}")
        if self.repeats is not None and not 1 <= self.repeats < FOLD_SEEDS:
            raise UserError(f"--repeats must be 1 to {FOLD_SEEDS - 1}; got {self.repeats}")
        if previous is None:
            folds, repeats = self.folds or most, self.repeats or REPEATS
            return CheckPlan(protocol, folds, repeats, self.baseline, self.configurations)
        if previous.protocol != protocol:
            raise UserError(
                f"check '{self.name}' has protocol {previous.protocol}, and now it would be {protocol}. "
                "Choose another --name."
            )
        plan = previous.extended(self.name, self.configurations, self.folds or 1, self.repeats or 1)
        digests = {each.key: each.digest for each in self.configurations}
        key = plan.key_of(digests.get(self.baseline or ""))
        if previous.baseline and key and key != previous.baseline:
            raise UserError(
                f"check '{self.name}' compares with {previous.baseline}, and now it would be {key}. "
                "Choose another --name."
            )
        return replace(plan, baseline=previous.baseline or key)


@dataclass(frozen=True)
class PreparedCheck:
    """A validated request with its plan; `note` is about the protocol."""

    request: CheckRequest
    plan: CheckPlan
    note: str
    new: bool

    @property
    def name(self) -> str:
        return self.request.name

    @property
    def search(self) -> FinishedSearch:
        """The search that is checked. The checks of a paper's table have none."""
        assert self.request.search is not None
        return self.request.search


def prepare_check(request: CheckRequest, locations: Locations) -> PreparedCheck:
    """Validate the request against what exists under its name. Nothing is written or trained."""
    validate_configurations(request.configurations, request.baseline)
    previous = CheckPlan.read(locations.store.search_folder(request.name))
    if previous is not None:
        return PreparedCheck(request, request.extend(previous, previous.protocol), "", new=False)
    _require_unused_name(locations.store, request.name)
    protocol, note = protocol_for(request.configurations[0].experiment, locations.data_root)
    return PreparedCheck(request, request.extend(None, protocol), note, new=True)


def protocol_for(experiment: Experiment, data_root: Path | None) -> tuple[str, str]:
    """Return `fair`, or the largest possible protocol with a sentence about the reason."""
    root = str(Path(data_root).absolute()) if data_root else None
    train = training_images(experiment.fixed().with_values({"objective.protocol": FAIR, "fold": 0}), root)
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


def _require_unused_name(store: Store, name: str) -> None:
    """Raise a UserError for the name of a search or training: it has its own folder and runs."""
    run = Tracker(store).find(name)
    role = run.data.tags.get(tags.ROLE, "run") if run else ROLE
    if role != ROLE:
        raise UserError(f"'{name}' is the name of a {role}; choose another --name for the check.")

"""`dmltune.check`: the winner of a search, the paper's point and the baseline, on classes nobody has seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dmltune.check.baseline_search import tuned_baseline
from dmltune.check.configurations import BASELINE, Configuration, changed, key_of, of_search
from dmltune.check.finished_search import FinishedSearch, load_finished_search
from dmltune.check.plan import CheckPlan, planned, protocol_for
from dmltune.check.session import CheckResult, check_configurations
from dmltune.data.splits import CONVENTIONAL
from dmltune.errors import UserError
from dmltune.search.state import Watch
from dmltune.store import Store, validated_name
from dmltune.tracking import Tracker
from dmltune.train.build import training_images

CHOSEN_ON_TEST = "conventional protocol: the search chose its winner on the test classes"


@dataclass(frozen=True)
class PreparedCheck:
    """What a check of this search is about, before anything is trained."""

    name: str
    search: FinishedSearch
    configurations: list[Configuration]
    baseline: str | None
    plan: CheckPlan
    note: str  # about the protocol

    @property
    def extra(self) -> dict[str, Any]:
        """What the document says beyond the figures."""
        return {"warning": CHOSEN_ON_TEST} if self.search.protocol == CONVENTIONAL else {}


def check(
    search: str,
    *,
    top: int = 1,
    repeats: int | None = None,
    folds: int | None = None,
    fair_baseline: bool = False,
    name: str | None = None,
    overrides: Sequence[str] = (),
    workers: int = 1,
    concurrent: int | None = None,
    address: str | None = None,
    store: Store | None = None,
    data_root: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
    watch: Watch | None = None,
) -> CheckResult:
    """The winner (or the `top` best), the reference point and the baseline: folds × repeats models each (3
    repeats of all folds, unless said), measured on the test classes and compared.

    The same `name` (SEARCH-check) goes on where it stopped. With `fair_baseline` the baseline first gets a
    search of its own, as long as the one that is checked; `watch` hears of it. Every opening of the test
    classes is written into the store's test ledger.
    """
    store = store or Store.at()
    tuned = None
    if fair_baseline:
        found = load_finished_search(search, Tracker(store))
        tuned = tuned_baseline(
            found, workers=workers, concurrent=concurrent, address=address, store=store,
            data_root=data_root, say=say, watch=watch,
        )  # fmt: skip
        if tuned is None:
            own = name_of(search, name)
            document = {"name": own, "search": search, "stopped": True, "failed": {}, "configurations": []}
            return CheckResult(document, store.search_folder(own), stopped=True)
    ready = prepare(
        search, top=top, repeats=repeats, folds=folds, name=name, overrides=overrides, store=store,
        data_root=data_root, tuned=tuned,
    )  # fmt: skip
    return check_configurations(
        ready.name,
        ready.configurations,
        ready.baseline,
        space_name=ready.search.space_name,
        repeats=repeats,
        folds=folds,
        store=store,
        data_root=data_root,
        address=address,
        workers=workers,
        concurrent=concurrent,
        say=say,
        why=f"check of search {search}",
        study=search,
        search=ready.search,
        extra=ready.extra | ({"baseline_search": f"{search}-baseline"} if tuned else {}),
    )


def prepare(
    search: str,
    *,
    top: int = 1,
    repeats: int | None = None,
    folds: int | None = None,
    name: str | None = None,
    overrides: Sequence[str] = (),
    store: Store,
    data_root: Path | None = None,
    tuned: Configuration | None = None,
) -> PreparedCheck:
    """Everything that can be said, and be wrong, before Ray starts. `tuned` stands in for the baseline."""
    found = load_finished_search(search, Tracker(store))
    name = name_of(search, name)
    configurations = changed(of_search(found, top, tuned), overrides)
    baseline = key_of(configurations, BASELINE)
    before = CheckPlan.read(store.search_folder(name))
    if before is None:
        _check_data(found, data_root)
        protocol, note = protocol_for(configurations[0].experiment, data_root)
    else:
        protocol, note = before.protocol, ""
    plan = planned(name, before, configurations, baseline, protocol, folds, repeats)
    return PreparedCheck(name, found, configurations, baseline, plan, note)


def name_of(search: str, name: str | None) -> str:
    return validated_name(name or f"{search}-check")


def _check_data(found: FinishedSearch, data_root: Path | None) -> None:
    """The winner is that of the data the search saw."""
    root = str(Path(data_root).absolute()) if data_root else None
    now = training_images(found.experiment.reference_experiment(), root).fingerprint
    if now != found.fingerprint:
        raise UserError(
            f"search '{found.name}' saw other data: fingerprint {found.fingerprint} → {now}. "
            "Give the --data-root of the search, or search again."
        )

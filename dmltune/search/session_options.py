"""The options of the last session of a search, stored in its study: `dmltune resume` starts with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from dmltune.resources import Locations, Resources
from dmltune.search.study import Study

OPTIONS = "options"  # the study attribute


@dataclass(frozen=True)
class SessionOptions:
    """What a session was started with beside its experiment.

    `data_root` is absolute; None stands for $DMLTUNE_DATA.
    """

    trials: int | None = None
    time: float | None = None
    cost: float | None = None
    workers: int = 1
    concurrent: int | None = None
    isolation: Literal["slot", "trial"] = "slot"
    data_root: str | None = None
    address: str | None = None
    cpus_per_worker: float | None = None
    gpus_per_worker: float | None = None
    memory_per_worker: str | None = None
    resource_per_worker: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        trials: int | None,
        time: float | None,
        cost: float | None,
        resources: Resources,
        locations: Locations,
    ) -> SessionOptions:
        needs = resources.per_worker
        return cls(
            trials,
            time,
            cost,
            resources.workers,
            resources.concurrent,
            resources.isolation,
            locations.absolute_root,
            resources.address,
            needs.cpus,
            needs.gpus,
            None if needs.memory is None else str(needs.memory),
            [f"{name}={amount:g}" for name, amount in needs.custom.items()],
        )

    def store(self, study: Study) -> None:
        study.set_attribute(OPTIONS, asdict(self))

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> SessionOptions:
        """Return the options of a study. Those of other versions that are unknown here are passed over."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in tree.items() if key in known})

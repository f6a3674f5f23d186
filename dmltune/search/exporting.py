"""The configuration of a trial as YAML for `dmltune train`."""

from __future__ import annotations

from typing import Any

from dmltune.errors import printable
from dmltune.experiment import Experiment
from dmltune.experiment.files.flow import flow
from dmltune.report.formatting import metric_name, percent
from dmltune.search.state import TrialRecord
from dmltune.search.stored import StoredSearch

# what a search alone reads
LEFT_OUT = (
    *("search", "require", "balanced", "reference_point", "baseline", "presets", "sampler"),
    *("scheduler", "trials", "noise_seeds", "repeat_share", "stop_at_noise", "fidelity", "about"),
)


def training_tree(experiment: Experiment) -> dict[str, Any]:
    """Return what a training needs of the experiment, without what only searches read."""
    tree = {key: value for key, value in experiment.to_dict().items() if key not in LEFT_OUT}
    return {key: value for key, value in tree.items() if value is not None}


def yaml_of(tree: dict[str, Any], search: StoredSearch, record: TrialRecord) -> str:
    score = f"{metric_name(search.metric)} {percent(record.best)} % ({record.state})"
    lines = [f"# Trial {record.number} of the search {search.name}, space {search.space_name}: {score}"]
    lines = [printable(line.replace("\n", " ")) for line in lines]
    return "\n".join([*lines, *(f"{key}: {flow(value)}" for key, value in tree.items())]) + "\n"

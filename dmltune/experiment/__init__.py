"""What a training run is and what a search may vary in it: YAML ↔ Experiment, every check before Ray."""

from dmltune.experiment.files.places import SpaceInfo, spaces
from dmltune.experiment.job import Job, load_job
from dmltune.experiment.loading import load_experiment
from dmltune.experiment.schema.model import Experiment
from dmltune.experiment.space.parameter import Parameter
from dmltune.experiment.space.search_space import SearchSpace

__all__ = [
    "Experiment",
    "Job",
    "Parameter",
    "SearchSpace",
    "SpaceInfo",
    "load_experiment",
    "load_job",
    "spaces",
]

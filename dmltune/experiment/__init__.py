"""What a training run is and what a search may vary in it: YAML ↔ Experiment, validated before Ray starts.

Imports point one way:
problems, tree   messages about broken rules; nested values and how layers are laid over one another
files/           read YAML with line numbers; find named files and follow `extends`
schema/          the typed sections, parameters of components by their signatures, rules between keys
space/           one varying key, the language of `require`, the search space
model, validation   a tree → an Experiment, and the validation of its whole space
loading, job     load_experiment, spaces, load_job: files and overrides, errors with file and line
"""

from dmltune.experiment.job import Job, load_job
from dmltune.experiment.loading import SpaceInfo, load_experiment, spaces
from dmltune.experiment.model import Experiment
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

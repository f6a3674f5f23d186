"""`dmltune.evaluate`: how well one embedder retrieves, clusters and verifies."""

from dmltune.evaluation.api import evaluate
from dmltune.evaluation.comparison import compare

__all__ = ["compare", "evaluate"]

"""`dmltune.evaluate`: how well one embedder retrieves, clusters and verifies."""

from dmltune.evaluation.api import evaluate

__all__ = ["evaluate"]

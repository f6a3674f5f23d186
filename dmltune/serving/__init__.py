"""The trained model in use: embed images, search an index, export, serve. No Ray and no MLflow is needed."""

from dmltune.serving.model import LoadedModel, load

__all__ = ["LoadedModel", "load"]

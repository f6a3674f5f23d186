"""What MLflow's own tools need to load a stored embedder: the file MLmodel and its neighbours.

The flavour is `python_function` with a loader module of this package, so nothing is pickled: a model is
safetensors and JSON, read by the code that is installed. `mlflow models serve` and `predict` call it.
"""

from __future__ import annotations

import base64
import io
import json
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

LOADER = "dmltune.pyfunc"
COLUMN = "image"
REQUIREMENTS, PYTHON, EXAMPLE, SERVED = (
    *("requirements.txt", "python_env.yaml", "input_example.json"),
    "serving_input_example.json",
)


def write_flavor(
    folder: Path, model_id: str, run_id: str, embedding_size: int, about: dict[str, Any]
) -> None:
    """Write MLmodel, requirements and an input example into `folder`, beside the weights."""
    import numpy as np
    from mlflow import pyfunc
    from mlflow.models import Model
    from mlflow.models.signature import ModelSignature
    from mlflow.types import ColSpec, Schema, TensorSpec
    from mlflow.types.schema import AnyType

    anything: Any = AnyType  # a file or an array
    anything = anything()
    signature = ModelSignature(
        inputs=Schema([ColSpec(anything, COLUMN)]),
        outputs=Schema([TensorSpec(np.dtype(np.float32), (-1, embedding_size))]),
    )
    model = Model(run_id=run_id, model_id=model_id, signature=signature, metadata=about)
    model.saved_input_example_info = {
        "artifact_path": EXAMPLE,
        "type": "dataframe",
        "pandas_orient": "split",
        "serving_input_path": SERVED,
    }
    pyfunc.add_to_model(model, loader_module=LOADER, python_env=PYTHON)
    model.save(str(folder / "MLmodel"))
    table = {"columns": [COLUMN], "data": [[_example()]]}
    (folder / EXAMPLE).write_text(json.dumps(table))
    (folder / SERVED).write_text(json.dumps({"dataframe_split": table}))
    (folder / REQUIREMENTS).write_text(
        f"dmltune=={metadata.version('dmltune')}\nmlflow=={metadata.version('mlflow')}\n"
    )
    (folder / PYTHON).write_text(
        f"python: {pyfunc.PYTHON_VERSION}\nbuild_dependencies:\n- pip\ndependencies:\n- -r {REQUIREMENTS}\n"
    )


@lru_cache(maxsize=1)
def _example() -> str:
    """Return a small picture, a colour gradient, as base64 of a PNG file."""
    import numpy as np
    from PIL import Image

    ramp = np.linspace(0, 255, 64).astype(np.uint8)
    pixels = np.stack([*np.meshgrid(ramp, ramp), np.full((64, 64), 128, np.uint8)], axis=2)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode()

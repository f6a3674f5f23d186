"""What MLflow's own tools need to load a stored embedder: the file MLmodel and its neighbours.

The flavour is `python_function` with a loader module of this package, so nothing is pickled: a model is
safetensors and JSON, read by the code that is installed. `mlflow models serve` and `predict` call it.
"""

from __future__ import annotations

import base64
import io
import json
import platform
import uuid
from datetime import UTC, datetime
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

LOADER = "dmltune.pyfunc"
COLUMN = "image"
REQUIREMENTS, PYTHON, EXAMPLE, SERVED = (
    *("requirements.txt", "python_env.yaml", "input_example.json"),
    "serving_input_example.json",
)


def write_flavor(
    folder: Path, model_id: str, run_id: str, embedding_size: int, about: dict[str, Any]
) -> None:
    """Write MLmodel, requirements and an input example into `folder`, beside the weights.

    MLflow's own writer of MLmodel would import its whole scoring stack into the driver, for seconds.
    """
    python, mlflow = platform.python_version(), metadata.version("mlflow")
    outputs = [{"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, embedding_size]}}]
    tree = {
        "flavors": {
            "python_function": {
                "env": {"virtualenv": PYTHON},
                "loader_module": LOADER,
                "python_version": python,
            }
        },
        "metadata": about,
        "mlflow_version": mlflow,
        "model_id": model_id,
        "model_uuid": uuid.uuid4().hex,
        "run_id": run_id,
        "saved_input_example_info": {
            "artifact_path": EXAMPLE,
            "type": "dataframe",
            "pandas_orient": "split",
            "serving_input_path": SERVED,
        },
        # of any type: a file as base64 text, or an array
        "signature": {
            "inputs": json.dumps([{"type": "any", "name": COLUMN, "required": True}]),
            "outputs": json.dumps(outputs),
            "params": None,
        },
        "utc_time_created": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f"),
    }
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.dump(tree, folder / "MLmodel")
    table = {"columns": [COLUMN], "data": [[_example()]]}
    (folder / EXAMPLE).write_text(json.dumps(table))
    (folder / SERVED).write_text(json.dumps({"dataframe_split": table}))
    (folder / REQUIREMENTS).write_text(f"dmltune=={metadata.version('dmltune')}\nmlflow=={mlflow}\n")
    (folder / PYTHON).write_text(
        f"python: {python}\nbuild_dependencies:\n- pip\ndependencies:\n- -r {REQUIREMENTS}\n"
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

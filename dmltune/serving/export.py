"""A model for other runtimes: ONNX, TorchScript or safetensors, checked against torch before it is written.

B images of S × S pixels. Inputs are uint8 (B, 3, S, S) with any B; a JSON file beside the model says how an
image becomes one. Outputs are float32 (B, D).
"""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dmltune.core import checkpoint
from dmltune.core.embedder import Embedder
from dmltune.errors import UserError
from dmltune.serving.model import LoadedModel, preparation
from dmltune.serving.outputs import write_file
from dmltune.train.inference import read_embedder

FORMATS = {"onnx": (".onnx",), "torchscript": (".pt", ".ts"), "safetensors": (".safetensors",)}
LARGEST_DIFFERENCE = 1e-4
BATCHES = (1, 5)  # the sizes that are compared
_TIMED_SECONDS, _TIMES, _WARM = 2.0, 40, 3
Embed = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class ExportedModel:
    """The files, the largest difference to torch in a coordinate, and milliseconds of one image."""

    file: Path
    description: Path
    format: str
    difference: float
    torch_ms: float
    exported_ms: float


def export(model: LoadedModel, file: Path, form: str) -> ExportedModel:
    """Write the model and its description; a UserError when it differs from torch by more than 1e-4."""
    embedder = copy.deepcopy(model.embedder).cpu().eval()
    write, read = _EXPORTERS[form]
    results: dict[str, float] = {}

    def checked(path: Path) -> None:
        with _quiet():
            try:
                write(model, embedder, path)
                exported = read(path)
            except UserError:
                raise
            except Exception as error:
                reason = " ".join(str(error).split())[:200] or type(error).__name__
                raise UserError(
                    f"this model cannot be exported as {form} ({type(error).__name__}: {reason}). "
                    "Choose another --format."
                ) from error
        results["difference"] = difference(model, embedder, exported)
        if not results["difference"] <= LARGEST_DIFFERENCE:
            raise UserError(
                f"the {form} model must agree with torch to {LARGEST_DIFFERENCE:g}; it differs by "
                f"{results['difference']:.2g}, and was not written. Choose another --format."
            )
        one = examples(model, 1)
        results["torch"], results["exported"] = latencies((embedder, exported), one)

    write_file(file, checked)
    description = file.with_name(f"{file.name}.json")
    checkpoint.replace_file(description, (json.dumps(describe(model, file), indent=2) + "\n").encode())
    return ExportedModel(
        file, description, form, results["difference"], results["torch"], results["exported"]
    )


def describe(model: LoadedModel, file: Path) -> dict[str, Any]:
    """Return what a program needs to use the file: input, output, and how an image becomes an input."""
    about, side = model.description, model.description.image_size
    return {
        "model": model.name,
        "fingerprint": model.fingerprint,
        "file": file.name,
        "input": {"name": "images", "dtype": "uint8", "shape": ["batch", 3, side, side], "order": "RGB"},
        "output": {"name": "embeddings", "dtype": "float32", "shape": ["batch", model.dim]},
        "preprocessing": preparation(about),
        "steps": [
            *(["turn the image upright by its EXIF orientation"] if about.exif_rotation else []),
            "convert it to RGB" + (", transparency on white" if about.exif_rotation else ""),
            f"shrink its shorter side to {int(np.ceil(side * about.crop_margin))} pixels, bicubic; "
            "a smaller image stays as it is",
            f"take the centre square of 1/{about.crop_margin:.6g} of the shorter side",
            f"resize the square to {side} × {side} pixels, bilinear with antialiasing",
            "pass it as uint8; the model itself divides by 255 and standardises with mean and std",
        ],
        "similarity": "1 - squared Euclidean distance / 2",
    }


def examples(model: LoadedModel, count: int, seed: int = 0) -> Tensor:
    """Return random inputs: smooth pictures and noise."""
    side, generator = model.description.image_size, torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 3, 4, 4, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (side, side), mode="bilinear")
    noise = torch.rand(count, 3, side, side, generator=generator)
    return ((0.8 * smooth + 0.2 * noise) * 255).round().to(torch.uint8)


@torch.inference_mode()
def difference(model: LoadedModel, embedder: Embedder, exported: Embed) -> float:
    """Return the largest difference of a coordinate, over batches of several sizes."""
    worst = 0.0
    for count in BATCHES:
        images = examples(model, count, count)
        gap = (exported(images.clone()) - embedder(images)).abs().amax()
        worst = max(worst, float(gap) if bool(gap.isfinite()) else float("inf"))
    return worst


@torch.inference_mode()
def latencies(embeds: Sequence[Embed], images: Tensor) -> list[float]:
    """Return the milliseconds of the quickest call of each, which take turns.

    What else runs on the machine only makes a call slower, and a call of many threads a hundred times.
    """
    times: list[list[float]] = [[] for _ in embeds]
    until = time.perf_counter() + _TIMED_SECONDS
    while len(times[0]) < _WARM + _TIMES and (len(times[0]) < 2 * _WARM or time.perf_counter() < until):
        for embed, own in zip(embeds, times, strict=True):
            began = time.perf_counter()
            embed(images)
            own.append(time.perf_counter() - began)
    return [1000 * min(own[_WARM:]) for own in times]


def constant_flags(embedder: Embedder) -> Embedder:
    """Turn buffers that are a single truth value into constants of Python: a graph cannot branch on them."""
    for module in embedder.modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            if buffer.dtype == torch.bool and buffer.dim() == 0:
                delattr(module, name)
                setattr(module, name, bool(buffer))
    return embedder


def _write_onnx(model: LoadedModel, embedder: Embedder, path: Path) -> None:
    require_onnx()
    program = torch.onnx.export(
        constant_flags(copy.deepcopy(embedder)),
        (examples(model, 2),),
        dynamo=True,
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        input_names=["images"],
        output_names=["embeddings"],
        verbose=False,
    )
    assert program is not None
    program.save(path, external_data=False)


def _read_onnx(path: Path) -> Embed:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda images: torch.from_numpy(session.run(None, {"images": images.numpy()})[0])


def _write_torchscript(model: LoadedModel, embedder: Embedder, path: Path) -> None:
    with torch.no_grad():
        traced = torch.jit.trace(  # type: ignore[no-untyped-call]
            constant_flags(copy.deepcopy(embedder)), (examples(model, 2),), check_trace=False
        )
    torch.jit.save(traced, path)


def _read_torchscript(path: Path) -> Embed:
    embed: Embed = torch.jit.load(path).eval()  # type: ignore[no-untyped-call]
    return embed


def _write_safetensors(model: LoadedModel, embedder: Embedder, path: Path) -> None:
    checkpoint.write(path, embedder.state_dict(), model.description.to_dict())


def _read_safetensors(path: Path) -> Embed:
    return read_embedder(path)[0].eval()


_EXPORTERS: dict[str, tuple[Callable[[LoadedModel, Embedder, Path], None], Callable[[Path], Embed]]] = {
    "onnx": (_write_onnx, _read_onnx),
    "torchscript": (_write_torchscript, _read_torchscript),
    "safetensors": (_write_safetensors, _read_safetensors),
}


def require_onnx() -> None:
    """Raise a UserError unless what exports and runs ONNX is installed."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"--format onnx needs {error.name}, which is not installed. pip install 'dmltune[export]'"
        ) from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Leave out the exporters' progress and warnings: what counts is whether the result agrees."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    with warnings.catch_warnings(), open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logger.setLevel(level)

"""Checkpoints and stored models: safetensors with JSON in the header, never pickle.

Each is one file, replaced atomically. Its header holds `format`, the number of the layout, and `sha256`, the
checksum of the whole file with 64 zeros in place of the checksum. Format 1 had neither and is still read.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import safetensors
import safetensors.torch
from annotated_types import Ge, Gt
from torch import Tensor, nn

from dmltune.errors import UserError, parse_json

CHECKPOINT = "checkpoint.safetensors"
MODEL = "model.safetensors"
DESCRIPTION = "model.json"
FORMAT = 2
_META, _FORMAT, _DIGEST = "meta", "format", "sha256"
_REMEDY = {MODEL: "evaluate another run or train again"}
_CHUNK = 1 << 20

Json = dict[str, Any]
Channels = tuple[float, float, float]
PositiveChannels = tuple[Annotated[float, Gt(0)], Annotated[float, Gt(0)], Annotated[float, Gt(0)]]


@dataclass(frozen=True)
class ModelDescription:
    """Everything that inference needs besides the weights, and the origin of the model.

    resize: `shorter_side` shrinks the shorter side to ⌈image_size · crop_margin⌉ pixels (bicubic; smaller
    images stay as they are), then takes the centre square of 1/crop_margin of the shorter side at
    image_size × image_size pixels (bilinear, one resampling). Pixels in [0, 1] are standardised with `mean`
    and `std`. data: fingerprint of the training images.
    """

    experiment: Json
    data: str
    step: Annotated[int, Ge(0)]
    validation: dict[str, float]
    image_size: Annotated[int, Ge(1)]
    crop_margin: Annotated[float, Ge(1)]
    exif_rotation: bool
    mean: Channels
    std: PositiveChannels
    normalise: Literal["l2", "lip"]
    embedding_size: Annotated[int, Ge(1)]
    resize: Literal["shorter_side"] = "shorter_side"

    @staticmethod
    def from_dict(tree: Json) -> ModelDescription:
        """Return the description that `to_dict` gave; a ValueError of one line when a value is not valid."""
        import pydantic

        try:
            adapter = pydantic.TypeAdapter(ModelDescription)
            return adapter.validate_json(json.dumps(tree), strict=True)
        except pydantic.ValidationError as problem:
            first = problem.errors(include_url=False, include_input=False)[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    def to_dict(self) -> Json:
        """Return the JSON-able form, with the number of its format."""
        return {_FORMAT: FORMAT, **asdict(self)}


def save(folder: Path, tensors: dict[str, Tensor], meta: Json) -> None:
    """Write tensors and JSON-able `meta` into `folder`, in place of the checkpoint in it."""
    replace_file(folder / CHECKPOINT, *_packed(tensors, meta))


def load(folder: Path) -> tuple[dict[str, Tensor], Json]:
    """Return (tensors on the CPU, meta) as `save` got them; a UserError if missing or damaged."""
    tensors, meta, _ = _read(folder / CHECKPOINT)
    return tensors, meta


def write(path: Path, tensors: dict[str, Tensor], meta: Json) -> None:
    """Write a file of another kind in the same form: atomically, with a checksum."""
    replace_file(path, *_packed(tensors, meta))


def read(path: Path) -> tuple[dict[str, Tensor], Json]:
    """Return (tensors, meta) of a file that `write` made; a UserError if it is missing or damaged."""
    tensors, meta, _ = _read(path)
    return tensors, meta


def save_model(folder: Path, embedder_state: dict[str, Tensor], description: ModelDescription) -> None:
    """Write an embedder to serve or evaluate; `model.json` repeats its description for people."""
    tree = description.to_dict()
    parts = _packed(embedder_state, tree)
    readable = json.dumps({**tree, _DIGEST: _digest(*parts)}, indent=2) + "\n"
    replace_file(folder / DESCRIPTION, readable.encode())
    replace_file(folder / MODEL, *parts)


def load_model(
    folder: Path, complete: Callable[[Json], Json] | None = None
) -> tuple[dict[str, Tensor], ModelDescription]:
    """Return (embedder state, description); a UserError if the file is missing, damaged or newer.

    `folder` may be the file itself, under any name that ends with `.safetensors`. `complete` gets a
    description of format 1 and returns the values of the keys that it lacks.
    """
    path = model_file(folder)
    tensors, tree, number = _read(path)
    with reading(path):
        if number == 1 and complete is not None:
            tree = {**complete(tree), **tree}
        description = ModelDescription.from_dict(tree)
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not tensor.isfinite().all():
                raise ValueError(f"{name} is not finite")
    return tensors, description


def model_file(place: Path) -> Path:
    """Return the file of the model: `place` itself when it is a .safetensors file, else the one in it."""
    return place if place.suffix == ".safetensors" and not place.is_dir() else place / MODEL


def load_weights(module: nn.Module, state: dict[str, Tensor], path: Path) -> None:
    """Load `state`, read from `path`, into the module; a UserError unless all names and shapes agree."""
    own = module.state_dict()
    with reading(path):
        for name in sorted(own.keys() | state.keys()):
            if name not in state or name not in own:
                raise ValueError(f"{name} is {'missing' if name in own else 'not part of this network'}")
            if own[name].shape != state[name].shape:
                shapes = f"{tuple(state[name].shape)}, the network needs {tuple(own[name].shape)}"
                raise ValueError(f"{name} has the shape {shapes}")
        module.load_state_dict(state)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn any error of a damaged or unsuitable file into one line that names it and the remedy."""
    kind, remedy = path.name.partition(".")[0], _REMEDY.get(path.name, "remove it to start again")
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"no {kind} at {path}; look in the folder of another trial or start again") from None
    except UserError as problem:
        if str(path) in str(problem):
            raise
        raise UserError(f"{kind} {path}: {problem}") from None
    except (
        *(safetensors.SafetensorError, OSError, LookupError, TypeError, ValueError),
        *(AttributeError, RuntimeError),
    ) as problem:
        reason = f"key {problem} is missing" if isinstance(problem, KeyError) else str(problem)
        short = textwrap.shorten(reason, 200, placeholder=" …") or type(problem).__name__
        raise UserError(f"{kind} {path} is damaged ({short}); {remedy}") from None


def replace_file(path: Path, *parts: bytes | memoryview) -> None:
    """Write a file of these parts; a kill at any moment leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left_over in path.parent.glob(f".{path.name}.*"):  # of a process that was killed here
        left_over.unlink(missing_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return contiguous CPU tensors that share no storage, which safetensors requires."""
    seen: set[int] = set()
    plain = {}
    for name, tensor in tensors.items():
        value = tensor.detach().cpu().contiguous()
        if value.numel() and value.untyped_storage().data_ptr() in seen:
            value = value.clone()
        seen.add(value.untyped_storage().data_ptr())
        plain[name] = value
    return plain


def _packed(tensors: dict[str, Tensor], meta: Json) -> tuple[bytes, memoryview]:
    """Return the two parts of a file: the header with the checksum, and the tensors."""
    header = {_META: json.dumps(meta), _FORMAT: str(FORMAT), _DIGEST: "0" * 64}
    content = safetensors.torch.save(_plain(tensors), header)
    start = 8 + int.from_bytes(content[:8], "little")
    head, body = content[:start], memoryview(content)[start:]
    return head.replace(_entry("0" * 64), _entry(_digest(head, body)), 1), body


def _entry(digest: str) -> bytes:
    """The checksum as it stands in the header; in `meta` its quotes would be escaped."""
    return f'"{_DIGEST}":"{digest}"'.encode()


def _digest(*parts: bytes | memoryview) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _require_intact(path: Path, digest: str) -> None:
    with path.open("rb") as file:
        length = file.read(8)
        header = file.read(int.from_bytes(length, "little"))
        actual = hashlib.sha256(length + header.replace(_entry(digest), _entry("0" * 64), 1))
        while chunk := file.read(_CHUNK):
            actual.update(chunk)
    if actual.hexdigest() != digest:
        raise ValueError("its checksum is wrong")


def _read(path: Path) -> tuple[dict[str, Tensor], Json, int]:
    """Return (tensors, meta, format)."""
    with reading(path):
        if not path.is_file():
            raise FileNotFoundError
        with safetensors.safe_open(path, framework="pt", device="cpu") as file:
            header = file.metadata() or {}
            first_format = header.keys() == {_META}
            number = 1 if first_format else int(header[_FORMAT])
            if number > FORMAT:
                raise UserError(f"{path} has format {number}; update dmltune, which reads up to {FORMAT}")
            if not first_format:
                _require_intact(path, header[_DIGEST])
            meta = parse_json(header[_META])
            if not isinstance(meta, dict):
                raise ValueError("its meta data are not a JSON object")
            names: list[str] = list(file.keys())
            return {name: file.get_tensor(name) for name in names}, meta, number

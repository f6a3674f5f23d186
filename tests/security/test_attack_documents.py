"""A document that attacks its reader: nothing in it runs, and no memory is taken that its header claims.

Each attack is first shown to work against a reader that unpickles.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import safetensors.numpy
import torch

from dmltune.core import checkpoint
from dmltune.core.backbones import _weights, from_timm
from dmltune.data.catalog import _own_tables
from dmltune.errors import UserError
from dmltune.serving.index import ImageIndex


class Attack:
    """Unpickled, it makes a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mknod, (str(self.file),)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """The file that an attack makes. The attack works: plain `pickle.loads` makes it."""
    file = tmp_path / "owned"
    pickle.loads(pickle.dumps(Attack(file)))
    assert file.exists()
    file.unlink()
    return file


def test_weights_are_read_without_running_what_is_in_them(tmp_path: Path, mark: Path) -> None:
    file = tmp_path / "weights.pth"
    for content in (Attack(mark), {"weight": Attack(mark)}, {"state_dict": {"weight": Attack(mark)}}):
        torch.save(content, file)
        with pytest.raises(UserError, match="cannot be read"):
            _weights.read(file)
        file.write_bytes(pickle.dumps(content, 2))
        with pytest.raises(UserError, match="cannot be read"):
            _weights.read(file)
    assert not mark.exists()


def test_weights_of_timm_are_read_without_running_what_is_in_them(tmp_path: Path, mark: Path) -> None:
    pytest.importorskip("timm")
    file = tmp_path / "weights.pth"
    torch.save({"state_dict": {"conv1.weight": Attack(mark)}}, file)
    backbone = from_timm.FromTimm(model="resnet10t")
    with pytest.raises(UserError, match="cannot be read"):
        backbone.load_named_weights("imagenet", file)
    assert not mark.exists()


def test_a_parquet_file_with_a_pickled_type_is_a_table_of_texts(tmp_path: Path, mark: Path) -> None:
    hostile = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Attack(mark)),
        b"pandas": pickle.dumps(Attack(mark)),
    }
    fields = [pyarrow.field(name, pyarrow.string(), metadata=hostile) for name in ("path", "label")]
    table = pyarrow.table(
        {"path": ["a.png"], "label": ["x"]}, schema=pyarrow.schema(fields, metadata=hostile)
    )
    file = tmp_path / "list.parquet"
    pyarrow.parquet.write_table(table, file)
    assert [row.path for row in _own_tables.rows(file)] == ["a.png"]
    assert not mark.exists()


def test_an_array_of_objects_in_the_cache_is_not_read(
    tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dmltune.data.catalog import glyphs

    np.save(tmp_path / "train.npy", np.array([Attack(mark)], dtype=object), allow_pickle=True)
    (tmp_path / "train.json").write_text(json.dumps({"sizes": [1]}))
    with pytest.raises(ValueError, match="Python objects"):
        glyphs._open(tmp_path, "train")
    assert not mark.exists()


HEADERS = {  # the header of a safetensors file, and its claimed length (None: the true one)
    "8 exabytes": (b"{}", 2**63 - 1),
    "all ones": (b"{}", 2**64 - 1),
    "99 megabytes": (b"{}", 99_000_000),
    "nothing": (b"", 0),
    "no JSON": (b"{" * 500, None),
    "deep": (b'{"__metadata__":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001, None),
    "a tensor past the end": (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', None),
    "a tensor of 2**64": (
        b'{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}',
        None,
    ),
    "a negative offset": (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}', None),
    "overlapping": (
        b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}',
        None,
    ),
    "twice": (
        b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}',
        None,
    ),
    "an unknown type": (b'{"a":{"dtype":"X99","shape":[0],"data_offsets":[0,0]}}', None),
    "a shape of NaN": (b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,0]}}', None),
    "metadata that is a list": (b'{"__metadata__":["meta"]}', None),
    "metadata of numbers": (b'{"__metadata__":{"meta":1}}', None),
    "a format of 9000 digits": (
        b'{"__metadata__":{"meta":"{}","sha256":"","format":"' + b"9" * 9000 + b'"}}',
        None,
    ),
    "a description that nests": (
        b'{"__metadata__":{"meta":"' + b"[" * 200_000 + b'"}}',
        None,
    ),
    "a description of NaN": (b'{"__metadata__":{"meta":"NaN"}}', None),
}


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("read", [checkpoint.load_model, checkpoint.load, ImageIndex.load])
def test_a_header_that_lies_is_one_line(tmp_path: Path, read: Callable[[Path], object], name: str) -> None:
    header, length = HEADERS[name]
    content = struct.pack("<Q", len(header) if length is None else length) + header
    for file in (checkpoint.MODEL, checkpoint.CHECKPOINT):
        (tmp_path / file).write_bytes(content)
    place = tmp_path / checkpoint.MODEL if read == ImageIndex.load else tmp_path
    with pytest.raises(UserError) as error:
        read(place)
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)


def description(**changes: Any) -> dict[str, Any]:
    from dmltune.experiment import load_experiment

    experiment = load_experiment("glyphs", ["backbone=resnet20", "embedding.dim=16", "data.size=16"]).fixed()
    return {
        "format": 1,
        "experiment": experiment.to_dict(),
        "data": "0",
        "step": 1,
        "validation": {},
        "image_size": 16,
        "crop_margin": 1.0,
        "exif_rotation": False,
        "mean": [0.0, 0.0, 0.0],
        "std": [1.0, 1.0, 1.0],
        "normalise": "l2",
        "embedding_size": 16,
        **changes,
    }


def test_a_model_that_claims_a_huge_network_is_refused_before_it_is_built(tmp_path: Path) -> None:
    from dmltune.train.inference import read_embedder

    good = description()
    for section, key, value in (("embedding", "dim", 2**31), ("pooling", "prototypes", 2**31)):
        experiment = json.loads(json.dumps(good["experiment"]))
        if section == "pooling":
            experiment["pooling"] = {"name": "gsp", "prototypes": value}
        else:
            experiment[section][key] = value
        tree = description(experiment=experiment, embedding_size=value if key == "dim" else 16)
        meta = {"meta": json.dumps(tree)}
        weights = {"weight": np.zeros((16, 64, 1, 1), np.float32)}
        safetensors.numpy.save_file(weights, tmp_path / checkpoint.MODEL, meta)
        with pytest.raises(UserError, match=r"damaged|needs 128 GiB|must be at most") as error:
            read_embedder(tmp_path)
        assert "\n" not in str(error.value)


def test_an_index_whose_structure_lies_is_one_line(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss")
    structure = faiss.IndexFlatL2(4)
    structure.add(np.zeros((3, 4), np.float32))
    whole = faiss.serialize_index(structure).tobytes()
    facts = {
        "model": "m",
        "store": "s",
        "fingerprint": "f",
        "kind": "exact",
        "images": 3,
        "dim": 4,
        "recall": 1.0,
        "k": 1,
        "queries": 1,
        "probes": 0,
    }
    files = np.frombuffer(json.dumps([["a", ""]] * 3).encode(), np.uint8)
    damaged = [whole[:cut] for cut in (0, 3, 4, 20, len(whole) - 1)]
    for place in range(0, len(whole), 2):
        damaged.append(whole[:place] + b"\xff" * 8 + whole[place + 8 :])
    for number, content in enumerate(damaged):
        tensors = {
            "faiss": torch.frombuffer(bytearray(content or b"\0"), dtype=torch.uint8),
            "files": torch.from_numpy(files.copy()),
        }
        file = tmp_path / f"{number}.index"
        checkpoint.write(file, tensors, {"file": "dmltune index", "version": 1, **facts})
        with contextlib.suppress(UserError):
            index = ImageIndex.load(file)
            assert (index.structure.d, index.structure.ntotal) == (4, 3)

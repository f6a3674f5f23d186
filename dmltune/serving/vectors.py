"""Embeddings as files: .npy, or .parquet with a point of the plane for each.

N images, D dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dmltune.errors import UserError, printable
from dmltune.serving.listing import ImageFile
from dmltune.serving.outputs import write_file

SUFFIXES = (".npy", ".parquet")
FITTED = 20_000  # points that the plane is fitted to; all are projected
Floats = NDArray[np.float32]


def require_parquet(file: Path) -> None:
    """Raise a UserError when the file is a Parquet file and pyarrow is not installed."""
    if file.suffix.lower() == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise UserError(
                "a .parquet file needs pyarrow, which is not installed. pip install pyarrow, or write .npy."
            ) from None


def write_vectors(file: Path, emb_ND: Floats, files: Sequence[ImageFile], xy_N2: Floats | None) -> None:
    """Write the embeddings, to .parquet with the columns vectors, x, y, label and path."""
    if file.suffix.lower() == ".npy":
        write_file(file, lambda path: _save_npy(path, emb_ND))
        return
    import pyarrow
    from pyarrow import parquet

    assert xy_N2 is not None
    flat = pyarrow.array(emb_ND.reshape(-1))
    table = pyarrow.table(
        {
            "vectors": pyarrow.FixedSizeListArray.from_arrays(flat, emb_ND.shape[1]),
            "x": pyarrow.array(xy_N2[:, 0]),
            "y": pyarrow.array(xy_N2[:, 1]),
            "label": pyarrow.array([printable(item.label) for item in files], pyarrow.string()),
            "path": pyarrow.array([printable(item.path) for item in files], pyarrow.string()),
        }
    )
    write_file(file, lambda path: parquet.write_table(table, path))


def _save_npy(path: Path, emb_ND: Floats) -> None:
    with path.open("wb") as stream:
        np.save(stream, emb_ND, allow_pickle=False)


def plane(emb_ND: Floats, seed: int = 0) -> Floats:
    """Return the coordinates of the points on their first two principal axes, (N, 2).

    The sign of an axis is that for which its largest loading is positive.
    """
    if len(emb_ND) < 2 or emb_ND.shape[1] < 2:
        return np.zeros((len(emb_ND), 2), dtype=np.float32)
    chosen = np.random.default_rng(seed).permutation(len(emb_ND))[:FITTED]
    fitted = emb_ND[chosen].astype(np.float64)
    mean_D = fitted.mean(0)
    covariance_DD = np.cov(fitted - mean_D, rowvar=False)
    axes_D2 = np.linalg.eigh(covariance_DD)[1][:, :-3:-1]
    axes_D2 = axes_D2 * np.sign(axes_D2[np.abs(axes_D2).argmax(0), [0, 1]])
    points: Floats = ((emb_ND - mean_D) @ axes_D2).astype(np.float32)
    return points

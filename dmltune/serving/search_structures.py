"""The three kinds of faiss index, and how much of the exact result each returns.

All rank by Euclidean distance, as evaluation does. N vectors, Q queries, D dimensions, K neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmltune.errors import UserError
from dmltune.train.ray_session import threads_of, usable_cores

KINDS = ("exact", "ivf", "pq")
RECALL = 0.95  # the share of exact neighbours that ivf is set to return
SAMPLE = 1000  # queries that the share is measured on
FEWEST = {"ivf": 100, "pq": 1000}
_TRAINED = 64  # vectors of a centroid that it is trained on
_PER_CELL = 39  # faiss wants at least so many training vectors of a cell
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Structure:
    """A faiss index, and the measured share of the exact K neighbours that it returns."""

    kind: str
    index: Any
    recall: float
    k: int  # of the recall
    queries: int
    probes: int = 0  # cells that ivf and pq look into; 0 for exact


def faiss_module() -> Any:
    """Return faiss with the threads that torch would use, or a UserError when it is not installed."""
    try:
        import faiss
    except ImportError:
        raise UserError(
            "an index needs faiss, which is not installed. pip install 'dmltune[cpu]', or [gpu]."
        ) from None
    faiss.omp_set_num_threads(threads_of(usable_cores()))
    return faiss


def build(emb_ND: Floats, kind: str, k: int = 10, seed: int = 0) -> Structure:
    """Return the index of the vectors, and its recall of `k` neighbours of some of them."""
    count = len(emb_ND)
    if count < FEWEST.get(kind, 1):
        raise UserError(
            f"--kind {kind} needs {FEWEST[kind]:,} images or more; got {count:,}. Use --kind exact."
        )
    emb_ND = np.ascontiguousarray(emb_ND, dtype=np.float32)
    return measured(filled(emb_ND, kind), emb_ND, kind, k, seed)


def measured(index: Any, emb_ND: Floats, kind: str, k: int, seed: int = 0) -> Structure:
    """Return the index of these vectors with its recall, looking into as many cells as that needs."""
    faiss, (count, dim) = faiss_module(), emb_ND.shape
    if kind == "exact":
        return Structure(kind, index, 1.0, min(k, count), 0)
    sample_Q = np.sort(np.random.default_rng(seed).permutation(count)[:SAMPLE])
    truth = faiss.IndexFlatL2(dim)
    truth.add(emb_ND)
    exact_QK = truth.search(emb_ND[sample_Q], k)[1]
    probes = 1
    while True:
        index.nprobe = probes
        recall = shared(index.search(emb_ND[sample_Q], k)[1], exact_QK)
        enough = recall >= RECALL if kind == "ivf" else probes >= min(32, index.nlist)
        if enough or probes >= index.nlist:
            return Structure(kind, index, recall, k, len(sample_Q), probes)
        probes = min(2 * probes, index.nlist)


def filled(emb_ND: Floats, kind: str) -> Any:
    """Return a trained faiss index with the vectors."""
    faiss, (count, dim) = faiss_module(), emb_ND.shape
    index = faiss.index_factory(dim, recipe(count, dim, kind))
    if kind != "exact":  # faiss' own 256 vectors of a centroid take four times as long
        index.cp.max_points_per_centroid = _TRAINED
    if kind == "pq":
        index.pq.cp.max_points_per_centroid = _TRAINED
    index.train(emb_ND)
    index.add(emb_ND)
    return index


def recipe(count: int, dim: int, kind: str) -> str:
    """Return the string of faiss' index factory for so many vectors."""
    if kind == "exact":
        return "Flat"
    cells = max(1, min(round(4 * math.sqrt(count)), count // _PER_CELL))
    if kind == "ivf":
        return f"IVF{cells},Flat"
    bits = 8 if count >= 256 * _PER_CELL else int(math.log2(count / _PER_CELL))
    return f"IVF{cells},PQ{_pieces(dim)}x{bits}"


def _pieces(dim: int) -> int:
    """Return how many pieces a vector is quantised in: of 4 numbers, or of the next size that divides."""
    size = next(size for size in (4, 3, 2, 1) if dim % size == 0)
    return dim // size


def shared(found_QK: NDArray[np.int64], exact_QK: NDArray[np.int64]) -> float:
    """Return the mean share of the exact neighbours that were found."""
    shares = [
        len(set(found_K.tolist()) & set(exact_K.tolist())) / max(1, len(set(exact_K.tolist())))
        for found_K, exact_K in zip(found_QK, exact_QK, strict=True)
    ]
    return float(np.mean(shares)) if shares else 1.0

"""An index of images on disk: the faiss index, paths, labels and the model's fingerprint in one file.

The file is safetensors: nothing in it is pickled, and its header has a checksum. Only its owner may read it,
because it names files.
N images, Q queries, K neighbours, D dimensions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import torch
from numpy.typing import NDArray

from dmltune.core import checkpoint
from dmltune.core.reranking import expanded, ranked
from dmltune.errors import UserError, parse_json, readable
from dmltune.serving.listing import ImageFile
from dmltune.serving.model import LoadedModel, Vectors
from dmltune.serving.search_structures import Structure, build, faiss_module

FORMAT = 1
RERANKED = 100  # candidates of a query that are re-ranked
Indices = NDArray[np.int64]
_KIND = "dmltune index"


class Neighbour(NamedTuple):
    """One result: `distance` is Euclidean, `similarity` is 1 − distance²/2, the cosine on the unit sphere."""

    rank: int
    path: str
    label: str
    distance: float
    similarity: float


class Neighbours(Sequence[Neighbour]):
    """The neighbours of one query, the nearest first. Each is made when it is looked at.

    `rows` and `squared` are their rows in the index and squared distances, for programs that need no paths.
    """

    def __init__(self, files: Sequence[ImageFile], rows_K: Indices, squared_K: Vectors) -> None:
        known = len(rows_K) if not len(rows_K) or rows_K[-1] >= 0 else int((rows_K >= 0).sum())
        self._files, self.rows, self.squared = files, rows_K[:known], squared_K[:known]  # −1: behind the last

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> Neighbour: ...
    @overload
    def __getitem__(self, place: slice) -> list[Neighbour]: ...
    def __getitem__(self, place: int | slice) -> Neighbour | list[Neighbour]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        number = range(len(self))[place]
        return self._at(number + 1, int(self.rows[number]), float(self.squared[number]))

    def __iter__(self) -> Iterator[Neighbour]:
        return map(self._at, count(1), self.rows.tolist(), self.squared.tolist())  # not one by one from numpy

    def _at(self, rank: int, row: int, squared: float) -> Neighbour:
        file = self._files[row]
        squared = squared if squared > 0 else 0.0
        return Neighbour(rank, file.path, file.label, math.sqrt(squared), 1 - squared / 2)


class Results(Sequence[Neighbours]):
    """What a search found for each query: faiss' own arrays until one is looked at."""

    def __init__(self, files: Sequence[ImageFile], rows_QK: Indices, squared_QK: Vectors) -> None:
        self._files, self.rows, self.squared = files, rows_QK, squared_QK

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> Neighbours: ...
    @overload
    def __getitem__(self, place: slice) -> Results: ...
    def __getitem__(self, place: int | slice) -> Neighbours | Results:
        made = Results if isinstance(place, slice) else Neighbours
        return made(self._files, self.rows[place], self.squared[place])


@dataclass(frozen=True)
class IndexFacts:
    """What an index says of itself. `model` is the name or folder it was made from, `store` its store."""

    model: str
    store: str
    fingerprint: str  # of the model
    kind: str
    images: int
    dim: int
    recall: float
    k: int
    queries: int
    probes: int


@dataclass(frozen=True)
class ImageIndex:
    """The embedded images of a folder, searched by faiss."""

    facts: IndexFacts
    files: list[ImageFile]
    structure: Any  # faiss.Index

    @classmethod
    def of(
        cls, model: LoadedModel, store: str, emb_ND: Vectors, files: Sequence[ImageFile], kind: str, k: int
    ) -> ImageIndex:
        made: Structure = build(emb_ND, kind, k)
        facts = IndexFacts(
            model.name, store, model.fingerprint, kind, len(files), model.dim,
            made.recall, made.k, made.queries, made.probes,
        )  # fmt: skip
        return cls(facts, list(files), made.index)

    def save(self, file: Path) -> None:
        """Write the index; a kill at any moment leaves the old file or the new one."""
        rows = [[item.path, item.label] for item in self.files]
        listed = np.frombuffer(json.dumps(rows).encode(), dtype=np.uint8)
        tensors = {
            "faiss": torch.from_numpy(faiss_module().serialize_index(self.structure)),
            "files": torch.from_numpy(listed.copy()),
        }
        try:
            checkpoint.write(file, tensors, {"file": _KIND, "version": FORMAT, **asdict(self.facts)})
        except OSError as error:
            raise UserError(f"-o: {readable(str(file))} cannot be written ({error.strerror}).") from None

    @classmethod
    def load(cls, file: Path) -> ImageIndex:
        """Return the index of the file; a UserError when it is missing, damaged, or none."""
        if not file.is_file():
            raise UserError(
                f"no index {readable(str(file))}. Make one: dmltune index NAME FOLDER -o {file.name}"
            )
        faiss = faiss_module()
        try:
            tensors, tree = checkpoint.read(file)
        except UserError as problem:
            raise UserError(
                f"{readable(str(file))} is damaged, or no index of dmltune. "
                "Restore it from a backup, or make one: dmltune index NAME FOLDER"
            ) from problem
        with checkpoint.reading(file):
            if tree.pop("file", None) != _KIND:
                raise UserError(
                    f"{readable(str(file))} is no index of dmltune. Name a file of `dmltune index`."
                )
            if tree.pop("version") > FORMAT:
                raise UserError(f"{readable(str(file))} is of a newer dmltune. Update it.")
            facts = IndexFacts(**tree)
            files = [ImageFile(*row) for row in parse_json(tensors["files"].numpy().tobytes())]
            structure = faiss.deserialize_index(tensors["faiss"].numpy())
            if not structure.ntotal == len(files) == facts.images or structure.d != facts.dim:
                raise ValueError("its parts do not fit each other")
            if facts.probes:
                structure.nprobe = facts.probes
        return cls(facts, files, structure)

    def require(self, model: LoadedModel) -> None:
        """Raise a UserError unless the index was made by this model."""
        if model.fingerprint != self.facts.fingerprint:
            raise UserError(
                f"the index was made by {readable(self.facts.model)} ({self.facts.fingerprint}), not by "
                f"{readable(model.name)} ({model.fingerprint}). Make it again with `dmltune index`."
            )

    def search(self, emb_QD: Vectors, k: int, rerank: str = "none") -> Sequence[Neighbours]:
        """Return the `k` nearest images of every query.

        With "k-reciprocal" the RERANKED nearest are re-ranked among themselves; with "aqe" the index is
        searched again with the expanded query.
        """
        queries = np.ascontiguousarray(emb_QD, dtype=np.float32)
        k = min(k, len(self.files))
        if rerank != "none":
            return [self._reranked(query, k, rerank) for query in queries]
        squared_QK, index_QK = self.structure.search(queries, k)
        return Results(self.files, index_QK, squared_QK)

    def _reranked(self, query_D: Vectors, k: int, method: str) -> Neighbours:
        candidates_K = self._candidates(query_D[None], max(k, RERANKED))
        query, gallery = torch.from_numpy(query_D[None]), torch.from_numpy(self._vectors(candidates_K))
        if method == "aqe":
            chosen_K = self._candidates(expanded(query, gallery).numpy(), k)
        else:
            ((_, order_QK),) = ranked(method, query, gallery, k)
            chosen_K = candidates_K[order_QK[0].numpy()]
        return Neighbours(self.files, chosen_K, ((self._vectors(chosen_K) - query_D) ** 2).sum(1))

    def _candidates(self, query_1D: Vectors, k: int) -> Indices:
        index_K: Indices = self.structure.search(query_1D, min(k, len(self.files)))[1][0]
        return index_K[index_K >= 0]

    def _vectors(self, index_K: Indices) -> Vectors:
        """Return the stored vectors; pq has them approximately."""
        if self.facts.kind != "exact":
            self.structure.make_direct_map()
        vectors: Vectors = self.structure.reconstruct_batch(np.ascontiguousarray(index_K))
        return vectors

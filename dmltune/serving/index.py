"""An index of images on disk: the faiss index, paths, labels and the model's fingerprint in one file.

The file is safetensors: nothing in it is pickled, and its header has a checksum. Only its owner may read it,
because it names files.
N images, Q queries, K neighbours, D dimensions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dmltune.core import checkpoint
from dmltune.core.reranking import expanded, ranked
from dmltune.errors import UserError, readable
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
        tensors, tree = checkpoint.read(file)
        with checkpoint.reading(file):
            if tree.pop("file", None) != _KIND:
                raise UserError(
                    f"{readable(str(file))} is no index of dmltune. Name a file of `dmltune index`."
                )
            if tree.pop("version") > FORMAT:
                raise UserError(f"{readable(str(file))} is of a newer dmltune. Update it.")
            facts = IndexFacts(**tree)
            files = [ImageFile(*row) for row in json.loads(tensors["files"].numpy().tobytes())]
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

    def search(self, emb_QD: Vectors, k: int, rerank: str = "none") -> list[list[Neighbour]]:
        """Return the `k` nearest images of every query.

        With "k-reciprocal" the RERANKED nearest are re-ranked among themselves; with "aqe" the index is
        searched again with the expanded query.
        """
        queries = np.ascontiguousarray(emb_QD, dtype=np.float32)
        k = min(k, len(self.files))
        if rerank != "none":
            return [self._reranked(query, k, rerank) for query in queries]
        squared_QK, index_QK = self.structure.search(queries, k)
        return self._neighbours(index_QK, squared_QK)

    def _reranked(self, query_D: Vectors, k: int, method: str) -> list[Neighbour]:
        candidates_K = self._candidates(query_D[None], max(k, RERANKED))
        query, gallery = torch.from_numpy(query_D[None]), torch.from_numpy(self._vectors(candidates_K))
        if method == "aqe":
            chosen_K = self._candidates(expanded(query, gallery).numpy(), k)
        else:
            ((_, order_QK),) = ranked(method, query, gallery, k)
            chosen_K = candidates_K[order_QK[0].numpy()]
        squared_K = ((self._vectors(chosen_K) - query_D) ** 2).sum(1)
        return self._neighbours(chosen_K[None], squared_K[None])[0]

    def _candidates(self, query_1D: Vectors, k: int) -> Indices:
        index_K: Indices = self.structure.search(query_1D, min(k, len(self.files)))[1][0]
        return index_K[index_K >= 0]

    def _vectors(self, index_K: Indices) -> Vectors:
        """Return the stored vectors; pq has them approximately."""
        if self.facts.kind != "exact":
            self.structure.make_direct_map()
        vectors: Vectors = self.structure.reconstruct_batch(np.ascontiguousarray(index_K))
        return vectors

    def _neighbours(self, index_QK: Indices, squared_QK: Vectors) -> list[list[Neighbour]]:
        """Return the rows as neighbours; −1 marks the places behind the last one."""
        squared_QK = np.maximum(squared_QK, 0)
        distances, similarities = np.sqrt(squared_QK).tolist(), (1 - squared_QK / 2).tolist()
        results = []
        for index_K, distance_K, similarity_K in zip(index_QK.tolist(), distances, similarities, strict=True):
            files = [self.files[index] for index in index_K if index >= 0]
            rows = zip(files, distance_K, similarity_K, strict=False)
            results.append(
                [Neighbour(rank, file.path, file.label, d, s) for rank, (file, d, s) in enumerate(rows, 1)]
            )
        return results

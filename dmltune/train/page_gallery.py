"""Pictures of what an embedding retrieves: queries with their neighbours, confusions, and a map in 2-D.

The result is plain JSON, so that it can be stored beside a model: a page shows it without the data set.
N images, Q of them are queries.
"""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from dmltune.core.neighbours import nearest_neighbours
from dmltune.data.contact_sheet import spread
from dmltune.data.images import ImageSet, Indices, Ints, to_pil
from dmltune.errors import printable

ROWS, NEIGHBOURS = 8, 6
CONFUSIONS, PAIRS = 6, 3
MAP_CLASSES, MAP_IMAGES = 24, 20
MOST_QUERIES = 2000
LARGE, SMALL = 96, 40  # pixels of the longer side


def gallery(emb_ND: Tensor, images: ImageSet, indices: Indices, split: str, model: str) -> dict[str, Any]:
    """Return the gallery of the points of the images at `indices`.

    Neighbours are searched among all of them (or in the gallery part of the data set); queries are at most
    `MOST_QUERIES` evenly spaced ones and those of the map.
    """
    indices = np.asarray(indices, dtype=np.int64)
    labels_N = images.labels_N[indices]
    query_N = np.ones(len(indices), bool) if images.query_N is None else images.query_N[indices]
    places_G = np.arange(len(indices)) if images.query_N is None else np.flatnonzero(~query_N)
    queries = np.flatnonzero(query_N)
    shown = map_places(labels_N, queries)
    places_Q = np.union1d(queries[spread(len(queries), MOST_QUERIES)], shown)
    near_QK = neighbours(emb_ND, places_Q, places_G, alone=images.query_N is None)
    right_QK = (labels_N[near_QK] == labels_N[places_Q][:, None]) & (near_QK >= 0)
    at = {int(place): row for row, place in enumerate(places_Q)}
    rows = [at[int(place)] for place in shown[spread(len(shown), ROWS)]]
    names = [printable(name) for name in images.class_names]
    found = _Pictures(images, indices)
    queries_shown = [
        {
            "image": found.large(int(places_Q[row])),
            "class": names[labels_N[places_Q[row]]],
            "neighbours": [
                {"image": found.large(int(n)), "class": names[labels_N[n]], "right": bool(ok)}
                for n, ok in zip(near_QK[row], right_QK[row], strict=True)
                if n >= 0
            ],
        }
        for row in rows
    ]
    confused = confusions(labels_N, places_Q, near_QK[:, 0], names, found)
    where = projected(emb_ND[torch.from_numpy(shown)])
    points = [
        {
            "x": round(float(x), 2),
            "y": round(float(y), 2),
            "class": names[labels_N[place]],
            "right": bool(right_QK[at[int(place)], 0]),
            "image": found.small(int(place)),
        }
        for place, (x, y) in zip(shown, where, strict=True)
    ]
    facts = {"split": split, "model": model, "images": len(indices), "classes": len(set(labels_N.tolist()))}
    shares = {"queries": len(places_Q), "right": float(right_QK[:, 0].mean()) if len(places_Q) else 0.0}
    return {
        **facts, **shares, "rows": queries_shown, "confusions": confused, "points": points,
        "large": found.uris(found.large_places, LARGE), "small": found.uris(found.small_places, SMALL),
    }  # fmt: skip


def map_places(labels_N: Ints, queries: Ints) -> Ints:
    """Return evenly spaced queries of evenly spaced classes, in the order of the classes."""
    labels = np.unique(labels_N[queries])
    members = [queries[labels_N[queries] == label] for label in labels[spread(len(labels), MAP_CLASSES)]]
    parts = [own[spread(len(own), MAP_IMAGES)] for own in members]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def neighbours(emb_ND: Tensor, places_Q: Ints, places_G: Ints, *, alone: bool) -> Ints:
    """Return the places of the nearest neighbours, (Q, K); −1 behind the end. An image is not its own."""
    points_QD, points_GD = emb_ND[torch.from_numpy(places_Q)], emb_ND[torch.from_numpy(places_G)]
    count = min(NEIGHBOURS + int(alone), len(places_G))
    found_QK = nearest_neighbours(points_QD, points_GD, count)[0].numpy()
    near_QK = np.where(found_QK >= 0, places_G[found_QK], -1)
    if not alone:
        return near_QK
    others_QK = np.full((len(places_Q), max(1, count - 1)), -1, dtype=np.int64)
    for row, (place, near) in enumerate(zip(places_Q, near_QK, strict=True)):
        others = near[near != place][: count - 1]
        others_QK[row, : len(others)] = others
    return others_QK


def confusions(
    labels_N: Ints, places_Q: Ints, near_Q: Ints, names: Sequence[str], found: _Pictures
) -> list[dict[str, Any]]:
    """Return the pairs of classes that are confused most, with queries and their wrong neighbours."""
    known = near_Q >= 0
    of, taken_for = labels_N[places_Q[known]], labels_N[near_Q[known]]
    totals = Counter(of.tolist())
    wrong = Counter((a, b) for a, b in zip(of.tolist(), taken_for.tolist(), strict=True) if a != b)
    rows = []
    for (a, b), count in sorted(wrong.items(), key=lambda item: (-item[1], item[0]))[:CONFUSIONS]:
        hits = [
            (int(place), int(near))
            for place, near in zip(places_Q[known], near_Q[known], strict=True)
            if labels_N[place] == a and labels_N[near] == b
        ]
        pairs = [[found.large(place), found.large(near)] for place, near in hits[:PAIRS]]
        share = count / totals[a]
        rows.append({"of": names[a], "as": names[b], "count": count, "share": share, "pairs": pairs})
    return rows


def projected(emb_ND: Tensor) -> np.ndarray[Any, Any]:
    """Return a map in two dimensions, (N, 2): t-SNE, or the points themselves in a line when they are few."""
    if len(emb_ND) < 5:
        return np.array([[place, 0.0] for place in range(len(emb_ND))]).reshape(-1, 2)
    from sklearn.manifold import TSNE

    perplexity = min(20.0, (len(emb_ND) - 1) / 3)
    mapping = TSNE(2, perplexity=perplexity, init="pca", random_state=0, max_iter=500)
    found: np.ndarray[Any, Any] = mapping.fit_transform(np.nan_to_num(emb_ND.double().numpy()))
    return found


class _Pictures:
    """Notes which images are shown, and reads each once. Places count in `indices`."""

    def __init__(self, images: ImageSet, indices: Ints) -> None:
        self.images, self.indices = images, indices
        self.large_places: dict[int, int] = {}
        self.small_places: dict[int, int] = {}

    def large(self, place: int) -> int:
        return self.large_places.setdefault(place, len(self.large_places))

    def small(self, place: int) -> int:
        return self.small_places.setdefault(place, len(self.small_places))

    def uris(self, places: dict[int, int], side: int) -> list[str]:
        return [uri(to_pil(pixels), side) for pixels in self.images.read(self.indices[list(places)], side)]


def uri(picture: Image.Image, side: int) -> str:
    """Return the picture as a `data:` address, its longer side at most `side` pixels."""
    picture = picture.convert("RGB")
    picture.thumbnail((side, side), Image.Resampling.BICUBIC)
    stream = io.BytesIO()
    if max(picture.size) <= 32:
        picture.save(stream, "PNG", optimize=True)
        kind = "png"
    else:
        picture.save(stream, "JPEG", quality=72)
        kind = "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(stream.getvalue()).decode()}"

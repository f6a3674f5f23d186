"""An index of many vectors: building, searching and recall of every kind beside plain faiss.

    python benchmarks/index.py --count 1000000 --dim 128
    python benchmarks/index.py --query photos.index photo.jpg      # one query after the start, in seconds

Plain faiss gets the same factory string, the same training and the same number of probes. The two take turns.
The vectors are clustered points on the sphere: uniform ones have no near neighbours to find.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from dmltune.serving.index import ImageIndex, IndexFacts
from dmltune.serving.listing import ImageFile
from dmltune.serving.model import Vectors
from dmltune.serving.search_structures import KINDS, build, faiss_module, filled, recipe, shared


def vectors(count: int, dim: int, seed: int = 0) -> Vectors:
    """Points around count/100 centres, on the unit sphere."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(max(1, count // 100), dim)).astype(np.float32)
    points: Vectors = centres[generator.integers(0, len(centres), count)]
    points += generator.normal(scale=0.6, size=points.shape).astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points


def seconds(action: Any, times: int = 5) -> float:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def measure(kind: str, points: Vectors, queries: Vectors, exact: Any, k: int) -> dict[str, Any]:
    faiss, (count, dim) = faiss_module(), points.shape
    began = time.perf_counter()
    plain = faiss.index_factory(dim, recipe(count, dim, kind))
    if kind != "exact":
        plain.cp.max_points_per_centroid = 64
    if kind == "pq":
        plain.pq.cp.max_points_per_centroid = 64
    plain.train(points)
    plain.add(points)
    plain_build_s = time.perf_counter() - began
    began = time.perf_counter()
    filled(points, kind)
    fill_s = time.perf_counter() - began
    began = time.perf_counter()
    ours = build(points, kind, k)
    build_s = time.perf_counter() - began
    if ours.probes:
        plain.nprobe = ours.probes
    facts = IndexFacts("", "", "", kind, count, dim, ours.recall, k, ours.queries, ours.probes)
    index = ImageIndex(facts, [ImageFile(f"{number}.jpg", "") for number in range(count)], ours.index)
    ours_s, plain_s, listed_s = [], [], []
    for _ in range(5 if kind == "exact" else 25):
        ours_s.append(seconds(lambda: index.search(queries, k), 1))
        plain_s.append(seconds(lambda: plain.search(queries, k), 1))
        listed_s.append(seconds(lambda: [list(found) for found in index.search(queries, k)], 1))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.index"
        save_s = seconds(lambda: index.save(file), 1)
        load_s = seconds(lambda: ImageIndex.load(file), 1)
        size = file.stat().st_size
    return {
        "kind": kind,
        "recipe": recipe(count, dim, kind),
        "probes": ours.probes,
        "fill_s": round(fill_s, 1),
        "build_s": round(build_s, 1),  # filled, and its recall measured
        "plain_build_s": round(plain_build_s, 1),
        "query_ms": round(1000 * statistics.median(ours_s) / len(queries), 3),
        "plain_query_ms": round(1000 * statistics.median(plain_s) / len(queries), 3),
        "with_paths_ms": round(1000 * statistics.median(listed_s) / len(queries), 3),  # every one looked at
        "ratio": round(statistics.median(ours_s) / statistics.median(plain_s), 3),
        "recall_told": round(ours.recall, 4),
        "recall": round(shared(ours.index.search(queries, k)[1], exact), 4),
        "save_s": round(save_s, 1),
        "load_s": round(load_s, 1),
        "megabytes": round(size / 1e6, 1),
    }


def query_after_start(file: Path, image: Path) -> dict[str, float]:
    from dmltune.cli.query import model_of

    began = time.perf_counter()
    index = ImageIndex.load(file)
    model = model_of(index, None, None)
    started = time.perf_counter()
    index.search(model.embed(image), 10)
    first = time.perf_counter()
    index.search(model.embed(image), 10)
    second = time.perf_counter()
    return {"load_s": started - began, "first_query_s": first - started, "query_s": second - first}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--query", nargs=2, type=Path, metavar=("INDEX", "IMAGE"))
    args = parser.parse_args()
    if args.query:
        print(json.dumps(query_after_start(*args.query), indent=1))
        return
    made = vectors(args.count + args.queries, args.dim)
    points, queries = made[: args.count], made[args.count :]
    faiss = faiss_module()
    flat = faiss.IndexFlatL2(args.dim)
    flat.add(points)
    exact = flat.search(queries, args.k)[1]
    del flat
    for kind in args.kinds:
        print(json.dumps(measure(kind, points, queries, exact, args.k)), flush=True)


if __name__ == "__main__":
    main()

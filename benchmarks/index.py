"""An index of many vectors: building, searching and recall of every kind beside plain faiss.

    python benchmarks/index.py --count 1000000 --dim 128
    taskset -c 1 python benchmarks/index.py --count 1000000 --dim 128 --clock cpu     # on a busy machine
    python benchmarks/index.py --query photos.index photo.jpg      # one query after the start, in seconds

Plain faiss gets the same factory string, the same training and the same number of probes. The two take turns;
a ratio is the median of the turns' ratios with their quartiles. `query_ms` is of all queries in one call,
`single_query_ms` of one query a call; with paths every neighbour is looked at.
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
from dmltune.serving.search_structures import KINDS, faiss_module, filled, measured, recipe, shared

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}  # cpu: of all threads
chosen = {"clock": "wall"}


def vectors(count: int, dim: int, seed: int = 0) -> Vectors:
    """Points around count/100 centres, on the unit sphere."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(max(1, count // 100), dim)).astype(np.float32)
    points: Vectors = centres[generator.integers(0, len(centres), count)]
    points += generator.normal(scale=0.6, size=points.shape).astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points


def seconds(action: Any) -> float:
    clock = CLOCKS[chosen["clock"]]
    began = clock()
    action()
    return clock() - began


def turns(actions: dict[str, Any], repeats: int) -> dict[str, list[float]]:
    """Return the seconds of every repeat of every action. They take turns, each one first as often."""
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        action()
    names = list(actions)
    for repeat in range(repeats):
        first = repeat % len(names)
        for name in names[first:] + names[:first]:
            taken[name].append(seconds(actions[name]))
    return taken


def beside(taken: dict[str, list[float]], name: str) -> list[float]:
    """Return the median and the quartiles of the ratios to plain faiss, turn by turn."""
    ratios = [own / plain for own, plain in zip(taken[name], taken["plain"], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return [round(middle, 3), round(low, 3), round(high, 3)]


def plain_index(points: Vectors, kind: str) -> Any:
    faiss, (count, dim) = faiss_module(), points.shape
    plain = faiss.index_factory(dim, recipe(count, dim, kind))
    if kind != "exact":
        plain.cp.max_points_per_centroid = 64
    if kind == "pq":
        plain.pq.cp.max_points_per_centroid = 64
    plain.train(points)
    plain.add(points)
    return plain


def measure(kind: str, points: Vectors, queries: Vectors, exact: Any, k: int, repeats: int) -> dict[str, Any]:
    count, dim = points.shape
    made: dict[str, Any] = {}
    plain_build_s = seconds(lambda: made.update(plain=plain_index(points, kind)))
    build_s = seconds(lambda: made.update(own=filled(points, kind)))
    recall_s = seconds(lambda: made.update(structure=measured(made["own"], points, kind, k)))
    plain, ours = made["plain"], made["structure"]
    if ours.probes:
        plain.nprobe = ours.probes
    facts = IndexFacts("", "", "", kind, count, dim, ours.recall, k, ours.queries, ours.probes)
    index = ImageIndex(facts, [ImageFile(f"{number}.jpg", "") for number in range(count)], ours.index)
    together = turns(
        {
            "plain": lambda: plain.search(queries, k),
            "own": lambda: index.search(queries, k),
            "paths": lambda: [list(found) for found in index.search(queries, k)],  # every one looked at
        },
        repeats,
    )
    some = [queries[number : number + 1] for number in range(20)]
    single = turns(
        {
            "plain": lambda: [plain.search(query, k) for query in some],
            "own": lambda: [index.search(query, k) for query in some],
            "paths": lambda: [list(index.search(query, k)[0]) for query in some],
        },
        repeats,
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.index"
        save_s = seconds(lambda: index.save(file))
        load_s = seconds(lambda: ImageIndex.load(file))
        size = file.stat().st_size
    return {
        "kind": kind,
        "recipe": recipe(count, dim, kind),
        "probes": ours.probes,
        "build_s": round(build_s, 1),
        "plain_build_s": round(plain_build_s, 1),
        "recall_measured_s": round(recall_s, 1),
        f"recall@{k}": round(shared(ours.index.search(queries, k)[1], exact), 4),
        f"plain_recall@{k}": round(shared(plain.search(queries, k)[1], exact), 4),
        f"told_recall@{k}": round(ours.recall, 4),
        "query_ms": round(1000 * statistics.median(together["own"]) / len(queries), 4),
        "plain_query_ms": round(1000 * statistics.median(together["plain"]) / len(queries), 4),
        "ratio": beside(together, "own"),
        "ratio_with_paths": beside(together, "paths"),
        "single_query_ms": round(1000 * statistics.median(single["own"]) / len(some), 4),
        "plain_single_query_ms": round(1000 * statistics.median(single["plain"]) / len(some), 4),
        "single_ratio": beside(single, "own"),
        "single_ratio_with_paths": beside(single, "paths"),
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
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--query", nargs=2, type=Path, metavar=("INDEX", "IMAGE"))
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="cpu: for a busy machine")
    args = parser.parse_args()
    chosen["clock"] = args.clock
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
        print(json.dumps(measure(kind, points, queries, exact, args.k, args.repeats)), flush=True)


if __name__ == "__main__":
    main()

"""Exact retrieval at the size of the papers' test sets beside the bare matrix product, in time and memory.

    python benchmarks/retrieval.py [--size 60502] [--skip-peers] [--threads 2]

Three inputs of normalised float32 points with as many classes as the data sets have: all against all at the
size of Stanford Online Products (60,502 × 512, 11,316 classes), queries against a gallery at that of In-Shop
(14,218 against 12,612 × 512, 3,985 classes), and 1,000 queries against 1,000,000 × 128. The bare product is
what an exact search without pruning computes: every block of queries times every block of the gallery, the
result overwritten, nothing looked at; the fastest of three block sizes counts. Ours computes all of
`retrieval_metrics` (precision at 1, R-precision, MAP@R, recall at 1, 2, 4, 8). Where the queries are each
other's gallery one product serves both sides: ours may be faster than what it is held against.

The peers get the same input: AccuracyCalculator of pytorch-metric-learning (k = the largest class, the first
three figures), and faiss' IndexFlatL2, the search without figures. Times are on the wall, bare and ours in
turns, the ratio is the median of the rounds. Memory is how far one call raises the peak of a fresh process
above where it stood with the input in memory; a peer may take 16 GB.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import multiprocessing
import multiprocessing.connection
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from memory import begin_anew, peak
from targets import Targets
from torch import Tensor

from dmltune.core.retrieval import retrieval_metrics

BLOCKS = (1024, 2048, 4096)
MOST_BYTES = 16 << 30
SOP = 60_502, 11_316


@dataclass
class Case:
    name: str
    queries: int
    gallery: int
    """0: the queries are each other's."""
    classes: int
    dim: int
    rounds: int

    def input(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Points around the centres of their classes, so that about half of the first neighbours match."""
        generator = torch.Generator().manual_seed(0)
        centres_CD = torch.randn(self.classes, self.dim, generator=generator)
        sides: list[tuple[Tensor, Tensor]] = []
        for count in (self.queries, self.gallery)[: 2 if self.gallery else 1]:
            labels_N = torch.arange(count) * self.classes // count
            points_ND = torch.randn(count, self.dim, generator=generator)
            for at in range(0, count, 1 << 14):
                piece = slice(at, at + (1 << 14))
                points_ND[piece].mul_(2.7).add_(centres_CD[labels_N[piece]])
                points_ND[piece] /= points_ND[piece].norm(dim=1, keepdim=True)
            sides.append((points_ND, labels_N))
        return (*sides[0], *(sides[1] if self.gallery else (None, None)))


def cases(size: int) -> list[Case]:
    share = size / SOP[0]
    return [
        Case("all against all", size, 0, round(SOP[1] * share), 512, 3),
        Case(
            "queries and gallery", round(14_218 * share), round(12_612 * share), round(3_985 * share), 512, 3
        ),
        Case("a million", 1_000, round(1_000_000 * share), round(100_000 * share), 128, 3),
    ]


def bare(query: Tensor, gallery: Tensor, block: int) -> None:
    out = torch.empty(block * block)
    for left in query.split(block):
        for right in gallery.split(block):
            torch.mm(left, right.T, out=out[: len(left) * len(right)].view(len(left), len(right)))


def ours(case: Case) -> Callable[[], object]:
    return partial(retrieval_metrics, *case.input())


def accuracy_calculator(case: Case) -> Callable[[], object]:
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    query, query_labels, gallery, gallery_labels = case.input()
    figures = ("precision_at_1", "r_precision", "mean_average_precision_at_r")
    calculator = AccuracyCalculator(include=figures, k="max_bin_count", device=torch.device("cpu"))
    reference = {} if gallery is None else {"reference": gallery, "reference_labels": gallery_labels}
    return lambda: calculator.get_accuracy(query, query_labels, **reference)


def faiss_search(case: Case) -> Callable[[], object]:
    import faiss

    query, labels, gallery, gallery_labels = case.input()
    points = query if gallery is None else gallery
    counts = torch.unique(labels if gallery_labels is None else gallery_labels, return_counts=True)[1]
    depth = max(8, int(counts.amax())) + 1

    def search() -> object:
        index = faiss.IndexFlatL2(case.dim)
        index.add(points.numpy())
        return index.search(query.numpy(), depth)

    return search


def seconds(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def in_child(case: Case, make: Callable[[Case], Callable[[], object]], threads: int) -> tuple[float, float]:
    """Seconds and extra bytes of one call in a fresh process; not a number when memory did not suffice."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_measured, args=(case, make, threads, sender))
    child.start()
    sender.close()
    try:
        found: tuple[float, float] = receiver.recv()
    except EOFError:
        found = math.nan, math.nan
    child.join()
    return found


def _measured(
    case: Case,
    make: Callable[[Case], Callable[[], object]],
    threads: int,
    sender: multiprocessing.connection.Connection,
) -> None:
    _set_threads(threads)
    make(Case("small", 40, 30 if case.gallery else 0, 5, case.dim, 1))()  # loads what the first call loads
    step = make(case)
    before = begin_anew()
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    taken = seconds(step)
    sender.send((taken, peak() - before))


def _set_threads(threads: int) -> None:
    torch.set_num_threads(threads)
    if importlib.util.find_spec("faiss"):
        import faiss

        faiss.omp_set_num_threads(threads)


def in_turns(case: Case) -> float:
    """The median over the rounds of ours / bare; prints both."""
    query, query_labels, gallery, gallery_labels = case.input()
    points = query if gallery is None else gallery
    few = query[: max(4096, len(query) // 8)]
    block = min(BLOCKS, key=lambda size: min(seconds(lambda: bare(few, points, size)) for _ in range(2)))
    step = partial(retrieval_metrics, query, query_labels, gallery, gallery_labels)
    rounds = [(seconds(lambda: bare(query, points, block)), seconds(step)) for _ in range(case.rounds)]
    ratios = [mine / product for product, mine in rounds]
    product_s, mine_s = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(
        f"{case.name}: bare product {product_s:.2f} s (blocks of {block}), ours {mine_s:.2f} s, "
        f"ratio {min(ratios):.2f} to {max(ratios):.2f} in {case.rounds} rounds",
        flush=True,
    )
    return statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--size", type=int, default=SOP[0], help="of the first input; the others in proportion"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--skip-peers", action="store_true")
    chosen = parser.parse_args()
    _set_threads(chosen.threads)
    targets = Targets()
    for case in cases(chosen.size):
        print(f"{case.name}: {case.queries:,} × {case.gallery or case.queries:,}, {case.dim} dimensions")
        _, extra = in_child(case, ours, chosen.threads)
        ratio = in_turns(case)
        if not chosen.skip_peers:
            for name, make in (
                ("AccuracyCalculator", accuracy_calculator),
                ("faiss, search alone", faiss_search),
            ):
                taken, memory = in_child(case, make, chosen.threads)
                print(f"{case.name}: {name} {taken:.2f} s, {memory / 1e6:.0f} MB extra", flush=True)
        targets.check(f"{case.name}, time of ours / bare product", ratio, "≤", 1.5)
        targets.check(f"{case.name}, extra memory of ours", extra / 1e6, "≤", 500, " MB")
    targets.end()


if __name__ == "__main__":
    main()

"""Forward and backward of every pair loss beside pytorch-metric-learning's, in time and in memory.

    python benchmarks/losses.py [--seconds 2]

Same points, labels and parameters on one thread: B normalised points of 128 dimensions, 4 a class. The two
sides take turns; times are those of the processor, which other programs disturb little, and the ratio is the
median over the turns of theirs / ours, with its smallest and largest. Memory is how far one call raises the
peak of a fresh process above where it stood before. For N-pair they take one anchor and one positive of each
class: so do we, as samples and references. A peer that would need more than 6 GB is not run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from memory import begin_anew, peak
from pytorch_metric_learning import losses as pml
from pytorch_metric_learning.distances import DotProductSimilarity, LpDistance
from targets import Targets
from torch import Tensor

from dmltune.core import losses

SIZES, DIM, PER_CLASS = (128, 1024), 128, 4
TURNS, MOST_BYTES = 3, 6e9
DISTANCE = LpDistance(normalize_embeddings=False)
warnings.filterwarnings("ignore", message="Values of Tp or Tn are too high")  # T = 10 is the paper's
INNER_PRODUCT = DotProductSimilarity(normalize_embeddings=False)

Step = Callable[[], None]


@dataclass
class Case:
    name: str
    ours: dict[str, Any]
    theirs: Any
    peer_bytes: Callable[[int], float] = lambda size: 0.0
    """The largest array they build."""
    faster: float = 1.0
    """How many times faster the large batch has to be."""


def lifted_bytes(size: int) -> float:
    """A float32 for every positive pair and every negative pair."""
    return 4.0 * size * (PER_CLASS - 1) * size * (size - PER_CLASS)


CASES = [
    Case(
        "contrastive",
        {"pos_margin": 0.0, "neg_margin": 0.3841},
        pml.ContrastiveLoss(0, 0.3841, distance=DISTANCE),
    ),
    Case("triplet", {"margin": 0.0961}, pml.TripletMarginLoss(0.0961, distance=DISTANCE), faster=5),
    Case(
        "margin",
        {"alpha": 0.2, "beta": 1.2},
        pml.MarginLoss(0.2, beta=1.2, learn_beta=True, distance=DISTANCE),
        faster=5,
    ),
    Case("lifted", {"margin": 1.0}, pml.LiftedStructureLoss(1.0, distance=DISTANCE), lifted_bytes),
    Case("n_pair", {}, pml.NPairsLoss(distance=INNER_PRODUCT)),
    Case(
        "multi_similarity",
        {"alpha": 2.0, "beta": 40.0, "base": 0.5},
        pml.MultiSimilarityLoss(2, 40, 0.5, distance=INNER_PRODUCT),
    ),
    Case(
        "ranked_list",
        {"margin": 0.4, "boundary": 1.2, "temperature": 10.0},
        pml.RankedListLoss(0.4, Tn=10, alpha=1.2, distance=LpDistance(normalize_embeddings=False)),
    ),
]


def steps(case: Case, size: int) -> tuple[Step, Step]:
    """Ours and theirs: forward and backward once."""
    generator = torch.Generator().manual_seed(0)
    labels_B = torch.arange(size) % (size // PER_CLASS)
    centres_CD = torch.randn(size // PER_CLASS, DIM, generator=generator)
    noise_BD = torch.randn(size, DIM, generator=generator)
    emb_BD = torch.nn.functional.normalize(centres_CD[labels_B] + noise_BD)
    loss = losses.load(case.name, **case.ours)
    if case.name == "n_pair":
        half = size // 2
        labels_B = torch.arange(size) % half

        def ours(x_BD: Tensor) -> Tensor:
            value: Tensor = loss(x_BD[:half], labels_B[:half], x_BD[half:], labels_B[half:])
            return value
    else:

        def ours(x_BD: Tensor) -> Tensor:
            value: Tensor = loss(x_BD, labels_B)
            return value

    def step(value: Callable[[Tensor], Tensor]) -> Step:
        return lambda: torch.autograd.backward(value(emb_BD.clone().requires_grad_()))

    return step(ours), step(lambda x_BD: case.theirs(x_BD, labels_B))


def seconds(step: Step) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def turns(ours: Step, theirs: Step, budget: float) -> list[tuple[float, float]]:
    ours(), theirs()
    taken: list[tuple[float, float]] = []
    end = time.perf_counter() + budget
    while len(taken) < TURNS or time.perf_counter() < end:
        taken.append((seconds(ours), seconds(theirs)))
    return taken


def extra_bytes(case: Case, size: int, side: int) -> float:
    """In a child of this process, so that memory an earlier call left behind is not taken for new."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(_peak_above_now(case, size, side)))
    child.start()
    grown: float = receiver.recv()
    child.join()
    return grown


def _peak_above_now(case: Case, size: int, side: int) -> float:
    steps(case, 2 * PER_CLASS)[side]()  # loads what the first call of all loads
    step = steps(case, size)[side]
    before = begin_anew()
    step()
    return peak() - before


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=2, help="for a loss and a size, at least")
    budget = parser.parse_args().seconds
    torch.set_num_threads(1)
    targets = Targets()
    runs = [(case, size) for size in SIZES for case in CASES]
    # all children first: a process that has not run anything has no memory to give back to them
    memory = [
        [extra_bytes(*run, side) for side in range(2 if run[0].peer_bytes(run[1]) <= MOST_BYTES else 1)]
        for run in runs
    ]
    for (case, size), (ours_bytes, *rest) in zip(runs, memory, strict=True):
        ours, theirs = steps(case, size)
        name = f"{case.name}, B = {size}"
        if not rest:
            ours_s = statistics.median(seconds(ours) for _ in range(10))
            print(
                f"{name}: ours {1e3 * ours_s:.2f} ms and {ours_bytes / 1e6:.0f} MB; theirs not run, it needs "
                f"more than {case.peer_bytes(size) / 1e9:.0f} GB"
            )
            continue
        taken = turns(ours, theirs, budget)
        ratios = [their_s / our_s for our_s, their_s in taken]
        ours_s, theirs_s = (statistics.median(column) for column in zip(*taken, strict=True))
        print(
            f"{name}: ours {1e3 * ours_s:.2f} ms and {ours_bytes / 1e6:.0f} MB, "
            f"theirs {1e3 * theirs_s:.2f} ms and {rest[0] / 1e6:.0f} MB; "
            f"ratio {min(ratios):.3g} to {max(ratios):.3g} in {len(taken)} turns"
        )
        target = case.faster if size == max(SIZES) else 1.0
        targets.check(f"{name}, theirs / ours", statistics.median(ratios), "≥", target)
    targets.end()


if __name__ == "__main__":
    main()

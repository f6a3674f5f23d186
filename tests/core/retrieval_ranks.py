"""One rank of a gloo group: run by test_sharded_retrieval.py as `retrieval_ranks.py FOLDER RANK WORLD`. It
has a part of every case's gallery, and leaves what it finds in FOLDER.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from dmltune.core import neighbours
from dmltune.core.neighbours import nearest_neighbours
from dmltune.core.retrieval import query_figures

K, KS = 6, (1, 3)


def cases() -> dict[str, tuple[Tensor, Tensor, int]]:
    """Points, labels, and where the first rank's part of the gallery ends. The first 40 are the queries."""
    torch.manual_seed(0)
    x, grid = torch.randn(300, 8), torch.randn(300, 3).round()
    labels = torch.arange(300) % 17
    return {
        "random": (x, labels, 140),
        "tied": (grid, labels, 140),
        "half": (x.bfloat16(), labels, 200),
        "small part": (x, labels, 42),
        "empty part": (x, labels, 40),
        "uneven classes": (x, (torch.arange(300) - 100).clamp(min=0), 140),
    }


def figures_of(query: Tensor, labels: Tensor, *gallery: Tensor, sharded: bool = False) -> dict[str, Tensor]:
    return vars(query_figures(query, labels, *gallery, ks=KS, sharded=sharded))


def main(folder: Path, rank: int, world: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    neighbours._TILE = 96 * 96  # several rounds
    found = {}
    for name, (points, labels, cut) in cases().items():
        part, alone = slice(40, None), slice(None)
        if world == 2:
            part, alone = (slice(40, cut), slice(0, cut)) if rank == 0 else (slice(cut, None),) * 2
        found[name] = {
            "gallery": nearest_neighbours(points[:40], points[part], K, sharded=True),
            "alone": nearest_neighbours(points[alone], None, K, sharded=True),
            "gallery figures": figures_of(points[:40], labels[:40], points[part], labels[part], sharded=True),
            "alone figures": figures_of(points[alone], labels[alone], sharded=True),
        }
    try:
        nearest_neighbours(torch.zeros(3, 2), torch.full((4, 2), torch.inf if rank else 0.0), 1, sharded=True)
    except ValueError as problem:
        found["refused"] = {"why": str(problem)}
    torch.save(found, folder / f"found-{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

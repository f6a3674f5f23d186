"""Compare the gradient of two gloo ranks, half a batch each, with that of one process (float64).

`python -m dmltune.train.two_ranks FOLDER RANK`: rank 0 prints the largest relative difference.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

TOLERANCE = 1e-10
SECONDS = 120


def difference() -> float:
    """Start both ranks on loopback and return the largest relative difference of any gradient."""
    import dmltune

    package = Path(dmltune.__path__[0]).parent
    path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": path}
    with tempfile.TemporaryDirectory(prefix="dmltune-ranks-") as folder:
        ranks = [
            subprocess.Popen(
                [sys.executable, "-m", "dmltune.train.two_ranks", folder, str(rank)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for rank in range(2)
        ]
        try:
            answers = [rank.communicate(timeout=SECONDS) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
    for rank, (_, complaint) in zip(ranks, answers, strict=True):
        if rank.returncode != 0:
            raise RuntimeError((complaint.strip().splitlines() or ["a rank ended without a message"])[-1])
    return float(answers[0][0])


def main(folder: str, rank: int) -> None:
    import torch.distributed as dist

    alone = gradients(0, 1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=SECONDS),
    )
    together = gradients(rank, 2)
    differences = [
        float((single - joint).abs().max() / single.abs().max().clamp_min(1e-30))
        for single, joint in zip(alone, together, strict=True)
    ]
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print(max(differences) if all(map(math.isfinite, differences)) else math.inf)


def gradients(rank: int, world: int) -> list[Tensor]:
    """Return ∂L/∂(every parameter) with this rank's half of the batch; `world` = 1 takes the whole batch."""
    import torch

    from dmltune.core import backbones, losses, poolings, references
    from dmltune.core.embedder import Embedder
    from dmltune.core.objective import Objective, distribute

    torch.manual_seed(0)
    classes, dim, batch = 4, 8, 8
    backbone = backbones.load("resnet20")
    compared = references.load("ccp", classes, dim, proxies=2, pool_size=2)
    embedder = Embedder(backbone, poolings.load("gap", backbone.channels), dim, compared.normalise)
    loss = losses.load("contrastive", pos_margin=0.0, neg_margin=1.5)
    objective = Objective(embedder, loss, compared).double()
    with torch.no_grad():
        for parameter in compared.parameters():
            parameter.copy_(0.1 * torch.randn(parameter.shape, dtype=torch.float64))
    images_BCHW = torch.rand(batch, 3, 16, 16, dtype=torch.float64)
    labels_B = torch.arange(batch) % classes
    share = slice(rank * batch // world, (rank + 1) * batch // world)
    model = distribute(objective)  # must outlive the backward: it owns the hooks that join gradients
    model(images_BCHW[share], labels_B[share]).backward()
    return [parameter.grad.clone() for parameter in objective.parameters() if parameter.grad is not None]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

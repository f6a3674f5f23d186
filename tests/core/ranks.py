"""One rank of a gloo group: run by test_two_ranks.py as `ranks.py FOLDER RANK WORLD`, leaves its results
in FOLDER.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import toy
from support import combinations

from dmltune.core import checkpoint, collectives
from dmltune.core.batch_norm import JointBatchNorm, synchronise_batch_norm
from dmltune.core.fit import Diverged, Options, Schedule, fit

CASES: dict[str, dict[str, Any]] = {
    "batch": {"kind": "batch", "optimizer": "sgd", "lr": 0.05},
    "batch-adam": {"kind": "batch", "optimizer": "adam", "lr": 1e-2},
    "ccp": {"kind": "ccp", "optimizer": "sgd", "lr": 0.05, "lambda": 0.5},
    "ccp-adam": {"kind": "ccp", "optimizer": "adam", "lr": 1e-2},
    "clip": {"kind": "batch", "optimizer": "sgd", "lr": 0.05, "options": Options(clip_norm=1e-3)},
    "warm-up": {"kind": "batch", "optimizer": "adam", "lr": 1e-2, "options": Options(warmup_new_layers=2)},
    "plateau": {"kind": "batch", "optimizer": "sgd", "lr": 0.05},
    "ema": {"kind": "batch", "optimizer": "sgd", "lr": 0.05, "options": Options(ema=0.5)},
    "ccp-monitor": {"kind": "ccp", "optimizer": "adam", "lr": 1e-2},
    "ccp-options": {"kind": "ccp", "optimizer": "adam", "lr": 1e-2, "options": Options(1e-3, 1, 0.5, "auto")},
}
SMALL = {"patience": 1, "proxies": 2, "pool_size": 3}
STEPS = 3
COMBINATIONS = combinations.combinations()


def settings_of(case: str) -> dict[str, Any]:
    if case in CASES:
        return {**CASES[case], **(SMALL if case.startswith("ccp") else {})}
    parts = COMBINATIONS[case]
    sections = ("loss", "pooling", *(("transform",) if parts["transform"] != "identity" else ()))
    chosen: dict[str, Any] = {
        section: (parts[section], combinations.parameters(parts, section)) for section in sections
    }
    if parts.get("zero_shot"):
        chosen["zero_shot"] = ("", {})
    refs = combinations.parameters(parts, "references")
    return {"kind": parts["references"], "optimizer": "sgd", "lr": 0.05, "parts": chosen, **refs}


def train(case: str, rank: int, world: int, folder: Path) -> list[dict[str, float]]:
    """Three optimiser steps with a validation after each; all tensors go to FOLDER/CASE-RANK."""
    torch.manual_seed(0)
    schedule = Schedule(
        max_steps=STEPS,
        validate_every=STEPS if case == "ccp-monitor" else 1,
        metric="covering_radius",
        mode="min",
        plateau=1 if case == "plateau" else None,
        monitor_every=1 if case == "ccp-monitor" else None,
    )
    feed = toy.ToyFeed(rank, world)
    run = toy.run(schedule=schedule, feed=feed, dtype=torch.float64, **settings_of(case))
    seen = [progress.metrics for progress in fit(run)]
    checkpoint.save(folder / f"{case}-{rank}", *run.state())
    return seen


class BrokenOnOneRank(toy.ToyFeed):
    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        images, labels = super().batch(step)
        return images / 255 * (torch.nan if self.rank == 1 and step == 2 else 1), labels


def half_batch_norm(rank: int, world: int) -> list[float]:
    """How far a batch norm of bfloat16 over all ranks is from that of the joined values: output, gradient,
    running variance.
    """
    whole = torch.randn(8, 3, 20, 20, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16) + 5
    exact = torch.nn.BatchNorm2d(3)
    joined = synchronise_batch_norm(torch.nn.Sequential(torch.nn.BatchNorm2d(3)))[0]
    assert isinstance(joined, JointBatchNorm)
    share = slice(rank * 8 // world, (rank + 1) * 8 // world)
    x, mine = whole.float().requires_grad_(), whole[share].clone().requires_grad_()
    out, part = exact(x), joined(mine)
    assert part.dtype == torch.bfloat16
    torch.autograd.backward(out.sin().sum())
    torch.autograd.backward(part.float().sin().sum())
    assert x.grad is not None
    assert mine.grad is not None
    pairs = ((part, out[share]), (mine.grad, x.grad[share]), (joined.running_var, exact.running_var))
    return [float((one - other).abs().max()) for one, other in pairs]


def main(folder: Path, rank: int, world: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    found: dict[str, Any] = {case: train(case, rank, world, folder) for case in [*CASES, *COMBINATIONS]}

    rows = torch.arange(2 * (rank + 1)).view(-1, 2) + 10 * rank
    found["gather"] = collectives.gather(rows).tolist()
    found["number"] = collectives.broadcast_number(0.1 + rank)
    found["broadcast"] = collectives.broadcast_(torch.full((2, 2), float(rank)).T).tolist()
    found["sum"] = collectives.all_reduce_sum(torch.tensor([1.0 + rank])).tolist()
    x = torch.tensor([[1.0 + rank]], requires_grad=True)
    joined = collectives.gather_with_gradient(x)
    torch.autograd.backward(joined.square().sum() * (rank + 1))
    assert x.grad is not None
    found["gathered"], found["gradient"] = joined.tolist(), x.grad.tolist()

    found["half"] = half_batch_norm(rank, world)
    run = toy.run(schedule=Schedule(500, 500), feed=toy.ToyFeed(rank, world))
    found["stopped"] = [(p.step > 5, p.reason) for p in fit(run, lambda: rank == 0 and run.step > 5)][-1]
    broken = toy.run(schedule=Schedule(5, 5), feed=BrokenOnOneRank(rank, world))
    try:
        list(fit(broken))
    except Diverged as problem:
        found["diverged"] = [problem.step, problem.what]
    (folder / f"found-{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

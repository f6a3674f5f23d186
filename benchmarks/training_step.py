"""A training step beside that of another version of this package, in time of the processor.

    python benchmarks/training_step.py --against FOLDER [--turns 10]

FOLDER is a checkout of the other version (`git worktree add FOLDER COMMIT`). ResNet-20 at 32 px, batches of
64, contrastive loss against proxies of CCP, generalized sum pooling with the zero-shot loss, random images,
one thread. The versions take turns, a process each; the ratio of a turn is theirs / ours. It prints the
median, the smallest and the largest.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

STEPS = 3
WORKER = f"""
import sys, time, torch
from dmltune.core import backbones, losses, poolings, references
from dmltune.core.embedder import Embedder
from dmltune.core.objective import Objective
from dmltune.core.optimizers import build, parameter_groups
from dmltune.core.zero_shot import ZeroShot

torch.set_num_threads(1)
torch.manual_seed(0)
refs = references.load("ccp", 20, 128)
refs.start(lambda count: (torch.randn(20, count, 128), torch.ones(20, count, dtype=torch.bool)))
pooling = poolings.load("gsp", 128)
pooling.start(torch.randn(256, 128))
embedder = Embedder(backbones.load("resnet20"), pooling, 128, "lip")
loss = losses.load("contrastive", 20, 128)
goal = Objective(embedder, loss, refs, None, ZeroShot(20, pooling.attributes, dim=128)).train()
optimizer = build("adam", parameter_groups(goal, 1e-3, 1e-4))
images = torch.randint(0, 256, (64, 3, 32, 32), dtype=torch.uint8)
labels = torch.arange(64) // 4
for line in sys.stdin:
    begin = time.process_time()
    for _ in range({STEPS}):
        optimizer.zero_grad(set_to_none=True)
        goal(images, labels).backward()
        optimizer.step()
    print((time.process_time() - begin) / {STEPS}, flush=True)
"""


def worker(folder: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", WORKER],
        env=environment,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def turn(process: subprocess.Popen[str]) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    print("step", file=process.stdin, flush=True)
    return float(process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--turns", type=int, default=10)
    args = parser.parse_args()
    ours, theirs = (worker(folder.resolve()) for folder in (Path(__file__).parents[1], args.against))
    with ours, theirs:
        turn(ours)  # the first steps allocate
        turn(theirs)
        taken = [(turn(ours), turn(theirs)) for _ in range(args.turns)]
        for process in (ours, theirs):
            assert process.stdin is not None
            process.stdin.close()
    ratios = sorted(their_s / our_s for our_s, their_s in taken)
    our_ms, their_ms = (1e3 * statistics.median(column) for column in zip(*taken, strict=True))
    print(
        f"a step: ours {our_ms:.1f} ms, theirs {their_ms:.1f} ms; theirs / ours "
        f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}) in {len(ratios)} turns"
    )


if __name__ == "__main__":
    main()

"""Change one line of a copy of the package at a time; some test of the named files has to fail.

python tests/mutations.py [part of a title …]     exit code 1 when a mutation survives
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = ("dmltune", "tests", "search_spaces", "pyproject.toml")


@dataclass(frozen=True)
class Mutation:
    """`before` occurs once in dmltune/core/`file`; `tests` are below tests/core."""

    title: str
    file: str
    before: str
    after: str
    tests: str

    def apply(self, package: Path) -> None:
        path = package / "core" / self.file
        text = path.read_text()
        if text.count(self.before) != 1:
            raise SystemExit(f"{self.title}: {path.name} holds {text.count(self.before)} × {self.before!r}")
        path.write_text(text.replace(self.before, self.after))


CCP, OBJECTIVE, SFT = "references/ccp.py", "objective.py", "transforms/sft.py"
PROXIMAL = "self.proximal_weight / 2 * (weights_W - self.anchor_W)"
MUTATIONS = (
    Mutation("the proximal term has the other sign", CCP, PROXIMAL, f"-{PROXIMAL}", "test_objective.py"),
    Mutation(
        "the proximal term is ten times as large", CCP, PROXIMAL, f"10 * {PROXIMAL}", "test_objective.py"
    ),
    Mutation(
        "the proximal term is never added",
        OBJECTIVE,
        "value = value + self.references.penalty(self.weights_W())",
        "pass",
        "test_objective.py",
    ),
    Mutation(
        "k-center covers from the live proxies",
        CCP,
        "lip(self.best_proxies)",
        "lip(self.proxies)",
        "test_ccp.py",
    ),
    Mutation(
        "the weight of generated features is ignored",
        OBJECTIVE,
        "transform.weight * self.loss(",
        "self.loss(",
        "test_objective.py",
    ),
    Mutation(
        "the (1 − λ) of eq. 5.2.5 is dropped", OBJECTIVE, "(1 - weight) * value", "value", "test_objective.py"
    ),
    Mutation(
        "θ* are the last weights instead of the best",
        CCP,
        "            self.best_W = weights_W.detach().clone()\n            self.stale.zero_()\n        else:",
        "            self.stale.zero_()\n        else:\n            self.best_W = weights_W.detach().clone()",
        "test_ccp.py",
    ),
    Mutation("the batch term of CCP is dropped", CCP, "if self.batch_weight > 0", "if False", "test_ccp.py"),
    Mutation(
        "the weight of the memory term is ignored",
        "references/xbm.py",
        "value + self.weight * remembered",
        "value + remembered",
        "test_xbm.py",
    ),
    Mutation(
        "a score that must be low is taken as high",
        "fit.py",
        "after_validation(run.sign * score,",
        "after_validation(score,",
        "test_fit.py",
    ),
    Mutation(
        "the multiplier of the mass is left out of the transport's gradient",
        "poolings/_transport.py",
        "(pull_BN - multiplier_B1)",
        "pull_BN",
        "test_gsp.py",
    ),
    Mutation(
        "the maximum of GSP + GMP is not added",
        "poolings/gsp.py",
        "pooled_BD + local_BND.amax(1)",
        "pooled_BD",
        "test_gsp_module.py",
    ),
    Mutation(
        "the concave F of metric cross-entropy is dropped",
        "losses/metric_cross_entropy.py",
        "concave(total_B, self.outer, self.power, self.rate).sum()",
        "total_B.sum()",
        "test_every_loss.py",
    ),
    Mutation(
        "the pull that merges the proxies of a class pushes",
        "losses/soft_triple.py",
        "twice_each_pair * (self.tau",
        "-twice_each_pair * (self.tau",
        "test_every_loss.py",
    ),
    Mutation(
        "a sample is a positive pair with itself",
        "geometry.py",
        "same_BB & ~torch.eye(len(labels_B), dtype=torch.bool, device=labels_B.device)",
        "same_BB",
        "test_every_loss.py",
    ),
    Mutation(
        "MAP@R does not stop at rank R",
        "retrieval.py",
        "same_QK & (rank_K <= R_Q.unsqueeze(1))",
        "same_QK",
        "test_retrieval.py",
    ),
    Mutation(
        "recall at a large k ends at the shallow ranks",
        "retrieval.py",
        "if max(ks, default=0) > depth:",
        "if False:",
        "test_retrieval.py",
    ),
    Mutation(
        "a reduction at a plateau does not start the count again",
        "plateau.py",
        "self.reductions + 1, 0",
        "self.reductions + 1, self.stale",
        "test_plateau.py",
    ),
    Mutation(
        "separate queries are their own gallery in validation",
        "fit.py",
        "if (queries_N := run.feed.queries_N) is None:",
        "if (queries_N := run.feed.queries_N) is None or True:",
        "test_plateau.py",
    ),
    Mutation(
        "proxies learn at the rate of the backbone",
        "optimizers.py",
        '"lr": lr * proxy_factor',
        '"lr": lr',
        "test_embedder.py",
    ),
    Mutation(
        "the old centre has no weight (eq. 9)",
        SFT,
        "/ (1 + is_BB.sum",
        "/ (is_BB.sum",
        "test_sft.py",
    ),
)


def survives(mutation: Mutation) -> bool:
    """Return whether the tests pass in a copy with the mutation; they must run, and only fail."""
    with tempfile.TemporaryDirectory() as folder:
        for name in COPIED:
            source, target = ROOT / name, Path(folder) / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        mutation.apply(Path(folder) / "dmltune")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-x",
                "-q",
                "-p",
                "no:cacheprovider",
                f"tests/core/{mutation.tests}",
            ],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": folder, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
        )
    if done.returncode not in (0, 1):
        raise SystemExit(
            f"{mutation.title}: the tests do not run\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done.returncode == 0


def main(chosen: list[str]) -> int:
    """Print a line for every mutation, slowest first to start; return the exit code."""
    mutations = [m for m in MUTATIONS if not chosen or any(part in m.title for part in chosen)]
    begin = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        results = list(zip(mutations, pool.map(survives, mutations), strict=True))
    for mutation, alive in results:
        print(f"{'SURVIVED' if alive else 'killed':8}  {mutation.title}  ({mutation.tests})")
    survivors = sum(alive for _, alive in results)
    print(f"{len(results) - survivors} of {len(results)} killed in {time.perf_counter() - begin:.0f} s")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

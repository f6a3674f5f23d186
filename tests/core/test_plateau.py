"""Learning rates that fall when the validation no longer improves, and separate queries in validation."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch

from dmltune.core import checkpoint
from dmltune.core.fit import Run, Schedule, fit
from dmltune.core.plateau import Plateau
from dmltune.core.retrieval import retrieval_metrics

SCORES = [5, 6, 6, 5, 7, 6, 6, 6, 6, 8, 7, 7]


def reductions_by_hand(scores: list[float], patience: int) -> list[int]:
    """After each validation: how many runs of `patience` validations without a new best there were."""
    counts, best, waited, reductions = [], float("-inf"), 0, 0
    for score in scores:
        waited = 0 if score > best else waited + 1
        best = max(best, score)
        if waited == patience:
            waited, reductions = 0, reductions + 1
        counts.append(reductions)
    return counts


@pytest.mark.parametrize("patience", [1, 2, 4])
def test_every_so_many_validations_without_improvement_are_one_reduction(patience: int) -> None:
    plateau, best, seen = Plateau(patience), float("-inf"), []
    for score in SCORES:
        plateau.count_validation(score > best)
        best = max(best, score)
        seen.append(plateau.reductions)
    assert seen == reductions_by_hand(SCORES, patience)
    assert seen[-1] > 0


def test_without_a_patience_nothing_is_reduced() -> None:
    plateau = Plateau()
    for _ in range(20):
        plateau.count_validation(False)
    assert plateau.reductions == 0


def rates(run: Run) -> list[float]:
    return [group["lr"] for group in run.optimizer.param_groups]


def test_rates_fall_by_the_decay_and_a_resumed_run_goes_on_alike(toy: ModuleType, tmp_path: Path) -> None:
    schedule = Schedule(max_steps=12, validate_every=1, plateau=2, decay=0.5, milestones=(7,))
    run = toy.run("batch", schedule)
    first, seen, scores, state = rates(run)[0], [], [], None
    for progress in fit(run):
        scores.append(progress.score)
        seen.append(rates(run)[0] / first)  # of the step before this validation
        if progress.step == 5:
            checkpoint.save(tmp_path, *run.state())
            state = checkpoint.load(tmp_path)
    reductions = [0, *reductions_by_hand(scores, 2)[:-1]]
    assert seen[1:] == pytest.approx([0.5 ** (r + (step >= 7)) for step, r in enumerate(reductions[1:])])
    assert reductions[5] < reductions[-1]
    again = toy.run("batch", schedule)
    assert state is not None
    again.restore(*state)
    list(fit(again))
    assert rates(again) == rates(run)
    assert again.plateau == run.plateau
    old = {name: value for name, value in state[1].items() if name != "plateau"}
    again.restore(state[0], old)  # of a version without plateaus
    assert again.plateau.reductions == 0


def test_separate_queries_are_measured_against_the_gallery(toy: ModuleType) -> None:
    feed = toy.ToyFeed()
    feed.queries_N = torch.arange(23) % 3 == 0
    run = toy.run("batch", Schedule(max_steps=1, validate_every=1), feed=feed, dtype=torch.float64)
    first = next(iter(fit(run)))
    embedder = run.objective.embedder.eval()
    batches = list(feed.validation())
    with torch.no_grad():
        emb_ND = torch.cat([embedder(images) for images, _ in batches])
    labels_N, query_N = torch.cat([labels for _, labels in batches]), feed.queries_N
    expected = retrieval_metrics(emb_ND[query_N], labels_N[query_N], emb_ND[~query_N], labels_N[~query_N])
    together = retrieval_metrics(emb_ND, labels_N)
    assert first.metrics["map_at_r"] == pytest.approx(expected["map_at_r"], abs=1e-12)
    assert first.metrics["map_at_r"] != pytest.approx(together["map_at_r"], abs=1e-3)

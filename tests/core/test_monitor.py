"""Images measured between validations: their score alone ends projections; scores and best weights stay."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from dmltune.core import checkpoint
from dmltune.core.fit import Options, Run, Schedule, fit
from dmltune.core.retrieval import retrieval_metrics

CCP: dict[str, Any] = {"patience": 1, "proxies": 2, "pool_size": 3, "dropout": 0.3}
SCHEDULE = Schedule(max_steps=24, validate_every=12, monitor_every=3)


def told(run: Run, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float]]:
    """Collect (step, score) of everything that the references of this run get."""
    seen: list[tuple[int, float]] = []
    after = run.objective.references.after_validation

    def noted(score: float, *rest: Any) -> dict[str, float]:
        seen.append((run.step, score))
        return after(score, *rest)

    monkeypatch.setattr(run.objective.references, "after_validation", noted)
    return seen


def test_references_follow_the_monitored_images_and_trials_are_compared_by_all(
    toy: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = toy.run("ccp", SCHEDULE, **CCP)
    seen = told(run, monkeypatch)
    by_hand: dict[int, tuple[float, float]] = {}
    for progress in fit(run):
        embedder = run.objective.embedder.eval()
        if not progress.finished:  # then the best weights are loaded
            images, labels_N = map(torch.cat, zip(*run.feed.validation(), strict=True))
            with torch.no_grad():
                emb_ND = embedder(images)
            part_N = run.feed.monitored_N
            both = (emb_ND, labels_N), (emb_ND[part_N], labels_N[part_N])
            whole, part = (retrieval_metrics(*points)["map_at_r"] for points in both)
            by_hand[progress.step] = whole, part
            assert progress.score == pytest.approx(whole, abs=1e-6)
    assert [step for step, _ in seen] == [3, 6, 9, 12, 15, 18, 21, 24]
    assert dict(seen)[12] == pytest.approx(by_hand[12][1], abs=1e-6)
    assert dict(seen)[12] != pytest.approx(by_hand[12][0], abs=1e-3)
    ends = run.metrics["projection"]
    assert ends >= 3  # with validations alone one projection could have ended: there were two


def test_batch_references_are_not_monitored(toy: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    run = toy.run("batch", SCHEDULE)
    seen = told(run, monkeypatch)
    list(fit(run))
    assert [step for step, _ in seen] == [12, 24]


@pytest.mark.parametrize("options", [Options(), Options(ema=0.9)], ids=["plain", "ema"])
@pytest.mark.parametrize("stop", [7, 12, 17])
def test_it_resumes_bit_for_bit_between_validations(
    toy: ModuleType, tmp_path: Path, stop: int, options: Options
) -> None:
    whole = toy.run("ccp", SCHEDULE, options=options, **CCP)
    list(fit(whole))
    first = toy.run("ccp", SCHEDULE, options=options, **CCP)
    list(fit(first, should_stop=lambda: first.step == stop))
    checkpoint.save(tmp_path, *first.state())
    second = toy.run("ccp", SCHEDULE, options=options, **CCP)
    torch.manual_seed(999)
    second.restore(*checkpoint.load(tmp_path))
    list(fit(second))
    (mine, meta), (theirs, expected) = second.state(), whole.state()
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        assert torch.equal(value, theirs[name]), name
    assert meta["best_score"] == expected["best_score"]
    assert int(mine["model.references.projection"]) >= 3


def test_lambda_is_idle_until_the_second_projection_has_trained(toy: ModuleType) -> None:
    run = toy.run("ccp", Schedule(max_steps=24, validate_every=1), **CCP)
    ended = False
    for progress in fit(run):
        projection, steps = progress.metrics["projection"], progress.metrics["steps_in_projection"]
        trained = projection > 2 or (projection == 2 and steps > 0)
        assert ("references.lambda" in progress.idle) == (not trained)
        ended |= trained
    assert ended


@pytest.mark.parametrize(
    ("kind", "parameters", "idle"),
    [
        ("xbm", {"size": 500, "start_step": 3}, {"references.size"}),
        ("xbm", {"size": 20, "start_step": 3}, set()),
        ("xbm", {"size": 20, "start_step": 9}, {f"references.{k}" for k in ("size", "start_step", "weight")}),
        ("xbm", {"size": 20, "start_step": 3, "weight": 0.0}, {"references.size", "references.start_step"}),
        ("batch", {}, {"optimizer.proxy_factor"}),
    ],
)
def test_parameters_that_did_nothing_are_named(
    toy: ModuleType, kind: str, parameters: dict[str, Any], idle: set[str]
) -> None:
    last = list(fit(toy.run(kind, Schedule(6, 6, milestones=(4,)), **parameters)))[-1]
    of_references = {name for name in last.idle if name.startswith("references.")}
    assert of_references == {name for name in idle if name.startswith("references.")}
    assert "optimizer.proxy_factor" in last.idle
    assert {"zero_shot.ridge", "zero_shot.scale"} <= last.idle.keys()
    assert not {"optimizer.decay", "optimizer.milestones"} & last.idle.keys()  # the rate was lowered at 4
    early = list(fit(toy.run(kind, Schedule(6, 6, milestones=(9,)), **parameters)))[-1]
    assert {"optimizer.decay", "optimizer.milestones"} <= early.idle.keys()


def test_average_pooling_leaves_gsp_nothing_to_vary_but_the_zero_shot_loss_does(toy: ModuleType) -> None:
    def idle(mu: float, zero_shot: bool) -> set[str]:
        parts: dict[str, Any] = {"pooling": ("gsp", {"prototypes": 3, "mu": mu})}
        parts |= {"zero_shot": ("", {})} if zero_shot else {}
        last = list(fit(toy.run("batch", Schedule(1, 1), parts=parts)))[-1]
        return {name for name in last.idle if name.startswith("pooling.")}

    assert idle(1.0, False) == {"pooling.prototypes", "pooling.epsilon", "pooling.iterations"}
    assert idle(1.0, True) == idle(0.3, False) == set()

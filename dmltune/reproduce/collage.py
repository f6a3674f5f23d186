"""The collage study (§5.3.2, Fig. 5.12 a): fifteen poolings, and GSP with the zero-shot loss, with C2.

The backbone starts from one training on single characters at the size they have in a collage. (The text's
starts from classifying CIFAR-100, its test classes included; ours from characters of the training half.)
Every row then trains the space `collage`; the table shows MAP@R on the test classes, whose shared classes no
training has seen either. GSP has the parameters of the text; the other poolings have their defaults.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from dmltune.core.checkpoint import MODEL, replace_file
from dmltune.errors import UserError, nearest
from dmltune.evaluation import evaluate
from dmltune.experiment import Experiment, load_experiment
from dmltune.reproduce.pictures import draw_bars
from dmltune.store import Store, validated_name
from dmltune.train.build import validate_experiment
from dmltune.train.name_claim import claim_name
from dmltune.train.run_series import RunSeries
from dmltune.train.worker_pool import worker_pool

SPACE = "collage"
ZERO_SHOT = "gsp+zero_shot"
ZERO_SHOT_WEIGHT = 0.5
BASELINE = "gap"
POOLINGS = (
    *("gap", "gmp", "gap_gmp", "cbam", "crow", "delf", "gemax", "gemean"),
    *("gsop", "otp", "solar", "smk", "netvlad", "weldon", "gsp"),
)
METHODS = {name: (f"pooling={name}",) for name in POOLINGS} | {
    ZERO_SHOT: ("pooling=gsp", f"zero_shot.weight={ZERO_SHOT_WEIGHT}")
}
PRETRAINING = "pretraining"
PRETRAINING_SPACE = "glyphs"
PRETRAINING_STEPS = 1500
VALIDATIONS = 3  # of a training, after the one of step 0


@dataclass(frozen=True)
class CollageRow:
    """One method. Scores are fractions; `std` is over the seeds (0 for one), `to_gap` is paired by seed."""

    method: str
    seeds: int
    map_at_r: float
    std: float
    to_gap: float | None
    precision_at_1: float
    validation: float


@dataclass(frozen=True)
class CollageResult:
    name: str
    rows: tuple[CollageRow, ...]
    failed: Mapping[str, str]
    stopped: bool
    folder: Path
    test_classes: int
    raw_pixels: float  # MAP@R of the images themselves


def run(
    *,
    name: str = SPACE,
    methods: Sequence[str] = tuple(METHODS),
    seeds: int = 3,
    overrides: Sequence[str] = (),
    steps: int | None = None,
    concurrent: int | None = None,
    store: Store | None = None,
    data_root: Path | None = None,
    address: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> CollageResult:
    """Train what is not done yet, then the table of what was asked for. The same name goes on.

    With weights of your own (`backbone.weights=FILE`) there is no pretraining; CIFAR-100 starts from scratch.
    """
    name, store = validated_name(name), store or Store.at()
    base = experiment(BASELINE, overrides, steps)
    pretrain = base.data.name == "glyph_collage" and base.backbone.weights == "none"
    members = {
        member(method, seed): experiment(method, overrides, steps, seed)
        for seed in range(seeds)
        for method in checked(methods)
    }
    fingerprint = validate_experiment(base, data_root)
    for method in methods:
        validate_experiment(members[member(method, 0)], data_root)
    with claim_name(store, name, base, fingerprint):
        series = RunSeries(store, name, SPACE, base, fingerprint, "reproduction")
        try:
            failed, stopped = _train(series, members, base, pretrain, concurrent, data_root, address, say)
            study = _study(series, members, failed, stopped)
            _write(series, study)
        except BaseException as error:
            series.close("interrupted", f"{type(error).__name__}: {error}".splitlines()[0])
            raise
        series.close(
            "interrupted" if stopped else "complete", "the same command continues" if stopped else ""
        )
        return study


def experiment(method: str, overrides: Sequence[str], steps: int | None, seed: int = 0) -> Experiment:
    """What is trained for one cell of the table, but for the weights it starts from."""
    words = [*overrides, *METHODS[method], f"seed={seed}"]
    if steps is not None:
        words += [f"max_steps={steps}", f"validate_every={-(-steps // VALIDATIONS)}"]
    return load_experiment(SPACE, words).fixed()


def member(method: str, seed: int) -> str:
    return f"{method.replace('+', '-')}-seed{seed}"


def checked(methods: Iterable[str]) -> list[str]:
    found = list(dict.fromkeys(methods))
    for method in found:
        if method not in METHODS:
            hint = nearest(method, METHODS) or "; use " + ", ".join(METHODS)
            raise UserError(f"no pooling '{method}' in this study{hint}")
    return found


def _train(
    series: RunSeries,
    members: Mapping[str, Experiment],
    base: Experiment,
    pretrain: bool,
    concurrent: int | None,
    data_root: Path | None,
    address: str | None,
    say: Callable[[str], None],
) -> tuple[dict[str, str], bool]:
    """(member → why it failed, whether it was stopped)."""
    failed: dict[str, str] = {}
    left = {key: value for key, value in members.items() if series.result(key) is None}
    if not left:
        return failed, False
    say(f"{len(left)} of {len(members)} trainings to do")
    with worker_pool(concurrent=concurrent, address=address, say=say) as team:
        if pretrain and series.result(PRETRAINING) is None:
            first = pretraining(base)
            for key, run_id, report in series.train(team, {PRETRAINING: first}, data_root):
                say(line(key, report))
                if report.failure:
                    raise UserError(f"the pretraining failed: {report.failure}")
                if report.finished:
                    result = {"run_id": run_id, "validation": report.best_score}
                    series.keep(key, result, weights=True)
            if series.result(PRETRAINING) is None:
                return failed, True
        if pretrain:
            weights = series.member_folder(PRETRAINING) / "best" / MODEL
            left = {key: one.with_values({"backbone.weights": str(weights)}) for key, one in left.items()}
        for key, run_id, report in series.train(team, left, data_root):
            if report.failure:
                failed[key] = report.failure
            elif report.finished:
                torch.set_num_threads(team.layout.threads)  # trainings have the other cores
                found = evaluate(
                    run_id, split="test", store=series.store, data_root=data_root, kind="reproduce"
                )
                series.keep(key, {"run_id": run_id, "validation": report.best_score, "test": found})
                say(line(key, report) + f", test {100 * found['map_at_r']:.1f} %")
                continue
            say(line(key, report))
    stopped = any(series.result(key) is None and key not in failed for key in left)
    return failed, stopped


def pretraining(base: Experiment) -> Experiment:
    """Single characters at the size of a tile, with average pooling; the same backbone and kind of loss."""
    words = [
        *(f"data.size={base.data.size // 2}", f"backbone.name={base.backbone.name}"),
        *(f"max_steps={PRETRAINING_STEPS}", f"validate_every={PRETRAINING_STEPS}"),
    ]
    return load_experiment(PRETRAINING_SPACE, words).fixed()


def line(key: str, report: Any) -> str:
    """`gsp-seed0: step 80/240, validation MAP@R 15.4 %`."""
    if report.failure:
        return f"{key} failed: {report.failure}"
    return f"{key}: step {report.step}/{report.max_steps}, validation MAP@R {100 * report.score:.1f} %"


def _study(
    series: RunSeries, members: Mapping[str, Experiment], failed: Mapping[str, str], stopped: bool
) -> CollageResult:
    results = {key: found for key in members if (found := series.result(key)) is not None}
    seeds = {
        method: [seed for seed in range(len(members)) if member(method, seed) in results]
        for method in METHODS
    }

    def scores(method: str, key: str, chosen: Sequence[int]) -> list[float]:
        return [float(results[member(method, seed)]["test"][key]) for seed in chosen]

    rows = []
    for method, mine in seeds.items():
        if not mine:
            continue
        mine_map = scores(method, "map_at_r", mine)
        both = [seed for seed in mine if seed in seeds[BASELINE]]
        pairs = zip(scores(method, "map_at_r", both), scores(BASELINE, "map_at_r", both), strict=True)
        differences = [left - right for left, right in pairs]
        rows.append(
            CollageRow(
                method=method,
                seeds=len(mine),
                map_at_r=statistics.fmean(mine_map),
                std=statistics.stdev(mine_map) if len(mine) > 1 else 0.0,
                to_gap=statistics.fmean(differences) if both else None,
                precision_at_1=statistics.fmean(scores(method, "precision_at_1", mine)),
                validation=statistics.fmean([results[member(method, seed)]["validation"] for seed in mine]),
            )
        )
    rows.sort(key=lambda row: -row.map_at_r)
    any_test: Mapping[str, Any] = next((found["test"] for found in results.values()), {})
    return CollageResult(
        name=series.name,
        rows=tuple(rows),
        failed=failed,
        stopped=stopped,
        folder=series.folder,
        test_classes=int(any_test.get("classes", 0)),
        raw_pixels=float(any_test.get("raw_pixels", {}).get("map_at_r", 0.0)),
    )


def _write(series: RunSeries, study: CollageResult) -> None:
    """`poolings.csv` and `poolings.png` beside the runs and as artifacts of the parent run."""
    if not study.rows:
        return
    table = io.StringIO()
    writer = csv.DictWriter(table, list(asdict(study.rows[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in study.rows)
    replace_file(study.folder / "poolings.csv", table.getvalue().encode())
    draw_bars(
        [(row.method, row.map_at_r, row.std) for row in study.rows],
        BASELINE,
        f"collages: MAP@R on {study.test_classes} test classes",
        study.folder / "poolings.png",
    )
    for file in ("poolings.csv", "poolings.png"):
        series.tracker.log_file(series.parent, study.folder / file)
    series.tracker.log(
        series.parent,
        0,
        {f"test_map_at_r.{row.method.replace('+', '-')}": row.map_at_r for row in study.rows},
    )

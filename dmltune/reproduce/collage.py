"""The collage study (§5.3.2, Fig. 5.12 a): poolings, and GSP with the zero-shot loss.

The backbone starts from one training on single characters at the size they have in a collage. The text's
starts from classifying CIFAR-100, its test classes included; ours from characters of the training half.
Every row then trains the space `collage` with C2. The table has MAP@R on the test classes; no training has
seen their shared classes either. GSP has the parameters of the text; the other poolings have their defaults.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.core.checkpoint import MODEL, replace_file
from dmltune.errors import UserError, nearest, readable
from dmltune.evaluation import evaluate
from dmltune.experiment import Experiment, load_experiment
from dmltune.report.formatting import percent
from dmltune.resources import Locations, Resources
from dmltune.runs import CONTINUES, closed_on_error
from dmltune.store import Store, validated_name
from dmltune.train.build import validate_experiment
from dmltune.train.name_claim import claim_name
from dmltune.train.orders import TrialReport
from dmltune.train.run_series import RunSeries, stored_result
from dmltune.train.worker_pool import WorkerPool, worker_pool

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPACE = "collage"
BASELINE = "gap"
POOLINGS = (
    *("gap", "gmp", "gap_gmp", "cbam", "crow", "delf", "gemax", "gemean"),
    *("gsop", "otp", "solar", "smk", "netvlad", "weldon", "gsp"),
)
METHODS: dict[str, tuple[str, ...]] = {name: (f"pooling={name}",) for name in POOLINGS}
METHODS |= {"gsp+zero_shot": ("pooling=gsp", "zero_shot.weight=0.5")}
PRETRAINING = "pretraining"
PRETRAINING_SPACE = "glyphs"
PRETRAINING_STEPS = 1500
VALIDATIONS = 3  # of a training, after the one of step 0
TABLE, PICTURE = "poolings.csv", "poolings.png"

Results = Mapping[tuple[str, int], dict[str, Any]]  # (method, seed) → what its training came to


@dataclass(frozen=True)
class CollageRow:
    """One method. `std` is over the seeds (0 for a single one), `to_gap` is paired by seed."""

    method: str
    seeds: int
    map_at_r: float
    std: float
    to_gap: float | None
    precision_at_1: float
    validation: float


@dataclass(frozen=True)
class CollageResult:
    """The table; `raw_pixels` is MAP@R of the images themselves."""

    name: str
    rows: tuple[CollageRow, ...]
    failed: Mapping[str, str]
    stopped: bool
    folder: Path
    test_classes: int
    raw_pixels: float


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
    log: Callable[[str], None] = lambda text: None,
) -> CollageResult:
    """Train what is not done yet and return the table of these methods.

    The same name continues. There is no pretraining with `backbone.weights=FILE`, nor for CIFAR-100.
    """
    name, locations = validated_name(name), Locations(store or Store.at(), data_root)
    base, methods = experiment(BASELINE, overrides, steps), validated_methods(methods)
    members = {
        (method, seed): experiment(method, overrides, steps, seed)
        for seed in range(seeds)
        for method in methods
    }
    fingerprint = validate_experiment(base, locations)
    for method in methods:
        validate_experiment(members[method, 0], locations)
    folder = locations.store.search_folder(name)
    with claim_name(locations.store, name, base, fingerprint):
        if len(results := read_results(folder, members)) == len(members):  # the run stays as it is
            result = collage_result(name, folder, results, {}, stopped=False)
            write_files(result)
            return result
        series = RunSeries(locations, name, SPACE, base, fingerprint, "reproduction")
        with closed_on_error(series.close):
            failed = _train(series, members, base, Resources(concurrent=concurrent, address=address), log)
            results = read_results(folder, members)
            stopped = any(key not in results and member(*key) not in failed for key in members)
            result = collage_result(name, folder, results, failed, stopped)
            for path in write_files(result):
                series.tracker.log_file(series.parent.run_id, path)
            scores = {f"test_map_at_r.{row.method.replace('+', '-')}": row.map_at_r for row in result.rows}
            series.tracker.log(series.parent.run_id, 0, scores)
        series.close(CONTINUES if stopped else "")
        return result


def experiment(method: str, overrides: Sequence[str], steps: int | None, seed: int = 0) -> Experiment:
    """Return the training of a cell of the table, without the weights it starts from."""
    changes = [*overrides, *METHODS[method], f"seed={seed}"]
    if steps is not None:
        changes += [f"max_steps={steps}", f"validate_every={-(-steps // VALIDATIONS)}"]
    return load_experiment(SPACE, changes).fixed()


def validated_methods(methods: Iterable[str]) -> list[str]:
    chosen = list(dict.fromkeys(methods))
    for method in chosen:
        if method not in METHODS:
            hint = nearest(method, METHODS) or "; use " + ", ".join(METHODS)
            raise UserError(f"no pooling {readable(method)} in this study{hint}")
    return chosen


def _train(
    series: RunSeries,
    members: Mapping[tuple[str, int], Experiment],
    base: Experiment,
    resources: Resources,
    log: Callable[[str], None],
) -> dict[str, str]:
    """Train the members without a result. Return member → reason of its failure."""
    failed: dict[str, str] = {}
    done = read_results(series.folder, members)
    left = {member(*key): trained for key, trained in members.items() if key not in done}
    log(f"{len(left)} of {len(members)} trainings to do")
    with worker_pool(resources, log) as pool:
        if base.data.name == "glyph_collage" and base.backbone.weights == "none":
            if not _pretrain(series, pool, base, log):
                return failed
            weights = series.member_folder(PRETRAINING) / "best" / MODEL
            left = {key: each.with_values({"backbone.weights": str(weights)}) for key, each in left.items()}
        for key, run, report in series.train(pool, left):
            if report.failure:
                failed[key] = report.failure
            elif report.finished:
                at = series.locations
                test = evaluate(
                    run.run_id, split="test", kind="reproduce", store=at.store, data_root=at.data_root
                )
                result = {"run_id": run.run_id, "validation": report.best_score, "test": test}
                series.store_result(key, result)
                log(f"{line(key, report)}, test {100 * test['map_at_r']:.1f} %")
                continue
            log(line(key, report))
    return failed


def _pretrain(series: RunSeries, pool: WorkerPool, base: Experiment, log: Callable[[str], None]) -> bool:
    """Train the weights that the rows start from; False when it was stopped.

    Their task is single characters at the size of a tile, with average pooling.
    """
    if series.result(PRETRAINING) is None:
        changes = [f"data.size={base.data.size // 2}", f"backbone.name={base.backbone.name}"]
        changes += [f"max_steps={PRETRAINING_STEPS}", f"validate_every={PRETRAINING_STEPS}"]
        characters = load_experiment(PRETRAINING_SPACE, changes).fixed()
        for key, run, report in series.train(pool, {PRETRAINING: characters}):
            log(line(key, report))
            if report.failure:
                raise UserError(f"the pretraining failed: {report.failure}")
            if report.finished:
                result = {"run_id": run.run_id, "validation": report.best_score}
                series.store_result(key, result, weights=True)
    return series.result(PRETRAINING) is not None


def line(key: str, report: TrialReport) -> str:
    """Return `gsp-seed0: step 80/240, validation MAP@R 15.4 %`."""
    if report.failure:
        return f"{key} failed: {report.failure}"
    return f"{key}: step {report.step}/{report.max_steps}, validation MAP@R {percent(report.score)} %"


def member(method: str, seed: int) -> str:
    return f"{method.replace('+', '-')}-seed{seed}"


def read_results(folder: Path, members: Iterable[tuple[str, int]]) -> Results:
    """Return the results of the members (method, seed) that are done."""
    results = {key: stored_result(folder, member(*key)) for key in members}
    return {key: result for key, result in results.items() if result is not None}


def collage_result(
    name: str, folder: Path, results: Results, failed: Mapping[str, str], stopped: bool
) -> CollageResult:
    """Return the rows, the best first."""
    methods = dict.fromkeys(method for method, _ in results)
    rows = sorted((_row(method, results) for method in methods), key=lambda row: -row.map_at_r)
    any_test: Mapping[str, Any] = next((result["test"] for result in results.values()), {})
    return CollageResult(
        name=name,
        rows=tuple(rows),
        failed=failed,
        stopped=stopped,
        folder=folder,
        test_classes=int(any_test.get("classes", 0)),
        raw_pixels=float(any_test.get("raw_pixels", {}).get("map_at_r", 0.0)),
    )


def write_files(result: CollageResult) -> list[Path]:
    """Write the table and its picture; return their paths."""
    if not result.rows:
        return []
    text = io.StringIO()
    writer = csv.DictWriter(text, vars(result.rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(vars, result.rows))
    replace_file(result.folder / TABLE, text.getvalue().encode())
    title = f"collages: MAP@R on {result.test_classes} test classes"
    bars = [(row.method, row.map_at_r, row.std) for row in result.rows]
    return [result.folder / TABLE, draw_bars(bars, BASELINE, title, result.folder / PICTURE)]


def draw_bars(rows: Sequence[tuple[str, float, float]], baseline: str, title: str, path: Path) -> Path:
    """Draw (name, share, spread) as horizontal bars in percent, the first on top."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 1.0 + 0.27 * len(rows)), layout="constrained", dpi=150)
    axis: Axes = figure.subplots()
    names = [name for name, _, _ in rows]
    axis.barh(
        range(len(rows)),
        [100 * value for _, value, _ in rows],
        xerr=[100 * spread for _, _, spread in rows],
        color=["#555555" if name == baseline else "#1f77b4" for name in names],
        error_kw={"lw": 0.9, "capsize": 2},
    )
    axis.set_yticks(range(len(rows)), names)
    axis.invert_yaxis()
    axis.set_xlabel("MAP@R, %  (mean and standard deviation over seeds)")
    axis.set_title(title, fontsize=10)
    figure.savefig(path)
    return path


def _row(method: str, results: Results) -> CollageRow:
    own = {seed: result for (name, seed), result in results.items() if name == method}
    scores = {seed: float(result["test"]["map_at_r"]) for seed, result in own.items()}
    base = {s: float(result["test"]["map_at_r"]) for (name, s), result in results.items() if name == BASELINE}
    gaps = [score - base[seed] for seed, score in scores.items() if seed in base]
    return CollageRow(
        method=method,
        seeds=len(own),
        map_at_r=statistics.fmean(scores.values()),
        std=statistics.stdev(scores.values()) if len(own) > 1 else 0.0,
        to_gap=statistics.fmean(gaps) if gaps else None,
        precision_at_1=statistics.fmean(float(result["test"]["precision_at_1"]) for result in own.values()),
        validation=statistics.fmean(float(result["validation"]) for result in own.values()),
    )

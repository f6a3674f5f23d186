"""The collage study (§5.3.2, Fig. 5.12 a): poolings, and GSP with the zero-shot loss.

The backbone starts from one training on single characters at the size they have in a collage. The text's
starts from classifying CIFAR-100, its test classes included; ours from characters of the training half.
Every row then trains the space `collage` with C2. The table has MAP@R on the test classes; no training has
seen their shared classes either. GSP has the parameters of the text; the other poolings have their defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from dmltune.core.checkpoint import MODEL
from dmltune.errors import UserError, nearest, readable
from dmltune.evaluation import evaluate
from dmltune.experiment import Experiment, load_experiment
from dmltune.report.formatting import percent
from dmltune.reproduce.collage_table import (
    BASELINE,
    CollageResult,
    collage_result,
    member,
    read_results,
    write_files,
)
from dmltune.resources import Locations, Resources
from dmltune.runs import CONTINUES
from dmltune.store import Store, validated_name
from dmltune.train.build import validate_experiment
from dmltune.train.name_claim import claim_name
from dmltune.train.orders import TrialReport
from dmltune.train.run_series import RunSeries
from dmltune.train.worker_pool import WorkerPool, worker_pool

SPACE = "collage"
ZERO_SHOT = "gsp+zero_shot"
ZERO_SHOT_WEIGHT = 0.5
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
        try:
            failed = _train(series, members, base, Resources(concurrent=concurrent, address=address), log)
            results = read_results(folder, members)
            stopped = any(key not in results and member(*key) not in failed for key in members)
            result = collage_result(name, folder, results, failed, stopped)
            _log_files(series, result)
        except BaseException as error:
            series.close("interrupted", f"{type(error).__name__}: {error}".splitlines()[0])
            raise
        series.close("interrupted" if stopped else "complete", CONTINUES if stopped else "")
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
                locations = series.locations
                test = evaluate(
                    run.run_id,
                    split="test",
                    store=locations.store,
                    data_root=locations.data_root,
                    kind="reproduce",
                )
                result = {"run_id": run.run_id, "validation": report.best_score, "test": test}
                series.store_result(key, result)
                log(f"{line(key, report)}, test {100 * test['map_at_r']:.1f} %")
                continue
            log(line(key, report))
    return failed


def _pretrain(series: RunSeries, pool: WorkerPool, base: Experiment, log: Callable[[str], None]) -> bool:
    """Train the weights that the rows start from; False when it was stopped."""
    if series.result(PRETRAINING) is None:
        for key, run, report in series.train(pool, {PRETRAINING: pretraining(base)}):
            log(line(key, report))
            if report.failure:
                raise UserError(f"the pretraining failed: {report.failure}")
            if report.finished:
                result = {"run_id": run.run_id, "validation": report.best_score}
                series.store_result(key, result, weights=True)
    return series.result(PRETRAINING) is not None


def pretraining(base: Experiment) -> Experiment:
    """Return a training on single characters at the size of a tile, with average pooling."""
    overrides = [
        *(f"data.size={base.data.size // 2}", f"backbone.name={base.backbone.name}"),
        *(f"max_steps={PRETRAINING_STEPS}", f"validate_every={PRETRAINING_STEPS}"),
    ]
    return load_experiment(PRETRAINING_SPACE, overrides).fixed()


def line(key: str, report: TrialReport) -> str:
    """Return `gsp-seed0: step 80/240, validation MAP@R 15.4 %`."""
    if report.failure:
        return f"{key} failed: {report.failure}"
    return f"{key}: step {report.step}/{report.max_steps}, validation MAP@R {percent(report.score)} %"


def _log_files(series: RunSeries, result: CollageResult) -> None:
    """Write the table and its picture, and log them with the scores in the parent run."""
    for path in write_files(result):
        series.tracker.log_file(series.parent.run_id, path)
    scores = {f"test_map_at_r.{row.method.replace('+', '-')}": row.map_at_r for row in result.rows}
    series.tracker.log(series.parent.run_id, 0, scores)

"""`dmltune check` as a user runs it: killed, continued with more, shown again, a second one, stopped."""

from __future__ import annotations

import itertools
import json
import signal
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
import torch
from support.driving import Place, kill
from support.finished_search import finished_search

from dmltune.cli import main
from dmltune.core.analysis import distance_histograms
from dmltune.data import catalog
from dmltune.ledger import FILE, Ledger
from dmltune.store import Store
from dmltune.train.measurement import read_measurement

SEEDS = ((1000, 1001), (2000, 2001))  # of the two folds
KEYS = ("winner", "reference", "baseline")


@pytest.fixture(scope="module")
def search(place: Place, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = finished_search(tmp_path_factory)
    found.copy(place.store)
    assert not (place.store / FILE).exists()  # a search opens nothing
    return found.result


def artifacts(place: Place, run: Any) -> set[str]:
    client = mlflow.MlflowClient(f"sqlite:///{place.store / 'mlflow.db'}")
    return {file.path for file in client.list_artifacts(run.info.run_id)}


def precision_by_loops(emb_ND: torch.Tensor, labels: list[int]) -> tuple[list[float], list[int]]:
    """(average precision, nearest neighbour) of every point among all others."""
    points, precisions, nearest = emb_ND.double().numpy(), [], []
    for q in range(len(points)):
        distance = ((points - points[q]) ** 2).sum(1)
        order = [g for g in np.argsort(distance, kind="stable").tolist() if g != q]
        r = labels.count(labels[q]) - 1
        hits, total = 0, 0.0
        for place, g in enumerate(order[:r], start=1):
            if labels[g] == labels[q]:
                hits += 1
                total += hits / place
        precisions.append(total / r if r else float("nan"))
        nearest.append(order[0])
    return precisions, nearest


def test_a_check_is_killed_continued_with_more_repeats_and_repeats_nothing(
    place: Place, search: dict[str, Any]
) -> None:
    words = ("check", "birds", "--folds", "2", "--concurrent", "1", "-f", "json")
    driver = place.start(*words, "--repeats", "1")
    driver.wait_for(lambda: driver.text.count(": done after 8 steps") >= 2, "two models trained")
    kill(driver.process)
    driver.finish()
    (killed,) = Ledger(Store(place.store)).entries("birds")
    assert (killed.kind, killed.check) == ("check", "birds-check")
    before = place.runs("birds-check")
    done = {name for name, run in before.items() if run.info.status == "FINISHED"}
    assert len(done) >= 2
    assert not any("test" in key for run in before.values() for key in run.data.metrics)  # not shown yet

    code, out, errors = place.run(*words, "--repeats", "2")
    assert code == 0, errors
    assert not [name for name in done if name in errors]
    document = json.loads(out)
    after = place.runs("birds-check")
    keys = [row["key"] for row in document["configurations"]]
    assert set(keys) <= set(KEYS)
    assert "baseline" in keys
    members = {f"{key}-fold{fold}-seed{seed}" for key in keys for fold in (0, 1) for seed in SEEDS[fold]}
    assert set(after) == {"parent", *members}
    assert {run.info.status for run in after.values()} == {"FINISHED"}
    for name in members:
        assert place.steps(after[name]) == [0, 4, 8]  # none twice
        assert after[name].data.tags["mlflow.parentRunId"] == after["parent"].info.run_id
    for name in done:
        assert after[name].info.end_time == before[name].info.end_time
    check_document(place, document, search, after)

    tags = after["parent"].data.tags
    assert (tags["dmltune.role"], tags["dmltune.checked"]) == ("check", "birds")
    assert {"check.json", "report.html", FILE} <= artifacts(place, after["parent"])
    assert json.loads((place.store / "searches" / "birds-check" / "check.json").read_text()) == document
    openings = [entry.to_dict() for entry in Ledger(Store(place.store)).entries()]
    assert document["openings"] == openings
    assert [one["kind"] for one in openings] == ["check", "check"]
    assert not document["again"]  # the killed session showed nothing

    driver = place.start("check", "birds")  # asked again: as many as before, nothing new
    code, out = driver.finish()
    assert code == 0, driver.text
    assert "nothing was trained, and no test class was read" in out
    assert not driver.workers()
    assert max(len(line) for line in out.splitlines()) <= 80
    assert Ledger(Store(place.store)).entries()[-1].kind == "shown again"
    assert {name: run.info.end_time for name, run in place.runs("birds-check").items()} == {
        name: run.info.end_time for name, run in after.items()
    }

    code, out, errors = place.run("check", "birds", "max_steps=4")
    assert code == 2
    assert "max_steps: 8 → 4. Choose another --name" in errors


def check_document(
    place: Place, document: dict[str, Any], search: dict[str, Any], found: dict[str, Any]
) -> None:
    """Every figure again, from the points alone, by loops."""
    test = catalog.load("glyphs", "test").first_classes(40)
    labels = test.labels_N.tolist()
    assert (document["test_images"], document["test_classes"]) == (len(test), 40)
    assert (document["data"], document["fingerprint"]) == ("glyphs", test.fingerprint)
    assert (document["protocol"], document["folds"], document["repeats"]) == ("fair", 2, 2)
    assert (document["search"], document["baseline"], document["stopped"]) == ("birds", "baseline", False)
    assert document["queries_without_match"] == sum(labels.count(label) == 1 for label in labels)
    folder = place.store / "searches" / "birds-check" / "trials"
    mean_AP: dict[str, np.ndarray[Any, Any]] = {}
    for row in document["configurations"]:
        precisions, taken = [], []
        for model in row["models"]:
            emb = read_measurement(folder / model["member"], "emb")[0]["emb"]
            precision, nearest = precision_by_loops(emb, labels)
            precisions.append(precision)
            taken += [(labels[q], labels[g]) for q, g in enumerate(nearest) if labels[q] != labels[g]]
            assert model["test"]["map_at_r"] == pytest.approx(np.nanmean(precision), abs=1e-6)
            right = [labels[g] == labels[q] for q, g in enumerate(nearest)]
            assert model["test"]["precision_at_1"] == pytest.approx(np.mean(right), abs=1e-6)
            run = found[model["member"]]
            assert model["run_id"] == run.info.run_id
            assert run.data.metrics["test_map_at_r"] == pytest.approx(model["test"]["map_at_r"])
            assert run.data.metrics["best_map_at_r"] == pytest.approx(model["validation"])
            assert model["member"] == f"{row['key']}-fold{model['fold']}-seed{model['seed']}"
        mean_AP[row["key"]] = np.mean(precisions, axis=0)
        scores = [model["test"]["map_at_r"] for model in row["models"]]
        assert row["single"]["map_at_r"]["mean"] == pytest.approx(np.mean(scores))
        check_ensemble(row, folder, labels)
        counts = {pair: taken.count(pair) for pair in set(taken)}
        assert document["confusions"][row["key"]][0]["count"] == max(counts.values())
        classes = document["per_class"][row["key"]]
        for label in (0, 7, 39):
            mine = [mean_AP[row["key"]][q] for q in range(len(labels)) if labels[q] == label]
            assert classes[label] == pytest.approx(np.mean(mine), abs=1e-6)
    _, positive, negative = distance_histograms(emb, torch.tensor(labels))
    total = document["distances"][row["key"]]
    assert sum(total["positive"]) == int(positive.sum()) * 4
    assert sum(total["negative"]) == int(negative.sum()) * 4
    for row in document["configurations"]:
        if row["key"] == "baseline":
            assert row["versus_baseline"] is None
        else:
            gap = np.nanmean(mean_AP[row["key"]]) - np.nanmean(mean_AP["baseline"])
            assert row["versus_baseline"]["difference"] == pytest.approx(
                gap, abs=0.02
            )  # classes may weigh alike
            assert row["versus_baseline"]["p_holm"] >= row["versus_baseline"]["p"]
    score = document["search_score"]
    done = [r["best"] for r in search["rows"] if r["role"] != "baseline" and r["state"] == "complete"]
    assert (score["metric"], score["n"]) == ("map_at_r", len(done))
    assert score["observed"] == pytest.approx(max(done))
    assert score["corrected"] <= score["observed"]


def check_ensemble(row: dict[str, Any], folder: Path, labels: list[int]) -> None:
    """One model of every fold, all four collections."""
    found = row["ensemble"]["map_at_r"]
    assert (found["collections"], found["dim"]) == (4, 256)
    scores = []
    for seeds in itertools.product(*SEEDS):
        names = [f"{row['key']}-fold{fold}-seed{seed}" for fold, seed in enumerate(seeds)]
        emb = torch.cat([read_measurement(folder / name, "emb")[0]["emb"] for name in names], dim=1)
        scores.append(np.nanmean(precision_by_loops(emb, labels)[0]))
    assert found["mean"] == pytest.approx(np.mean(scores), abs=1e-6)


def test_a_second_check_is_shown_as_such_and_ctrl_c_says_how_to_go_on(
    place: Place, search: dict[str, Any]
) -> None:
    words = ("check", "birds", "--folds", "1", "--repeats", "1", "--concurrent", "1", "--name", "second")
    driver = place.start(*words, "-f", "json")
    driver.wait_for(lambda: "-fold0-seed1000: step 0/8" in driver.text, "a model under way")
    driver.process.send_signal(signal.SIGINT)
    code, out = driver.finish()
    assert code == 130, driver.text
    assert "Traceback" not in driver.text + out
    document = json.loads(out)
    assert document["stopped"]
    assert document["again"]  # the first check showed its table
    assert document["openings"][0]["check"] == "birds-check"
    assert document["openings"][-1]["check"] == "second"
    assert "RUNNING" not in {run.info.status for run in place.runs("second").values()}
    assert not driver.alive()

    code, out, errors = place.run(*words)
    assert code == 0, errors
    assert "had been opened" in " ".join(out.split())


def test_what_cannot_be_checked_is_one_line(
    place: Place, search: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    def check(*words: str) -> tuple[int, str, str]:
        code = main(["check", *words, "--store", str(place.store)])
        return code, *capsys.readouterr()

    mistakes = {
        ("bird",): "no search 'bird' in this store; did you mean 'birds'?",
        ("birds-check",): "dmltune check needs a search; 'birds-check' is a check",
        (
            "birds",
            "--top",
            "9",
            "--name",
            "x",
        ): "--top must be at most 4, the complete trials of 'birds'; got 9",
        ("birds", "--folds", "5", "--name", "x"): "--folds must be 1 to 4 under protocol fair; got 5",
        ("birds", "references.proxies=2", "--name", "x"): "the configurations differ in references.proxies",
        ("birds", "--repeats", "0"): "must be a whole number of at least 1; got 0",
    }
    openings = Ledger(Store(place.store)).entries()
    for words, message in mistakes.items():
        code, out, errors = check(*words)
        assert (code, out) == (2, ""), errors
        assert message in errors
        assert len(errors.splitlines()) == 1
    code, out, _ = check("birds", "--top", "2", "--name", "x", "--dry-run", "--fair-baseline", "-f", "json")
    plan = json.loads(out)
    assert code == 0
    assert plan["baseline_search"] == ["optimizer.lr"]
    assert (plan["protocol"], plan["folds"], plan["repeats"], plan["trained"]) == ("fair", 4, 3, 0)
    assert len(plan["members"]) == 12 * len(plan["configurations"])
    assert Ledger(Store(place.store)).entries() == openings  # nothing was opened

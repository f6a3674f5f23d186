"""The collage study as a user runs it: killed, continued, nothing trained twice; its table."""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path

import pytest
from data import tiny_layouts
from safetensors.torch import save_file
from support.driving import Place, kill
from support.stores import new_store

from dmltune.core import components
from dmltune.core.backbones import load
from dmltune.errors import UserError
from dmltune.reproduce import figures
from dmltune.reproduce.figures import collage
from dmltune.reproduce.study_run import StudyOptions, StudyOutcome, run_study
from dmltune.resources import Locations, Resources
from dmltune.store import Store
from dmltune.tracking import Tracker


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Weights of its own spare the pretraining."""
    weights = tmp_path_factory.mktemp("weights") / "backbone.safetensors"
    save_file(load("resnet20").state_dict(), weights)
    sizes = ("data.classes=18", "batch.size=16", "embedding.dim=16", "data.size=16")
    return (*sizes, f"backbone.weights={weights}", "--rows", "gap,gmp", "--seeds", "1")


def test_after_a_killed_driver_the_same_command_trains_nothing_again(
    place: Place, small: tuple[str, ...]
) -> None:
    words = (
        "reproduce",
        "collage",
        *small,
        "max_steps=60",
        "validate_every=20",
        "--concurrent",
        "1",
        "--name",
        "killed",
    )
    driver = place.start(*words, "-f", "json")
    driver.wait_for(lambda: "gmp-seed0: step 20/60" in driver.text, "a second training under way")
    kill(driver.process)
    driver.finish()
    before = place.runs("killed")
    assert before["gap-seed0"].info.status == "FINISHED"
    assert before["gmp-seed0"].info.status == "RUNNING"

    code, out, errors = place.run(*words, "-f", "json")
    assert code == 0, errors
    assert "gap-seed0" not in errors
    assert "gmp-seed0: step 0/60" not in errors  # it went on from its checkpoint
    after = place.runs("killed")
    assert set(after) == {"parent", "gap-seed0", "gmp-seed0"}
    assert {run.info.status for run in after.values()} == {"FINISHED"}
    assert after["gap-seed0"].info.end_time == before["gap-seed0"].info.end_time
    for member in ("gap-seed0", "gmp-seed0"):
        assert place.steps(after[member]) == [0, 20, 40, 60]
        assert after[member].data.tags["mlflow.parentRunId"] == after["parent"].info.run_id

    document = json.loads(out)
    rows = document["tables"][0]["rows"]
    assert {row["pooling"] for row in rows} == {"gap", "gmp"}
    for row in rows:
        member = after[f"{row['pooling']}-seed0"]
        assert row["MAP@R"] == pytest.approx(member.data.metrics["test_map_at_r"])
    folder = Path(document["folder"])
    with open(folder / "poolings.csv", newline="") as table:
        assert [row["method"] for row in csv.DictReader(table)] == [r["pooling"] for r in rows]
    assert (folder / "poolings.png").read_bytes().startswith(b"\x89PNG")

    parent = place.runs("killed")["parent"]
    driver = place.start(*words, "-f", "json")  # a third time: only the table, without Ray
    code, repeated = driver.finish()
    assert code == 0
    assert json.loads(repeated) == document
    assert not driver.workers()
    unchanged = place.runs("killed")["parent"]
    assert (unchanged.data.tags, unchanged.info.end_time) == (parent.data.tags, parent.info.end_time)

    code, _, errors = place.run(*words, "loss.neg_margin=0.7")
    assert code == 2
    assert "loss.neg_margin: 0.5 → 0.7" in errors


def test_ctrl_c_stops_cleanly_and_says_that_the_command_continues(
    place: Place, small: tuple[str, ...]
) -> None:
    words = ("reproduce", "collage", *small, "max_steps=3000", "--concurrent", "1", "--name", "stopped")
    driver = place.start(*words)
    driver.wait_for(lambda: "gap-seed0: step 0/" in driver.text, "a training under way")
    driver.process.send_signal(signal.SIGINT)
    code, out = driver.finish()
    assert code == 130
    assert "Traceback" not in driver.text + out
    assert "It continues with\n  dmltune reproduce collage" in out
    assert not driver.alive()
    assert "RUNNING" not in {run.info.status for run in place.runs("stopped").values()}


def test_the_study_has_every_pooling_there_is() -> None:
    assert sorted(collage.POOLINGS) == sorted(components.names("poolings"))
    assert set(collage.METHODS) - set(collage.POOLINGS) == {
        *("gsp+zero_shot", "distilled", "otp-8192", "netvlad-8192"),
    }


def test_gsp_has_the_parameters_of_the_text_and_only_one_row_the_zero_shot_loss() -> None:
    data = figures.load("collage").data["glyphs"]
    chosen = {method: data.experiment(changes) for method, changes in collage.METHODS.items()}
    gsp = chosen["gsp"].pooling.parameters
    assert (gsp["prototypes"], gsp["mu"], gsp["epsilon"]) == (64, 0.2, 10.0)
    weights = {method: one.zero_shot.weight for method, one in chosen.items()}
    assert weights == dict.fromkeys(collage.METHODS, 0.0) | {"gsp+zero_shot": 0.5}
    for method, one in chosen.items():
        changed = {line.split(":")[0].split(".")[0] for line in chosen["gap"].differences(one)}
        assert changed <= {"pooling", "zero_shot"} | ({"embedding"} if "8192" in method else set()), method


def test_an_unknown_pooling_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no row 'netvald' in this figure; did you mean 'netvlad'"):
        run(new_store(tmp_path), StudyOptions(rows=("netvald",)))


def test_another_protocol_is_refused_because_validation_would_see_what_training_shared(
    tmp_path: Path,
) -> None:
    with pytest.raises(UserError, match=r"is made for objective\.protocol ablation; got"):
        run(new_store(tmp_path), StudyOptions(overrides=("objective.protocol=fair",)))


def test_on_cifar_the_backbone_classifies_single_pictures_first_and_a_row_has_no_shared_tiles(
    tmp_path: Path,
) -> None:
    tiny_layouts.cifar100(tmp_path / "cifar-100-binary", each=3)
    store = new_store(tmp_path / "store")
    words = ("data.name=cifar_collage", "optimizer.lr=0.002")
    outcome = run(store, StudyOptions(tiny=True, seeds=1, overrides=words), tmp_path)
    assert not outcome.failed
    assert outcome.data is not None
    assert outcome.data["label"] == "cifar"
    assert {row["pooling"] for row in outcome.tables[0]["rows"]} == {"gap", "distilled"}
    every = Tracker(store).runs("attributes.status = 'FINISHED'")
    runs = {each.info.run_name: each.data.params for each in every}
    found = {name: (values["data.name"], values["data.size"]) for name, values in runs.items()}
    assert found == {
        "collage-pretraining": ("cifar_singles", "8"),
        "collage": ("cifar_collage", "16"),
        "collage-gap-seed0": ("cifar_collage", "16"),
        "collage-distilled-seed0": ("cifar_distilled", "8"),
    }
    assert runs["collage-pretraining"]["loss.name"] == "l2_softmax"
    weights = {runs[f"collage-{method}-seed0"]["backbone.weights"] for method in ("gap", "distilled")}
    assert len(weights) == 1
    assert weights.pop().endswith("trials/pretraining/best/model.safetensors")
    for method in ("gap", "distilled"):
        assert runs[f"collage-{method}-seed0"]["optimizer.lr"] == "0.002"


def run(store: Store, options: StudyOptions, data_root: Path | None = None) -> StudyOutcome:
    resources = Resources(in_process=options.tiny)
    return run_study("collage", options, resources, Locations(store, data_root))

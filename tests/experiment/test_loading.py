"""Files, `extends`, overrides: what an experiment is made of."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dmltune.errors import UserError
from dmltune.experiment import load_experiment, spaces

SHIPPED = ("cub", "cub-ccp", "cub-lite", "cub-lite-ccp", "glyphs", "glyphs-ccp")


def test_every_shipped_space_loads_and_is_listed_with_what_it_is_about() -> None:
    listed = {space.name: space for space in spaces()}
    for name in SHIPPED:
        experiment = load_experiment(name)
        assert listed[name].about == experiment.about != ""
        assert listed[name].searchable == experiment.searchable == name.endswith("-ccp")
        assert not listed[name].error


def test_cub_has_the_settings_of_the_paper() -> None:
    experiment = load_experiment("cub-ccp")
    assert (experiment.data.name, experiment.data.size, experiment.embedding.dim) == ("cub", 227, 128)
    assert experiment.backbone.name == "bn_inception"
    assert experiment.loss.parameters == {"pos_margin": 0.0, "neg_margin": 0.3841}
    assert (experiment.batch.size, experiment.batch.samples_per_class) == (32, 4)
    optimizer = experiment.optimizer
    assert (optimizer.lr, optimizer.weight_decay, optimizer.betas) == (1e-5, 1e-4, (0.9, 0.99))
    assert (experiment.validate_every, experiment.patience) == (25, 40)
    point = {"references.lambda": 2e-4, "references.proxies": 8, "references.pool_size": 12}
    assert dict(experiment.space.reference_point) == point
    assert experiment.space.names == tuple(point)
    assert experiment.space["references.lambda"].log
    baseline = experiment.baseline_experiment()
    assert baseline is not None
    assert baseline.references.name == "batch"


def test_a_child_changes_what_it_says_and_keeps_the_rest(write: Callable[..., Path]) -> None:
    write(
        "base", "data: cub\nloss: {name: contrastive, neg_margin: 0.7}\nmax_steps: 500\nbatch: {size: 32}\n"
    )
    write("mine", "extends: base\nloss: {pos_margin: 0.1}\nbatch: {samples_per_class: 8}\n")
    experiment = load_experiment("mine")
    assert experiment.loss.parameters == {"pos_margin": 0.1, "neg_margin": 0.7}
    assert (experiment.batch.size, experiment.batch.samples_per_class) == (32, 8)
    assert experiment.max_steps == 500


def test_another_component_name_drops_the_parameters_of_the_old_one(write: Callable[..., Path]) -> None:
    write("base", "data: cub\nloss: {name: contrastive, neg_margin: 0.7}\n")
    write("mine", "extends: base\nloss: contrastive_cosine\n")
    assert "neg_margin" not in load_experiment("mine").loss.parameters
    again = load_experiment("mine", ["loss=contrastive"])
    assert again.loss.parameters["neg_margin"] != 0.7


def test_the_same_component_name_keeps_the_parameters(write: Callable[..., Path]) -> None:
    write("mine", "data: cub\nloss: {name: contrastive, neg_margin: 0.7}\n")
    assert load_experiment("mine", ["loss=contrastive"]).get("loss.neg_margin") == 0.7


def test_another_optimizer_keeps_what_all_optimizers_share() -> None:
    experiment = load_experiment("cub", ["optimizer=sgd", "optimizer.momentum=0.8"])
    assert (experiment.optimizer.lr, experiment.optimizer.weight_decay) == (1e-5, 1e-4)
    assert (experiment.optimizer.momentum, experiment.optimizer.betas) == (0.8, None)


def test_overrides_are_applied_in_their_order() -> None:
    experiment = load_experiment(
        "glyphs", ["max_steps=300", "max_steps=400", "loss={neg_margin: 0.8}", "optimizer.betas=[0.8, 0.9]"]
    )
    assert experiment.max_steps == 400
    assert experiment.get("loss.neg_margin") == 0.8
    assert experiment.optimizer.betas == (0.8, 0.9)


def test_a_searched_key_given_on_the_command_line_is_fixed() -> None:
    experiment = load_experiment("cub-ccp", ["references.proxies=4"])
    assert "references.proxies" not in experiment.space.names
    assert "references.proxies" not in experiment.space.reference_point
    assert experiment.get("references.proxies") == 4
    assert experiment.point(experiment.space.reference_point).get("references.proxies") == 4


def test_a_searched_key_given_in_a_child_file_is_fixed(write: Callable[..., Path]) -> None:
    write("mine", "extends: cub-ccp\nreferences: {pool_size: 10}\n")
    assert load_experiment("mine").space.names == ("references.lambda", "references.proxies")


def test_a_replaced_component_takes_its_searched_keys_and_its_rules_along() -> None:
    experiment = load_experiment(
        "glyphs-ccp", ["search.loss.neg_margin={float: [0.2, 0.9]}", "references=batch"]
    )
    assert experiment.space.names == ("loss.neg_margin",)
    assert experiment.require == []
    assert load_experiment("cub-ccp", ["references=batch"]).searchable is False


def test_a_key_can_be_added_to_the_search_and_taken_from_it() -> None:
    added = load_experiment("cub-ccp", ["search.optimizer.lr={float: [1e-6, 1e-4], log: true}"])
    assert added.space.reference_point["optimizer.lr"] == 1e-5
    taken = load_experiment("cub-ccp", ["search.references.lambda=null"])
    assert taken.space.names == ("references.proxies", "references.pool_size")
    changed = load_experiment("cub-ccp", ["search.references.lambda.log=false"])
    assert changed.space["references.lambda"].log is False
    assert changed.space["references.lambda"].low == 1e-5


def test_an_experiment_is_its_own_trial_zero() -> None:
    experiment = load_experiment("cub-ccp", ["reference_point.references.proxies=5"])
    assert experiment.get("references.proxies") == 5
    assert experiment.reference_experiment() == experiment.fixed()


def test_a_name_of_the_user_hides_the_shipped_one_and_can_extend_it(write: Callable[..., Path]) -> None:
    write("glyphs", "extends: glyphs\nmax_steps: 200\n")
    experiment = load_experiment("glyphs")
    assert (experiment.max_steps, experiment.data.name) == (200, "glyphs")


def test_a_path_is_a_name_too_and_extends_is_relative_to_the_file(write: Callable[..., Path]) -> None:
    write("base", "extends: glyphs\nseed: 3\n", folder="elsewhere")
    file = write("mine", "extends: ./base.yaml\nfold: 1\n", folder="elsewhere")
    by_path = load_experiment(file)
    assert (by_path.seed, by_path.fold) == (3, 1)
    assert load_experiment("elsewhere/mine.yaml") == by_path


def test_spaces_list_a_broken_file_with_its_error_and_lose_no_other(write: Callable[..., Path]) -> None:
    write("broken", "a: [1\n")
    write("mine", "about: my birds\nextends: cub-ccp\n")
    listed = {space.name: space for space in spaces()}
    assert listed["broken"].error.startswith("search_spaces/broken.yaml:1:")
    assert (listed["mine"].about, listed["mine"].searchable) == ("my birds", True)
    assert set(SHIPPED) <= set(listed)


def test_listing_spaces_and_jobs_loads_neither_torch_nor_ray() -> None:
    program = (
        "import sys, time; start = time.process_time()\n"
        "from dmltune.experiment import load_job, spaces\n"
        "assert len(spaces()) >= 6; load_job('glyphs-ccp')\n"
        "slow = {'torch', 'ray', 'mlflow', 'optuna', 'numpy'} & set(sys.modules)\n"
        "assert not slow, slow\n"
        "print(time.process_time() - start)"
    )
    seconds = [
        float(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout)
        for _ in range(3)
    ]
    assert min(seconds) < 1.5, seconds  # the import of torch alone takes longer


def test_an_unknown_space_is_told_with_the_nearest_name() -> None:
    with pytest.raises(UserError) as caught:
        load_experiment("glyphs-cpp")
    assert str(caught.value) == "no search space 'glyphs-cpp'; did you mean 'glyphs-ccp'?"


@pytest.mark.parametrize(
    "name", ["", " ", "nowhere/x.yaml", "x.yaml", "a\0b", "..", "/", "glyphs/", "~nobody/x"]
)
def test_a_name_that_is_no_file_is_one_line(name: str) -> None:
    with pytest.raises(UserError) as caught:
        load_experiment(name)
    assert "\n" not in str(caught.value)


def test_the_metrics_that_can_be_searched_for_are_those_that_a_validation_measures() -> None:
    from typing import get_args

    from dmltune.core.fit import MEASURES
    from dmltune.experiment.schema.sections import ObjectiveSettings

    assert set(get_args(ObjectiveSettings.model_fields["metric"].annotation)) == set(MEASURES)

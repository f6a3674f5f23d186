"""Samplers and schedulers are components: found by file name, with parameters from their signatures."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from dmltune.experiment import Experiment, load_experiment

FILE = "search_spaces/mine.yaml"


def test_a_name_alone_and_a_name_with_parameters_are_the_same_form() -> None:
    short, long = (
        load_experiment("cub-ccp", ["sampler=tpe"]),
        load_experiment("cub-ccp", ["sampler={name: tpe}"]),
    )
    assert short == long
    assert short.sampler.parameters == {"startup_trials": None}
    chosen = load_experiment("cub-ccp", ["sampler={name: tpe, startup_trials: 7}"])
    assert chosen.to_dict()["sampler"] == {"name": "tpe", "startup_trials": 7}
    assert load_experiment("cub-ccp", ["sampler=tpe", "sampler.startup_trials=7", "sampler=tpe"]) == chosen
    assert (
        "startup_trials"
        not in load_experiment(
            "cub-ccp", ["sampler=tpe", "sampler.startup_trials=7", "sampler=random"]
        ).to_dict()
    )


@pytest.mark.parametrize("scheduler", ["asha", "none"])
def test_an_experiment_of_an_older_version_names_its_sampler_by_a_text_and_does_not_differ(
    scheduler: str,
) -> None:
    experiment = load_experiment("glyphs-gsp", [f"scheduler={scheduler}", "sampler=gp"])
    old = experiment.to_dict()
    old |= {"sampler": "gp", "scheduler": scheduler}
    del old["data"]["missing"]
    assert Experiment.from_dict(old).differences(experiment) == []
    read = Experiment.from_validated(old)
    assert (read.sampler.name, read.scheduler.name) == ("gp", scheduler)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sampler: tpee", "no 'tpee' in samplers; did you mean 'tpe'?"),
        ("scheduler: {name: ash}", "no 'ash' in schedulers; did you mean 'asha'?"),
        ("sampler: {name: tpe, startup_trails: 3}", "unknown key 'startup_trails' in sampler; did you mean"),
        ("sampler: {name: tpe, startup_trials: 0}", "sampler.startup_trials must be at least 1; got 0."),
        ("search: {sampler.startup_trials: {int: [1, 9]}}", "sampler.startup_trials cannot be searched"),
        ("baseline: {sampler: gp}", "unknown key 'sampler' in baseline"),
    ],
)
def test_a_mistake_in_a_sampler_or_scheduler_is_one_line(
    message: Callable[..., str], text: str, expected: str
) -> None:
    line = message(f"extends: cub-ccp\n{text}\n")
    assert line.startswith(f"{FILE}:2: ")
    assert expected in line


def test_an_experiment_is_loaded_without_optuna_or_ray() -> None:
    program = (
        "import sys; from dmltune.experiment import load_experiment\n"
        "load_experiment('cub-ccp', ['sampler=gp'])\n"
        "loaded = {'ray', 'optuna', 'mlflow'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", program], check=True)

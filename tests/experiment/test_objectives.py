"""Several objectives and cheap fidelities in a file: what is refused, in one line with its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dmltune import load_experiment

FILE = "search_spaces/mine.yaml"
Message = Callable[..., str]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("objective: {against: [ms_per_imag]}", "'ms_per_imag'; did you mean 'ms_per_image'?"),
        ("objective: {against: [parameters, parameters]}", "each cost is written once"),
        ("objective: {against: parameters}", "objective.against must be a list; got the text 'parameters'"),
        (
            "objective: {against: [parameters]}\nsampler: cmaes",
            "sampler cmaes follows one value, and objective.against gives another for every trial. Use auto,",
        ),
        (
            "objective: {against: [parameters]}\nstop_at_noise: true",
            "stop_at_noise looks at the best score alone, and objective.against at a front. Use one of them.",
        ),
        ("fidelity: {max_step: 9}", "unknown key 'max_step' in fidelity; did you mean 'max_steps'?"),
        (
            "fidelity: {trials: 4}",
            "fidelity has no setting that makes a training cheaper. Add 'max_steps: …'",
        ),
        ("fidelity: {max_steps: 100, trials: 3}", "fidelity.trials must be 4 to 100; got 3."),
        ("fidelity: {max_steps: 100, threshold: high}", "fidelity.threshold must be a number; got the text"),
        ("fidelity: {max_steps: 100000000}", "fidelity costs as much as a full training. Lower max_steps or"),
        ("fidelity: {data.size: 1}", "fidelity: data.size must be at least 8; got 1."),
        ("fidelity: {data: {size: 64}}", "fidelity takes dotted keys. Write 'data.size: …'."),
        (
            "objective: {against: [parameters]}\nfidelity: {max_steps: 100}",
            "fidelity chooses points by their cheap score alone, and objective.against does not allow that.",
        ),
    ],
)
def test_a_wrong_objective_is_told(message: Message, text: str, expected: str) -> None:
    line = message(f"extends: cub-ccp\n{text}\n")
    assert line.startswith(f"{FILE}:{1 + len(text.splitlines())}: ")
    assert expected in line


def test_every_trial_of_a_search_on_all_partitions_can_be_trained_on_each_of_them() -> None:
    search = load_experiment("glyphs-ccp", ["objective.folds=3"])
    baseline = search.baseline_experiment()
    assert baseline is not None
    for trial in (search.reference_experiment(), baseline):
        assert [trial.with_values({"fold": fold}).fold for fold in range(3)] == [0, 1, 2]

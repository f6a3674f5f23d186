"""Random mixtures of good and bad lines and overrides: an experiment, or one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dmltune.errors import UserError
from dmltune.experiment import load_experiment

SNIPPETS = [
    *(
        "extends: cub-ccp",
        "data: glyphs",
        "loss:",
        "  name: contrastive",
        "  neg_margin: 0.5",
        "references: ccp",
    ),
    *(
        "search:",
        "  references.lambda: {float: [1, 2], log: true}",
        "  loss.name: {choice: [a, contrastive]}",
    ),
    *(
        "require: loss.neg_margin > 0",
        "reference_point:",
        "  references.lambda: 1.5",
        "baseline: {loss: contrastive}",
    ),
    *(
        "  ",
        "- 1",
        "batch: {size: 8}",
        "\tx: 1",
        "trials: .inf",
        "search: null",
        "loss: null",
        "reference_point: []",
    ),
    *(
        "baseline: null",
        "require: [1, a]",
        "fold: true",
        "  when: {loss.name: [a, 1]}",
        "objective: {metric: x}",
    ),
]


OVERRIDES = [
    *(
        "search=1",
        "search.a=1",
        "search.loss.name={choice: [contrastive, 1]}",
        "search={}",
        "reference_point=3",
    ),
    *(
        "reference_point.loss.name=x",
        "baseline.loss=1",
        "require=1",
        "require=[[]]",
        "loss=null",
        "loss=[]",
        "data=1",
    ),
    *(
        "references=batch",
        "references.lambda=1",
        "search.references.lambda.log=2",
        "optimizer=null",
        "a.b.c=1",
        "=",
        "x",
    ),
    *(
        "search.references.lambda.float=null",
        "search.references.lambda=null",
        "batch=",
        "backbone={name: 1}",
        "pooling=",
    ),
    *(
        "search.loss=1",
        "search.loss.neg_margin={float: [0, 1], when: {loss.name: contrastive}}",
        "baseline=x",
        "loss=x/y",
    ),
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(SNIPPETS), max_size=7), st.lists(st.sampled_from(OVERRIDES), max_size=3))
def test_no_mixture_of_lines_and_overrides_ends_in_anything_but_one_line(
    write: Callable[..., Path], lines: list[str], overrides: list[str]
) -> None:
    write("mine", "\n".join(lines))
    line = ""
    try:
        experiment = load_experiment("mine", overrides)
        assert type(experiment).from_dict(experiment.to_dict()) == experiment
    except UserError as error:
        line = str(error)
    assert "\n" not in line

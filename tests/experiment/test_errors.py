"""Bad input of every kind: one line with place, rule, value and remedy, and never another exception."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dmltune.errors import UserError
from dmltune.experiment import load_experiment

FILE = "search_spaces/mine.yaml"


Message = Callable[..., str]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "extends: cub\nreferences: {name: ccp}\nlos: x\n",
            f"{FILE}:3: unknown key 'los'; did you mean 'loss'?",
        ),
        (
            "extends: cub\nreferences:\n  name: ccp\n  lamda: 1\n",
            f"{FILE}:4: unknown key 'lamda' in references; did you mean 'lambda'?",
        ),
        ("extends: cub\nbatch: {sise: 4}\n", f"{FILE}:2: unknown key 'sise' in batch; did you mean 'size'?"),
        (
            "extends: cub\nloss: contrastve\n",
            f"{FILE}:2: no 'contrastve' in losses; did you mean 'contrastive'?",
        ),
        ("extends: cub\nreferences: ccb\n", f"{FILE}:2: no 'ccb' in references; did you mean 'ccp'?"),
        (
            "extends: cub\nbackbone: resnet21\n",
            f"{FILE}:2: no 'resnet21' in backbones; did you mean 'resnet20'?",
        ),
        ("extends: cub\ndata: {name: club}\n", f"{FILE}:2: no data set 'club'; did you mean 'cub'?"),
        ("loss: contrastive\n", f"{FILE}: data is missing. Add 'data: …'."),
        ("data: cub\n", f"{FILE}: loss is missing. Add 'loss: …'."),
        ("data: cub\nloss: {neg_margin: 1}\n", f"{FILE}:2: loss.name is missing. Add 'loss.name: …'."),
        (
            "data: cub\nloss: [contrastive]\n",
            f"{FILE}:2: loss must be a mapping of 'key: value' lines; got the list",
        ),
        (
            "data: cub\nloss:\n",
            f"{FILE}:2: loss must be a mapping of 'key: value' lines; got nothing (null).",
        ),
        ("data: cub\nloss: 3\n", f"{FILE}:2: loss must be a mapping of 'key: value' lines; got 3."),
        (
            "extends: cub\nmax_steps: true\n",
            f"{FILE}:2: max_steps must be a whole number; got true. Write a number",
        ),
        (
            "extends: cub\nmax_steps: 'true'\n",
            f"{FILE}:2: max_steps must be a whole number; got the text 'true'.",
        ),
        ("extends: cub\nmax_steps: '30'\n", "got the text '30'. Write 30 without quotes."),
        (
            "extends: cub\nmax_steps: 30.0\n",
            f"{FILE}:2: max_steps must be a whole number; got 30.0. Write 30.",
        ),
        ("extends: cub\nmax_steps: 1_000\n", "got the text '1_000'. Write 1000 without quotes."),
        ("extends: cub\nmax_steps: 0\n", f"{FILE}:2: max_steps must be at least 1; got 0."),
        ("extends: cub\nfold: -1\n", f"{FILE}:2: fold must be at least 0; got -1."),
        (
            "extends: cub\nfold: 3\n",
            f"{FILE}:2: fold must be below the 3 partitions of protocol ablation; got 3.",
        ),
        ("extends: cub\noptimizer: {lr: true}\n", f"{FILE}:2: optimizer.lr must be a number; got true."),
        ("extends: cub\noptimizer: {lr: 0}\n", f"{FILE}:2: optimizer.lr must be above 0"),
        ("extends: cub\noptimizer: {lr: .inf}\n", f"{FILE}:2: a number must be finite; got .inf."),
        (
            "extends: cub\noptimizer: {betas: [0.9]}\n",
            f"{FILE}:2: optimizer.betas must be a list of two numbers",
        ),
        ("extends: cub\noptimizer: {betas: 0.9}\n", f"{FILE}:2: optimizer.betas must be a list"),
        ("extends: cub\noptimizer: {name: sdg}\n", f"{FILE}:2: no optimizer.name 'sdg'; did you mean 'sgd'?"),
        ("extends: cub\noptimizer: {momentum: 0.9}\n", f"{FILE}:2: optimizer.momentum is for sgd"),
        (
            "extends: cub\nbackbone: {frozen_bn: 1}\n",
            "backbone.frozen_bn must be true or false; got 1. Write true.",
        ),
        (
            "extends: cub\nbackbone: {frozen_bn: yes}\n",
            "must be true or false; got the text 'yes'. Write true.",
        ),
        ("extends: cub\nabout: 3\n", f"{FILE}:2: about must be a text; got 3. Quote it: '3'."),
        (
            "extends: cub\nbatch:\n  size: 30\n",
            f"{FILE}:3: batch.size must be a multiple of batch.samples_per_class; got 30 and 4. Use 28 or 32",
        ),
        ("extends: cub\nbatch: {size: 4}\n", "a batch needs two classes at least"),
        (
            "extends: cub\nmax_steps: 10\n",
            f"{FILE}:2: validate_every must not exceed max_steps; got 25 and 10.",
        ),
        ("extends: cub\nloss: {neg_margin: true}\n", f"{FILE}:2: loss.neg_margin must be a number; got true"),
        ("extends: cub\nloss: {neg_margin: '1'}\n", f"{FILE}:2: loss.neg_margin must be a number; got '1'"),
        ("extends: cub\nloss: {neg_margin: [1]}\n", f"{FILE}:2: loss.neg_margin must be a number"),
        (
            "extends: cub-ccp\nreferences: {patience: 2.5}\n",
            f"{FILE}:2: references.patience must be a whole number",
        ),
        (
            "extends: cub-ccp\nreferences: {batch_weight: -1}\n",
            f"{FILE}:2: references.batch_weight must be at least 0",
        ),
        (
            "extends: cub\nreferences: {name: ccp, proxies: 9, pool_size: 2}\n",
            "pool_size must be at least proxies",
        ),
        ("extends: cub\nsampler: oracle\n", f"{FILE}:2: no 'oracle' in samplers; there are"),
        (
            "extends: cub\nsampler: [gp]\n",
            f"{FILE}:2: sampler must be a mapping of 'key: value' lines; got the list",
        ),
        (
            "extends: cub\nobjective: {mode: min}\n",
            f"{FILE}:2: objective.mode min would search for the worst map_at_r",
        ),
        (
            "extends: cub\nobjective: {protocol: conventional}\nfold: 1\n",
            f"{FILE}:3: fold must be below the 1 partitions of protocol conventional; got 1.",
        ),
        (
            "extends: cub\nloss.neg_margin: 1\n",
            f"{FILE}:2: a dotted key is for search and the command line. Write",
        ),
        ("extends: cub\ntrials: 0\n", f"{FILE}:2: trials must be at least 1; got 0."),
        ("extends: cub\npatience: 0\n", f"{FILE}:2: patience must be at least 1; got 0."),
        ("extends: nothing-there\n", f"{FILE}:1: extends: no search space 'nothing-there'; there are: "),
        ("extends: glyfs\n", f"{FILE}:1: extends: no search space 'glyfs'; did you mean 'glyphs'?"),
        ("extends: a/b.yaml\n", f"{FILE}:1: extends: no file 'a/b.yaml' for a search space"),
        ("extends: [glyphs]\n", f"{FILE}:1: extends must be the name of one space"),
        ("extends: mine\n", f"{FILE}:1: extends goes in a circle: {FILE} → {FILE}. Break it."),
        ("extends: ./mine.yaml\n", f"{FILE}:1: extends goes in a circle"),
        (
            "extends: cub\nbaseline: {referenses: batch}\n",
            "unknown key 'referenses' in baseline; did you mean 'references'?",
        ),
        (
            "extends: cub\nbaseline: {references: bach}\n",
            f"{FILE}:2: baseline: no 'bach' in references; did you mean 'batch'?",
        ),
        ("extends: cub\nbaseline: {search: {}}\n", f"{FILE}:2: unknown key 'search' in baseline"),
        (
            "extends: cub\nbaseline: 3\n",
            f"{FILE}:2: baseline must be a mapping of 'key: value' lines; got 3.",
        ),
        (
            "extends: cub\nsearch: [a]\n",
            f"{FILE}:2: search must be a mapping of 'key: value' lines; got the list [a].",
        ),
        (
            "extends: cub\nreference_point: {loss.neg_margin: 1}\n",
            f"{FILE}:2: reference_point without search",
        ),
        ("extends: cub\nrequire: {a: 1}\n", f"{FILE}:2: require must be a list; got the mapping {{a: 1}}."),
        ("extends: cub\nrequire: [3]\n", f"{FILE}:2: require.0 must be a text; got 3."),
        ("extends: cub\n? ''\n: 1\n", f"{FILE}:2: unknown key ''"),
        ("extends: cub\n'a\\nb': 1\n'x\ny': 1\n", f"{FILE}:"),
    ],
)
def test_a_wrong_file_is_told(message: Message, text: str, expected: str) -> None:
    assert expected.replace("got the list [a]", "got the list ['a']") in message(text)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("loss.margn=1", "unknown key 'margn' in loss; did you mean"),
        (
            "batch.size=30",
            "batch.size must be a multiple of batch.samples_per_class; got 30 and 4. Use 28 or 32.",
        ),
        ("max_steps", "an override is key=value, such as max_steps=300."),
        ("=3", "an override is key=value"),
        ("a..b=3", "a key is names with dots between them"),
        ("max_stepz=3", "unknown key 'max_stepz'; did you mean 'max_steps'?"),
        ("max_steps=", "max_steps must be a whole number; got nothing (null)."),
        ("max_steps=nan", "max_steps must be a whole number; got the text 'nan'."),
        ("max_steps=.nan", "a number must be finite; got .nan."),
        ("max_steps=99999999999999999999", "a whole number must fit 64 bits"),
        ("max_steps=[1", "a bracket or quote is opened here and never closed"),
        ("max_steps.x=1", "max_steps must be a whole number; got the mapping {x: 1}."),
        ("loss.name.x=1", "loss.name must be a text; got the mapping {x: 1}."),
        ("extends=cub", "extends belongs in a file"),
        ("search=3", "search must be a mapping"),
        ("search.references.lambda=3", "search.references.lambda must be {float:"),
        ("search.references.lambda.float=[1, 0.1]", "high must be above low"),
        ("references=a\nb", "no 'a\nb' in references".replace("\n", " ")),
    ],
)
def test_a_wrong_override_is_told_with_the_override(message: Message, override: str, expected: str) -> None:
    line = message("extends: cub-ccp\n", override)
    assert line.startswith(f"override '{' '.join(override.split())}': ")
    assert expected in line


def test_of_two_keys_that_do_not_fit_the_one_written_last_is_blamed(message: Message) -> None:
    text = "extends: cub\nbatch:\n  samples_per_class: 4\n  size: 32\n"
    assert message(text, "batch.samples_per_class=5").startswith(
        "override 'batch.samples_per_class=5': batch.size must"
    )
    assert message("extends: cub\nbatch: {samples_per_class: 5}\n").startswith(f"{FILE}:2: batch.size must")


def test_a_mistake_in_a_base_names_the_base(write: Callable[..., Path], message: Message) -> None:
    write("base", "extends: cub\n\nbatch: {sise: 3}\n")
    assert message("extends: base\nseed: 1\n").startswith(
        "search_spaces/base.yaml:3: unknown key 'sise' in batch"
    )


def test_a_circle_of_three_files_shows_the_way(write: Callable[..., Path], message: Message) -> None:
    write("one", "extends: two\n")
    write("two", "extends: mine\n")
    line = message("extends: one\n")
    assert line.startswith("search_spaces/two.yaml:1: extends goes in a circle: ")
    assert "mine.yaml → search_spaces/one.yaml → search_spaces/two.yaml → search_spaces/mine.yaml" in line


def test_a_file_outside_the_working_directory_is_named_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("extends: cub\nseeds: 1\n")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(UserError) as caught:
        load_experiment(file)
    assert str(caught.value) == f"{file}:2: unknown key 'seeds'; did you mean 'seed'?"

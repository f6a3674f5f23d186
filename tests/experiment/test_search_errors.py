"""Search specifications that cannot be: bounds, choices, conditions, constraints, points. One line each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

FILE = "search_spaces/mine.yaml"
Message = Callable[..., str]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("{float: [1.0, 0.1]}", "loss.neg_margin: high must be above low; got [1.0, 0.1]. Swap them."),
        ("{float: [1.0, 1.0]}", "high must be above low; got [1.0, 1.0]. Fix it outside search instead."),
        ("{float: [0.0, 1.0], log: true}", "log needs low above 0; got [0.0, 1.0]. Raise it or delete log."),
        ("{float: [-1, 1.0], log: true}", "log needs low above 0"),
        ("{float: [0.1]}", "float must be two bounds, [low, high]; got the list [0.1]."),
        ("{float: [0.1, 0.2, 0.3]}", "must be two bounds"),
        ("{float: 0.1}", "must be two bounds, [low, high]; got 0.1."),
        (
            "{float: ['0.1', 1]}",
            "a bound must be a finite number; got the text '0.1'. Write 0.1 without quotes.",
        ),
        ("{float: [true, 1]}", "a bound must be a finite number; got true."),
        ("{float: [null, 1]}", "a bound must be a finite number; got nothing (null)."),
        ("{int: [1.0, 4]}", "the bounds of an int must be whole numbers; got [1.0, 4]. Write 1."),
        (
            "{int: [1.5, 4]}",
            "the bounds of an int must be whole numbers; got [1.5, 4]. Round them, or write float.",
        ),
        ("{flot: [0.1, 1]}", "unknown key 'flot' in search.loss.neg_margin; did you mean 'float'?"),
        ("{float: [0.1, 1], lg: true}", "unknown key 'lg' in search.loss.neg_margin; did you mean 'log'?"),
        ("{float: [0.1, 1], log: 1}", "loss.neg_margin.log must be true or false; got 1."),
        ("{float: [0.1, 1], int: [1, 2]}", "needs exactly one of float, int and choice; got float and int."),
        ("{log: true}", "needs exactly one of float, int and choice"),
        ("{}", "needs exactly one of float, int and choice"),
        (
            "[0.1, 0.9]",
            "must be {float: [0.1, 0.9]}, {int: [1, 16]} or {choice: [a, b]}; got the list [0.1, 0.9].",
        ),
        ("0.5", "must be {float: [0.1, 0.9]}"),
        ("{choice: 0.5}", "choice must be a list, such as [a, b]; got 0.5."),
        ("{choice: [0.5]}", "choice needs at least two values; got [0.5]."),
        ("{choice: [0.3841, 0.3841]}", "the choice 0.3841 is written twice"),
        ("{choice: [0.3841, [1]]}", "a choice must be one plain value; got the list [1]."),
        ("{choice: [0.3841, true]}", "loss.neg_margin must be a number; got true"),
        ("{choice: [0.3841, big]}", "loss.neg_margin must be a number; got 'big'"),
        ("{choice: [0.3841, 1], log: true}", "log is for numbers, not for choices"),
        ("{float: [-0.5, 0.9]}", "loss.neg_margin must be above 0; got -0.5"),
        (
            "{float: [0.5, 0.9]}",
            "trial 0 would take the experiment's own 0.3841, which the bounds leave out.",
        ),
        (
            "{float: [0.1, 0.9], when: loss}",
            "when must be a mapping such as {loss.name: triplet}; got the text 'loss'.",
        ),
        ("{float: [0.1, 0.9], when: {}}", "when must be a mapping"),
        (
            "{float: [0.1, 0.9], when: {los.name: x}}",
            "when: unknown key 'los.name'; did you mean 'loss.name'?",
        ),
        ("{float: [0.1, 0.9], when: {loss: {name: x}}}", "Write dotted keys, such as {loss.name: triplet}."),
        ("{float: [0.1, 0.9], when: {loss.neg_margin: 0.5}}", "wait for each other"),
        (
            "{float: [0.1, 0.9], when: {references.proxies: 99}}",
            "when: references.proxies must lie in its bounds",
        ),
        (
            "{float: [0.1, 0.9], when: {references.proxies: two}}",
            "when: references.proxies must be a whole number",
        ),
    ],
)
def test_a_wrong_search_specification_is_told(message: Message, spec: str, expected: str) -> None:
    line = message(f"extends: cub-ccp\nsearch:\n  loss.neg_margin: {spec}\n")
    assert line.startswith(f"{FILE}:3: ")
    assert expected in line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "search: {references.lamda: {float: [0.1, 1]}}",
            "unknown key 'lamda' in references 'ccp'; did you mean 'lambda'?",
        ),
        ("search: {refs.lambda: {float: [0.1, 1]}}", "search: unknown key 'refs.lambda'"),
        ("search: {seed: {int: [0, 9]}}", "seed cannot be searched"),
        ("search: {data.name: {choice: [cub, glyphs]}}", "data.name cannot be searched"),
        ("search: {data.classes: {int: [10, 90]}}", "data.classes cannot be searched"),
        (
            "search: {references: {lambda: {float: [0.1, 1]}}}",
            "search takes dotted keys. Write 'references.lambda: …'.",
        ),
        (
            "search: {references.patience: {float: [1, 9]}}",
            "references.patience is a whole number. Write int instead",
        ),
        (
            "search: {embedding.dim: {float: [64, 256]}}",
            "embedding.dim is a whole number. Write int instead of float.",
        ),
        ("search: {optimizer.name: {choice: [adam, lion]}}", "no optimizer.name 'lion'"),
        ("search: {loss.name: {choice: [contrastive, tripled]}}", "no 'tripled' in losses"),
        (
            "reference_point: {references.lambda: 5}",
            "references.lambda must lie in its bounds [1e-05, 0.1]; got 5.",
        ),
        ("reference_point: {references.proxies: 2.5}", "references.proxies must be a whole number; got 2.5."),
        (
            "reference_point: {references.proxies: true}",
            "references.proxies must be a whole number; got true.",
        ),
        (
            "reference_point: {references.proxes: 2}",
            "'references.proxes' is not searched; did you mean 'references.proxies'?",
        ),
        (
            "reference_point: {references: {proxies: 2}}",
            "reference_point takes dotted keys. Write 'references.proxies: …'.",
        ),
        ("reference_point: {references.proxies: 16}", "pool_size must be at least proxies; got 12 and 16."),
        (
            "require: references.pool_size > 100",
            "require: references.pool_size > 100 does not hold for references.pool_size",
        ),
        ("require: references.pool_sise > 1", "require: unknown key 'references.pool_sise'; did you mean"),
        ("require: [references.pool_size]", "is not a comparison"),
        ("require: loss.name > 3", "values that are no numbers"),
        ("require: references.lambda == 2.0e-4", "none of 1000 random points inside the bounds satisfies"),
    ],
)
def test_a_space_that_cannot_be_searched_is_told_before_the_search(
    message: Message, text: str, expected: str
) -> None:
    line = message(f"extends: cub-ccp\n{text}\n")
    assert line.startswith(f"{FILE}:2: ")
    assert expected in line

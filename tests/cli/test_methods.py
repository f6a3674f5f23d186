"""`dmltune methods`: every component, with what its signature says."""

from __future__ import annotations

import json

import pytest

from dmltune.cli import main
from dmltune.core import components


def test_every_name_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    message = capsys.readouterr().out
    for package in ("losses", "references", "poolings", "transforms", "backbones"):
        assert set(components.names(package)) <= set(message.split())


@pytest.mark.parametrize("words", [[], ["loss"], ["pooling"], ["backbone"]])
def test_it_fits_80_columns(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", *words]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_parameters_have_their_yaml_names_ranges_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "references", "-f", "json"]) == 0
    ccp = json.loads(capsys.readouterr().out)["references"]["ccp"]
    assert ccp["parameters"]["lambda"] == {"default": 0.0002, "range": "at least 0"}
    assert main(["methods", "transform"]) == 0
    assert "form = rotate (one of rotate, degenerate, ftl)" in capsys.readouterr().out


def test_every_method_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "-f", "json"]) == 0
    for methods in json.loads(capsys.readouterr().out).values():
        for name, method in methods.items():
            assert len(method["about"]) > 10, name


def test_an_unknown_section_is_one_line_with_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "losses"]) == 2
    assert capsys.readouterr().err.count("\n") == 1

"""The classifier of head and tail classes: stopped and continued, it is the same; its result is stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.stores import new_store

from dmltune.reproduce.figures._closed_set import Sizes, accuracies
from dmltune.reproduce.figures.sft_table5 import GLYPHS
from dmltune.reproduce.request import FigureRequest, experiment
from dmltune.reproduce.trainings import Trainings
from dmltune.resources import Locations, Resources

SIZES = Sizes(head=4, tail=1, fewest=8)
CHANGES = ("transform={name: sft, scheme: unbalanced, tail_below: 4}", "max_steps=2", "validate_every=1")


class StoppedError(Exception):
    pass


def request(folder: Path, name: str, stop_at: str = "") -> FigureRequest:
    folder.mkdir(exist_ok=True)
    locations = Locations(new_store(folder), None)

    def log(text: str) -> None:
        if stop_at and stop_at in text:
            raise StoppedError

    base = experiment(GLYPHS, True)
    trainings = Trainings("sft-table5", name, base, "", Resources(in_process=True), locations, log)
    return FigureRequest("sft-table5", "glyphs", GLYPHS, 1, (), (), True, locations, log, trainings)


def test_a_training_that_was_stopped_continues_to_the_same_result(tmp_path: Path) -> None:
    chosen = experiment(GLYPHS, True, CHANGES)
    through = accuracies(request(tmp_path / "a", "whole"), "x", chosen, SIZES)
    assert set(through) == {"head", "tail", "all"}
    stopped = request(tmp_path / "b", "parts", stop_at="step 1/2")
    with pytest.raises(StoppedError):
        accuracies(stopped, "x", chosen, SIZES)
    lines: list[str] = []
    continued = replace(stopped, log=lines.append)
    assert accuracies(continued, "x", chosen, SIZES) == through
    assert lines == ["x: step 2/2"]
    assert accuracies(replace(stopped, log=lambda text: pytest.fail(text)), "x", chosen, SIZES) == through
    assert not (continued.folder / "trials" / "x" / "last").exists()

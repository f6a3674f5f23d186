from __future__ import annotations

from pathlib import Path

import pytest

from dmltune.report import formatting


def test_scores_are_written_in_percent_and_what_is_unknown_is_a_dash() -> None:
    assert formatting.percent(0.4512) == "45.1"
    assert formatting.percent(0.021, signed=True) == "+2.1"
    assert formatting.percent(None) == formatting.percent(float("nan")) == "–"


def test_times_are_written_in_two_units_at_most() -> None:
    texts = {0.2: "0s", 59.4: "59s", 59.9: "1m00s", 75: "1m15s", 7500: "2h05m", -3: "0s"}
    assert {seconds: formatting.clock(seconds) for seconds in texts} == texts


def test_a_parameter_is_called_by_its_last_part_unless_another_ends_alike() -> None:
    assert formatting.short_names(["references.lambda", "loss.margin"]) == {
        "references.lambda": "lambda",
        "loss.margin": "margin",
    }
    assert formatting.short_names(["loss.scale", "pooling.scale"]) == {
        "loss.scale": "loss.scale",
        "pooling.scale": "pooling.scale",
    }
    assert (
        formatting.parameters({"loss.name": "triplet", "loss.margin": 0.09610001})
        == "loss=triplet margin=0.0961"
    )


def test_small_numbers_are_written_without_a_padded_exponent() -> None:
    assert formatting.value(1.2345e-05) == "1.23e-5"
    assert formatting.value(3.0e12) == "3e+12"


def test_nan_is_never_better() -> None:
    assert formatting.better("max", 0.2, float("nan"))
    assert not formatting.better("max", float("nan"), 0.2)
    assert formatting.better("min", 0.1, 0.2)
    assert not formatting.better("max", 0.1, 0.2)


@pytest.mark.parametrize(
    ("size", "text"), [(1, "1 kB"), (40_313, "41 kB"), (100_000, "0.1 MB"), (1_189_264, "1.2 MB")]
)
def test_no_file_has_0_megabytes(size: int, text: str, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(bytes(size))
    assert formatting.file_size(file) == text

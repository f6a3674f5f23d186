from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

from dmltune.report.search_figure import draw, varied
from dmltune.search.state import SearchResult, TrialRecord


def size_of_png(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_a_search_becomes_a_picture_with_a_panel_per_parameter_that_varies(
    result: SearchResult, tmp_path: Path
) -> None:
    assert varied([row for row in result.rows if row.best is not None]) == list(result.rows[2].values)
    whole = size_of_png(draw(result, tmp_path / "deep" / "result.png"))
    alone = size_of_png(draw(replace(result, rows=result.rows[:2]), tmp_path / "two.png"))
    assert alone[0] < whole[0]


def test_many_parameters_take_a_second_line_of_panels(result: SearchResult, tmp_path: Path) -> None:
    def drawn(count: int) -> tuple[str, tuple[int, int]]:
        rows = [
            TrialRecord(index, "search", dict.fromkeys(keys, 0.1 + index), "complete", 1, 1, 0.1, 0.1)
            for keys in [[f"loss.p{number}" for number in range(count)]]
            for index in range(2)
        ]
        many = replace(result, rows=tuple(rows))
        text = draw(many, tmp_path / f"{count}.svg").read_text(encoding="utf-8")
        return text, size_of_png(draw(many, tmp_path / f"{count}.png"))

    (_, four), (text, eight) = drawn(4), drawn(8)
    assert all(f"<!-- p{number} -->" in text for number in range(8))
    assert eight[0] == four[0]
    assert eight[1] > 1.5 * four[1]


def test_nothing_to_show_is_still_a_picture(result: SearchResult, tmp_path: Path) -> None:
    for suffix in (".png", ".svg"):
        assert draw(replace(result, rows=()), tmp_path / f"empty{suffix}").stat().st_size > 1000


def test_choices_get_their_names_on_the_axis(result: SearchResult, tmp_path: Path) -> None:
    rows = [
        TrialRecord(index, "search", {"loss.name": name, "flag": bool(index)}, "complete", 1, 1, 0.1, 0.1)
        for index, name in enumerate(("triplet", "margin"))
    ]
    text = draw(replace(result, rows=tuple(rows)), tmp_path / "choices.svg").read_text(encoding="utf-8")
    assert "<!-- triplet -->" in text
    assert "<!-- loss -->" in text


def test_a_logarithmic_axis_has_readable_numbers(result: SearchResult, tmp_path: Path) -> None:
    rows = [
        TrialRecord(index, "search", {"optimizer.lr": lr}, "complete", 1, 1, 0.1, 0.1)
        for index, lr in enumerate((1e-5, 1e-1))
    ]
    text = draw(replace(result, rows=tuple(rows)), tmp_path / "log.svg").read_text(encoding="utf-8")
    assert "<!-- 0.001 -->" in text
    assert "mathdefault" not in text


def test_odd_names_and_choices_are_drawn(result: SearchResult, tmp_path: Path) -> None:
    odd = ("$\\nosuch", "\udcff", "\x1b[0m")
    rows = [
        TrialRecord(index, "search", {"loss.name": name}, "complete", 1, 1, 0.1, 0.1)
        for index, name in enumerate(odd)
    ]
    for suffix in (".png", ".svg"):
        odd_result = replace(result, name="$^_\udcff", rows=tuple(rows))
        assert draw(odd_result, tmp_path / f"odd{suffix}").stat().st_size > 1000


def test_the_same_search_gives_the_same_svg(result: SearchResult, tmp_path: Path) -> None:
    """So that a committed picture changes only when its search does."""
    first, second = (draw(result, tmp_path / f"{name}.svg").read_bytes() for name in "ab")
    assert first == second

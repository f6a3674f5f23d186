from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from dmltune.report.search_figure import draw, varied
from dmltune.search.state import SearchResult, SearchState, TrialRecord


def size_of_png(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_a_search_becomes_a_picture_with_a_panel_per_parameter_that_varies(
    result: SearchResult, board: SearchState, tmp_path: Path
) -> None:
    assert varied([row for row in result.rows if row.best is not None]) == list(result.rows[2].values)
    whole = size_of_png(draw(result, tmp_path / "deep" / "result.png"))
    assert size_of_png(draw(board, tmp_path / "board.png")) == whole
    alone = size_of_png(draw(replace(result, rows=result.rows[:2]), tmp_path / "two.png"))
    assert alone[0] < whole[0]


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_nothing_to_show_is_still_a_picture(result: SearchResult, tmp_path: Path, suffix: str) -> None:
    path = draw(replace(result, rows=()), tmp_path / f"empty{suffix}")
    assert path.stat().st_size > 1000


def test_choices_get_their_names_on_the_axis(result: SearchResult, tmp_path: Path) -> None:
    rows = [
        TrialRecord(index, "search", {"loss.name": name, "flag": bool(index)}, "complete", 1, 1, 0.1, 0.1)
        for index, name in enumerate(("triplet", "margin"))
    ]
    text = draw(replace(result, rows=tuple(rows)), tmp_path / "choices.svg").read_text(encoding="utf-8")
    assert "<!-- triplet -->" in text
    assert "<!-- loss -->" in text


def test_the_same_search_gives_the_same_svg(result: SearchResult, tmp_path: Path) -> None:
    """So that a committed picture changes only when its search does."""
    first, second = (draw(result, tmp_path / f"{name}.svg").read_bytes() for name in "ab")
    assert first == second

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dmltune.data import catalog
from dmltune.data.catalog import _glyph_rendering
from dmltune.data.catalog._homoglyphs import distinct_pictures, representatives
from dmltune.data.images import ImageSet, Part


def class_of(glyphs: dict[Part, ImageSet], character: str) -> list[str]:
    wanted = f"U+{ord(character):04X} "
    return [name for images in glyphs.values() for name in images.class_names if name.startswith(wanted)]


def test_there_are_about_2300_classes_half_of_them_to_train_on(glyphs: dict[Part, ImageSet]) -> None:
    classes = {part: images.num_classes for part, images in glyphs.items()}
    assert 2200 <= sum(classes.values()) <= 2600
    assert abs(classes["train"] - classes["test"]) <= 1
    assert 26_000 <= sum(len(images) for images in glyphs.values()) <= 31_000
    for images in glyphs.values():
        assert np.bincount(images.labels_N).min() >= 6


def test_both_halves_have_every_script_and_a_class_has_one(glyphs: dict[Part, ImageSet]) -> None:
    assert glyphs["train"].category_names == glyphs["test"].category_names
    assert {"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "SYMBOL"} <= set(glyphs["test"].category_names)
    for images in glyphs.values():
        assert images.category_N is not None
        pairs = set(zip(images.labels_N.tolist(), images.category_N.tolist(), strict=True))
        assert len(pairs) == images.num_classes


def test_no_picture_is_blank_and_none_occurs_twice(glyphs: dict[Part, ImageSet]) -> None:
    pictures = [one.tobytes() for images in glyphs.values() for one in images.read(range(len(images)))]
    assert len(set(pictures)) == len(pictures)
    assert all(any(picture) for picture in pictures)


def test_homoglyphs_are_one_class_and_lookalikes_in_italics_are_not(glyphs: dict[Part, ImageSet]) -> None:
    for latin, *others in map(list, ("AΑАꓮ", "OΟО", "xх", "sѕ", "ËЁ", "ÏЇΪ")):
        assert len(class_of(glyphs, latin)) == 1
        assert not any(class_of(glyphs, other) for other in others)
    for pair in ("mт", "nп", "ÉΈ", "OQ", "Il", "eé"):
        assert all(len(class_of(glyphs, character)) == 1 for character in pair)


def test_homoglyphs_of_a_toy_alphabet_follow_the_rule() -> None:
    a, b, c = bytes([255] * 4), bytes([0, 255, 255, 0]), bytes([9, 9, 9, 200])
    # x and y agree in two of three faces, y and z in one of three
    faces = [
        {"x": a, "y": a, "z": b},
        {"x": b, "y": b, "z": c},
        {"x": c, "y": bytes([1] * 4), "z": bytes([1] * 4)},
    ]
    classes = representatives(faces)
    assert classes == {"x": "x", "y": "x", "z": "z"}
    assert distinct_pictures(faces, classes) == {"x": [a]}  # the others are shared by two classes


def test_symbol_mapped_fonts_placeholders_and_styled_copies_are_left_out() -> None:
    used = _glyph_rendering.faces()
    assert len(used) == 22
    assert not any(name.startswith(("LastResort", "cmsy", "cmex", "STIXNonUni", "STIXSiz")) for name in used)
    visible = {character: _glyph_rendering.is_visible(character) for character in "Aé٣+€ \u0301\ue000𝐀\u200b"}
    assert [character for character, seen in visible.items() if seen] == list("Aé٣+€")


def test_a_character_without_a_glyph_is_not_drawn_as_a_box() -> None:
    faces = _glyph_rendering.faces()
    assert "あ" not in _glyph_rendering.render("DejaVuSans", faces["DejaVuSans"])
    assert "<" not in _glyph_rendering.render("cmr10", faces["cmr10"])  # TeX has ¡ there


def test_accents_above_and_tails_below_stay_in_the_frame() -> None:
    drawn = _glyph_rendering.render("DejaVuSans", _glyph_rendering.faces()["DejaVuSans"])
    plain, accented, tailed = (np.flatnonzero(drawn[character].any(axis=1)) for character in "AǺp")
    assert plain[-1] == _glyph_rendering.BASELINE - 1
    assert accented[0] < plain[0]
    assert tailed[-1] > plain[-1]


def test_neighbours_by_raw_pixels_are_far_from_solving_the_test_half(glyphs: dict[Part, ImageSet]) -> None:
    images = glyphs["test"]
    pixels_ND = np.stack(images.read(range(len(images)))).reshape(-1, 32 * 32).astype(np.float32) / 255
    chosen = np.random.default_rng(0).choice(len(images), 2000, replace=False)
    squared_QN = (pixels_ND**2).sum(1)[None] - 2 * pixels_ND[chosen] @ pixels_ND.T
    squared_QN[np.arange(len(chosen)), chosen] = np.inf
    right = images.labels_N[squared_QN.argmin(1)] == images.labels_N[chosen]
    assert 0.42 < right.mean() < 0.55  # 0.49 with all queries


def test_two_processes_building_at_once_read_the_same_glyphs(
    tmp_path: Path, glyphs: dict[Part, ImageSet]
) -> None:
    program = "from dmltune.data.catalog import load; print(load('glyphs', 'train').fingerprint)"
    environment = os.environ | {"DMLTUNE_CACHE": str(tmp_path)}
    both = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    prints = [process.communicate(timeout=120)[0].strip() for process in both]
    assert prints == [glyphs["train"].fingerprint] * 2
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1


def test_training_reads_nothing_of_the_test_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path))
    before = catalog.load("glyphs", "train").fingerprint
    (entry,) = (path for path in tmp_path.iterdir() if path.is_dir())
    for file in entry.glob("test.*"):
        file.unlink()
    assert catalog.load("glyphs", "train").fingerprint == before

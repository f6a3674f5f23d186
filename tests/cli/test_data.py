from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from data import tiny_layouts
from PIL import Image

from dmltune.cli import main

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for part, first in (("train", 0), ("test", 4)):
        for number in range(first, first + 4):
            for index in range(3):
                tiny_layouts.picture(
                    tmp_path / "photos" / part / f"cup {number}" / f"{index}.jpg", number, index
                )
    return tmp_path / "photos"


def run_here(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(words)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_planted_truncated_an_empty_and_a_text_file_are_the_three_names_and_exit_1(
    dmltune: Run, photos: Path
) -> None:
    whole = dmltune("data", "verify", str(photos))
    assert whole.returncode == 0
    assert "none missing, none unreadable, none in both parts" in whole.stdout
    assert whole.stderr == ""
    torn, empty, text = (
        photos / name for name in ("train/cup 1/0.jpg", "train/cup 2/1.jpg", "test/cup 5/2.jpg")
    )
    torn.write_bytes(torn.read_bytes()[:-200])
    empty.write_bytes(b"")
    text.write_text("not found\n")
    done = dmltune("data", "verify", str(photos))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    for kind, name in (
        ("truncated", "train/cup 1/0.jpg"),
        ("empty", "train/cup 2/1.jpg"),
        ("no image", "test/cup 5/2.jpg"),
    ):
        assert [line for line in lines if line.startswith(kind) and name in line]
    assert lines[-1] == "1 empty, 1 no image, 1 truncated"
    as_json = dmltune("data", "verify", str(photos), "-f", "json")
    assert as_json.returncode == 1
    document = json.loads(as_json.stdout)
    assert not document["ok"]
    assert {fault["file"] for fault in document["faults"]} == {str(torn), str(empty), str(text)}
    assert [(half["part"], half["images"], half["classes"]) for half in document["parts"]] == [
        ("train", 12, 4),
        ("test", 12, 4),
    ]


def test_more_faults_than_can_be_read_are_counted(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in photos.rglob("*.jpg"):
        file.write_bytes(b"")
    code, out, _ = run_here(["data", "verify", str(photos)], capsys)
    assert code == 1
    assert "… and 4 more: -f json lists all" in out
    assert len([line for line in out.splitlines() if line.startswith("empty ")]) == 20


def test_the_list_has_every_set_and_what_to_do_for_the_missing_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from dmltune.data import catalog

    folder = tiny_layouts.write("sop", tmp_path, 3, 2)
    code, out, _ = run_here(["data", "list", "--data-root", str(tmp_path)], capsys)
    assert code == 0
    flat = " ".join(out.split())
    assert "cub 11,788 images, 200 classes" in flat
    assert "To get it: dmltune data prepare cub" in flat
    assert f"found in {folder}; lacks train: 6 of 59,551 images" in flat
    code, out, _ = run_here(["data", "list", "--data-root", str(tmp_path), "-f", "json"], capsys)
    assert [entry["name"] for entry in json.loads(out)] == list(catalog.names())


def test_show_writes_a_sheet_of_own_images(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sheet = photos.parent / "sheet.png"
    words = [
        "data",
        "show",
        str(photos),
        "--out",
        str(sheet),
        "--part",
        "test",
        "--classes",
        "3",
        "-f",
        "json",
    ]
    code, out, _ = run_here(words, capsys)
    assert code == 0
    assert json.loads(out)["classes"] == ["cup 4", "cup 5", "cup 6"]
    with Image.open(sheet) as image:
        assert image.format == "PNG"
        assert image.height > 300


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("data", "required: action"),
        ("data lst", "invalid choice: 'lst'"),
        ("data verify", "dmltune data verify needs a NAME; dmltune data list shows them"),
        ("data verify cup", "no data set 'cup'; did you mean 'cub'?"),
        ("data verify ./nowhere", "data.path must be a folder"),
        ("data verify own", "own images have no name. Write their path"),
        ("data list --out x.png", "--out is for dmltune data show; leave it out"),
        ("data show cub --archive x.tgz", "--archive is for dmltune data prepare; leave it out"),
        ("data verify cub --data-root none", "no CUB_200_2011 (with classes.txt"),
        ("data show digits --classes 0", "--classes: must be a whole number of at least 1; got 0"),
    ],
)
def test_every_wrong_word_is_one_line_and_exit_2(
    words: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DMLTUNE_DATA", raising=False)
    code, out, err = run_here(words.split(), capsys)
    assert (code, out) == (2, "")
    assert expected in err
    assert err.count("\n") == 1


def test_progress_in_a_log_says_the_time_left_and_is_silent_when_quick(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from dmltune.cli import progress

    times = iter([0.0, 0.0, 12.0, 13.0, 40.0, 100.0, 111.0])
    advance = progress._log("images", lambda: next(times))
    for done in (1, 3000, 3100, 9000):
        advance("verify cub", done, 12000)
    assert capsys.readouterr().err.splitlines() == [
        "verify cub: 3,000 of 12,000 images, 36s left",
        "verify cub: 9,000 of 12,000 images, 13s left",
    ]
    for done in (1, 50):  # another thing begins anew
        advance("verify sop", done, 100)
    assert capsys.readouterr().err == "verify sop: 50 of 100 images, 11s left\n"
    times = iter([0.0, 0.0, 11.0])
    advance = progress._log("bytes", lambda: next(times))
    for done in (1, 2_500_000):
        advance("fetch cub", done, 0)
    assert capsys.readouterr().err == "fetch cub: 2.5 MB, 0.2 MB/s\n"


def test_prepare_takes_an_archive_and_says_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    monkeypatch.delenv("DMLTUNE_DATA", raising=False)
    code, _, err = run_here(["data", "prepare", "sop"], capsys)
    assert (code, "--data-root or DMLTUNE_DATA" in err) == (2, True)
    folder = tiny_layouts.write("sop", tmp_path / "made", 3, 2)
    archive = shutil.make_archive(str(tmp_path / "mine"), "zip", folder.parent)
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("DMLTUNE_DATA", str(tmp_path / "data"))
    code, out, _ = run_here(["data", "prepare", "sop", "--archive", archive, "-f", "json"], capsys)
    assert code == 0
    document = json.loads(out)
    assert (document["images"], document["classes"]) == (12, 6)
    assert run_here(["data", "list", "sop"], capsys)[1].count(document["folder"]) == 1
    assert "nothing was done" in run_here(["data", "prepare", "sop"], capsys)[1]

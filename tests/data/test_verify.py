from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from data import tiny_layouts
from PIL import Image

from dmltune.data import catalog
from dmltune.data.survey import survey
from dmltune.data.verify import VerificationReport, state_of, verify
from dmltune.errors import UserError


def report_of(name: str, root: Path | None, **options: Path) -> VerificationReport:
    *before, last = verify(name, root, workers=2, **options)
    assert last.report is not None
    assert all(step.report is None for step in before)
    done = [step.done for step in (*before, last)]
    assert done[0] == 0
    assert done == sorted(set(done)) or last.total == 0
    assert {step.total for step in (*before, last)} == {done[-1]}
    return last.report


def found(report: VerificationReport) -> list[tuple[str, str]]:
    return sorted((fault.kind, fault.file.name if fault.file else fault.part) for fault in report.faults)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_layouts.write("inshop", tmp_path_factory.mktemp("whole"), 4, 3)


@pytest.fixture
def copy(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that is as it was published."""
    numbers = {"train": (12, 4), "test": (12, 4)}
    monkeypatch.setattr("dmltune.data.catalog.inshop.PUBLISHED", numbers)
    return Path(shutil.copytree(whole, tmp_path / whole.name))


def pictures(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.jpg"), key=lambda file: file.relative_to(folder).parts[-2:])


def rename_one(folder: Path, index: int, name: str) -> Path:
    """So that a fault can be told by its name alone."""
    file = pictures(folder)[index]
    listed = folder / "Eval" / "list_eval_partition.txt"
    place = file.parent.relative_to(folder / "Img").as_posix()
    listed.write_text(listed.read_text().replace(f"{place}/{file.name} ", f"{place}/{name} "))
    return file.rename(file.with_name(name))


def test_a_whole_copy_has_no_fault_and_its_numbers(copy: Path) -> None:
    report = report_of("inshop", copy)
    assert report.ok
    assert [(half.images, half.classes, half.published_images) for half in report.parts] == [(12, 4, 12)] * 2
    assert report.folder == copy / "Img" / "img"


def test_all_planted_faults_are_named_with_what_is_wrong(copy: Path) -> None:
    torn = rename_one(copy, 0, "torn.jpg")
    torn.write_bytes(torn.read_bytes()[:-300])
    stub = rename_one(copy, 3, "stub.jpg")
    stub.write_bytes(stub.read_bytes()[:20])
    rename_one(copy, 6, "empty.jpg").write_bytes(b"")
    rename_one(copy, 9, "page.jpg").write_text("<html>404 Not Found</html>")
    rename_one(copy, 12, "noise.jpg").write_bytes(bytes(range(128, 256)))
    rename_one(copy, 15, "gone.jpg").unlink()
    folder = rename_one(copy, 18, "folder.jpg")
    folder.unlink()
    folder.mkdir()
    shutil.copyfile(pictures(copy)[1], rename_one(copy, 21, "seen.jpg"))
    report = report_of("inshop", copy)
    assert found(report) == [
        ("empty", "empty.jpg"),
        ("in both parts", "seen.jpg"),
        ("missing", "gone.jpg"),
        ("no image", "noise.jpg"),
        ("no image", "page.jpg"),
        ("truncated", "stub.jpg"),
        ("truncated", "torn.jpg"),
        ("unreadable", "folder.jpg"),
    ]
    texts = {fault.file.name: fault.text for fault in report.faults if fault.file}
    assert texts["page.jpg"] == "text: <html>404 Not Found</html>"
    assert texts["noise.jpg"] == "begins with the bytes 80 81 82 83 84 85 86 87"
    assert texts["stub.jpg"] == "begins as JPEG and ends after 20 bytes"
    assert str(pictures(copy)[1]) in texts["seen.jpg"]


def test_the_same_bytes_twice_in_one_part_are_no_fault(copy: Path) -> None:
    shutil.copyfile(pictures(copy)[0], pictures(copy)[4])
    assert report_of("inshop", copy).ok


def test_a_copy_that_lists_less_than_was_published_is_at_fault(whole: Path) -> None:
    faults = report_of("inshop", whole).faults
    assert [fault.text for fault in faults if fault.part == "train"] == [
        "12 images are listed; 25,882 were published",
        "4 classes are listed; 3,997 were published",
    ]
    assert {fault.kind for fault in faults} == {"count"}


def test_an_image_cut_anywhere_is_never_whole(tmp_path: Path) -> None:
    for form in ["PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF"]:
        file = tmp_path / "picture"
        noise = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
        Image.fromarray(noise).save(file, format=form)
        content = file.read_bytes()
        assert state_of(file).kind is None
        for share in (0.05, 0.3, 0.6, 0.9):
            file.write_bytes(content[: int(share * len(content))])
            assert state_of(file).kind in ("truncated", "unreadable", "no image")


def test_sets_that_are_no_files_are_read_as_training_reads_them() -> None:
    report = report_of("digits", None)
    assert report.ok
    assert report.folder is None
    assert [half.images for half in report.parts] == [901, 896]


def test_own_images_are_verified_by_their_path_and_lone_ones_counted(tmp_path: Path) -> None:
    for number in range(4):
        for index in range(1 + number % 2):
            part = "train" if number < 2 else "test"
            tiny_layouts.picture(tmp_path / part / f"class {number}" / f"{index}.png", number, index)
    report = report_of("own", None, path=tmp_path)
    assert report.ok
    assert [(half.images, half.alone) for half in report.parts] == [(3, 1), (3, 1)]
    (tmp_path / "test" / "class 3" / "1.png").write_bytes(b"")
    assert found(report_of("own", None, path=tmp_path)) == [("empty", "1.png")]


def test_a_set_that_is_not_there_is_a_mistake_in_what_was_asked(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no CUB_200_2011"):
        next(verify("cub", tmp_path))


def test_the_birds_listed_are_those_loaded(data_root: Path) -> None:
    listed, files = catalog.files("cub", "train", data_root)
    loaded = catalog.load("cub", "train", data_root)
    assert listed.labels_N.tolist() == loaded.labels_N.tolist()
    assert len(files) == 5864
    assert files[17].parent.name == loaded.class_names[loaded.labels_N[17]]


def test_a_survey_tells_what_is_here_what_is_not_and_how_to_get_it(tmp_path: Path) -> None:
    folder = tiny_layouts.write("sop", tmp_path, 3, 2)
    next(folder.rglob("*.JPG")).unlink()  # lists are read, images are verify's
    entries = {entry.name: entry for entry in survey(tmp_path, ["cub", "sop", "digits", "own"])}
    assert (entries["cub"].state, entries["cub"].images, entries["cub"].classes) == ("missing", 11788, 200)
    assert "no CUB_200_2011 (with classes.txt, " in entries["cub"].missing
    assert entries["cub"].get == "dmltune data prepare cub"
    assert entries["cub"].about.startswith("CUB-200-2011: 11,788 photos of 200 birds")
    assert (entries["sop"].state, entries["sop"].folder) == ("found", folder)
    assert entries["sop"].lacking.startswith("train: 6 of 59,551 images, 3 of 11,318 classes; test: ")
    assert (entries["digits"].state, entries["digits"].images) == ("made", 1797)
    assert entries["own"].state == "yours"


def test_a_survey_of_no_names_is_of_all(tmp_path: Path) -> None:
    assert [entry.name for entry in survey(tmp_path)] == list(catalog.names())
    with pytest.raises(UserError, match="no data set 'cup'; did you mean 'cub'"):
        list(survey(tmp_path, ["cup"]))

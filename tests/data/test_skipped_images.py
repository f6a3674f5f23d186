"""`data.missing: skip`: what is missing or unreadable is left out, counted and named."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from data import tiny_layouts
from data.photo_folders import EACH, photos
from PIL import Image

from dmltune.data import catalog
from dmltune.data.images import ImageSet
from dmltune.data.packed import at_size
from dmltune.data.splits import monitored
from dmltune.errors import UserError


def damage(base: Path) -> list[str]:
    """A missing, a torn, an empty image and a FIFO in train; returns their paths in the table."""
    names = [f"train/class {number}/0.png" for number in range(4)]
    (base / names[0]).unlink()
    (base / names[1]).write_bytes((base / names[1]).read_bytes()[:-300])
    (base / names[2]).write_bytes(b"")
    (base / names[3]).unlink()
    os.mkfifo(base / names[3])
    return names


def listed(base: Path) -> Path:
    rows = ["path,label,category,split"]
    for file in sorted(base.rglob("*.png")):
        part, label = file.relative_to(base).parts[:2]
        category = "odd" if label.endswith("3") else "even"
        split = "train" if part == "train" else "query" if file.stem == "0" else "gallery"
        rows.append(f"{file.relative_to(base)},{label},{category},{split}")
    (base / "photos.csv").write_text("\n".join(rows))
    return base / "photos.csv"


def test_missing_and_unreadable_images_are_skipped_named_logged_and_fingerprinted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = listed(photos(tmp_path))
    whole = catalog.load("own", "train", path=table)
    assert catalog.load("own", "train", path=table, missing="skip").fingerprint == whole.fingerprint
    assert not whole.skipped
    names = damage(tmp_path)
    with pytest.raises(UserError, match=r"photos\.csv:\d+: no image "):
        catalog.load("own", "train", path=table)
    caplog.clear()
    some = catalog.load("own", "train", path=table, missing="skip")
    assert some.skipped == tuple(names)
    assert len(some) == len(whole) - 4
    assert len({some.fingerprint, whole.fingerprint}) == len({some.key, whole.key}) == 2
    assert caplog.messages == [f"own (train): 4 of 12 listed images are skipped: {', '.join(names)}"]
    rest = [i for i in range(len(whole)) if i % EACH]
    for mine, theirs in zip(some.read(range(len(some))), whole.read(rest), strict=True):
        assert np.array_equal(mine, theirs)
    assert np.array_equal(some.labels_N, whole.labels_N[rest])
    assert at_size(some, 8).read([0])[0].shape[2] == 3
    (tmp_path / "train" / "class 0" / "1.png").unlink()  # another image is another fingerprint
    assert catalog.load("own", "train", path=table, missing="skip").fingerprint != some.fingerprint


def test_classes_and_categories_without_an_image_left_are_dropped(tmp_path: Path) -> None:
    table = listed(photos(tmp_path))
    for file in (tmp_path / "train" / "class 3").iterdir():
        file.unlink()
    train = catalog.load("own", "train", path=table, missing="skip")
    assert train.class_names == ("class 0", "class 1", "class 2")
    assert train.category_names == ("even",)
    assert train.labels_N.tolist() == [0] * 3 + [1] * 3 + [2] * 3
    test = catalog.load("own", "test", path=table, missing="skip")
    assert monitored(train, test).skipped == train.skipped
    assert train.first_classes(2).skipped == train.skipped
    for file in tmp_path.glob("test/*/0.png"):
        file.unlink()
    with pytest.raises(
        UserError, match=r"own: no query or no image of the gallery that .* lists can be read"
    ):
        catalog.load("own", "test", path=table, missing="skip")
    for file in tmp_path.rglob("*.png"):
        file.unlink()
    with pytest.raises(UserError, match=r"own: no image that .* lists can be read; put it right"):
        catalog.load("own", "train", path=table, missing="skip")


def test_every_set_of_files_can_skip_and_none_knows_another_word(tmp_path: Path) -> None:
    for name in tiny_layouts.NAMES:
        root = tiny_layouts.write(name, tmp_path, 2, 3)
        files = catalog.files(name, "train", root)[1]
        files[0].write_bytes(files[0].read_bytes()[:200])
        images = catalog.load(name, "train", root, missing="skip")
        assert len(images) == len(files) - 1
        assert [Path(path).stem for path in images.skipped] == [files[0].stem]
        images.read(range(len(images)))
        with pytest.raises(
            UserError, match=r"data\.missing must be error or skip; got skp; did you mean 'skip'"
        ):
            catalog.load(name, "train", root, missing="skp")  # type: ignore[arg-type]


def test_a_set_that_is_not_files_has_nothing_to_skip() -> None:
    digits = catalog.load("digits", "train", missing="skip")
    assert not digits.skipped
    assert digits.fingerprint == catalog.load("digits", "train").fingerprint


def failing_open(stream: object, **options: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_the_verdict_on_images_is_kept_for_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = listed(photos(tmp_path))
    damage(tmp_path)
    load: Callable[[], ImageSet] = lambda: catalog.load("own", "train", path=table, missing="skip")  # noqa: E731
    before = load()
    monkeypatch.setattr(Image, "open", failing_open)
    assert load().key == before.key
    os.utime(tmp_path / "train" / "class 0" / "1.png", (1, 1))  # changed, perhaps
    with pytest.raises(UserError, match=r"own: .*1\.png cannot be read \(Input/output error\); put it"):
        load()  # an error of the disk says nothing about the file
    monkeypatch.undo()
    assert len(load()) == len(before)

"""Tiny copies of the published data sets in their official layouts: pictures of noise around a colour of
their class.

    from data import tiny_layouts
    root = tiny_layouts.write("inshop", tmp_path, classes=4, per_class=3)

The folder it returns has its official name; `tmp_path` and the folder itself are both a good data root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from PIL import Image


def write(name: str, root: Path, classes: int = 4, per_class: int = 4) -> Path:
    """A copy of `name` in `root` with `classes` classes in each part and `per_class` images in each class.

    cub always has its 100 classes a part: its loader takes no fewer.
    """
    return _WRITERS[name](root, classes, per_class)


def picture(file: Path, number: int, index: int) -> None:
    """40 + number % 7 high and 60 wide, so that a test can see which class it got."""
    file.parent.mkdir(parents=True, exist_ok=True)
    colour = np.random.default_rng(number).integers(0, 256, 3)
    noise = np.random.default_rng((number, index)).integers(0, 256, (40 + number % 7, 60, 3))
    Image.fromarray(((colour + noise) // 2).astype(np.uint8)).save(file)


def text(file: Path, lines: Iterable[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")


def cub(root: Path, classes: int, per_class: int) -> Path:
    folder = root / "CUB_200_2011"
    kinds, images, labels = [], [], []
    for number in range(1, 201):
        name = f"{number:03d}.Bird_{number}"
        kinds.append(f"{number} {name}")
        for index in range(per_class):
            picture(folder / "images" / name / f"{index}.jpg", number, index)
            images.append(f"{len(images) + 1} {name}/{index}.jpg")
            labels.append(f"{len(images)} {number}")
    text(folder / "classes.txt", kinds)
    text(folder / "images.txt", images)
    text(folder / "image_class_labels.txt", labels)
    return folder


def cars196(root: Path, classes: int, per_class: int) -> Path:
    """The release with all images in one folder, where class 99 is the first to test."""
    from scipy.io import savemat

    folder, rows = root / "cars196", []
    for number in _car_classes(classes):
        for index in range(per_class):
            path = f"car_ims/{len(rows) + 1:06d}.jpg"
            picture(folder / path, number, index)
            rows.append((path, 1, 1, 60, 40, number, index % 2))
    annotations = _struct(("relative_im_path", *_BOX, "class", "test"), rows)
    savemat(folder / "cars_annos.mat", {"annotations": annotations, "class_names": _car_names()})
    return folder


def cars196_devkit(root: Path, classes: int, per_class: int) -> Path:
    """The release with the devkit: both of its halves have images of every class."""
    from scipy.io import savemat

    folder = root / "cars196"
    (folder / "devkit").mkdir(parents=True)
    for half, file in enumerate(("cars_train_annos", "cars_test_annos_withlabels")):
        rows: list[tuple[object, ...]] = []
        for number in _car_classes(classes):
            for index in range(half, per_class, 2):
                name = f"{len(rows) + 1:05d}.jpg"
                picture(folder / ("cars_train", "cars_test")[half] / name, number, index)
                rows.append((1, 1, 60, 40, number, name))
        annotations = _struct((*_BOX, "class", "fname"), rows)
        savemat(folder / "devkit" / f"{file}.mat", {"annotations": annotations})
    savemat(folder / "devkit" / "cars_meta.mat", {"class_names": _car_names()})
    return folder


def sop(root: Path, classes: int, per_class: int) -> Path:
    """Products 1 … classes train; two categories, bicycles and sofas (numbers 1 and 9), in turn."""
    folder = root / "Stanford_Online_Products"
    image = 0
    for part, first in (("train", 1), ("test", 11319)):
        lines = ["image_id class_id super_class_id path"]
        for number in range(first, first + classes):
            kind, super_class = (("bicycle_final", 1), ("sofa_final", 9))[number % 2]
            for index in range(per_class):
                image += 1
                path = f"{kind}/{110000000000 + number}_{index}.JPG"
                picture(folder / path, number, index)
                lines.append(f"{image} {number} {super_class} {path}")
        text(folder / f"Ebay_{part}.txt", lines)
    return folder


def inshop(root: Path, classes: int, per_class: int) -> Path:
    """Of every test item the first image is the query. Denim of men and of women are two categories."""
    folder = root / "In-shop Clothes Retrieval Benchmark"
    kinds = ("MEN/Denim", "WOMEN/Denim", "WOMEN/Dresses")
    lines = []
    for number in range(1, 2 * classes + 1):
        item = f"id_{number:08d}"
        for index in range(per_class):
            path = f"img/{kinds[number % 3]}/{item}/{index + 1:02d}_1_front.jpg"
            picture(folder / "Img" / path, number, index)
            status = "train" if number <= classes else "gallery" if index else "query"
            lines.append(f"{path}      {item}     {status}")
    header = [str(len(lines)), "image_name item_id evaluation_status"]
    text(folder / "Eval" / "list_eval_partition.txt", [*header, *lines])
    return folder


def vehicleid(root: Path, classes: int, per_class: int) -> Path:
    """Every other vehicle has a model (10, 20, 10, …). The three test lists are of the same vehicles."""
    folder = root / "VehicleID_V1.0"
    lines: dict[str, list[str]] = {"train": [], "test": []}
    for number in range(1, 2 * classes + 1):
        part = "train" if number <= classes else "test"
        for index in range(per_class):
            name = f"{number * 100 + index:07d}"
            picture(folder / "image" / f"{name}.jpg", number, index)
            lines[part].append(f"{name} {number}")
    text(folder / "train_test_split" / "train_list.txt", lines["train"])
    for size in (800, 1600, 2400):
        text(folder / "train_test_split" / f"test_list_{size}.txt", lines["test"])
    models = [f"{number} {10 + 10 * (number // 2 % 2)}" for number in range(2, 2 * classes + 1, 2)]
    text(folder / "attribute" / "model_attr.txt", models)
    return folder


def faces(root: Path, classes: int, per_class: int) -> Path:
    folder = root / "faces"
    for number in range(1, 2 * classes + 1):
        person = folder / ("train" if number <= classes else "test") / f"person_{number:03d}"
        for index in range(per_class):
            picture(person / f"{index}.png", number, index)
    return folder


def cifar100(folder: Path, each: int = 2) -> Path:
    """CIFAR-100's two binary files, with `each` images of each class in both together.

    Super-class s has the sub-classes 5s … 5s + 4; every pixel of an image is its sub-class.
    """
    folder.mkdir(parents=True)
    fine = np.repeat(np.arange(100, dtype=np.uint8), each)
    records = np.concatenate(
        [fine[:, None] // 5, fine[:, None], np.repeat(fine[:, None], 3 * 32 * 32, axis=1)], axis=1
    )
    records[::each].tofile(folder / "train.bin")
    np.delete(records, slice(None, None, each), axis=0).tofile(folder / "test.bin")
    return folder


_BOX = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2")
_WRITERS: dict[str, Callable[[Path, int, int], Path]] = {
    writer.__name__: writer for writer in (cub, cars196, sop, inshop, vehicleid, faces)
}
NAMES = tuple(_WRITERS)


def _car_classes(classes: int) -> list[int]:
    return [*range(1, classes + 1), *range(99, 99 + classes)]


def _car_names() -> np.ndarray:
    names = np.empty((1, 196), dtype=object)
    names[0] = [f"Car {number}" for number in range(1, 197)]
    return names


def _struct(fields: tuple[str, ...], rows: list[tuple[object, ...]]) -> np.ndarray:
    """What savemat writes as MATLAB's 1 × N struct array."""
    return np.array([rows], dtype=[(field, object) for field in fields])

"""Alignment against Umeyama's transform by singular values, pixels by loops, and faces drawn as discs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dmltune.data import catalog
from dmltune.data.alignment import LANDMARKS, SIDE, TEMPLATE_5, aligned_face, read_landmarks, similarity
from dmltune.data.packed import at_size
from dmltune.errors import UserError

COLOURS = ((255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0), (255, 0, 255))


def umeyama(source_52: np.ndarray, target_52: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """c R and t of Umeyama 1991, eq. 40–42."""
    from_source, from_target = source_52 - source_52.mean(0), target_52 - target_52.mean(0)
    u, d, vt = np.linalg.svd(from_target.T @ from_source / len(source_52))
    signs = np.diag([1.0, np.sign(np.linalg.det(u) * np.linalg.det(vt))])
    turned = u @ signs @ vt * np.trace(np.diag(d) @ signs) / (from_source**2).sum(1).mean()
    return turned, target_52.mean(0) - turned @ source_52.mean(0)


def as_points(z: np.ndarray) -> np.ndarray:
    return np.stack([z.real, z.imag], axis=-1)


def face(scale: float, degrees: float, centre: complex, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """Return the five points of the template, scaled, turned and moved."""
    turn = scale * np.exp(1j * math.radians(degrees))
    disturbed = noise * np.random.default_rng(seed).normal(size=(2, 5))
    points: np.ndarray = turn * (TEMPLATE_5 - TEMPLATE_5.mean()) + centre + disturbed[0] + 1j * disturbed[1]
    return points


FACES = [face(0.8, 0, 50 + 40j), face(2.7, 35, 160 + 150j, 4.0), face(1.3, -120, 90 + 85j, 9.0, 3)]


def test_the_transform_is_that_of_umeyama_and_no_other_similarity_is_nearer() -> None:
    a_N, b_N = similarity(np.stack(FACES))
    for points, a, b in zip(FACES, a_N, b_N, strict=True):
        turned, moved = umeyama(as_points(points), as_points(TEMPLATE_5))
        np.testing.assert_allclose([[a.real, -a.imag], [a.imag, a.real]], turned, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose([b.real, b.imag], moved, rtol=1e-12)
        system = np.stack([points, np.ones(5)], axis=1)
        best = np.linalg.lstsq(system, TEMPLATE_5, rcond=None)[0]
        np.testing.assert_allclose([a, b], best, rtol=1e-10)


def by_loops(pixels_HW: np.ndarray, a: complex, b: complex, side: int) -> np.ndarray:
    """Return every pixel of the square by bilinear interpolation of four pixels; NaN at the border."""
    out = np.full((side, side), np.nan)
    height, width = pixels_HW.shape
    for row in range(side):
        for column in range(side):
            at = complex((column + 0.5) * SIDE / side - 0.5, (row + 0.5) * SIDE / side - 0.5)
            z = (at - b) / a
            x, y = math.floor(z.real), math.floor(z.imag)
            if 0 <= x < width - 1 and 0 <= y < height - 1:
                u, v = z.real - x, z.imag - y
                near = pixels_HW[y : y + 2, x : x + 2]
                out[row, column] = np.array([1 - v, v]) @ near @ np.array([1 - u, u])
    return out


@pytest.mark.parametrize("side", [SIDE, 60])
def test_pixels_are_interpolated_where_the_transform_says(side: int) -> None:
    coarse = np.random.default_rng(0).integers(0, 256, (14, 16, 3), dtype=np.uint8)
    image = Image.fromarray(coarse).resize((160, 140), Image.Resampling.BICUBIC)
    a_N, b_N = similarity(np.stack([face(0.9, 20, 80 + 70j)]))
    square = np.asarray(aligned_face(image, complex(a_N[0]), complex(b_N[0]), side), dtype=float)
    assert square.shape == (side, side, 3)
    expected = by_loops(np.asarray(image, dtype=float)[..., 0], a_N[0], b_N[0], side)
    known = ~np.isnan(expected)
    assert known.mean() > 0.8
    assert np.abs(square[..., 0] - expected)[known].max() <= 1


def drawn(points_5: np.ndarray, size: tuple[int, int], radius: float) -> Image.Image:
    """Return a picture with a disc of its own colour at each point; (0, 0) is the centre of a pixel."""
    y, x = np.mgrid[: size[1], : size[0]]
    pixels = np.zeros((size[1], size[0], 3))
    for z, colour in zip(points_5, COLOURS, strict=False):
        inside = np.clip(radius + 0.5 - np.hypot(x - z.real, y - z.imag), 0, 1)[..., None]
        pixels = (1 - inside) * pixels + inside * np.array(colour)
    return Image.fromarray(pixels.round().astype(np.uint8))


def found(square_HWC: np.ndarray) -> np.ndarray:
    """Return the centre of gravity of each colour, in pixels of the square of 112."""
    y, x = np.mgrid[: len(square_HWC), : len(square_HWC)] + 0.5
    points = []
    for colour in COLOURS:
        sign = np.where(np.array(colour) > 0, 1.0, -1.0)
        mass = np.clip((square_HWC.astype(float) * sign).sum(-1), 0, None) * (
            np.abs(square_HWC - np.array(colour, float)).max(-1) < 130
        )
        points.append(complex((x * mass).sum(), (y * mass).sum()) / mass.sum())
    return np.array(points) * SIDE / len(square_HWC) - (0.5 + 0.5j)


@pytest.mark.parametrize(
    ("scale", "degrees", "side"), [(1.0, 0, 112), (0.9, -70, 112), (3.4, 25, 112), (2.6, 140, 48)]
)
def test_a_drawn_face_comes_to_lie_on_the_template(scale: float, degrees: float, side: int) -> None:
    """Faces of more than twice the size are averaged down first."""
    points = face(scale, degrees, 200.3 + 190.7j)
    a_N, b_N = similarity(points[None])
    y, x = np.mgrid[:side, :side] + 0.5
    for z, expected in zip(points, TEMPLATE_5, strict=True):
        white = drawn(np.array([z]), (420, 400), 6 * scale).getchannel("R")
        square = np.asarray(aligned_face(white, complex(a_N[0]), complex(b_N[0]), side), dtype=float)
        centre = complex((x * square).sum(), (y * square).sum()) / square.sum() * SIDE / side - (0.5 + 0.5j)
        assert abs(centre - expected) < 0.06


def lines(faces: dict[str, np.ndarray]) -> str:
    return "".join(
        f"{name} {' '.join(f'{z.real:.3f} {z.imag:.3f}' for z in points)}\n" for name, points in faces.items()
    )


def people(root: Path, part: str = "train") -> dict[str, np.ndarray]:
    """Write two people with two pictures each, one with a space in its name; return their points by path."""
    faces: dict[str, np.ndarray] = {}
    for number, (person, name) in enumerate([("ann lee", "1"), ("ann lee", "2 b"), ("bo", "1"), ("bo", "2")]):
        points = face(1 + 0.4 * number, 20 * number, 180 + 170j)
        file = root / "faces" / part / person / f"{name}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        drawn(points, (360, 340), 6 + 2 * number).save(file)
        faces[f"{part}/{person}/{name}.png"] = points
    return faces


def test_faces_of_a_folder_are_aligned_by_its_file_of_landmarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))
    faces = people(tmp_path) | people(tmp_path, "test")
    plain = catalog.load("faces", "train", tmp_path)
    assert plain.read([0])[0].shape == (340, 360, 3)
    landmarks = tmp_path / "faces" / LANDMARKS
    landmarks.write_text("\n" + lines(faces) + "another.png 1 2 3\n")
    for part in ("train", "test"):
        images = catalog.load("faces", part, tmp_path)
        assert images.margin == 1.0
        assert images.class_names == ("ann lee", "bo")
        for square in images.read(range(4)):
            assert square.shape == (SIDE, SIDE, 3)
            np.testing.assert_array_less(np.abs(found(square) - TEMPLATE_5), 0.5)
    for mode in ("disk", "none"):
        small = at_size(catalog.load("faces", "train", tmp_path), 48, mode).read([3])[0]
        assert small.shape == (48, 48, 3)
        np.testing.assert_array_less(np.abs(found(small) - TEMPLATE_5), 1.0)

    first = catalog.load("faces", "train", tmp_path)
    faces["train/bo/2.png"] = faces["train/bo/2.png"] + 3
    landmarks.write_text(lines(faces))
    moved = catalog.load("faces", "train", tmp_path)
    assert len({plain.fingerprint, first.fingerprint, moved.fingerprint}) == 3
    assert len({plain.key, first.key, moved.key}) == 3  # a packed copy of other landmarks is not read


def test_without_a_folder_train_the_paths_begin_with_the_person(tmp_path: Path) -> None:
    faces = people(tmp_path)
    for person in ("ann lee", "bo"):
        (tmp_path / "faces" / "train" / person).rename(tmp_path / "faces" / person)
    (tmp_path / "faces" / "train").rmdir()
    moved = {name.removeprefix("train/"): points for name, points in faces.items()}
    (tmp_path / "faces" / LANDMARKS).write_text(lines(moved))
    square = catalog.load("faces", "train", tmp_path).read([2])[0]
    np.testing.assert_array_less(np.abs(found(square) - TEMPLATE_5), 0.5)


def test_broken_landmarks_are_one_clear_line(tmp_path: Path) -> None:
    good = lines({"a.png": FACES[0]}).strip()
    mirrored = lines({"a.png": FACES[0][[1, 0, 2, 4, 3]]})
    file = tmp_path / LANDMARKS
    for text, message in [
        (
            "a.png 1 2 3\n",
            r"landmarks\.txt, line 1: 10 numbers x1 y1 … x5 y5 expected after the path; got '1",
        ),
        (good.replace(good.split()[3], "x"), r"line 1: 10 numbers .* got '.* x "),
        (f"\n\n{good[:-6]} nan\n", r"line 3: the five points are not those of a face \(all the same"),
        ("a.png" + " 4 4" * 5, r"line 1: the five points are not those of a face"),
        ("a.png" + " 1e300 0 0 1e300 9 9 5 5 4 4", r"line 1: the five points are not those of a face"),
        (lines({"a.png": FACES[0].conj() ** 2 * 1e-9}), r"line 1: the five points are not those"),
        (good.replace("a.png", "b.png"), r"has no line for 'a\.png'; add the landmarks, or remove"),
        ("", r"has no line for 'a\.png'"),
        (mirrored, r"1 of 1 faces are mirrored; the first point must be the eye further left"),
    ]:
        file.write_text(text)
        with pytest.raises(UserError, match=message) as caught:
            read_landmarks(file, ["a.png"])
        assert "\n" not in str(caught.value)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"landmarks\.txt cannot be read"):
        read_landmarks(file, ["a.png"])
    file.write_text(good)
    with pytest.raises(UserError, match=r"no line for 'b\.png' and 1 other images"):
        read_landmarks(file, ["a.png", "b.png", "c.png"])
    twice = read_landmarks(file, ["a.png", "a.png"])
    np.testing.assert_allclose(twice, [FACES[0], FACES[0]], atol=1e-3)

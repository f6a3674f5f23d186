"""Align faces by five landmarks: the similarity transform to the template of face recognition.

A file of landmarks has a line for each image:

    PATH x1 y1 x2 y2 x3 y3 x4 y4 x5 y5

PATH starts at the folder of the file and may have spaces. The points are both eyes, the nose and both corners
of the mouth, of each two first the one further left in the picture, in pixels of the stored image (a rotation
in its EXIF data is not applied); (0, 0) is the centre of the first pixel. Lines of other images are ignored.

Legend: N images, 5 points of a face, each a complex number x + iy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dmltune.data.catalog._files import Listing
from dmltune.data.files import open_regular
from dmltune.data.images import Ints, Pixels, short_hash
from dmltune.errors import UserError, readable

Complexes = NDArray[np.complex128]

LANDMARKS = "landmarks.txt"
SIDE = 112  # pixels of the square that TEMPLATE_5 is for
# of ArcFace (Deng et al. 2019): SphereFace's, moved 8 pixels to the right from 112×96 to the square
TEMPLATE_5: Complexes = np.array(
    [38.2946 + 51.6963j, 73.5318 + 51.5014j, 56.0252 + 71.7366j, 41.5493 + 92.3655j, 70.7299 + 92.2041j]
)
LARGEST = 1000.0  # times the square: no face is larger, and none that can be seen is smaller than 1/LARGEST
_POINTS = 5
_HALF = 0.5 + 0.5j  # from the corner of a pixel to its centre


def landmarks_in(folder: Path) -> Path | None:
    """Return the file of landmarks in a folder, if it has one."""
    return file if (file := folder / LANDMARKS).is_file() else None


def similarity(points_N5: Complexes, template_5: Complexes = TEMPLATE_5) -> tuple[Complexes, Complexes]:
    """Return a and b, (N,), that minimise Σ |a z + b − w|² over the points z of a face and the template w.

    a = Σ conj(z − z̄)(w − w̄) / Σ |z − z̄|²: scale and rotation without reflection (Umeyama 1991 in the plane).
    """
    centre_N1 = points_N5.mean(1, keepdims=True)
    from_centre_N5 = points_N5 - centre_N1
    turned_N = (from_centre_N5.conj() * (template_5 - template_5.mean())).sum(1)
    a_N = turned_N / (np.abs(from_centre_N5) ** 2).sum(1)
    return a_N, template_5.mean() - a_N * centre_N1[:, 0]


def aligned_face(image: Image.Image, a: complex, b: complex, side: int = SIDE) -> Image.Image:
    """Return the square in which the point z of the image is at a z + b; black outside of the image.

    A side other than 112 scales the template. A face larger than twice the square is averaged down first,
    because the bilinear interpolation looks at four pixels only.
    """
    step = SIDE / side / a  # in pixels of the image for one of the square
    start = (-_HALF - b) / a + _HALF  # where the corner of the square lies, from the corner of the image
    if (factor := int(abs(step))) > 1:
        image, step, start = image.reduce(factor), step / factor, start / factor
    matrix = (step.real, -step.imag, start.real, step.imag, step.real, start.imag)
    return image.transform((side, side), Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR)


def aligned(listing: Listing, file: Path, names: Sequence[str], trailing: int = 0) -> Listing:
    """Return the listing with faces aligned by the landmarks in `file`, where its images have these names.

    Evaluation uses the whole square. The lines end with `trailing` more columns.
    """
    points_N5 = read_landmarks(file, names, trailing)
    a_N, b_N = similarity(points_N5)
    source, files = listing.source, listing.files

    def face(image: Image.Image, index: int, side: int) -> Image.Image:
        return aligned_face(source.converted(image), complex(a_N[index]), complex(b_N[index]), side)

    def read(indices: Ints, side: int | None) -> list[Pixels]:
        convert = partial(face, side=side or SIDE)
        return [source.decode(files[index], None, partial(convert, index=index)) for index in indices]

    images = replace(listing.images.with_reader(read), margin=1.0)
    return replace(listing, images=images, pixels=f"aligned {short_hash(points_N5.tobytes())}")


def read_landmarks(file: Path, names: Sequence[str], trailing: int = 0) -> Complexes:
    """Return the points of the images with these names, (N, 5); a name may occur again."""
    place = {name: index for index, name in enumerate(dict.fromkeys(names))}
    points_N5 = np.full((len(place), _POINTS), np.nan, dtype=np.complex128)
    line_N = np.zeros(len(place), dtype=np.int64)
    try:
        with open_regular(file, encoding="utf-8-sig") as stream:
            for number, line in enumerate(stream, 1):
                name, *fields = line.rsplit(None, 2 * _POINTS + trailing) or [""]
                if (index := place.get(name.strip())) is not None:
                    points_N5[index] = _points(fields[: 2 * _POINTS], f"{file}, line {number}")
                    line_N[index] = number
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read ({error})") from None
    if absent := [name for name, index in place.items() if not line_N[index]]:
        more = f" and {len(absent) - 1:,} other images" if len(absent) > 1 else ""
        raise UserError(
            f"{file} has no line for {readable(absent[0])}{more}; add the landmarks, or remove the images."
        )
    _require_faces(points_N5, line_N, file)
    return points_N5[[place[name] for name in names]]


def _points(fields: Sequence[str], where: str) -> Complexes:
    try:
        x_5, y_5 = np.array([float(field) for field in fields]).reshape(_POINTS, 2).T
    except ValueError:
        got = " ".join(fields)
        raise UserError(
            f"{where}: {2 * _POINTS} numbers x1 y1 … x5 y5 expected after the path; got {readable(got)}"
        ) from None
    return np.asarray(x_5 + 1j * y_5)


def _require_faces(points_N5: Complexes, line_N: Ints, file: Path) -> None:
    """Raise a UserError for points that no transform can place, or that are in another order."""
    with np.errstate(all="ignore"):
        scale_N = np.abs(similarity(points_N5)[0])
    if (bad_N := ~((scale_N > 1 / LARGEST) & (scale_N < LARGEST))).any():
        raise UserError(
            f"{file}, line {line_N[bad_N.argmax()]}: the five points are not those of a face (all the same, "
            "too far apart, or not finite); correct the line, or remove the image."
        )
    eyes_N = points_N5[:, 1] - points_N5[:, 0]
    down_N = points_N5[:, 3:].mean(1) - points_N5[:, :2].mean(1)
    mirrored = int(((eyes_N.conj() * down_N).imag < 0).sum())
    if 2 * mirrored > len(points_N5):
        raise UserError(
            f"{file}: {mirrored:,} of {len(points_N5):,} faces are mirrored; the first point must be the eye "
            "further left in the picture, and the fourth the left corner of the mouth."
        )

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dmltune.data import pair_lists, pairs
from dmltune.data.alignment import LANDMARKS, TEMPLATE_5
from dmltune.errors import UserError


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_the_pairs_of_lfw_keep_their_order_and_each_file_comes_once(tmp_path: Path) -> None:
    write(tmp_path / "lfw" / "pairs.txt", "10\t300\nAbel_Pacheco\t1\t4\nBo\t12\tAbel_Pacheco\t1\n\n")
    found = pair_lists.lfw(tmp_path)
    files = [file.relative_to(tmp_path / "lfw").as_posix() for file in found.files]
    assert files == [
        "Abel_Pacheco/Abel_Pacheco_0001.jpg",
        "Abel_Pacheco/Abel_Pacheco_0004.jpg",
        "Bo/Bo_0012.jpg",
    ]
    assert found.left_P.tolist() == [0, 2]
    assert found.right_P.tolist() == [1, 0]
    assert found.same_P.tolist() == [True, False]
    emb_FD = np.random.default_rng(0).normal(size=(3, 5))
    lengths_F1 = np.linalg.norm(emb_FD, axis=1, keepdims=True)
    np.testing.assert_allclose(found.templates(emb_FD), emb_FD / lengths_F1)


def test_a_broken_list_of_lfw_is_one_clear_line(tmp_path: Path) -> None:
    for line, message in [
        ("Bo 1", r"pairs\.txt, line 2: 3 or 4 columns expected, got 2"),
        ("Bo one 2", r"pairs\.txt has 'one' where the number of a picture of Bo belongs"),
        ("", r"pairs\.txt lists no pair"),
    ]:
        write(tmp_path / "pairs.txt", f"10 300\n{line}\n")
        with pytest.raises(UserError, match=message):
            pair_lists.lfw(tmp_path)


def ijbc(root: Path, compared: str) -> Path:
    write(root / "IJBC" / pair_lists.FACES, "1.jpg 40 7\n2.jpg 40 7\n3.jpg 40 8\n4.jpg 9 7\n5.jpg 11 1\n")
    write(root / "IJBC" / pair_lists.COMPARED, compared)
    return root


def test_a_template_of_ijbc_is_the_mean_of_its_media_and_each_of_those_of_its_files(tmp_path: Path) -> None:
    found = pair_lists.ijbc(ijbc(tmp_path, "40 9 1\n11 40 0\n"))
    assert found.files[2] == tmp_path / "IJBC" / "loose_crop" / "3.jpg"
    assert (found.left_P.tolist(), found.right_P.tolist()) == ([2, 1], [0, 2])
    assert found.same_P.tolist() == [True, False]
    emb_FD = np.random.default_rng(0).normal(size=(5, 4))
    mean_40 = ((emb_FD[0] + emb_FD[1]) / 2 + emb_FD[2]) / 2
    by_hand = [mean / np.linalg.norm(mean) for mean in (emb_FD[3], emb_FD[4], mean_40)]  # 9, 11, 40
    np.testing.assert_allclose(found.templates(emb_FD), by_hand)


@pytest.mark.parametrize("compared", ["40 10 1\n", "40 9\n", "40 x 1\n"])
def test_pairs_of_templates_that_are_not_there_are_one_clear_line(compared: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ijbc: .*pair_label\.txt (must have two templates|cannot be read)"):
        pair_lists.ijbc(ijbc(tmp_path, compared))


def picture(file: Path, shade: int = 0) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6), (shade, shade, shade)).save(file)
    return file


def test_a_table_names_images_from_its_own_folder_and_keeps_the_order(tmp_path: Path) -> None:
    text = "same,left,right,note\n1,a/1.png,b.png,x\nfalse,b.png,a/1.png,\nYES,c.png,a/1.png,y\n"
    found = pairs.read_pairs(write(tmp_path / "mine.csv", text))
    assert [file.relative_to(tmp_path).as_posix() for file in found.files] == ["a/1.png", "b.png", "c.png"]
    assert (found.left_P.tolist(), found.right_P.tolist()) == ([0, 1, 2], [1, 0, 0])
    assert found.same_P.tolist() == [True, False, True]


def test_a_broken_table_is_one_clear_line(tmp_path: Path) -> None:
    for text, message in [
        (
            "left,right\na,b\n",
            r"must have the columns left,right,same and a line for each pair; got left,right",
        ),
        ("left,right,same\n", r"must have the columns left,right,same .* got no pair"),
        ("left,right,same\na,b,1\na,c,maybe\n", r"mine\.csv, line 3: same must be 1 or 0; got 'maybe'"),
        ("left,right,same\na,b\n", r"line 2: same must be 1 or 0; got ''"),
    ]:
        with pytest.raises(UserError, match=message) as caught:
            pairs.read_pairs(write(tmp_path / "mine.csv", text))
        assert "\n" not in str(caught.value)


def test_lfw_is_found_by_its_list_or_its_folder_as_jpg_or_png(tmp_path: Path) -> None:
    listed = write(tmp_path / "lfw" / "pairs.txt", "1\t1\nBo\t1\t2\n")
    assert pairs.read_pairs(listed).files[0].name == "Bo_0001.jpg"
    picture(tmp_path / "lfw" / "Bo" / "Bo_0001.png")
    for path in (listed, tmp_path / "lfw", tmp_path):
        assert [file.name for file in pairs.read_pairs(path).files] == ["Bo_0001.png", "Bo_0002.png"]


def test_the_folder_of_ijbc_is_known_by_its_lists(tmp_path: Path) -> None:
    write(tmp_path / "IJBC" / pair_lists.FACES, "1.jpg 40 7\n2.jpg 9 7\n")
    write(tmp_path / "IJBC" / pair_lists.COMPARED, "40 9 1\n")
    for path in (tmp_path, tmp_path / "IJBC"):
        assert pairs.read_pairs(path).files[0].name == "1.jpg"


VIDEOS = {"Ann_Lee/0": 3, "Ann_Lee/2": 1, "Bo/5": 2}
HEADER = "split number, pair number, first name, second name, is same?\n"


def youtube(root: Path, text: str, frames: str = "aligned_images_DB") -> Path:
    """Write a small copy of the layout: splits.txt and frames of every video, the later ones lighter."""
    for number, (video, count) in enumerate(VIDEOS.items()):
        for frame in range(count):
            picture(root / "YouTubeFaces" / frames / video / f"{number}.{10 + frame}.jpg", 60 * frame)
    return write(root / "YouTubeFaces" / "splits.txt", text)


def test_a_template_of_youtube_faces_is_the_mean_of_all_frames_of_a_video(tmp_path: Path) -> None:
    listed = youtube(tmp_path, HEADER + "2, 1, Ann_Lee/0, Bo/5, 0\n1, 1, Ann_Lee/2, Ann_Lee/0, 1\n\n")
    write(tmp_path / "YouTubeFaces" / "aligned_images_DB" / "Bo" / "5" / "notes.txt", "no frame")
    for path in (listed, listed.parent, tmp_path):
        found = pairs.read_pairs(path)
        assert [file.relative_to(listed.parent).as_posix() for file in found.files] == [
            *(f"aligned_images_DB/Ann_Lee/0/0.1{frame}.jpg" for frame in range(3)),
            "aligned_images_DB/Ann_Lee/2/1.10.jpg",
            *(f"aligned_images_DB/Bo/5/2.1{frame}.jpg" for frame in range(2)),
        ]
        assert (found.left_P.tolist(), found.right_P.tolist()) == ([1, 0], [0, 2])  # the first split first
        assert found.same_P.tolist() == [True, False]
    emb_FD = np.random.default_rng(0).normal(size=(6, 4))
    means = [emb_FD[:3].mean(0), emb_FD[3], emb_FD[4:].mean(0)]
    np.testing.assert_allclose(found.templates(emb_FD), [mean / np.linalg.norm(mean) for mean in means])
    assert len(pairs.pair_images(found, listed)) == 6


def test_the_columns_of_youtube_faces_are_found_by_their_names(tmp_path: Path) -> None:
    listed = youtube(
        tmp_path, "Split number,first name,second name,is same\n1,Bo/5,Ann_Lee/2,0\n", "frame_images_DB"
    )
    found = pairs.read_pairs(listed)
    assert found.files[1].parent == tmp_path / "YouTubeFaces" / "frame_images_DB" / "Bo" / "5"
    assert (found.left_P.tolist(), found.right_P.tolist(), found.same_P.tolist()) == ([1], [0], [False])


def test_a_broken_copy_of_youtube_faces_is_one_clear_line(tmp_path: Path) -> None:
    for text, message in [
        ("1, Bo/5, Ann_Lee/0, 1\n", r"splits\.txt must name its columns in the first line; it lacks sp"),
        (HEADER, r"splits\.txt lists no pair"),
        (HEADER + "1, 1, Bo/5, Ann_Lee/0, 2\n", r"line 2: the number of a split, two videos and 0 or 1 exp"),
        (HEADER + "1, 1, Bo/5\n", r"line 2: the number of a split.* got '1, 1, Bo/5'"),
        (HEADER + "1, 1, Bo/5, Bo/6, 1\n", r"Bo/6 is listed in .*splits\.txt but missing"),
    ]:
        with pytest.raises(UserError, match=message) as caught:
            pairs.read_pairs(youtube(tmp_path, text))
        assert "\n" not in str(caught.value)
    listed = write(tmp_path / "empty" / "splits.txt", HEADER + "1, 1, Bo/5, Bo/6, 1\n")
    with pytest.raises(UserError, match=r"has none of the folders aligned_images_DB, frame_images_DB"):
        pairs.read_pairs(listed)
    (listed.parent / "frame_images_DB" / "Bo" / "5").mkdir(parents=True)
    with pytest.raises(UserError, match=r"Bo/5 has no frame \(\.jpg, \.png\)"):
        pairs.read_pairs(listed)


def points_of(shift: complex) -> str:
    return " ".join(f"{z.real:.3f} {z.imag:.3f}" for z in TEMPLATE_5 + shift)


def test_pairs_are_aligned_by_landmarks_beside_their_list(tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 256, (150, 150, 3), dtype=np.uint8)
    for name in ("a.png", "b.png"):
        Image.fromarray(image).save(tmp_path / name)
    listed = write(tmp_path / "mine.csv", "left,right,same\na.png,b.png,1\n")
    plain = pairs.pair_images(pairs.read_pairs(listed), listed)
    text = f"a.png {points_of(8 + 0j)}\nb.png {points_of(20 + 6j)}\n"
    write(tmp_path / LANDMARKS, text)
    aligned = pairs.pair_images(pairs.read_pairs(listed), listed)
    assert aligned.key != plain.key
    for square, (x, y) in zip(aligned.read(range(2)), [(8, 0), (20, 6)], strict=True):
        assert np.abs(square.astype(int) - image[y : y + 112, x : x + 112]).max() <= 1
    write(tmp_path / LANDMARKS, text.partition("\n")[0])
    with pytest.raises(UserError, match=r"landmarks\.txt has no line for 'b\.png'"):
        pairs.pair_images(pairs.read_pairs(listed), listed)


def test_ijbc_is_aligned_by_its_own_list_of_landmarks_with_scores(tmp_path: Path) -> None:
    folder = ijbc(tmp_path, "40 9 1\n11 40 0\n") / "IJBC"
    image = np.random.default_rng(0).integers(0, 256, (120, 130, 3), dtype=np.uint8)
    for number in range(1, 6):
        picture(folder / "loose_crop" / f"{number}.jpg")
        Image.fromarray(image).save(folder / "loose_crop" / f"{number}.jpg", format="PNG")
    lines = [f"{number}.jpg {points_of(number + 2j)} 0.98" for number in range(1, 6)]
    write(folder / pair_lists.POINTS, "\n".join(lines))
    squares = pairs.pair_images(pairs.read_pairs(tmp_path), folder).read(range(5))
    for number, square in enumerate(squares, 1):
        assert np.abs(square.astype(int) - image[2:114, number : number + 112]).max() <= 1


def test_anything_else_is_told_what_it_could_be(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.csv", write(tmp_path / "list.txt", "a b 1")):
        with pytest.raises(
            UserError, match=r"--pairs must be LFW's pairs\.txt, YouTube Faces' splits\.txt, the folder of"
        ):
            pairs.read_pairs(path)


def test_images_are_read_in_the_order_of_the_files_and_have_to_be_there(tmp_path: Path) -> None:
    listed = write(tmp_path / "mine.csv", "left,right,same\nb.png,a.png,1\n")
    picture(tmp_path / "a.png", 10)
    found = pairs.read_pairs(listed)
    with pytest.raises(UserError, match=r"b\.png is listed in .*mine\.csv but missing"):
        pairs.pair_images(found, listed)
    picture(tmp_path / "b.png", 200)
    images = pairs.pair_images(found, listed)
    assert [int(pixels.max()) for pixels in images.read(range(2))] == [10, 200]


def test_scores_are_the_cosines_of_every_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    names = [f"{number}.png" for number in range(9)]
    chosen = [(str(rng.choice(names)), str(rng.choice(names)), int(rng.integers(2))) for _ in range(50)]
    text = "left,right,same\n" + "".join(f"{a},{b},{same}\n" for a, b, same in chosen)
    found = pairs.read_pairs(write(tmp_path / "mine.csv", text))
    emb = {file.name: rng.normal(size=4) for file in found.files}
    monkeypatch.setattr(pairs, "_BLOCK", 28)  # seven pairs at a time
    scores = pairs.scores(found, np.stack([emb[file.name] for file in found.files]))
    expected = [emb[a] @ emb[b] / np.linalg.norm(emb[a]) / np.linalg.norm(emb[b]) for a, b, _ in chosen]
    np.testing.assert_allclose(scores, expected, atol=1e-12)

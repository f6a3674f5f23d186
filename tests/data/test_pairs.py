from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dmltune.data import pairs
from dmltune.errors import UserError


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_the_pairs_of_lfw_keep_their_order_and_each_file_comes_once(tmp_path: Path) -> None:
    write(tmp_path / "lfw" / "pairs.txt", "10\t300\nAbel_Pacheco\t1\t4\nBo\t12\tAbel_Pacheco\t1\n\n")
    found = pairs.lfw(tmp_path)
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
            pairs.lfw(tmp_path)


def ijbc(root: Path, compared: str) -> Path:
    write(root / "IJBC" / pairs.FACES, "1.jpg 40 7\n2.jpg 40 7\n3.jpg 40 8\n4.jpg 9 7\n5.jpg 11 1\n")
    write(root / "IJBC" / pairs.COMPARED, compared)
    return root


def test_a_template_of_ijbc_is_the_mean_of_its_media_and_each_of_those_of_its_files(tmp_path: Path) -> None:
    found = pairs.ijbc(ijbc(tmp_path, "40 9 1\n11 40 0\n"))
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
        pairs.ijbc(ijbc(tmp_path, compared))


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
    write(tmp_path / "IJBC" / pairs.FACES, "1.jpg 40 7\n2.jpg 9 7\n")
    write(tmp_path / "IJBC" / pairs.COMPARED, "40 9 1\n")
    for path in (tmp_path, tmp_path / "IJBC"):
        assert pairs.read_pairs(path).files[0].name == "1.jpg"


def test_anything_else_is_told_what_it_could_be(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.csv", write(tmp_path / "list.txt", "a b 1")):
        with pytest.raises(
            UserError, match=r"--pairs must be LFW's pairs\.txt, the folder of IJB-C, or a CSV"
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

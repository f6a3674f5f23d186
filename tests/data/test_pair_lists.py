from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dmltune.data import pair_lists, pairs
from dmltune.errors import UserError


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def picture(file: Path, shade: int = 0) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6), (shade, shade, shade)).save(file)
    return file


def test_a_table_names_images_from_its_own_folder_and_keeps_the_order(tmp_path: Path) -> None:
    text = "same,left,right,note\n1,a/1.png,b.png,x\nfalse,b.png,a/1.png,\nYES,c.png,a/1.png,y\n"
    found = pair_lists.read_pairs(write(tmp_path / "mine.csv", text))
    assert [file.relative_to(tmp_path).as_posix() for file in found.files] == ["a/1.png", "b.png", "c.png"]
    assert (found.left_P.tolist(), found.right_P.tolist()) == ([0, 1, 2], [1, 0, 0])
    assert found.same_P.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "left,right\na,b\n",
            r"must have the columns left,right,same and a line for each pair; got left,right",
        ),
        ("left,right,same\n", r"must have the columns left,right,same .* got no pair"),
        ("left,right,same\na,b,1\na,c,maybe\n", r"mine\.csv, line 3: same must be 1 or 0; got 'maybe'"),
        ("left,right,same\na,b\n", r"line 2: same must be 1 or 0; got ''"),
    ],
)
def test_a_broken_table_is_one_clear_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message) as caught:
        pair_lists.read_pairs(write(tmp_path / "mine.csv", text))
    assert "\n" not in str(caught.value)


def test_lfw_is_found_by_its_list_or_its_folder_as_jpg_or_png(tmp_path: Path) -> None:
    listed = write(tmp_path / "lfw" / "pairs.txt", "1\t1\nBo\t1\t2\n")
    assert pair_lists.read_pairs(listed).files[0].name == "Bo_0001.jpg"
    picture(tmp_path / "lfw" / "Bo" / "Bo_0001.png")
    for path in (listed, tmp_path / "lfw", tmp_path):
        assert [file.name for file in pair_lists.read_pairs(path).files] == ["Bo_0001.png", "Bo_0002.png"]


def test_the_folder_of_ijbc_is_known_by_its_lists(tmp_path: Path) -> None:
    write(tmp_path / "IJBC" / pairs.FACES, "1.jpg 40 7\n2.jpg 9 7\n")
    write(tmp_path / "IJBC" / pairs.COMPARED, "40 9 1\n")
    for path in (tmp_path, tmp_path / "IJBC"):
        assert pair_lists.read_pairs(path).files[0].name == "1.jpg"


def test_anything_else_is_told_what_it_could_be(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.csv", write(tmp_path / "list.txt", "a b 1")):
        with pytest.raises(
            UserError, match=r"--pairs must be LFW's pairs\.txt, the folder of IJB-C, or a CSV"
        ):
            pair_lists.read_pairs(path)


def test_images_are_read_in_the_order_of_the_files_and_have_to_be_there(tmp_path: Path) -> None:
    listed = write(tmp_path / "mine.csv", "left,right,same\nb.png,a.png,1\n")
    picture(tmp_path / "a.png", 10)
    found = pair_lists.read_pairs(listed)
    with pytest.raises(UserError, match=r"b\.png is listed in .*mine\.csv but missing"):
        pair_lists.pair_images(found, listed)
    picture(tmp_path / "b.png", 200)
    images = pair_lists.pair_images(found, listed)
    assert [int(pixels.max()) for pixels in images.read(range(2))] == [10, 200]


def test_scores_are_the_cosines_of_every_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    names = [f"{number}.png" for number in range(9)]
    chosen = [(str(rng.choice(names)), str(rng.choice(names)), int(rng.integers(2))) for _ in range(50)]
    text = "left,right,same\n" + "".join(f"{a},{b},{same}\n" for a, b, same in chosen)
    found = pair_lists.read_pairs(write(tmp_path / "mine.csv", text))
    emb = {file.name: rng.normal(size=4) for file in found.files}
    monkeypatch.setattr(pair_lists, "_BLOCK", 28)  # seven pairs at a time
    scores = pair_lists.scores(found, np.stack([emb[file.name] for file in found.files]))
    expected = [emb[a] @ emb[b] / np.linalg.norm(emb[a]) / np.linalg.norm(emb[b]) for a, b, _ in chosen]
    np.testing.assert_allclose(scores, expected, atol=1e-12)

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Bo 1", r"pairs\.txt, line 2: 3 or 4 columns expected, got 2"),
        ("Bo one 2", r"pairs\.txt has 'one' where the number of a picture of Bo belongs"),
        ("", r"pairs\.txt lists no pair"),
    ],
)
def test_a_broken_list_of_lfw_is_one_clear_line(line: str, message: str, tmp_path: Path) -> None:
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

"""embed, index, query, export on the command line: their files, and one line for every bad input."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

import dmltune
from dmltune.cli import main

from .conftest import NAME, Shop, png_that_claims

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DMLTUNE_STORE", shop.root)
    (tmp_path / "photos").symlink_to(shop.photos)

    def command(line: str) -> tuple[int, str, str]:
        code = main(shlex.split(line))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def test_embed_writes_a_row_for_each_image_in_both_formats(shop: Shop, run: Command, tmp_path: Path) -> None:
    code, out, errors = run("embed shop photos -o v.npy -f json")
    assert code == 0, errors
    told, vectors = json.loads(out), np.load(tmp_path / "v.npy")
    assert (vectors.shape, vectors.dtype) == ((36, 16), np.float32)
    assert np.array_equal(vectors, dmltune.load(NAME, store=shop.store).embed(told["paths"]))
    assert run("embed shop photos -o v.parquet")[0] == 0
    table = parquet.read_table(tmp_path / "v.parquet")
    assert table.column_names == ["vectors", "x", "y", "label", "path"]
    assert np.array_equal(np.array(table["vectors"].to_pylist(), np.float32), vectors)
    assert table["path"].to_pylist() == told["paths"]
    assert table["label"].to_pylist() == [Path(path).parent.name for path in told["paths"]]
    plane = np.stack([table["x"].to_numpy(), table["y"].to_numpy()], 1)
    centred = vectors - vectors.mean(0)
    spread = np.linalg.svd(centred, compute_uv=False)[:2]  # the first two principal axes
    np.testing.assert_allclose(np.linalg.norm(plane, axis=0), spread, rtol=1e-3)


def test_index_and_query_find_the_image_itself_and_write_a_page(run: Command, tmp_path: Path) -> None:
    code, out, errors = run("index shop photos -f json")
    assert code == 0, errors
    assert {"kind": "exact", "images": 36, "recall": 1.0}.items() <= json.loads(out).items()
    code, out, errors = run("query photos.index 'photos/test/kind 7/2.png' -k 5 --page q.html")
    assert code == 0, errors
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "photos/test/kind 7/2.png" in next(line for line in lines if line.strip().startswith("1 "))
    page = (tmp_path / "q.html").read_text()
    assert page.count("data:image/jpeg;base64,") == 6
    assert "http" not in page.replace("http-equiv", "")
    code, out, errors = run("query photos.index 'photos/test/kind 7/2.png' --rerank aqe -f json")
    assert code == 0, errors
    (query,) = json.loads(out)["queries"]
    assert len(query["neighbours"]) == 10
    # from somewhere else, without the variable: the index knows the store
    os.chdir(tmp_path.parent)
    os.environ.pop("DMLTUNE_STORE")
    assert run(f"query {tmp_path}/photos.index {tmp_path}/photos/test/'kind 7'/2.png")[0] == 0


def test_export_tells_agreement_and_latency(run: Command, tmp_path: Path) -> None:
    code, out, errors = run("export shop -o shop.safetensors")
    assert code == 0, errors
    assert "to torch at most (limit 0.0001)" in out
    assert " ms, torch " in out
    assert json.loads((tmp_path / "shop.safetensors.json").read_text())["file"] == "shop.safetensors"
    assert run("embed ./shop.safetensors photos -o v.npy")[0] == 0


def damaged(folder: Path) -> None:
    """Files and folders that cannot be used."""
    (folder / "empty").mkdir()
    (folder / "loop").mkdir()
    (folder / "loop" / "again").symlink_to(folder / "loop")
    (folder / "self.jpg").symlink_to(folder / "self.jpg")
    (folder / "cut.png").write_bytes((folder / "photos/test/kind 7/1.png").read_bytes()[:50])
    (folder / "text.jpg").write_text("hello")
    (folder / "there.npy").write_text("x")
    (folder / "bad.index").write_text("x")
    (folder / "huge.png").write_bytes(png_that_claims(100_000, 100_000))
    os.mkfifo(folder / "pipe.jpg")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("embed shop nowhere -o v.npy", "no image file or folder 'nowhere'"),
        ("embed shop empty -o v.npy", "no image in the folder 'empty'"),
        ("embed shop loop -o v.npy", "no image in the folder 'loop'"),
        ("embed shop self.jpg -o v.npy", "'self.jpg' cannot be read"),
        ("embed shop cut.png -o v.npy", "'cut.png' cannot be read"),
        ("embed shop text.jpg -o v.npy", "not an image of a known format"),
        ("embed shop huge.png -o v.npy", "it claims more than 178,956,970 pixels"),
        ("embed shop pipe.jpg -o v.npy", "'pipe.jpg' cannot be read"),
        ("embed shop text.jpg cut.png --skip-unreadable -o v.npy", "none of the images can be read"),
        ("embed shop photos -o v.csv", "-o must end with .npy or .parquet"),
        ("embed shop photos -o no/v.npy", "no' does not exist. Make it first"),
        ("embed shop photos -o there.npy", "'there.npy' exists already"),
        ("embed shop photos -o empty", "-o must end with"),
        ("embed shop photos", "-o"),
        ("embed shpo photos -o v.npy", "did you mean 'shop'"),
        ("index shop empty", "no image in the folder"),
        ("index shop photos --kind igf", "did you mean 'ivf'"),
        ("index shop photos --kind pq", "--kind pq needs 1,000 images or more; got 36"),
        ("index shop photos -o bad.index", "'bad.index' exists already"),
        ("query bad.index cut.png", "'bad.index' is damaged, or no index"),
        ("query no.index cut.png", "no index 'no.index'"),
        ("query good.index cut.png", "'cut.png' cannot be read"),
        ("query good.index empty", "empty is a folder"),
        ("query good.index nowhere.jpg", "'nowhere.jpg' cannot be read"),
        ("query good.index photos/test/a.png --model nothing", "no search, training or run 'nothing'"),
        ("query good.index cut.png --page q.txt", "--page must end with .html"),
        ("export shop -o x.bin", "or name a --format"),
        ("export shop --format onnx -o x.pt", "-o must end with .onnx"),
        ("export shop -o no/x.onnx", "does not exist"),
        ("serve shop --index no.index --port 0", "no index 'no.index'"),
        ("serve shop --host nowhere.invalid", "--host must be an address of this machine"),
    ],
)
def test_bad_input_is_one_line(line: str, says: str, shop: Shop, run: Command, tmp_path: Path) -> None:
    damaged(tmp_path)
    if "good.index" in line:
        assert run("index shop photos -o good.index")[0] == 0
    before = {file.name for file in tmp_path.iterdir()}
    code, out, errors = run(line)
    assert code == 2
    assert out == ""
    *_, last = errors.strip().splitlines()
    assert says in last
    assert "Traceback" not in errors
    assert {file.name for file in tmp_path.iterdir()} == before


def test_names_that_are_no_utf8_and_unreadable_images_that_are_skipped(run: Command, tmp_path: Path) -> None:
    folder = tmp_path / "mixed" / "kind"
    folder.mkdir(parents=True)
    odd = os.path.join(os.fsencode(folder), b"\xff\xfe.png")
    with open(odd, "wb") as file:
        file.write((tmp_path / "photos/test/kind 7/1.png").read_bytes())
    (folder / "cut.png").write_bytes(b"x")
    code, out, errors = run("index shop mixed --skip-unreadable -f json")
    assert code == 0, errors
    document = json.loads(out)
    assert (document["images"], len(document["skipped"])) == (1, 1)
    assert "1 of 2 images cannot be read" in errors
    code, out, errors = run("query mixed.index 'photos/test/kind 7/1.png' --page q.html -f json")
    assert code == 0, errors
    assert json.loads(out)["queries"][0]["neighbours"][0]["distance"] == pytest.approx(0, abs=1e-3)
    code, out, errors = run("embed shop mixed -o v.parquet --skip-unreadable")
    assert code == 0, errors


def test_a_taken_port_is_one_line(run: Command) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, out, errors = run(f"serve shop --port {taken.getsockname()[1]}")
    assert (code, out) == (2, "")
    assert "cannot be used (Address already in use). Choose another --port" in errors


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_folders_without_permission_are_one_line(run: Command, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o000)
    for line in ("embed shop closed -o v.npy", "embed shop photos -o closed/v.npy"):
        code, _, errors = run(line)
        assert code == 2
        assert len(errors.strip().splitlines()) == 1


@pytest.mark.parametrize("method", ["k-reciprocal", "aqe"])
def test_evaluate_tells_what_re_ranking_adds(method: str, run: Command) -> None:
    code, out, errors = run(f"evaluate shop --rerank {method} -f json")
    assert code == 0, errors
    document = json.loads(out)
    after = document["reranked"]
    assert after["method"] == method
    assert after["gain"] == pytest.approx(after["map_at_r"] - document["map_at_r"])
    code, out, errors = run(f"evaluate shop --rerank {method}")
    assert code == 0, errors
    assert f"re-ranked by {method}, %" in out
    assert max(map(len, out.splitlines())) <= 80

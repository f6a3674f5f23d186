"""`dmltune weights`, and searches on a machine that lacks something."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from weights.conftest import Published

from dmltune.cli import main
from dmltune.core.backbones import bn_inception
from dmltune.experiment import load_experiment
from dmltune.train.setup import random_weights

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_list_fetch_and_verify_tell_of_the_same_file(published: Published, capsys: Output) -> None:
    def weights(*words: str) -> tuple[int, dict[str, object]]:
        code = main(["weights", *words, "-f", "json"])
        document: dict[str, object] = json.loads(capsys.readouterr().out)
        return code, document

    def states() -> list[object]:
        return [row["state"] for row in weights("list", "bn_inception")[1]["weights"]]  # type: ignore[attr-defined]

    assert states() == ["absent"]
    assert main(["weights", "fetch", "bn_inception"]) == 0
    assert capsys.readouterr().out == f"bn_inception imagenet: {published.path}\n"
    assert states() == ["here"]
    code, document = weights("verify", "cub-ccp")
    assert (code, document["ok"]) == (0, True)
    published.path.write_bytes(published.content[:-1] + b"\1")
    code, document = weights("verify", "bn_inception")
    assert (code, document["ok"]) == (1, False)
    assert main(["weights", "verify", "bn_inception"]) == 1
    assert "1 of 1 files are damaged" in capsys.readouterr().out
    assert main(["weights", "fetch", "bn_inception"]) == 0  # a damaged file is fetched again
    assert published.path.read_bytes() == published.content


def test_a_name_without_weights_is_one_line(published: Published, capsys: Output) -> None:
    for words, said in (
        (("fetch",), "dmltune weights fetch needs a NAME"),
        (("fetch", "resnet20"), "no weights of resnet20 are published"),
        (("list", "bn_incepton"), "did you mean 'bn_inception'"),
        (("list", "torchvision/resnet19"), "did you mean"),
    ):
        assert main(["weights", *words]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    assert main(["weights", "list", "torchvision/resnet1*"]) == 0
    # 18 has one version of its weights, 101 and 152 have two
    assert capsys.readouterr().out.count("torchvision/resnet1") == 5


def test_a_search_without_data_weights_and_network_says_all_and_what_runs_instead(
    published: Published, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["search", "cub-ccp", "--store", "runs", "--offline"]
    monkeypatch.setenv("DMLTUNE_OFFLINE", "")
    assert main(command) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "cub-ccp cannot begin here: 2 problems"
    assert "1. data set 'cub' needs the folder CUB_200_2011; say where it is" in lines[1]
    assert f"2. weights imagenet of bn_inception ({published.file}, 45.0 MB) are not here, and" in lines[2]
    assert "(DMLTUNE_OFFLINE is set)" in lines[2]
    assert f"put the file into {published.folder}, or set backbone.weights" in lines[2]
    assert lines[3:] == ["this runs here now:", "  dmltune search glyphs-ccp --offline --store runs"]
    assert published.site.asked == []
    recommended = shlex.split(lines[-1])[1:]
    assert main([*recommended, "data.classes=60", "--dry-run"]) == 0
    assert "nothing was started" in capsys.readouterr().out


def test_random_weights_at_a_rate_for_fine_tuning_are_warned_about() -> None:
    def warning(*overrides: str) -> str:
        return random_weights(load_experiment("cub-ccp", overrides))

    said = warning("backbone.weights=none")
    assert said.startswith("bn_inception starts from random weights (backbone.weights none) at a learning")
    assert "optimizer.lr 1e-05" in said
    assert warning() == ""
    assert warning("backbone.weights=none", "optimizer.lr=0.001") == ""
    assert warning("backbone={name: resnet20, weights: none}") == ""  # nobody publishes weights of it
    assert bn_inception.WEIGHTS.url

"""`dmltune search --data ./photos`: class folders, no YAML. The proposal is shown, stored, can be changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from data.tiny_layouts import picture
from support.driving import Place

from dmltune.cli import main, parser_of
from dmltune.cli.experiment_choice import PROPOSAL, name_of_data
from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.ledger import FILE

QUICK = ("data.size=16", "max_steps=2", "validate_every=1", "scheduler=none")


def photos(folder: Path, train: int = 6, test: int = 2, each: int = 3) -> Path:
    """Class folders in train and test, so that no hash deals them."""
    for number in range(train + test):
        half = "train" if number < train else "test"
        for index in range(each):
            picture(folder / half / f"kind {number}" / f"{index}.png", number, index)
    return folder


@pytest.fixture
def run_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """`run_here("search", "--data", "photos")` in `tmp_path`: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    for variable in ("DMLTUNE_STORE", "DMLTUNE_DATA", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))

    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


Command = Callable[..., tuple[int, str, str]]


def test_a_dry_run_says_what_it_chose_and_why_and_starts_nothing(run_here: Command, tmp_path: Path) -> None:
    photos(tmp_path / "my photos")
    code, out, err = run_here("search", "--data", "my photos", "--dry-run", "-f", "json")
    assert code == 0, err
    plan: dict[str, Any] = json.loads(out)
    assert plan["space"] == "my-photos"
    assert (plan["data"]["images"], plan["data"]["classes"]) == (18, 6)
    assert plan["experiment"]["data"]["path"] == str(tmp_path / "my photos")
    assert plan["baseline"]
    assert plan["reference_point"]
    for choice in plan["proposal"]["choices"]:
        assert choice["why"]
        assert f"{choice['what']}{choice['value']}".replace(" ", "") in "".join(err.split())
    assert max(map(len, err.splitlines())) <= 80
    assert not list((tmp_path / "mlruns").glob("searches/*"))


def test_the_written_space_is_the_one_that_would_be_searched(run_here: Command, tmp_path: Path) -> None:
    photos(tmp_path / "photos")
    file = "search_spaces/photos.yaml"
    code, out, err = run_here("search", "--data", "photos", "--write", file, "--dry-run", "-f", "json")
    assert code == 0, err
    assert load_experiment("photos").to_dict() == json.loads(out)["experiment"]
    (tmp_path / file).write_text("about: changed by hand\n")
    code, _, err = run_here("search", "--data", "photos", "--write", file, "--dry-run")
    assert code == 2
    assert "exists already" in err
    assert (tmp_path / file).read_text() == "about: changed by hand\n"


def test_the_first_word_is_an_override_and_all_are_laid_over_the_proposal(
    run_here: Command, tmp_path: Path
) -> None:
    photos(tmp_path / "photos")
    code, out, err = run_here(
        "search", "max_steps=9", "--data", "photos", "loss=triplet", "--dry-run", "-f", "json"
    )
    assert code == 0, err
    experiment = json.loads(out)["experiment"]
    assert (experiment["max_steps"], experiment["loss"]["name"]) == (9, "triplet")
    assert experiment["validate_every"] <= 3  # it follows the steps


def test_a_table_of_paths_and_labels_is_as_good_as_folders(run_here: Command, tmp_path: Path) -> None:
    photos(tmp_path / "shop")
    rows = [
        f"{file.relative_to(tmp_path)},{file.parent.name},{file.parents[1].name}"
        for file in sorted((tmp_path / "shop").rglob("*.png"))
    ]
    (tmp_path / "shop.csv").write_text("\n".join(["path,label,split", *rows]) + "\n")
    code, out, err = run_here("search", "--data", "shop.csv", "--dry-run", "-f", "json")
    assert code == 0, err
    assert json.loads(out)["data"]["classes"] == 6
    assert json.loads(out)["space"] == "shop"


@pytest.mark.parametrize(
    ("train", "each", "words", "expected"),
    [
        (0, 0, "search --data nowhere", "nowhere', which does not exist"),
        (0, 0, "search --data .", "own: "),
        (1, 5, "search --data photos", "needs 4 classes to train and validate on"),
        (3, 5, "train --data photos", "photos has 3. Add classes"),
        (6, 1, "search --data photos", "6 of the 6 classes to train on"),
        (6, 3, "search glyphs-ccp --data photos", "leave out 'glyphs-ccp'"),
        (6, 3, "search glyphs-ccp --write x.yaml", "--write writes the space that is proposed for --data"),
        (6, 3, "search --data photos --write x.txt", "--write must name a .yaml file"),
        (6, 3, "search --data photos max_stps=3", "override 'max_stps=3'"),
        (6, 3, "search --data photos batch.size=513", "training classes; got"),
        (
            6,
            3,
            "search --data photos objective.protocol=tuning",
            "Use objective.protocol=ablation, which has 3.",
        ),
        (6, 3, "train --data photos --trials 2", "For more: dmltune search --data photos"),
    ],
)
def test_what_cannot_be_searched_is_one_line_that_says_what_is_needed(
    train: int, each: int, words: str, expected: str, run_here: Command, tmp_path: Path
) -> None:
    if train:
        photos(tmp_path / "photos", train, 2, each)
    code, out, err = run_here(*words.split())
    assert code == 2
    assert out == ""
    *_, line = err.strip().splitlines()  # the proposal may stand before it
    assert expected in line
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("data", "name"), [("./photos/", "photos"), ("my photos", "my-photos"), ("/x/.é", "own"), ("a.b", "a.b")]
)
def test_a_search_is_called_after_its_data(data: str, name: str) -> None:
    assert name_of_data(Path(data)) == name


def test_an_override_without_a_key_is_refused_in_the_place_of_the_space() -> None:
    with pytest.raises(UserError, match="leave out '=3'"):
        parser_of("search").parse(["=3", "--data", "photos"])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("place"))
    yield place
    place.clean_up()


def test_a_search_runs_and_the_same_name_goes_on_with_the_stored_space(
    place: Place, run_here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos(place.folder / "photos")
    changes = (
        "loss=triplet",
        "batch={size: 8, samples_per_class: 2}",
        "references.patience=2",
        "--seed",
        "3",
    )
    words = ("search", "--data", "photos", *QUICK, *changes, "--trials", "2", "--name", "mine", "-f", "json")
    code, out, errors = place.run(*words)
    assert code == 0, errors
    first = json.loads(out)
    assert [row["role"] for row in first["rows"]] == ["reference", "baseline"]
    stored = place.store / "searches" / "mine" / PROPOSAL
    assert stored.read_text() == first["proposal"]["yaml"]

    monkeypatch.chdir(place.folder)
    stored.write_text(stored.read_text() + "# another version would propose something else\n")
    code, out, errors = run_here(*words)  # nothing is left to do
    assert code == 0, errors
    assert "mine continues with the space that was proposed for it" in errors
    assert json.loads(out)["winner"] == first["winner"]
    assert json.loads(out)["proposal"]["yaml"] == stored.read_text()

    photos(place.folder / "others")
    code, _, errors = run_here(*(word.replace("photos", "others") for word in words))
    assert code == 2
    assert "'mine' was made with another configuration: data.path: " in errors


def test_monitoring_the_test_classes_is_said_loudly_by_every_command(
    run_here: Command, tmp_path: Path
) -> None:
    loud = "conventional protocol: these figures were monitored on the test classes"
    photos(tmp_path / "photos")
    words = ("--data", "photos", *QUICK, "objective.protocol=conventional", "--name", "seen")
    code, out, errors = run_here("search", *words, "--dry-run")
    assert code == 0, errors
    assert loud in out
    code, out, errors = run_here("train", *words)
    assert code == 0, errors
    assert loud in out
    for split in ("validation", "test"):
        code, out, errors = run_here("evaluate", "seen", "--split", split)
        assert code == 0, errors
        assert loud in out
        assert "6 images of 2 classes" in out  # the test half, both times
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "mlruns" / FILE).read_text().splitlines()]
    assert kinds == ["monitored", "evaluate"]

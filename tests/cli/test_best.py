"""`dmltune best`: the winner with what the repetitions say about it."""

from __future__ import annotations

import json
import shlex

import pytest
from support.stored_searches import point, reference, write_search
from support.stores import new_store

from dmltune.cli import main, parser_of
from dmltune.store import Store

OUTCOME = {
    "winner": 1,
    "winner_set": [1, 2],
    "noise": 0.012,
    "corrected": {"mean": 0.43, "low": 0.41, "high": 0.45},
    "lead": {"mean": 0.02, "low": -0.01, "high": 0.05},
    "lead_is_noise": True,
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = new_store(tmp_path_factory.mktemp("runs"))
    trials = [reference(0.40), point(0.45, proxies=5), point(0.47, proxies=6)]
    write_search(store, "repeated", trials, outcome=OUTCOME)
    write_search(store, "plain", trials)
    write_search(store, "fresh", [], state=None)
    return store


def shown(capsys: pytest.CaptureFixture[str], store: Store, *words: str) -> str:
    assert main(["best", *words, "--store", str(store.root)]) == 0
    return capsys.readouterr().out


def test_the_winner_of_the_repetitions_is_shown_and_not_the_highest_single_score(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shown(capsys, store, "repeated")
    assert max(len(line) for line in out.splitlines() if not line.startswith("  dmltune")) <= 80
    assert "trial 1 (search)" in out
    assert "43.0 [41.0, 45.0], corrected" in out
    assert "Winner set: trial 2 cannot be told from the winner." in out
    assert "Noise: 1.20 points" in out
    assert "+2.0 [-1.0, +5.0] points, within the noise" in out
    document = json.loads(shown(capsys, store, "repeated", "-f", "json"))
    assert document["winner"]["number"] == 1
    assert document["verdict"] == OUTCOME


def test_without_repetitions_it_is_the_best_trial_and_nothing_is_said_of_noise(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shown(capsys, store, "plain")
    assert "trial 2 (search)" in out
    assert "47.0 on the validation classes" in out
    assert "oise" not in out
    document = json.loads(shown(capsys, store, "plain", "-f", "json"))
    assert (document["winner"]["values"]["references.proxies"], document["verdict"]) == (6, None)


def test_the_commands_that_it_ends_with_can_be_typed(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = [line for line in shown(capsys, store, "plain").splitlines() if line.startswith("  dmltune")]
    assert len(commands) == 3
    for command in commands:
        _, name, *words = shlex.split(command.partition("  #")[0])
        parsed = parser_of(name).parse(words)
        assert (parsed.search if name == "check" else parsed.name) == "plain"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("plian", "no search 'plian' in this store; did you mean 'plain'?\n"),
        ("fresh", "search 'fresh' has no complete trial yet. Continue it: dmltune resume fresh\n"),
        ("a/b", "no search 'a/b' in this store; there are fresh, plain, repeated\n"),
    ],
)
def test_mistakes_are_one_line(
    name: str, message: str, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["best", name, "--store", str(store.root)]) == 2
    assert capsys.readouterr().err == message

"""`dmltune compare`: scores, settings, and a lead that knows the noise."""

from __future__ import annotations

import json
import math
import random
import statistics
from typing import Any

import pytest
from optuna.trial import TrialState
from scipy import stats
from support.stored_searches import (
    EXPERIMENT,
    REFERENCE,
    WrittenTrial,
    point,
    reference,
    repeat,
    write_search,
)
from support.stores import new_store

from dmltune.cli import main
from dmltune.search.comparing import lead_of, pooled, t_interval
from dmltune.store import Store

HALF = WrittenTrial("search", {0: 0.1, 10: 0.38}, REFERENCE, TrialState.PRUNED)
JUDGED: dict[str, Any] = {
    "winner": 2,
    "winner_set": [2],
    "noise": 0.01,
    "corrected": {"mean": 0.44, "low": 0.42, "high": 0.46},
    "lead": {"mean": 0.09, "low": 0.04, "high": 0.14},
    "lead_is_noise": False,
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """`a`: trial 1 wins, trials 0 and 1 have repetitions. `b` is plain. The others differ in what counts."""
    store = new_store(tmp_path_factory.mktemp("runs"))
    repeats = [repeat(0.42, 1), repeat(0.44, 1, of=1), repeat(0.47, 2, of=1)]
    write_search(store, "a", [reference(0.40), point(0.45, proxies=5), *repeats, HALF])
    baseline = WrittenTrial("baseline", {0: 0.1, 10: 0.35})
    judged = [reference(0.40), baseline, point(0.45), repeat(0.44, 1, of=2)]
    write_search(store, "judged", judged, outcome=JUDGED)
    write_search(store, "b", [reference(0.41), point(0.43, proxies=6)])
    write_search(store, "other-data", [reference(0.41)], data="glyphs:g")
    lower = EXPERIMENT.with_values({"objective.metric": "precision_at_1", "objective.protocol": "halves"})
    write_search(store, "other-metric", [reference(0.41)], experiment=lower)
    return store


def compared(capsys: pytest.CaptureFixture[str], store: Store, left: str, right: str) -> dict[str, Any]:
    assert main(["compare", left, right, "--store", str(store.root), "-f", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def table(capsys: pytest.CaptureFixture[str], store: Store, left: str, right: str) -> str:
    assert main(["compare", left, right, "--store", str(store.root)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    return out


def test_the_lead_is_paired_on_common_seeds_and_its_interval_is_students(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(capsys, store, "a", "a/0")
    lead = ((0.45 - 0.40) + (0.44 - 0.42)) / 2  # seeds 0 and 1; seed 2 has no partner
    cells = [[0.40, 0.42], [0.45, 0.44, 0.47]]
    squares = sum((x - statistics.mean(cell)) ** 2 for cell in cells for x in cell)
    noise = math.sqrt(squares / 3)
    half = stats.t(3).ppf(0.975) * noise * math.sqrt(2 / 2)
    assert found["lead"] == pytest.approx(lead)
    assert found["noise"] == {"std": pytest.approx(noise), "freedom": 3}
    assert found["interval"]["low"] == pytest.approx(lead - half)
    assert found["lead_is_noise"] is bool(lead < half)
    assert found["differences"] == {"references.proxies": [5, REFERENCE["references.proxies"]]}
    mirrored = compared(capsys, store, "a/0", "a/1")
    assert mirrored["lead"] == pytest.approx(-lead)
    assert mirrored["interval"]["high"] == pytest.approx(half - lead)


def test_two_searches_are_their_winners_and_the_noise_of_either_counts(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(capsys, store, "b", "a")
    assert (found["left"]["trial"]["number"], found["right"]["trial"]["number"]) == (1, 1)
    assert found["lead"] == pytest.approx(0.43 - 0.45)  # the seed that both have
    assert found["noise"]["freedom"] == 3
    assert found["lead_is_noise"]
    out = table(capsys, store, "b", "a")
    assert "points, within the noise." in out
    assert "The lead is over the 1 training of both with the same seed." in out
    assert "references.proxies" in out


def test_a_winner_against_its_baseline_is_shown_with_the_lead_that_the_search_has_stored(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """The two read the trials in another way; `best` shows the second."""
    expected = "judged leads its baseline by +9.0 [+4.0, +14.0] points, above the noise."
    for left, right in (("judged", "judged/1"), ("judged/1", "judged/2")):
        assert expected in " ".join(table(capsys, store, left, right).split())
    assert "reads all its trials" not in table(capsys, store, "judged/0", "judged/1")


def test_a_pruned_trial_is_said_to_have_no_final_score(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    out = table(capsys, store, "a/5", "a/0")
    assert "same seed" not in table(capsys, store, "b", "a/5")  # one training each
    assert "a/5 is pruned at step 10 of 20: its score is not final." in out
    assert "All settings are equal." in out
    ends = compared(capsys, store, "a/5", "a/0")
    assert ends["left"]["curve"] == [{"step": 0, "score": 0.1}, {"step": 10, "score": 0.38}]
    assert ends["right"]["best_step"] == 20


def test_other_data_another_metric_or_protocol_is_not_compared(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(capsys, store, "a", "other-data")
    assert (found["comparable"], found["lead"]) == (False, None)
    assert found["obstacles"] == ["other data: glyphs:f and glyphs:g"]
    reasons = compared(capsys, store, "a", "other-metric")["obstacles"]
    assert reasons == [
        "other metric: map_at_r and precision_at_1",
        f"other protocol: {EXPERIMENT.objective.protocol} and halves",
    ]
    assert "cannot be compared: other data" in table(capsys, store, "a", "other-data")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("aa/1", "no search 'aa' in this store; did you mean 'a'?\n"),
        ("a/x", "a trial must be NAME/NUMBER, such as demo/3; got 'a/x'\n"),
        ("a/9", "search 'a' has no trial 9; it has 0 to 5\n"),
    ],
)
def test_mistakes_are_one_line(
    word: str, message: str, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "a", word, "--store", str(store.root)]) == 2
    assert capsys.readouterr().err == message


def test_the_interval_covers_the_true_lead_in_95_of_100_simulated_comparisons() -> None:
    """Two configurations with a lead of 0.3, three seeds each, noise 1."""
    numbers, covered, times = random.Random(0), 0, 2000
    for _ in range(times):
        a = {(seed, 0): 0.3 + numbers.gauss(0, 1) for seed in range(3)}
        b = {(seed, 0): numbers.gauss(0, 1) for seed in range(1, 4)}
        if numbers.random() < 0.5:
            b = {(seed + 9, 0): score for (seed, _), score in b.items()}  # no seed in common
        noise = pooled([list(a.values()), list(b.values())])
        assert noise is not None
        lead, error = lead_of(a, b)
        interval = t_interval(lead, error * noise.std, noise.freedom)
        covered += interval.low <= 0.3 <= interval.high
    assert abs(covered / times - 0.95) < 0.02

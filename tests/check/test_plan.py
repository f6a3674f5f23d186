"""What a check trains: only ever more, never something else under the same name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dmltune.check.configurations import Configuration, changed, digest, key_of_label, merged
from dmltune.check.plan import CheckPlan, CheckRequest, prepare_check
from dmltune.check.protocols import protocol_for, with_patience_of
from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.resources import Locations
from dmltune.store import Store


def configuration(key: str, *words: str, label: str = "") -> Configuration:
    experiment = load_experiment("glyphs", words)
    values = {word.partition("=")[0]: float(word.partition("=")[2]) for word in words}
    return Configuration(key, (label or key,), experiment, values)


WINNER = configuration("winner", "loss.neg_margin=0.7")
REFERENCE = configuration("reference", "loss.neg_margin=0.6")
BASELINE = configuration("baseline")


def plan(
    *given: Configuration,
    before: CheckPlan | None = None,
    baseline: str | None = None,
    **size: int,
) -> CheckPlan:
    baseline = baseline or key_of_label(given, "baseline")
    request = CheckRequest("birds-check", given, baseline, "glyphs", "birds", "a test", **size)
    return request.extend(before, "fair")


def test_every_configuration_is_trained_for_every_fold_and_seed_under_the_protocol_of_the_check() -> None:
    members = plan(WINNER, BASELINE, folds=2, repeats=2).members()
    assert [member.name for member in members] == [
        f"{key}-fold{fold}-seed{1000 * (fold + 1) + repeat}"
        for repeat in (0, 1)
        for fold in (0, 1)
        for key in ("winner", "baseline")
    ]
    for member in members:
        assert (member.experiment.fold, member.experiment.seed) == (member.fold, member.seed)
        assert member.experiment.objective.protocol == "fair"
        assert not member.experiment.searchable
    whole = plan(WINNER, BASELINE).members()
    assert len({member.name for member in whole}) == 2 * 4 * 3
    assert len({member.seed for member in whole}) == 4 * 3  # no two folds start from the same weights


def test_a_seed_that_a_search_used_is_not_used_again() -> None:
    unlucky = replace(BASELINE, experiment=BASELINE.experiment.with_values({"seed": 1001}))
    assert plan(unlucky, repeats=3).seeds(0) == [1000, 1002, 1003]


def test_the_same_name_only_adds(tmp_path: Path) -> None:
    first = plan(WINNER, BASELINE, folds=2, repeats=2)
    first.write(tmp_path)
    before = CheckPlan.read(tmp_path)
    assert before is not None
    assert before.digest == first.digest
    assert plan(WINNER, BASELINE, before=before).digest == first.digest  # as before when nothing is said
    assert plan(WINNER, before=before, folds=1, repeats=1).digest == first.digest  # nothing is left out
    more = plan(WINNER, REFERENCE, BASELINE, before=before, repeats=3)
    assert (more.folds, more.repeats, more.baseline) == (2, 3, "baseline")
    assert [one.key for one in more.configurations] == ["winner", "baseline", "reference"]
    assert {member.name for member in first.members()} < {member.name for member in more.members()}
    assert CheckPlan.read(tmp_path / "nowhere") is None


def test_another_winner_under_the_same_name_is_refused_with_the_difference() -> None:
    before = plan(WINNER, BASELINE)
    other = configuration("winner", "loss.neg_margin=0.9")
    with pytest.raises(UserError, match=r"another winner: loss\.neg_margin: 0\.7 → 0\.9\. Choose another"):
        plan(other, BASELINE, before=before)


def test_a_configuration_with_another_key_is_not_trained_twice() -> None:
    before = plan(WINNER, REFERENCE, BASELINE)
    second = Configuration("trial-0000", ("trial 0", "reference point"), REFERENCE.experiment)
    after = plan(WINNER, second, BASELINE, before=before)
    assert [one.key for one in after.configurations] == ["winner", "reference", "baseline"]
    assert after.configurations[1].labels == ("reference", "trial 0", "reference point")
    assert {m.name for m in after.members()} == {m.name for m in before.members()}


def test_another_baseline_under_the_same_name_is_refused() -> None:
    before = plan(WINNER, BASELINE)
    with pytest.raises(UserError, match="compares with baseline, and now it would be winner"):
        plan(WINNER, BASELINE, before=before, baseline="winner")


def test_more_folds_than_the_protocol_has_are_one_line() -> None:
    for folds, repeats, message in ((5, 1, "1 to 4"), (0, 1, "1 to 4"), (1, 0, "1 to 999; got 0")):
        with pytest.raises(UserError, match=message):
            plan(WINNER, folds=folds, repeats=repeats)


def test_the_protocol_is_fair_or_the_next_smaller_one_that_has_enough_classes() -> None:
    expected = {150: "fair", 8: "fair", 7: "ablation", 6: "ablation", 5: "halves"}
    for classes, protocol in expected.items():
        experiment = load_experiment("glyphs", [f"data.classes={classes}", "objective.protocol=tuning"])
        note = f"{classes} training classes are too few for protocol fair (8): {protocol} is used"
        assert protocol_for(experiment, None) == (protocol, "" if protocol == "fair" else note)


def test_a_data_set_made_for_one_protocol_keeps_it() -> None:
    protocol, note = protocol_for(load_experiment("collage", ["data.classes=18"]), None)
    assert protocol == "ablation"
    assert "has classes for protocol ablation alone" in note


def test_too_few_classes_are_one_line() -> None:
    with pytest.raises(UserError, match="needs 4 classes to train on; glyphs has 3"):
        protocol_for(load_experiment("glyphs", ["data.classes=3"]), None)


def test_a_configuration_is_the_same_whatever_its_fold_seed_and_search() -> None:
    one = load_experiment("glyphs-ccp")
    assert digest(one) == digest(one.fixed().with_values({"fold": 2, "seed": 7, "trials": 3}))
    assert digest(one) != digest(one.with_values({"loss.neg_margin": 0.9}))


def test_equal_configurations_are_one_with_all_their_labels() -> None:
    twin = Configuration("reference", ("reference point",), WINNER.experiment)
    (one,) = merged([WINNER, twin])
    assert (one.key, one.labels) == ("winner", ("winner", "reference point"))
    assert key_of_label([one], "reference point") == "winner"


def test_overrides_change_all_alike_but_not_what_the_search_varied() -> None:
    shorter = changed([WINNER, BASELINE], ["max_steps=90", "batch.size=32"])
    assert {one.experiment.max_steps for one in shorter} == {90}
    assert shorter[0].experiment.get("loss.neg_margin") == 0.7
    with pytest.raises(UserError, match=r"the configurations differ in loss\.neg_margin"):
        changed([WINNER, BASELINE], ["loss.neg_margin=0.5"])
    with pytest.raises(UserError, match="seed is set by the check"):
        changed([WINNER], ["seed=3"])
    with pytest.raises(UserError, match="did you mean 'max_steps'"):
        changed([WINNER], ["max_step=3"])


def space(name: str, *words: str) -> Configuration:
    return Configuration("winner", ("winner",), load_experiment(name, words).fixed())


@pytest.mark.parametrize(
    ("name", "words", "protocol", "patience"),
    [
        ("cub-ccp", (), "fair", 60),  # ablation, every 25 steps: 40
        ("sop-ccp", (), "fair", 60),
        ("cub-gsp", (), "fair", 15),  # tuning, every 100 steps: 10
        ("inshop-gsp", (), "fair", 10),  # tuning, every 1000 steps: 7
        ("sop-ccp", (), "conventional", 10),
        ("cars-ccp", (), "conventional", 15),
        ("cub-ccp", ("patience=12",), "fair", 12),  # chosen on purpose
        ("cub-ccp", ("validate_every=30",), "fair", 40),  # the thesis has no such cadence
        ("cub-lite-ccp", (), "fair", None),
    ],
)
def test_a_check_trains_with_the_patience_of_its_protocol(
    name: str, words: tuple[str, ...], protocol: str, patience: int | None
) -> None:
    before = space(name, *words)
    (after,), note = with_patience_of(protocol, [before])
    assert after.experiment.patience == patience
    changed = after.experiment.patience != before.experiment.patience
    assert bool(note) is changed
    assert len(after.experiment.differences(before.experiment)) == int(changed)


def test_the_users_patience_and_that_of_a_check_already_begun_stay(tmp_path: Path) -> None:
    locations = Locations(Store.at(tmp_path), None)
    words = ("data.classes=24", "patience=10", "validate_every=100", "max_steps=400")
    mine = space("glyphs", *words, "objective.protocol=tuning")
    request = CheckRequest("tiny", (mine,), None, "glyphs", "tiny", "a test")
    prepared = prepare_check(request, locations)
    assert prepared.plan.configurations[0].experiment.patience == 15
    assert "patience 10 → 15" in prepared.note
    chosen = prepare_check(replace(request, own_patience=True), locations)
    assert (chosen.plan.configurations[0].experiment.patience, chosen.note) == (10, "")
    folder = locations.store.search_folder("tiny")
    folder.mkdir(parents=True)
    chosen.plan.write(folder)  # as an older version began it
    assert prepare_check(request, locations).plan == chosen.plan


def test_a_request_with_a_protocol_of_its_own_is_planned_under_it(tmp_path: Path) -> None:
    locations = Locations(Store.at(tmp_path), None)
    request = CheckRequest(
        "tiny", (WINNER,), None, "glyphs", "tiny", "a test", repeats=2, protocol="conventional"
    )
    planned = prepare_check(request, locations).plan
    assert (planned.protocol, planned.folds, planned.repeats) == ("conventional", 1, 2)
    assert {member.experiment.objective.protocol for member in planned.members()} == {"conventional"}
    assert "monitored and stopped on the test classes" in request.warning(planned.protocol)
    assert request.warning("fair") == ""

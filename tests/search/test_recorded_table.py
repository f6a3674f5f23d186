"""The recorded table of benchmarks/data is whole, and the saw-tooth benchmark counts what it says."""

from __future__ import annotations

import json
from pathlib import Path

import record_table
import sawtooth

from dmltune.experiment import load_experiment

DATA = Path(record_table.__file__).parent / "data"


def test_the_table_has_sixty_configurations_of_its_space_with_three_whole_curves_each() -> None:
    document = json.loads((DATA / "glyphs-table.json").read_text(encoding="utf-8"))
    space = load_experiment(str(DATA / document["space"])).space
    configurations = document["configurations"]
    assert len(configurations) >= 60
    assert configurations == record_table.points(space, len(configurations))
    assert all(space.violated(values) is None for values in configurations)
    trials = {(row["configuration"], row["seed"]): row for row in document["trials"]}
    assert trials.keys() == {(number, seed) for number in range(len(configurations)) for seed in range(3)}
    for row in trials.values():
        assert len(row["scores"]) == len(row["projection"]) == len(document["steps"])
        assert row["projection"] == sorted(row["projection"])
        assert row["projection"][-1] >= 4
        assert row["seconds_per_step"] > 0
        assert all(0 < score < 1 for score in row["scores"])


def test_an_interrupted_recording_loses_its_last_line_only(tmp_path: Path) -> None:
    lines = tmp_path / "table.jsonl"
    assert record_table.read(lines) == []
    lines.write_text('{"seed": 0}\n{"seed": 1}\n{"se', encoding="utf-8")
    assert record_table.read(lines) == [{"seed": 0}, {"seed": 1}]
    assert lines.read_text(encoding="utf-8").endswith("1}\n")


def test_a_winner_that_dips_at_the_stock_rungs_is_dropped_there_and_not_at_projections(
    tmp_path: Path,
) -> None:
    """Validations 1 and 4 are the rungs of Ray's ASHA; the winner's score dips at the fourth."""
    projection = [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    rows = []
    for number in range(12):
        scores = [0.1 + 0.03 * number + 0.02 * at for at in range(12)]
        if number == 11:
            scores[3] = 0.01
        rows += [{"configuration": number, "seed": 0, "scores": scores, "projection": projection}]
    path = tmp_path / "table.json"
    path.write_text(json.dumps({"steps": list(range(1, 13)), "trials": rows}), encoding="utf-8")
    table = sawtooth.Table(path)
    rules = sawtooth.rules(table)
    found = {name: sawtooth.figures(table, rule, 40, 12, 2) for name, rule in rules.items()}
    dropped, used, lost = found["Ray's ASHA, its defaults"]
    assert dropped > 0.8
    assert 0 < used < 1
    assert lost > 0
    assert found["asha, unit projections"][0] == 0
    assert found["asha, unit projections"][2] == 0
    assert found["current score at steps [4]"][0] > 0.8

"""The trainings of every table have the settings in print, and all of their figures are measured."""

from __future__ import annotations

import functools

import pytest

from dmltune.data import catalog
from dmltune.experiment import Experiment
from dmltune.reproduce.paper_tables import cells, experiment_of, load_table, table_names
from dmltune.reproduce.printed_settings import deviations, printed_setting
from dmltune.reproduce.table_studies import configurations, key_of, request_of, select_table

DESIGN = {  # protocol, folds × repeats of a row, and which of the repeats is printed
    "3.1": ("fair", 4, 1, "mean"),
    "3.2": ("conventional", 1, 1, "mean"),
    "5.1": ("fair", 4, 3, "mean"),  # 3^4 = 81 collections
    "5.2": ("conventional", 1, 3, "best"),
    "5.3": ("fair", 4, 3, "mean"),
    "5.4": ("tuning", 1, 3, "mean"),
    **dict.fromkeys(("sft1", "sft3", "sft6", "ms2", "ms3"), ("conventional", 1, 1, "mean")),
}
COMPARED = {  # keys that a table states, or names as unsaid
    *("backbone.name", "embedding.dim", "batch.size", "batch.samples_per_class", "max_steps"),
    *(f"optimizer.{key}" for key in ("name", "lr", "weight_decay", "betas", "momentum", "milestones")),
    *(f"optimizer.{key}" for key in ("new_layer_factor", "proxy_factor", "decay", "plateau")),
    *("optimizer.warmup_new_layers", "objective.metric", "validate_every", "patience"),
}


@functools.cache
def trained(name: str, row: str, data: str) -> Experiment:
    return experiment_of(load_table(name), row, data)


@pytest.mark.parametrize("name", table_names())
def test_every_row_that_can_be_trained_is_an_experiment_on_its_data(name: str) -> None:
    table = load_table(name)
    source_name = table.trainings or name
    source = load_table(source_name)
    for label, row in table.rows.items():
        whose = row.as_ or label
        assert whose in source.rows
        if source.why_not(whose) or table.protocol == "facts":
            continue
        for data in row.theirs:
            experiment = trained(source_name, whose, data)
            assert experiment.data.name == table.data[data].name
            assert not experiment.searchable


@pytest.mark.parametrize("printed_table", DESIGN)
def test_trainings_have_the_settings_in_print(printed_table: str) -> None:
    """Data, batch, optimiser, cadence and patience of every row; protocol, folds and repeats of the plan."""
    table, selection = load_table(printed_table), select_table(printed_table)
    assert (table.protocol, table.folds, table.repeats, table.reported) == DESIGN[printed_table]
    unsaid = {"optimizer.warmup_new_layers" if key == "warmup_epochs" else key for key in table.unsaid}
    for label, row in table.rows.items():
        for data in [] if table.why_not(label) else row.theirs:
            experiment = trained(printed_table, label, data)
            assert experiment.data.name == table.data[data].name
            assert deviations(table, label, data, experiment) == [], (label, data)
            printed_keys = set(printed_setting(table, label, data, experiment))
            assert printed_keys.isdisjoint(unsaid), (label, data)
            assert printed_keys | unsaid >= COMPARED, (label, data)
    study = selection.studies()[0]
    chosen = configurations(selection, study)
    request = request_of(selection, study, chosen)
    plan = request.extend(None, request.protocol or "fair")
    assert (plan.protocol, plan.folds, plan.repeats) == DESIGN[printed_table][:3]
    for member in plan.members():
        row = next(each for each in study.rows if key_of(each) == member.key)
        lines = trained(printed_table, row, study.data).differences(member.experiment)
        assert {line.split(":")[0] for line in lines} <= {"objective.protocol", "fold", "seed"}
        assert member.experiment.objective.protocol == table.protocol


def test_every_figure_of_a_training_is_measured_by_its_check() -> None:
    always = {"precision_at_1", "map_at_r", "r_precision"}
    wanted, filled = 0, 0
    for table_name in table_names():
        selection = select_table(table_name)
        studies = {(study.data, row): study for study in selection.studies() for row in study.rows}
        for cell in cells(selection.table):
            if cell.theirs is None or selection.source.why_not(selection.trained_as(cell.row)):
                continue
            wanted += 1
            if cell.score not in ("single", "ensemble"):
                filled += 1
                continue
            study, data = studies[cell.data, selection.trained_as(cell.row)], selection.table.data[cell.data]
            recall = {f"recall_at_{k}" for k in catalog.recall_ks(data.name)}
            lists = {f"{part}_{one}" for part in ("small", "medium") for one in recall}
            clustering = request_of(selection, study, ()).clustering
            known = always | recall | (lists if data.name == "vehicleid" else set())
            assert cell.metric in known | ({"nmi", "f1"} if clustering else set()), (table_name, cell)
            filled += 1
    assert wanted == filled
    assert wanted == 842  # of 1,049; 111 are quoted, 60 of methods that are not here, 36 of faces


@pytest.mark.parametrize("name", table_names())
def test_rows_of_a_group_differ_in_what_the_table_compares_and_nothing_else(name: str) -> None:
    table = load_table(name)
    methods = {"references", "pooling", "zero_shot", "transform"} | ({"batch"} if name == "ms2" else set())
    for label, row in table.rows.items():
        if not row.group or table.why_not(label) or table.why_not(row.group):
            continue
        for data in row.theirs:
            lines = trained(name, row.group, data).differences(trained(name, label, data))
            changed = {line.split(":")[0].split(".")[0] for line in lines}
            assert changed
            assert changed <= methods, (label, data)


def test_the_settings_of_the_text_are_in_the_experiments() -> None:
    ccp = trained("3.1", "C2+CCP-L", "SOP")
    assert ccp.references.parameters["proxies"] == 4
    assert (ccp.patience, ccp.validate_every, ccp.optimizer.lr) == (60, 250, 1e-5)
    assert ccp.max_steps >= 131_000  # the longest training of Table 3.3
    assert ccp.loss.parameters == {"pos_margin": 0.2858, "neg_margin": 0.5130}
    anchor = trained("5.1", "PAnchor+GSP", "SOP")
    assert (anchor.optimizer.lr, anchor.optimizer.proxy_factor, anchor.batch.samples_per_class) == (
        5e-6,
        100,
        1,
    )
    assert (anchor.pooling.parameters["epsilon"], anchor.pooling.parameters["prototypes"]) == (0.5, 128)
    assert anchor.optimizer.warmup_new_layers == -(-59551 * 3 // 4 // 32)  # an epoch of three quarters
    hard = trained("ms2", "ResNet-50 Hard", "Products")
    assert (hard.backbone.name, hard.batch.size, hard.batch.categories) == ("torchvision/resnet50", 96, 2)

"""A store that was damaged or moved: the finished search is continued, checked, evaluated and shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from malformed.case import Case, resume
from malformed.damage import (
    DATABASE_DAMAGES,
    JSON_DAMAGES,
    Damage,
    artifact,
    bits,
    cut,
    edit,
    first,
    metadata,
    moved,
    replaced,
    statement,
    store_file,
    tensors,
    without,
    write,
)
from support.finished_search import NAME, OVERRIDES, TRIALS

EVALUATE = ("evaluate", NAME, "-f", "json", "--store", "{store}")
CHECK = ("check", NAME, "--dry-run", "--store", "{store}")
TABLE = ("table", "--store", "{store}")
UI = ("ui", "--port", "45381", "--store", "{store}")
OTHER = (
    "search",
    "glyphs-ccp",
    *(*OVERRIDES, "max_steps=12"),
    "--trials",
    str(TRIALS),
    "--name",
    NAME,
    "--store",
    "{store}",
)
IDENTITY, PLAN = (
    store_file(f"searches/{NAME}/experiment.json"),
    store_file(f"searches/{NAME}-check/plan.json"),
)
WEIGHTS = artifact("model/model.safetensors")
RESULT, EXPERIMENT = artifact("result.json"), artifact("experiment.json")


METADATA = {  # of the file with the weights: it says how the model is used
    "none": lambda entries: {},
    "text": lambda entries: dict.fromkeys(entries, "x"),
    "empty": lambda entries: dict.fromkeys(entries, ""),
    "list": lambda entries: dict.fromkeys(entries, "[1, 2]"),
    "null": lambda entries: dict.fromkeys(entries, "null"),
    "first-missing": lambda entries: dict(list(entries.items())[1:]),
    "last-missing": lambda entries: dict(list(entries.items())[:-1]),
}


def plan_of(content: bytes) -> Damage:
    def damage(folder: Path) -> None:
        PLAN(folder).parent.mkdir(parents=True)
        PLAN(folder).write_bytes(content)

    return damage


def case(name: str, command: tuple[str, ...], prepare: Damage, says: str = "", code: int = 2) -> Case:
    return Case(name, command, says, code, prepare=prepare, saved=True, seconds=30)


CASES = [
    case("saved/whole-again", resume(), lambda folder: None, code=0),
    case("saved/whole-evaluate", EVALUATE, lambda folder: None, code=0),
    case("saved/whole-check", CHECK, lambda folder: None, code=0),
    case("saved/other-settings", OTHER, lambda folder: None, "max_steps"),
    case("saved/other-settings-plan", (*OTHER, "--dry-run"), lambda folder: None, "max_steps"),
    *(
        case(f"identity/{name}", resume(), make(IDENTITY), "experiment|result")
        for name, make in JSON_DAMAGES.items()
    ),
    case("identity/key", resume(), edit(IDENTITY, without("experiment")), "experiment.json"),
    *(
        case(f"result/{name}", CHECK, make(RESULT), "result")
        for name, make in JSON_DAMAGES.items()
        if name != "fifo"
    ),
    case("result-best/deep", ("best", NAME, "--store", "{store}"), JSON_DAMAGES["deep"](RESULT), "result"),
    case("result/key", CHECK, edit(RESULT, without("space_name")), "result"),
    case("result/rows", CHECK, edit(RESULT, lambda d: d.update(rows=[{}])), "result"),
    *(
        case(f"experiment/{name}", CHECK, make(EXPERIMENT), "experiment|result")
        for name, make in JSON_DAMAGES.items()
        if name != "fifo"
    ),
    *(
        case(f"plan/{name}", CHECK, plan_of(content), "plan.json")
        for name, content in {
            "empty": b"",
            "truncated": b'{"folds": 4, ',
            "binary": b"\xff\xfe",
            "list": b"[]",
            "null": b"null",
            "key": b'{"folds": 4}',
        }.items()
    ),
    *(case(f"model-meta/{name}", EVALUATE, metadata(change), "model") for name, change in METADATA.items()),
    case("weights/few-bits", EVALUATE, bits, "model"),
    case("weights/text", EVALUATE, write(WEIGHTS, b"no tensors"), "model"),
    case("weights/truncated", EVALUATE, cut(WEIGHTS, 0.5), "model"),
    case("weights/deleted", EVALUATE, replaced(WEIGHTS, "nothing"), "model"),
    case("weights/fifo", EVALUATE, replaced(WEIGHTS, "fifo"), "model"),
    case("weights/renamed", EVALUATE, tensors(lambda w: w.update(other=w.pop(first(w)))), "model"),
    case("weights/shape", EVALUATE, tensors(lambda w: w.update({first(w): w[first(w)][:1].copy()})), "model"),
    case(
        "weights/nan",
        EVALUATE,
        tensors(lambda w: w.update({first(w): np.full_like(w[first(w)], np.nan)})),
        "model",
    ),
    case("model/folder-deleted", EVALUATE, replaced(artifact("model"), "nothing"), "model"),
    case("artifacts/deleted", EVALUATE, replaced(store_file("artifacts"), "nothing"), "model"),
    case("artifacts/deleted-check", CHECK, replaced(store_file("artifacts"), "nothing")),
    case(
        "winner/tag-wrong",
        EVALUATE,
        statement("mlflow.db", "update tags set value = 'nosuchrun' where key like 'dmltune.winner%'"),
    ),
    case(
        "winner/trashed",
        EVALUATE,
        statement(
            "mlflow.db",
            "update runs set lifecycle_stage = 'deleted' where run_uuid in"
            " (select value from tags where key = 'dmltune.winner')",
        ),
    ),
    case(
        "experiment/trashed",
        resume(),
        statement("mlflow.db", "update experiments set lifecycle_stage = 'deleted' where name != 'Default'"),
    ),
    *(
        case(f"study/{name}", resume(), make(store_file("optuna.db")), "optuna")
        for name, make in DATABASE_DAMAGES.items()
    ),
    case("study/deleted", resume(), replaced(store_file("optuna.db"), "nothing"), "stud|optuna"),
    case("study/emptied", resume(), write(store_file("optuna.db"), b""), "stud|optuna"),
    case("study/study-gone", resume(), statement("optuna.db", "delete from studies"), "stud|optuna"),
    case("study/trials-gone", resume(), statement("optuna.db", "delete from trials"), "trial|optuna"),
    case(
        "study/attributes",
        resume(),
        statement("optuna.db", "update trial_user_attributes set value_json = '{'"),
        "stud|optuna",
    ),
    case(
        "study/schema-99",
        resume(),
        statement("optuna.db", "update version_info set schema_version = 99"),
        "optuna",
    ),
    case(
        "study/newer",
        resume(),
        statement("optuna.db", "update alembic_version set version_num = 'v99.0.0.a'"),
        "optuna",
    ),
    *(
        case(f"mlflow-{reader}/{name}", command, make(store_file("mlflow.db")), "mlflow|tracking|store")
        for reader, command in {
            "again": resume(),
            "evaluate": EVALUATE,
            "check": CHECK,
            "table": TABLE,
            "ui": UI,
        }.items()
        for name, make in DATABASE_DAMAGES.items()
        if name != "truncated" or reader in ("evaluate", "table")
    ),
    case("lock/fifo", resume(), replaced(store_file(f"searches/{NAME}/lock"), "fifo"), "lock"),
    case("lock/folder", resume(), replaced(store_file(f"searches/{NAME}/lock"), "folder"), "lock"),
    case("lock/creating-fifo", EVALUATE, replaced(store_file(".creating"), "fifo"), "creating"),
    case(
        "searches/file",
        resume(),
        lambda folder: (
            replaced(store_file("searches"), "nothing")(folder),
            write(store_file("searches"), b"x")(folder),
        ),
        "searches",
    ),
    case(
        "ledger/fifo",
        ("evaluate", NAME, "--split", "test", "--store", "{store}"),
        replaced(store_file("test_ledger.jsonl"), "fifo"),
        "ledger",
    ),
    case("moved/check", ("check", NAME, "--dry-run", "--store", "{store}-elsewhere"), moved, code=0),
]

"""A table's rows on rendered characters: for machines without its data, weights or accelerators.

Every row keeps its method, its loss with the parameters of the data set's space, and its protocol. Nothing in
print compares with it.
"""

from __future__ import annotations

from dmltune.reproduce.paper_tables import DataSet, PaperRow, Table

LABEL = "glyphs"
SMALL = (
    *("data.name=glyphs", "data.classes=120", "data.size=16", "data.augment=shift", "data.views=null"),
    *("backbone={name: resnet20, weights: none}", "embedding.dim=64", "optimizer.lr=1e-3"),
    *("optimizer.warmup_new_layers=24", "max_steps=240", "validate_every=24", "batch.size=36"),
)
TINY = (
    *("data.classes=24", "max_steps=2", "validate_every=1", "optimizer.warmup_new_layers=0"),
    *("batch={size: 6, samples_per_class: 3}", "embedding.dim=8"),
)


def on_stand_in(table: Table) -> Table:
    """Return the table with one data set, the stand-in, in the place of its own.

    A row has the settings of its first printed data set.
    """
    first, data = next(iter(table.data.items()))
    columns = table.columns_of(first)
    stand_in = DataSet(name=LABEL, space=data.space, overrides=data.overrides, columns=dict(columns))
    return table.model_copy(
        update={
            "about": f"{table.about}; here on rendered characters",
            "setting": {},
            "methods": {},
            "data": {LABEL: stand_in},
            "parts": {name: part.model_copy(update={"setting": {}}) for name, part in table.parts.items()},
            "rows": {name: _row(row, len(columns)) for name, row in table.rows.items()},
        }
    )


def _row(row: PaperRow, columns: int) -> PaperRow:
    own = next((row.on[data] for data in row.theirs if data in row.on), [])
    update = {"theirs": {LABEL: [None] * columns}, "on": {LABEL: [*own, *SMALL]}, "setting": {}}
    return row.model_copy(update=update)

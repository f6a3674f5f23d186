"""Own images in a CSV or Parquet table with the columns path and label.

The columns category and split are optional; others are ignored.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path

from dmltune.data.catalog._own_folders import SPLITS, ImageRow, class_name
from dmltune.data.files import open_regular
from dmltune.errors import UserError, nearest

COLUMNS = ("path", "label", "category", "split")
NEEDED = COLUMNS[:2]
DELIMITERS = ",;\t"  # spreadsheets write semicolons where the decimal separator is a comma
NEAR = 0.7  # similarity from which a column name is taken for a misspelling
PARQUET = {".parquet", ".pq"}
SUFFIXES = {".csv", ".tsv", *PARQUET}

Cells = tuple[str, Mapping[str, str]]  # photos.csv:7 and the cells of that line


def rows(file: Path) -> list[ImageRow]:
    """Read and validate every row. An error names its line."""
    cells = _parquet(file) if file.suffix.lower() in PARQUET else _csv(file)
    listed = [_row(place, cells_of_row) for place, cells_of_row in cells]
    if not listed:
        raise UserError(f"{file} lists no image; write a line path,label for each.")
    first: dict[str, ImageRow] = {}
    for row in listed:
        if (before := first.setdefault(row.path, row)) is not row:
            raise UserError(
                f"{row.place}: {row.path} is listed already at {before.place}; keep one of the two."
            )
    _require_splits(listed)
    return listed


def _row(place: str, cells: Mapping[str, str]) -> ImageRow:
    for column in NEEDED:
        if not cells[column] or "\0" in cells[column]:
            raise UserError(f"{place}: no {column}; every line needs path and label.")
    split = cells.get("split", "")
    if "split" in cells and split not in SPLITS:
        hint = nearest(split, SPLITS) or "; write train, test, query or gallery"
        raise UserError(f"{place}: split is '{split}'{hint}")
    return ImageRow(
        cells["path"], class_name(cells["label"]), class_name(cells.get("category", "")), split, place
    )


def _require_splits(listed: Iterable[ImageRow]) -> None:
    """Require that no class is in both halves, and either test, or query and gallery."""
    first_of_class: dict[str, ImageRow] = {}
    first_of_split: dict[str, ImageRow] = {}
    for row in listed:
        before = first_of_class.setdefault(row.label, row)
        if (before.split == "train") != (row.split == "train"):
            raise UserError(
                f"{row.place}: class '{row.label}' has split {row.split}, but {before.split} at"
                f" {before.place}; train and test must not share a class."
            )
        first_of_split.setdefault(row.split, row)
    query, gallery = first_of_split.get("query"), first_of_split.get("gallery")
    if "test" in first_of_split and (mixed := query or gallery):
        raise UserError(f"{mixed.place}: split {mixed.split} beside test; use test, or query and gallery.")
    if (query is None) != (gallery is None) and (only := query or gallery):
        other = "gallery" if query else "query"
        raise UserError(f"{only.place}: split {only.split}, but no line has {other}; give both, or test.")


def _csv(file: Path) -> Iterator[Cells]:
    line = 1
    try:
        with open_regular(file, encoding="utf-8-sig", newline="") as stream:
            header = stream.readline()
            delimiter = max(DELIMITERS, key=header.count)
            first = next(csv.reader([header], delimiter=delimiter), [])
            names = _names(f"{file}:1", [name.strip() for name in first])
            lines = csv.reader(stream, delimiter=delimiter, strict=True)
            for cells in lines:
                line = lines.line_num + 1
                if any(cells) and len(cells) != len(names):
                    raise UserError(
                        f"{file}:{line}: {len(cells)} fields under {len(names)} column names; quote a field"
                        f" that holds '{delimiter}'."
                    )
                if any(cells):
                    pairs = zip(names, cells, strict=True)
                    yield f"{file}:{line}", {name: cell.strip() for name, cell in pairs if name}
    except UnicodeDecodeError as error:
        byte = f"byte 0x{error.object[error.start]:02x}"
        raise UserError(f"{file}: {byte} after line {line} is not UTF-8; save the file as UTF-8.") from error
    except csv.Error as error:
        raise UserError(f"{file}: after line {line}: {error}; check the quotes.") from error
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror or error}); allow it.") from error


def _parquet(file: Path) -> Iterator[Cells]:
    # pyarrow comes with mlflow, and has no types
    from pyarrow import ArrowException, parquet

    try:
        with open_regular(file, "rb") as stream:
            table = parquet.ParquetFile(stream)
            names = _names(str(file), table.schema_arrow.names)
            row = 0
            for batch in table.iter_batches(columns=[name for name in names if name]):
                for cells in batch.to_pylist():
                    row += 1
                    texts = {name: "" if cell is None else str(cell).strip() for name, cell in cells.items()}
                    yield f"{file}, row {row}", texts
    except (ArrowException, OSError) as error:
        raise UserError(f"{file}: no Parquet file ({' '.join(str(error).split())[:120]}).") from error


def _names(place: str, header: Iterable[str]) -> list[str]:
    """Return the column names, "" for a column that is ignored. A misspelt name is an error."""
    names = list(header)
    for column in COLUMNS:
        if names.count(column) > 1:
            raise UserError(f"{place}: two columns {column}; keep one.")
        others = [name for name in names if name not in COLUMNS]
        if column not in names and (close := get_close_matches(column, others, 1, NEAR)):
            raise UserError(f"{place}: no column {column}; rename '{close[0]}' or take it out.")
        if column not in names and column in NEEDED:
            raise UserError(f"{place}: no column {column}; the columns are {', '.join(names) or 'none'}.")
    return [name if name in COLUMNS else "" for name in names]

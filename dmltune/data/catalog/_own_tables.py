"""Own images in a table: CSV or Parquet with the columns path and label, perhaps category and split. Other
columns are passed over."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path

from dmltune.data.catalog._own_rows import SPLITS, ImageRow, plain
from dmltune.errors import UserError, nearest

COLUMNS = ("path", "label", "category", "split")
NEEDED = COLUMNS[:2]
DELIMITERS = ",;\t"  # spreadsheets of half the world write semicolons
NEAR = 0.7
PARQUET = {".parquet", ".pq"}
SUFFIXES = {".csv", ".tsv", *PARQUET}

Cells = tuple[str, Mapping[str, str]]  # photos.csv:7 and the cells of that line


def rows(file: Path) -> list[ImageRow]:
    """Every row, checked; mistakes are told with their line."""
    found = [
        _row(place, cells)
        for place, cells in (_parquet(file) if file.suffix.lower() in PARQUET else _csv(file))
    ]
    if not found:
        raise UserError(f"{file} lists no image; write a line path,label for each.")
    _check_once(found)
    _check_splits(found)
    return found


def _row(place: str, cells: Mapping[str, str]) -> ImageRow:
    for column in NEEDED:
        if not cells[column] or "\0" in cells[column]:
            raise UserError(f"{place}: no {column}; every line needs path and label.")
    split = cells.get("split", "")
    if "split" in cells and split not in SPLITS:
        hint = nearest(split, SPLITS) or f"; write {', '.join(SPLITS[:-1])} or {SPLITS[-1]}"
        raise UserError(f"{place}: split is '{split}'{hint}")
    return ImageRow(cells["path"], plain(cells["label"]), plain(cells.get("category", "")), split, place)


def _check_once(found: Iterable[ImageRow]) -> None:
    first: dict[str, ImageRow] = {}
    for row in found:
        if (before := first.setdefault(row.path, row)) is not row:
            raise UserError(
                f"{row.place}: {row.path} is listed already at {before.place}; keep one of the two."
            )


def _check_splits(found: list[ImageRow]) -> None:
    """No class on both sides, and one way to test."""
    first: dict[str, ImageRow] = {}
    ways: dict[str, ImageRow] = {}
    for row in found:
        before = first.setdefault(row.label, row)
        if (before.split == "train") != (row.split == "train"):
            raise UserError(
                f"{row.place}: class '{row.label}' has split {row.split}, but {before.split} at"
                f" {before.place}; to test takes other classes than to train."
            )
        ways.setdefault(row.split, row)
    if "test" in ways and (mixed := ways.get("query") or ways.get("gallery")):
        raise UserError(f"{mixed.place}: split {mixed.split} beside test; use test, or query and gallery.")
    for one, other in (("query", "gallery"), ("gallery", "query")):
        if one in ways and other not in ways:
            raise UserError(f"{ways[one].place}: split {one}, but no line has {other}; give both, or test.")


def _csv(file: Path) -> Iterator[Cells]:
    line = 1
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
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
                    kept = {name: cell.strip() for name, cell in zip(names, cells, strict=True) if name}
                    yield f"{file}:{line}", kept
    except UnicodeDecodeError as error:
        byte = f"byte 0x{error.object[error.start]:02x}"
        raise UserError(f"{file}: {byte} after line {line} is not UTF-8; save the file as UTF-8.") from error
    except csv.Error as error:
        raise UserError(f"{file}: after line {line}: {error}; check the quotes.") from error
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror or error}); allow it.") from error


def _parquet(file: Path) -> Iterator[Cells]:
    # it comes with mlflow, and without types
    from pyarrow import ArrowException, parquet  # type: ignore[import-untyped]

    try:
        table = parquet.ParquetFile(file)
        names = _names(str(file), table.schema_arrow.names)
        columns = [name for name in names if name]
        row = 0
        for batch in table.iter_batches(columns=columns):
            for cells in batch.to_pylist():
                row += 1
                yield f"{file}, row {row}", {name: _text(value) for name, value in cells.items()}
    except (ArrowException, OSError) as error:
        raise UserError(f"{file}: no Parquet file ({' '.join(str(error).split())[:120]}).") from error


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _names(place: str, header: Iterable[str]) -> list[str]:
    """The column names; "" for a column that is passed over. A name that is nearly right is a mistake."""
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

"""`dmltune data`: which data sets there are, how to get one, whether a copy is whole, what it looks like."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, at_least
from dmltune.data.files import printable
from dmltune.errors import UserError

if TYPE_CHECKING:
    from dmltune.data.survey import DatasetEntry
    from dmltune.data.verify import Fault, VerificationReport

SUMMARY = "list, prepare, verify and show the data sets"
EXAMPLES = """\
  dmltune data list                                       which there are, and what is here
  dmltune data prepare cub --data-root ~/data             fetch, check and unpack
  dmltune data prepare cub --archive CUB_200_2011.tgz     … what was fetched by hand
  dmltune data verify cub --data-root ~/data              is every image there and whole?
  dmltune data verify ./photos                            … of your own: class folders, or a CSV
  dmltune data show cub --out birds.png --classes 12      what does it look like?
"""
WORDS = ("list", "prepare", "verify", "show")
ONLY_FOR = {"archive": "prepare", "out": "show", "part": "show", "classes": "show", "per_class": "show"}
NAMED = 20  # faults in the table; the document has all


def add_arguments(parser: Parser) -> None:
    parser.add_argument("word", choices=WORDS, help="what to do")
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="a name that list shows, or the path of your own images"
    )
    parser.add_argument(
        "--data-root", type=Path, metavar="FOLDER", help="where data sets are kept (default: $DMLTUNE_DATA)"
    )
    parser.add_argument("--archive", type=Path, metavar="FILE", help="prepare: the archive, already fetched")
    parser.add_argument("--out", type=Path, metavar="FILE", help="show: the PNG to write (default: NAME.png)")
    parser.add_argument("--part", choices=("train", "test"), help="show: of which classes (default: train)")
    parser.add_argument("--classes", type=at_least(1), metavar="N", help="show: so many (default: 10)")
    parser.add_argument("--per-class", type=at_least(1), metavar="N", help="show: images each (default: 8)")
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    for option, word in ONLY_FOR.items():
        if getattr(args, option) is not None and args.word != word:
            raise UserError(f"--{option.replace('_', '-')} is for dmltune data {word}; leave it out.")
    if args.word != "list" and not args.name:
        raise UserError(f"dmltune data {args.word} needs a NAME; dmltune data list shows them.")
    code: int = {"list": show_list, "prepare": prepare, "verify": verify, "show": show}[args.word](args, out)
    return code


def show_list(args: argparse.Namespace, out: Output) -> int:
    from rich.text import Text

    from dmltune.data.survey import survey

    entries = list(survey(args.data_root, [args.name] if args.name else []))
    out.document(entries)
    for entry in entries:
        size, style = _size(entry), "" if entry.state != "missing" else "dim"
        out.show(Text.assemble((entry.name, "bold"), (f"   {size}" if size else "", style)))
        out.show(Text(f"  {entry.about}", style="dim"))
        out.show(Text(f"  {_where(entry)}", style="yellow" if entry.lacking else style))
    return 0


def prepare(args: argparse.Namespace, out: Output) -> int:
    from rich.text import Text

    from dmltune.cli.progress import bar
    from dmltune.data.prepare import prepare as fetch

    root = args.data_root or (Path(given) if (given := os.environ.get("DMLTUNE_DATA")) else None)
    if root is None:
        raise UserError("say where data sets are kept, with --data-root or DMLTUNE_DATA.")
    with bar("bytes") as advance:
        result = fetch(args.name, root, args.archive, advance)
    out.document({"name": args.name, **vars(result)})
    out.show(f"{result.folder}   {result.images:,} images of {result.classes:,} classes")
    out.show(*(Text(f"  {note}", style="dim") for note in result.notes))
    return 0


def verify(args: argparse.Namespace, out: Output) -> int:
    """Exit code 1 when something is wrong with the copy."""
    from dmltune.cli.progress import bar
    from dmltune.data.verify import verify as steps

    name, options = which(args.name)
    report = None
    with bar("images") as advance:
        for step in steps(name, args.data_root, **options):
            advance(f"verify {args.name}", step.done, step.total)
            report = step.report
    assert report is not None
    out.document({"ok": report.ok, **vars(report)})
    out.show(*tables(report))
    return 0 if report.ok else 1


def show(args: argparse.Namespace, out: Output) -> int:
    from dmltune.data import catalog
    from dmltune.data.contact_sheet import draw

    name, options = which(args.name)
    images = catalog.load(name, args.part or "train", args.data_root, **options)
    file = args.out or Path(f"{name}.png")
    names = draw(images, file, args.classes or 10, args.per_class or 8)
    out.document({"file": file, "name": name, "part": images.part, "classes": names})
    of = f"{len(names)} of {images.num_classes:,} {images.part} classes"
    out.show(f"{file}   {of} of {name}, {len(images):,} images")
    return 0


def which(name: str) -> tuple[str, dict[str, Any]]:
    """A name of the catalogue, or own images at a path: whatever is there, or looks like a path."""
    from dmltune.data import catalog

    path = Path(os.path.expanduser(name))
    if name not in catalog.names() and (os.path.exists(path) or "/" in name):
        return "own", {"path": path}
    if name == "own":
        raise UserError("own images have no name; say their path: a folder of class folders, or a CSV.")
    return name, {}


def tables(report: VerificationReport) -> list[Any]:
    """Counts of the parts beside those published, then what is wrong, one line each."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column(report.name)
    for heading in ("images", "published", "classes", "published"):
        grid.add_column(heading, justify="right")
    parts = [
        (half.part, half.images, half.published_images, half.classes, half.published_classes)
        for half in report.parts
    ]
    sums = [None if None in column else sum(column) for column in list(zip(*parts, strict=True))[1:]]
    for name, *numbers in [*parts, ("together", *sums)]:
        grid.add_row(str(name), *("–" if number is None else f"{number:,}" for number in numbers))
    lines: list[Any] = [Text(printable(str(report.folder)), style="dim")] if report.folder else []
    lines += [grid, ""]
    if alone := sum(half.alone for half in report.parts):
        text = f"{alone:,} classes have one image: kept, but nothing is to be found for them"
        lines.append(Text(text, style="dim"))
    if report.ok:
        whole = "none missing, none unreadable, none in both parts"
        return [*lines, Text(whole if report.folder else "all can be read", style="green")]
    lines += [Text(_line(fault, report.folder)) for fault in report.faults[:NAMED]]
    if (more := len(report.faults) - NAMED) > 0:
        lines.append(f"… and {more:,} more: -f json names all")
    return [*lines, "", Text(_verdict(report), style="bold red")]


def _line(fault: Fault, folder: Path | None) -> str:
    """`truncated   test   001.Bird/3.jpg   image file is truncated (3 bytes not processed)`."""
    if fault.file is None:
        return f"{fault.kind:<13} {fault.part:<5}  {fault.text}"
    file = fault.file.absolute()
    named = file.relative_to(folder) if folder and file.is_relative_to(folder) else file
    return f"{fault.kind:<13} {fault.part:<5}  {printable(str(named))}   {fault.text}"


def _verdict(report: VerificationReport) -> str:
    """`1 empty, 1 no image, 1 truncated`."""
    kinds = [fault.kind for fault in report.faults]
    return ", ".join(f"{kinds.count(kind):,} {kind}" for kind in sorted(set(kinds)))


def _size(entry: DatasetEntry) -> str:
    counts = [(entry.images, "images"), (entry.classes, "classes")]
    return ", ".join(f"{number:,} {what}" for number, what in counts if number is not None)


def _where(entry: DatasetEntry) -> str:
    if entry.state == "missing":
        return f"not here: {entry.missing} To get it: {entry.get}"
    if entry.state == "yours":
        return f"use it with {entry.get}"
    if entry.state == "made":
        return "here, nothing to download"
    return f"found in {entry.folder}" + (f"; lacks {entry.lacking}" if entry.lacking else "")

"""`dmltune data`: list the data sets, get one, verify a copy, draw a contact sheet."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output, new_table
from dmltune.cli.parser import Parser, add_format
from dmltune.errors import UserError

if TYPE_CHECKING:
    from dmltune.data.survey import DatasetEntry
    from dmltune.data.verify import Fault, VerificationReport

SUMMARY = "list, prepare, verify and show the data sets"
EXAMPLES = """\
  dmltune data list                                       all data sets, and which are here
  dmltune data prepare cub --data-root ~/data             fetch, verify and unpack
  dmltune data prepare cub --archive CUB_200_2011.tgz     use an archive that is here already
  dmltune data verify cub --data-root ~/data              is every image there and readable?
  dmltune data verify ./photos                            your own: class folders, or a CSV
  dmltune data show cub --out birds.png --classes 12      a contact sheet
"""
ACTIONS = ("list", "prepare", "verify", "show")
ONLY_FOR = {"archive": "prepare", "out": "show", "part": "show", "classes": "show", "per_class": "show"}
SHOWN = 20  # faults in the table; the document has all


def add_arguments(parser: Parser) -> None:
    parser.add_argument("action", choices=ACTIONS, help="what to do")
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="a name that list shows, or the path of your own images"
    )
    parser.add_path("--data-root", "folder of the data sets (default: $DMLTUNE_DATA)")
    parser.add_path("--archive", "prepare: the archive, already fetched", metavar="FILE")
    parser.add_path("--out", "show: the PNG to write (default: NAME.png)", metavar="FILE")
    parser.add_argument("--part", choices=("train", "test"), help="show: of which classes (default: train)")
    parser.add_number("--classes", "show: how many (default: 10)")
    parser.add_number("--per-class", "show: of each class (default: 8)")
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    for option, action in ONLY_FOR.items():
        if getattr(args, option) is not None and args.action != action:
            raise UserError(f"--{option.replace('_', '-')} is for dmltune data {action}; leave it out.")
    if args.action != "list" and not args.name:
        raise UserError(f"dmltune data {args.action} needs a NAME; dmltune data list shows them.")
    actions = {"list": show_list, "prepare": prepare, "verify": verify, "show": show}
    return actions[args.action](args, out)


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

    root = args.data_root or os.environ.get("DMLTUNE_DATA")
    if not root:
        raise UserError("a folder for the data sets is needed. Use --data-root or DMLTUNE_DATA.")
    with bar("bytes") as advance:
        result = fetch(args.name, Path(root), args.archive, advance)
    out.document({"name": args.name, **vars(result)})
    out.show(f"{result.folder}   {result.images:,} images of {result.classes:,} classes")
    out.show(*(Text(f"  {note}", style="dim") for note in result.notes))
    return 0


def verify(args: argparse.Namespace, out: Output) -> int:
    """Return 1 when something is wrong with the copy."""
    from dmltune.cli.progress import bar
    from dmltune.data.verify import verify as steps

    name, options = name_or_path(args.name)
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

    name, options = name_or_path(args.name)
    images = catalog.load(name, args.part or "train", args.data_root, **options)
    file = args.out or Path(f"{name}.png")
    names = draw(images, file, args.classes or 10, args.per_class or 8)
    out.document({"file": file, "name": name, "part": images.part, "classes": names})
    share = f"{len(names)} of {images.num_classes:,} {images.part} classes"
    out.show(f"{file}   {share} of {name}, {len(images):,} images")
    return 0


def name_or_path(name: str) -> tuple[str, dict[str, Any]]:
    """Return a name of the catalogue, or `own` and a path when `name` exists or looks like a path."""
    from dmltune.data import catalog

    path = Path(os.path.expanduser(name))
    if name not in catalog.names() and ("/" in name or os.path.exists(path)):
        return "own", {"path": path}
    if name == "own":
        raise UserError("own images have no name. Write their path: a folder of class folders, or a CSV.")
    return name, {}


def tables(report: VerificationReport) -> list[Any]:
    """Return the counts of the parts beside those published, then a line per fault."""
    from rich.text import Text

    grid = new_table(report.name, "images", "published", "classes", "published")
    parts = [
        (half.part, half.images, half.published_images, half.classes, half.published_classes)
        for half in report.parts
    ]
    sums = [None if None in column else sum(column) for column in list(zip(*parts, strict=True))[1:]]
    for name, *numbers in [*parts, ("together", *sums)]:
        grid.add_row(str(name), *("–" if number is None else f"{number:,}" for number in numbers))
    lines: list[Any] = [Text(str(report.folder), style="dim")] if report.folder else []
    lines += [grid, ""]
    if alone := sum(half.alone for half in report.parts):
        text = f"{alone:,} classes have one image: it stays, but no other image matches it"
        lines.append(Text(text, style="dim"))
    if report.ok:
        whole = "none missing, none unreadable, none in both parts"
        return [*lines, Text(whole if report.folder else "all can be read", style="green")]
    lines += [Text(_line(fault, report.folder)) for fault in report.faults[:SHOWN]]
    if (more := len(report.faults) - SHOWN) > 0:
        lines.append(f"… and {more:,} more: -f json lists all")
    return [*lines, "", Text(_verdict(report), style="bold red")]


def _line(fault: Fault, folder: Path | None) -> str:
    """Return `truncated   test   001.Bird/3.jpg   image file is truncated (3 bytes not processed)`."""
    if fault.file is None:
        return f"{fault.kind:<13} {fault.part:<5}  {fault.text}"
    file = fault.file.absolute()
    shown = file.relative_to(folder) if folder and file.is_relative_to(folder) else file
    return f"{fault.kind:<13} {fault.part:<5}  {shown}   {fault.text}"


def _verdict(report: VerificationReport) -> str:
    """Return `1 empty, 1 no image, 1 truncated`."""
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

"""`dmltune report`: a search or a check as one page."""

from __future__ import annotations

import argparse
from pathlib import Path

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, add_places
from dmltune.errors import UserError, readable

SUMMARY = "write a search or a check as one HTML page, with its figures"
EXAMPLES = """\
  dmltune report demo                               demo.html
  dmltune report demo -o pages/demo.html
  dmltune report demo --figures figures             each figure as PNG, PDF and SVG too
  dmltune report demo-check                         the page of a check
"""


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "name", metavar="NAME", help="the name of a search or a check; `dmltune runs` lists the searches"
    )
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="an .html file (default: NAME.html)")
    parser.add_path("--figures", "write each figure into this folder too")
    parser.add_flag(
        "--no-pictures", "leave out what is retrieved, which needs the winner's model and the images"
    )
    add_places(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.report.formatting import file_size
    from dmltune.resources import Locations
    from dmltune.store import Store, validated_name

    file = args.out or Path(f"{args.name}.html")
    if file.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"-o must name an .html file, such as demo.html; got {readable(str(file))}")
    locations = Locations(Store.to_read(args.store), args.data_root)
    if (locations.store.search_folder(validated_name(args.name)) / "check.json").is_file():
        from dmltune.check.reporting import report_check

        figures = report_check(locations.store, args.name, file, args.figures)
    else:
        from dmltune.search.reporting import report_search

        figures = report_search(locations, args.name, file, args.figures, pictures=not args.no_pictures)
    out.document({"name": args.name, "file": file, "bytes": file.stat().st_size, "figures": figures})
    out.show(f"{file}   {file_size(file)}")
    if figures:
        out.show(f"{args.figures}   {len(figures)} files of figures")
    return 0

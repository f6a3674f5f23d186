"""`dmltune export-config`: the configuration of a winner or a trial as YAML for `dmltune train`."""

from __future__ import annotations

import argparse
from pathlib import Path

from dmltune.cli.best import add_search, winner_of
from dmltune.cli.output import Output
from dmltune.cli.parser import LARGEST, Parser, add_format, add_store
from dmltune.errors import UserError, readable

SUMMARY = "write a winner's configuration as YAML, for `dmltune train`"
EXAMPLES = """\
  dmltune export-config demo -o best.yaml           then: dmltune train best.yaml
  dmltune export-config demo --trial 0              the reference point, on standard output
  dmltune export-config demo -f json
"""


def add_arguments(parser: Parser) -> None:
    add_search(parser)
    parser.add_number("--trial", "a trial in place of the winner", bounds=(0, LARGEST))
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help="a .yaml file to write (default: standard output)",
    )
    add_store(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.search.exporting import training_tree, yaml_of
    from dmltune.search.stored import StoredSearches
    from dmltune.store import Store

    search = StoredSearches(Store.to_read(args.store)).get(args.name)
    record = winner_of(search) if args.trial is None else search.row(args.trial)
    tree = training_tree(search.experiment_of(record))
    text = yaml_of(tree, search, record)
    if args.out is not None:
        write(args.out, text)
    out.document(
        {
            "name": search.name,
            "trial": record.number,
            "metric": search.metric,
            "score": record.best,
            "experiment": tree,
            "file": args.out,
        }
    )
    if args.out is None:
        out.text(text)
    else:
        out.show(f"{args.out}: trial {record.number} of {search.name}. Train it: dmltune train {args.out}")
    return 0


def write(file: Path, text: str) -> None:
    """Write the file; one with other contents is not overwritten."""
    if file.suffix not in (".yaml", ".yml"):
        raise UserError(f"-o must name a .yaml file, such as best.yaml; got {readable(str(file))}")
    try:
        if file.exists() and not (file.is_file() and file.read_text(encoding="utf-8") == text):
            raise UserError(f"-o: {readable(str(file))} exists already. Choose another name, or delete it.")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise UserError(
            f"-o must name a file that can be written; got {readable(str(file))} ({reason})."
        ) from None

"""The command line: parse, call, print. Each command is a module here, imported when it is used."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from dmltune.cli import boundary
from dmltune.cli.boundary import INTERRUPTED as INTERRUPTED
from dmltune.cli.output import output
from dmltune.cli.parser import Parser
from dmltune.cli.progress import shown_fetches
from dmltune.errors import UserError, nearest, readable
from dmltune.private import private_files

COMMANDS = (
    *("search", "check", "table", "train", "evaluate", "spaces", "methods"),
    *("runs", "best", "report", "compare", "export-config", "importance", "resume", "stop", "rm"),
    *("embed", "index", "query", "export", "serve"),
    *("data", "weights", "store", "reproduce", "ui", "doctor", "submit", "jobs"),
    *("explain", "completion"),
)


CANDIDATES = "--words-of"  # of `completion`, with the line up to the cursor: what the shells' scripts ask


def command(name: str) -> ModuleType:
    """Return the module of a command: SUMMARY, EXAMPLES, add_arguments(parser), run(args, out)."""
    if name not in COMMANDS:
        hint = nearest(name, COMMANDS) or "; there are " + ", ".join(COMMANDS)
        raise UserError(f"no command {readable(name)}{hint}")
    return importlib.import_module(f"dmltune.cli.{name.replace('-', '_')}")


def parser_of(name: str) -> Parser:
    module = command(name)
    parser = Parser(name, module.SUMMARY, module.EXAMPLES)
    module.add_arguments(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Exit codes: 0 done, 1 failed, 2 wrong input (one line on stderr), 130 interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    with private_files():
        return boundary.guarded(lambda: _run(given), boundary.verbosity(given))


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        return _print(overview())
    if arguments[0] in ("-V", "--version"):
        from importlib.metadata import version

        return _print(f"dmltune {version('dmltune')}")
    if arguments[:2] == ["completion", CANDIDATES] and len(arguments) == 3:
        from dmltune.cli.completion import print_candidates

        return print_candidates(arguments[2])
    args = parser_of(arguments[0]).parse(arguments[1:])
    boundary.require_working_folder()
    if cache := getattr(args, "cache", None):
        os.environ["DMLTUNE_IMAGE_CACHE"] = cache  # workers read it as well
    if getattr(args, "offline", False):
        os.environ["DMLTUNE_OFFLINE"] = "1"
    with output(args.format) as out, shown_fetches():
        code: int = command(arguments[0]).run(args, out)
        return code


def _print(text: str) -> int:
    with boundary.output_errors():
        print(text, flush=True)
    return 0


def overview() -> str:
    lines = [
        "usage: dmltune COMMAND …",
        "",
        "Finds the best deep-metric-learning recipe for an image-retrieval problem.",
        "",
        "commands:",
        *(f"  {name:<13} {command(name).SUMMARY}" for name in COMMANDS),
        "",
        "examples:",
        "  dmltune spaces                                    list what can be searched",
        "  dmltune search collage-ccp-gsp --name demo",
        "  dmltune check demo                                measure the winner on unseen classes",
        "  dmltune ui                                        show every run in the browser",
        "",
        "dmltune COMMAND --help shows the options of a command and more examples.",
    ]
    return "\n".join(lines)

"""The command line: parse, call, print. A command is a module here, imported when it is asked for."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from dmltune.cli.output import output
from dmltune.cli.parser import Parser
from dmltune.errors import UserError, nearest

COMMANDS = (
    *("search", "check", "table", "train", "evaluate", "spaces", "methods"),
    *("data", "reproduce", "ui", "doctor", "submit"),
)
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def command(name: str) -> ModuleType:
    """The module of a command: SUMMARY, EXAMPLES, add_arguments(parser), run(args, out) -> exit code."""
    if name not in COMMANDS:
        raise UserError(
            f"no command '{name}'{nearest(name, COMMANDS) or '; there are ' + ', '.join(COMMANDS)}"
        )
    return importlib.import_module(f"dmltune.cli.{name}")


def parser_of(name: str) -> Parser:
    module = command(name)
    parser = Parser(name, module.SUMMARY, module.EXAMPLES)
    module.add_arguments(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 failed, 2 a mistake in what was asked (one line on stderr), 130 interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if not words or words[0] in ("-h", "--help", "help"):
            print(overview())
            return 0
        if words[0] in ("-V", "--version"):
            from importlib.metadata import version

            print(f"dmltune {version('dmltune')}")
            return 0
        args = parser_of(words[0]).parse(words[1:])
        if cache := getattr(args, "cache", None):
            os.environ["DMLTUNE_IMAGE_CACHE"] = cache  # workers read it as well
        with output(args.format) as out:
            code: int = command(words[0]).run(args, out)
            return code
    except UserError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; Python must not fail again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0


def overview() -> str:
    lines = [
        "usage: dmltune COMMAND …",
        "",
        "Finds the best deep-metric-learning recipe for an image-retrieval problem.",
        "",
        "commands:",
        *(f"  {name:<9} {command(name).SUMMARY}" for name in COMMANDS),
        "",
        "examples:",
        "  dmltune spaces                                    what can be searched",
        "  dmltune search glyphs-ccp --trials 12 --name demo",
        "  dmltune check demo                                the winner on unseen classes, and is it noise",
        "  dmltune ui                                        every run, in the browser",
        "",
        "dmltune COMMAND --help shows the options of a command and more examples.",
    ]
    return "\n".join(lines)

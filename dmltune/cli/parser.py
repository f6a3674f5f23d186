"""argparse with one line a mistake: the rule, the value, the remedy; options and overrides in any order."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from dmltune.errors import UserError, nearest


class Parser(argparse.ArgumentParser):
    """Raises UserError instead of printing its usage block; never abbreviates options."""

    def __init__(self, command: str, summary: str, examples: str) -> None:
        super().__init__(
            prog=f"dmltune {command}".strip(),
            description=summary,
            epilog=f"examples:\n{examples.rstrip()}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        # argparse calls optional overrides required when options and overrides are mixed.
        plain = message.removeprefix("argument ").removesuffix(", key=value")
        raise UserError(f"{plain}; see {self.prog} --help")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Options may stand before, between and after the overrides."""
        namespace, unknown = self.parse_known_intermixed_args(list(arguments))
        if unknown:
            word = unknown[0].split("=")[0]
            options = [option for action in self._actions for option in action.option_strings]
            hint = nearest(word, options) or f"; see {self.prog} --help"
            raise UserError(f"no option '{word}' in {self.prog}{hint}")
        if "write" in namespace:
            self._settle(namespace)
        return namespace

    def _settle(self, args: argparse.Namespace) -> None:
        """A space, or `--data` in its place: then the first word is an override."""
        if args.data is None:
            if args.space is None:
                self.error("the following arguments are required: SPACE")
            if args.write is not None:
                self.error("--write writes the space that is proposed for --data FOLDER")
        elif args.space is not None:
            if "=" not in args.space.lstrip("="):
                raise UserError(f"--data proposes a space of its own; leave out '{args.space}'.")
            args.overrides = [args.space, *args.overrides]
            args.space = None


def at_least(low: int) -> Callable[[str], int]:
    """A converter for whole numbers that have a smallest value."""

    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if number < low:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {low}; got {text}")
        return number

    return convert


UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def duration(text: str) -> float:
    """`90s`, `30m`, `1h30m`, `2d` → seconds."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([dhms])", text)
    seconds = sum(float(number) * UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or seconds <= 0:
        raise argparse.ArgumentTypeError(f"must be a time such as 90s, 30m or 1h30m; got {text}")
    return seconds


def override(text: str) -> str:
    """`references.lambda=0.01`; whether the key exists is the experiment's to say."""
    key, equals, _ = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"must look like key=value, for example seed=1; got {text}")
    return text


def add_format(parser: Parser) -> None:
    parser.add_argument(
        "-f",
        "--format",
        choices=("table", "json"),
        default="table",
        help="table for people, json for programs: one document on stdout, figures as fractions",
    )


def add_experiment(parser: Parser, role: str) -> None:
    parser.add_argument(
        "space",
        metavar="SPACE",
        nargs="?",
        help=f"{role}: a name that `dmltune spaces` lists, or a YAML file",
    )
    parser.add_argument(
        "overrides",
        metavar="key=value",
        nargs="*",
        type=override,
        help="changes to it by dotted key: loss.neg_margin=0.5 loss=contrastive batch='{size: 64}'",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="your own images in place of SPACE: a folder of class folders, or a CSV or Parquet file;"
        " looks at them and proposes a space",
    )
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="with --data: write the proposed space there too"
    )
    parser.add_argument("--seed", type=at_least(0), help="the same as the override seed=N")


def add_places(parser: Parser) -> None:
    parser.add_argument(
        "--data-root", type=Path, metavar="FOLDER", help="where the images lie (default: $DMLTUNE_DATA)"
    )
    parser.add_argument(
        "--cache",
        choices=("disk", "memory", "none"),
        help="where decoded images are kept for the next run (default: disk, in $DMLTUNE_CACHE)",
    )
    add_store(parser)


def add_store(parser: Parser) -> None:
    parser.add_argument(
        "--store",
        type=Path,
        metavar="FOLDER",
        help="where runs and checkpoints are kept (default: $DMLTUNE_STORE, else ./mlruns)",
    )


def add_cluster(parser: Parser, what: str) -> None:
    """Where, and how many at a time, a `what` (trial, training) runs."""
    parser.add_argument(
        "--workers", type=at_least(1), default=1, metavar="N", help=f"processes per {what} (default: 1)"
    )
    parser.add_argument(
        "--concurrent", type=at_least(1), metavar="N", help=f"{what}s at a time (default: by cores, GPUs)"
    )
    parser.add_argument("--address", help="a Ray cluster to run on (default: this machine alone)")
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything, show the plan, start nothing"
    )


def overrides_of(args: argparse.Namespace) -> list[str]:
    """The overrides in the order given, `--seed` last."""
    return [*args.overrides, *([] if args.seed is None else [f"seed={args.seed}"])]

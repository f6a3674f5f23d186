"""argparse with one line per mistake: rule, value, remedy. Options and overrides stand in any order."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from dmltune.cli.boundary import output_errors
from dmltune.cli.worker_options import add_worker_resources, concurrency
from dmltune.errors import UserError, nearest, readable
from dmltune.store import validated_name

NOT_REPEATED = ("help", "verbose", "format", "dry_run", "write")  # of a command that is shown to be copied
LARGEST = 10**9


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
        self.set_defaults(parser=self)
        self.add_argument(
            "-v",
            "--verbose",
            action="count",
            default=0,
            help="show the log on stderr, and the traceback of a library's error; -vv shows more",
        )

    def add_number(
        self,
        option: str,
        help: str,
        *,
        default: int | None = None,
        metavar: str = "N",
        bounds: tuple[int, int] = (1, LARGEST),
    ) -> None:
        self.add_argument(option, type=whole_number(*bounds), default=default, metavar=metavar, help=help)

    def add_path(self, option: str, help: str, metavar: str = "FOLDER") -> None:
        self.add_argument(option, type=Path, metavar=metavar, help=help)

    def add_flag(self, option: str, help: str) -> None:
        self.add_argument(option, action="store_true", help=help)

    def error(self, message: str) -> NoReturn:
        # argparse calls optional overrides required when options and overrides are mixed.
        plain = message.removeprefix("argument ").removesuffix(", key=value")
        raise UserError(f"{plain}; see {self.prog} --help")

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Return the value of an option. argparse makes an empty list of `--option=--`."""
        if action.option_strings and arg_strings == ["--"]:
            raise UserError(f"{action.option_strings[-1]} needs a value; got --; see {self.prog} --help")
        return super()._get_values(action, arg_strings)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print the help. argparse itself passes over errors of the stream."""
        with output_errors():
            print(message, end="", file=file, flush=True)

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the parsed arguments; options may stand before, between and after the overrides."""
        namespace, unknown = self.parse_known_intermixed_args(list(arguments))
        if unknown:
            option = unknown[0].split("=")[0]
            known = [string for action in self._actions for string in action.option_strings]
            hint = nearest(option, known) or f"; see {self.prog} --help"
            raise UserError(f"no option {readable(option)} in {self.prog}{hint}")
        if "write" in namespace:
            self._choose_space_or_data(namespace)
        return namespace

    def _choose_space_or_data(self, args: argparse.Namespace) -> None:
        """Require a space, or `--data` in its place: then the first positional argument is an override."""
        if getattr(args, "recipe", None) is not None:
            if args.data is not None or args.write is not None:
                self.error("--from trains the recipe of a model; leave out --data and --write")
            self._no_space(args, "--from takes the space from the model")
        elif args.data is None:
            if args.space is None:
                self.error("the following arguments are required: SPACE")
            if args.write is not None:
                self.error("--write writes the space that is proposed for --data FOLDER")
        else:
            self._no_space(args, "--data proposes its own space")

    def _no_space(self, args: argparse.Namespace, reason: str) -> None:
        """Take what stands in the place of the space as the first override."""
        if args.space is None:
            return
        if "=" not in args.space.lstrip("="):
            raise UserError(f"{reason}; leave out {readable(args.space)}.")
        args.overrides = [args.space, *args.overrides]
        args.space = None


def command_line(args: argparse.Namespace, **changes: Any) -> str:
    """Return the command that `args` were parsed from, with `changes`; defaults are left out."""
    parser: Parser = args.parser
    values = vars(args) | changes
    positional: list[str] = []
    options: list[str] = []
    for action in parser._actions:
        value = values.get(action.dest)
        if action.dest in NOT_REPEATED or value is None or value == action.default:
            continue
        if not action.option_strings:
            positional += map(str, value) if isinstance(value, list) else [str(value)]
        elif action.nargs == 0:
            options.append(action.option_strings[-1])
        else:
            option = action.option_strings[-1]
            for each in value if isinstance(value, list) else [value]:
                text = _seconds(each) if action.type is duration else str(each)
                options += [f"{option}={text}"] if text.startswith("-") else [option, text]
    return shlex.join([*parser.prog.split(), *positional, *options])


def places_of(args: argparse.Namespace) -> str:
    """Return the options that name data and store, to be put behind another command."""
    given = (("--data-root", getattr(args, "data_root", None)), ("--store", args.store))
    return "".join(f" {option} {shlex.quote(str(value))}" for option, value in given if value is not None)


def folder_or_address(text: str) -> Path | str:
    """Return an address as it is; as a path it would lose a slash."""
    return text if "://" in text else Path(text)


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """Return a converter for whole numbers from `low` to `high`."""

    def convert(text: str) -> int:
        try:
            number = int(text) if len(text) < 40 or not text.isdigit() else high + 1
        except ValueError:
            number = low - 1
        if number > high:
            raise argparse.ArgumentTypeError(f"must be a whole number of at most {high}; got {text}")
        if number < low:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {low}; got {text}")
        return number

    return convert


UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PART = r"(\d{1,9}(?:\.\d{1,9})?)([dhms])"


def duration(text: str) -> float:
    """Return the seconds of `90s`, `30m`, `1h30m`, `2d`."""
    seconds = 0.0
    if len(text) <= 60 and re.fullmatch(f"(?:{_PART})+", text):
        seconds = sum(float(number) * UNITS[unit] for number, unit in re.findall(_PART, text))
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"must be a time such as 90s, 30m or 1h30m; got {text}")
    return seconds


def _seconds(seconds: float) -> str:
    """Return the largest unit that shows the time as a whole number: 5400 → 90m, 0.5 → 0.5s."""
    unit = next((unit for unit, size in UNITS.items() if seconds % size == 0), "s")
    return f"{seconds / UNITS[unit]:.9g}{unit}"


def override(text: str) -> str:
    """Return `text` when it looks like `references.lambda=0.01`; the experiment knows which keys exist."""
    key, equals, _ = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"must look like key=value, for example seed=1; got {text}")
    return text


def add_name(parser: Parser, default: str, existing: str = "is continued") -> None:
    parser.add_argument(
        "--name", type=validated_name, help=f"of its runs (default: {default}); an existing one {existing}"
    )


def add_address(parser: Parser, default: str = "this machine alone") -> None:
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help=f"a Ray cluster to run on (default: $RAY_ADDRESS, else {default})",
    )


def add_format(parser: Parser) -> None:
    parser.add_argument(
        "-f",
        "--format",
        choices=("table", "json"),
        default="table",
        help="table, or json: one document on stdout, scores as fractions",
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
    parser.add_path(
        "--data",
        "your own images in place of SPACE: a folder of class folders, or a CSV or Parquet file;"
        " a space is proposed from their number and size",
    )
    parser.add_path("--write", "with --data: write the proposed space there too", metavar="FILE")
    parser.add_number("--seed", "the same as seed=N", bounds=(0, 2**63 - 1))


def add_places(parser: Parser) -> None:
    parser.add_path("--data-root", "the folder of the data sets (default: $DMLTUNE_DATA)")
    parser.add_argument(
        "--cache",
        choices=("disk", "memory", "none"),
        help="where decoded images are stored for the next run (default: disk, in $DMLTUNE_CACHE)",
    )
    add_offline(parser)
    add_store(parser)


def add_offline(parser: Parser) -> None:
    parser.add_flag("--offline", "fetch nothing: weights must be here (also: $DMLTUNE_OFFLINE=1)")


def add_store(parser: Parser) -> None:
    help = "the folder of runs and checkpoints, or s3://BUCKET/PATH (default: $DMLTUNE_STORE, else ./mlruns)"
    parser.add_argument("--store", type=folder_or_address, metavar="STORE", help=help)


def add_cluster(parser: Parser, what: str) -> None:
    """Add the options that say where a `what` (trial, training) runs, and how many at a time."""
    parser.add_number("--workers", f"processes per {what} (default: 1)", default=1)
    add_concurrent(parser, f"{what}s at a time (default: auto, as many as cores, GPUs or the cluster allow)")
    add_worker_resources(parser)
    add_address(parser)
    parser.add_flag("--dry-run", "check everything, show the plan, start nothing")


def add_concurrent(parser: Parser, help: str) -> None:
    number = concurrency(whole_number(1, LARGEST))
    parser.add_argument("--concurrent", type=number, metavar="N|auto", help=help)


def overrides_of(args: argparse.Namespace) -> list[str]:
    """Return the overrides in the order given, `--seed` last."""
    return [*args.overrides, *([] if args.seed is None else [f"seed={args.seed}"])]

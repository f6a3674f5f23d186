"""`dmltune completion`: the script that teaches a shell to complete commands, options, names and keys."""

from __future__ import annotations

import argparse
from pathlib import Path

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format

SUMMARY = "print the script that completes dmltune's words in bash, zsh or fish"
EXAMPLES = """\
  dmltune completion bash                           for ~/.bashrc: eval "$(dmltune completion bash)"
  dmltune completion zsh                            for ~/.zshrc, after compinit
  dmltune completion fish                           for ~/.config/fish/completions/dmltune.fish
"""
SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: Parser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    script = (Path(__file__).parent / "completions" / f"dmltune.{args.shell}").read_text(encoding="utf-8")
    out.document({"shell": args.shell, "script": script})
    out.text(script)
    return 0


def print_candidates(line: str) -> int:
    """Print the words that the line up to the cursor can go on with; nothing stands for a file's name."""
    from dmltune.cli.candidates import candidates

    print("\n".join(candidates(line)))
    return 0

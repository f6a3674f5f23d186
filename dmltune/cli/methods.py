"""`dmltune methods`: what a YAML may name, and the parameters of each."""

from __future__ import annotations

import argparse
import inspect
from typing import Any

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format

SUMMARY = "list losses, references, poolings, transforms and backbones with their parameters"
EXAMPLES = """\
  dmltune methods                      every name
  dmltune methods loss                 the losses, with ranges and defaults
  dmltune methods loss -f json
"""
SECTIONS = ("loss", "references", "pooling", "transform", "backbone")


def add_arguments(parser: Parser) -> None:
    parser.add_argument("section", nargs="?", choices=SECTIONS, metavar="SECTION", help=", ".join(SECTIONS))
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from rich.text import Text

    found = {section: entries(section) for section in ([args.section] if args.section else SECTIONS)}
    out.document(found)
    for section, methods in found.items():
        if args.section is None:
            out.show(Text(section, style="bold"), *wrapped(" ".join(methods), "  "), "")
            continue
        for name, method in methods.items():
            out.show(Text(name, style="bold"), *wrapped(method["about"], "  "))
            for key, parameter in method["parameters"].items():
                limits = f" ({parameter['range']})" if parameter["range"] else ""
                out.show(Text(f"    {key} = {parameter['default']}{limits}", style="dim"))
    if args.section in (None, "loss"):
        out.show(Text("loss also takes pml/<Class>: every loss of pytorch-metric-learning", style="dim"))
    if args.section in (None, "backbone"):
        out.show(Text("backbone also takes torchvision/<model> and timm/<model>", style="dim"))
    return 0


def wrapped(text: str, indent: str) -> list[Any]:
    from textwrap import wrap

    from rich.text import Text

    return [Text(line) for line in wrap(text, 79, initial_indent=indent, subsequent_indent=indent)]


def entries(section: str) -> dict[str, Any]:
    from dmltune.core import components
    from dmltune.experiment.schema.components import PACKAGES, signature

    found: dict[str, Any] = {}
    for name in components.names(PACKAGES[section]):
        text = inspect.getdoc(components.find(PACKAGES[section], name)) or ""
        parameters = {
            key: {
                "default": None if parameter.default is parameter.empty else parameter.default,
                "range": _allowed(parameter),
            }
            for key, parameter in signature(section, name).items()
        }
        found[name] = {"about": " ".join(text.split("\n\n")[0].split()), "parameters": parameters}
    return found


def _allowed(parameter: inspect.Parameter) -> str:
    """`at least 0`, `one of running, random, pick`, or nothing to say."""
    import typing

    from dmltune.core import components

    if limits := components.range_of(parameter):
        return components.range_text(limits)
    if typing.get_origin(parameter.annotation) is typing.Literal:
        return "one of " + ", ".join(map(str, typing.get_args(parameter.annotation)))
    return ""

"""`dmltune methods`: the components that a YAML file may name, with their parameters."""

from __future__ import annotations

import argparse
import inspect
from typing import Any

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format

SUMMARY = "list losses, references, poolings and other components with their parameters"
EXAMPLES = """\
  dmltune methods                      every name
  dmltune methods loss                 the losses, with ranges and defaults
  dmltune methods sampler              the samplers of a search
  dmltune methods loss -f json
"""
SECTIONS = ("loss", "references", "pooling", "transform", "backbone", "sampler", "scheduler")
FOREIGN = {
    "loss": "loss also takes pml/<Class>: every loss of pytorch-metric-learning",
    "backbone": "backbone also takes torchvision/<model> and timm/<model>",
}


def add_arguments(parser: Parser) -> None:
    parser.add_argument("section", nargs="?", choices=SECTIONS, metavar="SECTION", help=", ".join(SECTIONS))
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from rich.text import Text

    from dmltune.report.terminal import lines

    sections = {section: entries(section) for section in ([args.section] if args.section else SECTIONS)}
    out.document(sections)
    for section, methods in sections.items():
        if args.section is None:
            out.show(Text(section, style="bold"), *lines(" ".join(methods), "", "  ", "  "), "")
            continue
        for name, method in methods.items():
            out.show(Text(name, style="bold"), *lines(method["about"], "", "  ", "  "))
            for key, parameter in method["parameters"].items():
                limits = f" ({parameter['range']})" if parameter["range"] else ""
                out.show(*lines(f"{key} = {parameter['default']}{limits}", "dim", "    ", "      "))
    for section in FOREIGN.keys() & sections.keys():
        out.show(Text(FOREIGN[section], style="dim"))
    return 0


def entries(section: str) -> dict[str, Any]:
    """Return name → {about, parameters} of the components of a section."""
    from dmltune.core import components
    from dmltune.experiment.schema.components import PACKAGES, signature

    methods: dict[str, Any] = {}
    for name in components.names(PACKAGES[section]):
        parameters = {
            key: {
                "default": None if parameter.default is parameter.empty else parameter.default,
                "range": _allowed(parameter),
            }
            for key, parameter in signature(section, name).items()
        }
        about = inspect.getdoc(components.find(PACKAGES[section], name)) or ""
        methods[name] = {"about": _first_paragraph(about), "parameters": parameters}
    return methods


def _first_paragraph(text: str) -> str:
    """Return the paragraphs up to the first that ends a sentence: a formula may interrupt one."""
    paragraphs: list[str] = []
    for paragraph in text.split("\n\n"):
        paragraphs += paragraph.split()
        if paragraph.rstrip().endswith("."):
            break
    return " ".join(paragraphs)


def _allowed(parameter: inspect.Parameter) -> str:
    """Return `at least 0`, `one of running, random, pick`, or nothing."""
    import typing

    from dmltune.core import components

    if limits := components.range_of(parameter):
        return components.range_text(limits)
    if typing.get_origin(parameter.annotation) is typing.Literal:
        return "one of " + ", ".join(map(str, typing.get_args(parameter.annotation)))
    return ""

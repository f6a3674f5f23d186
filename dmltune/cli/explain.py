"""`dmltune explain`: what a key of a space means, and what past searches have found about it."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, add_store

if TYPE_CHECKING:
    from dmltune.experiment.explaining import Explanation, Usage
    from dmltune.search.known_values import KnownValue
    from dmltune.store import Store

SUMMARY = "explain a key: meaning, equation, range, the papers' and your searches' values"
EXAMPLES = """\
  dmltune explain references.lambda                 meaning, range, and what searches here found
  dmltune explain loss.triplet.margin               of one loss; loss.margin shows every loss that has it
  dmltune explain loss                              the keys of a section
  dmltune explain                                   every key in a line
"""


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "key", metavar="KEY", nargs="?", help="a dotted key, as in YAML and in key=value; or a section"
    )
    add_store(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.meanings import meanings

    known = meanings()
    key = None if args.key is None else args.key.partition("=")[0]
    if key is None or (key not in known and any(each.startswith(f"{key}.") for each in known)):
        return _list(key, out)
    from dmltune.experiment.explaining import explanations, usages
    from dmltune.report.explanation import explanation_view
    from dmltune.store import Store

    found = explanations(key)
    plain = found[0].key
    using = list(usages(key))
    values = _known_values(plain, Store.to_read(args.store))
    out.document(_document(plain, found, using, values))
    place = str(args.store or os.environ.get("DMLTUNE_STORE") or "mlruns")
    out.show(*explanation_view(plain, found, using, values, place))
    return 0


def _list(section: str | None, out: Output) -> int:
    """Show every key, or those of one section, with the first sentence of what it means."""
    from dmltune.meanings import meanings
    from dmltune.report.explanation import keys_view

    sections: dict[str, dict[str, str]] = {}
    for key, found in meanings().items():
        name = key.partition(".")[0]
        if section in (None, name):
            of = ", ".join(each.component for each in found if each.component)
            text = found[0].meaning.partition(". ")[0].rstrip(".") if len(found) == 1 else f"a key of {of}"
            text = f"{text} (of {of})" if of and len(found) == 1 else text
            sections.setdefault(name if "." in key else "training and search", {})[key] = text
    out.document(sections)
    out.show(*keys_view({name: list(keys.items()) for name, keys in sections.items()}))
    return 0


def _known_values(key: str, store: Store) -> list[KnownValue]:
    from dmltune.search.known_values import known_values
    from dmltune.search.stored import StoredSearches

    return known_values(key, StoredSearches(store).all())


def _document(
    key: str, found: tuple[Explanation, ...], using: list[Usage], values: list[KnownValue]
) -> dict[str, Any]:
    return {
        "key": key,
        "meanings": found,
        "spaces": [
            {
                "space": usage.space,
                "component": usage.component or None,
                "value": usage.value,
                "ranges": [each.to_dict() for each in usage.ranges],
            }
            for usage in using
        ],
        "searches": values,
    }

"""`dmltune index`: a folder of images → an index to be searched by `dmltune query` and `dmltune serve`."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from dmltune.cli.embed import add_model, add_out, add_skip, embedded
from dmltune.cli.output import Output, facts_table
from dmltune.cli.parser import Parser, add_format, add_store
from dmltune.errors import UserError, nearest

SUMMARY = "index a folder of images for search by example"
EXAMPLES = """\
  dmltune index demo photos/                       photos.index, exact
  dmltune index demo photos/ -o shop.index --kind ivf
  dmltune index demo photos/ --skip-unreadable
"""
KINDS = {
    "exact": "every vector is compared",
    "ivf": "cells; quicker from about 100,000 images on",
    "pq": "cells and compressed vectors; a fraction of the memory",
}


def add_arguments(parser: Parser) -> None:
    add_model(parser)
    parser.add_argument(
        "paths", metavar="FOLDER", nargs="+", type=Path, help="images, and folders with images"
    )
    add_out(parser, "the index (default: the folder's name with .index)")
    described = "; ".join(f"{kind}: {text}" for kind, text in KINDS.items())
    parser.add_argument("--kind", default="exact", metavar="KIND", help=f"{described} (default: exact)")
    parser.add_number("-k", "neighbours whose recall is measured (default: 10)", default=10, bounds=(1, 1000))
    add_skip(parser)
    add_store(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dataclasses import asdict, replace

    from dmltune.report.formatting import file_size, percent
    from dmltune.serving.index import ImageIndex
    from dmltune.serving.outputs import require_writable
    from dmltune.serving.search_structures import faiss_module
    from dmltune.store import Store

    if args.kind not in KINDS:
        raise UserError(f"--kind must be {', '.join(KINDS)}; got '{args.kind}'{nearest(args.kind, KINDS)}")
    file = args.out or default_file(args.paths[0])
    require_writable(file, force=args.force)
    faiss_module()
    model, emb_ND, files, skipped = embedded(args, args.paths)
    began = time.perf_counter()
    files = [replace(each, path=os.path.abspath(each.path)) for each in files]  # queries come from anywhere
    index = ImageIndex.of(model, str(Store.to_read(args.store).root), emb_ND, files, args.kind, args.k)
    index.save(file)
    facts = index.facts
    document = asdict(facts) | {"file": file, "skipped": skipped, "bytes": file.stat().st_size}
    out.document(document)
    recall = "every neighbour (no approximation)"
    if facts.queries:
        recall = (
            f"{percent(facts.recall)} % of the exact {facts.k} neighbours, over {facts.queries:,} queries"
        )
    out.show(
        facts_table(
            (
                "index",
                f"{file}: {facts.images:,} × {facts.dim}, {facts.kind}, {file_size(file)}",
            ),
            ("recall", recall),
            ("built in", f"{time.perf_counter() - began:.1f} s"),
            ("model", f"{model.name}, {model.fingerprint}"),
        ),
        "",
        f"  dmltune query {file} IMAGE",
    )
    return 0


def default_file(folder: Path) -> Path:
    """Return `photos.index` for `some/photos/`."""
    stem = folder.absolute().stem if folder.is_file() else folder.absolute().name
    return Path(f"{stem or 'images'}.index")

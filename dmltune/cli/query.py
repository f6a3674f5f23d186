"""`dmltune query`: the images of an index that are nearest to an image."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output, new_table
from dmltune.cli.parser import Parser, add_format, add_store
from dmltune.errors import UserError

if TYPE_CHECKING:
    from dmltune.serving.index import ImageIndex, Neighbours
    from dmltune.serving.model import LoadedModel

SUMMARY = "find the images of an index that are nearest to an image"
EXAMPLES = """\
  dmltune query photos.index new.jpg
  dmltune query photos.index new.jpg -k 20 --page result.html     with the pictures
  dmltune query photos.index new.jpg --rerank k-reciprocal
  dmltune query shop.index a.jpg b.jpg -f json
"""


def add_arguments(parser: Parser) -> None:
    parser.add_argument("index", metavar="INDEX", type=Path, help="a file of `dmltune index`")
    parser.add_argument("images", metavar="IMAGE", nargs="+", type=Path, help="images to look for")
    parser.add_number("-k", "neighbours of each (default: 10)", default=10, bounds=(1, 10_000))
    add_rerank(parser)
    parser.add_path("--page", "write a page with the pictures too", metavar="FILE")
    parser.add_flag("--force", "overwrite the page")
    parser.add_argument(
        "--model", metavar="NAME", help="the model, where the one that the index names is somewhere else"
    )
    add_store(parser)
    add_format(parser)


def add_rerank(parser: Parser) -> None:
    parser.add_argument(
        "--rerank",
        choices=("k-reciprocal", "aqe"),
        help="order the neighbours anew: by common neighbours, or by a query expanded with its neighbours",
    )


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.report.query_page import write_query_page
    from dmltune.serving.index import ImageIndex
    from dmltune.serving.outputs import require_writable
    from dmltune.serving.pictures import thumbnail

    if args.page is not None:
        require_writable(args.page, (".html", ".htm"), args.force, "--page")
    for image in args.images:
        if image.is_dir():
            raise UserError(
                f"IMAGE must be an image file; {image} is a folder. See dmltune embed for folders."
            )
    index = ImageIndex.load(args.index)
    model = model_of(index, args.model, args.store)
    emb_QD = model.embed(args.images)
    results = index.search(emb_QD, args.k, args.rerank or "none")
    queries = [
        {"query": image, "neighbours": [neighbour._asdict() for neighbour in found]}
        for image, found in zip(args.images, results, strict=True)
    ]
    if args.page is not None:
        about = f"{index.facts.images:,} images, {index.facts.kind} index, model {model.name}"
        upright = model.description.exif_rotation
        write_query_page(args.page, queries, about, lambda file: thumbnail(file, upright))
    out.document(
        {
            "index": args.index,
            "model": model.name,
            "fingerprint": model.fingerprint,
            "rerank": args.rerank,
            "queries": queries,
            "page": args.page,
        }
    )
    for image, found in zip(args.images, results, strict=True):
        out.show("", table(image, found))
    if args.page is not None:
        out.show("", f"  {args.page}")
    return 0


def model_of(index: ImageIndex, name: str | None, store: Path | None) -> LoadedModel:
    """Return the model that made the index; another one is a UserError."""
    from dmltune.serving import load

    chosen = name or index.facts.model
    at: Path | str | None = store
    # only a store that exists: an index of somebody else must not make one
    if at is None and name is None and os.path.isfile(os.path.join(index.facts.store, "mlflow.db")):
        at = index.facts.store
    model = load(chosen, store=at)
    index.require(model)
    return model


def table(image: Path, found: Neighbours) -> Any:
    """Return the neighbours of one image, in 80 columns."""
    grid = new_table("", "similarity", "distance")
    grid.columns[0].justify = "right"
    grid.add_column(f"neighbours of {image.name}", overflow="ellipsis", no_wrap=True, max_width=52)
    for neighbour in found:
        shown = os.path.relpath(neighbour.path) if os.path.isabs(neighbour.path) else neighbour.path
        shown = shown if len(shown) <= 52 else "…" + shown[-51:]
        grid.add_row(str(neighbour.rank), f"{neighbour.similarity:.3f}", f"{neighbour.distance:.3f}", shown)
    return grid

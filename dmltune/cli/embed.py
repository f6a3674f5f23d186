"""`dmltune embed`: images → vectors in a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dmltune.cli.output import Output, facts_table, say
from dmltune.cli.parser import Parser, add_format, add_store

if TYPE_CHECKING:
    from dmltune.serving.listing import ImageFile
    from dmltune.serving.model import LoadedModel, Vectors

SUMMARY = "embed images with a winner, into a .npy or .parquet file"
EXAMPLES = """\
  dmltune embed demo photos/ -o vectors.npy            one row per image, float32
  dmltune embed demo a.jpg b.jpg -o vectors.parquet    vectors, x, y, label, path
  dmltune embed exported.safetensors photos/ -o v.npy  a model that was exported
"""


def add_arguments(parser: Parser) -> None:
    add_model(parser)
    parser.add_argument("paths", metavar="PATH", nargs="+", type=Path, help="images, and folders with images")
    add_out(parser, "vectors.npy or vectors.parquet", required=True)
    add_skip(parser)
    add_store(parser)
    add_format(parser)


def add_model(parser: Parser) -> None:
    parser.add_argument(
        "name",
        metavar="NAME",
        help="the name of a search or training run, an MLflow run id, or a folder with a stored model",
    )


def add_out(parser: Parser, what: str, required: bool = False) -> None:
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", required=required, help=what)
    parser.add_flag("--force", "overwrite the file")


def add_skip(parser: Parser) -> None:
    parser.add_flag("--skip-unreadable", "leave out images that cannot be read; they are counted and named")


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.serving.outputs import require_writable
    from dmltune.serving.vectors import SUFFIXES, plane, require_parquet, write_vectors

    require_writable(args.out, SUFFIXES, args.force)
    require_parquet(args.out)
    model, emb_ND, files, skipped = embedded(args, args.paths)
    is_table = args.out.suffix.lower() == ".parquet"
    write_vectors(args.out, emb_ND, files, plane(emb_ND) if is_table else None)
    document = {
        "file": args.out,
        "images": len(files),
        "dim": model.dim,
        "model": model.name,
        "fingerprint": model.fingerprint,
        "skipped": skipped,
    }
    # rows of .npy have no names of their own
    out.document(document | ({} if is_table else {"paths": [file.path for file in files]}))
    out.show(
        facts_table(
            ("written", f"{args.out}: {len(files):,} × {model.dim}, float32"),
            ("model", f"{model.name}, step {model.description.step}, {model.fingerprint}"),
        )
    )
    return 0


def embedded(
    args: argparse.Namespace, paths: list[Path]
) -> tuple[LoadedModel, Vectors, list[ImageFile], list[str]]:
    """Return the model, the embeddings of the images at `paths`, their files, and what was left out."""
    from dmltune.cli.progress import bar
    from dmltune.core.threads import torch_threads
    from dmltune.errors import UserError
    from dmltune.serving import load
    from dmltune.serving.listing import image_files
    from dmltune.train.ray_session import threads_of, usable_cores

    files = image_files(paths)
    model = load(args.name, store=args.store)
    warn_untrained(model)
    pictures = model.pictures([file.path for file in files], skip=args.skip_unreadable)
    with bar("images") as advance, torch_threads(threads_of(usable_cores())):
        emb_ND = model.embed_pictures(
            pictures, lambda done, total: advance(f"embed with {model.name}", done, total)
        )
    bad = pictures.unreadable
    if bad:
        say(f"{len(bad):,} of {len(files):,} images cannot be read and are left out:")
        for place in sorted(bad)[:5]:
            say(f"  {files[place].path} ({bad[place]})")
    readable = [place for place in range(len(files)) if place not in bad]
    if not readable:
        raise UserError("none of the images can be read. Check the paths.")
    return (
        model,
        emb_ND[readable],
        [files[place] for place in readable],
        [files[place].path for place in sorted(bad)],
    )


def warn_untrained(model: LoadedModel) -> None:
    if model.description.step == 0:
        say(f"{model.name} is the untrained network: no validation was better than the first, at step 0.")

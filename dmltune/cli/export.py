"""`dmltune export`: a model for other runtimes, with how its images are prepared."""

from __future__ import annotations

import argparse
from pathlib import Path

from dmltune.cli.embed import add_model, add_out, warn_untrained
from dmltune.cli.output import Output, facts_table
from dmltune.cli.parser import Parser, add_store
from dmltune.errors import UserError, readable

SUMMARY = "write a winner as ONNX, TorchScript or safetensors, checked against torch"
EXAMPLES = """\
  dmltune export demo -o demo.onnx                  and demo.onnx.json: how images are prepared
  dmltune export demo --format torchscript -o demo.pt
  dmltune export demo -o demo.safetensors           then: dmltune embed demo.safetensors photos/ …
"""
SUFFIXES = {".onnx": "onnx", ".pt": "torchscript", ".ts": "torchscript", ".safetensors": "safetensors"}


def add_arguments(parser: Parser) -> None:
    add_model(parser)
    parser.add_argument(
        "--format",
        dest="form",
        metavar="FORMAT",
        choices=("onnx", "torchscript", "safetensors"),
        help="onnx, torchscript or safetensors (default: by the suffix of FILE)",
    )
    add_out(parser, "demo.onnx, demo.pt or demo.safetensors", required=True)
    add_store(parser)
    parser.add_argument("-f", dest="format", choices=("table", "json"), default="table", help="of the result")


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.core.threads import torch_threads
    from dmltune.report.formatting import file_size
    from dmltune.serving import load
    from dmltune.serving.export import FORMATS, LARGEST_DIFFERENCE, export, require_onnx
    from dmltune.serving.outputs import require_writable
    from dmltune.train.ray_session import threads_of, usable_cores

    form = args.form or format_of(args.out)
    require_writable(args.out, FORMATS[form], args.force)
    if form == "onnx":
        require_onnx()
    model = load(args.name, store=args.store, device="cpu")
    warn_untrained(model)
    with torch_threads(threads_of(usable_cores())):
        exported = export(model, args.out, form)
    out.document({**vars(exported), "model": model.name, "fingerprint": model.fingerprint})
    faster = exported.torch_ms / exported.exported_ms if exported.exported_ms else 0.0
    out.show(
        facts_table(
            ("written", f"{exported.file}, {file_size(exported.file)}, any batch size"),
            ("preparation", str(exported.description)),
            ("difference", f"{exported.difference:.1e} to torch at most (limit {LARGEST_DIFFERENCE:g})"),
            (
                "one image",
                f"{exported.exported_ms:.1f} ms, torch {exported.torch_ms:.1f} ms: {faster:.1f} × the speed",
            ),
            ("model", f"{model.name}, {model.fingerprint}"),
        )
    )
    return 0


def format_of(file: Path) -> str:
    """Return the format that the suffix of the file says."""
    if (form := SUFFIXES.get(file.suffix.lower())) is None:
        raise UserError(
            f"-o must end with {', '.join(SUFFIXES)}, or name a --format; got {readable(str(file))}"
        )
    return form

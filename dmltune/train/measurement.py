"""Measure a trained order on the test classes, by the worker that trained it, where the GPUs are.

`test.safetensors` in the trial's folder holds the points and the figures of every query; its metadata holds
the figures of the whole model. It is written once: a trial that has it is not measured again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from dmltune.core import collectives
from dmltune.core.analysis import distance_histograms, geometry
from dmltune.core.checkpoint import replace_file
from dmltune.core.embedder import Embedder
from dmltune.core.retrieval import mean_figures, query_figures
from dmltune.data import catalog
from dmltune.data.features import Views, stored_maps
from dmltune.data.images import ImageSet
from dmltune.errors import UserError, parse_json
from dmltune.experiment import Experiment
from dmltune.ledger import LedgerEntry
from dmltune.train.inference import embed, of_smaller_lists, read_embedder, sides
from dmltune.train.orders import Order
from dmltune.train.test_access import opened_images

TEST = "test.safetensors"
MAPS = 64  # embedded at a time
_META = "meta"


def is_measured(folder: Path) -> bool:
    return (folder / TEST).is_file()


def measure_test(order: Order, device: torch.device) -> None:
    """Measure the best weights when the order carries an opening. Every rank calls it; rank 0 works."""
    folder = Path(order.folder)
    if not order.opening or collectives.rank() != 0 or is_measured(folder):
        return
    entry = LedgerEntry.from_dict(order.opening)
    images = opened_images(Experiment.from_validated(order.experiment), order.data_root, entry)
    embedder, experiment, about = read_embedder(folder / "best")
    emb_ND = _points(embedder, images, experiment, device)
    labels_N = torch.from_numpy(images.labels_N)
    ks, everything = catalog.recall_ks(images.name), range(len(images))
    figures = query_figures(*sides(emb_ND.to(device), images, everything), ks=ks)
    metrics = mean_figures(figures, ks) | of_smaller_lists(emb_ND.to(device), images, everything, ks)
    edges, positive, negative = distance_histograms(emb_ND.to(device), labels_N.to(device))
    meta = {
        "opening": entry.id,
        "fingerprint": images.fingerprint,
        "step": about.step,
        "metrics": metrics,
        "geometry": geometry(emb_ND, labels_N),
        "distances": {
            "edges": edges.tolist(),
            "positive": positive.tolist(),
            "negative": negative.tolist(),
        },
    }
    tensors = {
        "emb": emb_ND,
        "average_precision": figures.average_precision_Q,
        "precision_at_1": figures.precision_at_1_Q,
        "r_precision": figures.r_precision_Q,
        "nearest": figures.nearest_Q,
        "matched": figures.matched_Q,
    }
    plain = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    replace_file(folder / TEST, safetensors.torch.save(plain, {_META: json.dumps(meta)}))


@torch.inference_mode()
def _points(embedder: Embedder, images: ImageSet, experiment: Experiment, device: torch.device) -> Tensor:
    """Return the points of all images, (N, D).

    Where training used stored maps of a frozen prefix, the test images get such maps too, shared by all
    models of a check. They are in float32, so the points are those of the model as it is served.
    """
    size = experiment.data.size
    if experiment.data.views is None or embedder.cut is None:
        return embed(embedder, images, range(len(images)), size, device)
    embedder.to(device).eval()
    views, digest = Views(size, "none", 1, "float32"), embedder.cut.digest()
    maps = stored_maps(images, views, lambda seen_B: embedder.at_cut(seen_B.to(device)), digest)
    embedder.from_maps = True
    places = np.arange(len(images))
    parts = np.split(places, range(MAPS, len(places), MAPS))
    return torch.cat([embedder(maps.read(part, np.zeros_like(part)).to(device)).cpu() for part in parts])


def read_measurement(folder: Path, *names: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the named tensors of a measured trial, and its metadata."""
    path = folder / TEST
    try:
        with safetensors.safe_open(path, framework="pt", device="cpu") as file:
            return {name: file.get_tensor(name) for name in names}, parse_json(file.metadata()[_META])
    except (safetensors.SafetensorError, OSError, KeyError, TypeError, ValueError) as problem:
        raise UserError(
            f"the figures on the test classes at {path} cannot be read ({problem}). "
            "Remove the folder of this trial; the same command trains it again."
        ) from None

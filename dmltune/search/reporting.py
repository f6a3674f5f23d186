"""The page of a search: written by `dmltune report`, and into the search's run when it ends."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.errors import UserError
from dmltune.report.charts import write_charts
from dmltune.report.pages import FILE
from dmltune.report.search_page import sections, write_search_page
from dmltune.resources import Locations
from dmltune.scratch import scratch_folder
from dmltune.search.page_data import SearchPageData
from dmltune.search.state import SearchResult
from dmltune.search.stored import StoredSearch, StoredSearches

if TYPE_CHECKING:
    from torch import Tensor

    from dmltune.models import EvaluatedModel

GALLERY = "gallery.json"  # an artifact of the search's run
PIXELS = 3000 * 64**2  # of all images that a gallery embeds: 3,000 small ones, 240 photos of 227 pixels

logger = logging.getLogger(__name__)


def report_search(
    locations: Locations, name: str, file: Path, figures: Path | None = None, *, pictures: bool = True
) -> list[Path]:
    """Write the page of a search, and its figures when a folder is named; return their files."""
    search = StoredSearches(locations.store).get(name)
    gallery = stored_or_new(search, locations) if pictures else None
    data = SearchPageData(search, gallery)
    write_search_page(data, file)
    if figures is None:
        return []
    return write_charts((chart for each in sections(data).values() for chart in each), figures)


def log_report(locations: Locations, result: SearchResult) -> None:
    """Log the page of a search that has ended as report.html of its run. An error here ends no search."""
    if result.interrupted:
        return
    name = result.name
    try:
        with locations.store.owned(), scratch_folder() as scratch:
            search = StoredSearches(locations.store).get(name)
            gallery = new_gallery(search, locations)
            page = write_search_page(SearchPageData(search, gallery), scratch / FILE)
            search.tracker.log_file(search.run_id, page)
            if gallery is not None:
                search.tracker.log_json(search.run_id, GALLERY, gallery)
    except Exception as error:
        logger.warning(
            "the page of %s was not written (%s: %s); `dmltune report %s` writes it",
            name, type(error).__name__, error, name,
        )  # fmt: skip


def stored_or_new(search: StoredSearch, locations: Locations) -> Mapping[str, Any] | None:
    """Return the gallery of the current winner."""
    winner = search.winner
    if winner is None:
        return None
    found = search.tracker.read_json(search.run_id, GALLERY)
    stored: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    fits = stored.get("model") == f"Trial {winner.number}"
    if fits and stored.keys() >= {"attention", "distances"}:
        return stored
    made = new_gallery(search, locations)
    return stored if made is None and fits else made  # one of an older version has fewer parts


def new_gallery(search: StoredSearch, locations: Locations) -> dict[str, Any] | None:
    """Return the gallery of the winner on validation images; None when its model or its data are not here."""
    if search.winner is None:
        return None
    from dmltune.models import find_model  # loads torch, which a page without pictures does not need

    try:
        model = find_model(search.name, search.tracker)
        return gallery_of(model, locations, f"Trial {search.winner.number}")
    except (UserError, OSError) as error:
        logger.info("no gallery: %s", error)
        return None


def gallery_of(model: EvaluatedModel, locations: Locations, name: str) -> dict[str, Any]:
    """Return pictures, attention and distances of a model on validation images."""
    import torch

    from dmltune.train.build import training_images, untrained_embedder, validation_split
    from dmltune.train.inference import embed
    from dmltune.train.page_attention import attention
    from dmltune.train.page_gallery import gallery

    images = training_images(model.experiment, locations.absolute_root)
    indices = validation_split(model.experiment, images).validation_N
    size = model.experiment.data.size
    most = max(100, PIXELS // size**2)
    if len(indices) > most:  # whole classes, evenly spaced
        labels = images.labels_N[indices]
        every = -(-len(indices) // most)
        indices = indices[(labels % every) == 0]
    with torch.inference_mode():
        emb_ND = embed(model.embedder, images, indices, size)
        before_ND = embed(
            untrained_embedder(model.experiment, locations.absolute_root), images, indices, size
        )
    labels_N = torch.from_numpy(images.labels_N[indices])
    return {
        **gallery(emb_ND, images, indices, "validation", name),
        "attention": attention(model.embedder, images, indices, size),
        "distances": {"before": _distances(before_ND, labels_N), "after": _distances(emb_ND, labels_N)},
    }


def _distances(emb_ND: Tensor, labels_N: Tensor) -> dict[str, list[float]]:
    from dmltune.core.analysis import distance_histograms

    edges, positive, negative = distance_histograms(emb_ND, labels_N)
    rounded = [round(edge, 5) for edge in edges.tolist()]
    return {"edges": rounded, "positive": positive.tolist(), "negative": negative.tolist()}

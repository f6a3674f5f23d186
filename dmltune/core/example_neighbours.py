"""A few queries of the validation set with their nearest neighbours, to be shown as pictures.

N validation images, Q queries, K neighbours, D dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

QUERIES, NEIGHBOURS = 6, 7


@dataclass(frozen=True)
class ExampleNeighbours:
    """Places in the validation set, and which neighbours have the class of their query."""

    query_Q: Tensor
    neighbour_QK: Tensor
    right_QK: Tensor


@torch.no_grad()
def example_neighbours(emb_ND: Tensor, labels_N: Tensor, queries_N: Tensor | None) -> ExampleNeighbours:
    """Return the nearest neighbours of one query of each of up to `QUERIES` evenly spaced classes.

    The queries are the same at every validation. Where the data have queries (`queries_N`), neighbours are of
    the gallery; a query is never its own neighbour.
    """
    places_N = torch.arange(len(labels_N), device=emb_ND.device)
    asks_N = torch.ones_like(labels_N, dtype=torch.bool) if queries_N is None else queries_N.to(emb_ND.device)
    classes: Tensor = torch.unique(labels_N[asks_N])
    few = min(QUERIES, len(classes))
    chosen = classes[torch.arange(few, device=classes.device) * len(classes) // max(1, few)]
    first = [int(places_N[asks_N & (labels_N == label)][0]) for label in chosen]
    query_Q = torch.tensor(first, dtype=torch.long, device=emb_ND.device)
    distance_QN = torch.cdist(emb_ND[query_Q], emb_ND)
    excluded_QN = places_N == query_Q[:, None]
    if queries_N is not None:
        excluded_QN = excluded_QN | asks_N
    count = min(NEIGHBOURS, int((~excluded_QN).sum(1).min()) if few else 0)
    neighbour_QK = distance_QN.masked_fill(excluded_QN, torch.inf).topk(count, dim=1, largest=False).indices
    right_QK = labels_N[neighbour_QK] == labels_N[query_Q][:, None]
    return ExampleNeighbours(query_Q.cpu(), neighbour_QK.cpu(), right_QK.cpu())

"""Exact neighbours against a full sort by numpy, where float32 alone would go wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from dmltune.core import candidates, close_calls, neighbours
from dmltune.core.candidates import Frame, Points
from dmltune.core.neighbours import nearest_neighbours


def by_full_sort(query: Tensor, gallery: Tensor | None, k: int) -> tuple[Tensor, Tensor]:
    points = (query if gallery is None else gallery).double().numpy()
    indices = np.full((len(query), k), -1)
    squared = np.full((len(query), k), np.inf)
    for i, x in enumerate(query.double().numpy()):
        distances = ((points - x) ** 2).sum(axis=1)
        order = np.lexsort((np.arange(len(points)), distances))
        order = [j for j in order if gallery is not None or j != i][:k]
        indices[i, : len(order)], squared[i, : len(order)] = order, distances[order]
    return torch.from_numpy(indices), torch.from_numpy(squared)


def assert_exact(query: Tensor, gallery: Tensor | None, k: int) -> None:
    """Rank by rank the distances of a full sort, to rounding, of as many different points."""
    index, squared = nearest_neighbours(query, gallery, k)
    torch.testing.assert_close(squared, by_full_sort(query, gallery, k)[1], rtol=1e-12, atol=0)
    points = (query if gallery is None else gallery).double()
    for x, row, distances in zip(query.double(), index, squared, strict=True):
        found = row[row >= 0]
        assert len(set(found.tolist())) == len(found) == int(distances.isfinite().sum())
        own = (points[found] - x).square().sum(1)
        torch.testing.assert_close(own, distances[: len(found)], rtol=1e-12, atol=0)


def points_of(kind: str, size: int, dim: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, dim, generator=generator)
    if kind == "grid":
        return (2 * x).round()
    if kind == "codes":
        return x.sign()
    if kind == "equal":
        return x[:1].expand(size, dim).clone()
    if kind == "few":
        return x[torch.randint(3, (size,), generator=generator) % size]
    if kind == "tight":
        return x[:1] + 1e-5 * x  # float32 keeps two or three digits of the differences
    if kind == "far away":
        return x + 1000
    if kind == "clusters":
        return x[torch.arange(size) % 3] + 1e-4 * x
    if kind == "scales":
        return x * 10.0 ** torch.randint(-12, 12, (size, 1), generator=generator)
    return x


KINDS = ["random", "grid", "codes", "equal", "few", "tight", "far away", "clusters", "scales"]
EXACT = ["grid", "codes", "equal", "few"]


@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 10**6),
    size=st.integers(1, 130),
    dim=st.sampled_from([1, 3, 16]),
    k=st.sampled_from([1, 4, 20, 150]),
    tile=st.sampled_from([1, 64 * 64, 1 << 22]),
    spare=st.sampled_from([0, 8]),
    separate=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_it_equals_a_full_sort_where_points_are_tied_tight_or_far_away(
    kind: str, seed: int, size: int, dim: int, k: int, tile: int, spare: int, separate: bool
) -> None:
    points = points_of(kind, 2 * size, dim, seed)
    query, gallery = (points[:size], points[size:]) if separate else (points[:size], None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "_TILE", tile)
        patch.setattr(candidates, "_SPARE", spare)
        patch.setattr(close_calls, "_TILE", tile)
        assert_exact(query, gallery, k)
        if kind in EXACT:  # every distance is a float64 number: the order is unambiguous
            assert torch.equal(nearest_neighbours(query, gallery, k)[0], by_full_sort(query, gallery, k)[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("separate", [False, True])
def test_it_equals_a_full_sort_over_many_tiles(
    kind: str, separate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "_TILE", 128 * 128)
    points = points_of(kind, 700, 24, 0)
    assert_exact(points[:500], points[500:] if separate else None, 5)


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("state", [1, 1 << 27])
def test_deep_neighbourhoods_and_those_kept_block_by_block_are_exact(
    separate: bool, state: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "_TILE", 128 * 128)
    monkeypatch.setattr(neighbours, "_STATE_BYTES", state)
    points = torch.cat([points_of("random", 500, 8, 0), points_of("grid", 200, 8, 1)])
    for k in (60, 300):
        assert_exact(points[100:400], points[400:] if separate else None, k)


@pytest.mark.parametrize("dim", [2, 64, 512, 5000])
@pytest.mark.parametrize("shift", [0, 30])
@pytest.mark.parametrize("scale", [1e-17, 1, 1e15])
def test_no_score_is_farther_off_than_its_bound(dim: int, shift: float, scale: float) -> None:
    x = (torch.randn(300, dim) + shift) * scale
    frame = Frame(x)
    points = Points(x, frame, None)
    error = candidates.errors(points, points)
    left, right = (points.rows(0, 300, side, torch.empty(320 * (dim + 2))) for side in (0, 1))
    scores = candidates.scores(left, right, torch.empty(320**2), torch.empty(320**2))[:300, :300].double()
    exact = -torch.cdist(x.double(), x.double(), compute_mode="donot_use_mm_for_euclid_dist").square() / 2
    off = (scores - exact * frame.unit**2).abs().amax(1)
    assert (off <= error).all()
    assert (error < 1e-3 * exact.abs().amax() * frame.unit**2).all()  # and the bound is worth something


def test_neighbours_that_float32_cannot_tell_apart_are_told_apart() -> None:
    base = torch.randn(1, 32, dtype=torch.float64)
    assert_exact(base + 1e-9 * torch.randn(90, 32, dtype=torch.float64), None, 7)
    far = torch.cat([base + 1e-9 * torch.randn(90, 32, dtype=torch.float64), -base])
    assert_exact(far, None, 7)  # one point far away: float32 sees all the others in one place


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int8, torch.float64])
def test_every_type_is_raised_exactly(dtype: torch.dtype) -> None:
    points = (10 * torch.randn(150, 12)).to(dtype)
    expected = nearest_neighbours(points.double(), None, 4)
    for mine, theirs in zip(nearest_neighbours(points, None, 4), expected, strict=True):
        assert torch.equal(mine, theirs)


def test_behind_the_end_of_the_gallery_there_is_nobody() -> None:
    index, squared = nearest_neighbours(torch.tensor([[0.0], [1.0]]), None, 3)
    assert index.tolist() == [[1, -1, -1], [0, -1, -1]]
    assert squared.tolist() == [[1, torch.inf, torch.inf]] * 2
    assert nearest_neighbours(torch.zeros(2, 3), torch.zeros(0, 3), 2)[0].tolist() == [[-1, -1]] * 2
    assert nearest_neighbours(torch.zeros(1, 3), None, 1)[0].tolist() == [[-1]]
    assert nearest_neighbours(torch.zeros(0, 3), torch.zeros(4, 3), 2)[0].shape == (0, 2)


def test_lowered_precision_of_products_is_neither_used_nor_forgotten() -> None:
    backend = torch.backends.mkldnn.matmul
    before = backend.fp32_precision
    points = torch.randn(400, 64)
    expected = nearest_neighbours(points, None, 9)
    try:
        backend.fp32_precision = "bf16"
        with torch.autocast("cpu"):
            found = nearest_neighbours(points, None, 9)
        assert backend.fp32_precision == "bf16"
    finally:
        backend.fp32_precision = before
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])


class Largest(TorchDispatchMode):
    """The largest storage that any operation made."""

    nbytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() not in self.known:
                self.nbytes = max(self.nbytes, tensor.untyped_storage().nbytes())
        return out

    def __init__(self, *known: Tensor) -> None:
        super().__init__()
        self.known = {tensor.untyped_storage().data_ptr() for tensor in known}


@pytest.mark.parametrize("kind", ["random", "equal", "clusters"])
@pytest.mark.parametrize("queries", [1, 100])
def test_nothing_of_the_size_of_the_gallery_is_held(
    kind: str, queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (neighbours, close_calls):
        monkeypatch.setattr(module, "_TILE", 1 << 14)
    monkeypatch.setattr(candidates, "_PIECE", 1 << 14)
    monkeypatch.setattr(close_calls, "_PIECE", 1 << 14)
    gallery, query = points_of(kind, 6000, 96, 0), points_of(kind, queries, 96, 1)
    with Largest(gallery, query) as seen:
        nearest_neighbours(query, gallery, 3)
    assert seen.nbytes < gallery.numel() * 4 / 5


def test_only_surplus_equals_are_left_out() -> None:
    points = torch.randint(2, (200, 3)).float() - 0.5
    points[::7] = torch.tensor([0.0, 0.0, 1.0])
    points[::14] = torch.tensor([0.0, -0.0, 1.0])
    rows = [tuple(row) for row in points.tolist()]
    expected = [i for i, row in enumerate(rows) if rows[:i].count(row) < 5]
    assert close_calls.first_of_equals(points, 5).tolist() == expected


def test_points_made_for_inference_are_welcome() -> None:
    with torch.inference_mode():
        points = torch.randn(50, 4, dtype=torch.float64)
    assert_exact(points, None, 3)

"""The shape of an embedding: the figures of seed 001 and chapter 4 of seed 003 (convex.py).

N points, C classes in the order of their labels, D dimensions, E eigenvalues. μ_c is the mean of a class, not
normalised, and σ = x − μ. Sums are taken in float64. Where there is nothing to measure (one class, points
that are their class's mean) a figure is 0, and a similarity 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dmltune.core.convex import convex_combination as convex_combination
from dmltune.core.convex import histogram as histogram
from dmltune.core.geometry import covering_radius, finite, pairwise_distance
from dmltune.core.transforms.sft import other_classes, rotate

_BLOCK = 1 << 22  # numbers held at once
_DRAWS = 10_000  # draws of ‖Aσ − σ‖ in figure 6


def subspace_overlap(emb: Tensor, labels: Tensor, k: int) -> float:
    """Return r_w = trace(Uᵀ S_w U) / trace(S_w), U the k leading eigenvectors of S_c (eq. 7 and 8).

    S_c = 1/C Σ μ_cᵀ μ_c and S_w = 1/C Σ_c 1/N_c Σ σᵀ σ with row vectors. S_c is not centred; the μ in S_w is
    that of the point's class (eq. 7 mixes the indices up). More than C eigenvectors are not unique.
    """
    if not 1 <= k <= emb.shape[1]:
        raise ValueError(f"k must be between 1 and the {emb.shape[1]} dimensions; got {k}")
    return float(overlap_curve(emb, labels)[1][k - 1])


@torch.no_grad()
def overlap_curve(emb: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return (energy_D, overlap_D) of figure 6 (c): shares held by k = 1 … D eigenvectors of S_c."""
    return _overlap_curve(_Classes.of(emb, labels))


@torch.no_grad()
def class_divergence(emb: Tensor, labels: Tensor) -> Tensor:
    """Return (C,) traces of S_w,c = 1/N_c Σ σᵀ σ (eq. 11, with μ_c for its μ_i): means of ‖σ‖²."""
    return _Classes.of(emb, labels).divergence().to(_result_type(emb))


@torch.no_grad()
def class_variances(emb: Tensor, labels: Tensor) -> Tensor:
    """Return (C, D) the diagonals of S_w,c (figure 2 b)."""
    classes = _Classes.of(emb, labels)
    return classes.mean_of(classes.sigma_ND.square()).to(_result_type(emb))


@torch.no_grad()
def class_spectra(emb: Tensor, labels: Tensor) -> Tensor:
    """Return (C, E) falling eigenvalues of S_w,c (figure 2 c); E = D, or the largest class size."""
    return _Classes.of(emb, labels).spectra().to(_result_type(emb))


def similarity(rows_CE: Tensor) -> float:
    """1 − Σ |λ_a,e − λ_b,e| / Σ (λ_a,e + λ_b,e) over all pairs of rows a < b and all e, in [0, 1].

    The text reads "the difference of the eigenvalues is about 8 % on average" off figure 2 and gives no
    formula. All pairs at once by sorting: O(C log C) for each place.
    """
    rows_CE = rows_CE.double()
    count = len(rows_CE)
    # the i-th smallest (from 0) is the larger one of i pairs and the smaller one of count − 1 − i
    rank_C1 = torch.arange(count, device=rows_CE.device, dtype=rows_CE.dtype).unsqueeze(1)
    apart = float((rows_CE.sort(0).values * (2 * rank_C1 - (count - 1))).sum())
    total = float(rows_CE.sum()) * (count - 1)
    return 1 - apart / total if total > 0 else 1.0


@torch.no_grad()
def rotation_shift(emb: Tensor, labels: Tensor, draws: int = _DRAWS, seed: int = 0) -> Tensor:
    """Return (draws,) samples of ‖Aσ − σ‖ (figure 6); empty for one class.

    σ is of a random point, A the rotation of its class mean to that of a random other class. 0 where rotation
    and translation do the same (proposition 3).
    """
    classes = _Classes.of(emb, labels)
    return classes.rotation_shift(draws, seed).to(_result_type(emb))


@torch.no_grad()
def distance_histograms(emb: Tensor, labels: Tensor, bins: int = 100) -> tuple[Tensor, Tensor, Tensor]:
    """Return (edges, positive, negative) of figure 4 (b): pairs of one and of two classes by distance.

    The bins divide 0 … 2·max‖x‖ ([0, 2] for normalised points) evenly. Each pair counts once. N²D/2
    operations in blocks: no N² memory.
    """
    emb = finite(emb).to(_result_type(emb))
    limit = 2 * float(torch.linalg.vector_norm(emb.double(), dim=1).max()) if len(emb) else 0.0
    limit = limit or 1.0
    counts = torch.zeros(2 * bins, dtype=torch.long, device=emb.device)
    size = max(1, _BLOCK // max(1, len(emb)))
    for start in range(0, len(emb), size):
        stop = min(start + size, len(emb))
        distance_BR = pairwise_distance(emb[start:stop], emb[start:])
        bin_BR = (distance_BR / limit * bins).long().clamp_(max=bins - 1)
        bin_BR += bins * (labels[start:stop].unsqueeze(1) != labels[start:])
        own = stop - start
        above = torch.ones(own, own, dtype=torch.bool, device=emb.device).triu(1)
        counts += torch.bincount(bin_BR[:, :own][above], minlength=2 * bins)
        counts += torch.bincount(bin_BR[:, own:].flatten(), minlength=2 * bins)
    edges = torch.linspace(0, limit, bins + 1, dtype=torch.float64)
    return edges, counts[:bins], counts[bins:]


@torch.no_grad()
def geometry(emb_ND: Tensor, labels_N: Tensor) -> dict[str, float]:
    """Compute the figures that are cheap enough for every evaluation.

    inter_class_distance   mean distance of the means of two classes
    intra_class_distance   mean distance of a point to the mean of its class, averaged over classes
    subspace_overlap       r_w (eq. 8) with the eigenvectors that hold 99 % of the energy of μ, as in figure 6
    class_divergence       mean over classes of the trace of eq. 11
    divergence_spread      its standard deviation over classes (figure 4 a)
    eigenvalue_similarity  of the class covariances (figure 2 c), over classes with two points or more
    variance_similarity    of their diagonals (figure 2 b)
    rotation_shift         mean of ‖Aσ − σ‖ (figure 6) over 10,000 draws, the same ones each time
    covering_radius        as in core.geometry

    O(ND + C²D + D³ + Σ_c n_c²·(n_c + D)), or n_c·D² + D³ for a class with more points than dimensions.
    """
    classes = _Classes.of(emb_ND, labels_N)
    energy_D, overlap_D = _overlap_curve(classes)
    several_C = classes.counts_C > 1
    divergence_C = classes.divergence()
    intra_C = classes.mean_of(torch.linalg.vector_norm(classes.sigma_ND, dim=1))
    shift = classes.rotation_shift(_DRAWS, seed=0)
    figures = {
        "inter_class_distance": _mean_distance(classes.means_CD),
        "intra_class_distance": _mean(intra_C),
        "subspace_overlap": float(overlap_D[min(int((energy_D < 0.99).sum()), len(overlap_D) - 1)]),
        "class_divergence": _mean(divergence_C),
        "divergence_spread": float(divergence_C.std(correction=0)) if len(divergence_C) else 0.0,
        "eigenvalue_similarity": similarity(classes.spectra()[several_C]),
        "variance_similarity": similarity(classes.mean_of(classes.sigma_ND.square())[several_C]),
        "rotation_shift": _mean(shift),
    }
    return {**figures, "covering_radius": covering_radius(emb_ND, labels_N)}


@dataclass(frozen=True)
class _Classes:
    """Points split into class means and the rest."""

    place_N: Tensor
    counts_C: Tensor
    means_CD: Tensor
    sigma_ND: Tensor

    @classmethod
    def of(cls, emb: Tensor, labels: Tensor) -> _Classes:
        emb = finite(emb).double()
        _, place_N, counts_C = torch.unique(labels, return_inverse=True, return_counts=True)
        sums_CD = emb.new_zeros(len(counts_C), emb.shape[1]).index_add_(0, place_N, emb)
        means_CD = sums_CD / counts_C.unsqueeze(1)
        return cls(place_N, counts_C, means_CD, emb - means_CD[place_N])

    def mean_of(self, values: Tensor) -> Tensor:
        """Return the mean over each class, (C, …)."""
        sums = values.new_zeros(len(self.counts_C), *values.shape[1:]).index_add_(0, self.place_N, values)
        return sums / self.counts_C.view(-1, *[1] * (values.dim() - 1))

    def divergence(self) -> Tensor:
        return self.mean_of(self.sigma_ND.square().sum(1))

    def spectra(self) -> Tensor:
        """Process classes of one size at a time, by the smaller of the two Gram matrices."""
        dim = self.sigma_ND.shape[1]
        width = min(dim, int(self.counts_C.max())) if len(self.counts_C) else 0
        spectra_CE = self.sigma_ND.new_zeros(len(self.counts_C), width)
        order_N = self.place_N.argsort(stable=True)
        starts_C = self.counts_C.cumsum(0) - self.counts_C
        for size in torch.unique(self.counts_C).tolist():
            chosen_C = (self.counts_C == size).nonzero().squeeze(1)
            for part in torch.split(chosen_C, max(1, _BLOCK // (size * dim))):
                offset = torch.arange(size, device=part.device)
                sigma_CND = self.sigma_ND[order_N[starts_C[part].unsqueeze(1) + offset]]
                gram = sigma_CND @ sigma_CND.mT if size < dim else sigma_CND.mT @ sigma_CND
                values = torch.linalg.eigvalsh(gram / size).clamp(min=0).flip(-1)
                spectra_CE[part, : values.shape[1]] = values
        return spectra_CE

    def rotation_shift(self, draws: int, seed: int) -> Tensor:
        if len(self.counts_C) < 2:
            return self.sigma_ND.new_zeros(0)
        generator = torch.Generator().manual_seed(seed)
        point = torch.randint(len(self.place_N), (draws,), generator=generator).to(self.place_N.device)
        source = self.place_N[point]
        share = torch.rand(draws, generator=generator, dtype=torch.float64).to(source.device)
        target = other_classes(torch.ones_like(self.counts_C, dtype=torch.bool), source, share)
        sigma = self.sigma_ND[point]
        turned = rotate(sigma, self.means_CD[source], self.means_CD[target])
        shift: Tensor = torch.linalg.vector_norm(turned - sigma, dim=1)
        return shift


def _overlap_curve(classes: _Classes) -> tuple[Tensor, Tensor]:
    count = max(1, len(classes.counts_C))
    values_D, vectors_DD = torch.linalg.eigh(classes.means_CD.mT @ classes.means_CD / count)
    vectors_DD = vectors_DD.flip(1)
    along_CD = classes.mean_of((classes.sigma_ND @ vectors_DD).square())
    return _held(values_D.flip(0).clamp(min=0)), _held(along_CD.sum(0) / count)


def _held(energies_D: Tensor) -> Tensor:
    """Return the share of the sum that the first k hold, k = 1 … D; the last is 1 (0 for a sum of 0)."""
    held_D = energies_D.cumsum(0)
    return held_D / held_D[-1] if float(held_D[-1]) > 0 else torch.zeros_like(held_D)


def _mean_distance(points_CD: Tensor) -> float:
    """Average over the pairs of two points, in blocks."""
    count, total = len(points_CD), 0.0
    for part_CD in torch.split(points_CD, max(1, _BLOCK // max(1, count))):
        total += float(pairwise_distance(part_CD, points_CD).sum())
    return total / (count * (count - 1)) if count > 1 else 0.0


def _mean(values: Tensor) -> float:
    return float(values.mean()) if len(values) else 0.0


def _result_type(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)

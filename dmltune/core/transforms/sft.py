"""Spherical Feature Transform (seed 001): the variation within a class is transferred to another.

B samples, S of them sources, G generated points, n points with a centre, C classes, U of them in a batch, D
dimensions. A feature is x = μ + σ (eq. 1), with μ the centre of its class.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from annotated_types import Ge, Interval
from torch import Tensor, nn

from dmltune.core.fixed_shapes import fixed_shapes
from dmltune.core.geometry import l2_normalise
from dmltune.core.host_numbers import HostNumbers
from dmltune.core.random_numbers import uniform
from dmltune.core.transforms import Transform
from dmltune.errors import UserError

_MOMENTUM = 0.99  # share of the covariance that stays at an update
_EVERY = 10  # updates between two eigendecompositions, which cost D³; the subspace moves slowly


def rotate(x_BD: Tensor, source_BD: Tensor, target_BD: Tensor) -> Tensor:
    """A x (eq. 3) with A the rotation in the plane of both centres that takes source to target (eq. 4).

    With s and t the centres normalised and w = s + t, eq. 4 is a reflection that takes s to −t and one that
    takes −t to t: A = (I − 2ttᵀ)(I − wwᵀ/(1 + sᵀt)). So A x is two dot products and two vectors added,
    without a division by the sine, which vanishes for parallel centres. Without a second axis (parallel,
    opposite or zero centres) the feature stays as it is.
    """
    dtype = torch.promote_types(x_BD.dtype, torch.float32)
    x_BD = x_BD.to(dtype)
    s_BD, t_BD = (l2_normalise(centre_BD.to(dtype)) for centre_BD in (source_BD, target_BD))
    turns_B1 = _has_second_axis(s_BD, t_BD).unsqueeze(-1)
    w_BD = s_BD + t_BD
    # 1 + sᵀt as ‖w‖²/2, which keeps its digits when the centres are nearly opposite
    half_B1 = torch.where(turns_B1, w_BD.square().sum(-1, keepdim=True) / 2, 1)
    turned_BD = x_BD - w_BD * ((w_BD * x_BD).sum(-1, keepdim=True) / half_B1)
    turned_BD = turned_BD - t_BD * (2 * (t_BD * turned_BD).sum(-1, keepdim=True))
    return torch.where(turns_B1, turned_BD, x_BD)


def translate(x_BD: Tensor, source_BD: Tensor, target_BD: Tensor, renormalise: bool = True) -> Tensor:
    """x + μ_target − μ_source (eq. 2), projected back on the sphere with `renormalise`.

    The centres are not normalised: in the degenerate form (proposition 2) they and x are features before
    normalisation.
    """
    dtype = torch.promote_types(x_BD.dtype, torch.float32)
    moved_BD = x_BD.to(dtype) + (target_BD.to(dtype) - source_BD.to(dtype))
    return l2_normalise(moved_BD) if renormalise else moved_BD


class Centres(nn.Module):
    """One running centre a class, zero before the first sample of the class."""

    def __init__(self, num_classes: int, dim: int) -> None:
        super().__init__()
        self.values = nn.Buffer(torch.zeros(num_classes, dim, dtype=torch.float32))

    @torch.no_grad()
    def update_(self, x_BD: Tensor, labels_B: Tensor) -> None:
        """μ_j ← (μ_j + Σ_{y_i = j} x_i) / (1 + n_j): eq. 9 subtracted, not added.

        The old centre counts as one sample: a centre depends on the order of the batches, not on the order
        within one. A product with the class indicators, because scattered sums differ from rank to rank on a
        GPU.
        """
        x_BD = x_BD.to(self.values.dtype)
        same_BB = labels_B.unsqueeze(1) == labels_B
        is_BB = same_BB.to(x_BD.dtype)
        sums_BD = self.values[labels_B] + is_BB @ x_BD
        self._set(labels_B, same_BB, sums_BD / (1 + is_BB.sum(1, keepdim=True)))

    @torch.no_grad()
    def pick_(self, x_BD: Tensor, labels_B: Tensor, draw_B: Tensor) -> None:
        """Set the centre of each class of the batch to its sample with the largest draw ("Pick", table 6)."""
        same_BB = labels_B.unsqueeze(1) == labels_B
        picked_B = torch.where(same_BB, draw_B, -1).argmax(1)
        self._set(labels_B, same_BB, x_BD[picked_B].to(self.values.dtype))

    def _set(self, labels_B: Tensor, same_BB: Tensor, values_BD: Tensor) -> None:
        """Overwrite the centres by the row of the first sample of each class: many write, all the same."""
        first_B = same_BB.to(torch.uint8).argmax(1)
        self.values[labels_B] = values_BD[first_B]

    def known(self) -> Tensor:
        """Return (C,) whether a class has a centre."""
        return (self.values.amax(1) != 0) | (self.values.amin(1) != 0)  # several times as fast as any()


def other_classes(allowed_C: Tensor, own_B: Tensor, share_B: Tensor) -> Tensor:
    """Return an allowed class for each sample, never its own; there must be one, (B,).

    `share_B` are numbers in [0, 1): uniform ones, float64 and so to 2⁻⁵³, give every class the same chance.
    """
    number_C = allowed_C.cumsum(0)
    inside_B = allowed_C[own_B].long()
    place_B = number_C[own_B] - inside_B
    index_B = (share_B * (number_C[-1] - inside_B)).long()
    chosen_B = index_B + (inside_B & (index_B >= place_B))
    return torch.searchsorted(number_C, chosen_B + 1).clamp(max=len(number_C) - 1)


class Variation(HostNumbers):
    """A running covariance of σ of all classes, and the projection Q Qᵀ on its leading subspace (FTL).

    Q are the fewest leading eigenvectors that hold `energy` of the trace. Not in the text, which says "95 %
    of the energy" only: the covariance is a moving average in which every batch has the trace 1 (only ratios
    of eigenvalues matter, and the features' size drifts in training).
    """

    host_numbers = ("updates",)

    def __init__(self, dim: int, energy: float) -> None:
        super().__init__()
        self.energy = energy
        self.covariance = nn.Buffer(torch.zeros(dim, dim, dtype=torch.float32))
        self.projector: Tensor = nn.Buffer(torch.zeros(dim, dim, dtype=torch.float32))
        self.updates = 0

    @torch.no_grad()
    def update_(self, sigma_nD: Tensor) -> None:
        """Add σ to the covariance, unless it is empty, zero or not finite.

        Rows of zeros add nothing. Nothing is known in the first step; from the second on, every tenth update
        is followed by the decomposition, for which the host has to wait.
        """
        sigma_nD = sigma_nD.to(self.covariance.dtype)
        largest = sigma_nD.abs().amax()
        unit_nD = l2_normalise(sigma_nD.flatten()).view_as(sigma_nD)
        moved_DD = self.covariance.lerp(unit_nD.mT @ unit_nD, 1 - _MOMENTUM)
        self.covariance.copy_(torch.where((largest > 0) & largest.isfinite(), moved_DD, self.covariance))
        if self.updates % _EVERY == 1:
            # a new tensor: the backward of points that were generated before still needs the old one
            values_D, vectors_DD = torch.linalg.eigh(self.covariance)
            held_D = values_D.clamp(min=0).flip(0).cumsum(0)
            count = (held_D < self.energy * held_D[-1]).sum() + 1
            leading_D = torch.arange(len(values_D), 0, -1, device=count.device) <= count
            leading_DD = torch.where(leading_D & (held_D[-1] > 0), vectors_DD, 0)
            self.projector = leading_DD @ leading_DD.mT
        self.updates += 1


class Sft(Transform):
    """Move every feature to a random other class.

    In the unbalanced scheme, features of head classes move to random tail classes, those with fewer than
    `tail_below` samples. form: `rotate` is eq. 3 on the sphere; `degenerate` is eq. 2 before normalisation,
    then projected back (SFT-d); `ftl` is the same with only the part of σ in the subspace with `energy` of
    its variance (FTL's decoder and its training in stages are left out). centres: `running` is eq. 9; table 6
    has `random` directions that never move, and `pick`, one sample of the class, here of the latest batch
    with the class. Classes without a centre neither give nor get features, nor do pairs of centres without a
    plane.
    """

    def __init__(
        self,
        *,
        num_classes: int,
        dim: int,
        class_counts: Tensor | None = None,
        weight: Annotated[float, Ge(0)] = 0.2,
        form: Literal["rotate", "degenerate", "ftl"] = "rotate",
        scheme: Literal["balanced", "unbalanced"] = "balanced",
        centres: Literal["running", "random", "pick"] = "running",
        tail_below: Annotated[int, Ge(1)] = 15,
        energy: Annotated[float, Interval(gt=0, le=1)] = 0.95,
    ) -> None:
        super().__init__()
        self.weight, self.scheme, self.estimate = weight, scheme, centres
        self.on_sphere = form == "rotate"  # features and centres after normalisation, or before
        # the global generator is seeded alike on all ranks when a training is built
        self.seed, self.draws = nn.Buffer(torch.randint(2**31, ())), nn.Buffer(torch.tensor(0))
        tail_C = _tail_classes(class_counts, tail_below) if scheme == "unbalanced" else torch.zeros(0).bool()
        self.tail_C = nn.Buffer(tail_C, persistent=False)
        self.centres = Centres(num_classes, dim)
        self.variation = Variation(dim, energy) if form == "ftl" else None
        if centres == "random":
            generator = torch.Generator().manual_seed(int(self.seed))
            directions_CD = torch.randn(num_classes, dim, generator=generator, dtype=torch.float32)
            self.centres.values.copy_(l2_normalise(directions_CD))

    def generate(self, raw_BD: Tensor, emb_BD: Tensor, labels_B: Tensor) -> tuple[Tensor, Tensor]:
        target_B = self._targets(labels_B)
        if fixed_shapes(labels_B):
            return self._moved(emb_BD if self.on_sphere else raw_BD, labels_B, target_B), target_B
        source_G = (target_B >= 0).nonzero().squeeze(1)
        x_GD = (emb_BD if self.on_sphere else raw_BD)[source_G]
        return self._moved(x_GD, labels_B[source_G], target_B[source_G]), target_B[source_G]

    def _moved(self, x_GD: Tensor, source_G: Tensor, target_G: Tensor) -> Tensor:
        from_GD, to_GD = self.centres.values[source_G], self.centres.values[target_G.clamp(min=0)]
        if self.on_sphere:
            return rotate(x_GD, from_GD, to_GD)
        if self.variation is None:
            return translate(x_GD, from_GD, to_GD)
        sigma_GD = translate(x_GD, from_GD, torch.zeros_like(from_GD), renormalise=False)
        projected_GD = sigma_GD @ self.variation.projector.to(sigma_GD.dtype)
        return l2_normalise(to_GD.to(sigma_GD.dtype) + projected_GD)

    @torch.no_grad()
    def update_(self, raw_BD: Tensor, emb_BD: Tensor, labels_B: Tensor) -> None:
        if not len(labels_B):
            return
        x_BD = emb_BD if self.on_sphere else raw_BD
        if self.variation is not None:
            own_BD = self.centres.values[labels_B]
            sigma_BD = x_BD.to(own_BD.dtype) - own_BD
            self.variation.update_(torch.where(own_BD.any(1, keepdim=True), sigma_BD, 0))
        if self.estimate == "running":
            self.centres.update_(x_BD, labels_B)
        elif self.estimate == "pick":
            self.centres.pick_(x_BD, labels_B, self._draw(len(labels_B)))

    @torch.no_grad()
    def _targets(self, labels_B: Tensor) -> Tensor:
        """Return the class that each sample moves to, −1 for one that is not moved, (B,)."""
        known_C = target_C = self.centres.known()
        source_B = known_C[labels_B]
        if self.scheme == "unbalanced":
            source_B, target_C = source_B & ~self.tail_C[labels_B], known_C & self.tail_C
        if self.variation is not None:
            source_B = source_B & self.variation.projector.any()
        source_B = source_B & (target_C.sum() > target_C[labels_B].long())
        target_B = other_classes(target_C, labels_B, self._draw(len(labels_B)))
        if self.on_sphere:
            from_BD, to_BD = self.centres.values[labels_B], self.centres.values[target_B]
            source_B = source_B & _has_second_axis(l2_normalise(from_BD), l2_normalise(to_BD))
        return torch.where(source_B, target_B, -1)

    def _draw(self, count: int) -> Tensor:
        """Return the next random numbers, which follow from the buffers alone."""
        numbers = uniform(self.seed, self.draws, count)
        self.draws.add_(1)
        return numbers


def _has_second_axis(s_BD: Tensor, t_BD: Tensor) -> Tensor:
    """Return (B,) whether two unit vectors span a plane, to the precision of their type."""
    epsilon = torch.finfo(s_BD.dtype).eps
    exist_B = s_BD.any(-1) & t_BD.any(-1)
    not_parallel_B = (s_BD - t_BD).square().sum(-1) > (4 * epsilon) ** 2
    # nearer to opposite, more than half the digits of the axis are lost
    not_opposite_B = (s_BD + t_BD).square().sum(-1) > epsilon
    return exist_B & not_parallel_B & not_opposite_B


def _tail_classes(class_counts: Tensor | None, tail_below: int) -> Tensor:
    """Return (C,) which classes have too few samples."""
    if class_counts is None:
        raise ValueError("the unbalanced scheme needs class_counts")
    tail_C = class_counts < tail_below
    if bool(tail_C.all()) or not bool(tail_C.any()):
        low, high = int(class_counts.min()), int(class_counts.max())
        between = f"a number from {low + 1} to {high}, or " if low < high else ""
        raise UserError(
            f"sft: tail_below must part the classes ({low} to {high} samples) into tail and head; "
            f"got {tail_below}. Use {between}scheme: balanced."
        )
    return tail_C

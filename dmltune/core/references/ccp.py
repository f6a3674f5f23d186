"""Chance constrained programming (chapter 3): proxies under alternating projections.

C classes, K proxies a class, b pool samples a class, D dimensions, W trainable embedder weights. A
projection minimises loss + λ/2·‖θ − θ*‖² over weights and proxies until validation no longer improves;
the next one starts from proxies chosen by greedy k-center, with θ* the best weights of the one before.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge
from torch import Tensor, nn

from dmltune.core.geometry import greedy_k_center, lip
from dmltune.core.references import Pool, References
from dmltune.errors import UserError

_FIRST_PROJECTION = (
    "the first projection did not end; lower references.longest or monitor.every, or raise max_steps"
)
_PLATEAU = 1e-5  # an improvement of the score by no more than this is none


class Ccp(References):
    """L(sample × proxy) + batch_weight·L(batch), both after lip.

    A projection ends after `patience` scores without a better one and, which is not in the text, after
    `longest` scores: in a short training the score may rise to the end. The second term is the authors'
    code's, not in eq. 3.2.11; batch_weight = 0 gives the text.
    """

    normalise: ClassVar[Literal["l2", "lip"]] = "lip"
    follows_score: ClassVar[bool] = True
    yaml_names: ClassVar[dict[str, str]] = {"lambda": "proximal_weight"}

    def __init__(
        self,
        *,
        num_classes: int,
        dim: int,
        proxies: Annotated[int, Ge(1)] = 8,
        pool_size: Annotated[int, Ge(1)] = 12,
        proximal_weight: Annotated[float, Ge(0)] = 2e-4,
        patience: Annotated[int, Ge(1)] = 3,
        longest: Annotated[int | None, Ge(1)] = None,
        batch_weight: Annotated[float, Ge(0)] = 0.1,
    ) -> None:
        super().__init__()
        if pool_size < proxies:
            raise UserError(
                f"pool_size must be at least proxies; got {pool_size} and {proxies}. Use {proxies} or more."
            )
        self.pool_size, self.patience, self.longest = pool_size, patience, longest
        self.proximal_weight, self.batch_weight = proximal_weight, batch_weight
        self.proxies = nn.Parameter(torch.zeros(num_classes, proxies, dim, dtype=torch.float32))
        self.proxy_labels = nn.Buffer(torch.arange(num_classes).repeat_interleave(proxies), persistent=False)
        self.best_proxies = nn.Buffer(torch.zeros_like(self.proxies))
        # θ* is empty during the first projection, where λ is 0
        self.anchor_W: Tensor = nn.Buffer(torch.zeros(0, dtype=torch.float32))
        self.best_W: Tensor = nn.Buffer(torch.zeros(0, dtype=torch.float32))
        self.best_score = nn.Buffer(torch.tensor(-torch.inf, dtype=torch.float64))
        self.projection = nn.Buffer(torch.tensor(1))
        self.scores = nn.Buffer(torch.tensor(0))  # of this projection
        self.stale = nn.Buffer(torch.tensor(0))  # scores since its best one
        self.steps = nn.Buffer(torch.tensor(0))

    def forward(self, loss: nn.Module, emb_BD: Tensor, labels_B: Tensor) -> Tensor:
        if self.training:
            self.steps.add_(1)
        value: Tensor = loss(emb_BD, labels_B, lip(self.proxies).flatten(0, 1), self.proxy_labels)
        return value + self.batch_weight * loss(emb_BD, labels_B) if self.batch_weight > 0 else value

    @property
    def penalises(self) -> bool:
        return self.proximal_weight > 0 and self.anchor_W.numel() > 0

    def penalty(self, weights_W: Tensor) -> Tensor:
        """λ/2·‖θ − θ*‖² (eq. 3.2.11), gradient +λ(θ − θ*); algorithm 1 prints the sign reversed."""
        if not self.penalises:
            return weights_W.new_zeros(())
        return self.proximal_weight / 2 * (weights_W - self.anchor_W).square().sum()

    def start(self, pool: Pool) -> None:
        self._choose(pool, None)

    @torch.no_grad()
    def after_validation(self, score: float, weights_W: Tensor, pool: Pool) -> dict[str, float]:
        """Store the best state; project when the projection is over."""
        self.scores.add_(1)
        if score > float(self.best_score) + _PLATEAU:
            self.best_score.fill_(score)
            self.best_proxies.copy_(self.proxies)
            self.best_W = weights_W.detach().clone()
            self.stale.zero_()
        else:
            self.stale.add_(1)
        figures = self.figures()
        if int(self.stale) >= self.patience or int(self.scores) == self.longest:
            self._project(pool)
        return figures

    def figures(self) -> dict[str, float]:
        return {"projection": float(self.projection), "steps_in_projection": float(self.steps)}

    def idle(self) -> dict[str, str]:
        """λ acts from the first step of the second projection on; until then every patience is the same."""
        if int(self.projection) > 2 or (int(self.projection) == 2 and int(self.steps) > 0):
            return {}
        return dict.fromkeys(("lambda", "patience", "longest"), _FIRST_PROJECTION)

    def _project(self, pool: Pool) -> None:
        """θ* ← best weights, new proxies; the live weights and the optimiser's state stay."""
        self.anchor_W = self.best_W.clone()
        self._choose(pool, lip(self.best_proxies))
        self.best_score.fill_(-torch.inf)
        self.projection.add_(1)
        for count in (self.scores, self.stale, self.steps):
            count.zero_()

    @torch.no_grad()
    def _choose(self, pool: Pool, cover_CKD: Tensor | None) -> None:
        """Algorithm 2: the K picks of each class replace its proxies."""
        emb_CbD, valid_Cb = pool(self.pool_size)
        picks_CK = greedy_k_center(emb_CbD, cover_CKD, self.proxies.shape[1], valid_Cb)
        self.proxies.copy_(torch.take_along_dim(emb_CbD, picks_CK.unsqueeze(-1), dim=1))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        for name in ("anchor_W", "best_W"):  # empty until the first projection ends
            if prefix + name in state_dict:
                setattr(self, name, torch.empty_like(state_dict[prefix + name], device=self.proxies.device))
        state_dict.setdefault(prefix + "scores", torch.zeros_like(self.scores))  # of an older version
        super()._load_from_state_dict(state_dict, prefix, *rest)

"""The synthetic study (§5.3.1): pooling of tokens that belong to a class or are shared.

A sample is 50 tokens drawn with replacement: a share μ̃ ~ N(0.5, 0.1) from the 4 of its class, the rest from 4
that all 16 classes share. Only the tokens and the prototypes of GSP are trained: this is metric learning with
a perfect backbone. The text leaves these open:

dimensions   2: the picture shows the space itself. In 3 dimensions there is room for 16 classes around the
             shared tokens, and average pooling separates them too (96 % MAP@R)
loss         C2 with the margins 0 and 0.3, the bound of a token. With a margin of 0.1 average pooling
             separates the classes slowly (76 % after 3,000 steps, still rising)
GSP          a prototype for each class, μ 0.1 (below the least share of own tokens), ε 40 (distances are a
             tenth of those between unit vectors)
epoch        50 batches; validation on 20 new samples of each class

Legend: C classes, T = 4 (C + 1) tokens with the shared ones last, B samples, N = 50 tokens a sample (also the
number of validation samples), D dimensions, M prototypes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from dmltune.core.convex import convex_hull_overlap, hulls_overlap
from dmltune.core.losses.contrastive import Contrastive
from dmltune.core.poolings import Pooling
from dmltune.core.poolings.gap import Gap
from dmltune.core.poolings.gsp import Gsp
from dmltune.core.retrieval import retrieval_metrics

CLASSES, TOKENS_EACH, SAMPLE = 16, 4, 50
MIX_MEAN, MIX_SPREAD = 0.5, 0.1
BOUND = 0.3
DIM = 2
SAMPLES_PER_CLASS, VALIDATION_PER_CLASS = 4, 20
LEARNING_RATE = 1e-4
EPOCH, PATIENCE, MAX_STEPS = 50, 30, 6000
POOLINGS = ("gap", "gsp")
MARGIN = BOUND
PROTOTYPES, MU, EPSILON = CLASSES, 0.1, 40.0


@dataclass(frozen=True)
class SyntheticResult:
    """The best validation of one training: its figures, and the space at that step."""

    pooling: str
    seed: int
    map_at_r: float
    points_in_foreign_hulls: float
    overlapping_hulls: int  # pairs of classes
    step: int  # of the best validation
    steps: int
    tokens_TD: Tensor
    prototypes_MD: Tensor | None
    emb_ND: Tensor
    labels_N: Tensor


class Tokens(nn.Module):
    """Trainable tokens, and the pooling that maps a sample to a point."""

    def __init__(self, pooling: Pooling) -> None:
        super().__init__()
        start_TD = (2 * torch.rand(TOKENS_EACH * (CLASSES + 1), DIM) - 1) * BOUND
        self.tokens = nn.Parameter(start_TD)
        self.pooling = pooling

    def forward(self, chosen_BN: Tensor) -> Tensor:
        point_BD: Tensor = self.pooling(self.tokens[chosen_BN].mT.unsqueeze(-1))
        return point_BD

    @torch.no_grad()
    def keep_in_bounds(self) -> None:
        self.tokens.clamp_(-BOUND, BOUND)


def sample_tokens(labels_B: Tensor, generator: torch.Generator) -> Tensor:
    """Return (B, N) tokens of samples; those of class c are 4c … 4c + 3, shared ones last."""
    mix_B = (MIX_MEAN + MIX_SPREAD * torch.randn(len(labels_B), generator=generator)).clamp(0, 1)
    own_B = (mix_B * SAMPLE).round().long()
    which_BN = torch.randint(TOKENS_EACH, (len(labels_B), SAMPLE), generator=generator)
    is_own_BN = torch.arange(SAMPLE) < own_B.unsqueeze(1)
    return TOKENS_EACH * torch.where(is_own_BN, labels_B.unsqueeze(1), CLASSES) + which_BN


def train(pooling: str, seed: int, max_steps: int = MAX_STEPS) -> SyntheticResult:
    """Train until MAP@R has not improved for 30 epochs. A seed determines the samples."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = Tokens(
        Gap() if pooling == "gap" else Gsp(channels=DIM, prototypes=PROTOTYPES, mu=MU, epsilon=EPSILON)
    )
    labels_B = torch.arange(CLASSES).repeat_interleave(SAMPLES_PER_CLASS)
    labels_N = torch.arange(CLASSES).repeat_interleave(VALIDATION_PER_CLASS)
    chosen_NN = sample_tokens(labels_N, torch.Generator().manual_seed(10**6 + seed))
    if model.pooling.start_points:
        many = labels_B.repeat(1 + model.pooling.start_points // len(labels_B))
        start = torch.Generator().manual_seed(2 * 10**6 + seed)
        model.pooling.start(model.tokens[sample_tokens(many, start)].mean(1))
    loss, optimizer = Contrastive(0.0, MARGIN), torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    best, idle = _validate(model, pooling, seed, 0, chosen_NN, labels_N), 0
    step = 0
    while step < max_steps and idle < PATIENCE:
        value: Tensor = loss(model(sample_tokens(labels_B, generator)), labels_B)
        optimizer.zero_grad()
        torch.autograd.backward(value)
        optimizer.step()
        model.keep_in_bounds()
        step += 1
        if step % EPOCH == 0 or step == max_steps:
            now = _validate(model, pooling, seed, step, chosen_NN, labels_N)
            best, idle = (now, 0) if now.map_at_r > best.map_at_r else (best, idle + 1)
    return replace(
        best,
        points_in_foreign_hulls=convex_hull_overlap(best.emb_ND, best.labels_N),
        overlapping_hulls=int(hulls_overlap(best.emb_ND, best.labels_N).triu(1).sum()),
        steps=step,
    )


@torch.no_grad()
def _validate(
    model: Tokens, pooling: str, seed: int, step: int, chosen_NN: Tensor, labels_N: Tensor
) -> SyntheticResult:
    emb_ND = model(chosen_NN)
    prototypes = model.pooling.prototypes.clone() if isinstance(model.pooling, Gsp) else None
    map_at_r = retrieval_metrics(emb_ND, labels_N)["map_at_r"]
    return SyntheticResult(
        pooling, seed, map_at_r, 0.0, 0, step, step, model.tokens.clone(), prototypes, emb_ND, labels_N
    )

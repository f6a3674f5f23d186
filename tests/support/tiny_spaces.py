"""Search spaces of a few steps, for tests that train."""

from __future__ import annotations

IN_SHOP = """
data: {name: inshop, size: 24}
backbone: resnet20
embedding: {dim: 8}
loss: contrastive
batch: {size: 4, samples_per_class: 2}
max_steps: 2
validate_every: 1
"""

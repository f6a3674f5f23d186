"""Whether a network is being turned into a graph: without branches on numbers, without custom gradients."""

from __future__ import annotations

import torch


def plain_graph() -> bool:
    """Return True while torch.export or torch.jit.trace records the operations."""
    return torch.compiler.is_exporting() or torch._C._get_tracing_state() is not None

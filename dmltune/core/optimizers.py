"""Optimisers by name, learning rates by kind of parameter, and changes to gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from dmltune.core.objective import Objective
from dmltune.errors import UserError, nearest


def _without_compiler(cls: type[torch.optim.Optimizer]) -> type[torch.optim.Optimizer]:
    """Return the optimiser without torch's marks for its compiler, whose import takes 1.4 s at the first use.

    The marks keep the compiler out of an optimiser, and none is ever compiled here. They are internal to
    torch: where they look otherwise, the import happens, and nothing else differs.
    """
    for marked in vars(torch.optim.Optimizer).values():
        if callable(marked) and (plain := getattr(marked, "__wrapped__", None)) is not None:
            plain.__dict__.setdefault("__dynamo_disable", plain)
    step = getattr(cls.step, "__wrapped__", cls.step)
    return type(cls.__name__, (cls,), {"step": torch.no_grad()(step)})


_OPTIMIZERS: dict[str, tuple[Callable[..., torch.optim.Optimizer], tuple[str, ...]]] = {
    "adam": (_without_compiler(torch.optim.Adam), ("betas", "eps")),
    "adamw": (_without_compiler(torch.optim.AdamW), ("betas", "eps")),
    "sgd": (_without_compiler(torch.optim.SGD), ("momentum", "nesterov")),
}


def parameter_groups(
    objective: Objective, lr: float, weight_decay: float, new_layer_factor: float = 1, proxy_factor: float = 1
) -> list[dict[str, Any]]:
    """Return the groups: backbone at `lr`, new layers × new_layer_factor, the method × proxy_factor.

    Prototypes of a pooling and embeddings of labels learn as new layers do. They and proxies are points of a
    space, not weights: they are not decayed.
    """
    embedder, zero_shot = objective.embedder, objective.zero_shot
    backbone = [p for p in embedder.backbone.parameters() if p.requires_grad]
    known = {id(p) for p in embedder.backbone.parameters()}
    new: list[nn.Parameter] = []
    points: list[nn.Parameter] = []
    for name, weight in embedder.named_parameters():
        if weight.requires_grad and id(weight) not in known:
            (points if name.endswith("prototypes") else new).append(weight)
    points += list(zero_shot.parameters()) if zero_shot is not None else []
    method = [
        p for part in (objective.loss, objective.references) for p in part.parameters() if p.requires_grad
    ]
    groups: list[dict[str, Any]] = [
        {"params": backbone, "lr": lr, "weight_decay": weight_decay},
        {"params": new, "lr": lr * new_layer_factor, "weight_decay": weight_decay},
        {"params": points, "lr": lr * new_layer_factor, "weight_decay": 0.0},
        {"params": method, "lr": lr * proxy_factor, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def build(name: str, groups: list[dict[str, Any]], **options: Any) -> torch.optim.Optimizer:
    """Return adam(betas, eps), adamw(betas, eps) or sgd(momentum, nesterov) over `groups`."""
    if name not in _OPTIMIZERS:
        raise UserError(
            f"no optimizer '{name}'; there are {', '.join(_OPTIMIZERS)}{nearest(name, _OPTIMIZERS)}"
        )
    cls, known = _OPTIMIZERS[name]
    for option in options:
        if option not in known:
            raise UserError(
                f"{name} has no option '{option}'; it has {', '.join(known)}{nearest(option, known)}"
            )
    if "betas" in options:
        options["betas"] = tuple(options["betas"])
    return cls(groups, fused=True, **options)


def clip_gradients(optimizer: torch.optim.Optimizer, norm: float) -> None:
    """g ← g · min(1, norm / ‖g‖), g the gradient of everything that learns as one vector."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    nn.utils.clip_grad_norm_(weights, norm)

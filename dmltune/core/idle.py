"""Parameters that have had no effect so far in a training, and why.

References, poolings and transforms say it of their own parameters (`idle`); here is what concerns several
parts. A search compares these with what it varies: a parameter that acts in no trial was not searched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dmltune.core.run import Run


def idle_parameters(run: Run) -> dict[str, str]:
    """Return dotted key → why the parameter has had no effect so far, and the remedy."""
    goal = run.objective
    parts = {
        "references": goal.references.idle(),
        "pooling": goal.embedder.pooling.idle(goal.zero_shot is not None),
        "transform": goal.transform.idle() if goal.transform is not None else {},
        "zero_shot": _of_zero_shot(run),
        "optimizer": _of_optimizer(run),
        "monitor": _of_monitor(run),
    }
    return {f"{part}.{key}": why for part, reasons in parts.items() for key, why in reasons.items()}


def _of_zero_shot(run: Run) -> dict[str, str]:
    if run.objective.zero_shot is not None:
        return {}
    return dict.fromkeys(("ridge", "scale"), "zero_shot.weight is 0")


def _of_optimizer(run: Run) -> dict[str, str]:
    reasons: dict[str, str] = {}
    if not run.rates_lowered:
        why = "no learning rate was lowered; use earlier optimizer.milestones, or raise max_steps"
        reasons |= dict.fromkeys(("decay", "milestones"), why)
    goal = run.objective
    if not any(weight.requires_grad for part in (goal.loss, goal.references) for weight in part.parameters()):
        reasons["proxy_factor"] = "neither loss nor references have proxies that learn"
    return reasons


def _of_monitor(run: Run) -> dict[str, str]:
    if run.monitors:
        return {}
    why = "no score changes these references; use references: ccp"
    return dict.fromkeys(("every", "images"), why) if run.schedule.monitor_every else {}

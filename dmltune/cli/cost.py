"""What the trainings of a plan will cost: time and disk, measured on a few steps, for `--dry-run`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dmltune.cli.output import say
from dmltune.data.files import amount
from dmltune.report import formatting

if TYPE_CHECKING:
    from dmltune.experiment import Experiment
    from dmltune.train.cost import Cost
    from dmltune.train.ray_session import ResourcePlan

MEASURED = 3  # kinds of trainings; others are taken as the mean of these
BUSY = 1.5  # processes that want a core, above which times are those of a busy machine


class Workload(NamedTuple):
    """Trainings of one kind: `left` of `total` are to be done; `tested` images are measured after each."""

    label: str
    experiment: Experiment
    left: int
    total: int
    tested: int = 0


def estimate(loads: Sequence[Workload], plan: ResourcePlan, data_root: str | None) -> dict[str, Any]:
    """Return the cost of all trainings. Seconds are upper bounds: no early stop is foreseen."""
    from dmltune.train.cost import measure
    from dmltune.train.ray_session import usable_cores

    kinds = [load for load in loads if load.left][:MEASURED] or list(loads[:1])
    costs: dict[str, Cost] = {}
    for load in kinds:
        say(f"measuring a few steps of {load.label} …")
        costs[load.label] = measure(load.experiment, data_root, plan.threads)
    mean = sum(cost.seconds for cost in costs.values()) / len(costs)
    mean_test = sum(cost.validation / cost.validation_images for cost in costs.values()) / len(costs)
    whole = 0.0
    for load in loads:
        cost = costs.get(load.label)
        each = mean if cost is None else cost.seconds
        whole += load.left * (each + load.tested * mean_test) / plan.workers
    largest = max(costs.values(), key=lambda cost: cost.checkpoint_size)
    once = max(cost.once for cost in costs.values())
    left = sum(load.left for load in loads)
    return {
        "measured": {label: cost.to_dict() for label, cost in costs.items()},
        "trainings": left,
        "done": sum(load.total - load.left for load in loads),
        "concurrent": plan.concurrent,
        "workers": plan.workers,
        "threads": plan.threads,
        "once": once._asdict(),
        "seconds_at_most": once.seconds + whole / max(1, min(plan.concurrent, left)),
        "disk_while_running": plan.concurrent * (2 * largest.checkpoint_size + largest.model_size),
        "model_size": largest.model_size,
        "load": os.getloadavg()[0],
        "cores": usable_cores(),
    }


def rows_of_one(cost: dict[str, Any], workers: int, what: str) -> list[tuple[str, str]]:
    """Return what a training is made of, for a table of names and values."""
    parts, seconds = cost["parts"], max(cost["seconds"], 1e-9)
    shares = ", ".join(
        f"{100 * part / seconds:.0f} % {name}" for name, part in parts.items() if part > 0.005 * seconds
    )
    images = cost["train_images"] + cost["validation_images"]
    validation = (
        f"{short(cost['validation'])} × {1 + cost['validations']}, "
        f"{cost['validation_images']:,} of {images:,} images"
    )
    rows = [
        ("a step", f"{short(cost['step'])} × {cost['steps']:,} ({cost['measured_steps']} measured)"),
        ("a validation", validation + partly(cost, "validation")),
    ]
    if cost["monitorings"]:
        rows.append(("monitoring", f"{short(cost['monitoring'])} × {cost['monitorings']}"))
    if cost["start"]:
        text = f"{short(cost['pool'] or cost['start'])} × at most {1 + cost['pools']}"
        count = f", {cost['pool_images']:,} images" if cost["pool_images"] else ""
        rows.append(("a pool", text + count + partly(cost, "pool")))
    split = f" / {workers} workers" if workers > 1 else ""
    rows.append((what, f"at most {formatting.clock(seconds)}{split}: {shares}"))
    return rows


def rows_of_all(cost: dict[str, Any], what: str, stops_early: bool, models: int) -> list[tuple[str, str]]:
    """Return the time of everything at this width, and the disk."""
    width = f"{cost['concurrent']} at a time"
    width += f" × {cost['workers']} workers" if cost["workers"] > 1 else ""
    early = "; early stops make it less" if stops_early else ""
    rows = [(what, f"at most {formatting.clock(cost['seconds_at_most'])}, {width}{early}")]
    once = cost["once"]
    if once["size"]:
        cached = f"{amount(once['size'])} of images, maps or first weights in the cache"
        rows.append(("once", f"{cached}, {formatting.clock(once['seconds'])}"))
    disk = f"{amount(cost['disk_while_running'])} while they run"
    stored = f"{plural(models, 'model')} of {amount(cost['model_size'])} stay"
    busy, cores = cost["load"], cost["cores"]
    note = f"this machine is busy ({busy:.0f} processes on {cores} cores): alone it would be faster"
    return [*rows, ("disk", f"{disk}; {stored}"), *([("note", note)] if busy > BUSY * cores else [])]


def plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def partly(cost: dict[str, Any], part: str) -> str:
    return "; extrapolated" if part in cost["extrapolated"] else ""


def short(seconds: float) -> str:
    """0.0341 → 34 ms, 2.31 → 2.3 s, 75 → 1m15s."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else formatting.clock(seconds)

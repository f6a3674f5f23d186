"""What re-ranking adds to the models of a check: their stored points, searched and re-ranked.

`rerank-METHOD.json` in a model's folder holds the figures.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from dmltune.check.plan import CheckPlan
from dmltune.core.checkpoint import replace_file
from dmltune.core.reranking import reranked_metrics
from dmltune.data.images import ImageSet
from dmltune.errors import UserError, parse_json
from dmltune.train.inference import sides
from dmltune.train.measurement import read_measurement
from dmltune.train.run_series import RunSeries


def measure_rerankings(
    plan: CheckPlan, series: RunSeries, images: ImageSet, log: Callable[[str], None]
) -> None:
    """Write the figures of every trained model that has none."""
    trained = [member.name for member in plan.members() if series.result(member.name) is not None]
    folders = [series.member_folder(name) for name in trained]
    left = [folder for folder in folders if not _file(folder, plan.rerank).is_file()]
    for number, folder in enumerate(left, start=1):
        log(f"re-ranking by {plan.rerank}: model {number} of {len(left)}")
        tensors, facts = read_measurement(folder, "emb")
        before = facts["metrics"]
        after = reranked_metrics(plan.rerank, *sides(tensors["emb"], images, range(len(images))), ks=(1,))
        figures = {key: after[key] for key in ("map_at_r", "precision_at_1")}
        figures["gain"] = after["map_at_r"] - before["map_at_r"]
        replace_file(_file(folder, plan.rerank), json.dumps(figures).encode())


def stored_reranking(folder: Path, method: str) -> dict[str, float]:
    """Return k_reciprocal_map_at_r and so on of the model in this folder; nothing when not measured."""
    path = _file(folder, method)
    if not path.is_file():
        return {}
    prefix = method.replace("-", "_")
    try:
        figures = parse_json(path.read_text(encoding="utf-8"))
        return {f"{prefix}_{key}": float(figures[key]) for key in ("map_at_r", "precision_at_1", "gain")}
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{path} is damaged. Remove it; the same command measures it again.") from None


def _file(folder: Path, method: str) -> Path:
    return folder / f"rerank-{method}.json"

"""Makes store.tar.xz of a store that an older dmltune wrote: python shrink.py OLD_STORE store.tar.xz

The store here was made with glyphs-ccp, data.classes=40, before checkpoints and checks had format numbers:

    done        a search of 4 trials, complete                  max_steps=6  validate_every=2
    half        a search of 4 trials, killed in trial 2         max_steps=30 validate_every=10
    trained     a training, complete                            max_steps=6  validate_every=2
    done-check  the check of `done`, 2 folds x 1 repeat

Layout, names, JSON and databases stay as they were written. To make it small, optimiser moments and test
points are 0, weights are rounded, and models and checkpoints that tests/test_old_store.py does not read are
left out.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

BITS = 3  # of the mantissa's 23


def rounded(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype != torch.float32:
        return tensor
    dropped = 23 - BITS
    return ((tensor.contiguous().view(torch.int32) >> dropped) << dropped).view(torch.float32)


def rewrite(path: Path) -> None:
    with safe_open(path, "pt") as file:
        about = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for name, tensor in tensors.items():
        zero = name == "emb" or (name.startswith("optimizer.") and tensor.ndim > 0)
        tensors[name] = torch.zeros_like(tensor) if zero else rounded(tensor)
    save_file(tensors, path, about)


def used_models(store: Path) -> set[str]:
    """Return the ids of the runs whose models are read: the winner of `done`, and `trained`."""
    database = sqlite3.connect(store / "mlflow.db")
    done = "SELECT run_uuid FROM runs WHERE name = 'done'"
    winner = f"SELECT value FROM tags WHERE key = 'dmltune.winner' AND run_uuid IN ({done})"
    trained = "SELECT run_uuid FROM runs WHERE name = 'trained'"
    return {row[0] for query in (winner, trained) for row in database.execute(query)}


def main(source: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(shutil.copytree(source, Path(scratch) / "store"))
        used = used_models(store)
        for model in list(store.glob("artifacts/*/*/artifacts/model")):
            if model.parents[1].name not in used:
                shutil.rmtree(model)
        shutil.rmtree(store / "searches" / "trained" / "trials")
        for path in store.rglob("*.safetensors"):
            rewrite(path)
        for name in ("mlflow.db", "optuna.db"):
            sqlite3.connect(store / name).execute("VACUUM")
        with tarfile.open(target, "w:xz", preset=9) as archive:
            archive.add(store, "store", filter=anonymous)
        print(json.dumps({"bytes": target.stat().st_size, "models": sorted(used)}))


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""Images and weights of the driver's node, for worker nodes of a cluster that have none.

`DriverFiles` is an actor on the driver's node that only reads. `use_driver_files` makes a worker process ask
it for what its own node lacks: images go into the node's image cache, weights into its weights folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from dmltune.core import backbones
from dmltune.data import elsewhere
from dmltune.data.elsewhere import HalfRequest
from dmltune.data.images import ImageSet, Ints, Pixels
from dmltune.errors import UserError
from dmltune.ledger import Ledger
from dmltune.resources import Locations
from dmltune.store import Store
from dmltune.weights.fetching import copy_missing_from
from dmltune.weights.folder import digest, find

THREADS = 8  # calls of one DriverFiles at a time
PIECE = 16 * 2**20  # bytes of a file in one message
_PLACES = ("DMLTUNE_CACHE", "DMLTUNE_DATA", "XDG_CACHE_HOME", "TORCH_HOME", "HF_HOME")
TOGETHER = 64 * 2**20  # bytes of images in one message, at most; one image may be larger


class DriverFiles:
    """Reads the data sets and weights of its machine. The test half wants an entry of the ledger."""

    def __init__(self, data_root: str | None, store: Path) -> None:
        self._root = Path(data_root) if data_root else None
        self._ledger = Ledger(Store(store))
        self._here = lru_cache(maxsize=8)(lambda half: half.here(self._root))

    def describe(self, half: HalfRequest) -> ImageSet:
        return elsewhere.without_pixels(self._half(half))

    def read(self, half: HalfRequest, indices: Ints, side: int | None) -> list[Pixels]:
        return elsewhere.pixels(self._half(half), indices, side)

    def _half(self, half: HalfRequest) -> ImageSet:
        if half.part == "test" and not self._ledger.was_opened(half.name):
            raise UserError(f"the test classes of {half.name} are closed: the test ledger has no entry")
        images: ImageSet = self._here(half)
        return images

    def weights(self, name: str, weights: str) -> tuple[str, int] | None:
        """Return checksum and size of the file of these weights; None when it is not here."""
        path = self._weights(name, weights)
        return (digest(path), path.stat().st_size) if path else None

    def read_weights(self, name: str, weights: str, start: int) -> bytes:
        path = self._weights(name, weights)
        if path is None:
            raise UserError(f"weights {weights} of {name} were removed from the driver's node")
        with path.open("rb") as stream:
            stream.seek(start)
            return stream.read(PIECE)

    def _weights(self, name: str, weights: str) -> Path | None:
        source = backbones.weights_source(name, weights)
        copy = find(source, str(self._root) if self._root else None) if source else None
        return copy.path if copy else None


def start_driver_files(locations: Locations) -> Any:
    """Start the actor on this node, with this process's places of data and caches."""
    places = {name: os.environ[name] for name in _PLACES if name in os.environ}
    options = {
        "num_cpus": 0,
        "max_concurrency": THREADS,
        "max_restarts": -1,
        "max_task_retries": -1,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        ),
        "runtime_env": {"env_vars": places},
    }
    return ray.remote(DriverFiles).options(**options).remote(locations.absolute_root, locations.store.root)


class _Remote:
    """The actor as a source of images and weights."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def describe(self, half: HalfRequest) -> ImageSet:
        images: ImageSet = _answer(self._actor.describe.remote(half))
        return images

    def read(self, half: HalfRequest, indices: Ints, side: int | None) -> list[Pixels]:
        """Ask for one image first, so that no message is much larger than TOGETHER."""
        images: list[Pixels] = []
        each = 1
        while len(images) < len(indices):
            chosen = np.asarray(indices[len(images) : len(images) + each])
            images += _answer(self._actor.read.remote(half, chosen, side))
            each = max(1, TOGETHER // max(1, max(image_HWC.nbytes for image_HWC in images)))
        return images

    def weights(self, name: str, weights: str) -> tuple[str, Iterator[bytes]] | None:
        found = _answer(self._actor.weights.remote(name, weights))
        if found is None:
            return None
        checksum, size = found
        starts = range(0, size, PIECE)
        return checksum, (_answer(self._actor.read_weights.remote(name, weights, at)) for at in starts)


def use_driver_files(actor: Any) -> None:
    """Let this process read from the driver's node what this one lacks; None: this node has everything."""
    remote = None if actor is None else _Remote(actor)
    elsewhere.read_missing_from(remote)
    copy_missing_from(remote)


def _answer(reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, UserError):
            raise error.cause from None
        raise
    except ray.exceptions.RayActorError:
        raise UserError("the driver's node does not answer; its images and weights cannot be read") from None
